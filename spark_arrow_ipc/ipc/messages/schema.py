"""``Schema`` and ``Field`` of Schema.fbs, to and from `arrow.Schema`.

Only this module pairs types with their tables: `TYPES` has one row for each member of the union ``Type``. The ids of
dictionaries belong to the file, not to the types: `SchemaMessage` has one for each dictionary-encoded field, in the order
of `walk_fields`.

A type of fixed width with a width, unit or precision that the format lacks, such as polars' integers of 128 bits, becomes
an `UnknownType`: the number of its buffers is the same, so the other columns can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.column_path import shorten, walk_fields
from spark_arrow_ipc.arrow.layout import LAYOUTS, Family
from spark_arrow_ipc.arrow.schema import Endianness, Schema
from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.errors import InvalidMetadataError, LimitError, UnsupportedError, printable
from spark_arrow_ipc.ipc.constants import Limits
from spark_arrow_ipc.ipc.flatbuf import reader, tables
from spark_arrow_ipc.ipc.flatbuf.tables import MetadataVersion, Type


def decode_custom_metadata(view: reader.TableView) -> CustomMetadata:
    """Return the ``custom_metadata`` of a table in order; a missing key or value is an empty string."""
    if not view.has("custom_metadata"):
        return ()
    return tuple((pair.string("key") or "", pair.string("value") or "") for pair in view.tables("custom_metadata"))


def encode_custom_metadata(pairs: CustomMetadata) -> list[dict[str, str]] | None:
    """Return pairs as values of ``KeyValue`` tables, or None without pairs."""
    return [{"key": key, "value": value} for key, value in pairs] or None


Children = tuple[t.Field, ...]
Values = dict[str, Any]

KNOWN_FEATURES: Final = {int(feature): feature.name for feature in tables.Feature if feature}
"""Bits of ``Feature`` that this package understands."""


@dataclass(frozen=True, slots=True)
class TypeRow:
    """One member of the union ``Type``."""

    table: Any
    decode: Callable[[reader.TableView, Children], t.DataType]  # makes the type from the table and the child fields
    encode: Callable[[Any], Values]  # makes the table's values from the type


@dataclass(frozen=True, slots=True)
class UnknownType(t.DataType):
    """A type that the format lacks, with a validity bitmap and data, in the schema of a file only."""

    # `SelectedColumns` refuses to read it.

    name: str
    why: str  # the text of errors after the field's path

    def __str__(self) -> str:
        return f"{printable(self.name)} (unknown)"

    def error(self, path: str) -> InvalidMetadataError:
        """Return the error of reading the field at a path."""
        return InvalidMetadataError(self.why, field_path=path, spec="Schema.fbs")


def unknown_below(fields: tuple[t.Field, ...]) -> Iterator[tuple[str, UnknownType]]:
    """Yield the path and type of each field that has an `UnknownType`, among fields and all below them."""
    for path, below in walk_fields(fields):
        type_ = below.type.value if isinstance(below.type, t.Dictionary) else below.type
        if isinstance(type_, UnknownType):
            yield path, type_


def _unknown(discriminant: int, view: reader.TableView, error: ValueError) -> UnknownType:
    """Return the type for a table of fixed width that has no type."""
    name = f"unknown {TYPES[discriminant].table.name.lower()}"
    if discriminant == Type.Int:
        name = f"{'' if view.scalar('is_signed') else 'u'}int{view.scalar('bitWidth')}"
    if name in _OF_POLARS:
        return UnknownType(
            name,
            f"{name} is a type of polars that Arrow lacks: write the column with cast(pl.String) in polars, "
            "or read the others with columns",
        )
    return UnknownType(name, f"{error}; the other columns can be read with columns")


_OF_POLARS: Final = ("int128", "uint128")


def _only(children: Children) -> t.Field:
    if len(children) != 1:
        raise ValueError(f"expected one child field, found {len(children)}")
    return children[0]


def _pair(children: Children) -> tuple[t.Field, t.Field]:
    if len(children) != 2:
        raise ValueError(f"expected two child fields, found {len(children)}")
    return children[0], children[1]


def _plain(table: Any, type_: t.DataType) -> TypeRow:
    return TypeRow(table, lambda _view, _children: type_, lambda _: {})


def _of_child(table: Any, make: Callable[[t.Field], t.DataType]) -> TypeRow:
    return TypeRow(table, lambda _view, children: make(_only(children)), lambda _: {})


def _time_unit(view: reader.TableView) -> t.TimeUnit:
    return t.TimeUnit(int(view.scalar("unit")))


def _decode_int(view: reader.TableView, _: Children) -> t.Int:
    return t.Int(int(view.scalar("bitWidth")), bool(view.scalar("is_signed")))


def _encode_int(type_: t.Int) -> Values:
    return {"bitWidth": type_.bit_width, "is_signed": type_.signed}


_INTERVALS: Final = (t.IntervalYearMonth, t.IntervalDayTime, t.IntervalMonthDayNano)


def _decode_interval(view: reader.TableView, _: Children) -> t.DataType:
    unit = int(view.scalar("unit"))
    if unit >= len(_INTERVALS) or unit < 0:
        raise ValueError(f"expected an interval unit of 0 to 2, found {unit}")
    return _INTERVALS[unit]()


_UNIONS: Final = (t.SparseUnion, t.DenseUnion)


def _decode_union(view: reader.TableView, children: Children) -> t.DataType:
    mode = int(view.scalar("mode"))
    if mode not in {0, 1}:
        raise ValueError(f"expected a union mode of 0 (sparse) or 1 (dense), found {mode}")
    # The default of the format
    ids = tuple(view.scalars("typeIds").tolist()) if view.has("typeIds") else tuple(range(len(children)))
    return _UNIONS[mode](children, ids)


TYPES: Final[Mapping[int, TypeRow]] = {
    Type.Null: _plain(tables.NULL, t.null),
    Type.Int: TypeRow(tables.INT, _decode_int, _encode_int),
    Type.FloatingPoint: TypeRow(
        tables.FLOATING_POINT,
        lambda view, _: t.FloatingPoint(t.Precision(int(view.scalar("precision")))),
        lambda type_: {"precision": int(type_.precision)},
    ),
    Type.Binary: _plain(tables.BINARY, t.binary),
    Type.Utf8: _plain(tables.UTF8, t.utf8),
    Type.Bool: _plain(tables.BOOL, t.bool_),
    Type.Decimal: TypeRow(
        tables.DECIMAL,
        lambda view, _: t.Decimal(*(int(view.scalar(name)) for name in ("precision", "scale", "bitWidth"))),
        lambda type_: {"precision": type_.precision, "scale": type_.scale, "bitWidth": type_.bit_width},
    ),
    Type.Date: TypeRow(
        tables.DATE,
        lambda view, _: t.Date(t.DateUnit(int(view.scalar("unit")))),
        lambda type_: {"unit": int(type_.unit)},
    ),
    Type.Time: TypeRow(
        tables.TIME,
        lambda view, _: t.Time(_time_unit(view), int(view.scalar("bitWidth"))),
        lambda type_: {"unit": int(type_.unit), "bitWidth": type_.bit_width},
    ),
    Type.Timestamp: TypeRow(
        tables.TIMESTAMP,
        lambda view, _: t.Timestamp(_time_unit(view), view.string("timezone") or None),
        lambda type_: {"unit": int(type_.unit), "timezone": type_.timezone},
    ),
    Type.Interval: TypeRow(tables.INTERVAL, _decode_interval, lambda type_: {"unit": _INTERVALS.index(type(type_))}),
    Type.List: _of_child(tables.LIST, t.List),
    Type.Struct_: TypeRow(tables.STRUCT_, lambda _, children: t.Struct(children), lambda _: {}),
    Type.Union: TypeRow(
        tables.UNION,
        _decode_union,
        lambda type_: {"mode": _UNIONS.index(type(type_)), "typeIds": list(type_.type_ids)},
    ),
    Type.FixedSizeBinary: TypeRow(
        tables.FIXED_SIZE_BINARY,
        lambda view, _: t.FixedSizeBinary(int(view.scalar("byteWidth"))),
        lambda type_: {"byteWidth": type_.byte_width},
    ),
    Type.FixedSizeList: TypeRow(
        tables.FIXED_SIZE_LIST,
        lambda view, children: t.FixedSizeList(_only(children), int(view.scalar("listSize"))),
        lambda type_: {"listSize": type_.list_size},
    ),
    Type.Map: TypeRow(
        tables.MAP,
        lambda view, children: t.Map(_only(children), bool(view.scalar("keysSorted"))),
        lambda type_: {"keysSorted": type_.keys_sorted},
    ),
    Type.Duration: TypeRow(
        tables.DURATION, lambda view, _: t.Duration(_time_unit(view)), lambda type_: {"unit": int(type_.unit)}
    ),
    Type.LargeBinary: _plain(tables.LARGE_BINARY, t.large_binary),
    Type.LargeUtf8: _plain(tables.LARGE_UTF8, t.large_utf8),
    Type.LargeList: _of_child(tables.LARGE_LIST, t.LargeList),
    Type.RunEndEncoded: TypeRow(
        tables.RUN_END_ENCODED, lambda _, children: t.RunEndEncoded(*_pair(children)), lambda _: {}
    ),
    Type.BinaryView: _plain(tables.BINARY_VIEW, t.binary_view),
    Type.Utf8View: _plain(tables.UTF8_VIEW, t.utf8_view),
    Type.ListView: _of_child(tables.LIST_VIEW, t.ListView),
    Type.LargeListView: _of_child(tables.LARGE_LIST_VIEW, t.LargeListView),
}
"""By discriminant of the union ``Type``."""

DISCRIMINANTS: Final[Mapping[type[t.DataType], int]] = {
    t.Null: Type.Null,
    t.Int: Type.Int,
    t.FloatingPoint: Type.FloatingPoint,
    t.Binary: Type.Binary,
    t.Utf8: Type.Utf8,
    t.Bool: Type.Bool,
    t.Decimal: Type.Decimal,
    t.Date: Type.Date,
    t.Time: Type.Time,
    t.Timestamp: Type.Timestamp,
    t.IntervalYearMonth: Type.Interval,
    t.IntervalDayTime: Type.Interval,
    t.IntervalMonthDayNano: Type.Interval,
    t.List: Type.List,
    t.Struct: Type.Struct_,
    t.SparseUnion: Type.Union,
    t.DenseUnion: Type.Union,
    t.FixedSizeBinary: Type.FixedSizeBinary,
    t.FixedSizeList: Type.FixedSizeList,
    t.Map: Type.Map,
    t.Duration: Type.Duration,
    t.LargeBinary: Type.LargeBinary,
    t.LargeUtf8: Type.LargeUtf8,
    t.LargeList: Type.LargeList,
    t.RunEndEncoded: Type.RunEndEncoded,
    t.BinaryView: Type.BinaryView,
    t.Utf8View: Type.Utf8View,
    t.ListView: Type.ListView,
    t.LargeListView: Type.LargeListView,
}
"""The discriminant by type class; a `Dictionary` is written as its value type."""

# Discriminants of the types that have a validity bitmap and data, for any values in their tables
_FIXED_WIDTH: Final = frozenset(
    discriminant for type_, discriminant in DISCRIMINANTS.items() if LAYOUTS[type_].family is Family.FIXED_WIDTH
)


@dataclass(frozen=True, slots=True, eq=False)
class SchemaHeader:
    """``Schema`` of Schema.fbs, not yet decoded by `decode_schema`."""

    view: reader.TableView


@dataclass(frozen=True, slots=True)
class SchemaMessage:
    """A schema and the dictionary ids of its dictionary-encoded fields, in the order of `walk_fields`."""

    schema: Schema
    dictionary_ids: tuple[int, ...]
    has_unknown: bool = False
    """True if any field, at any depth, may have an `UnknownType`."""
    # The plans of `columns.projection` for all columns, which the readers of files of one schema share.
    plans: dict[MetadataVersion, Any] = field(default_factory=dict, compare=False, repr=False)
    # The same for some columns, by their selection.
    projected_plans: dict[Any, dict[MetadataVersion, Any]] = field(default_factory=dict, compare=False, repr=False)


class _Decoding:
    """The counts and dictionary ids of one `decode_schema`."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.fields = 0
        self.dictionary_ids: list[int] = []
        self.has_unknown = False

    def field(self, view: reader.TableView, parent_path: str, depth: int) -> t.Field:
        self.fields += 1
        limits = self.limits
        if self.fields > limits.max_columns:  # compared here, because a call for each field would take time
            limits.check("max_columns", self.fields, "the schema")
        if depth > limits.max_depth:
            limits.check("max_depth", depth, "the nesting of a field")
        name = view.string("name") or ""
        path = shorten(f"{parent_path}.{name}") if parent_path else name
        encoding = view.table("dictionary")
        if encoding is not None:
            self.dictionary_ids.append(int(encoding.scalar("id")))
        children = tuple(self.field(child, path, depth + 1) for child in view.tables("children"))
        try:
            type_ = self._type(view, children)
            if len(type_.children) != len(children):
                raise ValueError(f"expected no child fields of {type_}, found {len(children)}")
            if encoding is not None:
                type_ = _decode_encoding(encoding, type_)
        except LimitError:
            raise
        except InvalidMetadataError as error:
            error.field_path = error.field_path or path
            raise
        except ValueError as error:
            raise InvalidMetadataError(str(error), field_path=path, spec="Schema.fbs") from error
        return t.Field(name, type_, bool(view.scalar("nullable")), decode_custom_metadata(view))

    def _type(self, view: reader.TableView, children: Children) -> t.DataType:
        try:
            discriminant, type_view = view.union("type")
        except InvalidMetadataError as error:
            if (number := view.discriminant("type")) in TYPES:
                raise
            raise InvalidMetadataError(
                f"this release does not know type {number}, nor how many buffers it has, so none of the columns can be "
                "found: write the file without this one",
                byte_offset=error.byte_offset,
                spec="Schema.fbs, Field.type",
            ) from error
        if type_view is None:
            raise InvalidMetadataError(expected="a type", found="none", spec="Schema.fbs, Field.type")
        try:
            return TYPES[discriminant].decode(type_view, children)
        except InvalidMetadataError:  # the table itself is broken
            raise
        except ValueError as error:
            # A type with children has more than the two buffers of an unknown one.
            if children or discriminant not in _FIXED_WIDTH:
                raise
            self.has_unknown = True
            return _unknown(discriminant, type_view, error)


