"""Look at what others changed since a job was planned, each time that its record is to be made.

A job is planned against the files of one moment, and others commit before it does. So after each lost race for a number
of the chain, the newest record and the files say what is there by now:

- A job that replaces files conflicts with others that changed these files (`check_unchanged`). Files that others add
  while a static overwrite runs stay, where they fit beside the new ones.
- A job that keeps files conflicts with others whose partition columns or schema do not fit (`look_beside`). Where others
  added columns that may be null, or wider types, nothing of the job has to change: its record says that reads have both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import Field
from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory, StagedFile
from spark_arrow_ipc.dataset.commit_log.log import read_changes
from spark_arrow_ipc.dataset.commit_log.record import WITHDRAWN, Record
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.partition_values import cast, exact_number, unescape_path_name
from spark_arrow_ipc.dataset.time_zones import parse_timestamp
from spark_arrow_ipc.dataset.write import IfExists, WriteMode
from spark_arrow_ipc.dataset.write.existing_files import (
    LiveFile,
    check_partition_columns_there,
    existing_file,
    existing_schema,
    live_files,
    partition_columns,
)
from spark_arrow_ipc.dataset.write.job_plan import JobPlan
from spark_arrow_ipc.dataset.write.publisher import publisher_of
from spark_arrow_ipc.errors import ArrowIpcError, ConcurrentWriteError, OptionError, SchemaMismatchError, join_texts
from spark_arrow_ipc.storage.paths import SEPARATOR, above, parent
from spark_arrow_ipc.table.encoded_schema import encode_schema

Fits: TypeAlias = Callable[[DataFile], bool]
"""Callback that returns whether a file has the schema of the new files."""


@dataclass(frozen=True, slots=True)
class NewSchema:
    """The schema of a job's files, and how it goes with that of others."""

    files: Schema  # of files with rows: without partition columns
    placeholder: Schema  # of a file without rows, which lies in no partition
    # Returns the schema that a read has of the new files and of those that stay, from the schema of the latter and a
    # path for errors. Raises SchemaMismatchError if they do not fit.
    beside: Callable[[Schema, str], Schema]


@dataclass(frozen=True, slots=True)
class Beside:
    """The placeholder and the schema for a job's record, after a look at the files that stay."""

    placeholder: LiveFile | None = None  # the file without rows that a partitioned job replaces
    schema: str | None = None  # for the record; None if that of the record before it stays


_MOST_OPENED: Final = 1000
"""Most added files; each is opened for its schema."""


def is_left_out(job: JobPlan, before: Record | None) -> bool:
    """Return whether others made files and the job is then not to add to them; raise if that is an error."""
    intent, dataset = job.intent, job.staging.dataset
    if intent.copies is not None and intent.copies != ("" if before is None else before.jobid):
        raise ConcurrentWriteError("another job wrote here meanwhile; nothing is published", path=dataset.root)
    if intent.if_exists is IfExists.APPEND or not (files := live_files(dataset)):
        return False
    if intent.if_exists is IfExists.IGNORE:
        return True
    words = f"another writer made files ({_paths(files)}) since this job was planned, and ifExists is error"
    raise ConcurrentWriteError(f"{words}; nothing is published", path=dataset.root)


def is_only_added(job: JobPlan, seq: int, fits: Fits | None) -> bool:
    """Return whether since a record others only added files that stay: a static overwrite need not list again.

    Between two listings of a large directory another append comes each time.
    """
    if job.intent.mode is not WriteMode.OVERWRITE:
        return False
    added = added_since(job.staging.dataset, seq)
    return added is not None and may_stay(job.staging.dataset, added, job.intent.partition_by, fits)


