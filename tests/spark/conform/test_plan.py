"""Batches of a file become exactly the batches that Spark's worker expects."""

import datetime as dt
import decimal
import inspect
import math

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as s
from pyspark.sql.pandas.types import to_arrow_schema

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.kernels.measure import measure
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import (
    ColumnNotFoundError,
    InvalidBodyError,
    LimitError,
    SchemaMismatchError,
    UnsupportedError,
)
from spark_arrow_ipc.ipc.constants import Validation
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.conform import compile_conform, expected_arrow_schema, plan
from spark_arrow_ipc.spark.conform.bounds import compile_bound
from spark_arrow_ipc.spark.options.enums import ExtensionTypes, MapKeys, Nanoseconds, Times
from spark_arrow_ipc.spark.options.options import ReadOptions
from spark_arrow_ipc.spark.types import arrow_to_spark

D = decimal.Decimal
DEFAULT = ReadOptions()
S, MS, US, NS = t.TimeUnit
DAY = 86_400
LONG = "a text that no view holds inline"


def raw(type_, values, *, buffers=None, nulls=()):
    """Return an array of ours whose DATA buffer holds `values`, a numpy array; `nulls` are the null slots."""
    bits = np.ones(len(values), bool)
    bits[list(nulls)] = False
    validity = np.packbits(bits, bitorder="little").data if nulls else None
    return Array(
        type_, len(values), len(nulls), (validity, np.ascontiguousarray(values).view(np.uint8).reshape(-1).data)
    )


def ints(type_, *values, nulls=(), dtype=np.int64):
    return raw(type_, np.array(list(values), dtype), nulls=nulls)


def wide(type_, *values, nulls=()):
    """Return decimals of unscaled Python integers."""
    width = type_.bit_width // 8
    octets = b"".join(value.to_bytes(width, "little", signed=True) for value in values)
    return raw(type_, np.frombuffer(octets, np.dtype((np.void, width))), nulls=nulls)


def batch_of(array, metadata=None):
    array = bridge.from_pyarrow(array) if isinstance(array, pa.Array) else array
    field = t.field("c", array.type, custom_metadata=metadata)
    return RecordBatch(Schema.of([field]), (array,), array.length)


def conformed(array, options=DEFAULT, *, asked=None, metadata=None):
    """Return the column of one batch, and check that it is what Spark expects of the schema that it was promised."""
    batch = batch_of(array, metadata)
    promised = arrow_to_spark.spark_schema(batch.schema, options) if asked is None else s.StructType([asked])
    (made,) = compile_conform(batch.schema, promised, options).conform(batch)
    made.validate(full=True)
    assert is_expected_by_pyspark(made.schema, promised)
    return made.column(0)


# PySpark 4.1 has no such parameter, gives UTC by default, and leaves the metadata of fields out.
UTC = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
NOTED = s.StructType([s.StructField("c", s.LongType(), metadata={"m": 1})])
HAS_METADATA = to_arrow_schema(NOTED, **UTC).field(0).metadata is not None


def is_expected_by_pyspark(found, spark_schema):
    return to_arrow_schema(spark_schema, **UTC).equals(found, check_metadata=HAS_METADATA)


def asked(type_, *, nullable=True):
    return s.StructField("c", type_, nullable)


MONTH = pa.month_day_nano_interval()
MAP = pa.map_(pa.string(), pa.int8())
ENDS = pa.RunEndEncodedArray.from_arrays(pa.array([1, 3, 4], pa.int16()), pa.array(["a", None, "c"]))
SPARSE = pa.UnionArray.from_sparse(
    pa.array([0, 1, 0, 1], pa.int8()), [pa.array([1, 2, 3, 4]), pa.array(["a", "b", None, None])]
)
DENSE = pa.UnionArray.from_dense(
    pa.array([0, 1, 0, 1], pa.int8()), pa.array([1, 0, 0, 1], pa.int32()), [pa.array([1, 2]), pa.array(["a", None])]
)
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
    "day_time": (ints(t.IntervalDayTime(), (1, -2), (0, 0), nulls=[1], dtype=np.dtype([("d", "i4"), ("m", "i4")])), [{"days": 1, "milliseconds": -2}, None]),
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
    assert expected == conformed(array).to_pylist()


