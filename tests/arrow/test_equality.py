"""Words and bits of slots; differences in words are tested in test_equality_differences."""

import numpy as np
import pytest

from spark_arrow_ipc.arrow import Array, equality
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import from_pylist


@pytest.mark.parametrize("nbytes", [1, 7, 8, 9, 40])
def test_words_are_those_bytes_and_none_behind(nbytes):
    """Also of the last bytes of a region, and of regions that are shorter than a word."""
    region = np.arange(1, nbytes + 1, dtype=np.uint8)
    for start in range(nbytes):
        for size in range(1, nbytes - start + 1):
            expected = int.from_bytes(bytes(region[start : start + min(size, 8)]), "little")
            assert expected == equality.words_at(region, np.array([start]), np.array([size]))[0]


NANS = memoryview(np.array([0x7FC00000, 0x7FC00001], np.uint32).tobytes())
WITH_NANS = Array(t.float32, 2, 0, (None, NANS))
ROWS = [
    ("floats", WITH_NANS),
    ("a child", Array(t.struct([("x", t.float32)]), 2, 0, (None,), (WITH_NANS,))),
    (
        "a dictionary",
        Array(t.dictionary(t.int8, t.float32), 2, 0, (None, memoryview(b"\0\1")), (), WITH_NANS),
    ),
]


@pytest.mark.parametrize("array", [row[1] for row in ROWS], ids=[row[0] for row in ROWS])
def test_only_bits_tell_nans_apart(array):
    first, second = np.array([0]), np.array([1])
    assert not equality.differ(array, first, array, second)[0]
    assert equality.differ(equality.as_bits(array), first, equality.as_bits(array), second)[0]


@pytest.mark.parametrize("size", [0, 1, 8, 63, 64, 65, 71, 72, 200])
def test_strings_differ_in_any_byte(size):
    base = bytes(range(size))
    others = [base[:i] + b"\xff" + base[i + 1 :] for i in range(size)] + [base + b"\0"]
    array = from_pylist.array([base, base, *others], t.binary)
    slots = np.arange(1, array.length)
    found = equality.differ(array, np.zeros_like(slots), array, slots)
    assert [False] + [True] * len(others) == found.tolist()
