"""Read the chain of commit records: its head, and the pending job. Nothing is changed.

Records lie in ``_ipc_commits`` inside the dataset: ``<sequence number>.json``, and ``<sequence number>.done``, a copy of
it, once it is applied (`stored_record`). The newest record is the *head*. Only the head can be pending, because the next
record may be made only when the head is done.

The listing of the directory stays the truth about a dataset: a record corrects it between the commit and the last rename, and
afterwards only remembers the committed jobs and tokens. A reader notes the head, lists, and reads the head again (a sequence
lock). With a pending record its answer is the listing, plus the record's files, minus those that the record removes: the same
at every point of the application, so only another number makes the reader list again.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from spark_arrow_ipc.dataset.commit_log.dataset_directory import (
    COPY_MARK,
    DatasetDirectory,
    NameKind,
    RemovedFile,
    StagedFile,
    parse_name,
    sequence_number,
)
from spark_arrow_ipc.dataset.commit_log.record import TAKEN_BACK, Record
from spark_arrow_ipc.dataset.commit_log.stored_record import (
    LOG_NAME,
    is_marked,
    is_there,
    marked_schema,
    read_record,
    settled,
)
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, FileChangedError, printable
from spark_arrow_ipc.storage.paths import join, name_of
from spark_arrow_ipc.storage.storage import Status

KEPT_RECORDS: Final = 64
"""Most records that are kept: readers apply to their listings what was committed meanwhile."""

_KEPT_NS: Final = 60 * 10**9
"""Records that are older than the youngest by more are not kept; a listing takes less."""

_KEPT_NBYTES: Final = 1 << 20
"""Larger records are not kept."""

_log = logging.getLogger(__name__)

_ATTEMPTS: Final = 5
"""Attempts to read the newest record while other jobs prune it."""


@dataclass(frozen=True, slots=True)
class Head:
    """The newest record's number (0 if there is none), whether it is applied, and whether records are kept after that.

    `copies` says that a mark of a copy lies there, which may be of one that is not whole yet.
    """

    seq: int = 0
    done: bool = True
    keeps: bool = field(default=False, compare=False)
    copies: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class PendingFile:
    """A committed file that may not have its final name yet."""

    path: str  # final path, absolute
    staged: str  # path in the staging directory, absolute
    nbytes: int
    rows: int
    mtime_ns: int  # of its last modification, nanoseconds since 1970; a rename keeps it, a copy does not
    version: str = ""  # `Status.version` of the one that was found; a copy may have another


@dataclass(frozen=True, slots=True)
class Pending:
    """A committed job that is not fully applied."""

    dataset: DatasetDirectory
    record: Record

    def removed(self) -> dict[str, RemovedFile]:
        """Return the removed files by absolute path, deleted already or not."""
        return {self.dataset.path(file.path): file for file in self.record.removes}

    def staged(self, add: StagedFile) -> str:
        """Return the absolute path of a committed file until it is published."""
        return join(self.dataset.staging(self.record.jobid), add.staged)

    def file(self, add: StagedFile) -> PendingFile:
        """Return the state of a committed file, staged or published. At most two calls of the storage."""
        storage = self.dataset.storage
        path = self.dataset.path(add.final)
        staged = self.staged(add)
        # Staged first: if it is renamed between the two calls, the second one finds it.
        status = storage.status(staged) or storage.status(path)
        if status is None:
            raise FileNotFoundError(2, "a committed file is neither staged nor published", path)
        if status.nbytes != add.nbytes:
            raise FileChangedError(
                expected=f"a committed file of {add.nbytes:,} bytes", found=f"{status.nbytes:,}", path=path
            )
        return PendingFile(path, staged, add.nbytes, add.rows, status.mtime_ns, status.version)


@dataclass(frozen=True, slots=True)
class State:
    """The head, the pending job if it is not done, and the text of its schema (`record`)."""

    head: Head = field(default_factory=Head)
    pending: Pending | None = None
    schema: str = ""


def read_head(dataset: DatasetDirectory) -> Head:
    """Return a dataset's head. Lists one small directory."""
    try:
        names = [name_of(status.path) for status in dataset.storage.list(dataset.commits)]
    except FileNotFoundError:
        return Head()
    except NotADirectoryError:
        dataset.check()
        raise
    parsed = [parse_name(name) for name in names]
    numbers = {kind: {each[0] for each in parsed if each is not None and each[1] is kind} for kind in NameKind}
    seq = max(numbers[NameKind.RECORD], default=0)
    for mark in sorted(numbers[NameKind.DONE], reverse=True):
        if mark <= seq:
            break
        # A listing may have only the second of two names that appear one after the other.
        if dataset.storage.status(dataset.record(mark), follow_links=False) is not None:
            return Head(mark, keeps=LOG_NAME in names, copies=COPY_MARK in names)
        _log.warning("%s marks a record that is not there, and counts for nothing", printable(dataset.done_mark(mark)))
    is_done = not seq or seq in numbers[NameKind.DONE]
    return Head(seq, done=is_done, keeps=LOG_NAME in names, copies=COPY_MARK in names)