@pytest.mark.parametrize("case", VALUES)
@pytest.mark.parametrize("part", [(1, None), (0, 1), (1, 0)], ids=str)
def test_values_of_a_slice(case, part):
    """A slice shares its buffers with what it was cut from."""
    array, expected = VALUES[case]
    ours = bridge.from_pyarrow(array) if isinstance(array, pa.Array) else array
    start, length = part
    start = min(start, ours.length)
    end = ours.length if length is None else min(start + length, ours.length)
    assert expected[start:end] == conformed(ours.slice(start, end - start)).to_pylist()


@pytest.mark.parametrize("case", VALUES)
def test_values_below_a_struct_and_a_list(case):
    """Every type works at any depth: here, in a list of structs whose first list is null and not empty."""
    array, expected = VALUES[case]
    child = bridge.from_pyarrow(array) if isinstance(array, pa.Array) else array
    inner = Array(t.struct([t.Field("x", child.type)]), child.length, 0, (None,), (child,))
    offsets = np.array([0, 1, child.length], np.int32)
    validity = np.packbits([0, 1], bitorder="little").data
    lists = Array(t.list_(inner.type), 2, 1, (validity, offsets.view(np.uint8).data), (inner,))
    assert [None, [{"x": value} for value in expected[1:]]] == conformed(lists).to_pylist()


SHARED = {
    "bool": pa.array([True, None]),
    "int8": pa.array([1, None], pa.int8()),
    "float64": pa.array([1.0, None]),
    "utf8": pa.array(["a", None]),
    "date32": pa.array([1, None], pa.date32()),
    "decimal128": pa.array([D(1), None], pa.decimal128(5, 0)),
    "timestamp[us]": pa.array([1, None], pa.timestamp("us", "Asia/Tokyo")),
    "duration[us]": pa.array([1, None], pa.duration("us")),
    "time64[us]": pa.array([1, None], pa.time64("us")),
    "list": pa.array([["a"], None]),
    "struct": pa.array([{"a": 1}, None]),
    "map": pa.array([[("a", 1)], None], MAP),
}


@pytest.mark.parametrize("case", SHARED)
def test_memory_that_fits_is_shared(case):
    """Other names and other nullability are labels, not values."""
    addresses = {b.address for b in SHARED[case].buffers() if b is not None}
    assert addresses == {b.address for b in conformed(SHARED[case]).buffers() if b is not None}


def option(**given):
    return ReadOptions(**given)


