"""Apply the newest record: publish its files, delete old ones, mark it as done; and withdraw jobs.

Any number of processes may apply a record at once, and stop at any step: a step that is done already does nothing, and the
mark comes last. Old files are deleted only after the final names of all new files are durable.

==== ===================================================================================================
C3   make the record's name durable, which a process that died may have left to chance
C4   make the partitions' directories, give each staged file its final name (`publisher`), make the names durable; then give
     the documents theirs, in their order
C5   claim the files that the record removes, delete them (or move them to the replaced ones), and the partitions'
     directories that are empty then
C6   write ``_SUCCESS``, keep the record for streams (`stored_record`), mark it as done, delete its claim, old records and the
     staging directory
==== ===================================================================================================

A withdrawal takes jobs' right to commit, and then deletes what they have staged. A job and its withdrawal race for the next
number of the chain: a job that is withdrawn in the newest record fails, and a withdrawal of a committed job does nothing.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory, all_replaced, expired
from spark_arrow_ipc.dataset.commit_log.log import (
    Head,
    check_is_there,
    is_applied,
    newest_record,
    old_records,
    read_head,
)
from spark_arrow_ipc.dataset.commit_log.record import COPIED, REMEMBERED, TAKEN_BACK, WITHDRAWN, Record
from spark_arrow_ipc.dataset.commit_log.stored_record import is_marked, is_there, keep_record, prune_kept
from spark_arrow_ipc.dataset.write.publisher import publisher_of
from spark_arrow_ipc.dataset.write.record_chain import Claim, append_record, check_decides, claim, forgotten, take_back
from spark_arrow_ipc.dataset.write.staged_file import is_full, keeps_room, with_room
from spark_arrow_ipc.errors import CommitError, printable
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.paths import parent
from spark_arrow_ipc.storage.storage import each

SUCCESS_FILE: Final = "_SUCCESS"
"""Hadoop's marker of a finished job: empty, because polars reads every file of a directory that is not."""

_log = logging.getLogger(__name__)

_ATTEMPTS: Final = 5
"""The number of times that a record is applied, where other processes interfere each time."""


@dataclass(frozen=True, slots=True)
class CommitSummary:
    """Summary of a commit."""

    jobid: str
    mode: str
    # Totals of the published files.
    files: int = 0
    rows: int = 0
    nbytes: int = 0
    removed: int = 0  # old files that were removed
    # False if the job had nothing to do: its token was committed before, or ``ifExists=ignore`` and files exist.
    published: bool = True

    @classmethod
    def of(cls, record: Record) -> CommitSummary:
        """Summarise a record."""
        rows = sum(file.rows for file in record.adds)
        nbytes = sum(file.nbytes for file in record.adds)
        return cls(record.jobid, record.mode, len(record.adds), rows, nbytes, len(record.removes))


def finish(dataset: DatasetDirectory) -> Head:
    """Apply the pending record, if there is one, and return the head; after an error the next writer tries again."""
    return _newest_done(dataset)[0]


def latest(dataset: DatasetDirectory, ended: Collection[str] = ()) -> tuple[Head, Record | None]:
    """Apply the pending record; return the head and its record, or None without any.

    The jobs `ended` are of this process, or of dead ones: nobody is waited for to apply them.
    """
    head, record = _newest_done(dataset, ended)
    if record is not None:
        delete_staging(dataset, record.staged_jobs)  # the process that applied it may have died after the mark
    return head, record


def _newest_done(dataset: DatasetDirectory, ended: Collection[str] = ()) -> tuple[Head, Record | None]:
    applied = Counter[int]()
    while True:
        head, record = newest_record(dataset)
        if record is None or head.done:
            return head, record
        if applied[head.seq] == _ATTEMPTS:
            raise CommitError("the record is applied, and its mark does not stay", path=dataset.done_mark(head.seq))
        applied[head.seq] += 1
        try:
            if publisher_of(dataset).may_help(record, ended):
                with_room(dataset, record.staged_jobs, partial(roll_forward, dataset, record))
        except (OSError, CommitError) as error:
            raise _cannot_finish(dataset, record, error) from error


def _cannot_finish(dataset: DatasetDirectory, record: Record, error: Exception) -> CommitError:
    """Return the error of a writer that finds a job which it cannot bring to its end."""
    what, way_out = f"the withdrawal {record.jobid}", ""
    if record.is_of_job:
        what = f"the job {record.jobid}"
        way_out = f"; or give that job up: arrowipc vacuum --give-up {record.jobid} {dataset.root}"
    if record.mode == COPIED:
        way_out = "; or remove this directory, and make the copy again"
    elif record.documents:
        way_out = "; or remove its directories _ipc_commits and _ipc_stage: state.json says which files are read"
    return CommitError(
        f"{what} is committed and could not be brought to its end, and nothing else can be written before: {error}. "
        f"Mend that, and try again{way_out}",
        path=dataset.root,
    )


