"""Binary values become lists of the numbers that they hold; pyarrow reads them."""

import numpy as np
import pyarrow as pa
import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import SchemaMismatchError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.write.dictionaries import TaskDictionaries
from spark_arrow_ipc.spark.write.restore_values import restore

ITEM = t.field("item", t.float32)
TYPES = [t.List(ITEM), t.LargeList(ITEM), t.FixedSizeList(ITEM, 2)]


def restored_vector(array, type_):
    return restore(array, type_, "a", TaskDictionaries())


def restored(type_, *rows):
    made = restored_vector(bridge.from_pyarrow(pa.array(rows, pa.binary())), type_)
    array = bridge.to_pyarrow(made)
    array.validate(full=True)
    return array


def floats(*values):
    return np.array(values, np.float32).tobytes()


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_numbers_come_back(type_):
    assert [[1, 2], None, [3, 4]] == restored(type_, floats(1, 2), None, floats(3, 4)).to_pylist()
    assert [] == restored(type_).to_pylist()
    assert [None, None] == restored(type_, None, None).to_pylist()


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_bytes_under_nulls_do_not_count(type_):
    """A null may have bytes, in any number."""
    hidden = pa.Array.from_buffers(
        pa.binary(), 3, [pa.py_buffer(b"\x05"), pa.py_buffer(np.array([0, 8, 11, 19], np.int32)), pa.py_buffer(floats(1, 2) + b"abc" + floats(3, 4))]
    )  # fmt: skip
    made = bridge.to_pyarrow(restored_vector(bridge.from_pyarrow(hidden), type_))
    made.validate(full=True)
    assert [[1, 2], None, [3, 4]] == made.to_pylist()


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_slices(type_):
    array = pa.array([floats(9, 9), floats(1, 2), floats(3, 4)], pa.binary()).slice(1)
    made = restored_vector(bridge.from_pyarrow(array), type_)
    assert [[1, 2], [3, 4]] == bridge.to_pyarrow(made).to_pylist()


def test_other_lengths_are_named():
    with pytest.raises(SchemaMismatchError, match=r"expected a multiple of 4 bytes.* found 7 in row 1"):
        restored(TYPES[0], floats(1), b"1234567")
    with pytest.raises(SchemaMismatchError, match=r"expected 8 bytes, which .* found 4 in row 1"):
        restored(TYPES[2], floats(1, 2), floats(1))
