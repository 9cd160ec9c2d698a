"""`aggregate` and `count`: partial aggregates that workers compute after decoding, and Spark merges.

Only aggregates whose answer does not depend on the order and the first grouping of rows are offered: counts, least and
greatest values under an order that Spark and pyarrow share, and sums of integers and decimals in 128 bits. The sum
of floats depends on the order, and their extremes on which of 0.0 and -0.0 came first; a collation has another order.
These are refused, with the query that Spark itself can run.

`SAFE` has for each function the types that it takes, the Spark type of its partial values, and the final aggregate. The
last step is Spark's ``groupBy`` over the partial rows, so groups are equal as in Spark: NaN with NaN, 0.0 with -0.0.

To add an aggregate:

1. Its row in `SAFE`, and in `_INPUTS` and `_MERGES` (``partial_aggregates.py``), by names of pyarrow. If headers or statistics
   can answer it, ``block_answers.py``.
2. For plain SQL, its name in ``isExact`` and ``of`` (``spark/push_down/java/Aggregates.java``), if Spark passes it to
   sources. Functions that Spark rewrites to another aggregate (``bool_or`` to ``max``) need nothing.
3. Its row in ``docs/functions.md``, in the docstring of `aggregate`, and in the error that
   ``tests/spark/functions/test_aggregate_plan.py`` expects.
4. Its name in `FUNCTIONS` (``tests/programs/aggregate_cases.py``); ``python tests/programs/aggregate_cases.py --count 2000`` compares it with Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Unpack

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as s

from spark_arrow_ipc.arrow.column_path import find_columns
from spark_arrow_ipc.errors import AggregateError, ArrowIpcError, OptionError, error_context
from spark_arrow_ipc.spark.functions.map_in_arrow import load_mapped, load_plain
from spark_arrow_ipc.spark.functions.partial_aggregates import Part, PartialAggregates
from spark_arrow_ipc.spark.functions.user_function import ship
from spark_arrow_ipc.spark.options.declare import Use
from spark_arrow_ipc.spark.options.keywords import CountKeywords, FunctionKeywords
from spark_arrow_ipc.spark.options.options import READING, find_misapplied
from spark_arrow_ipc.spark.options.typed import Paths, strings_of_read
from spark_arrow_ipc.spark.types.field_metadata import declares_char

_WHOLE: Final = (s.ByteType, s.ShortType, s.IntegerType, s.LongType)
_ORDERED: Final = (
    *_WHOLE, s.BooleanType, s.DecimalType, s.DateType, s.TimestampType, s.TimestampNTZType, s.DayTimeIntervalType, s.StringType,
    s.BinaryType,
)  # fmt: skip
_KEYS: Final = (*_ORDERED, s.FloatType, s.DoubleType)
_PLAIN_COLLATION: Final = "UTF8_BINARY"
_MOST_DIGITS: Final = 38
_SUM_DIGITS: Final = 10
"""Digits by which Spark's sum of decimals is longer than its column."""

_CALL: Final = re.compile(r"\s*(\w+)\s*\(\s*(.*?)\s*\)\s*", re.DOTALL)
_QUOTED: Final = re.compile(r"`((?:[^`]|``)+)`")


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """The columns to read, the partial rows that workers return, and the totals that Spark computes from them."""

    columns: s.StructType  # columns that are read
    partials: PartialAggregates  # makes rows of partial values, in a worker
    output: s.StructType  # schema of the partial values
    keys: tuple[str, ...]  # columns of `output` that Spark groups by
    key_names: tuple[str, ...]  # their names in the result
    totals: tuple[Column, ...]  # aggregates of the grouped rows, named


@dataclass(frozen=True, slots=True)
class _Safe:
    """A row of `SAFE`."""

    types: tuple[type[s.DataType], ...] | None  # Spark types of the columns that it takes; None for any
    partial: Callable[[s.DataType], s.DataType]  # returns the type of partial values of a column's type
    # Returns the final aggregate of a column of partial values, for the type of the source column.
    total: Callable[[str, s.DataType], Column]
    why: str = ""  # why it does not take other types


