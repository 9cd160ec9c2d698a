"""Benchmarks of the data source; `python benchmarks/run.py --help` says how to run them, docs/benchmarks.md why.

Strategy
--------
All contenders run in one Spark session in turns, A B A B, after turns that do not count. Every value is kept; medians
and minima are printed, and whether the bars of `cases.py` are kept.

`compare` runs the cases of ``cases.py``, all or those that are named; `scan`, `memory` and `balance` look closer at
one file whose size and layout are given; `imports` asks what a worker imports, `settings` what Spark's
settings do, `profile` where the time goes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

sys.path[:0] = [str(HERE)]

from bytecode import import_paths  # noqa: E402 - found by the path above

# Spark's Python processes import `contenders`, and the package where it is not installed.
_PATHS = import_paths(ROOT)
os.environ["PYTHONPATH"] = os.pathsep.join([*_PATHS, *filter(None, [os.environ.get("PYTHONPATH")])])
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ["PYTHONSAFEPATH"] = "1"  # else the current directory would come before them
sys.path[:0] = _PATHS

from cases import CASES, SCANNED  # noqa: E402
from compare import compare, failures, print_cases  # noqa: E402
from measure import Cost, SparkProcesses  # noqa: E402
from profile_worker import profile_worker  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from scans import CONTENDERS, SINKS, Scan, register, rows_of_tasks  # noqa: E402
from settings import SETTINGS, add_arguments, measured, print_session, study  # noqa: E402
from start_up import print_imports  # noqa: E402
from workloads import Workload, arrow_file, largest_body_nbytes  # noqa: E402

MEMORY_TIMES = 4
"""How much larger the second file of `memory` is."""

WORKER_BAR = 0.8
"""Seconds of worker CPU for each GB (10**9 bytes of file), above the null source."""

CPU_BAR = 1.10
"""CPU of JVM and workers, as a multiple of the null source's."""

MEMORY_BAR_BODIES, MEMORY_BAR_NBYTES = 3, 32 << 20
"""Peak of a worker above the null source's: so many of the largest bodies, and so many bytes."""

GROWTH_BAR = 1.10
"""Peak of a worker for the larger file, as a multiple of that for the smaller one."""

_MIB = 1 << 20

_LOGGING = ROOT / "conf" / "log4j2.properties"

Turns = Mapping[str, Sequence[Cost]]
"""What each turn cost, by contender."""


@contextmanager
def session(*, reuses_workers: bool, conf: Mapping[str, str] = {}, java: str = "") -> Iterator[SparkSession]:
    """Open a quiet session on `local[2]`, with more settings and options of the JVM."""
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("benchmarks")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.python.worker.reuse", str(reuses_workers).lower())
        .config("spark.driver.extraJavaOptions", f"{java} -Dlog4j2.configurationFile={_LOGGING}")
    )
    for name, text in conf.items():
        builder = builder.config(name, text)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    try:
        yield spark
    finally:
        spark.stop()


def take_turns(
    spark: SparkSession, scans: Mapping[str, tuple[str, Scan]], sink: str, *, pairs: int, warm_up: int
) -> Turns:
    """Return what each of `scans` (contender and file by name) cost in `pairs` turns, interleaved."""
    costs: dict[str, list[Cost]] = {name: [] for name in scans}
    jvm_pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    with SparkProcesses(jvm_pid) as processes:
        for turn in range(-warm_up, pairs):
            for name, (contender, scan) in scans.items():
                with processes.cost() as found:
                    SINKS[sink](CONTENDERS[contender](spark, scan))
                if turn >= 0:
                    costs[name] += found
    return costs


def middle(costs: Sequence[Cost], of: str) -> float:
    """Return the median of one figure."""
    return median(getattr(cost, of) for cost in costs)


def print_costs(costs: Turns) -> None:
    """Print medians and, in brackets, minima; of memory, the largest peak of all turns."""
    print(f"{'median (least)':<16}{'wall s':>16}{'JVM CPU s':>16}{'worker CPU s':>16}{'planner CPU s':>16}", end="")
    print(f"{'all CPU s':>16}{'x null':>8}{'worker MiB':>12}{'anonymous':>11}")
    for name, turns in costs.items():
        print(f"{name:<16}", end="")
        for of in ("wall", "jvm", "worker", "planner", "cpu"):
            cell = f"{middle(turns, of):.2f} ({min(getattr(cost, of) for cost in turns):.2f})"
            print(f"{cell:>16}", end="")
        null = costs.get("null" + name.removeprefix(name.split()[0]))  # of the same file
        times = middle(turns, "cpu") / middle(null, "cpu") if null else float("nan")
        peak, anonymous = (max(getattr(cost, of) for cost in turns) / _MIB for of in _PEAKS)
        print(f"{times:>8.2f}{peak:>12.0f}{anonymous:>11.0f}")


