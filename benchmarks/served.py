"""Spark from `arrowipc serve` against Spark from the file that it serves: CPU of the workers and wall time.

    python benchmarks/served.py [--rows 8000000] [--turns 7] [--compression zstd]

The servers are processes of their own, started as a person does it; what they cost when they start is printed apart, as
they pay it once. All ways read everything into Spark's `noop` sink, in two tasks, one way after the other in each turn.
Ratios are medians of ratios inside a turn, to the file with `arrowipc`.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from measure import Cost, SparkProcesses
from run import session
from workloads import Workload, arrow_file

_PARTS = 2
_ROWS_A_BATCH = 131_072


@contextmanager
def serving(path: Path, *arguments: str) -> Iterator[tuple[str, float]]:
    """Run a server; yield the URI of its one table, and the CPU seconds until it printed it."""
    command = [sys.executable, "-m", "spark_arrow_ipc.cli.main", "serve", str(path), "--parts", str(_PARTS), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            yield line.rstrip("\n").partition("\t")[2], _cpu_seconds(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print a table of medians, and the ratios to the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--compression", default="zstd", choices=("zstd", "lz4", "none"))
    parser.add_argument("--kind", default="numbers", help="of the tables of benchmarks/table_kinds.py")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmarks-")))
        batches = -(-arguments.rows // _ROWS_A_BATCH)
        path = arrow_file(Workload(arguments.rows, batches, arguments.compression, arguments.kind), folder)
        socket = f"dissociated+unix://{folder}/s"
        shared, shared_cpu = stack.enter_context(serving(path, "--listen", socket))
        packed, _ = stack.enter_context(serving(path, "--keep", "8g"))
        ways = {
            "the file": (str(path), {}),
            "shared memory": (shared, {}),
            "shared memory, structural": (shared, {"validation": "structural"}),
            "TCP, kept": (packed, {}),
        }
        spark = stack.enter_context(session(reuses_workers=True))
        jvm_pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
        processes = stack.enter_context(SparkProcesses(jvm_pid))
        costs: dict[str, list[Cost]] = {name: [] for name in ways}
        for turn in range(arguments.turns + 1):
            for name, (where, options) in ways.items():
                with processes.cost() as found:
                    frame = spark.read.format("arrowipc").options(**options).load(where)
                    frame.write.format("noop").mode("overwrite").save()
                if turn:  # the first is for caches and the JVM
                    costs[name] += found
        print(
            f"{path.stat().st_size / 2**20:,.0f} MiB as {path.name}; {arguments.turns} turns, load {os.getloadavg()[0]:.1f}"
        )
        print(f"the server of the shared memory used {shared_cpu:.2f} CPU s until it served")
        first = costs["the file"]
        for name, spent in costs.items():
            columns = []
            for attribute in ("worker", "jvm", "wall"):
                pairs = [(getattr(a, attribute), getattr(b, attribute)) for a, b in zip(spent, first, strict=True)]
                ratio = median(a / b if b else 1.0 for a, b in pairs)
                columns.append(f"{attribute} {median(a for a, _ in pairs):6.2f} s {ratio:5.2f}")
            print(f"{name:26}" + "   ".join(columns))


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"in {time.perf_counter() - started:.0f} s")
