"""Write a task's record batches into staged files, sorted on request, and verify each file.

How it works: a task writes into the job's staging directory (`staged_file`) and reports its files. A file ends before the
record batch that would make it too long, and when a column's type changes. On any error all files of the attempt are deleted.

Readers do not see staged files. The commit publishes them, in another process, and possibly not all: two attempts of
one task may both finish their files, and only one attempt is reported.

Sorted rows are written in runs: rows are buffered up to a number of bytes, sorted, and written as files of their own. Files
of one task may overlap, as merging them would take a second pass over the data.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from spark_arrow_ipc.arrow.kernels.order import sort_batches
from spark_arrow_ipc.arrow.kernels.slice import batch_nbytes, rechunk, split_rows
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import Dictionary, Field
from spark_arrow_ipc.dataset.write.staged_file import (
    SinkOptions,
    StagedWriter,
    Staging,
    WrittenFile,
    column_types,
    remove_staged,
)
from spark_arrow_ipc.storage.byte_source import DEVICE_ERRORS

_DICTIONARY_NBYTES: Final = 16 << 20
"""Most bytes of the dictionaries of one file, which its readers hold in memory, too; then another file begins."""


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """The report of one task: the files that it wrote, none if it had no rows."""

    jobid: str
    files: tuple[WrittenFile, ...] = ()
    dictionaries: tuple[tuple[str, Dictionary], ...] = ()  # columns of the files that are dictionaries


def write_task(
    staging: Staging,
    batches: Iterable[RecordBatch],
    schema: Schema,
    *,
    partition_id: int,
    options: SinkOptions | None = None,
    directory: str = "",
) -> TaskOutput:
    """Write a task's rows into staged files in the relative `directory`, and return its output.

    Batches of any size are split and joined into record batches of one file, unless `options` limit its size or the type of
    a column changes. The schema has names and metadata, the batches have the types. After any error no file remains.
    """
    finished = FinishedFiles(staging)
    series = FileSeries(finished, schema, partition_id, options or SinkOptions(), directory)
    with finished.remove_on_error(), series.discard_on_error():
        series.write_all(batches)
        series.finish()
        return TaskOutput(staging.jobid, finished.all())


def write_empty(staging: Staging, schema: Schema, *, options: SinkOptions | None = None) -> WrittenFile:
    """Write a staged file with the schema and no rows, for a job without rows."""
    writer = StagedWriter(staging, schema, 0, "", options or SinkOptions())
    writer.end()
    return writer.sync_and_verify()


class FinishedFiles:
    """Makes complete files durable and verifies them, up to `at_once` at the same time, and collects their reports."""

    # One at a time, waiting for the disk took five times as long as all other work on 10,000 small files.

    def __init__(self, staging: Staging, at_once: int = 1) -> None:
        self.staging = staging
        self._at_once = at_once
        self._pool = ThreadPoolExecutor(at_once, "sync_and_verify") if at_once > 1 else None
        self._pending: deque[tuple[StagedWriter, Future[WrittenFile]]] = deque()
        self._files: list[WrittenFile] = []

    def add(self, writer: StagedWriter) -> None:
        """Take over a writer after its `end`."""
        if self._pool is None:
            self._files.append(writer.sync_and_verify())
            return
        self._pending.append((writer, self._pool.submit(writer.sync_and_verify)))
        if len(self._pending) > self._at_once:
            self._wait_for_one()

    def all(self) -> tuple[WrittenFile, ...]:
        """Wait for all files and return their reports, in order of addition."""
        while self._pending:
            self._wait_for_one()
        if self._pool is not None:
            self._pool.shutdown()
        return tuple(self._files)

    @contextmanager
    def remove_on_error(self) -> Iterator[None]:
        """Delete all files if the body raises; the error of a full or broken device gets the next step."""
        try:
            yield
        except BaseException as error:
            if self._pool is not None:
                self._pool.shutdown(cancel_futures=True)
            for writer, _ in self._pending:
                writer.discard()
            for file in self._files:
                remove_staged(self.staging, file.staged)
            # Reads and functions of users raise such errors here, too: only errors of staged files are this task's.
            path = error.filename if isinstance(error, OSError) and error.errno in DEVICE_ERRORS else None
            if isinstance(error, OSError) and isinstance(path, str) and path.startswith(self.staging.path):
                raise _without_loss(error) from None
            raise

    def _wait_for_one(self) -> None:
        self._files.append(self._pending[0][1].result())
        self._pending.popleft()


class FileSeries:
    """Writes the staged files of one relative directory, one after another, and adds them to `finished`.

    Use it inside `discard_on_error`.
    """

    def __init__(
        self,
        finished: FinishedFiles,
        schema: Schema,
        partition_id: int,
        options: SinkOptions,
        directory: str = "",
        *,
        dictionary_nbytes: int = _DICTIONARY_NBYTES,
    ) -> None:
        self._finished = finished
        self._schema = schema
        self._partition_id = partition_id
        self._options = options
        self._directory = directory
        self._writer: StagedWriter | None = None
        self._encoder = None if options.encoder is None else options.encoder(dictionary_nbytes)
        self._source = schema  # of the batches of the open file

    def write_all(self, batches: Iterable[RecordBatch]) -> None:
        """Append batches, joined into record batches of full size within each file."""
        options = self._options
        for portion in _portions(batches, options.max_file_rows):
            for batch in rechunk(portion, rows=options.record_batch_rows, nbytes=options.record_batch_nbytes):
                self.write(batch)
            if options.max_file_rows is not None:  # the portion was cut at the end of a file
                self.finish()

    def write(self, batch: RecordBatch) -> None:
        """Append one batch as one record batch, or as several if files end inside it."""
        options = self._options
        while batch.num_rows:
            room = batch.num_rows
            if self._writer is not None and not _is_same(self._source, batch.schema):
                self.finish()
            if options.max_file_rows is not None:
                if self._writer is not None and self._writer.rows == options.max_file_rows:
                    self.finish()
                room = min(room, options.max_file_rows - (self._writer.rows if self._writer is not None else 0))
            part = self._encode(batch if room == batch.num_rows else batch.slice(0, room))
            if part is None:
                self.finish()
                continue
            if self._writer is None:
                schema = Schema(_retype(self._schema, part.schema), self._schema.custom_metadata)
                self._writer = StagedWriter(
                    self._finished.staging, schema, self._partition_id, self._directory, options
                )
                self._source = batch.schema
            if self._writer.write(part):
                batch = batch.slice(part.num_rows)
            else:  # the file would become too long: the same rows begin the next one
                self.finish()

    def _encode(self, batch: RecordBatch) -> RecordBatch | None:
        if self._encoder is None:
            return batch
        if self._writer is None:
            self._encoder.begin()
        return self._encoder.encode(batch)

    @contextmanager
    def discard_on_error(self) -> Iterator[None]:
        """Delete the open file if the body raises."""
        try:
            yield
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Delete the open file."""
        if self._writer is not None:
            self._writer.discard()
            self._writer = None

    def finish(self) -> None:
        """End the open file."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.end()
            self._finished.add(writer)


def _without_loss(error: OSError) -> OSError:
    assert error.errno is not None
    text = (
        f"{error.strerror}; what this task has written is removed, nothing of the job is visible, and no file that was "
        f"there is changed: {DEVICE_ERRORS[error.errno]}, and write again"
    )
    return OSError(error.errno, text, error.filename)


def _retype(schema: Schema, batch_schema: Schema) -> tuple[Field, ...]:
    if schema.fields == batch_schema.fields:
        return schema.fields
    return tuple(
        field if field.type == batch_field.type else replace(field, type=batch_field.type)
        for field, batch_field in zip(schema.fields, batch_schema.fields, strict=True)
    )


def _is_same(one: Schema, other: Schema) -> bool:
    """Return whether two schemas have the same types."""
    return one is other or column_types(one) == column_types(other)


def _portions(batches: Iterable[RecordBatch], max_rows: int | None) -> Iterator[Iterator[RecordBatch]]:
    """Yield the batches of each file; consume each iterator before the next."""
    source = (batch for batch in batches if batch.num_rows)
    held = next(source, None)

    def portion() -> Iterator[RecordBatch]:
        nonlocal held
        assert held is not None
        schema, rows = held.schema, 0
        while held is not None and _is_same(held.schema, schema):
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


@dataclass(frozen=True, slots=True)
class Order:
    """The order of rows within files."""

    # positions of the columns to sort by, the most significant first; as in Spark null is before all values, NaN after all
    # numbers, and strings are ordered by their bytes
    columns: tuple[int, ...]
    nbytes: (
        int  # of the rows that are sorted together, uncompressed and without dictionaries; a single row may have more
    )


def sort_into_runs(batches: Iterable[RecordBatch], order: Order, *, rows: int) -> Iterator[Iterator[RecordBatch]]:
    """Yield runs of sorted batches; consume each before the next. Memory: twice `order.nbytes`, and a batch."""
    held: list[RecordBatch] = []
    nbytes = 0
    for batch in _pieces(batches, order.nbytes):
        more = batch_nbytes(batch)
        if held and (nbytes + more > order.nbytes or column_types(batch.schema) != column_types(held[0].schema)):
            yield sort_batches(held, order.columns, rows=rows)
            held, nbytes = [], 0
        held.append(batch)
        nbytes += more
    if held:
        yield sort_batches(held, order.columns, rows=rows)


def _pieces(batches: Iterable[RecordBatch], nbytes: int) -> Iterator[RecordBatch]:
    """Cut batches that are larger than a run, so that no file has more; slices share the batch's memory."""
    for batch in batches:
        # By encoded bytes, as runs are measured: by decoded ones a batch of indices would be cut into single rows.
        yield from split_rows(batch, max_rows=max(1, batch.num_rows), max_nbytes=nbytes, decoded=False)


def write_runs(
    staging: Staging,
    runs: Iterable[Iterator[RecordBatch]],
    write: Callable[[Iterator[RecordBatch]], TaskOutput],
) -> TaskOutput:
    """Write each run by a call of `write`, and return the files of all; after any error none remains."""
    files: list[WrittenFile] = []
    try:
        for run in runs:
            files += write(run).files
    except BaseException:
        for file in files:
            remove_staged(staging, file.staged)
        raise
    return TaskOutput(staging.jobid, tuple(files))
