"""`ingest` through Spark: the rows and files that its source's stream and its sink's would make, each batch once.

pyarrow writes what is dropped and reads what is published. tests/faults/stream_kill_loop.py kills drivers of such queries.
"""

import json
import logging
import shutil
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from pyspark.errors import StreamingQueryException

from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.dataset.stream.mode import Limit
from spark_arrow_ipc.errors import ColumnNotFoundError, FunctionError, OptionError, UnsupportedError

pytest.importorskip("pyspark.sql.streaming.datasource", reason="reading a stream needs Spark 4.2 or later")
from spark_arrow_ipc.spark.rewrite import ingest as module
from spark_arrow_ipc.spark.rewrite import rewrite

ingest = module.ingest

NOW = {"availableNow": True}


def drop(directory, *numbers, **columns):
    """Put a file of two rows for each number, whole, under its name."""
    directory.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        table = pa.table({"id": [2 * number, 2 * number + 1], "day": [f"d{number % 2}", "d9"], **columns})
        temporary = directory / f".{number}"
        with pa.ipc.new_file(temporary, table.schema) as writer:
            writer.write_table(table)
        temporary.rename(directory / f"{number}.arrow")


def ids(*numbers):
    return sorted(row for number in numbers for row in (2 * number, 2 * number + 1))


def published(directory):
    data = ds.dataset(directory, format="ipc", partitioning="hive", exclude_invalid_files=False)
    return data.to_table()


def files(directory):
    return sorted(Path(directory).rglob("part-*"))


def drain(spark, tmp_path, function=None, **options):
    """Ingest what is there, and return the query."""
    given = {
        "source": tmp_path / "in",
        "target": tmp_path / "out",
        "checkpoint": tmp_path / "checkpoint",
        "trigger": NOW,
    }
    given |= options
    query = ingest(spark, given.pop("source"), given.pop("target"), function, **given)
    assert query.awaitTermination(120)
    return query


def figures(query):
    """Return the sum of each figure over the batches of a query's progress."""
    rows = [row.asDict() for row in (each["observedMetrics"].get("ingest") for each in query.recentProgress) if row]
    return {name: sum(row[name] or 0 for row in rows) for name in ("rowsRead", "rowsWritten", "files", "bytes")}


def test_each_file_is_ingested_once_over_restarts(spark, tmp_path):
    for last in (3, 6, 9):
        drop(tmp_path / "in", *range(last - 3, last))
        query = drain(spark, tmp_path, maxFilesPerTrigger=2)
        assert ids(*range(last)) == sorted(published(tmp_path / "out")["id"].to_pylist())
        made = figures(query)
        assert (6, 6, 2) == (made["rowsRead"], made["rowsWritten"], made["files"])
    assert sum(file.stat().st_size for file in files(tmp_path / "out")) == 3 * made["bytes"]


def follow_log(tmp_path, spark):
    drop(tmp_path / "in", 0, 1, 2)
    return {}, "log"


def follow_window(tmp_path, spark):
    drop(tmp_path / "in", 0, 1, 2)
    return {"lateWindow": "2h"}, "window"


def follow_table(tmp_path, spark):
    frame = spark.createDataFrame([(each, "d0") for each in ids(0, 1, 2)], "id long, day string")
    frame.write.format("arrowipc").mode("append").save(str(tmp_path / "in"))
    return {}, "table"


def follow_tail(tmp_path, spark):
    table = pa.table({"id": ids(0, 1, 2), "day": ["d0"] * 6})
    with pa.ipc.new_stream(tmp_path / "in", table.schema) as writer:
        for batch in table.to_batches(max_chunksize=2):
            writer.write_batch(batch)
    return {"tail": True}, "tail"


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("follow", [follow_log, follow_window, follow_table, follow_tail])
def test_every_kind_of_source_is_followed(spark, tmp_path, follow):
    options, mode = follow(tmp_path, spark)
    query = drain(spark, tmp_path, **options)
    assert mode == json.loads(query.lastProgress["sources"][0]["endOffset"])["mode"]
    assert ids(0, 1, 2) == sorted(published(tmp_path / "out")["id"].to_pylist())
    assert 6 == figures(drain(spark, tmp_path, **options) and query)["rowsWritten"]
    assert ids(0, 1, 2) == sorted(published(tmp_path / "out")["id"].to_pylist())


