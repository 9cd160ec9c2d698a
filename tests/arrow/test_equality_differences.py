"""Logical equality: what lies elsewhere, under nulls or in another encoding does not count, every value does."""

import struct
from dataclasses import replace

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
from arrow_cases import ARRAYS, SLICES
from arrow_from_pyarrow import batch_from_pyarrow, from_pyarrow
from batch_difference import batch_difference

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.equality import difference
from spark_arrow_ipc.arrow.kernels.compact import compact
from spark_arrow_ipc.arrow.kernels.concat import concat
from spark_arrow_ipc.arrow.python_values import from_pylist


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("offset", "length"), SLICES)
@pytest.mark.parametrize("name", ARRAYS)
def test_a_slice_equals_its_compact_copy(name, offset, length):
    array = from_pyarrow(ARRAYS[name]).slice(offset, length)
    assert difference(array, compact(array)) is None


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("name", ARRAYS)
def test_values_that_pyarrow_tells_apart_differ(name):
    """Slot i against slot j: a difference is found exactly where the Python values differ."""
    array, values = from_pyarrow(ARRAYS[name]), ARRAYS[name].to_pylist()
    for i in range(11):
        for j in range(11):
            found = difference(array.slice(i, 1), array.slice(j, 1))
            if values[i] is None and values[j] is None and "union" in name:
                continue  # nulls of two children: a test of its own
            assert (values[i] == values[j]) == (found is None), (values[i], values[j])


def test_nulls_of_two_children_of_a_union_differ():
    """As in pyarrow: a union's slot is its type id and its value."""
    union = from_pyarrow(ARRAYS["dense_union"])
    assert difference(union.slice(2, 1), union.slice(2, 1)) is None
    assert difference(union.slice(2, 1), union.slice(5, 1)) == "slot 0 differs, though both read None"


@pytest.mark.parametrize("name", [n for n in ARRAYS if n != "null"])
def test_the_slot_is_named(name):
    array, values = from_pyarrow(ARRAYS[name]), ARRAYS[name].to_pylist()
    other = next((k for k, value in enumerate(values) if value != values[6]), None)
    if other is None:
        return
    changed = concat([array.slice(0, 6), array.slice(other, 1), array.slice(7)])
    assert difference(array, changed, "a.b").startswith("a.b: slot 6 is ")


def _float(*values):
    return from_pylist.array(list(values), t.float64)


NAN_2 = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]

EQUAL = [
    ("nan", _float(1.0, float("nan")), _float(1.0, float("nan"))),
    ("another nan", _float(float("nan")), _float(NAN_2)),
    ("what lies under nulls", replace(from_pylist.array([1, None], t.int8), buffers=(b"\x01", memoryview(b"\x01\x07"))), from_pylist.array([1, None], t.int8)),
    ("nulls not counted", replace(from_pylist.array([1, None], t.int8), null_count=-1), from_pylist.array([1, None], t.int8)),
    ("dictionaries in another order", from_pyarrow(pa.DictionaryArray.from_arrays([0, 1], ["a", "b"])), from_pyarrow(pa.DictionaryArray.from_arrays([1, 0], ["b", "a"]))),
    ("a null in the dictionary", from_pyarrow(pa.DictionaryArray.from_arrays([0, 1], ["a", None])), from_pyarrow(pa.DictionaryArray.from_arrays(pa.array([0, None]), ["a", "b"]))),
    ("runs cut otherwise", from_pyarrow(pa.RunEndEncodedArray.from_arrays(pa.array([1, 3]), pa.array([7, 7]))), from_pyarrow(pa.RunEndEncodedArray.from_arrays(pa.array([3]), pa.array([7])))),
    ("empty", from_pylist.array([], t.utf8), from_pylist.array([], t.utf8)),
]  # fmt: skip

DIFFERENT = [
    ("signed zeros", _float(0.0), _float(-0.0), "slot 0 is 0.0 and -0.0"),
    ("null and value", from_pylist.array([1, None], t.int8), from_pylist.array([1, 0], t.int8), "slot 1 is None and 0"),
    ("lengths", from_pylist.array([1], t.int8), from_pylist.array([1, 2], t.int8), "there are 1 and 2 slots"),
    ("types", from_pylist.array([1], t.int8), from_pylist.array([1], t.int16), "the types are int8 and int16"),
    ("a prefix", from_pylist.array(["ab"], t.utf8), from_pylist.array(["abc"], t.utf8), "slot 0 is 'ab' and 'abc'"),
    ("list sizes", from_pylist.array([[1], [2, 3]], t.list_(t.int8)), from_pylist.array([[1, 2], [3]], t.list_(t.int8)), "slot 0 is [1] and [1, 2]"),
    ("null and empty list", from_pylist.array([None], t.list_(t.int8)), from_pylist.array([[]], t.list_(t.int8)), "slot 0 is None and []"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), [c[1:] for c in EQUAL], ids=[c[0] for c in EQUAL])
def test_equal(a, b):
    assert difference(a, b) is None
    assert difference(b, a) is None


@pytest.mark.parametrize(("a", "b", "expected"), [c[1:] for c in DIFFERENT], ids=[c[0] for c in DIFFERENT])
def test_different(a, b, expected):
    assert expected == difference(a, b)
    assert f"col: {expected}" == difference(a, b, "col")
    assert difference(b, a) is not None


ALIKE = [
    ("utf8", ["large_utf8", "utf8_view", "dictionary"]),
    ("binary", ["large_binary", "binary_view"]),
    ("list", ["large_list"]),
    ("run_end_int16", ["run_end_int64"]),
]


@pytest.mark.parametrize(("name", "other"), [(a, b) for a, others in ALIKE for b in others])
def test_encodings_do_not_count_without_types(name, other):
    a, b = from_pyarrow(ARRAYS[name]), from_pyarrow(ARRAYS[other])
    assert "the types are" in difference(a, b)
    assert difference(a, b, types=False) is None
    assert difference(a.slice(1, 9), b.slice(0, 9), types=False) is not None


def test_types_that_hold_other_values_differ_always():
    a, b = from_pylist.array([1], t.int8), from_pylist.array([1], t.int16)
    assert difference(a, b, types=False) == "the types are int8 and int16"


@pytest.mark.slow
def test_many_slots_are_compared_in_chunks():
    values = [str(i) * (i % 9) for i in range(200_000)]
    a = from_pylist.array(values, t.utf8)
    b = from_pylist.array([*values[:150_001], "other", *values[150_002:]], t.utf8)
    assert difference(a, a) is None
    assert difference(a, b).startswith("slot 150001 is ")


def test_long_values_are_cut_in_the_sentence():
    assert len(difference(from_pylist.array(["x" * 1000], t.utf8), from_pylist.array(["y"], t.utf8))) < 300


BATCHES = [
    ("equal", {"a": [1], "b": ["x"]}, None),
    ("names", {"a": [1], "c": ["x"]}, "the columns are a, b and a, c"),
    ("rows", {"a": [1, 2], "b": ["x", "y"]}, "there are 1 and 2 rows"),
    ("values", {"a": [1], "b": ["y"]}, "b: slot 0 is 'x' and 'y'"),
]


@pytest.mark.parametrize(("columns", "expected"), [c[1:] for c in BATCHES], ids=[c[0] for c in BATCHES])
def test_batches(columns, expected):
    a, b = (batch_from_pyarrow(pa.RecordBatch.from_pydict(c)) for c in ({"a": [1], "b": ["x"]}, columns))
    assert expected == batch_difference(a, b)
