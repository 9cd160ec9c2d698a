"""Bytes of local files: read with ``pread``, or mapped.

A local file is read into memory of our own by default: a file that is truncated or rewritten meanwhile is a typed
error, never a SIGBUS and never data that change while they are used. Mapping (`open_mapped`) is for files that are
known to stay as they are.
"""

from __future__ import annotations

import errno
import mmap
import os
from typing import Final

import numpy as np

from spark_arrow_ipc.errors import InvalidFramingError
from spark_arrow_ipc.storage.byte_source import ByteSource, ExactReads

__all__ = ["FileSource", "MappedSource", "open_mapped"]

_PREAD_NBYTES: Final = 1 << 30
"""Most bytes of one ``preadv``: Linux transfers at most 2 GiB - 4 KiB."""

_STEP_NBYTES: Final = 4 << 10
"""Memory for a read is taken in steps of this size, and of a sixteenth of what is read where that is more."""


class FileSource(ExactReads):
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


class MappedSource(ExactReads):
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
