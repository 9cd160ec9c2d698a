"""Bounds of data files, from those of their record batches: the statistics in an entry.

A writer knows the statistics of each record batch, which it puts into the footer. Those of a file follow from them: nulls
add up, and a bound is the least or greatest of the bounds. A bound of a record batch without values is none, and is passed
over; an unknown bound of one with values makes that of the file unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.predicate.coercion import order_key
from spark_arrow_ipc.dataset.predicate.expressions import Raw
from spark_arrow_ipc.dataset.statistics.format import MAX, MIN, NAN_COUNT, NULL_COUNT, Leaf, Path, array_of
from spark_arrow_ipc.dataset.statistics.read import BlockStatistics, ColumnStatistics

Bound: TypeAlias = tuple[Raw, bool]
"""A bound in the unit of its type, and whether it is a value of the column, not one that was cut."""


class ColumnBounds(NamedTuple):
    """The statistics of a leaf column in one file."""

    type: t.DataType
    null_count: int
    nan_count: int | None  # None if unknown, and for types without NaN
    least: Bound | None  # None if unknown, or without values
    greatest: Bound | None


FileBounds: TypeAlias = Mapping[Path, ColumnBounds]


def bounds_of_file(statistics: BlockStatistics) -> FileBounds:
    """Return the bounds of a file from the statistics of all its record batches. O(record batches x columns)."""
    return {path: _column_bounds(column, statistics.row_counts) for path, column in statistics.columns.items()}


def bounds_batch(files: Sequence[FileBounds]) -> RecordBatch | None:
    """Return the bounds of files as `Files.statistics` has them, with a row for each file; None if none has any."""
    leaves = list(dict.fromkeys((path, column.type) for file in files for path, column in file.items()))
    if not leaves:
        return None
    fields, arrays = [], []
    for path, type_ in leaves:
        columns = [file.get(path) for file in files]
        # After a change of the schema, files have the column in another type: that is another leaf.
        columns = [column if column is not None and column.type == type_ else None for column in columns]
        field = Leaf(path, (), type_).field()
        fields.append(field)
        arrays.append(_struct(field.type, columns))
    return RecordBatch(Schema.of(fields), tuple(arrays), len(files))


def _column_bounds(column: ColumnStatistics, row_counts: Sequence[int]) -> ColumnBounds:
    nans = None if None in column.nan_counts else sum(int(count or 0) for count in column.nan_counts)
    # NaN is outside of bounds, so that a record batch of nulls and NaN has none.
    has_values = [
        nulls + (nan or 0) < rows
        for nulls, nan, rows in zip(column.null_counts, column.nan_counts, row_counts, strict=True)
    ]
    return ColumnBounds(
        column.type,
        sum(column.null_counts),
        nans if isinstance(column.type, t.FloatingPoint) else None,
        _join(min, column.least, column.least_exact, has_values),
        _join(max, column.greatest, column.greatest_exact, has_values),
    )


def _join(
    choose: Callable[..., Bound], bounds: Sequence[Raw | None], exact: Sequence[bool], has_values: Sequence[bool]
) -> Bound | None:
    """Return the least or greatest of the bounds; None without any, or if one of a record batch with values is unknown."""
    of_values = [(bound, is_exact) for bound, is_exact, has in zip(bounds, exact, has_values, strict=True) if has]
    extremes = [(bound, is_exact) for bound, is_exact in of_values if bound is not None]
    if not extremes or len(extremes) < len(of_values):
        return None
    # Of a cut bound and an equal value, the cut one is chosen for neither end to claim more than it knows.
    return choose(extremes, key=lambda row: (order_key(row[0]), row[1] if choose is min else not row[1]))


def _struct(type_: t.DataType, columns: Sequence[ColumnBounds | None]) -> Array:
    """Return the struct array of one leaf; a file without the column is null."""
    assert isinstance(type_, t.Struct)
    lists: dict[str, list[Raw | None]] = {
        NULL_COUNT: [None if column is None else column.null_count for column in columns],
        NAN_COUNT: [None if column is None else column.nan_count for column in columns],
    }
    for names, bounds in (
        (MIN, [None if column is None else column.least for column in columns]),
        (MAX, [None if column is None else column.greatest for column in columns]),
    ):
        for name, is_exact in zip(names, (True, False), strict=True):
            lists[name] = [bound[0] if bound is not None and bound[1] is is_exact else None for bound in bounds]
    children = tuple(array_of(lists[child.name], child.type) for child in type_.children)
    valid = [column is not None for column in columns]
    null_count = len(valid) - sum(valid)
    validity = array_data.pack_bits(valid) if null_count else None
    return Array(type_, len(columns), null_count, (validity,), children)
