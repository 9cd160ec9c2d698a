"""Strings with value offsets are UTF-8 slot by slot; the search for the first bad slot runs in chunks."""

import numpy as np
import pytest
from built_arrays import BIG, text

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.validate import arrays as validate
from spark_arrow_ipc.arrow.validate.text import CHUNK_SLOTS, first_failure, text_failure
from spark_arrow_ipc.errors import InvalidBodyError

BROKEN = [
    ("invalid byte", text([0, 1, 3], b"ab\xff"), "UTF-8 text in slot 1", "not UTF-8"),
    ("surrogate", text([0, 3], b"\xed\xa0\x80"), "UTF-8 text in slot 0", "not UTF-8"),
    ("overlong", text([0, 2], b"\xc0\x80"), "UTF-8 text in slot 0", "not UTF-8"),
    ("torn between slots", text([0, 1, 2], "ü".encode()), "UTF-8 text in slot", "not UTF-8"),
    ("torn with an empty slot between", text([0, 1, 1, 2, 3], "üa".encode()), "UTF-8 text in slot", "not UTF-8"),
    ("cut at the end", text([0, 1, 2], b"a\xc3"), "UTF-8 text in slot 1", "not UTF-8"),
    ("large text", text([0, 1, 3], b"ab\xff", t.large_utf8), "UTF-8 text in slot 1", "not UTF-8"),
    ("beside a null", text([0, 1, 2, 3], b"a\xff\xff", valid=[True, False, True]), "UTF-8 text in slot 2", "not UTF-8"),
    ("second MiB", text([0, 1 << 20, (1 << 20) + 1, 3 << 20], b"a" * ((3 << 20) - 1) + b"\xff"), "slot 2", "not UTF-8"),
    ("after much that is not ASCII", text([*range(0, 2 * BIG + 1, 2), 2 * BIG + 1], "ü".encode() * BIG + b"\xc3"), f"slot {BIG}", "not UTF-8"),
]  # fmt: skip


@pytest.mark.parametrize(("array", "expected", "found"), [c[1:] for c in BROKEN], ids=[c[0] for c in BROKEN])
def test_a_broken_slot_is_an_error(array, expected, found):
    with pytest.raises(InvalidBodyError) as raised:
        validate.check(array, "f")
    assert "f" == raised.value.field_path
    assert expected in raised.value.expected
    assert found in raised.value.found
    assert raised.value.spec


SOUND = [
    ("not ASCII", text([0, 2, 5, 9], "ü語🏹".encode())),
    ("not ASCII, much", text(list(range(0, 2 * BIG + 1, 2)), "ü".encode() * BIG)),
    ("one slot over chunks", text([0, 3 << 20], "語".encode() * (1 << 20))),
    ("garbage under null", text([0, 2, 3, 5], "ü".encode() + b"\xff" + "ü".encode(), valid=[True, False, True])),
    ("a torn code point under null", text([0, 1, 3], b"a" + b"\xc3a", valid=[True, False])),
    ("a code point torn by a null", text([0, 1, 2], "ü".encode(), valid=[False, False])),
    ("any bytes of a binary", text([0, 2], b"\xff\xff", t.binary)),
]  # fmt: skip


@pytest.mark.parametrize("array", [c[1] for c in SOUND], ids=[c[0] for c in SOUND])
def test_what_the_format_allows_passes(array):
    validate.check(array, "f")


FAILURES = [
    ("none", 10, [], None),
    ("no slots", 0, [], None),
    ("the first of several", 10, [7, 3], 3),
    ("the last of a chunk", BIG, [CHUNK_SLOTS - 1], CHUNK_SLOTS - 1),
    ("the first of the next chunk", BIG, [CHUNK_SLOTS, BIG - 1], CHUNK_SLOTS),
]


@pytest.mark.parametrize(("length", "bad", "expected"), [c[1:] for c in FAILURES], ids=[c[0] for c in FAILURES])
def test_the_first_slot_that_fails_is_found_in_any_chunk(length, bad, expected):
    passes = np.ones(length, np.bool_)
    passes[bad] = False
    assert expected == first_failure(length, lambda start, stop: passes[start:stop])


def test_null_slots_pass_whatever_they_hold():
    array = from_pylist.array([1, None, 3, None], t.int8)
    fails = np.array([True, False, False, False])
    assert 2 == first_failure(4, lambda start, stop: fails[start:stop], skip_nulls_of=array)
    assert 1 == first_failure(4, lambda start, stop: fails[start:stop])


SLOTS_OF_BYTES = [
    ("all sound", "aü", [0, 1, 3], None),
    ("a bad byte", b"ab\xff", [0, 1, 3], 1),
    ("a code point torn in two: the slot with its end", "ü", [0, 1, 2], 1),
    ("torn, with empty slots around", "aü", [0, 1, 1, 2, 2, 3], 4),
    ("empty slots alone", b"", [0, 0, 0], None),
]


@pytest.mark.parametrize(
    ("content", "starts", "expected"), [c[1:] for c in SLOTS_OF_BYTES], ids=[c[0] for c in SLOTS_OF_BYTES]
)
def test_a_slot_that_is_not_utf8_by_itself_is_found(content, starts, expected):
    content = content.encode() if isinstance(content, str) else content
    assert expected == text_failure(np.frombuffer(content, np.uint8), np.array(starts))
