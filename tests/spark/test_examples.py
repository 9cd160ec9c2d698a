"""Jobs of examples/ in the shared session: conversions both ways, and a nightly job that runs twice, or dies."""

import datetime as dt
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.json
import pyarrow.parquet
import pytest
import stream_queries

from spark_arrow_ipc.cli.main import main

ROOT = Path(__file__).parents[2]
DAY = dt.date(2026, 6, 1)
TABLE = pa.table({"carrier": ["AA", "UA", 'a, "b"'], "dep_delay": [61.5, -3.0, 0.25], "seats": pa.array([3, 2, 1], pa.int64())})  # fmt: skip


def example(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arrow_rows(path):
    return pa.concat_tables(pa.ipc.open_file(pa.memory_map(str(file))).read_all() for file in path.glob("*.arrow"))


# Format: how pyarrow, which is not Spark, reads its files.
READ = {
    "arrowipc": arrow_rows,
    "csv": lambda path: pa.concat_tables(pa.csv.read_csv(file) for file in path.glob("*.csv")),
    "json": lambda path: pa.concat_tables(pa.json.read_json(file) for file in path.glob("*.json")),
    "parquet": pa.parquet.read_table,
}


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_conversions_there_and_back(spark, tmp_path, form):
    """What pyarrow wrote as an Arrow file becomes files of another format, and these become Arrow files again."""
    job = example("submit_convert")
    (tmp_path / "in").mkdir()
    with pa.ipc.new_file(str(tmp_path / "in" / "a.arrow"), TABLE.schema) as writer:
        writer.write_table(TABLE)
    there = ["--from", "arrowipc", "--to", form, str(tmp_path / "in"), str(tmp_path / form)]
    back = ["--from", form, "--compression", "zstd", "--files", "1", str(tmp_path / form), str(tmp_path / "arrowipc")]
    for arguments in (there, back):
        job.convert(spark, job.parse(arguments))
    for name in (form, "arrowipc"):
        found = READ[name](tmp_path / name).select(TABLE.column_names)
        assert TABLE == found.cast(TABLE.schema).replace_schema_metadata(None).sort_by([("seats", "descending")])


def test_record_batches_are_of_arrow_files():
    with pytest.raises(SystemExit):
        example("submit_convert").parse(["--to", "csv", "--record-batch-rows", "9", "in", "out"])


def drop(folder, day, number, rows):
    folder.mkdir(exist_ok=True)
    pa.csv.write_csv(pa.table({"carrier": ["AA"] * rows, "dep_delay": [1.5] * rows}), folder / f"{day}-{number}.csv")


def lake(folder):
    """The rows of each day, counted by pyarrow."""
    data = pa.dataset.dataset(folder, format="ipc", partitioning="hive", exclude_invalid_files=False)
    counted = data.to_table().group_by("day").aggregate([([], "count_all")]).to_pylist()
    return {row["day"]: row["count_all"] for row in counted}


SCHEMA = "carrier string, dep_delay double"


@pytest.mark.smoke("append")
def test_a_nightly_job_that_runs_twice_adds_its_rows_once(spark, tmp_path):
    job, folders = example("nightly_ingest"), (str(tmp_path / "drop"), str(tmp_path / "lake"))
    drop(tmp_path / "drop", DAY, 1, 3)
    drop(tmp_path / "drop", DAY, 2, 4)
    drop(tmp_path / "drop", DAY + dt.timedelta(1), 1, 5)
    for day, rows in [(DAY, 7), (DAY, 7), (DAY + dt.timedelta(1), 5)]:
        assert rows == job.ingest(spark, *folders, day, SCHEMA)
    assert {"2026-06-01": 7, "2026-06-02": 5} == lake(tmp_path / "lake")


# The step at which the process that commits is killed, and whether the job is committed then.
DEATHS = [
    pytest.param("committed.asked:kill", False, marks=pytest.mark.nightly),
    pytest.param("committed.put:kill", True, marks=pytest.mark.nightly),
]


@pytest.mark.parametrize(("death", "is_committed"), DEATHS)
def test_a_nightly_job_that_was_killed_is_run_again(tmp_path, death, is_committed):
    drop(tmp_path / "drop", DAY, 1, 7)
    command = [
        *(Path(sys.executable).with_name("spark-submit"), "--master", "local[2]", "--conf", "spark.ui.enabled=false"),
        *(ROOT / "examples" / "nightly_ingest.py", "--day", DAY, tmp_path / "drop", tmp_path / "lake"),
    ]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}  # fmt: skip
    statuses, committed = [], []
    for fault in ({"ARROWIPC_FAILPOINT": death}, {}, {}):
        done = subprocess.run(
            list(map(str, command)), env=environment | fault, capture_output=True, text=True, timeout=300, check=False
        )
        statuses.append(done.returncode)
        committed.append(0 == main(["count", str(tmp_path / "lake")]))
        assert fault or done.stdout.endswith("lake holds 7 rows of 2026-06-01\n"), done.stderr
    assert ([1, 0, 0], [is_committed, True, True]) == (statuses, committed)
    assert {"2026-06-01": 7} == lake(tmp_path / "lake")


def test_a_listener_writes_each_batch_and_the_end_as_a_line_of_json(spark, tmp_path):
    pytest.importorskip("pyspark.sql.streaming.datasource", reason="reading a stream needs Spark 4.2 or later")
    for number in range(2):
        stream_queries.drop(tmp_path / "in" / f"{number}.arrow", number)
    listener = example("stream_ingest").ProgressFile(str(tmp_path / "progress.jsonl"))
    spark.streams.addListener(listener)
    try:
        stream = spark.readStream.format("arrowipc").option("maxFilesPerTrigger", 1).load(str(tmp_path / "in"))
        writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        deadline = time.monotonic() + 120
        while "ended" not in (tmp_path / "progress.jsonl").read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        spark.streams.removeListener(listener)
    lines = [json.loads(line) for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    assert ["started", "progress", "progress", "ended"] == [line["event"] for line in lines]
    assert {query.id} == {line["id"] for line in lines}
    seen = [line["sources"][0]["latestOffset"] for line in lines[1:3]]
    assert [(1, 1), (1, 0)] == [(each["files"], each["waitingFiles"]) for each in seen]
    assert lines[-1]["error"] is None
