"""Two sessions of Spark Connect on one server, of which the first has the jar: the second answers as without it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import quick_jvm
import quick_spark

pytest.importorskip("grpc", reason="Spark Connect needs the extra 'connect' of pyspark")

ROOT = Path(__file__).parents[2]

PROGRAM = r"""
import json, os, re, sys, threading
from pyspark import SparkContext
from pyspark.sql import SparkSession
from spark_arrow_ipc import register

folder = sys.argv[1]
first = SparkSession.builder.remote("local[2]").getOrCreate()
# The server is in a JVM of this process.
jvm = SparkContext._active_spark_context._jvm
SparkContext._active_spark_context.setLogLevel("OFF")
server = getattr(getattr(jvm, "org.apache.spark.sql.connect.service.SparkConnectService$"), "MODULE$")

sessions = []  # grpc's close may wait for ever in the destructor of a session

def new_session():
    sessions.append(SparkSession.builder.remote(f"sc://localhost:{server.localPort()}").create())
    return sessions[-1]

def read(spark):
    return spark.read.format("arrowipc").load(folder + "/in")

def append(spark):
    spark.range(7).write.format("arrowipc").mode("append").save(folder + "/out")

def plan(spark):
    text = read(spark).filter("id < 7").select("s")._explain_string(extended=True)
    return re.sub(r"#\d+L?|plan_id=\d+", "#", text)

def of_view(spark):
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING arrowipc OPTIONS (path '{folder}/in')")
    return spark.sql("SELECT d, sum(id) FROM v WHERE d > 1 GROUP BY d ORDER BY d").collect()

QUERIES = {
    "rows": lambda spark: sorted(read(spark).filter("d = 3 AND id < 50").collect()),
    "sums": of_view,
    "plan": plan,
    "append": append,
    "a path": lambda spark: spark.sql(f"SELECT count(*) FROM arrowipc.`{folder}/in`").collect(),
    "a class": lambda spark: spark.sql("SELECT reflect('sparkarrowipc.Source', 'toString')").collect(),
    "catalogs": lambda spark: [spark.conf.get("spark.sql.catalog." + name, None) for name in ("arrowipc", "spark_catalog")],
}

def answer(spark):
    answers = {}
    for name, query in QUERIES.items():
        try:
            answers[name] = repr(query(spark))
        except Exception as error:
            answers[name] = str(error).partition("JVM stacktrace")[0]
    return answers

def answer_twice(spark, answers):
    answers.extend(answer(spark) for _ in range(2))

second = new_session()
table = second.sql("SELECT id, id % 5 AS d, concat('s', id) AS s FROM range(2000)")
table.write.format("arrowipc").mode("append").save(folder + "/in")
told = {"before": answer(second)}
register(first)
told["first"] = answer(first)
told["second"] = [answer(new_session())]
threads = [threading.Thread(target=answer_twice, args=(first, [])), threading.Thread(target=answer_twice, args=(second, told["second"]))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
first.client.release_session()  # stop() also ends the server that it started
told["second"].append(answer(second))
told["second"].append(answer(new_session()))
print(json.dumps(told), flush=True)
os._exit(0)
"""


@pytest.mark.nightly
def test_a_session_without_the_jar_never_notices_it(tmp_path):
    environment = quick_spark.environment() | {"PYTHONPATH": str(ROOT), "PYSPARK_SUBMIT_ARGS": quick_jvm.SUBMIT_ARGS}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_TESTING": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=tmp_path, env=os.environ | environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    before, first = told["before"], told["first"]
    assert told["second"] == [before] * 5
    assert "where id IS NOT NULL AND id < 7" in first["plan"]
    assert "arrowipc[id#, d#, s#] (Python)" in before["plan"]
    assert "class sparkarrowipc.Source not found" in before["a class"]
    assert "class sparkarrowipc.Source not found" not in first["a class"]
    assert {name for name in before if before[name] != first[name]} == {"plan", "a path", "a class", "catalogs"}
