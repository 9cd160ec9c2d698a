"""Read the file ranges of one input partition, one record batch at a time.

A task opens the files of its ranges one after the other, each once. A file that is missing or differs from the planned one
is a `FileChangedError`, never other data in silence: its size and modification time are compared with the plan before the
first byte is used, and again after the last one. Where files have versions, every read names the planned version instead.

`scan` yields a `ScannedFile` for each range, so that the caller compiles its plan once per schema and not once per batch.
Batches are read lazily (`read_blocks`); `error_policy` decides which errors are skipped. Errors name the file and the block.
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
    complete_blocks,
    in_turn,
    join_small,
    read_ahead,
    read_run,
)
from spark_arrow_ipc.errors import ArrowIpcError, FileChangedError, error_context
from spark_arrow_ipc.ipc.bytes.source import Openable
from spark_arrow_ipc.ipc.constants import TensorRows
from spark_arrow_ipc.ipc.options import DEFAULT_READ
from spark_arrow_ipc.ipc.recovery import BEYOND_RECOVERY, Recovered, open_recovered
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.storage import Status, Storage

if TYPE_CHECKING:
    from spark_arrow_ipc.dataset.scan.tensor_reader import TensorReader


PLANNED_ONCE: Final = "a DataFrame or view keeps the files that it was planned with: read the path again, or CREATE OR REPLACE TEMPORARY VIEW"
"""The advice about a file of a batch read that changed."""

SelectBlocks: TypeAlias = Callable[[ipc.FileReader, FileRange], "Callable[[int], bool] | None"]
"""Returns a predicate on the numbers of an open file's record batches; None to read all."""


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """The options that files are read with."""

    read: ipc.ReadOptions = DEFAULT_READ  # how the codec reads each file, and which columns
    # batches of fewer rows are joined with their neighbours until they reach this number; 0: never
    joined_rows: int = JOINED_ROWS
    # map files instead of reading them; `storage.byte_source.open_mapped` describes the risks
    memory_map: bool = False
    error_policy: ErrorPolicy = STRICT  # which errors of files are skipped
    planned_at: datetime | None = None  # time of planning, for the message of `FileChangedError`
    advice: str = PLANNED_ONCE  # the next step after a file changed, for the same message
    # selects the record batches of a file to read; all if it is None or returns None
    select_blocks: SelectBlocks | None = None
    tensors: TensorRows | None = None  # read files of tensors, and this as a row; None to read tables
    storage: Storage = LOCAL


_DEFAULT_OPTIONS: Final = ScanOptions()


@dataclass(frozen=True, slots=True, eq=False)
class ScannedFile:
    """One range of an open file; usable until the next one is requested."""

    range: Origin  # the part of the file, or of another source of rows
    schema: Schema  # the file's schema, projected to the requested columns, with the partition columns
    batches: Iterator[ScannedBatch]  # the rows of the range, read lazily; can be iterated once
    # returns the number of rows of the file before the range; reads headers if necessary
    rows_before: Callable[[], int]


def scan(
    ranges: Sequence[FileRange],
    *,
    partition_fields: Sequence[t.Field] = (),
    options: ScanOptions = _DEFAULT_OPTIONS,
) -> Generator[ScannedFile, None, None]:
    """Yield each range with its schema and batches; its file is closed after it.

    Memory: one record batch or piece, or twice a joined batch, and the dictionaries of the projected columns of one file.
    Closing the iterator closes the file.
    """

    def close(opened: _Opened | None) -> None:
        if opened is not None:
            opened.reader.close()

    opens = partial(_open, options=options)
    with closing(in_turn(ranges, opens, close, waits=options.storage.traits.waits)) as turns:
        for part, open_it in turns:
            with ExitStack() as stack, error_context(path=part.path):
                opened = open_it()
                stack.callback(close, opened)
                if opened is not None:
                    yield _scan(opened, part, partition_fields, options)


_Tables: Final = (ipc.FileReader, ipc.StreamReader)
_Reader: TypeAlias = "ipc.FileReader | ipc.StreamReader | TensorReader"


@dataclass(frozen=True, slots=True, eq=False)
class _Opened:
    """A file that is being scanned, with its status at opening."""

    reader: _Reader
    before: Status
    recovered: Recovered | None


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
        # A file that this user may not read is not a broken one.
        if not options.error_policy.ignore_corrupt_files or isinstance(error, PermissionError):
            raise add_advice(error) from error.__cause__
        report_skipped(part.path, error, "ignoreCorruptFiles")
        return None


class _OtherFileError(FileNotFoundError):
    """The file at this path is not the planned one; the message is the difference."""


