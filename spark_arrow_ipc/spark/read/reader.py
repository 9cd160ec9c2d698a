"""The batch reader: plan on the driver, yield batches in Spark's schema on executors."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias

import pyarrow as pa
from pyspark.sql import types as s
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.column_path import walk_fields
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import Dictionary, Field
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.scan.scan import PLANNED_ONCE, ScannedFile, ScanOptions, SelectBlocks, scan
from spark_arrow_ipc.errors import SchemaMismatchError, error_context
from spark_arrow_ipc.spark.bridge import PyArrowBatch
from spark_arrow_ipc.spark.convert import BatchConverter, compile_converter, expand, pyarrow_schema
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.process import short_errors, tune_worker
from spark_arrow_ipc.spark.read.columns import (
    METADATA_COLUMNS,
    RowsOf,
    SelectColumns,
    list_hidden_columns,
    metadata_schema,
    select_needed,
    warn_of_others,
)

if TYPE_CHECKING:
    from spark_arrow_ipc.dataset.listing.data_file import DataFile
    from spark_arrow_ipc.dataset.statistics.read import BlockStatistics
    from spark_arrow_ipc.spark.read.plan import PartitionPlan
    from spark_arrow_ipc.spark.read.where import RowSelection

Output = Callable[[PyArrowBatch, RowsOf], PyArrowBatch | None]
"""Converts a batch of Spark's types and the origin of its rows to the batch for Spark; None if no row is left."""

Compiled: TypeAlias = tuple[BatchConverter, Output]
"""For files of one schema: converts their batches, then filters rows and adds metadata columns."""


def compile_output(
    schema: s.StructType,
    data_columns: s.StructType,
    added: Sequence[str],
    converted: pa.Schema,
    selection: RowSelection | None,
    *,
    expands: bool = True,
) -> Output:
    """Compile the final step: filter rows, add metadata columns, reorder columns, and expand dictionaries if `expands`."""
    if not added and selection is None:
        return lambda batch, _rows: batch
    expected = pyarrow_schema(schema)
    names = [*data_columns.names, *added]
    order = [names.index(name) for name in schema.names]
    makers = [(METADATA_COLUMNS[name.lower()], name) for name in added]
    wide = pa.schema([*list(converted)[: len(data_columns)], *[expected.field(name) for name in added]])
    row_filter = None
    if selection is not None:
        # Columns that only the predicate needs follow all columns for Spark, and the filter removes them.
        hidden = list_hidden_columns(selection.metadata, added)
        makers += [(METADATA_COLUMNS[name], name) for name in hidden]
        wide = pa.schema([*wide, *list(converted)[len(data_columns) :], *pyarrow_schema(metadata_schema(hidden))])
        row_filter = selection.row_filter(wide, len(data_columns), added)
    in_order = order == list(range(len(order)))
    output = pa.schema([wide.field(i) for i in order])
    # Not those that only the predicate needs: a batch without columns would lose its number of rows.
    has_dictionaries = any(pa.types.is_dictionary(field.type) for field in output)
    if not expands:
        expected = output

    def finish(batch: PyArrowBatch, rows: RowsOf) -> PyArrowBatch | None:
        if makers:
            arrays = [maker.array(rows, name) for maker, name in makers]
            data, predicate_only = batch.columns[: len(data_columns)], batch.columns[len(data_columns) :]
            columns = [*data, *arrays[: len(added)], *predicate_only, *arrays[len(added) :]]
            batch = pa.RecordBatch.from_arrays(columns, schema=wide)
        if row_filter is not None:
            filtered = row_filter.filter(batch)
            if filtered is None:
                return None
            batch = filtered
        if in_order and not (has_dictionaries and expands):
            return batch
        columns = [batch.column(i) for i in order]
        return pa.RecordBatch.from_arrays(
            [expand(column) for column in columns] if expands else columns, schema=expected
        )

    return finish


@dataclass(frozen=True)
class ArrowIpcInputPartition(InputPartition):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    """The file ranges that one Spark task reads."""

    ranges: tuple[FileRange, ...]  # read in this order
    partition_fields: tuple[Field, ...]  # their values are in the ranges
    planned_at: datetime
    selection: RowSelection | None = None  # of the rows for Spark; None for all
    newest: DataFile | None = None  # as in `PartitionPlan`
    tables: tuple[str, ...] = ()  # paths of the tables that the files are of
    names: tuple[str, ...] = ()  # columns of the read, only in the task that warns of others
    table: str = ""  # as in `PartitionPlan`, for statements that change rows
    entry: int = 0
    # For the scan of the JVM, which searches it in the pickle (`plan_note`); empty if the bytes are unknown. The last field,
    # so that no text from files or users follows it.
    note: str = ""


