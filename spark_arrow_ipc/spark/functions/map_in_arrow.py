"""`map_in_arrow`: run a function where the data are decoded."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as s

from spark_arrow_ipc.spark.conform import expected_arrow_schema
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource
from spark_arrow_ipc.spark.functions.mapped_source import Mapping, mapped_source
from spark_arrow_ipc.spark.functions.shipped_function import BatchFunction, ShippedFunction, ship

__all__ = ["Paths", "load_mapped", "load_plain", "map_in_arrow"]

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A path, or several."""

_ZONE: Final = "spark.sql.session.timeZone"

_REGISTERED: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""The names that each session has registered: Spark warns of a name that is registered again."""


def map_in_arrow(
    spark: SparkSession, path: Paths, function: BatchFunction, schema: s.StructType | str, **options: Any
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
        Those of ``spark.read.format("arrowipc")``: ``where="year = 2024"``, ``columns="id, text"``. A list is passed on
        as JSON.

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
    options: dict[str, Any],
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
    mapping = Mapping(function, output, str(spark.conf.get(_ZONE)), asked)
    registered = _REGISTERED.setdefault(spark, set())
    if mapping.name not in registered:
        spark.dataSource.register(mapped_source(mapping))
        registered.add(mapping.name)
    return _load(spark, mapping.name, path, options)


def load_plain(spark: SparkSession, path: Paths, options: dict[str, Any]) -> DataFrame:
    """Return the DataFrame of ``load(path)``; parameters as for `map_in_arrow`."""
    return _load(spark, ArrowIpcDataSource.name(), path, options)


def _load(spark: SparkSession, name: str, path: Paths, options: dict[str, Any]) -> DataFrame:
    return spark.read.format(name).options(**{key: _text(value) for key, value in options.items()}).load(_paths(path))


def _text(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, (list, tuple)) else value


def _paths(path: Paths) -> str | list[str]:
    if isinstance(path, (str, os.PathLike)):
        return os.fspath(path)
    return [os.fspath(each) for each in path]
