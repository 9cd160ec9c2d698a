"""The body of a message: all bytes, or only the ranges that some columns need."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from spark_arrow_ipc.ipc.constants import NO_BYTES
from spark_arrow_ipc.storage.byte_source import ByteSource, ExactReads

GAP_NBYTES: Final = 64 << 10
"""Ranges closer than this are read as one: the gap costs less than a second read."""

WAITING_GAP_NBYTES: Final = 1 << 20
"""The same of a source that waits: another read costs 30 ms, which are 2.7 MB of 90 MB/s."""

WHOLE_SHARE: Final = 0.8
"""A body is read at once if more than this share is needed."""


class Body(Protocol):
    """The bytes of a body, by its buffers."""

    @property
    def byte_offset(self) -> int:
        """The position of the first byte in the file or stream; 0 for bodies in memory."""

    @property
    def nbytes(self) -> int:
        """The bytes of the complete body."""

    def buffer(self, number: int, start: int, nbytes: int) -> memoryview:
        """Return a view of the buffer `number`, with `nbytes` from `start` on by the metadata."""

    def buffers(self, places: Sequence[Sequence[int]]) -> list[memoryview]:
        """Return views of all buffers, by (start, nbytes) of each."""


# Named tuples, because a frozen dataclass takes a noticeable part of the time of a tiny batch.
class BodyRanges(NamedTuple):
    """Byte ranges of a body, ascending and disjoint; usually one range of all bytes."""

    starts: tuple[int, ...]  # from the body's first byte
    ranges: tuple[memoryview, ...]
    byte_offset: int  # of the body's first byte in the file or stream
    nbytes: int

    @classmethod
    def whole(cls, data: memoryview, byte_offset: int) -> BodyRanges:
        """Return `data` as a body of one range."""
        return cls((0,), (data,), byte_offset, len(data))

    def slice(self, start: int, nbytes: int) -> memoryview:
        """Return a view of a buffer inside the body and its ranges."""
        if len(self.ranges) == 1 and self.starts[0] == 0:
            return self.ranges[0][start : start + nbytes]
        if not nbytes:  # an empty buffer may be in no range
            return NO_BYTES
        i = bisect_right(self.starts, start) - 1
        start -= self.starts[i]
        return self.ranges[i][start : start + nbytes]

    def buffer(self, _: int, start: int, nbytes: int) -> memoryview:
        """Return a view of a buffer inside the body and its ranges."""
        return self.slice(start, nbytes)

    def buffers(self, places: Sequence[Sequence[int]]) -> list[memoryview]:
        """Return views of all buffers of a complete body."""
        data = self.ranges[0]
        return [data[start : start + nbytes] for start, nbytes in places]


@dataclass(frozen=True, slots=True)
class BufferList:
    """A body whose buffers are anywhere in memory (Dissociated IPC), each as long as in the metadata or longer."""

    views: tuple[memoryview, ...]
    nbytes: int
    byte_offset: int = 0

    def buffer(self, number: int, _: int, nbytes: int) -> memoryview:
        """Return the first `nbytes` bytes of a buffer."""
        return self.views[number][:nbytes]

    def buffers(self, places: Sequence[Sequence[int]]) -> list[memoryview]:
        """Return all buffers, each as long as in the metadata."""
        return [view[:nbytes] for view, (_, nbytes) in zip(self.views, places, strict=True)]

    def read(self, _: Sequence[tuple[int, int]] | None = None) -> Body:
        """Return the body itself: it is in memory."""
        return self

    def held(self) -> BufferList:
        """Return the body itself: it is in memory."""
        return self


class Window(ExactReads):
    """A `ByteSource` over bytes of another one that are already in memory."""

    waits = False

    def __init__(self, source: ByteSource, byte_offset: int, data: memoryview) -> None:
        self.path = source.path
        self.nbytes = source.nbytes
        self._byte_offset = byte_offset
        self._data = data

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return a view of the bytes from `byte_offset` on, inside the window."""
        start = byte_offset - self._byte_offset
        return self._data[start : start + nbytes]

    read_at = read_up_to

    def close(self) -> None:
        """Do nothing: the source belongs to the reader."""


