"""`compare`: the contenders of each case take turns in one session, and their figures are printed beside the bars."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bars import Bar, Figures
from bench import Bench
from cases import CASES, FIXED, Case
from jobs import PUBLISHED, Contender, Job, imports
from measure import Cost, SparkProcesses
from pyspark.sql import SparkSession

_TIMES = ("wall", "jvm", "worker", "planner", "cpu")
_HEADS = ("wall s", "JVM CPU s", "worker CPU s", "planner CPU s", "all CPU s")
_MIB = 1 << 20
_PACKAGES = ("spark-arrow-ipc", "pyspark", "pyarrow", "numpy", "pyspark-data-sources")

FIXED_NAME = "fixed"


def machine() -> Mapping[str, str]:
    """Return what the figures depend on."""
    processors = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    facts = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": f"{len(processors)} x {processors[0] if processors else platform.machine()}",
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "python": platform.python_version(),
    }
    for name in _PACKAGES:
        try:
            facts[name] = version(name)
        except PackageNotFoundError:
            facts[name] = "absent"
    return facts


def compare(
    spark: SparkSession, directory: Path, names: Sequence[str], *, size: float, turns: int, warm_up: int
) -> dict[str, object]:
    """Run cases, print their figures, and return every value; what could not run is in it too."""
    if imports(PUBLISHED):
        spark.dataSource.register(import_module(PUBLISHED).ArrowDataSource)
    bench = Bench(spark, directory, size)
    about = machine()
    print("; ".join(f"{name} {value}" for name, value in about.items()))
    if size != 1:
        print(f"size {size:g}: the bars are for size 1, and say little here")
    found: dict[str, object] = {"machine": about, "size": size}
    jvm_pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    with SparkProcesses(jvm_pid) as processes:
        for name, case in {FIXED_NAME: FIXED, **{name: CASES[name] for name in names}}.items():
            print(f"\n== {name}: {case.what}", flush=True)
            costs, unable = _take_turns(bench, processes, case, max(turns, case.turns) if size == 1 else turns, warm_up)
            figures = Figures(bench, costs)
            _print_costs(figures)
            for contender, why in unable.items():
                print(f"{contender}: {why}")
            found[name] = {
                "costs": {contender: [asdict(cost) for cost in values] for contender, values in costs.items()},
                "unable": unable,
                "bars": [_judge(bar, figures) for bar in case.bars],
            }
    return found


def failures(found: Mapping[str, object]) -> list[str]:
    """Return who of `compare` raised an error where it should have run, and why."""
    return [
        f"{name}, {contender}: {why}"
        for name, values in found.items()
        if isinstance(values, dict)
        for contender, why in values.get("unable", {}).items()
        if why.startswith(_FAILED)
    ]


_ABSENT, _FAILED = "absent: ", "failed: "


def _take_turns(
    bench: Bench, processes: SparkProcesses, case: Case, turns: int, warm_up: int
) -> tuple[dict[str, list[Cost]], dict[str, str]]:
    """Return what each turn cost, by contender, and why others had none."""
    costs: dict[str, list[Cost]] = {}
    unable: dict[str, str] = {}
    jobs: dict[str, Job] = {}
    for contender in case.contenders:
        absence = contender.absence()
        if absence is not None:
            unable[contender.name] = _ABSENT + absence
        else:
            _try(contender, lambda contender=contender: jobs.update({contender.name: contender.ready(bench)}), unable)
    for turn in range(-warm_up, turns):
        for contender in case.contenders:
            name = contender.name
            if name not in unable:
                measured: list[Cost] = []
                _try(contender, lambda name=name, measured=measured: _measure(processes, jobs[name], measured), unable)
                bench.clear()
                if turn >= 0:
                    costs.setdefault(name, []).extend(measured)
    return {name: values for name, values in costs.items() if name not in unable}, unable


def _measure(processes: SparkProcesses, job: Job, measured: list[Cost]) -> None:
    with processes.cost() as found:
        job()
    measured += found


def _try(contender: Contender, step: Job, unable: dict[str, str]) -> None:
    """Take a step; a contender that fails leaves the others their turns."""
    try:
        step()
    except Exception as error:  # noqa: BLE001 - whatever a foreign source raises is its result
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
        unable[contender.name] = f"{_FAILED}{type(error).__name__}: {lines[0]} ... {lines[-1]}"
        print(f"{contender.name}: {type(error).__name__}: {error}", file=sys.stderr)


def _print_costs(figures: Figures) -> None:
    """Print medians and, in brackets, minima; of memory, the largest peak; and the first contender's ratio to each."""
    costs = figures.costs
    if not costs:
        return
    first = next(iter(costs))
    width = max(len("median (least)"), *map(len, costs)) + 2
    heads = [*(f"{head:>15}" for head in _HEADS), f"{'peak MiB':>10}{'anon MiB':>10}{'read MB':>10}"]
    print(f"{'median (least)':<{width}}{''.join(heads)}   {first} to it: CPU, wall")
    for name, turns in costs.items():
        cells = [f"{figures.middle(name, of):.2f} ({min(getattr(cost, of) for cost in turns):.2f})" for of in _TIMES]
        peak, anonymous = (max(getattr(c, of) for c in turns) / _MIB for of in ("peak_nbytes", "peak_anonymous_nbytes"))
        megabytes = figures.middle(name, "read_nbytes") / 1e6
        ratios = [figures.ratio(first, name, of) for of in ("cpu", "wall")]
        print(f"{name:<{width}}{''.join(f'{cell:>15}' for cell in cells)}", end="")
        print(f"{peak:>10.0f}{anonymous:>10.0f}{megabytes:>10.1f}   {ratios[0]:>6.2f} {ratios[1]:>6.2f}")


def _judge(bar: Bar, figures: Figures) -> dict[str, object]:
    """Print one bar and return what was found."""
    words = f"issue {bar.issue}: {bar.what}"
    missing = bar.missing(figures)
    if missing:
        print(f"{words}: {bar.bound()}: not measured, {', '.join(missing)} took no part")
        return {"what": bar.what, "issue": bar.issue, "found": None, "bar": bar.bound(), "kept": None}
    found = bar.found(figures)
    kept = bar.keeps(found)
    beside = bar.beside(figures)
    verdict = "kept" if kept else "MISSED"
    print(f"{words}: {found:.3g}, {bar.bound()}: {verdict}{f' ({beside})' if beside else ''}")
    return {"what": bar.what, "issue": bar.issue, "found": found, "bar": bar.bound(), "kept": kept, "beside": beside}


def print_cases() -> None:
    """Print the table of cases, with their contenders and bars."""
    print("| case | what | contenders | bars |\n|---|---|---|---|")
    for name, case in CASES.items():
        print(
            f"| `{name}` | {case.what} | {', '.join(c.name for c in case.contenders)} | {_bars_in_words(case.bars)} |"
        )


def _bars_in_words(bars: Iterable[Bar]) -> str:
    return "; ".join(f"{bar.what}: {bar.bound()} (issue {bar.issue})" for bar in bars)
