"""What a read is about: its files with their partitions, and the schema that Spark gets for them.

Strategy
--------
The driver asks twice, in two processes: for a schema, and for the input partitions of a schema that may be the
user's own. Each of them lists the paths once, and reads the outline of a file once. The columns of the files come
first, those that only paths tell after them (`hive.merged_fields`), and the option `columns` chooses among all.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from pyspark.sql import types as s

from spark_arrow_ipc.arrow.column_path import ColumnPath, find_columns
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.file_filter import FileFilter, parse_modified
from spark_arrow_ipc.dataset.listing.hive import Partitioning, discover, merged_fields, retype
from spark_arrow_ipc.dataset.listing.tree import Tree, list_tree
from spark_arrow_ipc.dataset.scan.outline import OutlineOptions, Outlines
from spark_arrow_ipc.dataset.scan.schemas import distinct_schemas, first_schema, project
from spark_arrow_ipc.errors import error_context
from spark_arrow_ipc.spark.options.options import ReadOptions
from spark_arrow_ipc.spark.read.metadata_columns import check_clash, metadata_schema
from spark_arrow_ipc.spark.read.projection import partition_position, select_referenced
from spark_arrow_ipc.spark.types.arrow_to_spark import spark_schema
from spark_arrow_ipc.spark.types.merge import merged_schema
from spark_arrow_ipc.spark.types.spark_to_arrow import arrow_field

__all__ = ["dataset_schema", "list_dataset", "partition_files", "read_spark_schema", "typed"]

_LOG: Final = logging.getLogger(__name__)


def list_dataset(options: ReadOptions) -> Tree:
    """Return everything that lies under the paths of a read. The only listing of a plan.

    Raises
    ------
    NoFilesError, OptionError, ArrowIpcError
        As `list_tree`.
    """
    filters = FileFilter(
        options.path_glob_filter,
        _instant(options.modified_before, options.time_zone),
        _instant(options.modified_after, options.time_zone),
    )
    return list_tree(options.paths, recursive=options.recursive_file_lookup, file_filter=filters)


def partition_files(tree: Tree, options: ReadOptions, *, infer: bool) -> Partitioning:
    """Return the files of a read with the columns and values that their paths tell.

    Parameters
    ----------
    tree
        As `list_dataset` gives it.
    options
        Of the read.
    infer
        Whether the columns get the types that their values look like; else all are strings, to be typed by `typed`.

    Raises
    ------
    NoFilesError, OptionError, SchemaMismatchError
        As `discover`.
    """
    partitioning = discover(tree, base_path=options.base_path, infer=infer, time_zone=options.time_zone)
    if (warning := partitioning.warning()) is not None:
        _LOG.warning("%s", warning)
    return partitioning


def typed(partitioning: Partitioning, schema: s.StructType) -> Partitioning:
    """Return the partitions with the types that a schema asks for.

    Raises
    ------
    SchemaMismatchError, OptionError, UnsupportedError
        As `retype`.
    """
    asked = {field.name: arrow_field(field.name, field.dataType, {}, field.name).type for field in schema.fields}
    names = {field.name.lower() for field in partitioning.fields}
    return retype(partitioning, {name: type_ for name, type_ in asked.items() if name.lower() in names})


def read_spark_schema(options: ReadOptions) -> s.StructType:
    """Return the schema that Spark gets: of the first file or of all united, and of the paths; all nullable.

    Lists the paths once and opens one file, or with ``mergeSchema`` each.

    Raises
    ------
    OptionError, NoFilesError, ArrowIpcError
        An option is wrong, there is nothing to read, the first file is broken, or files do not unite.
    """
    tree = list_dataset(options)
    return dataset_schema(tree, Outlines(OutlineOptions(recover=options.recover)), options)


def dataset_schema(tree: Tree, outlines: Outlines, options: ReadOptions) -> s.StructType:
    """Return the schema that Spark gets of files that are listed already.

    Parameters
    ----------
    tree
        As `list_dataset` gives it.
    outlines
        Read of the first file, or with ``mergeSchema`` of all.
    options
        Of the read.

    Raises
    ------
    OptionError, NoFilesError, ArrowIpcError
        As `read_spark_schema`.
    """
    partitioning = partition_files(tree, options, infer=options.partition_type_inference)
    if options.merge_schema:
        schemas = distinct_schemas(partitioning.files, outlines, options.faults)
    else:
        schemas = [first_schema(partitioning.files, outlines, options.faults)]
    own = _united(schemas, partitioning, options)
    of_paths = spark_schema(Schema(partitioning.fields), options)
    if options.columns is None:
        whole = s.StructType(list(merged_fields(own.fields, of_paths.fields)))
    else:
        # Positions are counted in the first file.
        whole = _chosen(options.columns, own, of_paths, schemas[0][1], partitioning)
    if not options.metadata_columns:
        return whole
    check_clash(whole.names)
    return s.StructType([*whole.fields, *metadata_schema().fields])


def _united(
    schemas: Sequence[tuple[DataFile, Schema]], partitioning: Partitioning, options: ReadOptions
) -> s.StructType:
    """Return the columns of files that count: those of the option `columns`, or all; not what paths tell."""
    select = None
    if options.columns is not None:
        select = select_referenced(options.columns, partitioning.fields, skips_absent=options.merge_schema)
    mapped: dict[Schema, tuple[str, s.StructType]] = {}
    for file, whole in schemas:
        with error_context(path=file.path):
            schema = whole if select is None else project(whole, select)
            if schema not in mapped:
                mapped[schema] = file.path, spark_schema(schema, options)
    if options.merge_schema:
        return merged_schema(list(mapped.values()))
    ((_, only),) = mapped.values()
    return only


def _instant(text: str | None, time_zone: str | None) -> int | None:
    return None if text is None else parse_modified(text, time_zone)


def _chosen(
    columns: Sequence[ColumnPath],
    own: s.StructType,
    of_paths: s.StructType,
    whole: Schema,
    partitioning: Partitioning,
) -> s.StructType:
    """Return the columns of the option `columns`, in its order."""
    chosen: dict[str, s.StructField] = {}
    for reference in columns:
        position = partition_position(partitioning.fields, reference)
        if position is not None:
            field = of_paths.fields[position]
        elif isinstance(reference, int):
            field = own[whole.fields[reference].name]
        else:
            head = reference[0] if isinstance(reference, tuple) else reference
            assert isinstance(head, str), "the option has no positions below a column"
            field = own.fields[find_columns(own.names, [head])[0]]
        chosen.setdefault(field.name, field)
    return s.StructType(list(chosen.values()))
