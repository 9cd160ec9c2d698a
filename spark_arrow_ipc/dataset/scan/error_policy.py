"""The error policy of a scan (``ignoreCorruptFiles``, ...) and its warnings.

One rule decides which rows are lost. A task reads the record batches of its part of a file in order. At the first one that
is broken in any column of the DataFrame the file ends, and the rows before it stay. So every query decodes the columns that
`collect` does: headers, statistics or fewer columns would give other rows. A file that is missing or cannot be opened has no
rows. ``metadataOnly`` reads headers, and loses the rows after a broken one.

Nothing is skipped in silence. Each skipped file or run of blocks is one warning of this module's logger, with the path, the
number of rows if the headers can be read, and the option that asked for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc.dataset.scan.read_blocks import BlockRows, Blocks
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    FileChangedError,
    InvalidArrowError,
    NoTableError,
    NotArrowError,
    NoTensorError,
    printable,
)
from spark_arrow_ipc.ipc.batch_reader import NumberedBatches

_LOG: Final = logging.getLogger(__name__)

CORRUPT: Final = (InvalidArrowError, NoTableError, NoTensorError, OSError)
"""Errors of a file that cannot be read as a table or tensors. A missing file is handled before these."""


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """The errors of files that a scan skips. None by default."""

    ignore_corrupt_files: bool = False  # skip the rest of a broken file, and keep the rows that were read before it
    ignore_missing_files: bool = False  # skip files that were removed after the listing
    recover: bool = False  # read the complete record batches of a truncated file

    @property
    def skips_corrupt(self) -> bool:
        """True if a scan goes on after a broken file."""
        return self.ignore_corrupt_files or self.recover

    def skips(self, error: Exception) -> bool:
        """Return whether a file that cannot be opened because of this error is skipped."""
        if isinstance(error, FileChangedError):
            return self.ignore_missing_files
        return self.skips_corrupt and isinstance(error, CORRUPT)

    @property
    def skips_any(self) -> bool:
        """True if a plan ignores files that cannot be read; the scan decides on them."""
        return self.skips_corrupt or self.ignore_missing_files


STRICT: Final = ErrorPolicy()
"""No error is skipped."""


def add_advice(error: Exception) -> Exception:
    """Return the error of one of several files; if it is not an Arrow file, with advice on how to leave it out."""
    if not isinstance(error, NotArrowError):
        return error
    advice = f"{error.found}. To read only files of certain names set the option pathGlobFilter, such as *.arrow"
    return NotArrowError(expected=error.expected, found=advice, path=error.path, byte_offset=error.byte_offset)


def read_on(
    read: Callable[[int], Blocks], start: int, policy: Callable[[int, Exception], int | None]
) -> Iterator[tuple[int, BlockRows]]:
    """Yield rows with the number of their record batch; on errors go on where the policy decides, or stop if it returns None."""
    number: int | None = start
    while number is not None:
        try:
            for rows in read(number):
                yield number, rows
                number += rows.blocks_ended
        except CORRUPT as error:
            number = policy(number, error)
        else:
            return


def report_missing(path: str) -> None:
    """Warn that a file is gone."""
    _LOG.warning(
        "%s: the file is gone since this read was planned; skipped, as ignoreMissingFiles asks", printable(path)
    )


def report_skipped(path: str, error: BaseException, why: str) -> None:
    """Warn that a file is skipped from its start."""
    _LOG.warning(
        "%s: skipped from its start, as %s asks; how many rows that loses is not known: %s",
        printable(path),
        why,
        _message(error),
    )


def report_rest(path: str, blocks: range, rows: int | None, error: BaseException, why: str) -> None:
    """Warn that some record batches of a file are skipped."""
    what = "the bytes after its last complete record batch"
    if blocks:
        last = blocks[-1]
        numbers = f"record batch {last}" if len(blocks) == 1 else f"record batches {blocks[0]} to {last}"
        what = f"{numbers} ({'an unknown number of' if rows is None else f'{rows:,}'} rows)"
    _LOG.warning("%s: skipped %s, as %s asks: %s", printable(path), what, why, _message(error))


def rows_of(reader: NumberedBatches, blocks: Sequence[int]) -> int | None:
    """Return the number of rows in the headers of record batches; None if one is unreadable."""
    try:
        return sum(reader.row_counts(blocks))
    except (ArrowIpcError, OSError):
        return None


def _message(error: BaseException) -> str:
    return printable(str(error)) or type(error).__name__
