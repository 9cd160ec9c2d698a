"""Every Spark type is written as one Arrow type, with metadata for the rest."""

import pytest
from pyspark.sql import types as s
from pyspark.testing.objects import ExamplePointUDT

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.types import arrow_to_spark
from spark_arrow_ipc.spark.types.spark_to_arrow import arrow_schema_for

DEFAULT = ReadOptions()
S, MS, US, NS = t.TimeUnit


WRITTEN = {
    "void": (s.NullType(), t.null),
    "boolean": (s.BooleanType(), t.bool_),
    "tinyint": (s.ByteType(), t.int8),
    "bigint": (s.LongType(), t.int64),
    "double": (s.DoubleType(), t.float64),
    "decimal": (s.DecimalType(10, 2), t.Decimal(10, 2)),
    "string": (s.StringType(), t.utf8),
    "date": (s.DateType(), t.date32),
    "time(6)": (s.TimeType(6), t.Time(US, 64)),
    "time(9)": (s.TimeType(9), t.Time(NS, 64)),
    "timestamp": (s.TimestampType(), t.Timestamp(US, "UTC")),
    "timestamp_ntz": (s.TimestampNTZType(), t.Timestamp(US)),
    "interval day": (s.DayTimeIntervalType(0, 0), t.Duration(US)),
    "array": (s.ArrayType(s.ByteType(), containsNull=False), t.list_(t.int8)),
    "map": (s.MapType(s.StringType(), s.ByteType()), t.map_(t.utf8, t.int8)),
    "struct": (s.StructType([s.StructField("a", s.ByteType(), nullable=False)]), t.struct([("a", t.int8)])),
    "user defined": (ExamplePointUDT(), t.list_(t.float64)),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_what_a_spark_type_is_written_as(case):
    type_, expected = WRITTEN[case]
    written = arrow_schema_for(s.StructType([s.StructField("c", type_, nullable=False)]))
    assert (t.Field("c", expected),) == written.fields


EXTENDED_WRITES = {
    "variant": (s.VariantType(), t.Struct, (("ARROW:extension:name", "arrow.parquet.variant"), ("ARROW:extension:metadata", ""))),
    "geometry": (s.GeometryType(4326), t.Binary, (("ARROW:extension:name", "geoarrow.wkb"), ("ARROW:extension:metadata", '{"crs": "OGC:CRS84", "crs_type": "authority_code"}'))),
    "geography": (s.GeographyType("ANY"), t.Binary, (("ARROW:extension:name", "geoarrow.wkb"), ("ARROW:extension:metadata", '{"crs": "OGC:CRS84", "crs_type": "authority_code", "edges": "spherical"}'))),
    "collation": (s.StringType("UTF8_LCASE"), t.Utf8, ()),
    "char": (s.CharType(3), t.Utf8, ()),
    "varchar": (s.VarcharType(3), t.Utf8, ()),
}  # fmt: skip


@pytest.mark.parametrize("case", EXTENDED_WRITES)
def test_what_is_written_with_a_name(case):
    type_, layout, expected = EXTENDED_WRITES[case]
    (field,) = arrow_schema_for(s.StructType([s.StructField("c", type_)])).fields
    assert (layout, expected) == (type(field.type), field.custom_metadata)


RETURNING = {
    "pairs": (t.field("c", t.int8, custom_metadata=[("a", "1"), ("a", "2")]), (("a", "1"), ("a", "2"))),
    "an extension on its storage": (t.field("c", t.utf8, custom_metadata={"ARROW:extension:name": "arrow.json"}), (("ARROW:extension:name", "arrow.json"),)),
    "an extension on a list": (t.field("c", t.list_(t.float64), custom_metadata={"ARROW:extension:name": "my.own"}), (("ARROW:extension:name", "my.own"),)),
    "an extension whose storage changed": (t.field("c", t.FixedSizeBinary(16), custom_metadata={"ARROW:extension:name": "arrow.uuid"}), ()),
}  # fmt: skip


@pytest.mark.parametrize("case", RETURNING)
def test_what_of_the_metadata_comes_back(case):
    """An extension's name may stand on the storage that it names only."""
    field, expected = RETURNING[case]
    (written,) = arrow_schema_for(arrow_to_spark.spark_schema(Schema.of([field]), DEFAULT)).fields
    assert expected == written.custom_metadata


@pytest.mark.parametrize("value", ["text", [1], [{"key": 1, "value": "b"}], [{"key": "a"}]])
def test_metadata_that_somebody_edited_is_left_out(value):
    edited = s.StructType([s.StructField("c", s.ByteType(), metadata={"arrow.custom_metadata": value, "spark.x": "x"})])
    assert () == arrow_schema_for(edited).fields[0].custom_metadata


@pytest.mark.parametrize("type_", [s.YearMonthIntervalType(), s.CalendarIntervalType()])
def test_a_type_that_cannot_be_written_is_a_named_error(type_):
    schema = s.StructType([s.StructField("a", s.ArrayType(type_))])
    with pytest.raises(
        UnsupportedError, match=r"field a\[\]: a column of type .* cannot be written.*or leave the column out"
    ):
        arrow_schema_for(schema)
