"""The streaming reader: without Spark, driven as Spark's source process and tasks do it; and few queries of Spark."""

import json
import logging
import os
import pickle
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from stream_queries import Query, drop

from spark_arrow_ipc.errors import FileChangedError, OptionError, StreamOffsetError
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource

limits = pytest.importorskip("pyspark.sql.streaming.datasource", reason="reading a stream needs Spark 4.2 or later")


def test_batches_follow_each_other_and_are_the_same_when_they_are_run_again(tmp_path):
    for i in range(3):
        drop(tmp_path / f"{i}.arrow", i)
    query = Query(tmp_path, maxFilesPerTrigger="2")
    assert [[(0,), (1,)], [(2,)], None] == [query.next() for _ in range(3)]
    drop(tmp_path / "3.arrow", 3)
    query.restart()
    assert [[(0,), (1,)], [(2,)]] == [query.rows(i) for i in range(2)]
    assert [[(3,)], None] == [query.next() for _ in range(2)]
    start = json.loads(query.offsets[-1])
    assert [] == query.reader.partitions(start, start)
    assert [] == list(query.reader.read(None))


def test_a_batch_is_looked_up_once_and_again_where_it_is_run_again(tmp_path, monkeypatch):
    drop(tmp_path / "0.arrow", 0)
    query = Query(tmp_path)
    reader, start, asked = query.reader, json.loads(query.offsets[0]), []
    look_up = reader._mode.batch
    monkeypatch.setattr(reader._mode, "batch", lambda *offsets: asked.append(offsets) or look_up(*offsets))
    end = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
    first = reader.partitions(start, end)
    assert 1 == len(asked)
    again = reader.partitions(start, end)
    assert 2 == len(asked)
    assert [part.ranges for part in first] == [part.ranges for part in again]


@pytest.mark.parametrize(
    ("limit", "options", "count"),
    [
        (limits.ReadMaxFiles(2), {}, 2),
        (limits.ReadMaxFiles(3), {"maxBytesPerTrigger": "1"}, 1),
        (limits.ReadMaxBytes(1), {}, 1),
        (limits.ReadMaxBytes(10**9), {"maxFilesPerTrigger": "2"}, 2),
        (limits.ReadAllAvailable(), {"maxFilesPerTrigger": "1", "maxBytesPerTrigger": "1"}, 4),
        (limits.ReadMaxRows(1), {"maxFilesPerTrigger": "3"}, 3),
    ],
)
def test_limits_of_spark_and_of_options(tmp_path, limit, options, count):
    for i in range(4):
        drop(tmp_path / f"{i}.arrow", i)
    assert count == len(Query(tmp_path, **options).next(limit))


def test_the_default_limit_is_of_files(tmp_path):
    drop(tmp_path / "0.arrow", 0)
    assert limits.ReadMaxFiles(1000) == Query(tmp_path).reader.getDefaultReadLimit()


def test_a_stream_that_ends_sees_what_is_there_at_its_first_look(tmp_path):
    drop(tmp_path / "0.arrow", 0)
    query = Query(tmp_path)
    query.reader.prepareForTriggerAvailableNow()
    assert [(0,)] == query.next()
    drop(tmp_path / "1.arrow", 1)
    assert [None, None] == [query.next() for _ in range(2)]


READS = [
    ({"columns": "word"}, [("a",), ("b",), ("c",)]),
    ({"where": "k = 2 AND n > 5"}, [(7, "c", 2)]),
    ({"columns": "n", "where": "k = 2 AND word = 'b'"}, [(5,)]),
    ({"columns": "k, n"}, [(1, 1), (2, 5), (2, 7)]),
    ({"recursiveFileLookup": "true"}, [(1, "a"), (5, "b"), (7, "c")]),
    ({"pathGlobFilter": "*.feather"}, [(7, "c", 2)]),
]


@pytest.mark.parametrize("options", [case[0] for case in READS], ids=str)
def test_batch_options_on_a_stream_of_partitions(tmp_path, options):
    drop(tmp_path / "k=1" / "x.arrow", 1, word=["a"])
    drop(tmp_path / "k=2" / "y.arrow", 5, word=["b"])
    drop(tmp_path / "k=2" / "z.feather", 7, word=["c"])
    expected = next(rows for given, rows in READS if given == options)
    assert expected == Query(tmp_path, **options).next()


