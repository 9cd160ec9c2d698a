"""Whatever fails: nothing half-written is seen, nothing that was there is lost, and the next job works."""

import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
import quick_jvm
from commit_jobs import newest_entry
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from spark_arrow_ipc import rewrite

ROOT = Path(__file__).parents[3]


def save(frame, path, mode="append", source="arrowipc"):
    frame.write.format(source).mode(mode).save(str(path))


def ids(spark, path):
    """Return the ids that Spark reads, after pyarrow read the same from the files that are visible."""
    by_spark = sorted(row.id for row in spark.read.format("arrowipc").load(str(path)).select("id").collect())
    found = []
    for file in visible(path):
        with file.open("rb") as source:
            found += pa.ipc.open_file(source).read_all()["id"].to_pylist()
    assert by_spark == sorted(found)
    return by_spark


def visible(path):
    return sorted(p for p in path.iterdir() if not p.name.startswith(("_", ".")))


def contents(path):
    return {p.name: p.read_bytes() for p in visible(path)}


@pytest.fixture
def old(spark, tmp_path):
    """A dataset with rows 0 to 9, and what its files hold."""
    path = tmp_path / "data"
    save(spark.range(0, 10, 1, 2), path)
    return path, contents(path)


MODES = pytest.mark.parametrize("mode", ["append", "overwrite"])


# In a task


@pytest.mark.smoke("overwrite that is killed")
@MODES
def test_a_task_that_fails_leaves_nothing(spark, old, mode):
    path, before = old

    @f.udf("long")
    def picky(i):
        if i == 25_000:
            raise ValueError("a row that cannot be")
        return i

    # The task of the row has written batches by then, and others have finished.
    with pytest.raises(PySparkException, match="a row that cannot be"):
        save(spark.range(0, 30_000, 1, 3).select(picky("id").alias("id")), path, mode)
    assert before == contents(path)
    assert not (path / "_ipc_stage").exists()
    assert [*range(10)] == ids(spark, path)


@contextlib.contextmanager
def python_files_of_at_most(nbytes):
    """Let the kernel refuse to the Python processes of the session to make any file longer."""
    processes = [one for one in psutil.Process().children(recursive=True) if "python" in one.name()]
    assert processes
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for one in processes:
        resource.prlimit(one.pid, resource.RLIMIT_FSIZE, (nbytes, hard))
    try:
        yield
    finally:
        for one in processes:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(one.pid, resource.RLIMIT_FSIZE, (hard, hard))


def by_batch(frame, path):
    save(frame, path, "overwrite")


def by_stream(frame, path):
    frame.write.parquet(f"{path}.in")
    stream = frame.sparkSession.readStream.schema(frame.schema).parquet(f"{path}.in").writeStream.format("arrowipc")
    options = {"checkpointLocation": f"{path}.checkpoint"}
    stream.options(**options).trigger(availableNow=True).start(str(path)).awaitTermination()


def by_rewrite(_, path):
    rewrite(SparkSession.active(), str(path), str(path), mode="overwrite")


@pytest.mark.parametrize("write", [by_batch, by_stream, by_rewrite])
def test_a_task_without_room_says_so_in_a_sentence(spark, tmp_path, write):
    """The file, how much was written, that nothing is lost, and what to do; no traceback of Python."""
    path = tmp_path / "t"
    noise = spark.range(0, 50_000, 1, 1).select(f.xxhash64("id").alias("id"))
    save(noise, path)
    before = contents(path)
    rewrite(spark, str(path), f"{path}.other")  # so that the processes of all three are there
    with python_files_of_at_most(1 << 16), pytest.raises((PySparkException, Py4JError)) as caught:
        write(noise, path)
    text = str(caught.value)
    assert re.search(
        r"File too large after 65,536 bytes of this file, with [\d,]+ bytes free; what this task has written is", text
    )
    assert re.search(rf"nothing of the job is visible.*, and write again: '{path}/_ipc_stage/.*\.staged'", text)
    assert 'File "' not in text
    assert before == contents(path)
    assert [] == [*tmp_path.rglob("*.staged")]


def test_a_task_that_fails_in_a_new_place_leaves_no_file(spark, tmp_path):
    path = tmp_path / "new"
    with pytest.raises(PySparkException):
        save(spark.range(3).selectExpr("raise_error('no')"), path)
    # The log is left, whose entry expires the job, and nothing that a reader would see.
    assert [path / "_ipc_log"] == list(path.iterdir())
    assert "expire" == newest_entry(path).operation


# In the commit

