"""Every kind of swap turns another byte order's buffer into this machine's, and back."""

import numpy as np
import pytest

from spark_arrow_ipc.arrow.layout import Swap
from spark_arrow_ipc.ipc.columns.decode import SWAPS, SWAPS_FROM_NATIVE

LONG_VIEW = np.array([13, 0x61626364, 2, 7], ">i4").tobytes()
CASES = [
    ("bytes", Swap.NONE, 8, b"abc", b"abc"),
    ("one byte a unit", Swap.UNIT, 8, b"abc", b"abc"),
    ("int16", Swap.UNIT, 16, b"\1\2\3\4", b"\2\1\4\3"),
    ("int64", Swap.UNIT, 64, bytes(range(8)), bytes(range(8))[::-1]),
    ("decimal256", Swap.UNIT, 256, bytes(range(32)), bytes(range(32))[::-1]),
    ("padding stays", Swap.UNIT, 32, b"\1\2\3\4\0\0", b"\4\3\2\1\0\0"),
    ("day-time", Swap.DAY_TIME, 64, bytes(range(8)), bytes([3, 2, 1, 0, 7, 6, 5, 4])),
    ("month-day-nano", Swap.MONTH_DAY_NANO, 128, bytes(range(16)), bytes([3, 2, 1, 0, 7, 6, 5, 4, *range(15, 7, -1)])),
    ("a short view", Swap.VIEWS, 128, b"\0\0\0\5hello" + bytes(7), b"\5\0\0\0hello" + bytes(7)),
    ("a long view", Swap.VIEWS, 128, LONG_VIEW, b"\r\0\0\0abcd\2\0\0\0\7\0\0\0"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("swap", "bit_width", "data", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_units_are_reversed_and_bytes_are_not(swap, bit_width, data, expected):
    assert expected == bytes(SWAPS[swap](memoryview(data), bit_width))


@pytest.mark.parametrize(
    ("swap", "bit_width", "data", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_and_back_again(swap, bit_width, data, expected):
    assert data == bytes(SWAPS_FROM_NATIVE[swap](memoryview(expected), bit_width))


def test_every_swap_has_a_function():
    assert set(Swap) == set(SWAPS) == set(SWAPS_FROM_NATIVE)
    assert set(Swap) == {case[1] for case in CASES}
