"""SQL over tables of this format and over Parquet copies, in turns: CPU seconds of all processes, and equal answers.

A contender is a format and a setting: `pushed` and `plain` read this format, with and without push-down. Each has a session
of its own in one application, with views that are made once, as a person makes them; a view of this format is planned by
its first query. Every turn runs each query by each contender, one after the other, and every second turn in reversed order:
Spark keeps the compiled code of 100 stages for all sessions, and who runs a query second finds much of its code there.
Answers are compared in each turn: rows in any order, floats to nine digits.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from measure import Cost
    from pyspark.sql import SparkSession

FORMATS = {"pushed": "arrowipc", "plain": "arrowipc", "parquet": "parquet"}
_SETTING = "spark.arrowipc.pushDown"
_JOINS = re.compile(r"\b(BroadcastHashJoin|SortMergeJoin|ShuffledHashJoin|BroadcastNestedLoopJoin|CartesianProduct)\b")


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser of the arguments that all programs take."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument(
        "--folder", type=Path, required=True, help="where the data are, or are made if they are not there"
    )
    made.add_argument("--turns", type=int, default=6, help="an even number, so that each contender is first as often")
    made.add_argument("--contenders", nargs="+", choices=FORMATS, default=["pushed", "parquet"])
    made.add_argument("--queries", nargs="*", help="their names; all by default")
    made.add_argument("--json", type=Path, help="where the figures are written")
    return made


def session(push_down: bool = True) -> SparkSession:
    """Return a session with two cores, and with push-down."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    from spark_arrow_ipc import register

    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "6g"}
    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 4)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark, push_down=push_down)
    return spark


def write_copies(spark: SparkSession, folder: Path, tables: Iterable[str]) -> None:
    """Write the Parquet tables of a folder in this format beside them, with statistics, unless they are there."""
    for table in tables:
        if not (folder / "arrowipc" / table / "_SUCCESS").exists():
            frame = spark.read.parquet(str(folder / "parquet" / table))
            frame.write.format("arrowipc").mode("overwrite").option("statistics", "all").save(
                str(folder / "arrowipc" / table)
            )


def session_of(spark: SparkSession, folder: Path, tables: Iterable[str], contender: str) -> SparkSession:
    """Return a session in which the tables are views for one contender."""
    made = spark.newSession()
    made.conf.set("spark.sql.shuffle.partitions", 4)
    made.conf.set(_SETTING, str(contender == "pushed").lower())
    for table in tables:
        format_ = FORMATS[contender]
        made.read.format(format_).load(str(folder / format_ / table)).createOrReplaceTempView(table)
    return made


def run(spark: SparkSession, folder: Path, tables: Sequence[str], queries: Mapping[Any, str], chosen: Any) -> int:
    """Run queries by the contenders in turns, and print the figures; return 1 if an answer differs."""
    from measure import SparkProcesses

    names = [name for name in queries if not chosen.queries or str(name) in chosen.queries]
    if len(names) < len(chosen.queries or ()):
        raise SystemExit(f"the queries are {', '.join(map(str, queries))}, and not {', '.join(chosen.queries)}")
    costs: dict[Any, dict[str, list[Cost]]] = {name: {who: [] for who in chosen.contenders} for name in names}
    joins: dict[Any, dict[str, Counter[str]]] = {name: {} for name in names}
    different = []
    sessions = {who: session_of(spark, folder, tables, who) for who in chosen.contenders}
    with SparkProcesses(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()) as processes:
        for turn in range(chosen.turns):
            for name in names:
                answers = {}
                for who in chosen.contenders if turn % 2 == 0 else reversed(chosen.contenders):
                    with processes.cost() as cost:
                        frame = sessions[who].sql(queries[name])
                        rows = frame.collect()
                    costs[name][who] += cost
                    answers[who] = rows
                    plan = frame._jdf.queryExecution().executedPlan().toString().partition("\n+- == Initial Plan ==")[0]
                    joins[name][who] = Counter(_JOINS.findall(plan))
                if not all(are_equal(answer, answers[chosen.contenders[0]]) for answer in answers.values()):
                    different.append(name)
    report(costs, chosen.contenders)
    for name, by_contender in joins.items():
        if len({tuple(sorted(kinds.items())) for kinds in by_contender.values()}) > 1:
            shown = {who: dict(sorted(kinds.items())) for who, kinds in by_contender.items()}
            print(f"joins of {name}, those of subqueries twice: {shown}")
    print(f"answers that differ: {sorted(set(different), key=str) or 'none'} of {len(names)}")
    if chosen.json is not None:
        figures = {
            str(name): {who: [[cost.cpu, cost.wall, cost.worker] for cost in of] for who, of in by.items()}
            for name, by in costs.items()
        }
        chosen.json.write_text(json.dumps(figures))
    return 1 if different else 0


