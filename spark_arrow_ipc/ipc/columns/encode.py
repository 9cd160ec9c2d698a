"""Encode arrays as the header and body of a record batch, by the plan that decodes them.

Buffers are written without a copy unless they are sliced or longer than their slots need. Padding is zero, and so are
the values of null slots. A validity bitmap without nulls is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.kernels.compact import compact
from spark_arrow_ipc.arrow.kernels.zero_nulls import zero_nulls
from spark_arrow_ipc.arrow.layout import Role
from spark_arrow_ipc.ipc.columns.compression import Compressor
from spark_arrow_ipc.ipc.columns.decode import SWAPS_FROM_NATIVE
from spark_arrow_ipc.ipc.columns.plan import Plan, Step, walk_arrays
from spark_arrow_ipc.ipc.constants import Int64s
from spark_arrow_ipc.ipc.flatbuf import tables
from spark_arrow_ipc.ipc.messages.checksums import checksum_of_pieces

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
