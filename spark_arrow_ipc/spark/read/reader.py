"""The batch reader: plan on the driver, yield converted batches on executors."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeAlias

import pyarrow as pa
from pyspark.sql import types as s
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.column_path import walk_fields
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import DataType, Dictionary, Field, bool_, date32, int8, int16, int32, int64, utf8
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.scan.scan import PLANNED_ONCE, ScannedFile, ScanOptions, SelectBlocks, scan
from spark_arrow_ipc.errors import SchemaMismatchError, error_context
from spark_arrow_ipc.spark.bridge import PyArrowBatch
from spark_arrow_ipc.spark.convert import BatchConverter, compile_converter, pyarrow_schema
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
"""Turns a converted batch and the origin of its rows into the batch for Spark; None if no row is left."""

Compiled: TypeAlias = tuple[BatchConverter, Output]
"""For files of one schema: `BatchConverter` converts their batches, `Output` then filters rows and adds metadata columns."""


def compile_output(
    schema: s.StructType,
    data_columns: s.StructType,
    added: Sequence[str],
    converted: pa.Schema,
    selection: RowSelection | None,
) -> Output:
    """Compile the final step: filter rows, add metadata columns, reorder columns."""
    if not added and selection is None:
        return lambda batch, _rows: batch
    expected = expected_arrow_schema(schema)
    names = [*data_columns.names, *added]
    order = [names.index(name) for name in schema.names]
    makers = [(METADATA_COLUMNS[name.lower()], name) for name in added]
    wide = pa.schema([*list(conformed)[: len(data_columns)], *[expected.field(name) for name in added]])
    row_filter = None
    if selection is not None:
        # Columns that only the predicate needs follow all columns for Spark.
        hidden = list_hidden_columns(selection.metadata, added)
        makers += [(METADATA_COLUMNS[name], name) for name in hidden]
        wide = pa.schema(
            [*wide, *list(conformed)[len(data_columns) :], *expected_arrow_schema(metadata_schema(hidden))]
        )
        row_filter = selection.row_filter(wide, len(data_columns), added)
    in_order = order == list(range(len(order)))

    def finish(batch: PyArrowBatch, rows: RowsOf) -> PyArrowBatch | None:
        if makers:
            arrays = [maker.array(rows, name) for maker, name in makers]
            columns = [
                *batch.columns[: len(data_columns)],
                *arrays[: len(added)],
                *batch.columns[len(data_columns) :],
                *arrays[len(added) :],
            ]
            batch = pa.RecordBatch.from_arrays(columns, schema=wide)
        if row_filter is not None:
            filtered = row_filter.filter(batch)
            if filtered is None:
                return None
            batch = filtered
        if in_order:
            return batch
        return pa.RecordBatch.from_arrays([batch.column(i) for i in order], schema=expected)

    return finish


@dataclass(frozen=True)
class ArrowIpcInputPartition(InputPartition):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    """The file ranges that one Spark task reads."""

    ranges: tuple[FileRange, ...]  # read in this order
    partition_fields: tuple[Field, ...]  # their values are in the ranges
    planned_at: datetime
    selection: RowSelection | None = None  # of the rows for Spark; None for all
    newest: DataFile | None = None  # as in `PartitionPlan`
    names: tuple[str, ...] = ()  # the columns of the read, for the one task that warns of others; empty in all else
    # For the optimizer's rule, which reads it in the pickle (`_notes`); empty if the bytes are unknown.
    note: str = ""  # the last field: in the pickle nothing that others choose stands behind it


@dataclass(frozen=True)
class SessionCheck(ArrowIpcInputPartition):
    """No rows: its task checks that the predicate, by which all were skipped, means the same in the session."""


class ArrowIpcBatchReader(DataSourceReader):  # type: ignore[misc]  # as above
    """Reads files into batches of one Spark schema: that of `read_spark_schema`, or the user's ``.schema(...)``.

    `advice` says in errors what to do about a file that changed after it was planned. `is_case_sensitive` tells whether
    names that differ in case alone are two names; by default it is the session's setting.
    """

    is_inferred = False
    """Whether the schema is the one that was inferred, and not a user's."""

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
        """Return the reader as one of a query that needs some columns of a frame.

        Where broken files are skipped all columns of the frame are decoded, so that each query of it has the same rows.
        """
        if self._options.error_policy.skips_corrupt:
            self._decoded = ArrowIpcBatchReader(frame, self._options).data_columns
        return self

    @property
    def schema(self) -> s.StructType:
        """The schema of its batches."""
        return self._schema

    @short_errors
    def partitions(self) -> list[ArrowIpcInputPartition]:
        """Plan the input partitions. Opens few files, and reads no bodies."""
        # Only drivers plan: executors start faster without the modules of listing and predicates.
        from spark_arrow_ipc.spark.read.plan import plan_partitions

        planned_at = datetime.now().astimezone()
        partitions = self._input_partitions(
            plan_partitions(self._data_columns, self._options, self._decoded), planned_at
        )
        if partitions and self.is_inferred and self._options.columns is None and not self._options.merge_schema:
            # One task of a read is enough, and it opens its files anyway.
            partitions[0] = replace(partitions[0], names=tuple(self._data_columns.names))
        return partitions

    def partitions_of(
        self, files: Sequence[DataFile], roots: Sequence[str], changes: Sequence[tuple[str, int]] = ()
    ) -> list[ArrowIpcInputPartition]:
        """Plan the input partitions of files that are known, as `partitions` does; `roots` as for `partition_by_directory`.

        With `changes`, one of each file, they are columns, too.
        """
        from spark_arrow_ipc.dataset.listing.hive import Partitioning, partition_by_directory, with_constants
        from spark_arrow_ipc.spark.read.columns import CHANGE_FIELDS
        from spark_arrow_ipc.spark.read.plan import plan_files

        options = self._options

        def partition(*, infer: bool) -> Partitioning:
            plain = Partitioning((), tuple(files))
            partitioning = plain
            if not options.recursive_file_lookup:
                partitioning = partition_known(files, roots, infer=infer, time_zone=options.time_zone)
            return with_constants(partitioning, CHANGE_FIELDS, changes) if changes else partitioning

        planned_at = datetime.now().astimezone()
        inferred = partial(partition, infer=options.partition_type_inference)
        return self._input_partitions(
            plan_files(self._data_columns, options, partition(infer=False), inferred), planned_at
        )

    def partitions_of_ranges(self, ranges: Sequence[FileRange]) -> list[ArrowIpcInputPartition]:
        """Plan an input partition for each range of a file that grows. Opens it where `where` names other columns."""
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
        notes = _notes(plan.splits, plan.fields, self._data_columns)
        partitions = [
            ArrowIpcInputPartition(ranges, plan.fields, planned_at, plan.selection, plan.newest, note=note)
            for ranges, note in zip(plan.splits, notes, strict=True)
        ]
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
        """Yield the batches of one input partition, each exactly in Spark's Arrow schema.

        Memory: one record batch of a file and its converted copy. Files are opened one after the other, and closed
        when Spark closes the iterator.
        """
        # Spark turns an empty list of partitions into one partition that is None.
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
        needed = _beside(self._data_columns, selection)
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
        # What is skipped as broken is known only once it is decoded (`error_policy`): then every record batch is.
        if (selection is not None or answers is not None) and not options.error_policy.skips_corrupt:
            chosen = select_blocks(selection, fields, answers)
        compiled = self._compiling(needed, selection)
        with closing(self._scan(partition, columns, chosen)) as files:
            for file in files:
                yield from self._rows(file, compiled, selection, partition.newest)

    def _scan(
        self, partition: ArrowIpcInputPartition, columns: SelectColumns, chosen: SelectBlocks | None
    ) -> Generator[ScannedFile, None, None]:
        """Open what a partition names, one after the other; a subclass reads something else than files."""
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

    def _compiling(self, needed: s.StructType, selection: RowSelection | None) -> Callable[[Schema], Compiled]:
        """Return a function that compiles what is done with the batches of a schema, once for files that have the same one."""
        last: tuple[Schema, Compiled] | None = None

        def compile_for(schema: Schema) -> Compiled:
            nonlocal last
            if last is not None and last[0] == schema:
                return last[1]
            plan = compile_conform(schema, needed, self._options)
            result = plan, compile_output(self._schema, self._data_columns, self._added, plan.schema, selection)
            # The budget for dictionaries is that of one file.
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
        """Yield the batches of one range, in Spark's schema."""
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


