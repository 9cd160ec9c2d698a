"""`Snapshot`: the files of a table at one moment: those that its log counts, and the unmanaged ones that are listed.

How it works
------------
A managed file counts if the log says so. An unmanaged file counts if it is listed, and no removal of it is open: it has no
tombstone of its path, its size, and its version or digest. So both have to be read, and they change meanwhile:

- log, then listing: an overwrite commits in between and deletes unmanaged files. The old state lacks its rows, and the
  listing no longer has the old ones: rows are missing.
- listing, then log: an overwrite is collected and its tombstones are closed in between. The listing still has the old
  files, and nothing in the new state hides them: removed rows are back.

A reader therefore reads **log, listing, log**: the second state counts, and unmanaged files are hidden that have a tombstone
which is open in it, or was closed since the first state.

A managed file that counts and is not listed is an error that names the entry which added it, once a second look at the log
has shown that no later entry removed it. It is never fewer rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, TypeVar

from spark_arrow_ipc.dataset.listing.data_file import SAMPLED_NBYTES, DataFile, sample_version
from spark_arrow_ipc.dataset.listing.directory import dangling_link_error, is_hidden
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, UnsupportedError
from spark_arrow_ipc.storage.paths import name_of, relative
from spark_arrow_ipc.storage.storage import Kind, Status, each
from spark_arrow_ipc.table.checks import check_entries, check_id, ids_in
from spark_arrow_ipc.table.entry import Removed
from spark_arrow_ipc.table.log import create_table, read_newer, read_state
from spark_arrow_ipc.table.names import STAGED_SUFFIX, TableDirectory, is_table_id
from spark_arrow_ipc.table.state import State

_ATTEMPTS: Final = 8

Listed = Mapping[str, Status]
"""Data files by their path relative to the table."""


_File = TypeVar("_File", Status, DataFile)


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The files of a table at one moment.

    Parameters
    ----------
    directory
        The table.
    state
        What its log counts; None without a log.
    unmanaged
        Files of other programs, by relative path.
    managed
        Managed files that count.
    """

    directory: TableDirectory
    state: State | None
    unmanaged: Listed
    managed: Listed

    @classmethod
    def open(cls, directory: TableDirectory) -> Snapshot:
        """Return the newest snapshot. Two readings of the log and a listing of the table.

        Raises
        ------
        CommitError
            The log is broken or lost, or a file that it counts is missing or of another size.
        ConcurrentWriteError
            Other jobs committed during each of the attempts.
        """
        # A writer that commits once a second leaves time for one of them.
        for _ in range(_ATTEMPTS):
            first = read_state(directory)
            listing = list_data_files(directory, check_links=True)
            state = read_state(directory) if first is None else read_newer(directory, first)
            if not is_one_table(first, state):
                continue
            if state is None:
                check_id(directory, ids_in(listing))
                return cls(directory, None, listing, {})
            strangers = sorted(listing.keys() - set(state.files.paths))
            unmanaged = Removals(directory, first, state).count({path: listing[path] for path in strangers})
            missing = _missing(directory, state, listing)
            if missing is None:
                return cls(directory, state, unmanaged, {path: listing[path] for path in state.files.paths})
            again = read_newer(directory, state)
            # A later entry may have removed it: then this snapshot is only an old one.
            if again is not None and again.entry == state.entry:
                raise missing_file(directory, state, *missing)
        raise ConcurrentWriteError(
            f"other jobs were committed during each of {_ATTEMPTS} listings", path=directory.root
        )


