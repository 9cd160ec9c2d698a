"""Encode arrays as the header and body of a record batch, by the plan that decodes them; and schemas and footers.

Flatbuffers that differ only in numbers are built once: headers of record batches with equal numbers of nodes and buffers,
footers with equal numbers of blocks.

Buffers are written without a copy unless they are sliced or longer than their slots need. Padding and the values of null
slots are zero. A validity bitmap without nulls is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.array_data import Buffer
from spark_arrow_ipc.arrow.kernels.compact import compact
from spark_arrow_ipc.arrow.layout import LAYOUTS, Role, bit_width_of
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.ipc.columns.compression import Compressor
from spark_arrow_ipc.ipc.columns.decode import SWAPS_FROM_NATIVE
from spark_arrow_ipc.ipc.columns.plan import Plan, Step, compile_plan
from spark_arrow_ipc.ipc.constants import Int64s
from spark_arrow_ipc.ipc.flatbuf import builder, reader, tables
from spark_arrow_ipc.ipc.flatbuf.tables import MetadataVersion
from spark_arrow_ipc.ipc.messages.checksums import checksum_of_pieces
from spark_arrow_ipc.ipc.messages.schema import encode_custom_metadata, encode_schema, number_dictionaries

_WORDS: Mapping[int, type[np.unsignedinteger[Any]]] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def zero_nulls(array: Array) -> Array:
    """Return an array whose null slots hold zeros in its own buffers; the same array if they are zero already.

    `array` has no offset (`compact`). O(nulls) where no slot has to change, otherwise a copy of the buffer.
    """
    # Old values under nulls would reach the file, and equal tables would give different bytes.
    layout = LAYOUTS[type(array.type)]
    if array.validity is None or not array.count_nulls():
        return array
    assert array.offset == 0, "buffers are read from the first slot on"
    valid = array_data.validity_mask(array)
    assert valid is not None, "an array with nulls has a bitmap"
    roles = [buffer.role for buffer in layout.buffers]
    if Role.BYTES in roles:
        return _drop_null_bytes(array, valid)
    nulls = np.flatnonzero(~valid)
    buffers = list(array.buffers)
    for i, buffer in enumerate(layout.buffers[: layout.num_fixed_buffers]):
        data = buffers[i]
        if buffer.role in _PER_SLOT and data is not None:
            width = bit_width_of(array.type, buffer)
            zero = _zero_bits if width == 1 else _zero_slots
            buffers[i] = zero(data, width, valid, nulls)
    return replace(array, buffers=tuple(buffers))


_PER_SLOT = (Role.DATA, Role.VIEWS)


def _zero_bits(data: Buffer, _width: int, valid: npt.NDArray[np.bool_], _nulls: npt.NDArray[np.intp]) -> Buffer:
    return array_data.pack_bits(array_data.unpack_bits(data, 0, len(valid)) & valid)


def _zero_slots(data: Buffer, width: int, valid: npt.NDArray[np.bool_], nulls: npt.NDArray[np.intp]) -> Buffer:
    if not width:
        return data
    word = _WORDS.get(width)
    if word is not None:
        slots = array_data.view_as(data, word, 0, len(valid))
    else:
        slots = array_data.view_as(data, np.uint8, 0, len(valid) * width // 8).reshape(len(valid), width // 8)
    if not slots[nulls].any():  # most writers leave zeros under nulls
        return data
    slots = slots.copy()
    slots[nulls] = 0
    return slots.reshape(-1).view(np.uint8).data


def _drop_null_bytes(array: Array, valid: npt.NDArray[np.bool_]) -> Array:
    """Return strings or binary values whose null slots have length 0."""
    offsets = array_data.value_offsets(array)
    lengths = np.diff(offsets)
    if not lengths[~valid].any():  # as most writers do
        return array
    is_kept = np.repeat(valid, lengths)
    value_bytes = array_data.value_bytes(array)[int(offsets[0]) : int(offsets[-1])][is_kept]
    new_offsets = np.zeros(len(offsets), offsets.dtype)
    np.cumsum(np.where(valid, lengths, 0), out=new_offsets[1:])
    return replace(array, buffers=(array.buffers[0], new_offsets.view(np.uint8).data, value_bytes.data))


BytesLike: TypeAlias = bytes | memoryview

_ZEROS: Final = bytes(64)  # padding up to the largest alignment; also the single value offset 0 of an empty array


class EncodedBatch(NamedTuple):
    """The body of one batch in pieces, the numbers of its ``RecordBatch`` table, and the checksums of its buffers."""

    length: int = 0
    # Two numbers for each node and buffer, one after the other.
    nodes: Sequence[int] = ()
    buffers: Sequence[int] = ()
    variadic_counts: tuple[int, ...] = ()
    codec: int | None = None
    pieces: tuple[BytesLike, ...] = ()
    nbytes: int = 0
    checksums: tuple[int, ...] = ()

    @property
    def places(self) -> Int64s:
        """The byte offset inside the body and the length of each buffer."""
        return np.array(self.buffers, np.int64).reshape(-1, 2)

    @property
    def header(self) -> dict[str, Any]:
        """The values of the ``RecordBatch`` table for `builder.build`."""
        return {
            "length": self.length,
            "nodes": np.array(self.nodes, np.int64).reshape(-1, 2),
            "buffers": self.places,
            "compression": None if self.codec is None else {"codec": self.codec},
            "variadicBufferCounts": self.variadic_counts or None,
        }


@dataclass(frozen=True, slots=True)
class BodyForm:
    """The form of all bodies of a file, with buffers at multiples of `alignment`."""

    alignment: int = 64
    with_checksums: bool = False
    swaps: bool = False
    """True if the bytes are not in this machine's order."""


