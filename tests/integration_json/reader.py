"""Read Arrow's integration JSON into arrays (Integration.rst).

Strategy
--------
The schema becomes a tree of `EncodedField`: a field with its dictionary id in the document, because ids are not part
of our types. A column is decoded buffer by buffer in the order of `LAYOUTS`, with one function for each role
(`_BUFFERS`); values go through the tables of `scalars`. A dictionary is decoded together with the first column that
refers to it, with the value type of that field, so dictionaries may contain dictionaries and be shared. Null slots
become zero bytes, whatever the document has there. All arrays are validated in full before they are returned.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

from integration_json.values import SCALARS, TEXTS, WRONG_VALUE, bytes_from_hex, int_to_bytes
from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.layout import LAYOUTS, BufferLayout, Role, bit_width_of
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow_json import document
from spark_arrow_ipc.arrow_json.document import Node, integer
from spark_arrow_ipc.arrow_json.types import custom_metadata_from_json, field_from_json
from spark_arrow_ipc.errors import (
    InvalidBodyError,
    InvalidDictionaryError,
    InvalidFramingError,
    LimitError,
    cut_repr,
    error_context,
)

Source: TypeAlias = str | Path | bytes | bytearray | memoryview | Mapping[str, Any]
"""A path, the document's bytes (plain or gzip), or the parsed document."""

_GZIP_MAGIC = b"\x1f\x8b"

INLINE_NBYTES = 12
"""Longest value, in bytes, in the view itself (Columnar.rst, "Variable-size Binary View Layout")."""

_PREFIX_NBYTES = 4


@dataclass(frozen=True, slots=True)
class ArrowJson:
    """The contents of an integration JSON document."""

    schema: Schema
    batches: tuple[RecordBatch, ...]


@dataclass(frozen=True, slots=True)
class EncodedField:
    """A field with its dictionary id in the document; `children` are those of the values."""

    field: t.Field
    dictionary_id: int | None
    children: tuple[EncodedField, ...]


def read(source: Source) -> ArrowJson:
    """Return the schema and the record batches of an integration JSON document.

    The source is a path to JSON or gzipped JSON, whatever its suffix; the bytes; or the parsed document.
    InvalidMetadataError if it is not JSON, or the schema is wrong; InvalidBodyError if a batch does not fit the schema,
    or a value its type; InvalidDictionaryError if a dictionary id is unknown or contradictory; LimitError if it is too
    large or too deep.
    """
    with error_context(path=str(source) if isinstance(source, str | Path) else None):
        root = load(source)
        schema_node = root.member("schema")
        fields = tuple(_encoded(node, field_from_json(node)) for node in schema_node.member("fields").elements())
        schema = Schema(tuple(encoded.field for encoded in fields), custom_metadata_from_json(schema_node))
        dictionaries = _Dictionaries(_dictionary_nodes(root))
        nodes = list(root.member("batches", InvalidBodyError).elements())
        batches = []
        for number, node in enumerate(nodes):
            with error_context(block_number=number):
                batches.append(_batch(node, schema, fields, dictionaries))
        return ArrowJson(schema, tuple(batches))


def load(source: Source) -> Node:
    """Return the document's root. InvalidFramingError if the gzip stream is broken or truncated, else as `document.load`."""
    if isinstance(source, Mapping):
        return Node(source, "$")
    content = Path(source).read_bytes() if isinstance(source, str | Path) else bytes(source)
    if not content.startswith(_GZIP_MAGIC):
        return document.load(content)
    try:
        with gzip.open(io.BytesIO(content)) as stream:
            return document.load(stream.read(document.MAX_NBYTES + 1))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InvalidFramingError(expected="a complete gzip stream", found=str(error)) from error


def _encoded(node: Node, field_: t.Field) -> EncodedField:
    """Add to a field, which is already read, the dictionary ids of its JSON."""
    encoding = node.optional("dictionary")
    values, dictionary_id = field_.type, None
    if encoding is not None:
        assert isinstance(values, t.Dictionary)
        values, dictionary_id = values.value, encoding.member("id").integer()
    nodes = list(node.member("children").elements())
    children = tuple(_encoded(child, own) for child, own in zip(nodes, values.children, strict=True))
    return EncodedField(field_, dictionary_id, children)


def _dictionary_nodes(root: Node) -> dict[int, Node]:
    nodes = root.optional("dictionaries", InvalidBodyError)
    by_id: dict[int, Node] = {}
    for node in nodes.elements() if nodes else []:
        id_ = node.member("id").integer()
        if id_ in by_id:
            raise InvalidDictionaryError(expected=f"one dictionary of id {id_}", found=f"another at {node.path}")
        by_id[id_] = node
    return by_id


