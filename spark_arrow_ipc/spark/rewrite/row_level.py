"""`RowLevelWriter`: the files that an SQL statement (DELETE, UPDATE, MERGE) has read are replaced by those that it writes.

How it works
------------
1. Spark reads all rows of the files with rows that match, changes or leaves out some, and hands over all others as they are
   (copy on write). Which files these are is known when its query runs, so the writer is planned then, by the JVM's
   `StatementWrite`: `statement_source` makes a data source with the partitions of the scan.
2. The scan has read one listing of the table. The job relies on the state of that listing (`ReadState`): the files are
   those that the scan has read, by size, time and version, and entries that were committed since conflict if the
   statement might have changed other rows after them (`conflicts.check_isolation`).
3. Types, metadata and columns stay, by the rules of `rewrite`. The new files have the columns of the table and of all files
   that are replaced; a column that the statement has not read would be lost, and is refused.
4. The entry of the log names the statement. Without a file to replace and without rows there is none.

Everything is checked before the first row is written.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any, Final, Self

from pyspark.sql import types as s
from pyspark.sql.datasource import DataSource, WriterCommitMessage

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.hive import Partitioning
from spark_arrow_ipc.dataset.scan.file_metadata import MetadataCache, MetadataOptions
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.scan.schemas import distinct_schemas, read_schemas
from spark_arrow_ipc.dataset.write import WriteMode, commit
from spark_arrow_ipc.dataset.write.conflicts import NewSchema
from spark_arrow_ipc.dataset.write.existing_files import LiveFile
from spark_arrow_ipc.dataset.write.job_plan import CommitIntent, JobPlan, ReadState, plan_job
from spark_arrow_ipc.dataset.write.staged_file import max_file_nbytes
from spark_arrow_ipc.errors import (
    CommitError,
    ConcurrentWriteError,
    FileChangedError,
    OptionError,
    SchemaMismatchError,
    UnsupportedError,
    join_texts,
)
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource, read_options
from spark_arrow_ipc.spark.options.declare import Use
from spark_arrow_ipc.spark.options.options import READING, WRITING, check_in_place, options_of, parse_write
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import Nanoseconds
from spark_arrow_ipc.spark.options.write_options import SparkWriteOptions
from spark_arrow_ipc.spark.process import short_errors, tune_worker
from spark_arrow_ipc.spark.read.columns import METADATA_COLUMNS
from spark_arrow_ipc.spark.read.dataset_schema import schema_for_spark
from spark_arrow_ipc.spark.read.exact import exact_reading
from spark_arrow_ipc.spark.read.reader import ArrowIpcInputPartition
from spark_arrow_ipc.spark.rewrite.in_place import check_spellings
from spark_arrow_ipc.spark.types.spark_annotation import without_nullability
from spark_arrow_ipc.spark.write.plan import WritePlan, plan_write
from spark_arrow_ipc.spark.write.same_types import check_types, with_metadata
from spark_arrow_ipc.spark.write.schema_check import unite_schemas
from spark_arrow_ipc.spark.write.writer import ArrowIpcBatchWriter, ArrowIpcCommitMessage
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import join
from spark_arrow_ipc.storage.storage import Storage
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.state import State


def select_files(partition: bytes, paths: str) -> ArrowIpcInputPartition:
    """Return a partition of the scan with its files among some paths, for a task."""
    planned: ArrowIpcInputPartition = pickle.loads(partition)  # noqa: S301 - Spark's planner pickled it in this session
    chosen = {*parse_json(paths)}
    return replace(planned, ranges=tuple(part for part in planned.ranges if part.path in chosen))


def statement_source(partitions: bytes, request: str) -> type[DataSource]:
    """Return a data source that writes the rows of a statement, from the pickled partitions of its scan.

    `request` has the ``command``, the number of ``partitions``, the columns that the catalog says the table is partitioned
    by (``partitionBy``), and the ``paths`` of the files with rows that match; without paths these are all files.
    """
    parsed = parse_json(request)
    stream = BytesIO(partitions)
    planned = [pickle.load(stream) for _ in range(parsed["partitions"])]  # noqa: S301 - as above
    statement = Statement.of(WriteMode(parsed["command"].lower()), planned, parsed.get("paths"), parsed["partitionBy"])

    class StatementSource(ArrowIpcDataSource):
        @short_errors
        def writer(self, schema: Any, overwrite: bool) -> ArrowIpcBatchWriter:
            if statement.mode is WriteMode.APPEND:
                return self.plan_writer(schema, overwrite, statement.read)
            writer = RowLevelWriter.of_statement(statement, schema, dict(self.options))
            tune_worker()
            return writer

    return StatementSource


@dataclass(frozen=True)
class StatementRows(WriterCommitMessage):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    """Spark's counts of the rows of a statement; None for one that this release does not count."""

    copied: int | None = None
    deleted: int | None = None
    updated: int | None = None
    inserted: int | None = None

    def check(self, mode: WriteMode, read: int | None, written: int, root: str) -> None:
        """Raise if rows were lost or added on their way from `read` rows, None if unknown, to `written` ones."""
        # Nothing would be left to recover lost rows from.
        absent = _ABSENT[mode]
        counts = [0 if name in absent else getattr(self, name) for name in ("copied", "updated", "inserted", "deleted")]
        if None not in counts:
            copied, updated, inserted, deleted = counts
            # A DELETE without a condition reads no rows, so that none are counted.
            balances = [(copied + updated + inserted, written)]
            if read is not None and (written or deleted):
                balances.append((copied + updated + deleted, read))
        else:
            balances = [(read, written)] if mode is WriteMode.UPDATE and read is not None else []
        for expected, found in balances:
            if expected != found:
                raise CommitError(
                    expected=f"{expected:,} rows by Spark's counts and the log",
                    found=f"{found:,}; nothing is published",
                    path=root,
                )

    def has_no_change(self, read: int | None, written: int) -> bool:
        """Return whether all rows of the replaced files, which the log counts, were copied."""
        return read == written and written in {0, self.copied}


