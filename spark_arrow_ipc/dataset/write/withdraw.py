"""Withdraw jobs: take their right to commit, then delete their staged files.

Strategy
--------
A job and its withdrawal race for the next number in the chain of records, and the first one wins: a job that is
withdrawn in the newest record fails, and a withdrawal of a committed job does nothing. Staged files are deleted only
after the withdrawal is in the chain, so that no record ever names a file that a withdrawal deleted. On a full disk the
room that the jobs keep for it is given first (`room`).

No file is renamed and no lock is held: `Storage.put_if_absent` is enough. A withdrawal takes a number in the chain; a
new head makes readers list again, and is no conflict for writers, which compare files.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from typing import Final

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.log import newest_record, read_head
from spark_arrow_ipc.dataset.commit_log.record import REMEMBERED, WITHDRAWN, Record
from spark_arrow_ipc.dataset.commit_log.stored_record import is_there
from spark_arrow_ipc.dataset.write.append_record import append_record, check_decides, forgotten
from spark_arrow_ipc.dataset.write.roll_forward import delete_staging, latest, roll_forward
from spark_arrow_ipc.dataset.write.room import with_room
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage import failpoint

_LOOKS: Final = 3


def withdraw(dataset: DatasetDirectory, jobids: Collection[str], *, durable: bool = True) -> tuple[str, ...]:
    """Withdraw jobs, delete their staged files, and return the uncommitted ones.

    Afterwards they cannot commit any more, in any process. A committed job is finished instead. May be called again
    at any time. Writes one record for up to `REMEMBERED` jobs, and none for jobs that are withdrawn already or have
    no staging directory.

    Raises
    ------
    CommitError, OSError
        It is unknown whether the jobs are committed; nothing is deleted.
    UnsupportedError
        The storage cannot decide between two writers; nothing is deleted.
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
        known = frozenset() if before is None else frozenset(before.withdrawn)
        others = [jobid for jobid in jobids if jobid not in committed]
        due = tuple(jobid for jobid in others if jobid not in known and _may_commit(dataset, jobid))
        failpoint.hit("A.looked")
        if due:
            check_decides(dataset, head, due[0])
            record = Record.after(before, head.seq + 1, uuid.uuid4().hex, WITHDRAWN, durable=durable, withdraws=due)
            if not append_record(dataset, record):
                continue
            failpoint.hit("A.withdrawn")
            if not is_there(dataset, record):  # but that of another process, which withdraws the same jobs
                continue
            roll_forward(dataset, record)
        delete_staging(dataset, jobids)
        failpoint.hit("A.removed")
        return others


def _may_commit(dataset: DatasetDirectory, jobid: str) -> bool:
    """Return whether a job may still commit.

    It cannot after its staging directory is deleted, if the storage has directories.
    """
    return not dataset.storage.traits.directories or dataset.storage.status(dataset.staging(jobid)) is not None


def was_taken_back(dataset: DatasetDirectory, record: Record) -> bool:
    """Return whether a person gave up the job of a record while another process put it in place.

    Where the storage fails again and again, False: the files are in place, and what others do now is not the job's error.
    One failure must not hide the answer.

    Raises
    ------
    CommitError
        So many jobs have followed that nobody knows.
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
