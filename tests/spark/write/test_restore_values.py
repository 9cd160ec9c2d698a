"""Values are written in the type that they were read from, exactly, or an error names one.

No session is needed: the batches are those that the reader gives to Spark, in the schema that Spark returns.
"""

import datetime as dt
import json

import pyarrow as pa
import pytest
from pyspark.sql import types as s
from restored_columns import EXTENSION, UUIDS, D, noted, spark_column, written, written_batches

from spark_arrow_ipc.arrow import equality
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.errors import SchemaMismatchError
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import ExtensionTypes, Nanoseconds, Times
from spark_arrow_ipc.spark.options.write_options import SparkWriteOptions
from spark_arrow_ipc.spark.types import arrow_to_spark
from spark_arrow_ipc.spark.types.field_metadata import annotation_of, storage, type_of_annotation
from spark_arrow_ipc.spark.write import restore_values
from spark_arrow_ipc.spark.write.plan import plan_write

S, MS, US, NS = t.TimeUnit
LONG = "a text that no view holds inline"
DAYS = [dt.date(1969, 12, 31), None, dt.date(2024, 2, 29)]
EXACT = ReadOptions(nanoseconds=Nanoseconds.ERROR)
INSTANTS = [-1, None, 0, 1_700_000_000]
TYPES = [
    *[(str(type_), type_, [0, None, 127, 200 if not type_.signed else -128]) for type_ in (t.uint8, t.uint16, t.uint32, t.uint64)],
    ("uint64, large", t.uint64, [2**64 - 1, 0, None]),
    ("float16", t.float16, [0.5, None, float("inf"), 65504.0, -0.0]),
    ("decimal32", t.Decimal(9, 2, 32), [D("-1.25"), None, D("9999999.99")]),
    ("decimal64", t.Decimal(18, 0, 64), [D(10**18 - 1), None, D(1 - 10**18)]),
    ("decimal256", t.Decimal(38, 3, 256), [D("-1.250"), None, D(10**34)]),
    ("decimal256, wide", t.Decimal(50, 1, 256), [D("-1.5"), None, D(10**48)]),
    ("decimal of a negative scale", t.Decimal(5, -2), [D("12300"), None]),
    ("decimal of only a fraction", t.Decimal(2, 4), [D("0.0012"), None]),
    ("date64", t.date64, DAYS),
    ("time32[s]", t.Time(S, 32), [0, None, 86_399]),
    ("time32[ms]", t.Time(MS, 32), [0, None, 86_399_999]),
    ("time64[us]", t.Time(US, 64), [0, None, 1]),
    ("time64[ns]", t.Time(NS, 64), [1000, None, 0]),
    *[(f"timestamp {unit.name}", t.Timestamp(unit, zone), [i if i is None else i * (1000 if unit is NS else 1) for i in INSTANTS])
      for unit in t.TimeUnit for zone in (None, "UTC", "Europe/Berlin", "+05:30")],
    *[(f"duration {unit.name}", t.Duration(unit), [1000, None, -2000]) for unit in t.TimeUnit],
    ("year_month", t.IntervalYearMonth(), [13, None, -1]),
    ("day_time", t.IntervalDayTime(), [(1, 2), None, (-1, 0)]),
    ("month_day_nano", t.IntervalMonthDayNano(), [(1, 2, 3), None, (0, 0, -1)]),
    ("large_utf8", t.large_utf8, ["a", None, "", LONG]),
    ("utf8_view", t.utf8_view, ["a", None, "", LONG, "twelve bytes", "thirteen byte"]),
    ("utf8_view, short", t.utf8_view, ["a", None]),
    ("large_binary", t.large_binary, [b"a", None, b""]),
    ("binary_view", t.binary_view, [b"a", None, b"", LONG.encode()]),
    ("fixed_size_binary", t.FixedSizeBinary(3), [b"abc", None, b"\0\0\0"]),
    ("fixed_size_binary[0]", t.FixedSizeBinary(0), [b"", None]),
    ("large_list", t.LargeList(t.field("item", t.uint8)), [[1, None], None, []]),
    ("fixed_size_list", t.FixedSizeList(t.field("item", t.uint8), 2), [[1, None], None, [2, 3]]),
    ("fixed_size_list, no null", t.FixedSizeList(t.field("item", t.int32), 2), [[1, None], [2, 3]]),
    ("list_view", t.ListView(t.field("item", t.utf8_view)), [["a", LONG], None, []]),
    ("large_list_view", t.LargeListView(t.field("item", t.date64)), [DAYS, None, []]),
    ("dictionary", t.dictionary(t.int8, t.utf8), ["a", "b", None, "a"]),
    ("dictionary of views", t.dictionary(t.uint16, t.utf8_view), ["a", LONG, None, "a"]),
    ("dictionary of numbers", t.dictionary(t.int16, t.uint8), [1, None, 1, 200]),
    ("dictionary of floats", t.dictionary(t.int16, t.float64), [1.5, None, -0.0, 0.0]),
    ("run_end_encoded", t.run_end_encoded(t.int32, t.utf8), ["a", "a", None, None, "b"]),
    ("run_end_encoded of a width", t.run_end_encoded(t.int16, t.uint16), [1, 1, None, 2]),
    ("struct", t.struct([("a: b, c", t.uint8), ("a", t.list_(t.uint16)), ("<", t.date64)]), [{"a: b, c": 1, "a": [1], "<": DAYS[0]}, None]),
    ("map", t.map_(t.uint8, t.struct([("x", t.float16)])), [[(1, {"x": 0.5}), (2, None)], None, []]),
    ("list of dictionaries", t.list_(t.dictionary(t.int8, t.utf8)), [["a", "b"], None, ["b", None]]),
    ("uint8 of nothing", t.uint8, []),
    ("dictionary of nothing", t.dictionary(t.int8, t.utf8), []),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "values"), [case[1:] for case in TYPES], ids=[case[0] for case in TYPES])
