import ctypes
import struct

import numpy as np
import pyarrow as pa
import pytest
from nanoarrow.c_array import allocate_c_array
from nanoarrow.c_schema import allocate_c_schema

from spark_arrow_ipc.arrow.c_data import structs


@pytest.mark.parametrize(
    ("structure", "read", "allocate", "fill"),
    [
        (structs.SCHEMA, structs.read_schema, allocate_c_schema, lambda at: pa.int32()._export_to_c(at)),
        (structs.ARRAY, structs.read_array, allocate_c_array, lambda at: pa.array([7, None])._export_to_c(at)),
    ],
)
def test_layouts_are_those_of_other_libraries(structure, read, allocate, fill):
    """pyarrow writes a structure that nanoarrow has allocated; both are compiled C."""
    other = allocate()
    fill(other._addr())
    found = read(other._addr())
    assert found.release
    assert not structure.is_released(other._addr())
    if structure is structs.ARRAY:
        assert (2, 1, 0, 2, 0) == found[:5]
    else:
        assert b"i" == structs.c_string(found.format)


SIZES = {structs.SCHEMA: 72, structs.ARRAY: 80, structs.STREAM: 40}


@pytest.mark.skipif(struct.calcsize("P") != 8, reason="sizes of 64-bit machines")
@pytest.mark.parametrize("structure", SIZES, ids=lambda s: s.capsule.decode())
def test_sizes(structure):
    assert SIZES[structure] == structure.nbytes


NOT_ONE = [
    ("no capsule", lambda: 5, TypeError, "expected a capsule 'arrow_array' from f, found int"),
    ("of another name", lambda: pa.int32().__arrow_c_schema__(), TypeError, "found PyCapsule"),
]


@pytest.mark.parametrize(("make", "error", "message"), [c[1:] for c in NOT_ONE], ids=[c[0] for c in NOT_ONE])
def test_what_is_no_capsule_of_the_name_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        structs.capsule_address(make(), structs.ARRAY, "f")


def test_an_empty_capsule_is_refused():
    _, capsule = pa.array([1]).__arrow_c_array__()
    moved = structs.Moved(structs.ARRAY, structs.capsule_address(capsule, structs.ARRAY, "f"))
    with pytest.raises(ValueError, match="nobody has used, found one that is empty"):
        structs.capsule_address(capsule, structs.ARRAY, "f")
    moved.release()


def counting_structure():
    """Return a structure whose release is counted, and the list of its calls."""
    calls = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def release(address):
        calls.append(address)
        structs.ARRAY.mark_released(address)

    memory = bytearray(structs.ARRAY.nbytes)
    pointer = ctypes.cast(release, ctypes.c_void_p).value
    structs.ARRAY.layout.pack_into(memory, 0, *[0] * 8, pointer, 0)
    return memory, calls, release


@pytest.mark.parametrize("times", [0, 1, 3], ids="released {} times by hand".format)
def test_what_was_moved_is_released_once(times):
    memory, calls, _thunk = counting_structure()
    address = structs.address_of(memory)
    moved = structs.Moved(structs.ARRAY, address)
    assert structs.ARRAY.is_released(address)
    for _ in range(times):
        moved.release()
    del moved
    assert 1 == len(calls)


MEMORIES = {
    "bytes": b"abc",
    "a bytearray": bytearray(b"abc"),
    "a part of an array": np.arange(5, dtype=np.uint8)[2:],
    "of a read-only array": np.frombuffer(bytes(24), np.int64),
}


@pytest.mark.parametrize("case", MEMORIES)
def test_the_address_of_a_buffer_is_numpys(case):
    memory = memoryview(MEMORIES[case])
    addresses = structs.Addresses()
    expected = np.frombuffer(memory, np.uint8).__array_interface__["data"][0]
    assert [addresses.of(memory), addresses.of(memory[1:])] == [expected, expected + memory.itemsize]


def test_the_address_of_a_buffer_holds_nothing():
    memory = bytearray(b"abc")
    structs.Addresses().of(memoryview(memory))
    memory.extend(b"d")  # which a buffer in use forbids
