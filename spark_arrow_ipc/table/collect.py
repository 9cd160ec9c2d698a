"""Collecting: delete what no snapshot needs, after an entry. It needs no right: anybody may do it, late and twice.

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
is back would count, or stay for ever.

**A process re-reads its entry before each batch of deletions**: where a backup was put back over the table, or the table was
removed and made anew, it stops.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.paths import parent
from spark_arrow_ipc.storage.storage import each
from spark_arrow_ipc.table.entry import Entry, Operation, Removed
from spark_arrow_ipc.table.log import append, follow, read_entry, read_state, read_table_id
from spark_arrow_ipc.table.names import TableDirectory, managed_name
from spark_arrow_ipc.table.snapshot import is_removed, list_data_files
from spark_arrow_ipc.table.state import REMEMBERED, State, Tombstone

_ATTEMPTS: Final = 3
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
                    f"the log entry that expires jobs cannot be put ({error}); nothing is deleted", path=directory.root
                ) from error
    raise CommitError("other jobs append entries all the time; nothing is deleted", path=directory.root)


def collect(directory: TableDirectory, state: State) -> None:
    """Delete or retain the removed files of a state. Missing ones do not matter.

    Costs a call for each removed file of other programs, and one in a thousand for managed ones.
    """
    storage = directory.storage
    storage.sync(directory.entries(state.table))  # an entry that a power loss takes has removed nothing
    due = list(state.tombstones.items())
    for start in range(0, len(due), _BATCH):
        # Someone has put a backup back, or made the table anew: what counts now is not known here.
        if not _is_current(directory, state):
            return
        batch = due[start : start + _BATCH]
        each(lambda row: _remove(directory, *row), [row for row in batch if not _is_deleted_by_name(*row)],
             waits=storage.traits.waits)  # fmt: skip
        storage.delete_all(
            [directory.path(removed.path) for removed, row in batch if _is_deleted_by_name(removed, row)]
        )
        failpoint.hit("collected.removed")
    _sync_directories(directory, (removed.path for removed in state.tombstones))


def closable(directory: TableDirectory, state: State) -> tuple[Removed, ...]:
    """Return the removals of a state whose files are gone for certain. A listing of the table, if there are any."""
    if not state.tombstones:
        return ()
    _sync_directories(directory, (removed.path for removed in state.tombstones))
    listing = list_data_files(directory)
    return tuple(
        removed
        for removed in state.tombstones
        if removed.path not in listing
        or (not removed.is_managed and not is_removed(directory, removed, listing[removed.path]))
    )


def sweep(directory: TableDirectory, job: str, list_named: Callable[[], Collection[str]]) -> bool:
    """Delete the files of a job that has ended and did not commit; return whether nothing of them is left.

    `list_named` lists its named files anew.
    """
    storage = directory.storage
    for list_files in (partial(list_staged, directory, job), list_named):
        if not _delete_until_gone(directory, list_files):
            return False
        failpoint.hit("collected.files")
    if list_named():  # a copy came late, between the two listings
        return False
    storage.sync(directory.staging(job))
    with suppress(OSError):
        storage.delete(directory.mark(job))
    failpoint.hit("collected.mark")
    storage.delete_directory_if_empty(directory.staging(job))
    # Nothing is left in it that would show that jobs were here.
    storage.delete_directory_if_empty(directory.all_staging)
    return True


def list_staged(directory: TableDirectory, job: str) -> list[str]:
    """Return the paths of the staged files of a job. A listing of its staging directory."""
    with suppress(FileNotFoundError):
        mark = directory.mark(job)
        return [status.path for status in directory.storage.list(directory.staging(job)) if status.path != mark]
    return []


def list_managed(directory: TableDirectory, table: str, job: str) -> list[str]:
    """Return the relative paths of the managed files of a job. A listing of the table."""
    return [path for path in list_data_files(directory) if managed_name(path) == (table, job)]


def _is_deleted_by_name(removed: Removed, tombstone: Tombstone) -> bool:
    return removed.is_managed and not tombstone.retain


def _remove(directory: TableDirectory, removed: Removed, tombstone: Tombstone) -> None:
    """Delete or retain one file, if it is the removed one."""
    storage, path = directory.storage, directory.path(removed.path)
    # A link in the place of the file is not the file.
    status = storage.status(path, follow_links=False)
    if status is None or not is_removed(directory, removed, status):
        return
    if tombstone.retain:
        retained = directory.replaced(tombstone.number, removed.path)
        storage.make_directory(parent(retained))
        with suppress(OSError):
            storage.publish(path, retained)
        if storage.traits.renames or storage.status(retained) is None:
            return  # it is moved; or the copy is not there, and the next collector tries again
    storage.delete(path)


def _is_current(directory: TableDirectory, state: State) -> bool:
    """Return whether the log still has the entry of a state."""
    with suppress(FileNotFoundError):
        return (
            read_table_id(directory) == state.table
            and read_entry(directory, state.table, state.number).id == state.entry
        )
    # Pruned: then far more recent entries are there.
    newest = read_state(directory)
    return newest is not None and newest.table == state.table and newest.number > state.number


def _delete_until_gone(directory: TableDirectory, list_files: Callable[[], Collection[str]]) -> bool:
    for _ in range(_ATTEMPTS):
        paths = list_files()
        if not paths:
            return True
        with suppress(OSError):
            directory.storage.delete_all(sorted(paths))
        _sync_all(directory, paths)
    return not list_files()


def _sync_all(directory: TableDirectory, paths: Iterable[str]) -> None:
    for path in {parent(path) for path in paths}:
        directory.storage.sync(path)


def _sync_directories(directory: TableDirectory, paths: Iterable[str]) -> None:
    """Make changes of names durable, and delete directories that are empty."""
    storage = directory.storage
    for path in {parent(directory.path(path)) for path in paths}:
        storage.sync(path)
        if path != directory.root:
            storage.delete_directory_if_empty(path)
