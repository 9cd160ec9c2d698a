"""Refuse a table inside of another one: jobs of two logs over the same files would not know of each other.

A directory is a table for others once a job has been committed in it. A job looks for tables above its own when it is
planned: one call for each directory above, at once where calls wait. Jobs that replace files list the directories below, too;
those that add files see it when they list the directories of these (`Transaction.name_files`).
The first job of a table looks both ways once more before its log entry, also for jobs that have only staged files: of two
first jobs, one above the other, both have staged their files before they look, so that one sees the other.

A hidden directory (``lake/_tables/x``) is not a part of the outer table for anybody, and is not looked at.
"""

from __future__ import annotations

from contextlib import suppress

from spark_arrow_ipc.dataset.listing.directory import Listing, is_hidden, read_directory, walk_levels
from spark_arrow_ipc.dataset.listing.partition_values import unescape_path_name
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError
from spark_arrow_ipc.storage.paths import SEPARATOR, above, join, relative
from spark_arrow_ipc.storage.storage import Storage, each
from spark_arrow_ipc.table.checks import check_no_table, is_table
from spark_arrow_ipc.table.names import LOG_DIRECTORY, STAGING_DIRECTORY, TableDirectory
from spark_arrow_ipc.table.state import State

_OURS = "_ipc_"
"""Prefix of the directories that a table makes for itself."""


def check_alone(table: TableDirectory, state: State) -> None:
    """Raise before a table's first job is committed if there is another table above or below, or is about to be."""
    if state.has_jobs:
        return
    check_none_above(table, first=True)
    check_none_below(table, first=True)


def check_none_above(table: TableDirectory, *, first: bool = False) -> None:
    """Raise if a directory above is a table; with `first` also if it is about to become one."""
    outer = table_above(table)
    if outer is not None:
        columns = [unescape_path_name(part.partition("=")[0]) for part in _parts(table, outer) if "=" in part]
        way = f" with partitionBy={','.join(columns)}" if columns else ""
        dynamic = (
            "; mode overwrite with partitionOverwriteMode=dynamic replaces single partitions of it" if columns else ""
        )
        raise CommitError(
            f"this directory is inside of the table {outer}, and jobs of the two would not know of each other: write to "
            f"{outer}{way}{dynamic}; or give a directory outside of it. Nothing is written",
            path=table.root,
        )
    if first:
        for directory in _above(table):
            if _has_staged(table.storage.inside(None), directory):
                raise _runs(table, directory)


def table_above(table: TableDirectory) -> str | None:
    """Return the nearest directory above a table's that is a table itself and has it in its tree, or None.

    One call of the storage for each directory above. One that may not be read is not a table of ours.
    """
    storage = table.storage.inside(None)
    directories = _above(table)
    having: set[str] = set()

    def ask(directory: str) -> None:
        if _has_any(storage, join(directory, LOG_DIRECTORY)) and is_table(TableDirectory(storage, directory)):
            having.add(directory)

    each(ask, directories, waits=storage.traits.waits)
    return next((directory for directory in directories if directory in having), None)


def check_none_below(table: TableDirectory, *, first: bool = False) -> None:
    """Raise if a directory of a table is a table itself; with `first` also if it is about to become one.

    Lists the directories, each level at once where calls wait. Links are not followed: what they lead to is elsewhere.
    """

    def below(inner: str) -> list[str]:
        try:
            listing = read_directory(table.storage, table.path(inner))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return []
        _check_listed(table, inner, listing, first=first)
        return [join(inner, name) for name in listing.directories if name not in listing.links]

    walk_levels([""], below, waits=table.storage.traits.waits)


def _check_listed(table: TableDirectory, inner: str, listing: Listing, *, first: bool = False) -> None:
    """Raise if a directory of a table, which was listed, is a table itself, or is about to be with `first`."""
    if not inner:
        return
    path = table.path(inner)
    if listing.is_table:
        check_no_table(table, path)
    if first and listing.staging and _has_staged(table.storage, path):
        raise _runs(table, path)


def _runs(table: TableDirectory, directory: str) -> ConcurrentWriteError:
    return ConcurrentWriteError(
        f"a job runs in {directory}, or has died there, and would make a table of it: one of the two would be inside of the "
        f"other. Wait for it, or run 'arrowipc vacuum --older-than 0 {directory}', and try again; nothing is published",
        path=table.root,
    )


def _above(table: TableDirectory) -> list[str]:
    """Return the directories above a table's, innermost first, also of where links lead, in whose tree it is visible."""
    visible: dict[str, None] = {}
    for root in (table.root, table.storage.inside(None).real_path(table.root)):
        for directory in above(root):
            parts = relative(root, directory).split(SEPARATOR)
            if not any(is_hidden(part) and not part.startswith(_OURS) for part in parts):
                visible[directory] = None
    return [*visible]


def _parts(table: TableDirectory, outer: str) -> list[str]:
    """Return the names between a directory above and a table's own."""
    path = relative(table.root, outer)
    if path == table.root:
        path = relative(table.storage.inside(None).real_path(table.root), outer)
    return path.split(SEPARATOR)


def _has_staged(storage: Storage, directory: str) -> bool:
    return _has_any(storage, join(directory, STAGING_DIRECTORY))


def _has_any(storage: Storage, directory: str) -> bool:
    """Return whether anything is in a directory; no if that may not be known."""
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        return any(True for _ in storage.list(directory))
    return False