def is_applied(dataset: DatasetDirectory, record: Record, head: Head | None = None) -> bool:
    """Return whether a record is applied, or taken back by the next one. Lists one small directory without a `head`."""
    head = read_head(dataset) if head is None else head
    return head.seq > record.seq or (head == Head(record.seq) and is_marked(dataset, record))


def check_is_there(dataset: DatasetDirectory, record: Record) -> bool:
    """Return whether a record is there still; False if it is applied and gone, `CommitError` if the directory is another one."""
    if is_there(dataset, record):
        return True
    if is_applied(dataset, record):
        return False
    raise CommitError(
        f"the commit record number {record.seq} is not that of the job {record.jobid} any more: while this process "
        "stood still the directory was removed, or removed and made anew. Nothing more is done there",
        path=dataset.root,
    )


def newest_record(dataset: DatasetDirectory) -> tuple[Head, Record | None]:
    """Return the head and its record, done or not; None if there was never a record.

    A `CommitError` says that the record is damaged and not applied, or of another chain.
    """
    for _ in range(_ATTEMPTS):
        head = read_head(dataset)
        if not head.seq:
            return head, None
        with suppress(FileNotFoundError):  # other writers appended two records meanwhile
            try:
                record, done = settled(dataset, head.seq, has_mark=head.done)
            except CommitError:
                if read_head(dataset) == head:
                    raise
            else:
                return replace(head, done=done), record
    raise ConcurrentWriteError(
        "other writers change the directory faster than its state can be read", path=dataset.root
    )


def read_state(dataset: DatasetDirectory) -> State:
    """Return a dataset's head and, if it is pending, its record. Changes nothing."""
    head = read_head(dataset)
    if not head.seq:
        return State(head)
    schema = marked_schema(dataset, head.seq) if head.done else None
    if schema is not None:
        return State(head, schema=schema)
    head, record = newest_record(dataset)
    if record is None:
        return State(head)
    return State(head, None if head.done else Pending(dataset, record), record.schema)


def read_pending(dataset: DatasetDirectory) -> Pending | None:
    """Return the pending job, usually None. Changes nothing."""
    return read_state(dataset).pending


def read_changes(dataset: DatasetDirectory, after: int) -> tuple[Pending, ...] | None:
    """Return the jobs and withdrawals whose records follow a number, oldest first; at least one.

    None if one of the records was deleted already, or takes back the one before it. Reads each of them.
    """
    try:
        head, newest = newest_record(dataset)
        if newest is None or head.seq <= after or head.seq - after > KEPT_RECORDS:
            return None
        records = [read_record(dataset, seq) for seq in range(after + 1, head.seq)]
    except (CommitError, FileNotFoundError):
        return None
    changes = (*records, newest)
    # A late writer may have put another record where one was deleted, and the directory may have been made anew.
    if not all(record.follows(before) for before, record in pairwise(changes)):
        return None
    if any(record.mode == TAKEN_BACK for record in changes):
        return None
    return tuple(Pending(dataset, record) for record in changes)


def old_records(dataset: DatasetDirectory, head: int) -> list[Status]:
    """Return the records and marks that need not be kept; never those of the head and of the one before it."""
    named = [(sequence_number(name_of(status.path)), status) for status in dataset.storage.list(dataset.commits)]
    numbered = [(number, status) for number, status in named if number is not None]
    youngest = max((status.mtime_ns for _, status in numbered), default=0)
    kept = {
        number
        for number, status in numbered
        if number > head - KEPT_RECORDS
        and status.path == dataset.record(number)
        and status.nbytes <= _KEPT_NBYTES
        and status.mtime_ns >= youngest - _KEPT_NS
    }
    return [status for number, status in numbered if number < head - 1 and number not in kept]
