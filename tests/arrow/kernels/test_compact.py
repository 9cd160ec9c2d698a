"""Compact slices hold the same slots in no more memory."""

import pytest

pytest.importorskip("pyarrow")

import numpy as np
import pyarrow as pa
from arrow_cases import ARRAYS, SLICES
from arrow_from_pyarrow import from_pyarrow, to_pyarrow

from spark_arrow_ipc.arrow.kernels.compact import compact, mask_array
from spark_arrow_ipc.arrow.layout import LAYOUTS, Role
from spark_arrow_ipc.arrow.validate import arrays as validate


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("offset", "length"), SLICES)
@pytest.mark.parametrize("name", ARRAYS)
def test_a_compact_slice_is_what_pyarrow_slices(name, offset, length):
    expected = ARRAYS[name].slice(offset, length)
    compacted = compact(from_pyarrow(ARRAYS[name]).slice(offset, length))
    validate.check(compacted, name)
    assert compacted.offset == 0
    assert expected.to_pylist() == compacted.to_pylist()
    actual = to_pyarrow(compacted)
    actual.validate(full=True)
    assert expected.to_pylist() == actual.to_pylist()


@pytest.mark.parametrize("name", ARRAYS)
def test_masked_slots_are_null(name):
    array = ARRAYS[name].slice(1, 7)
    mask = [i % 3 > 0 for i in range(len(array))]
    made = mask_array(from_pyarrow(ARRAYS[name]).slice(1, 7), np.array(mask))
    validate.check(made, name)
    has_bitmap = any(row.role is Role.VALIDITY for row in LAYOUTS[type(made.type)].buffers)
    expected = [v if shown or not has_bitmap else None for v, shown in zip(array.to_pylist(), mask, strict=True)]
    assert expected == made.to_pylist()


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_that_pyarrow_sliced_is_compacted_from_its_own_offset(name):
    compacted = compact(from_pyarrow(ARRAYS[name].slice(2, 8)).slice(1, 6))
    assert ARRAYS[name].slice(3, 6).to_pylist() == compacted.to_pylist()


def test_buffers_and_children_end_with_the_slice():
    array = from_pyarrow(pa.array([["a" * 100, "b"], ["cc"], ["d", "e" * 100]]))
    compacted = compact(array.slice(1, 1))
    (child,) = compacted.children
    assert [None, 8] == [b and b.nbytes for b in compacted.buffers]
    assert [None, 8, 2] == [b and b.nbytes for b in child.buffers]
    assert child.length == 1


def test_whole_arrays_share_their_memory():
    buffer = memoryview(bytearray(64))
    array = from_pyarrow(pa.array(range(8)))
    array = type(array)(array.type, 8, 0, (None, buffer))
    buffer[0] = 7
    assert compact(array.slice(0, 4)).to_pylist() == [7, 0, 0, 0]
    buffer[8] = 9
    assert compact(array.slice(1, 4)).to_pylist() == [9, 0, 0, 0]


@pytest.mark.parametrize("type_", [pa.string_view(), pa.binary_view()], ids=str)
def test_variadic_buffers_are_cut_when_a_slice_uses_little_of_them(type_):
    values = [f"{i:040d}".encode() for i in range(1000)]
    array = from_pyarrow(pa.array(values, pa.binary()).cast(type_))
    assert compact(array).buffers[2:] == array.buffers[2:]
    compacted = compact(array.slice(500, 3))
    assert sum(buffer.nbytes for buffer in compacted.buffers[2:]) == 120
    validate.check(compacted, "f")
    assert array.slice(500, 3).to_pylist() == compacted.to_pylist()


def test_every_role_has_a_cut():
    from spark_arrow_ipc.arrow.kernels import compact, concat

    roles = {row.role for layout in LAYOUTS.values() for row in layout.buffers} - {Role.VARIADIC}
    assert roles == set(compact._BUFFERS) == set(concat._BUFFERS)
