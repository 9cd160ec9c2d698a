"""Compare a job with what others changed since it was planned, each time that its entry is to be put.

A job is planned on the state of one moment, and others commit before it does. So each state that its entry may follow is
compared with that one:

- A job that replaces files conflicts with others that changed these files (`removed_files`; `Transaction.commit` compares the
  files themselves). Files that others add while a static overwrite runs stay, where they fit beside the new ones.
- A statement that changes rows relies on all rows that it has read, also on those that it does not change. It conflicts
  with entries that may have added or removed rows that it would have read (`check_isolation`).
- A job that keeps files conflicts with others whose partition columns or schema do not fit (`look_beside`). Where others
  added columns that may be null, or wider types, nothing of the job has to change: its entry says that reads have both.

Files of other programs that come meanwhile are in no entry. They stay and count, as if they came after the job.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import Field
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.partition_values import cast, exact_number, unescape_path_name
from spark_arrow_ipc.dataset.time_zones import parse_timestamp
from spark_arrow_ipc.dataset.write import IfExists, WriteMode
from spark_arrow_ipc.dataset.write.existing_files import (
    LiveFile,
    check_no_links,
    check_partition_columns_there,
    existing_file,
    existing_schema,
    live_files,
    partition_columns,
)
from spark_arrow_ipc.dataset.write.job_plan import CommitIntent, JobPlan
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    ConcurrentWriteError,
    NoFilesError,
    OptionError,
    SchemaMismatchError,
    join_texts,
)
from spark_arrow_ipc.storage.paths import SEPARATOR, above, parent
from spark_arrow_ipc.table.encoded_schema import encode_schema
from spark_arrow_ipc.table.entry import Operation, Removed
from spark_arrow_ipc.table.log import read_after, read_state
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.snapshot import Snapshot, removal_of
from spark_arrow_ipc.table.state import State

Fits: TypeAlias = Callable[[DataFile], bool]
"""Callback that returns whether a file has the schema of the new files."""


@dataclass(frozen=True, slots=True)
class NewSchema:
    """The schema of a job's files, and how it combines with the schema of other files."""

    files: Schema  # of files with rows: without partition columns
    placeholder: Schema  # of a file without rows, which is in no partition
    # Takes the schema of the files that stay, and a path for errors; returns the schema of a read of these and the new
    # files. Raises SchemaMismatchError if they do not fit.
    beside: Callable[[Schema, str], Schema]


@dataclass(frozen=True, slots=True)
class Beside:
    """The placeholder and the schema for a job's entry, after a look at the files that stay."""

    placeholder: Removed | None = None  # the file without rows that a partitioned job replaces
    schema: str = ""  # for the entry; empty if that of the state before it stays


_MOST_OPENED: Final = 1000
"""Most added files; each is opened for its schema."""


def is_left_out(job: JobPlan) -> bool:
    """Return True if others made files and `if_exists` is IGNORE; raise if it is ERROR."""
    intent, directory = job.intent, job.staging.directory
    if intent.if_exists is IfExists.APPEND or not (files := live_files(Snapshot.open(directory))):
        return False
    if intent.if_exists is IfExists.IGNORE:
        return True
    words = f"another writer made files ({join_texts([file.path for file in files])}) since this job was planned, and ifExists is error"
    raise ConcurrentWriteError(f"{words}; nothing is published", path=directory.root)


def removed_files(job: JobPlan, state: State, directories: Collection[str], fits: Fits | None) -> tuple[Removed, ...]:
    """Return the files that a job removes when it puts files into `directories`; raise if others changed what it needs."""
    intent, directory = job.intent, job.staging.directory
    replaced: Sequence[LiveFile] = ()
    added = [
        path for path, number in zip(state.files.paths, state.files.numbers.tolist(), strict=True) if number > job.base
    ]
    if intent.mode.replaces_chosen:
        replaced, added = intent.snapshot, []
    elif intent.mode is WriteMode.OVERWRITE:
        replaced = intent.snapshot
        # Files that others removed may have been rewritten: then the added files have rows that the job replaces.
        if state.last_removal <= job.base and may_stay(directory, state, added, intent.partition_by, fits):
            added = []
    elif intent.mode is WriteMode.DYNAMIC:
        touched = touched_directories(intent, directories, added)
        replaced = [file for file in intent.snapshot if is_in(file.path, touched)]
        added = [path for path in added if is_in(path, touched)]
    else:
        return ()
    if added:
        raise ConcurrentWriteError(
            f"another writer changed the directory since this job was planned ({join_texts(sorted(added))}); "
            "nothing is published, write again",
            path=directory.root,
        )
    check_no_links(directory, replaced)
    return tuple(_removal(directory, state, file) for file in replaced)