def encode_columns(
    plan: Plan, columns: Sequence[Array], length: int, compressor: Compressor | None, form: BodyForm
) -> EncodedBatch:
    """Encode columns of `length` rows by the full plan of their schema."""
    buffers: list[BytesLike] = []
    nodes: list[int] = []
    variadic_counts: list[int] = []
    pending = list(columns)[::-1]  # a stack, popped in the order of the steps
    for step in plan.steps:
        array = pending.pop()
        reused = None if form.swaps else _reuse_buffers(step, array)
        if reused is not None:
            nodes += (array.length, 0)
            buffers += reused
            continue
        array = zero_nulls(compact(array) if step.is_top else array)  # `compact` cuts the children as well
        pending += array.children[::-1]
        null_count = array.count_nulls()
        nodes += (array.length, null_count)
        _add_buffers(buffers, step, array, null_count, swaps=form.swaps)
        if step.is_variadic:
            variadic_counts.append(len(array.buffers) - len(step.buffers))
    pieces: list[BytesLike] = []
    places: list[int] = []
    checksums: list[int] = []
    position, alignment = 0, form.alignment
    for data in buffers:
        if not data and not form.with_checksums:  # every second buffer is a bitmap that is left out
            places += (position, 0)
            continue
        parts = (data,) if compressor is None or not data else compressor.compress(memoryview(data))
        if form.with_checksums:
            checksums.append(checksum_of_pieces(parts))
        start = position
        for part in parts:
            if nbytes := len(part):
                pieces.append(part)
                position += nbytes
        places += (start, position - start)
        if padding := -position % alignment:
            pieces.append(_ZEROS[:padding])
            position += padding
    codec = None if compressor is None else int(compressor.compression)
    return EncodedBatch(length, nodes, places, tuple(variadic_counts), codec, tuple(pieces), position, tuple(checksums))


def _reuse_buffers(step: Step, array: Array) -> tuple[BytesLike, ...] | None:
    """Return the unchanged buffers of an array of numbers or bytes to write, or None if they have to change."""
    # A fast path, for most columns: no nulls, no offset, no copy.
    length = array.length
    if array.null_count or array.offset or array.children or not length or len(step.buffers) < 2:
        return None
    slots, data = step.buffers[1], array.buffers[1]
    if data is None:
        return None
    if slots.role is Role.DATA and slots.bit_width >= 8:
        return b"", data[: length * slots.bit_width >> 3]
    if slots.role is Role.OFFSETS:
        read, offsets = _OFFSETS[slots.bit_width], array.buffers[2]
        nbytes = (length + 1) * slots.bit_width >> 3
        if offsets is not None and read(data)[0] == 0:  # others are moved to 0
            return b"", data[:nbytes], offsets[: read(data, nbytes - (slots.bit_width >> 3))[0]]
    return None


# By the bits of a value offset: a function that reads one in this machine's byte order
_OFFSETS: Final = {32: Struct("=i").unpack_from, 64: Struct("=q").unpack_from}


