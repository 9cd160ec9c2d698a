"""The expected pyarrow schema is the one that PySpark computes."""

import pytest
from convert_batches import is_expected_by_pyspark, struct_of
from pyspark.sql import types as s

from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.spark.convert import pyarrow_schema

VOIDS = {
    "c": s.StructType([s.StructField("c", s.NullType(), nullable=False)]),
    "c[]": struct_of(("c", s.ArrayType(s.NullType(), containsNull=False))),
    "c[].key": struct_of(("c", s.MapType(s.NullType(), s.LongType()))),
}


@pytest.mark.parametrize("path", VOIDS)
def test_void_that_is_not_null_is_a_named_error(path):
    with pytest.raises(UnsupportedError) as caught:
        pyarrow_schema(VOIDS[path])
    assert f"field {path}: void holds nothing but nulls" in str(caught.value)


EXPECTED = [
    s.BooleanType(), s.ByteType(), s.ShortType(), s.IntegerType(), s.LongType(), s.FloatType(), s.DoubleType(),
    s.DecimalType(38, 3), s.StringType(), s.StringType("UTF8_LCASE"), s.BinaryType(), s.DateType(), s.TimeType(3),
    s.TimestampType(), s.TimestampNTZType(), s.DayTimeIntervalType(0, 1), s.VariantType(),
    s.ArrayType(s.StringType(), containsNull=False), s.MapType(s.LongType(), s.VariantType(), valueContainsNull=False),
    s.StructType([s.StructField("a", s.ArrayType(s.DateType()), nullable=False, metadata={"k": [1, {"x": "ü"}]})]),
]  # fmt: skip


@pytest.mark.parametrize("type_", EXPECTED, ids=str)
def test_the_expected_schema_is_that_of_pyspark(type_):
    """The worker compares the first batch with this function of its own, release by release."""
    schema = s.StructType(
        [
            s.StructField("a", type_, nullable=False, metadata={"m": 1}),
            s.StructField("b", s.ArrayType(type_)),
            s.StructField("c", s.NullType()),
        ]
    )
    assert is_expected_by_pyspark(pyarrow_schema(schema), schema)