def test_metadata_columns_and_types_of_partitions_that_a_schema_names(tmp_path):
    from pyspark.sql import types as s

    path = drop(tmp_path / "k=007" / "x.arrow", 1)
    query = Query(tmp_path, metadataColumns="true", columns="n, k")
    assert [(1, 7, f"{path}", 0)] == [(row[0], row[1], row[2], row[-1]) for row in query.next()]
    assert [("007", 1)] == Query(tmp_path, s.StructType().add("k", "string").add("n", "long")).next()


def test_a_changed_file_and_a_missing_one_are_errors_that_say_what_to_do(tmp_path, caplog):
    path = drop(tmp_path / "0.arrow", 0)
    drop(tmp_path / "1.arrow", 1)
    query = Query(tmp_path)
    query.next()
    drop(path, 0, 0)
    with pytest.raises(FileChangedError, match=r"put the file back as it was, or begin with a new checkpoint"):
        query.rows(0)
    path.unlink()
    with pytest.raises(FileChangedError, match="it is gone"):
        query.rows(0)
    query.restart(ignoreMissingFiles="true")
    with caplog.at_level(logging.WARNING):
        assert [(1,)] == query.rows(0)
    assert "0.arrow" in caplog.text


def test_files_that_are_still_written_are_left_until_they_are_complete(tmp_path):
    whole = drop(tmp_path / "0.arrow", 0)
    data = drop(tmp_path / "other" / "1.arrow", 1).read_bytes()
    query = Query(tmp_path)
    growing = tmp_path / "1.arrow"
    growing.write_bytes(data[:-20])
    assert [(0,)] == query.next()
    assert query.next() is None
    assert 1 == query.reader.reportLatestOffset()["incompleteFiles"]
    growing.write_bytes(data)
    os.utime(growing, ns=(0, whole.stat().st_mtime_ns))  # as cp -p does
    assert [(1,)] == query.next()


@pytest.mark.parametrize(("name", "data"), [("notes.txt", b"not an Arrow file\n"), ("empty.arrow", b"")])
def test_a_file_of_another_kind_waits_with_a_warning_and_can_be_left_out(tmp_path, caplog, name, data):
    drop(tmp_path / "0.arrow", 0)
    query = Query(tmp_path)
    (tmp_path / name).write_bytes(data)
    assert [(0,)] == query.next()
    old = time.time() + 100
    query.reader._mode._waiting.admission.clock = lambda: int(old * 10**9)
    assert [None, None] == [query.next(), query.next()]
    assert 1 == caplog.text.count(f"{name}: this is not a complete Arrow file")
    drop(tmp_path / "1.arrow", 1)
    assert [(1,)] == query.next()
    query.restart(pathGlobFilter="[0-9].arrow")
    assert query.next() is None


SAME, OTHER = "the same bytes", "other bytes"


def touch(path, seconds):
    os.utime(path, (seconds, seconds))


def in_place(path, change):
    """Write a file of the same size in place, with other values."""
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.write(change(data))


def middle(data):
    """Change one value; a small file is sampled whole."""
    values = pa.array([1], pa.int64()).buffers()[1].to_pybytes()
    assert values in data
    return data.replace(values, pa.array([2], pa.int64()).buffers()[1].to_pybytes())


CHANGES_OF_TIME = [
    ("a time of the past", lambda path: touch(path, 1_500_000_000), SAME),
    ("a time of now", lambda path: touch(path, time.time() + 5), SAME),
    ("a copy in its place", lambda path: (path.write_bytes(path.read_bytes()), touch(path, 1)), SAME),
    ("a copy of its name", lambda path: Path(shutil.copy(path, f"{path}.new")).replace(path), SAME),
    ("rewritten in place", lambda path: (in_place(path, middle), touch(path, 1)), OTHER),
    ("another file of its size", lambda path: (drop(path, 9), touch(path, 1)), OTHER),
    ("longer", lambda path: (drop(path, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), touch(path, 1)), OTHER),
]


