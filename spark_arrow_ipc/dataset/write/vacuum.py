"""Clean a dataset's directory, or give a job up.

`vacuum` finishes the pending job, so that all committed files have their final names. The remaining staging directories
belong to jobs that are committed or withdrawn, and are deleted at once, or to running and dead jobs. Only their age tells
those apart, so young ones are kept. Jobs are withdrawn before their files are deleted: one that still runs fails.

`give_up` is for a job that no writer can finish (a partition is read-only, a staged file was removed), so that every writer
fails; or whose outcome is unknown. If its record is pending, a record of the mode `TAKEN_BACK` follows: readers see the old
files from then on, and applying it deletes what the job has staged and published. A job that is not in the chain is
withdrawn, so that no late request can commit it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Final

from spark_arrow_ipc.dataset.commit_log.dataset_directory import (
    STAGED_SUFFIX,
    DatasetDirectory,
    NameKind,
    entries_of,
    expired,
    has_any,
    parse_name,
)
from spark_arrow_ipc.dataset.commit_log.log import Head, newest_record, old_records, read_head, read_pending
from spark_arrow_ipc.dataset.commit_log.record import COPIED, Record
from spark_arrow_ipc.dataset.commit_log.stored_record import LOG_NAME, log_directory, outdated
from spark_arrow_ipc.dataset.listing.hugging_face import STATE_FILE
from spark_arrow_ipc.dataset.write.nested import dataset_above
from spark_arrow_ipc.dataset.write.record_chain import Claim, check_decides, check_old_files, claim, take_back
from spark_arrow_ipc.dataset.write.roll_forward import delete_expired, delete_staging, finish, latest, withdraw
from spark_arrow_ipc.dataset.write.staged_file import is_full, with_room
from spark_arrow_ipc.errors import CommitError, NoFilesError
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import name_of
from spark_arrow_ipc.storage.storage import Kind, Status, Storage

DEFAULT_AGE_SECONDS: Final = 7 * 24 * 3600.0
"""A job that staged nothing for this long is considered dead."""

_FUTURE_SECONDS: Final = 24 * 3600.0
"""Clocks of machines that write to one directory differ by less."""

_JOBID_LENGTH: Final = 32

_JOBID: Final = re.compile(r"[0-9a-f]{32}(\.room)?")
"""Name of a staging directory, or of the room that its job keeps."""


@dataclass(frozen=True, slots=True)
class KeptJob:
    """A job that may still run: its id, staged bytes, and seconds since the last."""

    jobid: str
    nbytes: int
    age_seconds: float


@dataclass(frozen=True, slots=True)
class VacuumReport:
    """The actions of a vacuum or, with ``dry_run``, those that it would take."""

    path: str
    finished: str | None = None  # id of the pending job that was finished
    withdrawn: tuple[str, ...] = ()  # ids of the jobs whose staging directories are deleted
    # Other deleted files: old records, temporary files, replaced files that need not be kept any more.
    files: tuple[str, ...] = ()
    nbytes: int = 0  # of all deleted files
    kept: tuple[KeptJob, ...] = ()  # jobs that are too young to be withdrawn


@dataclass(frozen=True, slots=True)
class _Staged:
    """A job's staging directory."""

    name: str
    nbytes: int
    age_seconds: float


