"""On which settings of the session a predicate depends."""

import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset import time_zones
from spark_arrow_ipc.dataset.predicate import (
    ANSI,
    CASE,
    DATETIME_STRINGS,
    DOUBLE_QUOTES,
    ESCAPES,
    EXPONENTS,
    NEGATIVE_SCALES,
    PRECISION,
    SETTINGS,
    TIMESTAMP_TYPE,
    TRUNCATION,
)
from spark_arrow_ipc.dataset.predicate.bind import bind
from spark_arrow_ipc.dataset.predicate.parser import parse

MICROSECOND = t.TimeUnit.MICROSECOND
FIELDS = tuple(
    t.field(name, type_)
    for name, type_ in {
        "i": t.int32,
        "l": t.int64,
        "f": t.float32,
        "d": t.float64,
        "n": t.Decimal(7, 2),
        "w": t.Decimal(38, 37),
        "n0": t.Decimal(20, 0),
        "s": t.utf8,
        "day": t.date32,
        "ts": t.Timestamp(MICROSECOND, "UTC"),
        "ntz": t.Timestamp(MICROSECOND),
        "span": t.Duration(MICROSECOND),
        "A": t.int32,
        "a": t.int32,
    }.items()
)

DEPENDENCES = [
    # Comparisons of one type, and those that every session makes alike.
    ("i = 1 AND s = 'x' AND d < 1.5D", set()),
    ("i = '1' AND l < '7'", set()),
    ("i IN ('1', '-2')", set()),
    ("i IN (1, 2L) AND i < 2.5", set()),
    ("n0 = '1' AND n0 < 1.5 AND n0 > -1e30D", set()),
    ("n0 = '1.5'", {ANSI}),
    ("n0 < '0.4'", {ANSI}),
    ("n0 >= '-100000000000000000000'", {ANSI}),
    ("n0 <> 'NaN'", {ANSI}),
    ("i IN (CAST(NULL AS STRING), '1') AND day NOT IN ('2024-01-01', CAST(NULL AS STRING))", set()),
    ("f = 1 AND f < 1.5 AND f IN (1, 2, 0.5)", set()),
    ("d > 1e-3", set()),
    ("n = 1 AND n < 1.005 AND n = '1'", set()),
    ("day = DATE '2024-01-01' AND day IN ('2024-01-01')", set()),
    ("ts >= TIMESTAMP '2024-01-01' AND ntz > TIMESTAMP_NTZ '2024-01-01'", set()),
    ("day < TIMESTAMP '2024-01-01 00:00:00'", set()),
    ("ts IN (TIMESTAMP '2024-01-01 00:00:00')", set()),
    ("s LIKE 'a%' OR s IN ('a', 'b') OR upper(s) = 'A'", set()),
    ("a = 1 AND A = 2", set()),
    # Those that differ without ANSI mode.
    ("i < '2147483648'", {ANSI}),
    ("i IN ('01')", {ANSI}),
    ("f = 16777217", {ANSI}),
    ("16777217 = f", {ANSI}),
    ("f = '0.1'", {ANSI}),
    ("f IN (16777217, 1)", {ANSI}),
    ("i IN (16777217F, 1)", {ANSI}),
    (f"i IN (16777217F, {', '.join(map(str, range(100)))})", {ANSI}),
    (f"i IN ({', '.join(repr(f'0{i}') for i in range(100))})", {ANSI}),
    (f"i IN ({', '.join(repr(f'{i}') for i in range(100))})", set()),
    ("i = f", {ANSI}),
    ("day IN ('2024-1-1')", {ANSI}),
    ("NOT (i = 1 AND (s = 'a' OR l = 16777217F))", {ANSI}),
    # Literals.
    (r"s = 'a\\b'", {ESCAPES}),
    ("s = r'a'", {ESCAPES}),
    (r"s LIKE 'a\\%'", {ESCAPES}),
    ('s = "a"', {DOUBLE_QUOTES}),
    ("n = 1.5E1BD", {NEGATIVE_SCALES}),
    ("n < 1e19 AND n = 1e-1", set()),
    ("w = 1e0", {EXPONENTS}),
    ("w = 1", {PRECISION, TRUNCATION}),
    ("day = '2024-01-01'", {DATETIME_STRINGS}),
    ("day IN (TIMESTAMP '2024-01-01')", {TIMESTAMP_TYPE}),
    ("day IN (TIMESTAMP_LTZ '2024-01-01')", set()),
    ("ts = CAST('2024-01-01 00:00:00Z' AS TIMESTAMP)", {TIMESTAMP_TYPE}),
    ("ts = TIMESTAMP '2024-01-01 00:00:00Z'", set()),
    # Names, and what Spark only refuses.
    ("S = 'a'", {CASE}),
]


def noted(predicate):
    found = {}
    bind(parse(predicate, found), FIELDS, time_zones.zone("Europe/Berlin"), noted=found)
    return found


@pytest.mark.parametrize(("predicate", "expected"), DEPENDENCES, ids=[one[0][:60] for one in DEPENDENCES])
def test_a_predicate_notes_the_settings_on_which_it_depends(predicate, expected):
    assert expected == set(noted(predicate))


def test_all_settings_are_noted_by_some_predicate():
    assert set(SETTINGS) == set().union(*(expected for _, expected in DEPENDENCES))
