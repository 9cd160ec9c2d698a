"""Gathered slots against pyarrow's, for every type, of whole arrays and of slices."""

import pytest

pytest.importorskip("pyarrow")

import numpy as np
from arrow_cases import ARRAYS
from arrow_from_pyarrow import from_pyarrow

from spark_arrow_ipc.arrow import Array
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.kernels import take as module
from spark_arrow_ipc.arrow.kernels.take import take, with_used_values
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.validate import arrays as validate
from spark_arrow_ipc.errors import InvalidBodyError

CHOICES = {
    "all": list(range(11)),
    "none": [],
    "backwards": list(range(10, -1, -1)),
    "some twice": [3, 3, 0, 10, 10, 10, 4],
    "one": [7],
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
@pytest.mark.parametrize("name", ARRAYS)
def test_take(name, choice):
    taken = take(from_pyarrow(ARRAYS[name]), np.array(choice, np.int64))
    values = ARRAYS[name].to_pylist()
    validate.check(taken, name)
    assert ARRAYS[name].null_count or not taken.null_count
    assert [values[i] for i in choice] == taken.to_pylist()


@pytest.mark.parametrize("name", ARRAYS)
def test_take_of_a_slice(name):
    taken = take(from_pyarrow(ARRAYS[name]).slice(3, 6), np.array([5, 0, 2], np.int64))
    values = ARRAYS[name].to_pylist()
    validate.check(taken, name)
    assert [values[i] for i in (8, 3, 5)] == taken.to_pylist()


def test_long_texts_are_gathered_in_pieces(monkeypatch):
    monkeypatch.setattr(module, "_PIECE_NBYTES", 10)
    words = ["a" * n for n in (3, 40, 0, 9, 1, 10, 11)]
    slots = np.array([6, 1, 2, 2, 0, 3, 4, 5], np.int64)
    assert [words[i] for i in slots] == take(from_pylist.array(words, t.utf8), slots).to_pylist()


USED = {
    "some": (["a", "b", "c", "a", None, "d"], (2, 3), ["a", "c"]),
    "all": (["a", "b"], (0, 2), ["a", "b"]),
    "none": (["a", None], (1, 1), []),
}


@pytest.mark.parametrize("case", USED)
def test_a_dictionary_is_cut_to_the_values_in_use(case):
    words, rows, expected = USED[case]
    array = from_pylist.array(words, t.dictionary(t.int32, t.utf8)).slice(*rows)
    cut = with_used_values(array)
    validate.check(cut, "f")
    assert (array.to_pylist(), expected) == (cut.to_pylist(), cut.dictionary.to_pylist())


def test_a_dictionary_inside_a_list_is_cut():
    array = from_pylist.array([["a"], ["b", None], ["c", "b"]], t.list_(t.dictionary(t.int8, t.utf8)))
    cut = with_used_values(take(array, np.array([1, 2], np.int64)))
    assert [["b", None], ["c", "b"]] == cut.to_pylist()
    assert ["b", "c"] == cut.children[0].dictionary.to_pylist()


BROKEN = {"that fall": [0, 2, 1], "below 0": [-(2**31), 0, 1], "beyond the end": [0, 1, 2**31 - 1]}


@pytest.mark.parametrize("offsets", BROKEN)
@pytest.mark.parametrize("type_", [t.utf8, t.list_(t.int8)], ids=str)
def test_broken_value_offsets_ask_for_no_memory(type_, offsets):
    """Of an array that was not validated; pyarrow reads outside of the buffers there."""
    child = (from_pylist.array([1, 2], t.int8),) if type_.children else ()
    data = () if type_.children else (memoryview(b"ab"),)
    array = Array(type_, 2, 0, (None, memoryview(np.array(BROKEN[offsets], np.int32)).cast("B"), *data), child)
    with pytest.raises(InvalidBodyError, match="from 0 up to 2 that do not fall"):
        take(array, np.array([0, 1]))
