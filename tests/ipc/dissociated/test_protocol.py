"""The bytes of the protocol, from the document's text: what is written, what is read, what is refused."""

import struct

import numpy as np
import pytest

from spark_arrow_ipc.errors import InvalidBodyError, InvalidFramingError, UnsupportedError
from spark_arrow_ipc.ipc.dissociated import protocol
from spark_arrow_ipc.ipc.dissociated.protocol import BodyTag, BodyType, EndOfStream, Metadata

WRITTEN = [
    ("metadata 0", protocol.encode_metadata_prefix(0), "0100000000"),
    ("metadata 1", protocol.encode_metadata_prefix(1), "0101000000"),
    ("metadata that rolls over", protocol.encode_metadata_prefix(2**32), "0100000000"),
    ("end of stream", protocol.encode_end(5), "0005000000"),
    ("end at the largest number", protocol.encode_end(2**32 - 1), "00ffffffff"),
    ("packed", struct.pack("<Q", protocol.encode_body_tag(4, BodyType.PACKED)), "0400000000000000"),
    ("buffers", struct.pack("<Q", protocol.encode_body_tag(4, BodyType.BUFFERS)), "0400000000000001"),
    ("pairs", protocol.encode_pairs(np.array([[64, 3], [0, 0]])),
     "0300000000000000020000000000000040000000000000000300000000000000" + "00" * 16),
    ("no pairs", protocol.encode_pairs(np.zeros((0, 2), np.int64)), "00" * 16),
    ("freed", protocol.encode_freed([64, 2**64 - 1]), "4000000000000000ffffffffffffffff"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "expected"), [c[1:] for c in WRITTEN], ids=[c[0] for c in WRITTEN])
def test_bytes_are_those_of_the_document(data, expected):
    assert expected == data.hex()


READ = [
    ("metadata", "01 02000000 aabb", Metadata(2, memoryview(b"\xaa\xbb"))),
    ("end", "00 ffffffff", EndOfStream(2**32 - 1)),
]


@pytest.mark.parametrize(("text", "expected"), [c[1:] for c in READ], ids=[c[0] for c in READ])
def test_untagged_messages_are_read(text, expected):
    assert expected == protocol.decode_untagged(memoryview(bytes.fromhex(text)))


REFUSED = [
    ("nothing", "", InvalidFramingError, "at least 5 bytes, found 0"),
    ("a cut prefix", "01000000", InvalidFramingError, "at least 5 bytes, found 4"),
    ("metadata without a flatbuffer", "0100000000", InvalidFramingError, "a flatbuffer in message 0"),
    ("a long end", "000000000000", InvalidFramingError, "an end of stream of 5 bytes, found 6"),
    ("another type", "0200000000aa", UnsupportedError, "untagged messages of type 2"),
]


