import gc
import weakref

import numpy as np
import psutil
import pyarrow as pa
import pytest
from arrow_cases import ARRAYS
from arrow_from_pyarrow import from_pyarrow

from spark_arrow_ipc.arrow import Array, RecordBatch, Schema, equality
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import NOT_COUNTED
from spark_arrow_ipc.arrow.layout import LAYOUTS
from spark_arrow_ipc.errors import InvalidBodyError


def addresses(array):
    """Return the addresses of an array's buffers, and of those of its children."""
    own = [np.frombuffer(buffer, np.uint8).ctypes.data for buffer in array.buffers if buffer]
    inner = [*array.children, *([array.dictionary] if array.dictionary is not None else [])]
    return own + [address for part in inner for address in addresses(part)]


SLICES = [("whole", 0, 11), ("a part", 3, 7), ("nothing", 4, 0)]


@pytest.mark.parametrize(("offset", "length"), [c[1:] for c in SLICES], ids=[c[0] for c in SLICES])
@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_are_lent_as_they_are(name, offset, length):
    """pyarrow reads ours, and what it lends in turn is the same memory."""
    ours = from_pyarrow(ARRAYS[name]).slice(offset, length)
    theirs = pa.array(ours)
    theirs.validate(full=True)
    assert ARRAYS[name].slice(offset, length).equals(theirs)
    back = Array.from_arrow(theirs)
    assert equality.difference(ours, back) is None
    if length and not isinstance(ours.type, t.RunEndEncoded):
        assert set(addresses(back)) <= set(addresses(ours))


def test_the_arrays_are_of_every_family():
    families = {LAYOUTS[type(from_pyarrow(array).type)].family for array in ARRAYS.values()}
    assert {layout.family for layout in LAYOUTS.values()} - {LAYOUTS[t.DenseUnion].family} <= families


def built(type_, length, buffers, children=(), null_count=0, offset=0):
    return Array(type_, length, null_count, tuple(buffers), children, None, offset)


def test_memory_lives_until_it_is_released():
    values = np.arange(1000)
    gone = weakref.ref(values)
    array = built(t.int64, 1000, [None, values.data.cast("B")])
    theirs = pa.array(array)
    del array, values
    gc.collect()
    assert gone() is not None
    assert list(range(1000)) == theirs.to_pylist()
    part = theirs.slice(999)
    del theirs
    assert [999] == part.to_pylist()
    del part
    gc.collect()
    assert gone() is None


def test_a_child_outlives_its_parent():
    values = np.array([3, 4, 5], np.int16)
    gone = weakref.ref(values)
    elements = built(t.int16, 3, [None, values.data.cast("B")])
    lists = built(t.list_(t.int16), 2, [None, memoryview(np.array([0, 1, 3], np.int32)).cast("B")], [elements])
    schema = Schema.of([t.field("a", lists.type), t.field("b", t.int8)])
    batch = RecordBatch(schema, (lists, built(t.int8, 2, [None, memoryview(b"ab")])), 2)
    child = pa.record_batch(batch).column(0).values
    del values, elements, lists, batch
    gc.collect()
    assert [3, 4, 5] == child.to_pylist()
    del child
    gc.collect()
    assert gone() is None


def test_buffers_that_are_not_aligned_are_copied():
    data = bytearray(1 + 8 * 3)
    view = memoryview(data)[1:]
    view[:] = np.arange(3).tobytes()
    address = np.frombuffer(data, np.uint8).ctypes.data
    for skipped in range(1, 3):
        array = built(t.int64, 2, [None, memoryview(data)[skipped : skipped + 16]])
        theirs = pa.array(array)
        assert theirs.buffers()[1].address % 8 == 0
        assert not address <= theirs.buffers()[1].address < address + len(data)
    octets = pa.array(built(t.int8, 3, [None, memoryview(data)[1:4]]))
    assert address + 1 == octets.buffers()[1].address


LEFT_OUT = [
    ("text", t.utf8, 3, 1),
    ("large text", t.large_utf8, 3, 1),
    ("lists", t.list_(t.int8), 2, 1),
]


@pytest.mark.parametrize(("type_", "count", "number"), [c[1:] for c in LEFT_OUT], ids=[c[0] for c in LEFT_OUT])
def test_an_offset_that_may_be_left_out_is_given(type_, count, number):
    """The format needs no value offsets where there is no slot; readers of the interface look at the first."""
    buffers = [None] + [memoryview(b"")] * (count - 1)
    children = tuple(built(child.type, 0, [None, memoryview(b"")]) for child in type_.children)
    array = built(type_, 0, buffers, children)
    theirs = pa.array(array)
    assert theirs.buffers()[number].size >= (8 if type_ == t.large_utf8 else 4)
    assert set(theirs.buffers()[number].to_pybytes()) == {0}
    assert [] == theirs.to_pylist()


COUNTS = [
    ("no bitmap, not counted", built(t.int8, 2, [None, memoryview(b"ab")], null_count=NOT_COUNTED), 0),
    ("a bitmap, not counted", built(t.int8, 2, [memoryview(b"\x01"), memoryview(b"ab")], null_count=NOT_COUNTED), -1),
    ("a bitmap", built(t.int8, 2, [memoryview(b"\x01"), memoryview(b"ab")], null_count=1), 1),
    ("nulls", built(t.null, 5, [], null_count=NOT_COUNTED), 5),
]


@pytest.mark.parametrize(("array", "count"), [c[1:] for c in COUNTS], ids=[c[0] for c in COUNTS])
def test_null_counts(array, count):
    assert abs(count) == pa.array(array).null_count


UNSOUND = [
    (
        "too few bytes",
        built(t.int32, 3, [None, memoryview(bytes(11))]),
        "Buffer #1 too small in array of type int32 and length 3: expected at least 12 byte",
    ),
    (
        "too few of a slice",
        built(t.int32, 1, [None, memoryview(bytes(11))], offset=2),
        "expected at least 12 byte.*got 11",
    ),
    ("no bitmap for nulls", built(t.int8, 1, [None, memoryview(b"a")], null_count=1), "1 nulls but no null bitmap"),
    ("no values", built(t.int8, 1, [None, None]), "Missing values buffer"),
    (
        "too few offsets",
        built(t.utf8, 2, [None, memoryview(bytes(8)), memoryview(b"")]),
        "Offsets buffer size .bytes.: 8",
    ),
]


@pytest.mark.parametrize(("array", "message"), [c[1:] for c in UNSOUND], ids=[c[0] for c in UNSOUND])
def test_arrays_without_the_memory_of_their_slots_are_not_lent(array, message):
    with pytest.raises(InvalidBodyError, match=message):
        array.__arrow_c_array__()


SCHEMA = Schema.of([t.field("a", t.int64), t.field("l", t.list_(t.utf8))])
BATCH = RecordBatch.from_pydict({"a": [1, None], "l": [["x"], None]}, SCHEMA)


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
    assert process.memory_info().rss - before < 4 << 20