@pytest.mark.parametrize("log", [{}, {"sourceLog": "log"}])
@pytest.mark.parametrize(("change", "outcome"), [c[1:] for c in CHANGES_OF_TIME], ids=[c[0] for c in CHANGES_OF_TIME])
def test_a_time_that_is_set_later_does_not_end_a_query_and_other_bytes_do(tmp_path, log, change, outcome):
    """As scp -p, sftp put -p, touch and rsync --inplace set it; a batch that is run again has the time in its offset."""
    path = drop(tmp_path / "in" / "1.arrow", 1)
    options = {name: str(tmp_path / value) for name, value in log.items()} | {"cleanSource": "delete"}
    query = Query(tmp_path / "in", **options)
    assert [(1,)] == query.next()
    change(path)
    query.restart()
    if outcome == SAME:
        assert [(1,)] == query.rows(0)
    else:
        with pytest.raises(FileChangedError, match=r"it was 20\d\d-\d\d-\d\d |it has [\d,]+ bytes, it had"):
            query.rows(0)
    query.reader.commit(json.loads(query.offsets[-1]))
    assert (outcome == OTHER) == path.exists()


def test_with_a_log_files_of_any_time_are_read_once(tmp_path):
    log = tmp_path / "log"
    drop(tmp_path / "in" / "0.arrow", 0)
    query = Query(tmp_path / "in", sourceLog=str(log))
    assert [(0,)] == query.next()
    old = drop(tmp_path / "in" / "old.arrow", 1)
    os.utime(old, (1, 1))
    query.restart()
    assert [[(1,)], None] == [query.next(), query.next()]
    assert [[(0,)], [(1,)]] == [query.rows(i) for i in range(2)]
    assert ["00000000000000000000.json", "00000000000000000001.json", "owner", "schema.json"] == sorted(
        path.name for path in log.iterdir()
    )
    with pytest.raises(OptionError, match="lies in"):
        Query(tmp_path / "in", sourceLog=str(tmp_path / "in" / "log"))


def test_late_files_are_named(tmp_path, caplog):
    os.utime(drop(tmp_path / "0.arrow", 0), (1, 10_000))
    query = Query(tmp_path, lateWindow="60s")
    query.next()
    late = drop(tmp_path / "late.arrow", 1)
    os.utime(late, (1, 10_000 - 100))
    with caplog.at_level(logging.WARNING):
        assert query.next() is None
    assert "1 file has come too late and will not be read" in caplog.text
    assert str(late) in caplog.text
    assert 1 == query.reader.reportLatestOffset()["lateFiles"]


def test_files_are_deleted_when_the_sink_has_them(tmp_path):
    drop(tmp_path / "in" / "0.arrow", 0)
    query = Query(tmp_path / "in", cleanSource="delete")
    query.next()
    query.reader.commit(json.loads(query.offsets[-1]))
    assert [] == list(tmp_path.rglob("*.arrow"))
    assert query.next() is None


def test_progress_and_a_line_for_each_batch(tmp_path, caplog):
    begun = time.time()
    for i in range(3):
        drop(tmp_path / f"{i}.arrow", i)
    query = Query(tmp_path, maxFilesPerTrigger="2")
    nbytes = (tmp_path / "0.arrow").stat().st_size
    with caplog.at_level(logging.INFO, "spark_arrow_ipc"):
        query.next()
    said = query.reader.reportLatestOffset()
    read = (tmp_path / "1.arrow").stat().st_mtime
    assert said.pop("position").startswith(f"files up to {time.strftime('%Y-%m-%d ', time.gmtime(read))}")
    assert 0 <= said.pop("oldestWaitingSeconds") <= time.time() - begun + 1
    assert {
        "path": str(tmp_path),
        "mode": "window",
        "files": 2,
        "bytes": 2 * nbytes,
        "waitingFiles": 1,
        "waitingBytes": nbytes,
        "incompleteFiles": 0,
        "lateFiles": 0,
        "badFiles": 0,
    } == said
    assert f"a batch of 2 files, {2 * nbytes} bytes, in the mode window; 1 files, {nbytes} bytes wait" in caplog.text


