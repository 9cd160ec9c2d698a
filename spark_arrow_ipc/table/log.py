"""The log of a table: read its state, append entries, write checkpoints, and prune what is no longer needed.

How it works
------------
The table's id is put if absent before the first job makes any file, so that all files of the table have it in their
names. Entries are put if absent: of all processes that put one number, one succeeds, and that put is the commit.

A read takes the newest checkpoint and the entries after it. It accepts them only as an **unbroken run**: each entry names
the one before it, and the entry after a checkpoint names the checkpoint's. A process that paused for long may put an
entry at a number that was pruned meanwhile; nothing names such an entry, so nobody reads it, and it stays until it is
pruned. (Deleting it could delete a committed entry: the process cannot tell the two apart.)

A listing may be older than the entries that are read after it, and entries may be pruned while they are read. So a run
that is broken is read again, from the id on, before it is an error.

A checkpoint is written after each `CHECKPOINT_INTERVAL` entries. It is a function of entries only and is put if absent,
so that it does not matter who writes it, nor how often. A damaged one is passed over with a warning: the one before it and
the entries after that give the same state, which is why the second newest checkpoint, and all after it, are never pruned.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from typing import Final

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    CommitError,
    FileChangedError,
    LimitError,
    NoFilesError,
    UnsupportedError,
    error_context,
    printable,
)
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.base import check_small, replacement_error
from spark_arrow_ipc.storage.storage import Status, Storage, each
from spark_arrow_ipc.table.checkpoint import MAX_CHECKPOINT_NBYTES, decode_checkpoint, encode_checkpoint, warn_of_damage
from spark_arrow_ipc.table.entry import FORMAT, MAX_ENTRY_NBYTES, Entry
from spark_arrow_ipc.table.log_listing import Listing, list_log
from spark_arrow_ipc.table.names import MAX_NUMBER, TableDirectory, is_table_id, new_id, new_table_id
from spark_arrow_ipc.table.state import State

CHECKPOINT_INTERVAL: Final = 32
"""A read opens at most so many entries; a checkpoint costs about as much as reading as many."""

CHECKPOINT_NBYTES: Final = 10 << 20
"""Entries of so many bytes are worth a checkpoint, however few they are."""

DEFAULT_RETENTION: Final = 7 * 24 * 3600
"""Seconds; streams and time travel reach as far back."""

LEAST_RETAINED: Final = 1000
"""So many of the newest entries are retained, however old they are."""

_ATTEMPTS: Final = 6
_MAX_ID_NBYTES: Final = 1024


class _BrokenRun(Exception):  # noqa: N818 - tells a read to begin again, and is never seen
    """The entries have a gap or a fault; the text says where."""


def read_table_id(directory: TableDirectory) -> str | None:
    """Return the id of a table, or None if there is no table. One read.

    Raises
    ------
    UnsupportedError
        The table is of a newer version of the protocol.
    CommitError
        The file is damaged.
    """
    path = directory.id_file
    try:
        data = directory.storage.read(path, _MAX_ID_NBYTES)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        directory.check()  # without its log, files of jobs that never committed would count
        return None
    except LimitError as error:
        raise CommitError(f"this is no table id: {error}", path=path) from error
    with error_context(path=path):
        try:
            values = parse_json(data)
            version, table = values["format"], values["table"]
        except (ValueError, TypeError, KeyError) as error:
            raise CommitError(
                "the id of the table is damaged, and without it no entry is found: restore this file; the name of the "
                "directory with the entries beside it is the id"
            ) from error
        if type(version) is int and version > FORMAT:
            raise UnsupportedError(
                f"this table is of version {version}, and this build of spark-arrow-ipc reads version {FORMAT}; read it "
                "with a newer one"
            )
        if version != FORMAT or not is_table_id(table):
            raise CommitError(expected="the id of a table", found=repr(table)[:100])
    return str(table)


def encode_table_id(table: str) -> bytes:
    """Return the content of the file with a table's id."""
    return json.dumps({"format": FORMAT, "table": table}).encode() + b"\n"


