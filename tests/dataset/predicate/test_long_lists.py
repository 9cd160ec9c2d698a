"""Long lists of `IN` give what their literals give one by one."""

import re
import time
from itertools import chain

import numpy as np
import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate import expressions as p
from spark_arrow_ipc.dataset.predicate.bind import bind
from spark_arrow_ipc.dataset.predicate.bound import Any_, Doubtful, OneOf
from spark_arrow_ipc.dataset.predicate.coercion import UTC_TIMESTAMP, common_type
from spark_arrow_ipc.dataset.predicate.expressions import Run
from spark_arrow_ipc.dataset.predicate.long_lists import literals_of, points, runs
from spark_arrow_ipc.dataset.predicate.parser import parse
from spark_arrow_ipc.dataset.time_zones import UNKNOWN_ZONE, zone
from spark_arrow_ipc.errors import OptionError

COLUMNS = {
    "tiny": t.int8, "i": t.int32, "l": t.int64, "f": t.float32, "d": t.float64, "dec": t.Decimal(5, 2), "whole": t.Decimal(38, 0),
    "fraction": t.Decimal(38, 38), "s": t.utf8, "b": t.binary, "bool": t.bool_, "date": t.date32,
    "ts": t.Timestamp(t.TimeUnit.MICROSECOND, "UTC"), "ntz": t.Timestamp(t.TimeUnit.MICROSECOND),
}  # fmt: skip
FIELDS = tuple(t.field(name, type_) for name, type_ in COLUMNS.items())
LISTS = {
    "small numbers": [str(i) for i in range(-200, 200)],
    "large numbers": [str(i * 10**15 + i) for i in range(-100, 100)],
    "numbers beyond doubles": [str(2**53 + i) for i in range(-100, 100)],
    "decimals": [f"{i / 100:.2f}" for i in range(-300, 300)],
    "many scales": [f"{i}.{'0' * (i % 7)}{i % 3}" for i in range(200)],
    "numbers of all kinds": [*map(str, range(100)), *(f"{i}.5" for i in range(100)), *(f"{i}.50" for i in range(100))],
    "strings": [f"'k{i}'" for i in range(100)],
    "numbers in strings": [f"'{i}'" for i in range(-99, 99)],
    "dates in strings": [f"'2024-01-{i:02} 12:00:00'" for i in range(1, 32)] * 3,
    "old times in strings": [f"'19{i:02}-01-01'" for i in range(100)],
    "suffixed": [f"{i}L" for i in range(-99, 99)] + [f"{i / 8}D" for i in range(-99, 99)],
    "dates": [f"DATE '{1969 + i // 12}-{i % 12 + 1:02}-01'" for i in range(500)],
    "local times": [f"TIMESTAMP_NTZ '20{i:02}-01-01T00:00:00.{i}'" for i in range(10, 99)],
    "times": [f"timestamp '{1960 + i}-03-31 02:30:0{i % 7}'" for i in range(140)],
    "times of days": [f"TIMESTAMP_LTZ '{2000 + i}-04-01'" for i in range(90)],
    "times with offsets": [
        f"TIMESTAMP '2024-01-01 12:{i % 60:02}:00{zone}'" for i in range(60) for zone in ("Z", "+05:30", "-11:00")
    ],
    "times in strings": [f"'{2000 + i}-10-01 00:00:00'" for i in range(90)],
    "times with offsets in strings": [f"'2024-01-01 12:00:00+{i % 18:02}:{i % 60:02}'" for i in range(90)],
    "words of truth": ["'true'", "'no'"] * 50,
}


ZONES = {
    "Amsterdam": zone("Europe/Amsterdam"),
    "Sao Paulo, where clocks change at midnight": zone("America/Sao_Paulo"),
    "an offset": zone("-05:30"),
    "not known yet": UNKNOWN_ZONE,
    "none": None,
}


def bound_list(column, items, zone_):
    try:
        return bind(parse(f"{column} IN ({', '.join(items)})"), FIELDS, zone_)
    except OptionError as error:
        return str(error)[:45]


