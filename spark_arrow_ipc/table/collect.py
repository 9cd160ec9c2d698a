"""Collecting: delete or retain what an entry removed, and delete what jobs left. Anybody may do it, late and twice.

Rules
-----
**Names never return** (`names`), so a removed managed file is deleted by its name. An unmanaged one is compared with its
removal right before: other programs may have written another file of that name. Between the two calls is an instant that
nothing protects.

**The fence.** Files of a job are deleted only after it has ended: `fence` appends an entry that expires it. What may be
deleted is judged by the state at that entry, read again after its put, since the job may have committed in between. One
entry expires at most half of the jobs that a state remembers, so that none is forgotten before it is seen.

**The order of a sweep: staged files, named files, the mark**, each proven by a listing. A copy whose request comes late makes
a named file from a staged one, so these must be gone first. The mark goes last: while it is there, the next vacuum knows
that something may be left.

**Deletions are durable before the mark goes**, and before an entry closes their tombstones: after a power loss a file that
is back would count, or stay for ever. So the directories are synced after the calls that show that nothing is left: what
is gone may have been deleted by another process, which was killed before its own sync.

**Tombstones are closed soon**, as each job deletes again what has one, and as a new file of another program might be taken for
the removed one. Those of such files are closed by an entry of their own, right after the deletion (`close_removed`). Managed
ones wait for the entry of the next job, which costs nothing: the mark of the job that removed them is gone, and so are they
(`list_collected`). Only a copy of the directory that was made meanwhile may have them; there, nobody counts them.

**A process re-reads its entry before each batch of deletions**: where a backup was put back over the table, or the table was
removed and made anew, it stops.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from spark_arrow_ipc.dataset.listing.directory import is_hidden
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.paths import name_of, parent
from spark_arrow_ipc.storage.storage import Kind, Status, each
from spark_arrow_ipc.table.documents import DOCUMENTS, publish_documents
from spark_arrow_ipc.table.entry import Entry, Operation, Removed
from spark_arrow_ipc.table.log import (
    append,
    follow,
    prune,
    read_entry,
    read_state,
    read_table_id,
)
from spark_arrow_ipc.table.log_listing import Listing, list_log
from spark_arrow_ipc.table.names import TableDirectory, managed_name
from spark_arrow_ipc.table.snapshot import Match, compare, list_data_files
from spark_arrow_ipc.table.state import REMEMBERED, State, Tombstone

ListFiles = Callable[[Collection[str]], Mapping[str, str]]
"""Lists files of jobs: the job of each path."""

_ATTEMPTS: Final = 3
_READ_SECONDS: Final = 3600
"""Seconds for which a table without a retention retains the files that a rewrite replaced, for reads that were planned before."""

_BATCH: Final = 1000
"""Files that are deleted between two looks at the log; the requests of object stores delete as many."""


def fence(directory: TableDirectory, table: str, jobs: Collection[str]) -> State | None:
    """Make sure that jobs have ended and return a state in which they have; None if the table is gone.

    Raises
    ------
    CommitError
        Others append entries all the time.
    """
    errors = 0
    seen: set[str] = set()  # a state may forget a job as soon as it has ended; its horizon then keeps the job out
    for _ in range(len(jobs) + 20):
        state = read_state(directory)
        if state is None or state.table != table:
            return None
        seen |= state.ended.keys()
        due = tuple(sorted(set(jobs) - seen)[: REMEMBERED // 2])
        if not due:
            directory.storage.sync(directory.entries(table))
            return state
        entry = follow(state, Entry(0, "", Operation.EXPIRE, expire=due))
        try:
            # False says that another process was faster: then the state is read again.
            if append(directory, state, entry):
                failpoint.hit("aborted.expired")
        except OSError as error:  # the next reading of the log tells whether it is there
            errors += 1
            # A full disk stays full.
            if errors == _ATTEMPTS:
                raise CommitError(
                    f"the log entry that expires jobs cannot be put ({error}), and nothing is deleted: that must be possible "
                    "first, for which some free kilobytes are enough on a full disk",
                    path=directory.root,
                ) from error
    raise CommitError("other jobs append entries all the time; nothing is deleted", path=directory.root)


def collect(directory: TableDirectory, state: State) -> dict[Removed, Tombstone] | None:
    """Delete or retain the removed files of a state, once the JSON files of its layout name others.

    Returns the tombstones whose files are gone for certain, durably; None if it stopped, as the log no longer has the state.
    Costs a call for each removed file of other programs, and one in a thousand for managed ones.
    """
    storage = directory.storage
    storage.sync(directory.entries(state.table))  # an entry that a power loss takes has removed nothing
    # Readers that know only the JSON files find the old rows or the new ones.
    publish_documents(directory, state)
    # A JSON file of the layout has been put since, perhaps with the same bytes.
    gone = {removed: row for removed, row in state.tombstones.items() if state.layout and removed.path in DOCUMENTS}
    due = [row for row in state.tombstones.items() if row[0] not in gone]
    for start in range(0, len(due), _BATCH):
        # Someone has put a backup back, or made the table anew: what counts now is not known here.
        if not is_current(directory, state):
            return None
        batch = dict(due[start : start + _BATCH])
        by_name = {removed: row for removed, row in batch.items() if removed.is_managed and not row.retain}
        gone |= _remove_each(directory, {removed: row for removed, row in batch.items() if removed not in by_name})
        storage.delete_all([directory.path(removed.path) for removed in by_name])
        gone |= by_name
        failpoint.hit("collected.removed")
    # After the calls: another process may have deleted a file right before them, and be killed.
    _sync_directories(directory, (removed.path for removed in state.tombstones))
    return gone


def close_removed(directory: TableDirectory, table: str, gone: Mapping[Removed, Tombstone]) -> None:
    """Append an entry that closes the tombstones of files that are gone, as `collect` returns them; none if there are none."""
    for _ in range(_ATTEMPTS if gone else 0):
        state = read_state(directory)
        if state is None or state.table != table:
            return
        # The same bytes may be there again, and removed by a later entry.
        close = tuple(removed for removed, row in gone.items() if state.tombstones.get(removed) == row)
        if not close:
            return
        entry = follow(state, Entry(0, "", Operation.CLOSE, close=close))
        with suppress(OSError):
            if append(directory, state, entry):
                return


def list_collected(directory: TableDirectory, state: State) -> tuple[Removed, ...]:
    """Return the removed managed files that the jobs that removed them have deleted. A listing, if there are any removed ones."""
    removed_by = {number: job for job, number in _removing_jobs(state, state.tombstones).items()}
    due = {removed: removed_by.get(row.number) for removed, row in state.tombstones.items() if removed.is_managed}
    if not due:
        return ()
    left: set[str] = set()
    with suppress(FileNotFoundError):  # the last mark was deleted, and this job is expired
        left = {name_of(status.path) for status in directory.storage.list(directory.all_staging)}
    return tuple(removed for removed, job in due.items() if job is not None and job not in left)


def finish(directory: TableDirectory, state: State, jobs: Collection[str]) -> bool:
    """Collect, delete what committed jobs have left, and close the removals of files of other programs.

    Does so for `jobs` and for those that died before they deleted what they removed. Returns False if it stopped, as the log no
    longer has the state.
    """
    try:
        gone = collect(directory, state)
    except OSError:  # once more: programs that list the directory see removed files until then
        gone = collect(directory, state)
    if gone is None:
        return False
    sweep(directory, {*jobs, *_removing_jobs(state, state.tombstones)} - uncollected_jobs(state, gone), None)
    if not all(removed.is_managed for removed in gone):
        close_removed(directory, state.table, gone)
    return True


def uncollected_jobs(state: State, gone: Collection[Removed]) -> set[str]:
    """Return the jobs whose marks must stay: not all of the managed files that they removed are gone."""
    return {
        *_removing_jobs(state, [removed for removed in state.tombstones if removed.is_managed and removed not in gone])
    }


def _removing_jobs(state: State, removals: Iterable[Removed]) -> dict[str, int]:
    """Return the jobs that removed files of a state, and the number of the entry of each."""
    numbers = {state.tombstones[removed].number for removed in removals}
    return {job: end.number for job, end in state.ended.items() if end.is_committed and end.number in numbers}


def sweep(directory: TableDirectory, jobs: Collection[str], list_named: ListFiles | None) -> set[str]:
    """Delete the files of jobs that have ended; return the jobs of which nothing is left.

    `list_named` lists the named files of jobs that did not commit; None if all of them did. Costs two listings by it, a third
    if there are any, and a call for each directory of the table.
    """
    storage, left = directory.storage, set(jobs)
    of_jobs: list[ListFiles] = [partial(list_staged, directory)]
    if list_named is not None:
        of_jobs.append(list_named)
    for list_files in of_jobs:
        left -= _delete_until_gone(directory, left, list_files)
        failpoint.hit("collected.files")
    if left and list_named is not None:
        left -= {*list_named(left).values()}  # a copy came late, between the two listings
        # What is not listed may have been deleted by a process that was killed before its own sync.
        _sync_table(directory)
    for job in sorted(left):
        storage.sync(directory.staging(job))
        with suppress(OSError):
            storage.delete(directory.mark(job))
        failpoint.hit("collected.mark")
        storage.delete_directory_if_empty(directory.staging(job))
    # Nothing is left in it that would show that jobs were here.
    storage.delete_directory_if_empty(directory.all_staging)
    return left


def expire(directory: TableDirectory, table: str, jobs: Collection[str]) -> None:
    """End jobs that others may still run, and delete the files of those that did not commit. Some listings of the table."""
    state = fence(directory, table, jobs)
    # A mark that is gone says that the files which a committed job removed are gone.
    gone = None if state is None else collect(directory, state)
    if state is not None and gone is not None:
        jobs = {*jobs} - uncollected_jobs(state, gone)
        sweep(directory, jobs, partial(list_managed, directory, table, {*state.files.paths}))


def list_staging(directory: TableDirectory, jobs: Collection[str]) -> dict[str, list[Status]]:
    """Return the files in the staging directories of jobs, with the marks. A listing for each job."""
    staging: dict[str, list[Status]] = {job: [] for job in jobs}

    def list_one(job: str) -> None:
        with suppress(FileNotFoundError):
            staging[job] += directory.storage.list(directory.staging(job))

    each(list_one, sorted(jobs), waits=directory.storage.traits.waits)
    return staging


def list_staged(directory: TableDirectory, jobs: Collection[str]) -> dict[str, str]:
    """Return the paths of the staged files of jobs, and the job of each. A listing for each job."""
    staging = list_staging(directory, jobs)
    return {
        status.path: job
        for job, files in staging.items()
        for status in files
        if status.path != directory.mark(job)
    }  # fmt: skip


def list_managed(directory: TableDirectory, table: str, live: Collection[str], jobs: Collection[str]) -> dict[str, str]:
    """Return the paths of the managed files of jobs that are not live, and the job of each. A listing of the table."""
    managed = {}
    for path in list_data_files(directory) if jobs else ():
        name = managed_name(path)
        if name is not None and name.table == table and name.job in jobs and path not in live:
            managed[directory.path(path)] = name.job
    return managed


def delete_old(directory: TableDirectory, state: State) -> None:
    """Delete what the table's retention is over for: log entries, and removed files. Two listings."""
    listing = list_log(directory, state.table)
    prune(directory, state, listing)
    numbers = list_old_removals(directory, state, listing, listing.time_ns)
    if numbers and is_current(directory, state):
        for number in numbers:
            directory.storage.delete_tree(directory.all_replaced(number))


