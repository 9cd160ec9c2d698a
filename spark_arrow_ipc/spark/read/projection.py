"""Which columns of a file are read: those that the option `columns` names, and of these what Spark asked for.

Strategy
--------
Files of one directory may differ in the order of their columns, so a name is resolved against each file's own
schema. Names match as Spark's do by default, in any case; where that leaves two, the one written exactly so is
meant, and failing that it is an error that shows the positions. A user's ``.schema(subset)`` is a projection,
down into structs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.column_path import find_columns
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import ColumnNotFoundError
from spark_arrow_ipc.ipc.plan import ColumnPath
from spark_arrow_ipc.spark.options.parsers import ColumnReference, column_text

SelectColumns = Callable[[Schema], Sequence[ColumnPath]]
"""From a file's schema to the columns to read, as `ipc.open` takes it."""


def partition_position(partition_fields: Sequence[t.Field], reference: ColumnReference) -> int | None:
    """Return which partition column a reference names, or None where it is one of the files' own."""
    if isinstance(reference, int) or not partition_fields:
        return None
    if isinstance(reference, tuple):
        if len(reference) > 1:
            return None
        (reference,) = reference
    (position,) = find_columns([field.name for field in partition_fields], [reference], absent=-1)
    return position if position >= 0 else None


def select_referenced(
    references: Sequence[ColumnReference], partition_fields: Sequence[t.Field] = (), *, skips_absent: bool = False
) -> SelectColumns:
    """Return what finds the columns of the option `columns` in a file.

    Parameters
    ----------
    references
        Of the option.
    partition_fields
        Columns that are not in the files.
    skips_absent
        Whether a file need not have all of them.
    """
    own = [reference for reference in references if partition_position(partition_fields, reference) is None]

    def select(schema: Schema) -> list[ColumnPath]:
        paths = (_resolve(schema.fields, reference, skips_absent=skips_absent) for reference in own)
        return [path for path in paths if path is not None]

    return select


def select_asked(
    references: Sequence[ColumnReference] | None,
    asked: s.StructType,
    partition_fields: Sequence[t.Field] = (),
    *,
    skips_absent: bool = False,
) -> SelectColumns:
    """Return what finds in a file the columns that Spark asked for, among those of the option `columns`.

    Parameters
    ----------
    references
        Of the option `columns`, or None.
    asked
        What Spark asked for.
    partition_fields, skips_absent
        As for `select_referenced`.
    """
    if references is not None and not skips_absent:
        return select_referenced(references, partition_fields)
    # Of files that differ each is asked by name: positions are those of the first.
    own = [field for field in asked.fields if partition_position(partition_fields, field.name) is None]

    def select(schema: Schema) -> list[ColumnPath]:
        return list(_below(t.Struct(schema.fields), s.StructType(own), None, skips_absent=skips_absent))

    return select


def select_needed(
    references: Sequence[ColumnReference] | None,
    asked: s.StructType,
    extra: Sequence[s.StructField],
    partition_fields: Sequence[t.Field] = (),
    *,
    skips_absent: bool = False,
) -> SelectColumns:
    """Return what finds in a file all that is read of it: what `select_asked` finds, and `extra` columns behind that.

    Parameters
    ----------
    references, asked, partition_fields, skips_absent
        As for `select_asked`.
    extra
        Columns that only the option `where` names.
    """
    own = select_asked(references, asked, partition_fields, skips_absent=skips_absent)
    if not extra:
        return own
    others = select_asked(None, s.StructType(list(extra)), partition_fields, skips_absent=skips_absent)
    return lambda schema: [*own(schema), *others(schema)]


def _resolve(fields: Sequence[t.Field], reference: ColumnReference, *, skips_absent: bool) -> ColumnPath | None:
    if isinstance(reference, int):
        if reference >= len(fields):
            raise ColumnNotFoundError(expected=f"a column position below {len(fields)}", found=f"#{reference}")
        return reference
    names = (reference,) if isinstance(reference, str) else reference
    absent = -1 if skips_absent else None
    path: list[int] = []
    for i, name in enumerate(names):
        (position,) = find_columns([field.name for field in fields], [name], ".".join(names[:i]) or None, absent=absent)
        if position < 0:
            return None
        path.append(position)
        type_ = fields[position].type
        if i + 1 < len(names) and not isinstance(type_, t.Struct):
            raise ColumnNotFoundError(
                expected=f"a struct, into which {column_text(reference)!r} could go", found=f"{type_} in {name!r}"
            )
        fields = type_.children
    return tuple(path)


def _below(type_: t.DataType, asked: s.DataType, path: str | None, *, skips_absent: bool) -> Iterator[tuple[int, ...]]:
    """Yield the paths below a column that is asked for: into structs, and elsewhere the whole column."""
    if not isinstance(type_, t.Struct) or not isinstance(asked, s.StructType) or (path and not asked.fields):
        yield ()
        return
    names = [field.name for field in type_.fields]
    positions = find_columns(names, asked.names, path, absent=-1 if skips_absent else None)
    found = [(position, field) for position, field in zip(positions, asked.fields, strict=True) if position >= 0]
    if path and not found:  # nothing of the struct is there, and still it is null or not
        yield ()
    for position, field in found:
        here = field.name if path is None else f"{path}.{field.name}"
        for below in _below(type_.fields[position].type, field.dataType, here, skips_absent=skips_absent):
            yield (position, *below)
