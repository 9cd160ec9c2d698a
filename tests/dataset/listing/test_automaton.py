"""The automaton of patterns agrees with regular expressions, and forgets what it must."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_arrow_ipc.dataset.listing import globs as automaton
from spark_arrow_ipc.dataset.listing.globs import compile_name

PARTS = {
    "a": "a", "b": "b", "*": "(?s:.*)", "?": "(?s:.)", "[ab]": "[ab]", "[^a]": "[^a]", "{a,b}": "(?:a|b)",
    "{a,ab}": "(?:a|ab)", "{,*b}": "(?:|(?s:.*)b)", "{a,{b?,c}}": "(?:a|(?:b(?s:.)|c))",
}  # fmt: skip
"""Parts of patterns, and the regular expressions that mean the same."""


@given(st.lists(st.sampled_from(sorted(PARTS)), max_size=8), st.lists(st.text("abc\n", max_size=10), max_size=20))
def test_names_match_as_with_a_regular_expression(parts, names):
    matches = compile_name("".join(parts))
    oracle = re.compile("".join(map(PARTS.__getitem__, parts)))
    assert [oracle.fullmatch(name) is not None for name in names] == [bool(matches(name)) for name in names]


def test_states_are_forgotten_when_they_are_many(monkeypatch):
    monkeypatch.setattr(automaton, "_MOST_REMEMBERED", 50)
    matches = compile_name("*a??b*")
    names = [f"{i:b}".replace("0", "a").replace("1", "b") for i in range(500)]
    oracle = re.compile("(?s:.*a..b.*)")
    assert [oracle.fullmatch(name) is not None for name in names] == [matches(name) for name in names]
    assert matches.__self__._remembered <= 50 + 20


SETS = [
    ([("a", "c")], False, "abc", "d"),
    ([("a", "c")], True, "d", "abc"),
    ([], True, "xyz", ""),
    ([("a", "a"), ("x", "z")], False, "axyz", "bw"),
]


@pytest.mark.parametrize(("ranges", "negated", "inside", "outside"), SETS)
def test_characters_of_a_set(ranges, negated, inside, outside):
    characters = automaton.CharacterSet(tuple(ranges), negated)
    assert all(character in characters for character in inside)
    assert not any(character in characters for character in outside)