@dataclass(frozen=True, slots=True)
class _Dictionaries:
    """The dictionaries of a document, each decoded when it is first needed."""

    nodes: Mapping[int, Node]
    decoded: dict[int, Array] = field(default_factory=dict)
    under_way: set[int] = field(default_factory=set)

    def values(self, encoded: EncodedField) -> Array:
        """Return the dictionary of a dictionary-encoded field, decoded once."""
        type_, id_ = encoded.field.type, encoded.dictionary_id
        assert isinstance(type_, t.Dictionary)
        assert id_ is not None
        if id_ not in self.decoded:
            if id_ not in self.nodes or id_ in self.under_way:
                found = "one that needs itself" if id_ in self.under_way else "none"
                raise InvalidDictionaryError(expected=f"a dictionary of id {id_}", found=found)
            self.under_way.add(id_)
            self.decoded[id_] = self._decode(self.nodes[id_], t.Field("", type_.value), encoded)
        if self.decoded[id_].type != type_.value:
            raise InvalidDictionaryError(
                expected=f"dictionary {id_} of {type_.value}", found=str(self.decoded[id_].type)
            )
        return self.decoded[id_]

    def _decode(self, node: Node, values: t.Field, encoded: EncodedField) -> Array:
        data = node.member("data")
        columns = list(data.member("columns").elements())
        if len(columns) != 1:
            data.fail("exactly one column")
        array = _column(columns[0], EncodedField(values, None, encoded.children), self)
        if array.length != data.member("count").count():
            data.fail(f"a count of {array.length}")
        return array


def _batch(node: Node, schema: Schema, fields: tuple[EncodedField, ...], dictionaries: _Dictionaries) -> RecordBatch:
    count = node.member("count").count()
    nodes = list(node.member("columns").elements())
    if len(nodes) != len(fields):
        raise node.error(expected=f"{len(fields)} columns at {node.path}", found=str(len(nodes)))
    columns = []
    for column, encoded in zip(nodes, fields, strict=True):
        array = _column(column, encoded, dictionaries)
        if array.length != count:
            column.fail(f"a column of {count} slots")
        columns.append(array)
    batch = RecordBatch(schema, tuple(columns), count)
    batch.validate(full=True)
    return batch


def _column(node: Node, encoded: EncodedField, dictionaries: _Dictionaries) -> Array:
    type_ = encoded.field.type
    length = node.member("count").count()
    layout = LAYOUTS[type(type_)]
    valid = _valid(node, length) if layout.has_validity else None
    slots = _Slots(node, type_, length, valid)
    buffers = tuple(b for wanted in layout.buffers for b in _BUFFERS[wanted.role](slots, wanted))
    if isinstance(type_, t.Dictionary):
        return Array(type_, length, slots.null_count, buffers, (), dictionaries.values(encoded))
    given = node.optional("children")
    nodes = list(given.elements()) if given else []
    if len(nodes) != len(encoded.children):
        raise node.error(expected=f"{len(encoded.children)} children at {node.path}", found=str(len(nodes)))
    children = tuple(_column(n, child, dictionaries) for n, child in zip(nodes, encoded.children, strict=True))
    return Array(type_, length, slots.null_count, buffers, children)


def _valid(node: Node, length: int) -> list[bool]:
    bits = node.member("VALIDITY")
    values = bits.array_of(length)
    if not all(isinstance(bit, int) and 0 <= bit <= 1 for bit in values):
        bits.fail("zeros and ones")
    return [bool(bit) for bit in values]


@dataclass(frozen=True, slots=True)
class _Slots:
    """A column and its node, for decoding the buffers; `valid` is None for types without validity."""

    node: Node
    type: t.DataType
    length: int
    valid: list[bool] | None

    @property
    def null_count(self) -> int:
        if self.valid is None:
            return self.length if isinstance(self.type, t.Null) else 0
        return self.length - sum(self.valid)

    def decode(self, key: str, decode: Callable[[Any], bytes], null: bytes) -> list[bytes]:
        """Decode the value of each slot; null slots become `null`."""
        node = self.node.member(key)
        made = []
        for i, value in enumerate(node.array_of(self.length)):
            if self.valid is not None and not self.valid[i]:
                made.append(null)
                continue
            try:
                made.append(decode(value))
            except WRONG_VALUE as error:
                raise node.error(
                    expected=f"a value of {self.type} at {node.path}[{i}]", found=cut_repr(value)
                ) from error
        return made

    def integers(self, key: str, bit_width: int, count: int) -> list[memoryview | None]:
        """Return a buffer of `count` integers, those of null slots included."""
        node = self.node.member(key)
        values = node.array_of(count)
        try:
            return [memoryview(b"".join(int_to_bytes(value, bit_width) for value in values))]
        except WRONG_VALUE as error:
            raise node.error(expected=f"integers of {bit_width} bits at {node.path}", found=str(error)) from error


