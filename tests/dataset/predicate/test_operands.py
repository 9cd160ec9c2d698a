"""Operands of predicates in isolation; how they stand in predicates is in test_parser."""

import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate import expressions as p
from spark_arrow_ipc.dataset.predicate.operands import parse_constant, parse_operand
from spark_arrow_ipc.dataset.predicate.tokens import Tokens
from spark_arrow_ipc.errors import OptionError


@pytest.mark.parametrize(
    ("sql", "type_"),
    [("decimal(5)", t.Decimal(5, 0)), ("dec(5, 2)", t.Decimal(5, 2)), ("numeric", t.Decimal(10, 0)), ("long", t.int64)],
)
def test_types_of_casts(sql, type_):
    found = parse_operand(Tokens(f"CAST(1 AS {sql})"))
    assert isinstance(found, p.Literal)
    assert (type_, True, f"CAST(1 AS {sql})") == (found.type, found.is_cast, found.sql)


def test_a_constant_is_no_column():
    with pytest.raises(OptionError, match="expected a literal, found the column a"):
        parse_constant(Tokens("a"))
