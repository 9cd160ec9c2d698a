"""Types, fields and single values as integration JSON (Integration.rst).

Strategy
--------
The JSON of a type is a field without its name: ``type`` (name and parameters), ``children`` and, for a
dictionary-encoded one, ``dictionary``. Ids of dictionaries belong to a document, not to a type: they are neither
read nor written here.

Two tables: a JSON name gives a constructor and its number of children, a type class gives the members of the
``type`` object. The types themselves refuse impossible values (a 7-bit integer); here these
errors become `InvalidMetadataError` with the place in the document.

Two tables of values: `SCALARS` has one row for each type with a DATA buffer of whole bytes, `TEXTS` one for each binary
or UTF-8 type. A decoder gets any JSON value and may raise one of `WRONG_VALUE`: the reader, which knows the place, turns
them into one error. Slots are in the byte order of this machine, as in memory. Costs Python time a value; the JSON is for
tests.
"""

from __future__ import annotations

import binascii
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias, TypeVar

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.layout import BIT_WIDTHS
from spark_arrow_ipc.arrow_json.document import Node, integer
from spark_arrow_ipc.errors import LimitError

Children: TypeAlias = tuple[t.Field, ...]
Members: TypeAlias = dict[str, Any]

_Enum = TypeVar("_Enum", bound=IntEnum)

MAX_DEPTH = 64
"""Most levels of nested fields, as in the IPC reader."""

ANY_NUMBER = -1
"""The number of children of struct and union types."""


def _one_of(node: Node, enum: type[_Enum]) -> _Enum:
    return enum[_checked(node, enum.__members__)]


def _checked(node: Node, names: Mapping[str, object]) -> str:
    name = node.string()
    return name if name in names else node.fail(f"one of {', '.join(names)}")


def _int(node: Node, _: Children) -> t.DataType:
    return t.Int(node.member("bitWidth").int32(), node.member("isSigned").flag())


def _floating_point(node: Node, _: Children) -> t.DataType:
    return t.FloatingPoint(_one_of(node.member("precision"), t.Precision))


def _decimal(bit_width: int) -> Callable[[Node, Children], t.DataType]:
    def decimal(node: Node, _: Children) -> t.DataType:
        written = node.optional("bitWidth")
        width = bit_width if written is None else written.int32()
        return t.Decimal(node.member("precision").int32(), node.member("scale").int32(), width)

    return decimal


def _date(node: Node, _: Children) -> t.DataType:
    return t.Date(_one_of(node.member("unit"), t.DateUnit))


def _time(node: Node, _: Children) -> t.DataType:
    return t.Time(_one_of(node.member("unit"), t.TimeUnit), node.member("bitWidth").int32())


def _timestamp(node: Node, _: Children) -> t.DataType:
    zone = node.optional("timezone")
    return t.Timestamp(_one_of(node.member("unit"), t.TimeUnit), zone.string() if zone else None)


def _duration(node: Node, _: Children) -> t.DataType:
    return t.Duration(_one_of(node.member("unit"), t.TimeUnit))


_INTERVALS: Mapping[str, t.DataType] = {
    "YEAR_MONTH": t.IntervalYearMonth(),
    "DAY_TIME": t.IntervalDayTime(),
    "MONTH_DAY_NANO": t.IntervalMonthDayNano(),
}


def _interval(node: Node, _: Children) -> t.DataType:
    return _INTERVALS[_checked(node.member("unit"), _INTERVALS)]


def _map(node: Node, children: Children) -> t.DataType:
    return t.Map(children[0], node.member("keysSorted").flag())


def _fixed_size_list(node: Node, children: Children) -> t.DataType:
    return t.FixedSizeList(children[0], node.member("listSize").int32())


_UNIONS: Mapping[str, type[t.SparseUnion | t.DenseUnion]] = {"SPARSE": t.SparseUnion, "DENSE": t.DenseUnion}


def _union(node: Node, children: Children) -> t.DataType:
    type_ids = tuple(type_id.int32() for type_id in node.member("typeIds").elements())
    return _UNIONS[_checked(node.member("mode"), _UNIONS)](children, type_ids)


