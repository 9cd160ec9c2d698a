"""Predicates bound to columns: Spark's types, and what a constant says of the column's own values."""

import math
import re
from datetime import datetime, timedelta

import cpu_time
import numpy as np
import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset import time_zones
from spark_arrow_ipc.dataset.predicate.bind import bind
from spark_arrow_ipc.dataset.predicate.bound import (
    Constant,
    IsNull,
    Negated,
    NullSafe,
    OneOf,
    Range,
    bound_columns,
    has_doubt,
)
from spark_arrow_ipc.dataset.predicate.parser import parse
from spark_arrow_ipc.dataset.predicate.prune import Summary, keeps
from spark_arrow_ipc.dataset.time_zones import UNKNOWN_ZONE
from spark_arrow_ipc.errors import ColumnNotFoundError, OptionError

US = t.TimeUnit.MICROSECOND
FIELDS = tuple(
    t.field(name, type_)
    for name, type_ in {
        "tiny": t.int8, "i": t.int32, "l": t.int64, "f": t.float32, "d": t.float64, "dec": t.Decimal(5, 2),
        "small": t.Decimal(38, 38), "s": t.utf8, "b": t.binary, "bool": t.bool_, "date": t.date32,
        "ts": t.Timestamp(US, "UTC"), "ntz": t.Timestamp(US), "iv": t.Duration(US), "void": t.null,
        "list": t.list_(t.int32), "n": t.struct([("X", t.int32), ("y", t.utf8)]), "Twice": t.int32, "TWICE": t.int32,
    }.items()
)  # fmt: skip
NEW_YORK = time_zones.zone("America/New_York")


def bound(text, zone=None):
    return bind(parse(text), FIELDS, zone)


# (The predicate, and the place that its error names: that of the condition at fault, as Spark does.)
PLACES = [
    ("i = 'x'", "character 1"),
    ("  i IN (1, 'x')", "character 3"),
    ("s = 'a' AND NOT (l > 1 OR date = 1)", "character 27"),
    ("s = 'a'\n  AND\n  (bool OR i)", "line 3, character 12"),
    ("s = 'a\n\n' AND i BETWEEN 1 AND 'x'", "line 3, character 7"),
    ("i = 1 AND list = 1", "character 11"),
    ("i LIKE 'a%'", "character 1"),
    ("s = 'b' OR startswith(i, 'a')", "character 12"),
    ("upper(i) IS NULL", "character 1"),
    ("bool OR i = CAST('x' AS INT)", "character 13"),
    ("bool OR s = CAST(1D AS STRING)", "character 13"),
    ("bool AND i IS NOT DISTINCT FROM DATE '2024-01-01'", "character 10"),
    ("bool AND i.x = 1", "character 10"),
    ("bool AND twicE = 1", "character 10"),
    ("bool AND ts = '1890-01-01'", "character 10"),
]


@pytest.mark.parametrize(("text", "place"), PLACES)
def test_an_error_names_the_place_of_the_condition(text, place):
    with pytest.raises((OptionError, ColumnNotFoundError)) as caught:
        bound(text)
    assert f"the option where, {place}" == caught.value.asked_by
    assert str(caught.value).startswith(f"the option where, {place}: ")


RANGES = [
    ("i = 5", 5, 6), ("i > 5", 6, None), ("i >= 5", 5, None), ("i < 5", None, 5), ("i <= 5", None, 6),
    ("5 > i", None, 5), ("i > 1.5", 2, None), ("i < 1.5", None, 2), ("i = '7'", 7, 8), ("i < 2147483648", None, None),
    ("i >= 1e-38BD", 1, None), ("l < 1e-38BD", None, 1), ("i > -1e-38BD", 0, None), ("0.99999999999999999999999999999999999999 >= l", None, 1),
    ("tiny <= 0.99999999999999999999999999999999999999", None, 1), ("i = 1e-38BD", 0, 1),
    ("l = 9007199254740993D", 2**53, 2**53 + 2), ("l = 1e18", 10**18 - 64, 10**18 + 65),
    ("dec > 1", 101, None), ("dec = 1.005", 101, 101), ("dec = 0.1D", 10, 11),
    ("f = 0.1", 0.10000000149011612, 0.10000000149011612), ("f = 0.1F", 0.10000000149011612, 0.10000000894069672),
    ("f > 1e300", math.inf, None), ("d <= 1", None, math.nextafter(1, 2)), ("d = 'inf'", math.inf, math.nan),
    ("s = 'a'", b"a", b"a\0"), ("s > 'a'", b"a\0", None), ("b <= 'a'", None, b"a\0"),
    ("date < '1970-01-11'", None, 10), ("date > TIMESTAMP_NTZ '1970-01-02 00:00:01'", 2, None),
    ("ntz >= DATE '1970-01-02'", 86_400_000_000, None), ("ts < '1970-01-01 01:00:00+01:00'", None, 0),
    ("bool > FALSE", 1, None), ("bool", 1, None),
    ("s LIKE 'ab'", b"ab", b"ab\0"), ("n.x = 1", 1, 2),
]  # fmt: skip