def _sum_type(type_: s.DataType) -> s.DataType:
    """Return the type of Spark's sum of a column."""
    if isinstance(type_, s.DecimalType):
        return s.DecimalType(min(type_.precision + _SUM_DIGITS, _MOST_DIGITS), type_.scale)
    return s.LongType()


_WORD: Final = 1 << 40


def _sum(name: str, type_: s.DataType) -> Column:
    if isinstance(type_, s.DecimalType):
        return f.sum(name).cast(_sum_type(type_))
    # A cast would raise CAST_OVERFLOW. Two halves raise ARITHMETIC_OVERFLOW under ANSI mode and wrap without it, as Spark's
    # sum does; the upper one has at most 64 bits for 2**40 rows.
    return f.expr(f"sum({name}) div {_WORD}BD * {_WORD}L + cast(sum({name}) % {_WORD}BD AS bigint)")


_ORDER: Final = "the order of its values is not the same everywhere"

SAFE: Final[Mapping[str, _Safe]] = {
    # Without partial rows a sum is null, and a count is 0.
    "count": _Safe(None, lambda _: s.LongType(), lambda name, _: f.coalesce(f.sum(name), f.lit(0).cast("bigint"))),
    "min": _Safe(_ORDERED, lambda type_: type_, lambda name, _: f.min(name), _ORDER),
    "max": _Safe(_ORDERED, lambda type_: type_, lambda name, _: f.max(name), _ORDER),
    "sum": _Safe(
        (*_WHOLE, s.DecimalType),
        lambda type_: _sum_type(type_) if isinstance(type_, s.DecimalType) else s.DecimalType(_MOST_DIGITS, 0),
        _sum,
        "its sum depends on the order of the rows",
    ),
}
"""By name of the function."""


def plan_aggregate(
    schema: s.StructType, group_by: Sequence[str], aggregates: Mapping[str, str], path: object
) -> AggregatePlan:
    """Plan an aggregate over rows of a schema."""
    names = [*group_by, *aggregates]
    if not aggregates or not isinstance(aggregates, Mapping):
        raise OptionError(
            'aggregates is empty, or no dictionary; give a name and a function for each, as {"rows": "count(*)"}'
        )
    twice = [name for i, name in enumerate(names) if name.casefold() in {other.casefold() for other in names[:i]}]
    if twice:
        raise OptionError(f"two columns of the result are named {twice[0]}; give the aggregate another name")
    grouped = f".groupBy({', '.join(map(repr, group_by))})" if group_by else ""
    expressions = ", ".join(f"F.expr({text!r}).alias({name!r})" for name, text in aggregates.items())
    # The next step in every error: the same query by Spark only.
    sparks = f'Spark itself computes it: spark.read.format("arrowipc").load({str(path)!r}){grouped}.agg({expressions})'
    columns: dict[int, s.StructField] = {}
    keys = [_position(schema, name, sparks) for name in group_by]
    for position, name in zip(keys, group_by, strict=True):
        _check_type(schema.fields[position], _KEYS, f"grouping by {name} is not done here", "", sparks)
        columns[position] = schema.fields[position]
    calls = [_parse(text, sparks) for text in aggregates.values()]
    for function, column in calls:
        if column is not None:
            position = _position(schema, column, sparks)
            safe = SAFE[function]
            if safe.types is not None:
                shown = f"{function}({column}) is not computed here"
                _check_type(schema.fields[position], safe.types, shown, safe.why, sparks)
            columns[position] = schema.fields[position]
    order = sorted(columns)
    parts: list[Part] = []
    fields = [
        s.StructField(f"k{i}", schema.fields[p].dataType, metadata=schema.fields[p].metadata)
        for i, p in enumerate(keys)
    ]
    totals: list[Column] = []
    for i, ((function, column), alias) in enumerate(zip(calls, aggregates, strict=True)):
        argument = None if column is None else _position(schema, column, sparks)
        type_ = s.NullType() if argument is None else schema.fields[argument].dataType
        safe = SAFE[function]
        parts.append(
            Part("count_all" if argument is None else function, None if argument is None else order.index(argument))
        )
        fields.append(s.StructField(f"a{i}", safe.partial(type_)))
        totals.append(safe.total(f"a{i}", type_).alias(alias))
    return AggregatePlan(
        columns=s.StructType([columns[position] for position in order]),
        partials=PartialAggregates(tuple(order.index(position) for position in keys), tuple(parts)),
        output=s.StructType(fields),
        keys=tuple(f"k{i}" for i in range(len(keys))),
        key_names=tuple(group_by),
        totals=tuple(totals),
    )


