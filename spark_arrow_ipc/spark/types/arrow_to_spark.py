"""`MAPPINGS`: the Spark type of every Arrow type.

It has one row for each type class of ``arrow.layout.LAYOUTS``: a function from the Arrow field and the read options to
the Spark type, and the lines for ``docs/types.md``. Extension types have rows in ``extension_columns.EXTENSIONS``.
`spark_schema` is the only way from a file's schema to Spark's. `convert` converts values; the reverse is
``spark/types/spark_to_arrow.py``.

Everything is nullable at every depth, as in Spark's own file sources: Arrow writers put nulls into fields that are not
nullable, and Spark would then return wrong results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.column_path import child_path
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import ArrowIpcError, SchemaMismatchError, UnsupportedError
from spark_arrow_ipc.ipc.messages.schema import UnknownType
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import ExtensionTypes, Nanoseconds, Times, Vectors
from spark_arrow_ipc.spark.types import extension_columns, field_metadata, spark_to_arrow, tensor_columns
from spark_arrow_ipc.spark.types.extension_columns import DocLine
from spark_arrow_ipc.spark.types.field_metadata import NANOSECOND_TIME_PRECISION, may_change, vector_element
from spark_arrow_ipc.spark.types.schema_pairs import with_pairs
from spark_arrow_ipc.spark.types.spark_annotation import find_annotation, restore_schema
from spark_arrow_ipc.spark.types.spark_to_arrow import storage_type

MAX_DECIMAL_PRECISION = 38
"""Digits of Spark's decimals."""

SparkTypeOf = Callable[[t.Field, ReadOptions, str], s.DataType]


@dataclass(frozen=True, slots=True)
class TypeMapping:
    """A row of `MAPPINGS`."""

    spark_type: SparkTypeOf  # returns the Spark type of a field of this type class
    lines: tuple[DocLine, ...]  # for the documentation


def spark_schema(arrow_schema: Schema, options: ReadOptions) -> s.StructType:
    """Map a file's schema to Spark: nullable at every depth, with the fields' metadata."""
    _check_names(arrow_schema.names, None)
    natural = _struct_of(arrow_schema, options)
    if (annotation := find_annotation(arrow_schema.custom_metadata)) is None:
        return natural
    try:
        written = _struct_of(arrow_schema, _AS_WRITTEN)
    except ArrowIpcError:  # a CRS that Spark lacks, which the options of the read do not convert
        written = natural
    return restore_schema(natural, written, annotation, lambda type_: options_for(type_, options) is not options)


_AS_WRITTEN: Final = ReadOptions(times=Times.TIME, extension_types=ExtensionTypes.GEOMETRY)
"""Options with which Arrow types become the Spark types that they were written from."""


def options_for(type_: s.DataType, options: ReadOptions) -> ReadOptions:
    """Return the options for a field of an annotated or requested Spark type."""
    if isinstance(type_, s.TimeType) and options.times is Times.NOTED:
        return replace(options, times=Times.TIME)
    if isinstance(type_, s.SpatialType) and options.extension_types is ExtensionTypes.CONVERT:
        return replace(options, extension_types=ExtensionTypes.GEOMETRY)
    return options


def _struct_of(schema: Schema, options: ReadOptions) -> s.StructType:
    natural = s.StructType([_spark_field(field, field.name, options, field.name) for field in schema.fields])
    return with_pairs(natural, schema)


def spark_type(field: t.Field, options: ReadOptions, path: str) -> s.DataType:
    """Return the natural Spark type of a field; `path` is for errors."""
    extension = extension_columns.extension_of(field, options)
    if extension is not None:
        if extension.check is not None:
            extension.check(field.type, path)
        return extension.spark_type(field.type, options)
    tensor = tensor_column_of(field, options, path)
    if tensor is not None:
        value = tensor_columns.value_field(field)
        return tensor_columns.spark_tensor(spark_type(value, options, f"{path}.{tensor_columns.DATA}[]"))
    spatial = spatial_column_of(field, options, path)
    if spatial is not None:
        return spatial.spark_type
    if isinstance(field.type, UnknownType):
        raise field.type.error(path)
    return MAPPINGS[type(field.type)].spark_type(field, options, path)


def tensor_column_of(field: t.Field, options: ReadOptions, path: str) -> tensor_columns.TensorColumn | None:
    """Return the tensors that a field describes; None if it has none, or they are read as their storage."""
    return tensor_columns.tensor_of(field, path) if options.extension_types.reads_tensors else None


