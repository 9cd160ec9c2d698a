"""Streams of a file that grows: queries of Spark beside a producer that tears its writes."""

import json
import os
import time
from pathlib import Path

import arrow_files
import pyarrow as pa
import pytest
from pyspark.sql import types as s
from torn_producer import producing

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource

streaming = pytest.importorskip("pyspark.sql.streaming.datasource", reason="reading a stream needs Spark 4.2 or later")


@pytest.fixture
def growing(tmp_path):
    """A stream with its schema alone, as its producer begins it."""
    path = tmp_path / "growing.arrows"
    schema = pa.schema([("n", pa.int64()), ("d", pa.dictionary(pa.int32(), pa.string()))])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema):
        pass
    os.truncate(path, path.stat().st_size - 8)
    return path


def followed(spark, path, checkpoint, rows, until, limit=1000):
    """Run a query until it has so many rows in its list, or nothing more comes; stop it."""
    stream = spark.readStream.format("arrowipc").options(tail="true", pollInterval="50ms", maxFilesPerTrigger=limit)

    def take(batch, _):
        rows.extend(map(tuple, batch.collect()))

    writer = stream.schema("n long, d string").load(str(path)).writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", str(checkpoint))
    deadline = time.monotonic() + 240
    query = writer.start()
    try:
        # Of batches that Spark has noted as done: a stop interrupts the last one after its rows were taken.
        while len(rows_of_done_batches(checkpoint, rows)) < until and time.monotonic() < deadline:
            if not query.isActive:
                # A busy machine takes longer to start Python than Spark waits.
                assert "failed to connect back" in str(query.exception())
                rows[:] = rows_of_done_batches(checkpoint, rows)
                query = writer.start()
            time.sleep(0.05)
    finally:
        query.stop()


def check(spark, tmp_path, count, pause, limit):
    """A query is started three times while a producer writes: all rows, each once, in their order."""
    path, rows = tmp_path / "growing.arrows", []
    path.touch()
    with producing(path, count, pause=pause) as producer:
        for share in (0.2, 0.5, 1):
            # A query that was stopped in the middle of a batch runs it again: what it had is taken back.
            followed(spark, path, tmp_path / "checkpoint", rows, share * 2 * count, limit)
            rows = rows_of_done_batches(tmp_path / "checkpoint", rows)
        assert 0 == producer.wait(60)
    expected = pa.ipc.open_stream(path.read_bytes()).read_all().to_pylist()
    assert 2 * count == len(expected)
    assert [(row["n"], row["d"]) for row in expected] == rows


def rows_of_done_batches(checkpoint, rows):
    """Return the rows of the batches that Spark has noted as done: by the last of their offsets."""
    done = max((int(file.name) for file in (checkpoint / "commits").glob("[0-9]*")), default=-1)
    if done < 0:
        return []
    offset = (checkpoint / "offsets" / str(done)).read_text().splitlines()[-1]
    return rows[: 2 * json.loads(offset)["batch"]]


@pytest.mark.exhaustive
def test_spark_follows_a_producer_over_two_restarts(spark, tmp_path):
    check(spark, tmp_path, 120, 0.05, 1000)


@pytest.mark.nightly
def test_spark_follows_ten_thousand_batches(spark, tmp_path):
    check(spark, tmp_path, 10_000, 0.002, 500)


def test_the_schema_is_that_of_the_stream(spark, growing):
    with growing.open("ab") as file:
        file.write(b"\xff\xff\xff\xff\x10")  # a message that is torn
    stream = spark.readStream.format("arrowipc").option("tail", "true").load(str(growing))
    assert ["n", "d"] == stream.columns


REFUSED = [
    ({}, "x", "follows one file that exists, and there is nothing"),
    ({}, ".", "and this is a directory"),
    ({}, "*.arrows", "follows one file; give its path alone"),
    ({"latestFirst": "true"}, "growing.arrows", "latestFirst has no meaning here: tail=true follows"),
    ({"onOverwrite": "skip"}, "growing.arrows", "onOverwrite has no meaning here"),
    ({"recover": "true"}, "growing.arrows", "recover has no meaning here"),
    ({"startingFrom": "3"}, "growing.arrows", "startingFrom is earliest or latest"),
    ({"storage.skip_signature": "true"}, "s3://bucket/x.arrows", "local and mounted file systems"),
]


@pytest.mark.parametrize(("options", "name", "words"), REFUSED, ids=[case[2] for case in REFUSED])
def test_what_cannot_be_followed(growing, options, name, words):
    path = name if "://" in name else str(Path(growing.parent) / name)
    source = ArrowIpcDataSource({"path": path, "tail": "true", **options})
    with pytest.raises(OptionError, match=words):
        source.streamReader(s.StructType().add("n", "long")).initialOffset()


@pytest.mark.parametrize("case", [
    ({"where": "n > 2"}, [3, 4]),
    ({"where": "n > 1 AND d = 'x'"}, [3]),
    ({"where": "_row_index = 1 OR _block = 1 AND n > 3", "metadataColumns": "true"}, [2, 4]),
])  # fmt: skip
def test_a_predicate_filters_what_was_appended(growing, case):
    """Of columns that the stream has, of one that was not asked for, and of the origin of rows."""
    options, expected = case
    table = pa.table({"n": [1, 2, 3, 4], "d": ["x", "y", "x", "y"]})
    arrow_files.write(growing, table, stream=True, rows=2)
    source = ArrowIpcDataSource({"path": str(growing), "tail": "true", "timeZone": "UTC", **options})
    reader = source.streamReader(s.StructType([s.StructField("n", s.LongType())]))
    start = reader.initialOffset()
    end = reader.latestOffset(start, streaming.ReadAllAvailable())
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    assert expected == [n for batch in batches for n in batch.to_pydict()["n"]]
