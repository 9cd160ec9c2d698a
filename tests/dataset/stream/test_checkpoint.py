"""Checkpoints and source logs are read as what nobody vouches for."""

import os

import pytest
from stream_checkpoints import ID, Checkpoint, drop

from spark_arrow_ipc.dataset.stream.checkpoint import look
from spark_arrow_ipc.errors import ArrowIpcError, OptionError, StreamOffsetError
from spark_arrow_ipc.storage.local import LOCAL


def seen(path, log=None, most=10):
    return look(str(path), LOCAL, lambda _: LOCAL, None if log is None else str(log), most)


@pytest.fixture(params=["window", "log", "log of ingest"])
def query(request, tmp_path):
    log = {"log": tmp_path / "log", "log of ingest": tmp_path / "checkpoint" / "sources" / "0" / "arrowipc"}
    query = Checkpoint(tmp_path, log.get(request.param))
    query.given = query.log if request.param == "log" else None
    drop(query.source / "0.arrow", 0)
    drop(query.source / "1.arrow", 1, 2)
    query.plan()
    return query


def figures(batches):
    return [(batch.number, batch.committed_ns is None, batch.parts[0].files) for batch in batches]


def test_batches_their_files_and_what_is_run_again(query):
    found = seen(query.root, query.given)
    nbytes = sum(path.stat().st_size for path in query.source.iterdir())
    assert (ID, 2, nbytes, ()) == (found.query, found.waiting_files, found.waiting_nbytes, found.stuck)
    assert [(0, True, 2)] == figures(found.batches)
    assert 1_700_000_000_000_000_000 == found.batches[0].planned_ns
    query.commit()
    drop(query.source / "2.arrow", 3)
    query.restart()
    query.plan()
    found = seen(query.root, query.given)
    assert [(0, False, 2), (1, True, 1)] == figures(found.batches)
    assert [(1, True, 1)] == figures(seen(query.root, query.given, most=1).batches)
    query.commit()
    assert (None, ()) == ((found := seen(query.root, query.given)).waiting_files, found.stuck)


def test_of_a_log_that_is_not_given_the_files_are_unknown(tmp_path):
    query = Checkpoint(tmp_path, tmp_path / "log")
    drop(query.source / "0.arrow", 0)
    query.plan()
    found = seen(query.root)
    assert [(0, True, None)] == figures(found.batches)
    assert found.waiting_files is None


def remove(path):
    path.unlink()


def grow(path):
    drop(path, *range(1000))


def touch(path):
    os.utime(path, (1, 1))


def replace_bytes(path):
    data = path.read_bytes()
    path.write_bytes(data[:-1] + b"2")
    os.utime(path, (1, 1))


def directory(path):
    path.unlink()
    path.mkdir()


def nothing(_path):
    pass


STUCK = {
    "nothing": (nothing, None, None),
    "gone": (remove, "it is gone", "ignoreMissingFiles=true"),
    "longer": (grow, "it had", "give it another name"),
    "another time, and the same bytes": (touch, None, None),
    "another time, and other bytes": (replace_bytes, "its modification time differs", "give it another name"),
    "a directory": (directory, "it is no file any more", "give it another name"),
}


@pytest.mark.parametrize(("change", "what", "mend"), STUCK.values(), ids=STUCK)
def test_a_batch_is_stuck_on_a_file_that_is_not_what_it_was(query, change, what, mend):
    path = query.source / "0.arrow"
    change(path)
    stuck = seen(query.root, query.given).stuck
    assert (0 if what is None else 1) == len(stuck)
    for each in stuck:
        assert each.what.startswith(f"{path}: ")
        assert what in each.what
        assert mend in each.mend
    query.commit()
    assert () == seen(query.root, query.given).stuck


def test_a_batch_is_stuck_on_headers_that_are_broken(tmp_path):
    query = Checkpoint(tmp_path)
    data = drop(query.source / "0.arrow", *range(100)).read_bytes()
    (query.source / "0.arrow").write_bytes(data[:-200] + b"\xff" * 190 + data[-10:])
    query.plan()
    (stuck,) = seen(query.root).stuck
    assert "ignoreCorruptFiles=true" in stuck.mend