@pytest.mark.parametrize(("text", "lower", "upper"), RANGES)
def test_a_comparison_is_a_range_of_the_columns_own_values(text, lower, upper):
    found = bound(text)
    assert isinstance(found, Range)
    assert repr((lower, upper)) == repr((found.lower, found.upper))


def test_a_zone_less_text_is_an_instant_of_the_users_zone():
    midnight = 5 * 3600 * 10**6
    for text in ("ts >= '1970-01-01'", "ts >= TIMESTAMP '1970-01-01 00:00:00'", "ts >= DATE '1970-01-01'"):
        assert midnight == bound(text, NEW_YORK).lower
    assert bound("date >= TIMESTAMP '1970-01-02 01:00:00'", NEW_YORK).lower == 2


def test_rounding_casts_of_a_column_are_taken_back():
    # decimal(38,38) beside an int is decimal(38,37): 0.4...5 rounds up.
    assert bound("small >= 0").lower == -4
    assert bound("small >= 0.00000000000000000000000000000000000000").lower == 0


CONSTANTS = [
    ("1 = 1.0", True), ("'a' < 'b'", True), ("1 = NULL", None), ("NULL <=> NULL", True), ("i = NULL", None),
    ("TRUE", True), ("NULL", None), ("void = 5", None), ("void <=> 5", False), ("void IN (1, 2)", None),
    ("1 IS NULL", False), ("'5' = 5", True), ("0D = -0.0", True), ("'NaN' = 1D", False), ("s LIKE NULL", None),
    # Spark's analyzer, for nulls too:
    ("i < 9223372036854775808", True), ("i >= -9223372036854775809", True), ("l > 9223372036854775807.5", False),
]  # fmt: skip


@pytest.mark.parametrize(("text", "truth"), CONSTANTS)
def test_constants_are_folded(text, truth):
    assert Constant(truth) == bound(text)


def test_lists():
    column = bound_columns(bound("i = 1"))[0]
    assert OneOf(column, (1, 2)) == bound("i IN (1, '2', 1)")
    assert OneOf(column, (1,)) == bound("i IN (1.0)")
    assert Constant(None) in bound("i IN (1, NULL)").parts
    assert Negated(OneOf(column, (1,))) == bound("i NOT IN (1)")


def test_null_safe_comparisons():
    assert isinstance(bound("i <=> NULL"), IsNull)
    assert isinstance(bound("i <=> 5"), NullSafe)


REFUSED = [
    ("i = 'x'", "casts to bigint"), ("i = '1.5'", "casts to bigint"), ("d = ''", "casts to double"),
    ("date = 'x'", "casts to date"), ("date = 'today'", "casts to date"), ("bool = 'maybe'", "casts to boolean"),
    ("ts = '12:00:00'", "casts to timestamp"), ("ntz = '2020-01-01 00:00:00Z'", "without a zone"),
    ("s = 5", "string column s to bigint"), ("s > DATE '2020-01-01'", "string column s to date"),
    ("ts = '2020-01-01'", "option timeZone"), ("ts > TIMESTAMP '2020-01-01 00:00:00'", "option timeZone"),
    ("ts = TIMESTAMP_NTZ '2020-01-01 00:00:00'", "option timeZone"), ("ts = DATE '2020-01-01'", "option timeZone"),
    ("date = TIMESTAMP '2020-01-01 00:00:00Z'", "timeZone"), ("ntz = TIMESTAMP '2020-01-01 00:00:00Z'", "TIMESTAMP_NTZ"),
    ("date = ts", r"columns date \(date\) and ts \(timestamp\)"), ("ts < ntz", "does not compare the columns"),
    ("small = dec", "does not compare the columns"), ("i LIKE '1%'", "expected a string column"), ("i", "expected a condition"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), REFUSED)
