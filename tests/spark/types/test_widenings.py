"""A type widens only to a type that holds all of its values."""

import pytest
from pyspark.sql import types as s

from spark_arrow_ipc.spark.types import merge
from spark_arrow_ipc.spark.types.merge import widens

WIDENINGS = [
    (s.ByteType(), s.LongType(), True),
    (s.LongType(), s.IntegerType(), False),
    (s.IntegerType(), s.IntegerType(), False),
    (s.IntegerType(), s.DoubleType(), False),
    (s.FloatType(), s.DoubleType(), True),
    (s.DecimalType(5, 2), s.DecimalType(7, 3), True),
    (s.DecimalType(5, 2), s.DecimalType(5, 3), False),
    (s.DecimalType(5, 2), s.DecimalType(7, 1), False),
    (s.DateType(), s.TimestampNTZType(), True),
    (s.DateType(), s.TimestampType(), False),
    (s.StringType(), s.BinaryType(), False),
]


@pytest.mark.parametrize(("narrow", "wide", "expected"), WIDENINGS)
def test_what_widens(narrow, wide, expected):
    assert expected is widens(narrow, wide)


def test_widening_is_an_order():
    """What widens in two steps widens in one, and nothing widens back."""
    pairs = set(merge.WIDENINGS)
    assert pairs.isdisjoint((wide, narrow) for narrow, wide in pairs if narrow is not wide)
    assert pairs >= {(a, d) for a, b in pairs for c, d in pairs if b is c}
