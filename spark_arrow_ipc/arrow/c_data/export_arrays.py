"""Arrays as ``struct ArrowArray``: their buffers are lent, not copied.

Strategy
--------
All structures of an array, with the pointers to its buffers and children, lie in one piece of memory, which keeps the
buffers alive until the last of them is released. A record batch is a struct array without nulls.

What consumers demand beyond the format: no NULL but for a validity bitmap, one value offset even where there is no
slot, the sizes of variadic buffers as one more buffer, and the alignment of the values, for which a buffer that lies
otherwise is copied.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import ArrayData
from spark_arrow_ipc.arrow.c_data.exports import Block, Exporter
from spark_arrow_ipc.arrow.c_data.structs import ARRAY, DEVICE, DEVICE_ARRAY, Addresses, address_of
from spark_arrow_ipc.arrow.layout import BIT_WIDTHS, LAYOUTS, SLOTS, BufferLayout, Role, bit_width_of, needed_nbytes
from spark_arrow_ipc.errors import InvalidBodyError

_POINTER: Final = struct.Struct("P")
_WIDEST: Final = 8
"""Buffers are aligned to their values, to 8 bytes at most: that is the alignment of the format."""

_ROWS: Final = {
    type_: tuple(
        (row, None if row.role is Role.DATA else SLOTS[row.role][0] * row.bit_width, SLOTS[row.role][1])
        for row in layout.buffers
    )
    for type_, layout in LAYOUTS.items()
}
"""By type class, for each buffer: its layout, the bits of a slot (None: those of the type), and extra slots."""

_CPU: Final = 1
_NO_NUMBER: Final = -1
"""``ARROW_DEVICE_CPU``, and the number of a device that has none."""

_EMPTY: Final = np.zeros(8, np.uint64)
"""Stands for buffers without bytes."""


class _Node(NamedTuple):
    """One structure, before it has an address; children are numbers of nodes."""

    array: ArrayData
    buffers: list[int]
    children: list[int]
    dictionary: int | None


def array_capsule(array: ArrayData) -> object:
    """Return a capsule named ``arrow_array``. O(buffers), and copies none that is aligned.

    Raises
    ------
    InvalidBodyError
        A buffer is missing, or too small for the slots.
    """
    block = _lay_out(array)
    return _EXPORTER.capsule(block.base, block)


def device_array_capsule(array: ArrayData) -> object:
    """Return a capsule named ``arrow_device_array``, of the memory of the CPU. As `array_capsule`."""
    memory = bytearray(ARRAY.nbytes + DEVICE.size)
    DEVICE.pack_into(memory, ARRAY.nbytes, _NO_NUMBER, _CPU, 0, 0, 0, 0)
    address = address_of(memory)
    export_array(array, address)
    return _DEVICE_EXPORTER.capsule(address, memory)


def export_array(array: ArrayData, target: int) -> None:
    """Write an array as the structure at an address, whose owner releases it. As `array_capsule`."""
    _EXPORTER.move(_lay_out(array).base, target)


def _lay_out(array: ArrayData) -> Block:
    """Return a new structure, all below it, and what they need."""
    copies: list[npt.NDArray[Any]] = []
    nodes: list[_Node] = []
    stops: list[int] = []
    _flatten(array, nodes, stops, copies, Addresses())
    pointers_at = len(nodes) * ARRAY.nbytes
    count = sum(len(node.buffers) + len(node.children) for node in nodes)
    memory = bytearray(pointers_at + count * _POINTER.size)
    base = address_of(memory)
    structures: list[int] = []
    pointers: list[int] = []
    for i, (own, buffers, children, dictionary) in enumerate(nodes):
        at = base + pointers_at + len(pointers) * _POINTER.size
        structures += (
            own.length, _null_count(own), own.offset if own.length else 0, len(buffers), len(children),
            at if buffers else 0,
            at + len(buffers) * _POINTER.size if children else 0,
            0 if dictionary is None else base + dictionary * ARRAY.nbytes,
            _EXPORTER.release, base + i * ARRAY.nbytes,
        )  # fmt: skip
        pointers += buffers
        pointers += [base + child * ARRAY.nbytes for child in children]
    ARRAY.pack_many(structures, memory)
    struct.pack_into(f"{len(pointers)}P", memory, pointers_at, *pointers)
    block = Block(memory, stops, (array, copies))
    _EXPORTER.keep_block(block)
    return block


def _offset(array: ArrayData) -> int:
    """Return the offset; 0 for an array without slots, whose buffers a consumer takes for empty."""
    return array.offset if array.length else 0


def _null_count(array: ArrayData) -> int:
    """Return the null count as the interface has it: all slots of `Null`, and 0 without a bitmap."""
    if isinstance(array.type, t.Null):
        return array.length
    return 0 if array.validity is None else array.null_count


def _flatten(
    array: ArrayData, nodes: list[_Node], stops: list[int], copies: list[npt.NDArray[Any]], addresses: Addresses
) -> int:
    """Append the nodes of an array, its own first, and where those below each end; return the number of its own."""
    number = len(nodes)
    stops.append(0)
    node = _Node(array, _buffers(array, copies, addresses), [], None)
    nodes.append(node)
    for child in array.children:
        node.children.append(_flatten(child, nodes, stops, copies, addresses))
    if array.dictionary is not None:
        nodes[number] = node._replace(dictionary=_flatten(array.dictionary, nodes, stops, copies, addresses))
    stops[number] = len(nodes)
    return number


def _buffers(array: ArrayData, copies: list[npt.NDArray[Any]], places: Addresses) -> list[int]:
    """Return the addresses of an array's buffers."""
    type_ = array.type
    class_ = type(type_)
    slots = _offset(array) + array.length
    addresses = []
    for (row, bit_width, extra), buffer in zip(_ROWS[class_], array.buffers, strict=False):
        # What most buffers are: there, large enough, and aligned.
        if buffer:
            width = BIT_WIDTHS[class_](type_) if bit_width is None else bit_width
            if buffer.nbytes >= (slots + extra) * width + 7 >> 3:
                address = places.of(buffer)
                if not address % _WIDEST:
                    addresses.append(address)
                    continue
        addresses.append(_address(array, row, buffer, copies))
    layout = LAYOUTS[class_]
    if layout.is_variadic:
        variadic = array.buffers[layout.fixed_buffers :]
        row = layout.buffers[-1]
        addresses[layout.fixed_buffers :] = [_address(array, row, buffer, copies) for buffer in variadic]
        sizes = np.array([0 if buffer is None else buffer.nbytes for buffer in variadic], np.int64)
        addresses.append(_keep(sizes, copies) if len(sizes) else _EMPTY_ADDRESS)
    return addresses


