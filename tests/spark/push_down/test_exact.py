"""Conditions that tasks hold exactly: of tables that Spark does not broadcast, so that its Filter, which finds the filters of
joins, stays above all others."""

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
