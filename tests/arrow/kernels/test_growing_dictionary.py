"""A dictionary grows by the values that are new, and a failure leaves it as it was."""

import numpy as np
import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.equality import as_bits, differ
from spark_arrow_ipc.arrow.kernels.growing_dictionary import GrowingDictionary
from spark_arrow_ipc.arrow.python_values import from_pylist


def words(text):
    return from_pylist.array(list(text), t.utf8)


BROUGHT = [
    ("the same", "abc", None, "abc"),
    ("a beginning", "ab", None, "abc"),
    ("a continuation", "abcde", None, "abcde"),
    ("others", "xcy", [3, 2, 4], "abcxy"),
    ("new ones twice", "xxax", [3, 3, 0, 3], "abcx"),
    ("in another order", "cab", [2, 0, 1], "abc"),
    ("none", "", None, "abc"),
]


@pytest.mark.parametrize(("brought", "positions", "values"), [row[1:] for row in BROUGHT], ids=[r[0] for r in BROUGHT])
def test_values_are_added_once(brought, positions, values):
    growing = GrowingDictionary(words("abc"))
    found = growing.add(words(brought), 100)
    assert positions == (None if found is None else found.tolist())
    assert list(values) == growing.values.to_pylist()
    assert len(values) == growing.length


@pytest.mark.parametrize("brought", ["xcy", "ca", "cab", "x"])
def test_values_whose_order_has_a_meaning_are_not_added_in_another_one(brought):
    growing = GrowingDictionary(words("abc"))
    with pytest.raises(ValueError, match="ordered dictionaries that do not continue one another"):
        growing.add(words(brought), 100, keeps_order=True)
    assert ["a", "b", "c"] == growing.values.to_pylist()


@pytest.mark.parametrize(("brought", "positions"), [("ab", None), ("abcx", None), ("ac", [0, 2]), ("bbc", [1, 1, 2])])
def test_values_in_their_order_are_added(brought, positions):
    growing = GrowingDictionary(words("abc"))
    found = growing.add(words(brought), 100, keeps_order=True)
    assert positions == (None if found is None else found.tolist())


SAME_BYTES = [
    ("of other offsets", from_pylist.array(["zz", "a", "bc"], t.utf8).slice(1), from_pylist.array(["a", "bc"], t.utf8)),
    ("cut elsewhere", from_pylist.array(["ab", "c"], t.utf8), from_pylist.array(["a", "bc"], t.utf8)),
    ("other bytes", from_pylist.array(["a", "bc"], t.utf8), from_pylist.array(["a", "bd"], t.utf8)),
    ("nulls", from_pylist.array([0, None], t.int8), from_pylist.array([0, 0], t.int8)),
    ("numbers", from_pylist.array([5, 1, 2], t.int64).slice(1), from_pylist.array([1, 2], t.int64)),
    ("signs of zero", from_pylist.array([0.0], t.float32), from_pylist.array([-0.0], t.float32)),
    ("no slots", from_pylist.array(["x"], t.utf8).slice(1), from_pylist.array([], t.utf8)),
]


@pytest.mark.parametrize(("first", "other"), [row[1:] for row in SAME_BYTES], ids=[row[0] for row in SAME_BYTES])
def test_a_dictionary_that_begins_alike_is_known_by_its_values(first, other):
    """By their bits and their places, whatever the buffers have around them."""
    alike = not differ(as_bits(first), np.arange(first.length), as_bits(other), np.arange(other.length)).any()
    assert alike == (GrowingDictionary(first).add(other, 100) is None)


@pytest.mark.slow
def test_values_of_many_dictionaries():
    """Each value has the position of its first use, however the parts were joined."""
    growing, expected = GrowingDictionary(words("a")), {"a": 0}
    for i in range(200):
        brought = [f"v{(i * 7 + k * k) % 150}" for k in range(9)]
        for value in brought:
            expected.setdefault(value, len(expected))
        found = growing.add(from_pylist.array(brought, t.utf8), 1000)
        assert [expected[value] for value in brought] == found.tolist()
        since = growing.since(growing.length - 1).to_pylist()
        assert [growing.values.to_pylist()[-1]] == since
    assert list(expected) == growing.values.to_pylist()


def test_too_many_values_leave_it_as_it_was():
    growing = GrowingDictionary(words("abc"))
    growing.add(words("cb"), 4)
    for _ in range(2):
        with pytest.raises(ValueError, match="bring 5 different values, and its indices count 4"):
            growing.add(words("xcy"), 4)
    assert [3, 0] == growing.add(words("xa"), 4).tolist()
    assert ["a", "b", "c", "x"] == growing.values.to_pylist()
