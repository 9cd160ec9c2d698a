"""Views of 16 bytes: sizes, padding, bounds, prefixes and UTF-8, inline and in variadic buffers."""

import numpy as np
import pytest
from built_arrays import GOOD, GREEN, LONG, long_view, view, views

from spark_arrow_ipc.arrow import Array
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.validate import arrays as validate
from spark_arrow_ipc.errors import InvalidBodyError

BROKEN = [
    ("negative view size", views(GOOD, view(-1, b"")), "a view size of at least 0 in slot 1", "-1"),
    ("padding", views(GOOD, view(2, b"okx")), "zero bytes after the 2 of the view in slot 1", "others"),
    ("last byte of padding", views(view(11, b"x" * 12)), "zero bytes after the 11", "others"),
    ("buffer index -1", views(GOOD, long_view(20, LONG[:4], -1, 0)), "buffer index from 0 to below 1 in slot 1", "-1"),
    ("buffer index 1 of 1", views(long_view(20, LONG[:4], 1, 0)), "buffer index from 0 to below 1 in slot 0", "1"),
    ("no variadic buffers", views(long_view(20, LONG[:4], 0, 0), buffers=()), "from 0 to below 0", "0"),
    ("negative view offset", views(long_view(20, LONG[:4], 0, -1)), "within the 20 bytes of variadic buffer 0", "bytes -1 to 19"),
    ("view offset + 1", views(long_view(20, LONG[:4], 0, 1)), "within the 20 bytes", "bytes 1 to 21"),
    ("view size + 1", views(long_view(21, LONG[:4], 0, 0)), "within the 20 bytes", "bytes 0 to 21"),
    ("view size of 2**31-1", views(long_view(2**31 - 1, LONG[:4], 0, 2**31 - 1)), "within the 20 bytes", "to 4294967294"),
    ("prefix", views(GOOD, long_view(20, b"0124", 0, 0)), "prefix in slot 1", "others"),
    ("prefix in the second buffer", views(long_view(13, LONG[:4], 0, 0), long_view(13, LONG[:4], 1, 0), buffers=(LONG, LONG[1:])), "prefix in slot 1", "others"),
    ("inline text", views(GOOD, view(2, b"\xff\xff")), "UTF-8 text in slot 1", "not UTF-8"),
    ("inline text cut", views(GOOD, view(1, b"\xc3")), "UTF-8 text in slot 1", "not UTF-8"),
    ("inline text torn", views(view(12, b"a" * 11 + b"\xc3"), view(2, b"\xbca")), "UTF-8 text in slot", "not UTF-8"),
    ("long text", views(GOOD, long_view(13, b"aaaa", 0, 0), buffers=(b"a" * 12 + b"\xff",)), "UTF-8 text in slot 1", "not UTF-8"),
    ("long text that starts torn", views(long_view(49, GREEN[:4], 0, 0), long_view(13, GREEN[3:7], 0, 3), buffers=(GREEN,)), "UTF-8 text in slot 1", "not UTF-8"),
    ("long text that ends torn", views(long_view(50, GREEN[:4], 0, 0), long_view(13, GREEN[:4], 0, 0), buffers=(GREEN,)), "UTF-8 text in slot 1", "not UTF-8"),
    ("long text with gaps", views(long_view(15, GREEN[:4], 0, 0), long_view(14, GREEN[20:24], 0, 20), buffers=(GREEN[:33] + b"\xff" + GREEN[34:],)), "UTF-8 text in slot 1", "not UTF-8"),
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
    ("twelve inline", views(view(12, b"a" * 12))),
    ("inline, not ASCII", views(view(12, "語".encode() * 4), view(2, "ü".encode()))),
    ("thirteen elsewhere", views(long_view(13, LONG[:4], 0, 0), long_view(13, LONG[7:11], 0, 7))),
    ("views garbage under null", views(GOOD, long_view(-5, b"abcd", 9, -9), valid=[True, False])),
    ("views that share", views(long_view(20, LONG[:4], 0, 0), long_view(20, LONG[:4], 0, 0))),
    ("long, not ASCII, overlapping", views(long_view(50, GREEN[:4], 0, 0), long_view(15, GREEN[:4], 0, 0), long_view(35, GREEN[15:19], 0, 15), buffers=(GREEN,))),
    ("long, not ASCII, garbage between", views(long_view(15, GREEN[:4], 0, 0), long_view(15, GREEN[20:24], 0, 20), buffers=(GREEN[:15] + b"\xff" * 5 + GREEN[20:],))),
    ("several variadic buffers", views(*(long_view(15, GREEN[:4], i % 3, 5 * (i % 2)) for i in range(9)), buffers=(GREEN,) * 3)),
    ("any bytes of binary views", views(view(2, b"\xff\xff"), long_view(13, b"\xff" * 4, 0, 0), buffers=(b"\xff" * 13,), type_=t.binary_view)),
]  # fmt: skip


@pytest.mark.parametrize("array", [c[1] for c in SOUND], ids=[c[0] for c in SOUND])
def test_what_the_format_allows_passes(array):
    validate.check(array, "f")


def test_overlapping_views_cost_no_more_than_their_bytes():
    """A million views of one long text: its bytes are decoded once, not a million times."""
    text = ("grün" * 50_000).encode()
    views = np.frombuffer(long_view(len(text), text[:4], 0, 0), np.uint8)
    many = memoryview(np.tile(views, 1_000_000))
    array = Array(t.utf8_view, 1_000_000, 0, (None, many, memoryview(text)))
    validate.check(array, "f")
