"""Dictionary-encoded columns: which, with what, and one growing dictionary a task. No session needed."""

import datetime as dt
import decimal

import pyarrow as pa
import pytest
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import ColumnNotFoundError, OptionError
from spark_arrow_ipc.spark.options.values import DictionaryColumns
from spark_arrow_ipc.spark.options.write_options import SparkWriteOptions
from spark_arrow_ipc.spark.types.field_metadata import annotation_of
from spark_arrow_ipc.spark.write import dictionaries
from spark_arrow_ipc.spark.write.batches import convert_batches
from spark_arrow_ipc.spark.write.plan import plan_write

AUTO = SparkWriteOptions(dictionary_columns=DictionaryColumns.AUTO)
D = decimal.Decimal


def written(batches, options, schema=None):
    schema = schema or s.StructType([s.StructField("c", s.StringType())])
    plan = plan_write(schema, options)
    made = list(convert_batches(batches, plan.columns))
    for batch in made:
        batch.validate()
    return made


def texts(values):
    return pa.record_batch([pa.array(values, pa.string())], ["c"])


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
    (made,) = written([batch], SparkWriteOptions(dictionary_columns=("C",)), schema)
    (column,) = made.columns
    assert isinstance(column.type, t.Dictionary)
    assert t.int32 == column.type.index
    assert values == column.to_pylist()
    assert len(set(values) - {None}) == column.dictionary.length
    assert values.count(None) == column.count_nulls()


def test_the_dictionary_of_a_task_grows_in_the_order_in_which_values_come():
    batches = [texts(["b", "a"]), texts(["a", None, "c"]), texts(["b"]), texts(["d", "c", "d"])]
    made = written(batches, SparkWriteOptions(dictionary_columns=("c",)))
    assert [["b", "a"], ["a", None, "c"], ["b"], ["d", "c", "d"]] == [b.columns[0].to_pylist() for b in made]
    expected = [["b", "a"], ["b", "a", "c"], ["b", "a", "c"], ["b", "a", "c", "d"]]
    assert expected == [b.columns[0].dictionary.to_pylist() for b in made]


AUTOS = [
    ("few values", [f"{i % 100}" for i in range(10_000)], True),
    ("eight of each", [f"{i % 500}" for i in range(4_000)], True),
    ("seven of each", [f"{i % 500}" for i in range(3_500)], False),
    ("few rows", ["a"] * 999, False),
    ("enough rows", ["a"] * 1000, True),
    ("only nulls", [None] * 10_000, False),
    ("all different", [f"{i}" for i in range(10_000)], False),
]


@pytest.mark.parametrize(("values", "expected"), [case[1:] for case in AUTOS], ids=[case[0] for case in AUTOS])
def test_auto_encodes_texts_that_repeat(values, expected):
    batches = [texts(values[i : i + 1500]) for i in range(0, len(values), 1500)]
    made = written(batches, AUTO)
    assert {expected} == {isinstance(batch.columns[0].type, t.Dictionary) for batch in made}
    assert values == [value for batch in made for value in batch.columns[0].to_pylist()]


def test_auto_goes_on_as_text_where_the_values_become_many(monkeypatch):
    monkeypatch.setattr(dictionaries, "MOST_NBYTES", 10_000)
    monkeypatch.setattr("spark_arrow_ipc.spark.write.batches.SAMPLE_ROWS", 2000)
    values = ["a", "b"] * 1000 + [f"{i}" for i in range(4000)]
    made = written([texts(values[i : i + 1000]) for i in range(0, 6000, 1000)], AUTO)
    kinds = [isinstance(batch.columns[0].type, t.Dictionary) for batch in made]
    assert [True] * 4 + [False] * 2 == kinds
    assert values == [value for batch in made for value in batch.columns[0].to_pylist()]


def test_auto_thinks_of_strings_and_binaries_at_the_top_that_are_no_extension():
    metadata = {"arrow.type": annotation_of(t.utf8), "ARROW:extension:name": "arrow.json"}
    fields = [
        s.StructField("s", s.StringType()), s.StructField("b", s.BinaryType()), s.StructField("i", s.IntegerType()),
        s.StructField("l", s.ArrayType(s.StringType())), s.StructField("j", s.StringType(), metadata=metadata),
        s.StructField("p", s.StringType()), s.StructField("g", s.GeometryType(4326)),
    ]  # fmt: skip
    options = SparkWriteOptions(dictionary_columns=DictionaryColumns.AUTO, partition_by=("p",))
    assert (0, 1) == plan_write(s.StructType(fields), options).columns.sampled


ERRORS = [
    ("a float", s.DoubleType(), {}, ("c",), OptionError, "columns of strings.*found c of float64"),
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
