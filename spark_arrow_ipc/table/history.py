"""The history of a table: what each retained entry of its log did.

An entry names the files that it removes, and not their rows: these are known from the entries that added the files, and from
the checkpoint before the first retained entry.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass

from spark_arrow_ipc.errors import CommitError, NoFilesError
from spark_arrow_ipc.table.entry import Entry
from spark_arrow_ipc.table.log import read_after, read_entry, read_state
from spark_arrow_ipc.table.log_listing import Listing, list_log
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.state import Replay, State


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the log.

    Parameters
    ----------
    number, time
        Of the entry; the time in milliseconds since 1970.
    operation
        What it did.
    is_void
        Whether it changed nothing, as its job had ended before.
    files_added, rows_added, nbytes_added, files_removed, nbytes_removed
        What began and ceased to count.
    rows_removed
        Rows that ceased to count; None if files of other programs are among the removed ones.
    application, user, job, token, query, batch, restores
        As in the entry; empty or None if they are not there.
    """

    number: int
    time: int
    operation: str
    is_void: bool
    files_added: int
    rows_added: int
    nbytes_added: int
    files_removed: int
    rows_removed: int | None
    nbytes_removed: int
    application: str
    user: str
    job: str
    token: str | None
    query: str | None
    batch: int | None
    restores: int | None


@dataclass(frozen=True, slots=True)
class History:
    """The retained changes of a table, the newest first, and the number of the entry before them; 0 if all are retained."""

    table: str
    before: int
    changes: tuple[Change, ...]


def read_history(directory: TableDirectory, limit: int | None = None) -> History:
    """Return what the entries of a table's log did, the newest `limit` of them or all. One read for each entry.

    Raises
    ------
    NoFilesError
        The directory has no log.
    CommitError
        The log is broken.
    """
    newest = read_state(directory)
    if newest is None:
        raise NoFilesError("this directory has no log: no job of this package has written to it", path=directory.root)
    before = _read_start(directory, newest, newest.number - limit if limit is not None else 0)
    replay, rows = Replay(before), dict(zip(before.files.paths, before.files.rows.tolist(), strict=True))
    changes = []
    for entry in read_after(directory, before, newest.number, newest.number):
        is_void = not replay.apply(entry)
        changes.append(_change(entry, rows, is_void=is_void))
    changes = changes[len(changes) - min(len(changes), limit or len(changes)) :]
    first = changes[0].number - 1 if changes else newest.number
    return History(newest.table, before.number if limit is None else first, tuple(reversed(changes)))


def _read_start(directory: TableDirectory, newest: State, number: int) -> State:
    """Return the newest state up to a number from which on all entries are there, or the oldest one after it."""
    listing = list_log(directory, newest.table, newest_only=True)
    first = _entries(listing, newest.number).start
    states = [0] if first == 1 else []
    states += [n for n in sorted(listing.checkpoints) if first - 1 <= n <= newest.number]
    earlier = [n for n in states if n <= number]
    # A damaged checkpoint is passed over.
    for n in (*reversed(earlier), *states[len(earlier) :]):
        with suppress(CommitError, NoFilesError):
            state = read_state(directory, n) if n else State(newest.table)
            if state is not None and state.table == newest.table:
                return state
    return newest


def retained_entries(directory: TableDirectory, table: str) -> range:
    """Return the numbers of the entries of a log that are retained. One listing."""
    listing = list_log(directory, table, newest_only=True)
    return _entries(listing, listing.newest)


def first_since(directory: TableDirectory, table: str, numbers: range, time_ns: int) -> int:
    """Return the number of the first entry of a time or later; the one after `numbers` if there is none.

    Times never go back from an entry to the next, so that few entries are read: as many as a search by halves needs.
    """

    def time_of(number: int) -> int:
        return read_entry(directory, table, number).time * 1_000_000

    return numbers.start + bisect_left(numbers, time_ns, key=time_of)


def _entries(listing: Listing, newest: int) -> range:
    """Return the numbers of the unbroken run of entries that ends with the newest."""
    first = newest + 1
    while first - 1 in listing.numbers:
        first -= 1
    return range(first, newest + 1)


def _change(entry: Entry, rows: dict[str, int], *, is_void: bool) -> Change:
    """Return what an entry did; `rows` has those of files by path, and is brought up to date."""
    removed = () if is_void else entry.remove
    added = dict(zip(entry.add.paths, entry.add.rows.tolist(), strict=True)) if not is_void else {}
    counts = [rows.pop(file.path) for file in removed if file.path in rows]
    rows |= added
    return Change(
        entry.number,
        entry.time,
        entry.operation,
        is_void,
        len(added),
        sum(added.values()),
        0 if is_void else int(entry.add.nbytes.sum()),
        len(removed),
        sum(counts) if len(counts) == len(removed) else None,
        sum(file.nbytes for file in removed),
        entry.application,
        entry.user,
        entry.job,
        entry.token,
        None if entry.batch is None else entry.batch.query,
        None if entry.batch is None else entry.batch.number,
        entry.restores,
    )
