"""Long lists of `IN`: plain numbers and strings, many at a time.

Strategy
--------
A list of hundreds of thousands of keys takes seconds as objects of one value each. Plain literals that follow each
other become `Run`s, one for each type, and `points` finds their places among a column's values by one loop for each
pair of types. What has no such loop is taken one by one, with the same result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import tzinfo
from typing import Any, Final

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate.coercion import precision_of, widened
from spark_arrow_ipc.dataset.predicate.expressions import Literal, Raw, Run
from spark_arrow_ipc.dataset.predicate.instants import DAY_MICROSECONDS, Doubt
from spark_arrow_ipc.dataset.predicate.literals import cast

__all__ = ["literals_of", "points", "runs"]

_LEAST: Final = 64
"""Literals that are worth a run."""

_EXACT_IN_DOUBLE: Final = 1 << 53
_STRING: Final = re.compile("'([^']*)'")


def runs(items: str) -> list[Literal | Run]:
    """Return the literals of a list of plain numbers, or of plain strings, with a comma after each."""
    made = _strings(items) if "'" in items else _numbers(items)
    return [part for run in made for part in ([run] if len(run.values) >= _LEAST else literals_of(run))]


def literals_of(run: Run) -> list[Literal]:
    """Return the literals of a run one by one."""
    return [Literal(run.type, value, _sql(run.type, value)) for value in run.values]


def _sql(type_: t.DataType, value: Raw) -> str:
    if isinstance(value, bytes):
        return repr(value.decode())
    if isinstance(type_, t.Decimal):
        digits = f"{abs(int(value)):0{type_.scale + 1}}"
        return f"{'-' if value < 0 else ''}{digits[: -type_.scale]}.{digits[-type_.scale :]}"
    return str(value)


def _strings(items: str) -> list[Run]:
    return [Run(t.utf8, tuple(string.encode() for string in dict.fromkeys(_STRING.findall(items))))]


def _numbers(items: str) -> list[Run]:
    numbers = items.split(",")[:-1]
    whole = dict.fromkeys(int(number) for number in numbers if "." not in number)
    by_type: dict[t.DataType, dict[Raw, None]] = {
        t.int32: {value: None for value in whole if -(1 << 31) <= value < 1 << 31},
        t.int64: {value: None for value in whole if not -(1 << 31) <= value < 1 << 31},
    }
    for number in numbers:
        if "." in number:
            digits, _, fraction = number.strip().partition(".")
            value, scale = int(digits + fraction), len(fraction)
            by_type.setdefault(t.Decimal(max(precision_of(value), scale), scale), {})[value] = None
    return [Run(type_, tuple(values)) for type_, values in by_type.items() if values]


def points(column: t.DataType, common: t.DataType, run: Run, zone: tzinfo | None) -> Sequence[Raw] | None:
    """Return the values of a column that equal one of a run's, both cast to the common type.

    None if they have to be found one by one.
    """
    place = _same if column == common else _PLACES.get((type(column), type(common)))
    values = _cast(run, common, zone) if place is not None else None
    return None if values is None or place is None else place(column, common, values)


def _cast(run: Run, to: t.DataType, zone: tzinfo | None) -> Sequence[Any] | None:
    if run.type == to:
        return run.values
    if isinstance(run.type, t.Utf8) and not isinstance(to, t.Binary):
        values = [cast(literal, to, zone) for literal in literals_of(run)]
        return None if any(isinstance(value, Doubt) for value in values) else values
    widen = widened(run.type, to, zone)
    if widen is None:
        return None
    wide = list(map(widen, run.values))
    is_beyond = isinstance(to, t.Decimal) and precision_of(max(wide, key=abs)) > to.precision  # type: ignore[arg-type]  # whole numbers
    return None if is_beyond else wide


def _same(column: t.DataType, _common: t.DataType, values: Sequence[Raw]) -> Sequence[Raw] | None:
    is_float = isinstance(column, t.FloatingPoint)
    return None if is_float and any(value != value for value in values) else values  # noqa: PLR0124 - NaN


def _within(column: t.Int, values: Iterable[int]) -> list[Raw]:
    bound = 1 << (column.bit_width - 1)
    return [value for value in values if -bound <= value < bound]


def _int_in_decimal(column: t.Int, common: t.Decimal, values: Sequence[int]) -> Sequence[Raw]:
    power = 10**common.scale
    return _within(column, (value // power for value in values if value % power == 0))


def _int_in_double(column: t.Int, _common: t.DataType, values: Sequence[float]) -> Sequence[Raw] | None:
    if not all(abs(value) < _EXACT_IN_DOUBLE for value in values):  # false for NaN too
        return None
    return _within(column, (int(value) for value in values if value.is_integer()))


def _in_decimal(column: t.Decimal, common: t.Decimal, values: Sequence[int]) -> Sequence[Raw] | None:
    if common.scale < column.scale:
        return None
    power, bound = 10 ** (common.scale - column.scale), 10**column.precision
    return [value // power for value in values if value % power == 0 and abs(value // power) < bound]


def _single_in_double(_column: t.DataType, _common: t.DataType, values: Sequence[float]) -> Sequence[Raw] | None:
    doubles = np.array(values)
    if not np.isfinite(doubles).all():
        return None
    with np.errstate(over="ignore"):
        found: list[Raw] = doubles[doubles.astype(np.float32) == doubles].tolist()
    return found


def _date_in_timestamp(_column: t.Date, common: t.Timestamp, values: Sequence[int]) -> Sequence[Raw] | None:
    if common.timezone is not None:
        return None
    return [value // DAY_MICROSECONDS for value in values if value % DAY_MICROSECONDS == 0]


_PLACES: Final[
    Mapping[tuple[type[t.DataType], type[t.DataType]], Callable[[Any, Any, Sequence[Any]], Sequence[Raw] | None]]
] = {
    (t.Int, t.Int): lambda column, _common, values: _within(column, values),
    (t.Int, t.Decimal): _int_in_decimal,
    (t.Int, t.FloatingPoint): _int_in_double,
    (t.Decimal, t.Decimal): _in_decimal,
    (t.FloatingPoint, t.FloatingPoint): _single_in_double,
    (t.Utf8, t.Binary): _same,
    (t.Date, t.Timestamp): _date_in_timestamp,
}
"""By the classes of a column's type and of the common type, if they differ."""
