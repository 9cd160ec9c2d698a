"""Whether text is UTF-8, and the chunked search for the first bad slot that all value checks share.

Strategy
--------
ASCII is proven by one maximum over the bytes. Only where that fails are bytes decoded, whole regions at a time
by Python's strict decoder, and code points proven not to be torn apart by slot boundaries. Bytes under null
slots are undefined (Columnar.rst), so a region that fails is looked at once more with those zeroed.

Everything runs in chunks, so that temporary memory does not grow with the array, and slot numbers in errors
count from the array's own first slot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import bitmap, numpy_values
from spark_arrow_ipc.errors import InvalidBodyError

if TYPE_CHECKING:
    from spark_arrow_ipc.arrow.array import Array

__all__ = [
    "NOT_UTF8",
    "body_error",
    "check_text",
    "continues",
    "first_failure",
    "invalid_utf8",
    "is_ascii",
    "valid_slots",
]

Bytes: TypeAlias = npt.NDArray[np.uint8]
Bools: TypeAlias = npt.NDArray[np.bool_]

CHUNK_SLOTS = 1 << 16
"""Slots looked at together: their temporaries stay in the processor's cache."""

CHUNK_NBYTES = 1 << 20
"""Bytes of text decoded together."""

BINARY_SPEC = 'Columnar.rst "Variable-size Binary Layout"'
NOT_UTF8 = "bytes that are not UTF-8"


def body_error(path: str, expected: str, found: str, spec: str) -> InvalidBodyError:
    """Return the error of a broken value."""
    return InvalidBodyError(expected=expected, found=found, field_path=path, spec=spec)


def valid_slots(array: Array, first: int, behind: int) -> Bools | None:
    """Return which of the slots `first` to `behind` are valid, or None where the array has no nulls."""
    validity = array.validity
    if validity is None or array.null_count == 0:
        return None
    return bitmap.unpack(validity, array.offset + first, behind - first)


def first_failure(length: int, test: Callable[[int, int], Bools], *, skip_nulls_of: Array | None = None) -> int | None:
    """Return the first slot that fails `test`, or None. Runs in chunks.

    Parameters
    ----------
    length
        Slots to test.
    test
        From a half-open range of slots to which of them pass.
    skip_nulls_of
        An array whose null slots pass whatever they hold.
    """
    for first in range(0, length, CHUNK_SLOTS):
        behind = min(first + CHUNK_SLOTS, length)
        passes = test(first, behind)
        if passes.all():
            continue
        valid = None if skip_nulls_of is None else valid_slots(skip_nulls_of, first, behind)
        if valid is not None:
            passes = passes | ~valid
            if passes.all():
                continue
        return first + int(passes.argmin())
    return None


def is_ascii(data: Bytes) -> bool:
    """Return whether every byte is below 128. O(bytes), at memory speed."""
    return all(
        int(data[i : i + CHUNK_NBYTES].max()) < 0x80  # in chunks, to stop early
        for i in range(0, len(data), CHUNK_NBYTES)
    )


def continues(data: npt.NDArray[Any]) -> Bools:
    """Return which bytes continue a UTF-8 code point (``10xxxxxx``)."""
    found: Bools = (data & 0xC0) == 0x80
    return found


def invalid_utf8(data: Bytes) -> int | None:
    """Return the position of the first byte that is not part of valid UTF-8, or None."""
    first = 0
    while first < len(data):
        behind = min(first + CHUNK_NBYTES, len(data))
        if int(data[first:behind].max()) >= 0x80:
            behind = _code_point_start(data, first, behind)
            try:
                str(data[first:behind].data, "utf-8")
            except UnicodeDecodeError as error:
                return first + error.start
        first = behind
    return None


def _code_point_start(data: Bytes, first: int, behind: int) -> int:
    """Return the last place not behind `behind` where the text may be cut without tearing a code point."""
    if behind == len(data):
        return behind
    for cut in range(behind, max(first, behind - 4), -1):
        if data[cut] & 0xC0 != 0x80:
            return cut
    return behind  # five continuation bytes: invalid wherever it is cut


def check_text(array: Array, path: str) -> None:
    """Check that the valid slots of text with value offsets are UTF-8. The value offsets are proven sound.

    Raises
    ------
    InvalidBodyError
        With the first slot that is not.
    """
    offsets = numpy_values.value_offsets(array)
    data = np.frombuffer(array.buffers[2] or b"", np.uint8)
    if is_ascii(data[int(offsets[0]) : int(offsets[-1])]):
        return
    first = 0
    while first < array.length:
        # In the offsets' own type: numpy would widen all of them for each search.
        reach = offsets.dtype.type(min(int(offsets[first]) + CHUNK_NBYTES, int(offsets[-1])))
        behind = int(np.searchsorted(offsets, reach, "right")) - 1
        behind = min(max(behind, first + 1), array.length)
        slot = _chunk_failure(array, data, offsets, first, behind)
        if slot is not None:
            raise body_error(path, f"UTF-8 text in slot {slot}", NOT_UTF8, BINARY_SPEC)
        first = behind


def _chunk_failure(array: Array, data: Bytes, offsets: npt.NDArray[Any], first: int, behind: int) -> int | None:
    starts = offsets[first : behind + 1] - offsets[first]
    text = data[int(offsets[first]) : int(offsets[behind])]
    slot = text_failure(text, starts)
    if slot is None:
        return None
    valid = valid_slots(array, first, behind)
    if valid is not None:
        slot = text_failure(text * np.repeat(valid, np.diff(starts)), starts)
    return None if slot is None else first + slot


def text_failure(text: Bytes, starts: npt.NDArray[Any]) -> int | None:
    """Return the first slot whose bytes are not UTF-8 by themselves, or None.

    Parameters
    ----------
    text
        The bytes of all slots, one behind the other.
    starts
        Where each slot starts, and the end of the last: shape ``(slots + 1,)``, from 0 to ``len(text)``.
    """
    bad_byte = invalid_utf8(text)
    inner = starts[: np.searchsorted(starts[:-1], starts[-1], "left")]  # those that have a first byte
    torn = continues(text[inner])
    slots = []
    if bad_byte is not None:
        slots.append(int(np.searchsorted(starts, bad_byte, "right")) - 1)
    if torn.any():
        # The slot that starts in the middle of a code point; an empty one starts nothing, its neighbour does.
        slots.append(int(np.searchsorted(starts, inner[int(torn.argmax())], "right")) - 1)
    return min(slots, default=None)
