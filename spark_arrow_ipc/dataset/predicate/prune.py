"""Evaluate predicates over min/max/null summaries to skip blocks and partitions.

How it works: a `Summary` has the bounds of a column's values in a set of rows, and whether nulls and values are possible. A
predicate over it has not one truth but the set of truths that rows may have, as bits; connectives combine sets
(`_combine_sets`). A set may be too large, never too small: without ``TRUE`` in it, no row matches. `UNKNOWN` allows all.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from itertools import product
from typing import Any, Final

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import scalars
from spark_arrow_ipc.dataset.predicate.bound import (
    COMPARE,
    All,
    Any_,
    BoundColumn,
    BoundPredicate,
    Constant,
    Doubtful,
    IsNull,
    Like,
    Negated,
    NullSafe,
    OneOf,
    Pair,
    Range,
    Unsure,
    is_empty,
)
from spark_arrow_ipc.dataset.predicate.coercion import find_widening, order_key
from spark_arrow_ipc.dataset.predicate.expressions import Operator, Raw, prefix_end
from spark_arrow_ipc.dataset.predicate.instants import EPOCH

TRUE: Final = 1
"""The set of truths of rows that all match."""

FALSE: Final = 2
NULL: Final = 4
ANYTHING: Final = TRUE | FALSE | NULL
_TRUTH_BITS: Final = (TRUE, FALSE, NULL)


@dataclass(frozen=True, slots=True)
class Summary:
    """Bounds and nulls of a column in a set of rows."""

    # bounds of the values in Spark's order; None if unknown
    least: Raw | None = None
    greatest: Raw | None = None
    # whether some row may be null, and whether some row may have a value
    may_be_null: bool = True
    may_be_valid: bool = True


UNKNOWN: Final = Summary()
"""The summary of a column without statistics."""

Lookup = Callable[[BoundColumn], Summary]
"""Returns the summary of a column."""


def keeps(bound: BoundPredicate, lookup: Lookup) -> bool:
    """Return False if no row of a set can match."""
    return bool(truths(bound, lookup) & TRUE)


def keeps_partition(bound: BoundPredicate, values: Mapping[str, object]) -> bool:
    """Return False if no row of a hive partition can match."""
    return keeps(bound, lambda column: summary_of_constant(column, values) or UNKNOWN)


def summary_of_constant(column: BoundColumn, values: Mapping[str, object]) -> Summary | None:
    """Return the summary of a column with one value in all rows; None if `values`, by name, does not have it."""
    if len(column.path) != 1 or column.path[0] not in values:  # fields of structs are never partition columns
        return None
    return summary_of_results(column, summary_of_value(values[column.path[0]], column.base.type))


def summary_of_results(column: BoundColumn, summary: Summary) -> Summary:
    """Return the summary of a function's results from the summary of its column."""
    if column.function is None:
        return summary
    least, greatest = summary.least, summary.greatest
    if column.function == "YEAR":
        return replace(summary, least=_year(least), greatest=_year(greatest))
    # No other function keeps the order: months begin again each year, and letters of both cases are not in one order.
    return replace(summary, least=None, greatest=None)


def _year(day: Raw | None) -> int | None:
    return None if day is None else int(np.datetime64(int(day), "D").astype("M8[Y]").astype(np.int64)) + 1970


def summary_of_value(value: object, type_: t.DataType) -> Summary:
    """Return the summary of a column with the same Python value in all rows."""
    if value is None:
        return Summary(may_be_valid=False)
    convert = _RAW.get(type(type_))
    raw = convert(value, type_) if convert is not None else None
    return Summary(raw, raw, may_be_null=False)


_MICROSECOND: Final = timedelta(microseconds=1)


def _raw_timestamp(value: Any, _type: t.Timestamp) -> Raw | None:
    if not isinstance(value, datetime):
        return int(value) if isinstance(value, int) else None
    naive = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return (naive - EPOCH) // _MICROSECOND


