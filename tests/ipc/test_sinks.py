"""A path takes its name when it is finished; a file object is flushed and left open."""

import io
from pathlib import Path

import pytest

from spark_arrow_ipc.ipc.sinks import FileSink, PathSink


def names(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("before", [None, b"old"], ids=["a new file", "a replaced one"])
def test_a_path_has_its_name_when_it_is_finished(tmp_path, before):
    target = tmp_path / "a.arrow"
    if before is not None:
        target.write_bytes(before)
    proven = []
    sink = PathSink(str(target))
    sink.file.write(b"new")
    assert before == (target.read_bytes() if target.exists() else None)
    sink.finish(lambda path: proven.append(path.read_bytes()))
    assert ([b"new"], b"new", ["a.arrow"]) == (proven, target.read_bytes(), names(tmp_path))


def test_a_discarded_path_leaves_what_was_there(tmp_path):
    (tmp_path / "a.arrow").write_bytes(b"old")
    sink = PathSink(str(tmp_path / "a.arrow"))
    sink.file.write(b"new")
    sink.discard()
    assert (b"old", ["a.arrow"]) == ((tmp_path / "a.arrow").read_bytes(), names(tmp_path))


def test_a_path_that_is_not_proven_keeps_its_old_bytes(tmp_path):
    (tmp_path / "a.arrow").write_bytes(b"old")
    sink = PathSink(str(tmp_path / "a.arrow"))

    def refuse(path):
        raise OSError(path)

    with pytest.raises(OSError, match="staged"):
        sink.finish(refuse)
    sink.discard()
    assert (b"old", ["a.arrow"]) == ((tmp_path / "a.arrow").read_bytes(), names(tmp_path))


def test_a_file_object_stays_open():
    file = io.BytesIO()
    sink = FileSink(io.BufferedWriter(file))
    sink.file.write(b"new")
    sink.finish(lambda _: pytest.fail("there is no path to prove"))
    assert b"new" == file.getvalue()
    sink.discard()
    assert not sink.file.closed


def test_a_discarded_device_stays():
    sink = PathSink("/dev/null")
    sink.file.write(b"new")
    sink.discard()
    assert Path("/dev/null").is_char_device()
