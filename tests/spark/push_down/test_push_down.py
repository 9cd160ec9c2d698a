"""`push_down` and `register`: where push-down is on, where it is not and says why, and what its faults change."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from pushed import SETTING, scans

from spark_arrow_ipc import push_down
from spark_arrow_ipc.spark import registration

ROOT = Path(__file__).parents[3]


def rules(spark):
    session = spark._jsparkSession
    found = session.extensions().buildPreCBORules(session)
    return [found.apply(i).getClass().getName() for i in range(found.length())]


@pytest.fixture(scope="module")
def folder(pushed, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("enable") / "data")
    pushed.range(0, 100, 1, 2).selectExpr("id AS k", "id % 3 AS a", "cast(id AS string) AS s").write.format(
        "arrowipc"
    ).mode("append").save(path)
    return path


def test_it_is_there_once(pushed):
    assert push_down(pushed)
    assert push_down(pushed)
    assert rules(pushed).count("sparkarrowipc.PushDown") == 1


def test_new_sessions_and_views_of_before_have_it(pushed, folder):
    other = pushed.newSession()
    other.conf.set(SETTING, "true")  # which the configuration of the tests' session turns off
    frame = other.read.format("arrowipc").load(folder).select("k")
    assert scans(frame) == ["arrowipc [k]"]


def test_rules_of_others_stay(pushed):
    before = pushed._jsparkSession.experimental().extraOptimizations()
    assert push_down(pushed)
    assert pushed._jsparkSession.experimental().extraOptimizations() == before


@pytest.mark.parametrize(
    ("setting", "value"), [(SETTING, "false"), ("spark.sql.optimizer.excludedRules", "sparkarrowipc.PushDown")]
)
def test_a_setting_turns_it_off(pushed, folder, setting, value):
    frame = pushed.read.format("arrowipc").load(folder)
    before = pushed.conf.get(setting, None)
    pushed.conf.set(setting, value)
    try:
        assert scans(frame.select("k")) == ["(Python)"]
    finally:
        pushed.conf.unset(setting) if before is None else pushed.conf.set(setting, before)
    assert scans(frame.select("k")) == ["arrowipc [k]"]


class _OfConnect:
    """A session without a JVM."""


class _OfTomorrow:
    version = "5.0.0"
    _jsparkSession = None  # noqa: N815 - Spark's name

    @property
    def sparkContext(self):
        raise AttributeError("no JVM as it was\nin another line")


@pytest.mark.parametrize(
    ("session", "words"),
    [
        (_OfConnect(), "Spark Connect has no access to the optimizer; give the options columns and where"),
        (_OfTomorrow(), "this Spark (5.0.0) is not one that it knows: no JVM as it was"),
    ],
)
def test_where_it_cannot_be_it_says_why(session, words, caplog):
    with caplog.at_level(logging.WARNING):
        assert push_down(session) is False
    assert caplog.messages == [f"push-down is off: {words}"]


STEPS = [
    "rule",
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
    fail_at = _inside(pushed, "failAt")
    fail_at(step)
    try:
        for sql in ASKED:
            if step == "plan" and "count" in sql:
                continue  # Spark has left the filter and the aggregate to the scan: it raises what is wrong
            assert sorted(pushed.sql(sql).collect()) == sorted(without(sql)), sql
    finally:
        fail_at(None)


def _inside(spark, name):
    """Return a static method of the compiled classes."""
    rule = spark._jsparkSession.extensions().buildPreCBORules(spark._jsparkSession)
    loader = next(
        rule.apply(i).getClass().getClassLoader()
        for i in range(rule.length())
        if rule.apply(i).getClass().getName().startswith("sparkarrowipc")
    )
    gateway, jvm = spark.sparkContext._gateway, spark.sparkContext._jvm
    types, values = gateway.new_array(jvm.java.lang.Class, 1), gateway.new_array(jvm.java.lang.Object, 1)
    types[0] = jvm.java.lang.Class.forName("java.lang.String")
    method = loader.loadClass("sparkarrowipc.Inside").getMethod(name, types)

    def call(value):
        values[0] = value
        return method.invoke(None, values)

    return call


PROGRAM = """
from pyspark.sql import SparkSession
import spark_arrow_ipc
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.arrowipc.pushDown", "false").getOrCreate()
names = lambda: spark._jsparkSession.extensions().buildPreCBORules(spark._jsparkSession).length()
spark_arrow_ipc.register(spark)
off = names()
spark.conf.set("spark.arrowipc.pushDown", "true")
spark_arrow_ipc.register(spark, push_down=False)
left = names()
spark_arrow_ipc.register(spark)
print("rules", off, left, names())
"""


@pytest.mark.exhaustive
def test_register_enables_it_unless_it_is_told_not_to(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert "rules 0 0 1" in done.stdout, done.stderr[-2000:]


def test_the_java_sources_are_part_of_the_package():
    assert {"PushDown.java", "NarrowScan.java", "Columns.java"} <= set(registration.java_sources())


def test_the_java_asks_no_source_for_what_the_release_after_4_3_lacks():
    """There a source keeps no plan of one scan (`PythonDataSourceV2.setReadInfo`): compiling would fail, and all be off."""
    sources = registration.java_sources()
    assert "extends PythonDataSourceV2" in sources["NarrowSource.java"]
    assert [] == [name for name, text in sources.items() if "setReadInfo" in text or "setDataSourceInPython" in text]
