"""Hadoop's glob patterns: what they match, how braces unfold, and which are refused."""

import re

import cpu_time
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_arrow_ipc.dataset.listing.globs import (
    MOST_CHARACTERS,
    MOST_PATHS,
    compile_name,
    expand_braces,
    is_pattern,
    literal,
)
from spark_arrow_ipc.errors import OptionError

MATCHES = [
    ("star", "a*", ["a", "ab", "a.b"], ["b", "ba"]),
    ("star alone", "*", ["", "a"], []),
    ("star between", "ab*bc", ["abbc", "abxbc"], ["abc", "abb", "xabbc"]),
    ("double star in a name is a star", "a**b", ["ab", "axb"], ["a"]),
    ("question mark", "a?c", ["abc", "a.c"], ["ac", "abbc"]),
    ("a newline is a character", "a?c*", ["a\nc\n"], []),
    ("a dot is a dot", "a.c", ["a.c"], ["abc"]),
    ("characters of regular expressions", "a+(b)|$^c", ["a+(b)|$^c"], ["aab"]),
    ("set", "[abc]", ["a", "b", "c"], ["d", "ab", ""]),
    ("range", "x[0-9a-f]", ["x0", "xa"], ["xg", "x-"]),
    ("negated set", "[^ab]", ["c"], ["a", "b", ""]),
    ("negated set with an exclamation mark", "[!ab]", ["c"], ["a"]),
    ("a dash at the end of a set is itself", "[a-]", ["a", "-"], ["b"]),
    ("a bracket first in a set is itself", "[]a]", ["]", "a"], ["b"]),
    ("star and question mark in a set are themselves", "[*?.]", ["*", "?", "."], ["a"]),
    ("doubled signs in a set", "[&&||~~[[-]", ["&", "|", "~", "-", "["], ["a"]),
    ("escaped bracket in a set", r"[\]a]", ["]", "a"], ["\\"]),
    ("braces", "{a,bc}.arrow", ["a.arrow", "bc.arrow"], ["b.arrow", "a,bc.arrow"]),
    ("nested braces", "{a,b{c,d}}", ["a", "bc", "bd"], ["b", "c"]),
    ("an empty choice", "a{,b}", ["a", "ab"], ["b"]),
    ("patterns in braces", "{a*,[0-9]}", ["abc", "7"], ["b"]),
    ("a comma outside braces", "a,b", ["a,b"], ["a"]),
    ("a closing brace alone", "a}", ["a}"], ["a"]),
    ("a closing bracket alone", "a]", ["a]"], ["a"]),
    ("escapes", r"a\*\{b\}\\", ["a*{b}\\"], ["ab{b}\\"]),
    ("beyond the first plane", "[😀-😂]?", ["😁x"], ["a"]),
]


@pytest.mark.parametrize(("pattern", "yes", "no"), [case[1:] for case in MATCHES], ids=[case[0] for case in MATCHES])
def test_names_that_match(pattern, yes, no):
    matches = compile_name(pattern)
    assert (yes, []) == ([name for name in yes if matches(name)], [name for name in no if matches(name)])


@pytest.mark.parametrize("pattern", ["[a", "a{b", "{a,{b}", "a\\", "[z-a]", "[", "[]", "[^]"])
def test_pattern_that_is_not_closed_is_an_error_that_shows_it(pattern):
    with pytest.raises(OptionError) as caught:
        compile_name(pattern)
    assert repr(pattern) in str(caught.value)


# From the documentation of Hadoop's GlobExpander.
EXPANSIONS = [
    ("{a/b}", ["a/b"]),
    ("/}{a/b}", ["/}a/b"]),
    ("p{a/b,c/d}s", ["pa/bs", "pc/ds"]),
    ("{a/b,c/d,{e,f}}", ["a/b", "c/d", "{e,f}"]),
    ("{a/b,c/d}{e,f}", ["a/b{e,f}", "c/d{e,f}"]),
    ("{a,b}/{b,{c/d,e/f}}", ["{a,b}/b", "{a,b}/c/d", "{a,b}/e/f"]),
    (r"{a,b}/{c/\d}", [r"{a,b}/c/\d"]),
    ("{a,b}/c", ["{a,b}/c"]),
    (r"\{a/b\}", [r"\{a/b\}"]),
    ("{a/b", ["{a/b"]),
    ("/a/{,b/}c", ["/a/c", "/a/b/c"]),
]


