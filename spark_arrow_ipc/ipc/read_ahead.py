"""Small neighbours read together: one read of a piece instead of four for every small message.

Memory: one piece. What lies beyond a piece, or is larger than one, is read from the source as it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spark_arrow_ipc.ipc.source import ByteSource, FileSource, SeekableSource

HEADERS_NBYTES: Final = 8 << 10
"""A piece that holds the metadata of most messages: what a walk reads that passes the bodies by."""

_FIRST_NBYTES: Final = 64 << 10
MOST_NBYTES: Final = 1 << 20
"""Pieces of small messages grow from the first size to this one."""

SMALL_NBYTES: Final = 256 << 10
"""Larger messages are worth a read of their own."""


class ReadAhead:
    """A `ByteSource` over another one, which it reads in pieces and closes.

    Parameters
    ----------
    source
        What is read.
    piece_nbytes
        How much is read at least.
    """

    def __init__(self, source: ByteSource, piece_nbytes: int = HEADERS_NBYTES) -> None:
        self.path = source.path
        self.nbytes = source.nbytes
        self._source = source
        self._piece_nbytes = piece_nbytes
        self._start = 0
        self._piece = memoryview(b"")

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return the bytes from `byte_offset` on, at most `nbytes`: a view of the piece, or a read of its own."""
        start = byte_offset - self._start
        if start >= 0 and start + nbytes <= len(self._piece):
            return self._piece[start : start + nbytes]
        if nbytes >= self._piece_nbytes:
            return self._source.read_up_to(byte_offset, nbytes)
        self._piece = self._source.read_up_to(byte_offset, self._piece_nbytes)
        self._start = byte_offset
        return self._piece[:nbytes]

    def read_at(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return exactly `nbytes` bytes from `byte_offset` on.

        Raises
        ------
        InvalidFramingError
            The bytes end before.
        """
        data = self.read_up_to(byte_offset, nbytes)
        return data if len(data) == nbytes else self._source.read_at(byte_offset, nbytes)

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return each range of (byte offset, bytes): of the piece where it holds them all, else of the source."""
        if all(len(self.held(byte_offset)) >= nbytes for byte_offset, nbytes in ranges):
            return [self.read_up_to(byte_offset, nbytes) for byte_offset, nbytes in ranges]
        return self._source.read_ranges(ranges)

    def held(self, byte_offset: int) -> memoryview:
        """Return what of the piece lies from `byte_offset` on; nothing is read."""
        start = byte_offset - self._start
        return self._piece[start:] if 0 <= start < len(self._piece) else memoryview(b"")

    def refill(self, byte_offset: int) -> memoryview:
        """Return what is held from `byte_offset` on, after another read where that gives more."""
        held = self.held(byte_offset)
        if len(held) < self._piece_nbytes and (self._start != byte_offset or not held):
            self._piece = self._source.read_up_to(byte_offset, self._piece_nbytes)
            self._start = byte_offset
            return self._piece
        return held

    @property
    def expects_small(self) -> bool:
        """Whether the last message was so small that a piece is worth it."""
        return self._piece_nbytes > HEADERS_NBYTES

    def adapt(self, message_nbytes: int) -> None:
        """Set the size of the next piece after a message of so many bytes.

        Small messages make it grow. Behind a large one it holds headers only: whoever stops there, or passes the
        next body by, has read nothing in vain.
        """
        if message_nbytes > SMALL_NBYTES:
            self._piece_nbytes = HEADERS_NBYTES
        elif self._piece_nbytes < MOST_NBYTES:
            wanted = max(2 * self._piece_nbytes, 4 * message_nbytes, _FIRST_NBYTES)
            self._piece_nbytes = min(wanted, MOST_NBYTES)

    def close(self) -> None:
        """Close the source."""
        self._source.close()


def read_ahead(source: ByteSource) -> ByteSource:
    """Return a source that reads ahead, where that saves reads and waits for no byte that may never come."""
    return ReadAhead(source) if isinstance(source, FileSource | SeekableSource) else source
