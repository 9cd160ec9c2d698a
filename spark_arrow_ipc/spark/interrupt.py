"""`stop_on_interrupt`: Ctrl-C ends the query that the main thread waits for, and what it writes is not published.

PySpark's handler of SIGINT calls ``cancelAllJobs`` in the thread whose connection to the JVM is waiting for an answer. That is
an error ("reentrant call"), which the ``KeyboardInterrupt`` hides: the prompt is back, and the query goes on, holds its cores
and commits. From another thread, which has a connection of its own, the call works. One call is not enough: a query that is
being planned has no job yet, and one between two jobs begins the next. So jobs are cancelled until the JVM's thread that
serves this one is through with Spark. A commit that has begun ends first, and then the ``KeyboardInterrupt`` says so.

Jobs of streaming queries go on: a stream has its own ``stop``, and the main thread that awaits one stops waiting at once.

A notebook's kernel (ipykernel) puts Python's own handler in the place of any other while a cell runs, and takes it away
after it. So there ours is set at the start of each cell.
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
"""After so many a line says what is waited for."""

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
"""Words of plans that write."""

_AWAIT_STREAMS: Final = ("awaitTermination", "awaitAnyTermination")
"""Methods of Spark's that wait for streams."""

_OF_STREAMS: Final = "runId = "
"""Words of the description that Spark gives what a stream executes."""

_LATEST: Final = 20
"""Executions, of the latest, that are looked at."""

_TOO_LATE: Final = (
    "this came too late to stop the write, which is committed: do not run it again, or its rows are there twice"
)
_UNKNOWN: Final = "the query could not be stopped in time and may still go on: look at the data before you run it again"


def stop_on_interrupt(spark: SparkSession) -> None:
    """Put a handler in the place of PySpark's own or a notebook's; in other threads, and over any other handler, do nothing."""
    if threading.current_thread() is not threading.main_thread():
        return
    _Handler.latest = _Handler(spark)
    shell = _shell_of_notebook()
    if shell is not None:
        shell.events.register("pre_run_cell", _set_for_cell)  # once, however often it is called
        _set_for_cell()
    handler = signal.getsignal(signal.SIGINT)
    if isinstance(handler, _Handler) or _is_of_pyspark(handler):
        signal.signal(signal.SIGINT, _Handler.latest)


def _is_of_pyspark(handler: object) -> bool:
    module = getattr(handler, "__module__", None) or ""
    return module.startswith("pyspark.") and getattr(handler, "__name__", "") == "signal_handler"


def _shell_of_notebook() -> Any:
    """Return the shell of the notebook's kernel that this program is, or None."""
    module: Any = sys.modules.get("IPython")  # imported by a kernel, and not needed otherwise
    shell = None if module is None else module.get_ipython()
    return shell if hasattr(shell, "kernel") else None


def _set_for_cell(_cell: object = None) -> None:
    """Put the latest handler in the place of the kernel's, which is Python's own and is there as long as a cell runs."""
    if _Handler.latest is not None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _Handler.latest)


class _Handler:
    """A handler of SIGINT for the queries of a Spark application."""

    latest: ClassVar[_Handler | None] = None
    """The one that the notebook's next cell gets."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._context = spark.sparkContext
        jvm = self._context._jvm
        assert jvm is not None
        # The thread of the JVM that answers this one, until the next Ctrl-C closes their connection.
        self._thread = jvm.java.lang.Thread.currentThread()
        self._stopping: threading.Event | None = None

    def __call__(self, _number: int, _frame: FrameType | None) -> NoReturn:
        """Stop what runs and raise ``KeyboardInterrupt``; a second signal meanwhile waits for nothing."""
        if self._stopping is not None:
            self._stopping.set()
            raise KeyboardInterrupt
        if self._context._jsc is None:  # stopped
            raise KeyboardInterrupt
        self._stopping = threading.Event()
        said: list[str] = []
        worker = threading.Thread(target=self._stop, args=(self._stopping, said), daemon=True)
        try:
            worker.start()
            worker.join(_QUIET_SECONDS)
            if worker.is_alive():
                print("stopping the query; Ctrl-C again leaves it running", file=sys.stderr)  # noqa: T201 - as shells do
                worker.join(_MOST_SECONDS)
            if worker.is_alive():
                self._stopping.set()
                said = [_UNKNOWN]
        finally:
            self._stopping = None
        raise KeyboardInterrupt(*said)

    def _stop(self, left: threading.Event, said: list[str]) -> None:
        begun = time.time()
        try:
            self._cancel()
            while self._is_busy() and not left.wait(_PAUSE_SECONDS):
                self._cancel()
            if self._has_written(begun):
                said.append(_TOO_LATE)
        except Exception as error:  # noqa: BLE001 - a JVM that is ending answers with any error, and nothing may hide Ctrl-C
            _LOG.debug("Ctrl-C: %s", type(error).__name__)

    def _jobs(self) -> set[int]:
        """Return the jobs that run, but for those of streams."""
        tracker = self._context.statusTracker()
        jobs = set(tracker.getActiveJobsIds())
        return jobs.difference(*(tracker.getJobIdsForGroup(query.runId) for query in self._spark.streams.active))

    def _cancel(self) -> None:
        for job in self._jobs():
            self._context._jsc.sc().cancelJob(job)

    def _is_busy(self) -> bool:
        """Return whether the JVM's thread is in a call of Spark's; one that waits for calls is in py4j's own code."""
        if not self._thread.isAlive():  # an earlier Ctrl-C ended it, and another one is not known
            return bool(self._jobs())
        calls = [each for each in self._thread.getStackTrace() if each.getClassName().startswith("org.apache.spark.")]
        return bool(calls) and not any(call.getMethodName() in _AWAIT_STREAMS for call in calls)

    def _has_written(self, begun: float) -> bool:
        """Return whether a write, and not one of a stream, has ended since a time without an error."""
        with suppress(Exception):
            self._context._jsc.sc().listenerBus().waitUntilEmpty(2_000)
        store: Any = self._spark._jsparkSession.sharedState().statusStore()
        executions = store.executionsList(max(0, store.executionsCount() - _LATEST), _LATEST)
        return any(_is_write(executions.apply(i), begun * 1_000) for i in range(executions.length()))


def _is_write(execution: Any, begun_millis: float) -> bool:
    ended, error = execution.completionTime(), execution.errorMessage()
    if not ended.isDefined() or ended.get().getTime() < begun_millis or (error.isDefined() and error.get()):
        return False
    if _OF_STREAMS in execution.description():
        return False
    plan: str = execution.physicalPlanDescription()
    return any(word in plan for word in _WRITES)