def _add_buffers(buffers: list[BytesLike], step: Step, array: Array, null_count: int, *, swaps: bool) -> None:
    if step.drops_validity:  # V4 has a bitmap for unions, which may be absent
        buffers.append(b"")
    for buffer, data in zip(step.buffers, array.buffers, strict=False):
        if buffer.role is Role.VALIDITY:
            buffers.append(data if data is not None and null_count else b"")
            continue
        assert data is not None
        if buffer.role is Role.OFFSETS and not array.length:
            # Readers before 0.15 need one offset even for no slots; Columnar.rst recommends it.
            buffers.append(_ZEROS[: buffer.bit_width // 8])
        else:
            needed = data if buffer.role is Role.BYTES else data[: buffer.nbytes(array.length)]
            buffers.append(SWAPS_FROM_NATIVE[buffer.swap](needed, buffer.bit_width) if swaps else needed)
    for data in array.buffers[len(step.buffers) :]:
        assert data is not None
        buffers.append(data)


class _Template(NamedTuple):
    """A flatbuffer, and for each variable vector or scalar a function that packs its numbers, with its position."""

    flatbuffer: bytes
    places: tuple[tuple[Callable[..., None], int], ...]

    def with_numbers(self, *numbers: Iterable[int]) -> bytes:
        """Return the flatbuffer with the numbers of each place."""
        flatbuffer = bytearray(self.flatbuffer)
        for (pack_into, at), values in zip(self.places, numbers, strict=True):
            pack_into(flatbuffer, at, *values)
        return bytes(flatbuffer)


@lru_cache(maxsize=64)
def _batch(version: int, nodes: int, buffers: int, variadic_counts: tuple[int, ...], codec: int | None) -> _Template:
    # Ones, because a builder leaves out zeros.
    like = EncodedBatch(1, (1,) * nodes, (1,) * buffers, variadic_counts, codec)
    message = {"version": version, "header": (tables.RECORD_BATCH, like.header), "bodyLength": 1}
    flatbuffer = builder.build(tables.MESSAGE, message)
    view = reader.root(flatbuffer, tables.MESSAGE)
    header = view.union("header")[1]
    assert header is not None
    places = (
        (1, view.scalar_extent("bodyLength")),
        (1, header.scalar_extent("length")),
        (nodes, header.structs_extent("nodes")),
        (buffers, header.structs_extent("buffers")),
    )
    return _Template(flatbuffer, tuple((Struct(f"<{count}q").pack_into, extent.start) for count, extent in places))


def encode_message(version: int, batch: EncodedBatch) -> bytes:
    """Return the flatbuffer of a record batch's message without custom metadata, from a template."""
    template = _batch(version, len(batch.nodes), len(batch.buffers), batch.variadic_counts, batch.codec)
    return template.with_numbers((batch.nbytes,), (batch.length,), batch.nodes, batch.buffers)


class EncodedSchema(NamedTuple):
    """The parts that all files of a schema share: its message, the schema as a part of footers, and the plan."""

    message: bytes
    part: builder.Part
    plan: Plan


@lru_cache(maxsize=8)
def encode_schema_once(schema: Schema, version: MetadataVersion) -> EncodedSchema:
    """Return an encoded schema; fast for a schema that was written before."""
    numbered = number_dictionaries(schema)
    part = builder.build_part(tables.SCHEMA, encode_schema(numbered))
    message = builder.build(tables.MESSAGE, {"version": version, "header": (tables.SCHEMA, part)})
    return EncodedSchema(message, part, compile_plan(schema.fields, numbered.dictionary_ids, version))


# Up to so many blocks the footer is a template too: files of a table have few, and share it
_FEW_BLOCKS: Final = 8


@lru_cache(maxsize=8)
def _footer(version: int, schema: builder.Part, dictionaries: int, record_batches: int) -> _Template:
    numbers = {"dictionaries": dictionaries, "recordBatches": record_batches}
    blocks = {name: np.zeros((count, 3), np.int64) for name, count in numbers.items()}
    flatbuffer = builder.build(tables.FOOTER, {"version": version, "schema": schema, **blocks})
    view = reader.root(flatbuffer, tables.FOOTER)
    places = [("<" + "qi4xq" * count, view.structs_extent(name)) for name, count in numbers.items()]
    return _Template(flatbuffer, tuple((Struct(format_).pack_into, extent.start) for format_, extent in places))


def encode_footer(
    version: int, schema: builder.Part, dictionaries: Blocks, record_batches: Blocks, pairs: CustomMetadata
) -> bytes:
    """Return the flatbuffer of a footer, from a template for few blocks without custom metadata."""
    if not pairs and len(dictionaries) + len(record_batches) <= _FEW_BLOCKS:
        template = _footer(version, schema, len(dictionaries), len(record_batches))
        return template.with_numbers(chain.from_iterable(dictionaries), chain.from_iterable(record_batches))
    values = {"version": version, "schema": schema, "custom_metadata": encode_custom_metadata(pairs)}
    for name, blocks in (("dictionaries", dictionaries), ("recordBatches", record_batches)):
        values[name] = np.array(blocks, np.int64).reshape(-1, 3)
    return builder.build(tables.FOOTER, values)


Blocks: TypeAlias = Sequence[tuple[int, int, int]]
"""Byte offset, metadata bytes and body bytes of each block."""


def dictionary_values(dictionary_id: int, data: dict[str, Any], *, is_delta: bool) -> tuple[Any, dict[str, Any]]:
    """Return the table and the values of a ``DictionaryBatch``."""
    return tables.DICTIONARY_BATCH, {"id": dictionary_id, "data": data, "isDelta": is_delta}
