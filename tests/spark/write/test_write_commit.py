"""Jobs that run at once, copies of tasks, executors that die: each row is there once, or its job said that it failed."""

import contextlib
import os
import select
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
import quick_jvm
import quick_spark
from commit_jobs import leftovers, newest_entry
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

ROOT = Path(__file__).parents[3]
SECONDS = 120

# Jobs that run at once


def save(frame, path, mode):
    writer = frame.write.format("arrowipc").option("partitionBy", "k")
    if mode == "dynamic":
        writer, mode = writer.option("partitionOverwriteMode", "dynamic"), "overwrite"
    writer.mode(mode).save(str(path))


def rows(spark, ids, k):
    # Spark finds Python data sources in threads with an active session only; createDataFrame makes it so.
    return spark.createDataFrame([(i, k) for i in ids], "id long, k int").coalesce(1)


def ids(spark, path):
    """Return the ids that Spark reads, after pyarrow read the same from the files that are visible."""
    by_spark = sorted(row.id for row in spark.read.format("arrowipc").load(str(path)).select("id").collect())
    found = []
    for file in path.rglob("part-*.arrow"):
        with file.open("rb") as source:
            found += pa.ipc.open_file(source).read_all()["id"].to_pylist()
    assert by_spark == sorted(found)
    assert not (path / "_ipc_stage").exists()
    return by_spark


class Hold:
    """Two named pipes, with which a task says that it runs and then waits for us."""

    def __init__(self, folder):
        self.here, self.go = folder / "here", folder / "go"
        os.mkfifo(self.here)
        os.mkfifo(self.go)
        # Opened for both ends, neither ever waits for the other to open it.
        self.ends = [os.open(name, os.O_RDWR) for name in (self.here, self.go)]

    def frame(self, frame, first):
        here, go = self.here, self.go

        @f.udf("long")
        def held(i):
            if i == first:
                with here.open("w") as pipe:
                    pipe.write("x")
                with go.open("rb", buffering=0) as pipe:
                    pipe.read(1)
            return i

        return frame.withColumn("id", held("id"))

    def wait(self, count):
        """Return when so many tasks wait: their jobs are planned by then, and none has committed."""
        said = b""
        while len(said) < count:
            assert select.select(self.ends[:1], [], [], SECONDS)[0], "no task came"
            said += os.read(self.ends[0], count)

    def release(self, count):
        os.write(self.ends[1], b"x" * count)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release(10)  # whoever waits still, because a test failed


@pytest.fixture
def hold(tmp_path):
    made = Hold(tmp_path)
    yield made
    for end in made.ends:
        os.close(end)


@pytest.fixture
def old(spark, tmp_path):
    path = tmp_path / "data"
    save(rows(spark, range(5), 1).union(rows(spark, range(5, 10), 2)), path, "append")
    return path


FIRST, SECOND, LATE, QUICK = range(5), range(5, 10), range(100, 105), range(200, 205)
"""The ids of the two old partitions, of the job that commits late, and of one that begins and ends while it runs."""

RACES = [
    # mode and partition of the late job and of the quick one; whether the late one succeeds, and the ids then
    (("append", 1), ("append", 1), True, [FIRST, SECOND, LATE, QUICK]),
    (("append", 1), ("overwrite", 1), True, [LATE, QUICK]),
    (("append", 1), ("dynamic", 1), True, [SECOND, LATE, QUICK]),
    (("overwrite", 1), ("append", 3), True, [LATE, QUICK]),
    (("overwrite", 1), ("overwrite", 1), False, [QUICK]),
    (("overwrite", 1), ("dynamic", 2), False, [FIRST, QUICK]),
    (("dynamic", 1), ("append", 1), False, [FIRST, SECOND, QUICK]),
    (("dynamic", 1), ("append", 2), True, [SECOND, LATE, QUICK]),
    (("dynamic", 1), ("overwrite", 2), False, [QUICK]),
    (("dynamic", 1), ("dynamic", 1), False, [SECOND, QUICK]),
    (("dynamic", 1), ("dynamic", 2), True, [LATE, QUICK]),
]


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize(
    "race", RACES, ids=[f"{late[0]} {late[1]}, {quick[0]} {quick[1]}" for late, quick, *_ in RACES]
)
def test_a_job_that_commits_while_another_runs(spark, old, hold, race):
    (mode, k), (quick_mode, quick_k), succeeds, expected = race
    with ThreadPoolExecutor(1) as pool, hold:
        late = pool.submit(lambda: save(hold.frame(rows(spark, LATE, k), LATE[0]), old, mode))
        hold.wait(1)
        save(rows(spark, QUICK, quick_k), old, quick_mode)
        hold.release(1)
        told = (
            contextlib.nullcontext()
            if succeeds
            else pytest.raises(PySparkException, match=r"ConcurrentWriteError.*nothing is published, write again")
        )
        with told:
            late.result(SECONDS)
    assert sorted(i for some in expected for i in some) == ids(spark, old)


