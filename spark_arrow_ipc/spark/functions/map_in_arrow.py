"""`map_in_arrow`: run a function in the workers that decode the data."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, NoReturn, Unpack
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import types as s
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.bridge import PyArrowBatch
from spark_arrow_ipc.spark.convert import pyarrow_schema
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource, read_options
from spark_arrow_ipc.spark.functions.partial_aggregates import PartialAggregates
from spark_arrow_ipc.spark.functions.user_function import BatchFunction, OutputCheck, ShippedFunction, in_zone, ship
from spark_arrow_ipc.spark.options.keywords import FunctionKeywords
from spark_arrow_ipc.spark.options.typed import Paths, strings_of_read
from spark_arrow_ipc.spark.options.values import Nanoseconds
from spark_arrow_ipc.spark.process import short_errors
from spark_arrow_ipc.spark.session_settings import CATALOG, CATALOG_CLASS

# The data source of one function: a class that is made for it, and the reader that runs it in tasks.
#
# Spark gives a data source only options, and its class, which a session registers by name. An option with a pickle
# would let every user who may write SQL run code, so no option has one. Instead `mapping_source` makes a class whose only
# content is a `FunctionMapping`: frozen values, among them the function as bytes. Its name has the hash of that content,
# and a session registers each name once.
#
# Spark's schema describes the function's output. The function reads the schema of ``load``, or the columns that the
# caller names.
#
# Where the session has the jar, the JVM's source ``arrowipc_function`` reads by that class and hands over columns.
_PREFIX = "arrowipc_map_"


@dataclass(frozen=True)
class FunctionMapping:
    """A function, and the schemas on its two sides."""

    function: ShippedFunction
    output: s.StructType  # the schema that Spark gets
    zone: str  # the session's time zone, which timestamps carry in the function's input
    input: s.StructType | None = None  # the columns that the function gets; None for all of a read

    @property
    def name(self) -> str:
        """The name of the class in Spark's registry, which depends on the content."""
        parts = [self.function.digest, self.output.json(), self.zone, "" if self.input is None else self.input.json()]
        return _PREFIX + hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()


class MappedSource(ArrowIpcDataSource):
    """The data source of a user's function over Arrow IPC files and streams."""

    mapping: ClassVar[FunctionMapping]

    @classmethod
    def name(cls) -> str:
        """Return the name that the session registers."""
        return cls.mapping.name

    def schema(self) -> s.StructType:
        """Return the schema of the function's output."""
        # With `where` the files' schema is read too, so that `load` raises the errors of a predicate.
        if self.mapping.input is None and "where" in map(str.lower, self.options):
            super().schema()
        return self.mapping.output

    @short_errors
    def reader(self, schema: s.StructType) -> MappedReader:
        """Return the reader; `schema` is the function's."""
        if schema != self.mapping.output:
            raise OptionError("map_in_arrow sets the schema of a function's output; load it without .schema(...)")
        from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader

        requested, options = self.mapping.input, read_options(self.options)
        # If broken files are skipped, each function gets the rows of ``load``, so all columns are decoded.
        frame = super().schema() if requested is None or options.error_policy.skips_corrupt else requested
        reader = super().reader(frame if requested is None else requested)
        if isinstance(reader, ArrowIpcBatchReader):
            reader = reader.decoding(frame)
        return MappedReader(reader, self.mapping, options.nanoseconds)

    def writer(self, schema: s.StructType, overwrite: bool) -> NoReturn:  # noqa: ARG002 - Spark's signature
        """Refuse to write."""
        raise OptionError('a function is for reading; write with format("arrowipc")')

    streamWriter = writer  # noqa: N815 - Spark's name

    def streamReader(self, schema: s.StructType) -> NoReturn:  # noqa: ARG002, N802 - Spark's signature
        """Refuse to read a stream."""
        raise OptionError('map_in_arrow does not read streams; use readStream.format("arrowipc") and mapInArrow')


class MappedReader(DataSourceReader):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    """Passes the batches of another reader through a function; `nanoseconds` applies to its output."""

    def __init__(
        self, inner: DataSourceReader, mapping: FunctionMapping, nanoseconds: Nanoseconds = Nanoseconds.FLOOR
    ) -> None:
        self._inner = inner
        self._nanoseconds = nanoseconds
        self._mapping = mapping

    def partitions(self) -> list[InputPartition]:
        """Plan the input partitions as a read without a function does."""
        planned: list[InputPartition] = self._inner.partitions()
        return planned

    def read(self, partition: InputPartition | None) -> Iterator[PyArrowBatch]:
        """Yield the output of the function for one input partition."""
        # It is called once, without rows too, as ``mapInArrow`` does; its own exceptions keep their traceback.
        mapping = self._mapping
        with short_errors:
            function = mapping.function.load()
        check = OutputCheck(mapping.output, mapping.function.name, self._nanoseconds)
        if isinstance(function, PartialAggregates):
            function, read = _with_answers(function, self._inner, mapping)
        else:
            read = self._inner.read
        with closing(read(partition)) as batches:
            yield from apply_function(function, check, in_zone(batches, mapping.zone))


