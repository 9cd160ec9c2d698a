"""Arrays cross to pyarrow and back with the memory they have."""

import decimal

import pyarrow as pa
import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.spark import bridge

LONG = "a text that no view holds inline"

ARRAYS = {
    "null": pa.nulls(4),
    "bool": pa.array([True, None, False, True]),
    "uint16": pa.array([1, None, 3, 4], pa.uint16()),
    "float16": pa.array([1.5, None, 2.0, 3.0], pa.float16()),
    "decimal32": pa.array([decimal.Decimal("1.5"), None, decimal.Decimal(2), None], pa.decimal32(3, 1)),
    "decimal256": pa.array([decimal.Decimal("1.5"), None, decimal.Decimal(2), None], pa.decimal256(50, 1)),
    "date64": pa.array([0, None, 86_400_000, 0], pa.int64()).cast(pa.date64()),
    "time32": pa.array([1, None, 3, 4], pa.time32("ms")),
    "timestamp": pa.array([1, None, 3, 4], pa.timestamp("us", "Asia/Tokyo")),
    "duration": pa.array([1, None, 3, 4], pa.duration("s")),
    "interval": pa.array([(1, 2, 3), None, (4, 5, 6), (7, 8, 9)], pa.month_day_nano_interval()),
    "fixed size binary": pa.array([b"ab", None, b"cd", b"ef"], pa.binary(2)),
    "binary": pa.array([b"a", None, b"", b"cd"]),
    "large string": pa.array(["a", None, "", LONG], pa.large_string()),
    "string view": pa.array(["a", None, LONG, LONG + "2"], pa.string_view()),
    "list": pa.array([[1], None, [], [2, None]]),
    "large list": pa.array([["a"], None, [], ["b", None]], pa.large_list(pa.string())),
    "list view": pa.array([[1], None, [], [2, None]], pa.list_view(pa.int8())),
    "fixed size list": pa.array([[1, 2], None, [3, None], [5, 6]], pa.list_(pa.int8(), 2)),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}, {"a": 3, "b": None}]),
    "map": pa.array([[("a", 1)], None, [], [("b", None), ("c", 3)]], pa.map_(pa.string(), pa.int8())),
    "sparse union": pa.UnionArray.from_sparse(
        pa.array([0, 1, 0, 1], pa.int8()), [pa.array([1, 2, 3, 4]), pa.array(["a", "b", None, "d"])]
    ),
    "dense union": pa.UnionArray.from_dense(
        pa.array([0, 1, 0, 1], pa.int8()), pa.array([0, 0, 1, 1], pa.int32()), [pa.array([1, 2]), pa.array(["a", None])]
    ),
    "run end encoded": pa.RunEndEncodedArray.from_arrays(pa.array([1, 3, 4], pa.int16()), pa.array(["a", None, "c"])),
    "dictionary": pa.array(["a", None, "b", "a"]).dictionary_encode(),
    "struct of much": pa.array([{"a": [{"b": "x"}]}, {"a": None}, {"a": [None]}, {"a": []}]),
}

SLICES = [(0, 4), (1, 2), (3, 1), (2, 0)]


@pytest.mark.parametrize("case", ARRAYS)
@pytest.mark.parametrize("part", SLICES, ids=str)
def test_an_array_crosses_and_comes_back(case, part):
    """Slices too: the offset travels, and the slots are the same on both sides."""
    expected = ARRAYS[case].slice(*part)
    ours = bridge.from_pyarrow(expected)
    back = bridge.to_pyarrow(ours)
    back.validate(full=True)
    assert expected.type == back.type
    assert expected.to_pylist() == ours.to_pylist() == back.to_pylist()


@pytest.mark.parametrize(
    "case", ["struct", "list", "map", "dictionary", "sparse union", "run end encoded", "fixed size list"]
)
def test_our_own_slice_crosses(case):
    ours = bridge.from_pyarrow(ARRAYS[case]).slice(1, 3)
    assert ARRAYS[case].slice(1, 3).to_pylist() == bridge.to_pyarrow(ours).to_pylist()


def test_nothing_is_copied():
    array = pa.array(["a", "b", None])
    back = bridge.to_pyarrow(bridge.from_pyarrow(array))
    assert [b.address for b in array.buffers()] == [b.address for b in back.buffers()]


def test_memory_stays_alive_without_its_first_owner():
    ours = bridge.from_pyarrow(pa.array(range(10_000)))
    assert list(range(10_000)) == ours.to_pylist()


def test_empty_buffers_become_offsets():
    """An array without slots may have no value offsets at all; pyarrow wants one."""
    ours = bridge.from_pyarrow(pa.array([], pa.string()))
    bare = type(ours)(ours.type, 0, 0, (None, memoryview(b""), memoryview(b"")))
    made = bridge.to_pyarrow(bare)
    made.validate(full=True)
    assert len(made.buffers()[1]) >= 4


def test_a_batch_keeps_names_and_metadata():
    schema = pa.schema([pa.field("a", pa.int8(), nullable=False, metadata={"k": b"v\xff"})], metadata={"s": b"\xfe"})
    ours = bridge.batch_from_pyarrow(pa.record_batch([pa.array([1], pa.int8())], schema))
    assert (t.field("a", t.int8, nullable=False, custom_metadata={"k": b"v\xff"}),) == ours.schema.fields
    assert (("s", "\udcfe"),) == ours.schema.custom_metadata
    assert schema.field(0).equals(bridge.field_to_pyarrow(ours.schema.fields[0]), check_metadata=True)


def test_an_extension_array_crosses_as_its_storage():
    array = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16)))
    assert [b"0" * 16] == bridge.from_pyarrow(array).to_pylist()
