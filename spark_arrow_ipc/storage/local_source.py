"""Byte sources for local files: read with ``pread``, or memory-mapped.

By default a local file is copied into private memory: if it is truncated or rewritten meanwhile, that is a typed error,
never a SIGBUS and never data that change while they are used. Mapping (`open_mapped`) is for files that are known not
to change.
"""

from __future__ import annotations

import errno
import mmap
import os
from typing import Final, Self

from spark_arrow_ipc.errors import InvalidFramingError
from spark_arrow_ipc.storage.byte_source import ByteSource, ExactReads, new_buffer

_PREAD_NBYTES: Final = 1 << 30
"""Maximum number of bytes of one ``preadv``: Linux transfers at most 2 GiB - 4 KiB."""

_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
"""Does not wait for the other end of a pipe that was put in a file's place."""


class FileSource(ExactReads):
    """A local file, read with ``pread``."""

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
        left = min(nbytes, self.nbytes - byte_offset)
        if left <= 0:
            return memoryview(b"")
        data = new_buffer(left)
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
            self._close(self._descriptor)
            self._descriptor = -1

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
        """Return a view of the file's pages; nothing is read until they are touched.

        Raises
        ------
        InvalidFramingError
            The file is shorter than when it was mapped: pages after its end must not be touched.
        """
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
    """Memory-map a local file, or that of a descriptor, which it takes. A reader from `ipc.open` closes it.

    Saves the copy out of the page cache, and costs safety: if the file is truncated while a view of it is in use, the
    operating system ends the process with SIGBUS, and if it is written to, data change after they were checked. The
    size is compared before each read, which narrows that gap and cannot close it. There is no risk for files that are
    replaced by new ones and never written in place, as this package writes them.

    If the file system cannot map files (some in user space), the file is read as usual.

    Raises
    ------
    OSError
        The path cannot be opened.
    InvalidFramingError
        The file was truncated while it was being mapped.
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


_UNMAPPABLE: Final = (errno.ENODEV, errno.EINVAL)
"""Errors of file systems that cannot map files."""


def _check_mapped(nbytes_now: int, nbytes: int) -> None:
    if nbytes_now < nbytes:
        raise InvalidFramingError(
            expected=f"a file of {nbytes:,} bytes, as it was mapped", found=f"one that was cut to {nbytes_now:,} bytes"
        )