@pytest.mark.parametrize(("text", "error", "words"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_broken_untagged_messages_are_refused(text, error, words):
    with pytest.raises(error, match=words):
        protocol.decode_untagged(memoryview(bytes.fromhex(text)))


@pytest.mark.parametrize("sequence", [0, 1, 2**31, 2**32 - 1])
@pytest.mark.parametrize("body_type", list(BodyType))
def test_tags_come_back(sequence, body_type):
    assert BodyTag(sequence, body_type) == protocol.decode_body_tag(protocol.encode_body_tag(sequence, body_type))


@pytest.mark.parametrize("bit", range(32, 56))
def test_a_reserved_bit_is_refused(bit):
    with pytest.raises(InvalidFramingError, match="bits 32 to 55") as raised:
        protocol.decode_body_tag(1 << bit | 7)
    assert ("lenient=True" in str(raised.value)) == (bit == 55)


def test_a_type_that_is_shifted_by_55_is_read_on_request_only():
    assert BodyTag(7, BodyType.BUFFERS) == protocol.decode_body_tag(1 << 55 | 7, lenient=True)
    for tag in (1 << 55 | 1 << 54, 3 << 55):
        with pytest.raises(InvalidFramingError):
            protocol.decode_body_tag(tag, lenient=True)


@pytest.mark.parametrize("number", [2, 3, 127, 255])
def test_an_unknown_body_type_is_refused(number):
    with pytest.raises(UnsupportedError, match=f"bodies of type {number}"):
        protocol.decode_body_tag(number << 56)


def words(*numbers):
    return memoryview(struct.pack(f"<{len(numbers)}Q", *numbers))


PAIRS = [
    ("as the metadata says", words(12, 2, 64, 4, 128, 8), [4, 8], [[64, 4], [128, 8]]),
    ("padded", words(16, 2, 64, 8, 128, 8), [4, 8], [[64, 8], [128, 8]]),
    ("up to the end", words(8, 1, 1016, 8), [8], [[1016, 8]]),
    ("one buffer twice", words(16, 2, 64, 8, 64, 8), [8, 8], [[64, 8], [64, 8]]),
    ("overlapping", words(24, 2, 64, 16, 72, 8), [16, 8], [[64, 16], [72, 8]]),
    ("empty, wherever", words(8, 2, 2**64 - 1, 0, 8, 8), [0, 8], [[0, 0], [8, 8]]),
    ("none", words(0, 0), [], []),
]


@pytest.mark.parametrize(("data", "expected", "pairs"), [c[1:] for c in PAIRS], ids=[c[0] for c in PAIRS])
def test_pairs_are_read(data, expected, pairs):
    assert pairs == protocol.decode_pairs(data, expected, 1024).tolist()


BAD_PAIRS = [
    ("nothing", words(), [], "at least 16 bytes"),
    ("half a head", words(0), [], "at least 16 bytes"),
    ("a number of buffers that no memory has", words(0, 2**60), [], "0 buffers"),
    ("fewer than the metadata", words(8, 1, 64, 8), [8, 8], "2 buffers"),
    ("more than the metadata", words(16, 2, 64, 8, 64, 8), [8], "1 buffers"),
    ("a pair cut", words(8, 1, 64), [8], "in 32 bytes, found 1 buffers in 24"),
    ("a byte more", memoryview(bytes(words(8, 1, 64, 8)) + b"\0"), [8], "in 33 bytes"),
    ("another sum", words(9, 1, 64, 8), [8], "buffers of 9 bytes together, found 8"),
    ("a sum that overflows", words(0, 2, 64, 2**63, 64, 2**63), [8, 8], "together, found 18,446"),
    ("too short", words(7, 1, 64, 7), [8], "buffer 0 of at least 8 bytes, found 7"),
    ("after the end", words(8, 1, 1024, 8), [8], "inside the 1,024 bytes"),
    ("across the end", words(16, 1, 1016, 16), [8], "inside the 1,024 bytes"),
    ("an offset of 64 bits", words(8, 1, 2**64 - 8, 8), [8], "inside the 1,024 bytes"),
    ("a length of 64 bits", words(2**64 - 8, 1, 8, 2**64 - 8), [8], "inside the 1,024 bytes"),
    ("an odd offset", words(8, 1, 63, 8), [8], "a multiple of 8"),
]


@pytest.mark.parametrize(("data", "expected", "words_"), [c[1:] for c in BAD_PAIRS], ids=[c[0] for c in BAD_PAIRS])
def test_bad_pairs_are_refused(data, expected, words_):
    with pytest.raises(InvalidBodyError, match=words_):
        protocol.decode_pairs(data, expected, 1024)


def test_freed_offsets_come_back():
    assert [64, 64, 2**64 - 1] == protocol.decode_freed(memoryview(protocol.encode_freed([64, 64, 2**64 - 1])))


@pytest.mark.parametrize("nbytes", [0, 1, 7, 9])
def test_freed_offsets_that_are_no_numbers_are_refused(nbytes):
    with pytest.raises(InvalidFramingError, match="numbers of 8 bytes"):
        protocol.decode_freed(memoryview(bytes(nbytes)))
