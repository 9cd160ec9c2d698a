"""Kernels over the buffers of many columns answer for each column what the checks of one column do."""

import numpy as np
import pytest

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.ipc.columns import leaf_columns as many

SEED = 20_240_229
LENGTHS = [1, 5, 8, 63, 64, 65, 200, 256, 257, 1000]


def spread(rng, sizes, *, regular, moved):
    """Return a memory of noise, and the starts of buffers in it: at equal distances, or not."""
    gaps = rng.integers(0, 5, len(sizes)) * 8 * (not regular)
    room = -(-np.array(sizes) // 8) * 8 + gaps
    starts = np.cumsum(room) - room
    if not regular:
        rng.shuffle(starts)
    noise = rng.integers(0, 256, int(room.sum()) + 1, np.uint8)
    # A memory that begins between two words is as good as any.
    return (noise[1:] if moved else noise[:-1]), starts


@pytest.fixture(params=[True, False], ids=["regular", "irregular"])
def regular(request):
    return request.param


@pytest.mark.parametrize("moved", [False, True], ids=["aligned", "between words"])
@pytest.mark.parametrize("length", LENGTHS)
def test_bits_are_counted_as_one_bitmap_at_a_time(length, moved, regular):
    memory, starts = spread(np.random.default_rng(SEED), [(length + 7) // 8] * 50, regular=regular, moved=moved)
    expected = [array_data.count_bits(memory[start:], 0, length) for start in starts]
    assert many.count_set(memory, starts, length).tolist() == expected


@pytest.mark.parametrize("length", LENGTHS)
def test_bits_are_counted_to_the_end_of_a_memory_that_ends_inside_of_a_word(length):
    memory, starts = spread(np.random.default_rng(SEED), [(length + 7) // 8] * 3, regular=True, moved=False)
    memory = memory[: starts[-1] + (length + 7) // 8]
    expected = [array_data.count_bits(memory[start:], 0, length) for start in starts]
    assert many.count_set(memory, starts, length).tolist() == expected


DAMAGE = {
    "none": lambda offsets, end: (offsets, end),
    "begins below zero": lambda offsets, end: (np.append(offsets[:1] * 0 - 1, offsets[1:]), end),
    "ends behind the bytes": lambda offsets, end: (offsets, end - 1),
    "falls at the first slot": lambda offsets, end: (np.append(offsets[1] + 1, offsets[1:]), end),
    "falls at the last slot": lambda offsets, end: (np.append(offsets[:-1], offsets[-2] - 1), end),
    "falls below zero inside": lambda offsets, end: (np.insert(offsets[:-1], len(offsets) // 2, -5), end),
}


@pytest.mark.parametrize("dtype", ["i4", "i8"])
@pytest.mark.parametrize("length", [2, 7, 256, 257, 1000])
def test_value_offsets_are_sound_where_they_rise_within_the_bytes(length, dtype, regular):
    rng = np.random.default_rng(SEED)
    itemsize = np.dtype(dtype).itemsize
    memory, starts = spread(rng, [(length + 1) * itemsize] * 40, regular=regular, moved=False)
    ends = np.zeros(len(starts), np.int64)
    kinds = [list(DAMAGE)[i % len(DAMAGE)] for i in range(len(starts))]
    for i, (start, kind) in enumerate(zip(starts, kinds, strict=True)):
        offsets = np.cumsum(rng.integers(1, 9, length + 1)) - 1
        offsets, ends[i] = DAMAGE[kind](offsets, offsets[-1])
        memory[start : start + offsets.size * itemsize] = offsets.astype(dtype).view(np.uint8)
    expected = [kind == "none" for kind in kinds]
    assert many.are_sound_offsets(memory, starts, length, ends, dtype).tolist() == expected


def test_ranges_are_ascii_where_every_byte_is_below_128(regular):
    rng = np.random.default_rng(SEED)
    sizes = [100 if regular else int(size) for size in rng.integers(0, 200, 60)]
    memory, starts = spread(rng, sizes, regular=regular, moved=False)
    memory &= 0x7F
    memory[-1] = 0x80  # the last range ends with the memory
    stops = starts + sizes
    stops[np.argmax(starts)] = len(memory)
    for i in range(0, 60, 3):
        if sizes[i]:
            memory[stops[i] - 1 if i % 2 else starts[i]] |= 0x80
        if stops[i] < len(memory):
            memory[stops[i]] |= 0x80  # behind the range
    expected = [not (memory[start:stop] & 0x80).any() for start, stop in zip(starts, stops, strict=True)]
    assert many.are_ascii(memory, starts, stops).tolist() == expected


def test_ranges_may_share_bytes_and_be_empty():
    memory = np.frombuffer(b"abcdefgh\x80ijklmno", np.uint8)
    ranges = [(0, 16), (0, 8), (8, 8), (8, 9), (4, 9), (9, 16), (16, 16), (9, 9)]
    starts, stops = np.array(ranges).T
    assert many.are_ascii(memory, starts, stops).tolist() == [False, True, True, False, False, True, True, True]


def test_no_columns_are_no_work():
    none = np.zeros(0, np.int64)
    memory = np.zeros(64, np.uint8)
    assert not len(many.count_set(memory, none, 100))
    assert not len(many.are_sound_offsets(memory, none, 10, none, "i4"))
    assert not len(many.are_ascii(memory, none, none))
