"""Ctrl-C ends the query, and a write that is stopped publishes nothing; no handler of a person's is replaced."""

import os
import signal
import subprocess
import sys
import threading
import time
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


def option(value):
    """A value as Scala's Option has it."""
    return SimpleNamespace(isDefined=lambda: value is not None, get=lambda: value)


def executions(*, ended=1.0, error=None, plan="AppendData arrowipc", description="save at X"):
    """A list with one execution as Spark's store has it; `ended` is seconds from now."""
    time_of_end = None if ended is None else SimpleNamespace(getTime=lambda: (time.time() + ended) * 1_000)
    execution = SimpleNamespace(
        completionTime=lambda: option(time_of_end),
        errorMessage=lambda: option(error),
        physicalPlanDescription=lambda: plan,
        description=lambda: description,
    )
    return SimpleNamespace(length=lambda: 1, apply=lambda _: execution)


def session(calls, is_alive=True, methods=("collect",), **execution):
    """A session with the jobs 1 and, of a stream, 2. `calls` gets the thread and the number of each that is cancelled.

    Its JVM has a thread, or without it the job, that is busy until the job was cancelled three times.
    """

    def is_busy():
        return len(calls) < 3

    def frames():
        return [
            *(
                SimpleNamespace(getClassName=lambda: "org.apache.spark.X", getMethodName=lambda m=m: m)
                for m in methods
                if is_busy()
            ),
            SimpleNamespace(getClassName=lambda: "py4j.Y", getMethodName=lambda: "run"),
        ]

    thread = SimpleNamespace(isAlive=lambda: is_alive, getStackTrace=frames)
    jvm = SimpleNamespace(
        java=SimpleNamespace(lang=SimpleNamespace(Thread=SimpleNamespace(currentThread=lambda: thread)))
    )
    scala = SimpleNamespace(cancelJob=lambda job: calls.append((threading.current_thread(), job)))
    tracker = SimpleNamespace(
        getActiveJobsIds=lambda: [1, 2] if is_busy() else [2], getJobIdsForGroup=lambda group: {"stream": [2]}[group]
    )
    context = SimpleNamespace(_jvm=jvm, _jsc=SimpleNamespace(sc=lambda: scala), statusTracker=lambda: tracker)
    store = SimpleNamespace(executionsCount=lambda: 1, executionsList=lambda *_: executions(**execution))
    state = SimpleNamespace(statusStore=lambda: store)
    return SimpleNamespace(
        sparkContext=context,
        streams=SimpleNamespace(active=[SimpleNamespace(runId="stream")]),
        _jsparkSession=SimpleNamespace(sharedState=lambda: state),
    )


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


@pytest.mark.parametrize("is_alive", [True, False], ids=["first Ctrl-C", "a later one, without register between"])
def test_jobs_are_cancelled_from_another_thread_until_the_call_has_ended(restored, is_alive):
    signal.signal(signal.SIGINT, of_pyspark())
    calls = []
    for _ in range(2):  # the second time in the place of the first
        interrupt.stop_on_interrupt(session(calls, is_alive))
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert [1, 1, 1] == [job for _, job in calls]
    assert threading.main_thread() not in [thread for thread, _ in calls]


@pytest.mark.parametrize("method", ["awaitTermination", "awaitAnyTermination"])
def test_a_stream_that_is_awaited_goes_on_and_is_waited_for_no_longer(restored, method):
    signal.signal(signal.SIGINT, of_pyspark())
    calls = []
    interrupt.stop_on_interrupt(session(calls, methods=(method, "invoke")))
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert [1] == [job for _, job in calls]


def test_a_context_that_is_stopped_is_asked_nothing(restored):
    signal.signal(signal.SIGINT, of_pyspark())
    calls = []
    spark = session(calls)
    interrupt.stop_on_interrupt(spark)
    spark.sparkContext._jsc = None
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert [] == calls


ENDS = [
    ("a write that is committed", {}, True),
    ("a write of Spark's own", {"plan": "Execute InsertIntoHadoopFsRelationCommand"}, True),
    ("a read", {"plan": "BatchScan arrowipc"}, False),
    ("a write that was stopped", {"error": "cancelled"}, False),
    ("a write that goes on", {"ended": None}, False),
    ("a batch of a stream", {"description": "<br/>id = 1<br/>runId = 2<br/>batch = 3"}, False),
    ("a write of an hour ago", {"ended": -3_600.0}, False),
]


