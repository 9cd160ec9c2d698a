"""Clean a dataset's directory: finish the pending job, delete files of dead jobs.

Strategy
--------
First the pending job is finished, so that all committed files have their final names. The remaining staging
directories belong to jobs that are committed or withdrawn, and are deleted at once, or to running and dead jobs. Only
their age tells those apart, so that young ones are kept. Jobs are withdrawn (`withdraw`) before their files are
deleted: one that still runs fails and publishes nothing, instead of publishing files that no longer exist.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory, NameKind, parse_name
from spark_arrow_ipc.dataset.commit_log.kept_records import LOG_NAME, log_directory
from spark_arrow_ipc.dataset.commit_log.log import Head, newest_record, old_records, read_head, read_pending
from spark_arrow_ipc.dataset.commit_log.recorded_files import STAGED_SUFFIX
from spark_arrow_ipc.dataset.commit_log.replaced_files import expired
from spark_arrow_ipc.dataset.write.keep_records import outdated
from spark_arrow_ipc.dataset.write.nested import dataset_above
from spark_arrow_ipc.dataset.write.roll_forward import delete_expired, delete_staging, finish, latest
from spark_arrow_ipc.dataset.write.room import is_full
from spark_arrow_ipc.dataset.write.withdraw import withdraw
from spark_arrow_ipc.errors import NoFilesError
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
    """The actions of a vacuum or, with ``dry_run``, those that it would take.

    Parameters
    ----------
    path
        The dataset's directory.
    finished
        Id of the pending job that was finished, or None.
    withdrawn
        Ids of the jobs whose staging directories are deleted.
    files
        Paths of other deleted files: old records, temporary files, replaced files that need not be kept any more.
    nbytes
        Total size of all deleted files.
    kept
        Jobs that are too young to be withdrawn.
    """

    path: str
    finished: str | None = None
    withdrawn: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    nbytes: int = 0
    kept: tuple[KeptJob, ...] = ()


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

    A second run finds nothing to do. No data is deleted, except by a pending overwrite.

    Parameters
    ----------
    path
        The dataset's directory.
    older_than_seconds
        Jobs that staged something more recently are kept. With 0 running jobs are withdrawn too, and fail.
    dry_run
        Change nothing, and only report.
    storage
        The storage that holds the path; by default chosen by the path.

    Raises
    ------
    NoFilesError
        The path is not a directory.
    CommitError
        The pending job cannot be finished, or a directory of the commit is a link; nothing else is done.
    OSError
        A call of the storage fails.
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
    """Return the ids of the jobs that have staging directories. One listing.

    Raises
    ------
    OSError
        The storage cannot be read.
    """
    names = (name_of(entry.path) for entry in _entries(dataset, dataset.all_staging))
    return [name for name in names if len(name) == _JOBID_LENGTH and _JOBID.fullmatch(name)]


def dataset_at(path: str | os.PathLike[str], storage: Storage | None = None) -> DatasetDirectory:
    """Return the dataset of a directory.

    Raises
    ------
    NoFilesError
        The path is not a directory, or is one in a dataset.
    CommitError
        A directory of the commit is a link.
    """
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
                f"this is a directory in the data set {above}, which has the records; give that one", path=root
            )
    return dataset


def _staged_jobs(dataset: DatasetDirectory) -> Iterator[_Staged]:
    now = time.time_ns()
    entries = {name_of(entry.path): entry for entry in _entries(dataset, dataset.all_staging)}
    for name, entry in entries.items():
        is_beside = len(name) > _JOBID_LENGTH and name[:_JOBID_LENGTH] in entries  # it goes with that one
        if entry.kind is Kind.DIRECTORY and not entry.is_link and not is_beside and _JOBID.fullmatch(name):
            own = dataset.storage.status(entry.path)
            staged = _entries(dataset, entry.path)
            if own is None:  # its job has ended meanwhile
                continue
            age = min(_age_seconds(now, status) for status in (own, *staged))
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
    try:
        return sorted(dataset.storage.list(directory), key=lambda status: status.path)
    except FileNotFoundError:
        return []
