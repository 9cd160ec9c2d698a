"""Lists of numbers become binary values in the memory of their numbers; numpy is the oracle."""

import numpy as np
import pyarrow as pa
import pytest
from convert_batches import converted, option

from spark_arrow_ipc.errors import SchemaMismatchError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.options.values import Vectors

BINARY = option(vectors=Vectors.BINARY)
VALUES = [[1, 2], None, [3, 4], [5, 6]]
LISTS = [pa.list_, pa.large_list, lambda item: pa.list_(item, 2)]


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u8", "f2", "f4", "f8"])
@pytest.mark.parametrize("make", LISTS, ids=["list", "large", "fixed"])
@pytest.mark.parametrize("start", [0, 1, 2])
def test_the_bytes_are_those_of_the_numbers(dtype, make, start):
    item = pa.from_numpy_dtype(np.dtype(dtype))
    array = pa.array(VALUES, make(item)).slice(start)
    wanted = [None if value is None else np.array(value, dtype).tobytes() for value in VALUES[start:]]
    assert wanted == converted(array, BINARY).to_pylist()


def test_the_numbers_are_not_copied():
    array = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float64()))
    made = converted(bridge.from_pyarrow(array), BINARY)
    assert array.values.buffers()[1].address == made.buffers()[2].address


@pytest.mark.parametrize("make", LISTS, ids=["list", "large", "fixed"])
def test_a_null_number_is_an_error_unless_its_row_is_null(make):
    numbers = pa.array([1, None, 3, 4], pa.int32())
    row = pa.array([[0, 0], [0, 0]], make(pa.int32()))
    buffers = row.buffers()[:2] if len(row.buffers()) > 3 else row.buffers()[:1]
    whole = pa.Array.from_buffers(row.type, 2, buffers, children=[numbers])
    with pytest.raises(SchemaMismatchError, match="field c: the vector in slot 0 has a null among its numbers"):
        converted(whole, BINARY)
    hidden = pa.Array.from_buffers(row.type, 2, [pa.py_buffer(b"\x02"), *buffers[1:]], children=[numbers])
    assert [None, np.array([3, 4], np.int32).tobytes()] == converted(hidden, BINARY).to_pylist()


@pytest.mark.parametrize("make", LISTS, ids=["list", "large", "fixed"])
def test_no_rows(make):
    assert [] == converted(pa.array([], make(pa.int32())), BINARY).to_pylist()
