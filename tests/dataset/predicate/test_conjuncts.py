"""An error names the condition at fault, and those that would still work."""

import pytest

from spark_arrow_ipc.dataset.predicate.parser import parse
from spark_arrow_ipc.dataset.predicate.tokens import explain_refusal
from spark_arrow_ipc.errors import OptionError

PARTS = [
    ("a = 1 AND length(b) = 2", "(in the condition [length(b) = 2]; without it where takes [a = 1]"),
    ("a RLIKE 'x' AND b BETWEEN 1 AND 2 AND c", "[a RLIKE 'x']; without it where takes [b BETWEEN 1 AND 2 AND c]"),
    ("(a = 1 AND f(b)) AND c = 'x AND y'", "[(a = 1 AND f(b))]; without it where takes [c = 'x AND y']"),
    ("f(a) AND g(b) AND c", "[f(a) AND g(b)]; without it where takes [c]"),
    ("CASE WHEN a AND b THEN c END AND d", "[CASE WHEN a AND b THEN c END]; without it where takes [d]"),
]
WHOLE = [
    "f(a)",
    "f(a) OR b",
    "a AND f(b) OR c",
    "f(a) AND g(b)",
    "a AND f(b) -- c",
    "a = 1 AND \ud800",
    "a AND f(b)" * 100,
]


def error_of(sql):
    with pytest.raises(OptionError) as caught:
        parse(sql)
    return str(explain_refusal(caught.value, sql, parse))


@pytest.mark.parametrize(("sql", "words"), PARTS)
def test_the_part_at_fault_is_named(sql, words):
    assert words in error_of(sql)


@pytest.mark.parametrize("sql", WHOLE)
def test_a_predicate_that_has_no_working_part_has_the_plain_error(sql):
    assert "without it" not in error_of(sql)
