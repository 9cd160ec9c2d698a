"""`ByteSource`: exact byte ranges of one file or stream, in memory or on a disk; and local files that are written.

A source returns a range completely, or raises a `TruncatedError` with the end of the bytes. It allocates memory only
for bytes that exist.

Ranges of a local file are copied into private memory: a concurrent truncation or write is a typed error, never a SIGBUS
and never data that change in use. Mapping (`open_mapped`) is for files that do not change. A file that grows is read up
to the length of its last check.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, Self

import numpy as np

from spark_arrow_ipc.errors import FileChangedError, InvalidFramingError, TruncatedError

# Buffers are rounded up to a multiple of this, or of a sixteenth of the read if that is larger.
_STEP_NBYTES: Final = 4 << 10


class ByteSource(Protocol):
    """Exact byte ranges of one file or stream."""

    @property
    def path(self) -> str | None:
        """The user's path, for errors; None for bytes in memory."""

    @property
    def nbytes(self) -> int | None:
        """Length in bytes; None before the end of a stream."""

    @property
    def waits(self) -> bool:
        """True if every read waits for a network, about 30 ms for any length.

        Such a source knows its length, and several threads may read it at once. Its readers cache, and read ahead.
        """

    def read_at(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return exactly `nbytes` bytes from `byte_offset` on.

        Raises
        ------
        TruncatedError
            The bytes end earlier.
        """

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return the bytes from `byte_offset` on, at most `nbytes`; fewer at the end."""

    def read_into(self, byte_offset: int, into: memoryview) -> None:
        """Fill `into`, which can be written, with the bytes from `byte_offset` on.

        Raises
        ------
        InvalidFramingError
            The bytes end earlier.
        """

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return each (byte offset, nbytes). Slow sources may read several at once."""

    def close(self) -> None:
        """Close what the source opened itself."""


class ExactReads:
    """Implement the other reads with `read_up_to`, for a source that does not wait."""

    nbytes: int | None
    waits: bool = False

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return the bytes from `byte_offset` on, at most `nbytes`; abstract."""
        raise NotImplementedError

    def read_at(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return exactly `nbytes` bytes from `byte_offset` on."""
        data = self.read_up_to(byte_offset, nbytes)
        if len(data) != nbytes:
            end = byte_offset + len(data)
            raise truncation_error(
                nbytes, len(data), byte_offset, end if self.nbytes is None else min(end, self.nbytes)
            )
        return data

    def read_into(self, byte_offset: int, into: memoryview) -> None:
        """Fill `into` with the bytes from `byte_offset` on, by a copy."""
        np.copyto(np.frombuffer(into, np.uint8), np.frombuffer(self.read_at(byte_offset, len(into)), np.uint8))

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return each (byte offset, nbytes), one read after another."""
        return [self.read_at(byte_offset, nbytes) for byte_offset, nbytes in ranges]


def new_buffer(nbytes: int) -> memoryview:
    """Return memory for the bytes of a read, at least one."""
    # Rounded up, so that the allocator reuses memory of an earlier batch: new memory costs a page fault for every 4 KiB
    # (a scan of 400 MB: 49,000 faults with exact sizes, 1,300 with rounded ones).
    step = max(_STEP_NBYTES, (1 << nbytes.bit_length()) >> 4)
    return np.empty(-(-nbytes // step) * step, np.uint8).data[:nbytes]


def truncation_error(nbytes: int, read: int, byte_offset: int, end: int) -> TruncatedError:
    """Return the error for a file that ends before the requested bytes."""
    return TruncatedError(
        expected=f"{nbytes:,} bytes",
        found=f"{read:,}: the file ends at byte {end:,}, it is truncated; copy or write it again",
        byte_offset=byte_offset,
    )


class BufferSource(ExactReads):
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


# ---- local files

# Maximum number of bytes of one ``preadv``: Linux transfers at most 2 GiB - 4 KiB
_PREAD_NBYTES: Final = 1 << 30

# Does not wait for the other end of a pipe that has replaced a file.
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC

# A file of at most this length is read at once, which costs less than the four short reads of a reader.
_SMALL_NBYTES: Final = 16 << 10


class FileSource(ExactReads):
    """A local file, read with ``pread``."""

    _contents: memoryview | None = None
    _grows = False

    _close = staticmethod(os.close)  # still there when Python ends, when names of modules may be None

    def __init__(self, descriptor: int, path: str, nbytes: int) -> None:
        self._descriptor = descriptor
        self.path: str | None = path
        self.nbytes: int | None = nbytes

    @classmethod
    def open(cls, path: str, descriptor: int | None = None) -> Self:
        """Open a local file, or take its descriptor; OSError of the file system stays OSError."""
        descriptor = os.open(path, _READ) if descriptor is None else descriptor
        try:
            return cls(descriptor, path, os.fstat(descriptor).st_size)
        except BaseException:
            os.close(descriptor)
            raise

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return a copy of the bytes from `byte_offset` on, at most `nbytes`."""
        assert self.nbytes is not None
        if self._descriptor < 0:
            raise ValueError(f"{self.path}: the reader is closed")
        if self.nbytes <= _SMALL_NBYTES and not self._grows:
            if self._contents is None:
                self._contents = self._read(0, self.nbytes)
            return self._contents[byte_offset : byte_offset + nbytes]
        return self._read(byte_offset, min(nbytes, self.nbytes - byte_offset))

    def _read(self, byte_offset: int, left: int) -> memoryview:
        if left <= 0:
            return memoryview(b"")
        data = new_buffer(left)
        done = 0
        while done < left:
            # `preadv` has no position that threads would share.
            try:
                count = os.preadv(self._descriptor, [data[done : done + _PREAD_NBYTES]], byte_offset + done)
            except OSError as error:  # of a descriptor, which names no file
                error.filename = self.path
                raise
            if not count:
                break
            done += count
        return data[:done].toreadonly()

    def close(self) -> None:
        """Close the file; closing twice does nothing."""
        if self._descriptor >= 0:
            self._close(self._descriptor)
            self._descriptor, self._contents = -1, None

    def __del__(self) -> None:
        """Close the file if `close` was not called, as Python does for its own files."""
        self.close()


class MappedSource(ExactReads):
    """A local file, mapped into memory. `open_mapped` documents the risk."""

    _close = staticmethod(os.close)  # as in FileSource

    def __init__(self, descriptor: int, path: str, data: memoryview) -> None:
        self._descriptor = descriptor
        self._data = data
        self.path: str | None = path
        self.nbytes: int | None = len(data)

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return a view of the file's pages; nothing is read until they are touched."""
        if self._descriptor < 0:
            raise ValueError(f"{self.path}: the reader is closed")
        _check_mapped(os.fstat(self._descriptor).st_size, len(self._data))
        return self._data[byte_offset : byte_offset + nbytes]

    def close(self) -> None:
        """Close the file; closing twice does nothing. Pages with views stay mapped."""
        if self._descriptor >= 0:
            self._close(self._descriptor)
            self._descriptor = -1
            self._data = memoryview(b"")

    def __del__(self) -> None:
        """Close the file if `close` was not called."""
        self.close()


def open_mapped(path: str, descriptor: int | None = None) -> ByteSource:
    """Memory-map a local file, by its path or by a descriptor, which the source closes.

    Saves the copy out of the page cache, and costs safety: if the file is truncated while a view is in use, the
    operating system ends the process with SIGBUS, and if it is written to, data change after they were checked.
    Comparing the size before each read narrows that gap. Files that are replaced and never written in place, as by this
    package, have no such risk. A file system that cannot map files (some in user space) is read as usual.
    """
    descriptor = os.open(path, _READ) if descriptor is None else descriptor
    try:
        nbytes = os.fstat(descriptor).st_size
        if not nbytes:  # an empty file cannot be mapped
            return MappedSource(descriptor, path, memoryview(b""))
        data = memoryview(mmap.mmap(descriptor, nbytes, access=mmap.ACCESS_READ))
        _check_mapped(os.fstat(descriptor).st_size, nbytes)
        return MappedSource(descriptor, path, data)
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, OSError) and error.errno in _UNMAPPABLE:
            return FileSource.open(path)
        raise


# Errors of file systems that cannot map files
_UNMAPPABLE: Final = (errno.ENODEV, errno.EINVAL)


def _check_mapped(nbytes_now: int, nbytes: int) -> None:
    if nbytes_now < nbytes:
        raise InvalidFramingError(
            expected=f"a file of {nbytes:,} bytes, as it was mapped", found=f"one that was cut to {nbytes_now:,} bytes"
        )


if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

DEVICE_ERRORS: Final = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space, or ask for a larger quota",
    errno.EFBIG: "write smaller files (maxFileBytes), or raise the limit of this process (ulimit -f)",
    errno.EIO: "look at the device",
    errno.EROFS: "look why the file system is read-only; one whose device failed is often mounted so",
}
"""Errors of a device or its file system, not of a path, and their remedies."""

# Smaller buffers are combined into writes of this size.
_BUFFER_NBYTES: Final = 1 << 13


def open_named(descriptor: int, path: str) -> BinaryIO:
    """Return the file of a descriptor that is open for writing."""
    return io.BufferedWriter(_NamedFile(descriptor, "wb", path), _BUFFER_NBYTES)


def scratch_file(descriptor: int, directory: str) -> BinaryIO:
    """Return the unnamed file of a descriptor that is open for reading and writing, with its directory's name."""
    return io.BufferedRandom(_NamedFile(descriptor, "w+b", directory))


def sync_named(file: BinaryIO) -> None:
    """Flush a file and make its bytes durable."""
    file.flush()
    try:
        os.fsync(file.fileno())
    except OSError as error:
        raise _explain(error, str(file.name), file.fileno()) from None


class _NamedFile(io.FileIO):
    def __init__(self, descriptor: int, mode: str, path: str) -> None:
        super().__init__(descriptor, mode)
        self.name = path

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise _explain(error, self.name, self.fileno()) from None

    def close(self) -> None:
        try:
            super().close()
        except OSError as error:  # NFS may report a full disk only now
            raise _explain(error, self.name, None) from None


def _explain(error: OSError, path: str, descriptor: int | None) -> OSError:
    text = error.strerror or str(error)
    if error.errno in DEVICE_ERRORS and descriptor is not None:
        state, device = os.fstat(descriptor), os.fstatvfs(descriptor)
        text += f" after {state.st_size:,} bytes of this file, with {device.f_bavail * device.f_frsize:,} bytes free"
    return OSError(error.errno, text, path)


MARK_NBYTES: Final = 64
"""Bytes before a position whose checksum identifies the file among others of its length."""


class GrowingSource(FileSource):
    """A local file that grows."""

    _grows = True
    _mark: tuple[int, int] | None = None

    def grow(self, position: int) -> bool:
        """Update the length of the file, by two system calls or six, and return True if it grew."""
        nbytes = self.nbytes
        assert nbytes is not None
        assert self.path is not None
        state = os.fstat(self._descriptor)
        try:
            named = os.stat(self.path)
        except FileNotFoundError:
            raise _change_error("the file was removed while it was read", self.path) from None
        # The open file would never grow again.
        if (named.st_dev, named.st_ino) != (state.st_dev, state.st_ino):
            raise _change_error("another file has taken the place of the one that is read", self.path)
        if state.st_size < max(position, nbytes):
            words = f"it was cut to {state.st_size:,} bytes, after {max(position, nbytes):,} had been read"
            raise _change_error(words, self.path)
        if self._mark is None or self._mark[0] != position:
            self._mark = position, mark_before(self, position)
        if state.st_size == nbytes:
            return False
        if mark_before(self, position) != self._mark[1]:
            raise _change_error(f"the bytes before byte {position:,}, which were read, are others now", self.path)
        self.nbytes = state.st_size
        return True


_PIECE_NBYTES: Final = 8 << 20


def read_pieces(source: ByteSource, nbytes: int) -> Iterator[memoryview]:
    """Yield the first bytes of a file in pieces, to copy it in bounded memory."""
    for start in range(0, nbytes, _PIECE_NBYTES):
        yield source.read_at(start, min(_PIECE_NBYTES, nbytes - start))


def mark_before(source: ByteSource, position: int) -> int:
    """Return the CRC-32 of at most `MARK_NBYTES` bytes before a position, by one read."""
    start = max(0, position - MARK_NBYTES)
    return zlib.crc32(source.read_up_to(start, position - start))


def _change_error(words: str, path: str) -> FileChangedError:
    return FileChangedError(f"{words}; a file that is followed is only appended to. Open it again", path=path)
