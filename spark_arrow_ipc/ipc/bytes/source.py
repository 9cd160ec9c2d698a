"""Open a path, bytes or a file object as a `ByteSource`, from which the codec reads.

Strategy
--------
A `ByteSource` (``storage/byte_source.py``) gives exact ranges, or an error with the place where the bytes end. A source
of unknown length (a pipe) is read in pieces of `_PIECE_NBYTES`, so that memory grows only with the bytes received.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias, cast

from spark_arrow_ipc.storage.byte_source import BufferSource, ByteSource, ExactReads, truncated
from spark_arrow_ipc.storage.local_files import FileSource
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.url import is_remote

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from spark_arrow_ipc.storage.object_options import StorageOptions

_PIECE_NBYTES: Final = 64 << 20
"""The most bytes in one read of a file object."""

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
    """A binary file object that cannot seek: ranges must come in ascending order. The caller closes it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._position = 0
        self._ahead = memoryview(b"")
        self.path: str | None = _name_of(file)
        self.nbytes: int | None = None

    def peek(self, nbytes: int) -> memoryview:
        """Return the next bytes, at most `nbytes`, and keep them for the next read."""
        if len(self._ahead) < nbytes:
            more = _read_pieces(self._file.read, nbytes - len(self._ahead))
            self._ahead = memoryview(bytes(self._ahead) + bytes(more))
        return self._ahead[:nbytes]

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return at most `nbytes` from `byte_offset` on; earlier bytes are read and dropped."""
        assert byte_offset >= self._position, "an unseekable stream is read forward only"
        while self._position < byte_offset:
            skipped = self._next(min(byte_offset - self._position, _PIECE_NBYTES))
            if not skipped:
                raise truncated(nbytes, 0, byte_offset, self._position)
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
    """A caller's source without `read_ranges` or `waits`: reads one range after another, and does not wait."""

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
    first = read(min(nbytes, _PIECE_NBYTES)) or b""
    if len(first) == nbytes or not first:
        return memoryview(first)
    parts = [first]
    done = len(first)
    while done < nbytes:
        part = read(min(nbytes - done, _PIECE_NBYTES))
        if not part:
            break
        parts.append(part)
        done += len(part)
    return memoryview(b"".join(parts))


def _name_of(file: BinaryIO) -> str | None:
    name = getattr(file, "path", None) or getattr(file, "name", None)
    return name if isinstance(name, str) else None


def storage_options(options: Mapping[str, str] | None) -> StorageOptions:
    """Return the options of an object store as `storage_of` takes them."""
    return tuple(sorted((options or {}).items()))


def _open_object(url: str, options: Mapping[str, str] | None) -> ByteSource:
    storage, path = storage_of(url, storage_options(options))
    return storage.open(path)


def open_source(source: Openable, storage: Mapping[str, str] | None = None) -> ByteSource:
    """Return a `ByteSource` of a path or URL, bytes or another buffer, or a binary file object; or the given source."""
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        return _open_object(path, storage) if is_remote(path) else FileSource.open(path)
    if isinstance(cast("object", source), io.TextIOBase):
        raise TypeError("expected a path, bytes or a binary file object, found a file in text mode; open it with 'rb'")
    if callable(getattr(source, "read_up_to", None)):  # pyarrow's files have a `read_at` of their own
        given = cast("ByteSource", source)
        is_whole = callable(getattr(given, "read_ranges", None)) and hasattr(given, "waits")
        return given if is_whole else _Completed(given)
    view = _view_of(source)
    if view is not None:
        return BufferSource(view)
    if callable(getattr(source, "read", None)):
        source = cast("BinaryIO", source)
        seekable = getattr(source, "seekable", None)
        return SeekableSource(source) if seekable is not None and seekable() else ForwardSource(source)
    raise TypeError(f"expected a path, bytes or a binary file object, found {type(source).__name__}")


def _view_of(source: object) -> memoryview | None:
    """Return the bytes of a buffer of any library, such as that of `pyarrow.py_buffer`; None if it lends none.

    A map of memory is a file object too, and cannot be asked whether it can seek before Python 3.13.
    """
    try:
        view = memoryview(cast("ReadableBuffer", source))
    except TypeError:
        return None
    if not view.c_contiguous:
        raise TypeError(f"expected bytes one after the other, found {type(source).__name__} with gaps between them")
    return view.toreadonly().cast("B")
