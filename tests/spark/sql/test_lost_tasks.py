"""Statements over tables of paths and of the catalog whose tasks fail, run twice at once, or lose their executor: each row once.

::

    python -m pytest -q -m nightly tests/spark/sql/test_lost_tasks.py
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import quick_jvm
import quick_spark
from commit_jobs import leftovers

ROOT = Path(__file__).parents[3]
ROWS = 6_000

# Workers of two hosts, as a copy of a task runs on another host only. Each statement calls `strike`, which waits until a
# task has handed on some rows, and then fails it, kills its executor, or lets it sleep until a copy has begun.
PROGRAM = """
import json, os, sys, time
from pathlib import Path
from pyspark import SparkContext, TaskContext
from pyspark.sql import SparkSession
from spark_arrow_ipc import register

folder = sys.argv[1]
SparkContext._ensure_initialized()
jvm = SparkContext._jvm
conf, deploy = jvm.org.apache.spark.SparkConf(), jvm.org.apache.spark.deploy
master = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)._1().address().toSparkURL()
masters = SparkContext._gateway.new_array(jvm.java.lang.String, 1)
masters[0] = master
for number in (1, 2):
    deploy.worker.Worker.startRpcEnvAndEndpoint(
        f"127.0.0.{number}", 0, 0, 1, 1024, masters, folder + "/workers", jvm.scala.Option.apply(number), conf,
        jvm.scala.Option.empty(),
    )
builder = SparkSession.builder.master(master)
for name, value in {
    "spark.executor.memory": "512m",
    "spark.python.daemon.module": "spark_arrow_ipc.spark.daemon",
    "spark.scheduler.minRegisteredResourcesRatio": "1",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.warehouse.dir": folder + "/warehouse",
    "spark.task.maxFailures": "8",
}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
register(spark)

def strike(value):
    context = TaskContext.get()
    if context.partitionId() != 1 or value is None:
        return value
    task, attempt = context.stageId(), context.attemptNumber()
    mark, calls = f"{folder}/marks/{task}", globals().setdefault("calls", {})
    calls[task, attempt] = calls.get((task, attempt), 0) + 1
    fault = Path(folder, "fault").read_text()
    if fault == "copy" and attempt:
        Path(f"{mark}-{attempt}").touch()
    if calls[task, attempt] != 150 or attempt or os.path.exists(mark):
        return value
    Path(mark).touch()
    if fault == "error":
        raise RuntimeError("struck")
    if fault == "executor":
        import psutil
        next(process for process in psutil.Process().parents() if "java" in process.name()).kill()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not os.path.exists(mark + "-1"):
        time.sleep(0.02)
    return value

spark.udf.register("strike", strike, "bigint")
answers = {}
Path(folder, "marks").mkdir()
for name, fault, table, setup, statement, query in json.loads(Path(folder, "cases.json").read_text()):
    spark.sql(setup)
    before = spark.sql(f"SELECT * FROM {table}").count()
    Path(folder, "fault").write_text(fault)
    error = None
    try:
        if statement:
            spark.sql(statement)
            Path(folder, "fault").write_text("none")
        rows = [list(row) for row in spark.sql(query).collect()]
    except Exception as raised:
        error, rows = str(raised)[:2000], []
    marks = sorted(mark.name.partition("-")[2] for mark in Path(folder, "marks").iterdir())
    for mark in Path(folder, "marks").iterdir():
        mark.unlink()
    answers[name] = [error, marks, rows]
    print(name, time.strftime("%X"), error, marks, len(rows), file=sys.stderr, flush=True)
    Path(folder, "answers.json").write_text(json.dumps(answers))
spark.stop()
"""

BASE = [[i, f"s{i % 11}", i % 5] for i in range(ROWS)]
NEW = [[i + ROWS, "new", i % 5] for i in range(3_000)]
TABLE = f"AS SELECT /*+ REPARTITION(3) */ id, concat('s', id % 11) AS s, CAST(id % 5 AS int) AS d FROM range({ROWS})"
OF_NEW = "SELECT strike(id + 6000), 'new', CAST(id % 5 AS int) FROM range(0, 3000, 1, 3)"

# (Statement, the rows of the table afterwards.)
STATEMENTS = {
    "INSERT": (f"INSERT INTO {{t}} {OF_NEW}", BASE + NEW),
    "INSERT OVERWRITE": (f"INSERT OVERWRITE {{t}} {OF_NEW}", NEW),
    "DELETE": ("DELETE FROM {t} WHERE strike(id) % 3 = 0", [row for row in BASE if row[0] % 3]),
    "UPDATE": (
        "UPDATE {t} SET s = concat('u', strike(id)) WHERE id % 7 = 1",
        [[i, f"u{i}" if i % 7 == 1 else s, d] for i, s, d in BASE],
    ),
    "MERGE": (
        "MERGE INTO {t} t USING (SELECT id * 4 AS id, strike(id) AS x FROM range(0, 3000, 1, 3)) c ON t.id = c.id WHEN MATCHED AND x % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET s = concat('m', x) WHEN NOT MATCHED THEN INSERT (id, s, d) VALUES (c.id, concat('n', strike(c.id)), 0)",
        [[i, s if i % 4 else f"m{i // 4}", d] for i, s, d in BASE if i % 4 or i // 4 % 2]
        + [[i * 4, f"n{i * 4}", 0] for i in range(1_500, 3_000)],
    ),
    "a query": ("", [[3_600, sum(i for i, _, d in BASE if d < 3)]]),
}  # fmt: skip
QUERIES = {"a query": "SELECT count(*), sum(strike(id)) FROM {t} WHERE d < 3"}
FAULTS = ["error", "executor", "copy"]
TABLES = {"path": "arrowipc.`{folder}/t{number}`", "catalog": "t{number}"}
CREATE = {"path": "CREATE TABLE {t} " + TABLE, "catalog": "CREATE TABLE {t} USING arrowipc PARTITIONED BY (d) " + TABLE}
CASES = [
    (statement, fault, kind)
    for i, statement in enumerate(STATEMENTS)
    for j, fault in enumerate(FAULTS)
    for kind in TABLES
    if list(TABLES)[(i + j) % 2] == kind or statement in {"DELETE", "MERGE"}
]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """The folder of the program, and for each case its error, its faults and the rows."""
    folder, cases = tmp_path_factory.mktemp("lost"), []
    for number, (name, fault, kind) in enumerate(CASES):
        table = TABLES[kind].format(folder=folder, number=number)
        texts = [CREATE[kind], STATEMENTS[name][0], QUERIES.get(name, "SELECT id, s, d FROM {t}")]
        cases.append([f"{name}, {fault}, {kind}", fault, table, *(text.format(t=table) for text in texts)])
    (folder / "cases.json").write_text(json.dumps(cases))
    environment = quick_spark.environment() | {"PYTHONPATH": str(ROOT), "PYSPARK_SUBMIT_ARGS": quick_jvm.SUBMIT_ARGS}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)],
        cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=1500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return folder, json.loads((folder / "answers.json").read_text())


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "fault", "kind"), CASES)
def test_each_row_is_there_once(answers, name, fault, kind):
    folder, of_cases = answers
    error, marks, rows = of_cases[f"{name}, {fault}, {kind}"]
    assert error is None
    assert marks, "no task was struck"
    assert ("1" in marks) == (fault == "copy")
    assert Counter(map(tuple, rows)) == Counter(map(tuple, STATEMENTS[name][1]))
    directory = f"t{CASES.index((name, fault, kind))}"
    assert leftovers(folder / directory if kind == "path" else folder / "warehouse" / directory) == []
