"""`ObjectSource`: the bytes of one object, in ranges.

Strategy
--------
Each request waits about 30 ms for its first byte, and one connection carries about 90 MB/s. Hence

- whoever wants a byte near the end gets the last `TAIL_NBYTES` with it, once: that is the footer of almost all files,
  and all of a small one;
- a long range is read in pieces by several threads at once;
- every request names the version that the listing saw, so that a replaced object is an error and never half of two.

Ranges are requested one by one: the library joins neighbours into one long request, which reads what lies between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import starmap
from threading import Lock
from typing import Final

from spark_arrow_ipc.storage.byte_source import ExactReads, new_buffer

TAIL_NBYTES: Final = 64 << 10
"""It holds every footer with statistics that was seen, and costs no more than 8 KiB: waiting is what costs."""

PIECE_NBYTES: Final = 8 << 20
"""Bytes of one request of a long range."""

_THREADS: Final = 8
"""Requests of one source at once."""


class ObjectSource(ExactReads):
    """An object, read with ranged requests. Several threads may read at once.

    Parameters
    ----------
    fetch
        Fills memory with the bytes from an offset on, of the version that is meant. Raises what the reader's caller
        shall see.
    path
        For errors.
    nbytes
        Size of the object.
    """

    waits = True

    def __init__(self, fetch: Callable[[int, memoryview], None], path: str, nbytes: int) -> None:
        self._fetch = fetch
        self.path: str | None = path
        self.nbytes: int | None = nbytes
        self._tail_start = max(0, nbytes - TAIL_NBYTES)
        self._tail: memoryview | None = None
        self._lock = Lock()
        self._pool: ThreadPoolExecutor | None = None

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return the bytes from `byte_offset` on, at most `nbytes`. One request for each 8 MiB, 8 at once."""
        assert self.nbytes is not None
        stop = min(byte_offset + nbytes, self.nbytes)
        if stop <= byte_offset:
            return memoryview(b"")
        if byte_offset >= self._tail_start:
            tail = self._last()
            return tail[byte_offset - self._tail_start : stop - self._tail_start]
        data = new_buffer(stop - byte_offset)
        if len(data) <= PIECE_NBYTES:
            self._fetch(byte_offset, data)
        else:
            starts = range(0, len(data), PIECE_NBYTES)
            pieces = [(byte_offset + start, data[start : start + PIECE_NBYTES]) for start in starts]
            list(self._threads().map(self._fetch, *zip(*pieces, strict=True)))
        return data.toreadonly()

    def read_into(self, byte_offset: int, into: memoryview) -> None:
        """Fill `into`, by one request: its bytes are stored as they come, and no second copy is held.

        Raises
        ------
        InvalidFramingError
            The object ends before.
        """
        assert self.nbytes is not None
        if byte_offset + len(into) > self._tail_start:
            super().read_into(byte_offset, into)
        else:
            self._fetch(byte_offset, into)

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return each (byte offset, nbytes), several at once.

        Raises
        ------
        InvalidFramingError
            The object ends before.
        """
        if len(ranges) < 2 or any(nbytes > PIECE_NBYTES for _, nbytes in ranges):
            return list(starmap(self.read_at, ranges))
        return list(self._threads().map(self.read_at, *zip(*ranges, strict=True)))

    def close(self) -> None:
        """Wait for nothing and keep nothing; reading afterwards is an error."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
        self._tail = None

    def _last(self) -> memoryview:
        with self._lock:
            if self._tail is None:
                assert self.nbytes is not None
                tail = new_buffer(self.nbytes - self._tail_start)
                self._fetch(self._tail_start, tail)
                self._tail = tail.toreadonly()
            return self._tail

    def _threads(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_THREADS, "arrowipc-ranges")
            return self._pool
