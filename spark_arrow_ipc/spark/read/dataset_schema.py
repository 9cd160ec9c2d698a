"""What a read is about: its files with their partitions, and the schema that Spark gets for them.

Strategy
--------
The driver asks twice, in two processes: for a schema, and for the input partitions of a schema that may be the
user's own. Both begin with the same listing. The columns of the files come first, those that only paths tell stand
behind them (`hive.merged_fields`), and the option `columns` chooses among all.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import types as s

from spark_arrow_ipc.arrow.column_path import ColumnPath, find_columns
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.listing.file_filter import FileFilter, parse_modified
from spark_arrow_ipc.dataset.listing.hive import Partitioning, discover, merged_fields, retype
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.scan.scan import read_schema
from spark_arrow_ipc.dataset.scan.schemas import distinct_schemas
from spark_arrow_ipc.errors import error_context
from spark_arrow_ipc.spark.options.options import ReadOptions
from spark_arrow_ipc.spark.read.metadata_columns import check_clash, metadata_schema
from spark_arrow_ipc.spark.read.projection import partition_position, select_referenced
from spark_arrow_ipc.spark.types.arrow_to_spark import spark_schema
from spark_arrow_ipc.spark.types.merge import merged_schema
from spark_arrow_ipc.spark.types.spark_to_arrow import arrow_field

__all__ = ["list_dataset", "read_spark_schema", "typed"]

_LOG: Final = logging.getLogger(__name__)


def list_dataset(options: ReadOptions, *, infer: bool) -> Partitioning:
    """Return the files of a read with the columns and values that their paths tell.

    Parameters
    ----------
    options
        Of the read.
    infer
        Whether the columns get the types that their values look like; else all are text, to be typed by `typed`.

    Raises
    ------
    NoFilesError, OptionError, SchemaMismatchError, ArrowIpcError
        As `list_tree` and `discover`.
    """
    filters = FileFilter(
        options.path_glob_filter,
        _instant(options.modified_before, options.time_zone),
        _instant(options.modified_after, options.time_zone),
    )
    tree = list_tree(options.paths, recursive=options.recursive_file_lookup, file_filter=filters)
    found = discover(
        tree,
        base_path=options.base_path,
        infer=infer,
        time_zone=options.time_zone,
    )
    if (warning := found.warning()) is not None:
        _LOG.warning("%s", warning)
    return found


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

    Opens one file, or with ``mergeSchema`` each.

    Raises
    ------
    OptionError, NoFilesError, ArrowIpcError
        An option is wrong, there is nothing to read, the first file is broken, or files do not unite.
    """
    partitioning = list_dataset(options, infer=options.partition_type_inference)
    first = _FirstSchema(options, partitioning)
    columns = first.select if options.columns is not None or partitioning.fields else None
    faults = options.faults
    if options.merge_schema:
        found = distinct_schemas(partitioning.files, columns=columns, faults=faults)
        schemas = [(file.path, _mapped(file.path, schema, options)) for file, schema in found]
        own = merged_schema(schemas)
    else:
        path = partitioning.files[0].path
        own = _mapped(path, read_schema(partitioning.files, columns=columns, faults=faults), options)
    of_paths = spark_schema(Schema(partitioning.fields), options)
    if options.columns is None:
        whole = s.StructType(list(merged_fields(own.fields, of_paths.fields)))
    else:
        whole = _chosen(own, of_paths, first, options)
    if not options.metadata_columns:
        return whole
    check_clash(whole.names)
    return s.StructType([*whole.fields, *metadata_schema().fields])


def _instant(text: str | None, time_zone: str | None) -> int | None:
    return None if text is None else parse_modified(text, time_zone)


def _mapped(path: str, schema: Schema, options: ReadOptions) -> s.StructType:
    with error_context(path=path):
        return spark_schema(schema, options)


@dataclass(slots=True, eq=False)
class _FirstSchema:
    """Selects columns of files, and keeps the whole schema of the first: positions are counted in that."""

    options: ReadOptions
    partitioning: Partitioning
    whole: Schema | None = None

    def select(self, schema: Schema) -> Sequence[ColumnPath]:
        """Return the columns of a file that count: those of the option `columns`, or all; not what paths tell."""
        if self.whole is None:
            self.whole = schema
        if self.options.columns is None:
            return list(range(len(schema)))
        select = select_referenced(
            self.options.columns, self.partitioning.fields, skips_absent=self.options.merge_schema
        )
        return select(schema)


def _chosen(own: s.StructType, of_paths: s.StructType, first: _FirstSchema, options: ReadOptions) -> s.StructType:
    """Return the columns of the option `columns`, in its order."""
    assert options.columns is not None
    assert first.whole is not None
    chosen: dict[str, s.StructField] = {}
    for reference in options.columns:
        position = partition_position(first.partitioning.fields, reference)
        if position is not None:
            field = of_paths.fields[position]
        elif isinstance(reference, int):
            field = own[first.whole.fields[reference].name]
        else:
            head = reference[0] if isinstance(reference, tuple) else reference
            assert isinstance(head, str), "the option has no positions below a column"
            field = own.fields[find_columns(own.names, [head])[0]]
        chosen.setdefault(field.name, field)
    return s.StructType(list(chosen.values()))
