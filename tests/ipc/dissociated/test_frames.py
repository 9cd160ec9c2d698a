"""Frames: the head of each message on a socket."""

import pytest

from spark_arrow_ipc.errors import InvalidFramingError, UnsupportedError
from spark_arrow_ipc.ipc.dissociated.protocol import Frame, FrameHead, FrameKind, Inbox, decode_head, encode_head

HEADS = [
    (FrameHead(FrameKind.UNTAGGED, 0, 5), "00000000" + "00" * 8 + "0500000000000000"),
    (FrameHead(FrameKind.TAGGED, 2**64 - 1, 2), "01000000" + "ff" * 8 + "0200000000000000"),
    (FrameHead(FrameKind.ERROR, 0, 1), "02000000" + "00" * 8 + "0100000000000000"),
]


@pytest.mark.parametrize(("head", "text"), HEADS, ids=lambda v: v if isinstance(v, str) else v.kind.name)
def test_heads_are_twenty_bytes(head, text):
    assert bytes.fromhex(text) == encode_head(head.kind, head.nbytes, head.tag)
    assert head == decode_head(bytes.fromhex(text))


BAD = [
    ("a kind", 0, 5, UnsupportedError, "frames of kind 5"),
    ("http", 0, ord("H"), UnsupportedError, "is the peer a server of Dissociated IPC"),
    ("a reserved byte", 1, 1, InvalidFramingError, "expected zeros"),
    ("the last reserved byte", 3, 1, InvalidFramingError, "expected zeros"),
    ("a tag of a frame without one", 4, 1, InvalidFramingError, "expected zeros"),
]


@pytest.mark.parametrize(("place", "value", "error", "words"), [c[1:] for c in BAD], ids=[c[0] for c in BAD])
def test_bad_heads_are_refused(place, value, error, words):
    head = bytearray(encode_head(FrameKind.UNTAGGED, 5))
    head[place] = value
    with pytest.raises(error, match=words):
        decode_head(head)


@pytest.mark.parametrize("step", [1, 3, 20, 21, 1000])
def test_frames_come_in_pieces_of_any_size(step):
    data = encode_head(FrameKind.TAGGED, 3, 7) + b"abc" + encode_head(FrameKind.TOKEN, 0) + b""
    inbox, found = Inbox(3), []
    for start in range(0, len(data), step):
        found += inbox.feed(data[start : start + step])
    assert [Frame(FrameKind.TAGGED, 7, memoryview(b"abc")), Frame(FrameKind.TOKEN, 0, memoryview(b""))] == found


def test_a_frame_that_is_too_long_is_refused_by_its_head():
    with pytest.raises(InvalidFramingError, match="at most 3 bytes, found 18,446"):
        list(Inbox(3).feed(encode_head(FrameKind.TAGGED, 2**64 - 1)))
