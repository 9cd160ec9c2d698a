"""The chain of commit records: which one counts, and where its files lie while it is being applied.

Strategy
--------
Records lie in ``_ipc_commits`` inside the dataset: ``<sequence number>.json``, and an empty ``<sequence number>.done``
once what it says is done. The newest is the *head*; at most that one is pending, because the next may only be made
when it is done. The listing of the directory stays the truth about a dataset: a record corrects it for the moments
between the commit and the last rename, and afterwards serves only as the memory of which jobs, tokens and
micro-batches are in. A reader notes the head, lists, and looks at the head again (a sequence lock). With a pending
record its answer is what is listed, with the record's files, without those that it removes: the same at every point
of its application, so that it may end meanwhile and only another number makes the reader list again.

This module reads and never changes anything. A dataset without ``_ipc_commits`` costs one failed listing.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory, sequence_number
from spark_arrow_ipc.dataset.commit_log.record import MAX_RECORD_NBYTES, Record, StagedFile
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, FileChangedError, LimitError, error_context
from spark_arrow_ipc.storage.paths import join, name_of

__all__ = [
    "Head",
    "Pending",
    "PendingFile",
    "State",
    "is_committed",
    "newest_record",
    "read_head",
    "read_pending",
    "read_record",
    "read_state",
]

_LOOKS: Final = 5
"""How often a record is looked for that other jobs prune meanwhile."""


@dataclass(frozen=True, slots=True)
class Head:
    """The newest record's number, 0 where there is none, and whether it is done."""

    seq: int = 0
    done: bool = True


@dataclass(frozen=True, slots=True)
class PendingFile:
    """A committed file that may not have its final name yet.

    Parameters
    ----------
    path
        Absolute path that it has or will have.
    staged
        Absolute path that it has or had.
    nbytes, rows
        Its size and its rows.
    mtime_ns
        Time of its last modification, nanoseconds since 1970; a rename keeps it.
    """

    path: str
    staged: str
    nbytes: int
    rows: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Pending:
    """A committed job whose files are not all in place."""

    dataset: DatasetDirectory
    record: Record

    def removed(self) -> frozenset[str]:
        """Return the absolute paths of the files that are removed, whether they are still there or not."""
        return frozenset(map(self.dataset.path, self.record.removes))

    def file(self, add: StagedFile) -> PendingFile:
        """Return the place of a file; two looks at most.

        Raises
        ------
        FileNotFoundError
            It is in neither place.
        FileChangedError
            What is there has another size than was committed.
        """
        storage = self.dataset.storage
        path = self.dataset.path(add.final)
        staged = join(self.dataset.staging(self.record.jobid), add.staged)
        # Staged first: a rename between the two looks is found by the second.
        status = storage.status(staged) or storage.status(path)
        if status is None:
            raise FileNotFoundError(2, "a committed file is neither staged nor published", path)
        if status.nbytes != add.nbytes:
            raise FileChangedError(
                expected=f"a committed file of {add.nbytes:,} bytes", found=f"{status.nbytes:,}", path=path
            )
        return PendingFile(path, staged, add.nbytes, add.rows, status.mtime_ns)


@dataclass(frozen=True, slots=True)
class State:
    """The head and, where it is not done, what it is about to do."""

    head: Head = field(default_factory=Head)
    pending: Pending | None = None


def read_head(dataset: DatasetDirectory) -> Head:
    """Return the number and state of a dataset's newest record. One listing of at most a handful of names.

    Raises
    ------
    OSError
        The storage does not say.
    """
    try:
        names = {name_of(status.path) for status in dataset.storage.list(dataset.commits)}
    except (FileNotFoundError, NotADirectoryError):
        return Head()
    # A mark counts as its record: of two names that appear one after the other a listing may have only the second.
    seq = max((number for number in map(sequence_number, names) if number is not None), default=0)
    return Head(seq, done=not seq or f"{seq:020d}.done" in names)


def read_record(dataset: DatasetDirectory, seq: int) -> Record:
    """Return a record, checked.

    Raises
    ------
    FileNotFoundError
        It is not there: two records at least have followed it.
    CommitError
        It is damaged, with what to do about it.
    """
    path = dataset.record(seq)
    try:
        data = dataset.storage.read(path, MAX_RECORD_NBYTES)
    except LimitError as error:
        raise CommitError(expected=error.expected, found=error.found, path=path) from error
    try:
        with error_context(path=path):
            record = Record.from_bytes(data)
            if record.seq != seq:
                raise CommitError(expected=f"the commit record number {seq}", found=f"number {record.seq}")
    except CommitError as error:
        raise CommitError(
            f"{error}; nothing is done by it. To go on without what it says, remove it and its .done", path=dataset.root
        ) from error
    return record


def newest_record(dataset: DatasetDirectory) -> tuple[Head, Record | None]:
    """Return the head and its record, done or not; no record where there was never one.

    Raises
    ------
    CommitError
        The record is damaged.
    ConcurrentWriteError
        Other writers go on faster than the chain can be read.
    OSError
        The storage does not say.
    """
    for _ in range(_LOOKS):
        head = read_head(dataset)
        if not head.seq:
            return head, None
        with suppress(FileNotFoundError):  # others went on by two records since
            return head, read_record(dataset, head.seq)
    raise ConcurrentWriteError(
        "other writers change the directory faster than its state can be read", path=dataset.root
    )


def read_state(dataset: DatasetDirectory) -> State:
    """Return a dataset's head and, where that is pending, its record. Changes nothing.

    Raises
    ------
    CommitError
        The pending record is damaged.
    OSError
        The storage does not say.
    """
    head = read_head(dataset)
    if head.done:
        return State(head)
    head, record = newest_record(dataset)
    return State(head, None if head.done or record is None else Pending(dataset, record))


def read_pending(dataset: DatasetDirectory) -> Pending | None:
    """Return the job that is committed and not yet in place, usually None. Changes nothing.

    Raises
    ------
    CommitError, OSError
        As `read_state`.
    """
    return read_state(dataset).pending


def is_committed(dataset: DatasetDirectory, jobid: str) -> bool:
    """Return whether a job is among the newest `REMEMBERED` that are committed.

    Only the head is asked: a record that a late writer made where older ones were pruned was never the head.

    Raises
    ------
    CommitError, OSError
        As `newest_record`: then it cannot be known.
    """
    record = newest_record(dataset)[1]
    return record is not None and jobid in record.jobs