FAULTY = '''
"""Data sources whose commit fails at a step; in a module, because Spark imports them in other processes."""

import os
import signal
from unittest import mock

from spark_arrow_ipc.dataset.write import commit
from spark_arrow_ipc.spark.write.writer import ArrowIpcBatchWriter
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource


def failing(real, number):
    """Return a function that does as `real`, but fails the call of a number, or each call."""
    calls = iter(range(1000))

    def call(*arguments, **options):
        if number in (None, next(calls)):
            raise OSError(5, "Input/output error")
        return real(*arguments, **options)

    return call


def unlink_staged(writer):
    name = next(name for name in os.listdir(writer._job.staging.path) if name.endswith(".staged"))
    os.unlink(writer._job.staging.file(name))


class Writer(ArrowIpcBatchWriter):
    fault = None

    def commit(self, messages):
        if self.fault == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "staged file gone":
            unlink_staged(self)
            super().commit(messages)
        name, number = {"first rename": ("rename", 0), "second rename": ("rename", 1), "renames": ("rename", None),
                        "success": ("replace", 0), "removal": ("unlink", 1), "link": ("link", 0), "links": ("link", None)}[self.fault]
        with mock.patch.object(os, name, failing(getattr(os, name), number)):
            super().commit(messages)


class Source(ArrowIpcDataSource):
    fault = None

    @classmethod
    def name(cls):
        return "faulty_" + cls.fault.replace(" ", "_")

    def writer(self, schema, overwrite):
        writer = super().writer(schema, overwrite)
        made = Writer(writer._job, writer._plan)
        made.fault = self.fault
        return made


class Killed(Source):
    fault = "killed"


class StagedFileGone(Source):
    fault = "staged file gone"


class FirstRename(Source):
    fault = "first rename"


class SecondRename(Source):
    fault = "second rename"


class Renames(Source):
    fault = "renames"


class Removal(Source):
    fault = "removal"


class Success(Source):
    fault = "success"


class Link(Source):
    fault = "link"


class Links(Source):
    fault = "links"
'''


@pytest.fixture(scope="module")
def faulty(spark, tmp_path_factory):
    """Register the sources of FAULTY."""
    module = tmp_path_factory.mktemp("faulty") / "faulty_sources.py"
    module.write_text(FAULTY)
    spark.sparkContext.addPyFile(str(module))
    import faulty_sources

    for source in faulty_sources.Source.__subclasses__():
        spark.dataSource.register(source)


NOTHING = "nothing is published"
COMMITS = [
    # fault, mode, what the error says; None where the job is committed: a call that failed once is made again
    ("staged_file_gone", "append", [NOTHING, "somebody removed it"]),
    ("staged_file_gone", "overwrite", [NOTHING]),
    ("links", "append", [NOTHING]),
    ("renames", "append", [NOTHING]),
    ("renames", "overwrite", [NOTHING]),
    ("link", "append", None),
    ("link", "overwrite", None),
    ("first_rename", "append", None),
    ("second_rename", "append", None),
    ("second_rename", "overwrite", None),
    ("removal", "overwrite", None),
    ("success", "append", None),
]  # fmt: skip


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("case", COMMITS, ids=[f"{case[0]} {case[1]}" for case in COMMITS])
@pytest.mark.usefixtures("faulty")
def test_a_fault_that_stays_before_the_entry_fails_the_job_and_one_after_it_does_not(spark, old, case):
    fault, mode, texts = case
    path, before = old
    committed = texts is None
    expected = contextlib.nullcontext() if committed else pytest.raises(PySparkException)
    with expected as caught:
        save(spark.range(100, 130, 1, 3), path, mode, f"faulty_{fault}")
    message = "" if committed else " ".join(str(caught.value).split())
    for text in ("CommitError", str(path), *texts) if texts else ():
        assert text in message
    assert (not committed or mode == "append") == (before.items() <= contents(path).items())
    assert not (path / "_ipc_stage").exists()
    seen = ids(spark, path)
    assert [*(range(10) if not committed or mode == "append" else ()), *(range(100, 130) if committed else ())] == seen
    # The next job is not disturbed, and publishes nothing of this one.
    save(spark.range(500, 510, 1, 1), path)
    assert [*seen, *range(500, 510)] == ids(spark, path)


@pytest.mark.smoke("overwrite that is killed")
@pytest.mark.usefixtures("faulty")
def test_an_overwrite_whose_process_is_killed_changes_nothing_and_the_next_one_replaces(spark, old):
    path, before = old
    with pytest.raises((PySparkException, Py4JError), match="worker exited unexpectedly"):
        save(spark.range(100, 130, 1, 3), path, "overwrite", "faulty_killed")
    assert before == contents(path)
    assert [*range(10)] == ids(spark, path)
    save(spark.range(100, 130, 1, 3), path, "overwrite")
    assert [*range(100, 130)] == ids(spark, path)


def test_an_overwrite_that_was_overtaken_publishes_nothing(spark, old):
    path, before = old
    file = path / "other.arrow"  # of another program: nobody else writes to a managed name
    file.write_bytes(before[max(before)])

    @f.udf("long")
    def other_writer(i):
        file.write_bytes(before[max(before)] + b"from elsewhere")
        return i

    with pytest.raises(PySparkException, match=r"ConcurrentWriteError.*other.arrow.*nothing is published"):
        save(spark.range(0, 1, 1, 1).select(other_writer("id").alias("id")), path, "overwrite")
    assert {**before, file.name: before[max(before)] + b"from elsewhere"} == contents(path)
    assert not (path / "_ipc_stage").exists()