@pytest.mark.smoke("overwrite")
def test_two_overwrites_that_commit_at_once_have_one_winner(spark, old, hold):
    jobs = [LATE, QUICK]
    with ThreadPoolExecutor(2) as pool, hold:
        made = [
            pool.submit(lambda job=job: save(hold.frame(rows(spark, job, 1), job[0]), old, "overwrite")) for job in jobs
        ]
        hold.wait(2)
        hold.release(2)
        errors = [job.exception(SECONDS) for job in made]
    won = [job for job, error in zip(jobs, errors, strict=True) if error is None]
    assert 1 == len(won)
    assert "ConcurrentWriteError" in str(next(filter(None, errors)))
    assert [*won[0]] == ids(spark, old)


def test_the_partitions_that_are_read_can_be_overwritten(spark, old):
    """The old files are there until the log entry that replaces them is."""
    frame = spark.read.format("arrowipc").load(str(old))
    save(frame.where("k = 1").selectExpr("id + 100 AS id", "k"), old, "dynamic")
    assert [*SECOND, *(i + 100 for i in FIRST)] == ids(spark, old)
    save(spark.read.format("arrowipc").load(str(old)).selectExpr("id + 1000 AS id", "k + 1 AS k"), old, "overwrite")
    assert [*(i + 1000 for i in SECOND), *(i + 1100 for i in FIRST)] == ids(spark, old)
    assert ["k=2", "k=3"] == sorted(path.name for path in old.glob("k=*"))


# Executors: a copy of a task that sleeps, and one that dies with a file that nobody was told of

# `local-cluster[2,1,1024]` with a difference: its workers would be one host, and a copy runs on another host only.
PROGRAM = """
import os, sys, time
import dying_source
from pyspark import SparkContext, TaskContext
from pyspark.sql import SparkSession, functions as f
from spark_arrow_ipc import rewrite

folder = sys.argv[1]
SparkContext._ensure_initialized()
jvm = SparkContext._jvm
conf, deploy, nobody = jvm.org.apache.spark.SparkConf(), jvm.org.apache.spark.deploy, jvm.scala.Option.empty()
master = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)._1().address().toSparkURL()
masters = SparkContext._gateway.new_array(jvm.java.lang.String, 1)
masters[0] = master
for number in (1, 2):
    deploy.worker.Worker.startRpcEnvAndEndpoint(
        f"127.0.0.{number}", 0, 0, 1, 1024, masters, folder + "/workers", jvm.scala.Option.apply(number), conf, nobody
    )
spark = (
    SparkSession.builder.master(master)
    .config("spark.ui.enabled", "false")
    .config("spark.executor.memory", "512m")
    .config("spark.speculation", "true")
    .config("spark.speculation.interval", "50ms")
    .config("spark.speculation.multiplier", "1.1")
    .config("spark.speculation.quantile", "0.5")
    .config("spark.scheduler.minRegisteredResourcesRatio", "1")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")

@f.udf("long")
def sleeps_once(i):
    context = TaskContext.get()
    if context.partitionId() == 0 and i == 29_999:  # the batches before this one are staged
        attempt = context.attemptNumber()
        open(f"{folder}/attempt-{attempt}", "w").close()
        deadline = time.monotonic() + 100
        while attempt == 0 and time.monotonic() < deadline and not os.path.exists(f"{folder}/awake"):
            time.sleep(0.05)
    return i

frame = spark.range(0, 120_000, 1, 4).select(sleeps_once("id").alias("id"))
frame.write.format("arrowipc").mode("append").save(folder + "/speculated")
open(folder + "/awake", "w").close()

def waits_once(batches):
    yield from batches
    if TaskContext.get().partitionId() == 0:
        attempt = TaskContext.get().attemptNumber()
        open(f"{folder}/rewriting-{attempt}", "w").close()
        deadline = time.monotonic() + 100
        while attempt == 0 and time.monotonic() < deadline and not os.path.exists(f"{folder}/rewritten-awake"):
            time.sleep(0.05)

whole = {"minPartitionNum": 100}
rewrite(spark, folder + "/speculated", folder + "/rewritten", waits_once, **whole)
open(folder + "/rewritten-awake", "w").close()

spark.dataSource.register(dying_source.Source)
spark.range(0, 10).write.format("arrowipc").mode("append").save(folder + "/died")
spark.range(100, 140, 1, 4).write.format("dying").mode("overwrite").save(folder + "/died")
spark.range(200, 210, 1, 2).write.format("arrowipc").mode("append").save(folder + "/died")
spark.stop()
"""

