"""Bitmaps against a bit-by-bit reading."""

import random

import numpy as np
import pytest

from spark_arrow_ipc.arrow import array_data

RANDOM = random.Random(7)
BITS = [RANDOM.random() < 0.6 for _ in range(40_000 * 8)]
PACKED = bytes(sum(bit << i for i, bit in enumerate(BITS[k : k + 8])) for k in range(0, len(BITS), 8))

RANGES = [
    pytest.param(offset, length, id=f"{offset}+{length}")
    for offset, length in [
        (0, 0), (5, 0), (0, 1), (7, 1), (3, 5), (3, 4), (1, 7), (1, 8), (0, 8), (0, 9), (8, 8), (9, 63), (9, 64),
        (64, 128), (5, 32_761), (5, 32_768), (8, 40_001), (3, 40_000 * 8 - 3), (0, 40_000 * 8), (13, 300_001),
    ]
]  # fmt: skip


@pytest.mark.parametrize(("offset", "length"), RANGES)
def test_ranges(offset, length):
    expected = BITS[offset : offset + length]
    assert sum(expected) == array_data.count_bits(memoryview(PACKED), offset, length)
    assert expected == array_data.unpack_bits(memoryview(PACKED), offset, length).tolist()
    sliced = array_data.slice_bits(memoryview(PACKED), offset, length)
    assert (length + 7) // 8 == sliced.nbytes
    assert expected == array_data.unpack_bits(sliced, 0, length).tolist()


def test_pack_pads_with_zero_bits():
    assert bytes(
        [
            0b101,
        ]
    ) == bytes(array_data.pack_bits([True, False, True]))
    assert bytes(array_data.pack_bits([])) == b""
    assert bytes(PACKED) == bytes(array_data.pack_bits(np.array(BITS)))


def test_a_slice_at_a_whole_byte_is_a_view():
    buf = bytearray(PACKED)
    sliced = array_data.slice_bits(memoryview(buf), 16, 20)
    buf[2] ^= 0xFF
    assert buf[2] == sliced[0]


def test_a_shifted_slice_has_zero_bits_after_the_last():
    assert bytes(array_data.slice_bits(b"\xff\xff", 3, 3)) == b"\x07"
    assert bytes(array_data.slice_bits(b"\xff\xff", 3, 9)) == b"\xff\x01"


@pytest.mark.parametrize("function", [array_data.count_bits, array_data.unpack_bits, array_data.slice_bits])
@pytest.mark.parametrize(("offset", "length"), [(0, 17), (9, 8), (16, 1), (-1, 4)])
def test_bits_outside_the_buffer_are_refused(function, offset, length):
    with pytest.raises(ValueError, match="expected a bitmap of at least"):
        function(memoryview(b"\xff\xff"), offset, length)
