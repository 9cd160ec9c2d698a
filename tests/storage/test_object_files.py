"""Ranges of one object: what is requested, and what comes back."""

import threading

import numpy as np
import pytest

from spark_arrow_ipc.errors import InvalidFramingError
from spark_arrow_ipc.storage.base import PIECE_NBYTES, TAIL_NBYTES, RemoteSource

NBYTES = 3 * PIECE_NBYTES + 100_000
DATA = np.random.default_rng(1).integers(0, 256, NBYTES, np.uint8).tobytes()
TAIL = (NBYTES - TAIL_NBYTES, NBYTES)


class Server:
    """Counts requests, and how many are under way at once."""

    def __init__(self, data=DATA):
        self.data, self.requests = data, []
        self.lock = threading.Lock()

    def fetch(self, start, into):
        with self.lock:
            self.requests.append((start, start + len(into)))
        into[:] = self.data[start : start + len(into)]

    def source(self):
        return RemoteSource(self.fetch, "s3://b/a", len(self.data))


@pytest.mark.parametrize(
    ("reads", "requests"),
    [
        pytest.param([(0, 10)], [(0, 10)], id="a short range is one request"),
        pytest.param([(NBYTES - 10, 10)], [TAIL], id="a footer brings the tail"),
        pytest.param([(NBYTES - 10, 10), (NBYTES - 2_000, 1_990)], [TAIL], id="the tail is requested once"),
        pytest.param([(NBYTES - 10, 100)], [TAIL], id="bytes behind the end are not asked for"),
        pytest.param([(NBYTES, 10), (NBYTES + 5, 10), (3, 0)], [], id="nothing is no request"),
        pytest.param(
            [(5, 2 * PIECE_NBYTES)], [(5, PIECE_NBYTES + 5), (PIECE_NBYTES + 5, 2 * PIECE_NBYTES + 5)], id="a long range is read in pieces",
        ),
    ],
)  # fmt: skip
def test_reads_are_requests(reads, requests):
    server = Server()
    source = server.source()
    for byte_offset, nbytes in reads:
        assert DATA[byte_offset : byte_offset + nbytes] == bytes(source.read_up_to(byte_offset, nbytes))
    assert requests == sorted(server.requests)
    source.close()


def test_a_small_object_comes_whole_with_its_footer():
    server = Server(DATA[:TAIL_NBYTES])
    source = server.source()
    assert DATA[TAIL_NBYTES - 10 : TAIL_NBYTES] == bytes(source.read_at(TAIL_NBYTES - 10, 10))
    assert DATA[:100] == bytes(source.read_at(0, 100))
    assert [(0, TAIL_NBYTES)] == server.requests


@pytest.mark.parametrize("start", [5, TAIL[0] - 8], ids=["inside", "with bytes of the tail"])
def test_bytes_are_read_into_memory_that_is_given(start):
    into = memoryview(bytearray(2 * TAIL_NBYTES // 4))
    source = Server().source()
    source.read_into(start, into)
    assert DATA[start : start + len(into)] == bytes(into)
    with pytest.raises(InvalidFramingError):
        source.read_into(NBYTES - 5, into)
    source.close()


def test_ranges_are_requested_one_by_one_and_come_in_order():
    server = Server()
    source = server.source()
    ranges = [(0, 10), (20, 30), (100, PIECE_NBYTES + 1), (NBYTES - 8, 8)]
    assert [DATA[a : a + n] for a, n in ranges] == list(map(bytes, source.read_ranges(ranges)))
    assert [DATA[a : a + n] for a, n in ranges[:2]] == list(map(bytes, source.read_ranges(ranges[:2])))
    source.close()


def test_ranges_are_under_way_at_once():
    together = threading.Barrier(4, timeout=20)

    def fetch(start, into):
        together.wait()
        into[:] = DATA[start : start + len(into)]

    source = RemoteSource(fetch, "s3://b/a", NBYTES)
    assert [b"".join([DATA[i : i + 1]]) for i in range(4)] == list(
        map(bytes, source.read_ranges([(i, 1) for i in range(4)]))
    )
    source.close()


def test_the_end_is_an_error_with_its_place():
    source = Server().source()
    with pytest.raises(InvalidFramingError, match=f"the file ends at byte {NBYTES:,}"):
        source.read_at(NBYTES - 5, 10)


def test_an_error_of_a_piece_is_raised():
    def fetch(start, into):
        if start:
            raise PermissionError(13, "refused")
        into[:] = DATA[: len(into)]

    source = RemoteSource(fetch, "s3://b/a", NBYTES)
    with pytest.raises(PermissionError):
        source.read_at(0, 3 * PIECE_NBYTES)
    source.close()
