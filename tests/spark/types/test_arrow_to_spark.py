"""Every Arrow type has one Spark type, by options; schemas that Spark cannot hold are errors."""

import pytest
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.layout import LAYOUTS
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import SchemaMismatchError, UnsupportedError
from spark_arrow_ipc.spark.convert.plan import EXTENDED, LEAVES, NESTED
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import ExtensionTypes, Nanoseconds, Times
from spark_arrow_ipc.spark.types import arrow_to_spark, extension_columns

DEFAULT = ReadOptions()
S, MS, US, NS = t.TimeUnit
INTERVAL = s.DayTimeIntervalType()


def struct(**fields):
    return s.StructType([s.StructField(name, type_) for name, type_ in fields.items()])


def spark_type(type_, options=DEFAULT):
    return arrow_to_spark.spark_schema(Schema.of([t.field("c", type_)]), options)["c"].dataType


def test_every_arrow_type_has_a_row():
    """LAYOUTS is total over Arrow's types; so must be what Spark is told of them and how they are converted."""
    assert set(LAYOUTS) == set(arrow_to_spark.MAPPINGS)
    assert set(LAYOUTS) == {*LEAVES, *NESTED}
    assert set(extension_columns.EXTENSIONS) == set(EXTENDED)


READ = {
    "null": (t.null, s.NullType()),
    "bool": (t.bool_, s.BooleanType()),
    "int8": (t.int8, s.ByteType()),
    "int16": (t.int16, s.ShortType()),
    "int32": (t.int32, s.IntegerType()),
    "int64": (t.int64, s.LongType()),
    "uint8": (t.uint8, s.ShortType()),
    "uint16": (t.uint16, s.IntegerType()),
    "uint32": (t.uint32, s.LongType()),
    "uint64": (t.uint64, s.DecimalType(20, 0)),
    "float16": (t.float16, s.FloatType()),
    "float32": (t.float32, s.FloatType()),
    "float64": (t.float64, s.DoubleType()),
    "decimal32": (t.Decimal(5, 2, 32), s.DecimalType(5, 2)),
    "decimal128": (t.Decimal(38, 10), s.DecimalType(38, 10)),
    "decimal of negative scale": (t.Decimal(5, -3), s.DecimalType(8, 0)),
    "decimal of scale above precision": (t.Decimal(2, 5), s.DecimalType(5, 5)),
    "decimal that no normal one holds": (t.Decimal(38, -1), s.StringType()),
    "decimal256 of 38 digits": (t.Decimal(38, 0, 256), s.DecimalType(38, 0)),
    "decimal256 of 39 digits": (t.Decimal(39, 0, 256), s.StringType()),
    "date32": (t.date32, s.DateType()),
    "date64": (t.date64, s.DateType()),
    "time32": (t.Time(S, 32), INTERVAL),
    "timestamp": (t.Timestamp(MS), s.TimestampNTZType()),
    "timestamp with zone": (t.Timestamp(NS, "Asia/Tokyo"), s.TimestampType()),
    "duration": (t.Duration(S), INTERVAL),
    "year_month": (t.IntervalYearMonth(), s.IntegerType()),
    "day_time": (t.IntervalDayTime(), struct(days=s.IntegerType(), milliseconds=s.IntegerType())),
    "month_day_nano": (t.IntervalMonthDayNano(), struct(months=s.IntegerType(), days=s.IntegerType(), nanoseconds=s.LongType())),
    "fixed size binary": (t.FixedSizeBinary(3), s.BinaryType()),
    "binary view": (t.binary_view, s.BinaryType()),
    "large utf8": (t.large_utf8, s.StringType()),
    "list": (t.list_(t.Field("item", t.int8, nullable=False)), s.ArrayType(s.ByteType(), containsNull=True)),
    "large list view": (t.LargeListView(t.Field("x", t.utf8)), s.ArrayType(s.StringType())),
    "struct": (t.struct([t.Field("a", t.int8, nullable=False)]), struct(a=s.ByteType())),
    "map": (t.map_(t.utf8, t.int8), s.MapType(s.StringType(), s.ByteType(), valueContainsNull=True)),
    "dictionary": (t.dictionary(t.uint64, t.utf8), s.StringType()),
    "run end encoded": (t.run_end_encoded(t.int16, t.float64), s.DoubleType()),
    "union": (
        t.DenseUnion((t.Field("a", t.int8), t.Field("a", t.utf8), t.Field("a_1", t.bool_)), (0, 5, 7)),
        struct(a=s.ByteType(), a_2=s.StringType(), a_1=s.BooleanType()),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_what_an_arrow_type_becomes(case):
    """Nullable at every depth, whatever the file says."""
    type_, expected = READ[case]
    assert without_metadata(expected) == without_metadata(spark_type(type_))


def without_metadata(type_):
    if isinstance(type_, s.StructType):
        return s.StructType([s.StructField(f.name, without_metadata(f.dataType), f.nullable) for f in type_.fields])
    return type_


BY_OPTIONS = {
    "time s as time": (t.Time(S, 32), ReadOptions(times=Times.TIME), s.TimeType(0)),
    "time us as time": (t.Time(US, 64), ReadOptions(times=Times.TIME), s.TimeType(6)),
    "time ns as time": (
        t.Time(NS, 64),
        ReadOptions(times=Times.TIME),
        s.TimeType(arrow_to_spark.NANOSECOND_TIME_PRECISION),
    ),
    "time as long": (t.Time(MS, 32), ReadOptions(times=Times.LONG), s.LongType()),
    "time ns, nanoseconds long": (t.Time(NS, 64), ReadOptions(nanoseconds=Nanoseconds.LONG), s.LongType()),
    "time us, nanoseconds long": (t.Time(US, 64), ReadOptions(nanoseconds=Nanoseconds.LONG), INTERVAL),
    "timestamp ns as long": (t.Timestamp(NS, "UTC"), ReadOptions(nanoseconds=Nanoseconds.LONG), s.LongType()),
    "duration ns as long": (t.Duration(NS), ReadOptions(nanoseconds=Nanoseconds.LONG), s.LongType()),
}


@pytest.mark.parametrize("case", BY_OPTIONS)
def test_what_options_make_of_a_type(case):
    type_, options, expected = BY_OPTIONS[case]
    assert expected == spark_type(type_, options)


VARIANT = t.struct([("metadata", t.binary), ("value", t.binary_view)])
SHREDDED = t.struct([("metadata", t.binary), ("value", t.binary), ("typed_value", t.int8)])
UNSIGNED = t.struct([("metadata", t.binary), ("value", t.binary), ("typed_value", t.uint8)])

EXTENSIONS = {
    "uuid": ("arrow.uuid", t.FixedSizeBinary(16), s.StringType()),
    "uuid on wrong storage": ("arrow.uuid", t.binary, s.BinaryType()),
    "uuid in a dictionary": ("arrow.uuid", t.dictionary(t.int8, t.FixedSizeBinary(16)), s.StringType()),
    "bool8": ("arrow.bool8", t.int8, s.BooleanType()),
    "json": ("arrow.json", t.large_utf8, s.StringType()),
    "variant": ("arrow.parquet.variant", VARIANT, s.VariantType()),
    "shredded variant": ("arrow.parquet.variant", SHREDDED, s.VariantType()),
    "variant by its older name": ("parquet.variant", VARIANT, s.VariantType()),
    "variant of other parts": ("arrow.parquet.variant", UNSIGNED, struct(metadata=s.BinaryType(), value=s.BinaryType(), typed_value=s.ShortType())),
    "unknown": ("my.own", t.int8, s.ByteType()),
}  # fmt: skip


@pytest.mark.parametrize("case", EXTENSIONS)
def test_what_an_extension_type_becomes(case):
    name, storage, expected = EXTENSIONS[case]
    schema = Schema.of([t.field("c", storage, custom_metadata={"ARROW:extension:name": name})])
    assert without_metadata(expected) == without_metadata(arrow_to_spark.spark_schema(schema, DEFAULT)["c"].dataType)


def test_extension_types_stay_storage_when_asked():
    schema = Schema.of([t.field("c", t.FixedSizeBinary(16), custom_metadata={"ARROW:extension:name": "arrow.uuid"})])
    read = arrow_to_spark.spark_schema(schema, ReadOptions(extension_types=ExtensionTypes.STORAGE))
    assert s.BinaryType() == read["c"].dataType


READ_ERRORS = {
    "same names": (
        [t.field("a", t.int8), t.field("b", t.int8), t.field("a", t.utf8)],
        SchemaMismatchError, "columns have the same name, which Spark cannot carry: 'a' at #0, #2; choose by position with the option columns, for example columns=#0,#1",
    ),
    "same names in a struct": (
        [t.field("s", t.list_(t.struct([("x", t.int8), ("x", t.int8)])))],
        SchemaMismatchError, "field s[]: the struct has fields of the same name, which Spark cannot carry: 'x' at #0, #1",
    ),
    "void as a key": (
        [t.field("m", t.map_(t.null, t.int8))], UnsupportedError, "field m: a map's keys are void",
    ),
    "a map as a key": (
        [t.field("m", t.map_(t.list_(t.map_(t.int8, t.int8)), t.int8))],
        UnsupportedError, "field m: a map's keys are array<map<tinyint,tinyint>>",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", READ_ERRORS)
def test_a_schema_that_spark_cannot_carry_is_a_named_error(case):
    fields, error, expected = READ_ERRORS[case]
    with pytest.raises(error) as caught:
        arrow_to_spark.spark_schema(Schema.of(fields), DEFAULT)
    assert expected in str(caught.value)


def test_names_that_differ_by_case_are_fine():
    schema = arrow_to_spark.spark_schema(Schema.of([t.field("a", t.int8), t.field("A", t.int8)]), DEFAULT)
    assert ["a", "A"] == schema.names
