"""Merge the Spark schemas of files: columns by name, types widened.

Distinct schemas are mapped to Spark and merged in the order of their first files; new columns come last, inside structs
too. Two types of one column merge if they are equal, one widens to the other (`WIDENINGS`), or one is void; two decimals
merge to the smallest that holds both. `convert` then fills in nulls for columns that a file lacks. A conflict is an
error that names both files.
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
# Integers, floats and decimals widen to larger ones, date to timestamp_ntz, intervals to more fields, times to more
# digits, and geometries of one SRID to mixed SRIDs. A user's ``.schema(...)`` may ask for the wider type, and files of
# one table may differ so. Nested types widen if their children do; this table has leaf types only.
Widening = Callable[[Any, Any], bool]


def _always(_narrow: s.DataType, _wide: s.DataType) -> bool:
    return True


def _has_mixed_srids(_narrow: s.DataType, wide: s.SpatialType) -> bool:
    return bool(wide.srid == wide.MIXED_SRID)


WIDENINGS: Mapping[tuple[type[s.DataType], type[s.DataType]], Widening] = {
    (s.ByteType, s.ShortType): _always,
    (s.ByteType, s.IntegerType): _always,
    (s.ByteType, s.LongType): _always,
    (s.ShortType, s.IntegerType): _always,
    (s.ShortType, s.LongType): _always,
    (s.IntegerType, s.LongType): _always,
    (s.FloatType, s.DoubleType): _always,
    # The digits before and after the point may both not decrease.
    (s.DecimalType, s.DecimalType): lambda narrow, wide: (
        wide.scale >= narrow.scale and wide.precision - wide.scale >= narrow.precision - narrow.scale
    ),
    (s.DateType, s.TimestampNTZType): _always,
    (s.DayTimeIntervalType, s.DayTimeIntervalType): lambda narrow, wide: (
        wide.startField <= narrow.startField and wide.endField >= narrow.endField
    ),
    (s.TimeType, s.TimeType): lambda narrow, wide: wide.precision >= narrow.precision,
    (s.GeometryType, s.GeometryType): _has_mixed_srids,
    (s.GeographyType, s.GeographyType): _has_mixed_srids,
}
"""By the type classes of (narrow, wide): whether one type widens to the other."""


def widens(narrow: s.DataType, wide: s.DataType) -> bool:
    """Return True if the leaf type `wide` differs from `narrow` and holds all its values."""
    rule = WIDENINGS.get((type(narrow), type(wide)))
    return rule is not None and narrow != wide and rule(narrow, wide)


_NO_WAY = (
    "cannot be merged; read the files apart, or give a schema to which both widen with .schema(...), or leave the column "
    "out with the option columns"
)


def merge_schemas(schemas: Iterable[tuple[str, s.StructType]]) -> s.StructType:
    """Merge the schemas of files, given with their paths."""
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
        """Remember the file if it is the first with the column."""
        self.origins.setdefault(self.column, self.path)

    def refuse(self, first: s.DataType, other: s.DataType) -> NoReturn:
        """Raise the error that names both files."""
        at = self.column
        # Only columns and fields have origins, and elements have them through their parent.
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
    # Metadata describe the Arrow type that a column was read from, so they come from the field that gives the type.
    metadata = first.metadata if type_ == first.dataType else other.metadata if type_ == other.dataType else None
    if any((field.metadata or {}).get(INEXACT_KEY) for field in (first, other)):
        metadata = {**(metadata or {}), INEXACT_KEY: True}
    # Annotations that disagree, such as other names for the numbers of a label, are left out.
    disagree = {key for key in ANNOTATION_KEYS if (first.metadata or {}).get(key) != (other.metadata or {}).get(key)}
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
    # Two types may have a smallest one that holds both, and is neither.
    if isinstance(first, s.DayTimeIntervalType) and isinstance(other, s.DayTimeIntervalType):
        return s.DayTimeIntervalType(min(first.startField, other.startField), max(first.endField, other.endField))
    if isinstance(first, s.DecimalType) and isinstance(other, s.DecimalType):
        scale = max(first.scale, other.scale)
        precision = scale + max(first.precision - first.scale, other.precision - other.scale)
        if precision <= MAX_DECIMAL_PRECISION:
            return s.DecimalType(precision, scale)
    return site.refuse(first, other)


def _maps(first: s.MapType, other: s.MapType, site: _Site) -> s.MapType:
    key = _merge(first.keyType, other.keyType, site.below("key"))
    return s.MapType(key, _merge(first.valueType, other.valueType, site.below("value")), valueContainsNull=True)


_NESTED: Mapping[type[s.DataType], Callable[[Any, Any, _Site], s.DataType]] = {
    s.StructType: _structs,
    s.ArrayType: lambda first, other, site: s.ArrayType(
        _merge(first.elementType, other.elementType, site.below("element"))
    ),
    s.MapType: _maps,
}
"""By Spark type class: types that merge by their children."""
