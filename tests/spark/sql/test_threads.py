"""Fifty threads of one session write a table and read it at once, in each way of writing: every row is there once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import quick_jvm
import quick_spark
from commit_jobs import leftovers

ROOT = Path(__file__).parents[3]
THREADS, ROWS = 50, 10

PROGRAM = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from pyspark.sql import SparkSession
from spark_arrow_ipc import register

folder, threads, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
daemon = ("spark.python.daemon.module", "spark_arrow_ipc.spark.daemon")
spark = SparkSession.builder.master("local[2]").config(*daemon).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
register(spark)
table = f"arrowipc.`{folder}/t`"
spark.sql(f"CREATE TABLE {table} PARTITIONED BY (k) AS SELECT id, 0 AS k FROM range(100)")

def write_and_read(number):
    frame = spark.range(number, number + rows).selectExpr("id", f"{number + 1} AS k")
    if number % 3 == 0:
        spark.sql(f"INSERT INTO {table} SELECT id, {number + 1} FROM range({number}, {number + rows})")
    elif number % 3 == 1:
        frame.write.format("arrowipc").mode("append").partitionBy("k").save(folder + "/t")
    else:
        frame.writeTo(table).append()
    return sorted(row.id for row in spark.sql(f"SELECT id FROM {table} WHERE k = {number + 1}").collect())

with ThreadPoolExecutor(threads) as pool:
    answers = list(pool.map(write_and_read, range(threads)))
afterwards = sorted(map(list, spark.sql(f"SELECT k, id FROM {table}").collect()))
names = [thread.getName() for thread in spark._jvm.java.lang.Thread.getAllStackTraces().keySet()]
print(json.dumps([answers, afterwards, [name for name in names if "arrowipc" in name]]))
spark.stop()
"""


@pytest.mark.nightly
def test_threads_write_and_read_one_table(tmp_path):
    environment = quick_spark.environment() | {"PYTHONPATH": str(ROOT), "PYSPARK_SUBMIT_ARGS": quick_jvm.SUBMIT_ARGS}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), str(THREADS), str(ROWS)],
        cwd=tmp_path, env=os.environ | environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    answers, afterwards, names_of_threads = json.loads(done.stdout.splitlines()[-1])
    expected = [[*range(number, number + ROWS)] for number in range(THREADS)]
    assert answers == expected
    assert afterwards == [[k, i] for k, ids in enumerate([range(100), *expected]) for i in ids]
    assert names_of_threads == []
    assert leftovers(tmp_path / "t") == []
