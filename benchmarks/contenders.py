"""The sources and sinks that `arrowipc` is measured against. Spark's Python processes import this module by its name.

Strategy
--------
`benchmark_null` is the limit of every Python source: each of its tasks sends one batch that it already has, as often
as the file has record batches there. So Spark's pipe and the JVM do the same work as for `arrowipc`, and nothing is
read or decoded. The batch comes from the file, decoded to the types that Spark takes, so that it is as large as the
others; it is read once a process, which takes about a millisecond.

`benchmark_pyarrow` is what one would write after a look at the documentation: mapped files, cut by record batches
(a stream cannot be cut), whose batches are handed on as they are, or cast where Spark does not take their type.

`benchmark_empty` has no rows: what every Python source costs before the first. `benchmark_null_sink` drops what it
gets, `benchmark_pyarrow_sink` writes one file a task.

Nothing of `spark_arrow_ipc` is imported here: its memory and its time of import are not the null source's.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

BLOCKS = "blocks"
"""Option: the first record batch of each task, and the end of the last; ``0,37,75`` are two tasks."""

TASK_NBYTES = 128 << 20
"""Bytes of a task of `benchmark_pyarrow` at most, where `BLOCKS` is not given."""

CORES = 2
"""Tasks of a file come in multiples of so many."""


def plain(schema: pa.Schema) -> pa.Schema:
    """Return what Spark takes for a schema of dictionaries and plain types."""
    return pa.schema(
        [
            field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field.remove_metadata()
            for field in schema
        ]
    )


@contextmanager
def opened(path: str) -> Iterator[pa.ipc.RecordBatchFileReader | pa.ipc.RecordBatchStreamReader]:
    """Open a file or stream, mapped."""
    with pa.memory_map(path) as file:
        yield (pa.ipc.open_stream if path.endswith(".arrows") else pa.ipc.open_file)(file)


@cache
def first_batch(path: str) -> pa.RecordBatch:
    """Return the first record batch of a file, in memory of its own; the same one for all tasks of a process."""
    with pa.OSFile(path) as file:
        stream = path.endswith(".arrows")
        batch = pa.ipc.open_stream(file).read_next_batch() if stream else pa.ipc.open_file(file).get_batch(0)
        return batch.cast(plain(batch.schema))


@dataclass(frozen=True)
class BlockRange(InputPartition):
    """The record batches `first` to `end` (exclusive) of a file; all of them where `end` is None."""

    path: str
    first: int
    end: int | None


class _Reader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self.path = options["path"]
        self.blocks = [int(block) for block in options[BLOCKS].split(",")] if BLOCKS in options else None


class _Source(DataSource):
    def schema(self) -> StructType:
        with opened(files_of(self.options["path"])[0]) as file:
            return from_arrow_schema(plain(file.schema))


def files_of(path: str) -> list[str]:
    """Return the files of a directory, or the file itself."""
    return sorted(map(str, Path(path).glob("*.arrow*"))) if Path(path).is_dir() else [path]


class NullReader(_Reader):
    def partitions(self) -> list[BlockRange]:
        return [BlockRange(self.path, *pair) for pair in pairwise(self.blocks or ())]

    def read(self, partition: BlockRange) -> Iterator[pa.RecordBatch]:
        batch = first_batch(partition.path)
        for _ in range(partition.first, partition.end or 0):
            yield batch


class NullSource(_Source):
    @classmethod
    def name(cls) -> str:
        return "benchmark_null"

    def reader(self, schema: StructType) -> NullReader:
        return NullReader(self.options)


class PyArrowReader(_Reader):
    def partitions(self) -> list[BlockRange]:
        return [part for path in files_of(self.path) for part in self._parts(path)]

    def _parts(self, path: str) -> list[BlockRange]:
        nbytes = Path(path).stat().st_size
        if path.endswith(".arrows") or nbytes < TASK_NBYTES // 32:
            return [BlockRange(path, 0, None)]
        edges = self.blocks
        if edges is None:
            with opened(path) as file:
                count = file.num_record_batches
            tasks = min(count, -(-nbytes // TASK_NBYTES // CORES) * CORES)
            edges = sorted({count * i // tasks for i in range(tasks + 1)})
        return [BlockRange(path, *pair) for pair in pairwise(edges)]

    def read(self, partition: BlockRange) -> Iterator[pa.RecordBatch]:
        with opened(partition.path) as file:
            schema = plain(file.schema)
            if partition.path.endswith(".arrows"):
                batches = iter(file)
            else:
                end = file.num_record_batches if partition.end is None else partition.end
                batches = map(file.get_batch, range(partition.first, end))
            for batch in batches:
                yield batch if batch.schema == schema else batch.cast(schema)


class PyArrowSource(_Source):
    @classmethod
    def name(cls) -> str:
        return "benchmark_pyarrow"

    def reader(self, schema: StructType) -> PyArrowReader:
        return PyArrowReader(self.options)


class EmptyReader(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return iter(())


class EmptySource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "benchmark_empty"

    def schema(self) -> str:
        return "id long"

    def reader(self, schema: StructType) -> EmptyReader:
        return EmptyReader()


class NullWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class NullSink(DataSource):
    @classmethod
    def name(cls) -> str:
        return "benchmark_null_sink"

    def writer(self, schema: StructType, overwrite: bool) -> NullWriter:
        return NullWriter()


class PyArrowWriter(DataSourceArrowWriter):
    def __init__(self, options: Mapping[str, str]) -> None:
        self.path = options["path"]
        self.compression = options.get("compression")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        batch = next(iterator, None)
        if batch is not None:
            directory = Path(self.path)
            directory.mkdir(parents=True, exist_ok=True)
            options = pa.ipc.IpcWriteOptions(compression=self.compression, use_threads=False)
            with pa.ipc.new_file(directory / f"{uuid.uuid4()}.arrow", batch.schema, options=options) as file:
                while batch is not None:
                    file.write_batch(batch)
                    batch = next(iterator, None)
        return WriterCommitMessage()


class PyArrowSink(DataSource):
    @classmethod
    def name(cls) -> str:
        return "benchmark_pyarrow_sink"

    def writer(self, schema: StructType, overwrite: bool) -> PyArrowWriter:
        return PyArrowWriter(self.options)


SOURCES: tuple[type[DataSource], ...] = (NullSource, PyArrowSource, EmptySource, NullSink, PyArrowSink)