def test_the_log_of_the_source_lies_in_the_checkpoint_unless_one_is_given(spark, tmp_path):
    drop(tmp_path / "in", 0)
    drain(spark, tmp_path)
    assert (tmp_path / "checkpoint" / "sources" / "0" / "arrowipc" / "owner").exists()
    drain(spark, tmp_path, checkpoint=tmp_path / "other", sourceLog=tmp_path / "log", target=tmp_path / "out2")
    assert (tmp_path / "log" / "owner").exists()
    assert not (tmp_path / "other" / "sources").exists()


def test_a_restart_has_the_columns_of_the_first_start_until_others_are_given(spark, tmp_path):
    drop(tmp_path / "in", 0)
    drain(spark, tmp_path)
    drop(tmp_path / "in", 1, extra=["x", "y"])
    drain(spark, tmp_path)
    assert (["id", "day"], 4) == (published(tmp_path / "out").column_names, published(tmp_path / "out").num_rows)
    drop(tmp_path / "in", 2, extra=["x", "y"])
    drain(spark, tmp_path, source_schema="id bigint, day string, extra string")
    written = ds.dataset(tmp_path / "out", schema=pa.schema({"id": pa.int64(), "extra": pa.string()}), format="ipc")
    assert [(4, "x"), (5, "y")] == sorted(tuple(row.values()) for row in written.to_table().to_pylist() if row["extra"])


def test_the_changes_of_a_data_set_are_ingested(spark, tmp_path):
    for mode, number in (("append", 1), ("overwrite", 2)):
        frame = spark.createDataFrame([(number,)], "id long").coalesce(1).write.format("arrowipc").mode(mode)
        frame.options(retention="1h").save(str(tmp_path / "in"))
    drain(spark, tmp_path, readChangeFeed=True, startingFrom=1)
    rows = [tuple(row.values()) for row in published(tmp_path / "out").to_pylist()]
    assert [(1, "delete", 2), (1, "insert", 1), (2, "insert", 2)] == sorted(rows)


def small(batches):
    for batch in batches:
        yield batch.filter(pc.less(batch.column("id"), 6)).select(["day", "id"])


@pytest.mark.smoke("ingest")
def test_rows_are_filtered_changed_sorted_and_partitioned_where_they_are_decoded(spark, tmp_path):
    drop(tmp_path / "in", *range(5, -1, -1))
    options = {"where": "id <> 3", "partitionBy": ["day"], "sort_by": "id"}
    query = drain(spark, tmp_path, small, schema="day string, id long", **options)
    made = published(tmp_path / "out").sort_by("id").select(["id", "day"]).to_pylist()
    assert [(0, "d0"), (1, "d9"), (2, "d1"), (4, "d0"), (5, "d9")] == [tuple(row.values()) for row in made]
    made = figures(query)
    assert (11, 5) == (made["rowsRead"], made["rowsWritten"])
    for file in files(tmp_path / "out"):
        found = pa.ipc.open_file(file).read_all()["id"].to_pylist()
        assert sorted(found) == found


def test_small_files_of_a_batch_become_one(spark, tmp_path):
    drop(tmp_path / "in", *range(40))
    drain(spark, tmp_path)
    (file,) = files(tmp_path / "out")
    assert 80 == pa.ipc.open_file(file).read_all().num_rows


def test_a_task_reads_as_much_as_is_asked_for(spark, tmp_path):
    drop(tmp_path / "in", *range(8), text=["x" * 100_000] * 2)
    drain(spark, tmp_path, file_bytes="500k", minPartitionNum=1)
    assert 4 == len(files(tmp_path / "out"))


def test_a_target_that_has_more_columns_gets_nulls(spark, tmp_path):
    drop(tmp_path / "in", 0)
    drain(spark, tmp_path)
    more = spark.createDataFrame([(100, "d5", 1.5)], "id long, day string, more double")
    more.write.format("arrowipc").mode("append").save(str(tmp_path / "out"))
    drop(tmp_path / "in", 1)
    drain(spark, tmp_path)
    rows = spark.read.format("arrowipc").load(str(tmp_path / "out")).orderBy("id").collect()
    assert [(0, None), (1, None), (2, None), (3, None), (100, 1.5)] == [(row.id, row.more) for row in rows]


def test_files_are_taken_away_when_they_are_committed(spark, tmp_path):
    drop(tmp_path / "in", 0, 1)
    drain(spark, tmp_path, maxFilesPerTrigger=1, cleanSource="delete")
    drop(tmp_path / "in", 2)
    drain(spark, tmp_path, maxFilesPerTrigger=1, cleanSource="delete")
    assert ["2.arrow"] == [file.name for file in (tmp_path / "in").iterdir()]
    assert ids(0, 1, 2) == sorted(published(tmp_path / "out")["id"].to_pylist())


