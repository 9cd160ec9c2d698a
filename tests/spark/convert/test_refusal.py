"""What each conversion says of the values that it refuses: by this alone headers and statistics answer for a column."""

import arrow_cases
import numpy as np
import pytest
from convert_batches import MS, NS, US, S, batch_of, converted, raw
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.statistics.min_max import has_bounds, summarise
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.convert import Refusal, refusal_of
from spark_arrow_ipc.spark.convert.conversion import ABSENT_FIELD
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import ExtensionTypes, Nanoseconds, Times, TimestampsWithOffset, Vectors
from spark_arrow_ipc.spark.types import extension_columns
from spark_arrow_ipc.spark.types.arrow_to_spark import MAPPINGS, spark_type

NONE, OUTSIDE, UNKNOWN = Refusal
DEFAULT, EXACT, COUNTS = (
    ReadOptions(),
    ReadOptions(nanoseconds=Nanoseconds.ERROR),
    ReadOptions(nanoseconds=Nanoseconds.LONG),
)
STORAGE, TENSORS = (
    ReadOptions(extension_types=ExtensionTypes.STORAGE),
    ReadOptions(extension_types=ExtensionTypes.TENSOR),
)
INT, BYTES = t.Field("n", t.int32), t.Field("b", t.binary)
DECIMAL = t.Decimal(9, 2)
WITH_OFFSET = t.Struct((t.Field("timestamp", t.Timestamp(US, "UTC")), t.Field("offset_minutes", t.int16)))
VARIANT = t.Struct((t.Field("metadata", t.binary), t.Field("value", t.binary)))
SHREDDED = t.Struct((*VARIANT.fields, t.Field("typed_value", t.int64)))
SHAPED = t.Struct((t.Field("data", t.List(INT)), t.Field("shape", t.FixedSizeList(t.Field("n", t.int32), 2))))


def extended(type_, name, metadata=""):
    pairs = {"ARROW:extension:name": name, "ARROW:extension:metadata": metadata}
    return t.field("c", type_, custom_metadata=pairs)