def list_old_removals(directory: TableDirectory, state: State, listing: Listing, time_ns: int) -> list[int]:
    """Return the numbers of the entries whose removed files are retained for no longer. One listing.

    `time_ns` is the time by the storage's clock, as that of the entries is.
    """
    oldest = min(listing.entries, default=0)
    retention = (_READ_SECONDS if state.retention is None else state.retention) * 10**9
    return [
        number
        for number in directory.list_replaced()
        # An entry that is pruned is older than the retention.
        if (number in listing.entries and time_ns - listing.entries[number].mtime_ns > retention) or number < oldest
    ]


def _remove_each(directory: TableDirectory, batch: Mapping[Removed, Tombstone]) -> dict[Removed, Tombstone]:
    """Delete or retain files, and return those that are gone for certain."""
    gone = {}

    def remove(removed: Removed) -> None:
        if _remove(directory, removed, batch[removed]):
            gone[removed] = batch[removed]

    each(remove, [*batch], waits=directory.storage.traits.waits)
    return gone


def _remove(directory: TableDirectory, removed: Removed, tombstone: Tombstone) -> bool:
    """Delete or retain one file, if it is the removed one for certain; return whether that is gone for certain."""
    storage, path = directory.storage, directory.path(removed.path)
    # A link in the place of the file is not the file.
    status = storage.status(path, follow_links=False)
    match = Match.OTHER if status is None else compare(directory, removed, status)
    if match is not Match.SAME:
        return match is Match.OTHER
    if tombstone.retain:
        retained = directory.replaced(tombstone.number, removed.path)
        storage.make_directory(parent(retained))
        with suppress(OSError):
            storage.publish(path, retained)
        if storage.traits.renames:
            return storage.status(path, follow_links=False) is None
        if storage.status(retained) is None:
            return False  # the copy is not there, and the next collector tries again
    storage.delete(path)
    return True


