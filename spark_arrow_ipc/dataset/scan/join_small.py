"""What a scan yields: open file ranges, and record batches that know which blocks they are made of.

Joining lives here as well: batches of few rows cost whoever gets them as much as large ones, so neighbours below a
number of rows are put together. Batches that have enough rows or bytes pass untouched, and so do those that cannot be
joined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.kernels.concat import concat_batches
from spark_arrow_ipc.arrow.record_batch import RecordBatch

__all__ = ["ENOUGH_NBYTES", "JOINED_NBYTES", "JOINED_ROWS", "ScannedBatch", "join_small"]

JOINED_ROWS: Final = 10_000
"""Rows below which a batch is joined with its neighbours: as many as Spark itself puts into an Arrow batch."""

JOINED_NBYTES: Final = 64 << 20
"""Most bytes that are joined: what a batch may have before it is cut for Spark."""

ENOUGH_NBYTES: Final = 4 << 20
"""A batch of so many bytes comes alone however few its rows are: joining copies them, and would cost more."""


@dataclass(frozen=True, slots=True, eq=False)
class ScannedBatch:
    """Rows of one or more neighbouring blocks of a file.

    Parameters
    ----------
    batch
        The rows.
    first_block
        Number of the record batch of the file that the first row is from.
    first_row
        How many rows of the range come before.
    block_rows
        How many rows are of that block, of the next one, and so on.
    """

    batch: RecordBatch
    first_block: int
    first_row: int
    block_rows: tuple[int, ...]


def join_small(
    batches: Iterator[ScannedBatch], rows: int = JOINED_ROWS, nbytes: int = JOINED_NBYTES
) -> Iterator[ScannedBatch]:
    """Yield all batches in order; neighbours below `rows` rows are joined until they have as many.

    Reads one batch at a time, and none beyond the one that fills. What came before an error is yielded before the
    error is raised. Memory: what is joined, twice.

    Parameters
    ----------
    batches
        In the order of the file.
    rows
        Batches of fewer rows are joined, unless they have `ENOUGH_NBYTES`; 0 or 1 for none.
    nbytes
        Most bytes that are joined.
    """
    held: list[ScannedBatch] = []
    held_rows = held_nbytes = 0
    iterator = iter(batches)
    while True:
        try:
            scanned = next(iterator, None)
        except BaseException:
            yield from _joined(held)
            raise
        if scanned is None:
            break
        num_rows = scanned.batch.num_rows
        size = 0 if num_rows >= rows else sum(map(_nbytes, scanned.batch.columns))
        if num_rows >= rows or size >= ENOUGH_NBYTES:
            yield from _joined(held)
            yield scanned
            held, held_rows, held_nbytes = [], 0, 0
            continue
        if held and held_nbytes + size > nbytes:
            yield from _joined(held)
            held, held_rows, held_nbytes = [], 0, 0
        held.append(scanned)
        held_rows += num_rows
        held_nbytes += size
        if held_rows >= rows:
            yield from _joined(held)
            held, held_rows, held_nbytes = [], 0, 0
    yield from _joined(held)


def _joined(held: Sequence[ScannedBatch]) -> Iterator[ScannedBatch]:
    """Yield neighbours as one batch, or as few as can be made of them."""
    if len(held) <= 1:
        yield from held
        return
    try:
        batch = concat_batches([scanned.batch for scanned in held])
    except ValueError:
        # Indices or value offsets would not fit, or dictionaries have orders of their own: fewer may.
        half = len(held) >> 1
        yield from _joined(held[:half])
        yield from _joined(held[half:])
        return
    first = held[0]
    block_rows = tuple(rows for scanned in held for rows in scanned.block_rows)
    yield ScannedBatch(batch, first.first_block, first.first_row, block_rows)


def _nbytes(array: Array) -> int:
    """Return the bytes of the buffers, used or not; dictionaries not counted. O(buffers)."""
    own = sum(buffer.nbytes for buffer in array.buffers if buffer is not None)
    return own + sum(map(_nbytes, array.children))
