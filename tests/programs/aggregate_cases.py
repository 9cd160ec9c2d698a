"""Random aggregates of random tables by `spark_arrow_ipc.aggregate`, and Spark's own answers to them.

A table has the columns of `where_cases`, with a collated string, floats whose NaNs differ in their bits, and nested types
beside them, in several files and record batches, some of which have statistics. Each aggregate is a function of a column under some keys. It is refused, or
its values and types are Spark's. Several with the same keys are one query. Half of the tables run under ANSI mode.

The one difference that is allowed is Spark's: where a sum fits and numbers on the way to it do not, Spark raises an error or
answers null, depending on the order of the rows. Then the sum must be that of Python's integers.

The long run, six minutes: ``python tests/programs/aggregate_cases.py --count 2000`` (needs a JVM; ``--seed`` for other ones).
"""

import argparse
import logging
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

import arrow_files
import numpy as np
import pyarrow as pa
import where_cases
from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from statistics_cases import write_described

from spark_arrow_ipc import aggregate
from spark_arrow_ipc.errors import AggregateError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.functions.aggregate import plan_aggregate

ROWS = 600
A_QUERY = 6
QUERIES_A_TABLE = 12
FUNCTIONS = ["count", "min", "min", "max", "max", "sum", "sum", "sum", "avg"]
WHERES = ["small > 1 OR small IS NULL", "small >= 0", "p = 2", "`all null` IS NULL", "moderate > 0"]
"""Some match whole record batches by their statistics."""

ANSI = "spark.sql.ansi.enabled"


@dataclass
class Coverage:
    """What a run has met."""

    aggregates: int = 0
    refused: int = 0
    queries: int = 0
    errors: int = 0
    exact: int = 0
    with_keys: int = 0
    met: Counter = field(default_factory=Counter)


def payloads(r, n):
    """Doubles among which are NaNs of several payloads and both zeros."""
    bits = [0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000, 0x8000000000000000, 0, 0x3FF0000000000000]
    return pa.array(np.array([r.choice(bits) for _ in range(n)], np.uint64).view(np.float64))


def moderate(r, n):
    """Whole numbers whose sums overflow only in some groups, if at all."""
    most = r.choice([2**40, 2**61, 2**62])
    return pa.array([where_cases.maybe(r, lambda r: r.randint(-most, most)) for _ in range(n)], pa.int64())


def make_table(r):
    """Return a table of all types; its column names are those of `where_cases`, and some more."""
    arrays, fields = [], []
    for kind, makers in where_cases.COLUMNS.items():
        make = r.choice(makers)
        array = make(r, ROWS)
        metadata = {"ARROW:extension:name": "arrow.uuid"} if make is where_cases.uuids else None
        arrays.append(array)
        fields.append(pa.field(where_cases.NAMES[kind], array.type, metadata=metadata))
    more = {
        "bits": payloads(r, ROWS),
        "moderate": moderate(r, ROWS),
        "small": pa.array([where_cases.maybe(r, lambda r: r.randint(0, 4)) for _ in range(ROWS)], pa.int32()),
        "all null": pa.nulls(ROWS, pa.int64()),
        "list": pa.array([where_cases.maybe(r, lambda r: [r.randint(0, 9)]) for _ in range(ROWS)], pa.list_(pa.int64())),
        "struct": pa.array([where_cases.maybe(r, lambda r: {"x": r.randint(0, 9)}) for _ in range(ROWS)], pa.struct([("x", pa.int64())])),
        "nothing": pa.nulls(ROWS),
    }  # fmt: skip
    collated = pa.array([r.choice(["a", "A", "b", None]) for _ in range(ROWS)])
    arrays += [*more.values(), collated]
    fields += [pa.field(name, array.type) for name, array in more.items()]
    fields.append(pa.field("collated", pa.string()))
    return pa.Table.from_batches([pa.record_batch(arrays, schema=pa.schema(fields))])


def write_table(table, folder, r):
    """Write a table into partitions, files and record batches; its rows are out of order in Spark already."""
    cut = r.randint(1, ROWS - 1)
    parts = [("p=1", table.slice(0, cut)), ("p=2", table.slice(cut)), ("p=2", table.slice(0, 0))]
    for i, (partition, part) in enumerate(parts):
        path, most = folder / partition / f"{i}.arrow", r.choice([7, 100, ROWS])
        if part.num_rows and r.random() < 0.5:
            path.parent.mkdir(parents=True, exist_ok=True)
            batches = [bridge.batch_from_pyarrow(batch) for batch in part.to_batches(max_chunksize=most)]
            write_described(str(path), batches, batches[0].schema)
        else:
            arrow_files.write(path, part, rows=most)
    # Record batches, and no rows.
    (folder / "p=3").mkdir(exist_ok=True)
    with pa.ipc.new_file(str(folder / "p=3" / "none.arrow"), table.schema) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist([], table.schema))


def quoted(name):
    return "`" + name.replace("`", "``") + "`"


def make_aggregate(r, names):
    function = r.choice(FUNCTIONS)
    if function == "count" and r.random() < 0.3:
        return "count(*)"
    return f"{function}({quoted(r.choice(names))})"


def value(of):
    """A value as text in which NaN is equal to NaN, and 0.0 is not -0.0."""
    return repr(of)


def rows(frame):
    return Counter(tuple(map(value, row)) for row in frame.collect())


def outcome(make):
    """Return the schema and rows of a frame, or the error's condition."""
    try:
        frame = make()
        return frame.schema, rows(frame)
    except PySparkException as error:
        return error.getCondition() or str(error)[:200], None