_FROM_NAME: Mapping[str, tuple[int, Callable[[Node, Children], t.DataType]]] = {
    "null": (0, lambda _, __: t.null),
    "bool": (0, lambda _, __: t.bool_),
    "int": (0, _int),
    "floatingpoint": (0, _floating_point),
    "decimal": (0, _decimal(128)),
    # The newest C++ writes these names, without a bitWidth.
    "decimal32": (0, _decimal(32)),
    "decimal64": (0, _decimal(64)),
    "decimal256": (0, _decimal(256)),
    "date": (0, _date),
    "time": (0, _time),
    "timestamp": (0, _timestamp),
    "duration": (0, _duration),
    "interval": (0, _interval),
    "fixedsizebinary": (0, lambda node, _: t.FixedSizeBinary(node.member("byteWidth").int32())),
    "binary": (0, lambda _, __: t.binary),
    "largebinary": (0, lambda _, __: t.large_binary),
    "binaryview": (0, lambda _, __: t.binary_view),
    "utf8": (0, lambda _, __: t.utf8),
    "largeutf8": (0, lambda _, __: t.large_utf8),
    "utf8view": (0, lambda _, __: t.utf8_view),
    "list": (1, lambda _, children: t.List(children[0])),
    "largelist": (1, lambda _, children: t.LargeList(children[0])),
    "listview": (1, lambda _, children: t.ListView(children[0])),
    "largelistview": (1, lambda _, children: t.LargeListView(children[0])),
    "fixedsizelist": (1, _fixed_size_list),
    "struct": (ANY_NUMBER, lambda _, children: t.Struct(children)),
    "map": (1, _map),
    "union": (ANY_NUMBER, _union),
    "runendencoded": (2, lambda _, children: t.RunEndEncoded(*children)),
}
"""From the JSON name of a type to its number of children and its constructor."""


def type_from_json(node: Node, depth: int = 1) -> t.DataType:
    """Read the type of a JSON field, with its children and its dictionary encoding.

    Of `node`, members beside ``type``, ``children`` and ``dictionary`` are ignored. InvalidMetadataError if a name is
    unknown, a member is missing or wrong, or the children are too few or too many; LimitError if more than `MAX_DEPTH`
    levels of fields are nested.
    """
    if depth > MAX_DEPTH:
        raise LimitError(expected=f"at most {MAX_DEPTH} levels of fields", found=f"more at {node.path}")
    children = tuple(field_from_json(child, depth + 1) for child in node.member("children").elements())
    type_ = _from_type_object(node.member("type"), children)
    encoding = node.optional("dictionary")
    if encoding is None:
        return type_
    index = _from_type_object(encoding.member("indexType"), ())
    if not isinstance(index, t.Int):
        encoding.member("indexType").fail("an integer type")
    return t.Dictionary(index, type_, encoding.member("isOrdered").flag())


def field_from_json(node: Node, depth: int = 1) -> t.Field:
    """Read a JSON field; parameters and errors are those of `type_from_json`."""
    type_ = type_from_json(node, depth)
    return t.Field(node.member("name").string(), type_, node.member("nullable").flag(), custom_metadata_from_json(node))


def custom_metadata_from_json(node: Node) -> t.CustomMetadata:
    """Read the pairs of a JSON field or schema, in order."""
    metadata = node.optional("metadata")
    pairs = metadata.elements() if metadata else []
    return tuple((pair.member("key").string(), pair.member("value").string()) for pair in pairs)


def _from_type_object(node: Node, children: Children) -> t.DataType:
    wanted, construct = _FROM_NAME[_checked(node.member("name"), _FROM_NAME)]
    if wanted not in (ANY_NUMBER, len(children)):
        node.fail(f"a type with {len(children)} children")
    try:
        return construct(node, children)
    except ValueError as error:
        if isinstance(error, node.error):
            raise
        node.fail(str(error), error)


