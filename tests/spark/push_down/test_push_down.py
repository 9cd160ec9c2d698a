"""`push_down` and `register`: where push-down is on, where it is not and says why, and what its faults change."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from pushed import SETTING, failing, scans

from spark_arrow_ipc import push_down
from spark_arrow_ipc.spark import jar

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(pushed, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("enable") / "data")
    pushed.range(0, 100, 1, 2).selectExpr("id AS k", "id % 3 AS a", "cast(id AS string) AS s").write.format(
        "arrowipc"
    ).mode("append").save(path)
    return path


def test_it_is_there_once(pushed):
    assert push_down(pushed)
    jars = pushed.sql("LIST JARS").collect()
    assert push_down(pushed)
    assert jars == pushed.sql("LIST JARS").collect()


def test_new_sessions_have_it(pushed, folder):
    other = pushed.newSession()
    other.conf.set(SETTING, "true")  # which the configuration of the tests' session turns off
    frame = other.read.format("arrowipc").load(folder).select("k")
    assert scans(frame) == ["arrowipc [k]"]


def test_a_setting_turns_it_off(pushed, folder):
    frame = pushed.read.format("arrowipc").load(folder)
    pushed.conf.set(SETTING, "false")
    try:
        assert scans(frame.select("k")) == ["(Python)"]
    finally:
        pushed.conf.set(SETTING, "true")
    assert scans(frame.select("k")) == ["arrowipc [k]"]


class _OfConnect:
    """A session without a JVM, on a server that makes no jar."""

    @property
    def dataSource(self):
        raise AttributeError("no Java there")


class _OfTomorrow:
    version = "5.0.0"
    _jsparkSession = None  # noqa: N815 - Spark's name

    @property
    def sparkContext(self):
        raise AttributeError("no JVM as it was\nin another line")


@pytest.mark.parametrize(
    ("session", "words"),
    [
        (_OfConnect(), "no Java there"),
        (_OfTomorrow(), "no JVM as it was"),
    ],
)
def test_where_it_cannot_be_it_says_why(session, words, caplog):
    with caplog.at_level(logging.WARNING):
        assert push_down(session) is False
    assert caplog.messages == [f"queries read all columns and rows, and there are no tables of SQL: {words}"]


STEPS = [
    "partitions",
    "conditions",
    "columns",
    "predicates",
    "aggregates",
    "statistics",
    "plan",
    "combined",
    "joins",
]
ASKED = [
    "SELECT k, s FROM faulty WHERE a = 1 AND k > 5",
    "SELECT a, count(*), max(s) FROM faulty WHERE k > 5 GROUP BY a",
    "SELECT l.k FROM faulty l JOIN (SELECT k FROM faulty WHERE a = 2) r ON l.k = r.k",
    "SELECT count(*) FROM faulty",
]


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("step", STEPS)
def test_a_fault_changes_no_answer(pushed, without, folder, step):
    pushed.read.format("arrowipc").load(folder).createOrReplaceTempView("faulty")
    with failing(pushed, step):
        for sql in ASKED:
            if step == "plan" and "count" in sql:
                continue  # Spark has left the filter and the aggregate to the scan: it raises what is wrong
            assert sorted(pushed.sql(sql).collect()) == sorted(without(sql)), sql


PROGRAM = """
import sys
from pyspark.sql import SparkSession
import spark_arrow_ipc
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.arrowipc.pushDown", "false").getOrCreate()
def scan(frame):
    spark.conf.set("spark.arrowipc.pushDown", "true")
    plan = frame.select("id")._jdf.queryExecution().executedPlan().toString()
    spark.conf.set("spark.arrowipc.pushDown", "false")
    return "arrowipc [id]" in plan
load = lambda: spark.read.format("arrowipc").load(sys.argv[1])
spark_arrow_ipc.register(spark)
spark.range(3).selectExpr("id", "id + 1 AS n").write.format("arrowipc").mode("append").save(sys.argv[1])
before = load()
off = scan(before)
spark.conf.set("spark.arrowipc.pushDown", "true")
spark_arrow_ipc.register(spark, push_down=False)
left = scan(load())
spark.conf.set("spark.arrowipc.pushDown", "true")
spark_arrow_ipc.register(spark)
print("narrow", off, left, scan(before), scan(load()), before.count(), load().count())
"""


@pytest.mark.exhaustive
def test_register_enables_it_for_later_frames_unless_it_is_told_not_to(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "narrow False False False True 3 3" in done.stdout, done.stderr[-2000:]


def test_the_java_sources_are_part_of_the_package():
    assert {"Source.java", "SourceTable.java", "NarrowScan.java", "Columns.java"} <= set(jar.java_sources())


def test_the_java_asks_no_source_for_what_the_release_after_4_3_lacks():
    """There a source keeps no plan of one scan (`PythonDataSourceV2.setReadInfo`): compiling would fail, and all be off."""
    sources = jar.java_sources()
    assert "extends PythonDataSourceV2" in sources["NarrowSource.java"]
    assert [] == [name for name, text in sources.items() if "setReadInfo" in text or "setDataSourceInPython" in text]
