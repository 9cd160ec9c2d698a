"""Paths as strings: absolute, with ``/`` between their parts, the same in every storage."""

from __future__ import annotations

import posixpath
from typing import Final

__all__ = ["SEPARATOR", "TEMPORARY_SUFFIX", "join", "name_of", "parent", "relative"]

SEPARATOR: Final = "/"

TEMPORARY_SUFFIX: Final = ".staged"
"""Ending of files that are not whole or not committed yet: readers skip it wherever they meet it."""


def join(directory: str, *parts: str) -> str:
    """Return a path below a directory; empty parts add nothing."""
    return posixpath.join(directory, *filter(None, parts)) if any(parts) else directory


def parent(path: str) -> str:
    """Return the directory of a path: ``/`` for the root, an empty string for a bare name."""
    return posixpath.dirname(path)


def name_of(path: str) -> str:
    """Return the last part of a path."""
    return path.rpartition(SEPARATOR)[2]


def relative(path: str, directory: str) -> str:
    """Return a path as seen from a directory above it: ``""`` for the directory itself."""
    inside = directory if directory.endswith(SEPARATOR) else directory + SEPARATOR
    return path.removeprefix(inside) if path.startswith(inside) else "" if path == directory else path
