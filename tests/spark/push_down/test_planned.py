"""Input partitions that are left out before tasks start: by conditions on hive partitions, and by the keys of joins."""

import base64
import json

import pyarrow as pa
import pytest

from spark_arrow_ipc import ipc

ROWS = """
    id AS k, if(id % 6 = 5, null, cast(id % 6 AS int)) AS p, if(id % 6 = 4, null, concat('n', cast(id % 2 AS string))) AS name,
    date_add(DATE '2024-01-30', cast(id % 3 AS int)) AS day, cast(id % 6 AS double) AS x,
    repeat('x', 200000) AS pad
"""


@pytest.fixture(scope="module")
def view(pushed, tmp_path_factory):
    """A file of its own in each of six partitions, read by a task each."""
    path = str(tmp_path_factory.mktemp("planned") / "data")
    rows = pushed.sql(f"SELECT {ROWS} FROM range(0, 60, 1, 1)")
    rows.write.format("arrowipc").mode("append").options(partitionBy="p,name,day,x", compression="none").save(path)
    frame = pushed.read.format("arrowipc").option("minPartitionNum", 6).load(path)
    frame.createOrReplaceTempView("lake")
    return pushed


def n_tasks(frame):
    return frame._jdf.queryExecution().executedPlan().execute().getNumPartitions()


CONDITIONS = [
    ("p = 2", 1),
    ("p IN (1, 2, 7)", 2),
    ("p IS NULL", 1),
    ("p <=> NULL", 1),
    ("p % 2 = 0 AND k >= 0", 3),
    ("p > 1 AND p < 4", 2),
    ("day = DATE '2024-02-01'", 2),
    ("year(day) = 2024 AND month(day) = 2", 2),
    ("day = current_date()", 1),
    ("name LIKE 'n%' AND upper(name) = 'N1'", 3),
    ("name = 'n0' OR k < 5", 6),
    ("name = 'n0' OR p = 3", 3),
    ("p = 99", 1),
    ("p + k > 10", 5),
    ("x = 3.0", 6),
    ("cast(name AS int) = 3", 1),
    ("p = (SELECT max(p) FROM lake)", 5),
    ("exists(array(p, 2), e -> e = 2)", 6),
    ("k = 7", 6),
    ("rand() < 2", 6),
]


@pytest.mark.one_in(2, "exhaustive")
@pytest.mark.parametrize(("condition", "tasks"), CONDITIONS, ids=[c[0] for c in CONDITIONS])
def test_tasks_start_for_partitions_that_may_match(view, without, condition, tasks):
    sql = f"SELECT k, p, name, day, x FROM lake WHERE {condition}"
    view.conf.set("spark.sql.ansi.enabled", "false")
    view.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        frame = view.sql(sql)
        assert tasks == n_tasks(frame)
        assert sorted(frame.collect(), key=str) == sorted(without(sql), key=str)
    finally:
        view.conf.unset("spark.sql.ansi.enabled")
        view.conf.unset("spark.sql.adaptive.enabled")


@pytest.mark.parametrize("condition", ["p = 2", "p = 99", "p IS NULL"])
def test_aggregates_of_partitions(view, without, condition):
    sql = f"SELECT count(*), min(k), max(p) FROM lake WHERE {condition}"
    assert view.sql(sql).collect() == without(sql)


def test_scans_of_other_partitions_are_not_taken_for_each_other(view, without):
    """Their columns and pushed conditions are the same, and Spark reads what it exchanges once."""
    half = "SELECT x, count(k) AS n FROM lake WHERE p % 2 = {} GROUP BY x"
    sql = f"SELECT a.x, a.n, b.x, b.n FROM ({half.format(0)}) a FULL JOIN ({half.format(1)}) b ON a.x = b.x"
    assert sorted(view.sql(sql).collect(), key=str) == sorted(without(sql), key=str)


def test_a_condition_that_fails_for_a_partition_fails_as_without_it(view, without):
    sql = "SELECT k FROM lake WHERE cast(name AS int) = 3"
    view.conf.set("spark.sql.ansi.enabled", "true")
    try:
        for run in (lambda: view.sql(sql).collect(), lambda: without(sql)):
            with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
                run()
    finally:
        view.conf.unset("spark.sql.ansi.enabled")


@pytest.mark.parametrize(("keys", "tasks"), [("3", 1), ("2, 4", 2), ("99", 1)])
def test_keys_of_a_join_leave_out_partitions(view, without, keys, tasks):
    view.sql(f"SELECT explode(array({keys})) AS p, 'a' AS what").write.mode("overwrite").saveAsTable("few")
    view.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        sql = "SELECT k, what FROM lake JOIN few ON lake.p = few.p WHERE few.what LIKE 'a%'"
        frame = view.sql(sql)
        assert tasks == n_tasks(frame)
        assert sorted(frame.collect()) == sorted(without(sql))
    finally:
        view.conf.unset("spark.sql.adaptive.enabled")
        view.sql("DROP TABLE few")