def _address(array: ArrayData, row: BufferLayout, buffer: memoryview | None, copies: list[npt.NDArray[Any]]) -> int:
    if buffer is None:
        if row.role is Role.VALIDITY and array.null_count <= 0:
            return 0
        buffer = memoryview(b"")
    slots = _offset(array) + array.length
    if buffer.nbytes < needed_nbytes(array.type, row, slots):
        raise InvalidBodyError(
            expected=f"{needed_nbytes(array.type, row, slots):,} bytes of {row.role.name.lower()} for {array.type}",
            found=f"{buffer.nbytes:,}",
        )
    width = bit_width_of(array.type, row) // 8
    if row.role is Role.OFFSETS and buffer.nbytes < (slots + 1) * width:
        # Where there is no slot the format may leave out the one offset, and no reader of the interface expects that.
        return _keep(np.zeros((slots + 1) * width, np.uint8), copies)
    if not buffer.nbytes:
        return _EMPTY_ADDRESS
    values = np.frombuffer(buffer, np.uint8)
    address: int = values.__array_interface__["data"][0]
    if address % min(width or 1, _WIDEST) and width & (width - 1) == 0 and row.role is not Role.BYTES:
        return _keep(values.copy(), copies)
    return address


def _keep(values: npt.NDArray[Any], copies: list[npt.NDArray[Any]]) -> int:
    copies.append(values)
    return _address_of(values)


def _address_of(values: npt.NDArray[Any]) -> int:
    address: int = values.__array_interface__["data"][0]
    return address


_EMPTY_ADDRESS: Final = _address_of(_EMPTY)


_EXPORTER: Final = Exporter(ARRAY)
_DEVICE_EXPORTER: Final = Exporter(DEVICE_ARRAY)
