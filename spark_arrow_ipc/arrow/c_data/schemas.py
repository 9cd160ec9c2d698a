"""Fields as ``struct ArrowSchema``, and back. A schema is a field of a struct type without a name.

Strategy
--------
The batches of a reader have one schema, which is lent with each of them. So its structures are laid out once, as if
their memory began at address 0; lending them is a copy, to whose addresses its own is added.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.c_data.exports import Block, Exporter
from spark_arrow_ipc.arrow.c_data.formats import KEYS_SORTED, NULLABLE, ORDERED, format_of, type_of
from spark_arrow_ipc.arrow.c_data.structs import SCHEMA, Moved, c_string, capsule_address, pointers, read_schema
from spark_arrow_ipc.errors import (
    InvalidMetadataError,
    SchemaMismatchError,
    UnsupportedError,
    cut_repr,
    error_context,
    listed,
)

_MOST_DEPTH: Final = 64
_MOST_FIELDS: Final = 1_000_000
_MOST_METADATA_NBYTES: Final = 256 << 20
"""Bounds for what others say, those of `ipc.Limits`: a schema that breaks them is refused before memory is taken."""

_POINTER: Final = struct.Struct("P")
_INT32: Final = struct.Struct("@i")

_WORDS: Final = SCHEMA.nbytes // _POINTER.size
_ALWAYS: Final = (0, 1, struct.calcsize("@3P2q3P") // _POINTER.size)
_IF_ANY: Final = (2, struct.calcsize("@3P2q") // _POINTER.size, struct.calcsize("@3P2qP") // _POINTER.size)
"""The words of a structure that are addresses in its block: format, name, private data; metadata, children, dictionary."""


class _Node(NamedTuple):
    """One structure, before it has an address; children are numbers of nodes."""

    format: bytes
    name: bytes
    metadata: bytes | None
    flags: int
    children: list[int]
    dictionary: int | None


class _Template(NamedTuple):
    """The structures of a field, as if their memory began at address 0."""

    memory: bytearray
    addresses: npt.NDArray[np.intp]
    """Which words of the memory are addresses in it."""

    stops: list[int]


_recent: dict[str, tuple[Any, ...]] = {}
"""What was laid out last, and of what: one schema and one template, compared by identity."""

_MOST_KEPT_NBYTES: Final = 16 << 20
"""Bytes of the structures that are kept for the next batch: those of about 170,000 columns."""


def struct_field(fields: tuple[t.Field, ...], custom_metadata: t.CustomMetadata) -> t.Field:
    """Return the field that stands for a schema."""
    last = _recent.get("schema")
    if last is not None and last[0] is fields and last[1] is custom_metadata:
        same: t.Field = last[2]
        return same
    field = t.Field("", t.Struct(fields), nullable=False, custom_metadata=custom_metadata)
    _recent["schema"] = fields, custom_metadata, field
    return field


def field_capsule(field: t.Field) -> object:
    """Return a capsule named ``arrow_schema``. O(fields).

    Raises
    ------
    UnsupportedError
        A name, format or time zone has a zero byte, which ends a string of C.
    """
    block = _lay_out(field)
    return _EXPORTER.capsule(block.base, block)


def export_field(field: t.Field, target: int) -> None:
    """Write a field as the structure at an address, whose owner releases it. As `field_capsule`."""
    _EXPORTER.move(_lay_out(field).base, target)


def _lay_out(field: t.Field) -> Block:
    """Return a new structure, and all below it."""
    last = _recent.get("template")
    template: _Template = last[1] if last is not None and last[0] is field else _template(field)
    if len(template.memory) > _MOST_KEPT_NBYTES:
        _recent.clear()  # a process that lent a huge schema once does not hold it for ever
    else:
        _recent["template"] = field, template
    memory = bytearray(template.memory)
    block = Block(memory, template.stops)
    np.frombuffer(memory, np.uintp)[template.addresses] += block.base
    _EXPORTER.keep_block(block)
    return block


def _template(field: t.Field) -> _Template:
    """Return the structures of a field, before they have an address."""
    nodes: list[_Node] = []
    stops: list[int] = []
    _flatten(field, nodes, stops)
    children_at = len(nodes) * SCHEMA.nbytes
    strings_at = children_at + sum(len(node.children) for node in nodes) * _POINTER.size
    # Each string has its zero byte, and those after it begin at a multiple of 8, as pairs of metadata must. Most
    # formats, and names that are empty, are those of many fields.
    places: dict[bytes, int] = {}
    end = strings_at
    for node in nodes:
        for text in node[:3]:
            if text is not None and text not in places:
                places[text] = end
                end += len(text) // 8 * 8 + 8
    memory = bytearray(end)
    structures: list[int] = []
    children: list[int] = []
    for i, (format_, name, metadata, flags, below, dictionary) in enumerate(nodes):
        structures += (
            places[format_], places[name], 0 if metadata is None else places[metadata], flags,
            len(below), children_at + len(children) * _POINTER.size if below else 0,
            0 if dictionary is None else dictionary * SCHEMA.nbytes,
            _EXPORTER.release, i * SCHEMA.nbytes,
        )  # fmt: skip
        children += [child * SCHEMA.nbytes for child in below]
    SCHEMA.pack_many(structures, memory)
    struct.pack_into(f"{len(children)}P", memory, children_at, *children)
    memory[strings_at:] = b"".join(text.ljust(len(text) // 8 * 8 + 8, b"\0") for text in places)
    words = np.frombuffer(memory, np.uintp)[: len(nodes) * _WORDS].reshape(-1, _WORDS)
    inside = np.zeros(words.shape, bool)
    inside[:, _ALWAYS] = True
    inside[:, _IF_ANY] = words[:, _IF_ANY] != 0
    pointers_at = children_at // _POINTER.size
    addresses = np.concatenate((np.flatnonzero(inside), np.arange(pointers_at, pointers_at + len(children))))
    return _Template(memory, addresses, stops)


def _flatten(field: t.Field, nodes: list[_Node], stops: list[int]) -> int:
    """Append the nodes of a field, its own first, and where those below each end; return the number of its own."""
    number = len(nodes)
    stops.append(0)
    type_ = field.type
    metadata = _encode_pairs(field.custom_metadata)
    flags = NULLABLE if field.nullable else 0
    if isinstance(type_, t.Dictionary):
        flags |= ORDERED if type_.ordered else 0
    elif isinstance(type_, t.Map):
        flags |= KEYS_SORTED if type_.keys_sorted else 0
    node = _Node(_text(format_of(type_), field), _text(field.name, field), metadata, flags, [], None)
    nodes.append(node)
    for child in type_.children:
        node.children.append(_flatten(child, nodes, stops))
    if isinstance(type_, t.Dictionary):
        nodes[number] = node._replace(dictionary=_flatten(t.Field("", type_.value), nodes, stops))
    stops[number] = len(nodes)
    return number


def _text(text: str, field: t.Field) -> bytes:
    if "\0" in text:
        raise UnsupportedError(f"the Arrow C data interface has no strings with a zero byte, as {field.name!r} has one")
    return text.encode()


def _encode_pairs(pairs: t.CustomMetadata) -> bytes | None:
    if not pairs:
        return None
    parts = [_INT32.pack(len(pairs))]
    for pair in pairs:
        for text in map(t.value_bytes, pair):
            parts += [_INT32.pack(len(text)), text]
    return b"".join(parts)


_EXPORTER: Final = Exporter(SCHEMA)


# The other way


def field_of_capsule(capsule: object) -> t.Field:
    """Return the field in a capsule of ``__arrow_c_schema__``, and release it.

    Raises
    ------
    TypeError, ValueError
        It is no such capsule, or an empty one.
    ArrowIpcError
        As `import_field`.
    """
    moved = Moved(SCHEMA, capsule_address(capsule, SCHEMA, "__arrow_c_schema__"))
    try:
        return import_field(moved.address)
    finally:
        moved.release()


def field_from(source: Any) -> t.Field:
    """Return the type of an object with ``__arrow_c_schema__``, as a field.

    Raises
    ------
    TypeError
        It has no such method.
    ArrowIpcError
        It is no type of the format.
    """
    return field_of_capsule(method_of(source, "__arrow_c_schema__")())


def method_of(source: Any, name: str) -> Callable[[], Any]:
    """Return a method of another library's object.

    Raises
    ------
    TypeError
        It has none of the name.
    """
    method = getattr(source, name, None)
    if not callable(method):
        raise TypeError(
            f"expected an object with {name} (the Arrow PyCapsule interface), found {type(source).__name__}"
        )
    found: Callable[[], Any] = method
    return found


def import_field(address: int) -> t.Field:
    """Return the structure at an address as a field. It stays as it is.

    Raises
    ------
    InvalidMetadataError
        It says what no type of the format is.
    UnsupportedError
        It has a format that is not known, or more fields or levels than 1,000,000 and 64.
    """
    return _field(address, 0, [_MOST_FIELDS])


def _field(address: int, depth: int, left: list[int]) -> t.Field:
    if not address:
        raise InvalidMetadataError(expected="an ArrowSchema", found="NULL")
    node = read_schema(address)
    left[0] -= 1 + max(node.n_children, 0)
    if depth > _MOST_DEPTH or left[0] < 0:
        most = f"{_MOST_DEPTH} levels and {_MOST_FIELDS:,} fields"
        raise UnsupportedError(f"a schema of the Arrow C data interface has more than {most}")
    if not node.format or not node.release:
        raise InvalidMetadataError(expected="an ArrowSchema with a format", found="one without, or a released one")
    name = _decode(c_string(node.name), "a name") if node.name else ""
    with error_context(field_path=name or None):
        if node.n_children < 0 or (node.n_children and not node.children):
            raise InvalidMetadataError(expected="children of an ArrowSchema", found=f"{node.n_children} at NULL")
        children = tuple(_field(child, depth + 1, left) for child in pointers(node.children, node.n_children))
        type_ = type_of(_decode(c_string(node.format), "a format"), children, node.flags)
        if node.dictionary:
            type_ = _dictionary(type_, _field(node.dictionary, depth + 1, left).type, node.flags)
        return t.Field(name, type_, bool(node.flags & NULLABLE), _decode_pairs(node.metadata))


def _dictionary(index: t.DataType, value: t.DataType, flags: int) -> t.Dictionary:
    if not isinstance(index, t.Int) or isinstance(value, t.Dictionary):
        raise InvalidMetadataError(expected="integers as indices of values", found=f"{index} as indices of {value}")
    return t.Dictionary(index, value, bool(flags & ORDERED))


def _decode(text: bytes, what: str) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise InvalidMetadataError(expected=f"{what} in UTF-8", found=repr(text[:80])) from None


def _decode_pairs(address: int) -> t.CustomMetadata:
    if not address:
        return ()
    at = address
    left = _MOST_METADATA_NBYTES

    def take(expected: str) -> int:
        nonlocal at, left
        number = ctypes.c_int32.from_address(at).value
        at += _INT32.size
        left -= _INT32.size + max(number, 0)
        if number < 0 or left < 0:
            raise InvalidMetadataError(expected=expected, found=str(number))
        return number

    def take_text() -> bytes:
        nonlocal at
        nbytes = take("the bytes of a key or value of metadata")
        at += nbytes
        return ctypes.string_at(at - nbytes, nbytes)

    count = take("a number of pairs of metadata")
    return tuple(
        (_decode(take_text(), "a key of metadata"), take_text().decode(errors="surrogateescape")) for _ in range(count)
    )


def check_requested(fields: Iterable[t.Field], requested: object | None) -> None:
    """Check a consumer's ``requested_schema``, a capsule or None.

    "Conversion to this schema is best-effort" (the Arrow PyCapsule interface): other types are left to the consumer,
    who has to look at the schema in any case. Other columns are an error.

    Raises
    ------
    SchemaMismatchError
        It has other columns.
    """
    if requested is None:
        return
    wanted = field_of_capsule(requested)
    names = [field.name for field in fields]
    found = [field.name for field in wanted.type.children]
    if names != found:
        raise SchemaMismatchError(
            expected=f"a requested schema of the columns {listed([*map(cut_repr, names)])}",
            found=listed([*map(cut_repr, found)]),
        )