def _named(name: str) -> Callable[[Any], Members]:
    return lambda _: {"name": name}


def _unit(name: str) -> Callable[[Any], Members]:
    return lambda type_: {"name": name, "unit": type_.unit.name}


def _timestamp_members(type_: t.Timestamp) -> Members:
    zone = {} if type_.timezone is None else {"timezone": type_.timezone}
    return {"name": "timestamp", "unit": type_.unit.name, **zone}


def _decimal_members(type_: t.Decimal) -> Members:
    return {"name": "decimal", "precision": type_.precision, "scale": type_.scale, "bitWidth": type_.bit_width}


def _union_members(mode: str) -> Callable[[Any], Members]:
    return lambda type_: {"name": "union", "mode": mode, "typeIds": list(type_.type_ids)}


def _interval_members(unit: str) -> Callable[[Any], Members]:
    return lambda _: {"name": "interval", "unit": unit}


MEMBERS: Mapping[type[t.DataType], Callable[[Any], Members]] = {
    t.Null: _named("null"),
    t.Bool: _named("bool"),
    t.Int: lambda type_: {"name": "int", "bitWidth": type_.bit_width, "isSigned": type_.signed},
    t.FloatingPoint: lambda type_: {"name": "floatingpoint", "precision": type_.precision.name},
    t.Decimal: _decimal_members,
    t.Date: _unit("date"),
    t.Time: lambda type_: {"name": "time", "unit": type_.unit.name, "bitWidth": type_.bit_width},
    t.Timestamp: _timestamp_members,
    t.Duration: _unit("duration"),
    t.IntervalYearMonth: _interval_members("YEAR_MONTH"),
    t.IntervalDayTime: _interval_members("DAY_TIME"),
    t.IntervalMonthDayNano: _interval_members("MONTH_DAY_NANO"),
    t.FixedSizeBinary: lambda type_: {"name": "fixedsizebinary", "byteWidth": type_.byte_width},
    t.Binary: _named("binary"),
    t.LargeBinary: _named("largebinary"),
    t.BinaryView: _named("binaryview"),
    t.Utf8: _named("utf8"),
    t.LargeUtf8: _named("largeutf8"),
    t.Utf8View: _named("utf8view"),
    t.List: _named("list"),
    t.LargeList: _named("largelist"),
    t.ListView: _named("listview"),
    t.LargeListView: _named("largelistview"),
    t.FixedSizeList: lambda type_: {"name": "fixedsizelist", "listSize": type_.list_size},
    t.Struct: _named("struct"),
    t.Map: lambda type_: {"name": "map", "keysSorted": type_.keys_sorted},
    t.SparseUnion: _union_members("SPARSE"),
    t.DenseUnion: _union_members("DENSE"),
    t.RunEndEncoded: _named("runendencoded"),
    t.Dictionary: lambda type_: type_object(type_.value),
}
"""The JSON members of each type class; a dictionary-encoded field has the type of its values."""


def type_object(type_: t.DataType) -> Members:
    """Write only the JSON ``type`` object: name and parameters, without children."""
    return MEMBERS[type(type_)](type_)


def type_to_json(type_: t.DataType) -> Members:
    """Write a type as the members ``type``, ``children`` and maybe ``dictionary``."""
    made: Members = {"type": type_object(type_)}
    values = type_
    if isinstance(type_, t.Dictionary):
        made["dictionary"] = {"indexType": type_object(type_.index), "isOrdered": type_.ordered}
        values = type_.value
    made["children"] = [field_to_json(child) for child in values.children]
    return made


def field_to_json(field: t.Field) -> Members:
    """Write a field: its name, nullability, type and custom metadata."""
    named: Members = {"name": field.name, "nullable": field.nullable}
    return named | type_to_json(field.type) | custom_metadata_to_json(field.custom_metadata)


def custom_metadata_to_json(pairs: t.CustomMetadata) -> Members:
    """Write pairs as the member ``metadata``; no member if there are none."""
    return {"metadata": [{"key": key, "value": value} for key, value in pairs]} if pairs else {}


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
