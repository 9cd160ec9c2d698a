"""Skip the record batches of a file that cannot match, by the file's statistics.

Statistics have the types of the file's data, and a predicate has Spark's types: uint64 as a decimal, nanoseconds as
microseconds, a UUID as a string. `_CONVERSIONS` has a row for each conversion that keeps the order of values, by which bounds
are converted. Without a row (arrow.bool8, whose negative numbers are true, too) the bounds are unknown, and only null counts
are used.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.column_path import fields_along, resolve_all
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.predicate.bound import BoundColumn, BoundPredicate, bound_columns
from spark_arrow_ipc.dataset.predicate.coercion import rescale
from spark_arrow_ipc.dataset.predicate.expressions import Raw
from spark_arrow_ipc.dataset.predicate.instants import DAY_MICROSECONDS
from spark_arrow_ipc.dataset.predicate.prune import (
    TRUE,
    UNKNOWN,
    Summary,
    summary_of_constant,
    summary_of_results,
    truths,
)
from spark_arrow_ipc.dataset.statistics.read import BlockStatistics, ColumnStatistics
from spark_arrow_ipc.errors import ColumnNotFoundError

BlockFilter = Callable[[int], bool]
"""True if block `i` may have a matching row."""

BlockTruths = Callable[[int], int]
"""The set of truths that rows of block `i` may have, as `prune.truths`."""


def block_filter(
    bound: BoundPredicate,
    schema: Schema,
    statistics: BlockStatistics,
    partition: Mapping[str, object] | None = None,
) -> BlockFilter:
    """Return a callback that returns whether a block of a file must be read; parameters of `block_truths`."""
    may_be = block_truths(bound, schema, statistics, partition)
    return lambda i: bool(may_be(i) & TRUE)


def block_truths(
    bound: BoundPredicate,
    schema: Schema,
    statistics: BlockStatistics | None,
    partition: Mapping[str, object] | None = None,
    of_blocks: Mapping[str, Callable[[int], Summary]] | None = None,
) -> BlockTruths:
    """Return a callback that returns the truths that the predicate may have in a block of a file."""
    constants, others = partition or {}, of_blocks or {}
    summaries: dict[BoundColumn, Callable[[int], Summary]] = {}
    for column in bound_columns(bound):
        if column.path[0] in others:
            summaries[column] = others[column.path[0]]
            continue
        # The partition column replaces a column of the file with the same name.
        if (summary := summary_of_constant(column, constants)) is not None:
            summaries[column] = _constant(summary)
            continue
        path = () if statistics is None else _path_in(schema, column.path) or ()
        of_column = None if statistics is None else statistics.columns.get(path)
        summaries[column] = (
            _constant(UNKNOWN)
            if statistics is None or of_column is None
            else summaries_of(of_column, statistics.row_counts, column)
        )
    return lambda i: truths(bound, lambda column: summaries[column](i))


def keeps_order(from_: t.DataType, to: t.DataType) -> bool:
    """Return whether the least and greatest value of a file's type stay so when they are converted to Spark's type."""
    make = _CONVERSIONS.get((type(from_), type(to)))
    return make is not None and make(from_, to) is not None


def _constant(summary: Summary) -> Callable[[int], Summary]:
    return lambda _: summary


def _path_in(schema: Schema, path: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the names of a column in the case of the file, or None if the file has no such column."""
    try:
        positions = resolve_all(schema.fields, [path], skips_absent=True)
    except ColumnNotFoundError:  # the name matches several columns
        return None
    if not positions or len(positions[0]) < len(path):
        return None
    return tuple(field.name for field in fields_along(schema.fields, positions[0]))


def summaries_of(
    statistics: ColumnStatistics, row_counts: Sequence[int], column: BoundColumn
) -> Callable[[int], Summary]:
    """Return the function from the position of statistics to what a predicate may know of the column."""
    type_ = column.base.type
    make = _CONVERSIONS.get((type(statistics.type), type(type_)))
    convert = make(statistics.type, type_) if make is not None else None

    def summary(i: int) -> Summary:
        nulls, rows = statistics.null_counts[i], row_counts[i]
        least = greatest = None
        if convert is not None:
            least, greatest = _convert(convert, statistics.least[i]), _convert(convert, statistics.greatest[i])
        if isinstance(statistics.type, t.FloatingPoint):
            nans = statistics.nan_counts[i]
            if nans is None or nans:
                # NaN is above all numbers; without any number it is the least as well.
                greatest = math.nan
                least = math.nan if nans is not None and nans + nulls == rows else least
        of_values = Summary(least, greatest, may_be_null=nulls > 0, may_be_valid=nulls < rows)
        return summary_of_results(column, of_values)

    return summary


_Convert = Callable[[Any], Raw | None]


def _convert(convert: _Convert, value: Raw | None) -> Raw | None:
    return None if value is None else convert(value)


def _same(_from: t.DataType, _to: t.DataType) -> _Convert:
    return lambda value: value


def _instants(from_: Any, to: Any) -> _Convert | None:
    if isinstance(from_, t.Timestamp) and (from_.timezone is None) != (to.timezone is None):
        return None  # the zone would shift the values
    up, down = t.TimeUnit.MICROSECOND.per_second, from_.unit.per_second
    # Rounded down, as nanoseconds are read, before 1970 too.
    return lambda value: value * up // down


def _dates(from_: t.Date, to: t.DataType) -> _Convert | None:
    per_day = 1 if from_.unit is t.DateUnit.DAY else DAY_MICROSECONDS // 1000
    if isinstance(to, t.Timestamp):
        return None if to.timezone is not None else lambda value: value // per_day * DAY_MICROSECONDS
    return lambda value: value // per_day


def _uuid_text(value: bytes) -> bytes | None:
    return str(uuid.UUID(bytes=value)).encode() if len(value) == 16 else None


_STRINGS: Final = (t.Utf8, t.LargeUtf8, t.Utf8View)
_BYTES: Final = (t.Binary, t.LargeBinary, t.BinaryView, t.FixedSizeBinary)

_CONVERSIONS: Final[Mapping[tuple[type[t.DataType], type[t.DataType]], Callable[[Any, Any], _Convert | None]]] = {
    (t.Bool, t.Bool): _same,
    (t.Int, t.Int): _same,
    (t.Int, t.Decimal): lambda _from, to: lambda value: rescale(value, 0, to.scale),
    (t.FloatingPoint, t.FloatingPoint): _same,
    # A smaller scale would round, and so may bring a value beyond its bound.
    (t.Decimal, t.Decimal): lambda from_, to: (
        None if to.scale < from_.scale else lambda value: rescale(value, from_.scale, to.scale)
    ),
    (t.Date, t.Date): _dates,
    (t.Date, t.Timestamp): _dates,
    (t.Timestamp, t.Timestamp): _instants,
    (t.Timestamp, t.Int): _same,
    (t.Duration, t.Duration): _instants,
    (t.Duration, t.Int): _same,
    (t.Time, t.Duration): _instants,
    (t.Time, t.Int): _same,
    (t.IntervalYearMonth, t.Int): _same,
    (t.FixedSizeBinary, t.Utf8): lambda from_, _to: _uuid_text if from_.byte_width == 16 else None,
    **{(string, t.Utf8): _same for string in _STRINGS},
    **{(octets, t.Binary): _same for octets in _BYTES},
}
"""By the classes of a file's type and of Spark's: the conversions that keep the order of values."""
