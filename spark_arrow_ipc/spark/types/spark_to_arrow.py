"""`WRITTEN`: the Arrow type of every Spark type that is written.

The reverse of ``spark/types/arrow_to_spark.py``, with types that old Arrow readers support. Every field is nullable.
Custom metadata that was read from a file is restored (``spark/types/field_metadata.py``), and types that are extensions
in Arrow (variant, geometry) get their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.spark.types import extension_columns, field_metadata

_VARIANT = t.Struct((t.Field("metadata", t.binary, nullable=False), t.Field("value", t.binary, nullable=False)))
_MICROSECOND_DIGITS = 6
_UTC_TIMESTAMP = t.Timestamp(t.TimeUnit.MICROSECOND, "UTC")


def arrow_schema_for(spark_schema: s.StructType) -> Schema:
    """Return the Arrow schema of a DataFrame's files."""
    return Schema.of(arrow_field(f.name, f.dataType, f.metadata or {}, f.name) for f in spark_schema.fields)


def arrow_field(name: str, spark_type: s.DataType, metadata: Mapping[str, Any], path: str) -> t.Field:
    """Return the Arrow field of a Spark column; `path` is for errors."""
    spark_type = storage_type(spark_type)
    written = WRITTEN.get(type(spark_type))
    if written is None:
        raise UnsupportedError(
            f"a column of type {spark_type.simpleString()} cannot be written: Spark does not give this type to a "
            f"Python data source; {_CASTS.get(type(spark_type), 'cast it to string')}, or leave the column out",
            field_path=path,
        )
    type_ = written(spark_type, path)
    return t.Field(name, type_, custom_metadata=field_pairs(spark_type, metadata, type_, path))


def storage_type(spark_type: s.DataType) -> s.DataType:
    """Return the storage type of a user-defined type; every other type itself."""
    while isinstance(spark_type, s.UserDefinedType):
        spark_type = spark_type.sqlType()
    return spark_type


def field_pairs(
    spark_type: s.DataType, metadata: Mapping[str, Any], written: t.DataType, path: str
) -> t.CustomMetadata:
    """Return the custom metadata of the Arrow field of a Spark column."""
    pairs_of = _PAIRS.get(type(storage_type(spark_type)))
    extension_pairs = () if pairs_of is None else pairs_of(storage_type(spark_type), metadata, path)
    # An extension of the type replaces both pairs of one that the column was read with.
    replaced = {key for key, _ in extension_pairs}
    if extension_columns.EXTENSION_NAME in replaced:
        replaced.add(extension_columns.EXTENSION_METADATA)
    annotations = field_metadata.from_spark(metadata, written)
    return (*(pair for pair in annotations if pair[0] not in replaced), *extension_pairs)


def _just(type_: t.DataType) -> Callable[[Any, str], t.DataType]:
    return lambda _spark_type, _path: type_


def _map(spark_type: s.MapType, path: str) -> t.DataType:
    key = arrow_field("key", spark_type.keyType, {}, f"{path}[].key")
    value = arrow_field("value", spark_type.valueType, {}, f"{path}[].value")
    # Columnar.rst, "Map": the entries and the keys are not nullable by definition.
    entries = t.Struct((replace(key, nullable=False), value))
    return t.Map(t.Field("entries", entries, nullable=False))


