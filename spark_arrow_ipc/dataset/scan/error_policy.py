"""What a scan puts up with, and what it says of everything that it left out.

Strategy
--------
Nothing is skipped in silence: each file or block that a scan leaves out is one warning of this module's logger, with
the path, what was left out, how many rows that is where the headers still tell, and why.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.scan.read_blocks import BlockRows, Blocks
from spark_arrow_ipc.errors import ArrowIpcError, FileChangedError, InvalidArrowError

__all__ = ["CORRUPT", "NONE", "Faults", "read_on", "report_missing", "report_rest", "report_skipped", "rows_of"]

_LOG: Final = logging.getLogger(__name__)

CORRUPT: Final = (InvalidArrowError, OSError)
"""Errors that mean that a file's bytes are not what they should be, or cannot be read; a missing file apart."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What a scan puts up with.

    Parameters
    ----------
    ignore_corrupt_files
        The rest of a file that is broken is skipped; what was read of it before is kept.
    ignore_missing_files
        Files that are gone since they were listed are skipped.
    recover
        Of a file that lost its end the batches that are whole are read.
    """

    ignore_corrupt_files: bool = False
    ignore_missing_files: bool = False
    recover: bool = False

    @property
    def skips_corrupt(self) -> bool:
        """Whether reading goes on behind a broken file."""
        return self.ignore_corrupt_files or self.recover

    def skips(self, error: Exception) -> bool:
        """Whether a file that cannot be opened for this reason is skipped."""
        if isinstance(error, FileChangedError):
            return self.ignore_missing_files
        return self.skips_corrupt and isinstance(error, CORRUPT)

    @property
    def skips_any(self) -> bool:
        """Whether planning must not stop at a file that cannot be read, because reading will not, or says it later."""
        return self.skips_corrupt or self.ignore_missing_files


NONE: Final = Faults()
"""Every fault is an error."""


def read_on(
    read: Callable[[int], Blocks], start: int, policy: Callable[[int, Exception], int | None]
) -> Iterator[tuple[int, BlockRows]]:
    """Yield the rows of a file's record batches, each with its number, and go on after an error as a policy says.

    Parameters
    ----------
    read
        Reads from the record batch of a number to the end.
    start
        Number of the first record batch.
    policy
        Called with the number of a broken record batch and the error, one of `CORRUPT`. Returns the number to go on
        with, or None to end here; raises the error if it is not to be ignored.
    """
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
    """Say that a file is gone."""
    _LOG.warning("%s: the file is gone since this read was planned; skipped, as ignoreMissingFiles asks", path)


def report_skipped(path: str, error: BaseException, why: str) -> None:
    """Say that nothing of a file can be read.

    Parameters
    ----------
    path
        Of the file.
    error
        What reading it says.
    why
        The option that asks for it to be skipped.
    """
    _LOG.warning(
        "%s: skipped from its start, as %s asks; how many rows that loses is not known: %s", path, why, _words(error)
    )


def report_rest(path: str, blocks: range, rows: int | None, error: BaseException, why: str) -> None:
    """Say that some record batches of a file were left out.

    Parameters
    ----------
    path
        Of the file.
    blocks
        Numbers of the record batches; empty where only what lies behind the last whole one is lost.
    rows
        In them, or None where that is not known.
    error
        What reading them says.
    why
        The option that asks for it.
    """
    what = "what lies behind its last whole record batch"
    if blocks:
        last = blocks[-1]
        numbers = f"record batch {last}" if len(blocks) == 1 else f"record batches {blocks[0]} to {last}"
        what = f"{numbers} ({'an unknown number of' if rows is None else f'{rows:,}'} rows)"
    _LOG.warning("%s: skipped %s, as %s asks: %s", path, what, why, _words(error))


def rows_of(reader: ipc.FileReader, blocks: Iterable[int]) -> int | None:
    """Return the rows of record batches by their headers, or None where one cannot be read."""
    try:
        return sum(reader.read_header(i).length for i in blocks)
    except (ArrowIpcError, OSError):
        return None


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
