"""Arrays and scalars of ours are those that pyarrow makes of the same values."""

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from spark_arrow_ipc.spark import bridge

# (Values, their type.)
VALUES = [
    ([1, None, -(2**63)], pa.int64()),
    ([1, None, 2**31 - 1], pa.int32()),
    ([True, None, False], pa.bool_()),
    ([1.5, None, float("inf")], pa.float64()),
    ([0.1, None], pa.float32()),
    (["x", None, "é", ""], pa.string()),
    ([b"x", None, b"\xff"], pa.binary()),
    ([Decimal("1.50"), None], pa.decimal128(10, 2)),
    ([date(2022, 1, 8), None], pa.date32()),
    ([datetime(2001, 9, 9, 1, 46, 40, 7, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
    ([datetime(2001, 9, 9), None], pa.timestamp("us")),
    ([None, None], pa.int64()),
    ([], pa.string()),
]


@pytest.mark.parametrize(("values", "type_"), VALUES)
def test_python_values_are_as_pyarrow_has_them(values, type_):
    made = bridge.array(values, type_)
    made.validate(full=True)
    assert made.equals(pa.array(values, type_))
    assert [bridge.scalar(value, type_) for value in values] == [pa.scalar(value, type_) for value in values]


# (Values, which are null.)
ARRAYS = [
    (np.array([1, 2, 3]), None),
    (np.array([1, 2, 3], np.int8), np.array([True, False, True])),
    (np.array([1.5, np.nan], np.float32), np.array([False, True])),
    (np.array([True, False] * 5), None),
    (np.array([True, False] * 5), np.array([False, True] * 5)),
    (np.arange(20)[::3], None),
    (np.arange(20)[::3], np.arange(7) % 2 == 1),
    (np.zeros(0, np.int64), None),
    (np.zeros(0, np.bool_), np.zeros(0, np.bool_)),
]


@pytest.mark.parametrize(("values", "nulls"), ARRAYS)
def test_numpy_arrays_are_as_pyarrow_has_them(values, nulls):
    made = bridge.numbers(values, nulls)
    made.validate(full=True)
    assert made.equals(pa.array(values, mask=nulls))


def test_numbers_in_one_piece_are_not_copied():
    values = np.arange(100)
    assert bridge.numbers(values).buffers()[1].address == values.ctypes.data
