"""`stop_on_interrupt`: Ctrl-C ends the query that the main thread waits for, and its write is not published.

How it works
------------
PySpark's handler of SIGINT calls ``cancelAllJobs`` in the thread whose connection to the JVM waits for an answer. That
raises an error ("reentrant call"), which the ``KeyboardInterrupt`` hides: the prompt returns, and the query runs on and
commits. Another thread has another connection, so `_Handler` cancels jobs from one.

1. One call is not enough: a query in planning has no job yet, and one between two jobs starts the next. Jobs are cancelled
   until the JVM's thread that serves the main thread has left Spark.
2. A commit that has started ends first, and the ``KeyboardInterrupt`` then has a sentence about it.
3. Jobs of streaming queries go on: a stream has its own ``stop``, and waiting for one ends at once.
4. The kernel of a notebook (ipykernel) sets Python's own handler for the time of each cell, so this one is set at the start
   of each cell.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import Any, ClassVar, Final, NoReturn

from pyspark.sql import SparkSession

_LOG: Final = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 0.1
_QUIET_SECONDS: Final = 2.0
"""After this time a line on stderr tells what the prompt waits for."""

_MOST_SECONDS: Final = 60.0

_WRITES: Final = (
    "AppendData",
    "Overwrite",
    "ReplaceData",
    "WriteToDataSource",
    "WriteDelta",
    "CreateTable",
    "InsertInto",
)
"""Words in the physical plans of writes."""

_AWAIT_STREAMS: Final = ("awaitTermination", "awaitAnyTermination")
"""Methods of Spark that wait for streams."""

_OF_STREAMS: Final = "runId = "
"""Text in the description of each execution of a stream."""

_LATEST: Final = 20
"""Number of the latest executions among which a write is searched."""

_TOO_LATE: Final = (
    "this came too late to stop the write, which is committed: do not run it again, or its rows are there twice"
)
_UNKNOWN: Final = "the query could not be stopped in time and may still go on: look at the data before you run it again"


def stop_on_interrupt(spark: SparkSession) -> None:
    """Replace the handler of PySpark or of a notebook, in the main thread; leave any other handler."""
    if threading.current_thread() is not threading.main_thread():
        return
    _Handler.latest = _Handler(spark)
    ipython: Any = sys.modules.get("IPython")  # a kernel has imported it
    shell: Any = None if ipython is None else ipython.get_ipython()
    if hasattr(shell, "kernel"):
        shell.events.register("pre_run_cell", _set_for_cell)  # IPython registers a function only once
        _set_for_cell()
    handler = signal.getsignal(signal.SIGINT)
    module = getattr(handler, "__module__", None) or ""
    is_of_pyspark = module.startswith("pyspark.") and getattr(handler, "__name__", "") == "signal_handler"
    if isinstance(handler, _Handler) or is_of_pyspark:
        signal.signal(signal.SIGINT, _Handler.latest)


def _set_for_cell(_cell: object = None) -> None:
    """Replace Python's own handler, which a kernel sets while a cell runs, by the latest one."""
    if _Handler.latest is not None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _Handler.latest)


class _Handler:
    """Handles SIGINT for the queries of a Spark application."""

    latest: ClassVar[_Handler | None] = None
    """The handler for the next cell of a notebook."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._context = spark.sparkContext
        jvm = self._context._jvm
        assert jvm is not None
        # The thread of the JVM that answers this one, until the next Ctrl-C closes their connection.
        self._thread = jvm.java.lang.Thread.currentThread()
        self._stopping: threading.Event | None = None

    def __call__(self, _number: int, _frame: FrameType | None) -> NoReturn:
        """Stop the query and raise ``KeyboardInterrupt``; a second signal does not wait."""
        if self._stopping is not None:
            self._stopping.set()
            raise KeyboardInterrupt
        if self._context._jsc is None:  # stopped
            raise KeyboardInterrupt
        self._stopping = threading.Event()
        sentences: list[str] = []
        worker = threading.Thread(target=self._stop, args=(self._stopping, sentences), daemon=True)
        try:
            worker.start()
            worker.join(_QUIET_SECONDS)
            if worker.is_alive():
                print("stopping the query; Ctrl-C again leaves it running", file=sys.stderr)  # noqa: T201 - as shells do
                worker.join(_MOST_SECONDS)
            if worker.is_alive():
                self._stopping.set()
                sentences = [_UNKNOWN]
        finally:
            self._stopping = None
        raise KeyboardInterrupt(*sentences)

    def _stop(self, gives_up: threading.Event, sentences: list[str]) -> None:
        start = time.time()
        try:
            self._cancel()
            while self._is_busy() and not gives_up.wait(_PAUSE_SECONDS):
                self._cancel()
            if self._has_written(start):
                sentences.append(_TOO_LATE)
        except Exception as error:  # noqa: BLE001 - a JVM that ends raises any error, and none may hide Ctrl-C
            _LOG.debug("Ctrl-C: %s", type(error).__name__)

    def _jobs(self) -> set[int]:
        """Return the running jobs that do not belong to streams."""
        tracker = self._context.statusTracker()
        jobs = set(tracker.getActiveJobsIds())
        return jobs.difference(*(tracker.getJobIdsForGroup(query.runId) for query in self._spark.streams.active))

    def _cancel(self) -> None:
        for job in self._jobs():
            self._context._jsc.sc().cancelJob(job)

    def _is_busy(self) -> bool:
        """Return whether the JVM's thread executes a call of Spark."""
        if not self._thread.isAlive():  # an earlier Ctrl-C ended it, and its successor is unknown
            return bool(self._jobs())
        # Between calls the thread is in code of py4j only.
        calls = [each for each in self._thread.getStackTrace() if each.getClassName().startswith("org.apache.spark.")]
        return bool(calls) and not any(call.getMethodName() in _AWAIT_STREAMS for call in calls)

    def _has_written(self, start: float) -> bool:
        """Return whether a write that is not of a stream has ended without an error since a time."""
        with suppress(Exception):  # the store learns of ended executions by events, which may still wait
            self._context._jsc.sc().listenerBus().waitUntilEmpty(2_000)
        store: Any = self._spark._jsparkSession.sharedState().statusStore()
        executions = store.executionsList(max(0, store.executionsCount() - _LATEST), _LATEST)
        return any(_is_write(executions.apply(i), start * 1_000) for i in range(executions.length()))


def _is_write(execution: Any, start_millis: float) -> bool:
    ended, error = execution.completionTime(), execution.errorMessage()
    if not ended.isDefined() or ended.get().getTime() < start_millis or (error.isDefined() and error.get()):
        return False
    if _OF_STREAMS in execution.description():
        return False
    plan: str = execution.physicalPlanDescription()
    return any(word in plan for word in _WRITES)
