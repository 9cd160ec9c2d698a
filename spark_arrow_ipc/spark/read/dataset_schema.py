"""The files of a read, their partition columns, and the schema that Spark gets.

The driver asks twice, in two processes: for a schema, and for the input partitions of a schema that may be the
user's own. Each time the paths are listed once and the metadata of each file is read once. The columns of the files come first,
then the partition columns (`hive.merge_fields`); the option `columns` chooses among all of them.
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
from spark_arrow_ipc.errors import ArrowIpcError, ColumnNotFoundError, SchemaMismatchError, error_context, printable
from spark_arrow_ipc.spark.options.read_options import ReadOptions
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

_LOG: Final = logging.getLogger(__name__)


def list_dataset(options: ReadOptions) -> Tree:
    """List all files under the paths of a read. A plan calls this once."""
    return list_tree(
        options.paths,
        recursive=options.recursive_file_lookup,
        file_filter=file_filter(options),
        storage=options.path_storage,
        hugging_face=True,
    )


def file_filter(options: ReadOptions) -> FileFilter:
    """Return which of the listed files are read."""
    return FileFilter(
        options.path_glob_filter,
        _instant(options.modified_before, options.time_zone),
        _instant(options.modified_after, options.time_zone),
    )


def partition_files(tree: Tree, options: ReadOptions, *, infer: bool) -> Partitioning:
    """Return the files of a read with their partition columns and values."""
    partitioning = discover(tree, base_path=options.base_path, infer=infer, time_zone=options.time_zone)
    if all(isinstance(root, str) for root in tree.roots):
        partitioning = replace(partitioning, heads=tree.heads)
    if (warning := partitioning.warning()) is not None:
        _LOG.warning("%s", printable(warning))
    return partitioning


def cast_partition_columns(partitioning: Partitioning, schema: s.StructType) -> Partitioning:
    """Cast the partition columns to the types of a schema."""
    types = {field.name: arrow_field(field.name, field.dataType, {}, field.name).type for field in schema.fields}
    names = {field.name.lower() for field in partitioning.fields}
    return retype(partitioning, {name: type_ for name, type_ in types.items() if name.lower() in names})


def read_spark_schema(options: ReadOptions) -> s.StructType:
    """Return the schema that Spark gets, with all fields nullable, and check that `where` can be bound to its columns.

    The columns of the newest record or file, or with ``mergeSchema`` of all files, and the partition columns. Lists the
    paths once, and opens at most one file, or with ``mergeSchema`` all.
    """
    partitioning = partition_files(list_dataset(options), options, infer=options.partition_type_inference)
    cache = _metadata_cache(options)
    schema = dataset_schema(partitioning, cache, options)
    if options.where is not None:
        # Imported late: a read without a predicate needs neither it nor pyarrow for its schema.
        from spark_arrow_ipc.spark.read.where import RowSelection

        added = metadata_schema().names if options.metadata_columns else []
        requested = s.StructType([field for field in schema.fields if field.name not in added])
        # The file metadata are read already, so that no file is opened again.
        RowSelection.of(requested, options, lambda missing: dataset_schema(partitioning, cache, missing))
    return schema


def file_schemas(options: ReadOptions) -> list[Schema]:
    """Return the schema of the newest file, and with ``mergeSchema`` those of the others; none where no file is read."""
    if options.reads_servers or options.metadata_only:
        return []
    files, cache = partition_files(list_dataset(options), options, infer=False).files, _metadata_cache(options)
    newest = newest_schema(files, cache, options.error_policy)[1]
    others = distinct_schemas(files, cache, options.error_policy) if options.merge_schema else []
    return [newest, *(schema for _, schema in others)]


def _metadata_cache(options: ReadOptions) -> MetadataCache:
    return MetadataCache(
        MetadataOptions(
            ipc.ReadOptions(columns=options.columns),
            recover=options.recover,
            storage=options.path_storage,
            tensors=options.tensors,
        )
    )


def dataset_schema(partitioning: Partitioning, cache: MetadataCache, options: ReadOptions) -> s.StructType:
    """Return the schema that Spark gets, of files that are already listed."""
    if options.merge_schema:
        named = [(f.path, schema) for f, schema in distinct_schemas(partitioning.files, cache, options.error_policy)]
    else:
        named = read_schemas(partitioning.files, partitioning.heads, cache, options.error_policy)
        if options.is_exact:  # a record does not know which columns are dictionaries by the rows that a task had
            file, schema = newest_schema(partitioning.files, cache, options.error_policy)
            named = list({file.path: schema, **dict(named)}.items())
        if options.where is None:  # which may leave files out; the partitions are planned without those
            check_no_foreign_files(partitioning.files, cache, options.error_policy)
    return schema_for_spark(named, partitioning, options)


def schema_of_file(file: DataFile, options: ReadOptions) -> s.StructType:
    """Return the schema that Spark gets of one file alone; parameters and errors as for `dataset_schema`."""
    return dataset_schema(Partitioning((), (file,)), _metadata_cache(options), options)


def schema_for_spark(
    schemas: Sequence[tuple[str, Schema]], partitioning: Partitioning, options: ReadOptions
) -> s.StructType:
    """Return the schema that Spark gets of one table, or of several that are merged."""
    of_files = _unite(schemas, partitioning, options)
    of_paths = spark_schema(Schema(partitioning.fields), options)
    if options.columns is None:
        merged = s.StructType(list(merge_fields(of_files.fields, of_paths.fields)))
    else:
        with error_context(path=schemas[0][0] if len(schemas) == 1 else None, asked_by=COLUMNS):
            merged = _choose_columns(
                options.columns, of_files, of_paths, [schema for _, schema in schemas], partitioning
            )
    if not options.metadata_columns:
        return merged
    check_clash(merged.names)
    return s.StructType([*merged.fields, *metadata_schema().fields])


def _unite(schemas: Sequence[tuple[str, Schema]], partitioning: Partitioning, options: ReadOptions) -> s.StructType:
    """Return the files' own columns: those of the option `columns`, or all."""
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


