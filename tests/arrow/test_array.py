"""Arrays give their values as Python and numpy objects; slices and replacements stay arrays."""

import numpy as np

from spark_arrow_ipc.arrow import Array
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import from_pylist

NULLS = from_pylist.array([1, None, 3], t.int8)
LISTS = from_pylist.array([[1, 2], None, [3]], t.list_(t.int16))


def test_values_are_those_of_the_slots_in_use():
    assert [1, None, 3] == NULLS.to_pylist()
    assert [None, 3] == NULLS.slice(1).to_pylist()
    assert [[3]] == LISTS.slice(2).to_pylist()


def test_numpy_values_without_nulls_are_a_view():
    array = from_pylist.array([1, 2, 3], t.int32)
    values = array.slice(1).to_numpy()
    assert [2, 3] == values.tolist()
    assert np.shares_memory(values, np.frombuffer(array.buffers[1], np.uint8))


def test_numpy_values_with_nulls_are_python_objects():
    values = NULLS.to_numpy()
    assert (np.dtype(object), [1, None, 3]) == (values.dtype, values.tolist())


def test_slices_and_children_are_arrays():
    assert {Array} == {type(LISTS), type(LISTS.slice(1)), type(LISTS.children[0])}


def test_arrays_are_compared_by_identity():
    assert NULLS == NULLS
    assert NULLS != from_pylist.array([1, None, 3], t.int8)
    assert "<Array list<item: int16>, 3 slots, 1 null>" == repr(LISTS)
