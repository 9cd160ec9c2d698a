"""What lies under a null does not leave this process."""

import numpy as np
import pytest

from spark_arrow_ipc.arrow import equality
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.ipc.columns.encode import zero_nulls

VALID_0_AND_2 = memoryview(bytes([0b101]))


def ints(dtype, *values):
    return memoryview(np.array(values, dtype).tobytes())


UTF8 = (VALID_0_AND_2, ints(np.int32, 0, 2, 5, 6), memoryview(b"ab\xff\xfe\xfdc"))
CASES = [
    # name, type, buffers with leftovers in slot 1, the same without, values
    ("int64", t.int64, (VALID_0_AND_2, ints(np.int64, 1, 99, 3)), (VALID_0_AND_2, ints(np.int64, 1, 0, 3)), [1, None, 3]),
    ("int8", t.int8, (VALID_0_AND_2, ints(np.int8, 1, 99, 3)), (VALID_0_AND_2, ints(np.int8, 1, 0, 3)), [1, None, 3]),
    ("bool", t.bool_, (VALID_0_AND_2, memoryview(b"\x07")), (VALID_0_AND_2, memoryview(b"\x05")), [True, None, True]),
    ("three bytes", t.FixedSizeBinary(3), (VALID_0_AND_2, memoryview(b"abcxyzdef")), (VALID_0_AND_2, memoryview(b"abc\0\0\0def")), [b"abc", None, b"def"]),
    ("utf8", t.utf8, UTF8, (VALID_0_AND_2, ints(np.int32, 0, 2, 2, 3), memoryview(b"abc")), ["ab", None, "c"]),
    ("view", t.utf8_view, (VALID_0_AND_2, memoryview(b"\1\0\0\0a" + bytes(11) + b"\xff" * 16 + b"\1\0\0\0c" + bytes(11))), (VALID_0_AND_2, memoryview(b"\1\0\0\0a" + bytes(11) + bytes(16) + b"\1\0\0\0c" + bytes(11))), ["a", None, "c"]),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "dirty", "clean", "values"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_leftovers_become_zero_and_values_stay(type_, dirty, clean, values):
    made = zero_nulls(Array(type_, 3, 1, dirty))
    assert [bytes(buffer) for buffer in clean] == [bytes(buffer) for buffer in made.buffers]
    assert values == made.to_pylist()


@pytest.mark.parametrize(("type_", "dirty", "clean", "values"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_what_is_clean_is_not_copied(type_, dirty, clean, values):
    before = Array(type_, 3, 1, clean)
    made = zero_nulls(before)
    assert equality.difference(before, made) is None
    assert type_ == t.bool_ or all(a is b for a, b in zip(before.buffers, made.buffers, strict=True))


def test_without_nulls_nothing_is_looked_at():
    array = from_pylist.array([1, 2], t.int64)
    assert array is zero_nulls(array)