_ABSENT: Final = {
    WriteMode.DELETE: ("updated", "inserted"),
    WriteMode.UPDATE: ("deleted", "inserted"),
    WriteMode.MERGE: (),
}
"""The kinds of rows that a statement does not have."""


def count_rows(_: bytes, counts: str) -> StatementRows:
    """Return Spark's counts, for the commit."""
    return StatementRows(**parse_json(counts))


@dataclass(frozen=True, slots=True)
class Statement:
    """What a statement has read."""

    mode: WriteMode
    files: Mapping[str, FileRange]  # all files of the scan, by path
    chosen: frozenset[str]  # paths of the files to replace
    partition_by: tuple[str, ...]  # names of the partition columns
    read: ReadState

    @classmethod
    def of(
        cls,
        mode: WriteMode,
        partitions: Iterable[ArrowIpcInputPartition],
        paths: Collection[str] | None,
        partition_by: Sequence[str] = (),
    ) -> Statement:
        """Return the statement that has read the rows of some partitions, or those of the files at some paths."""
        planned = list(partitions)
        files = {part.path: part for each in planned for part in each.ranges}
        chosen = frozenset(files if paths is None else paths)
        if unknown := chosen - files.keys():
            raise ConcurrentWriteError(
                f"the files {join_texts(sorted(unknown))} are not those that the statement has read; run it again"
            )
        check_spellings(planned, chosen)
        names = {tuple(field.name for field in each.partition_fields) for each in planned}
        read = {ReadState(each.table, each.entry) for each in planned}
        assert len(names) == len(read) == 1, "the partitions are of several plans"
        # Before the first file only the catalog knows the partition columns.
        return cls(mode, files, chosen, names.pop() if files else tuple(partition_by), read.pop())

    def choose(self, root: str, files: Sequence[LiveFile]) -> list[LiveFile]:
        """Return the files of the table that are to be replaced, which must be as they were read."""
        chosen = [file for file in files if join(root, file.path) in self.chosen]
        changed = [file.path for file in chosen if not self._is_read(join(root, file.path), file)]
        missing = self.chosen - {join(root, file.path) for file in chosen}
        if changed or missing:
            raise ConcurrentWriteError(
                f"another writer changed files that this {self.mode.value} has read ({min([*changed, *missing])}); nothing is "
                "changed, run it again",
                path=root,
            )
        return chosen

    def _is_read(self, path: str, file: LiveFile) -> bool:
        part = self.files[path]
        if part.version or file.version:
            return (part.nbytes, part.version) == (file.nbytes, file.version)
        return (part.nbytes, part.mtime_ns) == (file.nbytes, file.mtime_ns)


