"""The dictionary of a column: positions lead back to the same bits. pyarrow is the oracle."""

import decimal

import numpy as np
import pyarrow as pa
import pytest

from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.write.column_dictionary import ColumnDictionary

D = decimal.Decimal


def bits(type_, numbers):
    """Return an array of numbers that are the bits of values."""
    words = np.array(numbers, f"u{type_.bit_width // 8}")
    return pa.Array.from_buffers(type_, len(words), [None, pa.py_buffer(words)])


NAN = 0x7FF8_0000_0000_0000
FLOATS = [
    0,
    1 << 63,
    NAN,
    NAN + 1,
    NAN + 1 | 1 << 63,
    0x7FF0_0000_0000_0001,
    0x7FF0 << 48,
    0xFFF0 << 48,
    1,
    0x3FF0 << 48,
]
COUNT = np.arange(70_000)
EXACT = {
    "NaN payloads and -0.0": bits(pa.float64(), FLOATS * 3),
    "payloads of singles": bits(pa.float32(), [0, 1 << 31, 0x7FC00000, 0x7FC00001, 0xFFC00000, 0x7F800001] * 2),
    "extremes of 64 bits": pa.array([2**63 - 1, -(2**63), 0, -1, None, 2**63 - 1]),
    "extremes of 16 bits": pa.array([32767, -32768, 0, None, -1], pa.int16()),
    "unsigned": pa.array([2**64 - 1, 0, 2**63, None], pa.uint64()),
    "a range that grows downwards": pa.array([*COUNT[100:0:-1], *-COUNT[:100], 100_000, 300_000, -(2**40)]),
    "days": pa.array([-(2**31), 2**31 - 1, 0, None], pa.int32()).cast(pa.date32()),
    "decimals of 18 digits": pa.array([D(10**18 - 1), D(1 - 10**18), None, D(0), D(-1)], pa.decimal128(18, 0)),
    "decimals of 38 digits": pa.array([D(10**37), D(-1), None, D(10**37)], pa.decimal128(38, 0)),
    "timestamps": pa.array([2**63 - 1, -(2**63) + 1, None, 0], pa.timestamp("us")),
    "durations": pa.array([1, -1, None, 1], pa.duration("us")),
    "times": pa.array([0, 86_399_999_999, None], pa.time64("us")),
    "many words": pa.array(COUNT * 2**33),
    "many words in a small range": pa.array(COUNT % 66_000),
    "many strings": pa.array(np.char.add("v", COUNT.astype(str))),
    "strings that are no text to pyarrow": pa.array(["", "\0", "a\0", "ä", None, ""]),
    "binaries": pa.array([b"", b"\xff\0", None, b"\xff"], pa.binary()),
    "large": pa.array(["x", "", None], pa.large_string()),
    "booleans": pa.array([True, False, None]),
    "only nulls": pa.nulls(5, pa.string()),
    "nothing": pa.array([], pa.float64()),
}


@pytest.mark.parametrize("name", EXACT)
def test_positions_lead_back_to_the_same_bits(name):
    """Also of batches of other sizes, of slices, and of slots under nulls that hold anything."""
    array, rng = EXACT[name], np.random.default_rng(7)
    batches = [
        array,
        array.slice(len(array) // 3),
        array.take(pa.array(rng.integers(0, len(array), 9 * bool(len(array))))),
    ]
    hidden = pa.Array.from_buffers(
        array.type, len(array), [pa.py_buffer(b"\xaa" * (len(array) // 8 + 1)), *array.buffers()[1:]]
    )
    dictionary = ColumnDictionary(bridge.from_pyarrow(array).type)
    for batch in [*batches, hidden, hidden.slice(1)] if array.null_count == 0 else batches:
        positions, valid = dictionary.encode(bridge.from_pyarrow(batch))
        values = bridge.to_pyarrow(dictionary.values)
        found = values.take(pa.array(positions, mask=None if valid is None else ~valid))
        words = (
            pa.binary(8)
            if pa.types.is_float64(array.type)
            else pa.binary(4)
            if pa.types.is_float32(array.type)
            else None
        )
        assert same(batch, words).equals(same(found, words))
    values = same(bridge.to_pyarrow(dictionary.values), words)
    assert len(values) == len(values.unique())


def same(array, words):
    """Return an array in which floats are their bytes, as pyarrow takes all NaNs for one."""
    return array if words is None else array.view(words)


def test_decimals_that_have_more_digits_than_their_type_says_stay():
    """pyarrow does not check them."""
    words = np.array([5, 1, 5, 0], np.int64)  # 2**64 + 5, and 5
    array = pa.Array.from_buffers(pa.decimal128(10, 0), 2, [None, pa.py_buffer(words)])
    dictionary = ColumnDictionary(bridge.from_pyarrow(array).type)
    positions, _ = dictionary.encode(bridge.from_pyarrow(array))
    assert bridge.to_pyarrow(dictionary.values).take(pa.array(positions)).equals(array)
    assert 2 == dictionary.values.length