def _decode_encoding(encoding: reader.TableView, value: t.DataType) -> t.Dictionary:
    kind = int(encoding.scalar("dictionaryKind"))
    if kind != 0:
        raise UnsupportedError(f"dictionary kind {kind}: this release reads kind 0 (DenseArray)")
    index_view = encoding.table("indexType")
    index = t.int32 if index_view is None else _decode_int(index_view, ())  # the default of the format
    return t.Dictionary(index, value, bool(encoding.scalar("isOrdered")))


def decode_schema(view: reader.TableView, limits: Limits) -> SchemaMessage:
    """Return the schema in a ``Schema`` table. O(fields)."""
    endianness = int(view.scalar("endianness"))
    if endianness not in tuple(Endianness):
        raise InvalidMetadataError(expected="an endianness of 0 or 1", found=str(endianness), spec="Schema.fbs")
    for feature in view.scalars("features").tolist() if view.has("features") else ():
        if feature & ~sum(KNOWN_FEATURES):
            readable = ", ".join(f"{name} ({bit})" for bit, name in KNOWN_FEATURES.items())
            raise UnsupportedError(f"the schema asks for feature {feature}; this release knows {readable}")
    decoding = _Decoding(limits)
    fields = tuple(decoding.field(field, "", 1) for field in view.tables("fields"))
    schema = Schema(fields, decode_custom_metadata(view), Endianness(endianness))
    return SchemaMessage(schema, tuple(decoding.dictionary_ids), has_unknown=decoding.has_unknown)