def vacuum(
    path: str | os.PathLike[str],
    *,
    older_than_seconds: float = DEFAULT_AGE_SECONDS,
    dry_run: bool = False,
    storage: Storage | None = None,
) -> VacuumReport:
    """Finish a dataset's pending job, delete files of dead jobs, and report both.

    A second run finds nothing to do. No data is deleted, except by a pending overwrite. Jobs that staged something in
    the last `older_than_seconds` are kept; with 0 running jobs are withdrawn too, and fail. With `dry_run` nothing is
    changed.

    NoFilesError if the path is not a directory. CommitError if the pending job cannot be finished, or a directory of
    the commit is a link; nothing else is done.
    """
    dataset = dataset_at(path, storage)
    pending = read_pending(dataset)
    if not dry_run:
        if pending is not None:
            dataset.storage.check_writable(dataset.root)
        finish(dataset)
    record = newest_record(dataset)[1]
    ended = frozenset(() if record is None else (*record.jobs, *record.withdrawn))
    jobs = list(_staged_jobs(dataset))
    dead = [job for job in jobs if job.name[:_JOBID_LENGTH] in ended or job.age_seconds >= older_than_seconds]
    files = list(_stale_files(dataset, older_than_seconds))
    replaced = [file for directory in expired(dataset, time.time()) for file in _entries(dataset, directory)]
    nbytes = sum(job.nbytes for job in dead) + sum(file.nbytes for file in (*files, *replaced))
    names = [job.name for job in dead]
    if not dry_run:
        if dead or files or replaced:
            dataset.storage.check_writable(dataset.root)
        _withdraw(dataset, [name for name in names if len(name) == _JOBID_LENGTH], files)
        delete_staging(dataset, names)
        for file in files:
            _remove(dataset.storage, file)
        delete_expired(dataset)
    kept = tuple(KeptJob(job.name, job.nbytes, job.age_seconds) for job in jobs if job not in dead)
    return VacuumReport(
        dataset.root,
        pending.record.jobid if pending is not None and pending.record.is_of_job else None,
        tuple(dict.fromkeys(name[:_JOBID_LENGTH] for name in names)),
        tuple(file.path for file in (*files, *replaced)),
        nbytes,
        kept,
    )


def _withdraw(dataset: DatasetDirectory, jobids: Sequence[str], files: Sequence[Status]) -> None:
    """Withdraw jobs; where a full disk has no room for the record, after what needs none is removed."""
    try:
        withdraw(dataset, jobids)
    except OSError as error:
        if not is_full(error):
            raise
        record = latest(dataset)[1]  # which is done, so that nothing of its jobs is needed any more
        ended = frozenset(() if record is None else (*record.jobs, *record.withdrawn))
        delete_staging(dataset, [jobid for jobid in jobids if jobid in ended])
        for file in files:
            _remove(dataset.storage, file)
        delete_expired(dataset)
        withdraw(dataset, jobids)


def staged_job_ids(dataset: DatasetDirectory) -> list[str]:
    """Return the ids of the jobs that have staging directories. One listing."""
    names = (name_of(entry.path) for entry in _entries(dataset, dataset.all_staging))
    return [name for name in names if len(name) == _JOBID_LENGTH and _JOBID.fullmatch(name)]


def dataset_at(path: str | os.PathLike[str], storage: Storage | None = None) -> DatasetDirectory:
    """Return the dataset of a directory; `NoFilesError` if it is not there, or inside of another dataset."""
    storage, root = storage_of(path) if storage is None else (storage, storage.resolve(path))
    status = storage.status(root)
    if status is None or status.kind is not Kind.DIRECTORY:
        raise NoFilesError("vacuum clears the directory of a dataset, and this is none", path=root)
    dataset = DatasetDirectory(storage, root)
    dataset.check()
    if storage.status(dataset.commits) is None and storage.status(dataset.all_staging) is None:
        above = dataset_above(dataset)
        if above is not None:
            raise NoFilesError(
                f"this is a directory in the dataset {above}, which has the records; give that one", path=root
            )
    return dataset


def _staged_jobs(dataset: DatasetDirectory) -> Iterator[_Staged]:
    now = time.time_ns()
    entries = {name_of(entry.path): entry for entry in _entries(dataset, dataset.all_staging)}
    for name, entry in entries.items():
        is_beside = len(name) > _JOBID_LENGTH and name[:_JOBID_LENGTH] in entries  # it goes with that one
        if entry.kind is Kind.DIRECTORY and not entry.is_link and not is_beside and _JOBID.fullmatch(name):
            of_directory = dataset.storage.status(entry.path)
            staged = _entries(dataset, entry.path)
            if of_directory is None:  # its job has ended meanwhile
                continue
            age = min(_age_seconds(now, status) for status in (of_directory, *staged))
            yield _Staged(name, sum(status.nbytes for status in staged), age)


def _remove(storage: Storage, file: Status) -> None:
    if file.kind is Kind.DIRECTORY:  # of one record that was to be moved out of it (storage/hadoop.py)
        storage.delete_tree(file.path)
    else:
        storage.delete(file.path)


