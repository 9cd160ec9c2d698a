"""Choose the columns of a file, from the option `columns` and Spark's schema.

Strategy
--------
Files of one directory may differ in the order of their columns, so paths are resolved against the schema of each file,
by the rules of `arrow.column_path`. A user's ``.schema(subset)`` is a projection, also of the fields of structs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.column_path import ColumnPath, IsCaseSensitive, find_columns, resolve_all
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import ColumnNotFoundError, OptionError, error_context

SelectColumns = Callable[[Schema], Sequence[ColumnPath]]
"""Callback from a file's schema to the columns to read, for `ipc.open`."""

COLUMNS = "the option columns"
SCHEMA = "the schema of the read"
"""The names in errors of what asks for columns (`ArrowIpcError.asked_by`)."""


def partition_position(partition_fields: Sequence[t.Field], path: ColumnPath) -> int | None:
    """Return the position of a path's partition column; None for the files' columns."""
    if isinstance(path, tuple) and len(path) == 1:
        (path,) = path
    if not isinstance(path, str) or not partition_fields:
        return None
    (position,) = find_columns([field.name for field in partition_fields], [path], absent=-1)
    return position if position >= 0 else None


def in_order(type_: s.DataType, paths: Sequence[tuple[str, ...]], above: str) -> s.DataType:
    """Return the type of a column with the fields of its structs in the order of the paths to them.

    Parameters
    ----------
    type_
        The column's, in Spark.
    paths
        Names below the column; an empty path stands for all of it.
    above
        Path of the column, for errors.

    Raises
    ------
    OptionError
        A column is named twice, or a field of it beside it.
    ColumnNotFoundError
        There is no such field, or the column is not a struct in Spark.
    """
    if () in paths:
        if len(paths) > 1:
            raise OptionError(f"{above} is named more than once, or a field of it beside it; name each column once")
        return type_
    if not isinstance(type_, s.StructType):
        raise ColumnNotFoundError(
            expected=f"{above} to be a struct, so that {paths[0][0]!r} can be one of its fields",
            found=type_.simpleString(),
        )
    below: dict[int, list[tuple[str, ...]]] = {}
    for name, *rest in paths:
        (position,) = find_columns(type_.names, [name], above)
        below.setdefault(position, []).append(tuple(rest))
    fields = [(type_.fields[position], of_field) for position, of_field in below.items()]
    return s.StructType([
        s.StructField(f.name, in_order(f.dataType, of_field, f"{above}.{f.name}"), f.nullable, f.metadata)
        for f, of_field in fields
    ])  # fmt: skip


def select_referenced(
    paths: Sequence[ColumnPath],
    partition_fields: Sequence[t.Field] = (),
    *,
    skips_absent: bool = False,
    asked_by: str = COLUMNS,
    is_case_sensitive: IsCaseSensitive | None = None,
) -> SelectColumns:
    """Return a callback that resolves the option `columns`, or the columns of `where`, in the schema of a file.

    Of a column that has fields in Spark alone, such as a union, the whole is read.

    Parameters
    ----------
    paths
        Of the option.
    partition_fields
        Columns that are not in the files.
    skips_absent
        Whether to skip columns that a file does not have.
    asked_by
        What asks for the columns, for errors.
    is_case_sensitive
        As for `find_columns`; tasks know it.
    """
    own = [path for path in paths if partition_position(partition_fields, path) is None]

    def select(schema: Schema) -> list[ColumnPath]:
        with error_context(asked_by=asked_by):
            return list(resolve_all(schema.fields, own, skips_absent=skips_absent, is_case_sensitive=is_case_sensitive))

    return select


def select_asked(
    paths: Sequence[ColumnPath] | None,
    asked: s.StructType,
    partition_fields: Sequence[t.Field] = (),
    *,
    skips_absent: bool = False,
    asked_by: str | None = None,
    is_case_sensitive: IsCaseSensitive | None = None,
) -> SelectColumns:
    """Return a callback that resolves the columns of Spark's schema.

    Parameters
    ----------
    paths
        Of the option `columns`, or None to resolve all columns by name.
    asked
        The schema that Spark asked for.
    partition_fields, skips_absent, is_case_sensitive
        As for `select_referenced`.
    asked_by
        What asks for the columns, for errors: by default the option `columns` if it is given, else Spark's schema.
    """
    if paths is not None and (not skips_absent or any(isinstance(path, int) for path in paths)):
        return select_referenced(
            paths, partition_fields, skips_absent=skips_absent, is_case_sensitive=is_case_sensitive
        )
    own = [field for field in asked.fields if partition_position(partition_fields, field.name) is None]

    def select(schema: Schema) -> list[ColumnPath]:
        with error_context(asked_by=asked_by or (SCHEMA if paths is None else COLUMNS)):
            whole = t.Struct(schema.fields)
            return list(
                _below(whole, s.StructType(own), None, skips_absent=skips_absent, is_case_sensitive=is_case_sensitive)
            )

    return select


def select_needed(
    paths: Sequence[ColumnPath] | None,
    asked: s.StructType,
    extra: Sequence[s.StructField],
    partition_fields: Sequence[t.Field] = (),
    *,
    skips_absent: bool = False,
    is_case_sensitive: IsCaseSensitive | None = None,
) -> SelectColumns:
    """Return a callback that resolves the columns of `select_asked`, then `extra`.

    Parameters
    ----------
    paths, asked, partition_fields, skips_absent, is_case_sensitive
        As for `select_asked`.
    extra
        Columns that only the option `where` needs.
    """
    own = select_asked(paths, asked, partition_fields, skips_absent=skips_absent, is_case_sensitive=is_case_sensitive)
    if not extra:
        return own
    from spark_arrow_ipc.dataset.predicate.expressions import WHERE  # plain reads start faster without it

    others = select_asked(
        None,
        s.StructType(list(extra)),
        partition_fields,
        skips_absent=skips_absent,
        asked_by=WHERE,
        is_case_sensitive=is_case_sensitive,
    )
    return lambda schema: [*own(schema), *others(schema)]


def _below(
    type_: t.DataType,
    asked: s.DataType,
    path: str | None,
    *,
    skips_absent: bool,
    is_case_sensitive: IsCaseSensitive | None,
) -> Iterator[tuple[int, ...]]:
    """Yield the paths to the requested fields of a struct, or to a whole column."""
    if not isinstance(type_, t.Struct) or not isinstance(asked, s.StructType) or (path and not asked.fields):
        yield ()
        return
    names = [field.name for field in type_.fields]
    absent = -1 if skips_absent else None
    positions = find_columns(names, asked.names, path, absent=absent, is_case_sensitive=is_case_sensitive)
    present = [(position, field) for position, field in zip(positions, asked.fields, strict=True) if position >= 0]
    if path and not present:  # the file has none of the fields, and the validity of the struct is needed
        yield ()
    for position, field in present:
        here = field.name if path is None else f"{path}.{field.name}"
        inside = type_.fields[position].type
        for below in _below(
            inside, field.dataType, here, skips_absent=skips_absent, is_case_sensitive=is_case_sensitive
        ):
            yield (position, *below)
