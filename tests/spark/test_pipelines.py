"""Declarative Pipelines: a view of our files, a table of Spark's made of it, and a sink of ours."""

import os
import subprocess
import sys
from pathlib import Path

import arrow_files
import pyarrow as pa
import pytest
import quick_jvm
import quick_spark

pytest.importorskip("grpc", reason="pipelines run under Spark Connect, which needs the extra 'connect' of pyspark")
pytest.importorskip("yaml", reason="pipelines are described in YAML")
pytest.importorskip("pyspark.sql.streaming.datasource", reason="reading a stream needs Spark 4.2 or later")

ROOT = Path(__file__).parents[2]

SPEC = """
name: flights
storage: file://{folder}/storage
libraries:
  - glob:
      include: transformations/**
"""

PIPELINE = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
dp.create_sink("lake", "arrowipc", {{"path": "{folder}/out", "partitionBy": "carrier"}})


@dp.temporary_view
def flights():
    return spark.readStream.format("arrowipc").schema("carrier string, delay bigint").load("{folder}/in")


@dp.append_flow(target="lake")
def to_lake():
    return spark.readStream.table("flights")
"""


@pytest.mark.exhaustive
def test_a_sink_of_a_pipeline_is_written(tmp_path):
    """Spark names the query of a flow, and tells the sink of it as an option."""
    table = pa.table({"carrier": ["UA", "AA"], "delay": pa.array([1, 2], pa.int64())})
    arrow_files.write(tmp_path / "in" / "a.arrow", table)
    (tmp_path / "spark-pipeline.yml").write_text(SPEC.format(folder=tmp_path))
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "flights.py").write_text(PIPELINE.format(folder=tmp_path))
    environment = quick_spark.environment() | {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    environment |= {"PYTHONPATH": str(ROOT), "SPARK_SUBMIT_OPTS": quick_jvm.OPTIONS}
    done = subprocess.run(
        [str(quick_spark.spark_home() / "bin" / "spark-pipelines"), "run", "--spec", "spark-pipeline.yml"],
        cwd=tmp_path, env=os.environ | environment, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    written = {
        path.parent.name: pa.ipc.open_file(path).read_all().to_pylist() for path in tmp_path.glob("out/*/*.arrow")
    }
    assert written == {"carrier=AA": [{"delay": 2}], "carrier=UA": [{"delay": 1}]}
