"""`may_change`: the types whose values a read may change without an error, by its options.

Strategy
--------
All other conversions of a read give every value, or an error that names one (``docs/types.md``). What may be changed is
noted in the metadata of the column, so that ``restoreTypes`` does not write it as what was in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyspark

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.spark.options.enums import MapKeys, Nanoseconds, Times
from spark_arrow_ipc.spark.options.options import ReadOptions

__all__ = ["MAY_CHANGE", "NANOSECOND_TIME_PRECISION", "may_change"]

NANOSECOND_TIME_PRECISION: Final = 9 if tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 3) else 6
"""Digits of a second that Spark's TIME holds, by version: `TimeType` accepts any number, the JVM does not."""

_MICROSECOND_DIGITS: Final = 6


def may_change(type_: t.DataType, options: ReadOptions) -> bool:
    """Return whether a read may change values of a type, or of a part of it, without an error."""
    row = MAY_CHANGE.get(type(type_))
    if row is not None and row(type_, options):
        return True
    below = (type_.value,) if isinstance(type_, t.Dictionary) else tuple(field.type for field in type_.children)
    return any(may_change(each, options) for each in below)


def _rounds(type_: t.Time | t.Timestamp | t.Duration, options: ReadOptions) -> bool:
    return type_.unit is t.TimeUnit.NANOSECOND and options.nanoseconds is Nanoseconds.FLOOR


def _rounds_time(type_: t.Time, options: ReadOptions) -> bool:
    exact = options.times is Times.LONG or (
        options.times is Times.TIME and NANOSECOND_TIME_PRECISION > _MICROSECOND_DIGITS
    )
    return not exact and _rounds(type_, options)


def _drops_time(type_: t.Date, options: ReadOptions) -> bool:
    return type_.unit is t.DateUnit.MILLISECOND and options.nanoseconds is Nanoseconds.FLOOR


MAY_CHANGE: Final[Mapping[type[t.DataType], Callable[[Any, ReadOptions], bool]]] = {
    t.Date: _drops_time,
    t.Time: _rounds_time,
    t.Timestamp: _rounds,
    t.Duration: _rounds,
    t.Map: lambda _type, options: options.map_keys is MapKeys.LAST_WINS,
}
"""By type class: the options under which a read changes values. Classes that are absent are always read exactly."""