def spatial_column_of(field: t.Field, options: ReadOptions, path: str) -> extension_columns.SpatialColumn | None:
    """Return the geometries that a field describes; None if it has none, or they are read as their storage."""
    return extension_columns.spatial_of(field, path) if options.extension_types.reads_geometries else None


def union_names(type_: t.SparseUnion | t.DenseUnion) -> tuple[str, ...]:
    """Return unique names for a union's fields: ``a, a`` gives ``a, a_1``."""
    used_names = {field.name for field in type_.fields}
    names: list[str] = []
    for field in type_.fields:
        name = field.name
        if name in names:
            number = 1
            while f"{field.name}_{number}" in used_names:
                number += 1
            name = f"{field.name}_{number}"
            used_names.add(name)
        names.append(name)
    return tuple(names)


def normal_decimal(type_: t.Decimal) -> tuple[int, int] | None:
    """Return Spark's precision and scale for the same values, or None beyond 38 digits."""
    precision, scale = type_.precision, type_.scale
    # Spark needs 0 <= scale <= precision.
    if scale < 0:
        precision, scale = precision - scale, 0
    precision = max(precision, scale)
    return (precision, scale) if precision <= MAX_DECIMAL_PRECISION else None


def _spark_field(field: t.Field, name: str, options: ReadOptions, path: str) -> s.StructField:
    type_ = spark_type(field, options, path)
    tensor = tensor_column_of(field, options, path)
    inexact = may_change(field, options) or (tensor is not None and tensor.permutation is not None)
    if tensor is not None:
        field = tensor_columns.logical_field(field, tensor)
    written = spark_to_arrow.arrow_field(name, type_, {}, path).type
    metadata = field_metadata.to_spark(field, type_, written, inexact=inexact)
    return s.StructField(name, type_, nullable=True, metadata=metadata)


def _check_names(names: Sequence[str], path: str | None) -> None:
    """Refuse equal names, on which the JVM fails late; names that differ in case are allowed."""
    twice = [name for name, times in Counter(names).items() if times > 1]
    if not twice:
        return
    where = "; ".join(f"{n!r} at {', '.join(f'#{i}' for i, name in enumerate(names) if name == n)}" for n in twice)
    if path is not None:
        raise SchemaMismatchError(
            f"the struct has fields of the same name, which Spark cannot carry: {where}; "
            "leave the column out with the option columns",
            field_path=path,
        )
    chosen = ",".join(f"#{i}" for i, name in enumerate(names) if name not in names[:i])
    raise SchemaMismatchError(
        f"columns have the same name, which Spark cannot carry: {where}; "
        f"choose by position with the option columns, for example columns={chosen}"
    )


def _just(type_: s.DataType) -> SparkTypeOf:
    return lambda _field, _options, _path: type_


_INTS: Mapping[t.DataType, s.DataType] = {
    t.int8: s.ByteType(),
    t.int16: s.ShortType(),
    t.int32: s.IntegerType(),
    t.int64: s.LongType(),
    t.uint8: s.ShortType(),
    t.uint16: s.IntegerType(),
    t.uint32: s.LongType(),
    t.uint64: s.DecimalType(20, 0),
}
_FLOATS: Mapping[t.DataType, s.DataType] = {
    t.float16: s.FloatType(),
    t.float32: s.FloatType(),
    t.float64: s.DoubleType(),
}
_DAY_TIME_FIELDS = s.StructType(
    [s.StructField("days", s.IntegerType()), s.StructField("milliseconds", s.IntegerType())]
)
_MONTH_DAY_NANO_FIELDS = s.StructType(
    [
        s.StructField("months", s.IntegerType()),
        s.StructField("days", s.IntegerType()),
        s.StructField("nanoseconds", s.LongType()),
    ]
)


def _decimal(field: t.Field, _options: ReadOptions, _path: str) -> s.DataType:
    assert isinstance(field.type, t.Decimal)
    normal = normal_decimal(field.type)
    return s.DecimalType(*normal) if normal is not None else s.StringType()


def _time(field: t.Field, options: ReadOptions, _path: str) -> s.DataType:
    assert isinstance(field.type, t.Time)
    nanoseconds = field.type.unit is t.TimeUnit.NANOSECOND
    if options.times is Times.LONG:
        return s.LongType()
    # In releases whose TIME has 6 digits the option `nanoseconds` decides.
    if options.times is Times.TIME and (not nanoseconds or NANOSECOND_TIME_PRECISION == 9):
        return s.TimeType(3 * field.type.unit)
    if nanoseconds and options.nanoseconds is Nanoseconds.LONG:
        return s.LongType()
    return s.TimeType(6) if options.times is Times.TIME else s.DayTimeIntervalType()


