"""Vacuum: delete what crashed jobs left, removed files that are still there, and what the retention is over for.

Files of a job are deleted if the log has ended it, or if it is older than `older_than`: then it is expired first (`collect`).
Managed files of jobs that neither the log nor a mark knows are named, and stay: somebody may have copied them here from a
copy of this table, and the log of the copy counts them.

The age of a job is that of its youngest staged file. Ages are told by the clock of the storage, which a file that is put and
deleted again shows. A wrong clock can fail a running job; it cannot break a table.

A directory that was removed and made anew has entries of its earlier id. They go when they are older than the retention: a
table whose id was lost is recovered by them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from spark_arrow_ipc.storage.paths import join, name_of
from spark_arrow_ipc.storage.storage import Kind, Status, Storage
from spark_arrow_ipc.table.collect import (
    close_removed,
    collect,
    fence,
    is_current,
    list_managed,
    list_old_removals,
    list_staging,
    sweep,
    uncollected_jobs,
)
from spark_arrow_ipc.table.log import list_prunable, prune, read_state
from spark_arrow_ipc.table.log_listing import list_log
from spark_arrow_ipc.table.names import STAGED_SUFFIX, TableDirectory, is_job_id, is_table_id, managed_name, new_id
from spark_arrow_ipc.table.snapshot import list_data_files
from spark_arrow_ipc.table.state import State

DEFAULT_AGE_SECONDS: Final = 7 * 24 * 3600.0
"""The age at which a job counts as dead: far more than any job takes."""

_EARLIER_NS: Final = 7 * 24 * 3600 * 10**9
"""So old are the log entries of an earlier table before they go: the table may be recovered by them."""


class StagedJob(NamedTuple):
    """The staged files of a job, and the age of the youngest."""

    nbytes: int
    seconds: float


class Amount(NamedTuple):
    """Files, and their bytes."""

    files: int = 0
    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class VacuumReport:
    """What was deleted, or would be.

    Parameters
    ----------
    swept
        The jobs whose files were deleted.
    young
        Those that may still run, whose files stay.
    unknown
        Files of jobs that neither the log nor a mark knows, by relative path; they stay.
    deleted
        The files that were deleted, by a word for their kind.
    """

    swept: tuple[str, ...] = ()
    young: Mapping[str, StagedJob] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    deleted: Mapping[str, Amount] = field(default_factory=dict)


def vacuum(directory: TableDirectory, *, older_than: float, dry_run: bool = False) -> VacuumReport:
    """Delete files that no snapshot needs, or say only which ones; `older_than` in seconds is the age of a dead job.

    Costs about five listings of the table, one for each job that has staged files, and a call for each file that is deleted.

    Raises
    ------
    CommitError
        The log is broken.
    """
    directory.check()
    if not dry_run:  # before anything is deleted: the error names the directory and what to do
        directory.storage.check_writable(directory.root)
    # Before the log: a job that ends in between is seen as ended, and not as one that is unknown.
    listed = list_staged_jobs(directory)
    # A job that is about to put its mark may have an empty directory, and makes it again.
    staged = {job: files for job, files in listed.items() if files}
    empty = [] if dry_run else [directory.staging(job) for job, files in listed.items() if not files]
    for path in empty:
        directory.storage.delete_directory_if_empty(path)
    state = read_state(directory)
    if state is None:
        # A job puts the table's id before its mark: without a table, no job whose mark is here can commit.
        swept = set(staged) if dry_run else sweep(directory, staged, None)
        return VacuumReport(tuple(sorted(swept)), deleted=_amounts({"files of dead jobs": _statuses(staged, swept)}))
    time_ns = time.time_ns() if dry_run else _read_clock(directory, state.table)
    young = {
        job: StagedJob(_amount(files).nbytes, (time_ns - max(file.mtime_ns for file in files)) / 1e9)
        for job, files in staged.items()
        if job not in state.ended
    }
    young = {job: row for job, row in young.items() if 0 < older_than > row.seconds}
    dead = set(staged) - set(young)
    fenced: State | None = state
    if not dry_run:
        fenced = fence(directory, state.table, sorted(dead))
    if fenced is None:
        return VacuumReport()
    live = {*fenced.files.paths}
    removed = {removed.path for removed in fenced.tombstones}
    listing = list_data_files(directory)
    names = {
        path: name
        for path in listing
        if path not in live and path not in removed and (name := managed_name(path)) is not None
    }
    # A late copy may have made a file of a job that has ended, after its mark went or after the file's tombstone was closed.
    orphans = {name.job for name in names.values() if name.table == fenced.table}
    swept = dead | (fenced.ended.keys() & orphans)
    garbage = _find_garbage(directory, fenced, older_than, time_ns)
    deleted = {
        "files of dead jobs": [
            *_statuses(staged, swept),
            *(listing[path] for path, name in names.items() if name.table == fenced.table and name.job in swept),
        ],
        "removed files": [status for path, status in listing.items() if path in removed],
        **{kind: files for kind, (files, _) in garbage.items()},
    }
    if not dry_run:
        gone = collect(directory, fenced)
        if gone is None:
            return VacuumReport()
        # Of a job that committed, the files that count stay, and removed ones have tombstones.
        swept = sweep(
            directory, swept - uncollected_jobs(fenced, gone), partial(list_managed, directory, fenced.table, live)
        )
        close_removed(directory, fenced.table, gone)
        # The table may have been made anew, and what was garbage is its log.
        if is_current(directory, fenced):
            for _, delete in garbage.values():
                delete()
    unknown = {
        path: name.job
        for path, name in names.items()
        if fenced.is_managed(path) and name.job not in staged and name.job not in fenced.ended
    }
    return VacuumReport(tuple(sorted(swept)), young, tuple(_select_unknown(directory, unknown)), _amounts(deleted))


def _select_unknown(directory: TableDirectory, jobs: Mapping[str, str]) -> list[str]:
    """Return the files whose job is still unknown; a job may have begun while files were listed. `jobs` has the job of each file."""
    if not jobs:
        return []
    # Before the log: the mark of a job goes after its entry. An empty directory is left when the mark is gone.
    staged = {job for job, files in list_staged_jobs(directory).items() if files}
    state = read_state(directory)
    ended = {} if state is None else state.ended
    return [
        path
        for path, job in sorted(jobs.items())
        if job not in staged and job not in ended and directory.storage.status(directory.path(path)) is not None
    ]


_Garbage = tuple[list[Status], Callable[[], object]]
"""Files that no job and no reader needs, and a call that deletes them."""


def _find_garbage(directory: TableDirectory, state: State, older_than: float, time_ns: int) -> dict[str, _Garbage]:
    """Return garbage that is not among the data files, by a word for its kind."""
    storage = directory.storage
    listing = list_log(directory, state.table)
    replaced = [directory.all_replaced(number) for number in list_old_removals(directory, state, listing, time_ns)]
    youngest_dead = time_ns - int(older_than * 1e9)
    oldest_kept = min(youngest_dead, time_ns - _EARLIER_NS)
    temporary, others = [], []
    for status in (*_list(storage, directory.log), *_list(storage, directory.entries(state.table))):
        name = name_of(status.path)
        if status.kind is Kind.FILE and name.endswith(STAGED_SUFFIX) and status.mtime_ns <= youngest_dead:
            temporary.append(status)
        elif status.kind is Kind.DIRECTORY and is_table_id(name) and name != state.table:
            files = _walk(storage, status.path)
            if all(file.mtime_ns <= oldest_kept for file in files):
                others.append((status.path, files))

    def delete_trees(paths: Iterable[str]) -> None:
        for path in paths:
            storage.delete_tree(path)

    return {
        "retained files": ([file for path in replaced for file in _walk(storage, path)],
                           partial(delete_trees, replaced)),
        "old log entries": (list_prunable(listing, state), partial(prune, directory, state)),
        "incomplete files of the log": (temporary, partial(storage.delete_all, [file.path for file in temporary])),
        "log entries of an earlier table": ([file for _, files in others for file in files],
                                            partial(delete_trees, [path for path, _ in others])),
    }  # fmt: skip


def _read_clock(directory: TableDirectory, table: str) -> int:
    """Return the time by the storage's clock, nanoseconds since 1970: that of a file that is put, and deleted again."""
    storage, path = directory.storage, join(directory.entries(table), new_id() + STAGED_SUFFIX)
    storage.make_directory(directory.entries(table))
    storage.put(path, b"")
    # By a listing, which tells the time as those do that it is compared with.
    times = [status.mtime_ns for status in storage.list(directory.entries(table)) if status.path == path]
    with suppress(OSError):  # the next vacuum deletes it
        storage.delete(path)
    return times[0] if times else time.time_ns()


