"""Concatenation against pyarrow's, for every type, of whole arrays and of slices."""

import pytest

pytest.importorskip("pyarrow")

import numpy as np
import pyarrow as pa
from arrow_cases import ARRAYS
from arrow_from_pyarrow import batch_from_pyarrow, from_pyarrow, to_pyarrow

from spark_arrow_ipc.arrow import Array
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.kernels.concat import concat, concat_batches
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.validate import arrays as validate

PARTS = {
    "whole": [(0, 11), (0, 11)],
    "slices": [(3, 5), (0, 2), (9, 2), (1, 10)],
    "with empty ones": [(0, 0), (2, 3), (5, 0), (5, 6), (11, 0)],
    "only empty ones": [(0, 0), (5, 0)],
    "one": [(2, 7)],
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("name", ARRAYS)
def test_concat(name, parts):
    ours = from_pyarrow(ARRAYS[name])
    joined = concat([ours.slice(*part) for part in parts])
    expected = [v for part in parts for v in ARRAYS[name].slice(*part).to_pylist()]
    validate.check(joined, name)
    assert expected == joined.to_pylist()
    assert (
        sum(v is None for v in expected) == joined.count_nulls()
        or "union" in name
        or "run" in name
        or name == "dictionary_uint8"
    )
    actual = to_pyarrow(joined)
    actual.validate(full=True)
    assert expected == actual.to_pylist()


def _words(*words, index=t.int8, ordered=False):
    return from_pylist.array(list(words), t.dictionary(index, t.utf8, ordered=ordered))


def test_dictionaries_that_differ_are_appended():
    joined = concat([_words("a", None, "b"), _words("b", "c"), _words("a", "b", "a")])
    assert ["a", None, "b", "b", "c", "a", "b", "a"] == joined.to_pylist()
    validate.check(joined, "f")


def test_one_dictionary_is_kept():
    whole = _words("a", "b", "c")
    joined = concat([whole.slice(0, 1), whole.slice(2, 1)])
    assert joined.dictionary is whole.dictionary


@pytest.mark.parametrize("order", [1, -1], ids=["growing", "shrinking"])
def test_a_dictionary_that_grew_is_kept_alone(order):
    arrays = [_words("a", "b"), _words("a", "b", "c"), _words("a", "b", "c", "d")][::order]
    joined = concat(arrays)
    assert ["a", "b", "c", "d"] == joined.dictionary.to_pylist()
    assert [v for array in arrays for v in array.to_pylist()] == joined.to_pylist()


def test_ordered_dictionaries_that_differ_are_refused():
    with pytest.raises(ValueError, match="ordered"):
        concat([_words("a", "b", ordered=True), _words("b", "c", ordered=True)])


def _int8_words(start):
    return _words(*(f"w{i}" for i in range(start, start + 100)))


def test_indices_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"dictionary indices that fit int8, found 199; .*wider"):
        concat([_int8_words(0), _int8_words(100)])


def test_run_ends_that_do_not_fit_are_refused():
    ends, values = pa.array([30_000], pa.int16()), pa.array(["x"])
    runs = from_pyarrow(pa.RunEndEncodedArray.from_arrays(ends, values))
    with pytest.raises(ValueError, match="run ends that fit int16, found 60000"):
        concat([runs, runs])


@pytest.mark.parametrize("type_", [t.utf8, t.binary], ids=str)
def test_value_offsets_that_do_not_fit_are_refused(type_):
    """2 GiB of bytes that are never touched: the check comes before the copy."""
    zeros = memoryview(np.zeros(1 << 30, np.uint8))
    offsets = memoryview(np.array([0, 1 << 30], np.int32)).cast("B")
    array = Array(type_, 1, 0, (None, offsets, zeros))
    with pytest.raises(ValueError, match="value offsets that fit int32"):
        concat([array, array])


def test_types_must_be_equal():
    with pytest.raises(ValueError, match="one type, found int32 and int64"):
        concat([from_pylist.array([1], t.int32), from_pylist.array([1], t.int64)])


def test_no_arrays_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        concat([])
    with pytest.raises(ValueError, match="at least one"):
        concat_batches([])


def test_batches():
    batch = pa.record_batch([pa.array(["a", None]), pa.array([1.5, 2.5])], ["s", "n"])
    joined = concat_batches([batch_from_pyarrow(batch)] * 3)
    assert pa.Table.from_batches([batch] * 3).to_pylist() == joined.to_pylist()


def test_batches_of_two_schemas_are_refused():
    a, b = (batch_from_pyarrow(pa.record_batch([pa.array([1])], [name])) for name in "ab")
    with pytest.raises(ValueError, match="one schema"):
        concat_batches([a, b])


def test_the_column_that_does_not_fit_is_named():
    batches = [batch_from_pyarrow(pa.record_batch([pa.array([1])], ["w"]))] * 2
    batches = [
        type(b)(type(b.schema)((t.Field("w", _int8_words(i).type),)), (_int8_words(i),), 100)
        for i, b in zip((0, 100), batches, strict=True)
    ]
    with pytest.raises(ValueError, match="column w: expected dictionary indices"):
        concat_batches(batches)