def encode_schema(message: SchemaMessage, features: tuple[int, ...] = ()) -> Values:
    """Return the values of a ``Schema`` table for `builder.build`."""
    ids = iter(message.dictionary_ids)
    schema = message.schema
    return {
        "endianness": int(schema.endianness),
        "fields": [_encode_field(field, ids) for field in schema.fields],
        "custom_metadata": encode_custom_metadata(schema.custom_metadata),
        "features": list(features) or None,
    }


def _encode_field(field: t.Field, ids: Iterator[int]) -> Values:
    encoding = None
    value = field.type
    if isinstance(field.type, t.Dictionary):
        value = field.type.value
        index = field.type.index
        encoding = {"id": next(ids), "indexType": _encode_int(index), "isOrdered": field.type.ordered}
    discriminant = DISCRIMINANTS[type(value)]
    row = TYPES[discriminant]
    return {
        "name": field.name,
        "nullable": field.nullable,
        "type": (row.table, row.encode(value)),
        "dictionary": encoding,
        "children": [_encode_field(child, ids) for child in value.children],
        "custom_metadata": encode_custom_metadata(field.custom_metadata),
    }


def number_dictionaries(schema: Schema) -> SchemaMessage:
    """Give a schema the dictionary ids 0, 1, ... in the order of `walk_fields`."""
    encoded = sum(isinstance(field.type, t.Dictionary) for _, field in walk_fields(schema.fields))
    return SchemaMessage(schema, tuple(range(encoded)))
