"""Whether views of 16 bytes are sound (Columnar.rst, "Variable-size Binary View Layout").

Strategy
--------
Views are looked at in chunks of slots as two little 64-bit words each. Null slots may hold anything. Text is
checked apart: inline bytes as rows of twelve (their padding is proven zero, which is UTF-8), bytes in variadic
buffers once each however many views share them, because views that overlap a lot must not cost more than the
bytes that exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import numpy_values
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.validate_text import (
    CHUNK_NBYTES,
    CHUNK_SLOTS,
    NOT_UTF8,
    Bools,
    Bytes,
    body_error,
    continues,
    invalid_utf8,
    is_ascii,
    text_failure,
    valid_slots,
)

if TYPE_CHECKING:
    from spark_arrow_ipc.arrow.array import Array

__all__ = ["check_views"]

INLINE = 12
"""Bytes that a view holds itself at most."""

_SPEC = 'Columnar.rst "Variable-size Binary View Layout"'


def _padding_masks() -> npt.NDArray[np.uint64]:
    """Return the bits of a view's two words that are padding, by inline size: shape ``(2, 13)``."""
    padding = np.zeros((INLINE + 1, 16), np.uint8)
    for size in range(INLINE + 1):
        padding[size, 4 + size :] = 0xFF
    return np.ascontiguousarray(padding.view(np.uint64).T)


_PADDING = _padding_masks()
_TEXT_BITS = np.frombuffer(bytes(4) + b"\x80" * 12, np.uint64)
"""The high bit of every byte that text may stand in."""


def check_views(array: Array, path: str) -> None:
    """Check sizes, padding, buffer numbers, positions and prefixes of views, and that text is UTF-8.

    Raises
    ------
    InvalidBodyError
        With the first slot that is broken.
    """
    views = numpy_values.views(array)
    words = views.view(np.uint64).reshape(-1, 2)
    buffers = [np.frombuffer(buffer or b"", np.uint8) for buffer in array.buffers[2:]]
    is_text = isinstance(array.type, t.Utf8View)
    for first in range(0, array.length, CHUNK_SLOTS):
        behind = min(first + CHUNK_SLOTS, array.length)
        valid = valid_slots(array, first, behind)
        if valid is None:
            slots, chunk = np.arange(first, behind), words[first:behind]
        else:
            slots = first + np.flatnonzero(valid)
            chunk = words[slots]
        # Rows of two words are cut faster than structures; they are named again where names are needed.
        size = np.ascontiguousarray(chunk.view(numpy_values.VIEW)["size"].ravel())
        _refuse(path, slots, size < 0, size, "a view size of at least 0")
        inline = size <= INLINE
        short = int(np.count_nonzero(inline))
        if short:
            own = slice(None) if short == len(size) else inline
            _check_inline(path, slots[own], chunk[own], size[own], is_text=is_text)
        if short < len(size):
            own = slice(None) if short == 0 else ~inline
            _check_long(path, slots[own], chunk[own].view(numpy_values.VIEW).ravel(), buffers)
    if is_text:
        _check_long_text(array, path, views, buffers)


def _refuse(path: str, slots: npt.NDArray[np.intp], bad: Bools, values: npt.NDArray[Any], expected: str) -> None:
    if bad.any():
        i = int(bad.argmax())
        raise body_error(path, f"{expected} in slot {slots[i]}", str(values[i]), _SPEC)


def _check_inline(
    path: str, slots: npt.NDArray[np.intp], words: npt.NDArray[np.uint64], size: npt.NDArray[np.int32], *, is_text: bool
) -> None:
    low, high = words[:, 0], words[:, 1]
    padding = (low & _PADDING[0].take(size)) | (high & _PADDING[1].take(size))
    if padding.any():
        i = int((padding != 0).argmax())
        raise body_error(path, f"zero bytes behind the {size[i]} of the view in slot {slots[i]}", "others", _SPEC)
    if not is_text:
        return
    beyond_ascii = np.flatnonzero((low & _TEXT_BITS[0]) | (high & _TEXT_BITS[1]))
    if len(beyond_ascii):
        rows = words[beyond_ascii].view(np.uint8)[:, 4:].ravel()
        bad = text_failure(rows, np.arange(0, len(rows) + 1, INLINE))
        if bad is not None:
            raise body_error(path, f"UTF-8 text in slot {slots[beyond_ascii[bad]]}", NOT_UTF8, _SPEC)


