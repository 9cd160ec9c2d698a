"""Bound predicates: their columns, and empty ranges."""

import math

import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate.bind import bind
from spark_arrow_ipc.dataset.predicate.bound import (
    COMPARE,
    BoundColumn,
    Doubtful,
    Range,
    bound_columns,
    is_empty,
    merge_alternatives,
)
from spark_arrow_ipc.dataset.predicate.expressions import Operator
from spark_arrow_ipc.dataset.predicate.parser import parse

A = BoundColumn(("a",), t.float64)


def test_columns_of_a_predicate_are_named_once():
    fields = [t.field(name, t.int32) for name in "abcd"]
    bound = bind(parse("b = 1 OR NOT (b <=> 2 AND c IN (1, 2) AND a < b) OR d IS NULL"), fields)
    assert ["b", "c", "a", "d"] == [str(column) for column in bound_columns(bound)]


EMPTY = [(1.0, 1.0, True), (math.nan, math.nan, True), (1.0, 2.0, False), (None, 1.0, False), (1.0, None, False)]


@pytest.mark.parametrize(("lower", "upper", "expected"), EMPTY)
def test_an_empty_range_is_seen_by_its_bounds(lower, upper, expected):
    assert expected is is_empty(Range(A, lower, upper))


def test_every_operator_compares():
    assert set(Operator) == set(COMPARE)


def doubt(lower, upper, *, is_above=False):
    return Doubtful(A, lower, upper, is_below=False, is_above=is_above, why="why")


def test_doubts_that_overlap_are_joined():
    above = doubt(0, 3, is_above=True)
    assert [above, doubt(0, 4), doubt(5, 10)] == merge_alternatives(
        [doubt(5, 9), doubt(0, 3), doubt(2, 4), doubt(9, 10), above]
    )
