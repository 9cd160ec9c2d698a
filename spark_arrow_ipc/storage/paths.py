"""Paths as calls use them, and `local_path`, which makes one of a person's local path.

They are absolute strings with parts separated by ``/``, or URLs, whose root is ``scheme://bucket``.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from spark_arrow_ipc.errors import OptionError, UnsupportedError, cut_repr
from spark_arrow_ipc.storage.url import ONE_KIND, is_remote

SEPARATOR: Final = "/"

TEMPORARY_SUFFIX: Final = ".staged"
"""Suffix of files that are incomplete or not committed yet; readers skip them everywhere."""


def join(directory: str, *parts: str) -> str:
    """Join a directory and parts of a path; empty parts add nothing."""
    return posixpath.join(directory, *filter(None, parts)) if any(parts) else directory


def parent(path: str) -> str:
    """Return the directory of a path: the root for the root itself, ``""`` for a bare name."""
    above = posixpath.dirname(path)
    return path if above[-1:] == ":" and path.startswith(above + "//") else above


def above(path: str) -> Iterator[str]:
    """Yield the directories above a path, innermost first; none for a root."""
    while (directory := parent(path)) not in ("", path):
        yield directory
        path = directory


def root_of(path: str) -> str:
    """Return the root of an absolute path: ``/``, or ``scheme://bucket`` of a URL."""
    head, _, rest = path.partition(SEPARATOR)
    return f"{head}//{rest[1:].partition(SEPARATOR)[0]}" if rest.startswith(SEPARATOR) else head + SEPARATOR


def name_of(path: str) -> str:
    """Return the last part of a path."""
    return path.rpartition(SEPARATOR)[2]


def relative(path: str, directory: str) -> str:
    """Return a path relative to a directory above it; ``""`` for the same one."""
    inside = directory if directory.endswith(SEPARATOR) else directory + SEPARATOR
    return path.removeprefix(inside) if path.startswith(inside) else "" if path == directory else path


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")
"""A scheme is at least two characters long and a slash follows: ``a:b.arrow`` is a plain name."""

_LOCAL_HOSTS = ("", "localhost")

_MOST_CHARACTERS: Final = 1 << 16
"""Length of a path or pattern: patterns may list names in braces, paths of systems have 4,096 characters at most."""


def local_path(path: str | os.PathLike[str]) -> str:
    """Return the absolute local path of a plain path or ``file:`` URI.

    Percent escapes are decoded in a URI, not in a plain path. ``.`` and ``..`` are resolved as in
    Hadoop's paths, without following links.
    """
    path = os.fspath(path)
    if not path:
        raise OptionError(expected="a path", found="an empty string")
    if len(path) > _MOST_CHARACTERS:
        raise OptionError(
            expected=f"a path or pattern of at most {_MOST_CHARACTERS:,} characters", found=f"{len(path):,}"
        )
    if "\0" in path:
        raise OptionError(expected="a path", found=f"a NUL character in {cut_repr(path)}")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise OptionError(
            expected="a path", found=f"the lone surrogate {path[error.start]!r} in {cut_repr(path)}, which no name has"
        ) from error
    if path.lower().startswith("file:"):
        path = _of_file_uri(path)
    elif is_remote(path):
        raise UnsupportedError(ONE_KIND, path=path)
    elif scheme := _SCHEME.match(path):
        raise UnsupportedError(
            f"paths with the scheme {scheme[1]}: and a single slash are not read or written; write {scheme[1]}:// and a "
            "host, mount the storage, or copy the files",
            path=path,
        )
    return os.path.abspath(path)


def is_relative(path: str) -> bool:
    """Return True if a path or URI depends on the working directory."""
    return not path.startswith("/") and not path.lower().startswith("file:") and _SCHEME.match(path) is None


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