PLAIN = {
    "void": (t.null, DEFAULT, UNKNOWN),
    "bool": (t.bool_, DEFAULT, NONE),
    **{f"{type_}": (type_, DEFAULT, NONE) for type_ in (
        t.int8, t.int16, t.int32, t.int64, t.uint8, t.uint16, t.uint32, t.uint64, t.float16, t.float32, t.float64,
        t.date32, t.IntervalYearMonth(), t.IntervalDayTime(), t.IntervalMonthDayNano(), t.FixedSizeBinary(3),
        t.FixedSizeBinary(0), t.binary, t.LargeBinary(), t.BinaryView(), t.utf8, t.LargeUtf8(), t.Utf8View(),
    )},
    **{f"decimal of {bits} bits": (t.Decimal(5, 2, bits), DEFAULT, OUTSIDE) for bits in (32, 64, 128, 256)},
    "decimal of 50 digits": (t.Decimal(50, 2, 256), DEFAULT, NONE),
    "date64": (t.Date(t.DateUnit.MILLISECOND), DEFAULT, OUTSIDE),
    "date64, whole days": (t.Date(t.DateUnit.MILLISECOND), EXACT, UNKNOWN),
    "date64, counts of others": (t.Date(t.DateUnit.MILLISECOND), COUNTS, UNKNOWN),
    **{f"{kind} in {unit.abbreviation}": (make(unit), DEFAULT, OUTSIDE if unit in (S, MS) else NONE)
       for kind, make in (("timestamp", t.Timestamp), ("instant", lambda unit: t.Timestamp(unit, "UTC")), ("duration", t.Duration))
       for unit in (S, MS, US, NS)},
    **{f"{kind}, exact": (type_, EXACT, UNKNOWN) for kind, type_ in
       (("timestamp", t.Timestamp(NS)), ("duration", t.Duration(NS)), ("time", t.Time(NS, 64)))},
    **{f"{kind}, counted": (type_, COUNTS, NONE) for kind, type_ in
       (("timestamp", t.Timestamp(NS)), ("duration", t.Duration(NS)), ("time", t.Time(NS, 64)))},
    "time of seconds": (t.Time(S, 32), DEFAULT, NONE),
    "time of seconds of a day": (t.Time(S, 32), ReadOptions(times=Times.TIME), OUTSIDE),
    "time of microseconds": (t.Time(US, 64), DEFAULT, NONE),
    "time of nanoseconds": (t.Time(NS, 64), DEFAULT, NONE),
    "time as a count": (t.Time(S, 32), ReadOptions(times=Times.LONG), NONE),
    "time of a day": (t.Time(US, 64), ReadOptions(times=Times.TIME), OUTSIDE),
    "time of a day, exact": (t.Time(NS, 64), ReadOptions(times=Times.TIME, nanoseconds=Nanoseconds.ERROR), UNKNOWN),
    **{f"{make.__name__}": (make(INT), DEFAULT, NONE) for make in (t.List, t.LargeList, t.ListView, t.LargeListView)},
    "fixed-size list": (t.FixedSizeList(INT, 2), DEFAULT, NONE),
    "list of decimals": (t.List(t.Field("n", DECIMAL)), DEFAULT, UNKNOWN),
    "vector": (t.List(INT), ReadOptions(vectors=Vectors.BINARY), UNKNOWN),
    "struct": (t.Struct((INT, BYTES)), DEFAULT, NONE),
    "struct with a decimal": (t.Struct((INT, t.Field("d", DECIMAL))), DEFAULT, UNKNOWN),
    "map": (t.Map(t.Field("entries", t.Struct((t.Field("key", t.utf8, nullable=False), INT)), nullable=False)), DEFAULT, UNKNOWN),
    "sparse union": (t.SparseUnion((INT, BYTES), (0, 1)), DEFAULT, NONE),
    "dense union": (t.DenseUnion((INT, t.Field("d", DECIMAL)), (0, 1)), DEFAULT, UNKNOWN),
    "runs": (t.RunEndEncoded(t.Field("run_ends", t.int32), t.Field("values", DECIMAL)), DEFAULT, OUTSIDE),
    "dictionary": (t.Dictionary(t.int8, t.utf8), DEFAULT, NONE),
    "dictionary of decimals": (t.Dictionary(t.int8, DECIMAL), DEFAULT, UNKNOWN),
}  # fmt: skip
"""By name: a type, options, and what its conversion refuses."""

EXTENDED = {
    "uuid": (extended(t.FixedSizeBinary(16), "arrow.uuid"), DEFAULT, NONE),
    "bool8": (extended(t.int8, "arrow.bool8"), DEFAULT, NONE),
    "bool8 for a rewrite": (extended(t.int8, "arrow.bool8"), ReadOptions(is_exact=True), UNKNOWN),
    "json": (extended(t.utf8, "arrow.json"), DEFAULT, NONE),
    "timestamp with offset": (extended(WITH_OFFSET, "arrow.timestamp_with_offset"), DEFAULT, UNKNOWN),
    "timestamp with offset as text": (extended(WITH_OFFSET, "arrow.timestamp_with_offset"), ReadOptions(timestamps_with_offset=TimestampsWithOffset.STRING), UNKNOWN),
    "timestamp with offset as parts": (extended(WITH_OFFSET, "arrow.timestamp_with_offset"), ReadOptions(timestamps_with_offset=TimestampsWithOffset.STRUCT), NONE),
    "timestamp with offset as storage": (extended(WITH_OFFSET, "arrow.timestamp_with_offset"), STORAGE, NONE),
    "variant": (extended(VARIANT, "arrow.parquet.variant"), DEFAULT, UNKNOWN),
    "shredded variant": (extended(SHREDDED, "parquet.variant"), DEFAULT, UNKNOWN),
    "variant as storage": (extended(VARIANT, "arrow.parquet.variant"), STORAGE, NONE),
    "tensor": (extended(t.FixedSizeList(INT, 4), "arrow.fixed_shape_tensor", '{"shape": [2, 2]}'), TENSORS, UNKNOWN),
    "tensor of its own shape": (extended(SHAPED, "arrow.variable_shape_tensor"), TENSORS, UNKNOWN),
    "geometry": (extended(t.binary, "geoarrow.wkb"), ReadOptions(extension_types=ExtensionTypes.GEOMETRY), UNKNOWN),
    "geometry as storage": (extended(t.binary, "geoarrow.wkb"), DEFAULT, NONE),
    "opaque": (extended(t.binary, "arrow.opaque"), DEFAULT, NONE),
    "dictionary of extended values": (extended(t.Dictionary(t.int8, t.utf8), "arrow.json"), DEFAULT, NONE),
}  # fmt: skip
"""Fields of extension types, likewise."""

