"""Encode arrays as the header and body of a record batch, by the plan that decodes them.

Buffers are written without a copy unless they are sliced or longer than their slots need. Padding is zero, and so are
the values of null slots. A validity bitmap without nulls is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import bitmap, numpy_views
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.array_data import Buffer
from spark_arrow_ipc.arrow.kernels.compact import compact
from spark_arrow_ipc.arrow.layout import LAYOUTS, Role, bit_width_of
from spark_arrow_ipc.ipc.columns.compression import Compressor
from spark_arrow_ipc.ipc.columns.decode import SWAPS_FROM_NATIVE
from spark_arrow_ipc.ipc.columns.plan import Plan, Step, walk_arrays
from spark_arrow_ipc.ipc.constants import Int64s
from spark_arrow_ipc.ipc.flatbuf import tables
from spark_arrow_ipc.ipc.messages.checksums import checksum_of_pieces

_WORDS: Mapping[int, type[np.unsignedinteger[Any]]] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def zero_nulls(array: Array) -> Array:
    """Return an array whose null slots hold zeros in its own buffers; the same array if they do already.

    `array` has no offset (`compact`). O(nulls) where no slot has to change, else a copy of the buffer.
    """
    layout = LAYOUTS[type(array.type)]
    if array.validity is None or not array.count_nulls():
        return array
    assert array.offset == 0, "buffers are read from the first slot on"
    valid = numpy_views.validity_mask(array)
    assert valid is not None, "an array with nulls has a bitmap"
    roles = [buffer.role for buffer in layout.buffers]
    if Role.BYTES in roles:
        return _without_bytes(array, valid)
    nulls = np.flatnonzero(~valid)
    buffers = list(array.buffers)
    for i, buffer in enumerate(layout.buffers[: layout.fixed_buffers]):
        data = buffers[i]
        if buffer.role in _PER_SLOT and data is not None:
            width = bit_width_of(array.type, buffer)
            zero = _zero_bits if width == 1 else _zero_slots
            buffers[i] = zero(data, width, valid, nulls)
    return replace(array, buffers=tuple(buffers))


_PER_SLOT = (Role.DATA, Role.VIEWS)


def _zero_bits(data: Buffer, _width: int, valid: npt.NDArray[np.bool_], _nulls: npt.NDArray[np.intp]) -> Buffer:
    return bitmap.pack(bitmap.unpack(data, 0, len(valid)) & valid)


def _zero_slots(data: Buffer, width: int, valid: npt.NDArray[np.bool_], nulls: npt.NDArray[np.intp]) -> Buffer:
    if not width:
        return data
    word = _WORDS.get(width)
    if word is not None:
        slots = numpy_views.typed(data, word, 0, len(valid))
    else:
        slots = numpy_views.typed(data, np.uint8, 0, len(valid) * width // 8).reshape(len(valid), width // 8)
    if not slots[nulls].any():
        return data
    slots = slots.copy()
    slots[nulls] = 0
    return slots.reshape(-1).view(np.uint8).data


def _without_bytes(array: Array, valid: npt.NDArray[np.bool_]) -> Array:
    """Return strings or binary values whose null slots have length 0."""
    offsets = numpy_views.value_offsets(array)
    lengths = np.diff(offsets)
    if not lengths[~valid].any():
        return array
    kept = np.repeat(valid, lengths)
    own = numpy_views.value_bytes(array)[int(offsets[0]) : int(offsets[-1])][kept]
    made = np.zeros(len(offsets), offsets.dtype)
    np.cumsum(np.where(valid, lengths, 0), out=made[1:])
    return replace(array, buffers=(array.buffers[0], made.view(np.uint8).data, own.data))


BytesLike: TypeAlias = bytes | memoryview

_ZEROS: Final = bytes(64)
"""Padding up to the largest alignment; also the single value offset 0 of an empty array."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedBatch:
    """The body of one batch in pieces, the values of its ``RecordBatch`` table, and the checksums of its buffers."""

    header: dict[str, Any]
    pieces: tuple[BytesLike, ...]
    nbytes: int
    checksums: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BodyForm:
    """The form of all bodies of a file: the bytes at a multiple of which buffers begin and a body ends, and more."""

    alignment: int = 64
    with_checksums: bool = False
    swaps: bool = False
    """True if the bytes are not in this machine's order."""


@dataclass(slots=True)
class _GrowingBody:
    """The pieces of a growing body."""

    form: BodyForm
    pieces: list[BytesLike] = field(default_factory=list)
    buffers: list[tuple[int, int]] = field(default_factory=list)
    checksums: list[int] = field(default_factory=list)
    nbytes: int = 0

    def add(self, *data: BytesLike) -> None:
        """Append one buffer, of one or more pieces, and padding."""
        start = self.nbytes
        for piece in data:
            self._append(piece)
        if self.form.with_checksums:
            self.checksums.append(checksum_of_pieces(data))
        self.buffers.append((start, self.nbytes - start))
        self._append(_ZEROS[: -self.nbytes % self.form.alignment])

    def _append(self, data: BytesLike) -> None:
        if len(data):
            self.pieces.append(data)
            self.nbytes += len(data)


def encode_columns(
    plan: Plan, columns: Sequence[Array], length: int, compressor: Compressor | None, form: BodyForm
) -> EncodedBatch:
    """Encode columns of `length` rows by the whole plan of their schema."""
    buffers: list[BytesLike] = []
    nodes: list[tuple[int, int]] = []
    variadic_counts: list[int] = []
    for step, array in walk_arrays(plan, map(compact, columns), zero_nulls):
        null_count = array.count_nulls()
        nodes.append((array.length, null_count))
        _add_buffers(buffers, step, array, null_count, swaps=form.swaps)
        if step.is_variadic:
            variadic_counts.append(len(array.buffers) - len(step.buffers))
    body = _GrowingBody(form)
    for data in buffers:
        body.add(*((data,) if compressor is None or not len(data) else compressor.compress(memoryview(data))))
    header = {
        "length": length,
        "nodes": _pairs(nodes),
        "buffers": _pairs(body.buffers),
        "compression": None if compressor is None else {"codec": int(compressor.compression)},
        "variadicBufferCounts": variadic_counts or None,
    }
    return EncodedBatch(header, tuple(body.pieces), body.nbytes, tuple(body.checksums))


def _add_buffers(buffers: list[BytesLike], step: Step, array: Array, null_count: int, *, swaps: bool) -> None:
    if step.drops_validity:
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


def _pairs(rows: list[tuple[int, int]]) -> Int64s:
    return np.array(rows, np.int64).reshape(-1, 2)


def message_values(version: int, header: tuple[Any, dict[str, Any]], body_nbytes: int, pairs: Any) -> dict[str, Any]:
    """Return the values of a ``Message`` table for `builder.build`."""
    return {"version": version, "header": header, "bodyLength": body_nbytes, "custom_metadata": pairs}


def dictionary_values(dictionary_id: int, data: dict[str, Any], *, is_delta: bool) -> tuple[Any, dict[str, Any]]:
    """Return the table and the values of a ``DictionaryBatch``."""
    return tables.DICTIONARY_BATCH, {"id": dictionary_id, "data": data, "isDelta": is_delta}
