"""What Spark sees of every Arrow type that pyarrow can write: the DESIGN's table of types, on the real session."""

import datetime as dt
import decimal
import math
import uuid

import arrow_files
import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql import types as s
from pyspark.testing import assertDataFrameEqual

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema, types

D = decimal.Decimal
NY = dt.timezone(dt.timedelta(hours=-5))
LONG = "a string that no view holds inline"
BEFORE = dt.datetime(1969, 12, 31, 23, 59, 59)
EPOCH = dt.datetime(1970, 1, 1)
ZONED = dt.datetime(1969, 12, 31, 19, tzinfo=NY)
ID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")


def micros(n):
    return dt.timedelta(microseconds=n)


def runs(values):
    return pa.RunEndEncodedArray.from_arrays(pa.array([1, 3, 4], pa.int16()), values)


def indexed(values, index_type):
    return pa.DictionaryArray.from_arrays(pa.array([1, None, 0, 1], index_type), values)


def list_view(class_, bits):
    """Lists that lie out of order and share elements."""
    index = getattr(pa, f"int{bits}")()
    made = class_.from_arrays(
        pa.array([2, 0, 0, 1], index), pa.array([1, 2, 0, 2], index), pa.array([1, None, 3], pa.int8())
    )
    assert made.type.value_type == pa.int8()
    return made


def extended(type_, storage):
    return pa.ExtensionArray.from_storage(type_, storage)


SPARSE = pa.UnionArray.from_sparse(
    pa.array([0, 1, 0, 1], pa.int8()), [pa.array([1, 2, None, 4]), pa.array(["a", "b", "c", "d"])], ["n", "s"]
)
DENSE = pa.UnionArray.from_dense(
    pa.array([5, 7, 7, 5], pa.int8()), pa.array([0, 0, 1, 1], pa.int32()),
    [pa.array([2, 1]), pa.array(["a", None])], ["same", "same"], [5, 7],
)  # fmt: skip
UNION_SPARSE = [{"n": 1, "s": None}, {"n": None, "s": "b"}, {"n": None, "s": None}, {"n": None, "s": "d"}]
UNION_DENSE = [
    {"same": 2, "same_1": None}, {"same": None, "same_1": "a"}, {"same": None, "same_1": None}, {"same": 1, "same_1": None},
]  # fmt: skip
MONTHS = "struct<months:int,days:int,nanoseconds:bigint>"
MONTH_DAYS = [
    {"months": 1, "days": -2, "nanoseconds": 3},
    None,
    {"months": 0, "days": 0, "nanoseconds": -(2**62)},
    {"months": -12, "days": 31, "nanoseconds": 0},
]

