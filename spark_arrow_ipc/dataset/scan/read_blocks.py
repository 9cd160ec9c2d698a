"""Read the record batches of a file: small ones together, large ones in pieces, and open the next files ahead.

A batch costs Spark the same whether it has ten rows or ten thousand: neighbours of few rows are joined.
A table may be written as one batch of gigabytes: if its rows can be read separately, it is read in pieces that reuse a few
megabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Final, TypeAlias, TypeVar

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.kernels.concat import concat_batches
from spark_arrow_ipc.arrow.measure import buffers_nbytes
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.errors import error_context
from spark_arrow_ipc.ipc.batch_reader import BatchesAhead
from spark_arrow_ipc.ipc.bytes.ahead import Ahead
from spark_arrow_ipc.ipc.bytes.body import GAP_NBYTES
from spark_arrow_ipc.ipc.columns.row_ranges import ROW_ALIGNMENT

LARGE_NBYTES: Final = 32 << 20
"""A record batch with a larger body is read in pieces."""

WAITING_LARGE_NBYTES: Final = 128 << 20
"""The same where reads wait: a complete batch is read by fewer and longer reads than pieces."""

PIECE_NBYTES: Final = 4 << 20
"""Approximate bytes of a piece. A piece of very many columns is larger, so that no read is tiny."""

WAITING_PIECE_NBYTES: Final = 64 << 20
"""The same where reads wait: two waits or more a piece, and a read for each of its buffers."""


@dataclass(frozen=True, slots=True, eq=False)
class BlockRows:
    """Rows of one or more neighbouring blocks of a file; or blocks that are skipped."""

    batch: RecordBatch | None  # the rows; None for blocks that are skipped
    counts: tuple[int, ...]  # number of rows of the first block, of the next one, and so on; also of skipped blocks
    blocks_ended: int  # number of blocks that end with these rows; 0 for a piece that is not the last of its block


Blocks: TypeAlias = Iterator[BlockRows]
"""The rows of neighbouring blocks, in order."""


def _is_in_pieces(reader: ipc.FileReader, i: int, rows: tuple[int, int] | None) -> bool:
    most = WAITING_LARGE_NBYTES if reader.waits else LARGE_NBYTES
    return rows is not None or reader.blocks[i].body_nbytes > most


@contextmanager
def read_ahead(
    reader: ipc.FileReader, numbers: Sequence[int], rows: tuple[int, int] | None
) -> Iterator[BatchesAhead | None]:
    """Read record batches ahead that `read_run` will read, until the context ends; None where reads do not wait."""
    complete = [i for i in numbers if not _is_in_pieces(reader, i, rows)] if reader.waits else ()
    ahead = reader.read_ahead(complete)
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
    for in_pieces, run in groupby(blocks, lambda i: _is_in_pieces(reader, i, rows)):
        numbers = list(run)
        if in_pieces:
            for i in numbers:
                yield from _read_pieces(reader, i, rows)
        else:
            joined = reader.read_joined(numbers[0], numbers[-1] + 1, below_rows=below_rows, ahead=ahead)
            yield from complete_blocks(joined)


def complete_blocks(batches: Iterator[tuple[RecordBatch, tuple[int, ...]]]) -> Blocks:
    """Return the batches of `ipc.FileReader.read_joined`, each of complete blocks."""
    return (BlockRows(batch, counts, len(counts)) for batch, counts in batches)


def _read_pieces(reader: ipc.FileReader, i: int, rows: tuple[int, int] | None) -> Blocks:
    source = reader.batch_rows(i)
    if source is None:  # compressed, or of a layout whose rows cannot be read separately
        batch = reader.read_batch(i)
        if rows is not None:
            batch = batch.slice(rows[0], rows[1] - rows[0])
        yield BlockRows(batch, (batch.num_rows,), 1)
        return
    first, last = (0, source.num_rows) if rows is None else rows
    if first == last:
        yield BlockRows(None, (0,), 1)
    # Not below one gap for each buffer: shorter reads of neighbouring buffers would be one read all the same.
    nbytes = max(WAITING_PIECE_NBYTES if reader.waits else PIECE_NBYTES, source.num_buffers * GAP_NBYTES)
    # Aligned, so that no piece begins inside a byte of a bitmap.
    step = max(1, nbytes * source.num_rows // max(1, source.nbytes) // ROW_ALIGNMENT) * ROW_ALIGNMENT
    with error_context(
        path=reader.path, block_kind="record batch", block_number=i, byte_offset=reader.blocks[i].byte_offset
    ):
        for start in range(first, last, step):
            stop = min(start + step, last)
            yield BlockRows(source.read(start, stop), (stop - start,), int(stop == last))


FILES_AHEAD: Final = 8
"""Files that are opened before their turn; the last 64 KiB of each are held in memory."""

_Item = TypeVar("_Item")
_Opened = TypeVar("_Opened")


def in_turn(
    items: Sequence[_Item], opens: Callable[[_Item], _Opened], closes: Callable[[_Opened], None], *, waits: bool
) -> Generator[tuple[_Item, Callable[[], _Opened]], None, None]:
    """Yield each item with a function that opens it, or returns it if a thread has opened it meanwhile.

    Call the function once, before the next item is requested; it raises the errors of opening. Closing the generator
    closes the items that were opened and never requested.
    """
    if not waits or len(items) < 2:
        for item in items:
            yield item, partial(opens, item)
        return
    with closing(
        Ahead((partial(opens, item) for item in items), FILES_AHEAD, "arrow-ipc-open", discard=closes)
    ) as ahead:
        for item in items:
            opened = ahead.take()
            assert opened is not None, "there is a result of each"
            yield item, opened


JOINED_ROWS: Final = 10_000
"""Batches of fewer rows are joined: the number of rows that Spark puts into an Arrow batch."""

JOINED_NBYTES: Final = 64 << 20
"""Most bytes of a joined batch; a larger batch is cut for Spark."""

ENOUGH_NBYTES: Final = 4 << 20
"""A batch of this size is not joined however few its rows are: copying its bytes costs more than it saves."""


@dataclass(frozen=True, slots=True, eq=False)
class ScannedBatch:
    """Rows of one or more neighbouring blocks of a file."""

    batch: RecordBatch
    first_block: int  # number of the record batch in the file that has the first row
    first_row: int  # position of the first row in the range
    block_rows: tuple[int, ...]  # number of rows of that block, of the next one, and so on


def join_small(
    batches: Iterator[ScannedBatch], rows: int = JOINED_ROWS, nbytes: int = JOINED_NBYTES
) -> Iterator[ScannedBatch]:
    """Yield all batches in order; join neighbours until they have `rows` rows. Memory: the joined batches, twice."""
    held: list[ScannedBatch] = []
    held_rows = held_nbytes = 0
    iterator = iter(batches)
    while True:
        try:
            scanned = next(iterator, None)
        except BaseException:
            yield from _join(held)  # the rows before a broken batch stay
            raise
        if scanned is None:
            break
        num_rows = scanned.batch.num_rows
        # Measured only where it matters: a scan of long batches has no further cost.
        size = 0 if num_rows >= rows else sum(map(buffers_nbytes, scanned.batch.columns))
        if num_rows >= rows or size >= ENOUGH_NBYTES:
            yield from _join(held)
            yield scanned
            held, held_rows, held_nbytes = [], 0, 0
            continue
        # Rows are numbered from the first block of a batch on, so no block may be skipped inside a joined one.
        follows = not held or scanned.first_block == held[-1].first_block + len(held[-1].block_rows)
        if held and (held_nbytes + size > nbytes or not follows):
            yield from _join(held)
            held, held_rows, held_nbytes = [], 0, 0
        held.append(scanned)
        held_rows += num_rows
        held_nbytes += size
        if held_rows >= rows:
            yield from _join(held)
            held, held_rows, held_nbytes = [], 0, 0
    yield from _join(held)


def _join(held: Sequence[ScannedBatch]) -> Iterator[ScannedBatch]:
    """Yield neighbours as one batch, or as a few if they cannot be joined."""
    if len(held) <= 1:
        yield from held
        return
    try:
        batch = concat_batches([scanned.batch for scanned in held])
    except ValueError:
        # Indices or value offsets would overflow, or dictionaries differ in their order: half of them may fit.
        half = len(held) >> 1
        yield from _join(held[:half])
        yield from _join(held[half:])
        return
    first = held[0]
    block_rows = tuple(rows for scanned in held for rows in scanned.block_rows)
    yield ScannedBatch(batch, first.first_block, first.first_row, block_rows)
