"""Withdraw jobs: take their right to commit, then delete what they staged.

Strategy
--------
A job and its withdrawal race for the same chain of records. Whichever gets the next number decides: a job that finds
itself withdrawn in the newest record fails, and a withdrawal that finds the job committed leaves it. Nothing staged is
deleted before the withdrawal is in the chain, so that no record ever names a file that a withdrawal deleted.

No file is renamed for this and no lock is held, so that it works wherever one of two writers of one name can be told
that it came second. A withdrawal takes a number of the chain; that a head has moved makes readers list again, and is
no conflict for writers, which compare files.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.record import REMEMBERED, WITHDRAWN, Record
from spark_arrow_ipc.dataset.write.append_record import append_record
from spark_arrow_ipc.dataset.write.roll_forward import delete_staging, latest, roll_forward
from spark_arrow_ipc.storage import failpoint

__all__ = ["withdraw"]


def withdraw(dataset: DatasetDirectory, jobids: Collection[str], *, durable: bool = True) -> tuple[str, ...]:
    """Delete what jobs staged, unless they are committed, and return those that are not.

    Afterwards they cannot commit any more, in whatever process. A committed job is brought to its end instead. May be
    called again at any time. Costs one record, however many jobs there are, and none for jobs withdrawn before or without
    a staging directory.

    Raises
    ------
    CommitError, OSError
        Whether the jobs are committed cannot be found out: then nothing is deleted.
    """
    withdrawn: list[str] = []
    remaining = sorted(set(jobids))
    while remaining:
        batch, remaining = remaining[:REMEMBERED], remaining[REMEMBERED:]
        withdrawn += _withdraw(dataset, batch, durable=durable)
    return tuple(withdrawn)


def _withdraw(dataset: DatasetDirectory, jobids: Collection[str], *, durable: bool) -> list[str]:
    while True:
        head, before = latest(dataset)
        committed = frozenset() if before is None else frozenset(before.jobs)
        known = frozenset() if before is None else frozenset(before.withdrawn)
        others = [jobid for jobid in jobids if jobid not in committed]
        due = tuple(jobid for jobid in others if jobid not in known and _may_commit(dataset, jobid))
        failpoint.hit("A.looked")
        if not due:
            delete_staging(dataset, jobids)
            failpoint.hit("A.removed")
            return others
        record = Record.after(before, head.seq + 1, uuid.uuid4().hex, WITHDRAWN, durable=durable, withdraws=due)
        if append_record(dataset, record):
            failpoint.hit("A.withdrawn")
            roll_forward(dataset, record)


def _may_commit(dataset: DatasetDirectory, jobid: str) -> bool:
    """Return whether a job may still commit: none does whose staging directory is gone, where there are directories."""
    return not dataset.storage.traits.directories or dataset.storage.status(dataset.staging(jobid)) is not None
