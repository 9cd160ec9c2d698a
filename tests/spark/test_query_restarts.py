"""Each error of docs/howto/query_does_not_start.md is made, and what the page says about it is done: the query goes on."""

import io
import json
import os
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
import table_commits
from pyspark import TaskContext
from pyspark.sql import types as s
from stream_queries import Query, drop

from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource
from spark_arrow_ipc.spark.options.options import parse_write
from spark_arrow_ipc.spark.write.writer import ArrowIpcStreamWriter

pytest.importorskip("pyspark.sql.streaming.datasource", reason="reading a stream needs Spark 4.2 or later")

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "query_does_not_start.md"
N = s.StructType([s.StructField("n", s.LongType())])
CASES = {}


def case(text):
    def add(function):
        CASES[text] = function
        return function

    return add


def stuck(says, query, number=-2):
    """Run the newest batch, which ends with an error of these words."""
    with pytest.raises(ArrowIpcError, match=re.escape(says)):
        query.rows(len(query.offsets) + number)


def planned(tmp_path, **options):
    """Return a query that has read one file, and planned a batch of two others."""
    drop(tmp_path / "in" / "0.arrow", 0)
    query = Query(tmp_path / "in", N, **options)
    assert [(0,)] == query.next()
    drop(tmp_path / "in" / "1.arrow", 1)
    drop(tmp_path / "in" / "2.arrow", 2)
    return query


def once(query, expected, **options):
    """Run the batch with an option, and go on without it."""
    before = dict(query.options)
    query.restart(**options)
    assert expected == query.rows(len(query.offsets) - 2)
    query.options = before
    query.restart()


@case("it is gone")
def gone(tmp_path, says):
    query = planned(tmp_path)
    query.next()
    (tmp_path / "in" / "2.arrow").rename(tmp_path / "2.arrow")
    stuck(says, query)
    once(query, [(1,)], ignoreMissingFiles="true")
    (tmp_path / "2.arrow").rename(tmp_path / "in" / "2.arrow")
    assert [(1,), (2,)] == query.rows(1)
    assert query.next() is None


def another_name(tmp_path, says, query, expected):
    path = tmp_path / "in" / "2.arrow"
    stuck(says, query)
    path.rename(path.with_name("3.arrow"))
    once(query, [(1,)], ignoreMissingFiles="true")
    assert [expected, None] == [query.next() for _ in range(2)]


@case("bytes, it had")
def longer(tmp_path, says):
    query = planned(tmp_path)
    query.next()
    drop(tmp_path / "in" / "2.arrow", *range(1000))
    another_name(tmp_path, says, query, [(i,) for i in range(1000)])


@case("its modification time differs")
def other_bytes(tmp_path, says):
    query = planned(tmp_path)
    query.next()
    os.utime(drop(tmp_path / "in" / "2.arrow", 7), (1, 1))
    stuck(says, query)
    drop(tmp_path / "in" / "2.arrow", 7)
    another_name(tmp_path, says, query, [(7,)])


def damage(path, old, new):
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))


@case("expected UTF-8 text")
def values(tmp_path, says):
    query = planned(tmp_path)
    damage(drop(tmp_path / "in" / "2.arrow", 2, t=["0123456789"]), b"0123456789", b"\xff" * 10)
    query.schema = s.StructType([*N, s.StructField("t", s.StringType())])
    query.restart()
    with pytest.raises(ArrowIpcError, match=re.escape(says)):
        query.next()
    once(query, [(1, None)], ignoreCorruptFiles="true")
    assert query.next() is None


@case("Flatbuffers")
def footer(tmp_path, says):
    query = planned(tmp_path)
    path = drop(tmp_path / "in" / "2.arrow", *range(100))
    data = path.read_bytes()
    path.write_bytes(data[:-200] + b"\xff" * 190 + data[-10:])
    with pytest.raises(ArrowIpcError, match=re.escape(says)):
        query.next()
    once(query, [(1,)], ignoreCorruptFiles="true")
    query.restart(onBadFile="skip")
    shutil.copy(path, path.with_name("3.arrow"))
    assert query.next() is None


