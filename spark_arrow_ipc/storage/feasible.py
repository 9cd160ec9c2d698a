"""Ask whether local files can be renamed or deleted, without doing it: devices, permissions, flags, lengths of paths.

A job is committed by a record that says what will be renamed and deleted. What can be known to fail is asked before,
while the job can still fail whole.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

_GET_FLAGS: Final = 0x80086601
"""``FS_IOC_GETFLAGS`` of Linux."""

_IMMUTABLE: Final = 0x10
_APPEND_ONLY: Final = 0x20

_FLAGS_NBYTES: Final = 8

_MOST_BYTES: Final = {"PC_PATH_MAX": 4096, "PC_NAME_MAX": 255}
"""Of Linux, where the file system does not say. The first counts the NUL at the end."""


def check_length(paths: Sequence[str], near: str) -> None:
    """Raise if a path is longer than the file system of a directory takes; readers use absolute paths.

    Raises
    ------
    OSError
        ENAMETOOLONG, with the path.
    """
    most = {name: _limit(name, near) for name in _MOST_BYTES}
    for path in paths:
        encoded = os.fsencode(path)
        name = encoded.rpartition(b"/")[2]
        if len(encoded) >= most["PC_PATH_MAX"] or len(name) > most["PC_NAME_MAX"]:
            raise OSError(errno.ENAMETOOLONG, "the name is too long for this file system", path)


def check_writable(descriptor: int, path: str) -> None:
    """Raise if this process may not make names in a directory; `path` is for the error.

    Raises
    ------
    OSError
        EACCES, with the path.
    """
    if not os.access(".", os.W_OK | os.X_OK, dir_fd=descriptor):
        raise PermissionError(errno.EACCES, "this user may not make and remove files there", path)


def check_deletable(descriptor: int, path: str, names: Sequence[str]) -> None:
    """Raise if this process may not delete names in a directory; those that are not there do not matter.

    One ``stat`` and one ``access`` a name.

    Raises
    ------
    OSError
        EACCES or EPERM, with the path.
    """
    check_writable(descriptor, path)
    if _flags(".", descriptor) & _APPEND_ONLY:
        raise PermissionError(errno.EPERM, "files can only be added there (chattr +a)", path)
    above = os.fstat(descriptor)
    user = os.geteuid()
    may_delete_all = not above.st_mode & stat.S_ISVTX or user in {0, above.st_uid}
    for name in names:
        try:
            state = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        except FileNotFoundError:
            continue
        if not may_delete_all and user != state.st_uid:
            raise PermissionError(
                errno.EPERM, "the file is of another user, and its directory is sticky", os.path.join(path, name)
            )
        # Asking for permission to write is cheap, and fails for all files with such a flag.
        is_guarded = stat.S_ISREG(state.st_mode) and not os.access(name, os.W_OK, dir_fd=descriptor)
        if is_guarded and _flags(name, descriptor) & (_IMMUTABLE | _APPEND_ONLY):
            raise PermissionError(
                errno.EPERM, "the file may not be changed (chattr +i or +a)", os.path.join(path, name)
            )


def _flags(name: str, descriptor: int) -> int:
    """Return the flags of a file that ``chattr`` sets; 0 where there are none or they cannot be read."""
    with suppress(OSError):
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptor)
        try:
            data = fcntl.ioctl(file, _GET_FLAGS, bytes(_FLAGS_NBYTES))
            return int.from_bytes(data[:4], "little")
        finally:
            os.close(file)
    return 0


def _limit(name: str, path: str) -> int:
    try:
        return os.pathconf(path, name)
    except (OSError, ValueError):
        return _MOST_BYTES[name]
