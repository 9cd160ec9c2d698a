import ctypes
import gc

import numpy as np
import pyarrow as pa
import pytest

from spark_arrow_ipc.arrow import Array, RecordBatch
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.c_data import structs
from spark_arrow_ipc.arrow.c_data.import_arrays import import_array
from spark_arrow_ipc.errors import InvalidBodyError

NUMBERS = np.arange(8, dtype=np.int32)
OFFSETS = np.array([0, 2, 3], np.int32)
BYTES = np.frombuffer(b"abc", np.uint8)


class Producer:
    """Structures as some producer might write them, with a count of their releases."""

    def __init__(self):
        self.released = 0
        self.kept = []

        @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        def release(address):
            self.released += 1
            structs.ARRAY.mark_released(address)

        self.function = release

    def structure(
        self, length=2, null_count=0, offset=0, buffers=(None, NUMBERS), children=(), n_buffers=None, n_children=None,
        dictionary=None, released=False,
    ):  # fmt: skip
        addresses = [0 if buffer is None else buffer.ctypes.data for buffer in buffers]
        lists = [(ctypes.c_size_t * max(len(part), 1))(*part) for part in (addresses, children)]
        memory = bytearray(structs.ARRAY.nbytes)
        structs.ARRAY.layout.pack_into(
            memory, 0, length, null_count, offset,
            len(buffers) if n_buffers is None else n_buffers, len(children) if n_children is None else n_children,
            *(ctypes.addressof(part) if values else 0 for part, values in zip(lists, (buffers, children), strict=True)),
            dictionary or 0, 0 if released else ctypes.cast(self.function, ctypes.c_void_p).value, 0,
        )  # fmt: skip
        self.kept += [buffers, lists, memory]
        return structs.address_of(memory)


def sizes(*numbers):
    return np.array(numbers, np.int64)


INT, LIST, WORDS = t.int32, t.list_(t.int32), t.dictionary(t.int32, t.utf8)
STRUCT = t.struct([("x", t.int32)])

HOSTILE = [
    ("a negative length", INT, lambda p: p.structure(length=-1), "a length and an offset of at least 0"),
    ("a negative offset", INT, lambda p: p.structure(offset=-1), "a length and an offset of at least 0"),
    ("more than any memory", INT, lambda p: p.structure(length=2**62, offset=2**62), "found 4611686018427387904"),
    ("more nulls than slots", INT, lambda p: p.structure(null_count=3), "a null count of -1 to 2, found 3"),
    ("fewer nulls than -1", INT, lambda p: p.structure(null_count=-2), "a null count of -1 to 2"),
    ("nulls without a bitmap", INT, lambda p: p.structure(null_count=1), "a validity bitmap for 1 nulls, found NULL"),
    ("too few buffers", INT, lambda p: p.structure(buffers=(None,)), "2 buffers for int32, found 1"),
    ("too many buffers", INT, lambda p: p.structure(buffers=(None, NUMBERS, NUMBERS)), "2 buffers for int32, found 3"),
    ("nulls beyond any table", t.null, lambda p: p.structure(length=2**61, null_count=2**61, buffers=()), "slots without memory"),
    ("structs of nothing beyond any table", t.struct([]), lambda p: p.structure(length=2**31, buffers=(None,)), "slots without memory"),
    ("buffers at NULL", INT, lambda p: p.structure(buffers=(), n_buffers=2), "2 buffers for int32"),
    ("a needed buffer at NULL", INT, lambda p: p.structure(buffers=(None, None)), "8 bytes: data of int32, found NULL"),
    ("bytes at NULL", t.utf8, lambda p: p.structure(buffers=(None, OFFSETS, None)), "3 bytes: bytes of utf8, found NULL"),
    ("a last offset below 0", t.utf8, lambda p: p.structure(length=1, buffers=(None, np.array([0, -5], np.int32), BYTES)), "value offsets of at least 0, found -5"),
    ("children of an int", INT, lambda p: p.structure(children=(p.structure(),)), "0 children for int32, found 1"),
    ("a list without a child", LIST, lambda p: p.structure(buffers=(None, OFFSETS)), "1 children for list"),
    ("children at NULL", LIST, lambda p: p.structure(buffers=(None, OFFSETS), n_children=1), "1 children for list"),
    ("a child at NULL", LIST, lambda p: p.structure(buffers=(None, OFFSETS), children=(0,)), "field f.*an ArrowArray, found NULL"),
    ("a released child", LIST, lambda p: p.structure(buffers=(None, OFFSETS), children=(p.structure(released=True),)), "an ArrowArray, found a released one"),
    ("no dictionary", WORDS, lambda p: p.structure(), r"field f \(dictionary\): expected an ArrowArray, found NULL"),
    ("views without sizes", t.utf8_view, lambda p: p.structure(buffers=(None, NUMBERS)), "at least 3 buffers for utf8_view, found 2"),
    ("a size below 0", t.utf8_view, lambda p: p.structure(buffers=(None, NUMBERS, BYTES, sizes(-3))), "sizes of variadic buffers of at least 0"),
    ("sizes at NULL", t.utf8_view, lambda p: p.structure(buffers=(None, NUMBERS, BYTES, None)), "the sizes of variadic buffers, found NULL"),
    ("millions of buffers", t.utf8_view, lambda p: p.structure(n_buffers=2**40), "at least 3 buffers"),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "make", "message"), [c[1:] for c in HOSTILE], ids=[c[0] for c in HOSTILE])
