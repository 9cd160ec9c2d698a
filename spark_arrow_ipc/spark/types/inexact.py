"""`may_change`: the types whose values a read may change without an error, by its options.

Strategy
--------
All other conversions of a read give every value, or an error that names one (``docs/types.md``). What may be changed is
noted in the metadata of the column, so that ``restoreTypes`` does not write it as what was in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import pyspark

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import ExtensionTypes, MapKeys, Nanoseconds, Times

NANOSECOND_TIME_PRECISION: Final = 9 if tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 3) else 6
"""Digits of a second that Spark's TIME holds, by version: `TimeType` accepts any number, the JVM does not."""

_MICROSECOND_DIGITS: Final = 6


def may_change(field: t.Field, options: ReadOptions) -> bool:
    """Return whether a read may change values of a field, or of a part of it, without an error."""
    type_ = field.type
    row = MAY_CHANGE.get(type(type_))
    if row is not None and row(type_, options):
        return True
    if isinstance(type_, t.Dictionary):  # the extension of the field is that of its values
        return may_change(replace(field, type=type_.value), options)
    if isinstance(type_, t.RunEndEncoded):
        return may_change(replace(field, type=type_.values.type), options) or may_change(type_.values, options)
    is_converted = options.extension_types is not ExtensionTypes.STORAGE and not options.is_exact
    if is_converted and EXTENSIONS_THAT_MAY_CHANGE.get(field.extension_name or "") == type_:
        return True
    return any(may_change(each, options) for each in type_.children)


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

EXTENSIONS_THAT_MAY_CHANGE: Final[Mapping[str, t.DataType]] = {"arrow.bool8": t.int8}
"""By name, with their storage: 5 and 1 are the same boolean, and 1 is what is written again."""
