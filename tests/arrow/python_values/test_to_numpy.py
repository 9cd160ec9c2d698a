"""Arrays as numpy arrays: dtypes and values."""

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

from arrow_from_pyarrow import from_pyarrow  # noqa: E402
from pylist_cases import CASES, case_id  # noqa: E402

from spark_arrow_ipc.arrow import types as t  # noqa: E402
from spark_arrow_ipc.arrow.python_values import from_pylist  # noqa: E402

S, MS, US, NS = t.TimeUnit

NUMPY = [
    (t.bool_, [True, False, True], np.array([True, False, True])),
    (t.int8, [1, -2, 3], np.array([1, -2, 3], np.int8)),
    (t.uint64, [1, 2, 2**64 - 1], np.array([1, 2, 2**64 - 1], np.uint64)),
    (t.float16, [1.5, 2.0, -0.0], np.array([1.5, 2.0, -0.0], np.float16)),
    (t.date32, [0, 1, -1], np.array([0, 1, -1], "M8[D]")),
    (t.date64, [0, 1, -1], np.array([0, 1, -1], "M8[ms]")),
    (t.Time(MS, 32), [0, 1, 2], np.array([0, 1, 2], "m8[ms]")),
    (t.Time(NS, 64), [0, 1, 2], np.array([0, 1, 2], "m8[ns]")),
    (t.Timestamp(NS, "UTC"), [0, 1, -2], np.array([0, 1, -2], "M8[ns]")),
    (t.Duration(S), [0, 1, -2], np.array([0, 1, -2], "m8[s]")),
    (t.IntervalYearMonth(), [0, 1, -2], np.array([0, 1, -2], np.int32)),
    (t.utf8, ["a", "b", "c"], np.array(["a", "b", "c"], object)),
    (t.int8, [1, None, 3], np.array([1, None, 3], object)),
]


@pytest.mark.parametrize(("type_", "values", "expected"), NUMPY, ids=[str(case[0]) for case in NUMPY])
def test_to_numpy(type_, values, expected):
    array = from_pylist.array(values, type_)
    for given, wanted in [(array, expected), (array.slice(1), expected[1:]), (array.slice(1, 0), expected[:0])]:
        actual = given.to_numpy()
        if None not in values:
            assert wanted.dtype == actual.dtype
        np.testing.assert_array_equal(wanted, actual)


def _has_a_numpy_type(type_):
    # pyarrow gives times and intervals as objects.
    return pa.types.is_primitive(type_) and not pa.types.is_time(type_) and not pa.types.is_interval(type_)


@pytest.mark.parametrize(("type_", "values"), [case for case in CASES if _has_a_numpy_type(case[0])], ids=case_id)
def test_to_numpy_agrees_with_pyarrow_on_values(type_, values):
    expected = pa.array([value for value in values if value is not None], type_)
    np.testing.assert_array_equal(expected.to_numpy(zero_copy_only=False), from_pyarrow(expected).to_numpy())


def test_lists_of_equal_length_become_objects():
    values = from_pylist.array([[1, 2], [3, 4]], t.list_(t.int8)).to_numpy()
    assert [(2,), [1, 2]] == [values.shape, values[0]]
