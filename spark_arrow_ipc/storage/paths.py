"""Operations on paths: absolute strings with parts separated by ``/``, or URLs, whose root is ``scheme://bucket``."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Final

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
    first, _, rest = path.partition(SEPARATOR)
    return f"{first}//{rest[1:].partition(SEPARATOR)[0]}" if rest.startswith(SEPARATOR) else first + SEPARATOR


def name_of(path: str) -> str:
    """Return the last part of a path."""
    return path.rpartition(SEPARATOR)[2]


def relative(path: str, directory: str) -> str:
    """Return a path relative to a directory above it; ``""`` for the same one."""
    inside = directory if directory.endswith(SEPARATOR) else directory + SEPARATOR
    return path.removeprefix(inside) if path.startswith(inside) else "" if path == directory else path