def list_data_files(directory: TableDirectory, *, check_links: bool = False) -> dict[str, Status]:
    """Return all visible files below a table, by relative path. One listing for each directory.

    Raises
    ------
    UnsupportedError
        The directory of a partition is a link: what is below it is not in the table.
    NoFilesError
        With `check_links`: a link leads to nothing.
    """
    storage = directory.storage
    files: dict[str, Status] = {}
    level = [directory.root]
    while level:
        below: list[str] = []

        def visit(path: str, below: list[str] = below) -> None:
            with suppress(FileNotFoundError):  # another job has deleted the empty directory
                for status in storage.list(path):
                    name = relative(status.path, directory.root)
                    # Staged and retained files, the log, and what Spark and others hide.
                    if is_hidden(name_of(status.path)) or name.endswith(STAGED_SUFFIX):
                        continue
                    if status.kind is Kind.DIRECTORY:
                        # Nothing below it is deleted or counted: it may lead anywhere.
                        if not status.is_link:
                            below.append(status.path)
                        elif "=" in name:  # readers follow it: some of the rows would not be in the table
                            raise UnsupportedError(
                                "a table does not follow links, and this directory of a partition is one; remove it or "
                                "write elsewhere",
                                path=status.path,
                            )
                    elif status.kind is Kind.FILE:
                        files[name] = status
                    elif check_links and status.kind is Kind.DANGLING:
                        raise dangling_link_error(status.path)

        each(visit, level, waits=storage.traits.waits)
        level = below
    return files


def open_table(directory: TableDirectory) -> str:
    """Return the id of a table, which is made if there is none (`create_table`); `CommitError` if it was lost."""

    def check() -> None:
        names = {name_of(status.path) for status in directory.storage.list(directory.log)}
        # Mostly there are none, and the table is not listed.
        if any(is_table_id(name) for name in names):
            check_id(directory, ids_in(list_data_files(directory)))

    return create_table(directory, check=check)


def removal_of(directory: TableDirectory, path: str, status: Status) -> Removed:
    """Return the removal of an unmanaged file, as it is listed.

    Where a storage has no versions the time stands for one, with a digest of the file's bytes (`sample_version`). One read.
    """
    if status.version:
        return Removed(path, status.nbytes, status.version)
    removed = Removed(path, status.nbytes, str(status.mtime_ns), _digest(directory, status))
    # The digest of a file that was written since would stand for rows that the job has not read.
    now = directory.storage.status(directory.path(path), follow_links=False)
    if now is None or (now.nbytes, now.mtime_ns) != (status.nbytes, status.mtime_ns):
        raise ConcurrentWriteError("another writer changed this file meanwhile; write again", path=directory.path(path))
    return removed


class Match(Enum):
    """The result of comparing a file with a removal of its path."""

    SAME = auto()
    """It is the removed one: it has the size and the version, or all of the bytes."""
    OTHER = auto()
    """It is another one."""
    UNSURE = auto()
    """It has the size and the sampled bytes, and another time: a copy of the removed one, or a new file."""


def compare(directory: TableDirectory, removed: Removed, status: Status | DataFile) -> Match:
    """Compare the file at the path of a removal with the removed one. Reads bytes only if the time differs."""
    # The size is in every listing, so that most files are told apart without a read.
    if removed.nbytes != status.nbytes:
        return Match.OTHER
    if removed.is_managed or removed.version == (status.version or str(status.mtime_ns)):
        return Match.SAME
    # `cp -r` and `touch` change the time of a file, and not its bytes.
    if not removed.digest or removed.digest != _digest(directory, status):
        return Match.OTHER
    return Match.SAME if removed.nbytes <= SAMPLED_NBYTES else Match.UNSURE


def is_removed(directory: TableDirectory, removed: Removed, status: Status | DataFile) -> bool:
    """Return whether the file at the path of a removal is the removed one for certain."""
    return compare(directory, removed, status) is Match.SAME


def is_one_table(first: State | None, second: State | None) -> bool:
    """Return whether two states are of one table, and the second remembers all that was closed since the first."""
    if first is None or second is None:
        return first is second
    # A log that goes back is a backup that was put back, or a listing that is older than the first.
    return first.table == second.table and first.number <= second.number and second.horizon <= first.number + 1


