"""Check strings for UTF-8, and search for the first bad slot in chunks.

Strategy
--------
Bytes are checked to be UTF-8 a whole region at a time (`validate.utf8`), and slots to begin and end between code
points. Bytes under null slots are undefined (Columnar.rst), so a region that fails is checked again with those
zeroed.

All checks run in chunks, so that temporary memory does not grow with the array. Slot numbers in errors count from
the first slot of the array, also of a slice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import numpy_views
from spark_arrow_ipc.arrow.array_data import ArrayData
from spark_arrow_ipc.arrow.validate.utf8 import (
    CHUNK_NBYTES,
    Bools,
    Bytes,
    any_continues,
    continues,
    invalid_utf8,
    is_ascii,
)
from spark_arrow_ipc.errors import InvalidBodyError

CHUNK_SLOTS = 1 << 16
"""Slots checked at once: their temporaries stay in the cache of the processor."""

BINARY_SPEC = 'Columnar.rst "Variable-size Binary Layout"'
NOT_UTF8 = "bytes that are not UTF-8"


def body_error(path: str, expected: str, found: str, spec: str) -> InvalidBodyError:
    """Return the error for a broken value."""
    return InvalidBodyError(expected=expected, found=found, field_path=path, spec=spec)


def first_failure(
    length: int, test: Callable[[int, int], Bools], *, skip_nulls_of: ArrayData | None = None
) -> int | None:
    """Return the first slot that fails `test`, or None. Runs in chunks.

    Parameters
    ----------
    length
        Slots to test.
    test
        From a half-open range of slots to True for each one that passes.
    skip_nulls_of
        An array whose null slots always pass.
    """
    for start in range(0, length, CHUNK_SLOTS):
        stop = min(start + CHUNK_SLOTS, length)
        passes = test(start, stop)
        if 0 not in passes.tobytes():  # for so few, faster than `all`
            continue
        valid = None if skip_nulls_of is None else numpy_views.validity_mask(skip_nulls_of, start, stop)
        if valid is not None:
            passes = passes | ~valid
            if passes.all():
                continue
        return start + int(passes.argmin())
    return None


def check_text(array: ArrayData, path: str) -> None:
    """Check that the valid slots of strings with value offsets are UTF-8. The value offsets are sound.

    Raises
    ------
    InvalidBodyError
        With the first slot that is not UTF-8.
    """
    offsets = numpy_views.value_offsets(array)
    data = numpy_views.value_bytes(array)
    if is_ascii(data[int(offsets[0]) : int(offsets[-1])]):
        return
    start = 0
    while start < array.length:
        # In the type of the offsets: otherwise numpy widens all of them for each search.
        reach = offsets.dtype.type(min(int(offsets[start]) + CHUNK_NBYTES, int(offsets[-1])))
        stop = int(np.searchsorted(offsets, reach, "right")) - 1
        stop = min(max(stop, start + 1), array.length)
        slot = _chunk_failure(array, data, offsets, start, stop)
        if slot is not None:
            raise body_error(path, f"UTF-8 text in slot {slot}", NOT_UTF8, BINARY_SPEC)
        start = stop


def _chunk_failure(array: ArrayData, data: Bytes, offsets: npt.NDArray[Any], start: int, stop: int) -> int | None:
    starts = offsets[start : stop + 1] - offsets[start]
    text = data[int(offsets[start]) : int(offsets[stop])]
    slot = text_failure(text, starts)
    if slot is None:
        return None
    valid = numpy_views.validity_mask(array, start, stop)
    if valid is not None:
        slot = text_failure(text * np.repeat(valid, np.diff(starts)), starts)
    return None if slot is None else start + slot


def text_failure(text: Bytes, starts: npt.NDArray[Any]) -> int | None:
    """Return the first slot with a wrong byte, or with the end of a torn code point, or None.

    Parameters
    ----------
    text
        The bytes of all slots, one after another.
    starts
        The start of each slot, and the end of the last: shape ``(slots + 1,)``, from 0 to ``len(text)``.
    """
    bad_byte = invalid_utf8(text)
    inner = starts[: np.searchsorted(starts[:-1], starts[-1], "left")]  # those that have a first byte
    first_bytes = text.take(inner)
    slots = []
    if bad_byte is not None:
        slots.append(int(np.searchsorted(starts, bad_byte, "right")) - 1)
    if any_continues(first_bytes):
        # The slot that starts inside a code point: not an empty one, but the one after it.
        torn = inner[int(continues(first_bytes).argmax())]
        slots.append(int(np.searchsorted(starts, torn, "right")) - 1)
    return min(slots, default=None)
