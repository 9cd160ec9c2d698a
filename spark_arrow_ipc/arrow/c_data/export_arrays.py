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
from spark_arrow_ipc.arrow.c_data.exports import Exporter
from spark_arrow_ipc.arrow.c_data.structs import ARRAY, address_of
from spark_arrow_ipc.arrow.layout import LAYOUTS, BufferLayout, Role, bit_width_of, needed_nbytes
from spark_arrow_ipc.errors import InvalidBodyError

__all__ = ["array_capsule", "export_array"]

_POINTER: Final = struct.Struct("P")
_WIDEST: Final = 8
"""Buffers are aligned to their values, to 8 bytes at most: that is the alignment of the format."""

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
    address, memory = _lay_out(array)
    return _EXPORTER.capsule(address, memory)


def export_array(array: ArrayData, target: int) -> None:
    """Write an array as the structure at an address, whose owner releases it. As `array_capsule`."""
    address, _ = _lay_out(array)
    _EXPORTER.move(address, target)


class _Memory:
    """The structures of an array, and all that they point to."""

    __slots__ = ("array", "copies", "structures")

    def __init__(self, array: ArrayData) -> None:
        self.array = array
        self.copies: list[npt.NDArray[Any]] = []
        self.structures = bytearray()


def _lay_out(array: ArrayData) -> tuple[int, _Memory]:
    """Return the address of a new structure, and what it needs."""
    memory = _Memory(array)
    nodes: list[_Node] = []
    _flatten(array, nodes, memory)
    pointers_at = len(nodes) * ARRAY.nbytes
    count = sum(len(node.buffers) + len(node.children) for node in nodes)
    structures = memory.structures = bytearray(pointers_at + count * _POINTER.size)
    base = address_of(structures)
    for i, node in enumerate(nodes):
        array = node.array
        children_at = pointers_at + len(node.buffers) * _POINTER.size
        ARRAY.layout.pack_into(
            structures, i * ARRAY.nbytes,
            array.length, _null_count(array), _offset(array), len(node.buffers), len(node.children),
            base + pointers_at if node.buffers else 0,
            base + children_at if node.children else 0,
            0 if node.dictionary is None else base + node.dictionary * ARRAY.nbytes,
            _EXPORTER.release, base + i * ARRAY.nbytes,
        )  # fmt: skip
        words = [*node.buffers, *(base + child * ARRAY.nbytes for child in node.children)]
        struct.pack_into(f"{len(words)}P", structures, pointers_at, *words)
        pointers_at += len(words) * _POINTER.size
    _EXPORTER.keep(range(base, base + len(nodes) * ARRAY.nbytes, ARRAY.nbytes), memory)
    return base, memory


def _offset(array: ArrayData) -> int:
    """Return the offset; 0 for an array without slots, whose buffers a consumer takes for empty."""
    return array.offset if array.length else 0


def _null_count(array: ArrayData) -> int:
    """Return the null count as the interface has it: all slots of `Null`, and 0 without a bitmap."""
    if isinstance(array.type, t.Null):
        return array.length
    return 0 if array.validity is None else array.null_count


def _flatten(array: ArrayData, nodes: list[_Node], memory: _Memory) -> int:
    """Append the nodes of an array, its own first; return the number of that."""
    number = len(nodes)
    node = _Node(array, _buffers(array, memory), [], None)
    nodes.append(node)
    for child in array.children:
        node.children.append(_flatten(child, nodes, memory))
    if array.dictionary is not None:
        nodes[number] = node._replace(dictionary=_flatten(array.dictionary, nodes, memory))
    return number


def _buffers(array: ArrayData, memory: _Memory) -> list[int]:
    """Return the addresses of an array's buffers."""
    layout = LAYOUTS[type(array.type)]
    addresses = [
        _address(array, row, buffer, memory) for row, buffer in zip(layout.buffers, array.buffers, strict=False)
    ]
    if layout.is_variadic:
        variadic = array.buffers[layout.fixed_buffers :]
        row = layout.buffers[-1]
        addresses[layout.fixed_buffers :] = [_address(array, row, buffer, memory) for buffer in variadic]
        sizes = np.array([0 if buffer is None else buffer.nbytes for buffer in variadic], np.int64)
        addresses.append(_keep(sizes, memory) if len(sizes) else _EMPTY_ADDRESS)
    return addresses


def _address(array: ArrayData, row: BufferLayout, buffer: memoryview | None, memory: _Memory) -> int:
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
        return _keep(np.zeros((slots + 1) * width, np.uint8), memory)
    if not buffer.nbytes:
        return _EMPTY_ADDRESS
    values = np.frombuffer(buffer, np.uint8)
    address: int = values.__array_interface__["data"][0]
    if address % min(width or 1, _WIDEST) and width & (width - 1) == 0 and row.role is not Role.BYTES:
        return _keep(values.copy(), memory)
    return address


def _keep(values: npt.NDArray[Any], memory: _Memory) -> int:
    memory.copies.append(values)
    return _address_of(values)


def _address_of(values: npt.NDArray[Any]) -> int:
    address: int = values.__array_interface__["data"][0]
    return address


_EMPTY_ADDRESS: Final = _address_of(_EMPTY)


_EXPORTER: Final = Exporter(ARRAY)
