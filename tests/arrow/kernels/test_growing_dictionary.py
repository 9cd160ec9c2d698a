"""A dictionary grows by the values that are new, and a failure leaves it as it was."""

import pytest

from spark_arrow_ipc.arrow import types as t
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
