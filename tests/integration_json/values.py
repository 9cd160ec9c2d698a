"""Single values as Arrow's integration JSON (Integration.rst): two tables, keyed by type class.

`SCALARS` has one row for each type with a DATA buffer of bytes, `TEXTS` one for each binary or UTF-8 type. A decoder gets
any JSON value and may raise one of `WRONG_VALUE`: the reader, which knows the place, turns them into one error. Slots are
in the byte order of this machine, as in memory.
"""

from __future__ import annotations

import binascii
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.layout import BIT_WIDTHS
from spark_arrow_ipc.arrow_json.document import integer

WRONG_VALUE = (ValueError, TypeError, KeyError, OverflowError, struct.error)
"""The errors that a decoder raises for a value that does not fit its type."""

_FLOAT_CODES: Mapping[int, str] = {16: "e", 32: "f", 64: "d"}


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value of fixed width: from JSON to the bytes of a slot, and back. Both callbacks get the type too."""

    decode: Callable[[Any, Any], bytes]
    encode: Callable[[bytes, Any], Any]


def int_to_bytes(value: object, bit_width: int, *, signed: bool = True) -> bytes:
    """Return the bytes of an integer of 8 to 256 bits, written as a JSON number or string."""
    return integer(value).to_bytes(bit_width // 8, sys.byteorder, signed=signed)


def int_from_bytes(slot: bytes, *, signed: bool = True) -> int:
    """Return the integer in the bytes of a slot."""
    return int.from_bytes(slot, sys.byteorder, signed=signed)


def int_to_json(value: int, bit_width: int) -> int | str:
    """Return an integer as JSON: from 64 bits on a string, for readers that parse doubles."""
    return str(value) if bit_width >= 64 else value


def _encode_int(slot: bytes, _: t.DataType) -> int | str:
    return int_to_json(int_from_bytes(slot), 8 * len(slot))


def _signed(value: object, type_: t.DataType) -> bytes:
    return int_to_bytes(value, BIT_WIDTHS[type(type_)](type_))


_SIGNED = Scalar(_signed, _encode_int)
_INT = Scalar(
    lambda value, type_: int_to_bytes(value, type_.bit_width, signed=type_.signed),
    lambda slot, type_: int_to_json(int_from_bytes(slot, signed=type_.signed), type_.bit_width),
)


def _decode_float(value: object, type_: t.FloatingPoint) -> bytes:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError("expected a number")
    return struct.pack(f"={_FLOAT_CODES[type_.bit_width]}", value)


def _encode_float(slot: bytes, type_: t.FloatingPoint) -> float:
    value: float = struct.unpack(f"={_FLOAT_CODES[type_.bit_width]}", slot)[0]
    return value


def _decode_decimal(value: object, type_: t.Decimal) -> bytes:
    if not isinstance(value, str):
        raise TypeError("expected a string")
    return int_to_bytes(value, type_.bit_width)


def _encode_decimal(slot: bytes, _: t.Decimal) -> str:
    return str(int_from_bytes(slot))


def _members(codes: str, *names: str) -> Scalar:
    """Return the row of a type of several integers, which JSON writes as an object of numbers."""
    layout = struct.Struct(f"={codes}")
    return Scalar(
        lambda value, _: layout.pack(*(integer(value[name]) for name in names)),
        lambda slot, _: dict(zip(names, layout.unpack(slot), strict=True)),
    )


def bytes_from_hex(value: str) -> bytes:
    """Return bytes written as hexadecimal digits."""
    return binascii.unhexlify(value)


def bytes_to_hex(value: bytes) -> str:
    """Return bytes as upper-case hexadecimal digits, as all implementations write them."""
    return value.hex().upper()


def _decode_fixed_size_binary(value: str, type_: t.FixedSizeBinary) -> bytes:
    slot = bytes_from_hex(value)
    if len(slot) != type_.byte_width:
        raise ValueError(f"expected {type_.byte_width} bytes")
    return slot


SCALARS: Mapping[type[t.DataType], Scalar] = {
    t.Int: _INT,
    t.FloatingPoint: Scalar(_decode_float, _encode_float),
    t.Decimal: Scalar(_decode_decimal, _encode_decimal),
    t.Date: _SIGNED,
    t.Time: _SIGNED,
    t.Timestamp: _SIGNED,
    t.Duration: _SIGNED,
    t.IntervalYearMonth: _SIGNED,
    t.IntervalDayTime: _members("ii", "days", "milliseconds"),
    t.IntervalMonthDayNano: _members("iiq", "months", "days", "nanoseconds"),
    t.FixedSizeBinary: Scalar(_decode_fixed_size_binary, lambda slot, _: bytes_to_hex(slot)),
    t.Dictionary: Scalar(
        lambda value, type_: _INT.decode(value, type_.index),
        lambda slot, type_: _INT.encode(slot, type_.index),
    ),
}
"""A row for each type whose DATA slots are whole bytes, which is all except `Bool`."""


@dataclass(frozen=True, slots=True)
class Text:
    """A value of variable length: from JSON to bytes, and back."""

    decode: Callable[[Any], bytes]
    encode: Callable[[bytes], str]


_HEX = Text(bytes_from_hex, bytes_to_hex)
_UTF8 = Text(lambda value: str.encode(value, "utf-8"), lambda value: value.decode("utf-8"))

TEXTS: Mapping[type[t.DataType], Text] = {
    t.Binary: _HEX,
    t.LargeBinary: _HEX,
    t.BinaryView: _HEX,
    t.Utf8: _UTF8,
    t.LargeUtf8: _UTF8,
    t.Utf8View: _UTF8,
}
"""A row for each binary or UTF-8 type."""
