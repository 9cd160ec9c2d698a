"""Zero the slots under nulls, so that no leftover bytes are written.

The bytes under a null are undefined, so they may be memory that was never meant to leave this process
(CVE-2019-12408), and some readers check them all the same: polars refuses bytes under a null that are not UTF-8.
Lists keep their elements and structs their children under nulls: these are slots of other arrays, and positions of
list-views must be inside the child even under a null (Columnar.rst, "ListView Layout").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import bitmap, numpy_views
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.array_data import Buffer
from spark_arrow_ipc.arrow.layout import LAYOUTS, Role, bit_width_of

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
