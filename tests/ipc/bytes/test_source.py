"""A source gives exact ranges, or says where the bytes end."""

import array
import io
import mmap
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from spark_arrow_ipc.errors import InvalidFramingError
from spark_arrow_ipc.ipc.bytes import source as module
from spark_arrow_ipc.ipc.bytes.source import ForwardSource, SeekableSource, open_source
from spark_arrow_ipc.storage.byte_source import BufferSource, FileSource

DATA = bytes(range(256)) * 4


class Dribble(io.BytesIO):
    """A file object whose reads are short."""

    def read(self, nbytes=-1):
        return super().read(min(nbytes, 7))


class Pipe:
    """A file object that can only be read, and not much at a time."""

    def __init__(self, data, most=7):
        self._file, self._most = io.BytesIO(data), most

    def read(self, nbytes=-1):
        return self._file.read(min(nbytes, self._most))


def _path(tmp_path):
    path = tmp_path / "data.bin"
    path.write_bytes(DATA)
    return path


SOURCES = [
    ("path", lambda tmp_path: str(_path(tmp_path)), FileSource),
    ("PathLike", _path, FileSource),
    ("file URI", lambda tmp_path: _path(tmp_path).as_uri(), FileSource),
    ("bytes", lambda _: DATA, BufferSource),
    ("bytearray", lambda _: bytearray(DATA), BufferSource),
    ("memoryview of another format", lambda _: memoryview(DATA).cast("Q"), BufferSource),
    ("BytesIO", lambda _: io.BytesIO(DATA), SeekableSource),
    ("short reads", lambda _: Dribble(DATA), SeekableSource),
    ("pipe", lambda _: Pipe(DATA), ForwardSource),
]


@pytest.mark.parametrize(("make", "source_class"), [case[1:] for case in SOURCES], ids=[case[0] for case in SOURCES])
def test_ranges_are_exact(tmp_path, make, source_class):
    source = open_source(make(tmp_path))
    assert source_class is type(source)
    assert (None if source_class is ForwardSource else len(DATA)) == source.nbytes
    for start, nbytes in [(0, 0), (0, 8), (8, 100), (108, 0), (200, 300), (500, 524)]:
        assert DATA[start : start + nbytes] == bytes(source.read_at(start, nbytes)), (start, nbytes)
    source.close()


@pytest.mark.parametrize("make", [case[1] for case in SOURCES], ids=[case[0] for case in SOURCES])
@pytest.mark.parametrize(("start", "nbytes"), [(0, 1025), (1000, 25), (1024, 1), (2000, 1)])
def test_bytes_that_are_not_there_are_an_error_that_says_where_they_end(tmp_path, make, start, nbytes):
    source = open_source(make(tmp_path))
    with pytest.raises(InvalidFramingError) as caught:
        source.read_at(start, nbytes)
    assert f"expected {nbytes:,} bytes" in str(caught.value)
    assert "the file ends at byte 1,024, it is truncated" in str(caught.value)
    assert start == caught.value.byte_offset
    source.close()


@pytest.mark.parametrize("make", [case[1] for case in SOURCES], ids=[case[0] for case in SOURCES])
def test_fewer_bytes_come_only_at_the_end(tmp_path, make):
    source = open_source(make(tmp_path))
    assert DATA[1000:] == bytes(source.read_up_to(1000, 100))
    assert b"" == bytes(source.read_up_to(1024, 100))
    source.close()


def test_a_huge_length_costs_nothing_where_the_end_is_known(tmp_path):
    for make in (case[1] for case in SOURCES if case[2] is not ForwardSource):
        with pytest.raises(InvalidFramingError):
            open_source(make(tmp_path)).read_at(8, 1 << 62)


def test_a_huge_length_asks_a_pipe_for_no_more_than_a_piece_at_once():
    asked = []

    class Watched(Pipe):
        def read(self, nbytes=-1):
            asked.append(nbytes)
            return super().read(nbytes)

    with pytest.raises(InvalidFramingError):
        open_source(Watched(DATA, 1 << 20)).read_at(0, 1 << 62)
    assert max(asked) <= module._PIECE_NBYTES


def test_positions_count_from_where_the_file_object_stood():
    file = io.BytesIO(b"before" + DATA)
    file.seek(6)
    source = open_source(file)
    assert len(DATA) == source.nbytes
    assert DATA[10:20] == bytes(source.read_at(10, 10))


def test_reads_larger_than_the_system_takes_are_joined(tmp_path, monkeypatch):
    monkeypatch.setattr("spark_arrow_ipc.storage.byte_source._PREAD_NBYTES", 100)
    source = open_source(_path(tmp_path))
    assert DATA[3:900] == bytes(source.read_at(3, 897))
    source.close()


