"""The body of a message: all of it, or only the byte ranges that some columns need."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc.ipc.constants import NO_BYTES
from spark_arrow_ipc.ipc.source import ByteSource

GAP_NBYTES: Final = 64 << 10
"""Ranges closer than this are read as one: the gap costs less than a second read."""

WAITING_GAP_NBYTES: Final = 1 << 20
"""The same of a source that waits: another read costs 30 ms, which are 2.7 MB of 90 MB/s."""

WHOLE_SHARE: Final = 0.8
"""A body of which more than this share is wanted is read whole."""


@dataclass(frozen=True, slots=True)
class Body:
    """Byte ranges of a body, ascending and disjoint; usually one range of all bytes.

    `starts` count from the body's first byte, which lies at `byte_offset` of the file or stream.
    """

    starts: tuple[int, ...]
    ranges: tuple[memoryview, ...]
    byte_offset: int
    nbytes: int

    @classmethod
    def whole(cls, data: memoryview, byte_offset: int) -> Body:
        """Return `data` as a body of one range."""
        return cls((0,), (data,), byte_offset, len(data))

    def slice(self, start: int, nbytes: int) -> memoryview:
        """Return a view of a buffer, which must lie inside the body and its ranges."""
        if len(self.ranges) == 1 and self.starts[0] == 0:
            return self.ranges[0][start : start + nbytes]
        if not nbytes:
            return NO_BYTES
        i = bisect_right(self.starts, start) - 1
        start -= self.starts[i]
        return self.ranges[i][start : start + nbytes]


@dataclass(frozen=True, slots=True)
class BodyPlace:
    """The place of a body: its source, its first byte, its length."""

    source: ByteSource
    byte_offset: int
    nbytes: int


def read_body(place: BodyPlace, wanted: Sequence[tuple[int, int]] | None = None) -> Body:
    """Read the body at a place: all of it, or only the `wanted` (start, nbytes).

    Raises
    ------
    InvalidFramingError
        The bytes end before the body does.
    """
    source, byte_offset, nbytes = place.source, place.byte_offset, place.nbytes
    if wanted is None:
        return Body.whole(source.read_at(byte_offset, nbytes), byte_offset)
    ranges = ranges_to_read(wanted, nbytes, gap_nbytes(source))
    starts = tuple(start for start, _ in ranges)
    parts = source.read_ranges([(byte_offset + start, stop - start) for start, stop in ranges])
    return Body(starts, tuple(parts), byte_offset, nbytes)


def gap_nbytes(source: ByteSource) -> int:
    """Return the most bytes of a gap between ranges of a source that are read as one."""
    return WAITING_GAP_NBYTES if source.waits else GAP_NBYTES


def ranges_to_read(wanted: Sequence[tuple[int, int]], nbytes: int, gap: int) -> list[tuple[int, int]]:
    """Return the (start, stop) ranges to read of a body of `nbytes` for the wanted ones, joined across gaps."""
    ranges = join_ranges(wanted, gap)
    return [(0, nbytes)] if sum(stop - start for start, stop in ranges) > WHOLE_SHARE * nbytes else ranges


def join_ranges(wanted: Sequence[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """Return (start, stop) ranges that cover `wanted` (start, nbytes), joined across gaps of at most `gap` bytes."""
    joined: list[tuple[int, int]] = []
    for start, nbytes in sorted(wanted):
        if not nbytes:
            continue
        if joined and start - joined[-1][1] <= gap:
            joined[-1] = (joined[-1][0], max(joined[-1][1], start + nbytes))
        else:
            joined.append((start, start + nbytes))
    return joined
