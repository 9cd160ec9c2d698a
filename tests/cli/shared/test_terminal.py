"""Nothing of a file reaches the terminal as a control character, and tables line up."""

import json
import sys

import pytest

from spark_arrow_ipc.cli.shared import terminal
from spark_arrow_ipc.errors import printable

TEXTS = [
    ("plain", "plain"),
    ("ünïcode 日本", "ünïcode 日本"),
    ("red \x1b[31m", "red \\x1b[31m"),
    ("two\nlines", "two\\nlines"),
    ("right to left \u202e", "right to left \\u202e"),
    ("half a pair \ud800", "half a pair \\ud800"),
    ("C1 \x9b31m", "C1 \\x9b31m"),
    ("delete \x7f", "delete \\x7f"),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_only_what_prints_is_printed(text, expected):
    assert expected == printable(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("abc", "abc"), ("abcde", "abc... (2 characters more)"), ("\n\n\n", "\\n\\n\\n")]
)
def test_long_text_is_cut_and_says_so(text, expected):
    assert expected == terminal.cut(text, 3)


@pytest.mark.parametrize(
    ("number", "noun", "plural", "expected"),
    [(0, "row", None, "0 rows"), (1, "row", None, "1 row"), (2000, "batch", "batches", "2,000 batches")],
)
def test_a_count_has_its_noun(number, noun, plural, expected):
    assert expected == terminal.count(number, noun, plural)


UNPRINTABLE = [chr(code) for code in range(sys.maxunicode + 1) if not chr(code).isprintable()]


@pytest.mark.slow
def test_json_has_only_characters_that_print_and_means_the_same():
    """C0, DEL, C1, directions of text, line separators, halves of pairs, and what no font has."""
    assert {"\x1b", "\x7f", "\x9b", "\u202e", "\u2028", "\u2066", "\ud800", "\U000e0001"} <= set(UNPRINTABLE)
    value = {"a".join(UNPRINTABLE): ["Zoë 日本", *UNPRINTABLE[:200]]}
    line = terminal.json_line(value)
    assert line.isprintable()
    assert value == json.loads(line)
    assert "Zoë 日本" in line


def test_columns_line_up():
    lines = terminal.table(("#", "name"), [("1", "a"), ("10", "bc")], terminal.RIGHT)
    assert ["   #  name", "   1  a", "  10  bc"] == lines


def test_a_table_without_rows_is_its_head():
    assert ["  #  name"] == terminal.table(("#", "name"), [])