def _age_seconds(now: int, status: Status) -> float:
    """Return how long ago a file was written to, in seconds; a time of tomorrow or later says nothing, and is old."""
    age = (now - status.mtime_ns) / 1e9
    return inf if age < -_FUTURE_SECONDS else max(0.0, age)


def _stale_files(dataset: DatasetDirectory, older_than_seconds: float) -> Iterator[Status]:
    """Yield old records, marks of none, and temporary files that were not written to recently."""
    now = time.time_ns()
    entries = _entries(dataset, dataset.commits)
    if not entries:
        return
    if any(name_of(status.path) == LOG_NAME for status in entries):
        yield from outdated(dataset)
        yield from (
            status
            for status in _entries(dataset, log_directory(dataset))
            if name_of(status.path).endswith(STAGED_SUFFIX) and _age_seconds(now, status) >= older_than_seconds
        )
    head = read_head(dataset)
    old = {status.path for status in old_records(dataset, head.seq)}
    for status in entries:
        name = name_of(status.path)
        parsed = parse_name(name)
        if parsed is not None:
            is_stale = status.path in old or _is_meaningless(dataset, head, *parsed)
        else:
            is_stale = name.endswith(STAGED_SUFFIX) and _age_seconds(now, status) >= older_than_seconds
        if is_stale:
            yield status


def _is_meaningless(dataset: DatasetDirectory, head: Head, number: int, kind: NameKind) -> bool:
    """Return whether a claim is of a record that is done, or a mark or claim of a record that is not there."""
    if kind in (NameKind.CLAIM, NameKind.HELP) and (number < head.seq or (number == head.seq and head.done)):
        return True
    is_later = kind is not NameKind.RECORD and number > head.seq
    return is_later and dataset.storage.status(dataset.record(number), follow_links=False) is None


def _entries(dataset: DatasetDirectory, directory: str) -> list[Status]:
    return sorted(entries_of(dataset.storage, directory), key=lambda status: status.path)


@dataclass(frozen=True, slots=True)
class GivenUpJob:
    """A job that was taken back or, with ``dry_run``, would be."""

    path: str
    jobid: str
    files: tuple[str, ...] = ()  # of those that it published, relative to the dataset's directory; deleted now
    kept: int = 0  # number of the old files that it would have removed


def give_up(
    path: str | os.PathLike[str],
    jobid: str,
    *,
    older_than_seconds: float = DEFAULT_AGE_SECONDS,
    dry_run: bool = False,
    storage: Storage | None = None,
) -> GivenUpJob:
    """Take back a job that is not in place yet, committed or not. May be called again at any time.

    It is the job of the pending record, or one that is not committed, as the errors name it. If a process began to
    remove old files and removed none, it may still run: the job is taken back only if that was `older_than_seconds`
    ago. With `dry_run` nothing is changed.

    NoFilesError if the path is not a directory. CommitError if the job is in place or unknown, an old file is gone
    already, or a process may be removing them. UnsupportedError if the storage cannot decide between two writers.
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
        if record.mode == COPIED:
            raise CommitError(
                f"the job {jobid} cannot be given up: it is a copy of another dataset, and without it nothing is here; remove "
                "this directory, and make the copy again",
                path=dataset.root,
            )
        if record.documents:
            raise CommitError(
                f"the job {jobid} cannot be given up, because it may have replaced {STATE_FILE}, which says what other programs "
                "read; remove the directories _ipc_commits and _ipc_stage in this one, and that file alone counts",
                path=dataset.root,
            )
        check_old_files(dataset, record)
        published = [file.final for file in record.adds if dataset.storage.status(dataset.path(file.final)) is not None]
        job = GivenUpJob(dataset.root, jobid, tuple(published), len(record.removes))
        if dry_run:
            return job
        check_decides(dataset, jobid)
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
    elif jobid in withdrawn or has_any(dataset.storage, dataset.staging(jobid)):
        return None
    else:
        waiting = "no job waits" if record is None or head.done else f"the job that waits is {record.jobid}"
        words = f"has staged nothing, and does not wait to be brought to its end; {waiting}"
    raise CommitError(f"the job {jobid} cannot be given up: it {words}", path=dataset.root)


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
