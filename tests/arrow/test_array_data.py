"""Slices share memory and keep count of nulls as far as they are known."""

import dataclasses

import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.array_data import NOT_COUNTED
from spark_arrow_ipc.arrow.python_values import from_pylist

NULLS = from_pylist.array([1, None, 3, None, 5], t.int8)
VALUES = from_pylist.array([1, 2, 3], t.int8)
NOTHING = from_pylist.array([None] * 3, t.null)

SLICES = [
    ("of an array with nulls", NULLS, NOT_COUNTED, 1),
    ("of an array without nulls", VALUES, 0, 0),
    ("of nulls alone", NOTHING, 2, 2),
]


@pytest.mark.parametrize(("array", "kept", "counted"), [c[1:] for c in SLICES], ids=[c[0] for c in SLICES])
def test_a_slice_counts_its_nulls_when_asked(array, kept, counted):
    part = array.slice(1, 2)
    assert (kept, counted) == (part.null_count, part.count_nulls())


def test_slices_share_memory_and_add_up():
    part = NULLS.slice(1).slice(1, 2)
    assert (2, 2) == (part.offset, part.length)
    assert part.buffers is NULLS.buffers
    assert NULLS.slice(0, 5) is NULLS
    assert [3, None] == part.to_pylist()


@pytest.mark.parametrize(("offset", "length"), [(-1, 1), (0, 6), (5, 1), (1, -1), (6, None)])
def test_a_slice_outside_is_an_error(offset, length):
    with pytest.raises(IndexError, match="expected slots within 0 to 5"):
        NULLS.slice(offset, length)


def test_only_types_with_a_bitmap_have_validity():
    assert NULLS.validity is NULLS.buffers[0]
    assert VALUES.validity is None
    union = from_pylist.array([1], t.SparseUnion((t.Field("x", t.int8),), (0,)))
    assert union.validity is None


def test_an_array_replaced_is_an_array():
    shorter = dataclasses.replace(VALUES, length=1)
    assert type(shorter) is Array
    assert 1 == len(shorter)
    assert "<Array int8, 5 slots, 2 null>" == repr(NULLS)
