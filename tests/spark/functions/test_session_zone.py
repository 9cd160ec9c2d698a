"""Timestamps carry the session's zone at every depth, and share their memory."""

import pyarrow as pa
import pytest

from spark_arrow_ipc.spark.functions.user_function import in_zone

UTC, TOKYO = pa.timestamp("us", "UTC"), pa.timestamp("us", "Asia/Tokyo")
INSTANTS = pa.array([0, 3_600_000_000, None], UTC)

VARIANT = pa.struct([pa.field("value", pa.binary(), nullable=False), pa.field("metadata", pa.binary(), nullable=False)])
BYTES = pa.array([None, b"x", None])
ABSENT = pa.Array.from_buffers(VARIANT, 3, BYTES.buffers()[:1], 2, children=[BYTES, BYTES])  # as Spark has it

CASES = [
    ("plain", INSTANTS, TOKYO),
    ("list", pa.ListArray.from_arrays([0, 2, 3], INSTANTS), pa.list_(TOKYO)),
    ("struct", pa.StructArray.from_arrays([INSTANTS], fields=[pa.field("t", UTC, nullable=False)]),
     pa.struct([pa.field("t", TOKYO, nullable=False)])),
    ("beside a null variant", pa.StructArray.from_arrays([INSTANTS, ABSENT], ["t", "v"]).slice(1), pa.struct([("t", TOKYO), ("v", VARIANT)])),
    ("map", pa.MapArray.from_arrays([0, 2], INSTANTS[:2], INSTANTS[:2]), pa.map_(TOKYO, TOKYO)),
    ("without a zone", pa.array([5], pa.timestamp("us")), pa.timestamp("us")),
    ("numbers", pa.array([5]), pa.int64()),
]  # fmt: skip


def values(array):
    """Return the addresses of an array's buffers, but for bitmaps, which may be left out or cut."""
    return [buffer.address for buffer in array.buffers() if buffer and buffer.size > 1]


@pytest.mark.parametrize(("array", "type_"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_the_zone_is_in_the_type(array, type_):
    schema = pa.schema([pa.field("a", array.type, metadata={"k": "v"})])
    (made,) = in_zone([pa.RecordBatch.from_arrays([array], schema=schema)], "Asia/Tokyo")
    assert made.schema == pa.schema([pa.field("a", type_, metadata={"k": "v"})])
    assert values(array) == values(made["a"])
    made.validate(full=True)
    assert array.to_pylist() == made["a"].to_pylist()


def test_dictionaries_of_instants_are_expanded_and_others_stay():
    encoded = pa.record_batch({"t": INSTANTS.dictionary_encode(), "s": pa.array(["a"] * 3).dictionary_encode()})
    (made,) = in_zone([encoded], "Asia/Tokyo")
    assert (TOKYO, encoded.schema.field("s").type) == tuple(made.schema.types)
    assert encoded.to_pylist() == made.to_pylist()


def test_batches_without_such_columns_are_the_same_objects():
    batches = [pa.record_batch({"a": [1]}), pa.record_batch({"b": ["x"]})]
    assert all(given is made for given, made in zip(batches, in_zone(batches, "Asia/Tokyo"), strict=True))
