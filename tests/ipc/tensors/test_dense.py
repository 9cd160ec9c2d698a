"""A dense tensor is a numpy array with names."""

import itertools

import numpy as np
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.ipc.tensors.dense import ascends, check_inside, integer_type, narrow_integers, view_with_strides


def test_a_tensor_says_what_it_is():
    tensor = ipc.Tensor(np.zeros((2, 3), np.float32), ("row", ""))
    assert "<Tensor of float32, [2 (row), 3]>" == repr(tensor)
    assert (t.float32, (2, 3), (12, 4)) == (tensor.type, tensor.shape, tensor.strides)


def test_the_callers_array_stays_writable():
    array = np.zeros(3)
    assert not ipc.Tensor(array).to_numpy().flags.writeable
    array[0] = 1
    assert array.flags.writeable


TYPES = [("i1", t.int8), ("u1", t.uint8), ("i2", t.int16), ("u2", t.uint16), ("i4", t.int32), ("u4", t.uint32),
         ("i8", t.int64), ("u8", t.uint64), ("f2", t.float16), ("f4", t.float32), ("f8", t.float64), ("?", t.uint8),
         (">f8", t.float64)]  # fmt: skip


@pytest.mark.parametrize(("dtype", "expected"), TYPES, ids=[case[0] for case in TYPES])
def test_types_of_values(dtype, expected):
    assert expected == ipc.Tensor(np.zeros(1, dtype)).type


@pytest.mark.parametrize("dtype", ["U1", "S1", "c8", "M8[D]", "O", "f4,i4", np.longdouble])
def test_other_types_are_refused(dtype):
    with pytest.raises(TypeError, match="an integer or floating-point type"):
        ipc.Tensor(np.zeros(1, dtype))


VIEWS = [
    ("by rows", (2, 3), (3, 1), [[0, 1, 2], [3, 4, 5]]),
    ("by columns", (2, 3), (1, 2), [[0, 2, 4], [1, 3, 5]]),
    ("one value over again", (2, 2), (0, 0), [[0, 0], [0, 0]]),
    ("overlapping", (3, 2), (1, 1), [[0, 1], [1, 2], [2, 3]]),
    ("a stride that nobody takes", (1, 2), (1 << 62, 1), [[0, 1]]),
    ("no dimension", (), (), 0),
    ("no cell", (2, 0), (1 << 62, 1 << 62), [[], []]),
]


@pytest.mark.parametrize(
    ("shape", "strides", "expected"), [case[1:] for case in VIEWS], ids=[case[0] for case in VIEWS]
)
def test_strides(shape, strides, expected):
    view = view_with_strides(memoryview(bytes(range(6))), t.uint8, shape, strides)
    assert (shape, expected) == (view.shape, view.tolist())


@pytest.mark.parametrize("dimensions", [0, 1, 2, 3])
def test_rows_ascend_as_python_sorts_them(dimensions):
    cells = list(itertools.product(range(2), repeat=dimensions))
    for rows in itertools.product(cells, repeat=3):
        expected = list(rows) == sorted(set(rows))
        assert expected == ascends(np.array(rows, int).reshape(3, dimensions)), rows


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8"])
def test_types_of_indices(dtype):
    array = np.zeros((2, 1), dtype)
    check_inside("a", array, (1,))
    assert integer_type(array) == t.Int(8 * array.itemsize, dtype[0] == "i")
    assert array.dtype == narrow_integers(array.astype(np.int64), integer_type(array)).dtype


def test_an_empty_index_is_inside_of_everything():
    check_inside("a", np.zeros((0, 2), int), (0, 0))
    assert ascends(np.zeros((0, 2), int))
