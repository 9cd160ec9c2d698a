"""`ByteSource`: the codec's only door to bytes.

Strategy
--------
A source gives exact ranges and nothing else: what is asked for comes whole, or an `InvalidFramingError` says
where the bytes end. Nothing is allocated for a length before the source knows that so many bytes exist; where
it cannot know (a pipe), it reads in pieces of `_PIECE_NBYTES`, so that memory grows only with bytes that came.

A local file is read with ``pread`` into memory of our own: a file that is truncated or rewritten under us is a
typed error, never a SIGBUS and never data that change while they are used. Who knows that nobody touches the file
may map it instead (`open_mapped`), and open the source that this gives.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
from collections.abc import Callable
from typing import BinaryIO, Final, Protocol, TypeAlias, cast

import numpy as np

from spark_arrow_ipc.errors import InvalidFramingError

_PIECE_NBYTES: Final = 64 << 20
"""Most bytes that are asked of a source of unknown length at once."""

_PREAD_NBYTES: Final = 1 << 30
"""Most bytes of one ``preadv``: Linux transfers at most 2 GiB - 4 KiB."""

_STEP_NBYTES: Final = 4 << 10
"""Memory for a read is taken in steps of this size, and of a sixteenth of what is read where that is more."""


class ByteSource(Protocol):
    """Exact ranges of the bytes of one file or stream."""

    @property
    def path(self) -> str | None:
        """What the user called it, for errors; None for bytes in memory."""

    @property
    def nbytes(self) -> int | None:
        """Length in bytes, or None where only reading to the end can tell."""

    def read_at(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return exactly `nbytes` bytes from `byte_offset` on.

        Raises
        ------
        InvalidFramingError
            The bytes end before.
        """

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return the bytes from `byte_offset` on, at most `nbytes`; fewer only where they end."""

    def close(self) -> None:
        """Give back what the source opened itself."""


Openable: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO | ByteSource
"""What `open_source` accepts: a path, bytes, a binary file object (which may be unseekable), or a source itself."""


class _ExactReads:
    """`read_at` from `read_up_to`."""

    nbytes: int | None

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        raise NotImplementedError

    def read_at(self, byte_offset: int, nbytes: int) -> memoryview:
        data = self.read_up_to(byte_offset, nbytes)
        if len(data) != nbytes:
            end = byte_offset + len(data)
            raise _truncated(nbytes, len(data), byte_offset, end if self.nbytes is None else min(end, self.nbytes))
        return data


def _truncated(nbytes: int, found: int, byte_offset: int, end: int) -> InvalidFramingError:
    return InvalidFramingError(
        expected=f"{nbytes:,} bytes",
        found=f"{found:,}: the file ends at byte {end:,}, it is truncated; copy or write it again",
        byte_offset=byte_offset,
    )


class FileSource(_ExactReads):
    """A local file, read with ``pread``."""

    def __init__(self, descriptor: int, path: str, nbytes: int) -> None:
        self._descriptor = descriptor
        self.path: str | None = path
        self.nbytes: int | None = nbytes

    @classmethod
    def open(cls, path: str) -> FileSource:
        """Open a local file; OSError of the file system stays OSError."""
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | os.O_CLOEXEC)
        try:
            return cls(descriptor, path, os.fstat(descriptor).st_size)
        except BaseException:
            os.close(descriptor)
            raise

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return the bytes from `byte_offset` on, at most `nbytes`; one copy, from the page cache."""
        assert self.nbytes is not None
        if self._descriptor < 0:
            raise ValueError(f"{self.path}: the reader is closed")
        left = min(nbytes, self.nbytes - byte_offset)
        if left <= 0:
            return memoryview(b"")
        # Exact sizes differ a little from batch to batch, and memory that is given back and taken anew costs a page
        # fault for every 4 KiB; of a few sizes the allocator reuses what the last batch but one left (measured:
        # 49,000 faults a scan of 400 MB, and 1,300 with rounded sizes).
        step = max(_STEP_NBYTES, (1 << left.bit_length()) >> 4)
        data = np.empty(-(-left // step) * step, np.uint8).data[:left]
        done = 0
        while done < left:
            count = os.preadv(self._descriptor, [data[done : done + _PREAD_NBYTES]], byte_offset + done)
            if not count:
                break
            done += count
        return data[:done].toreadonly()

    def close(self) -> None:
        """Close the file; closing twice does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        """Close the file of a reader that nobody closed, as Python does for its own files."""
        self.close()


class MappedSource(_ExactReads):
    """A local file, mapped into memory. Made by `open_mapped`, which says what that risks."""

    def __init__(self, descriptor: int, path: str, data: memoryview) -> None:
        self._descriptor = descriptor
        self._data = data
        self.path: str | None = path
        self.nbytes: int | None = len(data)

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return a view of the file's pages; nothing is read until they are touched.

        Raises
        ------
        InvalidFramingError
            The file is shorter now than it was mapped: pages behind its end must not be touched.
        """
        if self._descriptor < 0:
            raise ValueError(f"{self.path}: the reader is closed")
        _check_mapped(os.fstat(self._descriptor).st_size, len(self._data))
        return self._data[byte_offset : byte_offset + nbytes]

    def close(self) -> None:
        """Close the file; closing twice does nothing. Its pages stay mapped while a view of them lives."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._data = memoryview(b"")

    def __del__(self) -> None:
        """Close the file of a reader that nobody closed."""
        self.close()


def open_mapped(path: str) -> ByteSource:
    """Return a source that maps a local file instead of reading it; whoever opens it with `ipc.open` closes it there.

    Saves the copy out of the page cache, and costs safety: if anybody truncates the file while a view of it is in
    use, the operating system ends the process with SIGBUS, and if anybody writes to it, data change after they were
    checked. The size is compared before each read, which narrows that gap and cannot close it. For files that are
    replaced by new ones and never written in place, as this package writes them, the risk is none.

    A file system that cannot map (some in user space) is read as usual.

    Raises
    ------
    OSError
        The path cannot be opened.
    InvalidFramingError
        The file changed its size while it was mapped.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | os.O_CLOEXEC)
    try:
        nbytes = os.fstat(descriptor).st_size
        if not nbytes:  # which nothing can map
            return MappedSource(descriptor, path, memoryview(b""))
        data = memoryview(mmap.mmap(descriptor, nbytes, access=mmap.ACCESS_READ))
        _check_mapped(os.fstat(descriptor).st_size, nbytes)
        return MappedSource(descriptor, path, data)
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, OSError) and error.errno in _UNMAPPABLE:
            return FileSource.open(path)
        raise