def list_staged_jobs(directory: TableDirectory) -> dict[str, list[Status]]:
    """Return the jobs that have a staging directory, and its files. A listing for each job."""
    statuses = _list(directory.storage, directory.all_staging)
    jobs = {name_of(status.path) for status in statuses if status.kind is Kind.DIRECTORY}
    return list_staging(directory, [job for job in jobs if is_job_id(job)])


def _list(storage: Storage, path: str) -> list[Status]:
    with suppress(FileNotFoundError):
        return list(storage.list(path))
    return []


def _walk(storage: Storage, path: str) -> list[Status]:
    """Return the files below a directory. A listing for each directory."""
    files, level = [], [path]
    while level:
        for status in _list(storage, level.pop()):
            if status.kind is Kind.DIRECTORY and not status.is_link:
                level.append(status.path)
            elif status.kind is Kind.FILE:
                files.append(status)
    return files


def _statuses(staged: Mapping[str, list[Status]], jobs: Iterable[str]) -> list[Status]:
    return [status for job in jobs for status in staged.get(job, ())]


def _amount(files: Iterable[Status]) -> Amount:
    nbytes = [status.nbytes for status in files]
    return Amount(len(nbytes), sum(nbytes))


def _amounts(deleted: Mapping[str, list[Status]]) -> dict[str, Amount]:
    return {kind: _amount(files) for kind, files in deleted.items() if files}
