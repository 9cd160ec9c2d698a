"""Write a task's rows into partitions, with few open files and bounded memory.

How it works: rows are buffered. When the buffer is full, or the input ends, the rows are ordered by partition with one `take`
for each column, so that the rows of a partition are one slice. If all rows fit in the buffer, the files of the partitions are
written one after another. Otherwise the largest partitions keep a file open for later rows, and the rows of all others are
written to a *spill*: one unnamed file for each full buffer. At the end the spills are merged, again one file after another.

A task thus writes one file for each partition, even if its rows are not sorted; rows of a partition keep their order. At most
60 files are open: `_OPEN_FILES` of partitions, `_SPILLS`, `_VERIFYING`, and the current one. The record batches of a file
with dictionaries wait for these in one more, or in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import BinaryIO, Final

import numpy as np

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.column_path import walk_fields
from spark_arrow_ipc.arrow.kernels.concat import concat, concat_batches
from spark_arrow_ipc.arrow.kernels.slice import batch_nbytes, split_rows
from spark_arrow_ipc.arrow.kernels.take import NDArray, Slots, take, with_used_values
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.write.partition_keys import directories_of, group_rows
from spark_arrow_ipc.dataset.write.staged_file import SinkOptions, Staging, column_types, missing_staging
from spark_arrow_ipc.dataset.write.task import FileSeries, FinishedFiles, TaskOutput

_OPEN_FILES: Final = 32
"""Maximum number of partitions that keep a file open from one full buffer to the next."""

_SPILLS: Final = 15
"""Number of spills after which they are merged, and partitions begin new files."""

_VERIFYING: Final = 12
"""Number of files that are made durable and verified at the same time."""

_BUFFER_NBYTES: Final = 128 << 20
"""Size of the buffer; ordering its rows takes about twice as much memory again."""

_FEW_NBYTES: Final = 20 << 20
"""Size of the buffer while each partition has an open file: a larger one would only give longer record batches."""

_ROW_NBYTES: Final = 24
"""Bytes that a row adds to that size for the numbers that order it, which may be larger than the row."""

_DICTIONARY_NBYTES: Final = 2 << 20
"""Most bytes of the dictionaries of one file."""

_SPILL_BATCH_NBYTES: Final = 1 << 20
"""Size of a spill's record batches; one of each spill is in memory during a merge."""

_SPILL_BATCH_ROWS: Final = 65_536

# Read once, by the same task
_SPILL_FORM: Final = ipc.WriteOptions(compression=None)


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """The partition columns of a write."""

    # positions of the columns, outermost directory first, checked by `partition_keys.check_partition_columns`
    positions: tuple[int, ...]
    time_zone: str | None = None  # of instants in the names of directories; Spark uses the session's


def schema_of_files(schema: Schema, partition: PartitionBy) -> Schema:
    """Return the schema of the files: without the partition columns."""
    fields = tuple(f for i, f in enumerate(schema.fields) if i not in partition.positions)
    return Schema(fields, schema.custom_metadata, schema.endianness)


def write_partitioned(
    staging: Staging,
    batches: Iterable[RecordBatch],
    schema: Schema,
    partition: PartitionBy,
    *,
    partition_id: int,
    options: SinkOptions | None = None,
) -> TaskOutput:
    """Write a task's rows, in any order, into staged files, as `task.write_task` with at least one file for each partition."""
    finished = FinishedFiles(staging, _VERIFYING)
    task = _Task(finished, schema, partition, partition_id, options or SinkOptions())
    with finished.remove_on_error(), task.discard_on_error():
        for batch in batches:
            task.add(batch)
        task.finish()
        return TaskOutput(staging.jobid, finished.all())


@dataclass(slots=True)
class _Spill:
    """A spill: rows of many partitions, ordered by partition number."""

    reader: ipc.FileReader
    first_rows: Slots
    """First row of each record batch, and the end of the last one."""
    starts: dict[int, tuple[int, int]]
    """First row and number of rows of each partition."""
    _last: tuple[int, RecordBatch | None] = (-1, None)

    def rows_of(self, number: int) -> Iterator[RecordBatch]:
        """Yield the rows of one partition."""
        row, count = self.starts.get(number, (0, 0))
        while count:
            i = int(np.searchsorted(self.first_rows, row, "right")) - 1
            if self._last[0] != i:  # partitions are read in order, so that each batch is read once
                self._last = i, self.reader.read_batch(i)
            batch = self._last[1]
            assert batch is not None
            inside = row - int(self.first_rows[i])
            n_rows = min(count, batch.num_rows - inside)
            yield batch.slice(inside, n_rows)
            row, count = row + n_rows, count - n_rows


