"""The checks of indices: what is sorted, what is inside. `test_sparse.py` has those that tensors refuse."""

import itertools

import numpy as np
import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.ipc.tensors.index_checks import ascends, check_inside, integer_type, narrowed


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
    assert array.dtype == narrowed(array.astype(np.int64), integer_type(array)).dtype


def test_an_empty_index_is_inside_of_everything():
    check_inside("a", np.zeros((0, 2), int), (0, 0))
    assert ascends(np.zeros((0, 2), int))
