"""Scalar subqueries over one table: from Spark 4.3 on it reads the table once for those that differ in columns alone."""

import pyspark
import pytest
from pushed import THRESHOLD, scans

SPARK = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
SYMMETRIC = "spark.sql.optimizer.mergeSubplans.filterPropagation.symmetricFilterPropagation.enabled"
COLUMNS = """
    id AS k, cast(id % 7 AS int) AS a, if(id % 6 = 0, null, cast(id AS double)) AS x, cast(id % 50 AS decimal(9,2)) AS d,
    if(id % 5 = 0, double('NaN'), id / 4) AS odd, cast(id % 3 AS int) AS part
"""


@pytest.fixture(scope="module")
def tables(pushed, tmp_path_factory):
    """The view m of this format, which has partitions, and the view pm of Parquet."""
    folder = tmp_path_factory.mktemp("merged")
    rows = pushed.sql(f"SELECT {COLUMNS} FROM range(0, 3000, 1, 2)")
    rows.write.format("arrowipc").mode("append").option("partitionBy", "part").save(str(folder / "m"))
    rows.write.parquet(str(folder / "p"))
    pushed.read.format("arrowipc").load(str(folder / "m")).createOrReplaceTempView("m")
    pushed.read.parquet(str(folder / "p")).createOrReplaceTempView("pm")
    yield pushed
    pushed.conf.unset(THRESHOLD)


RANGES = [
    f"{function} FROM m WHERE k BETWEEN {first} AND {first + 500}"
    for first in (0, 600, 1300)
    for function in ("avg(x)", "avg(a)", "max(odd)")
]
# The subqueries of one query, and the scans where Spark may broadcast the table, and where tasks hold its conditions.
SUBQUERIES = {
    "one condition": (["avg(x) FROM m WHERE k < 900", "avg(a) FROM m WHERE k < 900"], 1, 1),
    "no condition": (["sum(x) FROM m", "count(DISTINCT a) FROM m", "avg(k) FROM m", "max(odd) FROM m"], 1, 1),
    "a condition that Spark evaluates": (["sum(x) FROM m WHERE k % 7 = 1", "avg(a) FROM m WHERE k % 7 = 1"], 1, 1),
    "one partition": (["sum(x) FROM m WHERE part = 1", "avg(x) FROM m WHERE part = 1"], 1, 1),
    "a condition and none": (["sum(x) FROM m", "avg(x) FROM m WHERE a = 3"], 1, 2),
    "conditions that differ": (["sum(x) FROM m WHERE k < 900", "avg(a) FROM m WHERE k > 500"], 2, 2),
    "three ranges": (RANGES, 3, 3),
    "aggregates of tasks": (["sum(k) FROM m WHERE k < 900", "sum(d) FROM m WHERE k < 900"], 1, 2),
}


@pytest.mark.parametrize("threshold", ["10485760", "-1"])
@pytest.mark.parametrize(("subqueries", "small", "large"), SUBQUERIES.values(), ids=SUBQUERIES)
def test_a_table_is_read_once(tables, subqueries, small, large, threshold):
    tables.conf.set(THRESHOLD, threshold)
    sql = "SELECT " + ", ".join(f"(SELECT {subquery})" for subquery in subqueries)
    frame = tables.sql(sql)
    if SPARK >= (4, 3):
        assert (large if threshold == "-1" else small) == len(set(scans(frame)))
    assert repr(frame.collect()) == repr(tables.sql(sql.replace("FROM m", "FROM pm")).collect())


@pytest.mark.skipif(SPARK < (4, 3), reason="Spark merges no scans of sources")
def test_a_scan_for_several_ranges_reads_the_rows_of_each(tables):
    tables.conf.set(THRESHOLD, "10485760")
    tables.conf.set(SYMMETRIC, "true")
    try:
        sql = "SELECT " + ", ".join(f"(SELECT {subquery})" for subquery in RANGES)
        frame = tables.sql(sql)
        (scan,) = set(scans(frame))
        assert all(part in scan for part in ("k <= 500", "k >= 600", "k <= 1800", " OR "))
        assert repr(frame.collect()) == repr(tables.sql(sql.replace("FROM m", "FROM pm")).collect())
    finally:
        tables.conf.unset(SYMMETRIC)
