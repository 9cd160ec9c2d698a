"""Vacuum: delete what crashed jobs left, and removed files that are still there.

Files of a job are deleted if the log has ended it, or if its mark is older than `older_than`: then it is expired first (`collect`).
Managed files of jobs that neither the log nor a mark knows are named, and stay: somebody may have copied them here from a
copy of this table, and the log of the copy counts them.

The age of a job is that of its youngest staged file by the clock of this machine. A wrong clock can fail a running job; it
cannot break a table.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from spark_arrow_ipc.storage.paths import name_of
from spark_arrow_ipc.storage.storage import Kind
from spark_arrow_ipc.table.collect import closable, collect, fence, list_managed, sweep
from spark_arrow_ipc.table.entry import Entry, Operation
from spark_arrow_ipc.table.log import append, follow, read_state
from spark_arrow_ipc.table.names import TableDirectory, is_job_id, managed_name
from spark_arrow_ipc.table.snapshot import list_data_files

_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class VacuumReport:
    """The jobs whose files were deleted, those that are too young, and files of unknown jobs, by relative path."""

    swept: tuple[str, ...]
    young: tuple[str, ...]
    unknown: tuple[str, ...]


def vacuum(directory: TableDirectory, *, older_than: float) -> VacuumReport:
    """Delete files that no snapshot needs; `older_than` in seconds is the age at which a job counts as dead.

    Costs some listings of the table for each job whose files are deleted, and a call for each of the files.

    Raises
    ------
    CommitError
        The log is broken.
    """
    # Before the log: a job that ends in between is seen as ended, and not as one that is unknown.
    staged = _staged_jobs(directory)
    state = read_state(directory)
    if state is None:
        # A job puts the table's id before its mark: without a table, no job whose mark is here can commit.
        return VacuumReport(tuple(job for job in sorted(staged) if sweep(directory, job, list)), (), ())
    youngest_dead = time.time_ns() - int(older_than * 1e9)
    dead = {job for job, mtime_ns in staged.items() if job in state.ended or mtime_ns <= youngest_dead}
    fenced = fence(directory, state.table, sorted(dead))
    if fenced is None:
        return VacuumReport((), (), ())
    collect(directory, fenced)
    live = {*fenced.files.paths}

    def list_named(job: str) -> list[str]:
        # Of a job that committed, the files that count stay, and removed ones have tombstones.
        return [directory.path(path) for path in list_managed(directory, fenced.table, job) if path not in live]

    # A late copy may have made a file of a job that has ended, after its mark went or after the file's tombstone was closed.
    orphans = {name.job for path in list_data_files(directory) if (name := managed_name(path)) and path not in live}
    swept = [
        job for job in sorted(dead | (fenced.ended.keys() & orphans)) if sweep(directory, job, partial(list_named, job))
    ]
    # After the deletions, which it looks at anew.
    _close(directory, fenced.table)
    rest = [
        path
        for path in sorted(list_data_files(directory))
        if path not in live
        and (name := managed_name(path))
        and name.table == fenced.table
        and name.job not in staged
        and name.job not in fenced.ended
    ]
    return VacuumReport(tuple(swept), tuple(sorted(set(staged) - dead)), tuple(rest))


def _staged_jobs(directory: TableDirectory) -> dict[str, int]:
    """Return the jobs that have a staging directory, and the time of their youngest file."""
    jobs: dict[str, int] = {}
    with suppress(FileNotFoundError):
        for status in directory.storage.list(directory.all_staging):
            job = name_of(status.path)
            if status.kind is Kind.DIRECTORY and is_job_id(job):
                with suppress(FileNotFoundError):
                    times = [file.mtime_ns for file in directory.storage.list(status.path)]
                    jobs[job] = max(times, default=0)
    return jobs


def _close(directory: TableDirectory, table: str) -> None:
    """Append an entry that closes the tombstones of files that are gone."""
    for _ in range(_ATTEMPTS):
        state = read_state(directory)
        if state is None or state.table != table:
            return
        close = closable(directory, state)
        if not close:
            return
        entry = follow(state, Entry(0, "", Operation.CLOSE, close=close))
        with suppress(OSError):
            if append(directory, state, entry):
                return