class _Task:
    """The buffer, open files and spills of one task."""

    def __init__(
        self, finished: FinishedFiles, schema: Schema, partition: PartitionBy, partition_id: int, options: SinkOptions
    ) -> None:
        self._finished = finished
        self._partition = partition
        self._file_schema = schema_of_files(schema, partition)
        self._partition_id = partition_id
        self._options = options
        self._buffer: list[RecordBatch] = []
        self._buffered_nbytes = self._buffered_rows = 0
        self._has_dictionaries = False
        self._numbers: dict[str, int] = {}
        """Number of each directory, by first occurrence."""
        self._directories: list[str] = []
        self._open: dict[int, FileSeries] = {}
        self._spills: list[_Spill] = []
        self._handles = ExitStack()

    def add(self, batch: RecordBatch) -> None:
        """Buffer rows, and write them if the buffer is full."""
        if not batch.num_rows:
            return
        if self._buffer and column_types(self._buffer[0].schema) != column_types(batch.schema):
            # Each file, and each spill, has one schema.
            self._flush(last=True)
            self._end_all()
        self._buffer.append(batch)
        self._buffered_nbytes += batch_nbytes(batch)
        self._buffered_rows += batch.num_rows
        self._has_dictionaries = self._has_dictionaries or any(
            isinstance(f.type, t.Dictionary) for _, f in walk_fields(batch.schema.fields)
        )
        few_nbytes = self._buffered_nbytes + _ROW_NBYTES * self._buffered_rows
        if self._buffered_nbytes >= _BUFFER_NBYTES or (few_nbytes >= _FEW_NBYTES and self._partitions_are_few()):
            self._flush(last=False)

    def finish(self) -> None:
        """Write the buffered rows and end all files."""
        self._flush(last=True)
        self._end_all()
        self._handles.close()

    @contextmanager
    def discard_on_error(self) -> Iterator[None]:
        """Delete the open files if the body raises."""
        try:
            yield
        except BaseException:
            for series in self._open.values():
                series.discard()
            self._handles.close()
            raise

    def _partitions_are_few(self) -> bool:
        """Return whether each partition of the rows so far can have an open file."""
        if self._has_dictionaries:  # inside of columns: each flush would join the dictionaries in each open file
            return False
        if not self._directories:
            self._partition_numbers(self._buffer)
        return len(self._directories) <= _OPEN_FILES

    def _flush(self, *, last: bool) -> None:
        """Order the buffered rows; write them to open files, and spill the others."""
        if not self._buffer:
            return
        buffer, self._buffer = self._buffer, []  # `_reorder` empties it, to free the rows column by column
        self._buffered_nbytes = self._buffered_rows = 0
        numbers = self._partition_numbers(buffer)
        counts = np.bincount(numbers)
        present = counts.nonzero()[0]
        runs = list(
            zip(present.tolist(), (counts.cumsum() - counts)[present].tolist(), counts[present].tolist(), strict=True)
        )
        order = np.argsort(numbers, kind="stable")  # rows of a partition keep their order
        spilled = self._without_open_file(runs, last=last)
        ordered = _reorder(buffer, self._partition.positions, order, self._file_schema)
        del buffer, numbers, order
        for number, first, count in runs:
            if number not in spilled:
                self._write(number, ordered.slice(first, count))
        if spilled:
            self._spill(ordered, [run for run in runs if run[0] in spilled])

    def _partition_numbers(self, buffer: Sequence[RecordBatch]) -> NDArray:
        """Return the partition number of each buffered row."""
        names = [buffer[0].schema.fields[i].name for i in self._partition.positions]
        keys = [concat([batch.columns[i] for batch in buffer]) for i in self._partition.positions]
        groups, first_rows = group_rows(keys)
        of_group = np.empty(len(first_rows), np.int64)
        for i, directory in enumerate(directories_of(names, keys, first_rows, self._partition.time_zone)):
            number = self._numbers.setdefault(directory, len(self._directories))
            if number == len(self._directories):
                self._directories.append(directory)
            of_group[i] = number
        # numpy sorts 16 bits by radix, in linear time.
        return of_group.astype(np.uint16 if len(self._directories) < 1 << 16 else np.int64)[groups]

    def _without_open_file(self, runs: Sequence[tuple[int, int, int]], *, last: bool) -> set[int]:
        """Return the partitions to spill; open files for the largest of the others."""
        # A partition that has spilled continues to spill, or its rows would lose their order.
        before = {number for spill in self._spills for number in spill.starts}
        if last:
            return before.intersection(number for number, _, _ in runs)
        spilled = set()
        for number, _, _ in sorted(runs, key=lambda run: -run[2]):
            if number in self._open:
                continue
            if number in before or len(self._open) >= _OPEN_FILES:
                spilled.add(number)
            else:
                self._open[number] = self._series(number)
        return spilled

    def _series(self, number: int) -> FileSeries:
        directory = self._directories[number]
        return FileSeries(
            self._finished,
            self._file_schema,
            self._partition_id,
            self._options,
            directory,
            dictionary_nbytes=_DICTIONARY_NBYTES,
        )

    def _write(self, number: int, rows: RecordBatch) -> None:
        series = self._open.get(number)
        if series is None:
            self._write_file(number, [rows], rows.num_rows)
            return
        options = self._options
        for part in split_rows(rows, max_rows=options.record_batch_rows, max_nbytes=options.record_batch_nbytes):
            series.write(part)

    def _write_file(self, number: int, batches: Iterable[RecordBatch], num_rows: int) -> None:
        if self._has_dictionaries and num_rows <= self._options.record_batch_rows:
            # Each file contains its dictionaries, and these few rows may use few of the task's values.
            batches = [_with_small_dictionaries(concat_batches(list(batches)))]
        series = self._series(number)
        with series.discard_on_error():
            series.write_all(batches)
            series.finish()

    def _end_all(self) -> None:
        self._merge()
        for number in list(self._open):
            self._open[number].finish()  # a file that fails is still open, for `discard_on_error`
            del self._open[number]

    def _spill(self, ordered: RecordBatch, runs: Sequence[tuple[int, int, int]]) -> None:
        file = self._handles.enter_context(self._scratch_file())
        starts: dict[int, tuple[int, int]] = {}
        first_rows = [0]
        with ipc.create(file, ordered.schema, _SPILL_FORM) as writer:
            for first, count in _join_runs(runs):
                rows = ordered.slice(first, count)
                for part in split_rows(rows, max_rows=_SPILL_BATCH_ROWS, max_nbytes=_SPILL_BATCH_NBYTES):
                    writer.write(part)
                    first_rows.append(first_rows[-1] + part.num_rows)
        at = 0
        for number, _, count in runs:
            starts[number] = at, count
            at += count
        file.seek(0)
        reader = self._handles.enter_context(ipc.open_file(file, validation="structural"))
        self._spills.append(_Spill(reader, np.array(first_rows), starts))
        if len(self._spills) == _SPILLS:
            self._merge()

    def _scratch_file(self) -> BinaryIO:
        """Create a file that vanishes when it is closed or this process ends."""
        try:
            return self._finished.staging.storage.scratch_file(self._finished.staging.path)
        except FileNotFoundError as error:
            raise missing_staging(self._finished.staging.path) from error

    def _merge(self) -> None:
        """Write the files of all partitions that have spilled."""
        spills, self._spills = self._spills, []
        for number in sorted({number for spill in spills for number in spill.starts}):
            rows = (batch for spill in spills for batch in spill.rows_of(number))
            self._write_file(number, rows, sum(spill.starts.get(number, (0, 0))[1] for spill in spills))
        self._handles.close()
        self._handles = ExitStack()


