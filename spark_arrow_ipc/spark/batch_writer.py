"""The batch writer: stages one file a task, publishes all of them when Spark commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Self

from pyspark import TaskContext
from pyspark.sql import types as s
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset import commit
from spark_arrow_ipc.dataset.job import JobPlan, WriteMode, plan_job
from spark_arrow_ipc.dataset.sink import SinkOptions, TaskOutput, write_empty, write_task
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.bridge import PyArrowBatch
from spark_arrow_ipc.spark.options import Compression, SparkWriteOptions
from spark_arrow_ipc.spark.written_batches import written_batch
from spark_arrow_ipc.spark.written_types import arrow_schema_for

__all__ = ["ArrowIpcBatchWriter", "ArrowIpcCommitMessage"]


@dataclass(frozen=True)
class ArrowIpcCommitMessage(WriterCommitMessage):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    """What one task tells the commit."""

    output: TaskOutput


class ArrowIpcBatchWriter(DataSourceArrowWriter):  # type: ignore[misc]  # as above
    """Writes one job. Spark pickles one object for its tasks, its commit and its abort.

    Parameters
    ----------
    job
        The planned job.
    schema
        Schema of the files.
    options
        How the files are written.
    """

    def __init__(self, job: JobPlan, schema: Schema, options: SinkOptions) -> None:
        self._job = job
        self._schema = schema
        self._options = options

    @classmethod
    def plan(cls, schema: s.StructType, path: str, options: SparkWriteOptions, *, overwrite: bool) -> Self:
        """Return the writer of a new job, after its types and options were found to be writable.

        Raises
        ------
        UnsupportedError
            A column's type cannot be written, or the path's scheme.
        OptionError
            The path is a file, or the compression level does not exist.
        """
        arrow_schema = arrow_schema_for(schema)
        sink_options = _sink_options(options)
        mode = WriteMode.OVERWRITE if overwrite else WriteMode.APPEND
        return cls(plan_job(path, mode), arrow_schema, sink_options)

    def write(self, iterator: Iterator[PyArrowBatch]) -> ArrowIpcCommitMessage:
        """Stage the rows of one task and return where they lie. A task without rows stages nothing."""
        context = TaskContext.get()
        output = write_task(
            self._job.staging,
            (written_batch(batch, self._schema) for batch in iterator),
            self._schema,
            partition_id=context.partitionId() if context is not None else 0,
            options=self._options,
        )
        return ArrowIpcCommitMessage(output)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish what the tasks staged: all of it becomes visible, or an error says what did."""
        commit.commit(
            self._job,
            _outputs(messages),
            write_empty=lambda: write_empty(self._job.staging, self._schema, options=self._options),
        )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what was staged, unless a commit has begun to publish it. Spark calls this after that, too."""
        commit.abort(self._job, _outputs(messages))


_CODECS: Final[Mapping[Compression, Literal["lz4", "zstd"] | None]] = {
    Compression.LZ4: "lz4",
    Compression.ZSTD: "zstd",
    Compression.NONE: None,
}


def _outputs(messages: list[WriterCommitMessage | None]) -> list[TaskOutput | None]:
    return [message.output if isinstance(message, ArrowIpcCommitMessage) else None for message in messages]


def _sink_options(options: SparkWriteOptions) -> SinkOptions:
    try:
        write = ipc.WriteOptions(
            format=options.ipc_format.value,
            compression=_CODECS[options.compression],
            compression_level=options.compression_level,
        )
    except ValueError as error:
        raise OptionError(f"the option compressionLevel: {error}") from error
    return SinkOptions(write, options.record_batch_rows)
