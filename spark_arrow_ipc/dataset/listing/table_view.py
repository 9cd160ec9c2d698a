"""`TableView`: the directories of a read, with the files that count in the tables above, at and below them.

How it works: a table's state is read before its first directory is listed, and again after the last (`catch_up`). The second
state counts: of the listed files with the table's id in their names only those that it has, and of the others those that no
removal hides (`table.snapshot`). The storage lists each directory once; a file that counts and is not listed was named after
its directory was listed, and is looked for at its path.

Where each call of the storage waits for a network, `list_ahead` and `read_statuses` make all calls of a step at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum, auto
from operator import attrgetter

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.directory import Listing, is_loop, read_directory
from spark_arrow_ipc.storage.paths import SEPARATOR, above, join, name_of, parent, relative
from spark_arrow_ipc.storage.storage import Status, Storage, each
from spark_arrow_ipc.table.checks import check_id, ids_in
from spark_arrow_ipc.table.log import read_newer, read_state
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.snapshot import Removals, is_one_table, missing_file
from spark_arrow_ipc.table.state import State


class Progress(Enum):
    """The changes of tables while they were listed."""

    SAME = auto()
    """Nothing was committed."""
    MOVED = auto()
    """Jobs were committed, and the listings have the files of the newer states."""
    LOST = auto()
    """A table was removed, or so many jobs were committed that all listings must be discarded."""


class _Table:
    """A table whose directories are listed: its first and newest state, and the files of that by directory."""

    def __init__(self, directory: TableDirectory, state: State) -> None:
        self.directory, self.first = directory, state
        self.set_state(state)

    def set_state(self, state: State) -> None:
        self.state = state
        self._removals = Removals(self.directory, self.first, state)
        self._files: dict[str, dict[str, int]] = {}
        self._directories: dict[str, set[str]] = {}
        for path, nbytes in zip(state.files.paths, state.files.nbytes.tolist(), strict=True):
            # As `parent` does for relative paths, which are 100,000.
            self._files.setdefault(path.rpartition(SEPARATOR)[0], {})[path] = nbytes
        for inner in list(self._files):
            while inner:
                self._directories.setdefault(parent(inner), set()).add(name_of(inner))
                inner = parent(inner)  # noqa: PLW2901 - up to the table's own

    def has_directory(self, path: str) -> bool:
        inner = self._inner(path)
        return inner in self._files or inner in self._directories

    def apply(self, path: str, listing: Listing) -> Listing:
        """Return a listing of a directory with the files that count."""
        inner = self._inner(path)
        counted = self._files.get(inner, {})
        before = inner + SEPARATOR if inner else ""
        by_path = {before + file.path.rpartition(SEPARATOR)[2]: file for file in listing.files}
        files = [file for name, file in by_path.items() if counted.get(name) == file.nbytes]
        if not len(files) == len(by_path) == len(counted):
            files += self._removals.count({name: by_path[name] for name in by_path if name not in counted}).values()
            lacking = [name for name, n in counted.items() if name not in by_path or by_path[name].nbytes != n]
            files += [self._find_file(name, counted[name]) for name in lacking]
            files.sort(key=attrgetter("path"))
        directories = sorted(self._directories.get(inner, set()).union(listing.directories))
        return replace(listing, files=tuple(files), directories=tuple(directories))

    def _find_file(self, name: str, nbytes: int) -> DataFile:
        """Return a file that counts and was not listed; a `CommitError` if it is missing."""
        path = self.directory.path(name)
        status = self.directory.storage.status(path, follow_links=False)
        if status is None or status.nbytes != nbytes:
            raise missing_file(self.directory, self.state, name, status)
        return DataFile(path, nbytes, status.mtime_ns, version=status.version)

    def _inner(self, path: str) -> str:
        return "" if path == self.directory.root else relative(path, self.directory.root)


class TableView:
    """The directories of one read."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.listed = 0
        """Number of listings by the storage."""
        self._listings: dict[str, Listing] = {}
        """Listings of the storage."""
        self._counted: dict[str, Listing] = {}
        """The same with the files that count."""
        self._tables: dict[str, _Table] = {}
        self._table_of: dict[str, str | None] = {"": None}
        """The innermost table that contains each directory, or None."""
        self._without_id: set[str] = set()
        """Directories without a table's id; on a disk only those that have the directory of a log."""
        self._checked: dict[str, set[str]] = {}
        """The ids of which such a directory has no entries."""
        self._listed_ahead: dict[str, Listing] = {}
        self._statuses: dict[str, Status | None] = {}
        """Answers of the storage that are not used yet."""

    @property
    def states(self) -> Mapping[str, State]:
        """The state that the listings have, by the path of each table."""
        return {path: table.state for path, table in self._tables.items()}

    def list_ahead(self, directories: Iterable[str]) -> None:
        """List the next directories of `listing` at once, if each call waits."""
        if not self.storage.traits.waits:
            return

        def list_one(directory: str) -> None:
            with suppress(FileNotFoundError, NotADirectoryError):
                self._listed_ahead[directory] = read_directory(self.storage, directory)

        directories = list(dict.fromkeys(directories))
        for directory in directories:
            self._find_table(directory)  # its state is read before the names
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
        if directory in self._counted:
            return self._counted[directory]
        table = self._find_table(directory)
        if directory not in self._listings:
            self._listings[directory] = self._list_once(directory)
        listing = self._listings[directory]
        if table is None and self._without_id:
            self._check_ids(self._real(directory), ids_in(file.path for file in listing.files))
        self._counted[directory] = listing if table is None else table.apply(self._real(directory), listing)
        return self._counted[directory]

    def _check_ids(self, directory: str, ids: set[str]) -> None:
        """Raise if files of a directory without a table are of one at or above it that has lost its id."""
        for root in (directory, *above(directory)) if ids else ():
            if root in self._without_id:
                check_id(TableDirectory(self.storage, root), ids - self._checked.get(root, set()))
                self._checked.setdefault(root, set()).update(ids)

    def _real(self, directory: str) -> str:
        """Return the path of a directory in its table, which a link may lead to."""
        return self.storage.real_path(directory) if self._is_linked(directory) else directory

    def _is_linked(self, directory: str) -> bool:
        table = self._table_of.get(directory)
        return (
            table is not None and directory != table and not directory.startswith(table.rstrip(SEPARATOR) + SEPARATOR)
        )

    def _list_once(self, directory: str) -> Listing:
        self.listed += 1
        try:
            ahead = self._listed_ahead.pop(directory, None)
            return read_directory(self.storage, directory) if ahead is None else ahead
        except (FileNotFoundError, NotADirectoryError):
            return Listing()

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
        listing = self.listing(directory)
        paths = ((name, join(directory, name)) for name in listing.directories)
        return [path for name, path in paths if name not in listing.links or not is_loop(self.storage, path)]

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

    def has_directory(self, path: str) -> bool:
        """Return whether a table counts files in this directory."""
        table = self._find_table(parent(path))
        return table is not None and table.has_directory(path)

    def catch_up(self, directories: Iterable[str] = ()) -> Progress:
        """Read the states of all tables again, and return what changed; directories outside of tables may have become one."""
        progress = Progress.SAME
        for table in self._tables.values():
            state = read_newer(table.directory, table.state)
            if state is None or not is_one_table(table.first, state):
                return Progress.LOST
            if state.entry != table.state.entry:
                progress = Progress.MOVED
                table.set_state(state)
                self._counted.clear()
        strangers = [directory for directory in directories if self._table_of.get(directory) is None]
        around = [outer for path in strangers for outer in above(path) if "=" in relative(path, outer)]
        has_new = any(self._read_table(path) is not None for path in dict.fromkeys(strangers + around))
        return Progress.LOST if has_new else progress

    def _find_table(self, directory: str) -> _Table | None:
        """Return the innermost table at or above a directory, where links lead, or None."""
        if directory not in self._table_of:
            real = self.storage.real_path(directory)
            if real != directory:
                self._find_table(real)
                self._table_of[directory] = self._table_of[real]
            else:
                outer = None if directory == parent(directory) else self._find_table(parent(directory))
                self._table_of[directory] = None if outer is None else outer.directory.root
                table = self._read_table(directory)
                # In a table, a directory where no job was committed is a part of it: an aborted job may have left a log.
                if table is not None and (outer is None or table.state.has_jobs or not outer.state.has_jobs):
                    self._tables[directory] = table
                    self._table_of[directory] = directory
        path = self._table_of[directory]
        return None if path is None else self._tables[path]

    def _read_table(self, directory: str) -> _Table | None:
        table = TableDirectory(self.storage, directory)
        # One status of the log's directory, before the id is read.
        if self.storage.traits.directories and self.storage.status(table.log, follow_links=False) is None:
            return None
        state = read_state(table)
        if state is None:
            self._without_id.add(directory)
            return None
        return _Table(table, state)