def _join_runs(runs: Sequence[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Join adjacent runs; return the first row and number of rows of each."""
    joined: list[tuple[int, int]] = []
    for _, row, count in runs:
        if joined and sum(joined[-1]) == row:
            joined[-1] = joined[-1][0], joined[-1][1] + count
        else:
            joined.append((row, count))
    return joined


def _reorder(buffer: list[RecordBatch], dropped: Sequence[int], order: Slots, schema: Schema) -> RecordBatch:
    """Return the rows of all batches in an order, without some columns; empties the buffer."""
    # One column at a time is in memory twice: each is freed once it is copied.
    positions = [i for i in range(len(buffer[0].columns)) if i not in dropped]
    fields = tuple(buffer[0].schema.fields[i] for i in positions)
    waiting = [[batch.columns[i] for batch in buffer] for i in reversed(positions)]
    buffer.clear()
    columns = []
    while waiting:
        columns.append(take(concat(waiting.pop()), order))
    return RecordBatch(Schema(fields, schema.custom_metadata), tuple(columns), len(order))


def _with_small_dictionaries(batch: RecordBatch) -> RecordBatch:
    """Return a batch whose dictionaries have only the values that it uses."""
    columns = tuple(map(with_used_values, batch.columns))
    if all(a is b for a, b in zip(columns, batch.columns, strict=True)):
        return batch
    return RecordBatch(batch.schema, columns, batch.num_rows, batch.custom_metadata)