@case("does not widen to it")
def other_type(tmp_path, says):
    query = planned(tmp_path)
    path = tmp_path / "in" / "2.arrow"
    with pa.ipc.new_file(path, pa.schema({"n": pa.string()})) as writer:
        writer.write_batch(pa.record_batch({"n": ["x"]}))
    with pytest.raises(ArrowIpcError, match=re.escape(says)):
        query.next()
    path.rename(tmp_path / "2.arrow")
    once(query, [(1,)], ignoreMissingFiles="true")
    query.restart(onBadFile="skip")
    (tmp_path / "2.arrow").rename(path.with_name("3.arrow"))
    assert query.next() is None


def refused_until(query, says, changed, mended):
    """Go on with other options, which is refused, and with those that the page says."""
    before = dict(query.options)
    query.options = before | changed
    with pytest.raises(ArrowIpcError, match=re.escape(says)):
        query.restart()
        query.next()
    query.options = before | mended
    query.restart()
    assert [[(1,), (2,)], None] == [query.next() for _ in range(2)]


@case("this query began with fileNameOnly=")
def name_only(tmp_path, says):
    refused_until(planned(tmp_path), says, {"fileNameOnly": "true"}, {"fileNameOnly": "false"})


@case("this query began with path=")
def other_path(tmp_path, says):
    drop(tmp_path / "other" / "9.arrow", 9)
    refused_until(planned(tmp_path), says, {"path": str(tmp_path / "other")}, {})


@case("was made in the mode 'window', and its options now ask for the mode 'log'")
def other_mode(tmp_path, says):
    refused_until(planned(tmp_path), says, {"sourceLog": str(tmp_path / "log")}, {})


