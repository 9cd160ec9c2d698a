"""Long lists of `IN` give what their literals give one by one."""

import time
from itertools import chain

import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate import expressions as p
from spark_arrow_ipc.dataset.predicate.bind import bind
from spark_arrow_ipc.dataset.predicate.bound import Any_, OneOf
from spark_arrow_ipc.dataset.predicate.coercion import common_type
from spark_arrow_ipc.dataset.predicate.expressions import Run
from spark_arrow_ipc.dataset.predicate.long_lists import literals_of, points, runs
from spark_arrow_ipc.dataset.predicate.parser import parse
from spark_arrow_ipc.dataset.time_zones import zone
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
    "words of truth": ["'true'", "'no'"] * 50,
}


def bound_list(column, items):
    try:
        return bind(parse(f"{column} IN ({', '.join(items)})"), FIELDS, zone("Europe/Amsterdam"))
    except OptionError as error:
        return str(error)[:60]


def parts(found):
    """Split what a list is bound to into its points and all else."""
    flat = list(found.parts) if isinstance(found, Any_) else [found]
    values = sorted(chain.from_iterable(one.values for one in flat if isinstance(one, OneOf)))
    return values, {one for one in flat if not isinstance(one, OneOf)}


@pytest.mark.parametrize("items", LISTS)
@pytest.mark.parametrize("column", COLUMNS)
def test_a_long_list_is_bound_as_its_literals_are(column, items):
    """A sign or a raw string keeps a list from being read at once."""
    whole = bound_list(column, [*LISTS[items], LISTS[items][0]])
    single = bound_list(
        column,
        [{"'": "r", "-": ""}.get(item[0], "+") + item.replace("-", "- ", item[0] == "-") for item in LISTS[items]],
    )
    if isinstance(whole, str):
        assert whole == single
    else:
        assert parts(single) == parts(whole)


def test_runs_have_sparks_types_and_each_value_once():
    """Ten decimals of two and three digits are too few for a run."""
    found = runs(",".join([*map(str, range(100)), *map(str, range(100)), *(f"{i}.25" for i in range(100))]) + ",")
    assert {t.int32: 100, t.Decimal(4, 2): 90} == {run.type: len(run.values) for run in found if isinstance(run, Run)}
    assert [t.Decimal(2, 2), *[t.Decimal(3, 2)] * 9] == [
        literal.type for literal in found if isinstance(literal, p.Literal)
    ]


def test_literals_of_a_run_are_written_as_in_sql():
    assert ["-0.05", "12.00"] == [literal.sql for literal in literals_of(Run(t.Decimal(4, 2), (-5, 1200)))]
    assert ["'a'"] == [literal.sql for literal in literals_of(Run(t.utf8, (b"a",)))]


def test_what_has_no_fast_way_is_left_to_the_slow_one():
    assert points(t.Decimal(5, 2), t.float64, Run(t.float64, (1.0,)), None) is None
    assert common_type(t.Decimal(5, 2), t.int32) == t.Decimal(12, 2)
    assert [100] == points(t.Decimal(5, 2), t.Decimal(12, 2), Run(t.int32, (1, 10_000)), None)


@pytest.mark.parametrize(
    ("column", "item"), [("l", "{}"), ("d", "{}"), ("dec", "{}"), ("s", "'key {}'"), ("b", "'{}'"), ("tiny", "{}")]
)
def test_half_a_million_items_take_less_than_two_seconds(column, item):
    sql = f"{column} IN ({', '.join(item.format(i) for i in range(500_000))})"
    start = time.process_time()
    bind(parse(sql), FIELDS)
    assert time.process_time() - start < 2