def test_a_batch_is_stuck_on_a_log_that_lost_its_entry_or_is_of_another_query(tmp_path):
    query = Checkpoint(tmp_path, tmp_path / "log")
    drop(query.source / "0.arrow", 0)
    query.plan()
    query.commit()
    drop(query.source / "1.arrow", 1)
    query.plan()  # which claims the log
    (query.log / "owner").write_text("0" * 32)
    (stuck,) = seen(query.root, query.log).stuck
    assert "of another query" in stuck.what
    (query.log / "owner").unlink()
    (query.log / f"{1:020d}.json").unlink()
    (stuck,) = seen(query.root, query.log).stuck
    assert "names entry 1 of its sourceLog, and there is none" in stuck.what


def test_a_log_alone(tmp_path):
    query = Checkpoint(tmp_path, tmp_path / "log")
    drop(query.source / "0.arrow", 0)
    query.plan()
    query.mode._log.bad_files.write(bad := _bad())
    found = seen(query.log)
    assert ("log", None, (bad,)) == (found.kind, found.query, found.bad)
    assert [(0, True, 1)] == figures(found.batches)
    with pytest.raises(OptionError, match="this is no checkpoint"):
        seen(query.log, query.log)


def _bad():
    from spark_arrow_ipc.dataset.stream.bad_files import BadFile

    return BadFile("/in/x.arrow", 1, 2, "y")


def test_what_is_neither_is_refused(tmp_path):
    with pytest.raises(StreamOffsetError, match="no sourceLog that has an entry, and no checkpoint"):
        seen(tmp_path)


def test_other_sources_of_a_query_are_passed_over(tmp_path):
    query = Checkpoint(tmp_path)
    drop(query.source / "0.arrow", 0)
    query.plan("-", '{"logOffset":3}', "17", '{"v":1,"mode":"table","table":"01234567","entry":5,"id":"","after":"~"}')
    found = seen(query.root)
    parts = found.batches[0].parts
    assert ["window", None, None, None, "table"] == [part.mode for part in parts]
    assert "files at log entry 5, up to '~'" == parts[-1].position
    assert found.waiting_files is None


SPARK = '{"batchTimestampMs":1}'
OFFSETS = {
    "empty": "",
    "of one line": "v1",
    "of another version": f"v9\n{SPARK}\n-",
    "no JSON": "v1\n{\n-",
    "noise": "\udcff\x00",
}


@pytest.mark.parametrize("text", OFFSETS.values(), ids=OFFSETS)
def test_an_offset_is_not_trusted(tmp_path, text):
    query = Checkpoint(tmp_path)
    (query.root / "offsets" / "0").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(StreamOffsetError):
        seen(query.root)


PARTS = {
    "another version of ours": '{"v": 2, "mode": "window"}',
    "a mode without its values": '{"v": 1, "mode": "window"}',
    "a mode with others": '{"v": 1, "mode": "log", "log": -5}',
    "no mode": '{"v": 1, "mode": 7}',
    "no JSON": "{",
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("offset", PARTS.values(), ids=PARTS)
def test_an_offset_of_ours_that_is_wrong_is_what_the_query_is_stuck_on(tmp_path, offset):
    query = Checkpoint(tmp_path)
    (query.root / "offsets" / "0").write_text(f"v1\n{SPARK}\n{offset}")
    found = seen(query.root)
    assert 1 == len(found.stuck)
    assert [("unknown", None)] == [(part.position, part.files) for part in found.batches[0].parts]


def test_an_offset_of_any_size_is_not_read(tmp_path):
    query = Checkpoint(tmp_path)
    with (query.root / "offsets" / "0").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(ArrowIpcError, match="at most"):
        seen(query.root)


@pytest.mark.parametrize("text", ["", "[]", '{"id":5}', "\x00"])
def test_metadata_is_not_trusted(tmp_path, text):
    query = Checkpoint(tmp_path)
    (query.root / "metadata").write_text(text)
    found = seen(query.root)
    assert (None, ()) == (found.query, found.batches)
