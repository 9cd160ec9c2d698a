"""Read small neighbours together: one read of a piece instead of four for every small message.

Memory: one piece. A range that is larger than a piece is read from the source directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spark_arrow_ipc.ipc.bytes.source import SeekableSource
from spark_arrow_ipc.storage.byte_source import ByteSource
from spark_arrow_ipc.storage.local_files import FileSource

HEADERS_NBYTES: Final = 8 << 10
"""A piece that contains the metadata of most messages, for a walk that skips the bodies."""

WAITING_NBYTES: Final = 256 << 10
"""The same where each read waits: smaller messages cost no wait of their own, and larger ones 3 ms more."""

_FIRST_NBYTES: Final = 64 << 10
MOST_NBYTES: Final = 1 << 20
"""Pieces of small messages grow from the first size to this one."""

SMALL_NBYTES: Final = 256 << 10
"""Larger messages are read alone."""


class ReadAhead:
    """A `ByteSource` that reads another one in pieces of at least `piece_nbytes`, and closes it."""

    def __init__(self, source: ByteSource, piece_nbytes: int = HEADERS_NBYTES) -> None:
        self.path = source.path
        self.waits = source.waits
        self._source = source
        self._piece_nbytes = piece_nbytes
        self._start = 0
        self._piece = memoryview(b"")

    @property
    def nbytes(self) -> int | None:
        """Length of the source, which may grow."""
        return self._source.nbytes

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return at most `nbytes` from `byte_offset` on: a view of the piece, or another read."""
        start = byte_offset - self._start
        if start >= 0 and start + nbytes <= len(self._piece):
            return self._piece[start : start + nbytes]
        if nbytes >= self._piece_nbytes:
            return self._source.read_up_to(byte_offset, nbytes)
        self._piece = self._source.read_up_to(byte_offset, self._piece_nbytes)
        self._start = byte_offset
        return self._piece[:nbytes]

    def read_at(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return exactly `nbytes` bytes from `byte_offset` on."""
        data = self.read_up_to(byte_offset, nbytes)
        return data if len(data) == nbytes else self._source.read_at(byte_offset, nbytes)

    def read_into(self, byte_offset: int, into: memoryview) -> None:
        """Fill `into` with the bytes from `byte_offset` on, as the source does."""
        self._source.read_into(byte_offset, into)

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return each (byte offset, bytes): from the piece if it has them all, else from the source."""
        if all(len(self.held(byte_offset)) >= nbytes for byte_offset, nbytes in ranges):
            return [self.read_up_to(byte_offset, nbytes) for byte_offset, nbytes in ranges]
        return self._source.read_ranges(ranges)

    def held(self, byte_offset: int) -> memoryview:
        """Return the bytes of the piece from `byte_offset` on, without a read."""
        start = byte_offset - self._start
        return self._piece[start:] if 0 <= start < len(self._piece) else memoryview(b"")

    def refill(self, byte_offset: int) -> memoryview:
        """Return the bytes held from `byte_offset` on, after another read if it gives more."""
        held = self.held(byte_offset)
        if len(held) < self._piece_nbytes and (self._start != byte_offset or not held):
            self._piece = self._source.read_up_to(byte_offset, self._piece_nbytes)
            self._start = byte_offset
            return self._piece
        return held

    @property
    def expects_small(self) -> bool:
        """Whether the last messages were small enough for large pieces."""
        return self._piece_nbytes > HEADERS_NBYTES

    def adapt(self, message_nbytes: int) -> None:
        """Set the size of the next piece after a message of `message_nbytes`.

        Small messages make it grow. After a large one it is the size of headers: a caller that stops there, or skips
        the next body, has read nothing in vain.
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
    """Make a source read ahead, if that saves reads and cannot wait for bytes that never come."""
    return ReadAhead(source) if isinstance(source, FileSource | SeekableSource) else source
