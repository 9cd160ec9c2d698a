"""Dictionary-encoded columns: which, with what, and one growing dictionary a file. No session needed."""

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as s
from restored_columns import RESTORE, noted, written_batches

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import ColumnNotFoundError, OptionError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.options.values import DictionaryColumns
from spark_arrow_ipc.spark.options.write_options import SparkWriteOptions
from spark_arrow_ipc.spark.types.field_metadata import annotation_of
from spark_arrow_ipc.spark.write.plan import plan_write

AUTO = SparkWriteOptions(dictionary_columns=DictionaryColumns.AUTO)
ALL = SparkWriteOptions(dictionary_columns=DictionaryColumns.ALL)
D = decimal.Decimal


def texts(values):
    return pa.record_batch([pa.array(values, pa.string())], ["c"])


def strings(batches):
    return written_batches(
        s.StructType([s.StructField("c", s.StringType())]), batches, SparkWriteOptions(dictionary_columns=("c",))
    )


COLUMNS = [
    (s.StringType(), pa.string(), ["a", None, "b", "a"]),
    (s.BinaryType(), pa.binary(), [b"a", None, b"", b"a"]),
    (s.IntegerType(), pa.int32(), [1, None, -1, 1]),
    (s.LongType(), pa.int64(), [2**62, None]),
    (s.DecimalType(20, 2), pa.decimal128(20, 2), [D("1.50"), None, D("1.50")]),
    (s.DateType(), pa.date32(), [dt.date(2024, 1, 1), None]),
    (s.TimestampNTZType(), pa.timestamp("us"), [dt.datetime(2024, 1, 1), None]),
    (s.StringType(), pa.large_string(), ["a", None]),
    (s.StringType(), pa.string(), [None, None]),
    (s.StringType(), pa.string(), []),
]


@pytest.mark.parametrize(
    ("spark_type", "type_", "values"), COLUMNS, ids=[str(case[1]) + str(len(case[2])) for case in COLUMNS]
)
def test_a_named_column_is_dictionary_encoded(spark_type, type_, values):
    schema = s.StructType([s.StructField("c", spark_type)])
    batch = pa.record_batch([pa.array(values, type_)], ["c"])
    (made,) = written_batches(schema, [batch], SparkWriteOptions(dictionary_columns=("C",)))
    (column,) = made.columns
    assert isinstance(column.type, t.Dictionary)
    assert t.int32 == column.type.index
    assert values == column.to_pylist()
    assert len(set(values) - {None}) == column.dictionary.length
    assert values.count(None) == column.count_nulls()


def test_the_dictionary_of_a_file_grows_in_the_order_in_which_values_come():
    made = strings([texts(["b", "a"]), texts(["a", None, "c"]), texts(["b"]), texts(["d", "c", "d"])])
    assert [["b", "a"], ["a", None, "c"], ["b"], ["d", "c", "d"]] == [b.columns[0].to_pylist() for b in made]
    expected = [["b", "a"], ["b", "a", "c"], ["b", "a", "c"], ["b", "a", "c", "d"]]
    assert expected == [b.columns[0].dictionary.to_pylist() for b in made]


def test_auto_thinks_of_strings_and_binaries_at_the_top_that_are_no_extension():
    metadata = {"arrow.type": annotation_of(t.utf8), "ARROW:extension:name": "arrow.json"}
    fields = [
        s.StructField("s", s.StringType()), s.StructField("b", s.BinaryType()), s.StructField("i", s.IntegerType()),
        s.StructField("l", s.ArrayType(s.StringType())), s.StructField("j", s.StringType(), metadata=metadata),
        s.StructField("p", s.StringType()), s.StructField("g", s.GeometryType(4326)),
    ]  # fmt: skip
    options = SparkWriteOptions(dictionary_columns=DictionaryColumns.AUTO, partition_by=("p",))
    assert (0, 1) == plan_write(s.StructType(fields), options).columns.sampled


SAMPLED = [
    s.IntegerType(),
    s.LongType(),
    s.FloatType(),
    s.DoubleType(),
    s.DecimalType(18, 2),
    s.DateType(),
    s.TimestampType(),
    s.TimestampNTZType(),
    s.DayTimeIntervalType(),
    s.StringType(),
    s.BinaryType(),
]
OTHERS = [
    s.ByteType(),
    s.ShortType(),
    s.BooleanType(),
    s.DecimalType(19, 2),
    s.ArrayType(s.IntegerType()),
    s.StructType([s.StructField("a", s.LongType())]),
]


def test_all_thinks_of_numbers_and_times_too():
    schema = s.StructType([s.StructField(f"c{i}", type_) for i, type_ in enumerate([*SAMPLED, *OTHERS])])
    assert tuple(range(len(SAMPLED))) == plan_write(schema, ALL).columns.sampled


ERRORS = [
    ("a void", s.NullType(), {}, ("c",), OptionError, "columns of strings.*found c of null"),
    ("a list", s.ArrayType(s.StringType()), {}, ("c",), OptionError, "found c of list"),
    ("an extension", s.VariantType(), {}, ("c",), OptionError, "found c of the extension arrow.parquet.variant"),
    ("no column", s.StringType(), {}, ("d",), ColumnNotFoundError, "there is no column 'd'"),
    ("no position", s.StringType(), {}, (2,), OptionError, "positions below 2 in dictionaryColumns, found #2"),
    ("a field", s.StringType(), {}, (("c", "d"),), OptionError, "whole columns in dictionaryColumns, found c.d"),
    ("a partition column", s.StringType(), {"partition_by": ("c",)}, ("c",), OptionError, "found c, a partition column"),
]  # fmt: skip


@pytest.mark.parametrize("case", ERRORS, ids=[case[0] for case in ERRORS])
def test_a_column_that_cannot_be_encoded_is_an_error_before_any_task(case):
    _, spark_type, more, columns, error, message = case
    schema = s.StructType([s.StructField("c", spark_type), s.StructField("x", s.LongType())])
    with pytest.raises(error, match=message):
        plan_write(schema, SparkWriteOptions(dictionary_columns=columns, **more))


def test_nan_payloads_stay_in_dictionaries_inside_of_columns():
    """The kernel that encodes takes all NaNs for one: before, each got the bits of the first."""
    words = [0x7FF8_0000_0000_0001, 0x7FF8_0000_0000_0002, 0, 1 << 63, 0x7FF8_0000_0000_0001]
    numbers = pa.Array.from_buffers(pa.float64(), 5, [None, pa.py_buffer(np.array(words, np.uint64))])
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 5], pa.int32()), numbers)
    schema, _ = noted(s.ArrayType(s.DoubleType()), t.list_(t.dictionary(t.int8, t.float64)), [], lists.type)
    (made,) = written_batches(schema, [pa.record_batch([lists], ["c"])], RESTORE)
    (column,) = made.columns
    child = bridge.to_pyarrow(column.children[0])
    assert 4 == len(child.dictionary)
    assert words == child.dictionary.take(child.indices).view(pa.uint64()).to_pylist()