def _parse(text: str, sparks: str) -> tuple[str, str | None]:
    """Return the function of a call, and its column; None for all rows."""
    call = _CALL.fullmatch(text)
    if call is None:
        raise AggregateError(f"expected a function of a column, as sum(amount), found {text!r}; {sparks}")
    function, argument = call[1].lower(), call[2]
    if function not in SAFE:
        raise AggregateError(f"{function} is none of {', '.join(SAFE)}, which workers can compute; {sparks}")
    if function == "count" and argument in {"*", "1"}:
        return function, None
    quoted = _QUOTED.fullmatch(argument)
    if quoted is not None:
        return function, quoted[1].replace("``", "`")
    if not argument or any(mark in argument for mark in "`(),'\" \n"):
        raise AggregateError(f"expected the name of one column in {text!r} (others in backticks); {sparks}")
    return function, argument


def _position(schema: s.StructType, name: str, sparks: str) -> int:
    (position,) = find_columns(schema.names, [name], absent=-1)
    if position < 0 and "." in name:
        raise AggregateError(f"{name} is a field of a struct, and only columns are aggregated here; {sparks}")
    with error_context(asked_by="aggregate"):
        return position if position >= 0 else find_columns(schema.names, [name])[0]


def _check_type(field: s.StructField, types: tuple[type[s.DataType], ...], what: str, why: str, sparks: str) -> None:
    type_ = field.dataType
    collated = isinstance(type_, s.StringType) and type_.collation != _PLAIN_COLLATION
    padded = declares_char(field)  # Spark pads by settings of the session, which a worker does not have
    if not isinstance(type_, types) or collated or padded:
        because = f", and {why}" if why else ""
        name = "char" if padded else type_.simpleString()
        raise AggregateError(f"{what}: {field.name} is {name}{because}; {sparks}")


def aggregate(
    spark: SparkSession,
    path: Paths,
    *,
    aggregates: Mapping[str, str],
    group_by: Sequence[str] = (),
    **options: Unpack[FunctionKeywords],
) -> DataFrame:
    """Return Spark's answer to ``load(path).groupBy(...).agg(...)``, with most of the work done in the workers.

    Each task groups the rows that it decodes. Only one row for each group and task is passed to Spark, which merges them.
    Only the named columns are read.

    Parameters
    ----------
    spark
        The session, classic or Connect.
    path
        What to read, as for ``load``.
    aggregates
        For each column of the result one of ``count(*)``, ``count(c)``, ``min(c)``, ``max(c)``, ``sum(c)``, where c is a
        column. Names with characters other than letters, digits and ``_`` need backticks.
    group_by
        Names of columns, which may be partition columns. Without any the result is one row.
    **options
        Options of ``spark.read.format("arrowipc")``.

    Returns
    -------
    DataFrame
        The keys, then the aggregates, in Spark's types. A sum that does not fit is an error under ANSI mode, and wraps
        or is null without it, as in Spark. If only intermediate sums overflow, Spark's answer depends on the order of the
        rows, and this is the exact sum.

    Raises
    ------
    AggregateError
        An aggregate could differ from Spark's answer: sums of floats, orders of collated strings. The message has the
        same query for Spark itself.
    ColumnNotFoundError, OptionError
        A column does not exist, a name is used twice, or `aggregates` is empty.
    """
    group_by = [group_by] if isinstance(group_by, str) else list(group_by)
    schema = load_plain(spark, path, options).schema
    plan = plan_aggregate(schema, group_by, aggregates, path)
    partial = load_mapped(spark, path, ship(plan.partials), plan.output, options, columns=plan.columns)
    grouped = partial.groupBy(*plan.keys).agg(*plan.totals)
    keys = [f.col(key).alias(name) for key, name in zip(plan.keys, plan.key_names, strict=True)]
    return grouped.select(*keys, *(f.col(f"`{name.replace('`', '``')}`") for name in aggregates))


