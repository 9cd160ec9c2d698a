"""Take back a job that cannot be brought to its end, or of which nobody knows whether it is committed, for a person.

Strategy
--------
A job is committed by its record, and the next writer finishes it. If no writer can (a partition is read-only, or a
staged file was removed), every writer fails. A record of the mode `TAKEN_BACK` follows
the pending one then: readers see the old files from that moment on. Applying it deletes what is staged, so that no
process which still applies the job can publish more, and then what is published; the names are unique, so that nothing
else is. The old files must all be there, and are claimed first (`claim`).

A job that is not in the chain is withdrawn (`withdraw`), so that a record of it which the storage makes late is not in
the chain either.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.log import Head, newest_record
from spark_arrow_ipc.dataset.commit_log.record import Record
from spark_arrow_ipc.dataset.write.append_record import check_decides
from spark_arrow_ipc.dataset.write.claim import Claim, check_old_files, claim, take_back
from spark_arrow_ipc.dataset.write.roll_forward import finish
from spark_arrow_ipc.dataset.write.room import with_room
from spark_arrow_ipc.dataset.write.vacuum import DEFAULT_AGE_SECONDS, dataset_at
from spark_arrow_ipc.dataset.write.withdraw import withdraw
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.storage import Storage


@dataclass(frozen=True, slots=True)
class GivenUpJob:
    """A job that was taken back or, with ``dry_run``, would be.

    Parameters
    ----------
    path
        The dataset's directory.
    jobid
        The job.
    files
        Paths of its published files, relative to the dataset's directory; deleted now.
    kept
        Number of the old files that it would have removed.
    """

    path: str
    jobid: str
    files: tuple[str, ...] = ()
    kept: int = 0


def give_up(
    path: str | os.PathLike[str],
    jobid: str,
    *,
    older_than_seconds: float = DEFAULT_AGE_SECONDS,
    dry_run: bool = False,
    storage: Storage | None = None,
) -> GivenUpJob:
    """Take back a job that is not in place yet, committed or not. May be called again at any time.

    Parameters
    ----------
    path
        The dataset's directory.
    jobid
        The job of the pending record, or one that is not committed, as the errors name it.
    older_than_seconds
        If a process began to remove old files and removed none, it may still run: the job is taken back only if that
        was longer ago.
    dry_run
        Change nothing, and only report.
    storage
        The storage that holds the path; by default chosen by the path.

    Raises
    ------
    NoFilesError
        The path is not a directory.
    CommitError
        The job is in place or unknown; an old file is gone already; or a process may be removing them.
    UnsupportedError
        The storage cannot decide between two writers.
    OSError
        A call of the storage fails.
    """
    dataset = dataset_at(path, storage)
    if not dry_run:
        dataset.storage.check_writable(dataset.root)
    act = partial(_give_up, dataset, jobid, older_than_seconds, dry_run=dry_run)
    return act() if dry_run else with_room(dataset, [jobid], act)


def _give_up(dataset: DatasetDirectory, jobid: str, older_than_seconds: float, *, dry_run: bool) -> GivenUpJob:
    while True:
        record = _pending(dataset, jobid)
        if record is None:
            if dry_run or withdraw(dataset, [jobid]):
                return GivenUpJob(dataset.root, jobid)
            continue  # it was committed meanwhile
        check_old_files(dataset, record)
        published = [file.final for file in record.adds if dataset.storage.status(dataset.path(file.final)) is not None]
        job = GivenUpJob(dataset.root, jobid, tuple(published), len(record.removes))
        if dry_run:
            return job
        check_decides(dataset, Head(record.seq), jobid)
        if record.removes:
            _claim(dataset, record, older_than_seconds)
        if take_back(dataset, record):
            failpoint.hit("G.recorded")
            finish(dataset)
            return job


def _pending(dataset: DatasetDirectory, jobid: str) -> Record | None:
    """Return the pending record of a job; None if it is not committed, or taken back already."""
    head, record = newest_record(dataset)
    if record is not None and not head.done and (record.jobid, record.is_of_job) == (jobid, True):
        return record
    committed, withdrawn = ((), ()) if record is None else (record.jobs, record.withdrawn)
    if jobid in committed:
        words = "is committed, and all of it is in place"
    elif jobid in withdrawn or _has_staged(dataset, jobid):
        return None
    else:
        waiting = "no job waits" if record is None or head.done else f"the job that waits is {record.jobid}"
        words = f"has staged nothing, and does not wait to be brought to its end; {waiting}"
    raise CommitError(f"the job {jobid} cannot be given up: it {words}", path=dataset.root)


def _has_staged(dataset: DatasetDirectory, jobid: str) -> bool:
    with suppress(FileNotFoundError):
        return any(True for _ in dataset.storage.list(dataset.staging(jobid)))
    return False


def _claim(dataset: DatasetDirectory, record: Record, older_than_seconds: float) -> None:
    """Claim the old files for taking the record back; raise if a process may be removing them."""
    if claim(dataset, record.seq, Claim.TAKE_BACK) is Claim.TAKE_BACK:
        return
    path = dataset.claim(record.seq)
    status = dataset.storage.status(path)
    age_seconds = 0.0 if status is None else (time.time_ns() - status.mtime_ns) / 1e9
    if age_seconds < older_than_seconds:
        raise CommitError(
            f"a process began {max(0, int(age_seconds))} s ago to remove the old files of the job {record.jobid}, and "
            "has removed none; if it may still run, giving the job up could lose both halves. If no process works on "
            "this directory, add --older-than 0",
            path=dataset.root,
        )
    dataset.storage.put(path, Claim.TAKE_BACK.value)