@case("of this query is committed here, and now comes another batch")
def restored(tmp_path, says):
    def commit(query, number, batch):
        properties = {"sql.streaming.queryId": query, "streaming.sql.batchId": str(number)}
        context = SimpleNamespace(getLocalProperty=properties.get, partitionId=lambda: 0)
        made = ArrowIpcStreamWriter.plan(N, str(tmp_path / "out"), parse_write({}), overwrite=False)
        with patch.object(TaskContext, "get", lambda: context):
            message = made.write(iter([pa.record_batch({"n": pa.array([n for (n,) in batch], pa.int64())})]))
        made.commit([message], number)

    query = planned(tmp_path, maxFilesPerTrigger="1")
    old, begun = list(query.offsets), (tmp_path / "in" / "2.arrow").stat().st_mtime
    for number in range(2):
        commit("q", number, query.next())
    query.offsets = old
    drop(tmp_path / "in" / "3.arrow", 3)
    os.utime(tmp_path / "in" / "3.arrow", (begun + 60, begun + 60))
    query.restart(maxFilesPerTrigger="9")
    with pytest.raises(ArrowIpcError, match=re.escape(says)):
        commit("q", 0, query.next())
    after = datetime.fromtimestamp(begun + 30, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    anew = Query(tmp_path / "in", N, modifiedAfter=after, timeZone="UTC")
    commit("anew", 0, anew.next())
    assert [1, 2, 3] == sorted(ds.dataset(tmp_path / "out", format="ipc").to_table()["n"].to_pylist())


@case("there is no option")
def misspelled(tmp_path, says):
    refused_until(planned(tmp_path), says, {"maxFilesPerTriger": "5"}, {"maxFilesPerTrigger": "5"})


@case("onBadFile=quarantine notes files in the sourceLog")
def no_notes(tmp_path, says):
    refused_until(planned(tmp_path), says, {"onBadFile": "quarantine"}, {"onBadFile": "skip"})


@case("of its sourceLog, and there is none")
def lost_log(tmp_path, says):
    query = planned(tmp_path, sourceLog=str(tmp_path / "log"))
    (tmp_path / "log").rename(tmp_path / "elsewhere")
    query.restart()
    with pytest.raises(ArrowIpcError, match=re.escape(says)):
        query.next()
    query.restart(sourceLog=str(tmp_path / "elsewhere"))
    assert [(1,), (2,)] == query.next()
    anew = Query(tmp_path / "in", N, sourceLog=str(tmp_path / "new"), startingFrom="latest")
    assert anew.next() in (None, [])
    drop(tmp_path / "in" / "3.arrow", 3)
    assert [(3,)] == anew.next()


@case("the checkpoint of this query is new")
def new_checkpoint(tmp_path, says):
    old = planned(tmp_path, sourceLog=str(tmp_path / "log"))
    old.next()
    with pytest.raises(ArrowIpcError, match=re.escape(says)):
        Query(tmp_path / "in", N, sourceLog=str(tmp_path / "log")).next()
    anew = Query(tmp_path / "in", N, sourceLog=str(tmp_path / "new"))
    assert [(0,), (1,), (2,)] == anew.next()
    old.restart()
    assert old.next() is None


@case("this sourceLog is of another query")
def others_log(tmp_path, says):
    old = planned(tmp_path, sourceLog=str(tmp_path / "log"))
    old.next()
    other = Query(tmp_path / "in", N, sourceLog=str(tmp_path / "other"))
    other.next()
    other.restart(sourceLog=str(tmp_path / "log"))
    with pytest.raises(ArrowIpcError, match=re.escape(says)):
        other.next()
    anew = Query(tmp_path / "in", N, sourceLog=str(tmp_path / "new"))
    assert [(0,), (1,), (2,)] == anew.next()


@case("this note of a stream's columns is damaged")
def damaged_note(tmp_path, says):
    query = planned(tmp_path, sourceLog=str(tmp_path / "log"))
    note = tmp_path / "log" / "schema.json"
    note.write_bytes(note.read_bytes()[:-9])
    query.restart()
    with pytest.raises(ArrowIpcError, match=re.escape(says)):
        query.next()
    note.unlink()
    query.restart()
    assert [(1,), (2,)] == query.next()


def save(path, *values, overwrite=False, **options):
    options = {"path": str(path), **options}
    writer = ArrowIpcDataSource(options).writer(N, overwrite=overwrite)
    writer.commit([writer.write(iter([pa.record_batch({"n": pa.array(values, pa.int64())})]))])


@case("overwrote the source of this stream")
def overwritten(tmp_path, says):
    save(tmp_path / "in", 0)
    query = Query(tmp_path / "in", N)
    assert [(0,)] == query.next()
    save(tmp_path / "in", 1, overwrite=True)
    with pytest.raises(ArrowIpcError, match=re.escape(says)):
        query.next()
    query.restart(onOverwrite="append")
    assert [(1,)] == query.next()
    save(tmp_path / "in", 2, overwrite=True)
    query.restart(onOverwrite="skip")
    assert query.next() in (None, [])
    save(tmp_path / "in", 3)
    assert [(3,)] == query.next()


@case("was deleted before the stream had read it")
def not_kept(tmp_path, says):
    save(tmp_path / "in", 0)
    query = Query(tmp_path / "in", readChangeFeed="true")
    assert [(0, "insert", 1)] == query.next()
    save(tmp_path / "in", 1, overwrite=True)
    with pytest.raises(ArrowIpcError, match=re.escape(says)):
        query.next()
    query.restart(failOnDataLoss="false")
    assert [(1, "insert", 2)] == query.next()
    query.restart(failOnDataLoss="true")
    save(tmp_path / "in", 2, overwrite=True, retention="1h")
    assert [(1, "delete", 3), (2, "insert", 3)] == query.next()


@case("and cannot go on from there")
def pruned(tmp_path, says):
    save(tmp_path / "in", 0)
    query = Query(tmp_path / "in", N)
    assert [(0,)] == query.next()
    for n in (1, 2, 3):
        save(tmp_path / "in", n)
    table_commits.prune(tmp_path / "in", 1, 2)
    with pytest.raises(ArrowIpcError, match=re.escape(says)):
        query.next()
    anew = Query(tmp_path / "in", N, startingFrom="3")
    assert [(2,), (3,)] == anew.next()
    query.restart(failOnDataLoss="false")
    assert [[], [(0,), (1,), (2,), (3,)]] == [query.next() for _ in range(2)]
    query.restart(failOnDataLoss="true")
    save(tmp_path / "in", 4)
    assert [(4,)] == query.next()


def begin_table(path, *values):
    """Commit a file, whatever else is in the directory."""
    path.mkdir(exist_ok=True)
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, pa.schema([("n", pa.int64())])) as file:
        file.write_batch(pa.record_batch({"n": pa.array(values, pa.int64())}))
    table_commits.save(path, table_commits.APPEND, ("", sink.getvalue()))


