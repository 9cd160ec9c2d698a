"""`CommittedView`: the directories of a read, with the changes of pending jobs applied.

How it works: listings are corrected by the pending log entries of their tables. A committed file that is still staged is
listed, a removed file is not, and a directory that exists only for such files is listed too. A directory in a table
(``lake/k=1``) is corrected by the entries of the table, from wherever the read begins.

Jobs may be committed while directories are listed. So after listing, `catch_up` reads the new log entries, and the caller
lists again: the storage lists each directory only once, and all later changes correct it. The result is the state of the
newest entry *n* that was read, at whatever moment a directory was listed: names are never used twice, so every file that was
listed or added by an entry up to *n* belongs to it, unless an entry up to *n* removed the file.

Where each call of the storage waits for a network, `list_ahead` and `read_statuses` make all calls of a step at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum, auto
from typing import NamedTuple

from spark_arrow_ipc.dataset.commit_log.dataset_directory import (
    COMMITS_DIRECTORY,
    DatasetDirectory,
    RemovedFile,
    StagedFile,
    has_any,
)
from spark_arrow_ipc.dataset.commit_log.log import Pending, read_changes, read_head, read_state
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.directory import Listing, is_loop, read_directory
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage.paths import above, join, name_of, parent, relative
from spark_arrow_ipc.storage.storage import Status, Storage, each


class ListedEntry(NamedTuple):
    """The log entry whose state listings have."""

    seq: int  # its number; 0 for a table without entries
    schema: str = ""  # the text of its schema (`record`)


class Progress(Enum):
    """The changes of tables while they were listed."""

    SAME = auto()
    """Nothing was committed."""
    MOVED = auto()
    """Jobs were committed, and the listings are corrected by their log entries."""
    LOST = auto()
    """The changes are no longer in the log; all listings must be discarded."""


class _Correction:
    """The changes of log entries, oldest first, by directory; `files` caches files by their staged path."""

    def __init__(self, changes: Sequence[Pending], files: dict[str, DataFile]) -> None:
        self._files = files
        self._removed: dict[str, list[RemovedFile]] = {}
        self._adds: dict[str, dict[str, tuple[Pending, StagedFile]]] = {}
        self._directories: dict[str, set[str]] = {}
        added: dict[str, tuple[Pending, StagedFile]] = {}
        for pending in changes:
            for path, file in pending.removed().items():
                self._removed.setdefault(path, []).append(file)
                added.pop(path, None)
            record = pending.record
            added.update((pending.dataset.path(add.final), (pending, add)) for add in (*record.adds, *record.documents))
        for path, change in added.items():
            directory = parent(path)
            self._adds.setdefault(directory, {})[name_of(path)] = change
            while directory != change[0].dataset.root:  # directories that may exist only for this file
                name, directory = name_of(directory), parent(directory)
                self._directories.setdefault(directory, set()).add(name)

    def file(self, path: str) -> DataFile | None:
        add = self._adds.get(parent(path), {}).get(name_of(path))
        return None if add is None else self._file(add)

    def _file(self, change: tuple[Pending, StagedFile]) -> DataFile:
        pending, add = change
        staged = pending.staged(add)
        if staged not in self._files:
            file = pending.file(add)
            self._files[staged] = DataFile(file.path, file.nbytes, file.mtime_ns, (), file.staged)
        return self._files[staged]

    def has_directory(self, path: str) -> bool:
        return path in self._adds or path in self._directories

    def apply(self, directory: str, listing: Listing) -> Listing:
        adds = dict(self._adds.get(directory, {}))
        files = []
        for file in listing.files:
            add = adds.pop(name_of(file.path), None)
            removed = self._removed.get(file.path, ())
            if add is not None and add[1] in add[0].record.documents:
                files.append(self._file(add))  # the listed file of this name may be the old one
            elif add is not None:
                pending, staged = add
                # It has its final name. Where a storage copies, it may be copied once more, with another version.
                if not pending.dataset.storage.traits.renames:
                    file = file._replace(staged=pending.staged(staged), version="")  # noqa: PLW2901
                files.append(file)
            elif not any(one.is_same(file) for one in removed):
                files.append(file)
        if adds:
            files = sorted([*files, *map(self._file, adds.values())], key=lambda file: file.path)
        directories = sorted(self._directories.get(directory, set()).union(listing.directories))
        return replace(listing, files=tuple(files), directories=tuple(directories))


class CommittedView:
    """The directories of one read, with the committed changes that the storage does not show yet."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.listed = 0
        """Number of listings by the storage."""
        self._listings: dict[str, Listing] = {}
        """Listings of the storage, uncorrected."""
        self._corrected: dict[str, Listing] = {}
        """The same, corrected by all changes so far."""
        self._files: dict[str, DataFile] = {}
        self._heads: dict[str, ListedEntry] = {}
        self._changes: dict[str, tuple[Pending, ...]] = {}
        self._corrections: dict[str, _Correction | None] = {}
        self._datasets: dict[str, str | None] = {"": None}
        """The innermost table that contains each directory, or None."""
        self._linked: set[str] = set()
        """Tables that are reached only by links to directories in them, so that listed paths are not those in the log."""
        self._listed_ahead: dict[str, Listing] = {}
        self._statuses: dict[str, Status | None] = {}
        """Answers of the storage that are not used yet."""

    @property
    def heads(self) -> Mapping[str, ListedEntry]:
        """The log entry whose state the listings have, by the path of each table."""
        return dict(self._heads)

    def list_ahead(self, directories: Iterable[str]) -> None:
        """List the next directories of `listing` at once, if each call waits."""
        if not self.storage.traits.waits:
            return

        def list_one(directory: str) -> None:
            with suppress(FileNotFoundError, NotADirectoryError):
                self._listed_ahead[directory] = read_directory(self.storage, directory)

        directories = list(dict.fromkeys(directories))
        for outer in dict.fromkeys(map(parent, directories)):
            self._dataset(outer, is_known=False)  # the head of a log is read before the names, which it corrects
        done = self._listings.keys() | self._listed_ahead.keys()
        each(list_one, [path for path in directories if path not in done], waits=True)

    def read_statuses(self, paths: Iterable[str]) -> None:
        """Read the states of the next paths of `status` at once, if each call waits."""
        if not self.storage.traits.waits:
            return

        def read(path: str) -> None:
            self._statuses[path] = self.storage.status(path)

        each(read, list(dict.fromkeys(paths)), waits=True)

    def status(self, path: str, *, follow_links: bool = True) -> Status | None:
        """Return the state of a path in the storage, or None if it does not exist."""
        if path in self._statuses:  # storages whose calls wait have no links
            return self._statuses.pop(path)
        return self.storage.status(path, follow_links=follow_links)

    def listing(self, directory: str) -> Listing:
        """Return the listing of a directory, which the storage lists once; an empty one if it does not exist."""
        if directory in self._corrected:
            return self._corrected[directory]
        # The head is read before the names, so that they are listed once. Below a table, other tables show in listings.
        if self._datasets.get(parent(directory)) is None:
            self._dataset(directory, is_known=False)
        if directory not in self._listings:
            self._listings[directory] = self._list_once(directory)
        correction = self._correction(directory, is_known=True)
        listing = self._listings[directory]
        self._corrected[directory] = listing if correction is None else correction.apply(directory, listing)
        return self._corrected[directory]

    def walk(self, root: str, seen: set[str]) -> Iterator[tuple[str, Listing]]:
        """Yield the directories of a tree that are not in `seen`: sorted, parents first."""
        if self.storage.traits.waits:
            level = [root]
            while level:  # all directories of a level at once
                self.list_ahead(level)
                level = [inner for directory in level for inner in self._inner(directory)]
        waiting = [root]
        while waiting:
            directory = waiting.pop()
            if directory in seen:
                continue
            seen.add(directory)
            yield directory, self.listing(directory)
            waiting.extend(reversed(self._inner(directory)))

    def _inner(self, directory: str) -> list[str]:
        """Return the subdirectories of a directory, without links to a directory above it."""
        listing, paths = self.listing(directory), []
        for name in listing.directories:
            path = join(directory, name)
            if name not in listing.links:
                paths.append(path)
            elif not is_loop(self.storage, path):
                paths.append(self.check_link(path))
        return paths

    def leaves(
        self, roots: Sequence[DataFile | str]
    ) -> tuple[dict[str, tuple[DataFile, ...]], tuple[tuple[str, Listing], ...]]:
        """Return the files of each directory of the trees below the roots, each once, and listings with dangling links."""
        leaves: dict[str, tuple[DataFile, ...]] = {}
        dangling: list[tuple[str, Listing]] = []
        seen: set[str] = set()
        for root in roots:
            if isinstance(root, str):
                for directory, listing in self.walk(root, seen):
                    if listing.files:
                        leaves[directory] = listing.files
                    if listing.dangling:
                        dangling.append((directory, listing))
        named: dict[str, dict[str, DataFile]] = {}
        for root in roots:
            if isinstance(root, DataFile):
                named.setdefault(parent(root.path), {}).setdefault(root.path, root)
        for directory, files in named.items():
            by_path = {file.path: file for file in leaves.get(directory, ())}
            leaves[directory] = tuple({**by_path, **files}.values())
        return leaves, tuple(dangling)

    def _list_once(self, directory: str) -> Listing:
        outer = self._listings.get(parent(directory))
        correction = self._correction(directory, is_known=True)
        is_new = outer is not None and name_of(directory) not in outer.directories
        if is_new and correction is not None and correction.has_directory(directory):
            return Listing()  # a job made it after the outer listing: all its files are in log entries
        self.listed += 1
        try:
            looked = self._listed_ahead.pop(directory, None)
            listing = read_directory(self.storage, directory) if looked is None else looked
            if listing.committed and directory not in self._heads:  # a table inside a table, or a new one
                self._add_dataset(directory)
                listing = read_directory(self.storage, directory)
        except (FileNotFoundError, NotADirectoryError):
            return Listing()
        return listing

    def file(self, path: str) -> DataFile | None:
        """Return a committed file that does not have its final name yet, or None."""
        correction = self._correction(parent(path))
        return None if correction is None else correction.file(path)

    def document(self, path: str, most: int) -> bytes:
        """Return the bytes of a small file as of the newest log entry; `LimitError` if it is larger than `most`."""
        file = self.file(path)
        if file is not None and file.staged is not None:
            with suppress(FileNotFoundError):  # it has its name by now
                return self.storage.read(file.staged, most)
        return self.storage.read(path, most)

    def has_directory(self, path: str) -> bool:
        """Return whether publishing a pending job makes this directory."""
        correction = self._correction(parent(path))
        return correction is not None and correction.has_directory(path)

    def catch_up(self, directories: Iterable[str] = ()) -> Progress:
        """Correct the listings by the jobs that were committed since, and return their effect."""
        # This gives the state of the newest log entry: a file that existed before and was not removed is in its listing,
        # and a file that was added or removed meanwhile is in an entry. It costs one small listing for each table, and one
        # read for each new entry.
        progress = Progress.SAME
        for dataset, head in self._heads.items():
            if read_head(self._directory(dataset)).seq == head.seq:
                continue
            changes = read_changes(self._directory(dataset), head.seq)
            if changes is None or dataset in self._linked:
                return Progress.LOST
            progress = Progress.MOVED
            newest = changes[-1].record
            self._apply(dataset, ListedEntry(newest.seq, newest.schema), (*self._changes[dataset], *changes))
        # Directories outside of all tables may have become one, or a part of one.
        strangers = [directory for directory in directories if self._datasets.get(directory) is None]
        # A table above has changed a directory only if the directory is one of its partitions.
        around = [outer for path in strangers for outer in above(path) if "=" in relative(path, outer)]
        return Progress.LOST if any(self._have_records([*dict.fromkeys(strangers + around)])) else progress

    def _add_dataset(self, dataset: str) -> None:
        state = read_state(self._directory(dataset))
        changes = () if state.pending is None else (state.pending,)
        self._apply(dataset, ListedEntry(state.head.seq, state.schema), changes)
        self._datasets[dataset] = dataset
        self._listed_ahead.pop(dataset, None)  # its names must be listed after its head was read

    def _apply(self, dataset: str, head: ListedEntry, changes: tuple[Pending, ...]) -> None:
        self._corrected.clear()
        self._heads[dataset] = head
        self._changes[dataset] = changes
        changing = [change for change in changes if change.record.adds or change.record.removes]
        self._corrections[dataset] = _Correction(changing, self._files) if changing else None

    def _correction(self, directory: str, *, is_known: bool = False) -> _Correction | None:
        correcting = self._correcting(self._dataset(directory, is_known=is_known))
        # Jobs make no table inside of another one; if a directory is in two all the same, both correct it.
        if len(correcting) > 1:
            inner, outer = correcting[:2]
            raise CommitError(
                f"this dataset is inside of the dataset {outer}, and jobs of both are being put in place, so that the committed "
                f"files are not certain; run 'arrowipc vacuum {inner}', then 'arrowipc vacuum {outer}'",
                path=inner,
            )
        return self._corrections[correcting[0]] if correcting else None

    def _correcting(self, dataset: str | None) -> Sequence[str]:
        """Return a table and the tables around it that have jobs which correct listings, innermost first."""
        correcting = []
        while dataset is not None:
            if self._corrections[dataset] is not None:
                correcting.append(dataset)
            dataset = None if dataset == parent(dataset) else self._datasets.get(parent(dataset))
        return correcting

    def check_link(self, directory: str) -> str:
        """Return a directory; raise if it leads by a link into a table with a pending job, whose paths differ from it."""
        real = self.storage.real_path(directory)
        if real == directory:
            return directory
        outer, before = self._dataset(directory, is_known=False), {*self._heads}
        dataset = self._dataset(real, is_known=False)
        if outer is None or dataset != self.storage.real_path(outer):  # a link inside of one table changes nothing
            self._linked |= self._heads.keys() - before
            correcting = self._correcting(dataset)
            if correcting:
                raise CommitError(
                    f"this leads by a link into the dataset {correcting[0]}, a job of which is being put in place: read "
                    f"{real}, wait, or run 'arrowipc vacuum {correcting[0]}'",
                    path=directory,
                )
        return directory

    def _dataset(self, directory: str, *, is_known: bool) -> str | None:
        """Return the innermost table at or above a directory, or None; with `is_known` the directory itself is not checked."""
        unknown: list[str] = []
        while directory not in self._datasets:
            unknown.append(directory)
            if directory == parent(directory):
                break
            directory = parent(directory)
        dataset = self._datasets.get(directory)
        checked = unknown[1:] if is_known else unknown
        having = {path for path, has_records in zip(checked, self._have_records(checked), strict=True) if has_records}
        for inner in reversed(unknown):
            if inner in having:
                self._add_dataset(inner)
                dataset = inner
            self._datasets[inner] = dataset
        return dataset

    def _have_records(self, directories: Sequence[str]) -> Iterator[bool]:
        """Return an iterator of whether directories have a log: lazily, or all at once if each call waits."""
        if not self.storage.traits.waits:
            return map(self._has_records, directories)  # lazily, as the caller may stop at the first
        have: dict[str, bool] = {}

        def check(directory: str) -> None:
            looked = self._listed_ahead.get(directory)
            have[directory] = self._has_records(directory) if looked is None else looked.committed

        each(check, directories, waits=True)
        return map(have.__getitem__, directories)

    def _has_records(self, directory: str) -> bool:
        commits = join(directory, COMMITS_DIRECTORY)
        if not self.storage.traits.directories:  # one request, where a status would be two
            return has_any(self.storage, commits)
        return self.storage.status(commits, follow_links=False) is not None

    def _directory(self, dataset: str) -> DatasetDirectory:
        return DatasetDirectory(self.storage, dataset)
