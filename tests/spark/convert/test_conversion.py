"""Conversions share memory where layouts agree, and ignore hidden slots."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from convert_batches import DEFAULT, MAP, D, S, converted, ints, option, pieces, wide

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.errors import LimitError
from spark_arrow_ipc.spark.options.values import Times

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
    assert addresses == {b.address for b in converted(SHARED[case]).buffers() if b is not None}


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
    assert expected == converted(array, options).to_pylist()


@pytest.mark.parametrize("case", HIDDEN)
def test_what_lies_under_a_null_struct_is_no_error(case):
    """The child's own validity says that the slot is set: only the parent hides it."""
    array, options, expected = HIDDEN[case]
    child = Array(array.type, array.length, 0, (None, *array.buffers[1:]))
    bits = np.packbits([0, 1], bitorder="little").data
    struct = Array(t.struct([t.Field("x", child.type)]), 2, 1, (bits,), (child,))
    assert [None, {"x": expected[1]}] == converted(struct, options).to_pylist()


@pytest.mark.slow
def test_a_row_beyond_32_bits_is_a_named_error():
    """Made of nothing: a list view of nulls has elements without having memory."""
    nulls = Array(t.null, 2**31, 2**31, ())
    offsets = np.array([0, 2**31], np.int64).view(np.uint8).data
    array = Array(t.LargeList(t.Field("item", t.null)), 1, 0, (None, offsets), (nulls,))
    with pytest.raises(LimitError, match=r"field c: a row has 2,147,483,648 bytes or elements"):
        pieces(array, max_batch_bytes=1 << 40)