def _instant(field: t.Field, options: ReadOptions, _path: str) -> s.DataType:
    assert isinstance(field.type, t.Timestamp | t.Duration)
    if field.type.unit is t.TimeUnit.NANOSECOND and options.nanoseconds is Nanoseconds.LONG:
        return s.LongType()
    if isinstance(field.type, t.Duration):
        return s.DayTimeIntervalType()
    return s.TimestampNTZType() if field.type.timezone is None else s.TimestampType()


def _list(field: t.Field, options: ReadOptions, path: str) -> s.DataType:
    if options.vectors is Vectors.BINARY and vector_element(field.type) is not None:
        return s.BinaryType()
    (value,) = field.type.children
    return s.ArrayType(
        spark_type(value, _arrays_below(options), child_path(field.type, path, value)), containsNull=True
    )


def _arrays_below(options: ReadOptions) -> ReadOptions:
    """Return the options for elements of lists and maps, which are never binary vectors."""
    # Their Spark types have no metadata for the type of a vector's numbers.
    return options if options.vectors is Vectors.ARRAY else replace(options, vectors=Vectors.ARRAY)


def _struct(field: t.Field, options: ReadOptions, path: str) -> s.DataType:
    children = field.type.children
    _check_names([child.name for child in children], path)
    return s.StructType([_spark_field(c, c.name, options, child_path(field.type, path, c)) for c in children])


def _map(field: t.Field, options: ReadOptions, path: str) -> s.DataType:
    assert isinstance(field.type, t.Map)
    options = _arrays_below(options)
    key = spark_type(field.type.key, options, f"{path}[].{field.type.key.name}")
    value = spark_type(field.type.item, options, f"{path}[].{field.type.item.name}")
    if _holds_map(key) or isinstance(key, s.NullType):
        raise UnsupportedError(
            f"a map's keys are {key.simpleString()}, and Spark has no keys that are void or hold maps; "
            "leave the column out with the option columns",
            field_path=path,
        )
    return s.MapType(key, value, valueContainsNull=True)


def _holds_map(type_: s.DataType) -> bool:
    if isinstance(type_, s.StructType):
        return any(_holds_map(field.dataType) for field in type_.fields)
    return isinstance(type_, s.MapType) or (isinstance(type_, s.ArrayType) and _holds_map(type_.elementType))


def _union(field: t.Field, options: ReadOptions, path: str) -> s.DataType:
    assert isinstance(field.type, t.SparseUnion | t.DenseUnion)
    named = zip(field.type.fields, union_names(field.type), strict=True)
    return s.StructType([_spark_field(child, name, options, f"{path}.{name}") for child, name in named])


def _values(field: t.Field, options: ReadOptions, path: str) -> s.DataType:
    assert isinstance(field.type, t.RunEndEncoded | t.Dictionary)
    if isinstance(field.type, t.RunEndEncoded):
        return spark_type(field.type.values, options, path)
    # The extension of a dictionary's field belongs to its values.
    return spark_type(replace(field, type=field.type.value), options, path)


def _row(
    spark_type_of: SparkTypeOf, *lines: tuple[str, str] | tuple[str, str, str] | tuple[str, str, str, bool]
) -> TypeMapping:
    return TypeMapping(spark_type_of, tuple(DocLine(*line) for line in lines))


_ROUNDED = False
"""Not lossless."""
_VECTORS = ("List, LargeList, FixedSizeList of numbers with vectors=binary", "binary", "The numbers, little-endian.")  # fmt: skip
_UNION = "A field for each child, only the selected one set; names made unique. Written back as a struct, or with `restoreTypes` an error."

