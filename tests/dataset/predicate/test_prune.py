"""Predicates over summaries of many rows: sets of truths that are never too small."""

import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate.bind import bind
from spark_arrow_ipc.dataset.predicate.expressions import prefix_end
from spark_arrow_ipc.dataset.predicate.parser import parse
from spark_arrow_ipc.dataset.predicate.prune import (
    FALSE,
    NULL,
    TRUE,
    UNKNOWN,
    Summary,
    keeps_partition,
    summary_of_results,
    summary_of_value,
    truths,
)
from spark_arrow_ipc.dataset.time_zones import UNKNOWN_ZONE

FIELDS = tuple(
    t.field(name, type_) for name, type_ in {"i": t.int32, "l": t.int64, "s": t.utf8, "date": t.date32}.items()
)


def bound(sql):
    return bind(parse(sql), FIELDS, UNKNOWN_ZONE)


VALUES = {"i": 5, "s": "abc", "date": None}
PARTITIONS = [
    ("i = 5", True), ("i = 6", False), ("NOT i = 5", False), ("i IN (1, 5)", True), ("i IN (1, 2)", False),
    ("i NOT IN (5)", False), ("i NOT IN (1, NULL)", False), ("s LIKE 'ab%'", True), ("s LIKE '%bd'", False), ("s LIKE '%b%'", True),
    ("s NOT LIKE 'a%'", False), ("date IS NULL", True), ("date IS NOT NULL", False), ("date = '2020-01-01'", False),
    ("NOT date = '2020-01-01'", False), ("date <=> NULL", True), ("date <=> '2020-01-01'", False), ("date IN ('2020-01-01')", False), ("year(date) = 2020", False), ("upper(s) = 'X'", True),
    ("l = 1", True), ("i = 6 OR l = 1", True), ("i = 6 AND l = 1", False), ("i < l", True), ("i < i", False), ("i <=> i", True),
    ("date <=> date", True), ("FALSE", False), ("NULL", False), ("s = 'abc' AND i >= 5 AND i <= 5", True),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kept"), PARTITIONS)
def test_hive_partitions_are_pruned_by_their_values(text, kept):
    assert kept is keeps_partition(bound(text), VALUES)


SOME = Summary(0, 9, may_be_null=False)
NULLABLE = Summary(0, 9)
TRUTHS = [
    ("inside", "i >= 0 AND i < 10", SOME, TRUE),
    ("outside", "i > 9", SOME, FALSE),
    ("across", "i > 5", SOME, TRUE | FALSE),
    ("with_nulls", "i >= 0", NULLABLE, TRUE | NULL),
    ("negated", "NOT i >= 0", NULLABLE, FALSE | NULL),
    ("null_safe", "i <=> 10", NULLABLE, FALSE),
    ("is_null", "i IS NULL", NULLABLE, TRUE | FALSE),
    ("only_nulls", "i = 1", Summary(may_be_valid=False), NULL),
    ("and_of_false_and_unknown", "i > 9 AND i = NULL", SOME, FALSE),
    ("or_of_true_and_unknown", "i >= 0 OR i = NULL", SOME, TRUE),
    ("list_outside", "i IN (10, 11)", SOME, FALSE),
    ("year_inside", "year(date) = 1970", Summary(0, 364, may_be_null=False), TRUE),
    ("year_outside", "year(date) > 1970", Summary(0, 364), FALSE | NULL),
    ("year_before_1970", "year(date) = 1969", Summary(-1, -1, may_be_null=False), TRUE),
    ("month", "month(date) = 1", Summary(0, 1, may_be_null=False), TRUE | FALSE),
    ("unknown", "i = 1", UNKNOWN, TRUE | FALSE | NULL),
    ("below_a_doubt", "date < TIMESTAMP '1970-03-01 00:00:00'", Summary(0, 50, may_be_null=False), TRUE),
    ("above_a_doubt", "date < TIMESTAMP '1970-03-01 00:00:00'", Summary(70, 90, may_be_null=False), FALSE),
    ("equal_beside_a_doubt", "date = TIMESTAMP '1970-03-01 00:00:00'", Summary(0, 50), FALSE | NULL),
    ("inside_a_doubt", "date <> TIMESTAMP '1970-03-01 00:00:00'", Summary(59, 59, may_be_null=False), TRUE | FALSE),
    ("unsure", "DATE '1970-01-01' < TIMESTAMP '1970-03-01 00:00:00'", SOME, TRUE | FALSE | NULL),
]


@pytest.mark.parametrize(("sql", "summary", "expected"), [pytest.param(*case[1:], id=case[0]) for case in TRUTHS])
def test_truths_of_a_summary(sql, summary, expected):
    assert expected == truths(bound(sql), lambda column: summary_of_results(column, summary))


def test_a_single_value_is_a_summary():
    assert Summary(b"a", b"a", may_be_null=False) == summary_of_value("a", t.utf8)
    assert Summary(may_be_valid=False) == summary_of_value(None, t.utf8)


@pytest.mark.parametrize(("prefix", "end"), [(b"a", b"b"), (b"a\xff", b"b"), (b"\xff", None)])
def test_the_end_of_a_prefix(prefix, end):
    assert end == prefix_end(prefix)
