"""Streams over directories with bad files: what is passed over, named, counted and noted, and what a batch has for ever."""

import contextlib
import json
import logging
import os

import pyarrow as pa
import pytest
from pyspark.sql import types as s
from stream_queries import Query, drop

from spark_arrow_ipc.dataset.stream import admission
from spark_arrow_ipc.errors import ArrowIpcError, OptionError
from spark_arrow_ipc.storage.paths import name_of

pytest.importorskip("pyspark.sql.streaming.datasource", reason="reading a stream needs Spark 4.2 or later")

N = s.StructType([s.StructField("n", s.LongType())])


@pytest.fixture(autouse=True)
def no_minute(monkeypatch):
    monkeypatch.setattr(admission, "_STILL_SECONDS", 0)


def text(path):
    """Put a file whose column has another type."""
    with pa.ipc.new_file(path, pa.schema({"n": pa.string()})) as writer:
        writer.write_batch(pa.record_batch({"n": ["x"]}))
    return path


def truncated(path):
    path.write_bytes(drop(path, *range(100)).read_bytes()[:-50])
    return path


def foreign(path):
    path.write_text("path,bytes\n")
    return path


def noisy(path):
    data = drop(path, *range(100)).read_bytes()
    path.write_bytes(data[:-200] + b"\xff" * 190 + data[-10:])
    return path


BAD = {"text.arrow": text, "half.arrow": truncated, "manifest.csv": foreign, "noise.arrow": noisy}
MODES = {"window": {"onBadFile": "skip"}, "log": {"onBadFile": "skip"}, "noted": {"onBadFile": "quarantine"}}


@pytest.fixture(params=MODES)
def query(request, tmp_path):
    log = {} if request.param == "window" else {"sourceLog": str(tmp_path / "log")}
    drop(tmp_path / "in" / "0.arrow", 0)
    return Query(tmp_path / "in", N, **log, **MODES[request.param])


def notes(tmp_path):
    found = [json.loads(path.read_text()) for path in (tmp_path / "log" / "bad").glob("*.json")]
    return {name_of(note["path"]): note["reason"] for note in found}


def test_bad_files_are_named_once_and_counted_and_the_others_are_read(query, tmp_path, caplog):
    for name, make in BAD.items():
        make(tmp_path / "in" / name)
    assert [[(0,)], None] == [query.next() for _ in range(2)]
    drop(tmp_path / "in" / "1.arrow", 1)
    assert [[(1,)], None] == [query.next() for _ in range(2)]
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert sorted(BAD) == sorted(name_of(warning.partition(": ")[0]) for warning in warnings)
    word = query.options["onBadFile"]
    assert all(f"passed over until it changes, as onBadFile={word} asks: " in warning for warning in warnings)
    assert len(BAD) == query.reader.reportLatestOffset()["badFiles"]
    assert (set(BAD) if word == "quarantine" else set()) == set(notes(tmp_path))
    for name, reason in notes(tmp_path).items():
        assert any(name in warning and warning.endswith(reason) for warning in warnings)


def test_nothing_is_moved_and_no_batch_has_a_bad_file(query, tmp_path):
    for name, make in BAD.items():
        make(tmp_path / "in" / name)
    before = {path.name: path.read_bytes() for path in (tmp_path / "in").iterdir()}
    query.next()
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "in").iterdir()}
    start, end = map(json.loads, query.offsets)
    assert ["0.arrow"] == [name_of(file.path) for file in query.reader._mode.batch(start, end).files]


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_mended_is_read_once_and_in_no_earlier_batch(query, tmp_path, name, restarts):
    path = BAD[name](tmp_path / "in" / name)
    assert [[(0,)], None] == [query.next() for _ in range(2)]
    drop(path, 7)
    if restarts:
        query.restart()
    assert [(0,)] == query.rows(0)  # a batch that is run again after the file is mended
    assert [[(7,)], None] == [query.next() for _ in range(2)]
    assert [[(0,)], [(7,)]] == [query.rows(i) for i in range(2)]
    assert 0 == query.reader.reportLatestOffset()["badFiles"]


def test_a_file_that_goes_bad_after_it_was_planned_is_an_error(query, tmp_path):
    query.next()
    text(tmp_path / "in" / "0.arrow")
    with pytest.raises(ArrowIpcError, match="changed after this read was planned"):
        query.rows(0)


def test_what_only_reading_shows_ends_the_query_until_the_rest_of_the_file_is_skipped(query, tmp_path, caplog):
    path = drop(tmp_path / "in" / "1.arrow", *range(1000), t=["0123456789"] * 1000)
    data = bytearray(path.read_bytes())
    place = data.index(b"0123456789" * 10)
    data[place : place + 100] = b"\xff" * 100
    path.write_bytes(data)
    os.utime(path, (1, 1))
    query.schema = s.StructType([*N, s.StructField("t", s.StringType())])
    query.restart()
    with pytest.raises(ArrowIpcError, match=r"1\.arrow"):
        query.next()
    query.restart(ignoreCorruptFiles="true")
    assert [(0, None)] == query.rows(0)
    assert "skipped record batch 0" in caplog.text


def test_with_fail_the_task_raises(tmp_path):
    text(drop(tmp_path / "in" / "0.arrow", 0))
    with pytest.raises(ArrowIpcError, match="n"):
        Query(tmp_path / "in", N, onBadFile="fail").next()


def test_a_stream_without_its_end_is_bad(tmp_path, caplog):
    path = drop(tmp_path / "in" / "0.arrow", 0).with_name("1.arrows")
    with pa.ipc.new_stream(path, pa.schema({"n": pa.int64()})) as writer:
        writer.write_batch(pa.record_batch({"n": [1]}))
    path.write_bytes(path.read_bytes()[:-8])
    query = Query(tmp_path / "in", N, onBadFile="skip")
    assert [(0,)] == query.next()
    assert "passed over until it changes, as onBadFile=skip asks: this stream has no end marker" in caplog.text


def test_a_link_to_a_bad_file_is_passed_over_and_noted_by_its_own_name(tmp_path):
    elsewhere = text(tmp_path / "elsewhere.arrow")
    drop(tmp_path / "in" / "0.arrow", 0)
    (tmp_path / "in" / "link.arrow").symlink_to(elsewhere)
    query = Query(tmp_path / "in", N, onBadFile="quarantine", sourceLog=str(tmp_path / "log"))
    assert [[(0,)], None] == [query.next() for _ in range(2)]
    assert {"link.arrow"} == set(notes(tmp_path))
    assert elsewhere.exists()


def test_notes_are_written_through_no_link(tmp_path):
    text(drop(tmp_path / "in" / "0.arrow", 0))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "bad").symlink_to(tmp_path / "elsewhere")
    query = Query(tmp_path / "in", N, onBadFile="quarantine", sourceLog=str(tmp_path / "log"))
    with contextlib.suppress(Exception):
        query.next()
    assert [] == list((tmp_path / "elsewhere").iterdir())


def test_notes_need_a_log(tmp_path):
    drop(tmp_path / "0.arrow", 0)
    with pytest.raises(OptionError, match="onBadFile=quarantine notes files in the sourceLog"):
        Query(tmp_path, N, onBadFile="quarantine")
