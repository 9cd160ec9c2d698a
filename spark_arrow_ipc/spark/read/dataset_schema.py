"""List the files of a read, find their partition columns, and infer the schema for Spark.

The driver does so twice: for a schema, and for the input partitions of that schema or the user's. Each
time it lists the paths once and reads the metadata of a file once. The columns of the files come first, then the
partition columns (`hive.merge_fields`); the option `columns` chooses among both.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from pyspark.sql import types as s

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.column_path import ColumnPath, find_columns, resolve_all, with_dotted
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.listing.data_file import DataFile, FileFilter, parse_modified
from spark_arrow_ipc.dataset.listing.hive import Partitioning, discover, merge_fields, retype
from spark_arrow_ipc.dataset.listing.table_version import Version
from spark_arrow_ipc.dataset.listing.tree import Tree, list_tree
from spark_arrow_ipc.dataset.predicate.expressions import WHERE
from spark_arrow_ipc.dataset.scan.file_metadata import MetadataCache, MetadataOptions
from spark_arrow_ipc.dataset.scan.schemas import (
    check_no_foreign_files,
    distinct_schemas,
    newest_schema,
    project,
    read_schemas,
)
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    ColumnNotFoundError,
    CommitError,
    SchemaMismatchError,
    error_context,
    printable,
)
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.process import without_collection
from spark_arrow_ipc.spark.read.columns import (
    COLUMNS,
    SCHEMA,
    check_clash,
    in_order,
    metadata_schema,
    partition_position,
    select_referenced,
)
from spark_arrow_ipc.spark.types.arrow_to_spark import spark_schema
from spark_arrow_ipc.spark.types.merge import merge_schemas
from spark_arrow_ipc.spark.types.spark_to_arrow import arrow_field
from spark_arrow_ipc.storage.paths import join

PARTITION_MARK: Final = "arrowipc.partition"
"""Metadata of partition columns with their position, which push_down/java/Source.java removes from the schema that it returns."""

_LOG: Final = logging.getLogger(__name__)


def list_dataset(options: ReadOptions) -> Tree:
    """List all files below the paths of a read."""
    return list_tree(
        options.paths,
        recursive=options.recursive_file_lookup,
        file_filter=file_filter(options),
        storage=options.path_storage,
        hugging_face=True,
        version=_version(options),
    )


def _version(options: ReadOptions) -> Version | None:
    """Return the version of the table to read; None for the newest one."""
    if options.timestamp_as_of is not None:
        return Version(time_ns=parse_modified(options.timestamp_as_of, options.time_zone))
    return None if options.version_as_of is None else Version(options.version_as_of)


def file_filter(options: ReadOptions) -> FileFilter:
    """Return the filter of listed files by name and time."""
    times = (options.modified_before, options.modified_after)
    instants = [None if text is None else parse_modified(text, options.time_zone) for text in times]
    return FileFilter(options.path_glob_filter, *instants)


def partition_files(tree: Tree, options: ReadOptions, *, infer: bool) -> Partitioning:
    """Return the files of a read with their partition columns and values."""
    partitioning = discover(tree, base_path=options.base_path, infer=infer, time_zone=options.time_zone)
    if all(isinstance(root, str) for root in tree.roots):
        partitioning = replace(partitioning, states=tree.states)
        _check_read(partitioning)
    if (warning := partitioning.warning()) is not None:
        _LOG.warning("%s", printable(warning))
    return partitioning


def _check_read(partitioning: Partitioning) -> None:
    """Raise if files in the root of a partitioned table are not read although its log counts them."""
    if not partitioning.unread:
        return
    counted = {join(root, path) for root, state in partitioning.states.items() for path in state.files.paths}
    for file in partitioning.unread:
        if file.path in counted:
            raise CommitError(
                "no read has the rows of this file of the table, because another program has made partition directories, "
                "with an equals sign in their names, next to it; move them out of the table",
                path=file.path,
            )


def cast_partition_columns(partitioning: Partitioning, schema: s.StructType) -> Partitioning:
    """Cast the partition columns to the types of a schema."""
    types = {field.name: arrow_field(field.name, field.dataType, {}, field.name).type for field in schema.fields}
    names = {field.name.lower() for field in partitioning.fields}
    return retype(partitioning, {name: type_ for name, type_ in types.items() if name.lower() in names})


@without_collection()
def read_spark_schema(options: ReadOptions) -> s.StructType:
    """Return the schema for Spark, all fields of which are nullable, and check that `where` can be bound to it."""
    partitioning = partition_files(list_dataset(options), options, infer=options.partition_type_inference)
    cache = _make_outlines(options)
    schema = dataset_schema(partitioning, cache, options)
    if options.where is not None:
        # Imported late, with pyarrow, which only predicates need for a schema.
        from spark_arrow_ipc.spark.read.where import RowSelection

        added = metadata_schema().names if options.metadata_columns else []
        requested = s.StructType([field for field in schema.fields if field.name not in added])
        # With the same cache, so that no file is opened twice.
        RowSelection.of(requested, options, lambda missing: dataset_schema(partitioning, cache, missing))
    return schema


def file_schemas(options: ReadOptions) -> list[Schema]:
    """Return the schema of the newest file, and with ``mergeSchema`` of all files; none if a read opens no files."""
    if options.reads_servers or options.metadata_only:
        return []
    files, cache = partition_files(list_dataset(options), options, infer=False).files, _make_outlines(options)
    newest = newest_schema(files, cache, options.error_policy)[1]
    others = distinct_schemas(files, cache, options.error_policy) if options.merge_schema else []
    return [newest, *(schema for _, schema in others)]


def _make_outlines(options: ReadOptions) -> MetadataCache:
    return MetadataCache(
        MetadataOptions(
            ipc.ReadOptions(columns=options.columns),
            recover=options.recover,
            storage=options.path_storage,
            tensors=options.tensors,
        )
    )


def dataset_schema(partitioning: Partitioning, cache: MetadataCache, options: ReadOptions) -> s.StructType:
    """Return the schema for Spark of files that are already listed."""
    if options.merge_schema:
        named = [(f.path, schema) for f, schema in distinct_schemas(partitioning.files, cache, options.error_policy)]
    else:
        named = read_schemas(partitioning.files, partitioning.states, cache, options.error_policy)
        # A predicate may leave foreign files out; `plan_files` checks the others.
        if options.where is None:
            check_no_foreign_files(partitioning.files, cache, options.error_policy)
    return schema_for_spark(named, partitioning, options)


def schema_of_file(file: DataFile, options: ReadOptions) -> s.StructType:
    """Return the schema for Spark of one file."""
    return dataset_schema(Partitioning((), (file,)), _make_outlines(options), options)


def schema_for_spark(
    schemas: Sequence[tuple[str, Schema]], partitioning: Partitioning, options: ReadOptions
) -> s.StructType:
    """Return the schema for Spark of one schema of files, or of several that are merged."""
    of_files = _unite(schemas, partitioning, options)
    of_paths = spark_schema(Schema(partitioning.fields), options)
    if options.columns is None:
        merged = s.StructType(list(merge_fields(of_files.fields, of_paths.fields)))
    else:
        with error_context(path=schemas[0][0] if len(schemas) == 1 else None, asked_by=COLUMNS):
            merged = _choose_columns(
                options.columns, of_files, of_paths, [schema for _, schema in schemas], partitioning
            )
    if options.marks_partition_columns:
        merged = _mark_partition_columns(merged, partitioning)
    if not options.metadata_columns:
        return merged
    check_clash(merged.names)
    return s.StructType([*merged.fields, *metadata_schema().fields])


def _mark_partition_columns(schema: s.StructType, partitioning: Partitioning) -> s.StructType:
    """Return a schema with the positions of partition columns; those of a table without rows are in its log only."""
    of_log = (name for state in partitioning.states.values() for name in state.partition_columns)
    names = [field.name for field in partitioning.fields] or list(dict.fromkeys(of_log))
    return s.StructType(
        [
            s.StructField(f.name, f.dataType, f.nullable, {**f.metadata, PARTITION_MARK: names.index(f.name)})
            if f.name in names
            else f
            for f in schema.fields
        ]
    )


def _unite(schemas: Sequence[tuple[str, Schema]], partitioning: Partitioning, options: ReadOptions) -> s.StructType:
    """Return the Spark columns of files without partition columns, all or the ones of the option `columns`."""
    select = None
    if options.columns is not None:
        absent = options.merge_schema or len(schemas) > 1
        select = select_referenced(options.columns, partitioning.fields, skips_absent=absent)
    mapped: dict[Schema, tuple[str, s.StructType]] = {}
    for path, full_schema in schemas:
        with error_context(path=path):
            schema = full_schema if select is None else project(full_schema, select)
            if schema not in mapped:
                mapped[schema] = path, spark_schema(schema, options)
    distinct = list(mapped.values())
    return merge_schemas(distinct) if options.merge_schema or len(distinct) > 1 else distinct[0][1]


def _choose_columns(
    columns: Sequence[ColumnPath],
    spark_schema: s.StructType,
    of_paths: s.StructType,
    schemas: Sequence[Schema],
    partitioning: Partitioning,
) -> s.StructType:
    """Return the columns of the option `columns`, in its order, and the fields of structs in its order too."""
    full_schema = schemas[0]  # positions in the option count its columns
    chosen: dict[str, s.StructField] = {}
    below: dict[str, list[tuple[str, ...]]] = {}
    for reference in columns:
        path: tuple[str, ...] = ()
        position = partition_position(partitioning.fields, reference)
        if position is not None:
            field = of_paths.fields[position]
        elif isinstance(reference, int):
            field = spark_schema[full_schema.fields[reference].name]
        else:
            head, *path_below = map(str, reference) if isinstance(reference, tuple) else (reference,)
            path = tuple(path_below)
            if find_columns(spark_schema.names, [head], absent=-1) == [-1]:
                others = dict.fromkeys(
                    name for schema in schemas for name in schema.names if name not in full_schema.names
                )
                # No file has this column: raise the error that names the columns of all.
                resolve_all(full_schema.fields, [reference], others=[*of_paths.names, *others])
            field = spark_schema.fields[find_columns(spark_schema.names, [head])[0]]
        chosen.setdefault(field.name, field)
        below.setdefault(field.name, []).append(path)
    fields = []
    for name, field in chosen.items():
        try:
            type_ = in_order(field.dataType, below[name], name)
            fields.append(s.StructField(name, type_, field.nullable, field.metadata))
        except ColumnNotFoundError as error:
            raise with_dotted(error, full_schema.names, [name, *below[name][0]]) from None
    return s.StructType(fields)


# A task does not know the origin of its schema: the newest file, all files, or a user. If the newest file has a column with
# the expected type, an error about another type names that file too, and tells if ``mergeSchema`` would read both. Only a
# task that fails opens the newest file for this.
_NO_FILES = Partitioning((), ())


def explain_mismatch(
    error: SchemaMismatchError,
    actual: Schema,
    columns: s.StructType,
    extra: Sequence[s.StructField],
    *,
    newest: DataFile | None,
    options: ReadOptions,
) -> None:
    """Add the origin of the expected type to an error about the types of a file."""
    at = error.field_path or ""
    fields = [*columns.fields, *extra]
    above = [one for one in fields if at == one.name or at.startswith((f"{one.name}.", f"{one.name}["))]
    if not above:
        return
    # Names may have dots, and the longest one is the column.
    column = max(above, key=lambda one: len(one.name))
    error.asked_by = SCHEMA if column in columns.fields else WHERE
    if newest is None or error.expected is None:
        return
    paths = tuple(_walk_paths(column.dataType, (column.name,)))
    options = replace(options, columns=paths, merge_schema=False, metadata_columns=False)
    with suppress(ArrowIpcError, OSError):  # the error itself is more important
        origin = schema_of_file(newest, options)
        if origin.fields[0].dataType == column.dataType:
            error.asked_by = f"{error.asked_by}, as in the newest file {newest.path}"
            error.found = (
                f"{error.found}; {_suggest_remedy(origin, schema_for_spark([('', actual)], _NO_FILES, options))}"
            )


def _walk_paths(type_: s.DataType, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the paths to the fields of a struct at any depth, or to a column without fields."""
    if not isinstance(type_, s.StructType) or not type_.fields:
        yield path
        return
    for field in type_.fields:
        yield from _walk_paths(field.dataType, (*path, field.name))


def _suggest_remedy(origin: s.StructType, actual: s.StructType) -> str:
    try:
        merge_schemas([("", origin), ("", actual)])
    except SchemaMismatchError:
        return "read the files apart (pathGlobFilter), or leave the column out with the option columns"
    return "mergeSchema=true reads both"
