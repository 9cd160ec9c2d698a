"""Tables in the metastore of Hive, on Derby, are there after a restart, and are read and written by another session."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import quick_jvm
import quick_spark

ROOT = Path(__file__).parents[3]

PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
from spark_arrow_ipc import register

folder, statements = sys.argv[1], json.loads(sys.argv[2])
spark = (
    SparkSession.builder.master("local[2]").config("spark.sql.catalogImplementation", "hive")
    .config("spark.sql.warehouse.dir", folder + "/warehouse").config("spark.sql.sources.partitionOverwriteMode", "dynamic")
    .config("spark.hadoop.javax.jdo.option.ConnectionURL", f"jdbc:derby:;databaseName={folder}/metastore;create=true")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
register(spark)
print(json.dumps([sorted(map(list, spark.sql(statement).collect())) for statement in statements]))
spark.stop()
"""

# (Statements of a session, rows of each.)
FIRST = {
    "CREATE TABLE flat (id bigint, s string) USING arrowipc": [],
    "INSERT INTO flat VALUES (1, 'a'), (2, 'b')": [],
    "CREATE TABLE by_d USING arrowipc PARTITIONED BY (d) AS SELECT id, id % 2 AS d FROM range(4)": [],
    "CREATE TABLE outside USING arrowipc LOCATION '{folder}/outside' AS SELECT 7L AS id": [],
    "SELECT * FROM by_d": [[0, 0], [1, 1], [2, 0], [3, 1]],
}
SECOND = {
    "SELECT * FROM flat": [[1, "a"], [2, "b"]],
    "INSERT OVERWRITE by_d VALUES (9, 1)": [],
    "SELECT * FROM by_d": [[0, 0], [2, 0], [9, 1]],
    "INSERT OVERWRITE by_d PARTITION (d = 0) SELECT 1L WHERE false": [],
    "SELECT * FROM by_d WHERE d >= 0": [[9, 1]],
    "SELECT * FROM outside": [[7]],
    "DROP TABLE outside": [],
    "DROP TABLE flat": [],
    "SELECT * FROM arrowipc.`{folder}/outside`": [[7]],
}


@pytest.mark.exhaustive
def test_tables_outlive_their_session(tmp_path):
    environment = quick_spark.environment() | {"PYTHONPATH": str(ROOT), "PYSPARK_SUBMIT_ARGS": quick_jvm.SUBMIT_ARGS}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    for session in (FIRST, SECOND):
        statements = json.dumps([statement.format(folder=tmp_path) for statement in session])
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path), statements],
            cwd=tmp_path, env=os.environ | environment, capture_output=True, text=True, timeout=500, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        assert dict(zip(session, json.loads(done.stdout.splitlines()[-1]), strict=True)) == session
    assert not (tmp_path / "warehouse" / "flat").exists()