def parts(found):
    """Split what a list is bound to into its points, the joined intervals of its doubts, and all else."""
    flat = list(found.parts) if isinstance(found, Any_) else [found]
    values = sorted(chain.from_iterable(one.values for one in flat if isinstance(one, OneOf)))
    doubts = []
    for one in sorted((one for one in flat if isinstance(one, Doubtful)), key=lambda one: one.lower):
        joins = bool(doubts) and one.lower <= doubts[-1][1]
        doubts.append((doubts.pop()[0] if joins else one.lower, one.upper))
    kinds = {(one.column, one.is_below, one.is_above) for one in flat if isinstance(one, Doubtful)}
    return values, doubts, kinds, {one for one in flat if not isinstance(one, OneOf | Doubtful)}


def slow(item):
    """Return the item as it is read alone: with a sign, or a raw string."""
    return item.replace("'", "r'", 1) if "'" in item else f"- {item[1:]}" if item[0] == "-" else f"+{item}"


OF_TIMES = [name for name in LISTS if "time" in name or "dates" in name]
CASES = [(name, zone_) for name in LISTS for zone_ in ZONES if name in OF_TIMES or zone_ == "Amsterdam"]


@pytest.mark.parametrize(("items", "zone_"), CASES)
def test_a_long_list_is_bound_as_its_literals_are(items, zone_):
    for column in COLUMNS:
        whole = bound_list(column, [*LISTS[items], LISTS[items][0]], ZONES[zone_])
        single = bound_list(column, list(map(slow, LISTS[items])), ZONES[zone_])
        if isinstance(whole, str):
            assert single == whole, column
        else:
            assert parts(single) == parts(whole), column


INVALID = ["DATE '2023-02-29'", "TIMESTAMP_NTZ '2023-02-29 00:00:00'", "TIMESTAMP '2023-02-29'", "TIMESTAMP '2023-01-01 00:00:00+19:00'", "DATE '0000-01-01'"]  # fmt: skip


@pytest.mark.parametrize("invalid", INVALID)
def test_a_value_of_no_calendar_is_named_among_many_others(invalid):
    items = [f"{invalid.split()[0]} '2024-01-{i % 28 + 1:02}'" for i in range(100)]
    with pytest.raises(OptionError, match=re.escape(repr(invalid.split("'")[1]))):
        bind(parse(f"ts IN ({', '.join([*items, invalid, *items])})"), FIELDS, zone("UTC"))


def test_runs_have_sparks_types_and_each_value_once():
    """Ten decimals of two and three digits are too few for a run."""
    found = runs(
        "number", ",".join([*map(str, range(100)), *map(str, range(100)), *(f"{i}.25" for i in range(100))]) + ","
    )
    assert {t.int32: 100, t.Decimal(4, 2): 90} == {run.type: len(run.values) for run in found if isinstance(run, Run)}
    assert [t.Decimal(2, 2), *[t.Decimal(3, 2)] * 9] == [
        literal.type for literal in found if isinstance(literal, p.Literal)
    ]


def test_literals_of_a_run_are_written_as_in_sql():
    assert ["-0.05", "12.00"] == [literal.sql for literal in literals_of(Run(t.Decimal(4, 2), (-5, 1200)))]
    assert ["DATE '1969-12-31'"] == [literal.sql for literal in literals_of(Run(t.date32, (-1,)))]
    assert ["TIMESTAMP '1970-01-01 00:00:01Z'"] == [
        literal.sql for literal in literals_of(Run(UTC_TIMESTAMP, (1_000_000,)))
    ]
    assert ["'a'"] == [literal.sql for literal in literals_of(Run(t.utf8, (b"a",)))]


def test_what_has_no_fast_way_is_left_to_the_slow_one():
    assert points(t.Decimal(5, 2), t.float64, Run(t.float64, (1.0,)), None) is None
    assert common_type(t.Decimal(5, 2), t.int32) == t.Decimal(12, 2)
    assert [100] == points(t.Decimal(5, 2), t.Decimal(12, 2), Run(t.int32, (1, 10_000)), None).values


@pytest.mark.parametrize("column", ["tiny", "l", "d", "dec", "s", "b", "date", "ts", "ntz"])
def test_a_list_is_bound_as_a_whole(column):
    """200,000 items, as many of the longest as the option holds, take half a second of an idle core; one by one it was eight."""
    items = list(map(FORMS[column], range(200_000)))
    start = time.process_time()
    bind(parse(f"{column} IN ({', '.join(items)})"), FIELDS, UNKNOWN_ZONE)
    assert time.process_time() - start < 2


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
