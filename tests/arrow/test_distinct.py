"""Equal slots are found by their bits, for every type, whatever the hashes are."""

import hashlib
import tracemalloc

import cpu_time
import numpy as np
import pytest
import strategies
from hypothesis import given

from spark_arrow_ipc.arrow import Array, distinct, equality
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import from_pylist

NAN_BITS = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0x7FF8000000000000], np.uint64)


def floats(bits):
    return Array(t.float64, len(bits), 0, (None, memoryview(bits.tobytes())))


def by_pairs(array):
    """Return the first equal slot of each by comparing every pair."""
    bits, slots = equality.as_bits(array), np.arange(array.length)
    return [int(np.flatnonzero(~equality.differ(bits, np.full_like(slots, i), bits, slots))[0]) for i in slots]


CASES = [
    ("NaNs of other bits", floats(NAN_BITS), [0, 1, 0]),
    ("zeros of both signs", from_pylist.array([0.0, -0.0, 0.0], t.float32), [0, 1, 0]),
    ("nulls and empty strings", from_pylist.array([None, "", None, ""], t.utf8), [0, 1, 0, 1]),
    ("zeros behind strings", from_pylist.array(["a", "a\0", "a\0\0", "a"], t.utf8), [0, 1, 2, 0]),
    ("long strings", from_pylist.array(["x" * 99 + "a", "x" * 99 + "b", "x" * 99 + "a"], t.utf8_view), [0, 1, 0]),
    ("lists of nothing and of null", from_pylist.array([[], [None], [], [None, None]], t.list_(t.int8)), [0, 1, 0, 3]),
    ("decimals", from_pylist.array([1, 1 << 64, 1], t.Decimal(38, 0)), [0, 1, 0]),
    ("no bytes", from_pylist.array([b"", None, b""], t.FixedSizeBinary(0)), [0, 1, 0]),
]


@pytest.mark.parametrize(("array", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_first_equal(array, expected):
    assert expected == distinct.first_equal(array).tolist()


@pytest.mark.slow
@given(strategies.arrays())
def test_the_first_equal_slot_is_found_for_every_type(array):
    assert by_pairs(array) == distinct.first_equal(array).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("bits", [0, 1, 3])
@given(strategies.arrays())
def test_hashes_that_collide_change_nothing(bits, array):
    """Of two bits, of one, and of none: then all slots have the same hash."""
    weak = distinct.hashes
    distinct.hashes = lambda of: weak(of) & np.uint64(bits)
    try:
        assert by_pairs(array) == distinct.first_equal(array).tolist()
    finally:
        distinct.hashes = weak


COUNT = 1 << 15
NUMBERS = np.arange(COUNT, dtype=np.uint64)
FLOODS = {
    "counted": NUMBERS,
    "multiples of a large power": NUMBERS << np.uint64(49),
    "single bits, twice": np.stack([np.uint64(1) << NUMBERS % np.uint64(64), NUMBERS], 1),
    "changes that cancel out in a sum": np.stack([NUMBERS, -NUMBERS.view(np.int64).astype(np.uint64)], 1),
    "changes that cancel out in XOR": np.stack([NUMBERS << np.uint64(32), NUMBERS], 1),
    "equal halves": np.stack([NUMBERS << np.uint64(32) | NUMBERS, NUMBERS], 1),
    "many zeros": np.concatenate([np.zeros((COUNT, 12), np.uint64), NUMBERS[:, None]], 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("words", FLOODS.values(), ids=FLOODS)
def test_strings_made_to_collide_do_not(words):
    """The expected number of collisions is below one; a thousand would still cost little."""
    width = words.nbytes // COUNT
    array = Array(t.FixedSizeBinary(width), COUNT, 0, (None, memoryview(words.tobytes())))
    found = distinct.hashes(array)
    assert len(np.unique(words, axis=0)) - len(np.unique(found)) < 10
    cpu_time.at_most(2, distinct.first_equal, array)


LONG_NBYTES = 1 << 24
LONG = {
    "text": (t.utf8, np.frombuffer(b"x" * LONG_NBYTES, np.uint8)),
    "list": (t.list_(t.int8), np.arange(LONG_NBYTES, dtype=np.uint64).astype(np.int8)),
}


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize(("type_", "values"), LONG.values(), ids=LONG)
@pytest.mark.parametrize("work", [distinct.hashes, distinct.first_equal], ids=["hashed", "compared"])
def test_a_long_value_takes_no_multiple_of_its_bytes(work, type_, values):
    """Two slots, each with all the elements but one; the last one has none."""
    offsets = np.array([0, LONG_NBYTES - 1, 2 * LONG_NBYTES - 2, 2 * LONG_NBYTES - 2], np.int32)
    twice = np.concatenate([values[:-1], values[:-1]])
    children = (Array(t.int8, len(twice), 0, (None, memoryview(twice.view(np.uint8)))),) if type_.children else ()
    buffers = (None, memoryview(offsets.view(np.uint8)), *([] if children else [memoryview(twice)]))
    array = Array(type_, 3, 0, buffers, children)
    tracemalloc.start()
    try:
        found = work(array).tolist()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (found[0] == found[1], found[0] == found[2]) == (True, False)
    assert most < 2 * LONG_NBYTES


def test_lists_of_lists_do_not_collide():
    values = [[[i % 7] * (i % 5), [i // 7]] for i in range(2000)]
    array = from_pylist.array(values, t.list_(t.list_(t.int32)))
    expected = len({hashlib.sha256(repr(value).encode()).digest() for value in values})
    assert expected == len(np.unique(distinct.hashes(array))) == len(np.unique(distinct.first_equal(array)))