def test_the_type_that_was_read_is_written(type_, values):
    array = from_pylist.array(values, type_)
    (column,) = written(*spark_column(array, EXACT)).columns
    assert type_ == column.type
    assert equality.difference(array, column) is None


@pytest.mark.parametrize(
    "type_", [t.Time(S, 32), t.Time(NS, 64), t.Timestamp(NS, "UTC"), t.Duration(NS)], ids=str
)  # fmt: skip
def test_counts_become_what_they_counted(type_):
    array = from_pylist.array([1, None, 4242], type_)
    read = ReadOptions(times=Times.LONG, nanoseconds=Nanoseconds.LONG)
    (column,) = written(*spark_column(array, read)).columns
    assert (type_, array.to_pylist()) == (column.type, column.to_pylist())


TIMES = [unit for unit in t.TimeUnit if unit < NS or arrow_to_spark.NANOSECOND_TIME_PRECISION == 9]
"""Those that a time of this Spark holds; of others the read says that it may have changed them."""


@pytest.mark.parametrize("unit", TIMES, ids=lambda unit: unit.name)
def test_times_come_back_from_sparks_time(unit):
    array = from_pylist.array([0, None, 1000], t.Time(unit, 32 if unit <= MS else 64))
    (column,) = written(*spark_column(array, ReadOptions(times=Times.TIME))).columns
    assert (array.type, array.to_pylist()) == (column.type, column.to_pylist())


EXTENSIONS = [
    ("arrow.uuid", t.FixedSizeBinary(16), UUIDS),
    ("arrow.bool8", t.int8, [1, None, 0]),
    ("arrow.json", t.large_utf8, ["{}", None]),
    ("arrow.json", t.utf8_view, ["{}", None, json.dumps(LONG)]),
    (
        "arrow.parquet.variant",
        t.struct([t.field("value", t.binary_view, nullable=False), t.field("metadata", t.binary_view, nullable=False)]),
        [{"value": b"\x0c\x01", "metadata": b"\x01\0\0"}, None],
    ),
    ("a.test", t.uint16, [1, None, 65535]),
]


@pytest.mark.parametrize("how", list(ExtensionTypes))
@pytest.mark.parametrize(("name", "type_", "values"), EXTENSIONS, ids=[f"{case[0]}-{case[1]}" for case in EXTENSIONS])
def test_an_extension_comes_back_with_its_storage(name, type_, values, how):
    array = from_pylist.array(values, type_)
    batch = written(*spark_column(array, ReadOptions(extension_types=how, is_exact=True), {EXTENSION: name}))
    (column,) = batch.columns
    assert name == batch.schema.fields[0].extension_name
    assert storage(type_) == storage(column.type)  # all is nullable
    assert values == column.to_pylist()


