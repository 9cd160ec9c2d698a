"""Duplicate and null keys of maps."""

import datetime as dt
import math

import numpy as np
import pyarrow as pa
import pytest
from convert_batches import DEFAULT, MAP, NAN, D, converted

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.errors import InvalidBodyError, SchemaMismatchError
from spark_arrow_ipc.spark import bridge

VALUE_ERRORS = {
    "a key twice": (pa.array([[("a", 1)], [("b", 1), ("a", 2), ("b", 3)]], MAP), DEFAULT, SchemaMismatchError, "field c: a map holds the key 'b' twice (slot 1)"),
    "zeros": (pa.array([[(0.0, 1), (-0.0, 1)]], pa.map_(pa.float64(), pa.int8())), DEFAULT, SchemaMismatchError, "twice (slot 0)"),
    "NaNs": (pa.array([[(NAN, 1), (NAN, 1)]], pa.map_(pa.float32(), pa.int8())), DEFAULT, SchemaMismatchError, "the key nan twice"),
    "signalling NaNs": (pa.MapArray.from_arrays([0, 2], pa.array([0x7F800001, 0xFF800001], pa.uint32()).view(pa.float32()), pa.array([1, 2])), DEFAULT, SchemaMismatchError, "the key nan twice"),
    "decimal keys": (pa.array([[(D(1), 1), (D(1), 1)]], pa.map_(pa.decimal128(5, 0), pa.int8())), DEFAULT, SchemaMismatchError, "twice"),
    "structs as keys": (pa.array([[({"x": NAN}, 1), ({"x": NAN}, 1)]], pa.map_(pa.struct([("x", pa.float64())]), pa.int8())), DEFAULT, SchemaMismatchError, "twice"),
    "lists as keys": (pa.array([[([1], 1), ([2], 1), ([1], 1)]], pa.map_(pa.list_(pa.int8()), pa.int8())), DEFAULT, SchemaMismatchError, "the key [1] twice"),
}  # fmt: skip


@pytest.mark.parametrize("case", VALUE_ERRORS)
def test_a_value_that_spark_cannot_hold_is_a_named_error(case):
    array, options, error, expected = VALUE_ERRORS[case]
    with pytest.raises(error) as caught:
        converted(array, options)
    assert expected in str(caught.value)


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
    assert repr(fine.to_pylist()) == repr(converted(fine).to_pylist())
    twice = pa.array([entries, [*entries, (keys[-1], 99)]], map_type)
    with pytest.raises(SchemaMismatchError, match=r"twice \(slot 1\)"):
        converted(twice)


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
        converted(NULL_KEYS[case])


def test_null_keys_and_keys_that_are_twice_under_a_null_map_are_no_error():
    array = map_of(pa.array(["a", "b", None, "x", "x"]), [2, 3], validity=FIRST_ONLY)
    assert [[("a", "a"), ("b", "b")], None] == converted(array).to_pylist()
