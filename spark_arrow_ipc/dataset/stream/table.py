"""`TableMode`: a table, read entry by entry of its log.

A stream first reads the files that the log counts at one entry, the *snapshot*, and then the files of each entry after it. A
batch never splits an entry, so that each commit is in one batch. A look at a table where nothing happened takes two requests.

Offset ``{"v": 1, "mode": "table", "table": t, "entry": n, "id": i, "after": a}``:

- ``table`` is the id of the table. A directory that was deleted and written anew has another one, and is another source;
- ``entry`` is the entry of the snapshot, or the last one that was read; 0 before any;
- ``id`` is the beginning of the id of that entry: a log that was put back from a copy, and went on from there, has other
  entries of the same numbers. It is empty before an entry was read;
- ``after`` is the last path of the snapshot that was read, ``""`` if none was, ``"/"`` once all of it was read. ``"//"``
  is the beginning of a query that leaves out what is there.

A snapshot is the state of the log after its entry (`read_state`), so that every process has the same one, whatever was
committed meanwhile. Files that later entries remove are read where they are retained.

Files of other programs are in no entry. A listing could find them, but not the same ones again when a batch is run again,
nor those that come later. So a query that would read all rows of a table is refused while there are any.

A stream of changes (`TableOptions.changes`) also reads the files that entries removed, from where they are retained: a batch
has those of each entry before the ones that it added.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Final

from spark_arrow_ipc.dataset.listing.data_file import FileFilter
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.stream.mode import (
    ALL_AVAILABLE,
    INSERT,
    TABLE,
    Backlog,
    Limit,
    Offset,
    OffsetValues,
    OnOverwrite,
    StreamBatch,
    make_offset,
)
from spark_arrow_ipc.dataset.stream.table_entries import (
    ID_CHARS,
    FileFinder,
    TableChanges,
    TableEntries,
    TableFile,
    TableSnapshot,
)
from spark_arrow_ipc.errors import (
    NoFilesError,
    SourceOverwrittenError,
    StreamOffsetError,
    UnsupportedError,
    cut_repr,
    printable,
)
from spark_arrow_ipc.storage.paths import relative
from spark_arrow_ipc.table.log import read_table_id
from spark_arrow_ipc.table.names import TableDirectory, is_table_id

_BEGIN: Final = ""
_READ: Final = "/"
_LATEST: Final = "//"
"""Values of ``after`` that are not relative paths."""

_EMPTY_ENTRIES: Final = 64
"""Entries without files make an offset of their own only after so many: an empty batch takes half a second."""

_MOST_AHEAD: Final = 1000
"""Entries that are read ahead of a batch at most, unless it takes all."""

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options by which a table is followed."""

    # the entry with which a new query begins; None for all rows of the table, and then the entries that follow
    first_entry: int | None = None
    from_latest: bool = False  # whether a new query begins with the next entry instead
    from_ns: int | None = None  # or with the first entry of this time or later
    on_overwrite: OnOverwrite = OnOverwrite.FAIL  # what to do at entries that removed rows
    changes: bool = False  # whether these are rows of their own instead: what was removed, and what was added
    # Whether entries and files that are gone before they were read are errors. If not, a query begins anew with all rows of
    # the table, and leaves out files that are gone, each with a warning.
    fails_on_data_loss: bool = True
    file_filter: FileFilter = field(default_factory=FileFilter)
    # the directory below which ``key=value`` directories are columns, if it is not the table's
    base_path: str | None = None


@dataclass(frozen=True, slots=True)
class _Position:
    """An offset, read."""

    table: str
    entry: int = 0
    id: str = ""  # the beginning of the entry's id; empty if no entry was read
    after: str = _BEGIN

    @classmethod
    def of(cls, offset: Offset) -> _Position:
        values = OffsetValues(offset, TABLE, ("table", "entry", "id", "after"))
        table = values.string("table")
        if not is_table_id(table):
            raise StreamOffsetError(expected="the id of a table in an offset", found=cut_repr(table))
        return cls(table, values.integer("entry"), values.string("id", max_chars=ID_CHARS), values.string("after"))

    def to_offset(self) -> dict[str, str | int]:
        return make_offset(TABLE, table=self.table, entry=self.entry, id=self.id, after=self.after)

    @property
    def is_beginning(self) -> bool:
        """True if no entry is fixed yet."""
        return self.entry == 0 and self.after in (_BEGIN, _LATEST)

    @property
    def has_snapshot(self) -> bool:
        """True if files of the snapshot are left."""
        return self.after not in (_READ, _LATEST)