def is_current(directory: TableDirectory, state: State) -> bool:
    """Return whether the log still has the entry of a state."""
    with suppress(FileNotFoundError):
        return (
            read_table_id(directory) == state.table
            and read_entry(directory, state.table, state.number).id == state.entry
        )
    # Pruned: then far more recent entries are there.
    newest = read_state(directory)
    return newest is not None and newest.table == state.table and newest.number > state.number


def _delete_until_gone(directory: TableDirectory, jobs: Collection[str], list_files: ListFiles) -> set[str]:
    """Delete files of jobs, and return the jobs of which some are left."""
    for _ in range(_ATTEMPTS):
        paths = list_files(jobs)
        if not paths:
            return set()
        with suppress(OSError):
            directory.storage.delete_all(sorted(paths))
    return {*list_files(jobs).values()}


def _sync_table(directory: TableDirectory) -> None:
    """Make changes of names durable in all directories of the table that hold data files. A listing of each."""
    storage, level = directory.storage, [directory.root]
    while level and storage.traits.directories:
        path = level.pop()
        with suppress(FileNotFoundError):  # another job has deleted the empty directory
            storage.sync(path)
            statuses = [status for status in storage.list(path) if status.kind is Kind.DIRECTORY and not status.is_link]
            level += [status.path for status in statuses if not is_hidden(name_of(status.path))]


def _sync_directories(directory: TableDirectory, paths: Iterable[str]) -> None:
    """Make changes of names durable, and delete directories that are empty."""
    storage = directory.storage
    for path in {parent(directory.path(path)) for path in paths}:
        storage.sync(path)
        while path != directory.root:
            storage.delete_directory_if_empty(path)
            path = parent(path)  # noqa: PLW2901 - the one above may be empty now