BEYOND = [
    ("uint8", s.ShortType(), t.uint8, [1, 256], pa.int16(), "uint8.*found 256"),
    ("uint8, negative", s.ShortType(), t.uint8, [-1], pa.int16(), "uint8.*found -1"),
    ("uint64", s.DecimalType(20, 0), t.uint64, [D(2**64)], pa.decimal128(20, 0), "uint64.*found 18446744073709551616"),
    ("uint64, negative", s.DecimalType(20, 0), t.uint64, [D(-1)], pa.decimal128(20, 0), "uint64.*found -1"),
    ("float16, large", s.FloatType(), t.float16, [65520.0], pa.float32(), "float16.*found 65520"),
    ("float16, fine", s.FloatType(), t.float16, [0.1], pa.float32(), "float16.*found 0.1"),
    ("digits", s.DecimalType(10, 2), t.Decimal(9, 2, 32), [D("12345678.90")], pa.decimal128(10, 2), "decimal32.*found 12345678.90"),
    ("scale", s.DecimalType(7, 0), t.Decimal(5, -2), [D(12345)], pa.decimal128(7, 0), "decimal128.*found"),
    ("text", s.StringType(), t.Decimal(50, 1, 256), ["1.25"], pa.string(), "decimal256.*found"),
    ("no number", s.StringType(), t.Decimal(50, 1, 256), ["x"], pa.string(), "decimal256.*found"),
    ("seconds", s.TimestampType(), t.Timestamp(S, "UTC"), [1_000_001], pa.timestamp("us", "UTC"), r"timestamp\[s.*found 1000001"),
    ("nanoseconds", s.TimestampNTZType(), t.Timestamp(NS), [2**62], pa.timestamp("us"), r"timestamp\[ns\].*found"),
    ("a day", s.DayTimeIntervalType(), t.Time(S, 32), [86_400_000_000], pa.duration("us"), r"time32.*found 86400000000"),
    ("before midnight", s.DayTimeIntervalType(), t.Time(US, 64), [-1], pa.duration("us"), r"time64.*found -1"),
    ("length", s.BinaryType(), t.FixedSizeBinary(3), [b"ab"], pa.binary(), "fixed_size_binary.*found a value of 2 bytes"),
    ("elements", s.ArrayType(s.LongType()), t.FixedSizeList(t.field("item", t.int64), 2), [[1]], pa.list_(pa.int64()), "found a list of 1 elements"),
    ("uuid", s.StringType(), t.FixedSizeBinary(16), ["0" * 36], pa.string(), "which is no UUID"),
    ("uuid, short", s.StringType(), t.FixedSizeBinary(16), ["0"], pa.string(), "found a value of 1 bytes"),
    ("part of an interval", arrow_to_spark._DAY_TIME_FIELDS, t.IntervalDayTime(), [{"days": 1, "milliseconds": None}],
     pa.struct([("days", pa.int32()), ("milliseconds", pa.int32())]), "whose milliseconds are null"),
    ("indices", s.ArrayType(s.LongType()), t.list_(t.dictionary(t.int8, t.int64)), [list(range(129))], pa.list_(pa.int64()), "at most 128 different values.*found 129"),
    ("runs", s.LongType(), t.run_end_encoded(t.int16, t.int64), list(range(40_000)), pa.int64(), "at most 32,767 rows.*found 40,000"),
    ("inside a list", s.ArrayType(s.ShortType()), t.list_(t.uint8), [[1], [300]], pa.list_(pa.int16()), "uint8.*found 300"),
]  # fmt: skip


@pytest.mark.parametrize("case", BEYOND, ids=[case[0] for case in BEYOND])
def test_a_value_that_the_type_does_not_hold_is_an_error(case):
    _, spark_type, note, values, type_, message = case
    schema, batches = noted(spark_type, note, values, type_)
    with pytest.raises(SchemaMismatchError, match=f"field c: .*{message}"):
        written(schema, batches)


@pytest.mark.parametrize("case", BEYOND[:-3], ids=[case[0] for case in BEYOND[:-3]])
def test_under_a_null_anything_may_lie(case):
    _, spark_type, note, values, type_, _ = case
    array = pa.array(values, type_)
    empty = pa.array([None] * len(values), type_)
    if array.buffers()[0] is None and not array.type.num_fields:
        masked = pa.Array.from_buffers(
            type_, len(array), [empty.buffers()[0], *array.buffers()[1:]], null_count=len(array)
        )
    else:
        masked = empty
    schema, _ = noted(spark_type, note, [], type_)
    (column,) = written(schema, [pa.record_batch([masked], ["c"])]).columns
    assert [None] * len(values) == column.to_pylist()


@pytest.mark.parametrize("type_", [case[1] for case in TYPES], ids=[case[0] for case in TYPES])
def test_the_note_of_a_type_is_read_back(type_):
    schema, _ = spark_column(from_pylist.array([], type_))
    usual = plan_write(schema, SparkWriteOptions()).columns.usual.fields[0].type
    note = annotation_of(type_)
    assert note == annotation_of(type_of_annotation(note, usual))


def test_batches_of_one_column_share_their_dictionary():
    """A record batch of the file joins several of Spark's: indices of 8 bits must still be enough."""
    type_ = t.dictionary(t.int8, t.utf8)
    words = [f"w{i}" for i in range(100)]
    schema, first = spark_column(from_pylist.array(words, type_))
    _, second = spark_column(from_pylist.array(words[::-1], type_))
    made = written_batches(schema, [*first, *second])
    assert [words, words[::-1]] == [batch.columns[0].to_pylist() for batch in made]
    assert 100 == made[1].columns[0].dictionary.length


def test_every_row_of_the_table_is_met_by_a_test():
    met = set()
    for _, type_, values in TYPES:
        schema, _ = spark_column(from_pylist.array(values, type_))
        usual = plan_write(schema, SparkWriteOptions()).columns.usual.fields[0].type
        pairs = [(usual, type_)]
        while pairs:
            a, b = pairs.pop()
            b = b.value if isinstance(b, t.Dictionary) else b.values.type if isinstance(b, t.RunEndEncoded) else b
            met.add((type(a), type(b)))
            if a.children and len(a.children) == len(b.children):
                pairs += [(x.type, y.type) for x, y in zip(a.children, b.children, strict=True)]
    elsewhere = {
        (t.Bool, t.Int), (t.Utf8, t.FixedSizeBinary), (t.Time, t.Time), (t.Int, t.Time), (t.Int, t.Timestamp),
        (t.Int, t.Duration), *((t.Binary, kind) for kind in (t.List, t.LargeList, t.FixedSizeList)),
    }  # fmt: skip
    assert set(restore_values.RESTORED) <= met | elsewhere