def dies(batches):
    for batch in batches:
        yield batch
        raise ValueError("no more of this")


def test_a_function_that_fails_ends_the_query_and_publishes_nothing_until_it_is_mended(spark, tmp_path):
    drop(tmp_path / "in", 0)
    with pytest.raises(StreamingQueryException, match="no more of this"):
        drain(spark, tmp_path, dies)
    assert [] == files(tmp_path / "out")
    query = drain(spark, tmp_path)
    assert 0 == query.lastProgress["batchId"]
    assert ids(0) == sorted(published(tmp_path / "out")["id"].to_pylist())
    assert [] == list((tmp_path / "out").rglob("*.staged"))


def test_a_batch_that_is_run_again_is_committed_once(spark, tmp_path):
    drop(tmp_path / "in", 0)
    drain(spark, tmp_path)
    for name in ("0", ".0.crc"):  # as if the driver had died between the two commits
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    drop(tmp_path / "in", 1)
    query = drain(spark, tmp_path)
    assert [0, 1] == [each["batchId"] for each in query.recentProgress]
    assert ids(0, 1) == sorted(published(tmp_path / "out")["id"].to_pylist())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("later", [1, 2])
def test_a_checkpoint_that_is_older_than_the_target_is_refused(spark, tmp_path, later):
    drop(tmp_path / "in", 0)
    drain(spark, tmp_path)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "old")
    for number in range(1, later + 1):
        drop(tmp_path / "in", number)
        drain(spark, tmp_path)
    drop(tmp_path / "in", 9)
    with pytest.raises(StreamingQueryException, match=f"batch {later} of this query is committed here"):
        drain(spark, tmp_path, checkpoint=tmp_path / "old")
    assert ids(*range(later + 1)) == sorted(published(tmp_path / "out")["id"].to_pylist())
    assert [] == list((tmp_path / "out").rglob("*.staged"))
    drain(spark, tmp_path)
    assert ids(*range(later + 1), 9) == sorted(published(tmp_path / "out")["id"].to_pylist())


def test_a_commit_that_fails_ends_the_query_and_leaves_nothing_staged(spark, tmp_path):
    drop(tmp_path / "in", 0)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "other.arrow").write_bytes(b"no Arrow file")
    with pytest.raises(StreamingQueryException, match=r"other\.arrow"):
        drain(spark, tmp_path)
    assert [] == files(tmp_path / "out")


def test_a_batch_without_rows_is_committed(spark, tmp_path):
    drop(tmp_path / "in", 0)
    drain(spark, tmp_path, where="id > 100")
    assert 0 == spark.read.format("arrowipc").load(str(tmp_path / "out")).count()
    assert ["id", "day"] == spark.read.format("arrowipc").load(str(tmp_path / "out")).columns


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"commitToken": "x"}, OptionError, "commitToken is for single jobs"),
        ({"ifExists": "error"}, OptionError, "ifExists is for single jobs"),
        ({"metadataOnly": True}, OptionError, "metadataOnly=true is for batch reads"),
        ({"compresion": "zstd"}, OptionError, "did you mean compression"),
        ({"path": "x"}, OptionError, "here paths are arguments"),
        ({"schema": "id long"}, OptionError, "a schema is that of a function's result"),
        ({"file_bytes": "many"}, OptionError, "bytes as file_bytes"),
        ({"sort_by": "absent"}, ColumnNotFoundError, "there is no column 'absent'"),
        ({"partitionBy": "absent"}, ColumnNotFoundError, "there is no column 'absent'"),
        ({"tail": True}, OptionError, "tail=true follows one file"),
        ({"startingFrom": 17}, OptionError, "startingFrom=17 is the number of a log entry"),
        ({"function": 3}, FunctionError, "expected a function"),
        ({"target": "~/out"}, OptionError, "begins with ~"),
        ({"checkpoint": "~/checkpoint"}, OptionError, "begins with ~"),
        ({"checkpoint": "s4://bucket/x"}, OptionError, 'does not reach it .No FileSystem for scheme "s4"'),
        ({"checkpoint": ""}, OptionError, "Can not create a Path from an empty string"),
    ],
)
def test_what_cannot_be_is_refused_before_the_query_begins(spark, tmp_path, options, error, words):
    drop(tmp_path / "in", 0)
    with pytest.raises(error, match=words):
        drain(spark, tmp_path, **options)
    assert not (tmp_path / "checkpoint").exists()
    assert not (tmp_path / "out").exists()