# Four slots each. (Name: array, Spark type, values.)
LEAVES = {
    "null": (pa.nulls(4), "void", [None] * 4),
    "bool": (pa.array([True, None, False, True]), "boolean", [True, None, False, True]),
    "int8": (pa.array([-128, None, 127, 0], pa.int8()), "tinyint", [-128, None, 127, 0]),
    "int16": (pa.array([-(2**15), None, 2**15 - 1, 0], pa.int16()), "smallint", [-(2**15), None, 2**15 - 1, 0]),
    "int32": (pa.array([-(2**31), None, 2**31 - 1, 0], pa.int32()), "int", [-(2**31), None, 2**31 - 1, 0]),
    "int64": (pa.array([-(2**63), None, 2**63 - 1, 0], pa.int64()), "bigint", [-(2**63), None, 2**63 - 1, 0]),
    "uint8": (pa.array([255, None, 0, 128], pa.uint8()), "smallint", [255, None, 0, 128]),
    "uint16": (pa.array([65535, None, 0, 2**15], pa.uint16()), "int", [65535, None, 0, 2**15]),
    "uint32": (pa.array([2**32 - 1, None, 0, 2**31], pa.uint32()), "bigint", [2**32 - 1, None, 0, 2**31]),
    "uint64": (pa.array([2**64 - 1, None, 0, 2**63], pa.uint64()), "decimal(20,0)", [D(2**64 - 1), None, D(0), D(2**63)]),
    "float16": (pa.array([1.5, None, -math.inf, -0.0], pa.float16()), "float", [1.5, None, -math.inf, -0.0]),
    "float32": (pa.array([1.5, None, math.inf, 2**-149], pa.float32()), "float", [1.5, None, math.inf, 2**-149]),
    "float64": (pa.array([1.5, None, -math.inf, 5e-324]), "double", [1.5, None, -math.inf, 5e-324]),
    "decimal32": (pa.array([D("-123.45"), None, D("999.99"), D("0.00")], pa.decimal32(5, 2)), "decimal(5,2)", [D("-123.45"), None, D("999.99"), D("0.00")]),
    "decimal64": (pa.array([D(10**18 - 1), None, D(-1), D(0)], pa.decimal64(18, 0)), "decimal(18,0)", [D(10**18 - 1), None, D(-1), D(0)]),
    "decimal128": (pa.array([D(10**38 - 1), None, D(1 - 10**38), D(7)], pa.decimal128(38, 0)), "decimal(38,0)", [D(10**38 - 1), None, D(1 - 10**38), D(7)]),
    "decimal128 of negative scale": (pa.array([D(12000), None, D(-99000), D(0)], pa.decimal128(2, -3)), "decimal(5,0)", [D(12000), None, D(-99000), D(0)]),
    "decimal256 of 38 digits": (pa.array([D("9.5"), None, D("-0.1"), D(10**36)], pa.decimal256(38, 1)), "decimal(38,1)", [D("9.5"), None, D("-0.1"), D("1" + "0" * 36 + ".0")]),
    "decimal256 of 76 digits": (pa.array([D("9" * 74 + ".99"), None, D("-0.01"), D(0)], pa.decimal256(76, 2)), "string", ["9" * 74 + ".99", None, "-0.01", "0.00"]),
    "date32": (pa.array([dt.date(1969, 12, 31), None, dt.date(1, 1, 1), dt.date(9999, 12, 31)], pa.date32()), "date", [dt.date(1969, 12, 31), None, dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "date64 with a time of day": (pa.array([-1, None, 1, 86_400_001]).view(pa.date64()), "date", [dt.date(1969, 12, 31), None, dt.date(1970, 1, 1), dt.date(1970, 1, 2)]),
    "time32[s]": (pa.array([0, None, 86_399, 1], pa.time32("s")), "interval day to second", [micros(0), None, dt.timedelta(seconds=86_399), dt.timedelta(seconds=1)]),
    "time32[ms]": (pa.array([0, None, 1, 86_399_999], pa.time32("ms")), "interval day to second", [micros(0), None, micros(1000), micros(86_399_999_000)]),
    "time64[us]": (pa.array([0, None, 1, 86_399_999_999], pa.time64("us")), "interval day to second", [micros(0), None, micros(1), micros(86_399_999_999)]),
    "time64[ns]": (pa.array([999, None, 1000, 1999], pa.time64("ns")), "interval day to second", [micros(0), None, micros(1), micros(1)]),
    "timestamp[s]": (pa.array([-1, None, 0, 1], pa.timestamp("s")), "timestamp_ntz", [BEFORE, None, EPOCH, EPOCH + micros(10**6)]),
    "timestamp[ms]": (pa.array([-1, None, 0, 1], pa.timestamp("ms")), "timestamp_ntz", [EPOCH - micros(1000), None, EPOCH, EPOCH + micros(1000)]),
    "timestamp[us]": (pa.array([-1, None, 0, 1], pa.timestamp("us")), "timestamp_ntz", [EPOCH - micros(1), None, EPOCH, EPOCH + micros(1)]),
    "timestamp[ns]": (pa.array([-1, None, 999, 1999], pa.timestamp("ns")), "timestamp_ntz", [EPOCH - micros(1), None, EPOCH, EPOCH + micros(1)]),
    "timestamp[s, Asia/Tokyo]": (pa.array([-1, None, 0, 1], pa.timestamp("s", "Asia/Tokyo")), "timestamp", [ZONED - micros(10**6), None, ZONED, ZONED + micros(10**6)]),
    "timestamp[us, UTC]": (pa.array([-1, None, 0, 1], pa.timestamp("us", "UTC")), "timestamp", [ZONED - micros(1), None, ZONED, ZONED + micros(1)]),
    "timestamp[ns, +05:30]": (pa.array([-1, None, 0, 1999], pa.timestamp("ns", "+05:30")), "timestamp", [ZONED - micros(1), None, ZONED, ZONED + micros(1)]),
    "duration[s]": (pa.array([-1, None, 0, 86_400], pa.duration("s")), "interval day to second", [-micros(10**6), None, micros(0), dt.timedelta(1)]),
    "duration[ms]": (pa.array([-1, None, 0, 1], pa.duration("ms")), "interval day to second", [micros(-1000), None, micros(0), micros(1000)]),
    "duration[us]": (pa.array([-1, None, 0, 1], pa.duration("us")), "interval day to second", [micros(-1), None, micros(0), micros(1)]),
    "duration[ns]": (pa.array([-1, None, 0, 1999], pa.duration("ns")), "interval day to second", [micros(-1), None, micros(0), micros(1)]),
    "month_day_nano": (pa.array([(1, -2, 3), None, (0, 0, -(2**62)), (-12, 31, 0)], pa.month_day_nano_interval()), MONTHS, MONTH_DAYS),
    "fixed_size_binary": (pa.array([b"ab", None, b"\0\0", b"\xff\xfe"], pa.binary(2)), "binary", [b"ab", None, b"\0\0", b"\xff\xfe"]),
    "fixed_size_binary of 0": (pa.array([b"", None, b"", b""], pa.binary(0)), "binary", [b"", None, b"", b""]),
    "binary": (pa.array([b"ab", None, b"", b"\xff"]), "binary", [b"ab", None, b"", b"\xff"]),
    "large_binary": (pa.array([b"ab", None, b"", b"\xff"], pa.large_binary()), "binary", [b"ab", None, b"", b"\xff"]),
    "binary_view": (pa.array([b"ab", None, b"", b"x" * 20], pa.binary_view()), "binary", [b"ab", None, b"", b"x" * 20]),
    "utf8": (pa.array(["ä", None, "", "🏹"]), "string", ["ä", None, "", "🏹"]),
    "large_utf8": (pa.array(["ä", None, "", "🏹"], pa.large_string()), "string", ["ä", None, "", "🏹"]),
    "utf8_view": (pa.array(["ä", None, "", LONG], pa.string_view()), "string", ["ä", None, "", LONG]),
    "list": (pa.array([[1, None], None, [], [2]], pa.list_(pa.uint8())), "array<smallint>", [[1, None], None, [], [2]]),
    "large_list": (pa.array([["a", None], None, [], ["b"]], pa.large_list(pa.large_string())), "array<string>", [["a", None], None, [], ["b"]]),
    "fixed_size_list": (pa.array([[1, 2], None, [None, 3], [4, 5]], pa.list_(pa.uint8(), 2)), "array<smallint>", [[1, 2], None, [None, 3], [4, 5]]),
    "fixed_size_list of 0": (pa.array([[], None, [], []], pa.list_(pa.int8(), 0)), "array<tinyint>", [[], None, [], []]),
    "list_view": (list_view(pa.ListViewArray, 32), "array<tinyint>", [[3], [1, None], [], [None, 3]]),
    "large_list_view": (list_view(pa.LargeListViewArray, 64), "array<tinyint>", [[3], [1, None], [], [None, 3]]),
    "struct": (pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}, {"a": 2, "b": ""}], pa.struct([("a", pa.uint8()), ("b", pa.string())])), "struct<a:smallint,b:string>", [{"a": 1, "b": "x"}, None, {"a": None, "b": None}, {"a": 2, "b": ""}]),
    "map": (pa.array([[("a", 1), ("b", None)], None, [], [("c", 3)]], pa.map_(pa.string(), pa.uint16())), "map<string,int>", [[("a", 1), ("b", None)], None, [], [("c", 3)]]),
    "sparse union": (SPARSE, "struct<n:bigint,s:string>", UNION_SPARSE),
    "dense union": (DENSE, "struct<same:bigint,same_1:string>", UNION_DENSE),
    "run ends": (runs(pa.array(["a", None, LONG])), "string", ["a", None, None, LONG]),
    "run ends of lists": (runs(pa.array([[1], None, [2, 3]], pa.list_(pa.int8()))), "array<tinyint>", [[1], None, None, [2, 3]]),
    "dictionary": (indexed(pa.array(["a", LONG]), pa.int8()), "string", [LONG, None, "a", LONG]),
    "dictionary with a null value": (indexed(pa.array([2**64 - 1, None], pa.uint64()), pa.uint32()), "decimal(20,0)", [None, None, D(2**64 - 1), None]),
    "dictionary of structs": (indexed(pa.array([{"a": 1}, {"a": None}]), pa.int32()), "struct<a:bigint>", [{"a": None}, None, {"a": 1}, {"a": None}]),
    "arrow.uuid": (extended(pa.uuid(), pa.array([ID.bytes, None, bytes(16), b"\xff" * 16], pa.binary(16))), "string", [str(ID), None, str(uuid.UUID(int=0)), str(uuid.UUID(int=2**128 - 1))]),
    "arrow.bool8": (extended(pa.bool8(), pa.array([1, None, 0, -1], pa.int8())), "boolean", [True, None, False, True]),
    "arrow.json": (extended(pa.json_(), pa.array(['{"a":1}', None, "[]", "null"])), "string", ['{"a":1}', None, "[]", "null"]),
    "an unknown extension": (extended(pa.opaque(pa.int32(), "t", "v"), pa.array([1, None, 2, 3], pa.int32())), "int", [1, None, 2, 3]),
}  # fmt: skip
"""By name: an array of four slots, the Spark type, and the values."""


