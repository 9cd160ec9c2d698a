"""A client's connection: frames in pieces, ends, descriptors, and time-outs."""

import os
import re
import socket
import threading
from pathlib import Path

import pytest
from dissociated_peers import ERROR, MEMORY, UNTAGGED, frame, sealed, split

from spark_arrow_ipc.errors import ArrowIpcError, InvalidFramingError, LimitError
from spark_arrow_ipc.ipc.dissociated.connection import Connection
from spark_arrow_ipc.ipc.dissociated.location import parse_address


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    connection = Connection(ours, "x", 0.1)
    yield connection, theirs
    connection.close()
    theirs.close()


def anything(_):
    pass


@pytest.mark.parametrize("step", [1, 7, 65536])
def test_frames_come_in_pieces_of_any_size(pair, step):
    connection, theirs = pair
    sizes = [0, 1, 65535, 65536, 200_000] if step > 7 else [0, 1, 300]
    data = b"".join(frame(UNTAGGED, os.urandom(size)) for size in sizes)

    def send():
        for start in range(0, len(data), step):
            theirs.sendall(data[start : start + step])
        theirs.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=send)
    thread.start()
    found = []
    while (received := connection.receive(anything)) is not None:
        found.append((received.kind, received.tag, bytes(received.data)))
    thread.join()
    assert split(data) == found


ENDS = [
    ("in a head", frame(UNTAGGED)[:7]),
    ("after a head", frame(UNTAGGED, b"abc")[:20]),
    ("in a body", frame(UNTAGGED, b"abc")[:-1]),
]


@pytest.mark.parametrize("data", [c[1] for c in ENDS], ids=[c[0] for c in ENDS])
def test_a_connection_that_ends_in_a_frame_is_an_error(pair, data):
    connection, theirs = pair
    theirs.sendall(data)
    theirs.close()
    with pytest.raises(InvalidFramingError, match="the connection ends"):
        connection.receive(anything)


def test_a_head_is_refused_before_memory_is_taken(pair):
    connection, theirs = pair
    theirs.sendall(frame(UNTAGGED)[:12] + (2**62).to_bytes(8, "little"))

    def check(head):
        raise LimitError(f"{head.nbytes}")

    with pytest.raises(LimitError, match=str(2**62)):
        connection.receive(check)


@pytest.mark.parametrize("nbytes", [0, 5, 4096, 2**63])
def test_a_servers_reason_is_said_and_bounded(pair, nbytes):
    connection, theirs = pair
    theirs.sendall(frame(ERROR)[:12] + nbytes.to_bytes(8, "little") + b"no\x1b[2J" * min(nbytes, 1000))
    with pytest.raises(ConnectionError, match="x: the server says: ") as raised:
        connection.receive(anything)
    assert "\x1b" not in str(raised.value)


def test_silence_and_a_trickle_end_in_time(pair):
    connection, theirs = pair
    with pytest.raises(TimeoutError, match=r"in 0.1 s.*timeout="):
        connection.receive(anything)
    theirs.sendall(frame(UNTAGGED, bytes(1000))[:20])
    stop = threading.Event()

    def trickle():
        while not stop.wait(0.01):
            theirs.send(b"x")

    thread = threading.Thread(target=trickle)
    thread.start()
    with pytest.raises(TimeoutError):
        connection.receive(anything)
    stop.set()
    thread.join()


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_descriptors_that_nobody_takes_are_closed():
    before = open_descriptors()
    for count in (1, 2, 4, 8):
        ours, theirs = socket.socketpair()
        connection = Connection(ours, "x", 1)
        given = [sealed(b"x") for _ in range(count)]
        socket.send_fds(theirs, [frame(MEMORY)], given)
        if count == 1:
            assert MEMORY == connection.receive(anything).kind
        else:
            with pytest.raises(ArrowIpcError, match="one descriptor"):
                connection.receive(anything)
        connection.close()
        theirs.close()
        for descriptor in given:
            os.close(descriptor)
    assert before == open_descriptors()


def test_what_cannot_be_sent_now_goes_with_the_next(pair):
    connection, theirs = pair
    for i in range(1000):
        connection.send_later(i.to_bytes(8, "little") * 100, 7)
    received = b""
    theirs.settimeout(0.02)
    while len(received) < 1000 * 820:
        try:
            received += theirs.recv(1 << 20)
        except TimeoutError:
            connection.send_later(bytes(8), 7)
    numbers = [int.from_bytes(data[:8], "little") for _, _, data in split(received[: 1000 * 820])]
    assert list(range(1000)) == numbers


def test_nobody_listens(tmp_path):
    for uri in ("dissociated+tcp://127.0.0.1:1", f"dissociated+unix://{tmp_path}/none"):
        with pytest.raises(OSError, match=re.escape(f"{uri}: cannot connect")):
            Connection.open(parse_address(uri), 1)
