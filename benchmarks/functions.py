"""Functions and aggregates where the data are decoded, beside all other ways to the same answer.

Strategy
--------
All contenders of a case run in one Spark session in turns, A B C A B C, after turns that do not count. Before that, each gives
its answer once, and all answers must be equal. Printed are medians and, in brackets, least values of wall and CPU seconds, the
ratio of each contender's CPU to the first one's (of medians, and of least values), and the largest worker.

Run it by::

    python benchmarks/functions.py group filter --rows 10000000 --directory build/benchmarks

Without the names of cases it runs all of them, which takes half an hour on two idle cores.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TypeAlias

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

import numpy as np  # noqa: E402 - found by the path above
import pandas as pd  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.compute as pc  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from measure import Cost, SparkProcesses  # noqa: E402
from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from pyspark.sql import functions as f  # noqa: E402
from pyspark.sql import types as s  # noqa: E402
from run import session  # noqa: E402 - Spark's processes find what this sets

from spark_arrow_ipc import aggregate, count, ipc, map_in_arrow, vectors  # noqa: E402
from spark_arrow_ipc.dataset.statistics import Statistics  # noqa: E402
from spark_arrow_ipc.dataset.statistics.collect import create_with_statistics  # noqa: E402
from spark_arrow_ipc.spark import bridge  # noqa: E402

FILES = 4
BATCH_ROWS = 65_536
SIZE = 256
"""Numbers of an embedding."""

BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
LARGEST = "2147483647"
_MIB = 1 << 20

Batches: TypeAlias = Iterator[pa.RecordBatch]
Answer: TypeAlias = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Lake:
    """The files of a run, in both formats.

    Parameters
    ----------
    spark
        The session.
    arrow, parquet
        Their directories.
    """

    spark: SparkSession
    arrow: str
    parquet: str

    def ipc(self, **options: object) -> DataFrame:
        """Load the Arrow files."""
        return self.spark.read.format("arrowipc").options(**options).load(self.arrow)


@dataclass(frozen=True, slots=True)
class Case:
    """One question, and who answers it.

    Parameters
    ----------
    table
        Makes `rows` rows of a file from row `first` on.
    contenders
        By name, the answer; each must be equal. The first is what the others are compared with.
    share
        Of the rows of the run.
    files
        Number of files.
    is_linked
        Whether all files are names of one, which has the rows of the case.
    noop
        Whether rows are made and dropped, where an answer is a DataFrame; else they are collected.
    settings
        By contender: settings of the session while it runs.
    """

    table: Callable[[int, int], pa.Table]
    contenders: Callable[[Lake], Mapping[str, Answer]]
    share: float = 1.0
    files: int = FILES
    is_linked: bool = False
    noop: bool = False
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def sales(first: int, rows: int) -> pa.Table:
    """Return five columns of the usual types, sorted by the first."""
    number = np.arange(first, first + rows)
    rng = np.random.default_rng(first)
    return pa.table({
        "id": number,
        "k": rng.integers(0, 100, rows, dtype=np.int32),
        "amount": pa.array(rng.integers(0, 10**6, rows)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 0)),
        "name": pa.array(np.char.add("customer ", (number % 1000).astype(str))),
        "at": pa.array(number * 1_000_000, pa.timestamp("us", "UTC")),
    })  # fmt: skip


def embeddings(first: int, rows: int) -> pa.Table:
    """Return unit vectors of `SIZE` floats."""
    made = np.random.default_rng(first).standard_normal((rows, SIZE), np.float32)
    return pa.table({
        "id": np.arange(first, first + rows),
        "v": pa.FixedSizeListArray.from_arrays(pa.array(made.reshape(-1)), SIZE),
    })  # fmt: skip


WORDS = ["  Spark ", "ARROW", "<b>IPC</b>", "data\tsource", "  ", "Python 3", "é à ü", "the quick brown fox"]


def texts(first: int, rows: int) -> pa.Table:
    """Return short texts with what has to be cleaned."""
    picks = np.random.default_rng(first).integers(0, len(WORDS), (rows, 6))
    words = pa.array(WORDS)
    parts = [words.take(pa.array(column)) for column in picks.T]
    return pa.table({"id": np.arange(first, first + rows), "text": pc.binary_join_element_wise(*parts, " ")})


# ---- functions


def some(batches: Batches) -> Batches:
    """Keep 16 % of the rows and three columns."""
    for batch in batches:
        yield batch.filter(pc.less(batch["k"], 16)).select(["id", "k", "name"])


def groups(batches: Batches) -> Batches:
    """Group a task's rows."""
    whole = pa.Table.from_batches(list(batches)).select(["k", "amount", "id"])
    made = whole.group_by("k", use_threads=False).aggregate([("amount", "sum"), ("id", "max"), ("id", "count")])
    yield from made.select(["k", "amount_sum", "id_max", "id_count"]).combine_chunks().to_batches()


