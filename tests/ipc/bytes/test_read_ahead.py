"""Small neighbours come from one read, and every byte is the source's own."""

import io

import pytest

from spark_arrow_ipc.errors import InvalidFramingError
from spark_arrow_ipc.ipc.bytes.source import (
    HEADERS_NBYTES,
    MOST_NBYTES,
    SMALL_NBYTES,
    ReadAhead,
    open_source,
    read_ahead,
)

DATA = bytes(range(256)) * 1024


class Counting(io.BytesIO):
    """A file object that counts the reads of it."""

    reads = 0

    def read(self, nbytes=-1):
        self.reads += 1
        return super().read(nbytes)


def ahead_of(data=DATA, **options):
    file = Counting(data)
    source = ReadAhead(open_source(file), **options)
    file.reads = 0
    return source, file


def test_neighbours_come_from_one_read():
    source, file = ahead_of(piece_nbytes=1000)
    for start in range(0, 1000, 10):
        assert DATA[start : start + 10] == source.read_at(start, 10)
    assert 1 == file.reads


@pytest.mark.parametrize(("start", "nbytes"), [(0, 10), (995, 10), (5, 2000), (100_000, 10), (0, 0)])
def test_every_place_gives_its_bytes(start, nbytes):
    source, _ = ahead_of(piece_nbytes=1000)
    source.read_at(0, 1)
    assert DATA[start : start + nbytes] == source.read_at(start, nbytes)


def test_held_bytes_are_not_read_again_and_refilling_is_one_read():
    source, file = ahead_of(piece_nbytes=1000)
    assert b"" == source.held(0)
    source.read_at(0, 1)
    assert (DATA[200:1000], b"") == (source.held(200), source.held(1000))
    assert DATA[900:1900] == source.refill(900)
    assert DATA[900:1900] == source.refill(900)
    assert 2 == file.reads


def test_the_end_of_the_bytes_is_an_error_where_all_are_asked_for():
    source, _ = ahead_of(b"abc")
    assert b"bc" == source.read_up_to(1, 10)
    with pytest.raises(InvalidFramingError):
        source.read_at(1, 10)


def test_small_messages_make_pieces_grow_and_a_large_one_ends_it():
    source, _ = ahead_of()
    assert not source.expects_small
    for _ in range(20):
        source.adapt(100)
    assert source.expects_small
    assert len(source.refill(0)) == min(MOST_NBYTES, len(DATA))
    source.adapt(SMALL_NBYTES + 1)
    assert not source.expects_small
    larger, _ = ahead_of(piece_nbytes=MOST_NBYTES)
    larger.adapt(SMALL_NBYTES + 1)
    assert HEADERS_NBYTES == len(larger.refill(0))


def test_memory_is_not_read_ahead():
    source = open_source(DATA)
    assert source is read_ahead(source)


def test_ranges_come_from_the_piece_or_from_the_source():
    source, file = ahead_of(piece_nbytes=1000)
    source.read_at(0, 1)
    assert [DATA[5:9], DATA[990:1000]] == source.read_ranges([(5, 4), (990, 10)])
    assert 1 == file.reads
    assert [DATA[5:9], DATA[5000:5010]] == source.read_ranges([(5, 4), (5000, 10)])
    assert 3 == file.reads