def listed(array):
    """Return four lists of the values; offsets do not begin at a byte of validity."""
    return pa.ListArray.from_arrays(
        pa.array([0, 2, 2, 3, 4], pa.int32()), array, mask=pa.array([False, True, False, False])
    )


def fielded(array):
    return pa.StructArray.from_arrays([array], ["f"], mask=pa.array([False, False, True, False]))


def mapped(array):
    return pa.MapArray.from_arrays(pa.array([0, 2, 2, 3, 4], pa.int32()), pa.array(["k", "l", "k", "k"]), array)


NESTINGS = {
    "": (lambda array: array, "{}", lambda v: v),
    "list of ": (listed, "array<{}>", lambda v: [v[:2], None, v[2:3], v[3:]]),
    "struct of ": (fielded, "struct<f:{}>", lambda v: [{"f": v[0]}, {"f": v[1]}, None, {"f": v[3]}]),
    "map to ": (mapped, "map<string,{}>", lambda v: [[("k", v[0]), ("l", v[1])], [], [("k", v[2])], [("k", v[3])]]),
}
"""By prefix: nests an array, a Spark type, and values."""

COLUMNS = {
    prefix + name: (nest(array), spark_type.format(leaf_type), values_of(values))
    for prefix, (nest, spark_type, values_of) in NESTINGS.items()
    for name, (array, leaf_type, values) in LEAVES.items()
}


