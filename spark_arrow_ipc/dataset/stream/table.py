"""`TableMode`: a dataset that this package writes, read record by record.

The chain of commit records is the log of the source. A stream first reads the files that are there, the *snapshot* at a
record, and then the files of each record after it. A batch never splits a record, so that each commit is in one batch.
Once the snapshot is read no directory of data is ever listed: a look is one small listing of the chain, and one read of
each new record.

Offset ``{"v": 1, "mode": "table", "seq": n, "after": a, "job": j}``:

- ``seq`` is the record at which the snapshot was taken, or the last one that was read; 0 before any;
- ``after`` is the last path of the snapshot that was read, ``""`` if none was, ``"/"`` once all of it was read. ``"//"``
  is the beginning of a query that leaves out what is there;
- ``job`` is the job of the record ``seq``. A directory that was deleted and written anew counts its records from 1
  again, and is another source.

The snapshot at record *n* is what is there now without what later records added. So it is known again after a restart,
however much was committed meanwhile; records that remove files make it incomplete, and are found when they are read.

A record that is pending is committed: its files are read where they lie, as in any read.

A rewrite (`WriteMode.REWRITE`, as `compact` makes it) moves rows into other files. It has no rows for a stream: those
that it moved are read from the files in which they came, which live on for as long as the rewrite said.

A stream of changes (`TableOptions.changes`) also reads the files that records removed, from where they live on: a batch has
those of each record before the ones that it added.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.log import Head
from spark_arrow_ipc.dataset.listing.data_file import DataFile, FileFilter, time_text
from spark_arrow_ipc.dataset.listing.hive import discover
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.stream.mode import (
    ALL_AVAILABLE,
    INSERT,
    Backlog,
    Change,
    Limit,
    Offset,
    OffsetValues,
    OnOverwrite,
    StreamBatch,
    make_offset,
)
from spark_arrow_ipc.dataset.stream.table_records import (
    KEEP,
    RecordFiles,
    Snapshot,
    TableRecord,
    TableRecords,
    replaced_since,
)
from spark_arrow_ipc.errors import (
    NoFilesError,
    SourceOverwrittenError,
    StreamOffsetError,
    cut_repr,
    printable,
)
from spark_arrow_ipc.storage.paths import relative

TABLE: Final = "table"

_BEGIN: Final = ""
_READ: Final = "/"
_LATEST: Final = "//"
"""Values of ``after`` that are not relative paths."""

_EMPTY_RECORDS: Final = 64
"""Records without files make an offset of their own only after so many: an empty batch takes half a second."""

_MOST_AHEAD: Final = 1000
"""Records that are read ahead of a batch at most, unless it takes all."""

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options by which a dataset is followed."""

    # the record with which a new query begins; None for all files that are there, and then the records that follow
    first_record: int | None = None
    from_latest: bool = False  # whether a new query begins with the next record instead
    from_ns: int | None = None  # or with the first record that was written at this time or later
    on_overwrite: OnOverwrite = OnOverwrite.FAIL  # what to do at records that removed rows
    changes: bool = False  # whether these are rows of their own instead: what was removed, and what was added
    # Whether records and files that are gone before they were read are errors. If not, a query begins anew with all
    # files that are there, and leaves out files that are gone, each with a warning.
    fails_on_data_loss: bool = True
    # as for `list_tree`
    recursive: bool = False
    file_filter: FileFilter = field(default_factory=FileFilter)
    # the directory below which ``key=value`` directories are columns, if it is not the dataset's
    base_path: str | None = None


@dataclass(frozen=True, slots=True)
class _State:
    """An offset, read."""

    seq: int = 0
    after: str = _BEGIN
    job: str = ""

    @classmethod
    def of(cls, offset: Offset) -> _State:
        values = OffsetValues(offset, TABLE, ("seq", "after", "job"))
        return cls(values.integer("seq"), values.string("after"), values.string("job", max_chars=32))

    def to_offset(self) -> dict[str, str | int]:
        return make_offset(TABLE, seq=self.seq, after=self.after, job=self.job)

    @property
    def is_beginning(self) -> bool:
        """True if no record is fixed yet."""
        return self.seq == 0 and self.after in (_BEGIN, _LATEST)

    @property
    def has_snapshot(self) -> bool:
        """True if files of the snapshot are left."""
        return self.after not in (_READ, _LATEST)


