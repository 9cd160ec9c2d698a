"""Which columns of a file are read: those that the option `columns` names, and of these what Spark asked for.

Strategy
--------
Files of one directory may differ in the order of their columns, so a name is resolved against each file's own
schema. Names match as Spark's do by default, in any case; where that leaves two, the one written exactly so is
meant, and failing that it is an error that shows the positions. A user's ``.schema(subset)`` is a projection,
down into structs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import ColumnNotFoundError
from spark_arrow_ipc.ipc.plan import ColumnPath
from spark_arrow_ipc.spark.column_names import find_columns
from spark_arrow_ipc.spark.option_values import ColumnReference, column_text

SelectColumns = Callable[[Schema], Sequence[ColumnPath]]
"""From a file's schema to the columns to read, as `ipc.open` takes it."""


def select_referenced(references: Sequence[ColumnReference] | None) -> SelectColumns | None:
    """Return what finds the columns of the option `columns` in a file; None where that is all of them."""
    if references is None:
        return None
    return lambda schema: [_resolve(schema.fields, reference) for reference in references]


def select_asked(references: Sequence[ColumnReference] | None, asked: s.StructType) -> SelectColumns:
    """Return what finds in a file the columns that Spark asked for, among those of the option `columns`."""

    def select(schema: Schema) -> list[ColumnPath]:
        if references is not None:
            return [_resolve(schema.fields, reference) for reference in references]
        paths: list[ColumnPath] = []
        for field, position in zip(asked.fields, find_columns(schema.names, asked.names), strict=True):
            paths.extend(
                (position, *below) for below in _below(schema.fields[position].type, field.dataType, field.name)
            )
        return paths

    return select


def _resolve(fields: Sequence[t.Field], reference: ColumnReference) -> ColumnPath:
    if isinstance(reference, int):
        if reference >= len(fields):
            raise ColumnNotFoundError(expected=f"a column position below {len(fields)}", found=f"#{reference}")
        return reference
    names = (reference,) if isinstance(reference, str) else reference
    path: list[int] = []
    for i, name in enumerate(names):
        path += find_columns([field.name for field in fields], [name], ".".join(names[:i]) or None)
        type_ = fields[path[-1]].type
        if i + 1 < len(names) and not isinstance(type_, t.Struct):
            raise ColumnNotFoundError(
                expected=f"a struct, into which {column_text(reference)!r} could go", found=f"{type_} in {name!r}"
            )
        fields = type_.children
    return tuple(path)


def _below(type_: t.DataType, asked: s.DataType, path: str) -> list[tuple[int, ...]]:
    """Return the paths below a column that is asked for: into structs, and elsewhere the whole column."""
    if not isinstance(type_, t.Struct) or not isinstance(asked, s.StructType) or not asked.fields:
        return [()]
    paths: list[tuple[int, ...]] = []
    positions = find_columns([field.name for field in type_.fields], asked.names, path)
    for field, position in zip(asked.fields, positions, strict=True):
        paths.extend(
            (position, *below) for below in _below(type_.fields[position].type, field.dataType, f"{path}.{field.name}")
        )
    return paths
