import gc

import numpy as np
import pyarrow as pa
import pytest
from c_structs import ARRAY, Gives, Producer, capsule

from spark_arrow_ipc.arrow import Array, RecordBatch, c_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import InvalidBodyError

NUMBERS = np.arange(8, dtype=np.int32)
OFFSETS = np.array([0, 2, 3], np.int32)
BYTES = np.frombuffer(b"abc", np.uint8)


def sizes(*numbers):
    return np.array(numbers, np.int64)


INT, LIST, WORDS = t.int32, t.list_(t.int32), t.dictionary(t.int32, t.utf8)
STRUCT = t.struct([("x", t.int32)])

HOSTILE = [
    ("a negative length", INT, lambda p: p.array(length=-1), "Array length is negative"),
    ("a negative offset", INT, lambda p: p.array(offset=-1), "a length and an offset of at least 0"),
    ("more than any memory", INT, lambda p: p.array(length=2**62, offset=2**62), "impossibly large length and offset"),
    ("more nulls than slots", INT, lambda p: p.array(null_count=3), "non-zero null_count 3"),
    ("fewer nulls than -1", INT, lambda p: p.array(null_count=-2), "Negative null count"),
    ("nulls without a bitmap", INT, lambda p: p.array(null_count=1), "non-zero null_count 1"),
    ("too few buffers", INT, lambda p: p.array(buffers=(None,)), "Expected 2 buffers for imported type int32, ArrowArray struct has 1"),
    ("too many buffers", INT, lambda p: p.array(buffers=(None, NUMBERS, NUMBERS)), "Expected 2 buffers for imported type int32, ArrowArray struct has 3"),
    ("nulls beyond any table", t.null, lambda p: p.array(length=2**61, null_count=2**61, buffers=()), "slots without memory"),
    ("structs of nothing beyond any table", t.struct([]), lambda p: p.array(length=2**31, buffers=(None,)), "slots without memory"),
    ("a needed buffer at NULL", INT, lambda p: p.array(buffers=(None, None)), "null data pointer for a buffer"),
    ("bytes at NULL", t.utf8, lambda p: p.array(buffers=(None, OFFSETS, None)), "null data pointer for a buffer"),
    ("a last offset below 0", t.utf8, lambda p: p.array(length=1, buffers=(None, np.array([0, -5], np.int32), BYTES)), "Negative offsets in binary array"),
    ("children of an int", INT, lambda p: p.array(children=(p.array(),)), "has 1 children, expected 0 for type int32"),
    ("a list without a child", LIST, lambda p: p.array(buffers=(None, OFFSETS)), "has 0 children, expected 1 for type list"),
    ("a released child", LIST, lambda p: p.array(buffers=(None, OFFSETS), children=(p.array(released=True),)), "Cannot import released ArrowArray"),
    ("no dictionary", WORDS, lambda p: p.array(), "dictionary field in ArrowArray struct is null"),
    ("views without sizes", t.utf8_view, lambda p: p.array(buffers=(None, NUMBERS)), "at least 3 buffers for imported type string_view, ArrowArray struct has 2"),
    ("a size below 0", t.utf8_view, lambda p: p.array(buffers=(None, NUMBERS, BYTES, sizes(-3))), "variadic of at least 0 bytes, found -3"),
]  # fmt: skip


def given(type_, structure):
    """Return an object of a producer with an array."""
    return Gives(c_data.export_type(type_).__arrow_c_schema__(), capsule(ARRAY, structure))


@pytest.mark.parametrize(("type_", "make", "message"), [c[1:] for c in HOSTILE], ids=[c[0] for c in HOSTILE])
def test_structures_that_say_nonsense_are_refused_and_released_once(type_, make, message):
    producer = Producer()
    source = given(type_, make(producer))
    with pytest.raises(InvalidBodyError, match=message):
        Array.from_arrow(source)
    gc.collect()
    assert 1 == producer.released


SOUND = [
    ("ints", INT, lambda p: p.array(), [0, 1]),
    ("a part", INT, lambda p: p.array(offset=3), [3, 4]),
    ("nothing", INT, lambda p: p.array(length=0, buffers=(None, None)), []),
    ("text", t.utf8, lambda p: p.array(buffers=(None, OFFSETS, BYTES)), ["ab", "c"]),
    ("text of no bytes", t.utf8, lambda p: p.array(buffers=(None, NUMBERS * 0, None)), ["", ""]),
    ("lists", LIST, lambda p: p.array(buffers=(None, OFFSETS), children=(p.array(length=3),)), [[0, 1], [2]]),
]


@pytest.mark.parametrize(("type_", "make", "values"), [c[1:] for c in SOUND], ids=[c[0] for c in SOUND])
def test_sound_ones_live_as_long_as_their_buffers(type_, make, values):
    producer = Producer()
    array = Array.from_arrow(given(type_, make(producer)))
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
    return given(t.struct([("x", type_)]), structure)


UNSOUND = [
    ("a short column", t.int32, lambda p: p.array(length=3, buffers=(None,), children=(p.array(),)), "Struct child array #0 has length smaller than expected for struct array .2 < 3."),
    ("null rows", t.int32, lambda p: p.array(null_count=-1, buffers=(BYTES[:1],), children=(p.array(),)), "none of them null, found 1"),
    ("offsets that fall", t.utf8, lambda p: p.array(buffers=(None,), children=(p.array(buffers=(None, np.array([0, 3, 1], np.int32), BYTES)),)), "field x: expected value offsets that do not fall"),
    ("no UTF-8", t.utf8, lambda p: p.array(buffers=(None,), children=(p.array(buffers=(None, OFFSETS, np.full(3, 255, np.uint8))),)), "UTF-8"),
    ("an index too many", t.dictionary(t.int32, t.utf8), lambda p: p.array(buffers=(None,), children=(p.array(offset=3, dictionary=p.array(buffers=(None, OFFSETS, BYTES))),)), "dictionary indices from 0 to below 2"),
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
    broken = producer.array(buffers=(None, OFFSETS, np.full(3, 255, np.uint8)))
    source = exported(producer.array(buffers=(None,), children=(broken,)), t.utf8)
    assert 2 == RecordBatch.from_arrow(source, validation="structural").num_rows


def test_a_batch_with_an_offset():
    sliced = pa.array([{"x": i} for i in range(10)]).slice(4, 3)
    assert [{"x": 4}, {"x": 5}, {"x": 6}] == RecordBatch.from_arrow(sliced).to_pylist()
