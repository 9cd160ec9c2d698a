"""The Python source as the source of the JVM creates it: by a pickled call, in the process that uses it.

Spark creates a source in one process and plans its reads in another, and each starts by importing PySpark. The process
that plans unpickles the source first. So the source of the JVM (``PickledSource.java``) hands Spark a call of `create` as
the pickle. To infer a schema it asks for the plan of `create_to_infer`, whose only partition is the schema.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from pyspark.sql.datasource import CaseInsensitiveDict, DataSource, DataSourceReader, InputPartition

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource


def create(cls: bytes, options: str) -> ArrowIpcDataSource:
    """Return the source of a pickled class, with options in JSON."""
    source: ArrowIpcDataSource = pickle.loads(cls)(CaseInsensitiveDict(parse_json(options)))  # noqa: S301 - of `register`
    return source


def create_inferred(cls: bytes, options: str) -> ArrowIpcDataSource:
    """Return the source after its schema was inferred."""
    source = create(cls, options)
    source.is_inferred = True
    return source


def create_to_infer(cls: bytes, options: str) -> DataSource:
    """Return a source whose plan is the schema of another."""
    return _Inferring(create(cls, options))


class _Inferring(DataSource, DataSourceReader):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    def __init__(self, source: ArrowIpcDataSource) -> None:
        self._source = source

    def reader(self, schema: object) -> _Inferring:  # noqa: ARG002 - Spark's signature
        return self

    def partitions(self) -> list[InputPartition]:
        return [_Schema(self._source.schema().json())]

    def read(self, partition: InputPartition) -> Any:
        raise NotImplementedError


class _Schema(InputPartition):  # type: ignore[misc]  # as above
    def __reduce__(self) -> tuple[Callable[..., object], tuple[bytes]]:
        # Java reads the pickle, and knows bytearray.
        return bytearray, (self.value.encode(),)
