"""Aggregates that tasks compute, in plain SQL: the same rows as Spark's, and plans that say so."""

import os

import pyarrow as pa
import pytest
from pushed import SETTING, scans

from spark_arrow_ipc import ipc

pytestmark = pytest.mark.usefixtures("large")

NUMBERS = """
    id AS k, cast(id % 7 AS int) AS a, cast(id % 120 AS tinyint) AS tiny, cast(id AS smallint) AS small,
    cast(id % 50 AS decimal(9,2)) - 20 AS d, cast(id * 1000000007 AS decimal(38,0)) AS wide, cast(id % 3 AS string) AS s,
    cast(id AS double) AS x, if(id % 4 = 0, null, id) AS holes, id % 2 = 0 AS b, cast(cast(id AS string) AS binary) AS y,
    date_add(DATE '2023-10-20', cast(id % 20 AS int)) AS at, timestamp_micros(id * 1000000) AS ts,
    cast(id % 10 AS decimal(1,0)) AS digit, if(id % 6 = 0, null, cast(id % 90 - 40.25 AS decimal(4,2))) AS cents,
    cast(null AS bigint) AS nothing, if(id % 5 = 0, double('NaN'), if(id % 2 = 0, -0.0D, 0.0D)) AS odd
"""


@pytest.fixture(scope="module")
def table(pushed, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("aggregates") / "data")
    pushed.sql(f"SELECT {NUMBERS} FROM range(0, 3000, 1, 3)").write.format("arrowipc").mode("append").option(
        "recordBatchRows", 100
    ).option("statistics", "all").save(path)
    pushed.read.format("arrowipc").load(path).createOrReplaceTempView("n")
    return pushed


TAKEN = [
    "SELECT count(*) FROM n",
    "SELECT count(1), count(holes), count(nothing) FROM n",
    "SELECT min(k), max(at), min(s), max(y), min(ts), max(b), min(d), max(nothing) FROM n",
    "SELECT sum(k), sum(a), sum(tiny), sum(small), sum(d), sum(wide), sum(nothing) FROM n",
    "SELECT avg(d), avg(tiny), avg(small) FROM n WHERE k > 10",
    "SELECT a, count(*), sum(d), max(s) FROM n WHERE holes IS NOT NULL AND s <> '1' GROUP BY a ORDER BY a",
    "SELECT s, b, sum(k) FROM n GROUP BY s, b HAVING sum(k) > 5 ORDER BY s, b",
    "SELECT odd, count(*) FROM n GROUP BY odd ORDER BY odd",
    "SELECT k, sum(a) FROM n GROUP BY k ORDER BY k",
    "SELECT sum(k) + 1, max(a) * 2 FROM n WHERE a IN (1, 2) OR s LIKE '2%'",
    "SELECT count(*) FROM n WHERE k < 0",
    "SELECT s, sum(d * (1 - d)), sum(d * d + 1.5), count(d) FROM n WHERE k > 7 GROUP BY s ORDER BY s",
    "SELECT a, sum(k) FROM n WHERE k < 0 GROUP BY a",
    "SELECT max(total) FROM (SELECT a, sum(k) AS total FROM n GROUP BY a)",
    "SELECT a FROM n GROUP BY a HAVING count(*) > 428 ORDER BY a",
    "SELECT try_avg(d), try_avg(tiny) FROM n",
    "SELECT sum(digit), avg(digit), count(digit), max(digit), sum(cents), avg(cents), count(cents), sum(d), sum(k), sum(wide), avg(tiny) FROM n WHERE k > 9",
    "SELECT a, sum(digit), sum(cents), avg(cents), min(cents), count(*), sum(tiny), sum(wide), max(s), sum(holes), sum(nothing) FROM n GROUP BY a ORDER BY a",
    "SELECT k, sum(cents), sum(digit) FROM n GROUP BY k ORDER BY k",
    "SELECT s, sum(digit * cents), avg(digit) FROM n GROUP BY s ORDER BY s",
    "SELECT DISTINCT s, b FROM n WHERE k > 4 ORDER BY s, b",
    "SELECT DISTINCT odd FROM n ORDER BY odd",
    "SELECT count(*), sum(k) FROM (SELECT DISTINCT k, holes FROM n)",
    "SELECT sum(y), count(*) FROM (SELECT d * (1 - d) AS y, a FROM n WHERE k > 7)",
]
LEFT = [
    ("SELECT sum(x), avg(x) FROM n", "the order of floats"),
    ("SELECT min(x), max(odd) FROM n", "0.0 and -0.0"),
    ("SELECT avg(k), avg(a) FROM n", "Spark adds floats up"),
    ("SELECT try_avg(wide) FROM n", "Spark forgets that it is null where its sum does not fit"),
    ("SELECT count(DISTINCT a) FROM n", "distinct"),
    ("SELECT sum(DISTINCT d), avg(DISTINCT d) FROM n", "distinct sums and averages"),
    ("SELECT count(*) FILTER (WHERE a = 1) FROM n", "a filter of its own"),
    ("SELECT count(*) FROM n WHERE k + 1 > 5", "a filter that tasks do not hold"),
    ("SELECT a % 2 AS m, count(*) FROM n GROUP BY a % 2 ORDER BY m", "a key that is computed"),
    ("SELECT sum(k * 2) FROM n", "an input of whole numbers that is computed"),
    ("SELECT sum(d / 3) FROM n", "a division"),
    ("SELECT sum(d * d * d * d) FROM n", "a product of which Spark cuts digits"),
    ("SELECT sum(wide * wide * (d - d)) FROM n", "a product on the way that can have more digits than a decimal"),
    ("SELECT first(k) IS NULL FROM n", "the order of rows"),
]