def create_table(directory: TableDirectory, *, check: Callable[[], None] = lambda: None) -> str:
    """Return the id of a table, which is made if there is none and `check` does not raise.

    The id is durable when this returns: a power loss must not take it once a file has it in its name.
    """
    storage = directory.storage
    storage.make_directory(directory.log)
    table = read_table_id(directory)
    if table is None:
        check()
        _check_put_if_absent(directory)
        with suppress(OSError):  # it may have been put all the same; the read decides
            storage.put_if_absent(directory.id_file, encode_table_id(new_table_id()), durable=True)
        table = read_table_id(directory)
    if table is None:
        raise CommitError("the id of the table could not be put; nothing is published", path=directory.id_file)
    # On a disk a directory has to be there before an entry; an object store needs none.
    storage.make_directory(directory.entries(table))
    storage.sync(directory.log)
    storage.sync(directory.root)
    failpoint.hit("planned.id")
    return table


def read_entry(directory: TableDirectory, table: str, number: int, listed: Status | None = None) -> Entry:
    """Read and check one entry, which must be the listed one if its state in a listing is given.

    Raises
    ------
    FileNotFoundError, FileChangedError
        It is not there, or is another one than the listed one.
    CommitError
        It is damaged.
    """
    path = directory.entry(table, number)
    with error_context(path=path):
        try:
            data = _read_listed(directory.storage, path, listed)
        except LimitError as error:
            raise CommitError(f"this is no log entry: {error}") from error
        return Entry.from_bytes(data, number)


def read_state(directory: TableDirectory, number: int | None = None) -> State | None:
    """Return the state of a table after its newest entry, or after the entry of a number; None if there is no table.

    Three requests and one for each entry after the checkpoint. A table without entries has the state of number 0.

    Raises
    ------
    NoFilesError
        There is no entry of that number, or it is no longer retained.
    UnsupportedError
        The log is of a newer version of the protocol.
    CommitError
        An entry is damaged or missing.
    """
    for attempt in range(_ATTEMPTS):
        table = read_table_id(directory)
        if table is None:
            return None
        listing = list_log(directory, table, newest_only=True)
        # The listing may be older than the entries: then the newest it has is a snapshot too.
        last = listing.newest if number is None else number
        if last > listing.newest:
            raise NoFilesError(
                expected=f"an entry {last} in the log of this table", found=f"entries up to {listing.newest}",
                path=directory.root,
            )  # fmt: skip
        try:
            return _read_run(directory, table, listing, last)
        except _BrokenRun as error:
            if attempt == _ATTEMPTS - 1:
                raise _broken(directory, table, listing, last, str(error)) from None
    raise AssertionError


def read_newer(directory: TableDirectory, state: State, *, confirm: bool = False) -> State | None:
    """Return the newest state of a table, as `read_state` does, from an earlier one.

    Two requests and one for each entry since: no checkpoint, which has all files, is read again. With `confirm` the log must
    still have the entry of the earlier state: a request more if no entry follows, which would name it.
    """
    if read_table_id(directory) == state.table:
        listing = list_log(directory, state.table, newest_only=True)
        with suppress(_BrokenRun):  # entries since the earlier state are pruned, or a backup was put back
            if confirm and listing.newest <= state.number:
                _confirm(directory, state, listing)
            numbers = range(state.number + 1, listing.newest + 1)
            return state.after(*_read_entries(directory, state.table, numbers, state.entry, listing))
    return read_state(directory)


def read_after(directory: TableDirectory, state: State, last: int, newest: int) -> tuple[Entry, ...]:
    """Read the entries after a state up to a number, of a log whose newest entry has the number `newest`.

    One request for each, and one for the entry after the last.

    Raises
    ------
    NoFilesError
        One of them is not retained any more, or does not follow the state.
    CommitError
        An entry is damaged.
    """
    # As in `_read_run`, the entry after the last names it.
    numbers = range(state.number + 1, min(last + 1, newest) + 1)
    try:
        entries = _read_entries(directory, state.table, numbers, state.entry, Listing({}, {}))
    except _BrokenRun as error:
        raise NoFilesError(f"{error}: it is no longer retained, or the log was replaced", path=directory.root) from None
    return entries[: last - state.number]


def follow(state: State, change: Entry) -> Entry:
    """Return a change as the entry that follows a state, with an id of its own and a time that never goes back."""
    if state.number == MAX_NUMBER:  # by a forged checkpoint only
        raise CommitError(f"no entry can follow number {MAX_NUMBER}; nothing is published")
    now_ms = time.time_ns() // 1_000_000
    return replace(
        change, number=state.number + 1, previous=state.entry, id=new_id(), time=max(state.time, now_ms)
    )  # fmt: skip


