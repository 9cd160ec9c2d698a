"""Exact byte ranges: whole, or an error that says where the bytes end."""

import contextlib
import os

import pytest

from spark_arrow_ipc.errors import InvalidFramingError
from spark_arrow_ipc.storage.byte_source import BufferSource, ExactReads, FileSource, GrowingSource

DATA = bytes(range(100))


class Unsized(ExactReads):
    """A source whose length is known only after reading to the end."""

    nbytes = None

    def read_up_to(self, byte_offset, nbytes):
        return memoryview(DATA)[byte_offset : byte_offset + nbytes]


SOURCES = pytest.mark.parametrize("source", [BufferSource(memoryview(DATA)), Unsized()], ids=["sized", "unsized"])


@SOURCES
def test_ranges_are_exact(source):
    assert DATA[10:20] == bytes(source.read_at(10, 10))
    assert [DATA[:1], b"", DATA[90:]] == [bytes(data) for data in source.read_ranges([(0, 1), (100, 0), (90, 10)])]
    assert (DATA[95:], b"") == (bytes(source.read_up_to(95, 10)), bytes(source.read_up_to(200, 10)))


@SOURCES
@pytest.mark.parametrize(("start", "nbytes", "count"), [(95, 10, 5), (0, 101, 100), (100, 1, 0)])
def test_bytes_that_are_not_there_are_an_error(source, start, nbytes, count):
    with pytest.raises(
        InvalidFramingError, match=f"expected {nbytes} bytes, found {count}: .* ends at byte 100"
    ) as caught:
        source.read_at(start, nbytes)
    assert start == caught.value.byte_offset


def test_ranges_of_a_buffer_are_views():
    data = bytearray(DATA)
    source = BufferSource(memoryview(data))
    view = source.read_at(0, 4)
    data[0] = 7
    assert (7, None, 100) == (view[0], source.path, source.nbytes)
    source.close()
    assert 7 == view[0]


def test_each_source_implements_its_reads():
    with pytest.raises(NotImplementedError):
        ExactReads().read_up_to(0, 1)


@pytest.mark.parametrize(("nbytes", "reads"), [(100, 1), (100_000, 3)])
def test_a_small_file_is_read_once(tmp_path, monkeypatch, nbytes, reads):
    path, content, seen = tmp_path / "file", bytes(i % 251 for i in range(nbytes)), []
    path.write_bytes(content)
    preadv = os.preadv
    monkeypatch.setattr(os, "preadv", lambda *args: seen.append(args) or preadv(*args))
    source = FileSource.open(str(path))
    assert [content[:9], content[40:90], content[-7:]] == [
        bytes(source.read_up_to(*place)) for place in ((0, 9), (40, 50), (nbytes - 7, 20))
    ]
    assert reads == len(seen)
    source.close()
    with pytest.raises(ValueError, match="the reader is closed"):
        source.read_up_to(0, 9)


def test_a_small_file_that_was_cut_is_an_error(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(100))
    source = FileSource.open(str(path))
    path.write_bytes(bytes(50))
    with pytest.raises(InvalidFramingError, match="the file ends at byte 50"):
        source.read_at(40, 20)
    source.close()


def test_a_growing_file_is_read_again(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"ab")
    source = GrowingSource.open(str(path))
    assert b"ab" == bytes(source.read_up_to(0, 9))
    with path.open("ab") as file:
        file.write(b"cd")
    assert source.grow(2)
    assert b"abcd" == bytes(source.read_up_to(0, 9))
    source.close()


def test_an_error_of_a_read_names_the_file(tmp_path):
    with (
        contextlib.closing(FileSource.open(str(tmp_path))) as source,
        pytest.raises(IsADirectoryError, match=str(tmp_path)),
    ):
        source.read_up_to(0, 8)
