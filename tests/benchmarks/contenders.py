"""The sources that `arrowipc` is measured against. Spark's Python processes import this module by its name.

Strategy
--------
`benchmark_null` is the limit of every Python source: each of its tasks sends one batch that it already has, as often
as the file has record batches there. So Spark's pipe and the JVM do the same work as for `arrowipc`, and nothing is
read or decoded. The batch comes from the file, so that it is as large as the others; it is read once a process, which
takes about a millisecond.

`benchmark_pyarrow` is what one would write after a look at the documentation: a mapped file, whose batches are handed
on as they are.

Nothing of `spark_arrow_ipc` is imported here: its memory and its time of import are not the null source's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

BLOCKS = "blocks"
"""Option: the first record batch of each task, and the end of the last; ``0,37,75`` are two tasks."""


@cache
def first_batch(path: str) -> pa.RecordBatch:
    """Return the first record batch of a file, in memory of its own; the same one for all tasks of a process."""
    with pa.OSFile(path) as file:
        return pa.ipc.open_file(file).get_batch(0)


@dataclass(frozen=True)
class BlockRange(InputPartition):
    """The record batches `first` to `end` (exclusive) of the file."""

    first: int
    end: int


class _Reader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self.path = options["path"]
        self.blocks = [int(block) for block in options[BLOCKS].split(",")]

    def partitions(self) -> list[BlockRange]:
        return [BlockRange(*pair) for pair in zip(self.blocks, self.blocks[1:], strict=False)]


class _Source(DataSource):
    def schema(self) -> StructType:
        with pa.memory_map(self.options["path"]) as file:
            return from_arrow_schema(pa.ipc.open_file(file).schema)


class NullReader(_Reader):
    def read(self, partition: BlockRange) -> Iterator[pa.RecordBatch]:
        batch = first_batch(self.path)
        for _ in range(partition.first, partition.end):
            yield batch


class NullSource(_Source):
    @classmethod
    def name(cls) -> str:
        return "benchmark_null"

    def reader(self, schema: StructType) -> NullReader:
        return NullReader(self.options)


class PyArrowReader(_Reader):
    def read(self, partition: BlockRange) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(self.path) as file:
            reader = pa.ipc.open_file(file)
            for i in range(partition.first, partition.end):
                yield reader.get_batch(i)


class PyArrowSource(_Source):
    @classmethod
    def name(cls) -> str:
        return "benchmark_pyarrow"

    def reader(self, schema: StructType) -> PyArrowReader:
        return PyArrowReader(self.options)