_PEAKS = ("peak_nbytes", "peak_anonymous_nbytes")


def print_bar(what: str, found: float, bar: float) -> None:
    """Print one figure beside what it may be."""
    print(f"{what}: {found:.2f}, at most {bar:.2f}: {'kept' if found <= bar else 'MISSED'}")


def scan(arguments: argparse.Namespace, directory: Path) -> Turns:
    """Scan one file in turns."""
    workload = Workload(arguments.rows, arguments.batches, arguments.compression)
    asked = Scan(workload, directory, arguments.max_partition_bytes, arguments.validation)
    gigabytes = arrow_file(workload, directory).stat().st_size / 1e9
    with session(reuses_workers=True) as spark:
        scans = {name: (name, asked) for name in arguments.contenders}
        costs = take_turns(spark, scans, arguments.sink, pairs=arguments.pairs, warm_up=arguments.warm_up)
    print(f"\n{gigabytes:.3f} GB, {workload.batches} record batches, {len(asked.blocks()) - 1} tasks, ", end="")
    print(f"compression {workload.compression}, sink {arguments.sink}, {arguments.pairs} turns each")
    print_costs(costs)
    if "null" in costs and "arrowipc" in costs:
        ours, null = costs["arrowipc"], costs["null"]
        print_bar(
            "worker CPU s a GB above null", (middle(ours, "worker") - middle(null, "worker")) / gigabytes, WORKER_BAR
        )
        both = [middle(turns, "jvm") + middle(turns, "worker") for turns in (ours, null)]
        print_bar("CPU of JVM and workers, times null", both[0] / both[1], CPU_BAR)
    return costs


def memory(arguments: argparse.Namespace, directory: Path) -> Turns:
    """Scan a file and a larger one, every task in a worker of its own, whose peak is that of this task alone."""
    small = Workload(arguments.rows, arguments.batches, arguments.compression)
    files = {"": small, f" x{MEMORY_TIMES}": small.times(MEMORY_TIMES)}
    scans = {
        name + suffix: (name, Scan(workload, directory, arguments.max_partition_bytes, arguments.validation))
        for suffix, workload in files.items()
        for name in arguments.contenders
    }
    for _, one in scans.values():
        arrow_file(one.workload, directory)
    with session(reuses_workers=False) as spark:
        costs = take_turns(spark, scans, arguments.sink, pairs=arguments.pairs, warm_up=1)
    body = largest_body_nbytes(arrow_file(small, directory))
    tasks = {one.workload.rows: len(one.blocks()) - 1 for _, one in scans.values()}
    print(f"\n{tasks} tasks by rows, largest body {body / _MIB:.1f} MiB, each task in a fresh worker")
    print_costs(costs)
    if "null" in costs and "arrowipc" in costs:
        for what, of in (("", _PEAKS[0]), (", without mapped files", _PEAKS[1])):
            peaks = {name: max(getattr(cost, of) for cost in turns) / _MIB for name, turns in costs.items()}
            bar = peaks["null"] + (MEMORY_BAR_BODIES * body + MEMORY_BAR_NBYTES) / _MIB
            print_bar(f"peak MiB of a worker{what}", peaks["arrowipc"], bar)
            larger = peaks[f"arrowipc x{MEMORY_TIMES}"] / peaks["arrowipc"]
            print_bar(f"growth for a file {MEMORY_TIMES} times as large{what}", larger, GROWTH_BAR)
    return costs


def balance(arguments: argparse.Namespace, directory: Path) -> list[int]:
    """Count the rows of each task."""
    workload = Workload(arguments.rows, arguments.batches, arguments.compression)
    asked = Scan(workload, directory, arguments.max_partition_bytes, arguments.validation)
    with session(reuses_workers=True) as spark:
        rows = rows_of_tasks(CONTENDERS["arrowipc"](spark, asked))
    nbytes = arrow_file(workload, directory).stat().st_size
    print(f"\n{nbytes:,} bytes, {workload.batches} record batches: {len(rows)} tasks of {rows} rows")
    print_bar(
        "record batches between the largest and the smallest task", (max(rows) - min(rows)) / workload.batch_rows, 1
    )
    return rows


