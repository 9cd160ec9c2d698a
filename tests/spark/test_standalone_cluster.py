"""A standalone cluster as conf/standalone.conf says, one master and two workers: reads, writes, functions, and a stream.

::

    python -m pytest -q -m exhaustive tests/spark/test_standalone_cluster.py

Master and workers are started by the spark-class of the installed PySpark, and listen on the loopback address alone.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
import quick_jvm
import quick_spark
from pushed import BOTH_WAYS

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf" / "standalone.conf"
SPARK_HOME = quick_spark.spark_home()
SECONDS = 120
ROWS = 20_000
WORDS = ["red", "green", "blue"]
MARK = "ARROW_IPC_STANDALONE"
"""A variable in the environment of all processes of a cluster, by which they are found again."""

PROGRAM = (
    BOTH_WAYS
    + """
import json, sys
from pyspark.sql import SparkSession, functions as f
from spark_arrow_ipc import aggregate, map_in_arrow

folder = sys.argv[1]
spark = SparkSession.builder.getOrCreate()
def load():
    return spark.read.format("arrowipc").option("maxPartitionBytes", "20k").load(folder + "/in")
frame = load()
place = f.udf(lambda _: __import__("os").getcwd(), "string")
workers = [row[0] for row in frame.select(place("id")).distinct().collect()]
frame.withColumn("double", f.expr("id * 2")).write.format("arrowipc").mode("append").option("partitionBy", "word").save(folder + "/out")
back = spark.read.format("arrowipc").option("where", "word = 'red'").load(folder + "/out")
answer = {"master": spark.sparkContext.master, "workers": workers, "red": back.agg(f.count("*"), f.sum("double")).first()}
if spark.version >= "4.2":  # before, Spark reads no stream from a Python source as this package does
    stream = spark.readStream.format("arrowipc").schema(frame.schema).option("maxFilesPerTrigger", 1).load(folder + "/in")
    sink = stream.writeStream.format("arrowipc").option("checkpointLocation", folder + "/checkpoint")
    query = sink.trigger(availableNow=True).start(folder + "/streamed")
    query.awaitTermination()
    answer["batches"] = len(query.recentProgress)
answer["both ways"] = both_ways(load)

def doubled(batches):
    import pyarrow.compute as pc
    return (batch.set_column(0, "id", pc.multiply(batch["id"], 2)) for batch in batches)

made = map_in_arrow(spark, folder + "/in", doubled, frame.schema)
counted = aggregate(spark, folder + "/in", group_by="word", aggregates={"rows": "count(*)", "least": "min(id)"})
answer["of functions"] = [sorted(map(tuple, made.groupBy("word").agg(f.sum("id")).collect())), sorted(map(tuple, counted.collect()))]
answer["as columns"] = ["ColumnarToRow" in one._jdf.queryExecution().executedPlan().toString() for one in (made, counted)]
print(json.dumps(answer))
spark.stop()
"""
)


@contextmanager
def daemon(folder, name, arguments, environment):
    """Start a master or a worker; yield a function that waits for a line of its log."""
    log = folder / f"{name}.log"
    command = [SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{name.rstrip('12')}", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(map(str, command)), env=environment, stdout=output, stderr=output, cwd=folder, start_new_session=True
        )

    def said(pattern):
        end = time.monotonic() + SECONDS
        while (found := re.search(pattern, log.read_text(errors="replace"))) is None:
            assert process.poll() is None, f"{name} has ended:\n{log.read_text()}"
            assert time.monotonic() < end, f"{name} has not said {pattern}:\n{log.read_text()}"
            time.sleep(0.05)
        return found[1]

    try:
        yield said
    finally:
        process.terminate()
        try:
            process.wait(120)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def cluster(folder, environment):
    """A master and two workers; yield the master's URL and the folders of the workers."""
    address = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", "--properties-file", CONF]
    with ExitStack() as stack:
        master = stack.enter_context(daemon(folder, "master.Master", address, environment))
        url = master(r"Starting Spark master at (spark://\S+)")
        folders = [folder / "worker1", folder / "worker2"]
        for work in folders:
            arguments = [*address, "--cores", "1", "--memory", "1g", "--work-dir", work, url]
            worker = stack.enter_context(daemon(folder, f"worker.Worker{work.name[-1]}", arguments, environment))
            worker(r"Successfully registered with master (\S+)")
        yield url, folders


def processes(mark):
    """The living processes of a cluster."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:  # it has ended, or is another user's
            continue
    return found


def write_input(folder):
    (folder / "in").mkdir()
    for number in range(2):
        rows = range(number * ROWS // 2, (number + 1) * ROWS // 2)
        words = pa.array([WORDS[i % 3] for i in rows]).dictionary_encode()
        table = pa.table({"id": pa.array(rows, pa.int64()), "word": words})
        with pa.ipc.new_file(str(folder / "in" / f"{number}.arrow"), table.schema) as writer:
            writer.write_table(table, max_chunksize=1_000)


def rows_of(paths):
    """The column id of Arrow files, read by pyarrow."""
    return sorted(i for path in paths for i in pa.ipc.open_file(pa.memory_map(str(path))).read_all()["id"].to_pylist())


@pytest.mark.exhaustive
def test_two_workers_read_write_run_functions_and_stream(tmp_path):
    write_input(tmp_path)
    (tmp_path / "job.py").write_text(PROGRAM)
    mark = uuid.uuid4().hex
    inherited = quick_spark.environment()
    environment = inherited | {
        MARK: mark, "SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable,
    }  # fmt: skip
    # The executors get theirs from the driver by a setting: a worker elsewhere has another environment.
    of_workers = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
    try:
        with cluster(tmp_path, of_workers | {"SPARK_DAEMON_JAVA_OPTS": quick_jvm.OPTIONS}) as (url, folders):
            done = subprocess.run(
                [
                    *(SPARK_HOME / "bin" / "spark-submit", "--master", url, "--properties-file", CONF),
                    *("--driver-memory", "512m", "--driver-java-options", quick_jvm.OPTIONS),
                    *("--conf", f"spark.executor.extraJavaOptions={quick_jvm.OPTIONS}"),
                    *("--conf", f"spark.executorEnv.PYTHONPATH={ROOT}", "job.py", tmp_path),
                ],
                cwd=tmp_path, env=environment | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300,
                check=False,
            )  # fmt: skip
            assert 0 == done.returncode, done.stderr
            answer = json.loads(done.stdout.splitlines()[-1])
            assert url == answer["master"]
            assert sorted(folders) == sorted({Path(place).parents[1] for place in answer["workers"]})
    finally:
        end = time.monotonic() + 120
        while (left := processes(mark)) and time.monotonic() < end:
            time.sleep(0.1)
        names = [process.name() for process in left]
        for process in left:
            process.kill()
    assert [] == names
    red = range(0, ROWS, 3)
    assert [len(red), 2 * sum(red)] == answer["red"]
    assert [True, True] == answer["both ways"]
    of_words = {word: range(i, ROWS, 3) for i, word in enumerate(WORDS)}
    sums = [[word, 2 * sum(ids)] for word, ids in sorted(of_words.items())]
    counts = [[word, len(ids), ids[0]] for word, ids in sorted(of_words.items())]
    assert [sums, counts] == answer["of functions"]
    assert [True, True] == answer["as columns"]
    assert list(range(ROWS)) == rows_of((tmp_path / "out").glob("word=*/*.arrow"))
    if "batches" in answer:
        assert answer["batches"] >= 2
        assert list(range(ROWS)) == rows_of((tmp_path / "streamed").glob("*.arrow"))
