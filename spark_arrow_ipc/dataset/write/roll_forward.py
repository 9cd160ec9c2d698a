"""Bringing a committed job to its end, whoever comes first; and withdrawing one that is not committed.

Strategy
--------
`finish` applies the pending record. Any number of processes may do so at once, and stop anywhere: a rename that found
its source gone and its target there is done, so is an unlink of nothing, and the mark comes last. Files are removed
only after every file that replaces them has its name for good.

==== ===================================================================================================
C4   make the partitions' directories, rename each staged file to its final name, make the names durable
C5   remove the files that the record removes, and the partitions' directories that this emptied
C6   write ``_SUCCESS``, mark the record as done, remove the records before the last and the staging
==== ===================================================================================================

`withdraw` takes back a job's right to commit before anything of it is removed: its staging directory is renamed, and
with it the staged record that a commit, late in another process, would link; only then does it look whether that
commit came first.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import stat
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from spark_arrow_ipc.dataset.commit_log.log import (
    STAGING_DIRECTORY,
    Head,
    commits_directory,
    is_committed,
    read_head,
    read_record,
    read_state,
    record_path,
    sequence_number,
    staging_directory,
)
from spark_arrow_ipc.dataset.commit_log.record import STAGED_SUFFIX, Record, StagedFile
from spark_arrow_ipc.dataset.write import failpoint
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage.concurrent import each
from spark_arrow_ipc.storage.local import status, sync_directory, sync_file

__all__ = [
    "REMOVED_SUFFIX",
    "STAGED_RECORD",
    "SUCCESS_FILE",
    "CommitSummary",
    "check_directories",
    "finish",
    "latest",
    "remove_staging",
    "roll_forward",
    "withdraw",
]

SUCCESS_FILE: Final = "_SUCCESS"
"""Hadoop's sign of a finished job; ours holds a summary as JSON."""

STAGED_RECORD: Final = "record.json" + STAGED_SUFFIX
"""Name of a job's record in its staging directory, until it is linked."""

REMOVED_SUFFIX: Final = ".removed"
"""What a withdrawal appends to the name of a staging directory."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommitSummary:
    """What a commit did.

    Parameters
    ----------
    jobid, mode
        The job's.
    files, rows, nbytes
        What was published.
    removed
        How many files of before are gone.
    published
        False where the job had nothing to do: its token or micro-batch was committed before, or ``ifExists=ignore``
        met files.
    """

    jobid: str
    mode: str
    files: int = 0
    rows: int = 0
    nbytes: int = 0
    removed: int = 0
    published: bool = True

    @classmethod
    def of(cls, record: Record) -> CommitSummary:
        """Return what a record did."""
        rows = sum(file.rows for file in record.adds)
        nbytes = sum(file.nbytes for file in record.adds)
        return cls(record.jobid, record.mode, len(record.adds), rows, nbytes, len(record.removes))

    def to_json(self) -> str:
        """Return the text of ``_SUCCESS``."""
        values = {name: getattr(self, name) for name in self.__slots__ if name != "published"}
        return json.dumps({"writer": "spark-arrow-ipc", **values}, indent=2) + "\n"


# C4 to C6


def finish(root: str) -> Head:
    """Bring the pending record to its end if there is one, and return the head, which is done.

    Raises
    ------
    CommitError
        It is damaged, or a committed file is gone.
    OSError
        The file system refuses a step; the next who comes tries again.
    """
    while True:
        state = read_state(root)
        if state.pending is None:
            return state.head
        roll_forward(root, state.pending.record)


def latest(root: str) -> tuple[Head, Record | None]:
    """Return the head after `finish`, and its record, None where there was never one; nothing of it stays staged.

    Raises
    ------
    CommitError, OSError
        As `finish`.
    """
    while True:
        head = finish(root)
        if not head.seq:
            return head, None
        with suppress(FileNotFoundError):  # others went on by two records since
            record = read_record(root, head.seq)
            remove_staging(root, record.jobid)  # its process may have died behind its last but one step
            return head, record


def roll_forward(root: str, record: Record) -> None:
    """Apply a record that is linked; what is applied already is left as it is.

    Raises
    ------
    CommitError
        A committed file is gone, or a link or file lies where a partition's directory shall be.
    OSError
        The file system refuses a step.
    """
    directories = _with_parents(os.path.dirname(file.final) for file in record.adds) | {""}
    check_directories(root, directories | {os.path.dirname(name) for name in record.removes})
    for directory in sorted(directories):
        os.makedirs(os.path.join(root, directory), exist_ok=True)
    failpoint.hit("C4.directories")
    each(partial(_publish, root, record), record.adds)
    if record.durable:
        each(_sync_if_there, [os.path.join(root, directory) for directory in sorted(directories)])
    failpoint.hit("C4.synced")
    if _is_done(root, record.seq):
        # Another process ended this job, and jobs after it may have changed what it made: nothing of that is ours.
        return
    _remove_old(root, record, directories)
    _write_success(root, record)
    failpoint.hit("C6.success")
    os.close(os.open(record_path(root, record.seq, "done"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
    if record.durable:
        sync_directory(commits_directory(root))
    failpoint.hit("C6.done")
    _prune(root, record.seq)
    failpoint.hit("C6.pruned")
    remove_staging(root, record.jobid)
    failpoint.hit("C6.cleaned")


def _with_parents(directories: Iterable[str]) -> set[str]:
    """Return relative directories and all above them, the dataset's own as an empty text."""
    found = set()
    for directory in set(directories):
        inner = directory
        while inner not in found:
            found.add(inner)
            inner = os.path.dirname(inner)
    return found


