"""`WIDENINGS`: which Spark type may be read as which wider one without changing a value.

Strategy
--------
Integer up, float up, decimal up, date to timestamp_ntz, nothing else. A user's ``.schema(...)`` may ask for them,
and files of one data set may differ by them. Nested types widen where their parts do; who walks them asks here
about the leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import types as s

Widening = Callable[[s.DataType, s.DataType], bool]


def _always(_narrow: s.DataType, _wide: s.DataType) -> bool:
    return True


def _decimal(narrow: s.DecimalType, wide: s.DecimalType) -> bool:
    """Neither the digits before the point nor those after it may become fewer."""
    return bool(wide.scale >= narrow.scale and wide.precision - wide.scale >= narrow.precision - narrow.scale)


WIDENINGS: Mapping[tuple[type[s.DataType], type[s.DataType]], Widening] = {
    (s.ByteType, s.ShortType): _always,
    (s.ByteType, s.IntegerType): _always,
    (s.ByteType, s.LongType): _always,
    (s.ShortType, s.IntegerType): _always,
    (s.ShortType, s.LongType): _always,
    (s.IntegerType, s.LongType): _always,
    (s.FloatType, s.DoubleType): _always,
    (s.DecimalType, s.DecimalType): _decimal,
    (s.DateType, s.TimestampNTZType): _always,
}
"""By (narrow, wide) type class: whether this pair of types is one."""


def widens(narrow: s.DataType, wide: s.DataType) -> bool:
    """Return whether every value of the leaf type `narrow` is a value of the leaf type `wide` that differs from it."""
    rule = WIDENINGS.get((type(narrow), type(wide)))
    return rule is not None and narrow != wide and rule(narrow, wide)