WRITTEN: Mapping[type[s.DataType], Callable[[Any, str], t.DataType]] = {
    s.NullType: _just(t.null),
    s.BooleanType: _just(t.bool_),
    s.ByteType: _just(t.int8),
    s.ShortType: _just(t.int16),
    s.IntegerType: _just(t.int32),
    s.LongType: _just(t.int64),
    s.FloatType: _just(t.float32),
    s.DoubleType: _just(t.float64),
    s.DecimalType: lambda type_, _path: t.Decimal(type_.precision, type_.scale),
    s.StringType: _just(t.utf8),
    # With spark.sql.preserveCharVarcharTypeInfo strings are CHAR and VARCHAR.
    s.CharType: _just(t.utf8),
    s.VarcharType: _just(t.utf8),
    s.BinaryType: _just(t.binary),
    s.DateType: _just(t.date32),
    s.TimeType: lambda type_, _path: t.Time(
        t.TimeUnit.MICROSECOND if type_.precision <= _MICROSECOND_DIGITS else t.TimeUnit.NANOSECOND, 64
    ),
    s.TimestampType: _just(_UTC_TIMESTAMP),
    s.TimestampNTZType: _just(t.Timestamp(t.TimeUnit.MICROSECOND)),
    s.DayTimeIntervalType: _just(t.Duration(t.TimeUnit.MICROSECOND)),
    s.ArrayType: lambda type_, path: t.List(arrow_field("item", type_.elementType, {}, f"{path}[]")),
    s.MapType: _map,
    s.StructType: lambda type_, path: t.Struct(
        tuple(arrow_field(f.name, f.dataType, f.metadata or {}, f"{path}.{f.name}") for f in type_.fields)
    ),
    s.VariantType: _just(_VARIANT),
    s.GeometryType: _just(t.binary),
    s.GeographyType: _just(t.binary),
}
"""By Spark type class. Spark does not pass others through Arrow."""

_CASTS: Mapping[type[s.DataType], str] = {
    s.YearMonthIntervalType: "write its months: cast(c AS interval month), then cast that AS int",
    s.CalendarIntervalType: "cast it to string",
}


def _variant_pairs(_spark_type: s.VariantType, metadata: Mapping[str, Any], _path: str) -> t.CustomMetadata:
    pairs = {extension_columns.EXTENSION_NAME: _VARIANT_NAMES[0], extension_columns.EXTENSION_METADATA: ""}
    if metadata.get(extension_columns.EXTENSION_NAME) in _VARIANT_NAMES:  # the name that it was read with
        pairs = {key: value for key in pairs if isinstance(value := metadata.get(key), str)}
    return tuple(pairs.items())


_VARIANT_NAMES: Final = ("arrow.parquet.variant", "parquet.variant")

_PAIRS: Mapping[type[s.DataType], Callable[[Any, Mapping[str, Any], str], t.CustomMetadata]] = {
    s.VariantType: _variant_pairs,
    s.GeometryType: extension_columns.spatial_pairs,
    s.GeographyType: extension_columns.spatial_pairs,
}
"""By Spark type class: the extension of the Arrow field."""


def types_table() -> str:
    """Return the Markdown table of `WRITTEN`, for ``docs/types.md``."""
    rows = [f"| {spark} | {arrow} |" for spark, arrow in _LINES]
    return "\n".join(["| Spark | Arrow |", "|---|---|", *rows])


_LINES = (
    ("void, boolean, tinyint, smallint, int, bigint, float, double", "Null, Bool, Int8, Int16, Int32, Int64, Float32, Float64"),
    ("decimal(p,s)", "Decimal128(p, s)"),
    ("string, char(n), varchar(n)", "Utf8; a collation or a length is annotated"),
    ("binary", "Binary"),
    ("date", "Date32"),
    ("time(0) to time(6), time(7) to time(9)", "Time64[us], Time64[ns]; the precision is annotated"),
    ("timestamp, timestamp_ntz", "Timestamp[us, UTC], Timestamp[us]"),
    ("interval day to second, interval hour, ...", "Duration[us]; the fields are annotated"),
    ("array, map, struct", "List, Map, Struct"),
    ("user-defined types", "their storage type; VectorUDT and MatrixUDT of PySpark are annotated"),
    ("variant", "Struct of metadata and value, extension arrow.parquet.variant"),
    ("geometry, geography", "Binary, extension geoarrow.wkb with the CRS; edges are spherical for geography"),
    ("interval year to month, calendar interval", "an error that names the column"),
)  # fmt: skip