def check_directories(root: str, directories: Iterable[str]) -> None:
    """Raise where one of some relative directories, or one above it, is there and is a link or a file.

    A link could lead out of the dataset, where nothing may be written or removed.

    Raises
    ------
    CommitError
        With its path.
    """
    for directory in _with_parents(directories) - {""}:
        path = os.path.join(root, directory)
        with suppress(FileNotFoundError):
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise CommitError(
                    "a partition's directory must be a directory, and this is a link or a file: nothing is written to "
                    "or removed from it",
                    path=path,
                )


def _publish(root: str, record: Record, file: StagedFile) -> None:
    staged = os.path.join(staging_directory(root, record.jobid), file.staged)
    final = os.path.join(root, file.final)
    try:
        os.rename(staged, final)
    except FileNotFoundError:
        _settle(root, record, file)
    failpoint.hit("C4.renamed")


def _settle(root: str, record: Record, file: StagedFile) -> None:
    """Find out what a rename means whose source or target directory was not there."""
    staging = staging_directory(root, record.jobid)
    staged, final = os.path.join(staging, file.staged), os.path.join(root, file.final)
    found = status(final)
    if found is not None and found.nbytes == file.nbytes:
        return
    if _is_done(root, record.seq):
        return
    with suppress(OSError):  # a withdrawal renamed it and died before it saw that the job is committed
        os.rename(staging + REMOVED_SUFFIX, staging)
    if os.path.lexists(staged):
        # A late process of the job before may remove a partition's directory that it emptied.
        os.makedirs(os.path.dirname(final), exist_ok=True)
        os.rename(staged, final)
        return
    raise CommitError(
        f"the file {file.final} is committed, and is neither there nor staged: somebody removed it. "
        f"Restore it; or, to give the whole job up, remove {record_path(root, record.seq)}",
        path=root,
    )


def _is_done(root: str, seq: int) -> bool:
    head = read_head(root)
    return head.seq > seq or head.done


def _remove_old(root: str, record: Record, kept: set[str]) -> None:
    """Remove what the record removes, and the partitions' directories that are empty then (step C5)."""
    if not record.removes:
        return
    each(partial(_unlink, root), record.removes)
    directories = {os.path.dirname(name) for name in record.removes}
    if record.durable:
        each(_sync_if_there, [os.path.join(root, directory) for directory in sorted(directories)])
    failpoint.hit("C5.synced")
    for directory in sorted(_with_parents(directories) - kept - {""}, reverse=True):
        with suppress(OSError):  # somebody else's file keeps it
            os.rmdir(os.path.join(root, directory))


def _unlink(root: str, name: str) -> None:
    with suppress(FileNotFoundError):  # somebody removed it already
        os.unlink(os.path.join(root, name))
    failpoint.hit("C5.unlinked")


def _sync_if_there(directory: str) -> None:
    with suppress(FileNotFoundError):
        sync_directory(directory)


def _write_success(root: str, record: Record) -> None:
    """Write the sign of a finished job, whole or not at all (step C6)."""
    written = os.path.join(commits_directory(root), uuid.uuid4().hex + STAGED_SUFFIX)
    try:
        with open(written, "x", encoding="utf-8") as file:
            file.write(CommitSummary.of(record).to_json())
            file.flush()
            if record.durable:
                sync_file(file.fileno())
        os.replace(written, os.path.join(root, SUCCESS_FILE))
    except BaseException:
        with suppress(OSError):
            os.unlink(written)
        raise
    if record.durable:
        sync_directory(root)


def _prune(root: str, head: int) -> None:
    """Remove all records but the head and the one before."""
    for name in os.listdir(commits_directory(root)):
        number = sequence_number(name)
        if number is not None and number < head - 1:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(commits_directory(root), name))


# Staging


def remove_staging(root: str, jobid: str) -> None:
    """Remove what a committed job left staged and, where no other job has anything, the directory of all.

    A failure is not the job's: what stays is hidden from readers, and vacuum tries again.
    """
    _remove_tree(staging_directory(root, jobid))
    with suppress(OSError):
        os.rmdir(os.path.join(root, STAGING_DIRECTORY))


def _remove_tree(directory: str) -> None:
    try:
        shutil.rmtree(directory)
    except FileNotFoundError:  # it is gone, or others remove it, too
        shutil.rmtree(directory, ignore_errors=True)
    except OSError as error:
        _log.warning("%s: the staging directory could not be removed: %s", directory, error)


def withdraw(root: str, jobid: str) -> bool:
    """Remove what a job staged unless it is committed, and return whether it is withdrawn; else finish it.

    Afterwards the job cannot commit any more, in whatever process. May be called again at any time.

    Raises
    ------
    CommitError, OSError
        Whether the job is committed cannot be found out: then nothing is removed.
    """
    if is_committed(root, jobid):
        _finish_committed(root, jobid)
        return False
    failpoint.hit("A.looked")
    staging = staging_directory(root, jobid)
    with suppress(FileNotFoundError):  # on NFS a link that is under way names the file, not its path
        os.unlink(os.path.join(staging, STAGED_RECORD))
    with suppress(FileNotFoundError):
        os.rename(staging, staging + REMOVED_SUFFIX)
    failpoint.hit("A.revoked")
    try:
        committed = is_committed(root, jobid)
    except BaseException:
        _restore(staging)
        raise
    if committed:
        _restore(staging)
        _finish_committed(root, jobid)
        return False
    _remove_tree(staging + REMOVED_SUFFIX)
    with suppress(OSError):
        os.rmdir(os.path.join(root, STAGING_DIRECTORY))
    failpoint.hit("A.removed")
    return True


def _restore(staging: str) -> None:
    with suppress(FileNotFoundError):
        os.rename(staging + REMOVED_SUFFIX, staging)


def _finish_committed(root: str, jobid: str) -> None:
    finish(root)
    remove_staging(root, jobid)
