"""A rewrite in one worker, beside the same through Spark's rows, and from Parquet to Parquet.

Strategy
--------
All contenders run in one Spark session in turns, A B C A B C, after turns that do not count, as in ``functions.py``. Each writes
the same rows from the same files, compressed with zstd, and makes them durable: our own writers call ``fsync``, and after
Spark's Parquet writer, which does not, each of its files is synced. Before the turns the results are compared: the number
of rows, and sums over all columns. CPU is that of the JVM, the workers, the planners and the program's own process, which
plans and commits a rewrite.

Run it by::

    python benchmarks/rewrites.py --rows 10000000 --turns 5 --directory build/benchmarks
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from functions import BYTES, LARGEST, Case, Lake, make_files, print_costs, sales
from measure import Cost, SparkProcesses
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from run import session

from spark_arrow_ipc import rewrite

Write: TypeAlias = Callable[[str], object]
"""Writes the rows of a case into a directory that does not exist."""

SORTED: Final = ["k", "id"]


def _durable(target: str) -> None:
    """Sync the files of a directory and their names, as our writers do."""
    for path in [*Path(target).rglob("*.parquet"), Path(target)]:
        number = os.open(path, os.O_RDONLY)
        os.fsync(number)
        os.close(number)


def _parquet(lake: Lake, target: str, *, sort: bool = False) -> None:
    frame = lake.spark.read.parquet(lake.parquet)
    frame = frame.sortWithinPartitions(*SORTED) if sort else frame
    frame.write.option("compression", "zstd").parquet(target)
    _durable(target)


def _through_spark(lake: Lake, target: str, *, sort: bool = False) -> None:
    frame = lake.ipc()
    frame = frame.sortWithinPartitions(*SORTED) if sort else frame
    frame.write.format("arrowipc").option("compression", "zstd").mode("append").save(target)


def _copies(lake: Lake) -> Mapping[str, Write]:
    return {
        "rewrite": lambda target: rewrite(lake.spark, lake.arrow, target, compression="zstd"),
        "arrowipc load + save": lambda target: _through_spark(lake, target),
        "parquet to parquet": lambda target: _parquet(lake, target),
    }


def _sorts(lake: Lake) -> Mapping[str, Write]:
    return {
        "rewrite, sort_by": lambda target: rewrite(
            lake.spark, lake.arrow, target, compression="zstd", sort_by=SORTED, sort_bytes="1g"
        ),
        "arrowipc load + sort + save": lambda target: _through_spark(lake, target, sort=True),
        "parquet to parquet, sorted": lambda target: _parquet(lake, target, sort=True),
    }


CASES: Final[Mapping[str, Callable[[Lake], Mapping[str, Write]]]] = {"copy": _copies, "sort": _sorts}


def summary(lake: Lake, target: str) -> tuple[object, ...]:
    """Return what is compared of the rows that were written."""
    is_parquet = any(Path(target).rglob("*.parquet"))
    frame: DataFrame = lake.spark.read.format("parquet" if is_parquet else "arrowipc").load(target)
    sums = [f.sum("id"), f.sum("k"), f.sum("amount"), f.sum(f.crc32("name")), f.sum(f.unix_seconds("at"))]
    return tuple(frame.agg(f.count("*"), *sums).first())


def run(spark: SparkSession, name: str, rows: int, turns: int, directory: Path) -> None:
    """Run one case and print its table."""
    lake = Lake(spark, *make_files(Case(sales, lambda _: {}), rows, directory))
    contenders = CASES[name](lake)
    target = str(directory / "written")
    answers = {}
    for contender, write in contenders.items():
        shutil.rmtree(target, ignore_errors=True)
        write(target)
        answers[contender] = summary(lake, target)
    if len({*answers.values()}) > 1:
        raise SystemExit(f"{name}: the contenders wrote other rows: {answers}")
    costs: dict[str, list[Cost]] = {contender: [] for contender in contenders}
    jvm_pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    with SparkProcesses(jvm_pid) as processes:
        for turn in range(-1, turns):
            for contender, write in contenders.items():
                shutil.rmtree(target, ignore_errors=True)
                before = time.process_time()
                with processes.cost() as found:
                    write(target)
                    own = time.process_time() - before
                if turn >= 0:
                    costs[contender].append(replace(found[0], planner=found[0].planner + own))
    shutil.rmtree(target, ignore_errors=True)
    print_costs(name, rows, turns, costs)


def main() -> None:
    """Run the cases that are named, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--rows", type=int, default=10_000_000, help="default %(default)s")
    parser.add_argument("--turns", type=int, default=5, help="of each contender (default %(default)s)")
    parser.add_argument("--directory", type=Path, default=Path("build/benchmarks"), help="keeps the files")
    given = parser.parse_args()
    with session(reuses_workers=True, conf={BYTES: LARGEST, "spark.driver.memory": "3g"}) as spark:
        for name in given.cases or CASES:
            run(spark, name, given.rows, given.turns, given.directory)


if __name__ == "__main__":
    main()
