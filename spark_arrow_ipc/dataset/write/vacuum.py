"""Clearing a dataset's directory of what jobs that died have left.

Strategy
--------
First what is committed is brought to its end, so that nothing that belongs to the data lies outside it. What remains
staged then belongs to jobs that are committed (it is removed at once) or to others: jobs that run, and jobs that died.
Only age tells those apart, so that young ones stay. A job is withdrawn before anything of it is removed: if it runs
after all, it fails and publishes nothing, instead of publishing what is no longer there.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc.dataset.commit_log.log import (
    STAGING_DIRECTORY,
    commits_directory,
    read_head,
    read_pending,
    read_record,
    sequence_number,
)
from spark_arrow_ipc.dataset.commit_log.record import STAGED_SUFFIX, Record
from spark_arrow_ipc.dataset.write.roll_forward import REMOVED_SUFFIX, finish, remove_staging, withdraw
from spark_arrow_ipc.errors import NoFilesError
from spark_arrow_ipc.storage.local import local_path, status

__all__ = ["DEFAULT_AGE_SECONDS", "KeptJob", "VacuumReport", "vacuum"]

DEFAULT_AGE_SECONDS: Final = 7 * 24 * 3600.0
"""A job whose staging nobody has written to for so long is taken for dead."""

_JOB: Final = re.compile(rf"(?P<jobid>[0-9a-f]{{32}})(?:{re.escape(REMOVED_SUFFIX)})?")


@dataclass(frozen=True, slots=True)
class KeptJob:
    """A job that may still run: its id, the bytes it staged, and how long ago it last did, in seconds."""

    jobid: str
    nbytes: int
    age_seconds: float


@dataclass(frozen=True, slots=True)
class VacuumReport:
    """What a vacuum did, or with ``dry_run`` would do.

    Parameters
    ----------
    path
        The dataset's directory.
    finished
        Id of the committed job that was brought to its end, or None.
    withdrawn
        Ids of the jobs whose staging is removed.
    files
        Paths of single files that are removed: old records, and temporary files.
    nbytes
        Size of all that is removed.
    kept
        Jobs that are too young.
    """

    path: str
    finished: str | None = None
    withdrawn: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    nbytes: int = 0
    kept: tuple[KeptJob, ...] = ()


@dataclass(frozen=True, slots=True)
class _Staged:
    """A job's staging directory, under either of its names."""

    jobid: str
    nbytes: int
    age_seconds: float


def vacuum(
    path: str | os.PathLike[str], *, older_than_seconds: float = DEFAULT_AGE_SECONDS, dry_run: bool = False
) -> VacuumReport:
    """Finish the dataset's pending job, remove what dead jobs left, and return what was done.

    A second run finds nothing to do. No data is ever removed, but by the overwrite that is finished.

    Parameters
    ----------
    path
        The dataset's directory.
    older_than_seconds
        Jobs that wrote something since are left alone. With 0 a job that runs is withdrawn, too, and fails.
    dry_run
        Only say what would be done.

    Raises
    ------
    NoFilesError
        The path is no directory.
    CommitError
        The pending job cannot be finished; nothing else is done.
    OSError
        The file system refuses.
    """
    root = local_path(path)
    found = status(root)
    if found is None or not found.is_directory:
        raise NoFilesError("vacuum clears the directory of a dataset, and this is none", path=root)
    pending = read_pending(root)
    if not dry_run:
        finish(root)
    record = _newest(root)
    committed = frozenset(record.jobs if record is not None else ())
    jobs = list(_staged_jobs(root))
    dead = [job for job in jobs if job.jobid in committed or job.age_seconds >= older_than_seconds]
    files = list(_stale_files(root, older_than_seconds))
    nbytes = sum(job.nbytes for job in dead) + sum(size for _, size in files)
    if not dry_run:
        for job in dead:
            withdraw(root, job.jobid)
            remove_staging(root, job.jobid + REMOVED_SUFFIX)
        for name, _ in files:
            with suppress(FileNotFoundError):
                os.unlink(name)
        with suppress(OSError):  # other jobs have theirs there
            os.rmdir(os.path.join(root, STAGING_DIRECTORY))
    kept = tuple(KeptJob(job.jobid, job.nbytes, job.age_seconds) for job in jobs if job not in dead)
    return VacuumReport(
        root,
        None if pending is None else pending.record.jobid,
        tuple(dict.fromkeys(job.jobid for job in dead)),
        tuple(name for name, _ in files),
        nbytes,
        kept,
    )


def _newest(root: str) -> Record | None:
    while True:
        head = read_head(root)
        if not head.seq:
            return None
        with suppress(FileNotFoundError):  # others went on by two records since
            return read_record(root, head.seq)


def _staged_jobs(root: str) -> Iterator[_Staged]:
    now = time.time()
    for entry in _entries(os.path.join(root, STAGING_DIRECTORY)):
        found = _JOB.fullmatch(entry.name)
        if found is not None and entry.is_dir(follow_symlinks=False):
            states = [entry.stat(follow_symlinks=False)]
            staged = [file.stat(follow_symlinks=False) for file in _entries(entry.path)]
            newest = max(state.st_mtime for state in states + staged)
            yield _Staged(found["jobid"], sum(state.st_size for state in staged), now - newest)


def _stale_files(root: str, older_than_seconds: float) -> Iterator[tuple[str, int]]:
    """Yield path and size of old records, and of temporary files that nobody has written to for long."""
    now = time.time()
    head = read_head(root).seq
    for entry in _entries(commits_directory(root)):
        number = sequence_number(entry.name)
        state = entry.stat(follow_symlinks=False)
        if number is not None:
            stale = number < head - 1
        else:
            stale = entry.name.endswith(STAGED_SUFFIX) and now - state.st_mtime >= older_than_seconds
        if stale:
            yield entry.path, state.st_size


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        return []