@dataclass(frozen=True)
class SessionCheck(ArrowIpcInputPartition):
    """No rows, because the predicate skips all files; its task checks that the session does not change the predicate."""


class ArrowIpcBatchReader(DataSourceReader):  # type: ignore[misc]  # as above
    """Reads files into batches of one Spark schema, inferred or from the user's ``.schema(...)``.

    `advice` is the next step in errors about a file that changed after it was planned. `is_case_sensitive` returns True if
    names that differ only in case are two names; by default by the session's setting.
    """

    is_inferred = False
    """True if the schema is inferred, and not a user's."""

    def __init__(
        self,
        schema: s.StructType,
        options: ReadOptions,
        *,
        advice: str = PLANNED_ONCE,
        is_case_sensitive: Callable[[], bool] | None = None,
    ) -> None:
        self._advice = advice
        self._is_case_sensitive = is_case_sensitive or _is_case_sensitive
        self._schema = schema
        self._options = options
        added = METADATA_COLUMNS if options.metadata_columns else {}
        self._added = [name for name in schema.names if name.lower() in added]
        self._data_columns = s.StructType([field for field in schema.fields if field.name.lower() not in added])
        self._decoded = self._data_columns

    def decoding(self, frame: s.StructType) -> Self:
        """Return the reader for a query that needs some columns of a frame."""
        # Broken files are skipped when a column is decoded: by all columns, each query of the frame has the same rows.
        if self._options.error_policy.skips_corrupt:
            self._decoded = ArrowIpcBatchReader(frame, self._options).data_columns
        return self

    @property
    def schema(self) -> s.StructType:
        """The schema of its batches."""
        return self._schema

    @short_errors
    def partitions(self) -> list[ArrowIpcInputPartition]:
        """Plan the input partitions; opens few files, and reads no bodies."""
        # Imported late: executors start faster without the modules of listing and predicates.
        from spark_arrow_ipc.spark.read.plan import plan_partitions

        planned_at = datetime.now().astimezone()
        partitions = self._input_partitions(
            plan_partitions(self._data_columns, self._options, self._decoded), planned_at
        )
        if partitions and self.is_inferred and self._options.columns is None and not self._options.merge_schema:
            # One warning is enough, and this task opens its files anyway.
            partitions[0] = replace(partitions[0], names=tuple(self._data_columns.names))
        return partitions

    def partitions_of(
        self, files: Sequence[DataFile], roots: Sequence[str], changes: Sequence[tuple[str, int]] = ()
    ) -> list[ArrowIpcInputPartition]:
        """Plan the input partitions of listed files; `changes` are values of the change columns for each file."""
        from spark_arrow_ipc.dataset.listing.hive import Partitioning, partition_by_directory, with_constants
        from spark_arrow_ipc.spark.read.columns import CHANGE_FIELDS
        from spark_arrow_ipc.spark.read.plan import plan_files

        options = self._options

        def partition(*, infer: bool) -> Partitioning:
            partitioning = Partitioning((), tuple(files))
            if not options.recursive_file_lookup:
                partitioning = partition_by_directory(files, roots, infer=infer, time_zone=options.time_zone)
            return with_constants(partitioning, CHANGE_FIELDS, changes) if changes else partitioning

        planned_at = datetime.now().astimezone()
        inferred = partial(partition, infer=options.partition_type_inference)
        return self._input_partitions(
            plan_files(self._data_columns, options, partition(infer=False), inferred), planned_at
        )

    def partitions_of_ranges(self, ranges: Sequence[FileRange]) -> list[ArrowIpcInputPartition]:
        """Plan an input partition for each range of a growing file."""
        options, selection = self._options, None
        if options.where is not None:
            from spark_arrow_ipc.spark.read.dataset_schema import read_spark_schema
            from spark_arrow_ipc.spark.read.where import RowSelection

            selection = RowSelection.of(
                self._data_columns, options, lambda missing: read_spark_schema(replace(missing, where=None))
            )
        planned_at = datetime.now().astimezone()
        return [ArrowIpcInputPartition((part,), (), planned_at, selection) for part in ranges]

    def _input_partitions(self, plan: PartitionPlan, planned_at: datetime) -> list[ArrowIpcInputPartition]:
        tune_worker()
        from spark_arrow_ipc.spark.read.plan_note import make_notes  # of planners only

        notes = make_notes(plan.splits, plan.fields, self._data_columns, plan.states, self._options)
        every = ArrowIpcInputPartition(
            (),
            plan.fields,
            planned_at,
            plan.selection,
            plan.newest,
            tuple(plan.states),
            table=plan.table,
            entry=plan.entry,
        )
        partitions = [replace(every, ranges=ranges, note=note) for ranges, note in zip(plan.splits, notes, strict=True)]
        if not partitions and plan.selection is not None and plan.selection.depends_on_session:
            return [SessionCheck((), plan.fields, planned_at, plan.selection)]
        return partitions

    @property
    def options(self) -> ReadOptions:
        """The options of the read."""
        return self._options

    @property
    def data_columns(self) -> s.StructType:
        """The columns of the files and their partitions, without metadata columns."""
        return self._data_columns

    def read(
        self, partition: InputPartition | None, *, answers: Answers | None = None
    ) -> Generator[PyArrowBatch, None, None]:
        """Yield the batches of one input partition in Spark's Arrow schema; memory: a record batch and its converted copy.

        With `answers`, for an aggregate, dictionary columns stay dictionaries.
        """
        # Spark converts an empty list of partitions to one partition that is None.
        if isinstance(partition, ArrowIpcInputPartition):
            tune_worker()
            with short_errors:
                yield from self._batches(partition, answers)

    def _batches(self, partition: ArrowIpcInputPartition, answers: Answers | None) -> Iterator[PyArrowBatch]:
        if isinstance(partition, SessionCheck):
            assert partition.selection is not None
            partition.selection.check_session()
            return
        options = self._options
        fields = partition.partition_fields
        selection = None if partition.selection is None else partition.selection.in_session()
        needed = self._data_columns
        if selection is not None:
            needed = s.StructType([*needed.fields, *selection.extra])
        columns = select_needed(
            options.column_paths,
            self._decoded,
            () if selection is None else selection.extra,
            fields,
            skips_absent=options.fills_missing,
            is_case_sensitive=self._is_case_sensitive,
        )
        if partition.names:
            columns = warn_of_others(columns, partition.names)
        chosen: SelectBlocks | None = None
        # Only decoding shows that a record batch is broken and skipped (`error_policy`), so none may be left out.
        if (selection is not None or answers is not None) and not options.error_policy.skips_corrupt:
            chosen = select_blocks(selection, fields, answers)
        if partition.tables and selection is None and answers is not None and answers.columns is not None:
            from spark_arrow_ipc.spark.read.log_answers import answer_by_logs  # aggregates of tables only

            answer = partial(answer_by_logs, answers.answer_files, answers.columns, options)
            left = answer(roots=partition.tables, ranges=partition.ranges, fields=fields)
            partition = replace(partition, ranges=left)
        compiled = self._compiling(needed, selection, keeps_dictionaries=answers is not None)
        with closing(self._scan(partition, columns, chosen)) as files:
            for file in files:
                yield from self._rows(file, compiled, selection, partition.newest)

    def _scan(
        self, partition: ArrowIpcInputPartition, columns: SelectColumns, chosen: SelectBlocks | None
    ) -> Generator[ScannedFile, None, None]:
        """Open the files of a partition one after the other."""
        options = self._options
        fields = partition.partition_fields
        return scan(
            partition.ranges,
            partition_fields=fields,
            options=ScanOptions(
                ipc.ReadOptions(
                    columns,
                    options.validation,
                    options.limits,
                    options.verify_checksums,
                    options.concatenated_streams,
                ),
                memory_map=options.memory_map,
                error_policy=options.error_policy,
                planned_at=partition.planned_at,
                advice=self._advice,
                select_blocks=chosen,
                storage=options.path_storage,
                tensors=options.tensors,
            ),
        )

    def _compiling(
        self, needed: s.StructType, selection: RowSelection | None, *, keeps_dictionaries: bool
    ) -> Callable[[Schema], Compiled]:
        """Return a function that compiles the conversion of a file's batches, once for successive files of one schema."""
        last: tuple[Schema, Compiled] | None = None

        def compile_for(schema: Schema) -> Compiled:
            nonlocal last
            if last is not None and last[0] == schema:
                return last[1]
            # Rows are filtered before dictionaries are expanded.
            expands = selection is None and not keeps_dictionaries
            plan = compile_converter(schema, needed, self._options, expands=expands)
            columns = self._schema, self._data_columns, self._added, plan.schema
            result = plan, compile_output(*columns, selection, expands=not keeps_dictionaries)
            # The conversion of a dictionary has a budget of bytes for one file.
            has_dictionary = any(isinstance(field.type, Dictionary) for _, field in walk_fields(schema.fields))
            last = None if has_dictionary else (schema, result)
            return result

        return compile_for

    def _rows(
        self,
        file: ScannedFile,
        compiled: Callable[[Schema], Compiled],
        selection: RowSelection | None,
        newest: DataFile | None,
    ) -> Iterator[PyArrowBatch]:
        """Yield the batches of one range in Spark's schema."""
        with error_context(path=file.range.path):
            try:
                plan, finish = compiled(file.schema)
            except SchemaMismatchError as error:
                from spark_arrow_ipc.spark.read.dataset_schema import explain_mismatch

                extra = () if selection is None else selection.extra
                explain_mismatch(error, file.schema, self._data_columns, extra, newest=newest, options=self._options)
                raise
            names = {*map(str.lower, self._added), *(() if selection is None else selection.metadata)}
            rows_before = file.rows_before() if "_row_index" in names else 0
            for scanned in file.batches:
                with error_context(block_kind="record batch", block_number=scanned.first_block):
                    first = 0
                    for piece in plan.convert(scanned.batch):
                        rows = RowsOf(file.range, rows_before, scanned, first, piece.num_rows)
                        first += piece.num_rows
                        batch = finish(piece, rows)
                        if batch is not None:
                            yield batch


