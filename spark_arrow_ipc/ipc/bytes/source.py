"""Open a path, bytes or a file object as a `ByteSource`, from which the codec reads, with few reads.

A `ByteSource` (``storage/byte_source.py``) returns exact ranges, or raises an error with the position where the bytes end.
`KeptEnds` and `ReadAhead` are sources over another one: the former retains both ends of a file whose reads wait, the latter
reads small neighbours together, one read of a piece instead of four for every small message.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias, cast

from spark_arrow_ipc.storage.byte_source import BufferSource, ByteSource, ExactReads, FileSource, truncation_error
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import is_remote, plain_path

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from spark_arrow_ipc.storage.base import StorageOptions

_PIECE_NBYTES: Final = 64 << 20  # the most bytes in one read of a file object

Openable: TypeAlias = "str | os.PathLike[str] | ReadableBuffer | BinaryIO | ByteSource"
"""A path, bytes or another buffer, a binary file object (seekable or not), or a `ByteSource`."""


class SeekableSource(ExactReads):
    """A binary file object that can seek. The caller closes it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._start = file.tell()
        self._lock = Lock()
        self.path: str | None = _name_of(file)
        self.nbytes: int | None = file.seek(0, os.SEEK_END) - self._start
        file.seek(self._start)

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return at most `nbytes` from `byte_offset` on, counted from the file's first position."""
        assert self.nbytes is not None
        with self._lock:
            self._file.seek(self._start + byte_offset)
            return _read_pieces(self._file.read, min(nbytes, max(self.nbytes - byte_offset, 0)))

    def close(self) -> None:
        """Do nothing: the file object belongs to the caller."""


class ForwardSource(ExactReads):
    """A binary file object that cannot seek: ranges have to ascend. The caller closes it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._position = 0
        self._ahead = memoryview(b"")
        self.path: str | None = _name_of(file)
        self.nbytes: int | None = None

    def peek(self, nbytes: int) -> memoryview:
        """Return the next bytes, at most `nbytes`, which the next read returns again."""
        if len(self._ahead) < nbytes:
            more = _read_pieces(self._file.read, nbytes - len(self._ahead))
            self._ahead = memoryview(bytes(self._ahead) + bytes(more))
        return self._ahead[:nbytes]

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return at most `nbytes` from `byte_offset` on; earlier bytes are read and dropped."""
        assert byte_offset >= self._position, "an unseekable stream is read forward only"
        while self._position < byte_offset:  # in pieces, because a gap may be larger than the memory
            skipped = self._next(min(byte_offset - self._position, _PIECE_NBYTES))
            if not skipped:
                raise truncation_error(nbytes, 0, byte_offset, self._position)
        return self._next(nbytes)

    def _next(self, nbytes: int) -> memoryview:
        ahead, self._ahead = self._ahead[:nbytes], self._ahead[nbytes:]
        data = ahead
        if len(ahead) < nbytes:
            rest = _read_pieces(self._file.read, nbytes - len(ahead))
            data = memoryview(bytes(ahead) + bytes(rest)) if ahead else rest
        self._position += len(data)
        return data

    def close(self) -> None:
        """Do nothing: the file object belongs to the caller."""