def test_an_empty_directory_needs_a_schema(tmp_path):
    from pyspark.sql import types as s

    query = Query(tmp_path, s.StructType().add("n", "long"))
    assert query.next() is None
    drop(tmp_path / "0.arrow", 5)
    assert [(5,)] == query.next()


def test_a_batch_read_refuses_the_options_of_streams(tmp_path):
    drop(tmp_path / "0.arrow", 0)
    source = ArrowIpcDataSource({"path": str(tmp_path), "maxFilesPerTrigger": "1"})
    with pytest.raises(OptionError, match="maxFilesPerTrigger is for reading streams"):
        source.reader(source.schema())


@pytest.mark.smoke("stream in")
def test_spark_reads_what_is_there_and_its_progress_says_so(spark, tmp_path):
    for i in range(3):
        drop(tmp_path / "in" / f"k={i % 2}" / f"{i}.arrow", i)
    stream = spark.readStream.format("arrowipc").option("maxFilesPerTrigger", 2).load(str(tmp_path / "in"))
    writer = stream.writeStream.format("memory").queryName("seen_by_arrowipc").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.awaitTermination()
    assert [(0, 0), (1, 1), (2, 0)] == sorted(map(tuple, spark.table("seen_by_arrowipc").collect()))
    said = [json.loads(p["sources"][0]["latestOffset"]) for p in query.recentProgress]
    assert [(2, 1), (1, 0)] == [(each["files"], each["waitingFiles"]) for each in said]
    assert ["window"] * 2 == [each["mode"] for each in said]


@pytest.mark.exhaustive
def test_queries_of_spark_end_go_on_and_run_a_batch_again(spark, tmp_path):
    """Source and sink both ours, three triggers; the last batch of the first query is run again, by the second."""
    source, out, checkpoint = (str(tmp_path / name) for name in ("in", "out", "checkpoint"))
    for i in range(3):
        drop(tmp_path / "in" / f"k={i % 2}" / f"{i}.arrow", i)

    def run(**trigger):
        stream = spark.readStream.format("arrowipc").option("maxFilesPerTrigger", 2).load(source)
        writer = stream.writeStream.format("arrowipc").option("checkpointLocation", checkpoint)
        return writer.trigger(**trigger).start(out)

    def batches(query):
        query.awaitTermination()
        return [progress["batchId"] for progress in query.recentProgress]

    assert [0, 1] == batches(run(availableNow=True))
    last = tmp_path / "checkpoint" / "commits" / "1"
    for file in (last, last.with_name(".1.crc")):
        file.unlink(missing_ok=True)
    for i in range(3, 6):
        drop(tmp_path / "in" / f"k={i % 2}" / f"{i}.arrow", i)
    assert [[1], [2]] == [batches(run(once=True)) for _ in range(2)]
    query = run(processingTime="100 milliseconds")
    drop(tmp_path / "in" / "k=0" / "6.arrow", 6)
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and not any(progress["batchId"] == 3 for progress in query.recentProgress):
        time.sleep(0.1)
    query.stop()
    rows = spark.read.format("arrowipc").load(out)
    assert [(i, i % 2) for i in range(7)] == sorted(map(tuple, rows.collect()))


METHODS = {
    "getDefaultReadLimit": (),
    "initialOffset": (),
    "latestOffset": ({}, None),
    "reportLatestOffset": (),
    "partitions": ({}, {}),
    "read": (None,),
    "commit": ({},),
}


@pytest.mark.parametrize("method", METHODS)
def test_a_mistake_is_said_by_whatever_spark_calls_first(tmp_path, method):
    """Never by `streamReader`, behind which Spark's runner stops a reader that it does not have."""
    reader = ArrowIpcDataSource({"path": str(tmp_path), "colums": "n"}).streamReader(None)
    with pytest.raises(OptionError, match="there is no option colums; did you mean columns"):
        getattr(pickle.loads(pickle.dumps(reader)), method)(*METHODS[method])
    reader.stop()


def test_a_mistake_in_a_stream_with_a_schema_reaches_the_person(spark, tmp_path):
    stream = spark.readStream.format("arrowipc").schema("n bigint").option("colums", "n").load(str(tmp_path))
    query = stream.writeStream.format("noop").start()
    with pytest.raises(
        StreamingQueryException, match=r"OptionError: there is no option colums; did you mean columns\?\n"
    ):
        query.awaitTermination(60)


