"""Time travel: list the files of a table after an older entry of its log.

A version is the number of an entry. Its files are those of the state after that entry; each is at its path, because it still
counts or is not collected yet, or where the table retains it. If one of them is gone, the version is refused: never fewer rows.

The log does not know when files of other programs came: while a table has any, no version can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spark_arrow_ipc.dataset.listing.data_file import DataFile, time_text
from spark_arrow_ipc.dataset.listing.globs import is_pattern
from spark_arrow_ipc.errors import ConcurrentWriteError, NoFilesError, OptionError, UnsupportedError
from spark_arrow_ipc.storage.paths import parent
from spark_arrow_ipc.storage.storage import Status, Storage, each
from spark_arrow_ipc.table.documents import of_other_programs
from spark_arrow_ipc.table.history import first_since, read_history, retained_entries
from spark_arrow_ipc.table.log import read_after, read_entry, read_state
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.snapshot import Snapshot
from spark_arrow_ipc.table.state import Replay, State


class Version(NamedTuple):
    """A version of a table: the number of an entry, or the newest entry at or before a time."""

    number: int | None = None
    time_ns: int | None = None  # nanoseconds since 1970


def list_version(
    storage: Storage, paths: Sequence[str], version: Version
) -> tuple[TableDirectory, State, dict[str, tuple[DataFile, ...]]]:
    """Return the table at a path, its state in a version, and the files of that by directory.

    Raises
    ------
    OptionError, NoFilesError
        The paths are not the directory of one table, or the version is not there.
    UnsupportedError
        The table has files of other programs.
    """
    if len(paths) != 1 or is_pattern(paths[0]):
        raise OptionError(
            "versionAsOf and timestampAsOf read one table: give its directory as the only path, without a pattern, and "
            "unite the reads of several tables"
        )
    directory = TableDirectory.at(storage.real_path(storage.resolve(paths[0])), storage)
    now = Snapshot.open(directory)
    if now.state is None:
        raise NoFilesError(
            "versionAsOf and timestampAsOf read older versions of a table, and this directory has no log: give the directory "
            "of a table, and the option where for some of its partitions",
            path=directory.root,
        )
    unmanaged = of_other_programs(now)
    if unmanaged:
        raise UnsupportedError(
            f"{len(unmanaged):,} files of other programs, such as {min(unmanaged)}, are in no log entry, so that no "
            "older version of this table can be read: the log does not know when they came; move them out of the table",
            path=directory.root,
        )
    number = version.number
    if number is None:
        assert version.time_ns is not None
        number = _number_at(directory, now.state.table, version.time_ns)
    try:
        state = read_state(directory, number)
    except NoFilesError as error:
        if number > now.state.number:
            raise
        raise _gone(directory, now, number, "its log entry is no longer retained") from error
    if state is None or state.table != now.state.table:
        raise ConcurrentWriteError("the table was removed meanwhile; read it again", path=directory.root)
    sizes = dict(zip(state.files.paths, state.files.nbytes.tolist(), strict=True))
    files = _find_files(now, sizes)
    missing = min(sizes.keys() - files.keys(), default=None)
    if missing is not None:
        raise _gone(directory, now, number, f"{missing} was removed and is not retained")
    leaves: dict[str, list[DataFile]] = {}
    for path in sorted(files):
        leaves.setdefault(parent(directory.path(path)), []).append(files[path])
    return directory, state, {path: tuple(leaf) for path, leaf in leaves.items()}


def _number_at(directory: TableDirectory, table: str, time_ns: int) -> int:
    """Return the number of the newest entry at or before a time, by the times in the entries, as a history shows them."""
    numbers = retained_entries(directory, table)
    number = first_since(directory, table, numbers, time_ns + 1) - 1
    if number not in numbers:
        oldest = "none is retained"
        if numbers:
            time = read_entry(directory, table, numbers.start).time * 1_000_000
            oldest = f"the oldest is entry {numbers.start}, of {time_text(time)}"
        raise NoFilesError(
            f"no log entry of this table that is retained is as old as timestampAsOf; {oldest}", path=directory.root
        )
    return number


def _find_files(now: Snapshot, sizes: dict[str, int]) -> dict[str, DataFile]:
    """Return the files that are there, at their path or retained, by relative path. Requests for each that does not count now."""
    directory, files = now.directory, dict[str, DataFile]()
    statuses: dict[str, Status] = {path: now.managed[path] for path in sizes.keys() & now.managed.keys()}
    removed = sorted(sizes.keys() - now.managed.keys())
    numbers = directory.list_replaced() if removed else []

    def find(path: str) -> None:
        # First where it was: it may be moved meanwhile.
        for possible in (directory.path(path), *(directory.replaced(number, path) for number in numbers)):
            status = directory.storage.status(possible, follow_links=False)
            if status is not None and status.nbytes == sizes[path]:
                statuses[path] = status
                return

    each(find, removed, waits=directory.storage.traits.waits)
    for path, status in statuses.items():
        full = directory.path(path)
        # A file that is retained has a version of its own.
        files[path] = DataFile(full, sizes[path], status.mtime_ns, (), status.version if status.path == full else "")
    return files


def _gone(directory: TableDirectory, now: Snapshot, number: int, why: str) -> NoFilesError:
    return NoFilesError(
        f"version {number} of this table can no longer be read: {why}; the oldest version that can be read is "
        f"{_oldest(directory, now)}. The option retention of writes says for how long versions are there",
        path=directory.root,
    )


def _oldest(directory: TableDirectory, now: Snapshot) -> int:
    """Return the oldest version whose files are all there. Two reads for each entry that is retained."""
    assert now.state is not None
    before = read_history(directory).before
    state = (read_state(directory, before) if before else None) or State(now.state.table)
    entries = read_after(directory, state, now.state.number, now.state.number)
    sizes = dict(zip(state.files.paths, state.files.nbytes.tolist(), strict=True))
    for entry in entries:
        sizes |= dict(zip(entry.add.paths, entry.add.nbytes.tolist(), strict=True))
    lacking = sizes.keys() - _find_files(now, sizes).keys()
    gone = lacking.intersection(state.files.paths)
    if before and not gone:
        return before
    replay = Replay(state)
    for entry in entries:
        if replay.apply(entry):
            gone |= lacking.intersection(entry.add.paths)
            gone -= {removed.path for removed in entry.remove}
        if not gone:
            return entry.number
    return now.state.number
