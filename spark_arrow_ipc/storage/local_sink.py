"""`named_file`: a local file to write, whose errors say which file it is and how much there was room for.

A failed ``write`` or ``fsync`` has no name of a file, unlike a failed ``open``.
"""

from __future__ import annotations

import errno
import io
import os
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

DEVICE_ERRORS: Final = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space, or ask for a larger quota",
    errno.EFBIG: "write smaller files (maxFileBytes), or raise the limit of this process (ulimit -f)",
    errno.EIO: "look at the device",
    errno.EROFS: "look why the file system is read-only; one whose device failed is often mounted so",
}
"""Errors of a device or its file system, not of a path, and what to do."""

_BUFFER_NBYTES: Final = 1 << 13
"""Small buffers are combined into writes of this size; larger ones are written as they are."""


def named_file(descriptor: int, path: str) -> BinaryIO:
    """Return the file of a descriptor that is open for writing."""
    return io.BufferedWriter(_NamedFile(descriptor, "wb", path), _BUFFER_NBYTES)


def scratch_file(descriptor: int, directory: str) -> BinaryIO:
    """Return the file of a descriptor that is open for reading and writing, which has no name but its directory's."""
    return io.BufferedRandom(_NamedFile(descriptor, "w+b", directory))


def sync_named(file: BinaryIO) -> None:
    """Flush a file and make its bytes durable."""
    file.flush()
    try:
        os.fsync(file.fileno())
    except OSError as error:
        raise _explained(error, str(file.name), file.fileno()) from None


class _NamedFile(io.FileIO):
    def __init__(self, descriptor: int, mode: str, path: str) -> None:
        super().__init__(descriptor, mode)
        self.name = path

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise _explained(error, self.name, self.fileno()) from None

    def close(self) -> None:
        try:
            super().close()
        except OSError as error:  # NFS may say only now that there is no room
            raise _explained(error, self.name, None) from None


def _explained(error: OSError, path: str, descriptor: int | None) -> OSError:
    text = error.strerror or str(error)
    if error.errno in DEVICE_ERRORS and descriptor is not None:
        state, device = os.fstat(descriptor), os.fstatvfs(descriptor)
        text += f" after {state.st_size:,} bytes of this file, with {device.f_bavail * device.f_frsize:,} bytes free"
    return OSError(error.errno, text, path)
