"""The records of a dataset as a stream reads them, each once, and the files that were in the dataset at one of them.

A record comes from the kept ones (`stored_record`), and the head, which may be pending, from the chain itself. The next
record says whether one was taken back. A process that stood still while the directory was removed and made anew may keep
a record of the chain before: each record names the job of the one before it, by which such a record is known.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from spark_arrow_ipc.dataset.commit_log.dataset_directory import (
    DatasetDirectory,
    NameKind,
    StagedFile,
    kept_places,
    parse_name,
)
from spark_arrow_ipc.dataset.commit_log.log import Head, newest_record, read_head
from spark_arrow_ipc.dataset.commit_log.record import COPIED, TAKEN_BACK, Record
from spark_arrow_ipc.dataset.commit_log.stored_record import log_directory, read_kept, read_record, record_path, settled
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.stream.mode import DELETE, INSERT, Backlog, Change
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.errors import CommitError, FileChangedError, StreamOffsetError, printable
from spark_arrow_ipc.storage.paths import join, name_of
from spark_arrow_ipc.storage.storage import Status, each

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableRecord:
    """The files that a record added to the dataset."""

    # its number, its job, and the job of the record before it
    seq: int
    jobid: str
    previous: str
    adds: tuple[StagedFile, ...]  # files, by path
    removes: tuple[str, ...] = ()  # files with rows of earlier records that it removed, by their relative paths
    takes_back: bool = False  # whether it takes back the record before it, which counts for nothing
    is_rewrite: bool = False  # whether the rows of what it added are those of what it removed
    # of what it removed, as the job that removed it has found them; empty where the storage has none
    versions: tuple[str, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes of all files that it added."""
        return sum(add.nbytes for add in self.adds)

    @property
    def count(self) -> int:
        """The number of the files that it added or removed."""
        return len(self.adds) + len(self.removes)


@dataclass(slots=True)
class TableRecords:
    """Records by number, kept in memory from their first use until they are forgotten."""

    dataset: DatasetDirectory  # the dataset
    _known: dict[int, TableRecord] = field(default_factory=dict)

    def head(self) -> Head:
        """Return the head. One small listing."""
        return read_head(self.dataset)

    def between(self, after: int, last: int, head: int) -> list[TableRecord] | int:
        """Return the records after a number up to another one, or the number of the first that is not there any more.

        Reads each record once, and the one after the last.
        """
        wanted = range(after + 1, min(last + 1, head) + 1)
        self._read([seq for seq in wanted if seq not in self._known], head)
        found = []
        for seq in wanted[:-1]:
            self._check_follows(seq)
        for seq in range(after + 1, last + 1):
            record = self._known.get(seq)
            following = self._known.get(seq + 1)
            if following is not None and following.takes_back:
                found.append(TableRecord(seq, "" if record is None else record.jobid, "", ()))
            elif record is None:
                return seq
            else:
                found.append(record)
        return found

    def jobid(self, seq: int) -> str | None:
        """Return the job of a record; None if the record is not there."""
        if seq not in self._known:
            self._read([seq])
        record = self._known.get(seq)
        return None if record is None else record.jobid

    def written_ns(self, seq: int) -> int | None:
        """Return when a record was kept, or written if it is not yet, in nanoseconds since 1970; None if it is not there."""
        paths = record_path(self.dataset, seq), self.dataset.record(seq)
        status = next(filter(None, map(self.dataset.storage.status, paths)), None)
        return None if status is None else status.mtime_ns

    def forget(self, seq: int) -> None:
        """Forget the records before a number."""
        for number in [number for number in self._known if number < seq]:
            del self._known[number]

    def oldest(self) -> int | None:
        """Return the number of the oldest kept record. Lists all of them."""
        return min(self.times(), default=None)

    def times(self) -> dict[int, int]:
        """Return when each kept record was written, in nanoseconds since 1970, by its number. Lists all of them."""
        with suppress(FileNotFoundError):
            found = [
                (parse_name(name_of(status.path)), status.mtime_ns)
                for status in self.dataset.storage.list(log_directory(self.dataset))
            ]
            return {name[0]: at for name, at in found if name is not None and name[1] is NameKind.RECORD}
        return {}

    def _check_follows(self, seq: int) -> None:
        """Raise if the next record does not name the job of this one, in what is kept and in the chain itself."""
        record, following = self._known.get(seq), self._known.get(seq + 1)
        if record is None or following is None or following.previous == record.jobid:
            return
        for number in (seq, seq + 1):
            stored = self._stored(number)
            if stored is not None:
                self._known[number] = _summary(stored)
        if self._known[seq + 1].previous != self._known[seq].jobid:
            raise CommitError(
                f"record {seq + 1} does not follow record {seq}: one of them was kept by a process that stood still while "
                "the directory was removed and written anew; start the stream with a new checkpoint",
                path=log_directory(self.dataset),
            )

    def _read(self, numbers: Sequence[int], head: int = 0) -> None:
        missing: list[int] = []

        def read(seq: int) -> None:
            # No record follows the newest one that could tell whether what is kept is of its chain.
            record = (self._stored(seq) if seq == head else None) or read_kept(self.dataset, seq)
            if record is None:
                missing.append(seq)
            else:
                self._known[seq] = _summary(record)

        each(read, numbers, waits=self.dataset.storage.traits.waits)
        for seq in missing:
            record = self._from_chain(seq)
            if record is not None:
                self._known[seq] = _summary(record)

    def _stored(self, seq: int) -> Record | None:
        """Return a record of the chain itself, or the copy in its mark; None if there is none that is whole."""
        with suppress(FileNotFoundError, CommitError):
            return settled(self.dataset, seq, has_mark=True)[0]
        return None

    def _from_chain(self, seq: int) -> Record | None:
        """Return a record that is not kept: the head that is not done yet, or one of a build that keeps none."""
        newest = newest_record(self.dataset)[1]
        if newest is None or seq > newest.seq:
            return None
        if seq == newest.seq:
            return newest
        try:
            record = read_record(self.dataset, seq)
        except FileNotFoundError:
            # It may have been kept, and pruned from the chain, since it was looked for.
            return read_kept(self.dataset, seq)
        # A late writer may have put another record where one was deleted; the newest record does not remember its job.
        return None if record.is_of_job and record.jobid not in newest.jobs else record


