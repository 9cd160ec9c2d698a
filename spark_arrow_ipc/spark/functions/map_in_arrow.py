"""`map_in_arrow`: run a function where the data are decoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Unpack
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as s

from spark_arrow_ipc.spark.conform import expected_arrow_schema
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource
from spark_arrow_ipc.spark.functions.mapped_source import Mapping as FunctionMapping
from spark_arrow_ipc.spark.functions.mapped_source import mapped_source
from spark_arrow_ipc.spark.functions.shipped_function import BatchFunction, ShippedFunction, ship
from spark_arrow_ipc.spark.options.arguments import Paths, strings_of_read
from spark_arrow_ipc.spark.options.keywords import FunctionKeywords

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
        Of the result, a `StructType` or a string such as ``"id bigint, score double"``. Each batch of the function is
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
    asked: s.StructType | None = None,
) -> DataFrame:
    """Register the data source of a function, unless the session has it, and load it.

    Parameters
    ----------
    spark, path, options
        As for `map_in_arrow`.
    function
        The function.
    output
        Schema of its batches.
    asked
        The columns that it gets, a part of those that a read has; None for all.
    """
    expected_arrow_schema(output)
    mapping = FunctionMapping(function, output, str(spark.conf.get(_ZONE)), asked)
    registered = _REGISTERED.setdefault(spark, set())
    if mapping.name not in registered:
        spark.dataSource.register(mapped_source(mapping))
        registered.add(mapping.name)
    return _load(spark, mapping.name, path, options)


def load_plain(spark: SparkSession, path: Paths, options: Mapping[str, Any]) -> DataFrame:
    """Return the DataFrame of ``load(path)``; parameters as for `map_in_arrow`."""
    return _load(spark, ArrowIpcDataSource.name(), path, options)


def _load(spark: SparkSession, name: str, path: Paths, options: Mapping[str, Any]) -> DataFrame:
    return spark.read.format(name).options(**strings_of_read(path, options)).load()