def test_what_spark_refuses_or_only_it_can_know_is_refused(text, words):
    with pytest.raises(OptionError, match=words):
        bound(text)


# (The predicate, and the sentence of its error.)
INCOMPARABLE = [
    ("date = 5", "cannot compare `date` (date) with 5 (int); write a literal of the column's type, such as DATE '2026-01-05'"),
    ("5 = date", "cannot compare `date` (date) with 5 (int); write a literal of the column's type, such as DATE '2026-01-05'"),
    ("year(date) = TRUE", "cannot compare `year(date)` (int) with TRUE (boolean); write a literal of the column's type, such as 5"),
    ("n.x > X'00'", "cannot compare `n.X` (int) with X'00' (binary); write a literal of the column's type, such as 5"),
    ("bool = 1", "cannot compare `bool` (boolean) with 1 (int); write a literal of the column's type, such as TRUE"),
    ("d < TRUE", "cannot compare `d` (double) with TRUE (boolean); write a literal of the column's type, such as 0.5D"),
    ("dec < TRUE", "cannot compare `dec` (decimal(5,2)) with TRUE (boolean); write a literal of the column's type, such as 0.5"),
    ("b = 5", "cannot compare `b` (binary) with 5 (int); write a literal of the column's type, such as X'1F'"),
    ("ts = 5", "cannot compare `ts` (timestamp) with 5 (int); write a literal of the column's type, such as TIMESTAMP '2026-01-05 12:00:00Z'"),
    ("ntz = 5", "cannot compare `ntz` (timestamp_ntz) with 5 (int); write a literal of the column's type, such as TIMESTAMP_NTZ '2026-01-05 12:00:00'"),
    ("iv = '1'", "cannot compare `iv` (interval day to second) with '1' (string); filter the DataFrame for that"),
    ("s IN (1, 2.5)", "cannot compare `s` (string) with 1 (int) and 2.5 (decimal(2,1)); write a literal of the column's type, such as 'text'"),
    ("i IN (2, TRUE, 3, FALSE)", "cannot compare `i` (int) with TRUE (boolean); write a literal of the column's type, such as 5"),
    ("i IN (1, '2', 3.5, 4.5)", "cannot compare `i` (int) with '2' (string) and 3.5 (decimal(2,1)); write a literal of the column's type, such as 5"),
    ("i = bool", "cannot compare `i` (int) with `bool` (boolean); filter the DataFrame for that"),
    ("5 = DATE '2026-01-05'", "cannot compare 5 (int) with DATE '2026-01-05' (date); filter the DataFrame for that"),
    ("list = NULL", "cannot compare `list` (array) with NULL (void); filter the DataFrame for that"),
    ("n = n", "cannot compare `n` (struct) with `n` (struct); filter the DataFrame for that"),
    (f"date = X'{'0' * 1000}'", f"cannot compare `date` (date) with X'{'0' * 78}... (binary); write a literal of the column's type, such as DATE '2026-01-05'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sentence"), INCOMPARABLE)
def test_sides_of_types_that_spark_does_not_compare_are_named(text, sentence):
    with pytest.raises(OptionError) as caught:
        bound(text)
    assert sentence == caught.value.message


PROPOSED = {re.search("such as (.*)", sentence)[1]: re.search("`(.*?)`", sentence)[1] for _, sentence in INCOMPARABLE if "such as" in sentence}  # fmt: skip


@pytest.mark.parametrize("example", PROPOSED)
def test_the_literal_that_an_error_proposes_is_compared(example):
    assert bound_columns(bound(f"{PROPOSED[example]} < {example}"))


@pytest.mark.parametrize(
    "literal", ["9999-12-31 23:59:59.999999+00:00", "9999-12-30 00:00:00Z", "0001-01-02 00:00:00Z"]
)
def test_a_date_beside_an_instant_that_no_zone_places_is_an_error_that_says_what_to_write(literal):
    with pytest.raises(OptionError, match="write the literal as DATE"):
        bound(f"date < TIMESTAMP '{literal}'", time_zones.zone("UTC"))