class Removals:
    """The removals that hide listed files of other programs, by the states before and after they were listed."""

    def __init__(self, directory: TableDirectory, first: State | None, state: State) -> None:
        self._directory, self._state = directory, state
        closed_before = 0 if first is None else first.number
        self._hidden: dict[str, list[Removed]] = {}
        for removed in (*state.tombstones, *(r for r, number in state.closed.items() if number > closed_before)):
            # Most are managed, and hidden by their names.
            if not removed.is_managed:
                self._hidden.setdefault(removed.path, []).append(removed)

    def count(self, files: Mapping[str, _File]) -> dict[str, _File]:
        """Return those of the listed files, which the log does not have, that count.

        Raises
        ------
        CommitError
            Of one of them, nothing tells whether it is removed; or the entries of the log are lost.
        """
        unmanaged = {}
        for path, status in files.items():
            # It belongs to a job that has not committed, or to a copy.
            if self._state.is_managed(path):
                check_entries(self._directory, self._state, path)
                continue
            if not any(self._hides(removed, status) for removed in self._hidden.get(path, ())):
                unmanaged[path] = status
        return unmanaged

    def _hides(self, removed: Removed, status: Status | DataFile) -> bool:
        match = compare(self._directory, removed, status)
        # A removal is closed once its file is gone for certain: what is like it came after that.
        tombstone = self._state.tombstones.get(removed)
        if match is Match.UNSURE and tombstone is not None:
            raise CommitError(
                f"entry {tombstone.number} of the log removed a file of this name, this size and these bytes at all places "
                "that were sampled, and this one has another time: it may be a copy of that file, or a new one. Delete it, or "
                "give it another name to read it",
                path=status.path,
            )
        return match is Match.SAME


def missing_file(directory: TableDirectory, state: State, path: str, status: Status | None) -> CommitError:
    """Return the error of a file that the log counts and that is not there, or is of another size."""
    i = state.files.paths.index(path)
    return CommitError(
        f"entry {state.files.numbers[i]} of the log added this file of {state.files.nbytes[i]:,} bytes, and it is "
        f"{'missing' if status is None else f'of {status.nbytes:,} bytes'}; no rows are left out silently. Restore it from a "
        f"copy, or see 'arrowipc fsck {directory.root}'",
        path=directory.path(path),
    )


def _digest(directory: TableDirectory, status: Status | DataFile) -> str:
    try:
        with closing(directory.storage.open(status.path)) as source:
            return sample_version(source, status.nbytes)
    except FileNotFoundError:
        return ""


def _missing(directory: TableDirectory, state: State, listing: dict[str, Status]) -> tuple[str, Status | None] | None:
    """Return a file that the log counts and that is not there with its size, and what is; None if all are listed now."""
    for path, nbytes in zip(state.files.paths, state.files.nbytes.tolist(), strict=True):
        status = listing.get(path)
        if status is None:  # named after its directory was listed, by a job that has committed since
            status = directory.storage.status(directory.path(path), follow_links=False)
        if status is None or status.nbytes != nbytes:
            return path, status
        listing[path] = status
    return None


def list_missing(directory: TableDirectory, state: State) -> dict[int, Status | None]:
    """Return the files of a state that are missing or of another size, by slot, and what is there. A listing of the table."""
    listing = list_data_files(directory)
    missing: dict[int, Status | None] = {}
    for i, (path, nbytes) in enumerate(zip(state.files.paths, state.files.nbytes.tolist(), strict=True)):
        status = listing.get(path)
        if status is None or status.nbytes != nbytes:
            missing[i] = status

    # One that was named while the table was listed is there now.
    def look_again(i: int) -> None:
        missing[i] = directory.storage.status(directory.path(state.files.paths[i]), follow_links=False)

    each(look_again, list(missing), waits=directory.storage.traits.waits)
    sizes = state.files.nbytes
    return {i: status for i, status in missing.items() if status is None or status.nbytes != sizes[i]}
