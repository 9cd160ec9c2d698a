"""Decimals are exact in both directions, whatever the scale and the context of the thread."""

import decimal
from decimal import Decimal

import numpy as np
import pytest

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import from_pylist, scalars

ROUND_TRIPS = [
    (t.Decimal(2, 5), [Decimal("0.00012"), None]),
]


@pytest.mark.parametrize(("type_", "values"), ROUND_TRIPS, ids=[str(case[0]) for case in ROUND_TRIPS])
def test_what_pyarrow_cannot_build_comes_back(type_, values):
    array = from_pylist.array(values, type_)
    assert values == array.to_pylist()
    assert sum(value is None for value in values) == array.null_count


ACCEPTED = [
    ("int in decimal", t.Decimal(5, 2), [3, np.int8(4)], [Decimal("3.00"), Decimal("4.00")]),
    ("zeros after the scale", t.Decimal(5, 2), [Decimal("3.00000")], [Decimal("3.00")]),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "values", "expected"), [c[1:] for c in ACCEPTED], ids=[c[0] for c in ACCEPTED])
def test_other_python_types_are_taken(type_, values, expected):
    assert repr(expected) == repr(from_pylist.array(values, type_).to_pylist())


REFUSED = [
    (t.Decimal(5, 1), [Decimal("1.25")], ValueError, "at most 1 decimals"),
    (t.Decimal(5, 1), [Decimal("1E-999999999")], ValueError, "at most 1 decimals"),
    (t.Decimal(5, 1), [Decimal(12345)], ValueError, "at most 5 digits"),
    (t.Decimal(5, 1), [Decimal("1E+999999999")], ValueError, "at most 5 digits"),
    (t.Decimal(5, 1), [Decimal("NaN")], ValueError, "a finite number"),
    (t.Decimal(5, 1), [1.5], TypeError, "a Decimal or an int"),
]


@pytest.mark.parametrize(
    ("type_", "values", "error", "words"), REFUSED, ids=[f"{case[0]} {case[3]}" for case in REFUSED]
)
def test_what_does_not_fit_is_refused_in_words(type_, values, error, words):
    with pytest.raises(error) as caught:
        from_pylist.array(values, type_)
    assert words in str(caught.value)


@pytest.mark.parametrize("bit_width", [32, 64, 128, 256])
def test_the_largest_decimals_of_each_width_come_back_in_a_context_of_one_digit(bit_width):
    digits = t.MAX_DECIMAL_PRECISION[bit_width]
    type_ = t.Decimal(digits, 3, bit_width)
    values = [Decimal(f"{sign}{'9' * (digits - 3)}.999") for sign in ("", "-")] + [Decimal("0.000"), Decimal("-0.001")]
    with decimal.localcontext(prec=1):
        assert values == from_pylist.array(values, type_).to_pylist()


@pytest.mark.parametrize("bit_width", [32, 64, 128, 256])
def test_words_are_joined_with_the_sign_of_the_highest(bit_width):
    numbers = [0, 1, -1, 2 ** (bit_width - 1) - 1, -(2 ** (bit_width - 1)), 2 ** (bit_width // 2)]
    dtype = array_data.dtype_of(t.Decimal(1, 0, bit_width))
    slots = b"".join(number.to_bytes(bit_width // 8, "little", signed=True) for number in numbers)
    assert numbers == scalars.unscaled_ints(np.frombuffer(slots, dtype.newbyteorder("<")))


UNSCALED = [
    ("an int", 3, t.Decimal(5, 2), 300),
    ("a Decimal", Decimal("-1.25"), t.Decimal(5, 2), -125),
    ("fewer decimals than the scale", Decimal("1.2"), t.Decimal(5, 2), 120),
    ("zero of any exponent", Decimal("0E+999999"), t.Decimal(5, 2), 0),
    ("a negative scale", Decimal(1200), t.Decimal(5, -2), 12),
    ("all digits", Decimal("999.99"), t.Decimal(5, 2), 99_999),
]


@pytest.mark.parametrize(("value", "type_", "expected"), [c[1:] for c in UNSCALED], ids=[c[0] for c in UNSCALED])
def test_the_unscaled_integer_of_a_value(value, type_, expected):
    assert expected == scalars.unscaled(value, type_)
