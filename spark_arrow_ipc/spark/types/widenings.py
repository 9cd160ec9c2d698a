"""`WIDENINGS`: Spark types and the wider types that hold all their values.

Strategy
--------
Integers, floats and decimals widen to larger ones, date to timestamp_ntz, intervals to those of more fields, times to
those of more digits, and geometries of one SRID to those of mixed ones. A user's ``.schema(...)`` may ask for
the wider type, and files of one dataset may differ so. Nested types widen if their children do; this module compares
leaf types only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import types as s

Widening = Callable[[s.DataType, s.DataType], bool]


def _always(_narrow: s.DataType, _wide: s.DataType) -> bool:
    return True


def _decimal(narrow: s.DecimalType, wide: s.DecimalType) -> bool:
    """Compare the digits before and after the point; neither may decrease."""
    return bool(wide.scale >= narrow.scale and wide.precision - wide.scale >= narrow.precision - narrow.scale)


def _mixed(_narrow: s.DataType, wide: s.SpatialType) -> bool:
    """Geometries of any SRID are in one column of mixed SRIDs."""
    return bool(wide.srid == wide.MIXED_SRID)


def _fields(narrow: s.DayTimeIntervalType, wide: s.DayTimeIntervalType) -> bool:
    return bool(wide.startField <= narrow.startField and wide.endField >= narrow.endField)


def _digits(narrow: s.TimeType, wide: s.TimeType) -> bool:
    return bool(wide.precision >= narrow.precision)


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
    (s.DayTimeIntervalType, s.DayTimeIntervalType): _fields,
    (s.TimeType, s.TimeType): _digits,
    (s.GeometryType, s.GeometryType): _mixed,
    (s.GeographyType, s.GeographyType): _mixed,
}
"""By (narrow, wide) type class: the check of a pair of types."""


def widens(narrow: s.DataType, wide: s.DataType) -> bool:
    """Return True if leaf type `wide` differs from `narrow` and holds all its values."""
    rule = WIDENINGS.get((type(narrow), type(wide)))
    return rule is not None and narrow != wide and rule(narrow, wide)