BY_OPTIONS = {
    "time s as time": (pa.array([1, None], pa.time32("s")), option(times=Times.TIME), [dt.time(0, 0, 1), None]),
    "time us as time": (pa.array([1], pa.time64("us")), option(times=Times.TIME), [dt.time(0, 0, 0, 1)]),
    "time as long": (pa.array([1, None], pa.time32("ms")), option(times=Times.LONG), [1, None]),
    "time ns as long": (pa.array([1999], pa.time64("ns")), option(nanoseconds=Nanoseconds.LONG), [1999]),
    "timestamp ns as long": (pa.array([-1999, None], pa.timestamp("ns")), option(nanoseconds=Nanoseconds.LONG), [-1999, None]),
    "timestamp ns that is whole": (pa.array([-1000, None], pa.timestamp("ns")), option(nanoseconds=Nanoseconds.ERROR), [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), None]),
    "duration ns as long": (pa.array([1], pa.duration("ns")), option(nanoseconds=Nanoseconds.LONG), [1]),
    "last key wins": (
        pa.array([[("a", 1), ("b", 2), ("a", 3)], None, [("a", 4)]], MAP), option(map_keys=MapKeys.LAST_WINS), [[("a", 3), ("b", 2)], None, [("a", 4)]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BY_OPTIONS)
def test_values_by_options(case):
    array, options, expected = BY_OPTIONS[case]
    made = conformed(array, options)
    assert expected == made.to_pylist()


def test_nanoseconds_of_a_time():
    """TIME holds nanoseconds from Spark 4.3 on, microseconds before."""
    made = conformed(pa.array([1999], pa.time64("ns")), option(times=Times.TIME))
    assert [1999 if arrow_to_spark._NANOSECOND_TIME_PRECISION == 9 else 1000] == made.view(pa.int64()).to_pylist()


VARIANT = pa.array(
    [{"metadata": b"\1\0\0", "value": b"\0"}, None],
    pa.struct([("metadata", pa.binary_view()), ("value", pa.large_binary())]),
)
EXTENSIONS = {
    "uuid": ("arrow.uuid", pa.array([bytes(range(16)), None], pa.binary(16)), ["00010203-0405-0607-0809-0a0b0c0d0e0f", None]),
    "uuid in a dictionary": ("arrow.uuid", pa.array([b"\xff" * 16, None], pa.binary(16)).dictionary_encode(), ["ffffffff-ffff-ffff-ffff-ffffffffffff", None]),
    "bool8": ("arrow.bool8", pa.array([0, 1, -5, None], pa.int8()), [False, True, True, None]),
    "json": ("arrow.json", pa.array(["{}", None], pa.string_view()), ["{}", None]),
    "json, large": ("arrow.json", pa.array(["{}", None], pa.large_string()), ["{}", None]),
    "variant": ("arrow.parquet.variant", VARIANT, [{"value": b"\0", "metadata": b"\1\0\0"}, None]),
    "unknown": ("my.own", pa.array([1, None], pa.uint8()), [1, None]),
}  # fmt: skip


@pytest.mark.parametrize("case", EXTENSIONS)
def test_values_of_an_extension_type(case):
    name, array, expected = EXTENSIONS[case]
    made = conformed(array, metadata={"ARROW:extension:name": name})
    assert expected == made.to_pylist()


def test_extension_types_stay_storage_when_asked():
    options = option(extension_types=ExtensionTypes.STORAGE)
    made = conformed(pa.array([1], pa.int8()), options, metadata={"ARROW:extension:name": "arrow.bool8"})
    assert [1] == made.to_pylist()


def struct_of(*fields):
    return s.StructType([s.StructField(name, type_) for name, type_ in fields])


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
    "a union's children": (DENSE, struct_of(("1", s.StringType())), [{"1": None}, {"1": "a"}, {"1": None}, {"1": None}]),
    "values of a map": (pa.array([[("a", 1)], None], MAP), s.MapType(s.StringType(), s.LongType()), [[("a", 1)], None]),
    "a collation": (pa.array(["a", None]), s.StringType("UTF8_LCASE"), ["a", None]),
}  # fmt: skip


@pytest.mark.parametrize("case", WIDER)
def test_a_schema_may_ask_for_a_wider_type(case):
    array, type_, expected = WIDER[case]
    assert expected == conformed(array, asked=asked(type_)).to_pylist()


MISMATCHES = {
    "narrower": (pa.array([1]), s.IntegerType(), DEFAULT, "field c: the schema asks for int, and the file's int64 is bigint in Spark, which does not widen to it"),
    "nested": (pa.array([[1]]), s.ArrayType(s.ByteType()), DEFAULT, "field c[]: the schema asks for tinyint"),
    "not nested": (pa.array([[1]]), s.LongType(), DEFAULT, "the schema asks for bigint, and the file's list<item: int64> is array<bigint>"),
    "time": (pa.array([1], pa.time64("us")), s.TimeType(6), DEFAULT, "does not widen to it; read it with times=time"),
    "nanoseconds": (pa.array([1], pa.timestamp("ns")), s.LongType(), DEFAULT, "; read it with nanoseconds=long"),
    "no zone": (pa.array([1], pa.timestamp("us")), s.TimestampType(), DEFAULT, "is timestamp_ntz in Spark"),
    "fields of the same name": (pa.StructArray.from_arrays([pa.array([1]), pa.array([1])], ["x", "x"]), s.LongType(), DEFAULT, "is not readable (field c: the struct has fields of the same name"),
}  # fmt: skip


MERGED = ReadOptions(merge_schema=True)


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
def test_what_a_file_does_not_have_is_null_where_schemas_are_merged(case):
    type_, values, schema, expected = ABSENT[case]
    batch = batch_of(from_pylist.array(values, type_))
    (found,) = compile_conform(batch.schema, schema, MERGED).conform(batch)
    assert expected == found.to_pylist()
    assert found.schema == expected_arrow_schema(schema)
    with pytest.raises(ColumnNotFoundError):
        compile_conform(batch.schema, schema, DEFAULT)


