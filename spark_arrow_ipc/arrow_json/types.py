"""Types and fields as Arrow's integration JSON (Integration.rst), the annotation of types in Spark's field metadata.

The JSON of a type is a field without its name: ``type`` (name and parameters), ``children`` and, for a
dictionary-encoded one, ``dictionary``. Ids of dictionaries belong to a document, not to a type: they are neither
read nor written here.

Two tables: a JSON name gives a constructor and its number of children, a type class gives the members of the
``type`` object. The constructors refuse impossible values (a 7-bit integer); their errors become
`InvalidMetadataError` with the path in the document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, TypeAlias, TypeVar

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow_json.document import Node
from spark_arrow_ipc.errors import LimitError

Children: TypeAlias = tuple[t.Field, ...]
Members: TypeAlias = dict[str, Any]

_Enum = TypeVar("_Enum", bound=IntEnum)

MAX_DEPTH = 64
"""Most levels of nested fields, as in the IPC reader."""

ANY_NUMBER = -1
"""The number of children of struct and union types."""


def _one_of(node: Node, enum: type[_Enum]) -> _Enum:
    return enum[_check_name(node, enum.__members__)]


def _check_name(node: Node, names: Mapping[str, object]) -> str:
    name = node.string()
    return name if name in names else node.fail(f"one of {', '.join(names)}")


def _decimal(bit_width: int) -> Callable[[Node, Children], t.DataType]:
    def decimal(node: Node, _: Children) -> t.DataType:
        written = node.optional("bitWidth")
        width = bit_width if written is None else written.int32()
        return t.Decimal(node.member("precision").int32(), node.member("scale").int32(), width)

    return decimal


def _timestamp(node: Node, _: Children) -> t.DataType:
    zone = node.optional("timezone")
    return t.Timestamp(_one_of(node.member("unit"), t.TimeUnit), zone.string() if zone else None)


_INTERVALS: Mapping[str, t.DataType] = {
    "YEAR_MONTH": t.IntervalYearMonth(),
    "DAY_TIME": t.IntervalDayTime(),
    "MONTH_DAY_NANO": t.IntervalMonthDayNano(),
}


_UNIONS: Mapping[str, type[t.SparseUnion | t.DenseUnion]] = {"SPARSE": t.SparseUnion, "DENSE": t.DenseUnion}


def _union(node: Node, children: Children) -> t.DataType:
    type_ids = tuple(type_id.int32() for type_id in node.member("typeIds").elements())
    return _UNIONS[_check_name(node.member("mode"), _UNIONS)](children, type_ids)


# From the JSON name of a type to its number of children and its constructor
_FROM_NAME: Mapping[str, tuple[int, Callable[[Node, Children], t.DataType]]] = {
    "null": (0, lambda _, __: t.null),
    "bool": (0, lambda _, __: t.bool_),
    "int": (0, lambda node, _: t.Int(node.member("bitWidth").int32(), node.member("isSigned").flag())),
    "floatingpoint": (0, lambda node, _: t.FloatingPoint(_one_of(node.member("precision"), t.Precision))),
    "decimal": (0, _decimal(128)),
    # The newest C++ writes these names, without a bitWidth.
    "decimal32": (0, _decimal(32)),
    "decimal64": (0, _decimal(64)),
    "decimal256": (0, _decimal(256)),
    "date": (0, lambda node, _: t.Date(_one_of(node.member("unit"), t.DateUnit))),
    "time": (0, lambda node, _: t.Time(_one_of(node.member("unit"), t.TimeUnit), node.member("bitWidth").int32())),
    "timestamp": (0, _timestamp),
    "duration": (0, lambda node, _: t.Duration(_one_of(node.member("unit"), t.TimeUnit))),
    "interval": (0, lambda node, _: _INTERVALS[_check_name(node.member("unit"), _INTERVALS)]),
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
    "fixedsizelist": (1, lambda node, children: t.FixedSizeList(children[0], node.member("listSize").int32())),
    "struct": (ANY_NUMBER, lambda _, children: t.Struct(children)),
    "map": (1, lambda node, children: t.Map(children[0], node.member("keysSorted").flag())),
    "union": (ANY_NUMBER, _union),
    "runendencoded": (2, lambda _, children: t.RunEndEncoded(*children)),
}


def type_from_json(node: Node, depth: int = 1) -> t.DataType:
    """Read the type of a JSON field, with its children and its dictionary encoding.

    Members of `node` other than ``type``, ``children`` and ``dictionary`` are ignored. InvalidMetadataError if a name
    is unknown, a member is missing or wrong, or the children are too few or too many; LimitError for more than
    `MAX_DEPTH` nested levels of fields.
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
    """Read a JSON field; parameters and errors are as in `type_from_json`."""
    type_ = type_from_json(node, depth)
    return t.Field(node.member("name").string(), type_, node.member("nullable").flag(), custom_metadata_from_json(node))


