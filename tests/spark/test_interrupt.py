"""Ctrl-C ends the query, and a write that is stopped publishes nothing; PySpark's handler alone is replaced."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import quick_jvm
import quick_spark

from spark_arrow_ipc.spark import interrupt

ROOT = Path(__file__).parents[2]


def of_pyspark():
    """A handler by the names of PySpark's own."""

    def signal_handler(_number, _frame):
        raise AssertionError("PySpark's own handler was called")

    signal_handler.__module__ = "pyspark.core.context"
    return signal_handler


def session(calls):
    """A session whose JVM has a thread that is busy as long as `calls` has fewer than three entries."""
    busy, idle = (SimpleNamespace(getClassName=lambda name=name: name) for name in ("org.apache.spark.X", "py4j.Y"))
    thread = SimpleNamespace(getStackTrace=lambda: [idle, busy] if len(calls) < 3 else [idle])
    jvm = SimpleNamespace(
        java=SimpleNamespace(lang=SimpleNamespace(Thread=SimpleNamespace(currentThread=lambda: thread)))
    )
    context = SimpleNamespace(_jvm=jvm, _jsc=object(), cancelAllJobs=lambda: calls.append(threading.current_thread()))
    return SimpleNamespace(sparkContext=context)


@pytest.fixture
def restored():
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


OTHERS = [("Python's own", signal.default_int_handler), ("none", signal.SIG_IGN), ("a user's", lambda *_: None)]


@pytest.mark.parametrize("handler", [case[1] for case in OTHERS], ids=[case[0] for case in OTHERS])
def test_another_handler_stays(restored, handler):
    signal.signal(signal.SIGINT, handler)
    interrupt.stop_on_interrupt(session([]))
    assert handler is signal.getsignal(signal.SIGINT)


def test_another_thread_changes_nothing(restored):
    handler = of_pyspark()
    signal.signal(signal.SIGINT, handler)
    thread = threading.Thread(target=interrupt.stop_on_interrupt, args=(session([]),))
    thread.start()
    thread.join()
    assert handler is signal.getsignal(signal.SIGINT)


def test_jobs_are_cancelled_from_another_thread_until_the_call_has_ended(restored):
    signal.signal(signal.SIGINT, of_pyspark())
    calls = []
    for _ in range(2):  # the second time in the place of the first
        interrupt.stop_on_interrupt(session(calls))
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert 3 == len(calls)
    assert threading.main_thread() not in calls


def test_a_context_that_is_stopped_is_asked_nothing(restored):
    signal.signal(signal.SIGINT, of_pyspark())
    calls = []
    spark = session(calls)
    interrupt.stop_on_interrupt(spark)
    spark.sparkContext._jsc = None
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert [] == calls


PROGRAM = """
import os, signal, sys, threading
from pathlib import Path
from pyspark.sql import SparkSession
from spark_arrow_ipc import register

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
register(spark)
target = Path(sys.argv[1])

def files():
    return sorted(each.name for each in target.glob("*.arrow"))

def active():
    jobs = []
    thread = threading.Thread(target=lambda: jobs.extend(spark.sparkContext.statusTracker().getActiveJobsIds()))
    thread.start()
    thread.join()
    return jobs

def save(rows):
    try:
        rows.write.format("arrowipc").mode("append").save(str(target))
        return "saved"
    except KeyboardInterrupt as error:
        return f"stopped {' '.join(error.args)[:34]}".strip()
    except Exception as error:
        return repr(error)[:500]

slow = spark.range(8, numPartitions=2).selectExpr("id", "java_method('java.lang.Thread', 'sleep', 1500L) AS slept")
for seconds in (0.01, 3):  # while it is planned, and in the middle of its job
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
    print(save(slow), active(), files(), flush=True)
    register(spark)
print(save(slow), active(), len(files()), spark.read.format("arrowipc").load(str(target)).count(), flush=True)
spark.stop()
"""


def test_a_write_that_is_stopped_publishes_nothing_and_a_repeated_one_does_not_double(tmp_path):
    environment = quick_spark.environment() | {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    environment |= {"PYTHONPATH": str(ROOT), "PYSPARK_SUBMIT_ARGS": quick_jvm.SUBMIT_ARGS}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "out")],
        cwd=tmp_path, env=os.environ | environment, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert ["stopped [] []"] * 2 == lines[:2], done.stderr[-3000:]
    assert lines[2].startswith("saved [] ")
    assert lines[2].endswith(" 8")