def _is_case_sensitive() -> bool:
    from spark_arrow_ipc.spark.session_settings import is_case_sensitive  # few schemas need it

    return is_case_sensitive()


# A task decodes only some record batches of a file. By statistics the option `where` is true for no row of a record batch,
# for some or for all. Without a match the batch is skipped. If all rows match, or without a predicate, `Answers` may
# compute an aggregate from headers and statistics, and the batch is skipped, too.
class Answers(Protocol):
    """Answers aggregates of record batches, which are then not decoded."""

    @property
    def need_statistics(self) -> bool:
        """True if answers may use the statistics of files, which otherwise only predicates need."""

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of the columns that the aggregates need; None if only decoding gives them."""

    def answer_files(
        self,
        schema: Schema,
        rows: Sequence[int],
        part: FileRange,
        fields: Sequence[Field],
        statistics: BlockStatistics | None,
    ) -> frozenset[int]:
        """Return which of some files of one partition, of which `part` is the first, are answered by these statistics."""

    def answer(
        self,
        reader: ipc.FileReader,
        part: FileRange,
        fields: Sequence[Field],
        statistics: BlockStatistics | None,
        numbers: Sequence[int],
    ) -> frozenset[int]:
        """Return the answered record batches of a range."""


def select_blocks(selection: RowSelection | None, fields: Sequence[Field], answers: Answers | None) -> SelectBlocks:
    """Return a callback that selects the record batches of a file for `scan`."""
    # Imported late: tasks without a predicate start faster.
    from spark_arrow_ipc.dataset.predicate.prune import TRUE
    from spark_arrow_ipc.dataset.statistics.read import file_statistics

    def select(reader: ipc.FileReader, part: FileRange) -> Callable[[int], bool] | None:
        numbers = range(part.start or 0, len(reader) if part.stop is None else part.stop)
        needs = selection is not None or (answers is not None and answers.need_statistics)
        statistics = file_statistics(reader, numbers) if needs else None
        if answers is None and statistics is None and not (selection is not None and selection.of_blocks):
            return None
        selected: Sequence[int] = numbers
        complete: Sequence[int] = numbers
        if selection is not None:
            may_be = selection.block_truths(reader, statistics, part, fields)
            truths = {i: may_be(i) for i in numbers}
            selected = [i for i in numbers if truths[i] & TRUE]
            complete = [i for i in selected if truths[i] == TRUE]
        answered = frozenset() if answers is None else answers.answer(reader, part, fields, statistics, complete)
        return frozenset(selected).difference(answered).__contains__

    return select