_MOST_NOTED: Final = 64
"""Partitions of which a split has files: of more, the values are not noted."""

_NOTED: Final[Mapping[DataType, s.DataType]] = {
    utf8: s.StringType(), bool_: s.BooleanType(), date32: s.DateType(),
    int64: s.LongType(), int32: s.IntegerType(), int16: s.ShortType(), int8: s.ByteType(),
}  # fmt: skip
"""Types of partition columns whose values are noted, with Spark's: of a column that the frame has in another type they are not."""


def _notes(splits: Sequence[Sequence[FileRange]], fields: Sequence[Field], data_columns: s.StructType) -> list[str]:
    """Return `ArrowIpcInputPartition.note` of each split.

    It is ``arrowipc-plan:NOTE:``, in base64 the JSON of the bytes of the files that begin in the split, and of its partition
    values, as Spark has them inside, in the columns whose type is that of the frame.
    """
    of_frame = {field.name: field.dataType for field in data_columns}
    types = [_NOTED.get(field.type) for field in fields]
    columns = [
        (i, type_) for i, type_ in enumerate(types) if type_ is not None and type_ == of_frame.get(fields[i].name)
    ]
    counted: set[str] = set()
    notes = []
    for ranges in splits:
        fresh = {part.path: part.nbytes for part in ranges if part.path not in counted}
        counted.update(fresh)
        rows = dict.fromkeys(part.partition for part in ranges) if columns else {}
        names, values = [fields[i].name for i, _ in columns], []
        if len(rows) <= _MOST_NOTED:
            values = [[type_.toInternal(row[i]) for i, type_ in columns] for row in rows]
        note = {"bytes": sum(fresh.values()), "names": names if values else [], "values": values}
        notes.append(f"arrowipc-plan:{b64encode(json.dumps(note).encode()).decode()}:")
    return notes