def test_what_is_absent_and_not_null_is_an_error():
    batch = batch_of(from_pylist.array([1], t.int32))
    schema = s.StructType([s.StructField("b", s.StringType(), nullable=False)])
    with pytest.raises(SchemaMismatchError, match="expected no nulls"):
        list(compile_conform(batch.schema, schema, MERGED).conform(batch))


@pytest.mark.parametrize("type_", [s.LongType(), s.StringType(), s.ArrayType(s.DateType()), s.StructType([])], ids=str)
def test_nothing_but_nulls_is_a_column_of_any_type(type_):
    assert [None, None] == conformed(from_pylist.array([None, None], t.null), asked=asked(type_)).to_pylist()


@pytest.mark.parametrize("case", MISMATCHES)
def test_another_type_is_an_error_that_names_column_and_types(case):
    array, type_, options, expected = MISMATCHES[case]
    with pytest.raises(SchemaMismatchError) as caught:
        compile_conform(batch_of(array).schema, s.StructType([asked(type_)]), options)
    assert expected in str(caught.value)


@pytest.mark.parametrize("type_", [s.YearMonthIntervalType(), s.CharType(3)])
def test_a_type_that_spark_does_not_take_is_a_named_error(type_):
    with pytest.raises(UnsupportedError, match="field c: Spark takes no columns of type"):
        compile_conform(batch_of(pa.array([1])).schema, s.StructType([asked(type_)]), DEFAULT)


NAMES = Schema.of([t.field("a", t.int8), t.field("B", t.int8), t.field("x", t.int8), t.field("X", t.int8)])
FOUND = {"a": 0, "A": 0, "b": 1, "x": 2, "X": 3}


@pytest.mark.parametrize("name", FOUND)
def test_a_column_is_found_by_name_in_any_case(name):
    made = compile_conform(NAMES, struct_of((name, s.ByteType())), DEFAULT)
    assert ((FOUND[name],), [name]) == (made.positions, made.schema.names)


def test_a_column_that_is_missing_is_named():
    with pytest.raises(
        ColumnNotFoundError, match=r"field z: there is no column 'z' in the file; it has 'a', 'B', 'x', 'X'"
    ):
        compile_conform(NAMES, struct_of(("z", s.ByteType())), DEFAULT)
    structs = Schema.of([t.field("s", NAMES_STRUCT)])
    with pytest.raises(ColumnNotFoundError, match=r"field s.z: there is no field 'z'"):
        compile_conform(structs, struct_of(("s", struct_of(("z", s.ByteType())))), DEFAULT)


NAMES_STRUCT = t.Struct(NAMES.fields)


def test_a_name_that_may_stand_for_two_columns_is_an_error():
    schema = Schema.of([t.field("ab", t.int8), t.field("aB", t.int8)])
    with pytest.raises(SchemaMismatchError, match="the name 'AB' may stand for #0 'ab', #1 'aB'"):
        compile_conform(schema, struct_of(("AB", s.ByteType())), DEFAULT)


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
        conformed(array, asked=field)
    assert expected in str(caught.value)


NO_NULLS = {
    "a column": (pa.array([1, 2]), asked(s.LongType(), nullable=False)),
    "elements": (pa.array([[1], [2, 3], []]), asked(s.ArrayType(s.LongType(), containsNull=False), nullable=False)),
    "elements below a null": (pa.array([[1], None]), asked(s.ArrayType(s.LongType(), containsNull=False))),
    "a field below a null": (pa.array([{"a": 1}, None]), asked(s.StructType([s.StructField("a", s.LongType(), nullable=False)]))),
}  # fmt: skip


@pytest.mark.parametrize("case", NO_NULLS)
def test_not_null_is_given_where_there_is_no_null(case):
    """Spark compares nullability at every depth with what it was promised: `conformed` does the same."""
    array, field = NO_NULLS[case]
    assert array.to_pylist() == conformed(array, asked=field).to_pylist()


