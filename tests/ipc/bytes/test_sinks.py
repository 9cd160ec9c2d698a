"""A path takes its name when it is finished, in a store too; a file object is flushed and left open."""

import errno
import io
import os
import re
import subprocess
import sys
import tempfile
import tracemalloc
import uuid
from pathlib import Path
from weakref import WeakSet

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.ipc.bytes import sinks
from spark_arrow_ipc.ipc.bytes.sinks import FileSink, PathSink, StoredSink, WaitingBytes, path_sink
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.object_store import ObjectStorage
from spark_arrow_ipc.storage.paths import join, name_of


@pytest.fixture(params=["local", "objects"])
def place(request, tmp_path):
    if request.param == "local":
        return LOCAL, str(tmp_path)
    return ObjectStorage(), f"memory://{uuid.uuid4().hex}/d"


def contents(place):
    storage, root = place
    return {name_of(status.path): storage.read(status.path, 100) for status in storage.list(root)}


def test_a_path_decides_the_sink(place):
    kind = PathSink if place[0] is LOCAL else StoredSink
    sink = path_sink(join(place[1], "a"))
    assert isinstance(sink, kind)
    sink.discard()


def test_a_file_uri_is_its_path(tmp_path):
    ipc.write((tmp_path / "a b.arrow").as_uri(), [], Schema((t.Field("k", t.int64),)))
    assert {"a b.arrow"} == {path.name for path in tmp_path.iterdir()}
    assert ipc.open((tmp_path / "a b.arrow").as_uri()).schema.names == ("k",)


@pytest.mark.parametrize("before", [{}, {"a.arrow": b"old"}], ids=["a new file", "a replaced one"])
def test_a_path_has_its_name_when_it_is_finished(place, before):
    storage, root = place
    target = join(root, "a.arrow")
    for data in before.values():
        storage.put(target, data)
    proven = []
    sink = path_sink(target)
    sink.file.write(b"new")
    assert before == {name: data for name, data in contents(place).items() if not name.endswith(".staged")}
    sink.finish(lambda written: proven.append(bytes(written.read_at(0, 3))))
    assert ([b"new"], {"a.arrow": b"new"}) == (proven, contents(place))


@pytest.mark.parametrize("nbytes", [3, 20 << 20])
def test_a_discarded_path_leaves_what_was_there(place, nbytes):
    storage, root = place
    storage.put(join(root, "a.arrow"), b"old")
    sink = path_sink(join(root, "a.arrow"))
    sink.file.write(b"n" * nbytes)
    sink.discard()
    assert {"a.arrow": b"old"} == contents(place)


def test_a_path_that_is_not_proven_keeps_its_old_bytes(place):
    storage, root = place
    storage.put(join(root, "a.arrow"), b"old")
    sink = path_sink(join(root, "a.arrow"))
    sink.file.write(b"new")

    def refuse(written):
        raise OSError(written.path)

    with pytest.raises(OSError, match="staged"):
        sink.finish(refuse)
    sink.discard()
    assert {"a.arrow": b"old"} == contents(place)


def test_a_url_is_written_and_read_by_the_codec():
    pa = pytest.importorskip("pyarrow")
    url = f"memory://{uuid.uuid4().hex}/a.arrow"
    sink = pa.BufferOutputStream()
    table = pa.table({"a": range(10)})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with ipc.open(sink.getvalue().to_pybytes()) as reader:
        ipc.write(url, reader)
    with ipc.open(url) as reader:
        assert table.to_pydict() == next(iter(reader)).to_pydict()
    assert tuple(table.schema.names) == ipc.read_schema(url).names
    with pytest.raises(ZeroDivisionError), ipc.create(url, reader.schema):
        raise ZeroDivisionError
    assert 1 == len(list(ObjectStorage().list(url.rpartition("/")[0])))


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


# ---- bytes that wait


@pytest.mark.slow
def test_many_bytes_wait_outside_of_memory():
    """A single large buffer too: it is not copied before it goes to the file."""
    data = bytes(1 << 26)
    waiting = WaitingBytes()
    tracemalloc.start()
    try:
        for _ in range(3):
            waiting.write(data)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1 << 20
    assert 3 * len(data) == waiting.nbytes == sum(map(len, waiting.take()))
    assert 0 == waiting.nbytes


def test_all_files_of_a_process_share_the_memory(monkeypatch):
    """Also after one of them is written or dropped."""
    monkeypatch.setattr(sinks, "_IN_MEMORY_NBYTES", 100)
    monkeypatch.setattr(WaitingBytes, "_all", WeakSet())
    first, second, third = WaitingBytes(), WaitingBytes(), WaitingBytes()
    for waiting, nbytes in ((first, 60), (second, 41), (third, 40), (first, 1), (second, 100)):
        waiting.write(bytes(nbytes))
    assert [False, False, True] == [waiting.is_in_memory for waiting in (first, second, third)]
    assert [61, 141, 40] == [len(b"".join(waiting.take())) for waiting in (first, second, third)]
    for _ in range(2):
        next_one = WaitingBytes()
        next_one.write(bytes(100))
        assert next_one.is_in_memory
        del next_one


@pytest.mark.slow
def test_a_temporary_file_without_room_says_where_it_is_and_what_to_do(tmp_path):
    """A disk that takes 1 MiB, by the limit of a process on the sizes of its files."""
    program = """
import resource, sys
from spark_arrow_ipc.ipc.bytes import sinks
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
sinks._IN_MEMORY_NBYTES = 100
waiting = sinks.WaitingBytes()
try:
    for _ in range(9):
        waiting.write(bytes(1 << 18))
except OSError as error:
    waiting.close()
    print(error)
"""
    run = [sys.executable, "-c", program]
    told = subprocess.run(run, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=True)
    expected = rf"File too large after [\d,]+ bytes .*; record batches wait here .*TMPDIR.*delta.*: '{tmp_path}'\n"
    assert re.search(expected, told.stdout), told.stdout
    assert [] == list(tmp_path.iterdir())


def test_a_place_for_temporary_files_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/not/there")
    monkeypatch.setattr(sinks, "_IN_MEMORY_NBYTES", 2)
    with pytest.raises(OSError, match=r"set TMPDIR .*: '/not/there") as caught:
        WaitingBytes().write(b"abc")
    assert errno.ENOENT == caught.value.errno


@pytest.mark.parametrize("fails_at", ["write", "close"])
def test_a_writer_whose_temporary_file_is_full_leaves_nothing(monkeypatch, place, fails_at):
    """Neither a new file nor an open temporary one; what was there stays."""
    pa = pytest.importorskip("pyarrow")
    storage, root = place
    target = join(root, "a.arrow")
    storage.put(target, b"old")
    batch = pa.record_batch({"d": pa.array(["a", "b"]).dictionary_encode()})

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device", "/scratch")

    waiting = []

    class Full(WaitingBytes):
        def __init__(self):
            super().__init__()
            waiting.append(self._file)
            setattr(self, {"write": "write", "close": "take"}[fails_at], full)

    monkeypatch.setattr("spark_arrow_ipc.ipc.writer.WaitingBytes", Full)
    with pytest.raises(OSError, match="No space left"):
        ipc.write(target, [batch])
    assert {"a.arrow": b"old"} == contents(place)
    assert [True] == [file.closed for file in waiting]