def aggregated(frame):
    return any(" aggregated " in text for text in scans(frame))


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("sql", TAKEN)
def test_tasks_aggregate(table, without, sql, ansi):
    table.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        frame = table.sql(sql)
        if ansi == "false" and ("d * " in sql or "digit * " in sql):
            assert not aggregated(frame)  # Spark translates arithmetic that fails on overflow alone
            return
        assert aggregated(frame), frame._jdf.queryExecution().executedPlan().toString()
        assert [tuple(map(repr, row)) for row in frame.collect()] == [tuple(map(repr, row)) for row in without(sql)]
        assert frame.schema == _schema_without(table, sql)
    finally:
        table.conf.unset("spark.sql.ansi.enabled")


def _schema_without(spark, sql):
    spark.conf.set(SETTING, "false")
    try:
        return spark.sql(sql).schema
    finally:
        spark.conf.set(SETTING, "true")


@pytest.mark.parametrize(("sql", "why"), LEFT, ids=[why for _, why in LEFT])
def test_spark_aggregates(table, without, sql, why):
    frame = table.sql(sql)
    assert not aggregated(frame)
    assert list(map(repr, frame.collect())) == list(map(repr, without(sql)))


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_sums_that_do_not_fit_are_spark_s(pushed, without, tmp_path, ansi):
    path = str(tmp_path / "large")
    values = ", ".join(f"({k}, 9999999.99BD, {'9' * 38}BD)" for k in [9223372036854775807, 9223372036854775807, -5])
    numbers = pushed.sql(f"SELECT col1 AS k, col2 AS d, col3 AS w FROM VALUES {values}")
    numbers.coalesce(1).write.format("arrowipc").mode("append").save(path)
    pushed.read.format("arrowipc").load(path).createOrReplaceTempView("large")
    pushed.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        for functions in ["sum(d)", "try_sum(d), try_sum(k), try_sum(w)", "try_avg(w)"]:
            sql = f"SELECT {functions} FROM large"
            assert pushed.sql(sql).collect() == without(sql)
        if ansi == "true":
            for rows in (without, lambda sql: pushed.sql(sql).collect()):
                with pytest.raises(Exception, match="overflow"):
                    rows("SELECT sum(k) FROM large")
        else:
            assert pushed.sql("SELECT sum(k) FROM large").collect() == without("SELECT sum(k) FROM large")
    finally:
        pushed.conf.unset("spark.sql.ansi.enabled")


NO_ROWS = [
    "SELECT p, count(*) FROM parts GROUP BY p",
    "SELECT p, min(id) FROM parts GROUP BY p",
    "SELECT p, count(id), max(p) FROM parts GROUP BY p",
    "SELECT p, sum(id) FROM parts GROUP BY p",
    "SELECT max(p) FROM parts",
    "SELECT max(p), count(*), count(p) FROM parts",
    "SELECT min(p), max(p), count(id) FROM parts WHERE p > 1",
    "SELECT count(*) FROM parts HAVING max(p) = 1",
    "SELECT min(id), max(id), min(p), max(p) FROM parts WHERE p = 2",
]