DYING = '''
"""A sink that kills its executor once, after a task's file is staged and before Spark is told of it."""

import os
import signal

import psutil
from pyspark import TaskContext
from spark_arrow_ipc.spark.write.writer import ArrowIpcBatchWriter
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource


class Writer(ArrowIpcBatchWriter):
    def write(self, iterator):
        message = super().write(iterator)
        if TaskContext.get().partitionId() == 1:
            staged = self._job.staging.path
            try:
                os.close(os.open(os.path.join(staged, "..", "..", "..", "killed"), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            except FileExistsError:
                return message
            executor = next(process for process in psutil.Process().parents() if "java" in process.name())
            executor.send_signal(signal.SIGKILL)
            signal.pause()
        return message


class Source(ArrowIpcDataSource):
    @classmethod
    def name(cls):
        return "dying"

    def writer(self, schema, overwrite):
        writer = super().writer(schema, overwrite)
        return Writer(writer._job, writer._plan)
'''


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Run PROGRAM and return its folder."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "dying_source.py").write_text(DYING)
    environment = quick_spark.environment() | {
        "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "PYSPARK_SUBMIT_ARGS": quick_jvm.SUBMIT_ARGS,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    return folder


def files_of(path):
    return sorted(file.name[:10] for file in path.glob("part-*.arrow"))


@pytest.mark.exhaustive
def test_a_speculative_copy_gives_its_rows_once(spark, cluster):
    path = cluster / "speculated"
    assert ["attempt-0", "attempt-1"] == sorted(file.name for file in cluster.glob("attempt-*"))
    assert [*range(120_000)] == ids(spark, path)
    assert [f"part-0000{i}" for i in range(4)] == files_of(path)
    assert 120_000 == newest_entry(path).add.rows.sum()
    assert [] == leftovers(path)


@pytest.mark.exhaustive
def test_a_speculative_copy_of_a_rewrite_gives_its_rows_once(spark, cluster):
    assert ["rewriting-0", "rewriting-1"] == sorted(file.name for file in cluster.glob("rewriting-*"))
    assert [*range(120_000)] == ids(spark, cluster / "rewritten")
    assert 120_000 == newest_entry(cluster / "rewritten").add.rows.sum()
    assert [] == leftovers(cluster / "rewritten")


@pytest.mark.exhaustive
def test_an_executor_that_dies_with_a_finished_file_gives_its_rows_once(spark, cluster):
    path = cluster / "died"
    assert (cluster / "killed").exists()
    assert [*range(100, 140), *range(200, 210)] == ids(spark, path)
    assert [*(f"part-0000{i}" for i in (0, 0, 1, 1, 2, 3))] == files_of(path)