def touched_directories(intent: CommitIntent, directories: Collection[str], added: Sequence[str]) -> set[str]:
    """Return the relative directories whose files a dynamic overwrite replaces."""
    touched = {intent.partition} if intent.partition else set(directories)
    if intent.partition_by:
        levels = len(intent.partition.split("/")) if intent.partition else len(intent.partition_by)
        existing = {parent(path) for path in (*(file.path for file in intent.snapshot), *added)}
        touched |= PartitionValues(intent.partition_by[:levels]).same(touched, existing)
    return touched


_AROUND_ROWS: Final = frozenset({Operation.APPEND, Operation.REWRITE, Operation.DELETE, Operation.UPDATE})
_AROUND_TABLES: Final = frozenset({Operation.REWRITE})
"""The operations of entries that may come between the read and the commit of a statement: the first for a statement that
depends on single rows (DELETE, UPDATE), the second for one that depends on all rows of the table (MERGE).

The result must be that of one after the other. An append takes effect after a DELETE or UPDATE, which has not read its
rows. DELETEs and UPDATEs of different files may take effect in either order. A MERGE inserts rows because no row matches,
so it must have read all rows; and another statement must not have missed the rows that the MERGE adds."""

_MAINTENANCE: Final = frozenset({Operation.EXPIRE, Operation.CLOSE})


def check_isolation(job: JobPlan, state: State) -> None:
    """Raise if entries between the read of a statement and a state may have added or removed rows that it relies on."""
    intent, directory = job.intent, job.staging.directory
    reads_all = intent.reads_all or intent.mode is WriteMode.MERGE
    if not (reads_all or intent.mode.changes_rows) or state.number == job.base:
        return
    may_precede = _AROUND_TABLES if reads_all else _AROUND_ROWS
    words = f"since this {intent.mode.value} has read the table; nothing is published, run it again"
    try:
        base = read_state(directory, job.base) if job.base else State(state.table)
        entries = () if base is None else read_after(directory, base, state.number, state.number)
    except NoFilesError as error:
        raise ConcurrentWriteError(
            f"the log no longer has all entries {words} ({error.message})", path=directory.root
        ) from error
    for entry in entries:
        if entry.operation not in may_precede | _MAINTENANCE:
            raise ConcurrentWriteError(
                f"log entry {entry.number} ({entry.operation}) was committed {words}", path=directory.root
            )


def _removal(directory: TableDirectory, state: State, file: LiveFile) -> Removed:
    """Return the removal of a file as the job has seen it; raise if another program changed it since."""
    if state.is_managed(file.path):
        return Removed(file.path, file.nbytes)
    status = directory.storage.status(directory.path(file.path), follow_links=False)
    seen = file.version or file.mtime_ns
    if status is None or (status.nbytes, status.version or status.mtime_ns) != (file.nbytes, seen):
        raise ConcurrentWriteError(
            f"another program changed {file.path} since this job was planned; nothing is published, write again",
            path=directory.root,
        )
    return removal_of(directory, file.path, status)