def compared(arguments: argparse.Namespace, directory: Path) -> dict[str, object]:
    """Run cases with all contenders; without names, all of them."""
    if arguments.list:
        print_cases()
        return {}
    with session(reuses_workers=True, conf=dict(arguments.conf)) as spark:
        found = compare(
            spark,
            directory,
            arguments.cases or list(CASES),
            size=arguments.size,
            turns=arguments.turns,
            warm_up=arguments.warm_up,
        )
    failed = failures(found)
    print("".join(f"\nFAILED {line}" for line in failed))
    return found


def imported(arguments: argparse.Namespace, directory: Path) -> dict[str, object]:
    """Ask what a worker imports for its first task of ours."""
    return dict(print_imports(arguments.processes))


def set_apart(arguments: argparse.Namespace, directory: Path) -> object:
    """Run the same scan and write under several settings of Spark."""
    size, turns = arguments.size, arguments.turns
    if arguments.session is None:
        return study(Path(__file__), directory, SETTINGS, size=size, turns=turns, rounds=arguments.rounds)
    setting = SETTINGS[arguments.session]
    with session(reuses_workers=True, conf=setting.conf, java=setting.java) as spark:
        print_session(measured(spark, arguments.session, directory, size=size, turns=turns))
    return None


def profiled(arguments: argparse.Namespace, directory: Path) -> object:
    """Show which stage of a worker's scan takes how much, of files of cases."""
    workloads = [SCANNED[name] for name in arguments.cases or SCANNED]
    return {w.name: profile_worker(str(arrow_file(w.times(arguments.size), directory))) for w in workloads}


COMMANDS = {
    "compare": compared, "scan": scan, "memory": memory, "balance": balance, "imports": imported,
    "settings": set_apart, "profile": profiled,
}  # fmt: skip


def _name_and_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text} is no NAME=VALUE")
    return name, value


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="run.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=COMMANDS, help="; ".join(f"{n}: {c.__doc__}" for n, c in COMMANDS.items()))
    parser.add_argument(
        "cases", nargs="*", metavar="CASE", help=f"of compare: {', '.join(CASES)}; of profile: {', '.join(SCANNED)}"
    )
    parser.add_argument("--size", type=float, default=1.0, help="of compare's files, 1 as the bars ask (default)")
    parser.add_argument("--turns", type=int, default=5, help="of each contender in compare (default %(default)s)")
    parser.add_argument("--list", action="store_true", help="print compare's cases and do nothing")
    parser.add_argument("--processes", type=int, default=7, help="of imports (default %(default)s)")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the file, 40 bytes each (default %(default)s)")
    parser.add_argument("--batches", type=int, default=150, help="record batches of the file (default %(default)s)")
    parser.add_argument("--compression", choices=("none", "lz4", "zstd"), default="none")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=["null", "arrowipc"])
    parser.add_argument("--pairs", type=int, default=5, help="turns of each contender (default %(default)s)")
    parser.add_argument("--warm-up", type=int, default=2, help="turns before those (default %(default)s)")
    parser.add_argument("--sink", choices=SINKS, default="noop")
    parser.add_argument("--validation", choices=("full", "structural"), default="full")
    parser.add_argument("--max-partition-bytes", default="128m", help="as the read option (default %(default)s)")
    parser.add_argument("--directory", type=Path, help="keeps the files for the next run; by default a temporary one")
    parser.add_argument("--json", type=Path, help="a file for every value")
    parser.add_argument(
        "--conf", type=_name_and_value, action="append", default=[], metavar="NAME=VALUE", help="of compare's session"
    )
    add_arguments(parser)
    arguments = parser.parse_intermixed_args(words)
    known = {"compare": CASES, "profile": SCANNED}.get(arguments.command, {})
    unknown = [name for name in arguments.cases if name not in known]
    if unknown:
        parser.error(f"there is no case {', '.join(unknown)} of {arguments.command}")
    return arguments


def main(words: Sequence[str]) -> None:
    """Run one command."""
    arguments = parse(words)
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as temporary:
        directory = arguments.directory or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        found = COMMANDS[arguments.command](arguments, directory)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=1, default=asdict))


if __name__ == "__main__":
    main(sys.argv[1:])
