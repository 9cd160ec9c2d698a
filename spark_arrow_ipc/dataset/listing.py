r"""Which files a read names: the truth about a dataset is the listing of its directory.

Strategy
--------
As Spark's file sources do: a path is a file, a directory or a pattern. A directory gives the files directly in it;
names that begin with ``_`` or ``.`` are skipped. A pattern (``*``, ``?``, in any part of the path) is replaced by
the files and directories that it matches. Paths keep their order, the files of one path are sorted by name, and a
path given twice is read twice. Files that are named outright are read whatever their name.

Nothing is opened here. Whatever is not read is counted, so that an empty answer can say why it is empty.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc.dataset.filesystem import local_path, status
from spark_arrow_ipc.errors import NoFilesError, UnsupportedError

__all__ = ["STAGED_SUFFIX", "STAGING_DIRECTORY", "DataFile", "Listing", "list_directory", "list_files"]

STAGING_DIRECTORY: Final = "_ipc_stage"
"""Directory inside a dataset where a write keeps its files until it commits."""

STAGED_SUFFIX: Final = ".staged"
"""Ending of a file that is not committed: recursive patterns of other readers match what lies in ``_`` directories."""

_MAGIC: Final = re.compile(r"[*?]")
_SUGGESTED_DEPTH: Final = 8
"""Levels of directories that are looked through to find the pattern that an error shows."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a dataset as the listing saw it.

    Parameters
    ----------
    path
        Absolute.
    nbytes
        Its size.
    mtime_ns
        Time of its last modification, nanoseconds since 1970.
    """

    path: str
    nbytes: int
    mtime_ns: int

    def __reduce__(self) -> tuple[type[DataFile], tuple[str, int, int]]:
        # Half of the bytes that a slotted dataclass pickles to: the plan of an overwrite holds all files.
        return DataFile, (self.path, self.nbytes, self.mtime_ns)


@dataclass(frozen=True, slots=True)
class Listing:
    """A directory's files and what was passed over.

    Parameters
    ----------
    files
        Sorted by name.
    directories
        Names of the subdirectories that are not hidden, sorted.
    hidden
        How many names begin with ``_`` or ``.`` or end as unfinished files do.
    special
        How many names are pipes, sockets or devices.
    staging
        Whether the directory of a write that has not committed is there.
    """

    files: tuple[DataFile, ...] = ()
    directories: tuple[str, ...] = ()
    hidden: int = 0
    special: int = 0
    staging: bool = False

    def skipped(self) -> str:
        """Return in words what was passed over, or an empty text."""
        parts = []
        if self.hidden:
            parts.append(f"{_count(self.hidden, 'name')} (beginning with _ or ., or ending in {STAGED_SUFFIX})")
        if self.directories:
            parts.append(_count(len(self.directories), "subdirectory"))
        if self.special:
            parts.append(f"{_count(self.special, 'name')} (no regular files)")
        text = " and ".join(parts)
        if self.staging:
            text += f"; {STAGING_DIRECTORY} holds the staged files of a write that has not committed"
        return text


def list_files(paths: Sequence[str]) -> tuple[DataFile, ...]:
    """Return the files that paths name: files, directories (not recursive) and patterns of ``*`` and ``?``.

    O(names) and one ``stat`` a file. A file that vanishes while its directory is listed is left out.

    Parameters
    ----------
    paths
        Plain paths or ``file:`` URIs; the order is kept.

    Raises
    ------
    NoFilesError
        A path does not exist, a pattern matches nothing, or nothing readable is found: with what was looked for, what
        was skipped and why, and what to write instead.
    UnsupportedError
        A directory is partitioned (``key=value`` subdirectories), or a path has a scheme other than ``file``.
    OSError
        The file system refuses a listing.
    """
    if not paths:
        raise NoFilesError("no path was given; give a file, a directory or a pattern such as /data/*.arrow")
    files: list[DataFile] = []
    empty: list[tuple[str, Listing]] = []
    for path in map(local_path, paths):
        for root in _roots(path):
            if isinstance(root, DataFile):
                files.append(root)
                continue
            listing = list_directory(root)
            _refuse_partitions(root, listing)
            files.extend(listing.files)
            if not listing.files:
                empty.append((root, listing))
    if not files:
        raise _nothing(empty)
    return tuple(files)


def list_directory(directory: str) -> Listing:
    """Return a directory's own files, sorted by name, and what was passed over.

    Raises
    ------
    NoFilesError
        A name in it is a link that leads nowhere.
    OSError
        The directory cannot be listed.
    """
    files: list[DataFile] = []
    directories: list[str] = []
    hidden = special = 0
    staging = False
    with os.scandir(directory) as entries:
        for entry in entries:
            name = entry.name
            if _is_hidden(name):
                hidden += 1
                staging = staging or name == STAGING_DIRECTORY
            elif entry.is_dir():
                directories.append(name)
            elif entry.is_file():
                if found := _data_file(entry):
                    files.append(found)
            elif entry.is_symlink() and status(entry.path) is None:
                raise NoFilesError("the link leads to nothing; remove it or mend what it names", path=entry.path)
            else:
                special += 1
    files.sort(key=lambda file: file.path)
    return Listing(tuple(files), tuple(sorted(directories)), hidden, special, staging)


def _data_file(entry: os.DirEntry[str]) -> DataFile | None:
    try:
        found = entry.stat()
    except FileNotFoundError:  # removed since the directory was read: it belongs to no version of the data any more
        return None
    return DataFile(entry.path, found.st_size, found.st_mtime_ns)


def _is_hidden(name: str) -> bool:
    """Spark's rule (``HadoopFSUtils.shouldFilterOutPathName``), and the files of our own unfinished writes."""
    return (
        name.startswith(".")
        or (name.startswith("_") and "=" not in name)
        or name.endswith((STAGED_SUFFIX, "._COPYING_"))
    )


