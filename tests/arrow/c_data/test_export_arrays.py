import gc
import weakref

import numpy as np
import pyarrow as pa
import pytest
from arrow_cases import ARRAYS
from arrow_from_pyarrow import from_pyarrow

from spark_arrow_ipc.arrow import Array, RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import NOT_COUNTED
from spark_arrow_ipc.arrow.c_data import structs
from spark_arrow_ipc.arrow.c_data.exports import live_structures
from spark_arrow_ipc.arrow.kernels import compare
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
    assert compare.difference(ours, back) is None
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


def test_a_child_that_was_moved_outlives_its_parent():
    schema = Schema.of([t.field("a", t.int64), t.field("b", t.list_(t.int16))])
    batch = RecordBatch.from_pydict({"a": [1, 2], "b": [[3], [4, 5]]}, schema)
    gc.collect()
    before = live_structures()
    capsule = batch.__arrow_c_array__()[1]
    root = structs.Moved(structs.ARRAY, structs.capsule_address(capsule, structs.ARRAY, "f"))
    parent = structs.read_array(root.address)
    child = structs.Moved(structs.ARRAY, structs.pointers(parent.children, 2)[1])
    del batch, capsule
    root.release()
    gc.collect()
    assert 2 == live_structures() - before
    left = structs.read_array(child.address)
    elements = structs.read_array(*structs.pointers(left.children, 1))
    values = structs.pointers(elements.buffers, 2)[1]
    assert [3, 4, 5] == list((structs.ctypes.c_int16 * 3).from_address(values))
    child.release()
    assert before == live_structures()


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
    _, capsule = array.__arrow_c_array__()
    address = structs.pointers(structs.read_array(structs.capsule_address(capsule, structs.ARRAY, "f")).buffers, count)[
        number
    ]
    assert 0 == structs.ctypes.c_int32.from_address(address).value
    assert [] == pa.array(array).to_pylist()


COUNTS = [
    ("no bitmap, not counted", built(t.int8, 2, [None, memoryview(b"ab")], null_count=NOT_COUNTED), 0),
    ("a bitmap, not counted", built(t.int8, 2, [memoryview(b"\x01"), memoryview(b"ab")], null_count=NOT_COUNTED), -1),
    ("a bitmap", built(t.int8, 2, [memoryview(b"\x01"), memoryview(b"ab")], null_count=1), 1),
    ("nulls", built(t.null, 5, [], null_count=NOT_COUNTED), 5),
]


@pytest.mark.parametrize(("array", "count"), [c[1:] for c in COUNTS], ids=[c[0] for c in COUNTS])
def test_null_counts(array, count):
    _, capsule = array.__arrow_c_array__()
    assert count == structs.read_array(structs.capsule_address(capsule, structs.ARRAY, "f")).null_count
    assert abs(count) == pa.array(array).null_count


UNSOUND = [
    ("too few bytes", built(t.int32, 3, [None, memoryview(bytes(11))]), "12 bytes of data for int32, found 11"),
    ("too few of a slice", built(t.int32, 1, [None, memoryview(bytes(11))], offset=2), "12 bytes of data for int32"),
    ("no bitmap for nulls", built(t.int8, 1, [None, memoryview(b"a")], null_count=1), "1 bytes of validity for int8"),
    ("no values", built(t.int8, 1, [None, None]), "1 bytes of data for int8, found 0"),
    ("too few offsets", built(t.utf8, 2, [None, memoryview(bytes(8)), memoryview(b"")]), "12 bytes of offsets"),
]


@pytest.mark.parametrize(("array", "message"), [c[1:] for c in UNSOUND], ids=[c[0] for c in UNSOUND])
def test_arrays_without_the_memory_of_their_slots_are_not_lent(array, message):
    before = live_structures()
    with pytest.raises(InvalidBodyError, match=message):
        array.__arrow_c_array__()
    assert before == live_structures()