class TableMode:
    """Reads a table by the entries of its log."""

    def __init__(self, directory: TableDirectory, options: TableOptions) -> None:
        self._directory = directory
        self._options = options
        self._entries = self._open()
        self._first = options.first_entry
        self._snapshot: TableSnapshot | None = None
        self._checks_foreign = True
        self._backlog = Backlog()
        self._ends = False
        self._last: int | None = None
        """The last entry that is read, if the query reads only what is there now."""

    def _open(self) -> TableEntries:
        table = read_table_id(self._directory)
        if table is None:
            raise StreamOffsetError("this directory is not a table: it has no log", path=self._directory.root)
        return TableEntries(self._directory, table)

    @property
    def name(self) -> str:
        """The ``mode`` of its offsets."""
        return TABLE

    def initial(self) -> Offset:
        """Return the offset before the first batch. A first entry need not be there yet."""
        if self._options.from_ns is not None and self._first is None:
            loses = not self._options.fails_on_data_loss
            self._first = self._entries.first_since(self._options.from_ns, fails_on_data_loss=not loses)
        if self._first is not None:
            return _Position(self._entries.table, self._first - 1, after=_READ).to_offset()
        return _Position(self._entries.table, after=_LATEST if self._options.from_latest else _BEGIN).to_offset()

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Return the offset after the rest of the snapshot, or after the next complete entries; see `StreamMode.latest`.

        A listing of the log and a request for each new entry, if there are any.
        """
        position = _Position.of(start)
        try:
            newest = self._newest(position)
            after = self._next(position, newest, self._until(newest), limit)
        except StreamOffsetError as error:
            if self._options.fails_on_data_loss:
                raise
            self._entries, self._snapshot = self._open(), None
            newest = self._entries.newest(0)
            _LOG.warning("%s; all rows of the table are read", printable(str(error)))
            after = _Position(self._entries.table, newest, self._entries.id_of(newest), _BEGIN)
        return start if after == position else after.to_offset()

    def _newest(self, position: _Position) -> int:
        """Return the number of the newest entry; raise if an offset is of another table."""
        if position.table != self._entries.table:
            raise StreamOffsetError(
                f"this is the table {self._entries.table}, and the stream has read the table {position.table}: the directory was "
                "deleted and written anew; begin with a new checkpoint",
                path=self._directory.root,
            )
        newest = self._entries.newest(position.entry)
        if position.entry > newest:
            raise StreamOffsetError(
                f"the stream has read log entry {position.entry}, and the newest entry of the table is {newest}: an older copy "
                "of the directory was put back, or startingFrom names an entry that is not there yet",
                path=self._directory.root,
            )
        if position.id and position.id != self._entries.id_of(position.entry):
            raise StreamOffsetError(
                f"log entry {position.entry} is not the one that the stream has read: an older copy of the directory was put "
                "back, and other jobs were committed since; begin with a new checkpoint",
                path=self._directory.root,
            )
        return newest

    def _until(self, newest: int) -> int:
        """Return the number of the last entry that may be read."""
        if self._ends and self._last is None:
            self._last = newest
        return newest if self._last is None else min(self._last, newest)

    def _next(self, position: _Position, newest: int, last: int, limit: Limit) -> _Position:
        if position.after == _LATEST:
            return replace(position, entry=last, id=self._entries.id_of(last), after=_READ)
        if position.has_snapshot:
            if position.after == _BEGIN:
                self._refuse_foreign()
            snapshot = self._snapshot_at(last if position.is_beginning else position.entry)
            first = snapshot.position(position.after)
            stop = first + limit.fitting(file.nbytes for file in snapshot.files[first:])
            self._backlog = snapshot.rest(stop)
            at = replace(position, entry=snapshot.number, id=snapshot.id)
            if stop < len(snapshot.files):
                return replace(at, after=snapshot.files[stop - 1].path)
            if first < stop or position.is_beginning:
                return replace(at, after=_READ)
            position = replace(position, after=_READ)
        if limit != ALL_AVAILABLE:
            last = min(last, position.entry + _MOST_AHEAD)
        entries = [self._as_read(entry) for entry in self._entries.between(position.entry, last, newest)]
        count = files = nbytes = 0
        for entry in entries:
            files_after, nbytes_after = files + len(entry.files), nbytes + entry.nbytes
            if files and entry.files and not limit.allows(files_after, nbytes_after):
                break
            count, files, nbytes = count + 1, files_after, nbytes_after
        left = entries[count:]
        oldest_ns = left[0].time * 1_000_000 if left else None
        self._backlog = Backlog(sum(len(entry.files) for entry in left), sum(entry.nbytes for entry in left), oldest_ns)
        if not files and count < _EMPTY_ENTRIES:
            return position
        return replace(position, entry=entries[count - 1].number, id=entries[count - 1].id)

    def _refuse_foreign(self) -> None:
        """Refuse a table with files of other programs, once in a process; or warn. Lists the table."""
        if not self._checks_foreign:
            return
        directory, accepts = self._directory, self._options.file_filter.accepts() or (lambda _: True)
        try:
            tree = list_tree([directory.root], storage=directory.storage.inside(None), hugging_face=True)
        except NoFilesError:
            foreign = []
        else:
            state = tree.states.get(directory.root)
            paths = [relative(file.path, directory.root) for file in filter(accepts, tree.all_files())]
            foreign = [path for path in paths if state is None or not state.is_managed(path)]
        words = (
            f"{len(foreign)} files of other programs, such as {min(foreign, default='')}, are in no log entry, so that a stream of this table "
            "has no rows of them"
        )
        if foreign and self._options.fails_on_data_loss:
            raise UnsupportedError(
                f"{words}. rewrite(...) takes them into the table; startingFrom=latest begins with the next commit; "
                "failOnDataLoss=false leaves them out. Let other programs write to a directory of their own, and ingest(...) "
                "its files into the table",
                path=directory.root,
            )
        if foreign:
            _LOG.warning(
                "%s: %s; ingest(...) takes such files into a table", printable(directory.root), printable(words)
            )
        self._checks_foreign = False

    def _as_read(self, entry: TableChanges) -> TableChanges:
        """Return an entry as the option says what to do with one that overwrites."""
        if not entry.overwrites or self._options.changes:
            return entry
        if self._options.on_overwrite is OnOverwrite.APPEND:
            return replace(entry, files=tuple(file for file in entry.files if file.change.kind == INSERT))
        if self._options.on_overwrite is OnOverwrite.SKIP:
            return replace(entry, files=())
        raise SourceOverwrittenError(
            f"log entry {entry.number} overwrote the source of this stream; set onOverwrite=skip to go on after it, or "
            "onOverwrite=append to read the rows that it wrote as new ones",
            path=self._directory.root,
        )

    def _snapshot_at(self, number: int) -> TableSnapshot:
        if self._snapshot is None or self._snapshot.number != number:
            self._snapshot = TableSnapshot.of(self._entries.state(number))
        return self._snapshot

    def batch(self, start: Offset, end: Offset) -> StreamBatch:
        """Return the files between two offsets; see `StreamMode.batch`. Asks for the state of each file."""
        first, last = _Position.of(start), _Position.of(end)
        if first == last or last.after == _BEGIN or first.after == _LATEST:
            return StreamBatch()
        newest = self._newest(last)
        if first.table != last.table or last.entry < first.entry or (last.has_snapshot and not first.has_snapshot):
            raise StreamOffsetError(f"the offset {dict(end)!r} does not follow {dict(start)!r}")
        files: list[TableFile] = []
        number = first.entry
        if first.has_snapshot:
            number = last.entry if first.is_beginning else first.entry
            snapshot = self._snapshot_at(number)
            stop = None if last.after == _READ else snapshot.position(last.after)
            files += snapshot.files[snapshot.position(first.after) : stop]
        if last.after == _READ and number < last.entry:
            files += self._files_between(number, last.entry, newest)
        data_files = FileFinder(self._directory, self._entries.table, self._options.fails_on_data_loss).find(files)
        accepts = self._options.file_filter.accepts() or (lambda _: True)
        data_files = [(file, change) for file, change in data_files if accepts(file)]
        root = self._options.base_path or self._directory.root
        changes = tuple(change for _, change in data_files) if self._options.changes else ()
        return StreamBatch(tuple(file for file, _ in data_files), (root,) * len(data_files), changes)

    def _files_between(self, after: int, last: int, newest: int) -> list[TableFile]:
        """Return the files of entries in their order."""
        try:
            entries = self._entries.between(after, last, newest)
        except StreamOffsetError as error:
            if self._options.fails_on_data_loss:
                raise
            _LOG.warning("%s; the batch is left out", printable(str(error)))
            return []
        return [file for entry in entries for file in self._as_read(entry).files]

    def committed(self, end: Offset) -> None:
        """Forget what was read."""
        position = _Position.of(end)
        self._entries.forget(position.entry)
        if not position.has_snapshot:
            self._snapshot = None

    @staticmethod
    def words(offset: Offset) -> str:
        """Return for people how far an offset is."""
        position = _Position.of(offset)
        if position.is_beginning or not position.entry:
            return "nothing is read yet"
        entry = f"log entry {position.entry:,}"
        return f"files at {entry}, up to {cut_repr(position.after)}" if position.has_snapshot else entry

    def backlog(self) -> Backlog:
        """Return the files of the snapshot that wait, or those of the entries that were there at the last look."""
        return self._backlog

    def only_available_now(self) -> None:
        """Read no entry that comes after the next look."""
        self._ends = True