_UNMAPPABLE: Final = (errno.ENODEV, errno.EINVAL)
"""What file systems answer that cannot map."""


def _check_mapped(found: int, nbytes: int) -> None:
    if found < nbytes:
        raise InvalidFramingError(
            expected=f"a file of {nbytes:,} bytes, as it was mapped", found=f"one that was cut to {found:,} bytes"
        )


class BufferSource(_ExactReads):
    """Bytes in memory; ranges are views."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.path: str | None = None
        self.nbytes: int | None = len(data)

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return a view of the bytes from `byte_offset` on, at most `nbytes`."""
        return self._data[byte_offset : byte_offset + nbytes]

    def close(self) -> None:
        """Do nothing: the bytes belong to the caller."""


class SeekableSource(_ExactReads):
    """A binary file object that can seek. The caller closes it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._start = file.tell()
        self.path: str | None = _name_of(file)
        self.nbytes: int | None = file.seek(0, os.SEEK_END) - self._start
        file.seek(self._start)

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return the bytes from `byte_offset` (counted from where the file stood) on, at most `nbytes`."""
        assert self.nbytes is not None
        self._file.seek(self._start + byte_offset)
        return _read_pieces(self._file.read, min(nbytes, max(self.nbytes - byte_offset, 0)))

    def close(self) -> None:
        """Do nothing: the file object belongs to the caller."""


class ForwardSource(_ExactReads):
    """A binary file object that cannot seek: ranges must come in ascending order. The caller closes it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._position = 0
        self._ahead = memoryview(b"")
        self.path: str | None = _name_of(file)
        self.nbytes: int | None = None

    def peek(self, nbytes: int) -> memoryview:
        """Return the next bytes, at most `nbytes`, without passing them."""
        if len(self._ahead) < nbytes:
            more = _read_pieces(self._file.read, nbytes - len(self._ahead))
            self._ahead = memoryview(bytes(self._ahead) + bytes(more))
        return self._ahead[:nbytes]

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return the bytes from `byte_offset` on, at most `nbytes`; what lies before is read and dropped.

        Raises
        ------
        InvalidFramingError
            The bytes end before `byte_offset`.
        """
        assert byte_offset >= self._position, "an unseekable stream is read forward only"
        while self._position < byte_offset:
            skipped = self._next(min(byte_offset - self._position, _PIECE_NBYTES))
            if not skipped:
                raise _truncated(nbytes, 0, byte_offset, self._position)
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


def _read_pieces(read: Callable[[int], bytes | None], nbytes: int) -> memoryview:
    """Return up to `nbytes` from a file object whose reads may be short."""
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


def open_source(source: Openable) -> ByteSource:
    """Return a `ByteSource` over a path, bytes or a binary file object; a source is returned as it is.

    Raises
    ------
    OSError
        The path cannot be opened.
    TypeError
        It is none of these.
    """
    if isinstance(source, str | os.PathLike):
        return FileSource.open(os.fspath(source))
    if isinstance(source, bytes | bytearray | memoryview):
        return BufferSource(memoryview(source).toreadonly().cast("B"))
    if isinstance(cast("object", source), io.TextIOBase):
        raise TypeError(
            "expected a path, bytes or a binary file object, found a file opened as text; open it with 'rb'"
        )
    if callable(getattr(source, "read_at", None)):
        return cast("ByteSource", source)
    if callable(getattr(source, "read", None)):
        source = cast("BinaryIO", source)
        seekable = getattr(source, "seekable", None)
        return SeekableSource(source) if seekable is not None and seekable() else ForwardSource(source)
    raise TypeError(f"expected a path, bytes or a binary file object, found {type(source).__name__}")
