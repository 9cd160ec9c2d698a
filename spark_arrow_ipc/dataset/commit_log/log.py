"""Which commit record of a dataset counts, and where the files of one lie that is still being applied.

Strategy
--------
Records lie in ``_ipc_commits`` inside the dataset: ``<sequence number>.json``, and an empty ``<sequence number>.done``
once what it says is done. The newest is the *head*; at most that one is pending, because the next may only be made
when it is done. The listing of the directory stays the truth about a dataset: a record corrects it for the moments
between the commit and the last rename, and afterwards serves only as the memory of which jobs, tokens and
micro-batches are in. A reader notes the head, lists, and looks at the head again (a sequence lock). With a pending
record its answer is what is listed, with the record's files, without those that it removes: the same at every point
of its application, so that it may end meanwhile and only another number makes the reader list again.

This module reads and never changes anything. A dataset without ``_ipc_commits`` costs one failed system call.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Final

from spark_arrow_ipc.dataset.commit_log.record import MAX_RECORD_NBYTES, STAGED_SUFFIX, Record, StagedFile
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, FileChangedError, error_context
from spark_arrow_ipc.storage.local import status

__all__ = [
    "COMMITS_DIRECTORY",
    "STAGED_SUFFIX",
    "STAGING_DIRECTORY",
    "Head",
    "Pending",
    "PendingFile",
    "State",
    "commits_directory",
    "is_committed",
    "read_head",
    "read_pending",
    "read_record",
    "read_state",
    "record_path",
    "sequence_number",
    "staging_directory",
]

STAGING_DIRECTORY: Final = "_ipc_stage"
"""Directory inside a dataset where a write keeps its files until it commits."""

COMMITS_DIRECTORY: Final = "_ipc_commits"
"""Directory inside a dataset that holds the newest records."""

_LOOKS: Final = 5
"""So often a record is looked for that others prune meanwhile."""

_RECORD_NAME: Final = re.compile(r"(\d{20})\.(json|done)")


# Where things lie


def commits_directory(root: str) -> str:
    """Return the directory of a dataset's records."""
    return os.path.join(root, COMMITS_DIRECTORY)


def record_path(root: str, seq: int, ending: str = "json") -> str:
    """Return the path of a record, or with the ending "done" of its mark."""
    return os.path.join(root, COMMITS_DIRECTORY, f"{seq:020d}.{ending}")


def sequence_number(name: str) -> int | None:
    """Return the number in the name of a record or mark, None for another name."""
    found = _RECORD_NAME.fullmatch(name)
    return int(found[1]) if found else None


def staging_directory(root: str, jobid: str) -> str:
    """Return a job's staging directory."""
    return os.path.join(root, STAGING_DIRECTORY, jobid)


# Reading


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
    """A committed job whose files are not all in place: the record, and where its dataset lies."""

    root: str
    record: Record

    def removed(self) -> frozenset[str]:
        """Return the absolute paths of the files that are removed, whether they are still there or not."""
        return frozenset(os.path.join(self.root, name) for name in self.record.removes)

    def file(self, add: StagedFile) -> PendingFile:
        """Return where a file lies; two system calls at most.

        Raises
        ------
        FileNotFoundError
            It is in neither place.
        FileChangedError
            What is there has another size than was committed.
        """
        path = os.path.join(self.root, add.final)
        staged = os.path.join(staging_directory(self.root, self.record.jobid), add.staged)
        found = status(staged) or status(path)
        if found is None:
            raise FileNotFoundError(2, "a committed file is neither staged nor published", path)
        if found.nbytes != add.nbytes:
            raise FileChangedError(
                expected=f"a committed file of {add.nbytes:,} bytes", found=f"{found.nbytes:,}", path=path
            )
        return PendingFile(path, staged, add.nbytes, add.rows, found.mtime_ns)


@dataclass(frozen=True, slots=True)
class State:
    """The head and, where it is not done, what it is about to do."""

    head: Head = field(default_factory=Head)
    pending: Pending | None = None


def read_head(root: str) -> Head:
    """Return the number and state of a dataset's newest record. One listing of at most a handful of names.

    Raises
    ------
    OSError
        The file system does not say.
    """
    try:
        names = os.listdir(commits_directory(root))
    except (FileNotFoundError, NotADirectoryError):
        return Head()
    # A mark counts as its record: of two names that appear one after the other a listing may have only the second.
    seq = max((number for number in map(sequence_number, names) if number is not None), default=0)
    return Head(seq, done=not seq or f"{seq:020d}.done" in names)


def read_record(root: str, seq: int) -> Record:
    """Return a record, checked.

    Raises
    ------
    FileNotFoundError
        It is not there: two records at least have followed it.
    CommitError
        It is damaged, with what to do about it.
    """
    path = record_path(root, seq)
    with open(path, "rb", buffering=0) as file:
        nbytes = os.fstat(file.fileno()).st_size
        if nbytes > MAX_RECORD_NBYTES:
            raise CommitError(
                expected=f"a commit record of at most {MAX_RECORD_NBYTES:,} bytes", found=f"{nbytes:,}", path=path
            )
        data = file.readall()
    try:
        with error_context(path=path):
            record = Record.from_bytes(data)
            if record.seq != seq:
                raise CommitError(expected=f"the commit record number {seq}", found=f"number {record.seq}")
    except CommitError as error:
        raise CommitError(
            f"{error}; nothing is done by it. To go on without what it says, remove it and its .done", path=root
        ) from error
    return record


def read_state(root: str) -> State:
    """Return a dataset's head and, where that is pending, its record. Changes nothing.

    Raises
    ------
    CommitError
        The pending record is damaged.
    OSError
        The file system does not say.
    """
    for _ in range(_LOOKS):
        head = read_head(root)
        if head.done:
            return State(head)
        try:
            return State(head, Pending(root, read_record(root, head.seq)))
        except FileNotFoundError:  # others went on by two records since
            continue
    raise ConcurrentWriteError("other writers change the directory faster than its state can be read", path=root)


def read_pending(root: str) -> Pending | None:
    """Return the job that is committed and not yet in place, or None, which is the rule. Changes nothing.

    Raises
    ------
    CommitError, OSError
        As `read_state`.
    """
    return read_state(root).pending


def is_committed(root: str, jobid: str) -> bool:
    """Return whether a job is among the newest `REMEMBERED` that are committed.

    Only the head is asked: a record that a late writer linked where older ones were pruned was never the head.

    Raises
    ------
    CommitError, OSError
        As `read_state`: then nobody knows.
    """
    for _ in range(_LOOKS):
        head = read_head(root)
        if not head.seq:
            return False
        try:
            return jobid in read_record(root, head.seq).jobs
        except FileNotFoundError:
            continue
    raise ConcurrentWriteError("other writers change the directory faster than its state can be read", path=root)