@pytest.mark.parametrize(("pattern", "expected"), EXPANSIONS, ids=[case[0] for case in EXPANSIONS])
def test_braces_with_slashes_unfold(pattern, expected):
    assert expected == expand_braces(pattern)


@pytest.mark.parametrize(
    ("part", "name", "pattern"),
    [("abc", "abc", False), (r"a\*b", "a*b", True), ("a*", None, True), (r"a\[*", None, True), ("a b", "a b", False)],
)
def test_part_that_can_match_one_name_only(part, name, pattern):
    assert (name, pattern) == (literal(part), is_pattern(part))


SLOW_ONCE = [
    ("stars before a letter that is not there", "*a*a*a*ab", ["a" * 241], False),
    ("stars between dashes", "part-*-*-*-*.arrow", ["part-" + "-" * 230 + ".arro"], False),
    ("braces in a row", "{a,aa}" * 12 + "b", ["a" * 200], False),
    (
        "names that are given one by one",
        "{" + ",".join(f"part-{i:04d}-*" for i in range(5_000)) + "}",
        ["part-4999-x"],
        True,
    ),
    ("nested braces", "{" * 4_000 + "a" + "}" * 4_000, ["a"], True),
    ("many choices", "{" + ",".join(f"part-{i:05d}" for i in range(800)) + "}.arrow", ["part-00799.arrow"], True),
    ("every set of nodes", "*a" + "?" * 200, ["".join("ab"[i * i % 7 % 2] for i in range(250))] * 20, None),
    ("as many stars as a path has characters", "*?" * 2_048, ["a" * 255], False),
]


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize(("pattern", "names", "expected"), [c[1:] for c in SLOW_ONCE], ids=[c[0] for c in SLOW_ONCE])
def test_no_pattern_takes_long(pattern, names, expected):
    """The first takes a regular expression with backtracking over 8 seconds."""
    results = cpu_time.at_most(
        5, lambda: {bool(matches(name)) for matches in [compile_name(pattern)] for name in names}
    )
    assert expected is None or {expected} == results


TOO_MUCH = [
    ("choices times choices", "{a/,b/}" * 40),
    ("nested braces with a slash", "{" * 4_000 + "a/b" + "}" * 4_000),
    ("more paths than may be", "{" + "a/," * MOST_PATHS + "}"),
]


@pytest.mark.slow
@pytest.mark.parametrize("pattern", [case[1] for case in TOO_MUCH], ids=[case[0] for case in TOO_MUCH])
def test_braces_that_stand_for_too_much_are_refused(pattern):
    with pytest.raises(OptionError, match=f"at most {MOST_PATHS:,} paths"):
        cpu_time.at_most(5, expand_braces, pattern)


@pytest.mark.parametrize("pattern", ["{a,aa}" * 100, "{" + ("{a,b}" * 12 + ",") * 500 + "}"])
def test_braces_of_a_name_that_stand_for_too_much_are_refused(pattern):
    with pytest.raises(OptionError, match=f"at most {MOST_PATHS:,} names"):
        cpu_time.at_most(5, compile_name, pattern)


PARTS = {
    "a": "a", "b": "b", "*": "(?s:.*)", "?": "(?s:.)", "[ab]": "[ab]", "[^a]": "[^a]", "{a,b}": "(?:a|b)",
    "{a,ab}": "(?:a|ab)", "{,*b}": "(?:|(?s:.*)b)", "{a,{b?,c}}": "(?:a|(?:b(?s:.)|c))",
}  # fmt: skip
"""Parts of patterns, and the regular expressions that mean the same."""


@given(st.lists(st.sampled_from(sorted(PARTS)), max_size=8), st.lists(st.text("abc\n", max_size=10), max_size=20))
def test_names_match_as_with_a_regular_expression_that_tries_everything(parts, names):
    matches = compile_name("".join(parts))
    oracle = re.compile("".join(map(PARTS.__getitem__, parts)))
    assert [oracle.fullmatch(name) is not None for name in names] == [bool(matches(name)) for name in names]


def test_a_pattern_that_is_too_long_is_refused():
    with pytest.raises(OptionError, match="at most 65,536 characters, found 65,537"):
        compile_name("a" * (MOST_CHARACTERS + 1))
