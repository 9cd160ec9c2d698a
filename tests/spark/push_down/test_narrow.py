"""Scans that read fewer columns and rows: what `explain` says of them, and the same rows as without."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pushed import SETTING, scan_metrics, scans
from pyspark.sql import functions as f

from spark_arrow_ipc import ipc

ROWS = """
    id AS k, id % 7 AS a, cast(id % 3 AS string) AS s, cast(id AS double) / 4 AS x, cast(id % 50 AS decimal(9,2)) AS d,
    named_struct('p', cast(id % 5 AS int), 'q', cast(id AS string), 'r', named_struct('u', id, 'v', 'w')) AS st,
    array(id, id + 1) AS list, map('k', id) AS m, if(id % 4 = 0, null, id) AS holes, id % 2 = 0 AS b,
    date_add(DATE '2023-10-20', cast(id % 20 AS int)) AS at, timestamp_micros(id * 1000000) AS ts, id % 2 AS part
"""


@pytest.fixture(scope="module")
def folder(pushed, tmp_path_factory):
    """Two files in each of two partitions, with statistics and small record batches."""
    path = str(tmp_path_factory.mktemp("narrow") / "data")
    rows = pushed.sql(f"SELECT {ROWS} FROM range(0, 400, 1, 2)")
    rows.write.format("arrowipc").mode("append").option("partitionBy", "part").option("recordBatchRows", 20).option(
        "statistics", "all"
    ).save(path)
    return path


@pytest.fixture
def view(pushed, folder):
    pushed.read.format("arrowipc").load(folder).createOrReplaceTempView("t")
    pushed.read.format("arrowipc").option("metadataColumns", "true").load(folder).createOrReplaceTempView("with_origin")
    pushed.read.format("arrowipc").option("columns", "x,k,st.r.u,a").load(folder).createOrReplaceTempView("chosen")
    pushed.read.format("arrowipc").option("where", "holes > 100 AND st.q <> '7'").load(folder).createOrReplaceTempView(
        "part_of"
    )
    pushed.read.format("arrowipc").schema("s string, st struct<p: int>, k bigint").load(folder).createOrReplaceTempView(
        "own"
    )
    return pushed


QUERIES = [
    ("SELECT k, x FROM t WHERE k BETWEEN 10 AND 30", "arrowipc [k, x] where k IS NOT NULL AND k >= 10 AND k <= 30"),
    ("SELECT s FROM t WHERE a IN (1, 2) AND s LIKE '1%'", "arrowipc [a, s] where s IS NOT NULL AND a IN (1, 2)"),
    ("SELECT st.p FROM t WHERE st.r.u > 390", "arrowipc [st] where st.r.u IS NOT NULL AND st.r.u > 390"),
    ("SELECT k FROM t WHERE part = 1 AND k < 9", "arrowipc [k, part] where part IS NOT NULL AND k IS NOT NULL"),
    ("SELECT k FROM t WHERE year(at) = 2023 AND day(at) > 28", "arrowipc [k, at] where at IS NOT NULL"),
    ("SELECT k FROM t WHERE b", "arrowipc [k, b] where b IS NOT NULL AND b = true"),
    ("SELECT k FROM t WHERE upper(s) = '1'", "arrowipc [k, s] where s IS NOT NULL AND UPPER(s) = '1'"),
    ("SELECT k, rand() < 2 AS r FROM t WHERE k + 1 = 5", "arrowipc [k]"),
    ("SELECT list[0], m['k'] FROM t WHERE holes IS NULL", "arrowipc [list, m, holes] where holes IS NULL"),
    ("SELECT k FROM t WHERE ts > TIMESTAMP '1970-01-01 00:05:00Z'", "arrowipc [k, ts] where ts IS NOT NULL AND ts >"),
    ("SELECT k FROM t WHERE d >= 49.00 AND NOT (x > 20 OR s = '0')", "arrowipc [k, s, x, d] where"),
    ("SELECT _row_index, k FROM with_origin WHERE _block = 1 AND k > 5", "arrowipc [k, _block, _row_index] where"),
    ("SELECT x, st.r.u FROM chosen WHERE a = 3", "arrowipc [x, st, a] where a IS NOT NULL AND a = 3"),
    ("SELECT k FROM part_of WHERE a = 3", "arrowipc [k, a] where a IS NOT NULL AND a = 3"),
    ("SELECT st.p FROM own WHERE s = '1'", "arrowipc [s, st] where s IS NOT NULL AND s = '1'"),
    ("SELECT DISTINCT part FROM t", "arrowipc [part]"),
    ("SELECT l.k, r.x FROM t l JOIN t r ON l.k = r.k + 1 AND l.a = 3 WHERE r.s = '2'", "arrowipc [k, a] where"),
]


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize(("sql", "scan"), QUERIES, ids=[sql for sql, _ in QUERIES])
def test_a_scan_reads_what_is_asked_for(view, without, sql, scan):
    frame = view.sql(sql)
    assert any(text.startswith(scan) for text in scans(frame)), scans(frame)
    expected = without(sql)
    assert sorted(map(repr, frame.collect())) == sorted(map(repr, expected))
    assert expected


@pytest.mark.smoke("push-down")
@pytest.mark.parametrize("setting", ["spark.sql.codegen.wholeStage", "spark.sql.adaptive.enabled"])
def test_the_rows_are_those_without_whole_stage_code_and_adaptive_plans(view, without, setting):
    sql = "SELECT a, count(x), max(st.q), first(list), avg(d) FROM t WHERE k > 17 GROUP BY a ORDER BY a"
    expected = without(sql)
    view.conf.set(setting, "false")
    try:
        assert view.sql(sql).collect() == expected
    finally:
        view.conf.unset(setting)


def test_a_limit_is_enough_rows(view):
    assert [text for text in scans(view.table("t").select("k").limit(3)) if text.endswith("limit 3")]
    assert len(view.table("t").select("k").limit(3).collect()) == 3
    assert view.table("t").limit(0).count() == 0


def test_workers_drop_rows_and_skip_record_batches(view):
    frame = view.sql("SELECT k FROM t WHERE k BETWEEN 100 AND 105")
    rows = [row.k for row in frame.collect()]
    assert sorted(rows) == list(range(100, 106))
    metrics = scan_metrics(frame)
    # Each of the four files has record batches of 20 rows, and the rows are in two of the partitions.
    assert metrics["number of output rows"] < 100, metrics


def test_one_frame_has_one_listing(pushed, tmp_path):
    path = str(tmp_path / "grows")

    def write(first, mode):
        pushed.range(first, first + 5).write.format("arrowipc").mode(mode).save(path)

    write(0, "append")
    frame = pushed.read.format("arrowipc").load(path)
    assert (frame.count(), frame.filter("id >= 0").count(), len(frame.collect())) == (5, 5, 5)
    write(5, "append")
    assert (frame.count(), frame.filter("id >= 0").count(), len(frame.collect())) == (5, 5, 5)
    assert pushed.read.format("arrowipc").load(path).count() == 10


def test_a_value_that_a_worker_does_not_hold_is_spark_s(pushed, without, tmp_path):
    path = str(tmp_path / "letters")
    pushed.sql("SELECT explode(array('ä', 'Ä', 'x', 'ß', 'z')) AS s").write.format("arrowipc").mode("append").save(path)
    pushed.read.format("arrowipc").load(path).createOrReplaceTempView("letters")
    sql = "SELECT s FROM letters WHERE upper(s) = 'Ä' ORDER BY s"
    assert pushed.sql(sql).collect() == without(sql) == [("Ä",), ("ä",)]


def test_what_is_gone_is_said_as_without(pushed, tmp_path):
    path = str(tmp_path / "gone")
    pushed.range(5).write.format("arrowipc").mode("append").save(path)
    frame = pushed.read.format("arrowipc").load(path)
    shutil.rmtree(path)
    for setting in ("true", "false"):
        pushed.conf.set(SETTING, setting)
        with pytest.raises(Exception, match=r"gone|does not exist|no file"):
            frame.filter("id > 2").collect()
    pushed.conf.set(SETTING, "true")


def test_files_of_other_partitions_are_not_opened(pushed, tmp_path):
    path = tmp_path / "lake"
    rows = pushed.range(0, 40, 1, 1).selectExpr("id", "id % 4 AS part")
    rows.write.format("arrowipc").mode("append").option("partitionBy", "part").save(str(path))
    frame = pushed.read.format("arrowipc").load(str(path))
    assert frame.count() == 40
    shutil.rmtree(path / "part=3")
    assert frame.filter("part = 1").count() == 10
    assert sorted(row.id for row in frame.filter("part < 2 AND id > 30").collect()) == [32, 33, 36, 37]
    with pytest.raises(Exception, match=r"gone|does not exist|no such file|missing"):
        frame.filter("part >= 2").collect()


def test_a_cached_frame_stays_cached(view):
    frame = view.table("t").filter("k < 50").cache()
    try:
        assert frame.count() == 50
        assert "InMemoryTableScan" in frame.filter("a = 1")._jdf.queryExecution().executedPlan().toString()
        assert frame.filter("a = 1").count() == 7
    finally:
        frame.unpersist()


def nbytes(frame):
    """Return the size by which Spark plans joins."""
    return int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())


def test_a_scan_has_the_size_of_the_columns_that_it_reads(pushed, folder):
    frame = pushed.read.format("arrowipc").load(folder)
    files = sum(file.stat().st_size for file in Path(folder).rglob("*.arrow"))
    whole = nbytes(frame.select("k"))
    assert 0 < nbytes(frame.select("b")) < nbytes(frame.select("k", "s")) < nbytes(frame) <= files
    pushed.conf.set("spark.sql.sources.fileCompressionFactor", "0.5")
    try:
        assert abs(nbytes(frame.select("k")) * 2 - whole) <= 2
    finally:
        pushed.conf.unset("spark.sql.sources.fileCompressionFactor")


def test_a_table_of_a_server_has_no_size_and_is_not_broadcast(pushed, tmp_path):
    path = tmp_path / "t.arrow"
    ipc.write(path, pa.table({"id": range(100), "x": range(100)}))
    with ipc.serve({"t": path}, "dissociated+tcp://127.0.0.1:0") as server:
        frame = pushed.read.format("arrowipc").load(server.uri_of("t")).select("id")
        assert scans(frame) == ["arrowipc [id]"]
        assert nbytes(frame) > 2**50
        assert frame.count() == 100


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"path": "/data/t"}, "/data/t"),
        ({"paths": '["/data/t", "/data/u"]'}, '["/data/t", "/data/u"]'),
        ({"path": "s3://me:secret/1@bucket/t"}, "s3://***@bucket/t"),
        ({"paths": '["s3://secret@bucket/t", "s3://b/t"]'}, '["s3://***@bucket/t", "s3://b/t"]'),
    ],
)
def test_explain_shows_the_paths_and_no_secrets(pushed, options, shown):
    frame = pushed.read.format("arrowipc").schema("k INT").options(**options).load()
    description = frame._jdf.queryExecution().optimizedPlan().scan().description()
    assert description == f"arrowipc [k], path {shown}"


def test_a_table_of_record_batches_has_fewer_columns(pushed, folder, without):
    pushed.read.format("arrowipc").option("metadataOnly", "true").load(folder).createOrReplaceTempView("blocks")
    sql = "SELECT sum(rows) FROM blocks WHERE rows > 0"
    assert scans(pushed.sql(sql))[0].startswith("arrowipc [rows] where")
    assert pushed.sql(sql).collect() == without(sql)


def test_rows_of_python_functions(view, without):
    frame = view.table("t").filter("k < 20").select("k", "s")
    doubled = frame.mapInArrow(lambda batches: batches, frame.schema)
    assert doubled.count() == 20
    assert frame.select(f.udf(lambda k: k * 2, "bigint")("k").alias("d")).agg(f.sum("d")).collect()[0][0] == 380


@pytest.mark.one_in(2, "exhaustive")
@pytest.mark.parametrize(
    "condition",
    [
        " OR ".join(f"k = {i} AND a + 1 > {i % 3}" for i in range(300)),
        " OR ".join(f"(k > {i} AND k < {i + 1})" for i in range(300)),
        f"k IN ({', '.join(map(str, range(0, 30000, 3)))})",
        "NOT (" * 120 + "k > 5 OR a = 1" + ")" * 120,
    ],
    ids=["a long chain of which parts are left", "a long chain", "very many keys", "very deep"],
)
def test_conditions_of_any_size(view, without, condition):
    sql = f"SELECT count(*), sum(k) FROM t WHERE {condition}"
    assert view.sql(sql).collect() == without(sql)
