"""What is left as it is when unseen slots are cleared, what dictionaries cost, and that nothing is taken apart for it."""

import contextlib
import io
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
from built_arrays import buffer, text, views
from unseen_cases import write_raw

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import Array, Field, RecordBatch, Schema, array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.measure import check_expansion
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.unseen import clear_unseen
from spark_arrow_ipc.arrow.validate import arrays as validate
from spark_arrow_ipc.errors import ArrowIpcError, InvalidBodyError, InvalidDictionaryError, LimitError

BAD = text([0, 1, 2], b"a\xff")


def below(array, valid, *, nullable=True):
    """Return a struct of one field, null where `valid` is false."""
    type_ = t.Struct((Field("x", array.type, nullable=nullable),))
    return Array(type_, array.length, valid.count(False), (array_data.pack_bits(valid),), (array,))


def indices(values, dictionary):
    return Array(
        t.dictionary(t.int8, dictionary.type), len(values), 0, (None, buffer(values, np.int8)), dictionary=dictionary
    )


EMPTY = from_pylist.array([], t.utf8)
NO_UNION = Array(
    t.DenseUnion((Field("a", t.list_(t.utf8)), Field("b", t.int8)), (4, 9)), 2, 0,
    (buffer([-1, 0], np.int8), buffer([7, -1], np.int32)), (from_pylist.array([], t.list_(t.utf8)), from_pylist.array([], t.int8)),
)  # fmt: skip


def maps(keys, *, nullable=False):
    entries_type = t.Struct((Field("key", t.utf8, nullable=nullable), Field("value", t.int8)))
    entries = Array(entries_type, keys.length, 0, (None,), (keys, from_pylist.array([1] * keys.length, t.int8)))
    type_ = t.Map(Field("entries", entries_type, nullable=False))
    return Array(type_, keys.length, 0, (None, buffer(range(keys.length + 1), np.int32)), (entries,))


