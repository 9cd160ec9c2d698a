"""Spark Connect: a client without a JVM of its own reads and writes through a local server."""

import json
import os
import subprocess
import sys
from pathlib import Path

import arrow_files
import mistakes
import pyarrow as pa
import pytest
import quick_jvm
import quick_spark
import spark_methods

pytest.importorskip("grpc", reason="Spark Connect needs the extra 'connect' of pyspark")

ROOT = Path(__file__).parents[2]

PROGRAM = """
import json, os, sys
from pathlib import Path
from pyspark.sql import SparkSession, functions as f

path = sys.argv[1]
# A server inside this process's JVM, that ends with it.
spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
assert "connect" in type(spark).__module__, type(spark)
told = {}
frame = spark.read.format("arrowipc").load(path + "/in")
told["schema"] = frame.schema.simpleString()
told["sum"] = frame.agg(f.sum("a"), f.count("b")).first().asDict()
told["columns"] = spark.read.format("arrowipc").option("columns", "b").load(path + "/in").columns
frame.filter("a > 1").write.format("arrowipc").mode("append").option("compression", "zstd").save(path + "/out")
told["written"] = sorted(map(tuple, spark.read.format("arrowipc").load(path + "/out").collect()))
spark.sql(f"CREATE TEMPORARY VIEW v USING arrowipc OPTIONS (path '{path}/out')")
spark.sql("INSERT INTO v SELECT 9, 'nine'")
told["inserted"] = spark.read.format("arrowipc").load(path + "/out").count()
try:
    spark.read.format("arrowipc").load(path + "/nowhere").count()
except Exception as error:
    told["error"] = str(error)
def raised(act):
    try:
        act()
    except Exception as error:
        return str(error)
read = spark.read.format("arrowipc")
told["relative"] = {
    "load": raised(lambda: read.load("in").count()),
    "load of several": raised(lambda: read.load([path + "/in", "in"]).count()),
    "basePath": raised(lambda: read.option("basePath", "in").load(path + "/in").count()),
    "load with a schema": raised(lambda: read.schema("a long").load("in").count()),
    "metadataOnly": raised(lambda: read.option("metadataOnly", "true").load("in").count()),
    "view": raised(lambda: spark.sql("CREATE TEMPORARY VIEW w USING arrowipc OPTIONS (path 'in')").collect()),
    "append": raised(lambda: frame.write.format("arrowipc").mode("append").save("in")),
    "overwrite": raised(lambda: frame.write.format("arrowipc").mode("overwrite").save("in")),
}
spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
hours = spark.sql("SELECT id, timestamp_micros(id * 3600000000) AS at, timestamp_micros(id * 3600000000) AS p FROM range(6)")
hours.write.format("arrowipc").mode("append").option("partitionBy", "p").save(path + "/hours")
told["directories"] = sorted(name for name in os.listdir(path + "/hours") if "=" in name)[:2]
late = spark.read.format("arrowipc").option("where", "at >= TIMESTAMP '1970-01-01 13:00:00'").load(path + "/hours")
told["in the session's zone"] = sorted(row.id for row in late.collect())
import mistakes
(folder := Path(path, "mistakes")).mkdir()
told["mistakes"] = mistakes.make(spark, folder, connect=True)
import spark_methods
def outcomes(name):
    (folder := Path(path, name)).mkdir()
    spark_methods.prepare(folder)
    return {name: spark_methods.outcome(method, spark, folder) for name, method in spark_methods.here().items()}
told["methods"] = outcomes("methods") if "methods" in sys.argv else {}
from spark_arrow_ipc import register
register(spark)
told["setting"] = spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch")
told["hidden"] = spark.conf.get("spark.sql.redaction.options.regex")
# The server has made the jar, and the session has it.
told["methods with the jar"] = outcomes("with the jar") if "methods" in sys.argv else {}
print(json.dumps(told))
spark.stop()
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "methods_too",
    [(), pytest.param(("methods",), marks=pytest.mark.nightly)],
    ids=["", "each method, without the jar and with it"],
)
def test_a_connect_client_reads_and_writes(tmp_path, methods_too):
    arrow_files.write(
        tmp_path / "in" / "1.arrow", pa.table({"a": pa.array([1, 2, 3], pa.int64()), "b": ["x", None, "z"]})
    )
    environment = quick_spark.environment()
    environment |= {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'programs'}",
    }
    environment["PYSPARK_SUBMIT_ARGS"] = quick_jvm.SUBMIT_ARGS
    environment["SPARK_TESTING"] = "1"  # the server takes a free port, and the client asks for it
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), *methods_too],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    error = told.pop("error")
    relative = told.pop("relative")
    texts, methods, with_jar = told.pop("mistakes"), told.pop("methods"), told.pop("methods with the jar")
    assert told == {
        "schema": "struct<a:bigint,b:string>",
        "sum": {"sum(a)": 6, "count(b)": 2},
        "columns": ["b"],
        "written": [[2, None], [3, "z"]],
        "inserted": 3,
        "setting": "2147483647",
        "hidden": "(?i:^(option[.]|.*catalog[.].*)?storage[.])|(?i)url",
        "directories": ["p=1970-01-01 09%3A00%3A00", "p=1970-01-01 10%3A00%3A00"],
        "in the session's zone": [4, 5],
    }
    assert "NoFilesError" in error
    assert "nowhere" in error
    refused = "OptionError: the path 'in' is relative, and under Spark Connect"
    assert [name for name, words in relative.items() if refused not in (words or "")] == []
    assert [*tmp_path.rglob("in")] == [tmp_path / "in"], "nothing was written in the working directory"
    for name, ways in texts.items():
        mistakes.check(name, ways, tmp_path / "mistakes")
    for name, outcome in methods.items():
        spark_methods.check(name, *outcome)
    for name, outcome in with_jar.items():
        spark_methods.check(name, *outcome, has_jar=True)