_Buffers: TypeAlias = list[memoryview | None]


def _validity(slots: _Slots, _: BufferLayout) -> _Buffers:
    assert slots.valid is not None
    return [array_data.pack_bits(slots.valid) if slots.null_count else None]


def _data(slots: _Slots, wanted: BufferLayout) -> _Buffers:
    if isinstance(slots.type, t.Bool):
        bits = slots.decode("DATA", _bit, b"\x00")
        return [array_data.pack_bits([bit != b"\x00" for bit in bits])]
    scalar = SCALARS[type(slots.type)]
    nbytes = bit_width_of(slots.type, wanted) // 8
    if nbytes * slots.length > document.MAX_NBYTES:
        raise LimitError(expected=f"at most {document.MAX_NBYTES:,} bytes", found=f"more at {slots.node.path}")
    null = bytes(nbytes) if slots.null_count else b""
    return [memoryview(b"".join(slots.decode("DATA", lambda value: scalar.decode(value, slots.type), null)))]


def _bit(value: object) -> bytes:
    # The specification has 0 and 1, all goldens have false and true; in Python they are equal.
    if value not in (0, 1) or isinstance(value, float):
        raise ValueError("expected true or false")
    return b"\x01" if value else b"\x00"


def _texts(slots: _Slots) -> list[bytes]:
    return slots.decode("DATA", TEXTS[type(slots.type)].decode, b"")


def _offsets(slots: _Slots, wanted: BufferLayout) -> _Buffers:
    if slots.length == 0:
        return [memoryview(b"")]
    if type(slots.type) not in TEXTS:
        return slots.integers("OFFSET", wanted.bit_width, slots.length + 1)
    # DATA has a value for each slot, so OFFSET is redundant; it must agree.
    offsets, texts = [0], _texts(slots)
    for text in texts:
        offsets.append(offsets[-1] + len(text))
    node = slots.node.member("OFFSET")
    written = [offset.integer() for offset in node.elements()]
    lengths = [end - start for start, end in pairwise(written)]
    agree = len(written) == len(offsets) and all(
        length == len(text) for length, text, valid in zip(lengths, texts, slots.valid or (), strict=True) if valid
    )
    if not agree:
        node.fail("offsets that fit DATA")
    return [memoryview(b"".join(int_to_bytes(offset, wanted.bit_width) for offset in offsets))]


def _bytes(slots: _Slots, _: BufferLayout) -> _Buffers:
    return [memoryview(b"".join(_texts(slots)))]


def _views(slots: _Slots, wanted: BufferLayout) -> _Buffers:
    decode_text = TEXTS[type(slots.type)].decode
    null = bytes(wanted.bit_width // 8)
    return [memoryview(b"".join(slots.decode("VIEWS", lambda value: _view(value, decode_text), null)))]


def _view(value: Mapping[str, Any], decode_text: Callable[[Any], bytes]) -> bytes:
    size = integer(value["SIZE"])
    head = int_to_bytes(size, 32)
    if size <= INLINE_NBYTES:
        text = decode_text(value["INLINED"])
        if len(text) != size:
            raise ValueError("expected SIZE bytes")
        return head + text.ljust(INLINE_NBYTES, b"\x00")
    prefix = bytes_from_hex(value["PREFIX_HEX"])
    if len(prefix) != _PREFIX_NBYTES:
        raise ValueError("expected a prefix of 4 bytes")
    return head + prefix + int_to_bytes(value["BUFFER_INDEX"], 32) + int_to_bytes(value["OFFSET"], 32)


def _variadic(slots: _Slots, _: BufferLayout) -> _Buffers:
    node = slots.node.member("VARIADIC_DATA_BUFFERS")
    try:
        return [memoryview(bytes_from_hex(value)) for value in node.array()]
    except WRONG_VALUE as error:
        node.fail("buffers in hexadecimal", error)


_BUFFERS: Mapping[Role, Callable[[_Slots, BufferLayout], _Buffers]] = {
    Role.VALIDITY: _validity,
    Role.DATA: _data,
    Role.OFFSETS: _offsets,
    Role.POSITIONS: lambda slots, wanted: slots.integers("OFFSET", wanted.bit_width, slots.length),
    Role.SIZES: lambda slots, wanted: slots.integers("SIZE", wanted.bit_width, slots.length),
    Role.TYPE_IDS: lambda slots, wanted: slots.integers("TYPE_ID", wanted.bit_width, slots.length),
    Role.VIEWS: _views,
    Role.BYTES: _bytes,
    Role.VARIADIC: _variadic,
}
"""From the node of a column to the buffers of each role."""