def test_a_source_without_files_needs_its_columns(spark, tmp_path):
    (tmp_path / "in").mkdir()
    query = drain(spark, tmp_path, source_schema="id long, day string")
    assert not query.recentProgress or query.lastProgress["numInputRows"] == 0
    drop(tmp_path / "in", 0)
    drain(spark, tmp_path, source_schema="id long, day string")
    assert ids(0) == sorted(published(tmp_path / "out")["id"].to_pylist())


def test_bad_files_are_passed_over_and_noted_in_the_checkpoint_until_they_are_mended(spark, tmp_path, capsys):
    drop(tmp_path / "in", 0)
    bad = tmp_path / "in" / "1.arrow"
    with pa.ipc.new_file(bad, pa.schema({"id": pa.string()})) as writer:
        writer.write_batch(pa.record_batch({"id": ["x"]}))
    given = {"onBadFile": "quarantine", "source_schema": "id bigint, day string"}
    drain(spark, tmp_path, **given)
    assert ids(0) == sorted(published(tmp_path / "out")["id"].to_pylist())
    assert 0 == main(["stream", "--json", str(tmp_path / "checkpoint")])
    seen = json.loads(capsys.readouterr().out)
    assert [str(bad)] == [note["path"] for note in seen["bad"]]
    assert [1] == [batch["parts"][0]["files"] for batch in seen["batches"]]
    drop(tmp_path / "in", 1)
    drain(spark, tmp_path, **given)
    assert ids(0, 1) == sorted(published(tmp_path / "out")["id"].to_pylist())


def test_a_name_is_that_of_the_query(spark, tmp_path):
    drop(tmp_path / "in", 0)
    assert "nightly" == drain(spark, tmp_path, query_name="nightly").name


def test_no_plan_shows_what_the_source_is_told(spark, tmp_path):
    drop(tmp_path / "in", 0)
    query = drain(spark, tmp_path)
    extended = True
    shown = query._jsq.explainInternal(extended) + json.dumps(query.lastProgress["sources"][0])
    assert "arrowipc" in shown
    assert "gAS" not in shown  # how a pickle begins in base64


def test_a_checkpoint_that_only_spark_reaches_gets_no_log(monkeypatch, caplog):
    def refuse(*_):
        raise UnsupportedError("there is no storage for it")

    monkeypatch.setattr(module, "storage_of", refuse)
    with caplog.at_level(logging.WARNING):
        assert module._log_in_checkpoint("/checkpoint", ()) is None
    assert "give sourceLog" in caplog.text


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ({"target": "in/lake"}, "the target lies in"),
        ({"target": "in"}, "the target lies in"),
        ({"checkpoint": "in/state"}, "the checkpoint lies in"),
    ],
)
def test_nothing_of_a_query_lies_where_it_looks_for_files(spark, tmp_path, place, words):
    drop(tmp_path / "in", 0)
    with pytest.raises(OptionError, match=words):
        drain(spark, tmp_path, **{name: tmp_path / path for name, path in place.items()})
    assert ["0.arrow"] == [file.name for file in (tmp_path / "in").iterdir()]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ({"source": "out/k=1"}, "the source lies in"),
        ({"checkpoint": "out/state"}, "the checkpoint lies in"),
        ({"checkpoint": "out"}, "the checkpoint lies in"),
        ({"sourceLog": "out/log"}, "sourceLog lies in"),
    ],
)
def test_nothing_of_a_query_lies_where_readers_of_the_target_look(spark, tmp_path, place, words):
    drop(tmp_path / "in", 0)
    drop(tmp_path / "out" / "k=1", 0)
    with pytest.raises(OptionError, match=words):
        drain(spark, tmp_path, **{name: tmp_path / path for name, path in place.items()})
    assert ["k=1"] == [file.name for file in (tmp_path / "out").iterdir()]
    assert not (tmp_path / "checkpoint").exists()


def test_a_target_beside_what_a_pattern_matches_is_refused_where_a_link_leads_there(spark, tmp_path):
    drop(tmp_path / "lake" / "a" / "in", 0)
    place = {"source": tmp_path / "lake" / "*" / "in", "target": tmp_path / "lake" / "b" / "out"}
    drain(spark, tmp_path, **place)
    (tmp_path / "lake" / "c").mkdir()
    (tmp_path / "lake" / "c" / "in").symlink_to(place["target"])
    with pytest.raises(
        StreamingQueryException,
        match="is a table of this package, and a stream that lists its files would read rows twice",
    ):
        drain(spark, tmp_path, **place)
    (tmp_path / "lake" / "c" / "in").unlink()
    drop(tmp_path / "lake" / "a" / "in", 1)
    drain(spark, tmp_path, **place)
    assert ids(0, 1) == sorted(published(place["target"])["id"].to_pylist())


