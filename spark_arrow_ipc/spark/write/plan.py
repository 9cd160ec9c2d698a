"""Plan a write: its columns, partitions and file sizes, for all tasks.

Errors that do not depend on values are raised here, before any task runs. A `WritePlan` is pickled for tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

import numpy as np
from pyspark.sql import types as s

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.column_path import ColumnPath, find_columns, path_string, walk_fields
from spark_arrow_ipc.arrow.kernels.order import has_order
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.statistics import Statistics, Which
from spark_arrow_ipc.dataset.statistics.collect import StatisticsCollector
from spark_arrow_ipc.dataset.write.agreement import agree
from spark_arrow_ipc.dataset.write.conflicts import NewSchema
from spark_arrow_ipc.dataset.write.partition_keys import check_partition_columns
from spark_arrow_ipc.dataset.write.partitioned_task import PartitionBy, schema_of_files, write_partitioned
from spark_arrow_ipc.dataset.write.staged_file import SinkOptions, Staging, WrittenFile
from spark_arrow_ipc.dataset.write.task import Order, TaskOutput, sort_into_runs, write_empty, write_runs, write_task
from spark_arrow_ipc.errors import CommitError, OptionError, SchemaMismatchError, UnsupportedError, error_context
from spark_arrow_ipc.ipc.constants import Format
from spark_arrow_ipc.spark.bridge import PyArrowBatch, join_batches
from spark_arrow_ipc.spark.options.values import DictionaryColumns, Layout, SchemaCheck, Vectors
from spark_arrow_ipc.spark.options.write_options import SparkWriteOptions
from spark_arrow_ipc.spark.types import schema_pairs, spark_annotation
from spark_arrow_ipc.spark.types.spark_to_arrow import arrow_schema_for
from spark_arrow_ipc.spark.write.batches import convert_batches, first_rows, session_time_zone
from spark_arrow_ipc.spark.write.columnar_rows import read_columnar
from spark_arrow_ipc.spark.write.file_dictionaries import (
    SAMPLE_NBYTES,
    SAMPLE_ROWS,
    FileDictionaries,
    can_encode,
    choose_index,
    is_sampled,
)
from spark_arrow_ipc.spark.write.schema_check import (
    check_features,
    check_names,
    merge_with_existing,
    restore_schema,
    restrict_to_vectors,
    widen_schema,
)
from spark_arrow_ipc.spark.write.tensors import ListsBelow, TensorTarget, lists_below, plan_tensors, without_annotations
from spark_arrow_ipc.spark.write.written_columns import SourceColumns, WrittenColumns, encode_type


@dataclass(frozen=True, slots=True)
class WritePlan:
    """The plan by which tasks write the rows of a DataFrame."""

    schema: s.StructType  # of the written columns in Spark
    columns: WrittenColumns  # written type of each column
    sink: SinkOptions  # format, compression, sizes, footer pairs
    partition: PartitionBy | None = None
    order: Order | None = None  # of rows within files; None to leave them
    collated: Mapping[str, str] = field(default_factory=dict)  # string columns with a collation, and their types
    keeps_types: bool = False  # no column may get a wider type

    def write(
        self, staging: Staging, batches: Iterable[PyArrowBatch], partition_id: int, directory: str = ""
    ) -> TaskOutput:
        """Stage the rows of one task."""
        source = read_columnar(batches, self.columns.sent)
        first = next(source, None)
        if first is None:
            return TaskOutput(staging.jobid)
        # Before the conversion: pyarrow joins small batches in a fifth of numpy's time (measured).
        large = join_batches(chain(iter([first]), source), self.sink.record_batch_rows, self.sink.record_batch_nbytes)
        rows, columns = self._decide(staging, convert_batches(large, self.columns))
        schema, dictionaries = columns.schema, columns.dictionaries
        sink = replace(self.sink, encoder=FileDictionaries(dictionaries)) if dictionaries else self.sink
        if self.partition is None:
            write = partial(
                write_task, staging, schema=schema, partition_id=partition_id, options=sink, directory=directory
            )
        else:
            # Only Spark's batches have the session's time zone, for the names of directories.
            partition = replace(self.partition, time_zone=session_time_zone(first))
            write = partial(
                write_partitioned, staging, schema=schema, partition=partition, partition_id=partition_id, options=sink
            )
        if self.order is None:
            output = write(rows)
        else:
            output = write_runs(staging, sort_into_runs(rows, self.order, rows=sink.record_batch_rows), write)
        return replace(output, dictionaries=tuple(dictionaries.items()))

    def _decide(self, staging: Staging, rows: Iterator[RecordBatch]) -> tuple[Iterator[RecordBatch], WrittenColumns]:
        """Return the rows, and the columns of which the tasks have agreed whether they are dictionaries."""
        columns = self.columns
        if not columns.sampled:
            return rows, columns
        sample = list(first_rows(rows, SAMPLE_ROWS, SAMPLE_NBYTES))
        if not any(batch.num_rows for batch in sample):
            return iter(()), columns
        names = {columns.schema.fields[i].name: i for i in columns.sampled}

        def propose() -> dict[str, int]:
            indices = {name: choose_index([batch.columns[i] for batch in sample]) for name, i in names.items()}
            return {name: index.bit_width for name, index in indices.items() if index is not None}

        agreed = {name: t.Int(bits, signed=True) for name, bits in agree(staging, propose, names).items()}
        certain = {name: type_.index for name, type_ in columns.dictionaries.items()}
        # A list would be in memory until the last batch.
        return chain(iter(sample), rows), columns.with_dictionaries({**certain, **agreed})

    def with_order(self, names: Sequence[str], nbytes: int) -> WritePlan:
        """Return the plan that sorts rows within each file, `nbytes` uncompressed bytes at a time."""
        fields = self.columns.schema.fields
        with error_context(asked_by="sort_by"):
            positions = tuple(find_columns([field.name for field in fields], names))
        for column in (fields[i] for i in positions):
            type_ = self.collated.get(column.name, str(column.type))
            if column.name in self.collated or not has_order(column.type):
                raise OptionError(
                    f"rows cannot be sorted by {column.name}: values of the type {type_} have no order here",
                    field_path=column.name,
                )
        return replace(self, order=Order(positions, nbytes))

    def write_empty(self, staging: Staging) -> WrittenFile:
        """Stage a file without rows, for its schema."""
        # Outside of all partitions, so it has the partition columns, too.
        return write_empty(staging, self.columns.schema, options=self.sink)

    def beside(self, existing: Schema, path: str, options: SparkWriteOptions) -> WritePlan:
        """Return the plan of files that readers take for one table with existing ones."""
        return self._widen(existing, path, options).follow(existing, path)

    def _widen(self, existing: Schema, path: str, options: SparkWriteOptions) -> WritePlan:
        """Return the plan that also writes the additional columns of existing files, as nulls, and their wider types."""
        schema = widen_schema(
            self.schema,
            self.file_schema,
            existing,
            path,
            options.schema_check,
            keeps_types=self.keeps_types,
            case_sensitive=options.case_sensitive,
        )
        if schema is None:
            return self
        grown = plan_write(schema, options)
        spark_columns = SourceColumns(self.columns.source.schema if self.columns.source else self.schema, schema)
        return replace(grown, columns=replace(grown.columns, source=spark_columns), order=self.order)

    def follow(self, existing: Schema, path: str) -> WritePlan:
        """Return the plan by which the columns of existing files stay dictionaries, or plain."""
        positions = () if self.partition is None else self.partition.positions
        return replace(self, columns=self.columns.follow(existing, path, positions))

    def has_encodings(self, existing: Schema, path: str) -> bool:
        """Return whether columns are dictionaries in existing files where they are in the new ones."""
        return self.follow(existing, path).columns.schema is self.columns.schema

    def settle(self, outputs: Iterable[TaskOutput | None]) -> WritePlan:
        """Return the plan with the dictionaries on which the tasks have agreed."""
        agreed = {output.dictionaries for output in outputs if output is not None and output.files}
        if not agreed:
            return self
        if len(agreed) > 1:
            raise CommitError(
                "some tasks have written columns as dictionaries that others have written plain; nothing is published, run the "
                "job again"
            )
        indices = {name: type_.index for name, type_ in agreed.pop()}
        return replace(self, columns=self.columns.with_dictionaries(indices))

    def new_schema(self, check: SchemaCheck, *, adds_files: bool = True) -> NewSchema:
        """Return the schema of the files for the commit; one that adds no files has the encodings of the table."""
        names = self.schema.names

        def merge(existing: Schema, path: str) -> Schema:
            followed = self.follow(existing, path)
            for expected, found in zip(followed.columns.schema.fields, self.columns.schema.fields, strict=True):
                if adds_files and expected.type != found.type:
                    raise SchemaMismatchError(
                        expected=f"{expected.type}, as in the table, whose first job has decided on the encoding meanwhile",
                        found=f"{found.type}; nothing is published, write again",
                        path=path,
                        field_path=found.name,
                    )
            return merge_with_existing(
                followed.file_schema, existing, path, check, partition_names=names, keeps_types=self.keeps_types
            )

        return NewSchema(self.file_schema, self.columns.schema, merge)

    @property
    def file_schema(self) -> Schema:
        """The schema of the files, without the partition columns."""
        schema = self.columns.schema
        return schema if self.partition is None else schema_of_files(schema, self.partition)

    @property
    def partition_fields(self) -> tuple[t.Field, ...]:
        """The partition columns, outermost first."""
        return () if self.partition is None else tuple(self.columns.usual.fields[i] for i in self.partition.positions)


def plan_write(schema: s.StructType, options: SparkWriteOptions) -> WritePlan:
    """Plan a write."""
    check_names(schema, case_sensitive=options.case_sensitive)
    usual = arrow_schema_for(schema)
    positions = _resolve_positions(usual, options.partition_by or (), "partitionBy")
    if positions:
        check_partition_columns(usual.fields, positions)
    collated = _find_collations(schema, positions)
    tensors = plan_tensors(
        schema, options.tensor_columns or (), options.fixed_size_lists or (), restore_types=options.restore_types
    )
    tensors = {i: target for i, target in tensors.items() if i not in positions}
    written, annotated = usual, without_annotations(schema, tensors)
    if options.restore_types:
        written = restore_schema(annotated)
    elif options.vectors is Vectors.BINARY:
        written = restore_schema(restrict_to_vectors(annotated))
    # Partition columns are not in the files, so their types are not restored.
    fields = [a if i in positions else b for i, (a, b) in enumerate(zip(usual.fields, written.fields, strict=True))]
    targets: dict[int, TensorTarget | ListsBelow] = dict(tensors)
    targets |= lists_below(fields, options.fixed_size_lists or (), {*tensors, *positions})
    for i, target in targets.items():
        fields[i] = target.field
    sampled: tuple[int, ...] = ()
    requested: tuple[int, ...] = ()
    if isinstance(options.dictionary_columns, DictionaryColumns):
        word = options.dictionary_columns
        sampled = tuple(i for i, f in enumerate(fields) if i not in positions and is_sampled(f, word))
    else:
        requested = _resolve_positions(usual, options.dictionary_columns, "dictionaryColumns")
        for i in requested:
            fields[i] = _encode_field(fields[i], is_partition=i in positions)
    in_files = s.StructType([field for i, field in enumerate(schema.fields) if i not in positions])
    user_pairs = tuple(pair for pair in options.metadata if pair[0] != spark_annotation.KEY)
    in_fields = [field for i, field in enumerate(fields) if i not in positions]
    annotations = (
        pair for pair in schema_pairs.pairs_of_annotations(in_files, in_fields) if pair[0] not in dict(user_pairs)
    )
    pairs = (*user_pairs, *annotations, *spark_annotation.annotation_pairs(in_files))
    unchanged = not sampled and not pairs and tuple(fields) == usual.fields
    columns = WrittenColumns(
        usual,
        usual if unchanged else Schema(tuple(fields), pairs),
        sampled,
        frozenset(fields[i].name for i in requested),
        targets,
    )
    partition = PartitionBy(positions) if positions else None
    if options.layout is Layout.HUGGINGFACE:
        check_features(columns.schema)
    sink = _sink_options(options, fields)
    plan = WritePlan(schema, columns, sink, partition, collated=collated, keeps_types=options.restore_types)
    # Raises for unknown names in the option, before any task runs.
    with error_context(asked_by="the option statistics"):
        StatisticsCollector(plan.file_schema, sink.statistics)
    return plan


def _find_collations(schema: s.StructType, partition_positions: Sequence[int]) -> dict[str, str]:
    """Return the types of string columns with a collation, or raise if a partition column has one."""
    strings = [field for field in schema.fields if isinstance(field.dataType, s.StringType)]
    collated = {field.name: field.dataType.simpleString() for field in strings if field.dataType != s.StringType()}
    for name in (schema.names[i] for i in partition_positions):
        if name in collated:
            raise UnsupportedError(
                f"the column is {collated[name]}, and the name of a directory says nothing of a collation; cast it to string "
                "(CAST(c AS STRING COLLATE UTF8_BINARY)), or leave it out of partitionBy",
                field_path=name,
            )
    return collated


def _resolve_positions(schema: Schema, paths: Sequence[ColumnPath], option: str) -> tuple[int, ...]:
    positions = []
    for path in paths:
        if isinstance(path, tuple):
            raise OptionError(
                expected=f"whole columns in {option}", found=f"{path_string(path)}, the field of a struct"
            )
        if isinstance(path, str):
            with error_context(asked_by=f"the option {option}"):
                positions += find_columns(schema.names, [path])
        elif path < len(schema):
            positions.append(path)
        else:
            raise OptionError(expected=f"positions below {len(schema)} in {option}", found=f"#{path}")
    return tuple(positions)


def _encode_field(field: t.Field, *, is_partition: bool) -> t.Field:
    if is_partition:
        raise OptionError(
            expected="columns that stay in the files in dictionaryColumns", found=f"{field.name}, a partition column"
        )
    if isinstance(field.type, t.Dictionary):
        return field
    if not can_encode(field):
        what = f"the extension {field.extension_name}" if field.extension_name else str(field.type)
        raise OptionError(
            expected="columns of strings, binaries, numbers, dates, times, timestamps or durations in dictionaryColumns",
            found=f"{field.name} of {what}",
        )
    return replace(field, type=encode_type(field.type, t.int32))  # whatever the number of values


def _sink_options(options: SparkWriteOptions, fields: Sequence[t.Field]) -> SinkOptions:
    try:
        write = ipc.WriteOptions(
            format=options.ipc_format,
            compression=None if options.compression is None else options.compression.word,
            compression_level=options.compression_level,
        )
    except ValueError as error:
        raise OptionError(f"the option compressionLevel: {error}") from error
    # The run ends of a batch must be able to count its rows.
    ends = (f.type.run_ends.type for _, f in walk_fields(tuple(fields)) if isinstance(f.type, t.RunEndEncoded))
    rows = [int(np.iinfo(f"i{end.bit_width // 8}").max) for end in ends if isinstance(end, t.Int)]
    return SinkOptions(
        write,
        min(options.record_batch_rows, *rows) if rows else options.record_batch_rows,
        max_file_rows=options.max_records_per_file,
        max_file_nbytes=options.max_file_bytes,
        custom_metadata=options.metadata,
        statistics=_choose_statistics(options),
    )


def _choose_statistics(options: SparkWriteOptions) -> Which:
    which = options.statistics
    if isinstance(which, Statistics):
        # The stream format has no footer for statistics.
        return Statistics.NONE if options.ipc_format is Format.STREAM else which
    if options.ipc_format is Format.STREAM:
        raise OptionError("ipcFormat=stream cannot hold statistics; leave the option statistics out")
    return which
