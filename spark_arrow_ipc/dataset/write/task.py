"""Writing a task's record batches into staged files, each proven before it is reported.

Strategy
--------
A task writes into the job's staging directory (`staged_file`) and reports what it wrote there. A file ends before the
record batch that would make it too long, and where a column changes its type. On any error all files of the attempt
are removed.

Nothing written here is visible to a reader. Publishing is the commit's work, in another process and perhaps never:
of two attempts at one task both may finish their file, and only one of them is heard.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

from spark_arrow_ipc.arrow.kernels.slice import rechunk
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import Field
from spark_arrow_ipc.dataset.commit_log.record import StagedFile
from spark_arrow_ipc.dataset.write.staged_file import (
    SinkOptions,
    StagedWriter,
    column_types,
    remove_staged,
    tail_crc32,
)
from spark_arrow_ipc.dataset.write.staging import Staging

__all__ = [
    "FileSeries",
    "FinishedFiles",
    "SinkOptions",
    "StagedFile",
    "Staging",
    "TaskOutput",
    "tail_crc32",
    "write_empty",
    "write_task",
]


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """What one task tells the commit: the files that it wrote, none where it had no rows."""

    jobid: str
    files: tuple[StagedFile, ...] = ()


def write_task(
    staging: Staging,
    batches: Iterable[RecordBatch],
    schema: Schema,
    *,
    partition_id: int,
    options: SinkOptions | None = None,
) -> TaskOutput:
    """Write a task's rows into staged files, one unless `options` bound them, and return what the commit needs.

    Memory: the batches that make up one record batch of the file.

    Parameters
    ----------
    staging
        The job's, as `plan_job` returns it.
    batches
        Rows in any portions; they are cut and joined to record batches of the size that `options` ask for. Where
        the type of a column changes, a new file begins.
    schema
        Names and metadata of the files' columns; types are those of the batches.
    partition_id
        Number of the task, for the files' names.
    options
        Format, compression and sizes.

    Raises
    ------
    CommitError
        The staging directory is not there, or the finished file is not what was written.
    OSError
        The file system refuses (disk full, no permission). On any error nothing is left behind.
    """
    finished = FinishedFiles(staging)
    series = FileSeries(finished, schema, partition_id, options or SinkOptions())
    with finished.removed_on_error(), series.discarded_on_error():
        series.write_all(batches)
        series.finish()
        return TaskOutput(staging.jobid, finished.all())


def write_empty(staging: Staging, schema: Schema, *, options: SinkOptions | None = None) -> StagedFile:
    """Write a staged file without rows that carries the schema, for a job whose tasks all had none.

    Raises
    ------
    CommitError, OSError
        As `write_task`.
    """
    writer = StagedWriter(staging, schema, 0, "", options or SinkOptions())
    writer.end()
    return writer.settle()


class FinishedFiles:
    """Takes files that are written to their end, makes them durable, proves them and keeps what is to be reported.

    Parameters
    ----------
    staging
        The job's.
    at_once
        Files that are made durable at the same time, and open meanwhile: waiting for a disk, one at a time, took
        five times as long as all other work on 10,000 small files.
    """

    def __init__(self, staging: Staging, at_once: int = 1) -> None:
        self.staging = staging
        self._at_once = at_once
        self._pool = ThreadPoolExecutor(at_once, "settle") if at_once > 1 else None
        self._pending: deque[tuple[StagedWriter, Future[StagedFile]]] = deque()
        self._files: list[StagedFile] = []

    def add(self, writer: StagedWriter) -> None:
        """Take over a writer whose file has ended."""
        if self._pool is None:
            self._files.append(writer.settle())
            return
        self._pending.append((writer, self._pool.submit(writer.settle)))
        if len(self._pending) > self._at_once:
            self._wait_for_one()

    def all(self) -> tuple[StagedFile, ...]:
        """Return all files in the order in which they came."""
        while self._pending:
            self._wait_for_one()
        if self._pool is not None:
            self._pool.shutdown()
        return tuple(self._files)

    @contextmanager
    def removed_on_error(self) -> Iterator[None]:
        """Remove all files where what is done inside fails."""
        try:
            yield
        except BaseException:
            if self._pool is not None:
                self._pool.shutdown(cancel_futures=True)
            for writer, _ in self._pending:
                writer.discard()
            for file in self._files:
                remove_staged(self.staging, file.staged)
            raise

    def _wait_for_one(self) -> None:
        self._files.append(self._pending[0][1].result())
        self._pending.popleft()


class FileSeries:
    """Staged files of one directory, one after another: a file ends where the next record batch would exceed it.

    At most one is open. Use it inside `discarded_on_error`.

    Parameters
    ----------
    finished
        Takes each file when it has ended.
    schema, partition_id, options
        As of `write_task`.
    directory
        Relative directory that the files are for.
    """

    def __init__(
        self, finished: FinishedFiles, schema: Schema, partition_id: int, options: SinkOptions, directory: str = ""
    ) -> None:
        self._finished = finished
        self._schema = schema
        self._partition_id = partition_id
        self._options = options
        self._directory = directory
        self._writer: StagedWriter | None = None

    def write_all(self, batches: Iterable[RecordBatch]) -> None:
        """Append batches in record batches of full size; each change of type and each full file begins anew."""
        how = self._options
        for portion in _portions(batches, how.max_file_rows):
            for batch in rechunk(portion, rows=how.record_batch_rows, nbytes=how.record_batch_nbytes):
                self.write(batch)
            if how.max_file_rows is not None:
                self._end_file()

    def write(self, batch: RecordBatch) -> None:
        """Append one batch as one record batch, or as two where a file ends inside it."""
        how = self._options
        while batch.num_rows:
            room = batch.num_rows
            if self._writer is not None and not self._writer.takes(batch.schema):
                self._end_file()
            if how.max_file_rows is not None:
                if self._writer is not None and self._writer.rows == how.max_file_rows:
                    self._end_file()
                room = min(room, how.max_file_rows - (self._writer.rows if self._writer is not None else 0))
            part = batch if room == batch.num_rows else batch.slice(0, room)
            if self._writer is None:
                schema = Schema(_retyped(self._schema, batch.schema), self._schema.custom_metadata)
                self._writer = StagedWriter(self._finished.staging, schema, self._partition_id, self._directory, how)
            if self._writer.write(part):
                batch = batch.slice(room)
            else:
                self._end_file()

    def finish(self) -> None:
        """End the open file."""
        self._end_file()

    @contextmanager
    def discarded_on_error(self) -> Iterator[None]:
        """Remove the open file where what is done inside fails."""
        try:
            yield
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Remove the open file."""
        if self._writer is not None:
            self._writer.discard()
            self._writer = None

    def _end_file(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.end()
            self._finished.add(writer)


def _retyped(schema: Schema, given: Schema) -> tuple[Field, ...]:
    if schema.fields == given.fields:
        return schema.fields
    return tuple(
        field if field.type == batch_field.type else replace(field, type=batch_field.type)
        for field, batch_field in zip(schema.fields, given.fields, strict=True)
    )


def _portions(batches: Iterable[RecordBatch], max_rows: int | None) -> Iterator[Iterator[RecordBatch]]:
    """Yield the batches of one file after another, each to be consumed before the next is asked for."""
    source = (batch for batch in batches if batch.num_rows)
    held = next(source, None)

    def portion() -> Iterator[RecordBatch]:
        nonlocal held
        assert held is not None
        schema, rows = held.schema, 0
        while held is not None and (held.schema is schema or column_types(held.schema) == column_types(schema)):
            batch, room = held, (held.num_rows if max_rows is None else max_rows - rows)
            if room < batch.num_rows:
                held = batch.slice(room)
                if room:
                    yield batch.slice(0, room)
                return
            held = next(source, None)
            rows += batch.num_rows
            yield batch

    while held is not None:
        yield portion()
