"""Find the common type of two sides of a comparison, and the position of a constant among a column's own values.

Types are Arrow's, as `convert` gives them to Spark: signed integers, single and double precision, 128-bit decimals,
Utf8, Binary, Bool, Date32, Timestamp and Duration of microseconds. Of all others only nulls are known.

How it works: in ANSI mode, Spark's default, each side of a comparison is cast to a common type (`common_type`, as
``AnsiTypeCoercion`` and ``DecimalPrecisionTypeCoercion`` of Spark's analyzer). Instead of casting a column, `cut` takes the
constant back through the cast: all casts of columns here keep the order (`WIDENINGS`), so the values that equal the constant
after the cast are one interval of the column's own values, and bisection finds it. This is exact for lossy casts too (bigint
to double), needs no copy of a column, and works on statistics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, tzinfo
from functools import partial
from typing import Any, Final

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate.expressions import Raw
from spark_arrow_ipc.dataset.predicate.instants import DAY_MICROSECONDS, midnight

MAX_PRECISION: Final = 38
"""Digits of Spark's decimals."""

UTC_TIMESTAMP: Final = t.Timestamp(t.TimeUnit.MICROSECOND, "UTC")
LOCAL_TIMESTAMP: Final = t.Timestamp(t.TimeUnit.MICROSECOND)

_INTEGER_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 20}
"""Precision of the decimal that Spark takes for an integer column (``DecimalType.forType``)."""

_FIRST_DAY: Final = date(1, 1, 3).toordinal() - date(1970, 1, 1).toordinal()
_LAST_DAY: Final = date(9999, 12, 29).toordinal() - date(1970, 1, 1).toordinal()
"""Dates whose midnight Python can convert in any zone."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The position of a constant among the values of a column."""

    lower: Raw | None  # the least value that is not below the constant after the cast; None if all values are below
    upper: Raw | None  # the least value that is above the constant after the cast; None if no value is above
    is_least: bool = False  # whether `lower` is the least value of the type, so that no value is below the constant


@dataclass(frozen=True, slots=True)
class NotCompared(t.DataType):
    """A type of Spark, by its name, whose columns a predicate can only test for null."""

    name: str


def spark_name(type_: t.DataType) -> str:
    """Return Spark's name of a type, for messages."""
    name = _NAMES.get(type(type_))
    return name(type_) if name is not None else str(type_)


_NAMES: Final[Mapping[type[t.DataType], Callable[[Any], str]]] = {
    t.Null: lambda _: "void",
    t.Bool: lambda _: "boolean",
    t.Int: lambda type_: {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}[type_.bit_width],
    t.FloatingPoint: lambda type_: "float" if type_.precision is t.Precision.SINGLE else "double",
    t.Decimal: lambda type_: f"decimal({type_.precision},{type_.scale})",
    t.Utf8: lambda _: "string",
    t.Binary: lambda _: "binary",
    t.Date: lambda _: "date",
    t.Timestamp: lambda type_: "timestamp_ntz" if type_.timezone is None else "timestamp",
    t.Duration: lambda _: "interval day to second",
    t.IntervalYearMonth: lambda _: "interval year to month",
    t.Time: lambda _: "time",
    t.List: lambda _: "array",
    t.Struct: lambda _: "struct",
    t.Map: lambda _: "map",
    NotCompared: lambda type_: type_.name,
}


def is_comparable(type_: t.DataType) -> bool:
    """Return whether values of a type can be compared in a predicate."""
    return type(type_) in _COMPARABLE


_COMPARABLE: Final = frozenset(
    {t.Null, t.Bool, t.Int, t.FloatingPoint, t.Decimal, t.Utf8, t.Binary, t.Date, t.Timestamp, t.Duration}
)


def order_key(value: Raw) -> Any:
    """Return a key that sorts values of one type in Spark's order."""
    # NaN equals NaN and is the largest, -0.0 equals 0.0, strings compare by their bytes.
    return (value != value, 0.0 if value != value else value) if isinstance(value, float) else value  # noqa: PLR0124