def test_a_query_that_is_stopped_while_a_batch_runs_ends_by_the_words_that_spark_looks_for(spark):
    patterns = spark._jvm.org.apache.spark.sql.execution.streaming.runtime.StreamExecution

    def interrupted():
        error = RuntimeError("of Java, with its stack" * 1_000)
        error.java_exception = spark._jvm.java.lang.InterruptedException()
        raise error

    aborted = []
    writer = SimpleNamespace(abort=lambda *given: aborted.append(given))
    reports = SimpleNamespace(select=lambda _: SimpleNamespace(collect=interrupted))
    with pytest.raises(RuntimeError, match=r"InterruptedException$") as caught:
        module._make_commit(SimpleNamespace(writer=lambda: writer))(reports, 7)
    assert patterns.PROXY_ERROR().findFirstIn(str(caught.value)).isDefined()
    assert [([], 7)] == aborted


def test_an_error_of_a_batch_has_a_short_trace(spark, tmp_path):
    drop(tmp_path / "in", 0)
    with pytest.raises(StreamingQueryException) as caught:
        drain(spark, tmp_path, where="id / 0 > 1", source_schema="id string")
    assert len(str(caught.value)) < 3_000, str(caught.value)


@pytest.fixture
def server():
    from fault_server import fault_server  # workers import this module for its functions, and have no such module

    with fault_server() as made:
        yield made


def objects(server, directory):
    return sorted(key for key in server.objects.by_key if key.startswith(directory))


def test_a_log_in_an_object_store_gets_the_options_of_a_storage_though_the_source_is_local(spark, tmp_path, server):
    options = {f"storage.{name}": value for name, value in server.options.items()}
    drop(tmp_path / "in", 0)
    drain(spark, tmp_path, sourceLog=f"{server.url}/log", **options)
    drop(tmp_path / "in", 1)
    drain(spark, tmp_path, sourceLog=f"{server.url}/log", **options)
    assert ids(0, 1) == sorted(published(tmp_path / "out")["id"].to_pylist())
    entries = ["log/00000000000000000000.json", "log/00000000000000000001.json"]
    assert {*entries, "log/owner"} < {*objects(server, "log")}


def test_a_checkpoint_in_an_object_store_keeps_the_log_by_the_options_of_a_storage(tmp_path, server):
    options = module._storage_options({f"storage.{name}": value for name, value in server.options.items()})
    log = module._log_in_checkpoint(f"{server.url}/checkpoint", options)
    following = module.StreamOptions(ingest=module.IngestPaths(log, options))
    drop(tmp_path / "in", 0)
    mode = module.stream_mode(module.ReadOptions(paths=(str(tmp_path / "in"),)), following)
    mode.latest(mode.initial(), Limit())
    assert f"checkpoint/{'/'.join(module._LOG)}/00000000000000000000.json" in objects(server, "checkpoint")


def test_a_source_in_an_object_store_and_a_local_checkpoint(spark, tmp_path, server):
    options = {f"storage.{name}": value for name, value in server.options.items()}
    for number in range(2):
        drop(tmp_path / "in", number)
        server.objects.put(f"in/{number}.arrow", (tmp_path / "in" / f"{number}.arrow").read_bytes())
        drain(spark, tmp_path, source=f"{server.url}/in", **options)
    assert ids(0, 1) == sorted(published(tmp_path / "out")["id"].to_pylist())
    assert (tmp_path / "checkpoint" / "sources" / "0" / "arrowipc" / "owner").exists()


def test_options_of_a_storage_are_for_the_side_that_is_remote():
    given = {"storage.region": "eu", "compression": "lz4", "maxFilesPerTrigger": 3}
    split = rewrite.split_options
    assert ({"maxFilesPerTrigger": "3"}, {"storage.region": "eu", "compression": "lz4"}) == split(
        given, "/in", "s3://bucket/out", notes=[]
    )
    assert ({"maxFilesPerTrigger": "3", "storage.region": "eu"}, {"compression": "lz4"}) == split(
        given, ["s3://bucket/in"], "/out", notes=[]
    )
    assert ({"maxFilesPerTrigger": "3"}, {"compression": "lz4"}) == split(
        given, "/in", "/out", notes=["s3://bucket/log"]
    )
    for_both, of_write = split(given, "/in", "/out", notes=[])  # where it is an error that names it
    assert "storage.region" in for_both
    assert "storage.region" in of_write
