"""`map_in_arrow`: run a function where the data are decoded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, NoReturn, Unpack
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession
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

# The data source of one function: a class made for it, and the reader that runs it in tasks.
#
# Spark has no way to give a function to a data source but its class, which a session registers under a name. An
# option would do as well, and would let everybody who may write SQL run a pickle of theirs: none of our options holds
# one. So `mapping_source` makes a class whose only content is a `Mapping`: frozen values, the function among them as
# bytes. Its name has the hash of that content, and a session registers each name once.
#
# The schema that Spark asks for is the function's. What the function reads is the schema that ``load`` would have, or
# a part of it that the caller names.
_PREFIX = "arrowipc_map_"  # known to push_down/java/MappedTable.java


@dataclass(frozen=True)
class FunctionMapping:
    """A function, and the schemas on its two sides."""

    function: ShippedFunction
    output: s.StructType  # the schema that Spark gets
    zone: str  # the session's time zone, which timestamps carry in the function's input
    # The columns that the function gets, a part of those that a read has; None for all.
    input: s.StructType | None = None

    @property
    def name(self) -> str:
        """Name of the class in Spark's registry: the same for the same content."""
        parts = [self.function.digest, self.output.json(), self.zone, "" if self.input is None else self.input.json()]
        return _PREFIX + hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()


class MappedSource(ArrowIpcDataSource):
    """Arrow IPC files and streams as a function of the user's makes them."""

    mapping: ClassVar[FunctionMapping]

    @classmethod
    def name(cls) -> str:
        """Return the name that the session registers."""
        return cls.mapping.name

    def schema(self) -> s.StructType:
        """Return the schema of the function's output. With `where` files are looked at, so that `load` says what is wrong."""
        if self.mapping.input is None and "where" in map(str.lower, self.options):
            super().schema()
        return self.mapping.output

    @short_errors
    def reader(self, schema: s.StructType) -> MappedReader:
        """Return the reader; `schema` is the function's."""
        if schema != self.mapping.output:
            raise OptionError(
                "the schema of a function's output is given to map_in_arrow; load it without .schema(...)"
            )
        from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader

        requested, options = self.mapping.input, read_options(self.options)
        # Where broken files are skipped, each function has the rows of ``load``, whatever columns it gets.
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
        raise OptionError(
            'a function of map_in_arrow reads a batch; of a stream use readStream.format("arrowipc") and mapInArrow'
        )


class MappedReader(DataSourceReader):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    """Reads the batches of another reader through a function; `nanoseconds` holds for what the function makes."""

    def __init__(
        self, inner: DataSourceReader, mapping: FunctionMapping, nanoseconds: Nanoseconds = Nanoseconds.FLOOR
    ) -> None:
        self._inner = inner
        self._nanoseconds = nanoseconds
        self._mapping = mapping

    def partitions(self) -> list[InputPartition]:
        """Plan the input partitions, as a read without a function does."""
        planned: list[InputPartition] = self._inner.partitions()
        return planned

    def read(self, partition: InputPartition | None) -> Iterator[PyArrowBatch]:
        """Yield what the function makes of the batches of one input partition.

        The function is called once, also where there is nothing to read, as ``mapInArrow`` calls it. What it raises
        goes to Spark as it is.
        """
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
    """Yield what a function makes of batches, in the schema that it promised; it is called once."""
    result: Any = function(batches)
    for batch in _iterate(result, check):
        with short_errors:
            yield from check.convert(batch)


def _with_answers(
    partials: PartialAggregates, inner: DataSourceReader, mapping: FunctionMapping
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return an aggregate that knows what need not be decoded, and what reads the rest."""
    # Functions of users need no statistics.
    from spark_arrow_ipc.spark.functions.block_answers import BlockAnswers
    from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader

    if not isinstance(inner, ArrowIpcBatchReader) or mapping.input is None:
        return partials, inner.read
    answers = BlockAnswers(partials, mapping.input, inner.options, mapping.zone)
    return partial(partials, answered=answers.take), partial(inner.read, answers=answers)


def _iterate(result: Any, check: OutputCheck) -> Iterator[Any]:
    """Return an iterator over what the function returned."""
    try:
        return iter(result)
    except TypeError:
        with short_errors:
            raise check.not_iterable(result) from None


def mapping_source(mapping: FunctionMapping) -> type[MappedSource]:
    """Make the data source of a function, for a session to register.

    It is pickled by value, and holds nothing but `mapping`: all code is that of the importable base class.
    """
    return type("FunctionSource", (MappedSource,), {"mapping": mapping, "__module__": "__main__"})


_ZONE: Final = "spark.sql.session.timeZone"

_REGISTERED: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""The names that each session has registered: Spark warns of a name that is registered again."""


def map_in_arrow(
    spark: SparkSession,
    path: Paths,
    function: BatchFunction,
    schema: s.StructType | str,
    **options: Unpack[FunctionKeywords],
) -> DataFrame:
    """Return the result of a function over Arrow IPC files, run in the workers that decode them.

    The rows that it drops, and the columns that it only uses, never cross to the JVM, as those do that
    ``load(path).mapInArrow(function, schema)`` gives to it.

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
        Those of ``spark.read.format("arrowipc")``: ``where="year = 2024"``, ``columns=["id", "text"]``; values as for
        `spark_arrow_ipc.options.read`.

    Raises
    ------
    FunctionError
        The function is too large, or uses something that only the driver has, such as a broadcast.
    UnsupportedError
        The schema has a type that Spark takes from no Python data source.
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
    return _load(spark, mapping.name, path, options)


def load_plain(spark: SparkSession, path: Paths, options: Mapping[str, Any]) -> DataFrame:
    """Return the DataFrame of ``load(path)``; parameters as for `map_in_arrow`."""
    return _load(spark, ArrowIpcDataSource.name(), path, options)


def _load(spark: SparkSession, name: str, path: Paths, options: Mapping[str, Any]) -> DataFrame:
    return spark.read.format(name).options(**strings_of_read(path, options)).load()
