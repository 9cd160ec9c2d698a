"""Keep the first and the last bytes of a file whose reads wait.

A reader asks for a few bytes at both ends of a file, one after the other: the magic, the length of the footer, the
footer, the schema message. Over a network each would wait as long as a read of 64 KiB does, so the first that lies in
an end reads all of that end. A file that is no longer than this is read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Final

from spark_arrow_ipc.storage.byte_source import ByteSource, ExactReads

END_NBYTES: Final = 64 << 10
"""Bytes of each end: more than the footers of most files, and 0.7 ms of 90 MB/s."""


class KeptEnds(ExactReads):
    """A `ByteSource` that keeps the ends of another one that waits, and closes it. Several threads may read it."""

    waits = True

    def __init__(self, source: ByteSource) -> None:
        assert source.nbytes is not None, "a source that waits knows its length"
        self.path = source.path
        self.nbytes: int | None = source.nbytes
        self._source = source
        self._tail_start = max(0, source.nbytes - END_NBYTES)
        self._tail: memoryview | None = None
        self._head: memoryview | None = None
        self._lock = Lock()

    @property
    def is_small(self) -> bool:
        """Whether one read of the tail brings all bytes."""
        return not self._tail_start

    def ends_with(self, suffix: bytes) -> bool:
        """Whether these are the last bytes."""
        return bytes(self._last()[-len(suffix) :]) == suffix

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return at most `nbytes` from `byte_offset` on: a view of an end, or a read."""
        if byte_offset >= self._tail_start:
            return self._last()[byte_offset - self._tail_start :][:nbytes]
        if byte_offset + nbytes <= END_NBYTES:
            return self._first()[byte_offset : byte_offset + nbytes]
        return self._source.read_up_to(byte_offset, nbytes)

    def read_into(self, byte_offset: int, into: memoryview) -> None:
        """Fill `into` with the bytes from `byte_offset` on, as the source does where they lie in no end."""
        if byte_offset >= self._tail_start or byte_offset + len(into) <= END_NBYTES:
            super().read_into(byte_offset, into)
        else:
            self._source.read_into(byte_offset, into)

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return each (byte offset, nbytes); those that lie in no end as the source reads several at once."""
        far = [each for each in ranges if each[0] < self._tail_start and sum(each) > END_NBYTES]
        parts = dict(zip(far, self._source.read_ranges(far), strict=True)) if far else {}
        return [parts[each] if each in parts else self.read_at(*each) for each in ranges]

    def _first(self) -> memoryview:
        with self._lock:
            if self._head is None:
                self._head = self._source.read_up_to(0, END_NBYTES)
            return self._head

    def _last(self) -> memoryview:
        with self._lock:
            if self._tail is None:
                self._tail = self._source.read_up_to(self._tail_start, END_NBYTES)
            return self._tail

    def close(self) -> None:
        """Close the source."""
        self._source.close()


def keep_ends(source: ByteSource) -> ByteSource:
    """Return a source that keeps its ends, if its reads wait."""
    return KeptEnds(source) if source.waits and not isinstance(source, KeptEnds) else source