def roll_forward(dataset: DatasetDirectory, record: Record, *, alone: bool = False) -> None:
    """Apply a record that is, or was until a moment ago, the newest one; `alone` as for `Publisher.publish`."""
    storage = dataset.storage
    if record.durable:
        storage.sync(dataset.commits)
    failpoint.hit("C3.synced")
    directories = _with_parents(parent(file.final) for file in record.adds) | {""}
    check_directories(dataset, directories | {parent(file.path) for file in record.removes})
    for directory in sorted(directories):
        storage.make_directory(dataset.path(directory))
    failpoint.hit("C4.directories")
    publisher = publisher_of(dataset)
    publisher.publish(record, alone=alone)
    _sync(dataset, record, directories)
    failpoint.hit("C4.synced")
    head = read_head(dataset)
    if is_applied(dataset, record, head):
        # Another process finished this job, and later jobs may have changed its files.
        return
    if record.removes or record.documents:
        check_is_there(dataset, record)
    publisher.publish_documents(record)
    if record.mode == TAKEN_BACK:
        for jobid in record.withdraws:  # a process that still applies the job can publish nothing more
            storage.delete_tree(dataset.staging(jobid))
        publisher.wait_for_copies(record)
    elif record.removes and not _may_delete(dataset, record):
        return
    _delete_old(dataset, record, directories)
    _mark_done(dataset, record, keeps=head.keeps)
    _prune(dataset, record)
    if head.keeps:
        prune_kept(dataset, record.seq)
    failpoint.hit("C6.pruned")
    # In a backup that was put back meanwhile the staged files may be all that is left of a job.
    if not record.is_of_job or is_marked(dataset, record) or is_applied(dataset, record):
        delete_staging(dataset, record.staged_jobs)
    delete_expired(dataset)
    failpoint.hit("C6.cleaned")


def _mark_done(dataset: DatasetDirectory, record: Record, *, keeps: bool) -> None:
    """Mark a record as done, after it is kept: so that kept records have no gaps."""
    if record.is_of_job:
        _mark_success(dataset, record)
    failpoint.hit("C6.success")
    if not check_is_there(dataset, record):
        return
    if record.mode == COPIED:
        dataset.storage.delete(dataset.copy_mark)
    if keeps:  # what is there: of two withdrawals of one job the first is in the chain, and speaks for both
        keep_record(dataset, record)
        failpoint.hit("C6.kept")
    publisher_of(dataset).check_published(record)
    try:
        dataset.storage.put(dataset.done_mark(record.seq), record.to_bytes())
    except OSError as error:
        if not is_full(error):
            raise
        dataset.storage.put(dataset.done_mark(record.seq), record.first_bytes)  # which says as much without a copy
    if record.durable:
        dataset.storage.sync(dataset.commits)
    if record.removes:
        dataset.storage.delete(dataset.claim(record.seq))
    failpoint.hit("C6.done")


def _sync(dataset: DatasetDirectory, record: Record, directories: Iterable[str]) -> None:
    if record.durable:
        each(dataset.storage.sync, [dataset.path(directory) for directory in sorted(directories)])


def _with_parents(directories: Iterable[str]) -> set[str]:
    """Return relative directories with all their parents, including ``""``."""
    all_directories = set()
    for directory in set(directories):
        inner = directory
        while inner not in all_directories:
            all_directories.add(inner)
            inner = parent(inner)
    return all_directories


def check_directories(dataset: DatasetDirectory, directories: Iterable[str]) -> None:
    """Raise a `CommitError` if a relative directory, or one of its parents, is a link, which could lead out, or a file."""
    paths = map(dataset.path, sorted(_with_parents(directories) - {""}))
    for status in dataset.not_directories(paths):
        raise CommitError(
            "a partition's directory must be a directory, and this is a link or a file: nothing is written to or removed "
            "from it",
            path=status.path,
        )


def _mark_success(dataset: DatasetDirectory, record: Record) -> None:
    """Write ``_SUCCESS``; only warn if that fails: all files are in place, and no reader of this package needs it."""
    path = dataset.path(SUCCESS_FILE)
    try:
        dataset.storage.put(path, b"", durable=record.durable, scratch=dataset.commits)
    except OSError as error:
        _log.warning("%s could not be written: %s", printable(path), error)
    _sync(dataset, record, {""})


def _may_delete(dataset: DatasetDirectory, record: Record) -> bool:
    """Return whether this process may delete the old files; if the record is to be taken back, do that."""
    purpose = claim(dataset, record.seq, Claim.APPLY)
    if is_applied(dataset, record):
        dataset.storage.delete(dataset.claim(record.seq))
        return False
    if purpose is Claim.TAKE_BACK:
        take_back(dataset, record)
        return False
    return True


