"""Arrays of ``struct ArrowArray``: views of the producer's memory, which is released when the last of them goes.

The interface has no sizes of buffers, so what can be checked is checked: numbers of slots, buffers and children, that no
needed buffer is missing, and that children have the slots that their parents need. How many bytes a buffer has follows
from the slots and, for bytes, from the last value offset; `arrow.validate` checks the values inside of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import NOT_COUNTED, ArrayData
from spark_arrow_ipc.arrow.c_data.structs import ARRAY, ArrowArray, Moved, capsule_address, pointers, read_array
from spark_arrow_ipc.arrow.column_path import child_path
from spark_arrow_ipc.arrow.layout import LAYOUTS, Role, bit_width_of, needed_nbytes
from spark_arrow_ipc.errors import InvalidBodyError

_A = TypeVar("_A", bound=ArrayData)

_SPEC: Final = "the Arrow C data interface, struct ArrowArray"
_NO_BYTES: Final = memoryview(b"")
_MOST_SLOTS: Final = 2**62
"""More than fit any memory; beyond it numbers of bytes would not fit an int64."""
_MOST_FREE_SLOTS: Final = 2**31 - 1
"""Slots of an array that has no memory (nulls, runs, structs without bitmaps), as `ipc.Limits.max_slots`."""
_MOST_BUFFERS: Final = 1_000_000
"""Buffers that views point into, as `ipc.Limits.max_buffers`."""


def array_of_capsule(capsule: object, field: t.Field, make: Callable[..., _A]) -> _A:
    """Take the array out of a capsule of ``__arrow_c_array__``, without a copy.

    Parameters
    ----------
    capsule
        Named ``arrow_array``; it is empty afterwards, also after an error.
    field
        Name and type, as the capsule of the schema has them.
    make
        Makes an array of the fields of `ArrayData`.

    Raises
    ------
    TypeError, ValueError
        It is no such capsule, or an empty one.
    InvalidBodyError
        It is not an array of the type.
    """
    return import_array(Moved(ARRAY, capsule_address(capsule, ARRAY, "__arrow_c_array__")), field, make)


def import_array(moved: Moved, field: t.Field, make: Callable[..., _A]) -> _A:
    """Return an array over the memory of a structure, which is released when no buffer of it is left.

    Raises
    ------
    InvalidBodyError
        It is not an array of the type.
    """
    array: _A = _Import(moved, make).array(moved.address, field.type, field.name)
    return array


class _Lent:
    """Memory of a producer, for numpy: what is made of it keeps the producer's structure from being released."""

    __slots__ = ("__array_interface__", "_moved")

    def __init__(self, address: int, nbytes: int, moved: Moved) -> None:
        self.__array_interface__ = {"version": 3, "shape": (nbytes,), "typestr": "|u1", "data": (address, True)}
        self._moved = moved


class _Import:
    """One structure with all its children."""

    def __init__(self, moved: Moved, make: Callable[..., Any]) -> None:
        self._moved = moved
        self._make = make

    def array(self, address: int, type_: t.DataType, path: str) -> Any:
        """Return the array at an address."""
        if not address:
            raise _error(path, "an ArrowArray", "NULL")
        node = read_array(address)
        if not node.release:
            raise _error(path, "an ArrowArray", "a released one")
        _check(node, type_, path)
        buffers = self._buffers(node, type_, path)
        if node.length > _MOST_FREE_SLOTS and not any(buffers):
            raise _error(path, f"at most {_MOST_FREE_SLOTS:,} slots without memory", f"{node.length:,}")
        children = tuple(
            self.array(child, field.type, child_path(type_, path, field))
            for field, child in zip(type_.children, pointers(node.children, node.n_children), strict=True)
        )
        values = None
        if isinstance(type_, t.Dictionary):
            values = self.array(node.dictionary, type_.value, f"{path} (dictionary)")
        return self._make(type_, node.length, _null_count(node, type_), buffers, children, values, node.offset)

    def _buffers(self, node: ArrowArray, type_: t.DataType, path: str) -> tuple[memoryview | None, ...]:
        layout = LAYOUTS[type(type_)]
        addresses = pointers(node.buffers, node.n_buffers)
        slots = node.offset + node.length
        buffers: list[memoryview | None] = []
        for row, address in zip(layout.buffers[: layout.fixed_buffers], addresses, strict=False):
            what = f"{row.role.name.lower()} of {type_}"
            if row.role is Role.VALIDITY and not address:
                if node.null_count > 0:
                    raise _error(path, f"a validity bitmap for {node.null_count} nulls", "NULL")
                buffers.append(None)
            elif row.role is Role.BYTES:
                buffers.append(self._view(address, _last_offset(buffers[-1], type_, slots, path), what, path))
            else:
                buffers.append(self._view(address, needed_nbytes(type_, row, slots), what, path))
        if layout.is_variadic:
            count = len(addresses) - layout.fixed_buffers - 1
            sizes = self._view(addresses[-1], 8 * count, "the sizes of variadic buffers", path).cast("q").tolist()
            for address, nbytes in zip(addresses[layout.fixed_buffers : -1], sizes, strict=True):
                if nbytes < 0:
                    raise _error(path, "sizes of variadic buffers of at least 0", str(nbytes))
                buffers.append(self._view(address, nbytes, "a variadic buffer", path))
        return tuple(buffers)

    def _view(self, address: int, nbytes: int, what: str, path: str) -> memoryview:
        if not nbytes:
            return _NO_BYTES
        if not address:
            raise _error(path, f"{nbytes:,} bytes: {what}", "NULL")
        return np.asarray(_Lent(address, nbytes, self._moved)).data


def _check(node: ArrowArray, type_: t.DataType, path: str) -> None:
    layout = LAYOUTS[type(type_)]
    if node.length < 0 or node.offset < 0 or node.length + node.offset > _MOST_SLOTS:
        raise _error(path, "a length and an offset of at least 0", f"{node.length} and {node.offset}")
    if not NOT_COUNTED <= node.null_count <= node.length:
        raise _error(path, f"a null count of -1 to {node.length}", str(node.null_count))
    least = layout.fixed_buffers + layout.is_variadic
    most = least + _MOST_BUFFERS if layout.is_variadic else least
    if not least <= node.n_buffers <= most or (node.n_buffers and not node.buffers):
        raise _error(path, f"{'at least ' * layout.is_variadic}{least} buffers for {type_}", str(node.n_buffers))
    if node.n_children != len(type_.children) or (node.n_children and not node.children):
        raise _error(path, f"{len(type_.children)} children for {type_}", str(node.n_children))


def _null_count(node: ArrowArray, type_: t.DataType) -> int:
    if isinstance(type_, t.Null):
        return node.length
    return node.null_count if LAYOUTS[type(type_)].has_validity and pointers(node.buffers, 1)[0] else 0


def _last_offset(offsets: memoryview | None, type_: t.DataType, slots: int, path: str) -> int:
    """Return the number of bytes that the last value offset says."""
    if not offsets:
        return 0
    row = next(row for row in LAYOUTS[type(type_)].buffers if row.role is Role.OFFSETS)
    width = bit_width_of(type_, row) // 8
    last = int(np.frombuffer(offsets, f"i{width}", 1, slots * width)[0])
    if last < 0:
        raise _error(path, "value offsets of at least 0", str(last))
    return last


def _error(path: str, expected: str, found: str) -> InvalidBodyError:
    return InvalidBodyError(expected=expected, found=found, field_path=path or None, spec=_SPEC)
