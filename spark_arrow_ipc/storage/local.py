"""Local paths: how a path that a person wrote becomes an absolute one, and how its state is read and made durable.

Strategy
--------
This is the dataset layer's only door to the file system's own calls that are not plain reading: everything above
works with absolute paths of this machine. What a path *means* (a file, a directory, a pattern) is not known here.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass
from urllib.parse import unquote

from spark_arrow_ipc.errors import OptionError, UnsupportedError

__all__ = ["FileStatus", "local_path", "status", "sync_directory", "sync_file"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")
"""A scheme is at least two characters long and a slash follows: ``a:b.arrow`` is a plain name."""

_LOCAL_HOSTS = ("", "localhost")

_NOT_SYNCABLE = (errno.EINVAL, errno.ENOTSUP)
"""What file systems answer that do not know ``fsync`` of a directory (some network and user-space ones)."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What the file system says of one path.

    Parameters
    ----------
    path
        As it was asked for.
    nbytes
        Size of a file; of no meaning for a directory.
    mtime_ns
        Time of the last modification, nanoseconds since 1970.
    inode
        Device and inode: equal for equal files, whatever their names.
    is_directory, is_file
        Links are followed; neither is true for a pipe, socket or device.
    """

    path: str
    nbytes: int
    mtime_ns: int
    inode: tuple[int, int]
    is_directory: bool
    is_file: bool


def local_path(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of this machine that a plain path or a ``file:`` URI names.

    A URI's percent escapes are decoded, a plain path is taken as it stands. ``.`` and ``..`` are resolved as text,
    as Hadoop's paths do; links are not followed.

    Raises
    ------
    OptionError
        The path is empty, holds a NUL, or is a relative ``file:`` URI.
    UnsupportedError
        Another scheme, or a ``file:`` URI of another host.
    """
    text = os.fspath(path)
    if not text:
        raise OptionError(expected="a path", found="an empty text")
    if "\0" in text:
        raise OptionError(expected="a path", found=f"a NUL character in {text!r}")
    if text.lower().startswith("file:"):
        text = _of_file_uri(text)
    elif scheme := _SCHEME.match(text):
        raise UnsupportedError(
            f"paths with the scheme {scheme[1]}: are not read or written; "
            "mount the storage (or copy the files to it) and give the local path",
            path=text,
        )
    return os.path.abspath(text)


def _of_file_uri(uri: str) -> str:
    rest = uri[len("file:") :]
    if not rest.startswith("/"):
        raise OptionError(expected="an absolute path after file:", found=repr(uri))
    if rest.startswith("//"):
        host, slash, rest = rest[2:].partition("/")
        if host.lower() not in _LOCAL_HOSTS:
            raise UnsupportedError(
                f"the file: URI names the host {host!r}; write file:///{host}/... where that is a directory", path=uri
            )
        rest = slash + rest
    return unquote(rest) or "/"


def status(path: str) -> FileStatus | None:
    """Return the state of a path, links followed, or None where nothing is there. One system call.

    Raises
    ------
    OSError
        The file system refuses to say (no permission, an IO error).
    """
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    mode = found.st_mode
    inode = (found.st_dev, found.st_ino)
    return FileStatus(path, found.st_size, found.st_mtime_ns, inode, stat.S_ISDIR(mode), stat.S_ISREG(mode))


def sync_file(descriptor: int) -> None:
    """Make a file's bytes durable.

    Raises
    ------
    OSError
        The bytes did not reach the disk: the file must not be published.
    """
    os.fsync(descriptor)


def sync_directory(path: str) -> None:
    """Make the names of a directory durable: a rename or link survives a power loss only after this.

    Raises
    ------
    OSError
        The directory cannot be opened or its names did not reach the disk.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_SYNCABLE:
            raise
    finally:
        os.close(descriptor)