def table(columns):
    return pa.table({name: array for name, (array, *_) in columns.items()})


def read(spark, path, **options):
    return spark.read.format("arrowipc").options(**options).load(str(path))


def ddl(frame):
    return {field.name: field.dataType.simpleString() for field in frame.schema.fields}


def unlike(frame, columns):
    """Return the columns whose type or values are not those of the cases, with what was found."""
    table = frame.toArrow()
    assert list(columns) == table.column_names
    found = {name: (type_, table.column(name).to_pylist()) for name, type_ in ddl(frame).items()}
    return {name: found[name] for name, (_, *expected) in columns.items() if found[name] != tuple(expected)}


FRAMINGS = [(stream, compression) for stream in (False, True) for compression in (None, "lz4", "zstd")]


@pytest.mark.one_in(2, "exhaustive")
@pytest.mark.parametrize(("stream", "compression"), FRAMINGS)
def test_every_type_flat_and_nested(spark, tmp_path, stream, compression):
    """Arrow type by Arrow type: the Spark type and the values, in both formats, with each compression."""
    path = arrow_files.write(tmp_path / "every.arrow", table(COLUMNS), stream=stream, compression=compression)
    assert unlike(read(spark, path), COLUMNS) == {}


@pytest.mark.smoke("read")
def test_every_type_as_a_data_frame_of_spark(spark, tmp_path):
    """What is read equals what Spark makes of the same Python values, row by row."""
    # Instants are compared above: the Python values of a local session depend on the machine's own zone.
    leaves = {name: case for name, case in LEAVES.items() if case[1] != "timestamp"}
    frame = read(spark, arrow_files.write(tmp_path / "every.arrow", table(leaves)))
    rows = [
        [dict(value) if type_.startswith("map") and value is not None else value for value, type_ in row]
        for row in zip(*([(v, type_) for v in values] for _, type_, values in leaves.values()), strict=True)
    ]
    expected = spark.createDataFrame(rows, s.StructType([s.StructField(f.name, f.dataType) for f in frame.schema]))
    assertDataFrameEqual(frame, expected, checkRowOrder=True)


