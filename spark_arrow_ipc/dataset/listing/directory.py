"""One look at one directory: its files, its subdirectories, and what is skipped.

Names that begin with ``_`` or ``.`` are hidden (``_k=v`` is not), as are files that end as unfinished ones do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc.dataset.commit_log.dataset_directory import COMMITS_DIRECTORY, STAGING_DIRECTORY
from spark_arrow_ipc.dataset.commit_log.record import STAGED_SUFFIX
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.errors import NoFilesError
from spark_arrow_ipc.storage.paths import join, name_of, parent
from spark_arrow_ipc.storage.storage import Kind, Storage

__all__ = ["Listing", "counted", "is_hidden", "is_loop", "is_staging", "list_directory", "look"]

_COPYING: Final = "._COPYING_"
"""How Hadoop's shell ends a name until the file is whole."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A directory's files and what was skipped.

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
    committed
        Whether commit records are there: this is the directory of a dataset that was written by this package.
    links
        Names of the subdirectories that are links.
    dangling
        Names of the links that lead nowhere.
    """

    files: tuple[DataFile, ...] = ()
    directories: tuple[str, ...] = ()
    hidden: int = 0
    special: int = 0
    staging: bool = False
    committed: bool = False
    links: frozenset[str] = frozenset()
    dangling: tuple[str, ...] = ()

    def skipped(self) -> str:
        """Return a phrase for what was skipped, or an empty string."""
        parts = []
        if self.hidden:
            parts.append(f"{counted(self.hidden, 'name')} (beginning with _ or ., or ending in {STAGED_SUFFIX})")
        if self.directories:
            parts.append(counted(len(self.directories), "subdirectory"))
        if self.special:
            parts.append(f"{counted(self.special, 'name')} (no regular files)")
        text = " and ".join(parts)
        if self.staging:
            text += f"; {STAGING_DIRECTORY} holds the staged files of a write that has not committed"
        return text

    def check_links(self, directory: str) -> None:
        """Raise where a name is a link that leads nowhere: rows would be missing without a word.

        Raises
        ------
        NoFilesError
            With the link.
        """
        if self.dangling:
            raise NoFilesError(
                "the link leads to nothing; remove it or mend what it names",
                path=join(directory, self.dangling[0]),
            )


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 name", "2 subdirectories"."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("y") else f"{number:,} {noun}s"


def list_directory(storage: Storage, directory: str) -> Listing:
    """Return a directory's own files, sorted by name, and what was skipped. One look at each file.

    Raises
    ------
    NoFilesError
        A name in it is a link that leads nowhere.
    OSError
        The directory cannot be listed.
    """
    listing = look(storage, directory)
    listing.check_links(directory)
    return listing


def look(storage: Storage, directory: str) -> Listing:
    """Return a directory's listing, links that lead nowhere included."""
    files: list[DataFile] = []
    directories: list[str] = []
    links: list[str] = []
    dangling: list[str] = []
    hidden = special = 0
    staging = committed = False
    for status in storage.list(directory):
        name = name_of(status.path)
        kind = status.kind
        if is_hidden(name):
            hidden += 1
            staging = staging or name == STAGING_DIRECTORY
            committed = committed or name == COMMITS_DIRECTORY
        elif kind is Kind.DIRECTORY:
            directories.append(name)
            if status.is_link:
                links.append(name)
        elif name.endswith(STAGED_SUFFIX):
            hidden += 1
        elif kind is Kind.FILE:
            files.append(DataFile(status.path, status.nbytes, status.mtime_ns))
        elif kind is Kind.DANGLING:
            dangling.append(name)
        else:
            special += 1
    files.sort(key=lambda file: file.path)
    directories.sort()
    return Listing(
        tuple(files), tuple(directories), hidden, special, staging, committed, frozenset(links), tuple(sorted(dangling))
    )


def is_hidden(name: str) -> bool:
    """Return whether Spark skips files and directories of a name (``HadoopFSUtils.shouldFilterOutPathName``)."""
    return name[:1] == "." or (name[:1] == "_" and "=" not in name) or name.endswith(_COPYING)


def is_staging(name: str) -> bool:
    """Return whether a name says that what it names, or lies in it, is not committed."""
    return name == STAGING_DIRECTORY or name.endswith(STAGED_SUFFIX)


def is_loop(storage: Storage, link: str) -> bool:
    """Return whether a link to a directory leads to one that it lies in. One look a level."""
    target = storage.status(link)
    directory = parent(link)
    while target is not None and target.identity is not None:
        status = storage.status(directory)
        if status is not None and status.identity == target.identity:
            return True
        if directory == parent(directory):
            return False
        directory = parent(directory)
    return False
