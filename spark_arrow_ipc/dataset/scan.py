"""Reading the file ranges of one input partition, one record batch at a time.

Strategy
--------
A task gets ranges and opens their files one after the other, each when it is reached and none twice. What was true
at planning is checked before the first byte is used and again after the last: a file that is gone, has another size
or another modification time is a `FileChangedError`, never other data in silence. Errors name the file.

`scan` yields a `ScannedFile` for each range, because whoever conforms the data compiles its plan once a schema and
not once a batch. What the batches become is not known here.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.filesystem import FileStatus, status
from spark_arrow_ipc.dataset.listing import DataFile
from spark_arrow_ipc.dataset.splits import FileRange
from spark_arrow_ipc.errors import FileChangedError, NoFilesError, error_context
from spark_arrow_ipc.ipc.selected_columns import Columns, Validation

__all__ = ["ScannedFile", "read_schema", "scan"]

_DEFAULT_LIMITS: Final = ipc.Limits()

_PLANNED_EARLIER: Final = (
    "the file changed after this read was planned ({change}); a DataFrame or view keeps the files that it was planned "
    "with: read the path again"
)


@dataclass(frozen=True, slots=True, eq=False)
class ScannedFile:
    """One range of an open file; usable until the next one is asked for.

    Parameters
    ----------
    range
        What of the file is read.
    schema
        The file's schema, projected to the columns that were asked for.
    batches
        The record batches of the range, read one at a time as they are asked for. An iterator: once.
    """

    range: FileRange
    schema: Schema
    batches: Iterator[RecordBatch]


def scan(
    ranges: Sequence[FileRange],
    *,
    columns: Columns | None = None,
    validation: Validation = "full",
    limits: ipc.Limits = _DEFAULT_LIMITS,
) -> Generator[ScannedFile, None, None]:
    """Yield each range with its schema and its record batches; the file is closed when the next one is asked for.

    Memory: one record batch, and the dictionaries of the projected columns of one file. Closing the iterator closes
    the file.

    Parameters
    ----------
    ranges
        As `plan_splits` gives them.
    columns
        What to read of each file; all by default.
    validation
        ``full`` or ``structural``, as for `ipc.open`.
    limits
        Budgets for each file.

    Raises
    ------
    FileChangedError
        A file is not the one that was planned.
    InvalidArrowError, UnsupportedError, LimitError, ColumnNotFoundError
        What reading a file can say, with its path.
    """
    for part in ranges:
        before = _check_unchanged(part)
        with error_context(path=part.path):
            try:
                reader = ipc.open(part.path, columns=columns, validation=validation, limits=limits)
            except FileNotFoundError as error:
                raise _changed(part, "it is gone") from error
        with reader:
            yield ScannedFile(part, reader.schema, _batches(reader, part, before))


def _batches(reader: ipc.FileReader | ipc.StreamReader, part: FileRange, before: FileStatus) -> Iterator[RecordBatch]:
    with error_context(path=part.path):
        if part.first_block is None or part.end_block is None:
            yield from reader
        elif not isinstance(reader, ipc.FileReader) or part.end_block > len(reader):
            raise _changed(part, f"its record batches {part.first_block} to {part.end_block} are not there")
        else:
            for i in range(part.first_block, part.end_block):
                yield reader.read_batch(i)
    # A file that was removed meanwhile was read whole all the same: this process held it open.
    after = status(part.path)
    if after is not None and after != before:
        raise _changed(part, "it was written to while it was read")


def _check_unchanged(part: FileRange) -> FileStatus:
    found = status(part.path)
    if found is None:
        raise _changed(part, "it is gone")
    if found.nbytes != part.nbytes:
        raise _changed(part, f"it has {found.nbytes:,} bytes, it had {part.nbytes:,}")
    if found.mtime_ns != part.mtime_ns:
        raise _changed(part, "its modification time differs")
    return found


def _changed(part: FileRange, change: str) -> FileChangedError:
    return FileChangedError(_PLANNED_EARLIER.format(change=change), path=part.path)


def read_schema(
    files: Sequence[DataFile], *, columns: Columns | None = None, limits: ipc.Limits = _DEFAULT_LIMITS
) -> Schema:
    """Return the schema of the first file, projected to `columns`; no body is read.

    Raises
    ------
    NoFilesError
        There is no file.
    FileChangedError
        The file is gone since it was listed.
    InvalidArrowError, UnsupportedError, LimitError, ColumnNotFoundError
        What opening a file can say, with its path.
    """
    if not files:
        raise NoFilesError("there is no file to take the schema from")
    path = files[0].path
    with error_context(path=path):
        try:
            reader = ipc.open(path, columns=columns, limits=limits)
        except FileNotFoundError as error:
            raise FileChangedError("the file was listed a moment ago and is gone now; read the path again") from error
        with reader:
            return reader.schema
