"""On which settings of the session a predicate depends, and what is refused under them."""

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
    check_settings,
)
from spark_arrow_ipc.dataset.predicate.bind import bind
from spark_arrow_ipc.dataset.predicate.parser import parse
from spark_arrow_ipc.errors import OptionError

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
    ("i IN (CAST(NULL AS STRING), '1') ", set()),
    ("f = 1 AND f < 1.5 AND f IN (1, 2, 0.5)", set()),
    ("d > 1e-3", {EXPONENTS}),
    ("d > 1e-3D AND n < 1e1D", set()),
    ("w = 1.5D AND w = 1.0 AND n IN (1, 2)", set()),
    ("n = 1 AND n < 1.005 AND n = '1'", set()),
    ("day = DATE '2024-01-01' AND day IN (DATE '2024-01-01')", set()),
    ("day IN ('2024-01-01')", {DATETIME_STRINGS}),
    ("ts >= TIMESTAMP '2024-01-01' AND ntz > TIMESTAMP_NTZ '2024-01-01'", set()),
    ("day < TIMESTAMP '2024-01-01 00:00:00'", {TIMESTAMP_TYPE}),
    ("ntz < TIMESTAMP '2024-01-01' AND ntz < TIMESTAMP '2024-01-02 00:00:00Z'", {TIMESTAMP_TYPE}),
    ("TIMESTAMP '2024-01-01' < ts AND day < TIMESTAMP_LTZ '2024-01-01'", set()),
    ("TIMESTAMP '2024-01-01' IN (TIMESTAMP '2024-01-02')", {TIMESTAMP_TYPE}),
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
    ("day IN ('2024-1-1')", {ANSI, DATETIME_STRINGS}),
    ("NOT (i = 1 AND (s = 'a' OR l = 16777217F))", {ANSI}),
    # Literals.
    (r"s = 'a\\b'", {ESCAPES}),
    ("s = r'a'", {ESCAPES}),
    (r"s LIKE 'a\\%'", {ESCAPES}),
    ('s = "a"', {DOUBLE_QUOTES}),
    ("n = 1.5E1BD", {NEGATIVE_SCALES}),
    ("n < 1e19 AND n = 1e-1", {EXPONENTS}),
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
    bind(parse(predicate, found), FIELDS, time_zones.zone("Europe/Berlin"), dependencies=found)
    return found


@pytest.mark.parametrize(("predicate", "expected"), DEPENDENCES, ids=[one[0][:60] for one in DEPENDENCES])
def test_a_predicate_notes_the_settings_on_which_it_depends(predicate, expected):
    assert expected == set(noted(predicate))


def test_all_settings_are_noted_by_some_predicate():
    assert set(SETTINGS) == set().union(*(expected for _, expected in DEPENDENCES))


# The setting that was noted, those of the session, and what the error says.
UNDER = [
    (ANSI, {ANSI: "false"}, f"{ANSI}=false"),
    (ANSI, {ANSI: "FALSE"}, f"{ANSI}=FALSE"),
    (ANSI, {ANSI: "true"}, None),
    (ANSI, {}, "does not tell its tasks the settings"),
    (ESCAPES, {ESCAPES: "true"}, "[the part]"),
    (ESCAPES, {ANSI: "false", ESCAPES: "false"}, None),
    (DOUBLE_QUOTES, {ANSI: "true", DOUBLE_QUOTES: "true"}, DOUBLE_QUOTES),
    (DOUBLE_QUOTES, {DOUBLE_QUOTES: "true"}, DOUBLE_QUOTES),
    (DOUBLE_QUOTES, {ANSI: "false", DOUBLE_QUOTES: "true"}, None),
    (DATETIME_STRINGS, {ANSI: "false", DATETIME_STRINGS: "true"}, DATETIME_STRINGS),
    (DATETIME_STRINGS, {ANSI: "true", DATETIME_STRINGS: "true"}, None),
    (DATETIME_STRINGS, {ANSI: "true"}, None),
    (CASE, {CASE: "true"}, CASE),
    (CASE, {}, None),
    (TIMESTAMP_TYPE, {TIMESTAMP_TYPE: "timestamp_ltz"}, None),
    (TIMESTAMP_TYPE, {TIMESTAMP_TYPE: "TIMESTAMP_NTZ"}, "TIMESTAMP_LTZ '...'"),
]


@pytest.mark.parametrize(("noted", "session", "said"), UNDER)
def test_a_setting_that_is_not_spark_s_own_is_refused_by_its_name(noted, session, said):
    """One that is not known is refused as well, unless Spark could only refuse."""
    if said is None:
        check_settings({noted: "the part"}, session.get)
        return
    with pytest.raises(OptionError) as caught:
        check_settings({noted: "the part"}, session.get)
    assert said in str(caught.value)


def test_a_predicate_that_notes_nothing_is_answered_in_every_session():
    check_settings({}, dict.fromkeys(SETTINGS, "other").get)


def test_a_long_part_is_shown_in_part():
    with pytest.raises(OptionError) as caught:
        check_settings({ANSI: "x" * 10_000}, {ANSI: "false"}.get)
    assert len(str(caught.value)) < 600