def _is_case_sensitive() -> bool:
    from spark_arrow_ipc.spark.session_settings import is_case_sensitive  # few schemas need it

    return is_case_sensitive()


def _beside(columns: s.StructType, selection: RowSelection | None) -> s.StructType:
    return columns if selection is None else s.StructType([*columns.fields, *selection.extra])


# `select_blocks`: which record batches of an open file a task decodes.
#
# Statistics say of each record batch which truths the option `where` may have in it. Where it can be true of no row,
# the batch is skipped. Where it is true of every row, or there is no predicate, the answers are asked
# (`Answers`), which may not need the rows, and what they answer is skipped, too.
class Answers(Protocol):
    """Takes record batches whose rows need not be decoded."""

    @property
    def need_statistics(self) -> bool:
        """True if they may use the statistics of files; without a predicate others are not read."""

    def answer(
        self,
        reader: ipc.FileReader,
        part: FileRange,
        fields: Sequence[Field],
        statistics: BlockStatistics | None,
        numbers: Sequence[int],
    ) -> frozenset[int]:
        """Return the record batches that need not be decoded. Called once for each range."""


def select_blocks(selection: RowSelection | None, fields: Sequence[Field], answers: Answers | None) -> SelectBlocks:
    """Return what selects the record batches of a file for `scan`."""
    # Most tasks have no predicate, and start faster without these modules.
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
