"""Functions, aggregates and counts under Spark Connect, where a class travels to a server."""

import json
import subprocess
import sys
from pathlib import Path

import arrow_files
import pyarrow as pa
import pytest
import quick_jvm
import quick_spark

pytest.importorskip("grpc", reason="Spark Connect needs the extra 'connect' of pyspark")

ROOT = Path(__file__).parents[3]

PROGRAM = """
import json, sys
from decimal import Decimal
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession, functions as f
from spark_arrow_ipc import aggregate, count, map_in_arrow, vectors

path = sys.argv[1]
spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
assert "connect" in type(spark).__module__, type(spark)
LIMIT = 2
told = {}

def larger(batches):
    for batch in batches:
        yield batch.filter(pc.greater(batch["id"], LIMIT)).select(["id", "name"])

def hours(batches):
    for batch in batches:
        yield pa.record_batch({"hour": pc.hour(batch["at"])})

def sums(batches):
    for batch in batches:
        yield pa.record_batch({"s": pa.array(vectors.matrix(batch, "v").sum(axis=1).astype("f8"))})

def fails(batches):
    raise KeyError("the user's text")

for _ in range(2):
    told["mapped"] = sorted(map(tuple, map_in_arrow(spark, path, larger, "id bigint, name string").collect()))
told["where"] = map_in_arrow(spark, [path], larger, "id bigint, name string", where="id = 4").count()
spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
told["hour"] = [row.hour for row in map_in_arrow(spark, path, hours, "hour bigint", where="id = 1").collect()]
told["vectors"] = sorted(row.s for row in map_in_arrow(spark, path, sums, "s double", vectors="binary").collect())
named = {"rows": "count(*)", "names": "count(name)", "total": "sum(amount)", "last": "max(name)"}
grouped = aggregate(spark, path, group_by=["k"], aggregates=named)
plain = spark.read.format("arrowipc").load(path).groupBy("k").agg(*(f.expr(t).alias(n) for n, t in named.items()))
told["same types"] = grouped.schema == plain.schema
told["same rows"] = sorted(map(str, grouped.collect())) == sorted(map(str, plain.collect()))
told["count"] = [count(spark, path), count(spark, path, where="name IS NULL")]
def raised(act):
    try:
        act()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
told["user's error"] = raised(lambda: map_in_arrow(spark, path, fails, "id bigint").collect())
told["session"] = raised(lambda: map_in_arrow(spark, path, lambda b: spark.version, "id bigint"))
big = b"x" * (17 << 20)
told["too large"] = raised(lambda: map_in_arrow(spark, path, lambda b: big, "id bigint"))
almost = b"x" * (15 << 20)
def first(batches):
    yield pa.record_batch({"n": [len(almost)]})
told["large"] = map_in_arrow(spark, path, first, "n bigint", columns="id").first().n
print(json.dumps(told))
spark.stop()
"""


@pytest.mark.exhaustive
def test_a_connect_client_runs_functions_and_aggregates(tmp_path):
    decimals = pa.array([1, None, 3, 4]).cast(pa.decimal128(19, 0))
    table = pa.table({
        "id": [1, 2, 3, 4], "name": ["a", None, "c", "d"], "k": [0, 0, 1, 1], "amount": decimals,
        "at": pa.array([0] * 4, pa.timestamp("us", "UTC")), "v": pa.array([[i, 0.5] for i in range(4)], pa.list_(pa.float32(), 2)),
    })  # fmt: skip
    path = arrow_files.write(tmp_path / "in" / "1.arrow", table, rows=2)
    environment = quick_spark.environment()
    environment |= {
        "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": str(ROOT),
        "PYSPARK_SUBMIT_ARGS": quick_jvm.SUBMIT_ARGS, "SPARK_TESTING": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, path],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    errors = {name: told.pop(name) for name in ("user's error", "session", "too large")}
    assert told == {
        "mapped": [[3, "c"], [4, "d"]], "where": 1, "hour": [9], "vectors": [0.5, 1.5, 2.5, 3.5],
        "same types": True, "same rows": True, "count": [4, 1], "large": 15 << 20,
    }  # fmt: skip
    assert "KeyError" in errors["user's error"]
    assert "the user's text" in errors["user's error"]
    assert "FunctionError: the function" in errors["session"]
    assert "uses spark, the SparkSession, which exists on the driver only" in errors["session"]
    assert "and the values that it uses are larger than 16 MiB" in errors["too large"]
