"""Bytes that ranges of slots take, and values that they stand for, told without a copy."""

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
from arrow_cases import ARRAYS, SLICES
from arrow_from_pyarrow import from_pyarrow

from spark_arrow_ipc.arrow import Array, Field, measure
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.kernels import slice as slicing
from spark_arrow_ipc.arrow.kernels.compact import compact
from spark_arrow_ipc.errors import InvalidBodyError, LimitError


def _bytes_held(array):
    own = sum(b.nbytes for b in array.buffers if b is not None)
    return own + sum(map(_bytes_held, array.children))


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("offset", "length"), SLICES)
@pytest.mark.parametrize("name", [n for n in ARRAYS if n not in ("list_view", "large_list_view")])
def test_nbytes_is_what_a_compact_copy_holds(name, offset, length):
    """Bitmaps are rounded up, value offsets are one more than slots, and a bitmap without nulls is left out."""
    array = from_pyarrow(ARRAYS[name]).slice(offset, length)
    assert abs(slicing.nbytes(array) - _bytes_held(compact(array))) <= 40


# ---- values


def values_in(value):
    """Count a Python value and all inside it, as pyarrow makes them."""
    if isinstance(value, dict):
        return 1 + sum(map(values_in, value.values()))
    if isinstance(value, list | tuple):
        return 1 + sum(map(values_in, value))
    return 1


PLAIN = [
    "list",
    "large_list",
    "list_view",
    "large_list_view",
    "struct",
    "dictionary",
    "run_end_encoded",
    "int32",
    "null",
]


@pytest.mark.parametrize("name", [name for name in PLAIN if name in ARRAYS])
def test_values_are_those_that_pyarrow_makes(name):
    """Of an array without nulls: what lies under a null list or struct counts too, and is not made."""
    whole = ARRAYS[name]
    array = whole.filter(whole.is_valid()) if whole.type != pa.null() else whole
    made = sum(map(values_in, array.to_pylist()))
    assert made <= measure.count_decoded(from_pyarrow(array))
    assert measure.count_decoded(from_pyarrow(array)) <= 2 * made + 10


MANY = 2**31 - 1


def int32s(*values):
    return np.array(values, np.int32).view(np.uint8).data


def one_run(length):
    ends = Array(t.int32, 1, 0, (None, int32s(length)))
    return Array(
        t.run_end_encoded(t.int32, t.int8), length, 0, (), (ends, Array(t.int8, 1, 0, (None, memoryview(b"x"))))
    )


def nulls(length):
    return Array(t.null, length, length, ())


def list_over(child):
    return Array(t.list_(child.type), 1, 0, (None, int32s(0, child.length)), (child,))


def list_views(levels, each=100):
    array = Array(t.int8, each, 0, (None, memoryview(bytes(each))))
    for level in range(levels):
        length = 1 if level == levels - 1 else each
        buffers = (None, int32s(*[0] * length), int32s(*[each] * length))
        array = Array(t.ListView(Field("item", array.type)), length, 0, buffers, (array,))
    return array


def dictionary_of(values, *indices):
    return Array(t.dictionary(t.int32, values.type), len(indices), 0, (None, int32s(*indices)), (), values)


EXPANDED = {
    "a list over a run": (list_over(one_run(MANY)), 2**31),
    "a list of nulls": (list_over(nulls(MANY)), 2**31),
    "a run": (one_run(MANY), MANY),
    "nulls": (nulls(MANY), MANY),
    "lists of width 0": (
        list_over(Array(t.FixedSizeList(Field("i", t.int8), 0), MANY, 0, (None,), (nulls(0),))),
        2**31,
    ),
    "a wide list": (Array(t.FixedSizeList(Field("i", t.null), MANY), 1, 0, (None,), (nulls(MANY),)), 2**31),
    "a dictionary value of many": (dictionary_of(list_over(nulls(10**6)), *[0] * 1000), 1000 * (10**6 + 1)),
    "list-views of list-views": (list_views(5), 1 + 100 + 100**2 + 100**3 + 100**4 + 100**5),
}


@pytest.mark.parametrize("case", EXPANDED)
def test_values_are_counted_before_any_is_made(case):
    array, expected = EXPANDED[case]
    assert expected == measure.count_decoded(array)
    with pytest.raises(LimitError, match=f"stands for {expected:,} values"):
        measure.check_expansion(array)
    with pytest.raises(LimitError):
        array.to_pylist()
    measure.check_expansion(array, expected)


def test_counts_stop_growing_instead_of_overflowing():
    deep = list_views(40)
    assert measure.MOST // 200 < measure.count_decoded(deep) <= measure.MOST
    with pytest.raises(LimitError):
        deep.to_pylist()
    wide = Array(t.struct([(f"f{i}", deep.type) for i in range(9)]), 1, 0, (None,), (deep,) * 9)
    assert 0 < measure.count_decoded(wide) <= measure.MOST


def test_only_values_in_use_are_measured():
    """A dictionary of billions of nulls takes no memory, and measuring it takes none either."""
    assert 3 == measure.count_decoded(dictionary_of(nulls(MANY), 0, 5, MANY - 1))
    assert [None] * 3 == dictionary_of(nulls(MANY), 0, 5, MANY - 1).to_pylist()


def test_an_array_may_always_have_the_values_that_its_bytes_hold():
    bits = Array(t.bool_, 1 << 28, 0, (None, memoryview(bytes(1 << 25))))
    measure.check_expansion(Array(t.list_(t.bool_), 1, 0, (None, int32s(0, 1 << 28)), (bits,)))


def test_offsets_outside_of_an_array_that_was_not_validated_are_a_named_error():
    inner = Array(t.list_(t.int8), 2, 0, (None, int32s(0, 1, 2)), (Array(t.int8, 2, 0, (None, memoryview(b"ab"))),))
    broken = Array(t.list_(inner.type), 1, 0, (None, int32s(0, 1 << 24)), (inner,))
    with pytest.raises(InvalidBodyError, match="inside what they point into"):
        broken.to_pylist()