def decimal_of(type_: t.Int) -> t.Decimal:
    """Return the decimal type that Spark casts a column of integers to."""
    return t.Decimal(_INTEGER_DIGITS[type_.bit_width], 0)


def precision_of(value: int) -> int:
    """Return the number of digits of an integer, at least 1."""
    return len(str(abs(value)))


def wider_decimal(left: t.Decimal, right: t.Decimal) -> t.Decimal:
    """Return the decimal type that contains both; above 38 digits, fractional digits are lost."""
    # As ``DecimalPrecisionTypeCoercion.widerDecimalType`` with ``DecimalType.boundedPreferIntegralDigits``.
    scale = max(left.scale, right.scale)
    integral = max(left.precision - left.scale, right.precision - right.scale)
    if integral + scale <= MAX_PRECISION:
        return t.Decimal(integral + scale, scale)
    # DecimalType.MINIMUM_ADJUSTED_SCALE, which keeps six fractional digits, is only for arithmetic.
    return t.Decimal(MAX_PRECISION, max(0, MAX_PRECISION - integral))


def common_type(left: t.DataType, right: t.DataType) -> t.DataType | None:
    """Return the type that both sides of a comparison are cast to, or None if Spark does not compare them."""
    if left == right:
        return left
    if isinstance(left, t.Null) or isinstance(right, t.Null):  # NULL has every type
        return right if isinstance(left, t.Null) else left
    find = _COMMON.get((type(left), type(right)))
    if find is not None:
        return find(left, right)
    find = _COMMON.get((type(right), type(left)))
    return find(right, left) if find is not None else None


def _other(_left: t.DataType, right: t.DataType) -> t.DataType:
    return right


def _double(_left: t.DataType, _right: t.DataType) -> t.DataType:
    return t.float64


_Common = Callable[[Any, Any], t.DataType]

_COMMON: Final[Mapping[tuple[type[t.DataType], type[t.DataType]], _Common]] = {
    (t.Int, t.Int): lambda left, right: left if left.bit_width > right.bit_width else right,
    (t.Int, t.Decimal): lambda left, right: wider_decimal(decimal_of(left), right),
    (t.Int, t.FloatingPoint): _double,
    (t.Decimal, t.Decimal): wider_decimal,
    (t.Decimal, t.FloatingPoint): _double,
    (t.FloatingPoint, t.FloatingPoint): _double,
    (t.Date, t.Timestamp): _other,
    (t.Timestamp, t.Timestamp): lambda _left, _right: UTC_TIMESTAMP,
    (t.Utf8, t.Int): lambda _left, _right: t.int64,
    (t.Utf8, t.Decimal): _double,
    (t.Utf8, t.FloatingPoint): _double,
    (t.Utf8, t.Bool): _other,
    (t.Utf8, t.Binary): _other,
    (t.Utf8, t.Date): _other,
    (t.Utf8, t.Timestamp): _other,
}
"""By the classes of both sides, in one order: types that differ. Spark refuses other pairs."""


def rescale(value: int, from_scale: int, to_scale: int) -> int:
    """Return an unscaled decimal in another scale, rounded half up (away from zero) if digits are lost."""
    if to_scale >= from_scale:
        power: int = 10 ** (to_scale - from_scale)
        return value * power
    divisor: int = 10 ** (from_scale - to_scale)
    rounded = (2 * abs(value) + divisor) // (2 * divisor)
    return -rounded if value < 0 else rounded


_Widen = Callable[[Any], Raw]


def find_widening(from_: t.DataType, to: t.DataType, zone: tzinfo | None = None) -> _Widen | None:
    """Return the cast of a type's values to a common type, or None if no cast keeps their order."""
    if from_ == to:
        return _same
    make = WIDENINGS.get((type(from_), type(to)))
    return make(from_, to, zone) if make is not None else None


def _same(value: Raw) -> Raw:
    return value


def _divide_by(power: int) -> _Widen:
    return lambda value: value / power  # Python divides integers to the nearest double


def _of_date(_from: t.Date, to: t.Timestamp, zone: tzinfo | None) -> _Widen | None:
    if to.timezone is None:
        return lambda day: day * DAY_MICROSECONDS
    return None if zone is None else partial(midnight, zone=zone)