class RowLevelWriter(ArrowIpcBatchWriter):
    """Writes the rows of a statement and replaces files in one commit."""

    def __init__(self, job: JobPlan, plan: WritePlan, rows: int | None = None) -> None:
        super().__init__(job, plan)
        self._rows = rows

    @classmethod
    def of_statement(cls, statement: Statement, schema: s.StructType, options: Mapping[str, str]) -> Self:
        """Check a statement, plan its job and return the writer."""
        reading, writing = split_options(options)
        path = reading.paths[0]
        storage, root = storage_of(path, writing.storage)
        state = read_state(TableDirectory(storage, root))
        files = _Files(statement, reading, storage, root, state)
        try:
            plan = files.plan(schema, writing)
        except FileChangedError as error:
            raise ConcurrentWriteError(
                f"another writer changed files that this {statement.mode.value} has read ({error.message}); nothing is "
                "changed, run it again",
                path=root,
            ) from error
        max_file_nbytes(storage.traits, writing.max_file_bytes)
        intent = CommitIntent(statement.mode, partition_by=plan.partition_fields, retention=writing.retention)
        job = plan_job(
            root,
            intent,
            storage=storage,
            choose=lambda live: statement.choose(root, live),
            read=statement.read,
        )
        return cls(job, plan, files.rows())

    @short_errors
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Replace the files; change nothing if no row has changed."""
        counted = next((message for message in messages if isinstance(message, StatementRows)), StatementRows())
        outputs = [
            message.output if isinstance(message, ArrowIpcCommitMessage) else None
            for message in messages
            if not isinstance(message, StatementRows)
        ]
        written = sum(file.rows for output in outputs if output is not None for file in output.files)
        if not self._job.skip:
            counted.check(self._job.intent.mode, self._rows, written, self._job.staging.root)
        new = self._plan.file_schema
        commit.commit(
            self._job,
            outputs,
            write_empty=lambda: self._plan.write_empty(self._job.staging),
            is_changed=not counted.has_no_change(self._rows, written),
            schema=NewSchema(
                new,
                self._plan.columns.schema,
                lambda existing, path: unite_schemas((existing, path), (new, "the files that are made")),
            ),
        )


def split_options(options: Mapping[str, str]) -> tuple[ReadOptions, SparkWriteOptions]:
    """Parse the options of a table for a statement; `OptionError` if one leaves out rows or columns, or is none of a table."""
    options = options_of(options, READING, WRITING)
    check_in_place(options, Use.CHANGE)
    of_read, of_write = (options_of(options, side) for side in (READING, WRITING))
    reading = exact_reading(read_options(of_read), {name.lower() for name in of_read})
    if "nanoseconds" in map(str.lower, of_read) and reading.nanoseconds is Nanoseconds.FLOOR:
        raise OptionError(
            "nanoseconds=floor drops what is finer than Spark's types, and a statement writes all rows of a file again: give "
            "nanoseconds=error or long, or remove it from the options of the table. Nothing is changed"
        )
    if reading.reads_servers:
        raise OptionError("the table of a server is read and not changed; change the files that it serves")
    return reading, replace(parse_write(of_write), restore_types=True)


class _Files:
    """The files of a statement and their schemas."""

    def __init__(
        self, statement: Statement, reading: ReadOptions, storage: Storage, root: str, state: State | None
    ) -> None:
        self._statement, self._reading, self._root, self._state = statement, reading, root, state
        self._all = [
            DataFile(part.path, part.nbytes, part.mtime_ns, version=part.version) for part in statement.files.values()
        ]
        self._replaced = [file for file in self._all if file.path in statement.chosen]
        self._cache = MetadataCache(
            MetadataOptions(ipc.ReadOptions(concatenated_streams=reading.concatenated_streams), storage=storage)
        )

    def plan(self, schema: s.StructType, writing: SparkWriteOptions) -> WritePlan:
        """Plan the columns of the new files, which are those of a plain read and of all replaced files. Opens each of these."""
        statement = self._statement
        if not self._all:  # as the first INSERT into the table
            return plan_write(schema, replace(writing, partition_by=statement.partition_by or None))
        states = {} if self._state is None else {self._root: self._state}
        named = read_schemas(self._all, states, self._cache)
        others = self._all if self._reading.merge_schema else self._replaced
        if others:
            named += [(file.path, read) for file, read in distinct_schemas(others, self._cache)]
        schemas = [read for _, read in named]
        columns = self._match_columns(schema, named)
        writing = replace(with_metadata(writing, schemas[0]), partition_by=statement.partition_by or None)
        try:
            plan = plan_write(columns, writing)
        except UnsupportedError as error:  # its advice is for DataFrames
            raise UnsupportedError(
                f"this {statement.mode.value} would change the type of this column, because there is no way back to it from "
                "Spark's; nothing is changed",
                field_path=error.field_path,
            ) from error
        check_types(plan.file_schema, schemas)
        return plan

    def _match_columns(self, schema: s.StructType, named: Sequence[tuple[str, Schema]]) -> s.StructType:
        """Return the columns of a statement with the fields that a read of the files has, or raise if they differ."""
        reading = replace(self._reading, merge_schema=True)
        in_files = schema_for_spark(named, Partitioning((), ()), reading)
        written = {field.name.lower(): field for field in schema.fields}
        fields = dict(zip(written, schema.fields, strict=True)) if len(written) == len(schema) else None
        if fields is None:
            raise UnsupportedError(
                "two columns of the table have names that differ only in case, and a statement of SQL names one of them; "
                "nothing is changed",
                path=self._root,
            )
        partition_by = {name.lower() for name in self._statement.partition_by}
        for field in in_files.fields:
            name = field.name.lower()
            if name in METADATA_COLUMNS:
                raise UnsupportedError(
                    f"a column of the files has the name {field.name}, by which statements know files; rename it. Nothing is "
                    "changed",
                    path=self._root,
                )
            if name in partition_by:
                continue
            if name not in fields:
                path = next((path for path, read in named if field.name in read.names), self._root)
                raise UnsupportedError(
                    "this file has a column that the table does not show, and the new file would be without it: set "
                    "mergeSchema=true in the options of the table, or take the column in by rewrite(spark, path, path, "
                    'mode="overwrite", mergeSchema=True, restoreTypes=True). Nothing is changed',
                    path=path,
                    field_path=field.name,
                )
            if not _is_same_type(field.dataType, fields[name].dataType):
                raise SchemaMismatchError(
                    expected=f"a column of {fields[name].dataType.simpleString()}, as the statement has it",
                    found=f"{field.dataType.simpleString()} in the files; read the table with its own columns. Nothing is changed",
                    path=self._root,
                    field_path=field.name,
                )
            fields[name] = s.StructField(fields[name].name, field.dataType, metadata=field.metadata)
        return s.StructType(list(fields.values()))

    def rows(self) -> int | None:
        """Return the number of rows of the replaced files by the log; None if it lacks one of them."""
        if self._state is None:
            return None
        files = self._state.files
        counted = dict(zip((join(self._root, path) for path in files.paths), files.rows.tolist(), strict=True))
        numbers = [counted.get(file.path) for file in self._replaced]
        return None if None in numbers else sum(filter(None, numbers))


def _is_same_type(one: s.DataType, other: s.DataType) -> bool:
    """Compare Spark types, except for nullability and metadata; a string's length is metadata in a plan."""
    return bool(_in_plan(one) == _in_plan(other))


def _in_plan(type_: s.DataType) -> s.DataType:
    return s.StringType() if isinstance(type_, s.CharType | s.VarcharType) else without_nullability(type_)