@pytest.mark.parametrize(("text", "words"), [("x = 1", "no column 'x'"), ("n.z = 1", "no field 'z'"), ("twice = 1", "may stand for"), ("i.x = 1", "expected i to be a struct")])  # fmt: skip
def test_columns_that_are_not_there(text, words):
    with pytest.raises(ColumnNotFoundError, match=words):
        bound(text)


CALLS = [
    ("year(date) = 2024", "YEAR", "date", t.int32), ("month(date) IN (1, 2)", "MONTH", "date", t.int32),
    ("upper(n.y) >= 'A'", "UPPER", "n.y", t.utf8), ("day(date) IS NULL", "DAY", "date", t.int32),
]  # fmt: skip


@pytest.mark.parametrize(("text", "function", "path", "type_"), CALLS)
def test_a_function_of_a_column_is_a_column(text, function, path, type_):
    (column,) = bound_columns(bound(text))
    assert (function, path, type_) == (column.function, ".".join(column.path), column.type)
    assert column.base.function is None


@pytest.mark.parametrize("text", ["year(ts) = 2024", "year(s) = 2024", "upper(i) = 'A'", "day(bool) = 1"])
def test_a_function_of_another_type_is_refused(text):
    with pytest.raises(OptionError, match="the option where"):
        bound(text)


def test_what_depends_on_an_unknown_zone_is_left_open():
    assert has_doubt(bound("i = 5 AND ts > TIMESTAMP '2024-01-01'", UNKNOWN_ZONE))
    with pytest.raises(OptionError, match="timeZone"):
        bound("ts > TIMESTAMP '2024-01-01'")


def test_names_match_in_any_case():
    assert ("n", "X") == bound_columns(bound("N.x = 1"))[0].path


LATE = [
    # The zone skipped 30 December 2011, which is 15,338 days after 1970.
    ("d = TIMESTAMP '2011-12-30 00:30:00'", []),
    ("d = '2011-12-30 00:00:00'", [15_338]),
    ("d = TIMESTAMP_NTZ '2011-12-30 00:00:00'", [15_338]),
    ("d < TIMESTAMP '2011-12-29 00:00:00'", [15_336]),
]


@pytest.mark.parametrize(("predicate", "expected"), LATE)
def test_a_day_near_one_that_a_zone_skipped_has_one_answer(predicate, expected):
    bound = bind(parse(predicate), (t.field("d", t.date32),), time_zones.zone("Pacific/Apia"))
    days = [15_336, 15_337, 15_338, 15_339]
    assert expected == [day for day in days if keeps(bound, lambda _, day=day: Summary(day, day, may_be_null=False))]


AMBIGUOUS = [
    *((f"d {operator} TIMESTAMP '2011-12-30 00:00:00'", "Pacific/Apia", "skipped the days before .* write the literal as DATE") for operator in ("=", "<>", "<", ">=")),
    ("d IN (TIMESTAMP '2000-01-01 00:00:00', TIMESTAMP '2011-12-30 00:00:00')", "Pacific/Apia", "skipped the days before"),
    ("n < TIMESTAMP '2023-03-12 02:30:00'", "America/New_York", "clocks of America/New_York were changed near .* write the literal as TIMESTAMP_NTZ"),
    ("n IN (TIMESTAMP '2023-11-05 06:30:00Z')", "America/New_York", "clocks of America/New_York were changed near"),
    *((f"ts {operator} TIMESTAMP '1969-12-31 23:59:59'", "Europe/Berlin", "is not certain, .* write the literal with an offset") for operator in ("=", ">", "<=")),
    ("ts > '1900-01-01'", "Europe/Berlin", "is not certain"), ("ts > DATE '1900-01-01'", "Europe/Berlin", "is not certain"),
    ("n > TIMESTAMP '1900-01-01 00:00:00Z'", "Europe/Berlin", "is not certain"), ("d > TIMESTAMP '1900-01-01 00:00:00Z'", "Europe/Berlin", "is not certain"),
    ("ts IN (TIMESTAMP '2024-01-01', TIMESTAMP '1960-01-01')", "Europe/Berlin", "is not certain"),
    ("ts > TIMESTAMP '1900-01-01 00:00:00 Europe/Berlin'", "UTC", "is not certain"), ("ts > TIMESTAMP '2015-01-01'", "Asia/Gaza", "is not certain"),
]  # fmt: skip


