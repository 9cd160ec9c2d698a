"""Directories below a root, reached by descriptors, so that no link on the way is followed.

How it works: any user who may write into a directory can replace a name in it by a link at any time, so that a check of
a name proves nothing about its next use. Each directory is opened by its name in the descriptor above it, with
``O_NOFOLLOW``, and calls are relative to the last descriptor. The root itself is the user's choice, and links on the
way to it are followed.

A log entry commits a job and lists the files to rename and delete. Checks for failures of these (devices, permissions,
flags, lengths of paths) come before it, while the job can still fail without a trace.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage.paths import SEPARATOR, join

# With ``O_PATH`` a directory needs no permission to be read, only to be searched
_SEARCH: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC

_READ: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

# Bits of mode that a new directory takes from the one above it, without the sticky bit: users finish each other's jobs
_MODE: Final = stat.S_ISGID | stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO

# Levels of directories that are deleted; each keeps a descriptor open.
_DEPTH: Final = 100

# Attempts to make a directory while another process deletes it
_ATTEMPTS: Final = 10


def open_directory(root: str, directory: str) -> int:
    """Return a descriptor of a directory at or below a root, for calls relative to it; the caller closes it."""
    return _descend(root, directory, _open)


def _descend(root: str, directory: str, enter: Callable[[str, int, str], int]) -> int:
    """Return a descriptor of a directory, opened level by level by `enter(name, descriptor_above, path)`."""
    descriptor = os.open(root, _SEARCH)
    path = root
    for name in _names(root, directory):
        path = join(path, name)
        try:
            inner = enter(name, descriptor, path)
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def open_readable(root: str, directory: str) -> int:
    """Return a descriptor of a directory at or below a root, to list or sync it; the caller closes it."""
    descriptor = open_directory(root, directory)
    try:
        return os.open(".", _READ, dir_fd=descriptor)
    except OSError as error:
        # Python has only the name that the call got, relative to a descriptor.
        error.filename = directory
        raise
    finally:
        os.close(descriptor)


def make_directory(root: str, directory: str) -> None:
    """Make a directory below a root and those above it, each with the mode and the group of the one above it."""
    # Whatever the umask of this process: users who may write into a table may write into its new directories.
    for _ in range(_ATTEMPTS):
        # A job that ends may delete an empty parent between two steps.
        with suppress(FileNotFoundError):
            os.close(_descend(root, directory, _open_or_make))
            return
    os.close(_descend(root, directory, _open_or_make))


def delete_tree(name: str, descriptor: int | None = None, depth: int = _DEPTH) -> None:
    """Delete a directory with its contents, a link or a file of that name, if it exists; links are not followed."""
    try:
        inner = os.open(name, _READ, dir_fd=descriptor)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=descriptor)
        return
    try:
        with os.scandir(inner) as entries:
            names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for entry, is_directory in names:
            # Beyond the depth the directory is left, and `rmdir` above fails: descriptors are bounded.
            if is_directory and depth:
                delete_tree(entry, inner, depth - 1)
            else:
                with suppress(FileNotFoundError):
                    os.unlink(entry, dir_fd=inner)
    finally:
        os.close(inner)
    with suppress(FileNotFoundError):
        os.rmdir(name, dir_fd=descriptor)


def _names(root: str, directory: str) -> list[str]:
    """Return the names on the way from a root to a directory at or below it."""
    inside = root if root.endswith(SEPARATOR) else root + SEPARATOR
    names = directory.removeprefix(inside).split(SEPARATOR)
    if directory == root:
        return []
    if not directory.startswith(inside):
        raise ValueError(f"{directory} is not below {root}")
    for name in names:
        check_name(name, directory)
    return names


def check_name(name: str, path: str) -> None:
    """Raise ValueError for a part of a path that is not a name in its directory."""
    if name in {"", ".", ".."}:
        raise ValueError(f"{path} is not below the directory, or is written in another way than its absolute path")


def _open(name: str, descriptor: int, path: str) -> int:
    # A link is told only after the open failed: asking first would be a race, and another call for each directory.
    try:
        return os.open(name, _SEARCH | os.O_NOFOLLOW, dir_fd=descriptor)
    except OSError as error:
        if _is_link(name, descriptor):
            raise CommitError(
                "expected a directory, found a link: nothing is read, written or removed through it; remove it",
                path=path,
            ) from error
        error.filename = path
        raise


def _open_or_make(name: str, descriptor: int, path: str) -> int:
    for _ in range(_ATTEMPTS):
        with suppress(FileNotFoundError):
            return _open(name, descriptor, path)
        try:
            os.mkdir(name, dir_fd=descriptor)
        except FileExistsError:
            continue
        except OSError as error:
            error.filename = path
            raise
        with suppress(OSError):  # some file systems have no modes; and it may be deleted already
            new = os.open(name, _READ, dir_fd=descriptor)
            try:
                take_mode(new, descriptor, _MODE)
            finally:
                os.close(new)
    return _open(name, descriptor, path)


def take_mode(new: int, above: int, bits: int) -> None:
    """Give a new file or directory the group of the directory above it, as far as this user may, and some bits of its mode."""
    state_above, state_of_new = os.fstat(above), os.fstat(new)
    # A call less where the file system does it itself (setgid).
    if state_of_new.st_gid != state_above.st_gid:
        with suppress(PermissionError):  # this user is not of that group
            os.fchown(new, -1, state_above.st_gid)
    if state_of_new.st_mode & bits != state_above.st_mode & bits:
        os.fchmod(new, state_above.st_mode & bits)


def _is_link(name: str, descriptor: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode)
    except OSError:
        return False


# ``FS_IOC_GETFLAGS`` of Linux
_GET_FLAGS: Final = 0x80086601

_IMMUTABLE: Final = 0x10
_APPEND_ONLY: Final = 0x20

_FLAGS_NBYTES: Final = 8

# Limits of Linux, for file systems that report none. The first counts the NUL at the end.
_MOST_BYTES: Final = {"PC_PATH_MAX": 4096, "PC_NAME_MAX": 255}


def check_length(paths: Sequence[str], near: str) -> None:
    """Raise if a path is longer than the file system of a directory takes; readers use absolute paths."""
    most = {name: _limit(name, near) for name in _MOST_BYTES}
    for path in paths:
        encoded = os.fsencode(path)
        name = encoded.rpartition(b"/")[2]
        if len(encoded) >= most["PC_PATH_MAX"] or len(name) > most["PC_NAME_MAX"]:
            raise OSError(errno.ENAMETOOLONG, "the name is too long for this file system", path)


def check_writable(descriptor: int, path: str) -> None:
    """Raise if this process may not make names in a directory; `path` is for the error."""
    if os.access(".", os.W_OK | os.X_OK, dir_fd=descriptor):
        return
    # `access` has no error number: the state of the file system has the reason, or fails itself (ESTALE, EIO).
    try:
        is_read_only = os.fstatvfs(descriptor).f_flag & os.ST_RDONLY
    except OSError as error:
        error.filename = path
        raise
    if is_read_only:
        raise OSError(errno.EROFS, "Read-only file system: no user can make or remove files there", path)
    raise PermissionError(errno.EACCES, "this user may not make and remove files there", path)


def check_deletable(descriptor: int, path: str, names: Sequence[str]) -> None:
    """Raise if this process may not delete existing names in a directory: one ``stat`` and one ``access`` a name."""
    check_writable(descriptor, path)
    if _flags(".", descriptor) & _APPEND_ONLY:
        raise PermissionError(errno.EPERM, "files can only be added there (chattr +a)", path)
    above = os.fstat(descriptor)
    # The effective user, by which the kernel decides.
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
    """Return the flags of a file that ``chattr`` sets; 0 without any, or if they cannot be read."""
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
