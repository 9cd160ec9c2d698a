"""What a Spark job costs: CPU seconds of the JVM, of its Python processes and of the driver's apart, and their peak memory.

Strategy
--------
The JVM (driver and executor in one, as the master is local) is one process; the kernel counts the CPU time of all its
threads. Its Python processes are forks of a few daemons. Spark's daemons ignore SIGCHLD, so the kernel never adds the
time of a fork that has ended to its daemon: asking daemons for the time of their children would lose every planner,
which lives for one question only. So a thread looks at all forks every `_PAUSE_SECONDS` and keeps the last value that
it saw: of a process that ends, at most the time since the last look is lost, of one that lives nothing.

Two kinds of fork are told apart by their daemon's command line: `worker`, which runs tasks, and `planner`, all else
(schema inference, planning), whose cost does not grow with the data.

Peak memory is the kernel's own high-water mark of the resident set, so no peak is missed between two looks.
`VmHWM` counts mapped file pages too; `RssAnon`, which has no high-water mark, is sampled.

Linux only: it reads /proc.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

_PAUSE_SECONDS = 0.02
"""Between two looks at the forks of the known daemons; a look takes less than a millisecond."""

_LOOKS_A_DAEMON_SEARCH = 10
"""New daemons are looked for less often: that means asking every thread of the JVM for its children."""

_QUIET_SECONDS = 0.1
_QUIET_LOOKS = 3
"""So many looks, so far apart, that see no fork use a hundredth of a second say that the job is over."""

_MOST_QUIET_LOOKS = 50

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_KINDS = ("worker", "planner")
_DAEMONS = frozenset({b"pyspark.daemon", b"spark_arrow_ipc.spark.daemon"})
_WORKER_MODULE = "pyspark.worker"
_PROC = Path("/proc")
_USER_TICKS, _SYSTEM_TICKS, _START = 11, 12, 19
"""Fields of /proc/<pid>/stat, counted behind the command's closing parenthesis."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one job cost.

    Parameters
    ----------
    wall, jvm, worker, planner, driver
        Seconds: elapsed, and of CPU. `driver` is this process, in which some functions work themselves.
    peak_nbytes
        Largest resident set that a worker had.
    peak_anonymous_nbytes
        Largest resident set without mapped files that was seen of a worker.
    read_nbytes
        What workers got by read(2) and its kin, from the page cache or not. Pages of mapped files are not counted; of
        a write, the rows that come from the JVM are.
    """

    wall: float
    jvm: float
    worker: float
    planner: float
    peak_nbytes: int
    peak_anonymous_nbytes: int
    read_nbytes: int = 0
    driver: float = 0.0

    @property
    def cpu(self) -> float:
        """CPU seconds of everything."""
        return self.jvm + self.worker + self.planner + self.driver


class _Fork:
    """The last that was seen of one process."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.ticks = 0
        self.read_nbytes = 0
        self.peak_nbytes = 0
        self.peak_anonymous_nbytes = 0