# `count`: the number of rows from logs and headers, in the driver's process if that is faster than a job.
#
# The log of a table has the rows of its files, none of which is opened. Of other files, the headers of a thousand are read in
# less time than a job takes: it needs a planner process, a task for each part of the files, and the JVM's work on both. So in a
# classic session, whose process also plans and commits rewrites, the files are listed and counted here if all options have a meaning for this (`Use.COUNT`). Otherwise tasks count: with a predicate,
# streams, servers, HDFS, options about errors, very many files, and under Spark Connect, whose client may not reach the
# files. After an error here tasks try again, so that errors are the same in both ways.
def count(spark: SparkSession, path: Paths, where: str | None = None, **options: Unpack[CountKeywords]) -> int:
    """Return the number of rows, as ``load(path).count()`` does.

    Without `where` no value is read: the log of a table has the rows of its files, and those of up to 5,000 other files are
    in headers, which the driver's process reads. With `where` the columns of the predicate are read.

    Parameters
    ----------
    spark, path, **options
        As for `aggregate`.
    where
        Counts only rows for which this predicate is true.

    Raises
    ------
    OptionError, NoFilesError, ArrowIpcError
        From Spark, as PySpark wraps them: an option is wrong, no file exists, or a header is broken.
    """
    count_options = options if where is None else {**options, "where": where}
    rows = _count_here(spark, strings_of_read(path, count_options))
    return _count_by_tasks(spark, path, count_options) if rows is None else rows


def _count_by_tasks(spark: SparkSession, path: Paths, options: Mapping[str, Any]) -> int:
    # A row for each task is summed here, so that Spark needs no second stage and no columns.
    plan = plan_aggregate(s.StructType([]), (), {"rows": "count(*)"}, path)
    partial = load_mapped(spark, path, ship(plan.partials), plan.output, options, columns=plan.columns)
    return sum(int(row[0]) for row in partial.collect())


def _count_here(spark: SparkSession, strings: dict[str, str]) -> int | None:
    """Return the number of rows from logs and headers; None if tasks must count."""
    # Only drivers plan: executors, which load this module with a function, start faster without these.
    from spark_arrow_ipc.dataset.scan.file_metadata import count_rows
    from spark_arrow_ipc.spark.datasource import read_options
    from spark_arrow_ipc.spark.read.dataset_schema import list_dataset, partition_files
    from spark_arrow_ipc.storage.paths import Place, is_relative, place_of

    try:
        _ = spark.sparkContext
    except PySparkException:  # the client of Spark Connect
        return None
    try:
        options = read_options(strings)
        if options.reads_servers or any(find_misapplied(options, READING, Use.COUNT)):
            return None
        # Spark's planners have another working directory.
        if any(map(is_relative, [*options.paths, *filter(None, [options.base_path])])):
            return None
        # Hadoop's client starts a JVM, which would take memory and signals from the user's process.
        if any(place_of(path) is Place.HADOOP for path in options.paths):
            return None
        partitioning = partition_files(list_dataset(options), options, infer=False)
        # The log counts rows of tables, and not tensors.
        states = partitioning.states if options.tensors is None else {}
        return count_rows(
            partitioning.files,
            options.path_storage,
            limits=options.limits,
            verify_checksums=options.verify_checksums,
            states=states,
        )
    except (ArrowIpcError, OSError):
        return None
