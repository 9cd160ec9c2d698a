"""Read the bytes of a file's record batches ahead (`Prefetch`), where each read waits for a network.

Strategy
--------
A batch of which all columns are read, or that is small, is one range. Small neighbours are one range together. Of a
larger batch with a projection the first 16 KiB are read, which hold its header and often more, and then the ranges of
the columns: two waits, for which several batches are under way at once.

What is read ahead is bytes only. They are decoded by the thread that takes them, in the order of the batches, as bytes
from a disk are; so are the errors in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.ipc.bytes.ahead import AHEAD_NBYTES, PIECE_NBYTES, Fetch, Prefetch
from spark_arrow_ipc.ipc.bytes.body import GAP_NBYTES, WAITING_GAP_NBYTES, Fetched, Window, join_ranges
from spark_arrow_ipc.ipc.columns.projection import SelectedColumns
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.messages.footer import Block
from spark_arrow_ipc.ipc.messages.framing import split_block
from spark_arrow_ipc.ipc.messages.message import RecordBatchHeader, decode_message, expect
from spark_arrow_ipc.storage.byte_source import ByteSource

_HEADER_NBYTES: Final = 16 << 10
"""Bytes that are read of a batch to know where its columns are."""

_GROUP_NBYTES: Final = 4 << 20
"""Most bytes of small neighbours that are read together."""

_WHOLE_BATCHES: Final = 4
_PROJECTED_BATCHES: Final = 8
"""Most batches under way. Of projected ones few bytes are read, in two waits."""


def windows(
    count: int, take: Callable[[int], tuple[int, ByteSource] | None] | None
) -> Iterator[tuple[int, ByteSource | None]]:
    """Yield the number of each record batch, and its bytes if they were read ahead."""
    stop, window = 0, None
    for i in range(count):
        if take is not None and i >= stop:
            stop, window = take(i) or (i + 1, None)
        yield i, window


def small_neighbours(blocks: Sequence[Block], numbers: range, *, small: int, most: int) -> int:
    """Count the first record batches of `numbers` that are worth one read together, at least one."""
    nbytes, next_offset = 0, blocks[numbers.start].byte_offset
    for i in numbers:
        block = blocks[i]
        nbytes += block.nbytes
        if block.byte_offset != next_offset or block.nbytes > small or nbytes > most:
            return max(i - numbers.start, 1)
        next_offset += block.nbytes
    return len(numbers)


class BatchesAhead:
    """The bytes of record batches that will be read, fetched ahead of their use.

    Parameters
    ----------
    source
        Of the file; it waits.
    blocks
        Of all record batches of the file.
    columns
        That are read.
    numbers
        Record batches that will be read, rising.
    """

    def __init__(
        self, source: ByteSource, blocks: Sequence[Block], columns: SelectedColumns, numbers: Sequence[int]
    ) -> None:
        self._source, self._blocks, self._columns = source, blocks, columns
        ahead = _WHOLE_BATCHES if columns.is_whole else _PROJECTED_BATCHES
        self._prefetch = Prefetch(source, self._jobs(numbers), ahead=ahead)
        self.close = self._prefetch.close

    def take(self, number: int) -> tuple[int, ByteSource] | None:
        """Return the bytes of a record batch and of its small neighbours, and the number after the last of them.

        None if they are not known; then whoever reads them gets them, or the error.
        """
        return self._prefetch.take(number)

    def _jobs(self, numbers: Sequence[int]) -> Iterator[tuple[int, partial[Fetch[tuple[int, ByteSource] | None]]]]:
        at = 0
        while at < len(numbers):
            start = stop = numbers[at]
            while at < len(numbers) and numbers[at] == stop:
                at, stop = at + 1, stop + 1
            while start < stop:
                count = small_neighbours(self._blocks, range(start, stop), small=WAITING_GAP_NBYTES, most=_GROUP_NBYTES)
                block = self._blocks[start]
                is_whole = self._columns.is_whole or block.nbytes <= WAITING_GAP_NBYTES
                yield start, partial(self._whole, start, start + count) if is_whole else partial(self._ranges, start)
                start += count

    def _whole(self, start: int, stop: int) -> Fetch[tuple[int, ByteSource] | None]:
        head, tail = self._blocks[start], self._blocks[stop - 1]
        if head.body_nbytes > self._columns.limits.max_batch_bytes:
            return None  # no memory is taken for it; reading it raises the error
        (data,) = yield [(head.byte_offset, tail.byte_offset + tail.nbytes - head.byte_offset)]
        return stop, Window(self._source, head.byte_offset, data)

    def _ranges(self, number: int) -> Fetch[tuple[int, ByteSource] | None]:
        block, limits = self._blocks[number], self._columns.limits
        if block.metadata_nbytes > limits.max_metadata_bytes or block.body_nbytes > limits.max_batch_bytes:
            return None
        head_nbytes = min(max(block.metadata_nbytes, _HEADER_NBYTES), block.nbytes)
        (head,) = yield [(block.byte_offset, head_nbytes)]
        ranges = [(start, nbytes) for start, nbytes in self._wanted(block, head) if start + nbytes > head_nbytes]
        places = [(block.byte_offset + start, nbytes) for start, nbytes in ranges]
        parts = (yield places) if places else ()
        starts = [block.byte_offset, *(start for start, _ in places)]
        return number + 1, Fetched(self._source, starts, [head, *parts])

    def _wanted(self, block: Block, head: memoryview) -> list[tuple[int, int]]:
        """Return the ranges that a batch's columns need, from its first byte on; none if its header is broken."""
        try:
            metadata = head[: block.metadata_nbytes]
            message = decode_message(split_block(metadata, block), self._columns.limits)
            expect(message, MessageHeader.RecordBatch, RecordBatchHeader)
            ranges = self._columns.wanted_ranges(message, WAITING_GAP_NBYTES)
        except ArrowIpcError:  # reading the header again raises it, with its place
            return []
        return [(block.metadata_nbytes + start, stop - start) for start, stop in ranges if stop <= block.body_nbytes]


def with_blocks(source: ByteSource, blocks: Sequence[Block]) -> ByteSource:
    """Return a source with some blocks in memory: small ones whole, of others the headers. `source` if it does not wait."""
    if not source.waits:
        return source
    places = join_ranges([(block.byte_offset, block.nbytes) for block in blocks], WAITING_GAP_NBYTES)
    if sum(stop - start for start, stop in places) > PIECE_NBYTES:
        return with_headers(source, blocks)
    return _with_ranges(source, places)


def with_headers(source: ByteSource, blocks: Sequence[Block]) -> ByteSource:
    """Return a source with the headers of blocks in memory; `source` if it does not wait, or they are very large."""
    if not source.waits:
        return source
    return _with_ranges(
        source, join_ranges([(block.byte_offset, block.metadata_nbytes) for block in blocks], GAP_NBYTES)
    )


def _with_ranges(source: ByteSource, places: Sequence[tuple[int, int]]) -> ByteSource:
    if not places or sum(stop - start for start, stop in places) > AHEAD_NBYTES:
        return source
    parts = source.read_ranges([(start, stop - start) for start, stop in places])
    return Fetched(source, [start for start, _ in places], parts)
