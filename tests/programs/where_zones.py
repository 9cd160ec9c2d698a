"""Literals of `where` in every time zone, and what Spark makes of them.

Spark asks the JVM's tables of time zones, `where` asks Python's. For each zone that both know there are literals at
each change of the zone's offset since 1850 (by either table, with a second before and after) and one a decade, and
rows around the instants that they may mean. Each comparison has to keep the rows that Spark keeps, alone and by the
bounds of each row; only literals of which `time_zones.is_certain` is false are refused, and all of them are.

The long run, ten minutes: ``python tests/programs/where_zones.py`` (needs a JVM; ``--zones N`` for every N-th zone alone). It
prints what was covered and fails where an answer differs.
"""

import argparse
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

import pyarrow as pa

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset import time_zones
from spark_arrow_ipc.dataset.predicate.bind import bind
from spark_arrow_ipc.dataset.predicate.parser import parse
from spark_arrow_ipc.dataset.predicate.prune import Summary, keeps
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.read.row_filter import compile_filter

EPOCH = datetime(1970, 1, 1)
FIRST_YEAR, LAST_YEAR = 1850, 2040
DAY = 86_400
FIELDS = (t.field("ts", t.Timestamp(t.TimeUnit.MICROSECOND, "UTC")), t.field("row", t.int32))
OPERATORS = (">=", "=", "<")


@dataclass
class Coverage:
    """What a run has met."""

    zones: int = 0
    literals: int = 0
    answered: int = 0
    refused: int = 0


def shared_zones(spark):
    """Return the zones that Python and Spark's JVM know."""
    jvm = set(spark._jvm.java.time.ZoneId.getAvailableZoneIds())
    return sorted(name for name in available_timezones() & jvm if is_known(name))


def is_known(name):
    try:
        time_zones.zone(name)
    except OptionError:
        return False
    return True


def jvm_changes(spark, name):
    """Return the local times of the offset's changes by the JVM's table, as seconds since 1970."""
    rules = spark._jvm.java.time.ZoneId.of(name).getRules()
    utc = spark._jvm.java.time.ZoneOffset.UTC
    return [
        side.toEpochSecond(utc)
        for change in rules.getTransitions()
        for side in (change.getDateTimeBefore(), change.getDateTimeAfter())
    ]


def python_changes(name):
    """Return the same by Python's table: every day whose offset differs from the day before, bisected."""
    zone = ZoneInfo(name)

    def offset(second):
        return (EPOCH + timedelta(seconds=second)).replace(tzinfo=UTC).astimezone(zone).utcoffset()

    found = []
    first = int((datetime(FIRST_YEAR, 1, 1) - EPOCH).total_seconds())
    last = int((datetime(LAST_YEAR, 1, 1) - EPOCH).total_seconds())
    for start in range(first, last, 20 * DAY):
        low, high = start, start + 20 * DAY
        if offset(low) == offset(high):
            continue
        before, after = offset(low), offset(high)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(middle) == before else (low, middle)
        found += [high + int(side.total_seconds()) for side in (before, after)]
    return found


def literals(spark, name):
    """Return the local times to ask for, as seconds since 1970."""
    changes = {second + beside for second in jvm_changes(spark, name) + python_changes(name) for beside in (-1, 0, 1)}
    decades = {int((datetime(year, 1, 1) - EPOCH).total_seconds()) for year in range(FIRST_YEAR, LAST_YEAR + 1, 10)}
    noons = {int((datetime(year, 7, 1, 12) - EPOCH).total_seconds()) for year in range(FIRST_YEAR + 5, LAST_YEAR, 10)}
    first = int((datetime(FIRST_YEAR, 1, 1) - EPOCH).total_seconds())
    return sorted(second for second in changes | decades | noons if second >= first)


def written(second):
    return f"TIMESTAMP '{EPOCH + timedelta(seconds=second)}'"


