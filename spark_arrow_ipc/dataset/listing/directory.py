"""List one directory: its files, subdirectories, and counts of skipped names.

Names that begin with ``_`` or ``.`` are hidden (``_k=v`` is not), as are files with the suffixes of unfinished files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.errors import NoFilesError
from spark_arrow_ipc.storage.paths import join, parent
from spark_arrow_ipc.storage.storage import Kind, Storage, each
from spark_arrow_ipc.table.names import LOG_DIRECTORY, STAGED_SUFFIX, STAGING_DIRECTORY

_COPYING: Final = "._COPYING_"
"""Suffix that Hadoop's shell gives to a file until it is complete."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A directory's files and subdirectories, and counts of the skipped names."""

    files: tuple[DataFile, ...] = ()  # sorted by name
    directories: tuple[str, ...] = ()  # names of the subdirectories that are not hidden, sorted
    hidden: int = 0
    special: int = 0  # number of pipes, sockets and devices
    staging: bool = False  # whether it contains a staging directory
    is_table: bool = False  # whether it contains a log: it is a table that this package wrote
    links: frozenset[str] = frozenset()  # names of the subdirectories that are links
    dangling: tuple[str, ...] = ()  # names of links to missing files

    def describe_skipped(self) -> str:
        """Describe the skipped names for a message; empty if none was skipped."""
        parts = []
        if self.hidden:
            parts.append(f"{count_noun(self.hidden, 'name')} (beginning with _ or ., or ending in {STAGED_SUFFIX})")
        if self.directories:
            parts.append(count_noun(len(self.directories), "subdirectory"))
        if self.special:
            parts.append(f"{count_noun(self.special, 'name')} (no regular files)")
        phrase = " and ".join(parts)
        if self.staging:
            phrase += f"; {STAGING_DIRECTORY} holds the staged files of a write that has not committed"
        return phrase

    def check_links(self, directory: str) -> None:
        """Raise for a dangling link."""
        if self.dangling:  # skipping it would lose rows in silence
            raise dangling_link_error(join(directory, self.dangling[0]))


def dangling_link_error(path: str) -> NoFilesError:
    """Return the error of a link that leads to nothing."""
    return NoFilesError("the link leads to nothing; remove it or restore its target", path=path)


def count_noun(number: int, noun: str) -> str:
    """Return a number with its noun: "1 name", "2 subdirectories"."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("y") else f"{number:,} {noun}s"


def list_directory(storage: Storage, directory: str) -> Listing:
    """List a directory, and raise for dangling links."""
    listing = read_directory(storage, directory)
    listing.check_links(directory)
    return listing


def read_directory(storage: Storage, directory: str) -> Listing:
    """List a directory by one call of the storage; dangling links are in the result."""
    files: list[DataFile] = []
    directories: list[str] = []
    links: list[str] = []
    dangling: list[str] = []
    hidden = special = 0
    staging = is_table = False
    # Unpacked, with positional arguments and local names, as a directory may have 100,000 files.
    file_kind, before_name, new = Kind.FILE, len(join(directory, "x")) - 1, tuple.__new__
    for path, kind, nbytes, mtime_ns, is_link, _, _, version in storage.list(directory):
        name = path[before_name:]
        if is_hidden(name):
            hidden += 1
            staging = staging or name == STAGING_DIRECTORY
            is_table = is_table or name == LOG_DIRECTORY
        elif kind is Kind.DIRECTORY:
            directories.append(name)
            if is_link:
                links.append(name)
        elif name.endswith(STAGED_SUFFIX):
            hidden += 1
        elif kind is file_kind:
            files.append(new(DataFile, (path, nbytes, mtime_ns, (), version)))
        elif kind is Kind.DANGLING:
            dangling.append(name)
        else:
            special += 1
    files.sort(key=attrgetter("path"))
    directories.sort()
    return Listing(
        tuple(files), tuple(directories), hidden, special, staging, is_table, frozenset(links), tuple(sorted(dangling))
    )


def is_hidden(name: str) -> bool:
    """Return whether Spark skips a name (``HadoopFSUtils.shouldFilterOutPathName``)."""
    return name[:1] == "." or (name[:1] == "_" and "=" not in name) or name.endswith(_COPYING)


def is_staging(name: str) -> bool:
    """Return whether a name belongs to a staged file or the staging directory."""
    return name == STAGING_DIRECTORY or name.endswith(STAGED_SUFFIX)


def is_loop(storage: Storage, link: str) -> bool:
    """Return whether a link leads to a directory that contains it."""
    target = storage.status(link)
    directory = parent(link)
    while target is not None and target.identity is not None:  # without identities a storage has no links
        status = storage.status(directory)
        if status is not None and status.identity == target.identity:
            return True
        if directory == parent(directory):
            return False
        directory = parent(directory)
    return False


def walk_levels(tops: Iterable[str], below: Callable[[str], Iterable[str]], *, waits: bool) -> None:
    """Call a function once for each directory of some trees; it returns the directories below its argument."""
    # A level at a time, so that calls that wait are made at once.
    level, seen = [*dict.fromkeys(tops)], set[str]()
    while level:
        seen.update(level)
        inner: dict[str, Iterable[str]] = {}

        def list_below(directory: str, inner: dict[str, Iterable[str]] = inner) -> None:
            inner[directory] = below(directory)

        each(list_below, level, waits=waits)
        level = [*dict.fromkeys(path for directory in level for path in inner[directory] if path not in seen)]
