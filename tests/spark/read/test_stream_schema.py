"""The columns of a stream: noted in its log, read at a restart, and new ones of files named once."""

import json
from dataclasses import fields

import pyarrow as pa
import pytest
from pyspark.sql import types as s

pytest.importorskip("pyspark.sql.streaming.datasource", reason="reading a stream needs Spark 4.2 or later")
from stream_queries import Query, drop

from spark_arrow_ipc.errors import NoFilesError, StreamOffsetError, UnsupportedError
from spark_arrow_ipc.spark.convert import plan as conversion_plan
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.read import stream_schema

MORE = {"extra": pa.array(["x"])}
N = s.StructType([s.StructField("n", s.LongType())])


@pytest.fixture
def query(tmp_path):
    """A query that has read a file with one column, by a log."""
    drop(tmp_path / "in" / "0.arrow", 0)
    query = Query(tmp_path / "in", sourceLog=str(tmp_path / "log"))
    assert [(0,)] == query.next()
    return query


def again(query, schema=None, **options):
    """Start the query again as a program does: the columns are asked for anew."""
    query.schema = schema
    query.restart(**options)
    return query.reader._schema.names


def test_a_restart_has_the_columns_of_the_first_start_and_not_of_the_newest_file(query, tmp_path, caplog):
    drop(tmp_path / "in" / "1.arrow", 1, **MORE)
    assert ["n"] == again(query)
    assert [(1,)] == query.next()
    assert 1 == caplog.text.count("files have columns now that this stream does not have, and goes on without: extra")
    drop(tmp_path / "in" / "2.arrow", 2, **MORE)
    assert [(2,)] == query.next()
    assert 1 == caplog.text.count("goes on without")


WAYS = {
    "a schema": ({"schema": s.StructType([*N, s.StructField("extra", s.StringType())])}, ["n", "extra"], True),
    "other options": ({"metadataColumns": "true", "columns": "n, extra"}, ["n", "extra"], False),
    "a longer batch alone": ({"maxFilesPerTrigger": "7"}, ["n"], False),
    "no note any more": (None, ["n", "extra"], False),
}


@pytest.mark.parametrize("way", WAYS)
def test_ways_to_other_columns(query, tmp_path, caplog, way):
    drop(tmp_path / "in" / "1.arrow", 1, **MORE)
    given, names, warned = WAYS[way]
    if given is None:
        (tmp_path / "log" / "schema.json").unlink()
    schema = (given or {}).pop("schema", None)
    assert names == again(query, schema, **(given or {}))[: len(names)]
    query.next()
    assert warned == ("the stream goes on with other columns than before" in caplog.text) or way == "other options"
    assert names == again(query)[: len(names)]


def test_each_option_that_chooses_a_type_is_part_of_the_note():
    usual = ReadOptions(paths=("x",))
    chosen = [options for _, options in conversion_plan._alternatives(usual)]
    names = {f.name for f in fields(usual) for options in chosen if getattr(options, f.name) != getattr(usual, f.name)}
    assert len(names) >= 5
    assert names <= set(stream_schema._SHAPING)


def test_in_other_modes_the_newest_file_decides_at_a_start_and_a_new_column_does_not_stop_a_query(tmp_path, caplog):
    drop(tmp_path / "0.arrow", 0)
    query = Query(tmp_path)
    query.next()
    drop(tmp_path / "1.arrow", 1, **MORE)
    assert [(1,)] == query.next()
    assert 1 == caplog.text.count("goes on without: extra")
    assert ["n", "extra"] == again(query)


def test_a_column_that_is_left_out_from_the_beginning_is_not_named(tmp_path, caplog):
    for i in range(2):
        drop(tmp_path / f"{i}.arrow", i, **MORE)
    query = Query(tmp_path, N, maxFilesPerTrigger="1")
    assert [[(0,)], [(1,)]] == [query.next(), query.next()]
    assert "goes on without" not in caplog.text


def test_a_column_that_newer_files_lack_is_null(tmp_path):
    drop(tmp_path / "0.arrow", 0, **MORE)
    query = Query(tmp_path, sourceLog=str(tmp_path / "_log"))
    query.next()
    drop(tmp_path / "1.arrow", 1)
    assert ["n", "extra"] == again(query)
    assert [(1, None)] == query.next()


USER_TYPE = {"type": "udt", "class": None, "pyClass": "os.system", "sqlType": "long"}
DAMAGE = {
    "cut": b'{"v":1',
    "a number": b"7",
    "another version": b'{"v":2,"options":"","schema":{},"names":[]}',
    "no such type": b'{"v":1,"options":"","names":[],"schema":{"type":"struct","fields":[{"name":"n","type":"lung","nullable":true,"metadata":{}}]}}',
    "code": json.dumps({"v": 1, "options": "", "names": [], "schema": {"type": "struct", "fields": [{"name": "n", "type": USER_TYPE}]}}).encode(),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_note_is_an_error_that_says_what_to_do(query, tmp_path, damage):
    (tmp_path / "log" / "schema.json").write_bytes(DAMAGE[damage])
    with pytest.raises(
        StreamOffsetError, match=r"schema\.json: this note of a stream's columns is damaged .*; remove it"
    ):
        ArrowIpcDataSource(query.options).schema()


def test_a_note_is_written_through_no_link(tmp_path):
    drop(tmp_path / "in" / "0.arrow", 0)
    query = Query(tmp_path / "in", sourceLog=str(tmp_path / "log"))
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "schema.json").symlink_to(victim)
    with pytest.raises(UnsupportedError, match=r"schema\.json: expected a regular file, found a link"):
        query.next()
    assert "mine" == victim.read_text()


@pytest.mark.parametrize("log", [False, True], ids=["window", "log"])
def test_a_file_that_is_being_written_does_not_keep_a_stream_from_its_columns(tmp_path, log):
    whole = drop(tmp_path / "in" / "0.arrow", 0).read_bytes()
    (tmp_path / "in" / "1.arrow").write_bytes(whole[:-30])
    (tmp_path / "in" / "notes").write_text("not an Arrow file")
    options = {"sourceLog": str(tmp_path / "log")} if log else {"maxFilesPerTrigger": "9"}
    query = Query(tmp_path / "in", **options)
    assert (["n"], [(0,)]) == (query.schema.names, query.next())
    (tmp_path / "in" / "0.arrow").unlink()
    with pytest.raises(NoFilesError, match="none of the files can be read, so there is no schema"):
        ArrowIpcDataSource(query.options | {"sourceLog": str(tmp_path / "new")}).schema()
