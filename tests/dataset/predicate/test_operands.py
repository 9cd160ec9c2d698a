"""Operands of predicates in isolation; how they stand in predicates is in test_parser."""

import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate import expressions as p
from spark_arrow_ipc.dataset.predicate.folding import fold
from spark_arrow_ipc.dataset.predicate.literal_casts import Session
from spark_arrow_ipc.dataset.predicate.operands import parse_constant, parse_operand
from spark_arrow_ipc.dataset.predicate.tokens import Tokens
from spark_arrow_ipc.errors import OptionError

ORDER = [
    ("2 + 3 * 4", 14), ("(2 + 3) * 4", 20), ("10 - 2 - 3", 5), ("-(2 + 3)", -5), ("- -5", 5), ("2 * -3", -6), ("1 -2", -1), ("-1 - -1", 0),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "expected"), ORDER)
def test_signs_bind_as_in_arithmetic(sql, expected):
    assert expected == fold(parse_constant(Tokens(sql)), Session(None)).value


def test_an_expression_says_how_it_was_written():
    found = parse_operand(Tokens("-(1 + 2) * CAST('3' AS bigint) - date_add('2024-01-01', 1)"))
    assert "-(1 + 2) * CAST('3' AS bigint) - date_add('2024-01-01', 1)" == str(found)


@pytest.mark.parametrize(
    ("sql", "type_"),
    [("decimal(5)", t.Decimal(5, 0)), ("dec(5, 2)", t.Decimal(5, 2)), ("numeric", t.Decimal(10, 0)), ("long", t.int64)],
)
def test_types_of_casts(sql, type_):
    found = parse_operand(Tokens(f"CAST(1 AS {sql})"))
    assert isinstance(found, p.Expression)
    assert type_ == found.to


def test_a_constant_is_no_column():
    with pytest.raises(OptionError, match="expected a literal, found the column a"):
        parse_constant(Tokens("a"))