SOUND = {
    "null keys of a map": (below(maps(from_pylist.array(["a", None], t.utf8)), [True, False]), [{"x": [("a", 1)]}, None]),
    "the same, not nullable": (below(maps(from_pylist.array(["a", None], t.utf8)), [True, False], nullable=False), [{"x": [("a", 1)]}, None]),
    "keys whose field may be null": (
        below(maps(BAD, nullable=True), [True, False], nullable=False),
        [{"x": [("a", 1)]}, None],
    ),
    "text of one null struct": (below(BAD, [True, False]), [{"x": "a"}, None]),
    "text, not nullable": (below(BAD, [True, False], nullable=False), [{"x": "a"}, None]),
    "an empty dictionary": (below(indices([0, 0], EMPTY), [False, False]), [None, None]),
    "the same, where none may be null": (below(indices([0, 0], EMPTY), [False, False], nullable=False), [None, None]),
    "a union of empty children": (below(NO_UNION, [False, False]), [None, None]),
    "a slice": (below(text([0, 1, 2, 3], b"a\xffb"), [True, False, True]).slice(1), [None, {"x": "b"}]),
    "a view below a null": (below(views(b"\xff" * 16, b"\x01\0\0\0a" + bytes(11)), [False, True]), [None, {"x": "a"}]),
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_rows_of_clear_arrays(name):
    array, expected = SOUND[name]
    with pytest.raises(InvalidBodyError):
        validate.check_values(array, "f")
    cleared = validate.with_sound_values(array, "f")
    assert expected == cleared.to_pylist()
    theirs = pa.array(cleared)
    theirs.validate(full=True)
    assert expected == theirs.to_pylist()


REFUSED = {
    "a null count": (below(replace(BAD, null_count=1, buffers=(buffer([3]), *BAD.buffers[1:])), [False, False]), "a null count of 0"),
    "value offsets that fall": (below(text([0, 2, 1], b"ab"), [False, False]), "do not fall"),
    "value offsets beyond the bytes": (below(text([0, 1, 9], b"ab"), [False, False]), "up to the 2 bytes"),
    "run ends": (below(Array(t.run_end_encoded(t.int16, t.int8), 2, 0, (), (from_pylist.array([2, 1], t.int16), from_pylist.array([0, 0], t.int8))), [False, False]), "run ends that rise"),
    "text that is seen": (below(BAD, [False, True]), "UTF-8 text in slot 1"),
    "an index that is seen": (below(indices([9, 9], EMPTY), [False, True]), "indices from 0 to below 0"),
    "a type id that is seen": (below(NO_UNION, [True, False]), "type ids of 4, 9"),
    "a dictionary's value that is seen": (indices([0, 1], BAD), "UTF-8 text in slot 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_row_can_see_or_the_format_demands_is_refused(name):
    array, expected = REFUSED[name]
    with pytest.raises(InvalidBodyError) as raised:
        validate.with_sound_values(array, "f")
    assert expected in raised.value.expected


# Files: dictionaries that are absent, or have a broken value


def stream_of(array, *, keep=lambda kind: True):
    """Return a stream of one batch without the messages that `keep` does not keep."""
    schema, sink = Schema((Field("f", array.type),)), io.BytesIO()
    write_raw(sink, RecordBatch(schema, (array,), array.length), format="stream")
    return without_messages(sink.getvalue(), keep=keep)


def without_messages(data, *, keep):
    made, start = b"", 0
    while data[start : start + 8] != b"\xff\xff\xff\xff\0\0\0\0":
        message = pa.ipc.read_message(pa.BufferReader(data[start:]))
        nbytes = 8 + int.from_bytes(data[start + 4 : start + 8], "little") + (message.body.size if message.body else 0)
        made += data[start : start + nbytes] if keep(message.type) else b""
        start += nbytes
    return made + data[start:]


def read(data, validation="full"):
    return [row["f"] for batch in ipc.open_stream(data, validation=validation) for row in batch.to_pylist()]


WORDS = indices([0, 0], from_pylist.array(["a"], t.utf8))
PAIRS = np.array([0, 1, 2], np.int32)


def listed(array, valid):
    bits = array_data.pack_bits(valid)
    return Array(t.list_(array.type), 2, valid.count(False), (bits, buffer(PAIRS, np.int32)), (array,))


@pytest.mark.parametrize("validation", ["full", "structural"])
@pytest.mark.parametrize("above", [below, listed])
def test_a_dictionary_is_needed_by_the_rows_that_use_it(above, validation):
    def absent(valid):
        return stream_of(above(WORDS, valid), keep=lambda kind: kind != "dictionary")

    assert [None, None] == read(absent([False, False]), validation)
    with pytest.raises(InvalidDictionaryError, match="a dictionary batch of id 0 before its first use, found none"):
        read(absent([False, True]), validation)


def test_the_values_of_an_absent_dictionary_are_made_once():
    """Those of a struct of 2,000 fields took 25 ms for each batch of 500 bytes."""
    schema, sink = Schema((Field("f", WORDS.type),)), io.BytesIO()
    nulls = replace(WORDS, null_count=2, buffers=(array_data.pack_bits([False, False]), WORDS.buffers[1]))
    ipc.write(sink, [RecordBatch(schema, (nulls,), 2)] * 2, schema, ipc.WriteOptions(format="stream"))
    data = without_messages(sink.getvalue(), keep=lambda kind: kind != "dictionary")
    first, second = (batch.columns[0].dictionary for batch in ipc.open_stream(data))
    assert first is second
    assert 0 == first.length


def test_a_broken_value_of_a_dictionary_is_an_error_of_the_rows_that_use_it():
    assert ["a", "a"] == read(stream_of(indices([0, 0], BAD)))
    with pytest.raises(InvalidBodyError, match=r"dictionary batch 0.*UTF-8 text in slot 1") as raised:
        read(stream_of(indices([0, 1], BAD)))
    assert "dictionary batch" == raised.value.block_kind


def test_a_dictionary_is_not_checked_again_and_again(monkeypatch):
    monkeypatch.setattr(array_data, "_MOST_DOUBTED_NBYTES", 200_000)
    data = stream_of(indices([0, 0], BAD))
    assert ["a", "a"] == read(data)
    message = pa.ipc.read_message(
        pa.BufferReader(stream_of(indices([0, 0], BAD), keep=lambda kind: kind == "record batch"))
    )
    batch = message.serialize().to_pybytes()
    with pytest.raises(InvalidBodyError, match="UTF-8 text in slot 1"):
        read(data[:-8] + batch * 200 + data[-8:])


def test_a_wide_dictionary_is_not_checked_again_and_again():
    """An array takes its time however few bytes it has: 2,000 fields in 400 batches of 673 kB took 98 s."""
    fields = [Field("f", BAD.type)] * 2_000
    values = Array(t.Struct(tuple(fields)), 2, 0, (None,), (BAD,) * 2_000)
    doubt = array_data.Doubt(InvalidBodyError())
    doubt.spend(values)
    with pytest.raises(InvalidBodyError):
        for _ in range(50):
            doubt.spend(values)


# Memory


MANY = 2**31 - 1


def runs(length, values):
    type_ = t.run_end_encoded(t.int64, values.type)
    return Array(type_, length, 0, (), (from_pylist.array([length], t.int64), values))


def fixed(child, size):
    type_ = t.FixedSizeList(Field("item", child.type), size)
    return Array(type_, child.length // size, 0, (None,), (child,))


BOMBS = {
    "nulls": fixed(Array(t.null, 2 * MANY, 2 * MANY, ()), MANY),
    "runs": fixed(runs(2 * MANY, from_pylist.array([1], t.int8)), MANY),
    "structs": fixed(Array(t.Struct((Field("x", t.null),)), 2 * MANY, 0, (None,), (Array(t.null, 2 * MANY, 2 * MANY, ()),)), MANY),
    "bytes of no width": fixed(Array(t.FixedSizeBinary(0), 2 * MANY, 0, (None, memoryview(b""))), MANY),
    "a dictionary of nulls": indices([0, 1], Array(t.null, 2**40, 2**40, ())),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_memory_is_that_of_the_bytes_and_not_of_the_slots(name):
    array = BOMBS[name]
    tracemalloc.start()
    try:
        cleared = clear_unseen(below(array, [False, True]))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
    assert cleared.length == 2


def nulls_in_views(size, *, valid):
    """Return a list-view of so many nulls, in a struct that is null or not."""
    buffers = (None, buffer([0], np.int32), buffer([size], np.int32))
    views_ = Array(t.ListView(Field("item", t.null)), 1, 0, buffers, (Array(t.null, MANY, MANY, ()),))
    return below(views_, [valid])


def test_a_negative_size_that_no_row_sees_hides_no_other():
    parts = nulls_in_views(MANY, valid=True), nulls_in_views(-MANY, valid=False)
    type_ = t.Struct(tuple(Field("x", part.type) for part in parts))
    with pytest.raises(LimitError):
        check_expansion(Array(type_, 1, 0, (None,), parts))


def test_null_keys_do_not_end_the_process():
    """pyarrow aborts where it takes a map with a null key, whether a row sees it or not."""
    two = maps(from_pylist.array(["a", None], t.utf8))
    seen = replace(two, null_count=1, buffers=(array_data.pack_bits([True, False]), *two.buffers[1:]))
    assert [[("a", 1)], None] == pa.array(seen).to_pylist()
    with pytest.raises(InvalidBodyError, match="map entries and keys that are not null"):
        pa.array(two)


def test_sound_columns_are_the_same_objects():
    array = below(from_pylist.array(["a", None], t.utf8), [True, False])
    assert array is validate.with_sound_values(array, "f")
    assert (array,) == validate.sound_columns((array,), (Field("f", array.type),))


@pytest.mark.slow
def test_random_bytes_raise_nothing_else():
    """Cleared or refused: no index leads outside of a buffer, whatever the integers are."""
    random = np.random.default_rng(0)
    for _ in range(500):
        ids, positions = random.integers(-1, 4, 4), random.integers(-3, 5, 4)
        children = (from_pylist.array(["a", "b"], t.utf8), indices(random.integers(-2, 4, 2), BAD))
        type_ = t.DenseUnion((Field("s", t.utf8), Field("d", children[1].type)), (0, 2))
        union = Array(type_, 4, 0, (buffer(ids, np.int8), buffer(positions, np.int32)), children)
        starts, sizes = random.integers(-2, 6, (2, 2))
        list_views = Array(
            t.ListView(Field("item", union.type)),
            2,
            0,
            (None, buffer(starts, np.int32), buffer(sizes, np.int32)),
            (union,),
        )
        array = below(list_views, random.integers(0, 2, 2).astype(bool).tolist())
        with contextlib.suppress(ArrowIpcError):
            validate.with_sound_values(array, "f").to_pylist()