WIDENINGS: Final[Mapping[tuple[type[t.DataType], type[t.DataType]], Callable[[Any, Any, tzinfo | None], _Widen | None]]] = {
    (t.Int, t.Int): lambda _from, _to, _zone: _same,
    (t.Int, t.Decimal): lambda _from, to, _zone: partial(rescale, from_scale=0, to_scale=to.scale),
    (t.Int, t.FloatingPoint): lambda _from, to, _zone: (
        float if to == t.float64 else lambda value: float(np.float32(np.int64(value)))  # rounded once
    ),
    (t.Decimal, t.Decimal): lambda from_, to, _zone: partial(rescale, from_scale=from_.scale, to_scale=to.scale),
    (t.Decimal, t.FloatingPoint): lambda from_, _to, _zone: _divide_by(10**from_.scale),
    (t.FloatingPoint, t.FloatingPoint): lambda _from, _to, _zone: _same,
    (t.Utf8, t.Binary): lambda _from, _to, _zone: _same,
    (t.Date, t.Timestamp): _of_date,
}  # fmt: skip
"""By the classes of the types: the casts of columns in comparisons. Local times that become instants do not keep their order,
as clocks are put forward, so they have no row; neither have strings."""


def cut(column: t.DataType, common: t.DataType, constant: Raw, zone: tzinfo | None = None) -> Cut | None:
    """Return the position of a constant of the common type among the values of a column's own type, or None.

    It is None if no cast of the column to the common type keeps the order, and for instants beyond all dates.
    """
    widen = find_widening(column, common, zone)
    if widen is None:
        return None
    if isinstance(constant, bytes):
        return Cut(constant, constant + b"\0", is_least=not constant)  # the next string in the order of bytes
    if isinstance(column, t.FloatingPoint):
        assert isinstance(constant, float)
        return _cut_float(column, constant)
    if isinstance(constant, float) and math.isnan(constant):  # above all integers and decimals
        return Cut(None, None)
    low, high = _range(column, common)
    if widen is _same:  # without a search, as lists have hundreds of thousands of such constants
        assert isinstance(constant, int)
        upper = None if constant >= high else max(constant + 1, low)
        return Cut(None if constant > high else max(constant, low), upper, is_least=constant <= low)
    if low == _FIRST_DAY and not widen(low) < constant < widen(high):  # type: ignore[operator]  # both instants
        return None
    lower = _first(low, high, lambda value: widen(value) >= constant)  # type: ignore[operator]  # both of the common type
    upper = _first(low, high, lambda value: widen(value) > constant)  # type: ignore[operator]  # as above
    return Cut(lower, upper, is_least=lower == low)


def _range(column: t.DataType, common: t.DataType) -> tuple[int, int]:
    """Return the least and the greatest value of a type whose raw values are integers."""
    if isinstance(column, t.Date) and isinstance(common, t.Timestamp) and common.timezone is not None:
        return _FIRST_DAY, _LAST_DAY
    if isinstance(column, t.Decimal):
        bound = 10**column.precision - 1
        return -bound, bound
    if isinstance(column, t.Bool):
        return 0, 1
    bits = column.bit_width if isinstance(column, t.Int | t.Date) else 64
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int | None:
    """Return the least number in [low, high] for which a monotonic condition holds, or None."""
    if not holds(high):
        return None
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _cut_float(column: t.FloatingPoint, constant: float) -> Cut:
    if math.isnan(constant):
        return Cut(math.nan, None)
    if column.precision is t.Precision.DOUBLE:
        above = math.nan if constant == math.inf else math.nextafter(constant, math.inf)
        return Cut(constant, above, is_least=constant == -math.inf)
    with np.errstate(over="ignore"):
        near = np.float32(constant)
        after = math.nan if near == np.inf else float(np.nextafter(near, np.float32(np.inf)))
    lower = float(near) if float(near) >= constant else after
    upper = after if float(near) <= constant else float(near)
    return Cut(lower, upper, is_least=lower == -math.inf)
