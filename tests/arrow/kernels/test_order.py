"""Ranks, sorted rows and distinct values are those of Python and pyarrow."""

import random
from decimal import Decimal

import numpy as np
import pytest

from spark_arrow_ipc.arrow.kernels.order import DistinctValues, dense_ranks, distinct, ranks, sort_rows
from spark_arrow_ipc.errors import UnsupportedError

pa = pytest.importorskip("pyarrow")
bridge = pytest.importorskip("spark_arrow_ipc.spark.bridge")

RANDOM = random.Random(7)


def words(count=2000):
    """Many share a prefix that is longer than eight bytes, end with zero bytes, or are empty."""
    return ["".join(RANDOM.choices("ab\0ä", k=RANDOM.randrange(25))) for _ in range(count)]


def with_nulls(values):
    return [None if RANDOM.random() < 0.1 else value for value in values]


TEXT = with_nulls(words())
BYTES = [None if word is None else word.encode() for word in TEXT]
NUMBERS = with_nulls([RANDOM.randrange(-100, 100) for _ in range(500)])
WIDE = with_nulls([Decimal(RANDOM.randrange(-(10**37), 10**37)) for _ in range(300)] + [Decimal(5), Decimal(-5)])
ARRAYS = [
    ("utf8", pa.array(TEXT, pa.string()), str.encode),
    ("large utf8", pa.array(TEXT, pa.large_string()), str.encode),
    ("views", pa.array(TEXT, pa.string_view()), str.encode),
    ("binary", pa.array(BYTES, pa.binary()), None),
    (
        "fixed binary",
        pa.array(with_nulls([bytes(RANDOM.choices(b"ab", k=11)) for _ in range(99)]), pa.binary(11)),
        None,
    ),
    ("dictionary", pa.array(TEXT, pa.string()).dictionary_encode(), str.encode),
    ("a slice", pa.array(TEXT, pa.string()).slice(3, 500), str.encode),
    ("int8", pa.array(NUMBERS, pa.int8()), None),
    ("uint64", pa.array([2**63, 1, None, 2**64 - 1, 1], pa.uint64()), None),
    ("bool", pa.array([True, None, False, True]), None),
    ("decimal128", pa.array(WIDE, pa.decimal128(38, 0)), None),
    ("decimal256", pa.array(WIDE, pa.decimal256(70, 0)), None),
    ("timestamp", pa.array(NUMBERS, pa.int64()).cast(pa.timestamp("us")), None),
    ("nothing", pa.array([], pa.string()), None),
]


@pytest.mark.parametrize(("array", "key"), [c[1:] for c in ARRAYS], ids=[c[0] for c in ARRAYS])
def test_rows_are_sorted_and_distinct_as_python_does(array, key):
    values = array.to_pylist()
    key = key or (lambda value: value)
    nulls, others = [v for v in values if v is None], [v for v in values if v is not None]
    ours = bridge.from_pyarrow(array)
    assert nulls + sorted(others, key=key) == [values[i] for i in sort_rows([ours])]
    assert sorted(others, key=key, reverse=True) + nulls == [values[i] for i in sort_rows([ours], descending=True)]
    assert sorted(set(others), key=key) == distinct(ours).to_pylist()


HUGE = [-(2**63), 2**63 - 1, -1, 0, 1]
SEVERAL = {
    "few bits": [NUMBERS, NUMBERS[::-1]],
    "one value": [[5] * 99, [None, 7, 7] * 33],
    "64 bits with the position": [with_nulls(range(2**54)[:: 2**46][:256]), [0, 1] * 128],
    "a bit more": [with_nulls(range(2**55)[:: 2**47][:256]), [0, 1] * 128],
    "all bits": [HUGE * 20, with_nulls(HUGE * 20)],
    "no rows": [[], []],
}


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("columns", SEVERAL.values(), ids=SEVERAL)
def test_rows_equal_in_all_columns_keep_their_order(columns, descending):
    def key(i):
        return [(values[i] is not None, values[i] or 0) for values in columns]

    # Python keeps the order of equal items in reverse, too.
    expected = sorted(range(len(columns[0])), key=key, reverse=descending)
    ours = [bridge.from_pyarrow(pa.array(values, pa.int64())) for values in columns]
    assert expected == sort_rows(ours, descending=descending).tolist()


def test_what_lies_under_a_null_is_not_compared():
    bitmap = pa.py_buffer(bytes([0b01001]))
    array = pa.Array.from_buffers(pa.int64(), 4, [bitmap, pa.py_buffer(np.array([3, 9, 1, 2]))])
    assert [1, 2, 3, 0] == sort_rows([bridge.from_pyarrow(array)]).tolist()


@pytest.mark.parametrize("width", [2, 4, 8])
def test_floats_are_in_sparks_order(width):
    values = np.array([np.nan, -0.0, 0.0, -1.5, np.inf, -np.inf, 3, -np.nan, np.inf, -np.inf], f"f{width}")
    values.view(f"u{width}")[-2:] += 1  # signalling NaNs, which warn in arithmetic
    assert [5, 2, 2, 1, 4, 0, 3, 5, 5, 5] == ranks(bridge.from_pyarrow(pa.array(values))).tolist()


def test_runs_and_the_second_column_count():
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 6], pa.int32()), pa.array(["b", "c", "a"]))
    second = pa.array([2, 1, 9, 3, 1, 2])
    assert [4, 5, 3, 1, 0, 2] == sort_rows([bridge.from_pyarrow(runs), bridge.from_pyarrow(second)]).tolist()


def test_types_without_an_order_are_refused_by_name():
    with pytest.raises(UnsupportedError, match="list"):
        ranks(bridge.from_pyarrow(pa.array([[1]])))


def test_distinct_values_are_counted_over_arrays_up_to_a_number():
    counted = DistinctValues(4)
    for values, expected in [(["a", "b"], 2), (["b", None, "c"], 3), (["d"], 4), (["e"], None), (["a"], None)]:
        counted.add(bridge.from_pyarrow(pa.array(values).dictionary_encode()))
        assert expected == counted.count


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?"])
@pytest.mark.parametrize("span", [1, 2, 9, 1 << 62, 1 << 63])
@pytest.mark.parametrize("rows", [0, 1, 300, 70_000])
def test_ranks_are_those_of_sorted_keys_however_far_they_lie_apart(dtype, span, rows):
    keys = np.random.default_rng(rows).integers(-span, span, rows).astype(dtype)
    assert np.array_equal(dense_ranks(keys), np.unique(keys, return_inverse=True)[1])
