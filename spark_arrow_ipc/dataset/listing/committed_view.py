"""`CommittedView`: list directories with the changes of pending jobs applied.

Strategy
--------
`CommittedView` corrects listings by the pending commit records of their datasets: a committed file that is still staged
is listed, a removed one is not, and a directory that exists only for such files is listed too. After listing,
`is_unchanged` tells whether any head has moved meanwhile (a sequence lock); the listings must be discarded then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from spark_arrow_ipc.dataset.commit_log.dataset_directory import COMMITS_DIRECTORY, DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.log import Pending, read_head, read_state
from spark_arrow_ipc.dataset.commit_log.record import StagedFile
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.directory import Listing, look
from spark_arrow_ipc.storage.paths import SEPARATOR, join, name_of, parent
from spark_arrow_ipc.storage.storage import Storage

__all__ = ["CommittedView"]


class _Correction:
    """The changes of a pending record, by directory."""

    def __init__(self, pending: Pending) -> None:
        self._pending = pending
        dataset = pending.dataset
        self._removed = pending.removed()
        self._adds: dict[str, dict[str, StagedFile]] = {}
        self._directories: dict[str, set[str]] = {}
        for add in pending.record.adds:
            directory, _, name = dataset.path(add.final).rpartition(SEPARATOR)
            self._adds.setdefault(directory, {})[name] = add
            while directory != dataset.root:
                directory, _, name = directory.rpartition(SEPARATOR)
                self._directories.setdefault(directory, set()).add(name)

    def file(self, path: str) -> DataFile | None:
        directory, _, name = path.rpartition(SEPARATOR)
        add = self._adds.get(directory, {}).get(name)
        return None if add is None else self._file(add)

    def _file(self, add: StagedFile) -> DataFile:
        file = self._pending.file(add)
        return DataFile(file.path, file.nbytes, file.mtime_ns, (), file.staged)

    def has_directory(self, path: str) -> bool:
        return path in self._adds or path in self._directories

    def applied(self, directory: str, listing: Listing) -> Listing:
        adds = dict(self._adds.get(directory, {}))
        files = []
        for file in listing.files:
            add = adds.pop(name_of(file.path), None)
            if add is not None or file.path not in self._removed:
                files.append(file)
        if adds:
            files = sorted([*files, *map(self._file, adds.values())], key=lambda file: file.path)
        directories = sorted(self._directories.get(directory, set()).union(listing.directories))
        return replace(listing, files=tuple(files), directories=tuple(directories))


class CommittedView:
    """The directories of one read, with pending commit records applied."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._heads: dict[str, int] = {}
        self._corrections: dict[str, _Correction | None] = {}
        self._datasets: dict[str, str | None] = dict.fromkeys(("", SEPARATOR))
        """The dataset that contains each directory, or None."""

    def list(self, directory: str) -> Listing:
        """Return the listing of a directory; an empty one if it does not exist.

        Raises
        ------
        CommitError, FileChangedError
            A commit record, or a file that it names, is damaged.
        OSError
            The directory cannot be listed, or a committed file was renamed meanwhile.
        """
        # The head is read before the names, so that they are listed once. Below a dataset that is met none is looked for.
        if self._datasets.get(parent(directory)) is None:
            self._dataset(directory, is_known=False)
        try:
            listing = look(self.storage, directory)
            if listing.committed and directory not in self._heads:  # a dataset inside a dataset, or a new one
                self._add_dataset(directory)
                listing = look(self.storage, directory)
        except (FileNotFoundError, NotADirectoryError):
            listing = Listing()
        correction = self._correction(directory, is_known=True)
        return listing if correction is None else correction.applied(directory, listing)

    def file(self, path: str) -> DataFile | None:
        """Return a committed file that does not have its final name yet, or None."""
        correction = self._correction(parent(path))
        return None if correction is None else correction.file(path)

    def has_directory(self, path: str) -> bool:
        """Return whether publishing a pending job makes this directory."""
        correction = self._correction(parent(path))
        return correction is not None and correction.has_directory(path)

    def is_unchanged(self, directories: Iterable[str] = ()) -> bool:
        """Return whether the listings show one state of each dataset.

        `directories` that were no dataset when they were listed must not have become one.
        """
        return all(read_head(self._directory(dataset)).seq == seq for dataset, seq in self._heads.items()) and not any(
            self._has_records(directory) for directory in directories if self._datasets.get(directory) is None
        )

    def _add_dataset(self, dataset: str) -> None:
        state = read_state(self._directory(dataset))
        self._heads[dataset] = state.head.seq
        self._corrections[dataset] = None if state.pending is None else _Correction(state.pending)
        self._datasets[dataset] = dataset

    def _correction(self, directory: str, *, is_known: bool = False) -> _Correction | None:
        dataset = self._dataset(directory, is_known=is_known)
        return None if dataset is None else self._corrections[dataset]

    def _dataset(self, directory: str, *, is_known: bool) -> str | None:
        """Return the nearest dataset at or above a directory, or None.

        `is_known` says that the directory itself need not be checked.
        """
        unknown = []
        while directory not in self._datasets:
            if not is_known and self._has_records(directory):
                self._add_dataset(directory)
                break
            is_known = False
            unknown.append(directory)
            directory = parent(directory)
        dataset = self._datasets[directory]
        self._datasets.update(dict.fromkeys(unknown, dataset))
        return dataset

    def _has_records(self, directory: str) -> bool:
        return self.storage.status(join(directory, COMMITS_DIRECTORY), follow_links=False) is not None

    def _directory(self, dataset: str) -> DatasetDirectory:
        return DatasetDirectory(self.storage, dataset)