def _instant(value: str | None, time_zone: str | None) -> int | None:
    return None if value is None else parse_modified(value, time_zone)


def _choose_columns(
    columns: Sequence[ColumnPath],
    spark_schema: s.StructType,
    of_paths: s.StructType,
    schemas: Sequence[Schema],
    partitioning: Partitioning,
) -> s.StructType:
    """Return the columns of the option `columns`, in its order, and the fields of structs in its order too."""
    full_schema = schemas[0]  # whose columns positions count
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
                # No file has it: this raises the error that names the columns of all.
                resolve_all(full_schema.fields, [reference], others=[*of_paths.names, *others])
            field = spark_schema.fields[find_columns(spark_schema.names, [head])[0]]
        chosen.setdefault(field.name, field)
        below.setdefault(field.name, []).append(path)
    fields = []
    for name, field in chosen.items():
        try:
            fields.append(_with_type(field, in_order(field.dataType, below[name], name)))
        except ColumnNotFoundError as error:
            raise with_dotted(error, full_schema.names, [name, *below[name][0]]) from None
    return s.StructType(fields)


def _with_type(field: s.StructField, type_: s.DataType) -> s.StructField:
    return field if type_ is field.dataType else s.StructField(field.name, type_, field.nullable, field.metadata)


# Say of a file whose types do not fit the schema of a read where that schema is from.
#
# A task gets a schema, and not what made it: the newest file, all files, or a user. Where the newest file gives a
# column just the type that is expected, the error names that file beside the one with the other type, and says
# whether ``mergeSchema`` would read both. The newest file is opened for that once more, and only where a task fails.
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
    """Add to an error of a file's types where the expected ones are from."""
    column = _column_of(error, [*columns.fields, *extra])
    if column is None:
        return
    error.asked_by = SCHEMA if column in columns.fields else WHERE
    if newest is None or error.expected is None:
        return
    paths = tuple(_paths(column.dataType, (column.name,)))
    alone = replace(options, columns=paths, merge_schema=False, metadata_columns=False)
    with suppress(ArrowIpcError, OSError):  # the error is told without
        origin = schema_of_file(newest, alone)
        if origin.fields[0].dataType == column.dataType:
            error.asked_by = f"{error.asked_by}, as in the newest file {newest.path}"
            error.found = f"{error.found}; {_way_out(origin, schema_for_spark([('', actual)], _NO_FILES, alone))}"


def _column_of(error: SchemaMismatchError, needed: Sequence[s.StructField]) -> s.StructField | None:
    """Return the column that an error is about; None if it names none."""
    at = error.field_path or ""
    above = [one for one in needed if at == one.name or at.startswith((f"{one.name}.", f"{one.name}["))]
    return max(above, key=lambda one: len(one.name), default=None)


def _paths(type_: s.DataType, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the paths to the fields of a struct that are read, or to a whole column."""
    if not isinstance(type_, s.StructType) or not type_.fields:
        yield path
        return
    for field in type_.fields:
        yield from _paths(field.dataType, (*path, field.name))


def _way_out(origin: s.StructType, actual: s.StructType) -> str:
    try:
        merge_schemas([("", origin), ("", actual)])
    except SchemaMismatchError:
        return "read the files apart (pathGlobFilter), or leave the column out with the option columns"
    return "mergeSchema=true reads both"
