"""Sound arrays of every type pass; each single thing that can be wrong is an error that says where and what."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
from arrow_cases import ARRAYS, LIST_VALUES, SLICES
from arrow_from_pyarrow import from_pyarrow
from built_arrays import BIG, buffer, text

from spark_arrow_ipc.arrow import Array, Field, array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.validate import arrays as validate
from spark_arrow_ipc.errors import InvalidBodyError


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("offset", "length"), SLICES)
@pytest.mark.parametrize("name", ARRAYS)
def test_sound_arrays_pass(name, offset, length):
    array = from_pyarrow(ARRAYS[name])
    validate.check(array, name)
    validate.check(array.slice(offset, length), name)


def _with_buffer(array, number, buffer):
    buffers = list(array.buffers)
    buffers[number] = buffer
    return replace(array, buffers=tuple(buffers))


INT32 = from_pylist.array([1, 2, 3], t.int32)
NULLS = from_pylist.array([1, None, 3], t.int32)
TEXT = from_pylist.array(["ab", "c", "de"], t.utf8)
PAIR = from_pyarrow(pa.array([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]))
PAIRS = from_pyarrow(pa.array([[1, 2], [3, 4]], pa.list_(pa.int16(), 2)))
INDEXED = from_pylist.array(["x", "y", "x"], t.dictionary(t.int8, t.utf8))
LISTED = from_pylist.array([[1], [2, 3]], t.list_(t.int8))

SIZES = [
    ("negative length", replace(INT32, length=-1), "f", "a length and an offset of at least 0", "a length of -1"),
    ("negative offset", replace(INT32, offset=-1), "f", "a length and an offset of at least 0", "offset -1"),
    ("null count above length", replace(NULLS, null_count=4), "f", "a null count from 0 to 3", "4"),
    ("null count below -1", replace(NULLS, null_count=-2), "f", "a null count from 0 to 3", "-2"),
    ("a length of 2**62", replace(INT32, length=1 << 62), "f", f"data of at least {1 << 64} bytes", "12"),
    ("a buffer too few", replace(INT32, buffers=INT32.buffers[:1]), "f", "2 buffers for int32", "1"),
    ("a buffer too many", replace(INT32, buffers=(*INT32.buffers, b"")), "f", "2 buffers for int32", "3"),
    ("views without views", replace(from_pyarrow(ARRAYS["utf8_view"]), buffers=(None,)), "f", "at least 2 buffers", "1"),
    ("nulls without a bitmap", _with_buffer(NULLS, 0, None), "f", "a validity bitmap for 1 nulls", "none"),
    ("a short bitmap", replace(NULLS, length=3, offset=6, buffers=(buffer([1]), buffer([0] * 36))), "f", "a validity bitmap of at least 2 bytes", "1"),
    ("no data", _with_buffer(INT32, 1, None), "f", "a buffer of data", "none"),
    ("short data", _with_buffer(INT32, 1, INT32.buffers[1][:11]), "f", "data of at least 12 bytes", "11"),
    ("short data of a slice", replace(INT32, offset=1), "f", "data of at least 16 bytes", "12"),
    ("short offsets", _with_buffer(TEXT, 1, TEXT.buffers[1][:15]), "f", "value offsets of at least 16 bytes", "15"),
    ("short views", _with_buffer(from_pyarrow(ARRAYS["utf8_view"]), 1, memoryview(bytes(160))), "f", "views of at least 176 bytes", "160"),
    ("a child too few", replace(PAIR, children=PAIR.children[:1]), "f", "2 child arrays", "1"),
    ("a short struct child", replace(PAIR, length=3), "f.a", "a child array of at least 3 slots", "2"),
    ("a short list child", replace(PAIRS, offset=1), "f[]", "a child array of at least 6 slots", "4"),
    ("a huge list child", replace(PAIRS, length=1 << 62), "f[]", f"a child array of at least {1 << 63} slots", "4"),
    ("a child of another type", replace(LISTED, children=(INT32,)), "f[]", "a child array of int8", "one of int32"),
    ("no dictionary", replace(INDEXED, dictionary=None), "f", "a dictionary of utf8", "none"),
    ("another dictionary", replace(INDEXED, dictionary=INT32), "f", "a dictionary of utf8", "one of int32"),
    ("a broken child", replace(LISTED, children=(replace(LISTED.children[0], length=9),)), "f[]", "data of at least 9 bytes", "3"),
    ("a broken dictionary", replace(INDEXED, dictionary=replace(INDEXED.dictionary, length=9)), "f (dictionary)", "value offsets of at least 40 bytes", "12"),
]  # fmt: skip


@pytest.mark.parametrize(("array", "path", "expected", "found"), [c[1:] for c in SIZES], ids=[c[0] for c in SIZES])
def test_a_wrong_size_is_an_error(array, path, expected, found):
    with pytest.raises(InvalidBodyError) as raised:
        validate.check(array, "f", full=False)
    assert path == raised.value.field_path
    assert expected in raised.value.expected
    assert found in raised.value.found


def _indices(values, dtype, size=3, valid=None):
    type_ = t.dictionary(t.Int(8 * np.dtype(dtype).itemsize, np.dtype(dtype).kind == "i"), t.int32)
    bits = None if valid is None else array_data.pack_bits(valid)
    nulls = 0 if valid is None else valid.count(False)
    return Array(
        type_, len(values), nulls, (bits, buffer(values, dtype)), dictionary=from_pylist.array(range(size), t.int32)
    )


def _runs(ends, length, offset=0, dtype=np.int16, null_count=0, values=None, nulls=None):
    type_ = t.run_end_encoded(t.Int(8 * np.dtype(dtype).itemsize, signed=True), t.int8)
    bits = None if nulls is None else array_data.pack_bits([not n for n in nulls])
    run_ends = Array(type_.run_ends.type, len(ends), sum(nulls or []), (bits, buffer(ends, dtype)))
    values = from_pylist.array([0] * (len(ends) if values is None else values), t.int8)
    return Array(type_, length, null_count, (), (run_ends, values), offset=offset)


def _list_views(starts, sizes, dtype=np.int32, valid=None):
    type_ = (t.ListView if dtype is np.int32 else t.LargeListView)(Field("item", t.int32))
    bits = None if valid is None else array_data.pack_bits(valid)
    nulls = 0 if valid is None else valid.count(False)
    child = from_pyarrow(LIST_VALUES)
    return Array(type_, len(starts), nulls, (bits, buffer(starts, dtype), buffer(sizes, dtype)), (child,))


def _union(ids, starts=None, type_ids=(5, 7)):
    fields = (Field("n", t.int8), Field("s", t.utf8))
    children = (from_pylist.array([1, 2, 3], t.int8), from_pylist.array(["a", "b", "c"], t.utf8))
    if starts is None:
        return Array(t.SparseUnion(fields, type_ids), len(ids), 0, (buffer(ids, np.int8),), children)
    buffers = (buffer(ids, np.int8), buffer(starts, np.int32))
    return Array(t.DenseUnion(fields, type_ids), len(ids), 0, buffers, children)


MAP = from_pylist.array([[("a", 1)], None, [("b", 2), ("c", 3)]], t.map_(t.utf8, t.int8))


def _map(null_key=None, null_entry=None, offsets=(0, 1, 1, 3), valid=(True, False, True)):
    (entries,) = MAP.children
    keys, items = entries.children
    if null_key is not None:
        bits = [i != null_key for i in range(3)]
        keys = replace(keys, null_count=1, buffers=(array_data.pack_bits(bits), *keys.buffers[1:]))
    if null_entry is not None:
        entries = replace(entries, null_count=1, buffers=(array_data.pack_bits([i != null_entry for i in range(3)]),))
    entries = replace(entries, children=(keys, items))
    buffers = (array_data.pack_bits(valid), buffer(offsets, np.int32))
    return replace(MAP, length=len(valid), null_count=list(valid).count(False), buffers=buffers, children=(entries,))


RISING = list(range(BIG + 1))
FALLS = [*RISING[:69_000], 68_998, *RISING[69_001:]]

VALUES = [
    ("null count too high", replace(NULLS, null_count=2), "f", "a null count of 1", "2"),
    ("null count too low", replace(NULLS, null_count=0), "f", "a null count of 1", "0"),
    ("null count of a child", replace(LISTED, children=(replace(from_pylist.array([1, None, 3], t.int8), null_count=0),)), "f[]", "a null count of 1", "0"),
    # Value offsets
    ("negative first offset", text([-1, 1, 2], b"ab"), "f", "value offsets from 0 on", "-1 in slot 0"),
    ("falling offsets", text([0, 2, 1, 3], b"abc"), "f", "value offsets that do not fall", "2 and then 1 in slot 1"),
    ("falling under a null", text([0, 2, 1, 3], b"abc", valid=[True, False, True]), "f", "do not fall", "2 and then 1 in slot 1"),
    ("falling in a later chunk", text(FALLS, b"a" * BIG), "f", "do not fall", "68999 and then 68998 in slot 68999"),
    ("last beyond the data", text([0, 1, 4], b"abc"), "f", "value offsets up to the 3 bytes of data", "4 in slot 1"),
    ("an empty slot beyond the data", text([4, 4, 4], b"abc"), "f", "up to the 3 bytes", "in slot"),
    ("binary beyond the data", text([0, 1, 4], b"abc", t.binary), "f", "up to the 3 bytes", "4 in slot 1"),
    ("large offset of 2**63-1", text([0, 2**63 - 1], b"abc", t.large_utf8), "f", "up to the 3 bytes", f"{2**63 - 1} in slot 0"),
    ("large falling", text([0, 2**62, 1], b"abc", t.large_binary), "f", "do not fall", "in slot 1"),
    ("list beyond the child", _with_buffer(LISTED, 1, buffer([0, 1, 4], np.int32)), "f", "up to the 3 slots of the child array", "4 in slot 1"),
    ("falling list", _with_buffer(LISTED, 1, buffer([0, 2, 1], np.int32)), "f", "do not fall", "2 and then 1"),
    # Dictionaries
    ("text of a dictionary", replace(INDEXED, dictionary=text([0, 1, 2], b"a\xff")), "f (dictionary)", "slot 1", "not UTF-8"),
    ("index -1", _indices([0, -1], np.int8), "f", "dictionary indices from 0 to below 3", "-1 in slot 1"),
    ("index of the length", _indices([0, 1, 3], np.int16), "f", "from 0 to below 3", "3 in slot 2"),
    ("unsigned", _indices([0, 255], np.uint8), "f", "from 0 to below 3", "255 in slot 1"),
    ("64 bits", _indices([0, 2**63], np.uint64), "f", "from 0 to below 3", f"{2**63} in slot 1"),
    ("an empty dictionary", _indices([0], np.int32, size=0), "f", "from 0 to below 0", "0 in slot 0"),
    ("index beside a null", _indices([9, 9, 0], np.int8, valid=[False, True, True]), "f", "from 0 to below 3", "9 in slot 1"),
    # Unions
    ("unknown type id", _union([5, 7, 6]), "f", "type ids of 5, 7", "6 in slot 2"),
    ("negative type id", _union([5, -1, 7], [0, 0, 0]), "f", "type ids of 5, 7", "-1 in slot 1"),
    ("dense offset of the length", _union([5, 7, 7], [0, 0, 3]), "f.s", "from 0 to below the 3 slots", "3 in slot 2"),
    ("negative dense offset", _union([5, 7, 7], [-1, 0, 1]), "f.n", "from 0 to below the 3 slots", "-1 in slot 0"),
    ("falling dense offset", _union([5, 7, 5], [1, 0, 0]), "f.n", "value offsets that do not fall", "1 and then 0 in slot 2"),
    # Runs
    ("first run end 0", _runs([0, 2], 2), "f", "run ends from 1 on", "0 in run 0"),
    ("equal run ends", _runs([1, 1, 3], 3), "f", "run ends that rise", "1 and then 1 in run 1"),
    ("falling run ends", _runs([2, 1], 1), "f", "run ends that rise", "2 and then 1 in run 1"),
    ("last run end too low", _runs([1, 3], 4), "f", "a last run end of at least 4", "3"),
    ("last run end too low for a slice", _runs([1, 3], 3, offset=1), "f", "a last run end of at least 4", "3"),
    ("no runs", _runs([], 1), "f", "a last run end of at least 1", "0"),
    ("null run end", _runs([1, 3], 3, nulls=[False, True]), "f", "run ends that are not null", "1 nulls"),
    ("null count of runs", _runs([1, 3], 3, null_count=1), "f", "a null count of 0 for runs", "1"),
    ("a value too few", _runs([1, 3], 3, values=1), "f", "a value for each of 2 runs", "1"),
    # List-views
    ("negative list-view offset", _list_views([0, -1], [1, 1]), "f", "list-views within the 20 slots", "1 slots from -1 on in slot 1"),
    ("negative list-view size", _list_views([0, 0], [1, -1]), "f", "within the 20 slots", "-1 slots from 0 on in slot 1"),
    ("list-view offset + 1", _list_views([16, 0], [5, 1]), "f", "within the 20 slots", "5 slots from 16 on in slot 0"),
    ("empty list-view beyond", _list_views([21], [0]), "f", "within the 20 slots", "0 slots from 21 on"),
    ("null list-view beyond", _list_views([16], [5], valid=[False]), "f", "within the 20 slots", "5 slots from 16"),
    ("large list-view that wraps", _list_views([2**63 - 1], [2**63 - 1], np.int64), "f", "within the 20 slots", "in slot 0"),
    # Maps
    ("null key", _map(null_key=1), "f", "map keys that are not null", "a null in slot 2"),
    ("null entry", _map(null_entry=2), "f", "map entries that are not null", "a null in slot 2"),
    ("map beyond the entries", _map(offsets=(0, 1, 1, 4)), "f", "up to the 3 slots", "4 in slot 2"),
]  # fmt: skip


@pytest.mark.parametrize(("array", "path", "expected", "found"), [c[1:] for c in VALUES], ids=[c[0] for c in VALUES])
def test_a_wrong_value_is_an_error(array, path, expected, found):
    with pytest.raises(InvalidBodyError) as raised:
        validate.check(array, "f")
    assert path == raised.value.field_path
    assert expected in raised.value.expected
    assert found in raised.value.found
    assert raised.value.spec


SOUND = [
    ("offsets that start late", text([1, 2, 3], b"\xffab")),
    ("bytes after the last", text([0, 1], b"a\xff")),
    ("no offsets without slots", Array(t.utf8, 0, 0, (None, memoryview(b""), memoryview(b"")))),
    ("indices under null", _indices([99, 0], np.int8, valid=[False, True])),
    ("an empty dictionary of nulls", _indices([99], np.int8, size=0, valid=[False])),
    ("a dictionary longer than its index type", _indices([127], np.int8, size=1000)),
    ("list-views out of order", _list_views([19, 0, 5, 20], [1, 20, 7, 0])),
    ("runs beyond the slots", _runs([1, 9], 3)),
    ("runs of no slots", _runs([], 0)),
    ("more values than runs", _runs([1, 3], 3, values=5)),
    ("dense unions that repeat", _union([5, 5, 7], [1, 1, 0])),
    ("a null key that no map holds", _map(null_key=0, offsets=(1, 1, 1, 3))),
    ("a null key of a null map", _map(null_key=0, offsets=(0, 1, 1, 3), valid=(False, True, True))),
]  # fmt: skip


@pytest.mark.parametrize("array", [c[1] for c in SOUND], ids=[c[0] for c in SOUND])
def test_what_the_format_allows_passes(array):
    validate.check(array, "f")


def test_dictionaries_may_be_left_out():
    array = replace(INDEXED, dictionary=text([0, 1, 2], b"a\xff"))
    validate.check_values(array, "f", dictionaries=False)
    validate.check_values(replace(LISTED, children=(array,)), "f", dictionaries=False)
    with pytest.raises(InvalidBodyError):
        validate.check_values(array, "f")


def test_structural_validation_looks_at_no_values():
    validate.check(text([0, 1, 2], b"a\xff"), "f", full=False)


def test_a_slice_is_checked_by_itself():
    array = text([0, 1, 2, 3], b"\xffab")
    validate.check(array.slice(1), "f")
    with pytest.raises(InvalidBodyError, match="slot 0"):
        validate.check(array.slice(0, 2), "f")


def outcome(array, few):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validate, "_FEW_SLOTS", few)
        try:
            validate.check_values(array, "a")
        except InvalidBodyError as error:
            return str(error)
        return None


@pytest.mark.slow
@pytest.mark.parametrize("type_", [t.utf8, t.binary, t.large_utf8, t.large_binary], ids=str)
def test_a_few_strings_are_judged_as_many_are(type_):
    random = np.random.default_rng(0)
    dtype, seen = (np.int64 if type_ in {t.large_utf8, t.large_binary} else np.int32), set()
    for _ in range(1_000):
        length = int(random.integers(1, 6))
        data = bytes(random.choice([0x61, 0x62, 0x7F, 0xC3, 0xA9], 12, p=[0.5, 0.3, 0.1, 0.05, 0.05]).tolist())
        offsets = np.sort(random.integers(0, 13, length + 2)).astype(dtype)
        if random.integers(0, 3) == 0:
            offsets[random.integers(0, length + 2)] += random.choice([-14, -1, 1, 13, 2**31 - 20])
        skipped = int(random.integers(0, 2))
        buffers = (None, memoryview(offsets.tobytes()), memoryview(data))
        array = Array(type_, length + 1 - skipped, 0, buffers, offset=skipped)
        expected = outcome(array, -1)
        assert expected == outcome(array, 64)
        seen.add(expected is None)
    assert {True, False} == seen