def _check_put_if_absent(directory: TableDirectory) -> None:
    """Raise if the store of a table replaces what is there: a table may have been moved to it since a job was planned."""
    # A request for each process at most. A disk is asked when a job is planned, as its file system does not change.
    if directory.storage.traits.may_come_late:
        directory.storage.check_put_if_absent(directory.log)


def append(directory: TableDirectory, state: State, entry: Entry) -> bool:
    """Put the entry that follows a state, and return whether this call put it: then it is the commit.

    False says that another process has put that number, or that an earlier request of this call has: the log tells.
    After an OSError the entry may be there, or may still come.
    """
    assert (entry.number, entry.previous) == (state.number + 1, state.entry)
    storage, path = directory.storage, directory.entry(state.table, entry.number)
    _check_put_if_absent(directory)
    # An entry that survives a power loss, while the one before it does not, would break the log for ever.
    storage.sync(directory.entries(state.table))
    is_put = storage.put_if_absent(path, entry.to_bytes(), durable=True)
    if is_put:
        storage.sync(directory.entries(state.table))
    return is_put


def is_checkpoint_due(listing: Listing) -> bool:
    """Return whether the entries after the newest checkpoint are many, or large."""
    # By the listing: another process may have written one since the state was read.
    newest = max(listing.checkpoints, default=0)
    since = [status.nbytes for number, status in listing.entries.items() if number > newest]
    return len(since) >= CHECKPOINT_INTERVAL or sum(since) >= CHECKPOINT_NBYTES


def write_checkpoint(directory: TableDirectory, state: State) -> None:
    """Write the checkpoint of a state if there is none."""
    storage = directory.storage
    storage.sync(directory.entries(state.table))  # all that it stands for is durable before it
    storage.put_if_absent(directory.checkpoint(state.table, state.number), encode_checkpoint(state), durable=True)
    storage.sync(directory.entries(state.table))


def retention_ns(state: State) -> int:
    """Return for how long a table retains entries and, if it retains them at all, removed files."""
    return (DEFAULT_RETENTION if state.retention is None else state.retention) * 10**9


def list_prunable(listing: Listing, state: State) -> list[Status]:
    """Return the entries and checkpoints that are older than the retention.

    The second newest checkpoint and all after it stay, and the newest `LEAST_RETAINED` entries. Ages are those of the
    storage, relative to the youngest entry: no clock of this machine decides.
    """
    # With one checkpoint, a damaged one would leave nothing to read.
    if len(listing.checkpoints) < 2:
        return []
    second = sorted(listing.checkpoints)[-2]
    oldest_ns = listing.time_ns - retention_ns(state)
    old = 0
    for number in sorted(listing.entries):
        if number > min(second, listing.newest - LEAST_RETAINED) or listing.entries[number].mtime_ns >= oldest_ns:
            break
        old = number
    # The log then begins with a checkpoint: every entry that stays can be reached.
    first = max((number for number in listing.checkpoints if number <= old), default=0)
    old_entries = [status for number, status in listing.entries.items() if number <= first]
    return old_entries + [status for number, status in listing.checkpoints.items() if number < first]


def prune(directory: TableDirectory, state: State, listing: Listing | None = None) -> list[str]:
    """Delete entries and checkpoints that are older than the retention, and return their paths."""
    listing = listing or list_log(directory, state.table)
    paths = [status.path for status in list_prunable(listing, state)]
    if paths:
        directory.storage.sync(directory.entries(state.table))
        directory.storage.delete_all(paths)
    return paths


# ---- an unbroken run


def _confirm(directory: TableDirectory, state: State, listing: Listing) -> None:
    """Raise a `_BrokenRun` unless the entry of a state is the newest one that is listed."""
    newest = listing.entries.get(state.number)
    with suppress(FileNotFoundError, FileChangedError):
        if not state.number and not listing.newest:
            return
        if newest is not None and read_entry(directory, state.table, state.number, newest).id == state.entry:
            return
    raise _BrokenRun(f"entry {state.number} is another one, or is missing")


