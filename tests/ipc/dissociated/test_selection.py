"""Requests for a part of a table, byte by byte, and hostile ones."""

import struct

import pytest

from spark_arrow_ipc.errors import InvalidFramingError
from spark_arrow_ipc.ipc.dissociated.location import SCHEMA_ALONE, WHOLE, Selection

REQUESTS = [
    ("all", WHOLE, "00000000 01000000 ffffffff"),
    ("a part", Selection(2, 3), "02000000 03000000 ffffffff"),
    ("the schema", SCHEMA_ALONE, "00000000 00000000 ffffffff"),
    ("two columns", Selection(0, 1, (0, 258)), "00000000 01000000 02000000 00000000 02010000"),
    ("no column", Selection(1, 2, ()), "01000000 02000000 00000000"),
]


@pytest.mark.parametrize(("selection", "data"), [c[1:] for c in REQUESTS], ids=[c[0] for c in REQUESTS])
def test_requests_are_these_bytes_and_the_ticket(selection, data):
    assert bytes.fromhex(data) + b"t" == selection.encode(b"t")
    assert (selection, b"t") == Selection.decode(memoryview(bytes.fromhex(data) + b"t"))
    assert (selection, b"") == Selection.decode(memoryview(bytes.fromhex(data)))


HOSTILE = [
    ("nothing", b"", "at least 12 bytes"),
    ("half a head", bytes(11), "at least 12 bytes"),
    ("a part too many", struct.pack("<III", 3, 3, 0), "3 of 3"),
    ("a part of the schema", struct.pack("<III", 1, 0, 0), "1 of 0"),
    ("many parts", struct.pack("<III", 0, 100_001, 0), "100,000 parts"),
    ("columns that are not there", struct.pack("<IIII", 0, 1, 2, 0), "2 positions"),
    ("four billion columns", struct.pack("<III", 0, 1, 2**32 - 2), "4,294,967,294 positions"),
    ("a column twice", struct.pack("<IIIII", 0, 1, 2, 7, 7), "that rise"),
    ("columns in another order", struct.pack("<IIIII", 0, 1, 2, 7, 6), "that rise"),
]


@pytest.mark.parametrize(("data", "words"), [c[1:] for c in HOSTILE], ids=[c[0] for c in HOSTILE])
def test_hostile_requests_are_refused(data, words):
    with pytest.raises(InvalidFramingError, match=words):
        Selection.decode(memoryview(data))


@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("of", [1, 2, 3, 8])
def test_parts_follow_each_other_and_are_alike(count, of):
    parts = [Selection(part, of).cut(count) for part in range(of)]
    assert list(range(count)) == [number for part in parts for number in part]
    assert 1 >= max(map(len, parts)) - min(map(len, parts))
    assert range(0) == SCHEMA_ALONE.cut(count)
