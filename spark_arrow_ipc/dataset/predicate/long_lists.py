"""Long lists of `IN`: plain literals, many at a time.

Strategy
--------
A list of hundreds of thousands of keys takes seconds as objects of one value each. Plain literals that follow each
other become `Run`s, one for each type, and `points` finds their places among a column's values by one loop for each
pair of types. What has no such loop is taken one by one, with the same result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta, tzinfo
from typing import Any, Final, TypeAlias

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate.coercion import LOCAL_TIMESTAMP, UTC_TIMESTAMP, precision_of, widened
from spark_arrow_ipc.dataset.predicate.expressions import Literal, Raw, Run, TimestampLiteral, TimestampRun
from spark_arrow_ipc.dataset.predicate.instants import (
    DAY_MICROSECONDS,
    EPOCH,
    Doubt,
    days_at,
    days_of,
    instants_of,
    local_times_of,
    midnights_of,
    zoned_times_of,
)
from spark_arrow_ipc.dataset.predicate.literals import cast, date_literal, local_timestamp, timestamp

_LEAST: Final = 64
"""Literals that are worth a run."""

_EXACT_IN_DOUBLE: Final = 1 << 53
_STRING: Final = re.compile("'([^']*)'")

Plain: TypeAlias = Literal | TimestampLiteral | Run | TimestampRun


@dataclass(frozen=True, slots=True)
class Points:
    """Values of a column that equal one of a run's, and those that may, as an instant is not certain."""

    values: Sequence[Raw]
    doubts: Sequence[Doubt] = ()


def runs(kind: str, items: str) -> Sequence[Plain] | None:
    """Return the literals of a list of one of the kinds of `Tokens.plain_items`, with a comma after each.

    None if one of them may be no value of its type.
    """
    if kind in _NUMBERS:
        made = _NUMBERS[kind]("".join(items.split()))
        return [part for run in made for part in ([run] if len(run.values) >= _LEAST else literals_of(run))]
    return _STRINGS[kind](list(dict.fromkeys(_STRING.findall(items))))


def _strings(strings: Sequence[str]) -> Sequence[Plain]:
    run = Run(t.utf8, tuple(string.encode() for string in strings))
    return [run] if len(strings) >= _LEAST else literals_of(run)


def _session_times(strings: Sequence[str]) -> Sequence[Plain]:
    return [TimestampRun(tuple(strings))] if len(strings) >= _LEAST else list(map(TimestampLiteral, strings))


def _typed(
    type_: t.DataType, read: Callable[[Sequence[str]], list[int] | None], single: Callable[[str], Plain]
) -> Callable[[Sequence[str]], Sequence[Plain] | None]:
    def of(strings: Sequence[str]) -> Sequence[Plain] | None:
        values = read(strings)
        if values is None:
            return None
        return [Run(type_, tuple(dict.fromkeys(values)))] if len(strings) >= _LEAST else list(map(single, strings))

    return of


_STRINGS: Final[Mapping[str, Callable[[Sequence[str]], Sequence[Plain] | None]]] = {
    "string": _strings,
    "date": _typed(t.date32, days_of, date_literal),
    "local": _typed(LOCAL_TIMESTAMP, local_times_of, local_timestamp),
    "session": _session_times,
    "zoned": _typed(UTC_TIMESTAMP, zoned_times_of, TimestampLiteral),
}
"""By kind: the literals of strings that are all different."""


def literals_of(run: Run) -> list[Literal]:
    """Return the literals of a run one by one."""
    return [Literal(run.type, value, _sql(run.type, value)) for value in run.values]


def instants(run: TimestampRun, zone: tzinfo | None) -> list[Literal | Run]:
    """Return the instants of timestamps in the session's time zone; those that are not certain as few literals."""
    locals_ = local_times_of(run.values)
    found = None if locals_ is None else instants_of(locals_, zone)
    if found is None:
        return [timestamp(TimestampLiteral(string), zone) for string in run.values]
    doubts = [Literal(UTC_TIMESTAMP, doubt, "TIMESTAMP '...'") for doubt in found[1]]
    return [Run(UTC_TIMESTAMP, tuple(dict.fromkeys(found[0]))), *doubts] if found[0] else [*doubts]


