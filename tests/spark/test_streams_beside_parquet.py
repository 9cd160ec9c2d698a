"""Streams beside Spark's own: the same drops through our source and sink, foreachBatch, and Spark's for Parquet."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SCHEMA = "id bigint, name string, at timestamp, day date"
ROUNDS, FILES = 3, 8

pytestmark = pytest.mark.nightly


def drop(directory, rng, number):
    """Put the same rows into both directories: a few rows, sometimes none, with nulls."""
    ids = [number * 100 + i for i in range(rng.choice([0, 1, 7, 40]))]
    columns = {
        "id": pa.array(ids, pa.int64()),
        "name": pa.array([None if i % 5 == 0 else f"name of {i}" for i in ids], pa.string()),
        "at": pa.array([i * 1_000_003 for i in ids], pa.timestamp("us", "UTC")),
        "day": pa.array([i % 3 for i in ids], pa.date32()),
    }
    rows = pa.table(columns)
    with pa.ipc.new_file(directory / "staged", rows.schema) as writer:
        writer.write_table(rows)
    (directory / "staged").rename(directory / "arrow" / f"{rng.getrandbits(32):08x}.arrow")
    pq.write_table(rows, directory / "staged")
    (directory / "staged").rename(directory / "parquet" / f"{rng.getrandbits(32):08x}.parquet")
    return len(ids)


def batches_of(place):
    """A function for foreachBatch that appends each batch once, with the number of the batch as its token."""

    def append(rows, number):
        rows.write.format("arrowipc").mode("append").option("commitToken", f"batch-{number}").save(str(place))

    return append


def run(spark, source, directory, place, *, by_batch=False):
    """Read all that is there in batches of three files, from where the query was."""
    stream = spark.readStream.format(source).schema(SCHEMA).option("maxFilesPerTrigger", 3)
    options = {"sourceLog": str(place.with_name(place.name + "-log"))} if "log" in place.name else {}
    rows = stream.options(**options).load(str(directory))
    writer = rows.writeStream.option("checkpointLocation", str(place.with_name(place.name + "-checkpoint")))
    writer = writer.trigger(availableNow=True)
    if by_batch:
        writer.foreachBatch(batches_of(place)).start().awaitTermination()
    else:
        writer = writer.option("partitionBy", "day") if source == "arrowipc" else writer.partitionBy("day")
        writer.format(source).start(str(place)).awaitTermination()


def test_the_rows_are_those_of_sparks_own_source_and_sink(spark, tmp_path):
    rng = random.Random(16)
    for name in ("arrow", "parquet"):
        (tmp_path / name).mkdir()
    count = 0
    for round_ in range(ROUNDS):
        count += sum(drop(tmp_path, rng, round_ * FILES + i) for i in range(FILES))
        run(spark, "parquet", tmp_path / "parquet", tmp_path / "out-parquet")
        run(spark, "arrowipc", tmp_path / "arrow", tmp_path / "out-window")
        run(spark, "arrowipc", tmp_path / "arrow", tmp_path / "out-log")
        run(spark, "arrowipc", tmp_path / "arrow", tmp_path / "out-batches", by_batch=True)
        expected = spark.read.parquet(str(tmp_path / "out-parquet")).select("id", "name", "at", "day").orderBy("id")
        assert count == expected.count()
        for name in ("out-window", "out-log", "out-batches"):
            rows = spark.read.format("arrowipc").load(str(tmp_path / name)).select("id", "name", "at", "day")
            assert expected.collect() == rows.orderBy("id").collect(), name
