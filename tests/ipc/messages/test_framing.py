"""Prefixes, blocks and footers are found, and refused where they contradict themselves."""

import struct

import pytest

from spark_arrow_ipc.errors import InvalidFramingError, LimitError
from spark_arrow_ipc.ipc.bytes.source import open_source
from spark_arrow_ipc.ipc.constants import EOS, FILE_HEADER, LEGACY_EOS, MAGIC, Limits
from spark_arrow_ipc.ipc.messages.footer import Block, split_block
from spark_arrow_ipc.ipc.messages.message import Prefix, decode_prefix, read_footer, read_stream_message

MARKER = b"\xff\xff\xff\xff"


def int32(value):
    return struct.pack("<i", value)


PREFIXES = [
    ("since 0.15", MARKER + int32(16), Prefix(8, 16)),
    ("before 0.15", int32(12) + bytes(4), Prefix(4, 12)),
    ("end of stream", EOS, Prefix(8, 0)),
    ("end of stream before 0.15", LEGACY_EOS, Prefix(4, 0)),
]


@pytest.mark.parametrize(("data", "expected"), [case[1:] for case in PREFIXES], ids=[case[0] for case in PREFIXES])
def test_a_prefix_is_decoded(data, expected):
    assert expected == decode_prefix(memoryview(data), 0)


BROKEN = [
    ("three bytes", b"\0\0\0", 40, "found 3 bytes"),
    ("a marker alone", MARKER + b"\0", 44, "found 1 bytes"),
    ("a negative length", MARKER + int32(-8), 44, "found -8"),
    ("an end between two words", MARKER + int32(12), 44, "found 12"),
    ("an end between two words before 0.15", int32(8) + bytes(4), 40, "found 8"),
]


@pytest.mark.parametrize(("data", "at", "says"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_broken_prefix_is_located(data, at, says):
    with pytest.raises(InvalidFramingError, match=says) as caught:
        decode_prefix(memoryview(data), 40)
    assert at == caught.value.byte_offset


MESSAGES = [
    ("a message", MARKER + int32(8) + b"metadata" + b"body", (b"metadata", 16)),
    ("a message before 0.15", int32(12) + b"metadata----", (b"metadata----", 16)),
    ("the end marker", EOS + b"behind it", None),
    ("the end of the bytes", b"", None),
]


@pytest.mark.parametrize(("data", "expected"), [case[1:] for case in MESSAGES], ids=[case[0] for case in MESSAGES])
def test_a_stream_message_is_found(data, expected):
    found = read_stream_message(open_source(data), 0, Limits())
    assert expected == (found and (bytes(found[0]), found[1]))


def test_metadata_beyond_the_budget_is_not_read():
    with pytest.raises(LimitError, match="max_metadata_bytes"):
        read_stream_message(open_source(MARKER + int32(1 << 20)), 0, Limits(max_metadata_bytes=1000))


def test_a_block_is_split_from_its_prefix():
    metadata = memoryview(MARKER + int32(8) + b"metadata")
    assert b"metadata" == split_block(metadata, Block(8, 16, 0))


@pytest.mark.parametrize(("length", "nbytes"), [(8, 24), (0, 8)], ids=["another length", "an end marker"])
def test_a_prefix_that_contradicts_the_footer_is_refused(length, nbytes):
    with pytest.raises(InvalidFramingError, match=f"metadata takes {nbytes} bytes, as the footer says"):
        split_block(memoryview(MARKER + int32(length) + bytes(16)), Block(8, nbytes, 0))


def test_a_footer_is_found_from_the_end():
    data = FILE_HEADER + b"messages" + b"footer" + int32(6) + MAGIC
    found, byte_offset = read_footer(open_source(data), Limits())
    assert (b"footer", 16) == (bytes(found), byte_offset)


FOOTERS = [
    ("too short", FILE_HEADER, InvalidFramingError, "the file is truncated"),
    ("no magic", FILE_HEADER + bytes(20), InvalidFramingError, "its writer did not finish"),
    ("no length", FILE_HEADER + bytes(8) + int32(0) + MAGIC, InvalidFramingError, "a footer length of 1 to 8, found 0"),
    ("longer than the file", FILE_HEADER + bytes(8) + int32(9) + MAGIC, InvalidFramingError, "found 9"),
    ("beyond the budget", FILE_HEADER + bytes(80) + int32(80) + MAGIC, LimitError, "max_metadata_bytes"),
]


@pytest.mark.parametrize(("data", "error", "says"), [case[1:] for case in FOOTERS], ids=[case[0] for case in FOOTERS])
def test_a_footer_that_cannot_be_is_refused(data, error, says):
    with pytest.raises(error, match=says):
        read_footer(open_source(data), Limits(max_metadata_bytes=64))
