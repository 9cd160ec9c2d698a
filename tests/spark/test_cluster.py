"""Several executors, each a process of its own: what the driver sends must arrive there, and what they write, here."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import quick_jvm
import quick_spark
from pushed import BOTH_WAYS

ROOT = Path(__file__).parents[2]

PROGRAM = (
    BOTH_WAYS
    + """
import json, sys
from pyspark.sql import SparkSession, functions as f

path = sys.argv[1]
spark = (
    SparkSession.builder.master("local-cluster[2,1,1024]")
    .config("spark.ui.enabled", "false")
    .config("spark.executor.memory", "512m")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
def load():
    return spark.read.format("arrowipc").option("maxPartitionBytes", "200k").load(path + "/in")
frame = load()
executors = frame.select(f.udf(lambda _: __import__("os").environ.get("SPARK_EXECUTOR_DIRS", ""), "string")("id").alias("e"))
totals = frame.groupBy("word").agg(f.sum("id").alias("total"), f.count("*").alias("rows"))
frame.withColumn("double", f.expr("id * 2")).write.format("arrowipc").mode("append").option("compression", "zstd").save(path + "/out")
totals.coalesce(1).write.format("arrowipc").mode("overwrite").save(path + "/totals")
back = spark.read.format("arrowipc").load(path + "/out")
print(json.dumps({
    "partitions": frame.rdd.getNumPartitions(),
    "executors": executors.distinct().count(),
    "totals": sorted(map(tuple, totals.collect())),
    "both ways": both_ways(load),
    "back": list(back.agg(f.count("*"), f.sum("id"), f.sum("double"), f.countDistinct("word")).first()),
}))
spark.stop()
"""
)

ROWS = 100_000
WORDS = ["red", "green", "blue"]


@pytest.mark.exhaustive
def test_a_cluster_reads_aggregates_writes_and_reads_back(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(2):
        first = number * ROWS // 2
        table = pa.table({
            "id": pa.array(range(first, first + ROWS // 2), pa.int64()),
            "word": pa.array([WORDS[i % 3] for i in range(first, first + ROWS // 2)]).dictionary_encode(),
        })  # fmt: skip
        with pa.ipc.new_file(str(tmp_path / "in" / f"{number}.arrow"), table.schema) as writer:
            writer.write_table(table, max_chunksize=5_000)
    environment = quick_spark.environment()
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    environment["PYSPARK_SUBMIT_ARGS"] = quick_jvm.SUBMIT_ARGS
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("partitions") >= 4
    assert found == {
        "executors": 2,
        "both ways": [True, True],
        "totals": sorted([w, sum(range(i, ROWS, 3)), len(range(i, ROWS, 3))] for i, w in enumerate(WORDS)),
        "back": [ROWS, sum(range(ROWS)), 2 * sum(range(ROWS)), 3],
    }
    written = sorted((tmp_path / "out").glob("part-*.arrow"))
    assert len(written) >= 4
    with pa.OSFile(str(next((tmp_path / "totals").glob("part-*.arrow")))) as source:
        totals = pa.ipc.open_file(source).read_all()
    assert found["totals"] == sorted(map(list, zip(*totals.to_pydict().values(), strict=True)))
    assert not (tmp_path / "out" / "_ipc_stage").exists()