def _delete_old(dataset: DatasetDirectory, record: Record, kept: set[str]) -> None:
    """Delete removed files, and partitions' directories that are empty then (C5)."""
    if not record.removes:
        return
    publisher_of(dataset).delete_old(record)
    directories = {parent(file.path) for file in record.removes}
    _sync(dataset, record, directories)
    failpoint.hit("C5.synced")
    for directory in sorted(_with_parents(directories) - kept - {""}, reverse=True):
        dataset.storage.delete_directory_if_empty(dataset.path(directory))


def _prune(dataset: DatasetDirectory, record: Record) -> None:
    old = [status.path for status in old_records(dataset, record.seq)]
    # Looked for after the listing: if the directory was made anew meanwhile, the small numbers are of the new chain.
    if old and is_there(dataset, record):
        dataset.storage.delete_all(old)


def delete_expired(dataset: DatasetDirectory) -> None:
    """Delete replaced files that need not be kept any more. A failure is only logged: the next commit tries again."""
    try:
        for directory in expired(dataset, time.time()):
            dataset.storage.delete_tree(directory)
    except (OSError, CommitError) as error:
        _log.warning("%s: replaced files could not be removed: %s", printable(dataset.root), error)
    dataset.storage.delete_directory_if_empty(all_replaced(dataset))


def delete_staging(dataset: DatasetDirectory, jobids: Iterable[str]) -> None:
    """Delete the staging directories of jobs and the room that they keep, and the parent if it is empty then.

    A failure is only logged: readers do not see staged files, and vacuum tries again.
    """
    for jobid in jobids:
        directory = dataset.staging(jobid)
        try:
            dataset.storage.delete_tree(directory)
            if keeps_room(dataset.storage):
                dataset.storage.delete_tree(dataset.room(jobid))
        except OSError as error:
            _log.warning("%s: the staging directory could not be removed: %s", printable(directory), error)
    dataset.storage.delete_directory_if_empty(dataset.all_staging)


_LOOKS: Final = 3


def withdraw(dataset: DatasetDirectory, jobids: Collection[str], *, durable: bool = True) -> tuple[str, ...]:
    """Withdraw jobs, delete their staged files, and return the uncommitted ones.

    Afterwards they cannot commit any more, in any process. A committed job is finished instead. May be called again
    at any time. Writes one record for up to `REMEMBERED` jobs, and none for jobs that are withdrawn already or have
    no staging directory.
    """
    withdrawn: list[str] = []
    remaining = sorted(set(jobids))
    while remaining:
        batch, remaining = remaining[:REMEMBERED], remaining[REMEMBERED:]
        withdrawn += with_room(dataset, batch, partial(_withdraw, dataset, batch, durable=durable))
    return tuple(withdrawn)


def _withdraw(dataset: DatasetDirectory, jobids: Collection[str], *, durable: bool) -> list[str]:
    while True:
        head, before = latest(dataset, jobids)
        committed = frozenset() if before is None else frozenset(before.jobs)
        withdrawn = frozenset() if before is None else frozenset(before.withdrawn)
        others = [jobid for jobid in jobids if jobid not in committed]
        # A job cannot commit any more after its staging directory is deleted, if the storage has directories.
        due = tuple(job for job in others if job not in withdrawn and dataset.may_be_there(dataset.staging(job)))
        failpoint.hit("A.looked")
        if due:
            check_decides(dataset, due[0])
            record = Record(head.seq + 1, uuid.uuid4().hex, WITHDRAWN, durable=durable, withdraws=due).after(before)
            # Staged files go only after it is in the chain: no record ever names a file that a withdrawal deleted. A new head
            # makes readers list again, and is not a conflict for writers, which compare files.
            if not append_record(dataset, record):
                continue
            failpoint.hit("A.withdrawn")
            if not is_there(dataset, record):  # but that of another process, which withdraws the same jobs
                continue
            roll_forward(dataset, record)
        delete_staging(dataset, jobids)
        failpoint.hit("A.removed")
        return others


def was_taken_back(dataset: DatasetDirectory, record: Record) -> bool:
    """Return whether a person gave up the job of a record while another process put it in place.

    Where the storage fails again and again, False: the files are in place, and what others do now is not the job's error.
    One failure must not hide the answer. `CommitError` if so many jobs have followed that nobody knows.
    """
    for _ in range(_LOOKS):
        with suppress(OSError, CommitError):
            if read_head(dataset).seq == record.seq:
                return False
            newest = newest_record(dataset)[1]
            break
    else:
        return False
    if newest is None or record.jobid not in newest.withdrawn:
        return False
    if newest.seq - record.seq >= REMEMBERED:  # it may have been forgotten, and withdrawn as one that never committed
        raise forgotten(dataset, record, newest)
    return True