@pytest.mark.parametrize(("predicate", "zone", "words"), AMBIGUOUS)
def test_a_local_time_that_has_two_answers_is_refused_with_what_to_write(predicate, zone, words):
    fields = (t.field("d", t.date32), t.field("n", t.Timestamp(US)), t.field("ts", t.Timestamp(US, "UTC")))
    with pytest.raises(OptionError, match=words):
        bind(parse(predicate), fields, time_zones.zone(zone))
    certain = [
        "ts > TIMESTAMP '1900-01-01 00:00:00+01:00'", "ts > TIMESTAMP '1970-01-01'", "n > TIMESTAMP_NTZ '1900-01-01'",
        "d > DATE '1900-01-01'", "n > DATE '1900-01-01'",
    ]  # fmt: skip
    assert not any(has_doubt(bind(parse(one), fields, time_zones.zone("Europe/Berlin"))) for one in certain)


def strings_of(start, step, count):
    moments = (datetime(1970, 1, 1) + start + i * step for i in range(count))
    return [f"'{moment}'" for moment in moments]


LISTS = {
    "tiny": [f"{i}Y" for i in range(-128, 128)],
    "i": [str(i * 10**6) for i in range(-100, 100)],
    "l": [f"{i * 10**15 + i}L" for i in range(-100, 100)],
    "d": [f"{i / 8}D" for i in range(-99, 99)],
    "s": [f"'k{i}'" for i in range(100)],
    "b": [f"X'{i:02x}'" for i in range(100)],
    "date": [f"DATE{string[:11]}'" for string in strings_of(timedelta(), timedelta(37), 500)],
    "ntz": [f"TIMESTAMP_NTZ {string}" for string in strings_of(timedelta(), timedelta(0, 12_345), 100)],
    "ts": [f"TIMESTAMP {string}" for string in strings_of(timedelta(365), timedelta(100, 12_345), 200)],
}
ZONES = {name: time_zones.zone(name) for name in ("America/Sao_Paulo", "Europe/Amsterdam", "-05:30")}


@pytest.mark.parametrize("zone", [*ZONES.values(), UNKNOWN_ZONE], ids=[*ZONES, "not known yet"])
@pytest.mark.parametrize("column", LISTS)
def test_a_list_of_a_columns_own_type_is_what_equality_with_each_of_its_keys_is(column, zone):
    keys = [*LISTS[column], LISTS[column][0]]
    each = bound(" OR ".join(f"{column} = {key}" for key in keys), zone)
    assert each == bound(f"{column} IN ({', '.join(keys)})", zone)


INVALID = ["DATE '2023-02-29'", "TIMESTAMP_NTZ '2023-02-29 00:00:00'", "TIMESTAMP '2023-02-29'", "TIMESTAMP '2023-01-01 00:00:00+19:00'", "DATE '0000-01-01'"]  # fmt: skip


@pytest.mark.parametrize("invalid", INVALID)
def test_a_value_of_no_calendar_is_named_among_many_others(invalid):
    items = [f"{invalid.split()[0]} '2024-01-{i % 28 + 1:02}'" for i in range(100)]
    with pytest.raises(OptionError, match=re.escape(repr(invalid.split("'")[1]))):
        bound(f"ts IN ({', '.join([*items, invalid, *items])})", time_zones.zone("UTC"))


FORMS = {
    "tiny": "{}".format,
    "l": "{}".format,
    "d": "{}".format,
    "dec": lambda i: f"{i / 100:.2f}",
    "s": "'key {}'".format,
    "b": "'{}'".format,
    "date": lambda i: f"DATE'{np.datetime64(i % 10**5, 'D')}'",
    "ts": lambda i: f"TIMESTAMP '{np.datetime64(i * 10**4, 's')}'",
    "ntz": lambda i: f"TIMESTAMP_NTZ '{np.datetime64(i * 10**4, 's')}'",
}


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("column", FORMS)
def test_a_long_list_is_bound_in_seconds(column):
    """20,000 keys take a seventh of a second, so that 500,000 take a few; with the square of their number it would be minutes."""
    keys = list(map(FORMS[column], range(20_000)))
    found = cpu_time.at_most(1.5, bound, f"{column} IN ({', '.join(keys)})", UNKNOWN_ZONE)
    assert len(getattr(found, "parts", [found])) < 100
