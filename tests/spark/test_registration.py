"""`register` mends a session whose thread Spark has lost; what it says of clusters and zips is in test_deploy.py."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyspark
import pytest
import quick_jvm
import quick_spark
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.serializers import CloudPickleSerializer

from spark_arrow_ipc import register
from spark_arrow_ipc.spark import registration
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource

ROOT = Path(__file__).parents[2]
LOST = "DATA_SOURCE_NOT_FOUND"


def save(spark, path):
    spark.range(3).write.format("arrowipc").mode("append").save(str(path))
    return spark.read.format("arrowipc").load(str(path)).count()


def test_a_second_thread_saves_after_register(spark, tmp_path):
    """As it does after `createDataFrame`; without either, Spark asks no session for its Python sources."""
    with ThreadPoolExecutor(1) as thread:
        with pytest.raises((Py4JJavaError, PySparkException), match=LOST):
            thread.submit(save, spark, tmp_path / "out").result()
        thread.submit(register, spark).result()
        assert 3 == thread.submit(save, spark, tmp_path / "out").result()


def test_a_class_that_spark_discovers_is_proved(spark, monkeypatch):
    """By the interpreter, files and environment of the context alone, which the registered class has."""
    context = spark.sparkContext
    assert registration._is_discovered(spark.newSession())
    for name, value in {
        "pythonExec": "/another/python",
        "_python_includes": ["package.zip"],
        "environment": {"PYTHONPATH": "x"},
    }.items():
        with monkeypatch.context() as changed:
            changed.setattr(context, name, value)
            assert not registration._is_discovered(spark.newSession()), name
    session = spark.newSession()
    session.dataSource.register(type("Other", (ArrowIpcDataSource,), {}))
    register(session)
    registration._activate(spark)  # for the tests behind this one
    function = session._jsparkSession.sessionState().dataSourceManager().lookupDataSource("arrowipc").dataSourceCls()
    assert ArrowIpcDataSource is CloudPickleSerializer().loads(function.command().unsafeArray())
    assert (context.pythonExec, True) == (function.pythonExec(), "PYTHONHASHSEED" in str(function.envVars()))


INTERRUPTED = """
import os, signal, sys, threading
from pyspark.sql import SparkSession
from spark_arrow_ipc import register

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")

def save():
    try:
        spark.range(3).write.format("arrowipc").mode("append").save(sys.argv[1])
        return "saved"
    except Exception as error:
        return "DATA_SOURCE_NOT_FOUND" if "DATA_SOURCE_NOT_FOUND" in str(error) else repr(error)

told = [save()]
for _ in range(2):
    threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        spark.range(1).selectExpr("java_method('java.lang.Thread', 'sleep', 5000L)").collect()
    except KeyboardInterrupt:
        told += [save(), spark.read.format("arrowipc").load(sys.argv[1]).count(), register(spark), save()]
print(told)
spark.stop()
"""


@pytest.mark.nightly
@pytest.mark.skipif(pyspark.__version__ < "4.2", reason="this Spark dies of SIGINT in a call to the JVM")
def test_saves_go_on_after_ctrl_c(tmp_path):
    """SIGINT in the middle of a call to the JVM, twice; each time the thread that answers is a new one."""
    environment = quick_spark.environment() | {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    environment |= {"PYTHONPATH": str(ROOT), "PYSPARK_SUBMIT_ARGS": quick_jvm.SUBMIT_ARGS}
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path / "out")],
        cwd=tmp_path, env=os.environ | environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    lost = [LOST, 3, None, "saved"], [LOST, 6, None, "saved"]
    assert done.stdout.splitlines()[-1:] == [str(["saved", *lost[0], *lost[1]])], done.stderr[-3000:]


WITH_THE_JAR = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pyspark.sql import SparkSession
from spark_arrow_ipc import register

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
register(spark)

def use(session, name):
    path = f"{sys.argv[1]}/{name}"
    session.range(3).write.format("arrowipc").save(path)  # in the default mode, which Spark refuses for a Python source
    return session.read.format("arrowipc").load(path).filter("id > 0").count()

with ThreadPoolExecutor(1) as thread:
    thread.submit(register, spark).result()
    counts = [use(spark, "a"), use(spark.newSession(), "b"), thread.submit(use, spark, "c").result()]
print(counts, spark.sql(f"SELECT count(*) FROM arrowipc.`{sys.argv[1]}/a`").collect()[0][0])
spark.stop()
"""


@pytest.mark.exhaustive
def test_all_threads_and_sessions_of_an_application_have_the_jar(tmp_path):
    """The loader of `ADD JAR` would serve the thread that called it, and not the others."""
    environment = quick_spark.environment() | {"PYTHONPATH": str(ROOT), "PYSPARK_SUBMIT_ARGS": quick_jvm.SUBMIT_ARGS}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", WITH_THE_JAR, str(tmp_path / "out")],
        cwd=tmp_path, env=os.environ | environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1:] == ["[2, 2, 2] 3"], done.stderr[-3000:]