@pytest.mark.smoke("push-down")
def test_keys_of_a_join_leave_out_rows(view, without):
    sql = "SELECT count(*), sum(l.x) FROM lake l JOIN (SELECT k FROM lake WHERE x = 3 AND k < 60) r ON l.k = r.k"
    frame = view.sql(sql)
    assert "dynamicpruning" in frame._jdf.queryExecution().executedPlan().toString()
    assert frame.collect() == without(sql)


KEYS = {"bigint": "id * 3", "int": "cast(id * 3 AS int)", "days": "date_add(DATE '1960-01-01', cast(id * 3 AS int))"}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_more_keys_of_a_join_than_nodes_leave_out_rows(view, without, tmp_path, key):
    """6,000 keys, which a tenth of the rows has, of a table that is large enough for Spark to look."""
    path, width = str(tmp_path / "rows"), 1 << 10
    rows = view.sql(
        f"SELECT {key.replace('id * 3', 'id * 9')} AS k, repeat('x', {width}) AS pad FROM range(0, 20000, 1, 2)"
    )
    rows.write.format("arrowipc").option("compression", "none").mode("append").save(path)
    view.read.format("arrowipc").load(path).createOrReplaceTempView("wide")
    few = str(tmp_path / "keys")
    view.sql(f"SELECT {key} AS k, id AS n FROM range(0, 12000)").write.format("arrowipc").mode("append").save(few)
    view.read.format("arrowipc").load(few).createOrReplaceTempView("few")
    sql = "SELECT count(*), min(w.k), max(length(pad)) FROM wide w JOIN few ON w.k = few.k WHERE few.n < 6000"
    view.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        frame = view.sql(sql)
        assert frame.collect() == without(sql) != [(0, None, None)]
        plan = frame._jdf.queryExecution().executedPlan().collectLeaves()
        leaves = [plan.apply(i) for i in range(plan.length())]
        scanned = [
            leaf.metrics().get("numOutputRows").get().value() for leaf in leaves if "BatchScan" in leaf.nodeName()
        ]
        assert 2_000 in scanned
    finally:
        view.conf.unset("spark.sql.adaptive.enabled")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT l.a, l.b FROM by_case l JOIN (SELECT c FROM by_case WHERE b = 4) r ON l.c = r.c",
        "SELECT a, b FROM by_case WHERE b > 3",
        "SELECT b FROM by_case",
        "SELECT c FROM by_case WHERE a = 2 AND pad > 'a'",
        "SELECT s.q FROM by_case WHERE s.q = 8",
        "SELECT max(b), count(*) FROM by_case WHERE c > 5",
        "SELECT count(*), max(c) FROM by_case",
    ],
)
def test_names_that_differ_in_case_alone(view, without, tmp_path, sql):
    """Of a table so large that joins filter it: Spark looks for the columns that they may filter, by name."""
    inner = [{"p": 1, "P": 2, "q": 3}, {"p": 6, "P": 7, "q": 8}]
    ipc.write(
        tmp_path / "t.arrow",
        pa.table({"k": [1, 2], "K": [3, 4], "n": [5, 6], "s": inner, "pad": ["x" * (5 << 20)] * 2}),
    )
    frame = view.read.format("arrowipc").load(str(tmp_path))
    frame.toDF("a", "b", "c", "s", "pad").createOrReplaceTempView("by_case")
    rows = view.sql(sql).collect()
    assert rows
    assert rows == without(sql)


def test_a_name_with_a_note_in_it_is_not_believed(pushed, tmp_path):
    """The note of a partition is found in its pickle, where the paths of files stand as well."""
    note = base64.b64encode(json.dumps({"bytes": 0, "names": ["p"], "values": [[1]]}).encode()).decode().rstrip("=")
    folder = tmp_path / "p=2" / f"arrowipc-plan:{note}==:"
    folder.mkdir(parents=True)
    ipc.write(folder / f"arrowipc-plan:{note}==:.arrow", pa.table({"k": [1, 2]}))
    frame = pushed.read.format("arrowipc").option("recursiveFileLookup", "false").load(str(tmp_path / "p=2" / "*"))
    frame = frame.selectExpr("k", "2 AS p")
    assert [row.k for row in frame.filter("p = 2").collect()] == [1, 2]


def test_a_name_with_a_note_in_it_is_not_believed_where_partitions_have_none(pushed, tmp_path):
    """The table of record batches: its partitions are lists of files."""
    note = base64.b64encode(json.dumps({"bytes": 0, "names": ["rows"], "values": [[1]]}).encode()).decode()
    for name in ("a", f"arrowipc-plan:{note.replace('/', '_')}:", f"z.arrowipc-plan:{note}:".replace("/", "_")):
        ipc.write(tmp_path / f"{name}.arrow", pa.table({"k": [1, 2]}))
    frame = pushed.read.format("arrowipc").options(metadataOnly="true", minPartitionNum=3).load(str(tmp_path))
    assert 3 == frame.filter("rows = 2").count() == len(frame.filter("rows = 2").collect())
