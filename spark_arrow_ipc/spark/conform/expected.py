"""`EXPECTED`: the pyarrow type that Spark expects for each Spark type.

Strategy
--------
Spark checks only the first batch of a task against ``to_arrow_schema(schema, timezone="UTC")``, so every batch must
be right. PySpark's function differs between releases (4.1 has no ``timezone``), so the table is our own, and
a test compares the two for the installed release.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import types as s

from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.spark.types.spark_to_arrow import storage_type

_METADATA_KEY = b"SPARK::metadata::json"
"""The key under which Spark's ``ArrowUtils`` looks for a field's metadata."""


def expected_arrow_schema(spark_schema: s.StructType) -> pa.Schema:
    """Return the pyarrow schema of every batch of a read that has this Spark schema."""
    return pa.schema([_expected_field(field, field.name) for field in spark_schema.fields])


def expected_type(spark_type: s.DataType, path: str) -> pa.DataType:
    """Return the pyarrow type of a Spark type; `path` of its column is for errors."""
    spark_type = storage_type(spark_type)
    expected = EXPECTED.get(type(spark_type))
    if expected is None:
        raise UnsupportedError(
            f"Spark takes no columns of type {spark_type.simpleString()} from a Python data source; "
            "ask for another type in the schema",
            field_path=path,
        )
    return expected(spark_type, path)


def _expected_field(field: s.StructField, path: str) -> pa.Field:
    made = _field(field.name, field.dataType, path, nullable=field.nullable)
    return made.with_metadata({_METADATA_KEY: json.dumps(field.metadata).encode()}) if field.metadata else made


def _field(name: str, spark_type: s.DataType, path: str, *, nullable: bool) -> pa.Field:
    if isinstance(spark_type, s.NullType) and not nullable:
        raise UnsupportedError("void holds nothing but nulls, so it cannot be NOT NULL", field_path=path)
    return pa.field(name, expected_type(spark_type, path), nullable)


def _just(type_: pa.DataType) -> Callable[[Any, str], pa.DataType]:
    return lambda _spark_type, _path: type_


def _array(spark_type: s.ArrayType, path: str) -> pa.DataType:
    return pa.list_(_field("element", spark_type.elementType, f"{path}[]", nullable=spark_type.containsNull))


def _map(spark_type: s.MapType, path: str) -> pa.DataType:
    key = _field("key", spark_type.keyType, f"{path}[].key", nullable=False)
    value = _field("value", spark_type.valueType, f"{path}[].value", nullable=spark_type.valueContainsNull)
    return pa.map_(key, value)


def _struct(spark_type: s.StructType, path: str) -> pa.DataType:
    return pa.struct([_expected_field(field, f"{path}.{field.name}") for field in spark_type.fields])


def _variant(_spark_type: s.VariantType, _path: str) -> pa.DataType:
    metadata = pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"})
    return pa.struct([pa.field("value", pa.binary(), nullable=False), metadata])


def _spatial(kind: bytes) -> Callable[[Any, str], pa.DataType]:
    def expected(spark_type: s.SpatialType, _path: str) -> pa.DataType:
        metadata = {kind: b"true", b"srid": str(spark_type.srid).encode()}
        wkb = pa.field("wkb", pa.binary(), nullable=False, metadata=metadata)
        return pa.struct([pa.field("srid", pa.int32(), nullable=False), wkb])

    return expected


EXPECTED: Mapping[type[s.DataType], Callable[[Any, str], pa.DataType]] = {
    s.NullType: _just(pa.null()),
    s.BooleanType: _just(pa.bool_()),
    s.ByteType: _just(pa.int8()),
    s.ShortType: _just(pa.int16()),
    s.IntegerType: _just(pa.int32()),
    s.LongType: _just(pa.int64()),
    s.FloatType: _just(pa.float32()),
    s.DoubleType: _just(pa.float64()),
    s.DecimalType: lambda spark_type, _path: pa.decimal128(spark_type.precision, spark_type.scale),
    s.StringType: _just(pa.string()),
    s.BinaryType: _just(pa.binary()),
    s.DateType: _just(pa.date32()),
    s.TimeType: _just(pa.time64("ns")),
    s.TimestampType: _just(pa.timestamp("us", "UTC")),
    s.TimestampNTZType: _just(pa.timestamp("us")),
    s.DayTimeIntervalType: _just(pa.duration("us")),
    s.ArrayType: _array,
    s.MapType: _map,
    s.StructType: _struct,
    s.VariantType: _variant,
    s.GeometryType: _spatial(b"geometry"),
    s.GeographyType: _spatial(b"geography"),
}
"""By Spark type class: pyarrow's type. Absent ones (year-month interval, char) are refused."""