def are_equal(rows: Iterable[Sequence[Any]], others: Iterable[Sequence[Any]]) -> bool:
    """Return whether two answers have the same rows in any order; sums of floats depend on the order of rows."""
    (exact, floats), (other_exact, other_floats) = _sorted(rows), _sorted(others)
    return exact == other_exact and all(
        math.isclose(value, other, rel_tol=1e-9) or (math.isnan(value) and math.isnan(other))
        for value, other in zip(floats, other_floats, strict=True)
    )


def _sorted(rows: Iterable[Sequence[Any]]) -> tuple[list[str], list[float]]:
    """Return what is not a float of each row, sorted, and all floats in that order."""
    parted = []
    for row in rows:
        floats = [value for value in row if isinstance(value, float)]
        exact = repr([isinstance(value, float) or (value,) for value in row])
        parted.append((exact, [f"{value:.7g}" for value in floats], floats))
    parted.sort(key=lambda part: part[:2])
    return [exact for exact, *_ in parted], [value for *_, floats in parted for value in floats]


def report(costs: Mapping[Any, Mapping[str, Sequence[Cost]]], contenders: Sequence[str]) -> None:
    """Print CPU seconds of each query, least and median, and the ratios of the first contender to the last."""
    print("CPU seconds of all processes, least (median); the ratio of the first to the last, by the least")
    print("  ".join(["query".ljust(10), *(who.rjust(16) for who in contenders), "ratio"]))
    least = {name: {who: min(cost.cpu for cost in by[who]) for who in contenders} for name, by in costs.items()}
    ratios = {name: by[contenders[0]] / by[contenders[-1]] for name, by in least.items()}
    for name in sorted(ratios, key=lambda name: -ratios[name]):  # losses first
        by = costs[name]
        shown = (f"{least[name][who]:8.2f} ({median(cost.cpu for cost in by[who]):5.2f})" for who in contenders)
        print("  ".join([str(name).ljust(10), *shown, f"{ratios[name]:5.2f}"]))
    total = {who: sum(by[who] for by in least.values()) for who in contenders}
    wall = {who: sum(min(cost.wall for cost in by[who]) for by in costs.values()) for who in contenders}
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    worst = max(ratios, key=lambda name: ratios[name])
    print(f"total: {total[contenders[0]] / total[contenders[-1]]:.2f} ({dict_text(total)}; wall {dict_text(wall)})")
    print(f"geometric mean: {mean:.2f}; worst: {ratios[worst]:.2f} ({worst})")


def dict_text(values: Mapping[str, float]) -> str:
    """Return numbers by name as text."""
    return ", ".join(f"{name} {value:.1f} s" for name, value in values.items())


def made_by(program: Sequence[str], install: str) -> None:
    """Run a program that makes data; say what to install where it is absent."""
    try:
        subprocess.run(program, check=True)
    except FileNotFoundError:
        raise SystemExit(f"{program[0]} is not installed: {install}") from None