NAN = float("nan")
DAY_NS = DAY * 10**9
VALUE_ERRORS = {
    "digits of decimal32": (wide(t.Decimal(2, 0, 32), 99, 100), DEFAULT, InvalidBodyError, "field c: expected decimals of at most 2 digits (decimal32(2, 0)), found the unscaled value 100 in slot 1"),
    "digits of decimal64": (wide(t.Decimal(2, 0, 64), -100), DEFAULT, InvalidBodyError, "value -100 in slot 0"),
    "digits of decimal128": (wide(t.Decimal(20, 0), 10**20 - 1, -(10**20)), DEFAULT, InvalidBodyError, f"value {-(10**20)} in slot 1"),
    "digits of decimal128 of 38": (wide(t.Decimal(38, 0), 10**38), DEFAULT, InvalidBodyError, f"value {10**38} in slot 0"),
    "digits of decimal256": (wide(t.Decimal(5, 0, 256), 2**128), DEFAULT, InvalidBodyError, f"value {2**128} in slot 0"),
    "digits of decimal256, negative": (wide(t.Decimal(5, 0, 256), -(2**130) + 1), DEFAULT, InvalidBodyError, f"value {-(2**130) + 1} in slot 0"),
    "day": (ints(t.date64, 2**62), DEFAULT, UnsupportedError, "expected a value that Spark holds in 32 bits of days, found day"),
    "timestamp": (ints(t.Timestamp(S), 2**63 // 10**6 + 1), DEFAULT, UnsupportedError, "64 bits of microseconds, found 9223372036855 s"),
    "timestamp before": (ints(t.Timestamp(MS), 0, -(2**62)), DEFAULT, UnsupportedError, f"found {-(2**62)} ms"),
    "duration": (ints(t.Duration(S), 2**62), DEFAULT, UnsupportedError, "64 bits of microseconds"),
    "nanoseconds": (pa.array([1000, 1001], pa.timestamp("ns")), option(nanoseconds=Nanoseconds.ERROR), UnsupportedError, "expected whole microseconds (nanoseconds=error), found 1001 ns"),
    "nanoseconds of a time": (pa.array([1001], pa.time64("ns")), option(nanoseconds=Nanoseconds.ERROR), UnsupportedError, "found 1001 ns"),
    "a time of tomorrow": (ints(t.Time(S, 32), 0, DAY, dtype=np.int32), option(times=Times.TIME), UnsupportedError, "expected a time of day for Spark's TIME, found 86400 s"),
    "a time of yesterday": (ints(t.Time(NS, 64), -1), option(times=Times.TIME), UnsupportedError, "found -1 ns"),
    "a key twice": (pa.array([[("a", 1)], [("b", 1), ("a", 2), ("b", 3)]], MAP), DEFAULT, SchemaMismatchError, "field c: a map holds the key 'b' twice (slot 1)"),
    "zeros": (pa.array([[(0.0, 1), (-0.0, 1)]], pa.map_(pa.float64(), pa.int8())), DEFAULT, SchemaMismatchError, "twice (slot 0)"),
    "NaNs": (pa.array([[(NAN, 1), (NAN, 1)]], pa.map_(pa.float32(), pa.int8())), DEFAULT, SchemaMismatchError, "the key nan twice"),
    "decimal keys": (pa.array([[(D(1), 1), (D(1), 1)]], pa.map_(pa.decimal128(5, 0), pa.int8())), DEFAULT, SchemaMismatchError, "twice"),
    "structs as keys": (pa.array([[({"x": NAN}, 1), ({"x": NAN}, 1)]], pa.map_(pa.struct([("x", pa.float64())]), pa.int8())), DEFAULT, SchemaMismatchError, "twice"),
    "lists as keys": (pa.array([[([1], 1), ([2], 1), ([1], 1)]], pa.map_(pa.list_(pa.int8()), pa.int8())), DEFAULT, SchemaMismatchError, "the key [1] twice"),
}  # fmt: skip


@pytest.mark.parametrize("case", VALUE_ERRORS)
def test_a_value_that_spark_cannot_hold_is_a_named_error(case):
    array, options, error, expected = VALUE_ERRORS[case]
    with pytest.raises(error) as caught:
        conformed(array, options)
    assert expected in str(caught.value)


HIDDEN = {
    "digits": (wide(t.Decimal(2, 0), 100, 12, nulls=[0]), DEFAULT, [None, D(12)]),
    "digits of decimal32": (wide(t.Decimal(2, 0, 32), 100, 12, nulls=[0]), DEFAULT, [None, D(12)]),
    "digits of decimal256": (wide(t.Decimal(2, 0, 256), 2**200, 12, nulls=[0]), DEFAULT, [None, D(12)]),
    "digits to be scaled": (wide(t.Decimal(2, -30), 2**126, 12, nulls=[0]), DEFAULT, [None, D(12) * 10**30]),
    "timestamp": (ints(t.Timestamp(S), 2**62, 0, nulls=[0]), DEFAULT, [None, dt.datetime(1970, 1, 1)]),
    "day": (ints(t.date64, 2**62, 0, nulls=[0]), DEFAULT, [None, dt.date(1970, 1, 1)]),
    "time": (ints(t.Time(S, 32), -1, 0, nulls=[0], dtype=np.int32), option(times=Times.TIME), [None, dt.time(0)]),
}


@pytest.mark.parametrize("case", HIDDEN)
def test_what_lies_under_a_null_is_no_error(case):
    array, options, expected = HIDDEN[case]
    assert expected == conformed(array, options).to_pylist()


@pytest.mark.parametrize("case", HIDDEN)
def test_what_lies_under_a_null_struct_is_no_error(case):
    """The child's own validity says that the slot is set: only the parent hides it."""
    array, options, expected = HIDDEN[case]
    child = Array(array.type, array.length, 0, (None, *array.buffers[1:]))
    bits = np.packbits([0, 1], bitorder="little").data
    struct = Array(t.struct([t.Field("x", child.type)]), 2, 1, (bits,), (child,))
    assert [None, {"x": expected[1]}] == conformed(struct, options).to_pylist()


KEYS = {
    "bool": (pa.bool_(), [True, False]),
    "int8": (pa.int8(), [1, 2, 3]),
    "date": (pa.date32(), [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]),
    "timestamp": (pa.timestamp("us"), [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2)]),
    "double": (pa.float64(), [0.0, 1.5, NAN, math.inf, -math.inf]),
    "string": (pa.string(), ["a", "b", ""]),
    "binary": (pa.binary(), [b"a", b"b"]),
    "decimal": (pa.decimal128(5, 1), [D("1.5"), D("-1.5")]),
    "many": (pa.int64(), list(range(40))),
    "many strings": (pa.string(), [str(i) for i in range(40)]),
    "array": (pa.list_(pa.int8()), [[1], [1, 2], []]),
}  # fmt: skip


@pytest.mark.parametrize("case", KEYS)
def test_keys_of_a_map_are_compared_within_the_map(case):
    """The same key in two maps is fine; once more in one of them it is not."""
    type_, keys = KEYS[case]
    entries = [(key, i) for i, key in enumerate(keys)]
    map_type = pa.map_(type_, pa.int8())
    fine = pa.array([entries, None, entries, entries[::-1], []], map_type)
    assert repr(fine.to_pylist()) == repr(conformed(fine).to_pylist())
    twice = pa.array([entries, [*entries, (keys[-1], 99)]], map_type)
    with pytest.raises(SchemaMismatchError, match=r"twice \(slot 1\)"):
        conformed(twice)
    made = conformed(twice, option(map_keys=MapKeys.LAST_WINS)).to_pylist()
    assert repr([entries, [*entries[:-1], (keys[-1], 99)]]) == repr(made)


def map_of(keys, sizes, *, validity=None, entries_validity=None):
    """Return a map of ours without any of pyarrow's checks."""
    keys = bridge.from_pyarrow(keys)
    type_ = t.map_(keys.type, keys.type)
    entries = Array(type_.entries.type, keys.length, -1 if entries_validity else 0, (entries_validity,), (keys, keys))
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    return Array(type_, len(sizes), -1 if validity else 0, (validity, offsets.view(np.uint8).data), (entries,))


FIRST_ONLY = memoryview(b"\1")
NULL_KEYS = {
    "a null key": map_of(pa.array(["a", None]), [2]),
    "a null entry": map_of(pa.array(["a", "b"]), [2], entries_validity=FIRST_ONLY),
}


@pytest.mark.parametrize("case", NULL_KEYS)
def test_a_null_key_is_an_error(case):
    """pyarrow ends the process on a null under a key that is not nullable, so it must not get that far."""
    with pytest.raises(InvalidBodyError, match="field c: expected map keys that are not null, found a null key"):
        conformed(NULL_KEYS[case], option(map_keys=MapKeys.LAST_WINS))


def test_null_keys_and_keys_that_are_twice_under_a_null_map_are_no_error():
    array = map_of(pa.array(["a", "b", None, "x", "x"]), [2, 3], validity=FIRST_ONLY)
    assert [[("a", "a"), ("b", "b")], None] == conformed(array).to_pylist()


def test_a_variant_without_a_value_is_an_error():
    storage = pa.array(
        [{"metadata": b"", "value": None}], pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    )
    with pytest.raises(
        InvalidBodyError, match="field c: expected a value in every variant that is not null, found none in slot 0"
    ):
        conformed(storage, metadata={"ARROW:extension:name": "arrow.parquet.variant"})


THREE = bridge.from_pyarrow(pa.array([1, 2, 3]))


def int32(*values):
    return np.array(values, np.int32).view(np.uint8).data


BROKEN = {
    "a dictionary index": Array(t.dictionary(t.int8, t.int64), 1, 0, (None, memoryview(b"\7")), (), THREE),
    "an index of text": Array(t.dictionary(t.int8, t.utf8), 1, 0, (None, memoryview(b"\7")), (), bridge.from_pyarrow(pa.array(["a"]))),
    "a list beyond its elements": Array(t.list_(t.int64), 1, 0, (None, int32(0, 9)), (THREE,)),
    "a list that ends before it begins": Array(t.list_(t.int64), 2, 0, (None, int32(0, 3, -1)), (THREE,)),
    "text beyond its bytes": Array(t.large_utf8, 1, 0, (None, np.array([0, 99]).view(np.uint8).data, memoryview(b"abc"))),
    "a list view beyond its elements": Array(t.ListView(t.Field("i", t.int64)), 1, 0, (None, int32(0), int32(99)), (THREE,)),
    "a union beyond its child": Array(t.DenseUnion((t.Field("a", t.int64),), (0,)), 1, 0, (memoryview(b"\0"), int32(99)), (THREE,)),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_what_points_nowhere_is_a_named_error_where_nobody_checked(case):
    """The decoder checks it unless validation=structural; what is met here must not look like a bug of ours."""
    with pytest.raises(InvalidBodyError, match=r"broken \(|expected dictionary indices below [13],"):
        pieces(BROKEN[case], validation=Validation.STRUCTURAL)


@pytest.mark.parametrize("case", ["a dictionary index", "an index of text"])
def test_indices_of_mapped_files_are_not_trusted(case):
    """The file may have changed since the decoder checked them."""
    with pytest.raises(InvalidBodyError, match=r"expected dictionary indices below [13], found"):
        pieces(BROKEN[case], memory_map=True)


def test_a_dictionary_is_converted_once(monkeypatch):
    calls = []
    batch = batch_of(pa.array(["a", "b", "a"]).dictionary_encode())
    made = compile_conform(batch.schema, struct_of(("c", s.StringType())), option(output_batch_rows=1))
    monkeypatch.setattr(
        bridge, "buffers_of", lambda array, real=bridge.buffers_of: calls.append(array.type) or real(array)
    )
    assert ["a", "b", "a"] == [piece.column(0)[0].as_py() for piece in made.conform(batch)]
    assert 1 == calls.count(t.utf8)


def pieces(array, **given):
    batch = batch_of(array)
    options = option(**given)
    promised = arrow_to_spark.spark_schema(batch.schema, options)
    return list(compile_conform(batch.schema, promised, options).conform(batch))


def test_batches_are_cut_to_the_rows_asked_for():
    made = pieces(pa.array(range(10)), output_batch_rows=4)
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


STRUCT = pa.StructArray.from_arrays([pa.array([1, 2, 3, None]), pa.array(["a", None, "ccc", ""])], ["n", "s"])
WORDS = pa.array(["a", "longest", "a", None], pa.large_string()).dictionary_encode()
BOUNDED = {
    "nothing but nulls": pa.nulls(4),
    "numbers": pa.array([1, None, 3, 4]),
    "bits": pa.array([True, False, None, True]),
    "text": pa.array(["a", None, "ccc", LONG]),
    "large binary": pa.array([b"a", b"", b"ccc", None], pa.large_binary()),
    "dictionary": WORDS,
    "dictionary without values": pa.DictionaryArray.from_arrays(pa.array([None] * 4, pa.int8()), pa.array([], pa.utf8())),
    "dictionary of structs": pa.DictionaryArray.from_arrays(pa.array([2, 2, 0, 2]), STRUCT),
    "list of dictionaries": pa.LargeListArray.from_arrays(pa.array([0, 1, 1, 4, 4]), WORDS),
    "fixed size list": pa.array([[1, 2], None, [3, 4], [5, None]], pa.list_(pa.int16(), 2)),
    "struct": STRUCT,
    "struct without fields": pa.StructArray.from_buffers(pa.struct([]), 4, [None]),
    "map": pa.array([[("k", 1)], [], None, [("k", 2), ("l", None)]], pa.map_(pa.utf8(), pa.int64())),
    "sparse union": pa.UnionArray.from_sparse(pa.array([0, 1, 0, 1], pa.int8()), [pa.array([1, 2, 3, 4]), WORDS]),
}  # fmt: skip


@pytest.mark.parametrize("case", BOUNDED)
def test_no_batch_is_larger_than_its_bound(case):
    """Else it would go to Spark uncut. Slices share whole buffers, so they only come out smaller."""
    array = bridge.from_pyarrow(BOUNDED[case])
    bound = compile_bound([t.int8, array.type])
    for part in (array, array.slice(1, 2), array.slice(4, 0)):
        exact = measure(part, decoded=True)(np.array([0]), np.array([part.length]))
        assert exact[0] <= bound([from_pylist.array([], t.int8), part])


def test_the_bound_of_a_dictionary_follows_its_values():
    (short, long) = (bridge.from_pyarrow(pa.array(["x" * n] * 10).dictionary_encode()) for n in (1, 1000))
    bound = compile_bound([short.type])
    found = [bound([array]) for array in (short, long, long, short)]
    assert found[0] == found[3] < 1000 < 10_000 < found[1] == found[2]


UNBOUNDED = {
    "views": t.utf8_view,
    "list views": t.ListView(t.field("item", t.int64)),
    "runs": t.RunEndEncoded(t.field("run_ends", t.int32, nullable=False), t.field("values", t.int64)),
    "a dense union": t.DenseUnion((t.field("a", t.int64),), (0,)),
    "views in a struct": t.Struct((t.field("a", t.int64), t.field("b", t.binary_view))),
}


@pytest.mark.parametrize("case", UNBOUNDED)
def test_types_whose_slots_share_bytes_have_no_bound(case):
    """Their buffers may be far smaller than what comes out."""
    assert compile_bound([t.int8, UNBOUNDED[case], t.utf8]) is None


def test_a_row_beyond_32_bits_is_a_named_error():
    """Made of nothing: a list view of nulls has elements without having memory."""
    nulls = Array(t.null, 2**31, 2**31, ())
    offsets = np.array([0, 2**31], np.int64).view(np.uint8).data
    array = Array(t.LargeList(t.Field("item", t.null)), 1, 0, (None, offsets), (nulls,))
    with pytest.raises(LimitError, match=r"field c: a row has 2,147,483,648 bytes or elements"):
        pieces(array)


def test_rows_without_columns_are_counted():
    """An empty projection keeps the row count."""
    batch = batch_of(pa.array([1, 2, 3]))
    made = list(compile_conform(batch.schema, s.StructType([]), option(output_batch_rows=2)).conform(batch))
    assert [(2, 0), (1, 0)] == [(piece.num_rows, piece.num_columns) for piece in made]


def test_no_rows_give_one_batch_without_rows():
    assert [0] == [piece.num_rows for piece in pieces(pa.array([], pa.string()))]


VOIDS = {
    "c": s.StructType([s.StructField("c", s.NullType(), nullable=False)]),
    "c[]": struct_of(("c", s.ArrayType(s.NullType(), containsNull=False))),
    "c[].key": struct_of(("c", s.MapType(s.NullType(), s.LongType()))),
}


@pytest.mark.parametrize("path", VOIDS)
def test_void_that_is_not_null_is_a_named_error(path):
    with pytest.raises(UnsupportedError) as caught:
        expected_arrow_schema(VOIDS[path])
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
    assert is_expected_by_pyspark(expected_arrow_schema(schema), schema)
