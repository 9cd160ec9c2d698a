"""Write arrays as Arrow's integration JSON (Integration.rst).

Strategy
--------
The inverse of `reader`: buffer by buffer in the order of `LAYOUTS`, with one function for each role (`_MEMBERS`).
Columns are compacted first, so that offsets start at 0 and children hold only slots in use. Null slots are written
as in the goldens: a value of the right shape, here always that of zero bytes.

Each dictionary-encoded field gets its own id, in the pre-order of the fields. A document has one dictionary for each
id, while those of a stream may grow from batch to batch: the longest is written, if it begins with all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from integration_json.reader import INLINE_NBYTES
from integration_json.values import SCALARS, TEXTS, bytes_to_hex, int_from_bytes, int_to_json
from spark_arrow_ipc.arrow import array_data, equality
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.column_path import child_path
from spark_arrow_ipc.arrow.kernels.compact import compact
from spark_arrow_ipc.arrow.layout import LAYOUTS, BufferLayout, Role, bit_width_of
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow_json.types import custom_metadata_to_json, field_to_json
from spark_arrow_ipc.errors import UnsupportedError

Members: TypeAlias = dict[str, Any]
"""Members of a JSON object."""


def to_json(schema: Schema, batches: Sequence[RecordBatch]) -> Members:
    """Return the document of a schema and its record batches, for ``json.dumps``.

    Numbers that are not finite become Python's ``NaN`` and ``Infinity``, which `read` understands. UnsupportedError if
    a dictionary is replaced between batches by one that does not continue it. Costs Python time a value.
    """
    columns = [[compact(batch.columns[i]) for batch in batches] for i in range(len(schema))]
    dictionaries: list[Members] = []
    fields = [field_to_json(field) for field in schema.fields]
    for made, field, arrays in zip(fields, schema.fields, columns, strict=True):
        _number_dictionaries(made, field.type, field.name, arrays, dictionaries)
    document: Members = {
        "schema": {"fields": fields, **custom_metadata_to_json(schema.custom_metadata)},
        "batches": [
            {
                "count": batch.num_rows,
                "columns": [
                    _column(field.name, arrays[i]) for field, arrays in zip(schema.fields, columns, strict=True)
                ],
            }
            for i, batch in enumerate(batches)
        ],
    }
    if dictionaries:
        document["dictionaries"] = dictionaries
    return document


def _number_dictionaries(
    made: Members, type_: t.DataType, path: str, arrays: Sequence[Array], dictionaries: list[Members]
) -> None:
    """Add dictionary ids to the JSON of a field and of those below it, and append their values."""
    if isinstance(type_, t.Dictionary):
        id_ = len(dictionaries)
        dictionary = _longest(type_, path, arrays)
        made["dictionary"]["id"] = id_
        column = _column(f"DICT{id_}", dictionary)
        dictionaries.append({"id": id_, "data": {"count": dictionary.length, "columns": [column]}})
        arrays, type_ = [dictionary], type_.value
    for i, (child_json, child) in enumerate(zip(made["children"], type_.children, strict=True)):
        below = [array.children[i] for array in arrays]
        _number_dictionaries(child_json, child.type, child_path(type_, path, child), below, dictionaries)


def _longest(type_: t.Dictionary, path: str, arrays: Sequence[Array]) -> Array:
    """Return the longest dictionary, which must begin with those of all batches."""
    dictionaries = [array.dictionary for array in arrays if array.dictionary is not None]
    if not dictionaries:
        return from_pylist.array((), type_.value)
    longest = max(dictionaries, key=len)
    distinct = {id(array): array for array in dictionaries if array is not longest}
    for array in distinct.values():
        if equality.difference(longest.slice(0, array.length), array) is not None:
            raise UnsupportedError(
                "a dictionary that is replaced between batches cannot be written: the integration JSON has one "
                "dictionary for each id",
                field_path=path,
            )
    return compact(longest)


def _column(name: str, array: Array) -> Members:
    made: Members = {"name": name, "count": array.length}
    slots = _Slots(array, tuple(_valid(array)))
    # The last row of a variadic layout writes all buffers from its own on.
    layout = LAYOUTS[type(array.type)]
    for i, wanted in enumerate(layout.buffers):
        made |= _MEMBERS[wanted.role](slots, wanted, i)
    if array.type.children:
        made["children"] = [
            _column(field.name, child) for field, child in zip(array.type.children, array.children, strict=True)
        ]
    return made


def _valid(array: Array) -> Iterator[bool]:
    if not LAYOUTS[type(array.type)].has_validity:
        return iter(())
    mask = array_data.validity_mask(array)
    return iter([True] * array.length if mask is None else mask.tolist())


@dataclass(frozen=True, slots=True)
class _Slots:
    """A compact array and the validity of its slots; `valid` is empty for types without validity."""

    array: Array
    valid: tuple[bool, ...]

    def bytes_of(self, i: int) -> bytes:
        """Return the bytes of buffer `i`."""
        return bytes(self.array.buffers[i] or b"")

    def cut(self, i: int, nbytes: int) -> list[bytes]:
        """Return the slots of buffer `i`, each of `nbytes`; null ones are zeros."""
        content = self.bytes_of(i)
        valid = self.valid or (True,) * self.array.length
        return [content[n * nbytes : (n + 1) * nbytes] if ok else bytes(nbytes) for n, ok in enumerate(valid)]

    def integers(self, i: int, bit_width: int, count: int) -> list[int]:
        """Return the first `count` integers of buffer `i`."""
        content, nbytes = self.bytes_of(i), bit_width // 8
        return [int_from_bytes(content[n * nbytes : (n + 1) * nbytes]) for n in range(count)]


def _validity(slots: _Slots, _: BufferLayout, __: int) -> Members:
    return {"VALIDITY": [int(bit) for bit in slots.valid]}


def _data(slots: _Slots, wanted: BufferLayout, i: int) -> Members:
    array = slots.array
    if isinstance(array.type, t.Bool):
        bits = array_data.data_values(array).tolist()
        return {"DATA": [bit and ok for bit, ok in zip(bits, slots.valid, strict=True)]}
    encode = SCALARS[type(array.type)].encode
    return {"DATA": [encode(slot, array.type) for slot in slots.cut(i, bit_width_of(array.type, wanted) // 8)]}


def _offsets(slots: _Slots, wanted: BufferLayout, i: int) -> Members:
    length = slots.array.length
    offsets = slots.integers(i, wanted.bit_width, length + 1) if length else [0]
    return {"OFFSET": [int_to_json(offset, wanted.bit_width) for offset in offsets]}


def _numbers(key: str) -> Callable[[_Slots, BufferLayout, int], Members]:
    def numbers(slots: _Slots, wanted: BufferLayout, i: int) -> Members:
        values = slots.integers(i, wanted.bit_width, slots.array.length)
        return {key: [int_to_json(value, wanted.bit_width) for value in values]}

    return numbers


def _bytes(slots: _Slots, _: BufferLayout, i: int) -> Members:
    array = slots.array
    offset_width = LAYOUTS[type(array.type)].buffers[i - 1].bit_width
    offsets = slots.integers(i - 1, offset_width, array.length + 1) if array.length else [0]
    content, encode = slots.bytes_of(i), TEXTS[type(array.type)].encode
    spans = zip(offsets, offsets[1:], slots.valid, strict=False)
    return {"DATA": [encode(content[start:end]) if ok else "" for start, end, ok in spans]}


def _views(slots: _Slots, wanted: BufferLayout, i: int) -> Members:
    encode = TEXTS[type(slots.array.type)].encode
    return {"VIEWS": [_view(view, encode) for view in slots.cut(i, wanted.bit_width // 8)]}


def _view(view: bytes, encode: Callable[[bytes], str]) -> Members:
    size = int_from_bytes(view[:4])
    if size <= INLINE_NBYTES:
        return {"SIZE": size, "INLINED": encode(view[4 : 4 + size])}
    return {
        "SIZE": size,
        "PREFIX_HEX": bytes_to_hex(view[4:8]),
        "BUFFER_INDEX": int_from_bytes(view[8:12]),
        "OFFSET": int_from_bytes(view[12:]),
    }


def _variadic(slots: _Slots, _: BufferLayout, i: int) -> Members:
    return {"VARIADIC_DATA_BUFFERS": [bytes_to_hex(bytes(b or b"")) for b in slots.array.buffers[i:]]}


_MEMBERS: Mapping[Role, Callable[[_Slots, BufferLayout, int], Members]] = {
    Role.VALIDITY: _validity,
    Role.DATA: _data,
    Role.OFFSETS: _offsets,
    Role.POSITIONS: _numbers("OFFSET"),
    Role.SIZES: _numbers("SIZE"),
    Role.TYPE_IDS: _numbers("TYPE_ID"),
    Role.VIEWS: _views,
    Role.BYTES: _bytes,
    Role.VARIADIC: _variadic,
}
"""From slots, the layout of a buffer and its number to the JSON members of each role."""
