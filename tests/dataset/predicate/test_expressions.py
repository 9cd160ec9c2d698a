"""Predicates as values: their columns and how errors show them."""

import pytest

from spark_arrow_ipc.dataset.predicate.expressions import MIRRORED, Operator, columns
from spark_arrow_ipc.dataset.predicate.parser import parse


def test_columns_are_named_once_in_order():
    named = columns(parse("b.c = 1 AND (a IN (1) OR NOT b.c <=> a) AND d LIKE 'x' AND e IS NULL"))
    assert ["b.c", "a", "d", "e"] == [str(column) for column in named]


SHOWN = ["a.b = 'x'", "1 <=> a", "a IN (1, TIMESTAMP '2020-01-01')", "a IS NULL", "a"]


@pytest.mark.parametrize("sql", SHOWN)
def test_a_predicate_is_shown_as_sql(sql):
    assert sql == str(parse(sql))


def test_every_operator_has_a_mirror():
    assert set(Operator) == set(MIRRORED)
    assert all(MIRRORED[MIRRORED[operator]] is operator for operator in Operator)
