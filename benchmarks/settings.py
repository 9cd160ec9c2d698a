"""`settings`: what some of Spark's settings do to a scan and a write.

Strategy
--------
Most settings hold for a session and its JVM, so each gets a process of its own, several times, in turns with all
others: A B C A B C. In each the same two jobs run after turns that do not count. Medians over all processes are
printed as ratios to a session without any setting.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from bench import Bench
from cases import NUMBERS, WRITTEN
from jobs import Asked, Job, read, write
from measure import Cost, SparkProcesses
from pyspark.sql import SparkSession

PLAIN = "none"


@dataclass(frozen=True, slots=True)
class Setting:
    """What differs from a plain session.

    Parameters
    ----------
    conf
        Of Spark.
    java
        Options of the JVM, besides those of every session.
    """

    conf: Mapping[str, str] = field(default_factory=dict)
    java: str = ""


_ARROW = "spark.sql.execution.arrow"

SETTINGS: Mapping[str, Setting] = {
    PLAIN: Setting(),
    "unix domain sockets": Setting({"spark.python.unix.domain.socket.enabled": "true"}),
    "spark.buffer.size=1048576": Setting({"spark.buffer.size": "1048576"}),
    "arrow.maxBytesPerBatch=2147483647": Setting({f"{_ARROW}.maxBytesPerBatch": "2147483647"}),
    "arrow.maxRecordsPerBatch=65536": Setting({f"{_ARROW}.maxRecordsPerBatch": "65536"}),
    "ParallelGC": Setting(java="-XX:+UseParallelGC"),
}
"""By name."""


def jobs_of(bench: Bench) -> Mapping[str, Job]:
    """Return the two jobs."""
    return {
        "scan": read("arrowipc", Asked(NUMBERS))(bench),
        "write": write("arrowipc", WRITTEN)(bench),
    }


def measured(spark: SparkSession, name: str, directory: Path, *, size: float, turns: int) -> Mapping[str, list[Cost]]:
    """Return what both jobs cost in the session of a setting, after as many turns that do not count."""
    bench = Bench(spark, directory, size)
    costs: dict[str, list[Cost]] = defaultdict(list)
    jvm_pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    with SparkProcesses(jvm_pid) as processes:
        for job_name, job in jobs_of(bench).items():
            for turn in range(-turns, turns):
                with processes.cost() as found:
                    job()
                bench.clear()
                if turn >= 0:
                    costs[job_name] += found
    return costs


def study(
    run: Path, directory: Path, names: Iterable[str], *, size: float, turns: int, rounds: int
) -> Mapping[str, Mapping[str, Sequence[Mapping[str, float]]]]:
    """Run every setting in processes of its own, in turns, print ratios and return every value."""
    found: dict[str, dict[str, list[Mapping[str, float]]]] = {name: defaultdict(list) for name in names}
    for _ in range(rounds):
        for name, costs in found.items():
            words = [sys.executable, str(run), "settings", "--session", name, "--directory", str(directory)]
            words += ["--size", str(size), "--turns", str(turns)]
            done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
            for job, values in json.loads(done.stdout.splitlines()[-1]).items():
                costs[job] += values
    print(f"{'median (to none)':<36}{'scan wall s':>16}{'scan CPU s':>16}{'write wall s':>16}{'write CPU s':>16}")
    for name in found:
        cells = []
        for job in ("scan", "write"):
            for of in ("wall", "cpu"):
                own, plain = (median(value[of] for value in found[n][job]) for n in (name, PLAIN))
                cells.append(f"{own:.2f} ({own / plain:.2f})")
        print(f"{name:<36}{''.join(f'{cell:>16}' for cell in cells)}", flush=True)
    return found


def print_session(costs: Mapping[str, Sequence[Cost]]) -> None:
    """Print one line of JSON, which `study` reads."""
    print(json.dumps({job: [{**asdict(cost), "cpu": cost.cpu} for cost in values] for job, values in costs.items()}))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what only `settings` takes."""
    parser.add_argument("--rounds", type=int, default=3, help="processes of each setting (default %(default)s)")
    parser.add_argument("--session", choices=SETTINGS, help=argparse.SUPPRESS)