@case("and its source is a table by now")
def became_a_table(tmp_path, says):
    query = planned(tmp_path)
    begin_table(tmp_path / "in", 3)
    query.restart()
    with pytest.raises(ArrowIpcError, match=re.escape(says)):
        query.next()
    anew = Query(tmp_path / "in", N, startingFrom="latest")
    assert [] == anew.next()
    begin_table(tmp_path / "in", 4)
    assert [(4,)] == anew.next()


@case("is a table of this package, and a stream that lists its files")
def becomes_a_table(tmp_path, says):
    query = planned(tmp_path)
    begin_table(tmp_path / "in", 3)
    with pytest.raises(ArrowIpcError, match=re.escape(says)):
        query.next()


@case("and the directory has no log any more")
def was_a_table(tmp_path, says):
    begin_table(tmp_path / "in", 1)
    query = Query(tmp_path / "in", N)
    assert [(1,)] == query.next()
    (tmp_path / "in").rename(tmp_path / "moved")
    drop(tmp_path / "in" / "0.arrow", 2)
    query.restart()
    with pytest.raises(ArrowIpcError, match=re.escape(says)):
        query.next()
    shutil.rmtree(tmp_path / "in")
    (tmp_path / "moved").rename(tmp_path / "in")
    begin_table(tmp_path / "in", 3)
    query.restart()
    assert [(3,)] == query.next()


@case("files of other programs, such as")
def foreign(tmp_path, says):
    begin_table(tmp_path / "in", 1)
    drop(tmp_path / "in" / "0.arrow", 2)
    with pytest.raises(ArrowIpcError, match=re.escape(says)):
        Query(tmp_path / "in", N).next()
    assert [] == Query(tmp_path / "in", N, startingFrom="latest").next()


@pytest.mark.slow
@pytest.mark.parametrize("says", CASES)
def test_the_error_has_the_words_and_the_query_goes_on(tmp_path, says):
    CASES[says](tmp_path, says)


def test_every_error_of_the_page_is_made():
    rows = re.findall(r"^- `(.+?)`[:,] ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(CASES) == sorted(rows)


@pytest.mark.exhaustive
def test_a_query_of_spark_goes_on_by_what_the_command_says(spark, tmp_path, capsys):
    """The checkpoint is Spark's own; the rows are those of the sink."""

    def run(**options):
        stream = spark.readStream.format("arrowipc").schema(N).options(**options).load(str(tmp_path / "in"))
        writer = stream.writeStream.format("arrowipc").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
        try:
            query.awaitTermination()
        finally:
            query.stop()

    for i in range(2):
        drop(tmp_path / "in" / f"{i}.arrow", i)
    run(maxFilesPerTrigger="2")
    drop(tmp_path / "in" / "2.arrow", 2)
    path = drop(tmp_path / "in" / "3.arrow", *range(100))
    data = path.read_bytes()
    path.write_bytes(data[:-200] + b"\xff" * 190 + data[-10:])
    with pytest.raises(Exception, match="Flatbuffers"):
        run()
    assert 1 == main(["stream", "--json", str(tmp_path / "checkpoint")])
    found = json.loads(capsys.readouterr().out)
    assert [2, 2] == [batch["parts"][0]["files"] for batch in found["batches"]]
    assert [True, False] == [batch["committed_ns"] is not None for batch in found["batches"]]
    (reason,) = found["stuck"]
    assert reason["what"].startswith(f"{path}: ")
    name, _, value = re.search(r"once with (\S+?),", reason["mend"])[1].partition("=")
    run(**{name: value})
    assert 0 == main(["stream", str(tmp_path / "checkpoint")])
    run(onBadFile="skip")
    rows = spark.read.format("arrowipc").load(str(tmp_path / "out")).collect()
    assert [0, 1, 2] == sorted(row.n for row in rows)
