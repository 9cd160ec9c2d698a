"""The option `where` in sessions whose settings are not Spark's defaults, against Spark's own filter of the same rows."""

import json
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import arrow_files
import pyarrow as pa
import pyarrow.parquet
import pytest
import quick_jvm
import quick_spark
import where_settings
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from spark_arrow_ipc import aggregate, count, map_in_arrow, rewrite
from spark_arrow_ipc.dataset.predicate import (
    ANSI,
    CASE,
    DATETIME_STRINGS,
    DOUBLE_QUOTES,
    ESCAPES,
    SETTINGS,
    TIMESTAMP_TYPE,
)

ROOT = Path(__file__).parents[2]

ROWS = [(1, 16777216.0, "a", "a"), (2, 0.1, "u", "a"), (3, 3.0, "\\", "a"), (4, None, None, "a"), (10, -0.0, "a%", "b")]
SCHEMA = "id int, f float, s string, u string"
FILE = pa.table(
    {
        "id": pa.array([row[0] for row in ROWS], pa.int32()),
        "f": pa.array([row[1] for row in ROWS], pa.float32()),
        "s": [row[2] for row in ROWS],
        "u": [row[3] for row in ROWS],
    }
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A file of a writer that knows no Spark, in two record batches."""
    return arrow_files.write(tmp_path_factory.mktemp("settings") / "in" / "f.arrow", FILE, rows=3)


@contextmanager
def session(spark, settings):
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value) if value is not None else spark.conf.unset(name)


def ids(frame):
    return sorted(row.id for row in frame.select("id").collect())


def load(spark, path, where, **options):
    return spark.read.format("arrowipc").options(**options).option("where", where).load(str(path))


REFUSED = [
    ("id IN ('01')", {ANSI: "false"}, ANSI),
    ("id < '2147483648'", {ANSI: "false"}, ANSI),
    ("f = 16777217", {ANSI: "false"}, ANSI),
    ("f = '0.1'", {ANSI: "false"}, ANSI),
    (r"s = '\\'", {ESCAPES: "true"}, ESCAPES),
    ('s = "u"', {DOUBLE_QUOTES: "true"}, DOUBLE_QUOTES),
    # Every row is skipped at planning, by Spark's defaults.
    ('s = "u" AND id > 100', {DOUBLE_QUOTES: "true"}, DOUBLE_QUOTES),
    ("ID = 1", {CASE: "true"}, CASE),
]
ANSWERED = [
    ("id = 1 OR id IN (2, 3) OR f < 1.5", {ANSI: "false"}),
    ("id = '2'", {ANSI: "false"}),
    ("id IN ('1', '10')", {ANSI: "false"}),
    ("f = 3 OR f IN (0, 1)", {ANSI: "false"}),
    ("s LIKE 'a%' AND u = 'b'", {ANSI: "false", ESCAPES: "true"}),
    ('s = "u"', {ANSI: "false", DOUBLE_QUOTES: "true"}),
    ("id = 1", {CASE: "true"}),
    ("s <> 'a'", dict.fromkeys((ESCAPES, DOUBLE_QUOTES, CASE, DATETIME_STRINGS), "true")),
    ("id < 3 AND s IS NOT NULL", {TIMESTAMP_TYPE: "TIMESTAMP_NTZ"}),
]


@pytest.mark.parametrize(("where", "settings", "named"), REFUSED)
def test_a_predicate_that_spark_reads_otherwise_is_refused_by_the_setting_s_name(spark, path, where, settings, named):
    """Never answered as under another setting."""
    with session(spark, settings), pytest.raises(PySparkException, match=re.escape(f"setting {named}=")):
        load(spark, path, where).collect()


@pytest.mark.parametrize(("where", "settings"), ANSWERED)
def test_other_predicates_are_answered_under_all_settings(spark, path, where, settings):
    """The oracle is Spark's filter of rows that came another way."""
    rows = spark.createDataFrame(ROWS, SCHEMA)
    with session(spark, settings):
        assert ids(rows.where(where)) == ids(load(spark, path, where))


def names_alike(spark, path, source):
    """What a read of one of two columns gives whose names differ in case alone; its error is Spark's or ours."""
    try:
        return sorted(row[0] for row in spark.read.format(source).schema("a long").load(str(path)).collect())
    except (PySparkException, Py4JJavaError) as error:
        return "refused" if re.search(r"may stand for #0 'a', #1 'A'|FAILED_READ_FILE", str(error)) else error


@pytest.mark.parametrize(("sensitive", "expected"), [("true", [1, 2]), ("false", "refused")])
def test_names_that_differ_in_case_alone_are_two_as_in_sparks_parquet(spark, tmp_path, sensitive, expected):
    table = pa.table({"a": [1, 2], "A": [10, 20]})
    arrow_files.write(tmp_path / "arrow" / "f.arrow", table)
    (tmp_path / "parquet").mkdir()
    pa.parquet.write_table(table, tmp_path / "parquet" / "f.parquet")
    with session(spark, {CASE: sensitive}):
        assert expected == names_alike(spark, tmp_path / "parquet", "parquet")
        assert expected == names_alike(spark, tmp_path / "arrow", "arrowipc")


def by_count(spark, path, where, _):
    return count(spark, str(path), where)


def by_aggregate(spark, path, where, _):
    return aggregate(spark, str(path), aggregates={"n": "count(*)"}, where=where).collect()


def by_function(spark, path, where, _):
    return map_in_arrow(spark, str(path), lambda batches: batches, SCHEMA, where=where).collect()


def by_rewrite(spark, path, where, tmp_path):
    return rewrite(spark, str(path), str(tmp_path / "made"), mode="overwrite", where=where)


def by_view(spark, path, where, _):
    text = where.replace("\\", "\\\\").replace("'", "\\'")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW w USING arrowipc OPTIONS (path '{path}', where '{text}')")
    return spark.table("w").collect()


def by_metadata(spark, path, where, _):
    return load(spark, path, where, metadataColumns="true").collect()


@pytest.mark.parametrize("ask", [by_count, by_aggregate, by_function, by_rewrite, by_view, by_metadata])
@pytest.mark.parametrize("where", ["id IN ('01')", "id IN ('077')"], ids=["some rows", "all skipped"])
def test_every_way_to_ask_looks_at_the_session(spark, path, tmp_path, ask, where):
    """A rewrite leaves nothing behind."""
    with (
        session(spark, {ANSI: "false"}),
        pytest.raises((PySparkException, Py4JJavaError), match=f"setting {re.escape(ANSI)}=false"),
    ):
        ask(spark, path, where, tmp_path)
    assert not list((tmp_path / "made").glob("*.arrow")) if (tmp_path / "made").exists() else True
    ask(spark, path, where, tmp_path)


def test_an_action_without_settings_refuses_what_depends_on_them_alone(spark, path):
    """Jobs of RDDs tell their tasks no settings."""
    assert 3 == load(spark, path, "id < 4").rdd.count()
    with pytest.raises(PySparkException, match="does not tell its tasks the settings"):
        load(spark, path, "id IN ('01')").rdd.count()


def test_the_settings_are_those_of_the_action(spark, path):
    """As for Spark's filter under Connect; a classic DataFrame's filter keeps those under which it was written."""
    frame = load(spark, path, "id IN ('01')")
    assert [1] == ids(frame)
    with session(spark, {ANSI: "false"}), pytest.raises(PySparkException, match=re.escape(f"{ANSI}=false")):
        frame.collect()


@pytest.mark.exhaustive
def test_settings_of_the_table_change_spark_s_answers_and_are_noted(spark):
    """All settings that Spark has: ``python tests/programs/where_settings.py``."""
    fields = where_settings.fields_of(spark)
    seen = list(where_settings.changes(spark, SETTINGS))
    assert [] == [one for one in seen if one[0] not in where_settings.noted(fields, one[2])]
    without = {DATETIME_STRINGS, "spark.sql.legacy.allowNegativeScaleOfDecimal"}
    assert set(SETTINGS) - without <= {one[0] for one in seen}


CONNECT = """
import json, sys
from pyspark.sql import SparkSession
from spark_arrow_ipc import count

spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
assert "connect" in type(spark).__module__, type(spark)
told = []
for where, name, value in json.loads(sys.argv[2]):
    spark.conf.set(name, value)
    frame = spark.read.format("arrowipc").option("where", where).load(sys.argv[1])
    for ask in (frame.count, lambda: count(spark, sys.argv[1], where)):
        try:
            told.append(ask())
        except Exception as error:
            told.append(f"setting {name}=" in str(error))
    spark.conf.unset(name)
print(json.dumps(told))
spark.stop()
"""


@pytest.mark.exhaustive
def test_settings_of_a_connect_session_are_known_to_its_tasks(path, tmp_path):
    asked = [("id IN ('01')", ANSI, "false"), ("id IN ('01')", ANSI, "true"), ("id = 1", ANSI, "false"), ('s = "u"', DOUBLE_QUOTES, "true")]  # fmt: skip
    environment = quick_spark.environment() | {
        "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": str(ROOT),
        "PYSPARK_SUBMIT_ARGS": quick_jvm.SUBMIT_ARGS, "SPARK_TESTING": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", CONNECT, str(path), json.dumps(asked)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert [True, True, 1, 1, 1, 1, True, True] == json.loads(done.stdout.splitlines()[-1])