def look_beside(
    job: JobPlan, state: State, new: NewSchema | None, *, adds: bool, is_placeholder: bool = False
) -> Beside:
    """Compare the files that stay with new ones; `ConcurrentWriteError` if the new ones do not fit.

    Without a new schema, reads keep the schema of the state before or, if that has none, of the newest file.
    """
    intent, directory = job.intent, job.staging.directory
    if not adds:
        return Beside()
    if is_placeholder and intent.mode.changes_rows:  # it replaces the last file
        return Beside(None, "" if new is None else encode_schema(new.placeholder, directory.root))
    keeps = intent.mode is not WriteMode.OVERWRITE and (intent.partition_by is not None or new is not None)
    existing = existing_file(directory, state) if keeps else None
    try:
        replaced = None
        if intent.partition_by is not None and existing is not None:
            replaced = check_partition_columns_there(existing, intent.partition_by, directory)
        placeholder = None
        if replaced is not None:
            status = directory.storage.status(directory.path(replaced.path), follow_links=False)
            if status is not None:
                seen = LiveFile(replaced.path, status.nbytes, status.mtime_ns, status.version)
                placeholder = _removal(directory, state, seen)
        if new is None:
            return Beside(placeholder)
        schema = new.placeholder if is_placeholder else new.files
        kept = None if existing is None or replaced is not None else existing_schema(existing, directory, state)
        if kept is not None:
            schema = new.beside(kept.schema, kept.path)
    except (OptionError, SchemaMismatchError) as error:
        raise ConcurrentWriteError(f"another writer was faster: {error.message}", path=directory.root) from error
    return Beside(placeholder, encode_schema(schema, directory.root))


def may_stay(
    directory: TableDirectory,
    state: State,
    added: Sequence[str],
    partition_by: Sequence[Field] | None,
    fits: Fits | None,
) -> bool:
    """Return whether added files can be read beside those of an overwrite; False without `fits`. Opens each of them."""
    if not added:
        return True
    if fits is None or partition_by is None or len(added) > _MOST_OPENED:
        return False
    names = tuple(field.name for field in partition_by)
    sizes = dict(zip(state.files.paths, state.files.nbytes.tolist(), strict=True))
    return all(
        partition_columns(parent(path)) == names and fits(DataFile(directory.path(path), sizes[path], 0))
        for path in added
    )


Key = tuple[tuple[str, object], ...]
"""The columns of a directory in lower case, and their values."""


_NAN: Final = "NaN"


class PartitionValues:
    """Compares relative directories by the values of partition columns, with the types of the written table.

    Columns with other names are compared as strings.
    """

    def __init__(self, fields: Sequence[t.Field]) -> None:
        self._types = {field.name.lower(): field.type for field in fields}
        self._levels = len(fields)
        self._values: dict[tuple[str, str], object] = {}

    def key(self, directory: str) -> Key:
        """Return a value that is equal for directories of the same partition."""
        return tuple(self._part(part) for part in directory.split("/")) if directory else ()

    def same(self, directories: Collection[str], others: Collection[str]) -> set[str]:
        """Return the partitions of the directories `others` that are the partition of one of `directories`."""
        keys = {self.key(directory) for directory in directories}
        partitions = {SEPARATOR.join(other.split(SEPARATOR)[: self._levels]) for other in others}
        return {partition for partition in partitions if self.key(partition) in keys}

    def _part(self, part: str) -> tuple[str, object]:
        escaped, _, string = part.partition("=")
        name = unescape_path_name(escaped).lower()
        if (name, string) not in self._values:
            self._values[name, string] = self._value(string, self._types.get(name, t.utf8))
        return name, self._values[name, string]

    @staticmethod
    def _value(string: str, type_: t.DataType) -> object:
        try:
            if isinstance(type_, t.Timestamp):
                return _moment(string)
            value = cast(string, type_)
        except (ArrowIpcError, ValueError):
            number = exact_number(string) if isinstance(type_, (t.Int, t.Decimal)) else None
            if number is not None:
                return number  # k=1.0 of another writer is the integer 1
            return "text", unescape_path_name(string)  # another writer's; no value of ours is equal to it
        return _NAN if value != value else value  # noqa: PLR0124 - only NaN differs from itself


def is_in(path: str, partitions: Collection[str]) -> bool:
    """Return whether a file is in one of some partitions, at any depth; the partition "" has files of the top directory only."""
    return any(directory in partitions for directory in above(path)) or ("" in partitions and not parent(path))


def _moment(string: str) -> object:
    """Return the instant or local time of a string. Times without a zone equal only each other: they have one zone."""
    value: datetime | None = parse_timestamp(unescape_path_name(string))
    return string if value is None else (value.tzinfo is None, value)
