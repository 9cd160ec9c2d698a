"""`aggregate` and `count` beside Spark's own ``groupBy`` and ``count``: equal in values and types, or refused."""

import random

import aggregate_cases
import arrow_files
import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from spark_arrow_ipc import aggregate, count
from spark_arrow_ipc.errors import AggregateError, ColumnNotFoundError, OptionError

ROWS = 500


def table(first):
    numbers = np.arange(first, first + ROWS)
    return pa.table(
        {
            "id": pa.array(numbers),
            "name": pa.array([f"é{i % 7}" if i % 5 else None for i in numbers]).dictionary_encode(),
            "score": pa.array([float("nan") if i % 3 else -0.0 if i % 2 else 0.0 for i in numbers]),
            "big": pa.array(np.full(ROWS, 2**62), pa.int64()),
            "at": pa.array(numbers * 1_000_000, pa.timestamp("ns")),
            "a `b`": pa.array(numbers % 11, pa.int16()),
        }
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    root = tmp_path_factory.mktemp("aggregate") / "t"
    arrow_files.write(root / "k=1" / "a.arrow", table(0), rows=100)
    arrow_files.write(root / "k=1" / "b.arrow", table(ROWS), rows=100, compression="lz4")
    arrow_files.write(root / "k=2" / "c.arrows", table(2 * ROWS), rows=50, stream=True)
    return root


SAME = [
    ("one row", [], ["count(*)", "count(name)", "min(id)", "max(at)", "sum(id)"], {}),
    ("no rows", [], ["count(*)", "count(name)", "min(id)", "sum(id)"], {"where": "k = 77"}),
    ("no rows by key", ["k"], ["count(*)"], {"where": "k = 77"}),
    ("a partition column", ["k"], ["COUNT( 1 )", "min(name)", "max(name)", "sum(`a ``b```)"], {}),
    ("NaN and both zeros are keys", ["score"], ["count(*)", "sum(id)"], {}),
    ("nulls, an expression of names, another case", ["Name", "a `b`"], ["count(ID)", "max(k)"], {"where": "id > 30 AND score = 0"}),
    ("metadata columns", ["_block"], ["min(_row_index)", "count(*)"], {"metadataColumns": True}),
    ("positions", ["id"], ["count(name)"], {"columns": "#1, #0", "where": "at < TIMESTAMP_NTZ '1970-01-01 00:00:09'"}),
]  # fmt: skip


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize(("keys", "texts", "options"), [c[1:] for c in SAME], ids=[c[0] for c in SAME])
def test_the_answer_and_its_types_are_sparks(spark, lake, keys, texts, options):
    named = {f"a{i}": text for i, text in enumerate(texts)}
    theirs = (
        spark.read.format("arrowipc").options(**options).load(str(lake)).groupBy(*map(aggregate_cases.quoted, keys))
    )
    theirs = theirs.agg(*(f.expr(text).alias(name) for name, text in named.items()))
    ours = aggregate(spark, lake, group_by=keys, aggregates=named, **options)
    assert theirs.schema == ours.schema
    assert aggregate_cases.rows(theirs) == aggregate_cases.rows(ours)


@pytest.mark.smoke("aggregate")
def test_what_crosses_is_a_row_for_each_group_and_task(spark, lake):
    ours = aggregate(spark, lake, group_by=["k"], aggregates={"rows": "count(*)"})
    ours.collect()
    node = ours._jdf.queryExecution().executedPlan().toString()
    assert "k0" in node
    assert "name" not in node


def total_of(frame):
    """The sum, or the condition of the error."""
    try:
        return frame.first()["s"]
    except PySparkException as error:
        return error.getCondition().partition(".")[0]


@pytest.mark.parametrize(("ansi", "answer"), [("true", "ARITHMETIC_OVERFLOW"), ("false", 2**62)])
def test_a_sum_that_does_not_fit_is_treated_as_by_spark(spark, lake, ansi, answer):
    """1,001 times 2**62 is 2**62 in 64 bits."""
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        plain = spark.read.format("arrowipc").option("where", "id < 1001").load(str(lake))
        assert answer == total_of(plain.agg(f.sum("big").alias("s")))
        assert answer == total_of(aggregate(spark, lake, aggregates={"s": "sum(big)"}, where="id < 1001"))
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


@pytest.mark.parametrize("count_", [16, pytest.param(48, marks=pytest.mark.nightly)])
def test_random_aggregates_are_sparks_or_refused(spark, count_):
    """Some of them; ``python tests/programs/aggregate_cases.py --count 2000`` tries many."""
    covered, wrong = aggregate_cases.run(spark, count_, random.randrange(10**9))
    assert [] == wrong
    assert covered.refused < covered.aggregates


# ---- count


WHERES = [None, "id < 30", "k = 2 AND name IS NULL", "k = 77", "score = 'NaN'"]


@pytest.mark.parametrize("where", WHERES)
def test_count_is_sparks(spark, lake, where):
    frame = spark.read.format("arrowipc").load(str(lake))
    assert (frame if where is None else frame.where(where)).count() == count(spark, lake, where=where)


def test_count_reads_no_body(spark, tmp_path):
    """The file's bodies are overwritten: who reads one meets a broken frame of LZ4."""
    path = tmp_path / "a.arrow"
    arrow_files.write(path, table(0), rows=100, compression="lz4")
    with pa.memory_map(str(path)) as source:
        batches = pa.ipc.open_file(source).num_record_batches
    data = bytearray(path.read_bytes())
    frame = bytes.fromhex("04224d18")
    start = 0
    while (start := data.find(frame, start)) >= 0:
        data[start : start + 4] = b"torn"
    path.write_bytes(data)
    assert 5 == batches
    assert ROWS == count(spark, path) == count(spark, [str(path)], metadataColumns=True)
    with pytest.raises(PySparkException, match="InvalidBodyError"):
        spark.read.format("arrowipc").load(str(path)).count()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(PySparkException, match="InvalidFramingError"):
        count(spark, path)


def test_errors_come_before_work(spark, lake):
    with pytest.raises(AggregateError, match="its sum depends on the order of the rows"):
        aggregate(spark, lake, aggregates={"s": "sum(score)"})
    with pytest.raises(ColumnNotFoundError, match="missing"):
        aggregate(spark, lake, aggregates={"s": "sum(missing)"})
    with pytest.raises(OptionError, match="aggregates is empty"):
        aggregate(spark, lake, aggregates={}, group_by="k")
    with pytest.raises(PySparkException, match="NoFilesError"):
        count(spark, lake / "nowhere")
