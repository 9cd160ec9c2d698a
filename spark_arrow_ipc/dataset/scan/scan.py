"""Read the file ranges of one input partition, one record batch at a time.

A task opens the files of its ranges one after the other, each once. A file that is gone or differs from the planned one
is a `FileChangedError`, never other data in silence: size and modification time are compared with the plan's before the
first byte is used, and after the last one again. Where files have versions, every read names the one that was planned,
and nothing is compared. Errors name the file and the block.

`scan` yields a `ScannedFile` for each range, so that the caller can compile its plan once per schema and not once per
batch. Batches are read lazily (`read_blocks`); `error_policy` decides which errors are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeAlias

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.listing.data_file import has_sample, open_at_current_path, status_from_listing, time_text
from spark_arrow_ipc.dataset.scan.error_policy import (
    CORRUPT,
    STRICT,
    ErrorPolicy,
    add_advice,
    read_on,
    report_missing,
    report_rest,
    report_skipped,
    rows_of,
)
from spark_arrow_ipc.dataset.scan.file_range import CONSTANT_SLOTS, FileRange, Origin, PartitionColumns
from spark_arrow_ipc.dataset.scan.read_blocks import (
    JOINED_ROWS,
    BlockRows,
    Blocks,
    ScannedBatch,
    in_turn,
    join_small,
    read_ahead,
    read_run,
    whole_batches,
)
from spark_arrow_ipc.errors import ArrowIpcError, FileChangedError, error_context
from spark_arrow_ipc.ipc.bytes.source import Openable
from spark_arrow_ipc.ipc.constants import TensorRows
from spark_arrow_ipc.ipc.options import DEFAULT_READ
from spark_arrow_ipc.ipc.recovery import BEYOND_RECOVERY, Recovered, open_recovered
from spark_arrow_ipc.ipc.stream_index import StreamStart
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.storage import Status, Storage

if TYPE_CHECKING:
    from spark_arrow_ipc.dataset.scan.tensor_reader import TensorReader


PLANNED_ONCE: Final = "a DataFrame or view keeps the files that it was planned with: read the path again, or CREATE OR REPLACE TEMPORARY VIEW"
"""The advice about a file of a batch read that changed."""


SelectBlocks: TypeAlias = Callable[[ipc.FileReader, FileRange], "Callable[[int], bool] | None"]
"""Returns whether a record batch of an open file is read, by its number in the range; None for all."""


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """The options that files are read with."""

    read: ipc.ReadOptions = DEFAULT_READ  # how the codec reads each file, and which columns
    # batches of fewer rows are joined with their neighbours until they reach this number; 0: never
    joined_rows: int = JOINED_ROWS
    # map files instead of reading them; `storage.byte_source.open_mapped` describes the risks
    memory_map: bool = False
    error_policy: ErrorPolicy = STRICT  # which errors of files are skipped
    planned_at: datetime | None = None  # when the read was planned, for the message of `FileChangedError`
    advice: str = PLANNED_ONCE  # what to do about a file that changed, for the same message
    # selects the record batches of a file to read; all if it is None or returns None
    select_blocks: SelectBlocks | None = None
    tensors: TensorRows | None = None  # read files of tensors, and this as a row; None to read tables
    storage: Storage = LOCAL


_DEFAULT_OPTIONS: Final = ScanOptions()


@dataclass(frozen=True, slots=True, eq=False)
class ScannedFile:
    """One range of an open file; usable until the next one is requested."""

    range: Origin  # the part of the file that is read, or of something else that has rows
    schema: Schema  # the file's schema, projected to the requested columns, with the partition columns
    batches: Iterator[ScannedBatch]  # The rows of the range, read lazily. Can be iterated once.
    # returns the number of rows of the file before the range; reads headers if necessary
    rows_before: Callable[[], int]


def scan(
    ranges: Sequence[FileRange],
    *,
    partition_fields: Sequence[t.Field] = (),
    options: ScanOptions = _DEFAULT_OPTIONS,
) -> Generator[ScannedFile, None, None]:
    """Yield each range with its schema and batches; its file is closed after it.

    Memory: one record batch or a piece of it, or twice a joined batch, and the dictionaries of the projected columns
    of one file. Closing the iterator closes the file.
    """
    opens = partial(_open, options=options)
    with closing(in_turn(ranges, opens, _close, waits=options.storage.traits.waits)) as turns:
        yield from _scan_files(turns, partition_fields, options)


def _scan_files(
    turns: Iterator[tuple[FileRange, Callable[[], _Opened | None]]],
    partition_fields: Sequence[t.Field],
    options: ScanOptions,
) -> Iterator[ScannedFile]:
    for part, open_it in turns:
        with ExitStack() as stack, error_context(path=part.path):
            opened = open_it()
            if opened is None:
                continue
            stack.callback(opened.reader.close)
            yield _scan(opened, part, partition_fields, options)


_Tables: Final = (ipc.FileReader, ipc.StreamReader)
_Reader: TypeAlias = "ipc.FileReader | ipc.StreamReader | TensorReader"


@dataclass(frozen=True, slots=True, eq=False)
class _Opened:
    """A file that is being scanned, with its status at opening."""

    reader: _Reader
    before: Status
    recovered: Recovered | None


def _close(opened: _Opened | None) -> None:
    if opened is not None:
        opened.reader.close()


def _open(part: FileRange, options: ScanOptions) -> _Opened | None:
    """Open the file of a range; None if it is skipped, with a warning."""
    try:
        return _open_planned(part, options)
    except FileNotFoundError as error:
        if options.error_policy.ignore_missing_files:
            report_missing(part.path)
            return None
        raise _change_error(part, "it is gone", options) from error
    except CORRUPT as error:
        if not options.error_policy.ignore_corrupt_files or isinstance(error, PermissionError):
            raise add_advice(error) from error.__cause__
        report_skipped(part.path, error, "ignoreCorruptFiles")
        return None


class _OtherFileError(FileNotFoundError):
    """The file at this path is not the one that was planned; the message has why."""


def _open_planned(part: FileRange, options: ScanOptions) -> _Opened | None:
    """Open the planned file, staged or renamed; FileNotFoundError if it is gone."""

    def open_at(place: str) -> _Opened | None:
        known = status_from_listing(part, place, options.storage)
        status = options.storage.status(place) if known is None else known
        if status is None:
            raise FileNotFoundError(place)
        change = _find_change(part, status, options.storage)
        if change is not None:
            raise _OtherFileError(change)
        return _open_at(place, status, options)

    try:
        return open_at_current_path(part, open_at, options.storage)
    except _OtherFileError as error:
        raise _change_error(part, str(error), options) from None
    except FileChangedError as error:  # a request named the version that was planned
        raise _change_error(part, "another version is there now", options) from error


def _open_at(path: str, status: Status, options: ScanOptions) -> _Opened | None:
    def opens() -> Openable:
        return options.storage.open(path, memory_map=options.memory_map, listed=status)

    if options.tensors is not None:
        from spark_arrow_ipc.dataset.scan.tensor_reader import TensorReader  # tables start faster without it

        return _Opened(TensorReader(opens(), options.tensors, options.read.columns, options.read.limits), status, None)
    if not options.error_policy.recover:
        return _Opened(ipc.open(opens(), options.read), status, None)
    recovered = open_recovered(opens, options.read)
    if recovered.reader is None:
        assert recovered.lost is not None
        report_skipped(path, recovered.lost, "recover")
        return None
    return _Opened(recovered.reader, status, recovered if recovered.lost is not None else None)


def _scan(opened: _Opened, part: FileRange, partition_fields: Sequence[t.Field], options: ScanOptions) -> ScannedFile:
    batches = join_small(_blocks(opened, part, options), options.joined_rows)
    schema = opened.reader.schema
    if partition_fields:
        constants = PartitionColumns(schema, partition_fields, part.partition)
        schema, batches = constants.schema, _with_constants(batches, constants)
    return ScannedFile(part, schema, batches, lambda: _rows_before(opened.reader, part))


def _with_constants(batches: Iterator[ScannedBatch], constants: PartitionColumns) -> Iterator[ScannedBatch]:
    for scanned in batches:
        batch, rows = scanned.batch, scanned.batch.num_rows
        if rows <= CONSTANT_SLOTS:
            yield replace(scanned, batch=constants.add(batch))
            continue
        # Only a batch that was not joined has this many rows, so they are of one block.
        for first in range(0, rows, CONSTANT_SLOTS):
            part = constants.add(batch.slice(first, min(CONSTANT_SLOTS, rows - first)))
            yield ScannedBatch(part, scanned.first_block, scanned.first_row + first, (part.num_rows,))


def _blocks(opened: _Opened, part: FileRange, options: ScanOptions) -> Iterator[ScannedBatch]:
    """Yield the batches of a range in the order of the file, by the error policy."""

    def read(number: int) -> Blocks:
        return _read(opened, part, number, options)

    def policy(number: int, error: Exception) -> int | None:
        return _go_on(opened, part, number, error, options)

    first_row = 0
    try:
        with error_context(path=part.path):
            for number, rows in read_on(read, part.start or 0, policy):
                if rows.batch is not None:
                    yield ScannedBatch(rows.batch, number, first_row, rows.counts)
                first_row += sum(rows.counts)
    except FileChangedError as error:
        if not opened.before.version:
            raise
        raise _change_error(part, "another version is there now", options) from error
    if opened.recovered is not None:
        assert opened.recovered.lost is not None
        report_rest(part.path, range(0), None, opened.recovered.lost, "recover")
    # A file that was removed meanwhile was still read to its end: this process held it open.
    # A status has the time of the last change of any kind, too, which no program can set back.
    # Where files have versions, every request named the one that was opened.
    after = opened.before if opened.before.version else options.storage.status(opened.before.path)
    if after is not None and after != opened.before and not _has_grown(part, opened.before, after):
        raise _change_error(part, "it was changed while it was read", options)


def _read(opened: _Opened, part: FileRange, number: int, options: ScanOptions) -> Blocks:
    """Return the record batches of a range from a number on."""
    reader, below_rows = opened.reader, options.joined_rows
    if not isinstance(reader, _Tables):
        return reader.read(range(number, len(reader) if part.stop is None else part.stop))
    if part.start is None or part.stop is None:
        if reader.is_numbered:
            return _read_blocks(reader, part, range(number, len(reader)), options)
        most = None if opened.recovered is None else opened.recovered.batches
        return whole_batches(reader.read_joined(below_rows=below_rows, most=most))
    if reader.is_numbered:
        if part.stream_start is None and part.stop <= len(reader):
            return _read_blocks(reader, part, range(number, part.stop), options)
    elif part.stream_start is not None:
        return _read_from(reader, part.stream_start, part.stop - part.start, below_rows)
    if part.start == part.stop:
        return iter(())
    raise _change_error(part, f"its record batches {part.start} to {part.stop} are not there", options)


def _read_blocks(reader: ipc.FileReader, part: FileRange, blocks: range, options: ScanOptions) -> Blocks:
    keeps = options.select_blocks(reader, part) if options.select_blocks is not None else None
    selected = list(blocks if keeps is None else filter(keeps, blocks))
    with read_ahead(reader, selected, part.rows) as ahead:
        if keeps is None:
            yield from read_run(reader, blocks, part.rows, below_rows=options.joined_rows, ahead=ahead)
            return
        selected_set = frozenset(selected)
        for is_kept, neighbours in groupby(blocks, selected_set.__contains__):
            numbers = list(neighbours)
            if is_kept:
                run = range(numbers[0], numbers[-1] + 1)
                yield from read_run(reader, run, part.rows, below_rows=options.joined_rows, ahead=ahead)
            elif numbers[-1] != blocks[-1]:  # the rows of those at the end are not needed
                yield BlockRows(None, tuple(reader.row_counts(numbers)), len(numbers))


def _read_from(reader: ipc.StreamReader, start: StreamStart, most: int, below_rows: int) -> Blocks:
    reader.start_at(start)
    yield from whole_batches(reader.read_joined(below_rows=below_rows, most=most))


def _go_on(opened: _Opened, part: FileRange, number: int, error: Exception, options: ScanOptions) -> int | None:
    """Return the number to go on with after an error, or None; or raise the error.

    The policy of `read_on`. Warns of the record batches that are skipped.
    """
    reader, recovered = opened.reader, opened.recovered
    is_lost = recovered is not None and isinstance(error, BEYOND_RECOVERY)
    if is_lost and reader.is_numbered:
        # The dictionary of this batch was lost with the file's end; the next batch may not need it.
        report_rest(part.path, range(number, number + 1), rows_of(reader, [number]), error, "recover")
        return number + 1
    if not options.error_policy.ignore_corrupt_files and not is_lost:
        raise error
    blocks, rows = _rest(reader, part, number)
    why = "ignoreCorruptFiles" if options.error_policy.ignore_corrupt_files else "recover"
    report_rest(part.path, blocks, rows, error, why)
    return None


def _rest(reader: _Reader, part: FileRange, number: int) -> tuple[range, int | None]:
    """Return the record batches of a range from a broken one on, and their rows.

    The rows are None if a header cannot be read.
    """
    if reader.is_numbered:
        blocks = range(number, len(reader) if part.stop is None else part.stop)
        return blocks, rows_of(reader, blocks)
    try:
        index = reader.index(keeps_broken=True)
    except (ArrowIpcError, OSError):
        return range(number, part.stop or number + 1), None
    end = max(len(index.batches), number + 1) if part.stop is None else part.stop
    rows = sum(batch.rows for batch in index.batches[number:end])
    return range(number, end), rows if index.broken is None else None


def _rows_before(reader: _Reader, part: FileRange) -> int:
    if part.stream_start is not None:
        return part.stream_start.rows_before
    if reader.is_numbered:
        of_batch = 0 if part.rows is None else part.rows[0]
        return of_batch + sum(reader.row_counts(range(part.start or 0)))
    return 0


def _has_grown(part: FileRange, before: Status, after: Status) -> bool:
    return part.grows is True and (after.identity, after.nbytes >= before.nbytes) == (before.identity, True)


def _find_change(part: FileRange, status: Status, storage: Storage) -> str | None:
    if part.grows:
        return None if status.nbytes >= part.nbytes else f"it was cut to {status.nbytes:,} bytes from {part.nbytes:,}"
    if status.nbytes != part.nbytes:
        return f"it has {status.nbytes:,} bytes, it had {part.nbytes:,}"
    if (part.staged is not None or status.path != part.path) and not storage.traits.renames:
        return None  # where it is now it is a copy, with a time and a version of its own
    if part.version and status.version:
        return None if status.version == part.version else "another version is there now"
    # A program that copies may set the time long after the last byte: then the bytes tell, where they were sampled.
    if status.mtime_ns != part.mtime_ns and not has_sample(part, status.path, storage):
        return f"its modification time differs: it is {time_text(status.mtime_ns)}, it was {time_text(part.mtime_ns)}"
    return None


def _change_error(part: FileRange, change: str, options: ScanOptions) -> FileChangedError:
    when = "" if options.planned_at is None else f" at {options.planned_at:%Y-%m-%d %H:%M:%S %Z}".rstrip()
    return FileChangedError(
        f"the file changed after this read was planned{when} ({change}); {options.advice}",
        path=part.path,
    )