ASKED = {
    "a wider type": (INT, s.StructField("c", s.LongType()), NONE),
    "instants of days": (t.Field("c", t.date32), s.StructField("c", s.TimestampNTZType()), OUTSIDE),
    "whole hours": (t.Field("c", t.Duration(US)), s.StructField("c", s.DayTimeIntervalType(0, 1)), UNKNOWN),
    "no nulls": (INT, s.StructField("c", s.IntegerType(), nullable=False), UNKNOWN),
    "another type": (INT, s.StructField("c", s.StringType()), UNKNOWN),
    "a column that is not there": (ABSENT_FIELD, s.StructField("c", s.StringType()), UNKNOWN),
}
"""What a user's schema asks of fields, likewise."""


def test_every_type_is_in_the_table():
    assert set(MAPPINGS) == {type(type_) for type_, *_ in PLAIN.values()}
    assert set(extension_columns.EXTENSIONS) <= {field.extension_name for field, *_ in EXTENDED.values()}


def asked_of(field, options):
    return s.StructField("c", spark_type(field, options, "c"))


@pytest.mark.parametrize("case", [*PLAIN, *EXTENDED, *ASKED])
def test_what_a_conversion_refuses(case):
    if case in ASKED:
        field, asked, wanted = ASKED[case]
        options = DEFAULT
    else:
        field, options, wanted = PLAIN.get(case) or EXTENDED[case]
        field = field if isinstance(field, t.Field) else t.Field("c", field)
        asked = asked_of(field, options)
    assert wanted is refusal_of(field, asked, options)


def widest(type_):
    """Return slots of the least and the greatest bits of a type of fixed width, and some between; the first is null."""
    dtype = array_data.dtype_of(type_)
    patterns = [b"\0", b"\x01", b"\x7f", b"\x80", b"\xff"]
    slots = [pattern * dtype.itemsize for pattern in patterns]
    slots += [pattern * (dtype.itemsize - 1) + last for pattern in (b"\0", b"\xff") for last in (b"\x7f", b"\x80")]
    return raw(type_, np.frombuffer(b"".join([slots[0], *slots]), dtype), nulls=[0])


FIXED = {
    case: row for case, row in PLAIN.items() if isinstance(row[0], t.Int | t.FloatingPoint | t.Decimal | t.Date | t.Time | t.Timestamp | t.Duration | t.IntervalYearMonth)
}  # fmt: skip


@pytest.mark.parametrize("case", FIXED)
def test_any_bits_are_taken_or_some_are_refused(case):
    type_, options, refusal = FIXED[case]
    array = widest(type_)
    if refusal is not NONE:
        with pytest.raises(ArrowIpcError):
            converted(array, options)
        array = array.slice(0, 2)
    made = converted(array, options)
    assert [True, *[False] * (array.length - 1)] == made.is_null().to_pylist()


@pytest.mark.parametrize("name", arrow_cases.ARRAYS)
@pytest.mark.parametrize("start", [0, 3])
def test_nulls_are_where_the_array_says_so(name, start):
    """The oracle is pyarrow for types whose headers tell of nulls; for the others nothing is said."""
    array = arrow_cases.ARRAYS[name].slice(start)
    ours = bridge.from_pyarrow(array)
    field = batch_of(ours).schema.fields[0]
    if refusal_of(field, asked_of(field, DEFAULT), DEFAULT) is UNKNOWN:
        assert name in {"null", "map", "date64", "duration[ms]"} or "decimal" in name
        return
    made = converted(ours)
    if isinstance(field.type, t.Dictionary | t.RunEndEncoded):
        assert made.is_null().to_pylist() == [value is None for value in array.to_pylist()]
    elif not isinstance(field.type, t.SparseUnion | t.DenseUnion):
        assert made.is_null().to_pylist() == array.is_null().to_pylist()
    if has_bounds(field.type):
        assert made.null_count == summarise(ours).null_count