def check_unchanged(
    job: JobPlan, adds: Sequence[StagedFile], replaced: LiveFile | None, fits: Fits | None
) -> tuple[tuple[LiveFile, ...], bool]:
    """Return the files that the job removes, and whether these are all; raise if they changed."""
    intent, dataset = job.intent, job.staging.dataset
    if intent.mode is WriteMode.APPEND:
        return () if replaced is None else (replaced,), False
    is_all = False
    if intent.mode is WriteMode.OVERWRITE:
        before, now = intent.snapshot, live_files(dataset)
        is_all = now == before
        if {*before} <= {*now} and may_stay(dataset, sorted({*now} - {*before}, key=_path), intent.partition_by, fits):
            now = before
    elif intent.mode is WriteMode.REWRITE:
        before, replaces = intent.snapshot, {file.path for file in intent.snapshot}
        now = tuple(file for file in live_files(dataset, {*map(parent, replaces)}) if file.path in replaces)
    else:
        touched = {parent(file.final) for file in adds}
        if intent.partition_by:
            there = {parent(file.path) for file in intent.snapshot}
            touched |= PartitionValues(intent.partition_by).same(touched, there)
        before = tuple(file for file in intent.snapshot if is_in(file.path, touched))
        now = live_files(dataset, touched, deep=True)
    if now != before:
        raise ConcurrentWriteError(
            f"another writer changed the directory since this job was planned ({_paths({*now} ^ {*before})}); "
            "nothing is published, write again",
            path=dataset.root,
        )
    if replaced is None or replaced.path in {file.path for file in before}:
        return before, is_all
    return (*before, replaced), is_all


def check_removes(job: JobPlan, removes: Sequence[LiveFile]) -> None:
    """Raise if old files cannot be deleted or, where that is asked for, kept elsewhere."""
    staging = job.staging
    staging.storage.check_delete([staging.dataset.path(file.path) for file in removes])
    if job.intent.keep_replaced:
        publisher_of(staging.dataset).check((file.path, file.nbytes) for file in removes)


def look_beside(
    job: JobPlan,
    adds: Sequence[StagedFile],
    before: Record | None,
    new: NewSchema | None,
    *,
    is_placeholder: bool = False,
) -> Beside:
    """Look at the files that stay beside new ones; `ConcurrentWriteError` if the new ones do not fit.

    At most two calls of the storage, if the newest record names files. Without a new schema, reads have that of the record
    before (a copy), or of the newest file.
    """
    intent, dataset = job.intent, job.staging.dataset
    if not adds:
        return Beside()
    keeps = intent.mode is not WriteMode.OVERWRITE and (intent.partition_by is not None or new is not None)
    existing = existing_file(dataset, before) if keeps else None
    try:
        replaced = None
        if intent.partition_by is not None and existing is not None:
            replaced = check_partition_columns_there(existing, intent.partition_by, dataset)
        placeholder = None if replaced is None else replaced.as_live_file()
        if new is None:
            return Beside(placeholder)
        schema = new.placeholder if is_placeholder else new.files
        there = None if existing is None or replaced is not None else existing_schema(existing, dataset, before)
        if there is not None:
            schema = new.beside(there.schema, there.path)
    except (OptionError, SchemaMismatchError) as error:
        raise ConcurrentWriteError(f"another writer was faster: {error.message}", path=dataset.root) from error
    return Beside(placeholder, encode_schema(schema, dataset.root))


def added_since(dataset: DatasetDirectory, seq: int) -> tuple[LiveFile, ...] | None:
    """Return the files that jobs after a record have added; None if that is unknown, or they did something else.

    Reads the records that follow, which must be applied.
    """
    changes = read_changes(dataset, seq)
    if changes is None:
        return None
    if any(
        change.record.mode not in (WriteMode.APPEND.value, WITHDRAWN) or change.record.removes for change in changes
    ):
        return None
    return tuple(LiveFile(add.final, add.nbytes, 0) for change in changes for add in change.record.adds)


def may_stay(
    dataset: DatasetDirectory, added: Sequence[LiveFile], partition_by: Sequence[Field] | None, fits: Fits | None
) -> bool:
    """Return whether added files can be read beside those of an overwrite; False without `fits`. Opens each of them."""
    if fits is None or partition_by is None or len(added) > _MOST_OPENED:
        return False
    names = tuple(field.name for field in partition_by)
    return all(
        partition_columns(parent(file.path)) == names
        and fits(DataFile(dataset.path(file.path), file.nbytes, file.mtime_ns))
        for file in added
    )


def _path(file: LiveFile) -> str:
    return file.path


def _paths(files: Sequence[LiveFile] | set[LiveFile]) -> str:
    return join_texts(sorted({file.path for file in files}))


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
        """Return the partitions in which `others` lie, of those that are the same as one of `directories`."""
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
    """Return whether a file lies in one of some directories or, of a partition's, anywhere below."""
    return any(directory in partitions for directory in above(path)) or ("" in partitions and not parent(path))


def _moment(string: str) -> object:
    """Return the instant or local time of a string; the zone of a time without one is that of the job's other times."""
    value: datetime | None = parse_timestamp(unescape_path_name(string))
    return string if value is None else (value.tzinfo is None, value)