def _check_long(path: str, slots: npt.NDArray[np.intp], views: npt.NDArray[Any], buffers: list[Bytes]) -> None:
    index = views["index"]
    bad_index = (index < 0) | (index >= len(buffers))
    _refuse(path, slots, bad_index, index, f"a view's buffer index from 0 to below {len(buffers)}")
    nbytes = np.array([len(buffer) for buffer in buffers], np.int64)[index]
    offset = views["offset"]
    outside = (offset < 0) | (offset.astype(np.int64) + views["size"] > nbytes)
    if outside.any():
        i = int(outside.argmax())
        found = f"bytes {offset[i]} to {int(offset[i]) + int(views['size'][i])}"
        expected = f"a view in slot {slots[i]} within the {nbytes[i]} bytes of variadic buffer {index[i]}"
        raise body_error(path, expected, found, _SPEC)
    for number, chosen in _by_buffer(index):
        # Overlapping 4-byte windows: one gather reads the first bytes of all views.
        starts = np.ndarray((len(buffers[number]) - 3,), np.uint32, buffers[number], 0, (1,))
        differs = starts[offset[chosen]] != views["prefix"][chosen].view(np.uint32)
        if differs.any():
            slot = slots[chosen][int(differs.argmax())]
            raise body_error(
                path, f"the first 4 bytes of the value as the view's prefix in slot {slot}", "others", _SPEC
            )


def _by_buffer(index: npt.NDArray[np.int32]) -> list[tuple[int, slice | npt.NDArray[np.intp]]]:
    """Return, for each buffer that occurs, its number and which views point into it, in order."""
    if not len(index):
        return []
    if int(index.min()) == int(index.max()):
        return [(int(index[0]), slice(None))]
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    cuts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    return [(int(index[part[0]]), part) for part in np.split(order, cuts)]


def _check_long_text(array: Array, path: str, views: npt.NDArray[Any], buffers: list[Bytes]) -> None:
    """Check the text in variadic buffers; every view is proven to lie inside its buffer."""
    if all(is_ascii(buffer) for buffer in buffers):
        return
    valid = valid_slots(array, 0, array.length)
    long = views["size"] > INLINE
    slots = np.flatnonzero(long if valid is None else long & valid)
    chosen_views = views if len(slots) == len(views) else views[slots]
    for number, chosen in _by_buffer(chosen_views["index"]):
        starts = chosen_views["offset"][chosen].astype(np.int64)
        ends = starts + chosen_views["size"][chosen]
        bad = _overlapping_failure(buffers[number], starts, ends)
        if bad is not None:
            raise body_error(path, f"UTF-8 text in slot {slots[chosen][bad]}", NOT_UTF8, _SPEC)


def _overlapping_failure(data: Bytes, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> int | None:
    """Return one of the ranges whose bytes are not UTF-8, or None. Every byte is decoded once at most.

    Ranges that overlap are valid exactly when their union is and each starts and ends between code points.
    """
    order = None  # as they come, which is how writers write them
    if not (starts[1:] >= starts[:-1]).all():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends)
    is_new = np.concatenate([[True], starts[1:] > reach[:-1]])
    firsts = np.flatnonzero(is_new)
    union_starts = starts[firsts]
    union_ends = reach[np.append(firsts[1:], len(starts)) - 1]
    own_end = union_ends[np.cumsum(is_new) - 1]
    inside = ends < own_end
    torn = continues(data[starts])
    torn[inside] |= continues(data[ends[inside]])
    if torn.any():
        return _original(order, torn)
    bad_byte = _union_failure(data, union_starts, union_ends)
    if bad_byte is None:
        return None
    return _original(order, (starts <= bad_byte) & (bad_byte < ends))


def _original(order: npt.NDArray[np.intp] | None, found: Bools) -> int:
    """Return the number, before sorting, of the first range that is found."""
    i = int(found.argmax())
    return i if order is None else int(order[i])


def _union_failure(data: Bytes, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> int | None:
    """Return the position of a byte in disjoint ranges that is not UTF-8, or None."""
    total = np.concatenate([[0], np.cumsum(ends - starts)])
    first = 0
    while first < len(starts):
        behind = int(np.searchsorted(total, total[first] + CHUNK_NBYTES, "right")) - 1
        behind = max(behind, first + 1)
        where = total[first : behind + 1] - total[first]
        if behind == first + 1:
            text = data[int(starts[first]) : int(ends[first])]
        else:
            shift = np.repeat(starts[first:behind] - where[:-1], np.diff(where))
            text = data[np.arange(int(where[-1])) + shift]
        bad = text_failure(text, where)
        if bad is not None:
            return int(starts[first + bad]) + (invalid_utf8(text[int(where[bad]) : int(where[bad + 1])]) or 0)
        first = behind
    return None