def test_floats_that_are_equal_to_others_or_not_to_themselves(spark, tmp_path):
    """NaN stays NaN and the negative zero keeps its sign, in every width."""
    widths = {
        str(type_): pa.array([math.nan, -0.0, 0.0], type_) for type_ in (pa.float16(), pa.float32(), pa.float64())
    }
    frame = read(spark, arrow_files.write(tmp_path / "floats.arrow", pa.table(widths)))
    found = frame.selectExpr(*(f"cast({name} AS string) AS {name}" for name in widths)).toArrow().to_pydict()
    assert found == {key: ["NaN", "-0.0", "0.0"] for key in widths}


NS = {
    "stamp": pa.array([-1, None, 1999], pa.timestamp("ns")),
    "zoned": pa.array([-1, None, 1999], pa.timestamp("ns", "UTC")),
    "duration": pa.array([-1, None, 1999], pa.duration("ns")),
    "time": pa.array([1, None, 1999], pa.time64("ns")),
}
TIMES = {
    "s": pa.array([0, None, 86_399], pa.time32("s")),
    "ms": pa.array([1, None, 86_399_999], pa.time32("ms")),
    "us": pa.array([1, None, 86_399_999_999], pa.time64("us")),
    "ns": pa.array([1000, None, 86_399_999_999_000], pa.time64("ns")),
}
FLOAT_KEYS = pa.array([[(0.0, 1), (-0.0, 2)], [(math.inf, 1)], None], pa.map_(pa.float64(), pa.int8()))
LAST = dt.time(23, 59, 59, 999_999)
NINE = "time(9)" if tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 3) else "time(6)"
STORED = {
    "uuid": extended(pa.uuid(), pa.array([ID.bytes, None], pa.binary(16))),
    "bool8": extended(pa.bool8(), pa.array([-1, None], pa.int8())),
    "json": extended(pa.json_(), pa.array(["1", None])),
}