_RAW: Final[Mapping[type[t.DataType], Callable[[Any, Any], Raw | None]]] = {
    t.Bool: lambda value, _: int(value),
    t.Int: lambda value, _: int(value),
    t.FloatingPoint: lambda value, _: float(value),
    t.Decimal: lambda value, type_: scalars.to_unscaled_int(value if isinstance(value, Decimal) else int(value), type_),
    t.Utf8: lambda value, _: str(value).encode("utf-8", "surrogatepass"),
    t.Binary: lambda value, _: bytes(value),
    t.Date: lambda value, _: (
        value.toordinal() - date(1970, 1, 1).toordinal() if isinstance(value, date) else int(value)
    ),
    t.Timestamp: _raw_timestamp,
}
"""By type class: a Python value in the unit of its type. Values of other types are unknown."""


def truths(bound: BoundPredicate, lookup: Lookup) -> int:
    """Return the set of truths that rows may have, as bits: 1 true, 2 false, 4 unknown."""
    return _TRUTHS[type(bound)](bound, lookup)


def _combine_sets(first: int, second: int, neutral: int) -> Mapping[tuple[int, int], int]:
    """Return the table of a connective over sets of truths, whose result is the first of three truths that a side has."""

    def combine(left: int, right: int) -> int:
        return first if first in (left, right) else second if second in (left, right) else neutral

    table: dict[tuple[int, int], int] = {}
    for left, right in product(range(8), repeat=2):
        singles = [combine(a, b) for a in _TRUTH_BITS if a & left for b in _TRUTH_BITS if b & right]
        table[left, right] = reduce(int.__or__, singles, 0)
    return table


_ANDS: Final = _combine_sets(FALSE, NULL, TRUE)
_ORS: Final = _combine_sets(TRUE, NULL, FALSE)
_NOTS: Final = tuple(s & NULL | (FALSE if s & TRUE else 0) | (TRUE if s & FALSE else 0) for s in range(8))
_NULL_SAFE: Final = tuple(s & ~NULL | (FALSE if s & NULL else 0) for s in range(8))


def _all(bound: All, lookup: Lookup) -> int:
    possible = TRUE
    for part in bound.parts:
        possible = _ANDS[possible, truths(part, lookup)]
    return possible


def _any(bound: Any_, lookup: Lookup) -> int:
    possible = FALSE
    for part in bound.parts:
        possible = _ORS[possible, truths(part, lookup)]
    return possible


def _is_null(bound: IsNull, lookup: Lookup) -> int:
    summary = lookup(bound.column)
    return (TRUE if summary.may_be_null else 0) | (FALSE if summary.may_be_valid else 0)


def _leaf(summary: Summary, of_values: Callable[[], int]) -> int:
    return (NULL if summary.may_be_null else 0) | (of_values() if summary.may_be_valid else 0)


def _range(bound: Range, lookup: Lookup) -> int:
    summary = lookup(bound.column)
    return _leaf(summary, lambda: FALSE if is_empty(bound) else _of_range(summary, bound.lower, bound.upper))


def _of_range(summary: Summary, lower: Raw | None, upper: Raw | None) -> int:
    """Return the truths of a range for values within a summary's bounds."""
    # NaN, the greatest in the order of keys, may be a bound of floats.
    least, greatest = summary.least, summary.greatest
    is_above = lower is None or (least is not None and order_key(least) >= order_key(lower))
    is_below = upper is None or (greatest is not None and order_key(greatest) < order_key(upper))
    if is_above and is_below:
        return TRUE
    none_above = lower is not None and greatest is not None and order_key(greatest) < order_key(lower)
    none_below = upper is not None and least is not None and order_key(least) >= order_key(upper)
    return FALSE if none_above or none_below else TRUE | FALSE