def custom_metadata_from_json(node: Node) -> t.CustomMetadata:
    """Read the pairs of a JSON field or schema, in order."""
    metadata = node.optional("metadata")
    pairs = metadata.elements() if metadata else []
    return tuple((pair.member("key").string(), pair.member("value").string()) for pair in pairs)


def _from_type_object(node: Node, children: Children) -> t.DataType:
    n_children, construct = _FROM_NAME[_check_name(node.member("name"), _FROM_NAME)]
    if n_children not in (ANY_NUMBER, len(children)):
        node.fail(f"a type with {len(children)} children")
    try:
        return construct(node, children)
    except ValueError as error:
        if isinstance(error, node.error):  # the error of a member has the member's path
            raise
        node.fail(str(error), error)


def _name_only(name: str) -> Callable[[Any], Members]:
    return lambda _: {"name": name}


def _unit(name: str) -> Callable[[Any], Members]:
    return lambda type_: {"name": name, "unit": type_.unit.name}


def _timestamp_members(type_: t.Timestamp) -> Members:
    zone = {} if type_.timezone is None else {"timezone": type_.timezone}
    return {"name": "timestamp", "unit": type_.unit.name, **zone}


def _union_members(mode: str) -> Callable[[Any], Members]:
    return lambda type_: {"name": "union", "mode": mode, "typeIds": list(type_.type_ids)}


def _interval_members(unit: str) -> Callable[[Any], Members]:
    return lambda _: {"name": "interval", "unit": unit}


MEMBERS: Mapping[type[t.DataType], Callable[[Any], Members]] = {
    t.Null: _name_only("null"),
    t.Bool: _name_only("bool"),
    t.Int: lambda type_: {"name": "int", "bitWidth": type_.bit_width, "isSigned": type_.signed},
    t.FloatingPoint: lambda type_: {"name": "floatingpoint", "precision": type_.precision.name},
    t.Decimal: lambda x: {"name": "decimal", "precision": x.precision, "scale": x.scale, "bitWidth": x.bit_width},
    t.Date: _unit("date"),
    t.Time: lambda type_: {"name": "time", "unit": type_.unit.name, "bitWidth": type_.bit_width},
    t.Timestamp: _timestamp_members,
    t.Duration: _unit("duration"),
    t.IntervalYearMonth: _interval_members("YEAR_MONTH"),
    t.IntervalDayTime: _interval_members("DAY_TIME"),
    t.IntervalMonthDayNano: _interval_members("MONTH_DAY_NANO"),
    t.FixedSizeBinary: lambda type_: {"name": "fixedsizebinary", "byteWidth": type_.byte_width},
    t.Binary: _name_only("binary"),
    t.LargeBinary: _name_only("largebinary"),
    t.BinaryView: _name_only("binaryview"),
    t.Utf8: _name_only("utf8"),
    t.LargeUtf8: _name_only("largeutf8"),
    t.Utf8View: _name_only("utf8view"),
    t.List: _name_only("list"),
    t.LargeList: _name_only("largelist"),
    t.ListView: _name_only("listview"),
    t.LargeListView: _name_only("largelistview"),
    t.FixedSizeList: lambda type_: {"name": "fixedsizelist", "listSize": type_.list_size},
    t.Struct: _name_only("struct"),
    t.Map: lambda type_: {"name": "map", "keysSorted": type_.keys_sorted},
    t.SparseUnion: _union_members("SPARSE"),
    t.DenseUnion: _union_members("DENSE"),
    t.RunEndEncoded: _name_only("runendencoded"),
    t.Dictionary: lambda type_: type_object(type_.value),
}
"""The JSON members of each type class; a dictionary-encoded field has the type of its values."""


def type_object(type_: t.DataType) -> Members:
    """Write only the JSON ``type`` object: name and parameters, without children."""
    return MEMBERS[type(type_)](type_)


def type_to_json(type_: t.DataType) -> Members:
    """Write a type as the members ``type``, ``children`` and maybe ``dictionary``."""
    # A dictionary-encoded field has the type and the children of its values.
    members: Members = {"type": type_object(type_)}
    values = type_
    if isinstance(type_, t.Dictionary):
        members["dictionary"] = {"indexType": type_object(type_.index), "isOrdered": type_.ordered}
        values = type_.value
    members["children"] = [field_to_json(child) for child in values.children]
    return members


def field_to_json(field: t.Field) -> Members:
    """Write a field: its name, nullability, type and custom metadata."""
    named: Members = {"name": field.name, "nullable": field.nullable}
    return named | type_to_json(field.type) | custom_metadata_to_json(field.custom_metadata)


def custom_metadata_to_json(pairs: t.CustomMetadata) -> Members:
    """Write pairs as the member ``metadata``; without pairs, there is no such member."""
    return {"metadata": [{"key": key, "value": value} for key, value in pairs]} if pairs else {}