# (Options, columns, the Spark types and values by column.)
OPTION_CASES = {
    "nanoseconds=long": ({"nanoseconds": "long"}, NS, {
        "stamp": ("bigint", [-1, None, 1999]), "zoned": ("bigint", [-1, None, 1999]),
        "duration": ("bigint", [-1, None, 1999]), "time": ("bigint", [1, None, 1999]),
    }),
    "nanoseconds=error, and all are whole microseconds": ({"nanoseconds": "error"}, {"ns": TIMES["ns"]}, {
        "ns": ("interval day to second", [micros(1), None, micros(86_399_999_999)]),
    }),
    "nanoseconds=long leaves the other units": ({"nanoseconds": "LONG"}, {"us": TIMES["us"]}, {
        "us": ("interval day to second", [micros(1), None, micros(86_399_999_999)]),
    }),
    "times=time": ({"times": "time"}, TIMES, {
        "s": ("time(0)", [dt.time(0), None, dt.time(23, 59, 59)]),
        "ms": ("time(3)", [dt.time(0, 0, 0, 1000), None, dt.time(23, 59, 59, 999_000)]),
        "us": ("time(6)", [dt.time(0, 0, 0, 1), None, LAST]),
        "ns": (NINE, [dt.time(0, 0, 0, 1), None, LAST]),
    }),
    "times=long": ({"times": "long"}, TIMES, {
        "s": ("bigint", [0, None, 86_399]), "ms": ("bigint", [1, None, 86_399_999]),
        "us": ("bigint", [1, None, 86_399_999_999]), "ns": ("bigint", [1000, None, 86_399_999_999_000]),
    }),
    "extensionTypes=storage": ({"extensionTypes": "storage"}, STORED, {
        "uuid": ("binary", [ID.bytes, None]), "bool8": ("tinyint", [-1, None]), "json": ("string", ["1", None]),
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", OPTION_CASES)
def test_an_option_changes_what_a_type_becomes(spark, tmp_path, name):
    options, columns, expected = OPTION_CASES[name]
    path = arrow_files.write(tmp_path / "in.arrow", pa.table(columns))
    assert unlike(read(spark, path, **options), {n: (columns[n], *expected[n]) for n in columns}) == {}


# (Column, options, words of the error.)
REFUSED = {
    "nanoseconds=error": (NS["stamp"], {"nanoseconds": "error"}, "UnsupportedError", ["-1 ns", "nanoseconds=floor"]),
    "a time that is no time of day": (pa.array([86_400], pa.time32("s")), {"times": "time"}, "UnsupportedError", ["86400 s", "times=interval"]),
    "seconds beyond the microseconds of 64 bits": (pa.array([2**62], pa.timestamp("s")), {}, "UnsupportedError", [str(2**62), "64 bits"]),
    "a day beyond 32 bits": (pa.array([2**62]).view(pa.date64()), {}, "UnsupportedError", ["day", "32 bits"]),
    "zeros of both signs as keys": (FLOAT_KEYS, {}, "SchemaMismatchError", ["twice", "leave the column out"]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_value_that_spark_cannot_hold_is_named(spark, tmp_path, name):
    """The error names file, record batch and column, and what would get past it."""
    array, options, error, words = REFUSED[name]
    path = arrow_files.write(tmp_path / "in.arrow", pa.table({"c": array}))
    with pytest.raises(PySparkException) as caught:
        read(spark, path, **options).collect()
    message = str(caught.value)
    assert [w for w in (error, f"{path}: record batch 0, field c", *words) if w not in message] == [], message


def test_times_can_be_computed_with_as_intervals_and_are_refused_by_spark_as_times(spark, tmp_path):
    """Why `interval` is the default: Spark 4.1 to 4.3 does not compute on a table that has a TIME column."""
    path = arrow_files.write(tmp_path / "in.arrow", pa.table({"t": TIMES["us"], "a": [1, 1, 2]}))
    counts = {row["a"]: row["count"] for row in read(spark, path).groupBy("a").count().collect()}
    assert counts == {1: 2, 2: 1}
    with pytest.raises(PySparkException, match="UNSUPPORTED_TIME_TYPE"):
        read(spark, path, times="time").groupBy("a").count().collect()


def test_intervals_that_pyarrow_does_not_know(spark, tmp_path):
    """YEAR_MONTH is a number of months, DAY_TIME a struct."""
    schema = Schema.of([types.field("months", types.IntervalYearMonth()), types.field("days", types.IntervalDayTime())])
    months, days = [14, None, -1], [(1, -2), None, (-3, 4)]
    batch = RecordBatch.from_pydict({"months": months, "days": days}, schema)
    ipc.write(str(tmp_path / "in.arrow"), [batch])
    frame = read(spark, tmp_path / "in.arrow")
    assert ddl(frame) == {"months": "int", "days": "struct<days:int,milliseconds:int>"}
    expected = [{"days": 1, "milliseconds": -2}, None, {"days": -3, "milliseconds": 4}]
    assert frame.toArrow().to_pydict() == {"months": months, "days": expected}


VARIANT_LAYOUTS = {
    "binary": (pa.binary(), ["metadata", "value"]),
    "large_binary, the other way round": (pa.large_binary(), ["value", "metadata"]),
    "binary_view": (pa.binary_view(), ["metadata", "value"]),
}


def variants(type_, names):
    """Return 5, null of SQL, "a", and null of JSON."""
    parts = {"metadata": b"\x01\x00\x00", "value": [b"\x0c\x05", b"", b"\x05a", b"\x00"]}
    columns = {"metadata": [parts["metadata"]] * 4, "value": parts["value"]}
    fields = [pa.field(name, type_, nullable=False) for name in names]
    arrays = [pa.array(columns[name], type_) for name in names]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array([False, True, False, False]))


def test_a_variant_is_one_whatever_the_layout_of_its_parts(spark, tmp_path):
    named = {"ARROW:extension:name": "arrow.parquet.variant", "ARROW:extension:metadata": ""}
    arrays = {name: variants(*layout) for name, layout in VARIANT_LAYOUTS.items()}
    schema = pa.schema([pa.field(name, array.type, metadata=named) for name, array in arrays.items()])
    path = arrow_files.write(tmp_path / "in.arrow", pa.table(list(arrays.values()), schema=schema))
    frame = read(spark, path)
    assert set(ddl(frame).values()) == {"variant"}
    found = frame.select(*(f.to_json(f.col(f"`{name}`")).alias(name) for name in arrays)).toArrow().to_pydict()
    assert found == {key: ["5", None, '"a"', "null"] for key in arrays}
    assert set(ddl(read(spark, path, extensionTypes="storage")).values()) == {
        "struct<metadata:binary,value:binary>", "struct<value:binary,metadata:binary>",
    }  # fmt: skip
