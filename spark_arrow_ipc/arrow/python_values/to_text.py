"""Convert arrays to Python values for people: dates, times, timestamps and durations are text, all else as `to_pylist`.

Strategy
--------
`to_pylist` gives some values of a temporal type as `datetime` objects and others, which those cannot hold, as raw
counts: right for programs that write them back, and unreadable side by side in one column. Here every value of a
column has one form. Nanoseconds always have nine digits; other units have six or none, as Python writes them. Years
outside 1 to 9999 and times outside a day are written by the same rules, with more digits or a sign; where a zone's
calendar does not reach (years outside 1 to 9999), an instant is written in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import ArrayData, NDArray
from spark_arrow_ipc.arrow.measure import check_expansion
from spark_arrow_ipc.arrow.python_values import scalars
from spark_arrow_ipc.arrow.python_values.to_pylist import TO_PYLIST, Converters, leaves, to_pylist

_DAY_SECONDS: Final = 86_400
_DIGITS: Final[Mapping[t.TimeUnit, int]] = {
    t.TimeUnit.SECOND: 0,
    t.TimeUnit.MILLISECOND: 6,
    t.TimeUnit.MICROSECOND: 6,
    t.TimeUnit.NANOSECOND: 9,
}
"""Digits after the second, if there are any."""


def to_text(array: ArrayData, *, separator: str = " ") -> list[Any]:
    """Return the slots as `to_pylist` does, with text for dates, times, timestamps and durations, at every depth.

    Parameters
    ----------
    separator
        Between the date and the time of a timestamp: a blank for people, ``T`` for ISO 8601.

    Raises
    ------
    InvalidBodyError
        As `to_pylist`.
    LimitError
        As `to_pylist`.
    """
    check_expansion(array)
    return to_pylist(array, _converters(separator))


@cache
def _converters(separator: str) -> Converters:
    def timestamps(values: NDArray, type_: t.Timestamp) -> list[str]:
        return _timestamps(values, type_, separator)

    return {
        **TO_PYLIST,
        t.Date: leaves(_dates),
        t.Time: leaves(_times),
        t.Timestamp: leaves(timestamps),
        t.Duration: leaves(_durations),
    }


def _dates(values: NDArray, type_: t.Date) -> list[str]:
    per_day = 1 if type_.unit is t.DateUnit.DAY else _DAY_SECONDS * 1000
    return _days(values // per_day)


def _days(days: NDArray) -> list[str]:
    dates: list[str] = np.datetime_as_string(days.astype("M8[D]")).tolist()
    return dates


def _times(values: NDArray, type_: t.Time) -> list[str]:
    return [("-" if units < 0 else "") + _clock(abs(units), type_.unit) for units in values.tolist()]


def _clock(units: int, unit: t.TimeUnit, hour_digits: int = 2) -> str:
    """Return ``HH:MM:SS`` and the fraction of a count that is not negative."""
    seconds, fraction = divmod(units, unit.per_second)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    digits = _DIGITS[unit]
    shown = (
        f".{fraction * 10**digits // unit.per_second:0{digits}d}" if fraction or unit is t.TimeUnit.NANOSECOND else ""
    )
    return f"{hour:0{hour_digits}d}:{minute:02d}:{second:02d}{shown}"


def _timestamps(values: NDArray, type_: t.Timestamp, separator: str) -> list[str]:
    per_day = _DAY_SECONDS * type_.unit.per_second
    if type_.timezone is None:
        offsets, zones = np.zeros(len(values), np.int64), [""] * len(values)
    else:
        offsets, zones = _zone_offsets(values, type_, type_.timezone)
    # In two steps: a sum of the count and the offset could leave 64 bits.
    days, rests = np.divmod(values.astype(np.int64), per_day)
    more, rests = np.divmod(rests + offsets * type_.unit.per_second, per_day)
    clocks = (_clock(rest, type_.unit) for rest in rests.tolist())
    return [
        f"{day}{separator}{clock}{zone}" for day, clock, zone in zip(_days(days + more), clocks, zones, strict=True)
    ]


def _zone_offsets(values: NDArray, type_: t.Timestamp, name: str) -> tuple[NDArray, list[str]]:
    """Return the offset of each instant in its zone, in seconds and as text."""
    seconds = t.Timestamp(t.TimeUnit.SECOND, name)
    moments = scalars.timestamps(values // type_.unit.per_second, seconds)
    # An int is an instant outside the years of `datetime`.
    deltas = [None if isinstance(moment, int) else moment.utcoffset() for moment in moments]
    offsets = [0 if delta is None else int(delta.total_seconds()) for delta in deltas]
    texts = {offset: _offset(offset) for offset in set(offsets)}
    return np.array(offsets, np.int64), [texts[offset] for offset in offsets]


def _offset(seconds: int) -> str:
    sign = "-" if seconds < 0 else "+"
    minutes, second = divmod(abs(seconds), 60)
    return f"{sign}{minutes // 60:02d}:{minutes % 60:02d}" + (f":{second:02d}" if second else "")


def _durations(values: NDArray, type_: t.Duration) -> list[str]:
    per_day = _DAY_SECONDS * type_.unit.per_second
    texts = []
    for units in values.tolist():
        days, rest = divmod(units, per_day)
        shown = f"{days} day{'' if abs(days) == 1 else 's'}, " if days else ""
        texts.append(shown + _clock(rest, type_.unit, hour_digits=1))
    return texts
