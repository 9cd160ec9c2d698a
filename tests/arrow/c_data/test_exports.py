import gc

import psutil
import pyarrow as pa
import pytest

from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.c_data import structs
from spark_arrow_ipc.arrow.c_data.exports import live_structures

SCHEMA = Schema.of([t.field("a", t.int64), t.field("l", t.list_(t.utf8))])
BATCH = RecordBatch.from_pydict({"a": [1, None], "l": [["x"], None]}, SCHEMA)

HELD = [
    ("a schema", BATCH.schema.__arrow_c_schema__, 4 + 1),
    ("an array and its schema", BATCH.__arrow_c_array__, 2 * (4 + 1)),
    ("a stream", BATCH.__arrow_c_stream__, 1 + 1),
    ("what pyarrow has taken", lambda: pa.record_batch(BATCH), 4),
]


@pytest.mark.one_in(4, "slow")
@pytest.mark.parametrize(("make", "count"), [c[1:] for c in HELD], ids=[c[0] for c in HELD])
def test_what_others_hold_is_counted_until_it_is_released(make, count):
    gc.collect()
    before = live_structures()
    held = make()
    # pyarrow releases a child when its array goes: at least those of the columns are held.
    assert 0 < live_structures() - before <= count
    del held
    gc.collect()
    assert before == live_structures()


def test_released_twice_is_released_once():
    _, capsule = BATCH.__arrow_c_array__()
    address = structs.capsule_address(capsule, structs.ARRAY, "f")
    release = structs._RELEASE(structs.read_array(address).release)
    copied = bytearray(structs.ARRAY.at(address).raw)
    for _ in range(2):
        release(address)
        release(structs.address_of(copied))  # a copy that somebody has kept against the rules
    del capsule
    assert 0 == live_structures()


@pytest.mark.slow
def test_nothing_leaks():
    """Of 10,000 exports and 1,000 imports, after some that warm up the allocators."""
    process = psutil.Process()
    for count in (1_000, 10_000):
        before = process.memory_info().rss
        for number in range(count):
            pa.record_batch(BATCH)
            if number % 10 == 0:
                BATCH.__arrow_c_array__()
                RecordBatch.from_arrow(pa.record_batch(BATCH), validation="structural")
    assert 0 == live_structures()
    assert process.memory_info().rss - before < 4 << 20
