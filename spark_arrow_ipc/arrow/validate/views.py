"""Check views of 16 bytes (Columnar.rst, "Variable-size Binary View Layout").

How it works
------------
Views are checked in chunks of slots, each view as two 64-bit words. Null slots may hold anything. UTF-8 is checked
separately: inline bytes as rows of twelve (their padding is zero by then, which is UTF-8), bytes in variadic buffers once
each, because views that overlap must not cost more than the bytes that exist. Small variadic buffers are joined for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import ArrayData
from spark_arrow_ipc.arrow.validate.text import (
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
)

INLINE = 12
"""Longest value, in bytes, that is in the view itself."""

# Bytes of variadic buffers that are joined: other libraries write buffers of 32 KiB, and each call costs
_JOINED_NBYTES = 1 << 24

_SPEC = 'Columnar.rst "Variable-size Binary View Layout"'


def _padding_masks() -> npt.NDArray[np.uint64]:
    """Return masks of the padding in the two words of a view, by inline size: shape ``(2, 13)``."""
    padding = np.zeros((INLINE + 1, 16), np.uint8)
    for size in range(INLINE + 1):
        padding[size, 4 + size :] = 0xFF  # after the size, of 4 bytes, and the value
    return np.ascontiguousarray(padding.view(np.uint64).T)


_PADDING = _padding_masks()
# The high bit of each inline byte, in the two words of a view: not zero beyond ASCII
_TEXT_BITS = np.frombuffer(bytes(4) + b"\x80" * 12, np.uint64)


def check_views(array: ArrayData, path: str, *, contents: bool = True) -> None:
    """Raise InvalidBodyError with the first view whose size, padding, buffer, offset, prefix or UTF-8 is broken.

    Without `contents` only sizes, buffers and offsets are checked, which keeps readers inside the memory.
    """
    views = array_data.views(array)
    words = views.view(np.uint64).reshape(-1, 2)
    buffers = [array_data.byte_values(buffer) for buffer in array.buffers[2:]]
    nbytes = np.array([len(buffer) for buffer in buffers], np.int64)
    is_text = type(array.type) in t.UTF8_CLASSES
    has_long = False
    for start in range(0, array.length, CHUNK_SLOTS):
        stop = min(start + CHUNK_SLOTS, array.length)
        valid = array_data.validity_mask(array, start, stop)
        if valid is None:
            slots, chunk = np.arange(start, stop), words[start:stop]
        else:
            slots = start + np.flatnonzero(valid)
            chunk = words[slots]
        # Rows of two words are taken faster than structures; the structured view is made where names are needed.
        size = np.ascontiguousarray(chunk.view(array_data.VIEW)["size"].ravel())
        _refuse(path, slots, size < 0, size, "a view size of at least 0")
        inline = size <= INLINE
        short = int(np.count_nonzero(inline))
        if short and contents:
            rows = slice(None) if short == len(size) else inline
            _check_inline(path, slots[rows], chunk[rows], size[rows], is_text=is_text)
        if short < len(size):
            rows = slice(None) if short == 0 else ~inline
            _check_bounds(path, slots[rows], chunk[rows].view(array_data.VIEW).ravel(), nbytes)
            has_long = True
    if has_long and contents:  # once for all chunks, because views of several chunks share buffers
        _check_pointed_at(array, path, views, buffers, is_text=is_text)


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
        raise body_error(path, f"zero bytes after the {size[i]} of the view in slot {slots[i]}", "others", _SPEC)
    if not is_text:
        return
    beyond_ascii = np.flatnonzero((low & _TEXT_BITS[0]) | (high & _TEXT_BITS[1]))
    if len(beyond_ascii):
        rows = words[beyond_ascii].view(np.uint8)[:, 4:].ravel()
        bad = text_failure(rows, np.arange(0, len(rows) + 1, INLINE))
        if bad is not None:
            raise body_error(path, f"UTF-8 text in slot {slots[beyond_ascii[bad]]}", NOT_UTF8, _SPEC)


def _check_bounds(
    path: str, slots: npt.NDArray[np.intp], views: npt.NDArray[Any], nbytes: npt.NDArray[np.int64]
) -> None:
    index = np.ascontiguousarray(views["index"])
    bad_index = (index < 0) | (index >= len(nbytes))
    _refuse(path, slots, bad_index, index, f"a view's buffer index from 0 to below {len(nbytes)}")
    offset, buffer_nbytes = np.ascontiguousarray(views["offset"]), nbytes.take(index)
    outside = (offset < 0) | (offset.astype(np.int64) + views["size"] > buffer_nbytes)
    if outside.any():
        i = int(outside.argmax())
        actual = f"bytes {offset[i]} to {int(offset[i]) + int(views['size'][i])}"
        expected = f"a view in slot {slots[i]} within the {buffer_nbytes[i]} bytes of variadic buffer {index[i]}"
        raise body_error(path, expected, actual, _SPEC)


def _check_pointed_at(
    array: ArrayData, path: str, views: npt.NDArray[Any], buffers: list[Bytes], *, is_text: bool
) -> None:
    """Check prefixes and UTF-8 of long views, after `_check_bounds`."""
    valid = array_data.validity_mask(array)
    long = views["size"] > INLINE
    slots = np.flatnonzero(long if valid is None else long & valid)
    chosen = views if len(slots) == len(views) else views[slots]
    index, offset, size = (np.ascontiguousarray(chosen[name]) for name in ("index", "offset", "size"))
    prefix = np.ascontiguousarray(chosen["prefix"]).view(np.uint32)
    for start, stop in _groups([len(buffer) for buffer in buffers]):
        data, bases = _join_buffers(buffers[start:stop])
        if stop - start == len(buffers):
            group_slots, where = slots, bases.take(index) + offset
        else:
            mask = (index >= start) & (index < stop)
            group_slots, where = slots[mask], bases.take(index[mask] - start) + offset[mask]
        if not len(group_slots):
            continue
        everything = len(group_slots) == len(slots)
        # Windows of four bytes, one at each byte: a single gather reads the first four bytes of all values.
        windows = np.ndarray((len(data) - 3,), np.uint32, data, 0, (1,))
        differs = windows[where] != (prefix if everything else prefix[mask])
        if differs.any():
            expected = f"the value's first 4 bytes as the view's prefix in slot {group_slots[int(differs.argmax())]}"
            raise body_error(path, expected, "others", _SPEC)
        if is_text and not is_ascii(data):
            bad = _overlapping_failure(data, where, where + (size if everything else size[mask]))
            if bad is not None:
                raise body_error(path, f"UTF-8 text in slot {group_slots[bad]}", NOT_UTF8, _SPEC)


def _groups(nbytes: list[int]) -> Iterator[tuple[int, int]]:
    """Yield half-open ranges of buffers to check together: one, or several within a budget of bytes."""
    start = total = 0
    for number, buffer_nbytes in enumerate(nbytes):
        if number > start and total + buffer_nbytes > _JOINED_NBYTES:
            yield start, number
            start, total = number, 0
        total += buffer_nbytes
    yield start, len(nbytes)


def _join_buffers(buffers: list[Bytes]) -> tuple[Bytes, npt.NDArray[np.int64]]:
    """Return the bytes of several buffers and the start of each, with a zero byte between them."""
    # The zero ends a code point that a buffer cuts, so that the next buffer cannot complete it.
    if len(buffers) == 1:
        return buffers[0], np.zeros(1, np.int64)
    ends = np.cumsum([len(buffer) + 1 for buffer in buffers], dtype=np.int64)
    gap = np.zeros(1, np.uint8)
    return np.concatenate([part for buffer in buffers for part in (buffer, gap)]), np.append(0, ends[:-1])


def _overlapping_failure(data: Bytes, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> int | None:
    """Return the number of a range whose bytes are not UTF-8, or None; checks every byte at most once."""
    # Ranges that overlap are valid exactly when their union is valid and each begins and ends between code points.
    order = None  # already sorted, as writers write them
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


def _original(order: npt.NDArray[np.intp] | None, mask: Bools) -> int:
    """Return the number, before sorting, of the first range in a mask."""
    i = int(mask.argmax())
    return i if order is None else int(order[i])


def _union_failure(data: Bytes, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> int | None:
    """Return the position of a byte in disjoint ranges that is not UTF-8, or None."""
    total = np.concatenate([[0], np.cumsum(ends - starts)])
    start = 0
    while start < len(starts):
        stop = int(np.searchsorted(total, total[start] + CHUNK_NBYTES, "right")) - 1
        stop = max(stop, start + 1)
        # Any bytes between ranges are mostly UTF-8 too: then no bytes have to be gathered.
        span = data[int(starts[start]) : int(ends[stop - 1])]
        cuts = ends[start : stop - 1] - starts[start]
        if continues(span[cuts]).any() or invalid_utf8(span) is not None:
            where = total[start : stop + 1] - total[start]
            text = span
            if stop > start + 1:
                text = data[np.arange(int(where[-1])) + np.repeat(starts[start:stop] - where[:-1], np.diff(where))]
            bad = text_failure(text, where)
            if bad is not None:
                bad_text = text[int(where[bad]) : int(where[bad + 1])]
                return int(starts[start + bad]) + (invalid_utf8(bad_text) or 0)
        start = stop
    return None