def test_structures_that_say_nonsense_are_refused_and_released_once(type_, make, message):
    producer = Producer()
    moved = structs.Moved(structs.ARRAY, make(producer))
    with pytest.raises(InvalidBodyError, match=message):
        import_array(moved, t.field("f", type_), Array)
    del moved
    gc.collect()
    assert 1 == producer.released


SOUND = [
    ("ints", INT, lambda p: p.structure(), [0, 1]),
    ("a part", INT, lambda p: p.structure(offset=3), [3, 4]),
    ("nothing", INT, lambda p: p.structure(length=0, buffers=(None, None)), []),
    ("text", t.utf8, lambda p: p.structure(buffers=(None, OFFSETS, BYTES)), ["ab", "c"]),
    ("text of no bytes", t.utf8, lambda p: p.structure(buffers=(None, NUMBERS * 0, None)), ["", ""]),
    ("lists", LIST, lambda p: p.structure(buffers=(None, OFFSETS), children=(p.structure(length=3),)), [[0, 1], [2]]),
]


@pytest.mark.parametrize(("type_", "make", "values"), [c[1:] for c in SOUND], ids=[c[0] for c in SOUND])
def test_sound_ones_live_as_long_as_their_buffers(type_, make, values):
    producer = Producer()
    array = import_array(structs.Moved(structs.ARRAY, make(producer)), t.field("f", type_), Array)
    held = [buffer for buffer in array.buffers if buffer]
    assert values == array.to_pylist()
    del array
    gc.collect()
    assert (0 if held else 1) == producer.released
    del held
    assert 1 == producer.released


def test_buffers_cannot_be_written():
    array = Array.from_arrow(pa.array([1, 2]))
    assert array.buffers[1].readonly


def exported(structure, type_):
    """Return an object of a producer with a struct array of one column."""

    class Exporting:
        def __arrow_c_array__(self, requested_schema=None):
            capsule = structs.new_capsule(structs.ARRAY, structure, 0)
            return t.struct([("x", type_)]).__arrow_c_schema__(), capsule

    return Exporting()


UNSOUND = [
    ("a short column", t.int32, lambda p: p.structure(length=3, buffers=(None,), children=(p.structure(),)), "field [.]x: expected a child array of at least 3 slots, found 2"),
    ("null rows", t.int32, lambda p: p.structure(null_count=-1, buffers=(BYTES[:1],), children=(p.structure(),)), "none of them null, found 1"),
    ("offsets that fall", t.utf8, lambda p: p.structure(buffers=(None,), children=(p.structure(buffers=(None, np.array([0, 3, 1], np.int32), BYTES)),)), "field x: expected value offsets that do not fall"),
    ("no UTF-8", t.utf8, lambda p: p.structure(buffers=(None,), children=(p.structure(buffers=(None, OFFSETS, np.full(3, 255, np.uint8))),)), "UTF-8"),
    ("an index too many", t.dictionary(t.int32, t.utf8), lambda p: p.structure(buffers=(None,), children=(p.structure(offset=3, dictionary=p.structure(buffers=(None, OFFSETS, BYTES))),)), "dictionary indices from 0 to below 2"),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "make", "message"), [c[1:] for c in UNSOUND], ids=[c[0] for c in UNSOUND])
def test_batches_that_are_not_sound_are_refused_and_released_once(type_, make, message):
    producer = Producer()
    with pytest.raises(InvalidBodyError, match=message):
        RecordBatch.from_arrow(exported(make(producer), type_))
    gc.collect()
    assert 1 == producer.released


def test_structural_validation_looks_at_no_value():
    producer = Producer()
    broken = producer.structure(buffers=(None, OFFSETS, np.full(3, 255, np.uint8)))
    source = exported(producer.structure(buffers=(None,), children=(broken,)), t.utf8)
    assert 2 == RecordBatch.from_arrow(source, validation="structural").num_rows


def test_a_batch_with_an_offset():
    sliced = pa.array([{"x": i} for i in range(10)]).slice(4, 3)
    assert [{"x": 4}, {"x": 5}, {"x": 6}] == RecordBatch.from_arrow(sliced).to_pylist()