def groups_of(frame: DataFrame) -> DataFrame:
    return frame.groupBy("k").agg(f.sum("amount_sum"), f.max("id_max"), f.sum("id_count"))


GROUPS = "k int, amount_sum decimal(38,0), id_max bigint, id_count bigint"
QUERY = np.random.default_rng(7).standard_normal(SIZE).astype(np.float32)


def best_of(ids: np.ndarray, scores: np.ndarray) -> pa.RecordBatch:
    best = np.argpartition(scores, -10)[-10:] if len(scores) > 10 else np.arange(len(scores))
    return pa.record_batch({"id": ids[best], "score": scores[best].astype(np.float64)})


def dots(batches: Batches) -> Batches:
    """Yield the ten best of each batch."""
    for batch in batches:
        rows = batch["v"].flatten().to_numpy().reshape(-1, SIZE)
        yield best_of(batch["id"].to_numpy(), rows @ QUERY)


def binary_dots(batches: Batches) -> Batches:
    for batch in batches:
        yield best_of(batch["id"].to_numpy(), vectors.matrix(batch, "v", "float32") @ QUERY)


def top(frame: DataFrame) -> list[int]:
    return [row.id for row in frame.orderBy(f.desc("score")).limit(10).collect()]


def pandas_dots(frame: DataFrame) -> DataFrame:
    def dot(rows: pd.Series) -> pd.Series:
        return pd.Series((np.stack(rows.to_numpy()) @ QUERY).astype(np.float64))

    return frame.select("id", f.pandas_udf(dot, "double")("v").alias("score"))


def cleaned(batches: Batches) -> Batches:
    """Remove marks, squeeze blanks, fold case, and drop what is short."""
    for batch in batches:
        text = pc.replace_substring_regex(batch["text"], "<[^>]*>", "")
        text = pc.utf8_lower(pc.ascii_trim(pc.replace_substring_regex(text, "[ \\t]+", " "), " "))
        made = pa.record_batch({"id": batch["id"], "text": text})
        yield made.filter(pc.greater(pc.utf8_length(text), 40))


def pandas_cleaned(frame: DataFrame) -> DataFrame:
    def clean(rows: pd.Series) -> pd.Series:
        marks = rows.str.replace("<[^>]*>", "", regex=True)
        return marks.str.replace("[ \t]+", " ", regex=True).str.strip(" ").str.lower()

    return frame.select("id", f.pandas_udf(clean, "string")("text").alias("text")).where("length(text) > 40")


def sql_cleaned(frame: DataFrame) -> DataFrame:
    text = f.lower(f.trim(f.regexp_replace(f.regexp_replace("text", "<[^>]*>", ""), "[ \t]+", " ")))
    return frame.select("id", text.alias("text")).where("length(text) > 40")