def asked_instants(spark, seconds):
    """Return the instants that Spark reads literals as, in the session's time zone; in microseconds."""
    row = spark.sql(f"SELECT array({', '.join(f'unix_micros({written(second)})' for second in seconds)})").first()
    return row[0]


@contextmanager
def session_zone(spark, name):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", name)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def compare(spark, name, seconds, coverage):
    """Return the differences of one zone in words."""
    zone = time_zones.zone(name)
    differences = []
    with session_zone(spark, name):
        instants = asked_instants(spark, seconds)
    for second, instant in zip(seconds, instants, strict=True):
        ours = (EPOCH + timedelta(seconds=second)).replace(tzinfo=zone).astimezone(UTC).replace(tzinfo=None) - EPOCH
        near = {about + beside for about in (instant, ours // timedelta(microseconds=1)) for beside in (-1, 0, 1)}
        rows = sorted(near | {instant - 2 * DAY * 10**6, instant + 2 * DAY * 10**6})
        is_certain = time_zones.is_certain(EPOCH + timedelta(seconds=second), zone)
        coverage.literals += 1
        for operator in OPERATORS:
            try:
                bound = bind(parse(f"ts {operator} {written(second)}"), FIELDS, zone)
            except OptionError as error:
                coverage.refused += 1
                if is_certain:
                    differences.append(f"{name}: {operator} {written(second)}: {error}")
                continue
            expected = [truth(operator, value, instant) for value in rows]
            pruned = [keeps(bound, lambda _, value=value: Summary(value, value, may_be_null=False)) for value in rows]
            if not is_certain:
                differences.append(f"{name}: {operator} {written(second)}: not refused")
            if expected != pruned:
                differences.append(f"{name}: {operator} {written(second)}: skipped or kept")
            coverage.answered += 1
            if kept_rows(bound, rows) != [i for i, truth_ in enumerate(expected) if truth_]:
                differences.append(f"{name}: {operator} {written(second)}: Spark reads {instant}")
    coverage.zones += 1
    return differences


def truth(operator, value, instant):
    return {">=": value >= instant, "=": value == instant, "<": value < instant}[operator]


def kept_rows(bound, values):
    batch = pa.record_batch(
        {"ts": pa.array(values, pa.timestamp("us", "UTC")), "row": pa.array(range(len(values)), pa.int32())}
    )
    kept = compile_filter(bound, batch.schema).filter(batch)
    return [] if kept is None else kept.column("row").to_pylist()


def filtered(spark, name, seconds):
    """Return what Spark's own filter says, where `compare` took its reading of the literal: a check of the check."""
    with session_zone(spark, name):
        return filtered_in_session(spark, seconds)


def filtered_in_session(spark, seconds):
    instants = asked_instants(spark, seconds)
    frame = spark.createDataFrame([(value,) for value in instants], "micros long").selectExpr(
        "timestamp_micros(micros) ts"
    )
    truths = frame.selectExpr(*(f"ts >= {written(second)}" for second in seconds)).collect()
    return [[value >= instant for instant in instants] for value in instants] == [list(row) for row in truths]


def run(spark, names, coverage, step=1):
    """Compare each `step`-th literal of some zones; returns the differences in words."""
    return [one for name in names for one in compare(spark, name, literals(spark, name)[::step], coverage)]


def session():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zones", type=int, default=1)
    arguments = parser.parse_args()
    spark, coverage = session(), Coverage()
    names = shared_zones(spark)[:: arguments.zones]
    differences = run(spark, names, coverage)
    sample = literals(spark, "Europe/Amsterdam")[:40]
    if not filtered(spark, "Europe/Amsterdam", sample):
        differences.append("Spark's filter and its reading of a literal differ")
    print(f"{coverage.zones} zones, {coverage.literals:,} literals, {len(differences):,} differences")
    print(f"{coverage.answered:,} answers, {coverage.refused:,} refused")
    print(*differences[:50], sep="\n")
    return 1 if differences or not coverage.refused or not coverage.answered else 0


if __name__ == "__main__":
    sys.exit(main())
