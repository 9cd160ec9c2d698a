"""Streams of a table's commits: the source that reads them, and queries of Spark from end to end."""

import json
import pickle

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from table_commits import prune

from spark_arrow_ipc.errors import OptionError, SourceOverwrittenError, StreamOffsetError
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource

pytest.importorskip("pyspark.sql.streaming.datasource", reason="reading a stream needs Spark 4.2 or later")


@pytest.fixture
def lake(spark, tmp_path):
    """Write rows of numbers into a table, each call a commit."""

    def write(*numbers, mode="append", **options):
        frame = spark.createDataFrame([(number, number % 2) for number in numbers], "n long, k int").coalesce(1)
        writer = frame.write.format("arrowipc").mode(mode).options(partitionBy="k", **options)
        writer.save(str(tmp_path / "lake"))

    write.path = tmp_path / "lake"
    return write


class Query:
    """A query without Spark: its offsets as text, and readers that are pickled for tasks."""

    def __init__(self, path, **options):
        self.options = {"path": str(path), "pollInterval": "0", **options}
        self.offsets = []
        self.restart()

    def restart(self, **options):
        self.options |= options
        source = ArrowIpcDataSource(self.options)
        self.reader = source.streamReader(source.schema())
        self.offsets = self.offsets or [json.dumps(self.reader.initialOffset())]

    def rows(self, number):
        start, end = map(json.loads, self.offsets[number : number + 2])
        reader, parts = pickle.loads(pickle.dumps((self.reader, self.reader.partitions(start, end))))
        return sorted(tuple(row.values()) for part in parts for batch in reader.read(part) for row in batch.to_pylist())

    def next(self):
        end = json.dumps(self.reader.latestOffset(json.loads(self.offsets[-1]), self.reader.getDefaultReadLimit()))
        if end == self.offsets[-1]:
            return None
        self.offsets.append(end)
        return self.rows(len(self.offsets) - 2)


def test_a_table_is_read_by_its_log_without_any_option(lake):
    lake(0, 1)
    query = Query(lake.path)
    assert [(0, 0), (1, 1)] == query.next()
    lake(2)
    lake(3, 5)
    assert [(2, 0), (3, 1), (5, 1)] == query.next()
    assert query.next() is None
    query.restart()
    assert [[(0, 0), (1, 1)], [(2, 0), (3, 1), (5, 1)]] == [query.rows(0), query.rows(1)]
    assert "table" == json.loads(query.offsets[-1])["mode"]


def test_options_of_a_read_and_limits_work_on_its_commits(lake):
    lake(0, 1)
    query = Query(lake.path, where="k = 1", columns="n", maxFilesPerTrigger="1", metadataColumns="false")
    assert [[], [(1,)]] == [query.next() for _ in range(2)]
    lake(2, 3)
    lake(5)
    assert [[(3,)], [(5,)], None] == [query.next() for _ in range(3)]


def test_an_overwrite_ends_a_stream_or_is_passed(lake):
    lake(0)
    query = Query(lake.path)
    query.next()
    lake(4, mode="overwrite")
    lake(6)
    with pytest.raises(SourceOverwrittenError, match="log entry 2 overwrote the source"):
        query.next()
    before = list(query.offsets)
    query.restart(onOverwrite="append")
    assert [(4, 0), (6, 0)] == query.next()
    query.offsets = before
    query.restart(onOverwrite="skip")
    assert [(6, 0)] == query.next()


def test_entries_that_are_gone(lake):
    lake(0)
    query = Query(lake.path)
    query.next()
    for number in (1, 2, 3):
        lake(number)
    prune(lake.path, 1, 2)
    with pytest.raises(StreamOffsetError, match=r"is at log entry 1, .* retention of the writes"):
        query.next()
    query.restart(failOnDataLoss="false")
    assert [[], [(0, 0), (1, 1), (2, 0), (3, 1)]] == [query.next() for _ in range(2)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"latestFirst": "true"}, "latestFirst has no meaning here: the source is a table"),
        ({"fileNameOnly": "true"}, "fileNameOnly has no meaning"),
        ({"cleanSource": "delete"}, "cleanSource has no meaning"),
        ({"lateWindow": "1h"}, "lateWindow has no meaning"),
        ({"sourceLog": "log"}, "sourceLog has no meaning"),
        ({"onOverwrite": "sometimes"}, "onOverwrite must be one of fail, skip, append"),
    ],
)
def test_options_that_do_not_fit(lake, options, words):
    lake(0)
    with pytest.raises(OptionError, match=words):
        Query(lake.path, **options)


def test_options_of_tables_are_for_tables(tmp_path):
    with pa.ipc.new_file(tmp_path / "0.arrow", pa.schema([("n", pa.int64())])):
        pass
    for options in ({"onOverwrite": "skip"}, {"failOnDataLoss": "false"}):
        with pytest.raises(OptionError, match=f"{next(iter(options))} has no meaning here: the source is not a table"):
            Query(tmp_path, **options)


def copied(spark, source, out, checkpoint, **options):
    """Run a query that copies what is new, to its end."""
    stream = spark.readStream.format("arrowipc").options(**options).load(str(source))
    writer = stream.writeStream.format("arrowipc").options(checkpointLocation=str(checkpoint), partitionBy="k")
    for is_last in (False, False, True):
        try:
            writer.trigger(availableNow=True).start(str(out)).awaitTermination()
            break
        except StreamingQueryException as error:
            # A busy machine takes longer to start Python than Spark waits; the query goes on where it was.
            if is_last or "failed to connect back" not in str(error):
                raise
    return sorted(map(tuple, spark.read.format("arrowipc").load(str(out)).collect()))


@pytest.mark.smoke("stream out")
def test_a_stream_writes_what_it_reads(spark, lake, tmp_path):
    lake(0, 1)
    assert [(0, 0), (1, 1)] == copied(spark, lake.path, tmp_path / "out", tmp_path / "checkpoint")


def test_spark_reads_commits_of_jobs_and_of_streams(spark, lake, tmp_path):
    """Two queries in a row: the second reads what the first has committed; its last batch is run again."""
    middle, out = tmp_path / "middle", tmp_path / "out"
    lake(0, 1)
    copied(spark, lake.path, middle, tmp_path / "first")
    lake(2)
    copied(spark, lake.path, middle, tmp_path / "first")
    assert [(0, 0), (1, 1), (2, 0)] == copied(spark, middle, out, tmp_path / "second")
    last = max((tmp_path / "second" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for file in (last, last.with_name(f".{last.name}.crc")):
        file.unlink(missing_ok=True)
    assert [(0, 0), (1, 1), (2, 0)] == copied(spark, middle, out, tmp_path / "second")


@pytest.mark.exhaustive
def test_spark_meets_overwrites_and_entries_that_are_gone(spark, lake, tmp_path):
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    lake(0, 1)
    assert [(0, 0), (1, 1)] == copied(spark, lake.path, out, checkpoint)
    lake(2, mode="overwrite")
    with pytest.raises(StreamingQueryException, match="overwrote the source"):
        copied(spark, lake.path, out, checkpoint)
    assert [(0, 0), (1, 1), (2, 0)] == copied(spark, lake.path, out, checkpoint, onOverwrite="append")
    lake(3)
    lake(4)
    prune(lake.path, 1, 2, 3)
    with pytest.raises(StreamingQueryException, match="is at log entry 2"):
        copied(spark, lake.path, out, checkpoint)
    rows = copied(spark, lake.path, out, checkpoint, failOnDataLoss="false")
    assert [(0, 0), (1, 1), (2, 0), (2, 0), (3, 1), (4, 0)] == rows, "all that is there, again"
