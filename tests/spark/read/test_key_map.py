"""Keys as a bit map: pyarrow's `is_in` finds the same."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate.bound import BoundColumn, Negated, OneOf
from spark_arrow_ipc.spark.read import row_filter
from spark_arrow_ipc.spark.read.key_map import key_map
from spark_arrow_ipc.spark.read.row_filter import compile_filter

ENDS = {pa.int8(): 2**7, pa.int16(): 2**15, pa.int32(): 2**31, pa.int64(): 2**63, pa.date32(): 2**31}
DRAWN = np.random.default_rng(0)


def column(type_, values):
    whole = pa.int32() if type_ == pa.date32() else type_
    return pa.array(values, whole).view(type_)


KEYS = [
    ("one key", [5]),
    ("neighbours", [-2, -1, 0, 1, 2]),
    ("in one byte of bits and at its ends", [0, 1, 7, 8, 15, 16, 23]),
    ("negative keys", [-128, -100, -3]),
    ("the greatest of 8 bits", [-128, 127]),
    ("many", sorted(set(DRAWN.integers(-128, 128, 90).tolist()))),
]  # fmt: skip


@pytest.mark.parametrize("keys", [c[1] for c in KEYS], ids=[c[0] for c in KEYS])
@pytest.mark.parametrize("type_", ENDS, ids=str)
def test_values_are_found(type_, keys):
    end = ENDS[type_]
    # Values whose difference from a key does not fit the type, and those a multiple of 2**8 or 2**32 from one.
    far = [-end, -end + 1, end - 1, keys[0] - end, keys[0] + end, *(key + 2**32 for key in keys)]
    near = [key + by for key in keys for by in (-256, -8, -1, 0, 1, 8, 256)]
    values = [None, *(value for value in [*far, *near] if -end <= value < end), None]
    for array in (column(type_, values), column(type_, values)[3:-4], column(type_, values[1:2]), column(type_, [])):
        looked = key_map(keys, type_)(array)
        expected = pc.is_in(array, value_set=column(type_, keys))
        valid = array.is_valid()
        assert expected.filter(valid).to_pylist() == looked.filter(valid).to_pylist()


@pytest.mark.parametrize("span", [2**16, 2**26])
def test_many_keys_far_apart_are_found(span):
    keys = np.unique(DRAWN.integers(-span // 2, span // 2, 9_000))
    array = pa.array(np.concatenate([DRAWN.choice(keys, 500), DRAWN.integers(-span, span, 500)]))
    assert pc.is_in(array, value_set=pa.array(keys)).equals(key_map(keys.tolist(), pa.int64())(array))


def test_a_buffer_may_be_longer_than_its_values():
    data = np.array([1, 2, 3], np.int64).tobytes() + b"x"
    array = pa.Array.from_buffers(pa.int64(), 3, [None, pa.py_buffer(data)])
    array.validate(full=True)
    assert [True, False, True] == key_map([1, 3], pa.int64())(array).to_pylist()
    assert [False, True] == key_map([1, 3], pa.int64())(array[1:]).to_pylist()


LARGE = [
    ("two keys in a small map", [0, 2**20 - 1], pa.int64(), True),
    ("two keys further apart", [0, 2**20], pa.int64(), False),
    ("many keys at the limit", list(range(0, 2**27, 2**13)), pa.int64(), True),
    ("a bit more", [*range(0, 2**27, 2**13), 2**27], pa.int64(), False),
    ("all of 64 bits", [-(2**63), 2**63 - 1], pa.int64(), False),
    ("text", [b"a"], pa.binary(), False),
    ("floats", [1.0], pa.float64(), False),
    ("decimals", [1], pa.decimal128(9, 2), False),
    ("instants", [1], pa.timestamp("us"), False),
    ("no key", [], pa.int64(), False),
]


@pytest.mark.parametrize(("keys", "type_", "is_mapped"), [c[1:] for c in LARGE], ids=[c[0] for c in LARGE])
def test_other_keys_have_no_map(keys, type_, is_mapped):
    assert is_mapped == (key_map(keys, type_) is not None)


@pytest.mark.parametrize("keys", [(1, 3), (1, 2**40)], ids=["a map", "without one"])
@pytest.mark.parametrize(("negated", "rows"), [(False, [1, 3]), (True, [2])], ids=["in", "not in"])
def test_nulls_match_neither_keys_nor_their_negation(keys, negated, rows):
    bound = OneOf(BoundColumn(("k",), t.int64), tuple(sorted({*keys, 3})))
    batch = pa.record_batch({"k": pa.array([1, None, 2, 3, None])})
    assert rows == compile_filter(Negated(bound) if negated else bound, batch.schema).filter(batch)["k"].to_pylist()


def test_a_map_is_made_once_for_a_predicate(monkeypatch):
    maps = []
    monkeypatch.setattr(row_filter, "key_map", lambda *keys: maps.append(keys) or key_map(*keys))
    batch = pa.record_batch({"k": pa.array([1, 2, 3])})
    row_filter_ = compile_filter(OneOf(BoundColumn(("k",), t.int64), (1, 3)), batch.schema)
    assert [[1, 3]] * 5 == [row_filter_.filter(batch)["k"].to_pylist() for _ in range(5)]
    assert 1 == len(maps)