def _summary(record: Record) -> TableRecord:
    if record.mode == COPIED:  # its files are those of the records before it
        return TableRecord(record.seq, record.jobid, record.previous, ())
    # An append may remove the empty file that stood for the schema.
    replaces = record.is_of_job and record.mode != WriteMode.APPEND.value
    removed = record.removes if replaces else ()
    adds = tuple(sorted(record.adds, key=lambda add: add.final))
    is_rewrite = record.mode == WriteMode.REWRITE.value
    return TableRecord(
        record.seq,
        record.jobid,
        record.previous,
        adds,
        tuple(file.path for file in removed),
        record.mode == TAKEN_BACK,
        is_rewrite,
        tuple(file.version for file in removed),
    )


def keeps_records(dataset: DatasetDirectory) -> bool:
    """Return whether a dataset keeps its records, so that a stream can read them. One small listing."""
    return read_head(dataset).keeps


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files that were there at a record.

    It is what is listed now, without what later records added, and with what later rewrites replaced: a rewrite moves rows
    into other files; the old ones live on for as long as it said (``keepReplaced``), and a stream goes on with those. One
    that reads changes goes on with the files of overwrites, too.
    """

    seq: int  # number of the record
    replaced_by: frozenset[int]  # numbers of the later records whose old files it has, where they live on
    # relative paths, sorted, and the file of each
    names: list[str]
    files: list[DataFile]
    nbytes: list[int]  # bytes of all files before each, and of all
    oldest_ns: list[int]  # when the oldest of each file and all behind it was modified

    @classmethod
    def of(cls, seq: int, replaced_by: frozenset[int], named: Iterable[tuple[str, DataFile]]) -> Snapshot:
        """Make a snapshot of files with their relative paths; a path that comes twice is one file."""
        by_name = dict(named)
        names = sorted(by_name)
        files = [by_name[name] for name in names]
        nbytes = [0, *accumulate(file.nbytes for file in files)]
        oldest_ns = [*accumulate((file.mtime_ns for file in reversed(files)), min)][::-1]
        return cls(seq, replaced_by, names, files, nbytes, oldest_ns)

    def position(self, after: str) -> int:
        """Return the number of files up to a path, the path itself included."""
        return bisect_right(self.names, after)

    def rest(self, position: int) -> Backlog:
        """Return the number of files from a position on, their bytes, and when the oldest was modified."""
        oldest_ns = self.oldest_ns[position] if position < len(self.files) else None
        return Backlog(len(self.files) - position, self.nbytes[-1] - self.nbytes[position], oldest_ns)


def replaced_since(
    dataset: DatasetDirectory, later: Iterable[TableRecord], added: set[str]
) -> tuple[dict[str, DataFile], set[str]]:
    """Return the files of a snapshot that later records replaced, as they are found now, and the paths of those gone.

    A listing and a look for each such file.
    """
    there: dict[str, DataFile] = {}
    gone: set[str] = set()
    removed = (pair for record in later for pair in zip(record.removes, record.versions, strict=True))
    for name, version in ((name, version) for name, version in removed if name not in added):
        file = replaced_file(dataset, name, version)
        if file is None:
            gone.add(name)
        else:
            there[name] = file
    return there, gone


def replaced_file(dataset: DatasetDirectory, name: str, version: str) -> DataFile | None:
    """Return a file that a record replaced, as it is found now; None if it is gone."""
    path = dataset.path(name)
    status = status_where_it_lives(dataset, path, version)
    if status is None:
        return None
    is_kept = status.path != path  # a copy, which is looked for by the version that it was of
    return DataFile(path, status.nbytes, status.mtime_ns, (), None, version if is_kept else status.version)


def status_where_it_lives(dataset: DatasetDirectory, path: str, version: str = "") -> Status | None:
    """Return the status of a file at its path, or where a replaced file lives on; None if it is gone."""
    storage = dataset.storage
    status = storage.status(path)
    return status or next(filter(None, map(storage.status, kept_places(storage, path, version))), None)


KEEP: Final = "; keepReplaced of the job says how long such files live on for streams"


@dataclass(frozen=True, slots=True)
class RecordFiles:
    """Finds the files of records, each as it is now."""

    dataset: DatasetDirectory
    fails_on_data_loss: bool  # whether a file that is gone is an error; else it is left out, with a warning

    def of(self, records: Sequence[TableRecord], head: Head) -> list[tuple[DataFile, Change]]:
        """Return the files of records in their order; of each record what it removed before what it added."""
        found: dict[tuple[int, int], DataFile | None] = {}

        def look(item: tuple[TableRecord, int]) -> None:
            record, number = item
            if number < len(record.removes):
                found[record.seq, number] = self._look_removed(record, number)
                return
            add = record.adds[number - len(record.removes)]
            is_pending = record.seq == head.seq and not head.done
            found[record.seq, number] = self._look(record, add.final, add.staged if is_pending else None, add.nbytes)

        items = [(record, number) for record in records for number in range(record.count)]
        each(look, items, waits=self.dataset.storage.traits.waits)
        files = []
        for record, number in items:
            file = found[record.seq, number]
            if file is not None:
                files.append((file, Change(DELETE if number < len(record.removes) else INSERT, record.seq)))
        return files

    def _look_removed(self, record: TableRecord, number: int) -> DataFile | None:
        """Return a file that a record removed, where it lives on; None if it is gone and may be."""
        name = record.removes[number]
        file = replaced_file(self.dataset, name, record.versions[number])
        if file is None:
            self._lack(self.dataset.path(name), f"record {record.seq} removed this file, and its rows are gone{KEEP}")
        return file

    def _lack(self, path: str, words: str) -> None:
        """Raise or warn: a file is gone before it was read."""
        if self.fails_on_data_loss:
            raise StreamOffsetError(f"{words}. failOnDataLoss=false leaves such files out", path=path)
        _LOG.warning("%s: %s; it is left out", printable(path), words)

    def _look(self, record: TableRecord, final: str, staged_name: str | None, nbytes: int) -> DataFile | None:
        """Return a committed file, where it is found; None if it is gone and may be."""
        storage, path = self.dataset.storage, self.dataset.path(final)
        staged = None if staged_name is None else join(self.dataset.staging(record.jobid), staged_name)
        status = None if staged is None else storage.status(staged)
        status = status or status_where_it_lives(self.dataset, path)
        if status is None:
            self._lack(path, f"record {record.seq} added this file, and it was removed before the stream had read it")
            return None
        if status.nbytes != nbytes:
            raise FileChangedError(
                expected=f"a committed file of {nbytes:,} bytes", found=f"{status.nbytes:,}", path=path
            )
        # A copy that another process makes of a pending file may give it another version.
        version = status.version if staged is None or storage.traits.renames else ""
        return DataFile(path, nbytes, status.mtime_ns, (), staged, version)
