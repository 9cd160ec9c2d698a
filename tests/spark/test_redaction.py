"""After `register`, no plan, event log, status or error of Spark's shows the value of an option that may hold a secret."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import quick_jvm
import quick_spark
from pyspark.errors import PySparkException

from spark_arrow_ipc.spark.options.options import OPTIONS
from spark_arrow_ipc.spark.session_settings import EXPRESSION, REDACTION, hide_secrets

ROOT = Path(__file__).parents[2]

SETTINGS = [("Spark's default", "(?i)url"), ("a person's", "(?x) mine # comment"), ("none", "")]


def session(values):
    """A session with settings that Spark tells, unless their value is None."""

    def get(name):
        if values[name] is None:
            raise PySparkException("[SQL_CONF_NOT_FOUND]")
        return values[name]

    return SimpleNamespace(conf=SimpleNamespace(get=get, set=values.__setitem__))


@pytest.mark.parametrize("before", [case[1] for case in SETTINGS], ids=[case[0] for case in SETTINGS])
def test_what_a_session_hides_is_added_to_once(before):
    values = {REDACTION: before}
    for _ in range(2):
        hide_secrets(session(values))
    assert "|".join(filter(None, (EXPRESSION, before))) == values[REDACTION]


def test_an_expression_that_is_not_told_stays(caplog):
    values = {REDACTION: None}
    hide_secrets(session(values))
    assert {REDACTION: None} == values
    assert EXPRESSION in caplog.text


def test_every_option_that_is_secret_is_hidden_by_ours_or_by_sparks_default():
    names = [option.name for option in OPTIONS if option.is_secret]
    assert [] == [
        name for name in names if not re.search(rf"{EXPRESSION}|(?i:secret|password|token|access[.]?key)", name)
    ]
    assert re.search(EXPRESSION, "STORAGE.sas_key")
    assert re.search(EXPRESSION, "spark.sql.catalog.lake.storage.sas_key")
    assert not re.search(EXPRESSION, "spark.storage.memoryFraction")


PROGRAM = """
import contextlib, io, json, os, sys
from pathlib import Path
from pyspark.sql import SparkSession
from spark_arrow_ipc import register
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource

folder = Path(sys.argv[1])
target = str(folder / "out")
names = ["secret_access_key", "access_key_id", "endpoint", "headers.x-key", "account_key", "sas_key", "Anything"]
options = {f"storage.{name}": f"hunter2-{name}" for name in names}

class OnDisk(ArrowIpcDataSource):  # takes the options of a store, and is none
    def __init__(self, options):
        super().__init__({name: value for name, value in options.items() if not name.lower().startswith("storage.")})

(folder / "events").mkdir()
builder = SparkSession.builder.master("local[2]").config("spark.eventLog.enabled", "true")
builder = builder.config("spark.eventLog.compress", "false").config("spark.eventLog.dir", str(folder / "events"))
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
register(spark)
spark.dataSource.register(OnDisk)
texts = {}

def printed(function, *arguments, **named):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        function(*arguments, **named)
    return out.getvalue()

def error_of(name, function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        texts[f"error of {name}"] = f"{error} {error!r}"

writer = spark.range(8).write.format("arrowipc").options(**options)
writer.mode("append").save(target)
writer.mode("overwrite").save(target)
for push_down in ("true", "false"):
    spark.conf.set("spark.arrowipc.pushDown", push_down)
    frame = spark.read.format("arrowipc").options(**options).load(target).where("id > 3")
    for mode in ("simple", "extended", "codegen", "cost", "formatted"):
        texts[f"explain {mode}, push-down {push_down}"] = printed(frame.explain, mode=mode)
    frame.collect()
    texts[f"execution, push-down {push_down}"] = frame._jdf.queryExecution().toString()
    frame.createOrReplaceTempView("view_of_a_frame")
view = f"CREATE TEMPORARY VIEW view_of_sql USING arrowipc OPTIONS (path '{target}', 'storage.Pw' 'hunter2-sql')"
spark.sql(view)
for name in ("view_of_a_frame", "view_of_sql"):
    texts[f"describe {name}"] = printed(spark.sql(f"DESCRIBE EXTENDED {name}").show, 1000, False)
    texts[f"explain {name}"] = printed(spark.sql(f"EXPLAIN EXTENDED SELECT * FROM {name}").show, 1000, False)
    spark.table(name).collect()
# Spark shows the options of CREATE TABLE in the plan of that statement, also those of its own formats.
spark.sql(f"CREATE TABLE stored (id BIGINT) USING arrowipc OPTIONS ('storage.Pw' 'hunter3') LOCATION '{folder / 'stored'}'")
for statement in ("DESCRIBE EXTENDED", "SHOW CREATE TABLE", "SHOW TBLPROPERTIES", "EXPLAIN EXTENDED SELECT * FROM"):
    texts[statement] = str(spark.sql(f"{statement} stored").collect()).replace("hunter3", "hunter2")
error_of("a column", frame.select, "absent")
error_of("a task", frame.selectExpr("raise_error('x')").collect)
error_of("a schema", spark.range(2).selectExpr("id AS x").write.format("arrowipc").options(**options).mode("append").save, target)
error_of("a mode", writer.mode("error").save, target)
stream = spark.readStream.format("arrowipc").options(**options).load(target).writeStream.format("arrowipc")
stream = stream.options(**options).option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
query = stream.start(str(folder / "copy"))
query.awaitTermination()
texts["explain stream"] = printed(query.explain, True)
texts["progress"] = str(query.lastProgress)
for kind in ("sources", "offsets", "commits", ""):
    for path in (folder / "checkpoint" / kind).glob("*"):
        if path.is_file():
            texts[f"checkpoint {path.name} of {kind}"] = path.read_text("utf-8", "replace")
store = spark._jsparkSession.sharedState().statusStore()
executions = store.executionsList()
for i in range(executions.length()):
    execution = executions.apply(i)
    number = execution.executionId()
    texts[f"status {i}"] = execution.physicalPlanDescription() + execution.description() + execution.details()
    texts[f"graph {i}"] = store.planGraph(number).makeDotFile(store.executionMetrics(number))
spark.stop()
for path in (folder / "events").rglob("*"):
    if path.is_file():
        texts[f"event log {path.name}"] = path.read_text("utf-8")
print(json.dumps(texts))
"""


def texts(folder):
    """All texts of a program with Spark, by where they are."""
    environment = quick_spark.environment() | {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    environment |= {"PYTHONPATH": str(ROOT), "PYSPARK_SUBMIT_ARGS": quick_jvm.SUBMIT_ARGS}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)],
        cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_no_text_of_sparks_shows_a_value(tmp_path):
    found = texts(tmp_path)
    assert [] == [name for name, text in found.items() if "hunter2" in text]
    assert any("storage.Anything=*********(redacted)" in text for text in found.values())
    assert len(found) > 40