def apply_function(
    function: BatchFunction, check: OutputCheck, batches: Iterator[PyArrowBatch]
) -> Iterator[PyArrowBatch]:
    """Call a function once, and yield its output in the schema that Spark expects."""
    result: Any = function(batches)
    for batch in _iterate(result, check):
        with short_errors:
            yield from check.convert(batch)


def _with_answers(
    partials: PartialAggregates, inner: DataSourceReader, mapping: FunctionMapping
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return an aggregate that uses headers and statistics, and the function that reads the batches that need decoding."""
    # Imported late: users' functions need no statistics.
    from spark_arrow_ipc.spark.functions.block_answers import BlockAnswers
    from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader

    if not isinstance(inner, ArrowIpcBatchReader) or mapping.input is None:
        return partials, inner.read
    answers = BlockAnswers(partials, mapping.input, inner.options, mapping.zone)
    return partial(partials, answered=answers.take), partial(inner.read, answers=answers)


def _iterate(result: Any, check: OutputCheck) -> Iterator[Any]:
    """Return an iterator over the result of a function, or raise an error that names it."""
    try:
        return iter(result)
    except TypeError:
        with short_errors:
            raise check.not_iterable(result) from None


def mapping_source(mapping: FunctionMapping) -> type[MappedSource]:
    """Make the data source class of a function, for a session to register."""
    # Classes of __main__ are pickled by value. This one has only `mapping`: its code is in the importable base class.
    return type("FunctionSource", (MappedSource,), {"mapping": mapping, "__module__": "__main__"})


_ZONE: Final = "spark.sql.session.timeZone"

_REGISTERED: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""The names that each session has registered: Spark warns if a name is registered again."""


def map_in_arrow(
    spark: SparkSession,
    path: Paths,
    function: BatchFunction,
    schema: s.StructType | str,
    **options: Unpack[FunctionKeywords],
) -> DataFrame:
    """Return the result of a function over Arrow IPC files, run in the workers that decode them.

    Rows that it drops and columns that it only reads are not passed to the JVM, as
    ``load(path).mapInArrow(function, schema)`` does.

    Parameters
    ----------
    spark
        The session, classic or Connect.
    path
        What to read, as for ``load``.
    function
        Gets an iterator of `pyarrow.RecordBatch` in the schema of ``load(path)``, and returns or yields such batches, as
        a function for ``DataFrame.mapInArrow``. It is called once for each task. Timestamps are in the session's time
        zone. It is pickled by value, with all values that it uses, to at most 16 MiB.
    schema
        The schema of the result, a `StructType` or a string such as ``"id bigint, score double"``. Each batch of the function is
        checked against it; types that hold fewer values (`int32` for bigint, dictionaries and views for string) are
        converted.
    **options
        Options of ``spark.read.format("arrowipc")``: ``where="year = 2024"``, ``columns=["id", "text"]``; values as for
        `spark_arrow_ipc.options.read`.

    Raises
    ------
    FunctionError
        The function is too large, or uses something that only the driver has, such as a broadcast.
    UnsupportedError
        Spark does not take a type of the schema from Python data sources.
    """
    output = s.StructType.fromDDL(schema) if isinstance(schema, str) else schema
    return load_mapped(spark, path, ship(function), output, options)


def load_mapped(
    spark: SparkSession,
    path: Paths,
    function: ShippedFunction,
    output: s.StructType,
    options: Mapping[str, Any],
    *,
    columns: s.StructType | None = None,
) -> DataFrame:
    """Register the data source of a function, unless the session has it, and load it."""
    pyarrow_schema(output)
    mapping = FunctionMapping(function, output, str(spark.conf.get(_ZONE)), columns)
    registered = _REGISTERED.setdefault(spark, set())
    if mapping.name not in registered:
        spark.dataSource.register(mapping_source(mapping))
        registered.add(mapping.name)
    if spark.conf.get(CATALOG, None) != CATALOG_CLASS:
        return _reader(spark, mapping.name, path, options).load()
    return _reader(spark, "arrowipc_function", path, options).option("arrowipc.function", mapping.name).load()


def load_plain(spark: SparkSession, path: Paths, options: Mapping[str, Any]) -> DataFrame:
    """Return the DataFrame of ``load(path)``; parameters as for `map_in_arrow`."""
    return _reader(spark, ArrowIpcDataSource.name(), path, options).load()


def _reader(spark: SparkSession, name: str, path: Paths, options: Mapping[str, Any]) -> DataFrameReader:
    return spark.read.format(name).options(**strings_of_read(path, options))