@pytest.mark.parametrize("sql", NO_ROWS)
def test_a_partition_without_rows_has_no_value_and_is_no_group(pushed, without, tmp_path, sql):
    """A file may have record batches, and no rows."""
    for part, rows in ((1, 3), (2, 0)):
        (tmp_path / f"p={part}").mkdir()
        batch = pa.record_batch({"id": pa.array(range(rows), pa.int64())})
        with pa.ipc.new_file(str(tmp_path / f"p={part}" / "a.arrow"), batch.schema) as writer:
            writer.write(batch)
    pushed.read.format("arrowipc").load(str(tmp_path)).createOrReplaceTempView("parts")
    assert aggregated(pushed.sql(sql))
    assert without(sql) == pushed.sql(sql).collect()


def test_a_lake_is_counted_without_its_bodies(pushed, tmp_path):
    path = tmp_path / "lake"
    pushed.range(0, 1000, 1, 2).selectExpr("id", "cast(id AS string) AS s").write.format("arrowipc").mode(
        "append"
    ).option("statistics", "all").save(str(path))
    frame = pushed.read.format("arrowipc").load(str(path))
    for file in path.glob("*.arrow"):
        data = bytearray(file.read_bytes())
        start = data.find(b"123124125")  # within the strings of a body
        if start >= 0:
            data[start : start + 9] = b"\xff" * 9
            stat = file.stat()
            file.write_bytes(data)
            os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    frame.createOrReplaceTempView("lake")
    assert pushed.sql("SELECT count(*), min(id), max(id) FROM lake").collect() == [(1000, 0, 999)]


@pytest.mark.one_in(3, "exhaustive")
@pytest.mark.parametrize(
    ("sql", "fewer"),
    [
        ("SELECT count(*), min(id), max(s), count(holes) FROM many", True),
        ("SELECT count(*) FROM many WHERE id > 37 AND s <> '5'", True),
        ("SELECT max(id) FROM many WHERE id < 0", True),
        ("SELECT sum(id) FROM many", False),
        ("SELECT s, count(*) FROM many GROUP BY s", False),
    ],
)
@pytest.mark.parametrize("statistics", ["all", "none"])
def test_a_task_counts_several_partitions(pushed, without, tmp_path, sql, fewer, statistics):
    path, tasks = str(tmp_path / "many"), 4 * pushed.sparkContext.defaultParallelism
    rows = pushed.range(0, 400, 1, 3 * tasks).selectExpr(
        "id", "cast(id % 9 AS string) AS s", "if(id % 3 = 0, null, id) AS holes"
    )
    rows.write.format("arrowipc").mode("append").options(statistics=statistics).save(path)
    many = pushed.read.format("arrowipc").option("minPartitionNum", 3 * tasks).load(path)
    many.createOrReplaceTempView("many")
    pushed.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        frame = pushed.sql(sql)
        assert aggregated(frame)
        leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().apply(0)
        assert (leaf.executeColumnar().getNumPartitions() <= tasks) == fewer
        assert sorted(frame.collect()) == sorted(without(sql))
    finally:
        pushed.conf.unset("spark.sql.adaptive.enabled")


@pytest.mark.parametrize(("dynamic", "partitions", "tasks"), [("false", 137, 10), ("true", 20, 20)])
def test_each_core_has_as_many_tasks_where_the_cores_are_known(pushed, tmp_path, dynamic, partitions, tasks):
    assert pushed.sparkContext.defaultParallelism == 2
    for number in range(partitions):
        ipc.write(tmp_path / f"{number}.arrow", pa.table({"k": [number]}))
    context = pushed.sparkContext._jsc.sc()
    context.conf().set("spark.dynamicAllocation.enabled", dynamic)
    pushed.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        files = pushed.read.format("arrowipc").options(minPartitionNum=partitions).load(str(tmp_path))
        assert files.rdd.getNumPartitions() == partitions
        files.createOrReplaceTempView("single")
        frame = pushed.sql("SELECT count(*), max(k) FROM single")
        leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().apply(0)
        assert leaf.executeColumnar().getNumPartitions() == tasks
        assert frame.collect() == [(partitions, partitions - 1)]
    finally:
        context.conf().remove("spark.dynamicAllocation.enabled")
        pushed.conf.unset("spark.sql.adaptive.enabled")