@pytest.mark.parametrize(("execution", "is_late"), [case[1:] for case in ENDS], ids=[case[0] for case in ENDS])
def test_a_write_that_was_committed_is_said(restored, execution, is_late):
    signal.signal(signal.SIGINT, of_pyspark())
    interrupt.stop_on_interrupt(session([], **execution))
    with pytest.raises(KeyboardInterrupt) as caught:
        signal.raise_signal(signal.SIGINT)
    assert is_late == ("came too late" in str(caught.value))


def test_a_jvm_that_does_not_answer_is_not_waited_for(restored, monkeypatch, capsys):
    monkeypatch.setattr(interrupt, "_QUIET_SECONDS", 0.05)
    monkeypatch.setattr(interrupt, "_MOST_SECONDS", 0.05)
    signal.signal(signal.SIGINT, of_pyspark())
    spark, silent = session([]), threading.Event()
    spark.sparkContext.statusTracker = silent.wait
    interrupt.stop_on_interrupt(spark)
    with pytest.raises(KeyboardInterrupt, match="could not be stopped in time"):
        signal.raise_signal(signal.SIGINT)
    silent.set()
    assert "stopping the query" in capsys.readouterr().err


@pytest.fixture
def cells(restored, monkeypatch):
    """The functions that a notebook calls before each cell."""
    functions = []
    events = SimpleNamespace(register=lambda event, function: functions.append(function))
    shell = SimpleNamespace(kernel=object(), events=events)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    return functions


def test_every_cell_of_a_notebook_has_the_handler(cells):
    calls = []
    for handler in (of_pyspark(), signal.default_int_handler):  # the cell that opens the session, and the next one
        signal.signal(signal.SIGINT, handler)
        interrupt.stop_on_interrupt(session(calls))
        assert isinstance(signal.getsignal(signal.SIGINT), interrupt._Handler)
    assert 1 == len(set(cells))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as the kernel does
    cells[0](None)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert 3 == len(calls)


def test_a_persons_handler_in_a_cell_stays(cells):
    interrupt.stop_on_interrupt(session([]))
    signal.signal(signal.SIGINT, handler := lambda *_: None)
    cells[0](None)
    assert handler is signal.getsignal(signal.SIGINT)


PROGRAM = """
import os, signal, sys, threading, time
from pathlib import Path
from pyspark.sql import SparkSession
from spark_arrow_ipc import register
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource
from spark_arrow_ipc.spark.write.writer import ArrowIpcBatchWriter

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
register(spark)
target = Path(sys.argv[1])

class LateWriter(ArrowIpcBatchWriter):
    def commit(self, messages):
        super().commit(messages)
        time.sleep(4)

class Late(ArrowIpcDataSource):
    @classmethod
    def name(cls):
        return "late"

    def writer(self, schema, overwrite):
        writer = super().writer(schema, overwrite)
        writer.__class__ = LateWriter
        return writer

spark.dataSource.register(Late)

def files(target=target):
    return sorted(each.name for each in target.glob("*.arrow"))

def active():
    jobs = []
    thread = threading.Thread(target=lambda: jobs.extend(spark.sparkContext.statusTracker().getActiveJobsIds()))
    thread.start()
    thread.join()
    return jobs

def save(rows, source="arrowipc", target=target):
    try:
        rows.write.format(source).mode("append").save(str(target))
        return "saved"
    except KeyboardInterrupt as error:
        return f"stopped {' '.join(error.args).partition(',')[0]}".strip()
    except Exception as error:
        return repr(error)[:500]

slow = spark.range(8, numPartitions=2).selectExpr("id", "java_method('java.lang.Thread', 'sleep', 1500L) AS slept")
for seconds in (0.01, 3):  # while it is planned, and in the middle of its job
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
    print(save(slow), active(), files(), flush=True)
    register(spark)
print(save(slow), active(), spark.read.format("arrowipc").load(str(target)).count(), flush=True)

late = target.with_name("late")

def interrupt_when_it_is_published():
    while not files(late):
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt_when_it_is_published).start()
print(save(spark.range(8), "late", late), active(), flush=True)
register(spark)
print(spark.read.format("arrowipc").load(str(late)).count(), flush=True)
spark.stop()
"""


@pytest.mark.slow
def test_a_write_that_is_stopped_publishes_nothing_and_a_repeated_one_does_not_double(tmp_path):
    environment = quick_spark.environment() | {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    environment |= {"PYTHONPATH": str(ROOT), "PYSPARK_SUBMIT_ARGS": quick_jvm.SUBMIT_ARGS}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "out")],
        cwd=tmp_path, env=os.environ | environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert [*["stopped [] []"] * 2, "saved [] 8", "stopped this came too late to stop the write []", "8"] == lines, (
        done.stderr[-3000:]
    )