class AnyPlace(Protocol):
    """The place of a body, until it is read."""

    @property
    def nbytes(self) -> int:
        """The bytes of the complete body."""

    def read(self, extents: Sequence[tuple[int, int]] | None = None) -> Body:
        """Return the body: all bytes, or only the `extents` (start, nbytes)."""

    def held(self) -> AnyPlace:
        """Return the place of the body in memory, so that it can be decoded after the source has moved on."""


class BodyPlace(NamedTuple):
    """The place of a body: its source, its first byte, its length."""

    source: ByteSource
    byte_offset: int
    nbytes: int

    def read(self, extents: Sequence[tuple[int, int]] | None = None) -> Body:
        """Read the body: all bytes, or only the `extents` (start, nbytes)."""
        source, byte_offset, nbytes = self
        if extents is None:
            return BodyRanges.whole(source.read_at(byte_offset, nbytes), byte_offset)
        ranges = ranges_to_read(extents, nbytes, gap_nbytes(source))
        starts = tuple(start for start, _ in ranges)
        parts = source.read_ranges([(byte_offset + start, stop - start) for start, stop in ranges])
        return BodyRanges(starts, tuple(parts), byte_offset, nbytes)

    def held(self) -> BodyPlace:
        """Read the complete body; return its place in memory."""
        data = self.source.read_at(self.byte_offset, self.nbytes)
        return BodyPlace(Window(self.source, self.byte_offset, data), self.byte_offset, self.nbytes)


def gap_nbytes(source: ByteSource) -> int:
    """Return the most bytes between two ranges of a source that one read includes."""
    return WAITING_GAP_NBYTES if source.waits else GAP_NBYTES


def ranges_to_read(extents: Sequence[tuple[int, int]], nbytes: int, gap: int) -> list[tuple[int, int]]:
    """Return the (start, stop) ranges to read in a body of `nbytes` for some extents, joined across gaps."""
    ranges = join_ranges(extents, gap)
    return [(0, nbytes)] if sum(stop - start for start, stop in ranges) > WHOLE_SHARE * nbytes else ranges


def join_ranges(extents: Sequence[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """Return (start, stop) ranges that cover `extents` (start, nbytes), joined across gaps of at most `gap` bytes."""
    joined: list[tuple[int, int]] = []
    for start, nbytes in sorted(extents):  # the columns of a selection, and their buffers, come in any order
        if not nbytes:
            continue
        if joined and start - joined[-1][1] <= gap:
            joined[-1] = (joined[-1][0], max(joined[-1][1], start + nbytes))
        else:
            joined.append((start, start + nbytes))
    return joined


class Fetched(ExactReads):
    """A `ByteSource` over another one with ranges in memory; other bytes are read from it."""

    waits = True

    def __init__(self, source: ByteSource, starts: Sequence[int], parts: Sequence[memoryview]) -> None:
        self.path, self.nbytes = source.path, source.nbytes
        self._source, self._starts, self._parts = source, starts, parts

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return a view of the bytes from `byte_offset` on, or a read."""
        held = self.held(byte_offset, nbytes)
        return self._source.read_up_to(byte_offset, nbytes) if held is None else held

    def held(self, byte_offset: int, nbytes: int) -> memoryview | None:
        """Return a view of bytes in memory, or None."""
        last = bisect_right(self._starts, byte_offset) - 1
        for i in (last, 0)[: len(self._starts)]:
            start = byte_offset - self._starts[i]
            if 0 <= start <= len(self._parts[i]) - nbytes:
                return self._parts[i][start : start + nbytes]
        return None

    def close(self) -> None:
        """Do nothing: the source belongs to the reader."""