def test_appends_side_by_side_lose_nothing(spark, old):
    path, before = old
    jobs = [(100, 160), (200, 260), (300, 360)]

    def append(job):
        # Spark finds Python data sources in threads with an active session only; createDataFrame makes it so.
        save(spark.createDataFrame([(i,) for i in range(*job)], "id long").repartition(2), path)

    with ThreadPoolExecutor(len(jobs)) as pool:
        list(pool.map(append, jobs))
    assert before.items() <= contents(path).items()
    assert [*range(10), *(i for job in jobs for i in range(*job))] == ids(spark, path)
    assert not (path / "_ipc_stage").exists()


# A task's second attempt, and the death of the driver

PROGRAM = """
import json, os, sys
from pyspark import TaskContext
from pyspark.sql import SparkSession, functions as f

path, here = sys.argv[1:]
spark = SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")

@f.udf("long")
def fails_once(i):
    context = TaskContext.get()
    if context.attemptNumber() == 0 and context.partitionId() == 1 and i == 39_999:
        with open(here + ".attempts", "a") as file:
            file.write("failed once")
        raise ValueError("the first attempt")
    return i

frame = spark.range(0, 40_000, 1, 2).select(fails_once("id").alias("id"))
frame.write.format("arrowipc").mode("append").save(path + "/retried")

import hanging_source

spark.dataSource.register(hanging_source.Source)
spark.range(0, 40_000, 1, 2).write.format("hanging").mode("overwrite").save(path + "/killed")
"""


HANGING = """
import signal

from spark_arrow_ipc.spark.write.writer import ArrowIpcBatchWriter
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource


class Writer(ArrowIpcBatchWriter):
    def commit(self, messages):
        fifo = self._job.staging.root + "/../here"
        with open(fifo, "w") as file:
            file.write("here")
        signal.pause()  # not a read of the same pipe: it could take its own word away


class Source(ArrowIpcDataSource):
    @classmethod
    def name(cls):
        return "hanging"

    def writer(self, schema, overwrite):
        writer = super().writer(schema, overwrite)
        return Writer(writer._job, writer._plan)
"""


@pytest.fixture(scope="module")
def killed(spark, tmp_path_factory):
    """Run PROGRAM until its second job is about to commit, kill its driver and JVM, and return its folder."""
    folder = tmp_path_factory.mktemp("killed")
    save(spark.range(0, 10, 1, 2), folder / "killed")
    before = contents(folder / "killed")
    fifo = folder / "here"
    os.mkfifo(fifo)
    environment = {
        **os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}",
        "PYSPARK_SUBMIT_ARGS": quick_jvm.SUBMIT_ARGS,
    }  # fmt: skip
    (folder / "hanging_source.py").write_text(HANGING)
    # Opened for both ends, it never blocks; the read ends when the commit says that it is there, or the program ended.
    ends = os.open(fifo, os.O_RDWR)
    with (folder / "log").open("w+") as log, ThreadPoolExecutor(1) as pool:
        driver = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder), str(fifo)],
            cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        pool.submit(driver.wait, 300).add_done_callback(lambda _: os.write(ends, b"gone"))
        said = os.read(ends, 4)
        processes = [*psutil.Process(driver.pid).children(recursive=True)] if driver.poll() is None else []
        for process in (*processes, driver):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs(processes, 60)
        driver.wait(60)
        log.seek(0)
        assert b"here" == said, log.read()
    os.close(ends)
    return folder, before


@pytest.mark.exhaustive
def test_a_second_attempt_gives_its_rows_once(spark, killed):
    path = killed[0] / "retried"
    assert "failed once" == (killed[0] / "here.attempts").read_text()
    assert [*range(40_000)] == ids(spark, path)
    assert ["part-00000", "part-00001"] == [file.name[:10] for file in visible(path)]
    assert not (path / "_ipc_stage").exists()
    assert 40_000 == newest_entry(path).add.rows.sum()


@pytest.mark.exhaustive
def test_a_driver_killed_before_its_commit_changed_nothing(spark, killed):
    path, before = killed[0] / "killed", killed[1]
    staged = list((path / "_ipc_stage").glob("*[0-9a-f]/**/*.staged"))
    assert 2 == len(staged)
    assert before == contents(path)
    assert [*range(10)] == ids(spark, path)
    save(spark.range(10, 20, 1, 1), path)
    assert [*range(20)] == ids(spark, path)
    save(spark.range(5), path, "overwrite")
    assert [*range(5)] == ids(spark, path)
    assert staged == list((path / "_ipc_stage").glob("*[0-9a-f]/**/*.staged"))