def run(spark, count, seed):
    """Try aggregates; return what was covered, and a text for each difference."""
    r = random.Random(seed)
    covered, wrong = Coverage(), []
    while covered.aggregates < count:
        folder = Path(tempfile.mkdtemp(prefix="aggregates"))
        table = make_table(r)
        write_table(table, folder, r)
        ansi = r.random() < 0.5
        spark.conf.set(ANSI, str(ansi).lower())
        try:
            frame = spark.read.format("arrowipc").load(str(folder))
            for _ in range(QUERIES_A_TABLE):
                if covered.aggregates < count:
                    one_query(spark, frame, folder, r, covered, wrong)
        finally:
            spark.conf.unset(ANSI)
            shutil.rmtree(folder)
    return covered, wrong


def one_query(spark, frame, folder, r, covered, wrong):
    names = frame.columns
    keys = (
        r.sample(names, r.choice([0, 0, 1, 1, 1, 2]))
        if r.random() < 0.7
        else r.sample(["small", "p", "bits"], r.randint(0, 2))
    )
    texts = [make_aggregate(r, names) for _ in range(A_QUERY)]
    kept = []
    for text in texts:
        covered.aggregates += 1
        covered.with_keys += bool(keys)
        try:
            plan_aggregate(frame.schema, keys, {"a": text}, folder)
            kept.append(text)
            covered.met[text.partition("(")[0], type_of(frame, text)] += 1
        except AggregateError:
            covered.refused += 1
    if not kept:
        return
    covered.queries += 1
    options = {"where": r.choice(WHERES)} if r.random() < 0.4 else {}
    told = compare(spark, folder, keys, kept, options)
    if told is not None and isinstance(told[0][0], str) | isinstance(told[1][0], str) and len(kept) > 1:
        # An overflow: each on its own.
        covered.errors += 1
        for text in kept:
            judge(spark, folder, keys, [text], options, compare(spark, folder, keys, [text], options), covered, wrong)
    else:
        judge(spark, folder, keys, kept, options, told, covered, wrong)


def compare(spark, folder, keys, texts, options):
    """Return both outcomes if they differ, or are errors."""
    named = {f"a{i}": text for i, text in enumerate(texts)}
    theirs = outcome(
        lambda: (
            spark.read.format("arrowipc").options(**options).load(str(folder))
            .groupBy(*map(quoted, keys)).agg(*(f.expr(text).alias(name) for name, text in named.items()))
        )
    )  # fmt: skip
    ours = outcome(lambda: aggregate(spark, folder, group_by=keys, aggregates=named, **options))
    return None if ours == theirs and ours[1] is not None else (ours, theirs)


OVERFLOWS = ("ARITHMETIC_OVERFLOW", "CAST_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE")


def judge(spark, folder, keys, texts, options, told, covered, wrong):
    if told is None:
        return
    ours, theirs = told
    if ours[1] is None and theirs[1] is None and ours[0].startswith(OVERFLOWS) and theirs[0].startswith(OVERFLOWS):
        covered.errors += 1
    elif (
        len(texts) == 1
        and texts[0].startswith("sum")
        and ours[1] is not None
        and is_exact(spark, folder, keys, texts[0], options, ours, theirs)
    ):
        covered.exact += 1
    else:
        wrong.append(f"{texts} by {keys} with {options}: {ours} and Spark's {theirs}")


def is_exact(spark, folder, keys, text, options, ours, theirs):
    """Return True if Spark overflowed on the way to sums that fit, and ours are those of Python's integers."""
    names = list(keys)
    wanted = (
        spark.read.format("arrowipc")
        .options(**options)
        .load(str(folder))
        .selectExpr(*map(quoted, keys), f"{text[4:-1]} AS v")
    )
    totals = {}
    for row in wanted.collect():
        key = tuple(value(each + 0.0 if isinstance(each, float) else each) for each in row[:-1])
        totals.setdefault(key, []).append(row[-1])
    for row in ours[1]:
        values = [each for each in totals[tuple(row[: len(names)])] if each is not None]
        if row[-1] != value(where_cases.EXACT.create_decimal(0) + sum(values, start=values[0] * 0) if values else None):
            exact = repr(sum_of(values))
            if row[-1] != exact:
                return False
    return theirs[1] is None or all("None" in row[-1] for row in theirs[1] - ours[1])


def sum_of(values):
    if not values:
        return None
    if isinstance(values[0], int):
        return sum(values)
    total = where_cases.EXACT.create_decimal(0)
    for each in values:
        total = where_cases.EXACT.add(total, each)
    return total


def type_of(frame, text):
    name = text.partition("(")[2][:-1].strip("`")
    return "rows" if name == "*" else frame.schema[name].dataType.simpleString().partition("(")[0]


def main():
    parser = argparse.ArgumentParser(description="Random aggregates against Spark's own.")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    root = str(Path(__file__).parents[2])
    os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2").config("spark.sql.session.timeZone", where_cases.ZONE).getOrCreate()
    )  # fmt: skip
    spark.sparkContext.setLogLevel("OFF")
    logging.getLogger("SQLQueryContextLogger").disabled = True
    covered, wrong = run(spark, given.count, given.seed)
    spark.stop()
    print(
        f"{covered.aggregates:,} aggregates, {covered.refused:,} refused, {covered.queries:,} queries, {covered.with_keys:,} with keys,"
    )
    print(
        f"{covered.errors:,} overflows in both, {covered.exact:,} sums that fit where Spark overflowed on the way, {len(wrong):,} different"
    )
    for (function, type_), times in sorted(covered.met.items()):
        print(f"  {times:5,} {function}({type_})")
    for text in wrong:
        print(text)
    return 1 if wrong or not covered.errors else 0


if __name__ == "__main__":
    sys.exit(main())