class _Completed(ExactReads):
    """A caller's source without `read_ranges` or `waits`, which reads one range after another, and does not wait."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self.path: str | None = source.path
        self.nbytes: int | None = source.nbytes
        self.waits = getattr(source, "waits", False)
        if callable(getattr(source, "read_ranges", None)):
            self.read_ranges = source.read_ranges  # type: ignore[method-assign]
        self.read_up_to = source.read_up_to  # type: ignore[method-assign]  # bound once: each read is one call
        self.read_at = source.read_at  # type: ignore[method-assign]
        self.close = source.close


def _read_pieces(read: Callable[[int], bytes | None], nbytes: int) -> memoryview:
    """Read up to `nbytes` from a file object whose reads may be short."""
    # In pieces, because a damaged file may claim any length: memory grows only with the received bytes.
    start = read(min(nbytes, _PIECE_NBYTES)) or b""
    if len(start) == nbytes or not start:
        return memoryview(start)
    parts = [start]
    done = len(start)
    while done < nbytes:
        part = read(min(nbytes - done, _PIECE_NBYTES))
        if not part:
            break
        parts.append(part)
        done += len(part)
    return memoryview(b"".join(parts))


def _name_of(file: BinaryIO) -> str | None:
    name = getattr(file, "path", None) or getattr(file, "name", None)
    return name if isinstance(name, str) else None  # a file from a descriptor has a number as its name


def storage_options(options: Mapping[str, str] | None) -> StorageOptions:
    """Return the options of an object store in the form for `storage_of`."""
    return tuple(sorted((options or {}).items()))


def open_source(source: Openable, storage: Mapping[str, str] | None = None) -> ByteSource:
    """Return a `ByteSource` of a path or URL, bytes or another buffer, or a binary file object; a source is returned itself."""
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        if is_remote(path):
            opened, path = storage_of(path, storage_options(storage))
            return opened.open(path)
        return FileSource.open(plain_path(path))
    if isinstance(cast("object", source), io.TextIOBase):
        raise TypeError("expected a path, bytes or a binary file object, found a file in text mode; open it with 'rb'")
    if callable(getattr(source, "read_up_to", None)):  # pyarrow's files have a `read_at` of their own
        byte_source = cast("ByteSource", source)
        is_complete = callable(getattr(byte_source, "read_ranges", None)) and hasattr(byte_source, "waits")
        return byte_source if is_complete else _Completed(byte_source)
    view = _view_of(source)
    if view is not None:
        return BufferSource(view)
    if callable(getattr(source, "read", None)):
        source = cast("BinaryIO", source)
        seekable = getattr(source, "seekable", None)
        return SeekableSource(source) if seekable is not None and seekable() else ForwardSource(source)
    raise TypeError(f"expected a path, bytes or a binary file object, found {type(source).__name__}")


def _view_of(source: object) -> memoryview | None:
    """Return the bytes of an object with the buffer protocol of Python, such as `pyarrow.Buffer`; None for others."""
    # Before file objects: a memory map is one too, but has no `seekable` before Python 3.13.
    try:
        view = memoryview(cast("ReadableBuffer", source))
    except TypeError:
        return None
    if not view.c_contiguous:
        raise TypeError(f"expected bytes one after the other, found {type(source).__name__} with gaps between them")
    return view.toreadonly().cast("B")  # arrays share this memory, and must not change it


END_NBYTES: Final = 64 << 10
"""Bytes of each end: more than the footers of most files, and 0.7 ms at 90 MB/s."""


class KeptEnds(ExactReads):
    """A `ByteSource` that retains the ends of another one that waits, and closes it. Several threads may read it."""

    # A reader reads a few bytes at both ends of a file, one after the other: the magic, the length of the footer, the
    # footer, the schema message. Over a network each would wait as long as a read of 64 KiB, so the first one inside an
    # end reads all of that end. A file of at most this length is read once.
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
        """True if one read of the tail returns all bytes."""
        return not self._tail_start

    def ends_with(self, suffix: bytes) -> bool:
        """Return whether these are the last bytes."""
        return bytes(self._read_tail()[-len(suffix) :]) == suffix

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return at most `nbytes` from `byte_offset` on: a view of an end, or a read."""
        if byte_offset >= self._tail_start:
            return self._read_tail()[byte_offset - self._tail_start :][:nbytes]
        if byte_offset + nbytes <= END_NBYTES:
            return self._read_head()[byte_offset : byte_offset + nbytes]
        return self._source.read_up_to(byte_offset, nbytes)

    def read_into(self, byte_offset: int, into: memoryview) -> None:
        """Fill `into` with the bytes from `byte_offset` on, from an end or by the source."""
        if byte_offset >= self._tail_start or byte_offset + len(into) <= END_NBYTES:
            super().read_into(byte_offset, into)
        else:
            self._source.read_into(byte_offset, into)

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return each (byte offset, nbytes), with one call of the source for all ranges outside both ends."""
        far = [each for each in ranges if each[0] < self._tail_start and sum(each) > END_NBYTES]
        parts = dict(zip(far, self._source.read_ranges(far), strict=True)) if far else {}
        return [parts[each] if each in parts else self.read_at(*each) for each in ranges]

    def _read_head(self) -> memoryview:
        with self._lock:
            if self._head is None:
                self._head = self._source.read_up_to(0, END_NBYTES)
            return self._head

    def _read_tail(self) -> memoryview:
        with self._lock:
            if self._tail is None:
                self._tail = self._source.read_up_to(self._tail_start, END_NBYTES)
            return self._tail

    def close(self) -> None:
        """Close the source."""
        self._source.close()


def keep_ends(source: ByteSource) -> ByteSource:
    """Return a source that retains its ends, if its reads wait."""
    return KeptEnds(source) if source.waits and not isinstance(source, KeptEnds) else source


HEADERS_NBYTES: Final = 8 << 10
"""A piece that contains the metadata of most messages, for a walk that skips the bodies."""

WAITING_NBYTES: Final = 256 << 10
"""The same where each read waits: small messages share a wait, and larger ones take 3 ms more."""

_LEAST_GROWN_NBYTES: Final = 64 << 10
MOST_NBYTES: Final = 1 << 20
"""Pieces of small messages grow from the first size to this one."""

SMALL_NBYTES: Final = 256 << 10
"""Larger messages have a read of their own."""


class ReadAhead:
    """A `ByteSource` that reads another one in pieces of at least `piece_nbytes`, and closes it. It holds one piece."""

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
        """Return each (byte offset, bytes), from the piece if it has them all, otherwise from the source."""
        if all(len(self.held(byte_offset)) >= nbytes for byte_offset, nbytes in ranges):
            return [self.read_up_to(byte_offset, nbytes) for byte_offset, nbytes in ranges]
        return self._source.read_ranges(ranges)

    def held(self, byte_offset: int) -> memoryview:
        """Return the bytes of the piece from `byte_offset` on, without a read."""
        start = byte_offset - self._start
        return self._piece[start:] if 0 <= start < len(self._piece) else memoryview(b"")

    def refill(self, byte_offset: int) -> memoryview:
        """Return the bytes held from `byte_offset` on, after another read if it may return more."""
        held = self.held(byte_offset)
        if len(held) < self._piece_nbytes and (self._start != byte_offset or not held):
            self._piece = self._source.read_up_to(byte_offset, self._piece_nbytes)
            self._start = byte_offset
            return self._piece
        return held

    @property
    def expects_small(self) -> bool:
        """True if the last messages were small enough for large pieces."""
        return self._piece_nbytes > HEADERS_NBYTES

    def adapt(self, message_nbytes: int) -> None:
        """Set the size of the next piece after a message of `message_nbytes`."""
        # After a large message a header only: a caller that stops, or skips the next body, then has read nothing in vain.
        if message_nbytes > SMALL_NBYTES:
            self._piece_nbytes = HEADERS_NBYTES
        elif self._piece_nbytes < MOST_NBYTES:
            piece_nbytes = max(2 * self._piece_nbytes, 4 * message_nbytes, _LEAST_GROWN_NBYTES)
            self._piece_nbytes = min(piece_nbytes, MOST_NBYTES)

    def close(self) -> None:
        """Close the source."""
        self._source.close()


def read_ahead(source: ByteSource) -> ByteSource:
    """Make a source read ahead, if this saves reads and cannot wait for bytes that never come."""
    return ReadAhead(source) if isinstance(source, FileSource | SeekableSource) else source
