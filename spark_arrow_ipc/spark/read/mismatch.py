"""Say of a file whose types do not fit the schema of a read where that schema is from.

Strategy
--------
A task gets a schema, and not what made it: the newest file, all files, or a user. Where the newest file gives a column
just the type that is expected, the error names that file beside the one with the other type, and says whether
``mergeSchema`` would read both. The newest file is opened for that once more, and only where a task fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from pyspark.sql import types as s

from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.hive import Partitioning
from spark_arrow_ipc.dataset.predicate.expressions import WHERE
from spark_arrow_ipc.errors import ArrowIpcError, SchemaMismatchError
from spark_arrow_ipc.spark.options.options import ReadOptions
from spark_arrow_ipc.spark.read.dataset_schema import schema_for_spark, schema_of_file
from spark_arrow_ipc.spark.read.projection import SCHEMA
from spark_arrow_ipc.spark.types.merge import merged_schema

_NO_FILES = Partitioning((), ())


def explain_mismatch(
    error: SchemaMismatchError,
    found: Schema,
    own: s.StructType,
    extra: Sequence[s.StructField],
    *,
    newest: DataFile | None,
    options: ReadOptions,
) -> None:
    """Add to an error of a file's types where the expected ones are from.

    Parameters
    ----------
    error
        Of `compile_conform`.
    found
        The schema of the file that does not fit.
    own, extra
        The requested columns, and those that only `where` needs.
    newest
        The newest file; None where the schema cannot be its own.
    options
        Of the read.
    """
    column = _column_of(error, [*own.fields, *extra])
    if column is None:
        return
    error.asked_by = SCHEMA if column in own.fields else WHERE
    if newest is None or error.expected is None:
        return
    columns = tuple(_paths(column.dataType, (column.name,)))
    alone = replace(options, columns=columns, merge_schema=False, metadata_columns=False)
    with suppress(ArrowIpcError, OSError):  # the error is told without
        origin = schema_of_file(newest, alone)
        if origin.fields[0].dataType == column.dataType:
            error.asked_by = f"{error.asked_by}, as in the newest file {newest.path}"
            error.found = f"{error.found}; {_way_out(origin, schema_for_spark([('', found)], _NO_FILES, alone))}"


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


def _way_out(origin: s.StructType, found: s.StructType) -> str:
    try:
        merged_schema([("", origin), ("", found)])
    except SchemaMismatchError:
        return "read the files apart (pathGlobFilter), or leave the column out with the option columns"
    return "mergeSchema=true reads both"
