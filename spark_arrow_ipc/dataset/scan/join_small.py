"""Join neighbouring record batches of few rows.

A batch costs Spark the same whether it has ten rows or ten thousand, so neighbours below a number of rows become one
batch, which knows the blocks that its rows are from. Batches with skipped blocks between them are no neighbours.
Batches of enough rows or bytes are yielded unchanged, and so are batches that cannot be joined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc.arrow.kernels.concat import concat_batches
from spark_arrow_ipc.arrow.measure import buffers_nbytes
from spark_arrow_ipc.arrow.record_batch import RecordBatch

JOINED_ROWS: Final = 10_000
"""Batches of fewer rows are joined: the number of rows that Spark puts into an Arrow batch."""

JOINED_NBYTES: Final = 64 << 20
"""Most bytes of a joined batch; a larger batch is cut for Spark."""

ENOUGH_NBYTES: Final = 4 << 20
"""A batch of this size is not joined however few its rows are: copying its bytes costs more than it saves."""


@dataclass(frozen=True, slots=True, eq=False)
class ScannedBatch:
    """Rows of one or more neighbouring blocks of a file.

    Parameters
    ----------
    batch
        The rows.
    first_block
        Number of the record batch in the file that has the first row.
    first_row
        Position of the first row in the range.
    block_rows
        Number of rows of that block, of the next one, and so on.
    """

    batch: RecordBatch
    first_block: int
    first_row: int
    block_rows: tuple[int, ...]


def join_small(
    batches: Iterator[ScannedBatch], rows: int = JOINED_ROWS, nbytes: int = JOINED_NBYTES
) -> Iterator[ScannedBatch]:
    """Yield all batches in order; join neighbours until they have `rows` rows.

    Reads one batch at a time, and none after the one that reaches `rows`. On an error, the batches before it are
    yielded first. Memory: the joined batches, twice.
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
        size = 0 if num_rows >= rows else sum(map(buffers_nbytes, scanned.batch.columns))
        if num_rows >= rows or size >= ENOUGH_NBYTES:
            yield from _joined(held)
            yield scanned
            held, held_rows, held_nbytes = [], 0, 0
            continue
        if held and (held_nbytes + size > nbytes or not _follows(scanned, held[-1])):
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
    """Yield neighbours as one batch, or as few batches as possible."""
    if len(held) <= 1:
        yield from held
        return
    try:
        batch = concat_batches([scanned.batch for scanned in held])
    except ValueError:
        # Indices or value offsets would overflow, or dictionaries differ in their order: half of them may fit.
        half = len(held) >> 1
        yield from _joined(held[:half])
        yield from _joined(held[half:])
        return
    first = held[0]
    block_rows = tuple(rows for scanned in held for rows in scanned.block_rows)
    yield ScannedBatch(batch, first.first_block, first.first_row, block_rows)


def _follows(scanned: ScannedBatch, before: ScannedBatch) -> bool:
    """Return whether no block was skipped between two batches: rows are numbered from the first block of a batch on."""
    return scanned.first_block == before.first_block + len(before.block_rows)