def _one_of(bound: OneOf, lookup: Lookup) -> int:
    summary = lookup(bound.column)

    def of_values() -> int:
        least, greatest = summary.least, summary.greatest
        if _is_nan(least):  # all values are NaN, which a list never has
            return FALSE
        start = 0 if least is None else bisect_left(bound.values, least)
        stop = None if greatest is None or _is_nan(greatest) else bisect_right(bound.values, greatest)
        if start >= len(bound.values) or (stop is not None and start >= stop):
            return FALSE
        # With equal bounds all rows have this value, which the search has found.
        is_one = least is not None and greatest is not None and order_key(least) == order_key(greatest)
        return TRUE if is_one else TRUE | FALSE

    return _leaf(summary, of_values)


def _is_nan(value: Raw | None) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _like(bound: Like, lookup: Lookup) -> int:
    summary = lookup(bound.column)

    def of_values() -> int:
        if summary.least is not None and summary.least == summary.greatest:
            assert isinstance(summary.least, bytes)
            return TRUE if matches(bound, summary.least) else FALSE
        possible = _of_range(summary, bound.prefix, prefix_end(bound.prefix)) if bound.prefix else TRUE
        return possible if not (bound.suffix or bound.infix) else possible | FALSE

    return _leaf(summary, of_values)


def matches(bound: Like, value: bytes) -> bool:
    """Return whether a string matches a pattern."""
    return (
        len(value) >= len(bound.prefix) + len(bound.suffix)
        and value.startswith(bound.prefix)
        and value.endswith(bound.suffix)
        and bound.infix in value
    )


def _doubtful(bound: Doubtful, lookup: Lookup) -> int:
    summary = lookup(bound.column)

    def of_values() -> int:
        least, greatest = summary.least, summary.greatest
        may_be_below = least is None or order_key(least) < bound.lower
        may_be_above = greatest is None or order_key(greatest) >= bound.upper
        inside = _of_range(summary, bound.lower, bound.upper)
        possible = TRUE | FALSE if inside & TRUE else 0
        possible |= (TRUE if bound.is_below else FALSE) if may_be_below else 0
        return possible | ((TRUE if bound.is_above else FALSE) if may_be_above else 0)

    return _leaf(summary, of_values)


def _pair(bound: Pair, lookup: Lookup) -> int:
    left, right = lookup(bound.left), lookup(bound.right)
    nulls = NULL if left.may_be_null or right.may_be_null else 0
    both = left.may_be_valid and right.may_be_valid
    possible = nulls | (_of_pair(bound, left, right) if both else 0)
    if bound.operator is not Operator.NULL_SAFE_EQ:
        return possible
    # Two nulls are equal, and a null differs from every value.
    both_null = TRUE if left.may_be_null and right.may_be_null else 0
    one_null = FALSE if (left.may_be_null and right.may_be_valid) or (right.may_be_null and left.may_be_valid) else 0
    return (possible & ~NULL) | both_null | one_null


def _of_pair(bound: Pair, left: Summary, right: Summary) -> int:
    """Return the truths of two columns without nulls, exact only if each has one value."""
    if left.least is None or left.least != left.greatest or right.least is None or right.least != right.greatest:
        return TRUE | FALSE
    widen = find_widening(bound.left.type, bound.common), find_widening(bound.right.type, bound.common)
    if widen[0] is None or widen[1] is None:
        return TRUE | FALSE
    truth = COMPARE[bound.operator](order_key(widen[0](left.least)), order_key(widen[1](right.least)))
    return TRUE if truth else FALSE


_TRUTHS: Final[Mapping[type[Any], Callable[[Any, Lookup], int]]] = {
    All: _all,
    Any_: _any,
    Negated: lambda bound, lookup: _NOTS[truths(bound.part, lookup)],
    NullSafe: lambda bound, lookup: _NULL_SAFE[truths(bound.part, lookup)],
    Constant: lambda bound, _: NULL if bound.truth is None else TRUE if bound.truth else FALSE,
    IsNull: _is_null,
    Range: _range,
    OneOf: _one_of,
    Like: _like,
    Pair: _pair,
    Doubtful: _doubtful,
    Unsure: lambda _bound, _lookup: ANYTHING,
}
"""One row for each class of `BoundPredicate`."""
