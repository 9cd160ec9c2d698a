"""Single directories as a reader sees them: their files, their subdirectories, and what a commit changes at the moment.

Strategy
--------
`list_directory` is one look at the file system. `CommittedView` corrects it by the commit records of the datasets
that it meets: a file that is committed and still staged is there, one that is removed is not, and a directory that
only such files will make is there too. When all is listed, `is_unchanged` says whether any head has moved meanwhile
(a sequence lock): what was listed is then to be thrown away.

Names that begin with ``_`` or ``.`` are hidden (``_k=v`` is not), as are files that end as unfinished ones do.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from spark_arrow_ipc.dataset.commit_log.log import (
    COMMITS_DIRECTORY,
    STAGED_SUFFIX,
    STAGING_DIRECTORY,
    Pending,
    read_head,
    read_state,
)
from spark_arrow_ipc.dataset.commit_log.record import StagedFile
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.errors import NoFilesError
from spark_arrow_ipc.storage.local import status

__all__ = ["CommittedView", "DataFile", "Listing", "is_hidden", "is_loop", "is_staging", "list_directory"]

_COPYING: Final = "._COPYING_"
"""How Hadoop's shell ends a name until the file is whole."""


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
        """Return in words what was passed over, or an empty text."""
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
                path=os.path.join(directory, self.dangling[0]),
            )


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 name", "2 subdirectories"."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("y") else f"{number:,} {noun}s"


def list_directory(directory: str) -> Listing:
    """Return a directory's own files, sorted by name, and what was passed over. One ``stat`` a file.

    Raises
    ------
    NoFilesError
        A name in it is a link that leads nowhere.
    OSError
        The directory cannot be listed.
    """
    listing = _look(directory)
    listing.check_links(directory)
    return listing


def _look(directory: str) -> Listing:
    files: list[DataFile] = []
    directories: list[str] = []
    links: list[str] = []
    dangling: list[str] = []
    hidden = special = 0
    staging = committed = False
    with os.scandir(directory) as entries:
        for entry in entries:
            name = entry.name
            if is_hidden(name):
                hidden += 1
                staging = staging or name == STAGING_DIRECTORY
                committed = committed or name == COMMITS_DIRECTORY
            elif entry.is_dir():
                directories.append(name)
                if entry.is_symlink():
                    links.append(name)
            elif name.endswith(STAGED_SUFFIX):
                hidden += 1
            elif entry.is_file():
                if found := _data_file(entry):
                    files.append(found)
            elif entry.is_symlink() and status(entry.path) is None:
                dangling.append(name)
            else:
                special += 1
    files.sort(key=lambda file: file.path)
    directories.sort()
    return Listing(
        tuple(files), tuple(directories), hidden, special, staging, committed, frozenset(links), tuple(sorted(dangling))
    )


def _data_file(entry: os.DirEntry[str]) -> DataFile | None:
    try:
        found = entry.stat()
    except FileNotFoundError:  # removed since the directory was read: it belongs to no version of the data any more
        return None
    return DataFile(entry.path, found.st_size, found.st_mtime_ns)


def is_hidden(name: str) -> bool:
    """Return whether Spark passes over files and directories of a name (``HadoopFSUtils.shouldFilterOutPathName``)."""
    return name[:1] == "." or (name[:1] == "_" and "=" not in name) or name.endswith(_COPYING)


def is_staging(name: str) -> bool:
    """Return whether a name says that what it names, or lies in it, is not committed."""
    return name == STAGING_DIRECTORY or name.endswith(STAGED_SUFFIX)


def is_loop(link: str) -> bool:
    """Return whether a link to a directory leads to one that it lies in. One ``stat`` a level."""
    target = status(link)
    directory = os.path.dirname(link)
    while target is not None:
        found = status(directory)
        if found is not None and found.inode == target.inode:
            return True
        if directory == os.path.dirname(directory):
            return False
        directory = os.path.dirname(directory)
    return False