MAPPINGS: Mapping[type[t.DataType], TypeMapping] = {
    t.Null: _row(_just(s.NullType()), ("Null", "void")),
    t.Bool: _row(_just(s.BooleanType()), ("Bool", "boolean")),
    t.Int: _row(
        lambda field, _options, _path: _INTS[field.type],
        ("Int8, Int16, Int32, Int64", "tinyint, smallint, int, bigint"),
        ("UInt8, UInt16, UInt32, UInt64", "smallint, int, bigint, decimal(20,0)", "Widened."),
    ),
    t.FloatingPoint: _row(
        lambda field, _options, _path: _FLOATS[field.type],
        ("Float16", "float", "Widened."),
        ("Float32, Float64", "float, double"),
    ),
    t.Decimal: _row(
        _decimal,
        ("Decimal32, 64, 128, 256 of at most 38 digits", "decimal(p,s)", "A scale below 0 or above the precision is normalised. A value beyond its own precision is an error."),
        ("Decimal of more than 38 digits", "string", "The exact number; slow."),
    ),
    t.Date: _row(
        _just(s.DateType()),
        ("Date32", "date"),
        ("Date64", "date", "The day; for a time of day see `nanoseconds`.", _ROUNDED),
    ),
    t.Time: _row(
        _time,
        ("Time32, Time64", "interval day to second", "Since midnight; for nanoseconds see `nanoseconds`.", _ROUNDED),
        ("the same with times=time", "time(0), time(3), time(6), time(9)", "By unit; time(9) from Spark 4.3. Outside of a day an error."),
        ("the same with times=long", "bigint", "Since midnight, in the file's unit."),
    ),
    t.Timestamp: _row(
        _instant,
        ("Timestamp with a time zone", "timestamp", "The same instant; beyond Spark's range an error; for nanoseconds see `nanoseconds`.", _ROUNDED),
        ("Timestamp without", "timestamp_ntz", "The same local time; otherwise as above.", _ROUNDED),
        ("Timestamp, Time, Duration in ns with nanoseconds=long", "bigint", "The nanoseconds."),
    ),
    t.Duration: _row(
        _instant,
        ("Duration", "interval day to second", "Beyond Spark's range an error; for nanoseconds see `nanoseconds`.", _ROUNDED),
    ),
    t.IntervalYearMonth: _row(_just(s.IntegerType()), ("Interval YEAR_MONTH", "int", "The months.")),
    t.IntervalDayTime: _row(_just(_DAY_TIME_FIELDS), ("Interval DAY_TIME", "struct<days: int, milliseconds: int>")),
    t.IntervalMonthDayNano: _row(_just(_MONTH_DAY_NANO_FIELDS), ("Interval MONTH_DAY_NANO", "struct<months: int, days: int, nanoseconds: bigint>")),
    t.FixedSizeBinary: _row(_just(s.BinaryType()), ("FixedSizeBinary", "binary")),
    t.Binary: _row(_just(s.BinaryType()), ("Binary", "binary")),
    t.LargeBinary: _row(_just(s.BinaryType()), ("LargeBinary", "binary")),
    t.BinaryView: _row(_just(s.BinaryType()), ("BinaryView", "binary")),
    t.Utf8: _row(_just(s.StringType()), ("Utf8", "string")),
    t.LargeUtf8: _row(_just(s.StringType()), ("LargeUtf8", "string")),
    t.Utf8View: _row(_just(s.StringType()), ("Utf8View", "string")),
    t.List: _row(_list, ("List", "array")),
    t.LargeList: _row(_list, ("LargeList", "array")),
    t.FixedSizeList: _row(_list, ("FixedSizeList", "array"), _VECTORS),
    t.ListView: _row(_list, ("ListView", "array")),
    t.LargeListView: _row(_list, ("LargeListView", "array")),
    t.Struct: _row(_struct, ("Struct", "struct", "Fields of the same name are an error.")),
    t.Map: _row(_map, ("Map", "map", "A duplicate key is an error, and so is a null key.")),
    t.SparseUnion: _row(_union, ("Sparse union", "struct", _UNION)),
    t.DenseUnion: _row(_union, ("Dense union", "struct", _UNION)),
    t.RunEndEncoded: _row(_values, ("RunEndEncoded", "the type of the values")),
    t.Dictionary: _row(_values, ("Dictionary", "the type of the values")),
}  # fmt: skip
"""By type class of Arrow; a test proves that none is missing."""


def to_ddl(schema: Schema) -> str:
    """Return the columns of a file as Spark reads them, without a session: ``"`a` BIGINT, `b` STRING"``."""
    return ", ".join(f"{_quote(field.name)} {_ddl(field.dataType)}" for field in spark_schema(schema, ReadOptions()))


def _ddl(type_: s.DataType) -> str:
    """Return a type as DDL."""
    # `simpleString` leaves out the quotes that names inside of structs need.
    type_ = storage_type(type_)  # DDL has no user-defined types
    if isinstance(type_, s.StructType):
        return f"STRUCT<{', '.join(f'{_quote(field.name)}: {_ddl(field.dataType)}' for field in type_)}>"
    if isinstance(type_, s.ArrayType):
        return f"ARRAY<{_ddl(type_.elementType)}>"
    if isinstance(type_, s.MapType):
        return f"MAP<{_ddl(type_.keyType)}, {_ddl(type_.valueType)}>"
    return str(type_.simpleString()).upper()


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
