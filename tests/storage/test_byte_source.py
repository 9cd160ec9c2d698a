"""Exact byte ranges: whole, or an error that says where the bytes end."""

import pytest

from spark_arrow_ipc.errors import InvalidFramingError
from spark_arrow_ipc.storage.byte_source import BufferSource, ExactReads

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
