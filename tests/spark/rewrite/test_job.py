"""Tasks on Spark: retries under ``spark.task.maxFailures``, and properties that are set back."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import arrow_files
import pyarrow as pa
import pytest
import quick_jvm
from pyspark.errors import PySparkAttributeError
from rewrite_jobs import Tasks, leftovers, values

from spark_arrow_ipc import compact, rewrite
from spark_arrow_ipc.dataset.predicate import SETTINGS
from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.spark.rewrite.job import context_of
from spark_arrow_ipc.spark.session_settings import SESSION_ZONE

TESTS = Path(__file__).parents[2]

PROGRAM = """
import json, sys
from pyspark import TaskContext
from pyspark.sql import SparkSession
from spark_arrow_ipc import compact, rewrite

source, target, notes = sys.argv[1:]

def flaky(batches):
    context = TaskContext.get()
    with open(f"{notes}/{context.partitionId()}-{context.taskAttemptId()}", "w"):
        pass
    rows = 0
    for batch in batches:
        yield batch
        rows += batch.num_rows
    if context.attemptNumber() == 0 and context.partitionId() % 2:
        raise ValueError("the first attempt, which has written its rows")

spark = SparkSession.builder.master("local[2,4]").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
made = rewrite(spark, source, target, flaky, maxPartitionBytes="4k", minPartitionNum=6)
joined = compact(spark, target)
print(json.dumps([made.files_written, made.rows_written, joined.files_read, joined.files_written]))
"""


@pytest.mark.exhaustive
def test_tasks_that_fail_make_their_rows_once(tmp_path):
    """A copy of a task that is slow needs a cluster: tests/spark/write/test_write_commit.py."""
    for part in range(6):
        ids = pa.array(range(100 * part, 100 * part + 100))
        arrow_files.write(tmp_path / "source" / f"{part}.arrow", pa.table({"id": ids}), rows=10)
    notes = tmp_path / "notes"
    notes.mkdir()
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "source"), str(tmp_path / "t"), str(notes)],
        capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(TESTS.parent), "PYSPARK_PYTHON": sys.executable, "PYSPARK_SUBMIT_ARGS": quick_jvm.SUBMIT_ARGS},
    )  # fmt: skip
    assert 0 == answer.returncode, answer.stderr
    files, rows, read, written = json.loads(answer.stdout)
    assert (600, files, 1) == (rows, read, written)
    assert {"": [*range(600)]} == values(tmp_path / "t")
    attempts = [note.name.partition("-")[0] for note in notes.iterdir()]
    assert {"1": 2, "3": 2, "5": 2}.items() <= Counter(attempts).items()
    assert all(name.startswith("_ipc_replaced/") for name in leftovers(tmp_path / "t"))


class Connected:
    """A session of Spark Connect, as far as a rewrite asks."""

    @property
    def sparkContext(self):
        raise PySparkAttributeError(
            errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": "sparkContext"}
        )


@pytest.mark.parametrize("call", [lambda s, p: rewrite(s, p, p / "t"), compact], ids=["rewrite", "compact"])
def test_a_client_of_connect_is_refused_by_name(tmp_path, call):
    with pytest.raises(UnsupportedError, match="a client of Spark Connect is none"):
        call(Connected(), tmp_path)
    assert [] == list(tmp_path.iterdir())


def test_properties_of_the_thread_are_set_back(tmp_path):
    path = arrow_files.write(tmp_path / "a.arrow", pa.table({"id": [1]}))
    tasks = Tasks()
    tasks.properties["spark.job.description"] = "mine"
    seen = []
    tasks.before = lambda *_: seen.append(dict(tasks.properties))
    rewrite(tasks, path, tmp_path / "t")
    given = {"spark.job.description": f"rewrite into {tmp_path / 't'}", SESSION_ZONE: "America/New_York"}
    given |= {name: setting.default for name, setting in SETTINGS.items()}
    assert given == seen[0]
    assert dict.fromkeys(given) | {"spark.job.description": "mine"} == tasks.properties
    assert context_of(tasks) is tasks
