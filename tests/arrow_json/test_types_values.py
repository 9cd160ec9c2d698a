"""Single values between JSON and bytes: every type has a row, and both directions are inverses."""

import struct
import sys

import pytest
from integration_json.values import SCALARS, TEXTS, WRONG_VALUE, int_to_json

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.layout import LAYOUTS, Role


def test_every_type_with_values_has_a_row():
    """Bool has bits, no slots of bytes."""
    roles = {type_: {buffer.role for buffer in layout.buffers} for type_, layout in LAYOUTS.items()}
    assert {type_ for type_, has in roles.items() if Role.DATA in has} - {t.Bool} == SCALARS.keys()
    assert {type_ for type_, has in roles.items() if has & {Role.BYTES, Role.VIEWS}} == TEXTS.keys()


def native(number, nbytes, *, signed=True):
    return number.to_bytes(nbytes, sys.byteorder, signed=signed)


VALUES = [
    (t.int8, -128, native(-128, 1)),
    (t.uint64, "18446744073709551615", native(2**64 - 1, 8, signed=False)),
    (t.int64, "-1", native(-1, 8)),
    (t.float16, 0.5, struct.pack("=e", 0.5)),
    (t.float64, 0.1, struct.pack("=d", 0.1)),
    (t.Decimal(5, 2, 32), "-12345", native(-12345, 4)),
    (t.Decimal(60, 2, 256), "1" + "0" * 59, native(10**59, 32)),
    (t.date32, -1, native(-1, 4)),
    (t.date64, "86400000", native(86_400_000, 8)),
    (t.Timestamp(t.TimeUnit.NANOSECOND), str(-(2**63)), native(-(2**63), 8)),
    (t.IntervalYearMonth(), 14, native(14, 4)),
    (t.IntervalDayTime(), {"days": 1, "milliseconds": -2}, struct.pack("=ii", 1, -2)),
    (t.IntervalMonthDayNano(), {"months": 1, "days": 2, "nanoseconds": -3}, struct.pack("=iiq", 1, 2, -3)),
    (t.FixedSizeBinary(2), "00FF", b"\x00\xff"),
    (t.dictionary(t.uint8, t.utf8), 255, b"\xff"),
]


@pytest.mark.parametrize(("type_", "written", "slot"), VALUES, ids=[str(case[0]) for case in VALUES])
def test_a_value_is_the_bytes_of_its_slot_in_both_directions(type_, written, slot):
    scalar = SCALARS[type(type_)]
    assert slot == scalar.decode(written, type_)
    assert written == scalar.encode(slot, type_)


WRONG = [
    (t.int8, 128),
    (t.int8, 1.0),
    (t.int8, True),
    (t.uint8, -1),
    (t.float32, "0.1"),
    (t.float32, True),
    (t.float32, 1e39),
    (t.Decimal(5, 2), 12345),
    (t.Decimal(5, 2, 32), str(2**31)),
    (t.IntervalDayTime(), {"days": 1}),
    (t.IntervalDayTime(), 5),
    (t.IntervalMonthDayNano(), {"months": 1 << 31, "days": 0, "nanoseconds": 0}),
    (t.FixedSizeBinary(2), "00"),
    (t.FixedSizeBinary(2), "0g00"),
]


@pytest.mark.parametrize(("type_", "written"), WRONG, ids=[f"{case[0]} {case[1]}" for case in WRONG])
def test_a_value_that_does_not_fit_its_type_raises_one_of_the_known_errors(type_, written):
    with pytest.raises(WRONG_VALUE):
        SCALARS[type(type_)].decode(written, type_)


@pytest.mark.parametrize(("type_", "written", "content"), [(t.binary, "00FF", b"\x00\xff"), (t.utf8, "é", b"\xc3\xa9")])
def test_bytes_are_hexadecimal_and_strings_are_themselves(type_, written, content):
    text = TEXTS[type(type_)]
    assert (content, written) == (text.decode(written), text.encode(content))


@pytest.mark.parametrize(("type_", "written"), [(t.binary, "0"), (t.binary, 5), (t.utf8, 5), (t.utf8, "\ud800")])
def test_wrong_strings_raise_one_of_the_known_errors(type_, written):
    with pytest.raises(WRONG_VALUE):
        TEXTS[type(type_)].decode(written)


@pytest.mark.parametrize(("bit_width", "expected"), [(8, 5), (32, 5), (64, "5"), (128, "5")])
def test_integers_are_strings_from_64_bits_on(bit_width, expected):
    assert expected == int_to_json(5, bit_width)
