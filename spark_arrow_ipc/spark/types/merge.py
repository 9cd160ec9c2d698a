"""Merge the Spark schemas of files: columns by name, types widened.

Distinct schemas are mapped to Spark and merged in the order of their first files: new columns come after known ones,
inside structs too. Two types of one column merge if they are equal, one widens to the other
(`WIDENINGS`), or one is void; two decimals merge to the smallest that holds both. The conversion of
each file (`convert`) then fills in nulls for columns that it lacks. A conflict is an error that names both files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from pyspark.sql import types as s

from spark_arrow_ipc.arrow.column_path import find_columns
from spark_arrow_ipc.errors import SchemaMismatchError
from spark_arrow_ipc.spark.types.arrow_to_spark import MAX_DECIMAL_PRECISION
from spark_arrow_ipc.spark.types.field_metadata import INEXACT_KEY
from spark_arrow_ipc.spark.types.schema_pairs import ANNOTATION_KEYS

# `WIDENINGS`: Spark types and the wider types that hold all their values.
#
# Integers, floats and decimals widen to larger ones, date to timestamp_ntz, intervals to those of more fields, times
# to those of more digits, and geometries of one SRID to those of mixed ones. A user's ``.schema(...)`` may ask for
# the wider type, and files of one dataset may differ so. Nested types widen if their children do; this module
# compares leaf types only.
Widening = Callable[[s.DataType, s.DataType], bool]


def _always(_narrow: s.DataType, _wide: s.DataType) -> bool:
    return True


def _decimal(narrow: s.DecimalType, wide: s.DecimalType) -> bool:
    """Compare the digits before and after the point; neither may decrease."""
    return bool(wide.scale >= narrow.scale and wide.precision - wide.scale >= narrow.precision - narrow.scale)


def _mix(_narrow: s.DataType, wide: s.SpatialType) -> bool:
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
    (s.GeometryType, s.GeometryType): _mix,
    (s.GeographyType, s.GeographyType): _mix,
}
"""By (narrow, wide) type class: the check of a pair of types."""


def widens(narrow: s.DataType, wide: s.DataType) -> bool:
    """Return True if leaf type `wide` differs from `narrow` and holds all its values."""
    rule = WIDENINGS.get((type(narrow), type(wide)))
    return rule is not None and narrow != wide and rule(narrow, wide)


_NO_WAY = (
    "cannot be merged; read the files apart, or give a schema to which both widen with .schema(...), or leave the column "
    "out with the option columns"
)


def merge_schemas(schemas: Iterable[tuple[str, s.StructType]]) -> s.StructType:
    """Merge schemas into one that holds the columns of all."""
    merged = s.StructType([])
    origins: dict[str, str] = {}
    for path, schema in schemas:
        merged = _structs(merged, schema, _Site("", path, origins))
    return merged


class _Site:
    """The column path of a merge, and the first file of each part, for errors."""

    def __init__(self, column: str, path: str, origins: dict[str, str]) -> None:
        self.column = column
        self.path = path
        self.origins = origins

    def below(self, name: str) -> _Site:
        """Return the site of a child of the column."""
        return _Site(f"{self.column}.{name}" if self.column else name, self.path, self.origins)

    def add_origin(self) -> None:
        """Record the first file that has the column."""
        self.origins.setdefault(self.column, self.path)

    def refuse(self, first: s.DataType, other: s.DataType) -> NoReturn:
        """Raise the error that names both files."""
        at = self.column
        while at not in self.origins:
            at = at.rpartition(".")[0]
        raise SchemaMismatchError(
            f"{first.simpleString()} in {self.origins[at]} and {other.simpleString()} in {self.path} {_NO_WAY}",
            field_path=self.column,
        )


def _structs(first: s.StructType, other: s.StructType, site: _Site) -> s.StructType:
    fields = list(first.fields)
    absent = len(fields)
    positions = find_columns([field.name for field in fields], other.names, site.column or None, absent=absent)
    for position, field in zip(positions, other.fields, strict=True):
        below = site.below(field.name if position == absent else fields[position].name)
        if position == absent:
            below.add_origin()
            fields.append(field)
            continue
        fields[position] = _field(fields[position], field, below)
    return s.StructType(fields)


def _field(first: s.StructField, other: s.StructField, site: _Site) -> s.StructField:
    type_ = _merge(first.dataType, other.dataType, site)
    # Metadata notes the Arrow type that a column was read from, so it comes from the field that gives the type.
    metadata = first.metadata if type_ == first.dataType else other.metadata if type_ == other.dataType else None
    if any((field.metadata or {}).get(INEXACT_KEY) for field in (first, other)):
        metadata = {**(metadata or {}), INEXACT_KEY: True}
    # Notes that disagree, such as other names for the numbers of a label, are left out.
    disagree = {
        note for note in ANNOTATION_KEYS if (first.metadata or {}).get(note) != (other.metadata or {}).get(note)
    }
    if metadata and disagree:
        metadata = {key: value for key, value in metadata.items() if key not in disagree}
    return s.StructField(first.name, type_, nullable=True, metadata=metadata)


def _merge(first: s.DataType, other: s.DataType, site: _Site) -> s.DataType:
    if first == other or isinstance(other, s.NullType):
        return first
    if isinstance(first, s.NullType):
        return other
    unite = _NESTED.get(type(first))
    if unite is not None and type(first) is type(other):
        return unite(first, other, site)
    if widens(other, first):
        return first
    if widens(first, other):
        return other
    both = _common_decimal(first, other) or _common_interval(first, other)
    return both if both is not None else site.refuse(first, other)


def _common_decimal(first: s.DataType, other: s.DataType) -> s.DecimalType | None:
    if not isinstance(first, s.DecimalType) or not isinstance(other, s.DecimalType):
        return None
    scale = max(first.scale, other.scale)
    precision = scale + max(first.precision - first.scale, other.precision - other.scale)
    return s.DecimalType(precision, scale) if precision <= MAX_DECIMAL_PRECISION else None


def _common_interval(first: s.DataType, other: s.DataType) -> s.DayTimeIntervalType | None:
    if not isinstance(first, s.DayTimeIntervalType) or not isinstance(other, s.DayTimeIntervalType):
        return None
    return s.DayTimeIntervalType(min(first.startField, other.startField), max(first.endField, other.endField))


def _arrays(first: s.ArrayType, other: s.ArrayType, site: _Site) -> s.ArrayType:
    return s.ArrayType(_merge(first.elementType, other.elementType, site.below("element")), containsNull=True)


def _maps(first: s.MapType, other: s.MapType, site: _Site) -> s.MapType:
    key = _merge(first.keyType, other.keyType, site.below("key"))
    return s.MapType(key, _merge(first.valueType, other.valueType, site.below("value")), valueContainsNull=True)


_NESTED: Mapping[type[s.DataType], Callable[[Any, Any, _Site], s.DataType]] = {
    s.StructType: _structs,
    s.ArrayType: _arrays,
    s.MapType: _maps,
}
"""By Spark type class: types that merge by their children."""