def test_a_file_cut_while_it_is_read_is_an_error(tmp_path):
    """With a memory map it would be a SIGBUS."""
    path = _path(tmp_path)
    source = open_source(path)
    os.truncate(path, 100)
    with pytest.raises(InvalidFramingError, match="the file ends at byte 100"):
        source.read_at(50, 100)
    source.close()


def test_what_was_read_does_not_change_with_the_file(tmp_path):
    path = _path(tmp_path)
    source = open_source(path)
    data = source.read_at(0, 1024)
    path.write_bytes(bytes(1024))
    source.close()
    assert DATA == bytes(data)


def test_a_pipe_is_read_forward_only():
    source = open_source(Pipe(DATA))
    assert DATA[:4] == bytes(source.peek(4))
    assert DATA[:16] == bytes(source.peek(16))
    assert DATA[2:8] == bytes(source.read_at(2, 6))
    assert DATA[900:910] == bytes(source.read_at(900, 10))


def test_a_pipe_of_the_system_is_read(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(DATA,))
    writer.start()
    with fifo.open("rb") as file:
        source = open_source(file)
        assert ForwardSource is type(source)
        assert str(fifo) == source.path
        assert DATA == bytes(source.read_at(0, len(DATA)))
        assert b"" == bytes(source.read_up_to(len(DATA), 1))
    writer.join()


def test_memory_is_given_as_read_only_views():
    data = bytearray(DATA)
    view = open_source(data).read_at(8, 8)
    assert view.readonly
    data[8] = 99
    assert 99 == view[0]


NAMES = [
    ("memory", lambda _: DATA, None),
    ("a path", lambda path: path, "data.bin"),
    ("a file object of a path", lambda path: path.open("rb"), "data.bin"),
    ("a descriptor without a name", lambda path: os.fdopen(os.open(path, os.O_RDONLY), "rb"), None),
]


@pytest.mark.parametrize(("make", "name"), [case[1:] for case in NAMES], ids=[case[0] for case in NAMES])
def test_errors_can_name_the_source(tmp_path, make, name):
    opened = make(_path(tmp_path))
    source = open_source(opened)
    assert name == (None if source.path is None else Path(source.path).name)
    source.close()
    if hasattr(opened, "close"):
        assert not opened.closed  # the caller's
        opened.close()


def test_closing_twice_does_nothing_and_reading_then_is_an_error(tmp_path):
    source = open_source(_path(tmp_path))
    source.close()
    source.close()
    with pytest.raises(ValueError, match="closed"):
        source.read_at(0, 1)


@pytest.mark.parametrize("wrong", [None, 3, ["a"], io.StringIO("a")], ids=lambda v: type(v).__name__)
def test_what_is_no_source_is_a_type_error(wrong):
    with pytest.raises(TypeError, match="expected a path, bytes or a binary file object"):
        open_source(wrong)


def _mapped(data):
    mapped = mmap.mmap(-1, len(data))
    mapped.write(data)
    mapped.seek(0)
    return mapped


BUFFERS = {
    "array": lambda data: array.array("b", data),
    "numpy": lambda data: np.frombuffer(data, np.uint8),
    "numpy, words in rows": lambda data: np.frombuffer(data, np.int16).reshape(2, -1),
    "pyarrow": lambda data: pytest.importorskip("pyarrow").py_buffer(data),
    "pyarrow's file": lambda data: pytest.importorskip("pyarrow").BufferReader(data),
    "mapped": _mapped,
}


@pytest.mark.parametrize("lend", BUFFERS.values(), ids=BUFFERS)
def test_a_buffer_of_any_library_is_bytes(lend):
    data = bytes(range(256))
    source = open_source(lend(data))
    assert (256, data[3:9]) == (source.nbytes, bytes(source.read_at(3, 6)))


def test_a_buffer_in_pieces_is_a_type_error():
    with pytest.raises(TypeError, match="expected bytes one after the other, found ndarray with gaps"):
        open_source(np.zeros(8, np.uint8)[::2])


def test_a_path_that_is_not_there_stays_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_source(tmp_path / "no.arrow")


def test_a_source_of_single_ranges_is_enough():
    """Callers' sources from before `read_ranges`: the ranges are read one after another."""
    whole = open_source(DATA)

    class Single:
        path, nbytes = "remote", len(DATA)
        read_at, read_up_to, close = whole.read_at, whole.read_up_to, whole.close

    source = open_source(Single())
    assert ("remote", len(DATA)) == (source.path, source.nbytes)
    assert [DATA[:8], DATA[100:108]] == [bytes(data) for data in source.read_ranges([(0, 8), (100, 8)])]
    assert DATA[4:9] == bytes(source.read_up_to(4, 5))
    source.close()


def test_bytes_are_peeked_twice_and_then_read():
    source = open_source(Pipe(DATA))
    assert DATA[:16] == bytes(source.peek(16)) == bytes(source.peek(16))
    assert DATA[:4] == bytes(source.peek(4))
    assert DATA[:32] == bytes(source.read_at(0, 32))