class TableMode:
    """Reads a dataset that keeps its records by them."""

    def __init__(self, dataset: DatasetDirectory, options: TableOptions) -> None:
        self._dataset = dataset
        self._options = options
        self._records = TableRecords(dataset)
        self._files = RecordFiles(dataset, options.fails_on_data_loss)
        self._first = options.first_record
        self._snapshot: Snapshot | None = None
        self._taken_back: set[int] = set()
        self._lost: set[str] = set()
        """Files of the snapshot that were removed before they were read."""
        self._checked: set[tuple[int, str]] = set()
        """Numbers and jobs of offsets that are of this dataset."""
        self._backlog = Backlog()
        self._ends = False
        self._last: int | None = None
        """The last record that is read, if the query reads what is there now alone."""

    @property
    def name(self) -> str:
        """The ``mode`` of its offsets."""
        return TABLE

    def initial(self) -> Offset:
        """Return the offset before the first batch; of a record alone its number, and no job: it need not be there yet."""
        if self._options.from_ns is not None and self._first is None:
            self._first = self._first_since(self._options.from_ns)
        first = self._first
        if first is not None:
            return _State(first - 1, _READ).to_offset()
        return _State(after=_LATEST if self._options.from_latest else _BEGIN).to_offset()

    def _first_since(self, time_ns: int) -> int:
        """Return the number of the first record that was written at a time or later; the next one if there is none."""
        head, times = self._records.head(), self._records.times()
        newest_ns = self._records.written_ns(head.seq)
        if head.seq not in times and newest_ns is not None:
            times[head.seq] = newest_ns
        first = min((seq for seq, written_ns in times.items() if written_ns >= time_ns), default=head.seq + 1)
        if 1 < first == min(times, default=0) and self._options.fails_on_data_loss:
            raise StreamOffsetError(
                f"startingFrom is before the oldest record that is kept, {first} of {time_text(times[first])}, so that commits "
                "since then may be gone; give a later time, or earliest for all that is there (failOnDataLoss=false begins "
                "with that record)",
                path=self._dataset.root,
            )
        return first

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Return the offset after the rest of the snapshot, or after the next whole records; see `StreamMode.latest`.

        One small listing, and a read for each new record. While the snapshot is read, one listing of the data in each
        process.
        """
        state = _State.of(start)
        head = self._records.head()
        last = self._until(head)
        try:
            self._check(state, head)
            after = self._next(state, head, last, limit)
        except StreamOffsetError as error:
            if self._options.fails_on_data_loss:
                raise
            _LOG.warning("%s; all files that are there are read", printable(str(error)))
            after = _State(head.seq, _BEGIN, self._job(head.seq))
        return start if after == state else after.to_offset()

    def _until(self, head: Head) -> int:
        """Return the number of the last record that may be read."""
        if self._ends and self._last is None:
            self._last = head.seq
        return head.seq if self._last is None else min(self._last, head.seq)

    def _next(self, state: _State, head: Head, last: int, limit: Limit) -> _State:
        if state.after == _LATEST:
            return _State(last, _READ, self._job(last))
        if state.has_snapshot:
            seq = last if state.is_beginning else state.seq
            snapshot = self._snapshot_at(seq, state.after)
            first = snapshot.position(state.after)
            stop = first + limit.fitting(file.nbytes for file in islice(snapshot.files, first, None))
            self._backlog = snapshot.rest(stop)
            job = self._job(seq)
            if stop < len(snapshot.files):
                return _State(seq, snapshot.names[stop - 1], job)
            if first < stop or state.is_beginning:
                return _State(seq, _READ, job)
            state = _State(seq, _READ, job)
        if limit != ALL_AVAILABLE:
            last = min(last, state.seq + _MOST_AHEAD)
        records = [self._as_read(record) for record in self._between(state.seq, last, head)]
        if records and records[0].takes_back:
            self._warn_taken_back(state.seq)
        taken, files_taken, nbytes = 0, 0, 0
        for record in records:
            files_after, nbytes_after = files_taken + record.count, nbytes + record.nbytes
            if files_taken and record.count and not limit.allows(files_after, nbytes_after):
                break
            taken, files_taken, nbytes = taken + 1, files_after, nbytes_after
        left = records[taken:]
        oldest_ns = self._records.written_ns(left[0].seq) if left else None
        self._backlog = Backlog(sum(record.count for record in left), sum(record.nbytes for record in left), oldest_ns)
        if not taken or (not files_taken and taken < _EMPTY_RECORDS):
            return state
        end = records[taken - 1]
        return _State(end.seq, _READ, end.jobid)

    def _warn_taken_back(self, seq: int) -> None:
        if seq not in self._taken_back:
            self._taken_back.add(seq)
            _LOG.warning(
                "%s: record %d, which this stream has read, was taken back (arrowipc vacuum --give-up): what the query made "
                "of its rows stays",
                printable(self._dataset.root),
                seq,
            )

    def _between(self, after: int, last: int, head: Head) -> list[TableRecord]:
        """Return the records after a number up to another one."""
        found = self._records.between(after, last, head.seq)
        if isinstance(found, int):
            oldest = self._records.oldest()
            raise StreamOffsetError(
                f"record {found} of the dataset is to be read next, and is not kept any more; the oldest that is kept is "
                f"{'none' if oldest is None else oldest}, the newest record {head.seq}. failOnDataLoss=false begins anew "
                "with all files that are there; commitRetention of the writes says how long records are kept",
                path=self._dataset.root,
            )
        return found

    def _as_read(self, record: TableRecord) -> TableRecord:
        """Return a record as the option says what to do with one that overwrites."""
        if record.is_rewrite:  # its rows are those of files that are read, or will be where they live on
            return TableRecord(record.seq, record.jobid, record.previous, ())
        if not record.removes or self._options.changes:
            return record
        if self._options.on_overwrite is OnOverwrite.APPEND:
            return replace(record, removes=())
        if self._options.on_overwrite is OnOverwrite.SKIP:
            return TableRecord(record.seq, record.jobid, record.previous, ())
        raise SourceOverwrittenError(
            f"record {record.seq} (job {record.jobid}) overwrote the source of this stream; set onOverwrite=skip to go on "
            "after it, or onOverwrite=append to read the rows that it wrote as new ones",
            path=self._dataset.root,
        )

    def _check(self, state: _State, head: Head) -> None:
        """Raise if an offset is of another dataset: once for each offset that another process made."""
        if state.seq > head.seq:
            raise StreamOffsetError(
                f"the stream has read record {state.seq}, and the newest record of the dataset is {head.seq}: the "
                "directory was deleted and written anew, or startingFrom names a record that is not there yet",
                path=self._dataset.root,
            )
        if not state.job or (state.seq, state.job) in self._checked:
            return
        job = self._records.jobid(state.seq)
        if job is not None and job != state.job:
            raise StreamOffsetError(
                f"record {state.seq} of the dataset is of the job {job}, and the stream has read one of the job "
                f"{state.job}: the directory was deleted and written anew",
                path=self._dataset.root,
            )
        self._checked.add((state.seq, state.job))

    def _job(self, seq: int) -> str:
        job = (self._records.jobid(seq) or "") if seq else ""
        self._checked.add((seq, job))
        return job

    def batch(self, start: Offset, end: Offset) -> StreamBatch:
        """Return the files between two offsets; see `StreamMode.batch`. Asks for the state of each file.

        Lists the data only while the snapshot is read, once in each process.
        """
        first, last = _State.of(start), _State.of(end)
        if first == last or last.after == _BEGIN or first.after == _LATEST:
            return StreamBatch()
        head = self._records.head()
        self._check(last, head)
        if last.seq < first.seq or (last.has_snapshot and not first.has_snapshot):
            raise StreamOffsetError(f"the offset {dict(end)!r} does not follow {dict(start)!r}")
        files: list[tuple[DataFile, Change]] = []
        seq = first.seq
        if first.has_snapshot:
            seq = last.seq if first.is_beginning else first.seq
            snapshot = self._snapshot_at(seq, first.after)
            stop = None if last.after == _READ else snapshot.position(last.after)
            part = snapshot.files[snapshot.position(first.after) : stop]
            files += [(file, Change(INSERT, seq)) for file in part]
        if last.after == _READ:
            files += self._files_of(seq, last.seq, head)
        accepts = self._options.file_filter.accepts()
        files = files if accepts is None else [each for each in files if accepts(each[0])]
        root = self._options.base_path or self._dataset.root
        changes = tuple(change for _, change in files) if self._options.changes else ()
        return StreamBatch(tuple(file for file, _ in files), (root,) * len(files), changes)

    def _snapshot_at(self, seq: int, after: str) -> Snapshot:
        """Return the files that were there at a record, of which those up to a path were read. Lists the data once."""
        known = self._snapshot if self._snapshot is not None and self._snapshot.seq == seq else None
        listed = [] if known is not None else self._list()
        # After the listing: it may have files of records that came meanwhile.
        head = self._records.head()
        later = self._between(seq, head.seq, head)
        added = {add.final for record in later for add in record.adds}
        replacing = [record for record in later if record.is_rewrite or (self._options.changes and record.removes)]
        replaced_by = frozenset(record.seq for record in replacing)
        if known is not None and replaced_by != known.replaced_by:
            listed, known = known.files, None
        there, gone = replaced_since(self._dataset, replacing, added) if known is None and replaced_by else ({}, set())
        for record in later:
            self._as_read(record)
            removed = gone.intersection(record.removes) if record.seq in replaced_by else record.removes
            lost = [path for path in removed if path > after and path not in added and path not in self._lost]
            if lost:
                self._lose(record, lost)
                listed = listed if known is None else known.files
                known = None
        if known is None:
            named = {relative(file.path, self._dataset.root): file for file in listed} | there
            left_out = added | self._lost | gone
            known = Snapshot.of(seq, replaced_by, (each for each in named.items() if each[0] not in left_out))
        self._snapshot = known
        return known

    def _lose(self, record: TableRecord, paths: Collection[str]) -> None:
        """Raise or warn: a record removed files of the snapshot before they were read."""
        words = (
            f"record {record.seq} removed {len(paths)} files such as {min(paths)} before the stream had read them, of those "
            f"that were there when it began{KEEP if record.is_rewrite or self._options.changes else ''}"
        )
        if self._options.fails_on_data_loss:
            raise StreamOffsetError(f"{words}. failOnDataLoss=false leaves such files out", path=self._dataset.root)
        _LOG.warning("%s: %s; they are left out", printable(self._dataset.root), printable(words))
        self._lost.update(paths)

    def _list(self) -> list[DataFile]:
        storage = self._dataset.storage.inside(None)
        try:
            tree = list_tree(
                [self._dataset.root], recursive=self._options.recursive, storage=storage, hugging_face=True
            )
            files = discover(tree, base_path=self._options.base_path, infer=False).files
        except NoFilesError:
            return []
        return [file._replace(partition=()) for file in files]

    def _files_of(self, after: int, last: int, head: Head) -> list[tuple[DataFile, Change]]:
        """Return the files of records in their order, each as it is found now; of one what it removed before what it added."""
        try:
            records = [self._as_read(record) for record in self._between(after, last, head)]
        except StreamOffsetError as error:
            if self._options.fails_on_data_loss:
                raise
            _LOG.warning("%s; the batch is left out", printable(str(error)))
            return []
        return self._files.of(records, head)

    def committed(self, end: Offset) -> None:
        """Forget what was read."""
        state = _State.of(end)
        self._records.forget(state.seq)
        if not state.has_snapshot:
            self._snapshot = None

    @staticmethod
    def words(offset: Offset) -> str:
        """Return for people how far an offset is."""
        state = _State.of(offset)
        if state.is_beginning or not state.seq:
            return "nothing is read yet"
        record = f"record {state.seq:,}"
        return f"files at {record}, up to {cut_repr(state.after)}" if state.has_snapshot else record

    def backlog(self) -> Backlog:
        """Return the files of the snapshot that wait, or those of the records that were there at the last look."""
        return self._backlog

    def only_available_now(self) -> None:
        """Read no record that comes after the next look."""
        self._ends = True