def pandas_some(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        yield frame.loc[frame["k"] < 16, ["id", "k", "name"]]


# ---- cases


def _parquet(lake: Lake) -> DataFrame:
    return lake.spark.read.parquet(lake.parquet)


SOME = "id bigint, k int, name string"
NEEDED = "id, k, name"


def _filters(lake: Lake) -> Mapping[str, Answer]:
    kept = ("id", "k", "name")
    return {
        "map_in_arrow": lambda: map_in_arrow(lake.spark, lake.arrow, some, SOME, columns=NEEDED),
        "option where": lambda: lake.ipc(columns=NEEDED, where="k < 16"),
        "arrowipc + mapInArrow": lambda: lake.ipc(columns=NEEDED).mapInArrow(some, SOME),
        "arrowipc + SQL": lambda: lake.ipc(columns=NEEDED).where("k < 16"),
        "parquet + mapInArrow": lambda: _parquet(lake).select(*kept).mapInArrow(some, SOME),
        "parquet + mapInPandas": lambda: _parquet(lake).select(*kept).mapInPandas(pandas_some, SOME),
        "parquet + SQL": lambda: _parquet(lake).select(*kept).where("k < 16"),
    }


def _groups(lake: Lake) -> Mapping[str, Answer]:
    columns = "k, amount, id"
    asked = {"amount": "sum(amount)", "id": "max(id)", "rows": "count(id)"}
    spark_way = [f.sum("amount"), f.max("id"), f.count("id")]
    plain = {
        "map_in_arrow": lambda: groups_of(map_in_arrow(lake.spark, lake.arrow, groups, GROUPS, columns=columns)),
        "aggregate": lambda: aggregate(lake.spark, lake.arrow, group_by=["k"], aggregates=asked),
        "arrowipc + mapInArrow": lambda: groups_of(lake.ipc(columns=columns).mapInArrow(groups, GROUPS)),
        "arrowipc + SQL": lambda: lake.ipc(columns=columns).groupBy("k").agg(*spark_way),
        "parquet + mapInArrow": lambda: groups_of(
            _parquet(lake).select("k", "amount", "id").mapInArrow(groups, GROUPS)
        ),
        "parquet + SQL": lambda: _parquet(lake).groupBy("k").agg(*spark_way),
    }
    return {name: _rows(make) for name, make in plain.items()}


def _rows(make: Callable[[], DataFrame]) -> Answer:
    return lambda: sorted(tuple(map(int, row)) for row in make().collect())


SCORES = "id bigint, score double"


def _vectors(lake: Lake) -> Mapping[str, Answer]:
    return {
        "map_in_arrow": lambda: top(map_in_arrow(lake.spark, lake.arrow, dots, SCORES)),
        "map_in_arrow, vectors=binary": lambda: top(
            map_in_arrow(lake.spark, lake.arrow, binary_dots, SCORES, vectors="binary")
        ),
        "arrowipc + mapInArrow": lambda: top(lake.ipc().mapInArrow(dots, SCORES)),
        "arrowipc, vectors=binary + mapInArrow": lambda: top(
            lake.ipc(vectors="binary").mapInArrow(binary_dots, SCORES)
        ),
        "parquet + mapInArrow": lambda: top(_parquet(lake).mapInArrow(dots, SCORES)),
        "parquet + pandas_udf": lambda: top(pandas_dots(_parquet(lake))),
    }


def _texts(lake: Lake) -> Mapping[str, Answer]:
    schema = "id bigint, text string"
    return {
        "map_in_arrow": lambda: map_in_arrow(lake.spark, lake.arrow, cleaned, schema),
        "arrowipc + mapInArrow": lambda: lake.ipc().mapInArrow(cleaned, schema),
        "parquet + mapInArrow": lambda: _parquet(lake).mapInArrow(cleaned, schema),
        "parquet + pandas_udf": lambda: pandas_cleaned(_parquet(lake)),
        "parquet + SQL": lambda: sql_cleaned(_parquet(lake)),
    }


_OF_PARQUET = ("parquet count()", "parquet count(), pushed down")


def _counts(lake: Lake) -> Mapping[str, Answer]:
    return {
        "count": lambda: count(lake.spark, lake.arrow),
        "metadataOnly, sum(rows)": lambda: lake.ipc(metadataOnly="true").agg({"rows": "sum"}).first()[0],
        "arrowipc count()": lambda: lake.ipc().count(),
        "parquet count()": lambda: _parquet(lake).count(),
        "parquet count(), pushed down": lambda: _parquet(lake).agg(f.count("*")).first()[0],
    }


def _many_counts(lake: Lake) -> Mapping[str, Answer]:
    counts = _counts(lake)
    by_tasks = {
        "aggregate, by tasks": lambda: aggregate(lake.spark, lake.arrow, aggregates={"n": "count(*)"}).first()[0]
    }
    return {name: (counts | by_tasks)[name] for name in ("count", *by_tasks, *_OF_PARQUET)}


def _small_counts(lake: Lake) -> Mapping[str, Answer]:
    many = _many_counts(lake)
    return {"count": many["count"], "arrowipc count()": _counts(lake)["arrowipc count()"], **many}


def _extremes(lake: Lake) -> Mapping[str, Answer]:
    # Spark pushes no extremes of timestamps and decimals down into Parquet.
    spark_way = [f.count("*"), f.min("id"), f.max("id"), f.max("k"), f.count("name")]
    asked = {"rows": "count(*)", "least": "min(id)", "most": "max(id)", "key": "max(k)", "names": "count(name)"}
    return {
        "aggregate": lambda: [*map(str, aggregate(lake.spark, lake.arrow, aggregates=asked).first())],
        "arrowipc + SQL": lambda: [*map(str, lake.ipc(columns="id, k, name").agg(*spark_way).first())],
        "parquet + SQL": lambda: [*map(str, _parquet(lake).agg(*spark_way).first())],
        "parquet + SQL, pushed down": lambda: [*map(str, _parquet(lake).agg(*spark_way).first())],
    }


def _settings(lake: Lake) -> Mapping[str, Answer]:
    rows = lake.ipc(columns=NEEDED)
    double = f.pandas_udf(lambda ids: ids * 2, "bigint")
    made = {
        "mapInArrow": lambda: rows.mapInArrow(some, SOME),
        "mapInPandas": lambda: rows.mapInPandas(pandas_some, SOME),
        "pandas_udf": lambda: rows.select((double("id") / 2).cast("bigint").alias("id"), "k", "name").where("k < 16"),
    }
    return {f"{name}, {of}": make for name, make in made.items() for of in ("set", "default")}


_PUSHED = {"spark.sql.parquet.aggregatePushdown": "true", "spark.sql.sources.useV1SourceList": ""}

CASES: Mapping[str, Case] = {
    "filter": Case(sales, _filters, noop=True),
    "group": Case(sales, _groups),
    "vectors": Case(embeddings, _vectors, share=1 / 16),
    "text": Case(texts, _texts, share=1 / 4, noop=True),
    "count": Case(sales, _counts, settings={"parquet count(), pushed down": _PUSHED}),
    "count of 1,000 files": Case(
        sales,
        _many_counts,
        share=1 / 50,
        files=1000,
        is_linked=True,
        settings={"parquet count(), pushed down": _PUSHED},
    ),
    # Counted by Spark, the rows of the case before would take minutes.
    "count of 1,000 small files": Case(
        sales,
        _small_counts,
        share=1 / 5,
        files=1000,
        settings={"parquet count(), pushed down": _PUSHED},
    ),
    "extremes": Case(sales, _extremes, settings={"parquet + SQL, pushed down": _PUSHED}),
    "setting": Case(
        sales,
        _settings,
        share=1 / 2,
        noop=True,
        settings={f"{name}, default": {BYTES: ""} for name in ("mapInArrow", "mapInPandas", "pandas_udf")},
    ),
}


def make_files(case: Case, rows: int, directory: Path) -> tuple[str, str]:
    """Write the files of a case in both formats, unless they are there; return their directories."""
    name = f"{case.table.__name__}-{rows}-{case.files}"
    arrow, parquet = directory / f"{name}-arrow", directory / f"{name}-parquet"
    if not (parquet / "done").exists():
        arrow.mkdir(parents=True, exist_ok=True)
        parquet.mkdir(parents=True, exist_ok=True)
        each = rows if case.is_linked else rows // case.files
        for i in range(case.files):
            own, theirs = arrow / f"{i:04}.arrow", parquet / f"{i:04}.parquet"
            if case.is_linked and i:
                own.hardlink_to(arrow / "0000.arrow")
                theirs.hardlink_to(parquet / "0000.parquet")
                continue
            table = case.table(i * each, each)
            _write_arrow(own, table)
            pq.write_table(table, theirs, compression="snappy")
        (parquet / "done").touch()
    return str(arrow), str(parquet)


def _write_arrow(path: Path, table: pa.Table) -> None:
    """Write a file with statistics, as the data source does; Parquet's have them, too."""
    batches = [bridge.batch_from_pyarrow(batch) for batch in table.to_batches(max_chunksize=BATCH_ROWS)]
    with create_with_statistics(str(path), batches[0].schema, ipc.WriteOptions(), Statistics.AUTO) as writer:
        for batch in batches:
            writer.write(batch)


@contextmanager
def settings(spark: SparkSession, given: Mapping[str, str]) -> Iterator[None]:
    """Set settings, and set them back; an empty one of the batches' bytes is Spark's default."""
    before = {name: spark.conf.get(name) for name in given}
    for name, value in given.items():
        if name == BYTES:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def summary(answer: object) -> object:
    """Return what is compared of an answer: of a DataFrame the rows, and sums of what they have."""
    if not isinstance(answer, DataFrame):
        return answer
    texts_of = [field.name for field in answer.schema.fields if isinstance(field.dataType, s.StringType)]
    sums = [f.sum("id"), *(f.sum(f.crc32(f.col(name).cast("binary"))) for name in texts_of)]
    return tuple(answer.agg(f.count("*"), *sums).first())


def run(spark: SparkSession, name: str, rows: int, turns: int, directory: Path) -> None:
    """Run one case and print its table."""
    case = CASES[name]
    lake = Lake(spark, *make_files(case, round(rows * case.share), directory))
    contenders = case.contenders(lake)
    answers = {}
    for contender, answer in contenders.items():
        with settings(spark, case.settings.get(contender, {})):
            answers[contender] = summary(answer())
    first = next(iter(answers.values()))
    wrong = {contender: str(answer)[:200] for contender, answer in answers.items() if answer != first}
    if wrong:
        raise SystemExit(f"{name}: the answer is {str(first)[:200]}, and others differ: {wrong}")
    costs: dict[str, list[Cost]] = {contender: [] for contender in contenders}
    jvm_pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    with SparkProcesses(jvm_pid) as processes:
        for turn in range(-1, turns):
            for contender, answer in contenders.items():
                with settings(spark, case.settings.get(contender, {})), processes.cost() as found:
                    made = answer()
                    if case.noop and isinstance(made, DataFrame):
                        made.write.format("noop").mode("overwrite").save()
                if turn >= 0:
                    costs[contender] += found
    print_costs(name, round(rows * case.share), turns, costs)


def print_costs(name: str, rows: int, turns: int, costs: Mapping[str, Sequence[Cost]]) -> None:
    """Print the table of a case."""
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"\n{name}: {rows:,} rows, {turns} turns, load {load}")
    print(
        "| contender | wall s | CPU s | JVM | workers | driver | CPU ratio | worker MiB |\n|---|---|---|---|---|---|---|---|"
    )
    base = next(iter(costs.values()))
    for contender, found in costs.items():
        cells = [_cell(found, of) for of in ("wall", "cpu", "jvm", "worker", "driver")]
        ratios = [pick(c.cpu for c in base) / pick(c.cpu for c in found) for pick in (median, min)]
        peak = max(cost.peak_nbytes for cost in found) / _MIB
        print(f"| {contender} | {' | '.join(cells)} | {ratios[0]:.2f} ({ratios[1]:.2f}) | {peak:.0f} |", flush=True)


def _cell(costs: Sequence[Cost], of: str) -> str:
    values = [getattr(cost, of) for cost in costs]
    return f"{median(values):.2f} ({min(values):.2f})"


def main() -> None:
    """Run the cases that are named, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the largest tables (default %(default)s)")
    parser.add_argument("--turns", type=int, default=5, help="of each contender (default %(default)s)")
    parser.add_argument("--directory", type=Path, default=Path("build/benchmarks"), help="keeps the files")
    parser.add_argument(
        "--fresh", action="store_true", help="a worker for each task, so that peaks are of one contender"
    )
    given = parser.parse_args()
    conf = {BYTES: LARGEST, "spark.sql.shuffle.partitions": "2"}
    with session(reuses_workers=not given.fresh, conf=conf) as spark:
        for name in given.cases or CASES:
            run(spark, name, given.rows, given.turns, given.directory)


if __name__ == "__main__":
    main()
