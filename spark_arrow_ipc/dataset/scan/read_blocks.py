"""Read the record batches of a file: small ones together, large ones in pieces.

A table that was written in one go is one batch of gigabytes. Reading it whole would need its size in memory, and page
faults for all of it; if its rows can be read separately it is read in pieces that reuse a few megabytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Final, TypeAlias

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.errors import error_context
from spark_arrow_ipc.ipc.batches_ahead import BatchesAhead
from spark_arrow_ipc.ipc.bytes.body import GAP_NBYTES
from spark_arrow_ipc.ipc.columns.row_ranges import ROW_ALIGNMENT, BatchRows

LARGE_NBYTES: Final = 32 << 20
"""A record batch with a larger body is read in pieces."""

WAITING_LARGE_NBYTES: Final = 128 << 20
"""The same where reads wait, and a piece is many of them: a whole batch is read in fewer and longer ones."""

PIECE_NBYTES: Final = 4 << 20
"""Approximate bytes of a piece. A piece of very many columns is larger, so that no read is tiny."""

WAITING_PIECE_NBYTES: Final = 64 << 20
"""The same where reads wait: two waits or more a piece, and a read for each of its buffers."""


@dataclass(frozen=True, slots=True, eq=False)
class BlockRows:
    """Rows of one or more neighbouring blocks of a file; or blocks that are skipped.

    Parameters
    ----------
    batch
        The rows; None for blocks that are skipped.
    counts
        Number of rows of the first block, of the next one, and so on; also of skipped blocks.
    blocks_ended
        Number of blocks that end with these rows; 0 for a piece that is not the last of its block.
    """

    batch: RecordBatch | None
    counts: tuple[int, ...]
    blocks_ended: int


Blocks: TypeAlias = Iterator[BlockRows]
"""The rows of neighbouring blocks, in order."""


def _in_pieces(reader: ipc.FileReader, i: int, rows: tuple[int, int] | None) -> bool:
    most = WAITING_LARGE_NBYTES if reader.waits else LARGE_NBYTES
    return rows is not None or reader.blocks[i].body_nbytes > most


@contextmanager
def read_ahead(
    reader: ipc.FileReader, numbers: Sequence[int], rows: tuple[int, int] | None
) -> Iterator[BatchesAhead | None]:
    """Read record batches ahead that `read_run` will read, and end that; None where reads do not wait."""
    whole = [i for i in numbers if not _in_pieces(reader, i, rows)] if reader.waits else ()
    ahead = reader.read_ahead(whole)
    try:
        yield ahead
    finally:
        if ahead is not None:
            ahead.close()


def read_run(
    reader: ipc.FileReader,
    blocks: range,
    rows: tuple[int, int] | None,
    *,
    below_rows: int,
    ahead: BatchesAhead | None = None,
) -> Blocks:
    """Yield neighbouring record batches in order."""
    for in_pieces, run in groupby(blocks, lambda i: _in_pieces(reader, i, rows)):
        numbers = list(run)
        if in_pieces:
            for i in numbers:
                yield from _read_pieces(reader, i, rows)
        else:
            yield from whole_batches(
                reader.read_joined(numbers[0], numbers[-1] + 1, below_rows=below_rows, ahead=ahead)
            )


def whole_batches(batches: Iterator[tuple[RecordBatch, tuple[int, ...]]]) -> Blocks:
    """Yield the batches of `ipc.FileReader.read_joined`, each of whole blocks."""
    return (BlockRows(batch, counts, len(counts)) for batch, counts in batches)


def _read_pieces(reader: ipc.FileReader, i: int, rows: tuple[int, int] | None) -> Blocks:
    source = reader.batch_rows(i)
    if source is None:
        batch = reader.read_batch(i)
        if rows is not None:
            batch = batch.slice(rows[0], rows[1] - rows[0])
        yield BlockRows(batch, (batch.num_rows,), 1)
        return
    first, last = (0, source.num_rows) if rows is None else rows
    if first == last:
        yield BlockRows(None, (0,), 1)
    step = _piece_rows(source, WAITING_PIECE_NBYTES if reader.waits else PIECE_NBYTES)
    with error_context(
        path=reader.path, block_kind="record batch", block_number=i, byte_offset=reader.blocks[i].byte_offset
    ):
        for start in range(first, last, step):
            stop = min(start + step, last)
            yield BlockRows(source.read(start, stop), (stop - start,), int(stop == last))


def _piece_rows(source: BatchRows, least_nbytes: int) -> int:
    nbytes = max(least_nbytes, source.num_buffers * GAP_NBYTES)
    return max(1, nbytes * source.num_rows // max(1, source.nbytes) // ROW_ALIGNMENT) * ROW_ALIGNMENT
