"""Batches of a file become exactly the batches that Spark's worker expects."""

import datetime as dt
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from convert_batches import DEFAULT, LONG, MAP, NS, D, asked, batch_of, converted, ints, pieces, struct_of, wide
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import ColumnNotFoundError, SchemaMismatchError, UnsupportedError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.convert import compile_converter, plan, pyarrow_schema
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import MissingColumns, Times

MONTH = pa.month_day_nano_interval()
ENDS = pa.RunEndEncodedArray.from_arrays(pa.array([1, 3, 4], pa.int16()), pa.array(["a", None, "c"]))
SPARSE = pa.UnionArray.from_sparse(
    pa.array([0, 1, 0, 1], pa.int8()), [pa.array([1, 2, 3, 4]), pa.array(["a", "b", None, None])]
)
DENSE = pa.UnionArray.from_dense(
    pa.array([0, 1, 0, 1], pa.int8()), pa.array([1, 0, 0, 1], pa.int32()), [pa.array([1, 2]), pa.array(["a", None])]
)
DAYS = ints(t.IntervalDayTime(), (1, -2), (0, 0), nulls=[1], dtype=np.dtype([("d", "i4"), ("m", "i4")]))
BIG = 10**37
VALUES = {
    "null": (pa.nulls(2), [None, None]),
    "bool": (pa.array([True, None, False]), [True, None, False]),
    "int64": (pa.array([1, None, -3]), [1, None, -3]),
    "uint8": (pa.array([255, None], pa.uint8()), [255, None]),
    "uint16": (pa.array([65535, None], pa.uint16()), [65535, None]),
    "uint32": (pa.array([2**32 - 1, None], pa.uint32()), [2**32 - 1, None]),
    "uint64": (pa.array([2**64 - 1, None, 0, 2**63], pa.uint64()), [D(2**64 - 1), None, D(0), D(2**63)]),
    "float16": (pa.array([1.5, None, -math.inf], pa.float16()), [1.5, None, -math.inf]),
    "float32": (pa.array([1.5, None], pa.float32()), [1.5, None]),
    "decimal32": (wide(t.Decimal(5, 2, 32), -12345, 0, 99999, nulls=[1]), [D("-123.45"), None, D("999.99")]),
    "decimal64": (wide(t.Decimal(18, 2, 64), 10**18 - 1, -1), [D(10**18 - 1) / 100, D("-0.01")]),
    "decimal128": (pa.array([D("-1.50"), None, D("9.99")], pa.decimal128(3, 2)), [D("-1.50"), None, D("9.99")]),
    "decimal128 of 38 digits": (wide(t.Decimal(38, 0), 10 * BIG - 1, 1 - 10 * BIG), [D(10 * BIG - 1), D(1 - 10 * BIG)]),
    "decimal of negative scale": (wide(t.Decimal(2, -3), 12, -99), [D(12000), D(-99000)]),
    "decimal32 of negative scale": (wide(t.Decimal(2, -3, 32), 12, 0, nulls=[1]), [D(12000), None]),
    "decimal of scale above precision": (wide(t.Decimal(2, 5), -12), [D("-0.00012")]),
    "decimal256": (wide(t.Decimal(38, 0, 256), BIG, -BIG, 0, nulls=[2]), [D(BIG), D(-BIG), None]),
    "decimal256 of 76 digits": (wide(t.Decimal(76, 2, 256), 10**76 - 1, -1, 0, nulls=[2]), ["9" * 74 + ".99", "-0.01", None]),
    "decimal256 of negative scale": (wide(t.Decimal(50, -2, 256), -7, 0), ["-700", "0"]),
    "date32": (pa.array([dt.date(1969, 1, 1), None], pa.date32()), [dt.date(1969, 1, 1), None]),
    "date64": (ints(t.date64, -1, 1, 86_400_001, 0, nulls=[3]), [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(1970, 1, 2), None]),
    "time32[s]": (pa.array([1, None], pa.time32("s")), [dt.timedelta(seconds=1), None]),
    "time32[ms]": (pa.array([1], pa.time32("ms")), [dt.timedelta(milliseconds=1)]),
    "time64[us]": (pa.array([1], pa.time64("us")), [dt.timedelta(microseconds=1)]),
    "time64[ns]": (pa.array([1999], pa.time64("ns")), [dt.timedelta(microseconds=1)]),
    "timestamp[s]": (pa.array([-1, None], pa.timestamp("s")), [dt.datetime(1969, 12, 31, 23, 59, 59), None]),
    "timestamp[ms]": (pa.array([1], pa.timestamp("ms")), [dt.datetime(1970, 1, 1, microsecond=1000)]),
    "timestamp[us]": (pa.array([1], pa.timestamp("us")), [dt.datetime(1970, 1, 1, microsecond=1)]),
    "timestamp[ns]": (pa.array([-1, 1999], pa.timestamp("ns")), [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(1970, 1, 1, microsecond=1)]),
    "timestamp with zone": (pa.array([0], pa.timestamp("ns", "Asia/Tokyo")), [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)]),
    "duration[s]": (pa.array([-1, None], pa.duration("s")), [dt.timedelta(seconds=-1), None]),
    "duration[ns]": (ints(t.Duration(NS), -1, 1000), [dt.timedelta(microseconds=-1), dt.timedelta(microseconds=1)]),
    "year_month": (ints(t.IntervalYearMonth(), 14, 0, nulls=[1], dtype=np.int32), [14, None]),
    "day_time": (DAYS, [{"days": 1, "milliseconds": -2}, None]),
    "month_day_nano": (pa.array([(1, -2, 3), None], MONTH), [{"months": 1, "days": -2, "nanoseconds": 3}, None]),
    "fixed size binary": (pa.array([b"ab", None, b"cd"], pa.binary(2)), [b"ab", None, b"cd"]),
    "fixed size binary of 0": (pa.array([b"", None], pa.binary(0)), [b"", None]),
    "binary": (pa.array([b"ab", None, b""]), [b"ab", None, b""]),
    "large binary": (pa.array([b"ab", None, b""], pa.large_binary()), [b"ab", None, b""]),
    "binary view": (pa.array([b"ab", None, b"x" * 20], pa.binary_view()), [b"ab", None, b"x" * 20]),
    "utf8": (pa.array(["ä", None, ""]), ["ä", None, ""]),
    "large utf8": (pa.array(["ä", None, ""], pa.large_string()), ["ä", None, ""]),
    "utf8 view": (pa.array(["ä", None, LONG], pa.string_view()), ["ä", None, LONG]),
    "list": (pa.array([[1, None], None, []], pa.list_(pa.uint8())), [[1, None], None, []]),
    "large list": (pa.array([["a", None], None, []], pa.large_list(pa.large_string())), [["a", None], None, []]),
    "list view": (pa.array([["a", None], None, []], pa.list_view(pa.string())), [["a", None], None, []]),
    "list view out of order": (pa.ListViewArray.from_arrays(pa.array([2, 0, 1], pa.int32()), pa.array([1, 2, 2], pa.int32()), pa.array([1, 2, 3])), [[3], [1, 2], [2, 3]]),
    "large list view": (pa.array([[1, None], None, []], pa.large_list_view(pa.int8())), [[1, None], None, []]),
    "fixed size list": (pa.array([[1, 2], None, [None, 3]], pa.list_(pa.uint8(), 2)), [[1, 2], None, [None, 3]]),
    "fixed size list of 0": (pa.array([[], None], pa.list_(pa.int8(), 0)), [[], None]),
    "struct": (pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}]), [{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
    "struct without fields": (pa.array([{}, None], pa.struct([])), [{}, None]),
    "map": (pa.array([[("a", 1), ("b", None)], None, []], MAP), [[("a", 1), ("b", None)], None, []]),
    "sparse union": (SPARSE, [{"0": 1, "1": None}, {"0": None, "1": "b"}, {"0": 3, "1": None}, {"0": None, "1": None}]),
    "dense union": (DENSE, [{"0": 2, "1": None}, {"0": None, "1": "a"}, {"0": 1, "1": None}, {"0": None, "1": None}]),
    "dictionary": (pa.array(["a", None, "b", "a"]).dictionary_encode(), ["a", None, "b", "a"]),
    "dictionary of uint64": (pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.uint8()), pa.array([7, None], pa.uint64())), [None, D(7), None]),
    "run end encoded": (ENDS, ["a", None, None, "c"]),
    "list of structs of dictionaries": (
        pa.array([[{"k": "x"}, None], None, [{"k": None}]], pa.list_(pa.struct([("k", pa.dictionary(pa.int8(), pa.string()))]))),
        [[{"k": "x"}, None], None, [{"k": None}]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", VALUES)
def test_values_of_a_type(case):
    array, expected = VALUES[case]
    assert expected == converted(array).to_pylist()


@pytest.mark.parametrize("case", VALUES)
@pytest.mark.parametrize("part", [(1, None), (0, 1), (1, 0)], ids=str)
def test_values_of_a_slice(case, part):
    """A slice shares its buffers with what it was cut from."""
    array, expected = VALUES[case]
    ours = bridge.from_pyarrow(array) if isinstance(array, pa.Array) else array
    start, length = part
    start = min(start, ours.length)
    end = ours.length if length is None else min(start + length, ours.length)
    assert expected[start:end] == converted(ours.slice(start, end - start)).to_pylist()


@pytest.mark.parametrize("case", VALUES)
def test_values_below_a_struct_and_a_list(case):
    """Every type works at any depth: here, in a list of structs whose first list is null and not empty."""
    array, expected = VALUES[case]
    child = bridge.from_pyarrow(array) if isinstance(array, pa.Array) else array
    inner = Array(t.struct([t.Field("x", child.type)]), child.length, 0, (None,), (child,))
    offsets = np.array([0, 1, child.length], np.int32)
    validity = np.packbits([0, 1], bitorder="little").data
    lists = Array(t.list_(inner.type), 2, 1, (validity, offsets.view(np.uint8).data), (inner,))
    assert [None, [{"x": value} for value in expected[1:]]] == converted(lists).to_pylist()


WIDER = {
    "integer": (pa.array([1, None], pa.int8()), s.LongType(), [1, None]),
    "unsigned": (pa.array([200, None], pa.uint8()), s.IntegerType(), [200, None]),
    "float": (pa.array([1.5, None], pa.float32()), s.DoubleType(), [1.5, None]),
    "half": (pa.array([1.5, None], pa.float16()), s.DoubleType(), [1.5, None]),
    "decimal": (wide(t.Decimal(5, 2, 64), 12345, 0, nulls=[1]), s.DecimalType(20, 4), [D("123.4500"), None]),
    "date": (pa.array([dt.date(1969, 12, 31), None]), s.TimestampNTZType(), [dt.datetime(1969, 12, 31), None]),
    "elements": (pa.array([[1], None], pa.list_(pa.int8())), s.ArrayType(s.ShortType()), [[1], None]),
    "a dictionary's values": (pa.array([1, None], pa.int8()).dictionary_encode(), s.IntegerType(), [1, None]),
    "a field of a struct, the others left out": (pa.array([{"a": 1, "B": 2}, None]), struct_of(("b", s.LongType())), [{"b": 2}, None]),
    "fields of an interval": (pa.array([(1, -2, 3), None], MONTH), struct_of(("nanoseconds", s.LongType()), ("months", s.IntegerType())), [{"nanoseconds": 3, "months": 1}, None]),
    "a field of days and milliseconds": (DAYS, struct_of(("milliseconds", s.IntegerType())), [{"milliseconds": -2}, None]),
    "a union's children": (DENSE, struct_of(("1", s.StringType())), [{"1": None}, {"1": "a"}, {"1": None}, {"1": None}]),
    "values of a map": (pa.array([[("a", 1)], None], MAP), s.MapType(s.StringType(), s.LongType()), [[("a", 1)], None]),
    "a collation": (pa.array(["a", None]), s.StringType("UTF8_LCASE"), ["a", None]),
}  # fmt: skip


@pytest.mark.parametrize("case", WIDER)
def test_a_schema_may_ask_for_a_wider_type(case):
    array, type_, expected = WIDER[case]
    assert expected == converted(array, asked=asked(type_)).to_pylist()


MISMATCHES = {
    "narrower": (pa.array([1]), s.IntegerType(), DEFAULT, "field c: expected int, found int64, which is bigint in Spark and does not widen to it"),
    "nested": (pa.array([[1]]), s.ArrayType(s.ByteType()), DEFAULT, "field c[]: expected tinyint, found int64"),
    "not nested": (pa.array([[1]]), s.LongType(), DEFAULT, "expected bigint, found list<item: int64>, which is array<bigint> in Spark"),
    "time": (pa.array([1], pa.time64("us")), s.TimeType(6), ReadOptions(times=Times.INTERVAL), "does not widen to it; read it with times=time"),
    "nanoseconds": (pa.array([1], pa.timestamp("ns")), s.LongType(), DEFAULT, "; read it with nanoseconds=long"),
    "no zone": (pa.array([1], pa.timestamp("us")), s.TimestampType(), DEFAULT, "is timestamp_ntz in Spark"),
    "fields of the same name": (pa.StructArray.from_arrays([pa.array([1]), pa.array([1])], ["x", "x"]), s.LongType(), DEFAULT, "is not readable (field c: the struct has fields of the same name"),
}  # fmt: skip
STRICT = ReadOptions(missing_columns=MissingColumns.ERROR)


def whole(type_):
    return s.StructType([asked(type_)])


PAIR = t.struct([("x", t.int32), ("y", t.utf8)])
ABSENT = {
    "a column": (t.int32, [1], s.StructType([s.StructField("b", s.StringType())]), [{"b": None}]),
    "a column beside one": (
        t.int32, [1, 2], s.StructType([s.StructField("b", s.DateType()), s.StructField("c", s.LongType())]),
        [{"b": None, "c": 1}, {"b": None, "c": 2}],
    ),
    "a field of a struct": (
        PAIR, [{"x": 1, "y": "z"}, None],
        whole(s.StructType([s.StructField("z", s.ArrayType(s.LongType())), s.StructField("X", s.LongType())])),
        [{"c": {"z": None, "X": 1}}, {"c": None}],
    ),
    "a field of a struct in a list": (
        t.list_(PAIR), [[{"x": 1, "y": "z"}], []],
        whole(s.ArrayType(s.StructType([s.StructField("w", s.BinaryType())]))),
        [{"c": [{"w": None}]}, {"c": []}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ABSENT)
@pytest.mark.parametrize(
    "options",
    [DEFAULT, ReadOptions(merge_schema=True), replace(STRICT, merge_schema=True)],
    ids=["default", "merged", "merged, strict"],
)
def test_what_a_file_does_not_have_is_null(case, options):
    type_, values, schema, expected = ABSENT[case]
    batch = batch_of(from_pylist.array(values, type_))
    (found,) = compile_converter(batch.schema, schema, options).convert(batch)
    assert expected == found.to_pylist()
    assert found.schema == pyarrow_schema(schema)
    with pytest.raises(ColumnNotFoundError):
        compile_converter(batch.schema, schema, STRICT)


def test_what_is_absent_and_not_null_is_an_error():
    batch = batch_of(from_pylist.array([1], t.int32))
    schema = s.StructType([s.StructField("b", s.StringType(), nullable=False)])
    with pytest.raises(SchemaMismatchError, match="expected no nulls"):
        list(compile_converter(batch.schema, schema, DEFAULT).convert(batch))


@pytest.mark.parametrize("type_", [s.LongType(), s.StringType(), s.ArrayType(s.DateType()), s.StructType([])], ids=str)
def test_nothing_but_nulls_is_a_column_of_any_type(type_):
    assert [None, None] == converted(from_pylist.array([None, None], t.null), asked=asked(type_)).to_pylist()


@pytest.mark.parametrize("case", MISMATCHES)
def test_another_type_is_an_error_that_names_column_and_types(case):
    array, type_, options, expected = MISMATCHES[case]
    with pytest.raises(SchemaMismatchError) as caught:
        compile_converter(batch_of(array).schema, s.StructType([asked(type_)]), options)
    assert expected in str(caught.value)


@pytest.mark.parametrize("type_", [s.YearMonthIntervalType(), s.CharType(3)])
def test_a_type_that_spark_does_not_take_is_a_named_error(type_):
    with pytest.raises(UnsupportedError, match="field c: Spark takes no columns of type"):
        compile_converter(batch_of(pa.array([1])).schema, s.StructType([asked(type_)]), DEFAULT)


NAMES = Schema.of([t.field("a", t.int8), t.field("B", t.int8), t.field("x", t.int8), t.field("X", t.int8)])
FOUND = {"a": 0, "A": 0, "b": 1, "x": 2, "X": 3}


@pytest.mark.parametrize("name", FOUND)
def test_a_column_is_found_by_name_in_any_case(name):
    made = compile_converter(NAMES, struct_of((name, s.ByteType())), DEFAULT)
    assert ((FOUND[name],), [name]) == (made.positions, made.schema.names)


def test_a_column_that_is_missing_is_named():
    with pytest.raises(ColumnNotFoundError, match=r"there is no column 'z'; the columns are 'a', 'B', 'x', 'X'"):
        compile_converter(NAMES, struct_of(("z", s.ByteType())), STRICT)
    structs = Schema.of([t.field("s", NAMES_STRUCT)])
    with pytest.raises(ColumnNotFoundError, match=r"there is no field 'z' in s; the fields are 'a', 'B'"):
        compile_converter(structs, struct_of(("s", struct_of(("z", s.ByteType())))), STRICT)


NAMES_STRUCT = t.Struct(NAMES.fields)


def test_a_name_that_may_stand_for_two_columns_is_an_error():
    schema = Schema.of([t.field("ab", t.int8), t.field("aB", t.int8)])
    with pytest.raises(SchemaMismatchError, match="the name 'AB' may stand for #0 'ab', #1 'aB'"):
        compile_converter(schema, struct_of(("AB", s.ByteType())), DEFAULT)


NOT_NULL = {
    "a column": (pa.array([1, None, None]), asked(s.LongType(), nullable=False), "field c: expected no nulls (the schema says NOT NULL), found 2 in 3 slots"),
    "elements": (pa.array([[1], None, [None]]), asked(s.ArrayType(s.LongType(), containsNull=False)), "field c[]: expected no nulls"),
    "a field": (pa.array([{"a": 1}, None, {"a": None}]), asked(s.StructType([s.StructField("a", s.LongType(), nullable=False)])), "field c.a: expected no nulls"),
    "values of a map": (pa.array([[("a", None)]], MAP), asked(s.MapType(s.StringType(), s.ByteType(), valueContainsNull=False)), "field c[].value: expected no nulls"),
    "a dictionary": (pa.array(["a", None]).dictionary_encode(), asked(s.StringType(), nullable=False), "found 1 in 2"),
    "a union's child": (DENSE, asked(s.StructType([s.StructField("0", s.LongType(), nullable=False)])), "field c.0: expected no nulls"),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_NULL)
def test_a_null_where_the_schema_says_not_null_is_an_error(case):
    array, field, expected = NOT_NULL[case]
    with pytest.raises(SchemaMismatchError) as caught:
        converted(array, asked=field)
    assert expected in str(caught.value)


NO_NULLS = {
    "a column": (pa.array([1, 2]), asked(s.LongType(), nullable=False)),
    "elements": (pa.array([[1], [2, 3], []]), asked(s.ArrayType(s.LongType(), containsNull=False), nullable=False)),
    "elements below a null": (pa.array([[1], None]), asked(s.ArrayType(s.LongType(), containsNull=False))),
    "a field below a null": (pa.array([{"a": 1}, None]), asked(s.StructType([s.StructField("a", s.LongType(), nullable=False)]))),
}  # fmt: skip


@pytest.mark.parametrize("case", NO_NULLS)
def test_not_null_is_given_where_there_is_no_null(case):
    """Spark compares nullability at every depth with what it was promised: `converted` does the same."""
    array, field = NO_NULLS[case]
    assert array.to_pylist() == converted(array, asked=field).to_pylist()


def test_batches_are_cut_to_the_most_rows(monkeypatch):
    monkeypatch.setattr(plan, "MAX_ROWS", 4)
    made = pieces(pa.array(range(10)))
    assert [4, 4, 2] == [piece.num_rows for piece in made]
    assert list(range(10)) == [value for piece in made for value in piece.column(0).to_pylist()]


CUT = {
    "utf8": pa.array(["x" * 100] * 40),
    "large utf8": pa.array(["x" * 100] * 40, pa.large_string()),
    "dictionary": pa.array(["x" * 100] * 40).dictionary_encode(),
    "run end encoded": pa.RunEndEncodedArray.from_arrays(pa.array([40], pa.int32()), pa.array(["x" * 100])),
    "list": pa.array([["x" * 50] * 2] * 40, pa.large_list(pa.large_string())),
    "one large row": pa.array(["x" * 4000, "y"]),
}


@pytest.mark.parametrize("case", CUT)
def test_batches_are_cut_to_the_bytes_that_spark_takes_well(case, monkeypatch):
    """By the bytes that come out: a dictionary or a run is small in the file only."""
    monkeypatch.setattr(plan, "PIECE_NBYTES", 1000)
    made = pieces(CUT[case])
    assert CUT[case].to_pylist() == [value for piece in made for value in piece.column(0).to_pylist()]
    assert len(made) > 1
    assert all(piece.nbytes <= 1100 or piece.num_rows == 1 for piece in made)


def test_rows_without_columns_are_counted(monkeypatch):
    """An empty projection keeps the row count."""
    batch = batch_of(pa.array([1, 2, 3]))
    monkeypatch.setattr(plan, "MAX_ROWS", 2)
    made = list(compile_converter(batch.schema, s.StructType([]), DEFAULT).convert(batch))
    assert [(2, 0), (1, 0)] == [(piece.num_rows, piece.num_columns) for piece in made]


def test_no_rows_give_one_batch_without_rows():
    assert [0] == [piece.num_rows for piece in pieces(pa.array([], pa.string()))]
