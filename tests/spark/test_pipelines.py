"""Declarative Pipelines: a view of our files, tables of Spark's made of it, and a sink of ours; each run takes what is new."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import arrow_files
import pyarrow as pa
import pyarrow.parquet
import pytest
import quick_jvm
import quick_spark

pytest.importorskip("grpc", reason="pipelines run under Spark Connect, which needs the extra 'connect' of pyspark")
pytest.importorskip("yaml", reason="pipelines are described in YAML")
pytest.importorskip("pyspark.sql.streaming.datasource", reason="reading a stream needs Spark 4.2 or later")

ROOT = Path(__file__).parents[2]


def run(folder):
    """Run the pipeline of examples/pipeline over a folder."""
    shutil.copytree(ROOT / "examples" / "pipeline", folder, dirs_exist_ok=True)
    spec = folder / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/data/flights", str(folder)))
    environment = quick_spark.environment() | {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    environment |= {"PYTHONPATH": str(ROOT), "SPARK_SUBMIT_OPTS": quick_jvm.OPTIONS}
    command = [quick_spark.spark_home() / "bin" / "spark-pipelines", "run", "--spec", "spark-pipeline.yml"]
    catalog = ["--conf", "spark.sql.catalogImplementation=hive"]  # in memory tables would not outlive a run
    done = subprocess.run(
        [*map(str, command), *catalog],
        cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


def drop(folder, name, carriers, delays):
    arrow_files.write(folder / "drop" / name, pa.table({"carrier": carriers, "delay": pa.array(delays, pa.int64())}))


def sink(folder):
    """Return the rows of the sink, as pyarrow reads its files."""
    return sorted(
        (path.parent.name, row["delay"])
        for path in folder.glob("lake/*/*.arrow")
        for row in pa.ipc.open_file(path).read_all().to_pylist()
    )


def table(folder, name):
    """Return the rows of a table of Spark's."""
    files = (folder / "spark-warehouse" / name).glob("*.parquet")
    return sorted(tuple(row.values()) for path in files for row in pa.parquet.read_table(path).to_pylist())


@pytest.mark.nightly
def test_each_run_of_a_pipeline_takes_what_is_new_into_tables_and_a_sink(tmp_path):
    drop(tmp_path, "a.arrow", ["UA", "AA", "AA"], [1, 2, -3])
    run(tmp_path)
    assert sink(tmp_path) == [("carrier=AA", 2), ("carrier=UA", 1)]
    assert table(tmp_path, "late") == [("AA", 2), ("UA", 1)]
    assert table(tmp_path, "late_by_carrier") == [("AA", 1), ("UA", 1)]
    drop(tmp_path, "b.arrow", ["AA"], [7])
    run(tmp_path)
    assert sink(tmp_path) == [("carrier=AA", 2), ("carrier=AA", 7), ("carrier=UA", 1)]
    assert table(tmp_path, "late") == [("AA", 2), ("AA", 7), ("UA", 1)]
    assert table(tmp_path, "late_by_carrier") == [("AA", 2), ("UA", 1)]