def _open_planned(part: FileRange, options: ScanOptions) -> _Opened | None:
    """Open the planned file, or where it is retained; FileNotFoundError if it is gone."""

    def open_at(path: str) -> _Opened | None:
        status = status_from_listing(part, path, options.storage) or options.storage.status(path)
        if status is None:
            raise FileNotFoundError(path)
        change = _find_change(part, status, options.storage)
        if change is not None:
            raise _OtherFileError(change)
        return _open_at(path, status, options)

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
    # Lazily, as rows before a range cost a request for each header, and only some queries number rows.
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
    read = partial(_read, opened, part, options)
    first_row = 0
    try:
        with error_context(path=part.path):
            for number, rows in read_on(read, part.start or 0, partial(_go_on, opened, part, options)):
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
    before = opened.before
    if before.version:  # every request named this version
        return
    # The comparison includes the time of the last change of any kind, which no program can set back.
    after = options.storage.status(before.path)
    if (
        after is None or after == before
    ):  # a file that was removed meanwhile was still read to its end: it was held open
        return
    if not part.grows or after.identity != before.identity or after.nbytes < before.nbytes:
        raise _change_error(part, "it was changed while it was read", options)


def _read(opened: _Opened, part: FileRange, options: ScanOptions, number: int) -> Blocks:
    """Return the record batches of a range from a number on."""
    reader, below_rows = opened.reader, options.joined_rows
    if not isinstance(reader, _Tables):
        return reader.read(range(number, len(reader) if part.stop is None else part.stop))
    if part.start is None or part.stop is None:
        if reader.is_numbered:
            return _read_blocks(reader, part, range(number, len(reader)), options)
        most = None if opened.recovered is None else opened.recovered.batches
        return complete_blocks(reader.read_joined(below_rows=below_rows, most=most))
    if reader.is_numbered:
        if part.stream_start is None and part.stop <= len(reader):
            return _read_blocks(reader, part, range(number, part.stop), options)
    elif part.stream_start is not None:
        reader.start_at(part.stream_start)
        return complete_blocks(reader.read_joined(below_rows=below_rows, most=part.stop - part.start))
    if part.start == part.stop:  # a file without record batches, planned by one range that checks it
        return iter(())
    raise _change_error(part, f"its record batches {part.start} to {part.stop} are not there", options)


def _read_blocks(reader: ipc.FileReader, part: FileRange, blocks: range, options: ScanOptions) -> Blocks:
    keeps = options.select_blocks(reader, part) if options.select_blocks is not None else None
    selected = list(blocks if keeps is None else filter(keeps, blocks))
    with read_ahead(reader, selected, part.rows) as ahead:
        if keeps is None:
            yield from read_run(reader, blocks, part.rows, below_rows=options.joined_rows, ahead=ahead)
            return
        for is_selected, neighbours in groupby(blocks, frozenset(selected).__contains__):
            numbers = list(neighbours)
            if is_selected:
                run = range(numbers[0], numbers[-1] + 1)
                yield from read_run(reader, run, part.rows, below_rows=options.joined_rows, ahead=ahead)
            elif numbers[-1] != blocks[-1]:  # blocks at the end shift no later row
                yield BlockRows(None, tuple(reader.row_counts(numbers)), len(numbers))


def _go_on(opened: _Opened, part: FileRange, options: ScanOptions, number: int, error: Exception) -> int | None:
    """Return the number to go on with after an error, or None to stop, with a warning; or raise the error."""
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
    """Return the record batches of a range from a broken one on, and their rows; None if a header cannot be read."""
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


def _find_change(part: FileRange, status: Status, storage: Storage) -> str | None:
    if part.grows:
        return None if status.nbytes >= part.nbytes else f"it was cut to {status.nbytes:,} bytes from {part.nbytes:,}"
    if status.nbytes != part.nbytes:
        return f"it has {status.nbytes:,} bytes, it had {part.nbytes:,}"
    if status.path != part.path and not storage.traits.renames:
        return None  # it is a copy at this path, with a time and a version of its own
    if part.version and status.version:
        return None if status.version == part.version else "another version is there now"
    # A program that copies may set the time long after the last byte: then sampled bytes decide, if the listing has them.
    if status.mtime_ns != part.mtime_ns and not has_sample(part, status.path, storage):
        return f"its modification time differs: it is {time_text(status.mtime_ns)}, it was {time_text(part.mtime_ns)}"
    return None


def _change_error(part: FileRange, change: str, options: ScanOptions) -> FileChangedError:
    when = "" if options.planned_at is None else f" at {options.planned_at:%Y-%m-%d %H:%M:%S %Z}".rstrip()
    return FileChangedError(
        f"the file changed after this read was planned{when} ({change}); {options.advice}",
        path=part.path,
    )
