"""Arrays without children: their buffers, the Python types that they take, and the values that they refuse."""

from decimal import Decimal

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

from arrow_from_pyarrow import type_from_pyarrow  # noqa: E402
from pylist_cases import CASES, case_id  # noqa: E402

from spark_arrow_ipc.arrow import types as t  # noqa: E402
from spark_arrow_ipc.arrow.layout import LAYOUTS, Role  # noqa: E402
from spark_arrow_ipc.arrow.python_values import from_pylist  # noqa: E402
from spark_arrow_ipc.arrow.python_values.from_pylist_leaves import LEAVES, NATURAL_LEAVES, offset_buffer  # noqa: E402

ROUND_TRIPS = [
    (t.IntervalYearMonth(), [1, None, -(2**31)]),
    (t.IntervalDayTime(), [(1, -2), None, (2**31 - 1, -(2**31))]),
]


@pytest.mark.parametrize(("type_", "values"), ROUND_TRIPS, ids=[str(case[0]) for case in ROUND_TRIPS])
def test_what_pyarrow_cannot_build_comes_back(type_, values):
    array = from_pylist.array(values, type_)
    assert values == array.to_pylist()
    assert sum(value is None for value in values) == array.null_count


ACCEPTED = [
    ("numpy int", t.int8, [np.int64(3)], [3]),
    ("whole float", t.int8, [3.0, Decimal(4)], [3, 4]),
    ("numpy column", t.int64, np.arange(3), [0, 1, 2]),
    ("int in float", t.float32, [2**24, np.float16(0.5)], [2.0**24, 0.5]),
    ("overflow to infinity", t.float16, [1e10], [float("inf")]),
    ("str in binary", t.binary, ["ä", bytearray(b"x"), memoryview(b"y")], [b"\xc3\xa4", b"x", b"y"]),
    ("bytes in utf8", t.utf8, [b"\xc3\xa4"], ["ä"]),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "values", "expected"), [c[1:] for c in ACCEPTED], ids=[c[0] for c in ACCEPTED])
def test_other_python_types_are_taken(type_, values, expected):
    assert repr(expected) == repr(from_pylist.array(values, type_).to_pylist())


REFUSED = [
    (t.null, [1], ValueError, "only None"),
    (t.bool_, [1], TypeError, "a bool"),
    (t.int8, [128], ValueError, "expected -128 to 127 for int8, found 128"),
    (t.uint8, [-1], ValueError, "0 to 255"),
    (t.uint64, [2**64], ValueError, "found 18446744073709551616"),
    (t.int8, [True], TypeError, "an integer"),
    (t.int8, [1.5], ValueError, "a whole number"),
    (t.int8, [float("nan")], ValueError, "a whole number"),
    (t.int8, ["1"], TypeError, "an integer"),
    (t.float64, [2**53 + 1], ValueError, "53 bits"),
    (t.float64, ["1"], TypeError, "a float or an int"),
    (t.IntervalDayTime(), [(1, 2, 3)], TypeError, "(days, milliseconds)"),
    (t.IntervalMonthDayNano(), [(2**31, 0, 0)], ValueError, "2,147,483,647"),
    (t.FixedSizeBinary(2), [b"abc"], ValueError, "2 bytes"),
    (t.utf8, [b"\xff"], ValueError, "UTF-8"),
    (t.utf8, ["\ud800"], ValueError, "UTF-8"),
    (t.utf8, [1], TypeError, "str or bytes"),
    (t.utf8, [[1] * 1000], TypeError, "1, 1..."),
]


@pytest.mark.parametrize(
    ("type_", "values", "error", "words"), REFUSED, ids=[f"{case[0]} {case[3]}" for case in REFUSED]
)
def test_what_does_not_fit_is_refused_in_words(type_, values, error, words):
    with pytest.raises(error) as caught:
        from_pylist.array(values, type_)
    assert words in str(caught.value)


@pytest.mark.parametrize(("type_", "values"), CASES, ids=case_id)
def test_null_slots_and_padding_bits_are_zero(type_, values):
    array = from_pylist.array([None] * 5, type_from_pyarrow(type_))
    for layout, buffer in zip(LAYOUTS[type(array.type)].buffers, array.buffers, strict=False):
        if layout.role is not Role.TYPE_IDS:
            assert not any(buffer), layout.role
    whole = from_pylist.array([True] * 3, t.bool_)
    assert [None, b"\7"] == [whole.validity, bytes(whole.buffers[1])]


def test_long_views_lie_in_one_variadic_buffer():
    array = from_pylist.array(["x" * 13, None, "short", "y" * 20], t.utf8_view)
    assert (1, b"x" * 13 + b"y" * 20) == (len(array.buffers) - 2, bytes(array.buffers[2]))
    assert 2 == len(from_pylist.array(["short"], t.utf8_view).buffers)


def test_every_type_without_children_has_a_python_type():
    assert LEAVES.keys() == NATURAL_LEAVES.keys()


@pytest.mark.parametrize("bit_width", [32, 64])
def test_offsets_fit_their_width_or_are_refused(bit_width):
    most = 2 ** (bit_width - 1) - 1
    assert [0, most] == np.frombuffer(offset_buffer([0, most], bit_width), f"i{bit_width // 8}").tolist()
    with pytest.raises(ValueError, match=f"expected at most {most:,} elements or bytes"):
        offset_buffer([0, most + 1], bit_width)