CHANGES = [
    # options at first, options after the restart, and what a change is told; None if the query goes on
    ({"path": "in"}, {"path": "other"}, r"path='.*in', and now has path='.*ot"),
    ({"path": "in"}, {"path": "in/*"}, "path="),
    ({"path": "in"}, {"path": "link"}, None),
    ({"path": "link"}, {"path": "in"}, None),
    ({"path": "link"}, {"path": "other"}, "path="),
    ({"path": "in"}, {"path": "link", "cleanSource": "delete"}, "path="),
    ({"path": "in"}, {"fileNameOnly": "true"}, "fileNameOnly='false', and now has fileNameOnly='true'"),
    ({"path": "in", "fileNameOnly": "true"}, {"fileNameOnly": "false"}, "fileNameOnly="),
    ({"path": "in", "sourceLog": "log"}, {"fileNameOnly": "true"}, "fileNameOnly='false', and now has"),
    ({"path": "in", "sourceLog": "log"}, {"path": "other"}, "a log is for one source"),
    ({"path": "in"}, {"sourceLog": "log"}, "made in the mode 'window'"),
    ({"path": "in"}, {"lateWindow": "9h", "latestFirst": "true", "recursiveFileLookup": "true"}, None),
]


@pytest.mark.parametrize(("first", "then", "message"), CHANGES)
def test_options_that_offsets_depend_on_do_not_change_on_a_restart(tmp_path, first, then, message):
    drop(tmp_path / "in" / "0.arrow", 0)
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to("in")
    placed = [
        {k: str(tmp_path / v) if k in ("path", "sourceLog") else v for k, v in given.items()} for given in (first, then)
    ]
    query = Query(placed[0].pop("path"), recursiveFileLookup="true", **placed[0])
    assert [(0,)] == query.next()
    query.restart(**placed[1])
    drop(tmp_path / "in" / "1.arrow", 1)
    if message is None:
        assert [[(1,)], None] == [query.next(), query.next()]
        query.restart()
        assert query.next() is None
        return
    with pytest.raises(StreamOffsetError, match=message):
        query.next()


def test_an_offset_of_an_earlier_release_goes_on(tmp_path):
    drop(tmp_path / "0.arrow", 0)
    query = Query(tmp_path)
    query.next()
    old = json.loads(query.offsets[-1])
    query.offsets[-1] = json.dumps({k: v for k, v in old.items() if k not in ("path", "fileNameOnly")})
    query.restart()
    drop(tmp_path / "1.arrow", 1)
    assert [(1,)] == query.next()
    noted = json.loads(query.offsets[-1])
    assert (str(tmp_path), "false") == (noted["path"], noted["fileNameOnly"])


@pytest.mark.parametrize("log", [False, True], ids=["window", "log"])
def test_a_producer_that_pauses_for_a_minute_loses_nothing(tmp_path, caplog, log):
    """It writes two batches, pauses, writes one, pauses, and ends its stream."""
    source, now = tmp_path / "in", [0]
    path = drop(source / "a.arrow", 7).with_name("b.arrows")
    options = {"sourceLog": str(tmp_path / "log")} if log else {}
    query = Query(source, **options)

    def look(seconds):
        query.reader._mode._waiting.admission.clock = lambda: time.time_ns() + now[0]
        now[0] += seconds * 10**9
        return query.next()

    batches = [pa.record_batch({"n": [n]}) for n in range(3)]
    with path.open("wb") as file, pa.ipc.new_stream(file, batches[0].schema) as writer:
        for batch in batches[:2]:
            writer.write_batch(batch)
            file.flush()
        found = [look(1), look(70)]
        writer.write_batch(batches[2])
        file.flush()
        query.restart()
        found += [look(1), look(70)]
    found += [look(1), look(70)]
    words = [record.getMessage() for record in caplog.records if "b.arrows" in record.getMessage()]
    assert [[(7,)], None, None, None, [(0,), (1,), (2,)], None] == found
    assert words
    assert all("no end marker, and the query waits for it" in each for each in words)