def _sql(type_: t.DataType, value: Raw) -> str:
    if isinstance(value, bytes):
        return repr(value.decode())
    if isinstance(type_, t.Date):
        return f"DATE '{date(1970, 1, 1) + timedelta(days=int(value))}'"
    if isinstance(type_, t.Timestamp):
        name, end = ("TIMESTAMP_NTZ", "") if type_.timezone is None else ("TIMESTAMP", "Z")
        return f"{name} '{EPOCH + timedelta(microseconds=int(value))}{end}'"
    if isinstance(type_, t.Decimal):
        digits = f"{abs(int(value)):0{type_.scale + 1}}"
        return f"{'-' if value < 0 else ''}{digits[: -type_.scale]}.{digits[-type_.scale :]}"
    return f"{value}D" if isinstance(type_, t.FloatingPoint) else str(value)


def _suffixed(type_: t.DataType, read: Callable[[str], Raw]) -> Callable[[str], list[Run]]:
    """Return the function for numbers with one suffix."""
    return lambda text: [Run(type_, tuple(dict.fromkeys(read(number[:-1]) for number in text.split(",")[:-1])))]


def _numbers(text: str) -> list[Run]:
    numbers = list(map(int, text.replace(".", "").split(",")[:-1]))
    scales = _scales(text)
    whole = numbers if scales is None else [numbers[i] for i in np.flatnonzero(scales == 0).tolist()]
    made = [
        Run(t.int32, tuple(dict.fromkeys(value for value in whole if -(1 << 31) <= value < 1 << 31))),
        Run(t.int64, tuple(dict.fromkeys(value for value in whole if not -(1 << 31) <= value < 1 << 31))),
    ]
    return [run for run in (*made, *([] if scales is None else _decimals(numbers, scales))) if run.values]


def _scales(text: str) -> Any:
    """Return the digits after the point of each number, or None if all are whole."""
    if "." not in text:
        return None
    characters = np.frombuffer(text.encode(), np.uint8)
    ends, dots = (np.flatnonzero(characters == ord(character)) for character in ",.")
    scales = np.zeros(len(ends), np.int64)
    of_dots = np.searchsorted(ends, dots)
    scales[of_dots] = ends[of_dots] - dots - 1
    return scales


def _decimals(numbers: Sequence[int], scales: Any) -> list[Run]:
    """Return a run for each type, in the order of their first values."""
    fractions = np.flatnonzero(scales)
    unscaled = list(map(numbers.__getitem__, fractions.tolist()))
    scales = scales[fractions]
    precisions = np.maximum(np.fromiter(map(precision_of, unscaled), np.int64, len(unscaled)), scales)
    types, firsts, of_numbers = np.unique(precisions * 64 + scales, return_index=True, return_inverse=True)
    made = []
    for number in np.argsort(firsts).tolist():
        values = map(unscaled.__getitem__, np.flatnonzero(of_numbers == number).tolist())
        made.append(Run(t.Decimal(*divmod(int(types[number]), 64)), tuple(dict.fromkeys(values))))
    return made


_NUMBERS: Final[Mapping[str, Callable[[str], list[Run]]]] = {
    "number": _numbers,
    "long": _suffixed(t.int64, int),
    "double": _suffixed(t.float64, float),
}
"""By kind: the runs of numbers without blanks."""


def points(column: t.DataType, common: t.DataType, run: Run, zone: tzinfo | None) -> Points | None:
    """Return the values of a column that equal one of a run's, both cast to the common type.

    None if they have to be found one by one.
    """
    place = _as_they_are if column == common else _PLACES.get((type(column), type(common)))
    made = _cast(run, common, zone) if place is not None else None
    if made is None or place is None or (made.doubts and column != common):
        return None
    values = place(column, common, made.values, zone)
    return None if values is None else Points(values, made.doubts)