def _is_staging(name: str) -> bool:
    return name == STAGING_DIRECTORY or name.endswith(STAGED_SUFFIX)


def _roots(path: str) -> Iterator[DataFile | str]:
    """Yield a file that is read as it is, or the path of a directory to list."""
    if _MAGIC.search(path):
        yield from map(_root, _matches(path))
    else:
        yield _root(path)


def _root(path: str) -> DataFile | str:
    if any(map(_is_staging, path.split(os.sep))):
        raise NoFilesError("this is a staged file of a write that has not committed; it is never read", path=path)
    found = status(path)
    if found is None:
        raise _missing(path)
    if found.is_directory:
        return path
    if not found.is_file:
        raise NoFilesError("this is a pipe, socket or device; copy its bytes to a regular file first", path=path)
    return DataFile(path, found.nbytes, found.mtime_ns)


def _missing(path: str) -> NoFilesError:
    parent = os.path.dirname(path)
    while not os.path.isdir(parent):
        parent = os.path.dirname(parent)
    text = f"the path does not exist; the nearest directory that does is {parent}"
    if re.search(r"[\[\]{}]", path):
        text += "; of patterns only * and ? are understood"
    return NoFilesError(text, path=path)


def _matches(pattern: str) -> list[str]:
    """Return the paths that match a pattern, sorted."""
    found = [os.sep]
    for part in pattern.split(os.sep)[1:]:
        found = [match for directory in found for match in _matches_in(directory, part)]
    if not found:
        raise NoFilesError("no file or directory matches the pattern", path=pattern)
    return sorted(found)


def _matches_in(directory: str, part: str) -> Iterable[str]:
    if not _MAGIC.search(part):
        path = os.path.join(directory, part)
        return [path] if os.path.lexists(path) else []
    if not os.path.isdir(directory):
        return []
    matches = re.compile("".join(_TRANSLATION.get(letter, re.escape(letter)) for letter in part), re.DOTALL).fullmatch
    shows_hidden = part.startswith(("_", "."))
    return [
        os.path.join(directory, name)
        for name in os.listdir(directory)
        if matches(name) and (not _is_hidden(name) or (shows_hidden and not _is_staging(name)))
    ]


_TRANSLATION: Final = {"*": ".*", "?": "."}
"""A part of a path holds no slash, so that these cannot cross a directory."""


def _refuse_partitions(directory: str, listing: Listing) -> None:
    """Refuse a partitioned directory: reading only the files beside the partitions would lose rows in silence."""
    partitions = [name for name in listing.directories if "=" in name]
    if partitions:
        raise UnsupportedError(
            f"the directory is partitioned ({_some(partitions)}); its partitions are not read as columns. "
            f"To read the files without those columns give the pattern {_pattern(directory)}",
            path=directory,
        )


def _nothing(empty: Sequence[tuple[str, Listing]]) -> NoFilesError:
    """Return the error that explains the first of the directories in which nothing was found."""
    directory, listing = empty[0]
    skipped = listing.skipped()
    text = f"expected files to read, found none; skipped {skipped}" if skipped else "the directory is empty"
    if listing.directories:
        text += (
            f". Nested directories ({_some(listing.directories)}) are not read; "
            f"to read their files give the pattern {_pattern(directory)}"
        )
    if len(empty) > 1:
        text += f" (and nothing in {_count(len(empty) - 1, 'other directory')})"
    return NoFilesError(text, path=directory)


def _pattern(directory: str) -> str:
    """Return the pattern that reaches the first level of subdirectories which holds files."""
    pattern, inside = directory, directory
    for _ in range(_SUGGESTED_DEPTH):
        pattern = os.path.join(pattern, "*")
        listing = list_directory(inside)
        if not listing.directories:
            break
        inside = os.path.join(inside, listing.directories[0])
        if list_directory(inside).files:
            break
    return pattern


def _some(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _count(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("y") else f"{number:,} {noun}s"