class _Correction:
    """What a pending record changes, by directory."""

    def __init__(self, pending: Pending) -> None:
        self._pending = pending
        self._removed = pending.removed()
        self._adds: dict[str, dict[str, StagedFile]] = {}
        self._directories: dict[str, set[str]] = {}
        for add in pending.record.adds:
            directory, _, name = os.path.join(pending.root, add.final).rpartition(os.sep)
            self._adds.setdefault(directory, {})[name] = add
            while directory != pending.root:
                directory, _, name = directory.rpartition(os.sep)
                self._directories.setdefault(directory, set()).add(name)

    def file(self, path: str) -> DataFile | None:
        directory, _, name = path.rpartition(os.sep)
        add = self._adds.get(directory, {}).get(name)
        return None if add is None else self._file(add)

    def _file(self, add: StagedFile) -> DataFile:
        found = self._pending.file(add)
        return DataFile(found.path, found.nbytes, found.mtime_ns, (), found.staged)

    def has_directory(self, path: str) -> bool:
        return path in self._adds or path in self._directories

    def applied(self, directory: str, listing: Listing) -> Listing:
        adds = dict(self._adds.get(directory, {}))
        files = []
        for file in listing.files:
            add = adds.pop(os.path.basename(file.path), None)
            if add is not None or file.path not in self._removed:
                files.append(file)
        if adds:
            files = sorted([*files, *map(self._file, adds.values())], key=lambda file: file.path)
        directories = sorted(self._directories.get(directory, set()).union(listing.directories))
        return replace(listing, files=tuple(files), directories=tuple(directories))


class CommittedView:
    """Directories as the commit records say, for one listing of any number of them."""

    def __init__(self) -> None:
        self._heads: dict[str, int] = {}
        self._corrections: dict[str, _Correction | None] = {}
        self._datasets: dict[str, str | None] = {os.sep: None}
        """The dataset in whose directory each directory lies."""

    def list(self, directory: str) -> Listing:
        """Return the listing of a directory, empty where there is none.

        Raises
        ------
        CommitError, FileChangedError
            A commit record, or a file that it names, is damaged.
        OSError
            The directory cannot be listed, or a committed file was renamed under the look.
        """
        try:
            listing = _look(directory)
            if listing.committed and directory not in self._heads:
                self._meet(directory)
                listing = _look(directory)  # its names may have been read before the head was
        except (FileNotFoundError, NotADirectoryError):
            listing = Listing()
        correction = self._correction(directory, is_known=True)
        return listing if correction is None else correction.applied(directory, listing)

    def file(self, path: str) -> DataFile | None:
        """Return a file that is committed and has not its name yet, or None."""
        correction = self._correction(os.path.dirname(path))
        return None if correction is None else correction.file(path)

    def has_directory(self, path: str) -> bool:
        """Return whether committed files that have not their names yet will make a directory."""
        correction = self._correction(os.path.dirname(path))
        return correction is not None and correction.has_directory(path)

    def is_unchanged(self, directories: Iterable[str] = ()) -> bool:
        """Return whether what was listed is one state of each dataset, those among `directories` that are new included."""
        return all(read_head(dataset).seq == seq for dataset, seq in self._heads.items()) and not any(
            _has_records(directory) for directory in directories if self._datasets.get(directory) is None
        )

    def _meet(self, dataset: str) -> None:
        state = read_state(dataset)
        self._heads[dataset] = state.head.seq
        self._corrections[dataset] = None if state.pending is None else _Correction(state.pending)
        self._datasets[dataset] = dataset

    def _correction(self, directory: str, *, is_known: bool = False) -> _Correction | None:
        dataset = self._dataset(directory, is_known=is_known)
        return None if dataset is None else self._corrections[dataset]

    def _dataset(self, directory: str, *, is_known: bool) -> str | None:
        """Return the nearest directory above or here that holds commit records; `is_known`: here is none, or it is met."""
        unknown = []
        while directory not in self._datasets:
            if not is_known and _has_records(directory):
                self._meet(directory)
                break
            is_known = False
            unknown.append(directory)
            directory = os.path.dirname(directory)
        dataset = self._datasets[directory]
        self._datasets.update(dict.fromkeys(unknown, dataset))
        return dataset


def _has_records(directory: str) -> bool:
    return os.path.lexists(os.path.join(directory, COMMITS_DIRECTORY))
