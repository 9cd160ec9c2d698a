"""Read a stream ahead, where each read waits for a network.

A stream is read from its start to its end, and only its messages tell where the next one is. So its bytes are fetched in
pieces of one size, some ahead of the message that is decoded. With a projection, too: to skip the other columns would be
two waits a message, one after the other.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from spark_arrow_ipc.ipc.bytes.prefetch import PIECE_NBYTES, Fetch, Prefetch
from spark_arrow_ipc.ipc.constants import NO_BYTES
from spark_arrow_ipc.storage.byte_source import ByteSource, ExactReads, new_buffer

PIECES_AHEAD: Final = 6
"""With the one that is waited for 56 MiB."""

PIECES_AHEAD_OF_PART: Final = 2
"""The same for a part of a stream: after its end they are read in vain."""


class StreamAhead(ExactReads):
    """A `ByteSource` over another one that waits, read forward from an offset on; earlier bytes are read as they come.

    Memory: the pieces that are fetched ahead, and two that were read. The one before the last is kept because small
    messages are read together, and one that was cut is read again from its start.

    Parameters
    ----------
    source
        Of the stream; closed with this one.
    start
        Byte offset of the first message that is read.
    pieces_ahead
        Most pieces that are fetched after the one that is read.
    """

    def __init__(self, source: ByteSource, start: int, pieces_ahead: int = PIECES_AHEAD) -> None:
        assert source.nbytes is not None, "a source that waits knows its length"
        self.path = source.path
        self.nbytes: int | None = source.nbytes
        self._source, self._start, self._stop = source, start, source.nbytes
        pieces = ((i, partial(self._fetch, i)) for i in range(-(-(self._stop - start) // PIECE_NBYTES)))
        self._prefetch = Prefetch(source, pieces, ahead=1 + pieces_ahead)
        self._is_ended = False
        self._kept: dict[int, memoryview] = {}
        """The last piece that was read, and the one before it."""
        self._last = 0

    def _fetch(self, i: int) -> Fetch[memoryview]:
        start = self._start + i * PIECE_NBYTES
        (data,) = yield [(start, min(PIECE_NBYTES, self._stop - start))]
        return data

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return the bytes from `byte_offset` on, at most `nbytes`: a view of a piece, or a copy from several."""
        nbytes = min(nbytes, self._stop - byte_offset)
        if nbytes <= 0:
            return NO_BYTES
        number, at = divmod(byte_offset - self._start, PIECE_NBYTES)
        if number < self._last and number not in self._kept:
            return self._source.read_up_to(byte_offset, nbytes)
        first = self._take(number)[at : at + nbytes]
        if len(first) == nbytes:
            return first
        data = new_buffer(nbytes)
        into = np.frombuffer(data, np.uint8)
        done = 0
        part = first
        while part:
            into[done : done + len(part)] = np.frombuffer(part, np.uint8)
            done += len(part)
            number += 1
            part = self._take(number)[: nbytes - done] if done < nbytes else NO_BYTES
        return data[:done].toreadonly()

    def _take(self, number: int) -> memoryview:
        """Return a piece that is kept, or a later one."""
        piece = self._kept.get(number)
        if piece is None:
            piece = None if self._is_ended else self._prefetch.take(number)
            if piece is None:  # it is read again where the error tells its place
                start = self._start + number * PIECE_NBYTES
                piece = self._source.read_up_to(start, min(PIECE_NBYTES, self._stop - start))
            before = self._kept.get(number - 1)
            self._kept = {number: piece} if before is None else {number - 1: before, number: piece}
            self._last = number
        return piece

    def end(self) -> None:
        """Fetch no more; what is read after this is read as it comes."""
        self._is_ended = True
        self._prefetch.close()

    def close(self) -> None:
        """Fetch no more, and close the source."""
        self.end()
        self._source.close()