def _read_run(directory: TableDirectory, table: str, listing: Listing, last: int) -> State:
    state = _read_up_to(directory, table, listing, last)
    # The entry after it names it. Among pruned entries, a late one of a paused process may be left, which nothing names.
    if last < listing.newest:
        _read_entries(directory, table, range(last + 1, last + 2), state.entry, listing)
    return state


def _read_up_to(directory: TableDirectory, table: str, listing: Listing, last: int) -> State:
    for number in sorted((n for n in listing.checkpoints if n <= last), reverse=True):
        state = _read_checkpoint(directory, table, number)
        if state is not None:
            entries = _read_entries(directory, table, range(number + 1, last + 1), state.entry, listing)
            return state.after(*entries)
    return State(table).after(*_read_entries(directory, table, range(1, last + 1), "", listing))


def _read_listed(storage: Storage, path: str, listed: Status | None) -> bytes:
    """Read a small file, which must be the listed one if its state in a listing is given."""
    if listed is not None and storage.traits.waits:
        check_small(path, listed.nbytes, MAX_ENTRY_NBYTES)
        with closing(storage.open(path, listed=listed)) as source:  # the request has a condition
            return bytes(source.read_at(0, listed.nbytes))
    data = storage.read(path, MAX_ENTRY_NBYTES)
    if listed is not None:
        status = storage.status(path)
        # Some storages round times to seconds in one of the two answers.
        if status is None or (status.nbytes, status.mtime_ns // 10**9) != (listed.nbytes, listed.mtime_ns // 10**9):
            raise replacement_error(path, "log entry")
    return data


def _can_confirm(listing: Listing, number: int) -> bool:
    """Return whether an entry can tell that a checkpoint is one of this log.

    A process that paused may put one whose entries are pruned; nobody can tell whether it is of this log, and nobody needs it.
    """
    return number == listing.newest or number + 1 in listing.numbers


def _read_entries(
    directory: TableDirectory, table: str, numbers: range, previous: str, listing: Listing
) -> tuple[Entry, ...]:
    """Read entries, several at once where that waits, and check that each names the one before it."""
    entries: dict[int, Entry] = {}

    def read(number: int) -> None:
        # The newest of a listing, which no entry confirms, may be another by now: after a pause in which it was pruned, a
        # process that paused, too, may have put its own in the hole.
        listed = listing.entries.get(number) if number == listing.newest else None
        with suppress(FileNotFoundError, FileChangedError):
            entries[number] = read_entry(directory, table, number, listed)

    # Each waits for a network, and up to 32 follow a checkpoint.
    each(read, numbers, waits=directory.storage.traits.waits)
    for number in numbers:
        if number not in entries:
            raise _BrokenRun(f"entry {number} is missing")
        if entries[number].previous != previous:
            raise _BrokenRun(f"entry {number} does not follow the one before it")
        previous = entries[number].id
    return tuple(entries[number] for number in numbers)


def _read_checkpoint(directory: TableDirectory, table: str, number: int) -> State | None:
    """Return the state of a checkpoint; None, with a warning, if it is damaged."""
    path = directory.checkpoint(table, number)
    try:
        with error_context(path=path):
            return decode_checkpoint(directory.storage.read(path, MAX_CHECKPOINT_NBYTES), table, number)
    except FileNotFoundError:
        raise _BrokenRun(f"checkpoint {number} is missing") from None
    except UnsupportedError:
        raise
    except ArrowIpcError as error:
        warn_of_damage(printable(str(error)))
        return None


def _broken(directory: TableDirectory, table: str, listing: Listing, last: int, why: str) -> ArrowIpcError:
    """Return the error of a log that cannot be read up to a number."""
    if last < listing.newest:
        # Among pruned entries, late ones of paused processes may be left, which lead nowhere.
        oldest = min((number for number in listing.checkpoints if _can_confirm(listing, number)), default=1)
        return NoFilesError(
            f"entry {last} of this table is no longer retained, or the log is damaged there ({why}); the oldest that can be "
            f"read is about {oldest}",
            path=directory.root,
        )
    return CommitError(
        f"the log of this table is broken: {why}. Nothing is read or written by it; restore {directory.entries(table)} "
        "from a copy, or see 'arrowipc fsck'",
        path=directory.root,
    )
