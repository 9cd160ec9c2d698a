"""Conditions that tasks hold exactly: of tables that Spark does not broadcast, so that its Filter, which finds the filters of
joins, stays above all others."""

import datetime as dt

import pytest
from pushed import THRESHOLD, scans


@pytest.fixture(scope="module")
def table(pushed, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("exact") / "data")
    rows = pushed.range(0, 3000, 1, 3).selectExpr("id AS k", "cast(id % 7 AS int) AS a", "cast(id AS string) AS s")
    rows.write.format("arrowipc").mode("append").save(path)
    pushed.read.format("arrowipc").load(path).createOrReplaceTempView("e")
    pushed.read.format("arrowipc").option("metadataOnly", "true").load(path).createOrReplaceTempView("blocks")
    yield pushed
    pushed.conf.unset(THRESHOLD)


def filters(frame):
    plan = frame._jdf.queryExecution().executedPlan().toString().splitlines()
    return [line.strip(" +-*():0123456789") for line in plan if line.strip(" +-*():0123456789").startswith("Filter")]


CONDITIONS = {
    # condition, whether Spark filters again where the table is large, and the rows
    "a comparison": ("k < 10", False, 10),
    "several": ("k < 10 AND a IN (1, 2) AND s <> '2'", False, 3),
    "a function": ("k < 10 AND length(s) = 1", True, 10),
    "none that tasks hold": ("k % 2 = 0 AND k < 10 OR length(s) > 4", True, 5),
}


@pytest.mark.parametrize(("condition", "again", "count"), CONDITIONS.values(), ids=CONDITIONS)
@pytest.mark.parametrize("threshold", ["10485760", "1", "-1"])
def test_spark_filters_again_where_it_may_broadcast(table, condition, again, count, threshold):
    table.conf.set(THRESHOLD, threshold)
    frame = table.sql(f"SELECT k FROM e WHERE {condition}")
    assert (again or threshold == "10485760") == bool(filters(frame))
    assert count == len(frame.collect())


@pytest.mark.parametrize(("threshold", "limit"), [("10485760", False), ("-1", True)])
def test_a_limit_below_an_exact_filter_is_one_of_tasks(table, threshold, limit):
    table.conf.set(THRESHOLD, threshold)
    frame = table.sql("SELECT k FROM e WHERE a = 3 LIMIT 4")
    assert limit == scans(frame)[0].endswith(" limit 4")
    assert 4 == len(frame.collect())
    assert {3} == {row.a for row in table.sql("SELECT a FROM e WHERE a = 3 LIMIT 4").collect()}


NUMBERS = range(-3000, 3003)  # more keys than a node of JSON has children
KEYS = {
    # column, its literals, and whether Spark filters again
    "bigint": ("k", NUMBERS, False),
    "ends of bigint": ("k", [*NUMBERS, 2**63 - 1, "CAST(-9223372036854775808 AS bigint)"], False),
    "with NULL": ("k", [*NUMBERS, "NULL"], False),
    "int": ("i", NUMBERS, False),
    "smallint": ("h", [f"{number}S" for number in NUMBERS], False),
    "tinyint, few of them": ("b", [f"{number}Y" for number in range(-20, 20)], False),
    "days": ("d", [f"DATE '{dt.date(1970, 1, 1) + dt.timedelta(number)}'" for number in NUMBERS], False),
    "text has a node for each": ("s", [f"'{number}'" for number in NUMBERS], True),
}


@pytest.fixture(scope="module")
def keyed(table, tmp_path_factory):
    """Numbers around 0 in several types, with nulls, of a table that Spark does not broadcast."""
    path = str(tmp_path_factory.mktemp("keyed") / "data")
    numbers = table.sql("SELECT if(id % 9 = 8, null, id - 9000) AS k FROM range(0, 18000, 1, 2)")
    casts = ["k", "cast(k AS int) AS i", "cast(k AS smallint) AS h", "cast(k % 100 AS tinyint) AS b"]
    rows = numbers.selectExpr(*casts, "date_add(DATE '1970-01-01', cast(k AS int)) AS d", "cast(k AS string) AS s")
    rows.write.format("arrowipc").mode("append").save(path)
    table.read.format("arrowipc").load(path).createOrReplaceTempView("keyed")
    table.conf.set(THRESHOLD, "-1")
    yield table
    table.conf.unset(THRESHOLD)


@pytest.mark.parametrize("negation", ["", "NOT"], ids=["in", "not in"])
@pytest.mark.parametrize(("column", "literals", "again"), KEYS.values(), ids=KEYS)
def test_many_keys_are_held_by_tasks(keyed, without, column, literals, again, negation):
    sql = f"SELECT count(*), sum(k), min(d) FROM keyed WHERE {column} {negation} IN ({', '.join(map(str, literals))})"
    frame = keyed.sql(sql)
    assert again == bool(filters(frame))
    assert without(sql) == frame.collect()


def test_columns_of_a_condition_do_not_cross_where_it_is_exact(table):
    table.conf.set(THRESHOLD, "-1")
    frame = table.sql("SELECT k FROM e WHERE s = '7'")
    assert ["arrowipc [k] where s IS NOT NULL AND s = '7'"] == scans(frame)
    assert [(7,)] == frame.collect()


def test_headers_hold_no_condition(table):
    """Their reader knows no predicates."""
    table.conf.set(THRESHOLD, "-1")
    frame = table.sql("SELECT rows FROM blocks WHERE rows = 1000")
    assert filters(frame)
    assert [(1000,)] * 3 == frame.collect()
    assert [] == table.sql("SELECT rows FROM blocks WHERE rows = 7").collect()