class SparkProcesses:
    """The processes of one Spark session, watched by a thread while in `with`.

    Parameters
    ----------
    jvm_pid
        Of the driver's JVM, whose master is ``local[n]``.
    """

    def __init__(self, jvm_pid: int) -> None:
        self._jvm_pid = jvm_pid
        self._daemons: dict[int, str] = {}
        self._forks: dict[tuple[int, int], _Fork] = {}
        self._settled: Mapping[tuple[int, int], int] | None = None  # when the forks were quiet last
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._watched_seconds = 0.0
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._thread.join()

    @contextmanager
    def cost(self) -> Iterator[list[Cost]]:
        """Measure the block; its `Cost` is in the list afterwards."""
        found: list[Cost] = []
        self._settle()
        self._forget_peaks()
        before, read_before = self._ticks(), self._read_nbytes()
        jvm_before, driver_before, start = self._jvm_ticks(), self._driver_seconds(), time.perf_counter()
        yield found
        wall = time.perf_counter() - start
        driver = self._driver_seconds() - driver_before
        self._settle()
        jvm = self._jvm_ticks() - jvm_before
        spent = {key: ticks - before.get(key, 0) for key, ticks in self._ticks().items()}
        kinds = {kind: sum(ticks for key, ticks in spent.items() if self._forks[key].kind == kind) for kind in _KINDS}
        # A worker that did nothing belongs to another job.
        workers = [fork for key, fork in list(self._forks.items()) if fork.kind == "worker" and spent.get(key)]
        found.append(
            Cost(
                wall,
                jvm / _TICKS_A_SECOND,
                kinds["worker"] / _TICKS_A_SECOND,
                kinds["planner"] / _TICKS_A_SECOND,
                max((fork.peak_nbytes for fork in workers), default=0),
                max((fork.peak_anonymous_nbytes for fork in workers), default=0),
                self._read_nbytes() - read_before,
                driver,
            )
        )

    def _driver_seconds(self) -> float:
        """Return the CPU seconds of this process, but for those of the thread that watches."""
        return time.process_time() - self._watched_seconds

    def _settle(self) -> None:
        """Wait until no fork works: a worker collects its garbage after the job that it worked for has ended."""
        self._look(searches=True)
        still, last = 0, self._ticks()
        if last == self._settled:
            return
        for _ in range(_MOST_QUIET_LOOKS):
            time.sleep(_QUIET_SECONDS)
            self._look(searches=True)
            ticks = self._ticks()
            still, last = (still + 1 if ticks == last else 0), ticks
            if still == _QUIET_LOOKS:
                break
        self._settled = last

    def _watch(self) -> None:
        looks = 0
        while not self._ends.wait(_PAUSE_SECONDS):
            self._look(searches=looks % _LOOKS_A_DAEMON_SEARCH == 0)
            looks += 1
            self._watched_seconds = time.thread_time()

    def _look(self, *, searches: bool) -> None:
        with self._lock:
            if searches:
                self._search()
            for daemon, kind in self._daemons.items():
                self._see(daemon, kind)
                for pid in _children(_PROC / str(daemon)):
                    self._see(pid, kind)

    def _search(self) -> None:
        for pid in _children(_PROC / str(self._jvm_pid)):
            if pid not in self._daemons:
                # Its last argument is the module that its forks run.
                with suppress(OSError):
                    arguments = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
                    if not _DAEMONS.isdisjoint(arguments):
                        self._daemons[pid] = "worker" if _WORKER_MODULE.encode() in arguments else "planner"

    def _see(self, pid: int, kind: str) -> None:
        process = _PROC / str(pid)
        with suppress(OSError, IndexError):
            stat = _stat(process)
            fork = self._forks.setdefault((pid, int(stat[_START])), _Fork(kind))
            fork.ticks = int(stat[_USER_TICKS]) + int(stat[_SYSTEM_TICKS])
            if kind == "worker" and pid not in self._daemons:
                fork.read_nbytes = _read_nbytes(process)
                memory = _memory(process)
                fork.peak_nbytes = max(fork.peak_nbytes, memory.get("VmHWM", 0))
                fork.peak_anonymous_nbytes = max(fork.peak_anonymous_nbytes, memory.get("RssAnon", 0))

    def _forget_peaks(self) -> None:
        with self._lock:
            for (pid, start), fork in self._forks.items():
                fork.peak_nbytes = fork.peak_anonymous_nbytes = 0
                process = _PROC / str(pid)
                with suppress(OSError):
                    if int(_stat(process)[_START]) == start:
                        # proc(5): 5 sets the high-water mark back to what is resident now.
                        (process / "clear_refs").write_text("5")

    def _ticks(self) -> Mapping[tuple[int, int], int]:
        with self._lock:
            return {key: fork.ticks for key, fork in self._forks.items()}

    def _read_nbytes(self) -> int:
        with self._lock:
            return sum(fork.read_nbytes for fork in self._forks.values())

    def _jvm_ticks(self) -> int:
        stat = _stat(_PROC / str(self._jvm_pid))
        return int(stat[_USER_TICKS]) + int(stat[_SYSTEM_TICKS])


def _stat(process: Path) -> list[str]:
    return (process / "stat").read_text().rpartition(")")[2].split()


def _read_nbytes(process: Path) -> int:
    """Return the bytes that a process got by read(2) and its kin, which leave out recv(2)."""
    return int((process / "io").read_text().split(None, 2)[1])


def _children(process: Path) -> list[int]:
    """Return the children that any thread of a process has."""
    found: list[int] = []
    with suppress(OSError):
        for thread in (process / "task").iterdir():
            with suppress(OSError):
                found += map(int, (thread / "children").read_text().split())
    return found


def _memory(process: Path) -> dict[str, int]:
    """Return the bytes of /proc/<pid>/status by name."""
    lines = (process / "status").read_text().splitlines()
    pairs = (line.split(":", 1) for line in lines if line.endswith(" kB"))
    return {name: int(value.split()[0]) << 10 for name, value in pairs}
