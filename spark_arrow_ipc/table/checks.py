"""Tell that a table's id or its entries were deleted by hand, or that it contains a table, before rows are read or written.

Without the id, a directory is one without a log: all of its files would count, also removed ones and those of jobs that died.
With the id and without entries, none would. A directory whose log is gone completely cannot be told from one into which
somebody copied files; there, all files count.

**The id** is lost if the directory of its entries is there, and it is in the names of files. Entries of a table that was removed
with its files do not matter: a process that paused may put one late.

**The entries** are lost if no job was committed, and a file is there of a job that has no mark and was not expired. A job's
mark goes only after its entry is put, or after its files are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable

from spark_arrow_ipc.errors import CommitError, UnsupportedError
from spark_arrow_ipc.storage.paths import join, name_of
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.names import LOG_DIRECTORY, TableDirectory, managed_name
from spark_arrow_ipc.table.state import State


def ids_in(paths: Iterable[str]) -> set[str]:
    """Return the ids of tables that are in the names of files."""
    return {name.table for path in paths if (name := managed_name(name_of(path))) is not None}


def check_id(directory: TableDirectory, ids: Iterable[str]) -> None:
    """Raise if a directory without an id has entries of a table; `ids` are in the names of files. A call for each of them."""
    storage = directory.storage
    for table in sorted(ids):
        entries = directory.entries(table)
        # A job that has begun meanwhile has put the id.
        if storage.status(entries) is None or storage.status(directory.id_file) is not None:
            continue
        raise CommitError(
            f"the id of this table is gone, and its log is there ({entries}): without the id, removed files and those of jobs "
            f"that died would count; 'arrowipc fsck {directory.root}' says how to put it back",
            path=directory.id_file,
        )


def without_log(directory: TableDirectory) -> str:
    """Return the advice for a log that is lost."""
    return f"delete {directory.log}, and then all files count, even those that a job removed, or left when it died: compare them first"


def check_entries(directory: TableDirectory, state: State, path: str) -> None:
    """Raise if a managed file that does not count shows that a table in which no job was committed has lost its entries."""
    name, storage = managed_name(path), directory.storage
    if (
        name is None
        or state.has_jobs
        or name.job in state.ended
        or storage.status(directory.mark(name.job)) is not None
    ):
        return
    # The job may have ended since then: before its mark went, its entry was put, or its files were deleted. And a listing of
    # the log may be older than its entries.
    is_newest = storage.status(directory.entry(state.table, state.number + 1)) is None
    if not is_newest or storage.status(directory.path(path), follow_links=False) is None:
        return
    entries = directory.entries(state.table)
    raise CommitError(
        f"no entry of the log added this file, and its job has ended: the entries of this table were deleted. Restore {entries} "
        f"from a copy; without one, {without_log(directory)}; 'arrowipc fsck {directory.root}' checks the result",
        path=directory.path(path),
    )


def words_if_older(directory: TableDirectory, state: State, base: int) -> str:
    """Return the error of a log that ends before the entry that a job was planned on, or no words if it has that entry."""
    # A listing may be older than the entry.
    if state.number >= base or directory.storage.status(directory.entry(state.table, base)) is not None:
        return ""
    return (
        f"the log ends with entry {state.number}, and this job was planned on entry {base}: entries were deleted, or an older "
        "copy was put back, see 'arrowipc fsck'"
    )


def is_table(directory: TableDirectory) -> bool:
    """Return whether a job was committed in a directory with a log, also where that cannot be read."""
    try:
        state = read_state(directory)
    except (CommitError, UnsupportedError):
        return True
    return state is not None and state.has_jobs


def check_no_table(directory: TableDirectory, inner: str) -> None:
    """Raise if a directory of a table with a log is a table itself."""
    if is_table(TableDirectory(directory.storage, inner)):
        raise CommitError(
            f"the directory {inner} in it is a table of its own, and jobs of the two would not know of each other: to make "
            f"it a part of this one, run 'arrowipc vacuum {inner}' and remove {join(inner, LOG_DIRECTORY)}; or write to a "
            "directory outside of it. Nothing is written or replaced",
            path=directory.root,
        )
