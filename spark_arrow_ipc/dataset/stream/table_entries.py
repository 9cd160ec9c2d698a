"""The log of a table as a stream reads it: what each entry changes, and where the files of an entry are now.

A stream reads the rows that the log counts, which are those of managed files. What an entry means for it is in one place,
`_changes_of`:

- A **rewrite** moves rows into other files, so that it has none of its own. Files of other programs that it takes into the
  table are the exception: no earlier entry has their rows, so they are inserts, read from where they are retained.
- An **overwrite** or a **restore** removes managed files. Files of other programs that it removes are no deletes: no entry
  had inserted their rows.
- An entry whose job had ended before it is **void** (`Replay.apply`), and entries of maintenance change no row.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import Final, NamedTuple

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.stream.mode import DELETE, INSERT, Backlog, Change
from spark_arrow_ipc.errors import FileChangedError, NoFilesError, StreamOffsetError, printable
from spark_arrow_ipc.storage.paths import above, join
from spark_arrow_ipc.storage.storage import Status, Storage, each
from spark_arrow_ipc.table.entry import Entry, Operation, Removed
from spark_arrow_ipc.table.files import NO_FILES
from spark_arrow_ipc.table.history import first_since, retained_entries
from spark_arrow_ipc.table.log import read_after, read_entry, read_state, read_table_id
from spark_arrow_ipc.table.log_listing import list_log
from spark_arrow_ipc.table.names import LOG_DIRECTORY, TableDirectory
from spark_arrow_ipc.table.snapshot import is_removed, missing_file
from spark_arrow_ipc.table.state import Replay, State

ID_CHARS: Final = 16
"""So much of the id of an entry tells it from another one of its number."""

_LOG: Final = logging.getLogger(__name__)


class TableFile(NamedTuple):
    """A file of an entry or a snapshot."""

    path: str  # relative to the table
    nbytes: int
    change: Change  # what its rows are, and the number of the entry
    removed: Removed | None = None  # the removal by that entry; None if the entry has added the file


@dataclass(frozen=True, slots=True)
class TableChanges:
    """The rows of one entry for a stream."""

    number: int
    id: str  # the first `ID_CHARS` of the entry's id
    time: int  # milliseconds since 1970
    files: tuple[TableFile, ...] = ()  # removed ones first
    overwrites: bool = False  # whether rows of earlier entries are removed, or come back

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        return sum(file.nbytes for file in self.files)


def _changes_of(entry: Entry, *, is_void: bool) -> TableChanges:
    if is_void:
        return TableChanges(entry.number, entry.id[:ID_CHARS], entry.time)
    insert, delete = Change(INSERT, entry.number), Change(DELETE, entry.number)
    if entry.operation is Operation.REWRITE:
        foreign = (removed for removed in entry.remove if not removed.is_managed)
        files = tuple(TableFile(removed.path, removed.nbytes, insert, removed) for removed in foreign)
        return TableChanges(entry.number, entry.id[:ID_CHARS], entry.time, files)
    # An append may remove the empty file that stood for the schema.
    removes = () if entry.operation is Operation.APPEND else (r for r in entry.remove if r.is_managed)
    deletes = [TableFile(removed.path, removed.nbytes, delete, removed) for removed in removes]
    inserts = [
        TableFile(path, nbytes, insert) for path, nbytes in zip(entry.add.paths, entry.add.nbytes.tolist(), strict=True)
    ]
    # A restore may bring rows back and remove none: appended, they would be doubled.
    overwrites = bool(deletes or (entry.operation is Operation.RESTORE and inserts))
    return TableChanges(entry.number, entry.id[:ID_CHARS], entry.time, (*deletes, *inserts), overwrites)


@dataclass(slots=True)
class TableEntries:
    """The entries of a table by number, each read once and kept in memory until it is forgotten."""

    directory: TableDirectory
    table: str  # the table's id
    _first: int = 0  # the number of the state that the entries follow
    _first_id: str = ""  # and the id of its entry
    _changes: list[TableChanges] = field(default_factory=list)
    _state: State | None = None  # after the newest of them, without files

    def newest(self, number: int) -> int:
        """Return the number of the newest entry. Two requests if it is `number`, otherwise a listing of the log."""
        status = self.directory.storage.status
        is_newest = number and status(self.directory.entry(self.table, number + 1)) is None
        # Pruned entries are gone as well.
        if is_newest and status(self.directory.entry(self.table, number)) is not None:
            return number
        table = read_table_id(self.directory)
        if table is None:
            raise StreamOffsetError(
                "the log of this table is gone: the directory was deleted, or moved; put it back, or begin with a new checkpoint",
                path=self.directory.root,
            )
        if table != self.table:
            raise StreamOffsetError(
                f"this is the table {table}, and the stream has read the table {self.table}: the directory was deleted and "
                "written anew; begin with a new checkpoint",
                path=self.directory.root,
            )
        return list_log(self.directory, table, newest_only=True).newest

    def state(self, number: int) -> State:
        """Return the state after an entry, which must still be retained."""
        try:
            state = read_state(self.directory, number)
        except NoFilesError as error:
            raise self._lost(number, error) from error
        if state is None or state.table != self.table:
            self.newest(0)
            raise self._lost(number, NoFilesError("the table was written anew at this moment"))
        return state

    def between(self, after: int, last: int, newest: int) -> list[TableChanges]:
        """Return the changes of the entries after a number up to another one, of a log with so many entries."""
        if self._state is None or not self._first <= after <= self._state.number:
            self._state = replace(self.state(after), files=NO_FILES)
            self._first, self._first_id, self._changes = after, self._state.entry[:ID_CHARS], []
        if self._state.number < last:
            try:
                entries = read_after(self.directory, self._state, last, newest)
            except NoFilesError as error:
                raise self._lost(self._state.number, error) from error
            replay = Replay(self._state)
            self._changes += [_changes_of(entry, is_void=not replay.apply(entry)) for entry in entries]
            # Only the ended jobs are needed, not the files of a large table.
            self._state = replace(replay.state(), files=NO_FILES)
        return self._changes[after - self._first : last - self._first]

    def forget(self, number: int) -> None:
        """Forget the entries up to a number."""
        if self._state is not None and self._first < number <= self._state.number:
            self._first_id = self.id_of(number)
            self._changes = self._changes[number - self._first :]
            self._first = number

    def id_of(self, number: int) -> str:
        """Return the first `ID_CHARS` of the id of an entry. A read, unless the entry was read before."""
        if not number:
            return ""
        if self._state is not None and self._first <= number <= self._state.number:
            return self._changes[number - self._first - 1].id if number > self._first else self._first_id
        try:
            return read_entry(self.directory, self.table, number).id[:ID_CHARS]
        except FileNotFoundError:  # a checkpoint may stand for it
            return self.state(number).entry[:ID_CHARS]

    def first_since(self, time_ns: int, *, fails_on_data_loss: bool) -> int:
        """Return the number of the first entry of a time or later; the next one if there is none."""
        first = first_since(self.directory, self.table, retained_entries(self.directory, self.table), time_ns)
        if first > 1 and fails_on_data_loss and self.state(first - 1).time * 1_000_000 >= time_ns:
            raise StreamOffsetError(
                f"startingFrom is before the oldest log entry that is retained, {first}, so that commits since then may be gone; "
                "give a later time, or earliest for all rows (failOnDataLoss=false begins with that entry)",
                path=self.directory.root,
            )
        return first

    def _lost(self, number: int, error: NoFilesError) -> StreamOffsetError:
        return StreamOffsetError(
            f"the stream is at log entry {number}, and cannot go on from there: {error.message}. The option retention of the "
            "writes says for how long entries are there; failOnDataLoss=false begins anew with all rows of the table",
            path=self.directory.root,
        )


@dataclass(frozen=True, eq=False)
class TableSnapshot:
    """The managed files of a table after an entry, by path."""

    number: int
    id: str  # the first `ID_CHARS` of the entry's id
    files: tuple[TableFile, ...]

    @classmethod
    def of(cls, state: State) -> TableSnapshot:
        """Return the snapshot of a state."""
        change = Change(INSERT, state.number)
        sizes = sorted(zip(state.files.paths, state.files.nbytes.tolist(), strict=True))
        return cls(
            state.number, state.entry[:ID_CHARS], tuple(TableFile(path, nbytes, change) for path, nbytes in sizes)
        )

    @cached_property
    def _nbytes(self) -> list[int]:
        return [0, *accumulate(file.nbytes for file in self.files)]

    def position(self, after: str) -> int:
        """Return the number of files up to a path, the path itself included."""
        return bisect_right(self.files, after, key=lambda file: file.path)

    def rest(self, position: int) -> Backlog:
        """Return the number of files from a position on, and their bytes."""
        return Backlog(len(self.files) - position, self._nbytes[-1] - self._nbytes[position])


@dataclass(frozen=True, slots=True)
class FileFinder:
    """Finds files of entries as they are now: at their path, or retained after an entry has removed them."""

    directory: TableDirectory
    table: str
    fails_on_data_loss: bool  # whether a file that is gone is an error; otherwise it is left out, with a warning

    def find(self, files: Sequence[TableFile]) -> list[tuple[DataFile, Change]]:
        """Return the files in their order. A request for each."""
        statuses: dict[TableFile, Status | None] = {}
        storage = self.directory.storage

        def read_status(file: TableFile) -> None:
            statuses[file] = self._at_its_path(file)

        each(read_status, files, waits=storage.traits.waits)
        lacking = [file for file in files if statuses[file] is None]
        numbers = self.directory.list_replaced() if lacking else []

        def find_retained(file: TableFile) -> None:
            # A name is used once, so a file of this path in any later entry is the file.
            later = [file.change.commit] if file.removed else [n for n in numbers if n > file.change.commit]
            paths = (self.directory.replaced(number, file.path) for number in later)
            statuses[file] = next(filter(None, map(storage.status, paths)), None)

        each(find_retained, lacking, waits=storage.traits.waits)
        self._check_removed([file for file in lacking if statuses[file] is None])
        return [(self._data_file(file, status), file.change) for file in files if (status := statuses[file])]

    def _at_its_path(self, file: TableFile) -> Status | None:
        path = self.directory.path(file.path)
        status = self.directory.storage.status(path, follow_links=False)
        if status is None or (file.removed is not None and not is_removed(self.directory, file.removed, status)):
            return None
        return status

    def _data_file(self, file: TableFile, status: Status) -> DataFile:
        path = self.directory.path(file.path)
        if status.nbytes != file.nbytes:
            raise FileChangedError(
                expected=f"a committed file of {file.nbytes:,} bytes", found=f"{status.nbytes:,}", path=path
            )
        # A copy in another place has a version of its own.
        return DataFile(path, file.nbytes, status.mtime_ns, version=status.version if status.path == path else "")

    def _check_removed(self, files: Sequence[TableFile]) -> None:
        """Raise or warn: files were removed before they were read. A reading of the log, if there are any."""
        if not files:
            return
        state = read_state(self.directory)
        counted = {*state.files.paths} if state is not None and state.table == self.table else ()
        for file in files:
            if state is not None and file.path in counted and file.removed is None:
                raise missing_file(self.directory, state, file.path, None)
            number, path = file.change.commit, self.directory.path(file.path)
            words = (
                f"log entry {number} {'removed' if file.removed else 'has'} this file, and it was deleted before the stream had "
                "read it; the option retention of the writes says for how long removed files are there"
            )
            if self.fails_on_data_loss:
                raise StreamOffsetError(f"{words}. failOnDataLoss=false leaves such files out", path=path)
            _LOG.warning("%s: %s; it is left out", printable(path), words)


def table_around(storage: Storage, directory: str) -> str | None:
    """Return the nearest directory with a table's log, of a directory and those above it; None if there is none."""
    # Also by the real path, as a link may lead into a table.
    for start in dict.fromkeys([directory, storage.real_path(directory)]):
        for path in (start, *above(start)):
            if storage.status(join(path, LOG_DIRECTORY, "table")) is not None:
                return path
    return None
