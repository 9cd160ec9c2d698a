"""A body is read whole or in ranges, and gives the same bytes either way."""

import pytest

from spark_arrow_ipc.ipc.bytes.body import (
    GAP_NBYTES,
    BodyPlace,
    BufferList,
    Window,
    join_ranges,
    ranges_to_read,
)
from spark_arrow_ipc.ipc.bytes.source import open_source

FAR = 10 * GAP_NBYTES
DATA = bytes(range(256)) * (4 * FAR // 256)

JOINED = [
    ("none", [], []),
    ("empty ones", [(8, 0), (FAR, 0)], []),
    ("neighbours", [(0, 8), (8, 8)], [(0, 16)]),
    ("in any order", [(FAR, 8), (0, 8)], [(0, 8), (FAR, FAR + 8)]),
    ("a small gap", [(0, 8), (8 + GAP_NBYTES, 8)], [(0, 16 + GAP_NBYTES)]),
    ("a gap of one byte more", [(0, 8), (9 + GAP_NBYTES, 8)], [(0, 8), (9 + GAP_NBYTES, 17 + GAP_NBYTES)]),
    ("one inside another", [(0, 100), (8, 8)], [(0, 100)]),
]


@pytest.mark.parametrize(("wanted", "expected"), [case[1:] for case in JOINED], ids=[case[0] for case in JOINED])
def test_ranges_are_joined_across_small_gaps(wanted, expected):
    assert expected == join_ranges(wanted, GAP_NBYTES)


def test_most_of_a_body_is_read_whole():
    assert [(0, 1000)] == ranges_to_read([(0, 801)], 1000, GAP_NBYTES)
    assert [(0, 800)] == ranges_to_read([(0, 800)], 1000, GAP_NBYTES)


WANTED = [(8, 100), (FAR, 0), (2 * FAR, 50), (2 * FAR + 56, 8)]


@pytest.mark.parametrize("wanted", [None, WANTED], ids=["whole", "ranges"])
def test_every_wanted_buffer_is_there(wanted):
    place = BodyPlace(open_source(b"prefix--" + DATA), 8, len(DATA))
    body = place.read(wanted)
    assert (8, len(DATA)) == (body.byte_offset, body.nbytes)
    assert [DATA[start : start + nbytes] for start, nbytes in WANTED] == [bytes(body.slice(*each)) for each in WANTED]


def test_a_window_reads_the_bytes_of_its_source():
    window = Window(open_source(b"0123456789"), 4, memoryview(b"456789"))
    assert ([b"56", b"9"], 10) == ([bytes(data) for data in window.read_ranges([(5, 2), (9, 1)])], window.nbytes)


def test_a_body_that_is_held_outlives_its_source():
    source = bytearray(b"prefix--01234567")
    held = BodyPlace(open_source(bytes(source)), 8, 8).held()
    assert b"01234567" == bytes(held.read().buffer(0, 0, 8))
    assert b"23" == bytes(held.held().read().buffer(0, 2, 2))


def test_a_list_of_buffers_is_found_by_number_and_cut_to_what_the_metadata_says():
    body = BufferList((memoryview(b"abcd"), memoryview(b""), memoryview(b"xyz-----")), 12)
    assert [b"abc", b"", b"xyz"] == [bytes(data) for data in body.buffers([[0, 3], [8, 0], [8, 3]])]
    assert b"xy" == bytes(body.read([(0, 1)]).buffer(2, 999, 2))
    assert body is body.held()