def _cast(run: Run, to: t.DataType, zone: tzinfo | None) -> Points | None:
    if run.type == to:
        return Points(run.values)
    if isinstance(to, t.Timestamp | t.Date):
        found = _times(run, to, zone)
        if found is not None:
            return found
    if isinstance(run.type, t.Utf8) and not isinstance(to, t.Binary):
        values = [cast(literal, to, zone) for literal in literals_of(run)]
        return None if any(isinstance(value, Doubt) for value in values) else Points(values)  # type: ignore[arg-type]  # no NULL is in a run
    widen = widened(run.type, to, zone)
    if widen is None:
        return None
    wide = list(map(widen, run.values))
    is_beyond = isinstance(to, t.Decimal) and precision_of(max(wide, key=abs)) > to.precision  # type: ignore[arg-type]  # whole numbers
    return None if is_beyond else Points(wide)


def _times(run: Run, to: t.Timestamp | t.Date, zone: tzinfo | None) -> Points | None:
    """Return dates or timestamps as others, or strings as either; None if they are cast one by one."""
    values: Any = run.values
    if isinstance(run.type, t.Utf8):
        strings = [value.decode() for value in values]
        if to != UTC_TIMESTAMP:
            counts = (days_of if isinstance(to, t.Date) else local_times_of)(strings)
            return None if counts is None else Points(counts)
        if (counts := zoned_times_of(strings)) is not None:
            return Points(counts)
        values = local_times_of(strings)
    if values is None or to != UTC_TIMESTAMP:
        return None
    found = (midnights_of if isinstance(run.type, t.Date) else instants_of)(values, zone)
    return None if found is None else Points(*found)


def _as_they_are(column: t.DataType, _common: t.DataType, values: Sequence[Raw], _zone: object) -> Sequence[Raw] | None:
    is_float = isinstance(column, t.FloatingPoint)
    return None if is_float and any(value != value for value in values) else values  # noqa: PLR0124 - NaN


def _within(column: t.Int, values: Iterable[int]) -> list[Raw]:
    bound = 1 << (column.bit_width - 1)
    return [value for value in values if -bound <= value < bound]


def _int_in_decimal(column: t.Int, common: t.Decimal, values: Sequence[int], _zone: object) -> Sequence[Raw]:
    power = 10**common.scale
    return _within(column, (value // power for value in values if value % power == 0))


def _int_in_double(column: t.Int, common: t.DataType, values: Sequence[float], _zone: object) -> Sequence[Raw] | None:
    if common != t.float64 or not all(abs(value) < _EXACT_IN_DOUBLE for value in values):  # false for NaN too
        return None
    return _within(column, (int(value) for value in values if value.is_integer()))


def _in_decimal(column: t.Decimal, common: t.Decimal, values: Sequence[int], _zone: object) -> Sequence[Raw] | None:
    if common.scale < column.scale:
        return None
    power, bound = 10 ** (common.scale - column.scale), 10**column.precision
    return [value // power for value in values if value % power == 0 and abs(value // power) < bound]


def _single_in_double(
    _column: t.DataType, _common: t.DataType, values: Sequence[float], _zone: object
) -> Sequence[Raw] | None:
    doubles = np.array(values)
    if not np.isfinite(doubles).all():
        return None
    with np.errstate(over="ignore"):
        found: list[Raw] = doubles[doubles.astype(np.float32) == doubles].tolist()
    return found


def _date_in_timestamp(
    _column: t.Date, common: t.Timestamp, values: Sequence[int], zone: tzinfo | None
) -> Sequence[Raw] | None:
    if common.timezone is not None:
        return days_at(values, zone) if values else []
    return [value // DAY_MICROSECONDS for value in values if value % DAY_MICROSECONDS == 0]


_PLACES: Final[
    Mapping[tuple[type[t.DataType], type[t.DataType]], Callable[[Any, Any, Sequence[Any], Any], Sequence[Raw] | None]]
] = {
    (t.Int, t.Int): lambda column, _common, values, _zone: _within(column, values),
    (t.Int, t.Decimal): _int_in_decimal,
    (t.Int, t.FloatingPoint): _int_in_double,
    (t.Decimal, t.Decimal): _in_decimal,
    (t.FloatingPoint, t.FloatingPoint): _single_in_double,
    (t.Utf8, t.Binary): _as_they_are,
    (t.Date, t.Timestamp): _date_in_timestamp,
}
"""By the classes of a column's type and of the common type, if they differ."""
