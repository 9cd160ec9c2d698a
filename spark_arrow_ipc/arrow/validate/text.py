"""Check strings for UTF-8, and search for the first bad slot in chunks.

How it works
------------
A region of many strings is checked for UTF-8 at once (`invalid_utf8`); then slots have to begin and end between code
points. Bytes under null slots are undefined (Columnar.rst), so a region that fails is checked again with these bytes
zeroed.

All checks run in chunks, so that temporary memory does not grow with the array. Slot numbers in errors count from
the first slot of the array, also of a slice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow.array_data import ArrayData
from spark_arrow_ipc.errors import InvalidBodyError

Bytes: TypeAlias = npt.NDArray[np.uint8]
Bools: TypeAlias = npt.NDArray[np.bool_]

CHUNK_NBYTES: Final = 1 << 20
"""Bytes of text checked at once."""

# Bytes proven at once: with their temporaries they stay in the cache of the processor (measured)
_PROVEN_NBYTES: Final = 1 << 18

_DECODED_NBYTES: Final = 1 << 13  # below this many bytes the decoder is faster

# One byte in this many is sampled for ASCII; with more than about one other byte in 200 the decoder is slower
_SAMPLED: Final = 509

# As signed numbers, exactly the bytes that continue a code point (``10xxxxxx``) are below this
_CONTINUES_BELOW: Final = -0x40

# The least first byte of code points of two, three and four bytes, and the greatest of all
_TWO, _THREE, _FOUR, _LAST = 0xC0, 0xE0, 0xF0, 0xF4

_TOO_SHORT = (b"\xc0", b"\xc1")  # first bytes of two that would encode ASCII, which is not well-formed

# First bytes that limit their second byte: the first byte, the least and the greatest second one
_SECOND_BYTES = ((0xE0, 0xA0, 0xFF), (0xED, 0x00, 0x9F), (0xF0, 0x90, 0xFF), (0xF4, 0x00, 0x8F))


def is_ascii(data: Bytes) -> bool:
    """Return True if every byte is below 128. O(bytes), at memory speed."""
    return all(
        _greatest(data[i : i + _PROVEN_NBYTES]) < 0x80  # in chunks, to stop early
        for i in range(0, len(data), _PROVEN_NBYTES)
    )


def _greatest(data: Bytes) -> int:
    # The ufunc itself: `ndarray.max` is a Python function around it.
    return int(np.maximum.reduce(data))


def continues(data: npt.NDArray[Any]) -> Bools:
    """Return True for each byte that continues a UTF-8 code point (``10xxxxxx``)."""
    continuing: Bools = data.view(np.int8) < _CONTINUES_BELOW
    return continuing


def any_continues(data: Bytes) -> bool:
    """Return True if any byte continues a code point."""
    return bool(len(data)) and int(data.view(np.int8).min()) < _CONTINUES_BELOW


def invalid_utf8(data: Bytes) -> int | None:
    """Return the position of the first byte that is not part of valid UTF-8, or None. O(bytes)."""
    proof = _Proof(min(len(data), _PROVEN_NBYTES))
    start = 0
    while start < len(data):
        stop = _code_point_start(data, start, min(start + _PROVEN_NBYTES, len(data)))
        chunk = data[start:stop]
        if not proof.holds(chunk):
            try:
                str(chunk.data, "utf-8")
            except UnicodeDecodeError as error:
                return start + error.start
        start = stop
    return None


def _code_point_start(data: Bytes, start: int, stop: int) -> int:
    """Return the last position up to `stop` where a code point begins."""
    if stop == len(data):
        return stop
    for cut in range(stop, max(start, stop - 4), -1):
        if data[cut] & 0xC0 != 0x80:
            return cut
    return stop  # continuation bytes only: invalid wherever they are cut


class _Proof:
    """Proves that chunks are UTF-8, reusing its memory; a chunk without a proof may still be UTF-8."""

    def __init__(self, most_nbytes: int) -> None:
        self._scratch = np.empty((3, most_nbytes), np.bool_)

    def holds(self, chunk: Bytes) -> bool:
        """Return True if a chunk of at least one byte is proven to be UTF-8."""
        greatest = _greatest(chunk)
        if greatest < 0x80:
            return True
        if greatest > _LAST or len(chunk) < _DECODED_NBYTES or _greatest(chunk[::_SAMPLED]) < 0x80:
            return False
        # `in` finds a byte in a bytes object several times faster than numpy compares all.
        raw = chunk.tobytes()
        return (
            not any(lead in raw for lead in _TOO_SHORT)
            and self._is_complete(chunk, greatest)
            and all(
                self._is_within(chunk, lead, least, most)
                for lead, least, most in _SECOND_BYTES
                if lead <= greatest and lead in raw
            )
        )

    def _is_complete(self, chunk: Bytes, greatest: int) -> bool:
        """Return True if exactly the required bytes continue a code point."""
        required, longer, actual = self._scratch[:, : len(chunk)]
        # required[i]: byte i, or one before it, requires byte i + 1 to continue it. The last byte must require none.
        np.greater_equal(chunk, _TWO, out=required)
        for lead, before in ((_THREE, 1), (_FOUR, 2)):
            if greatest >= lead:
                np.greater_equal(chunk, lead, out=longer)
                np.logical_or(required[before:], longer[:-before], out=required[before:])
        np.less(chunk.view(np.int8), _CONTINUES_BELOW, out=actual)
        return not (required[-1] or actual[0]) and required[:-1].tobytes() == actual[1:].tobytes()

    def _is_within(self, chunk: Bytes, lead: int, least: int, most: int) -> bool:
        """Return True if the second byte of each code point with the first byte `lead` is within bounds."""
        begins, outside, _ = self._scratch[:, : len(chunk)]
        np.equal(chunk, lead, out=begins)
        (np.less if least else np.greater)(chunk, least or most, out=outside)
        return not np.logical_and(begins[:-1], outside[1:], out=begins[:-1]).any()


CHUNK_SLOTS = 1 << 16
"""Slots checked at once: their temporaries stay in the cache of the processor."""

BINARY_SPEC = 'Columnar.rst "Variable-size Binary Layout"'
NOT_UTF8 = "bytes that are not UTF-8"


def body_error(path: str, expected: str, actual: str, spec: str) -> InvalidBodyError:
    """Return the error for a broken value."""
    return InvalidBodyError(expected=expected, found=actual, field_path=path, spec=spec)


def first_failure(
    length: int, test: Callable[[int, int], Bools], *, skip_nulls_of: ArrayData | None = None
) -> int | None:
    """Return the first slot that fails `test`, a function of half-open ranges, or None; null slots may be skipped."""
    # In chunks, so that the temporaries of a test do not grow with the array.
    for start in range(0, length, CHUNK_SLOTS):
        stop = min(start + CHUNK_SLOTS, length)
        passes = test(start, stop)
        if 0 not in passes.tobytes():  # for so few, faster than `all`
            continue
        valid = None if skip_nulls_of is None else array_data.validity_mask(skip_nulls_of, start, stop)
        if valid is not None:
            passes = passes | ~valid
            if passes.all():
                continue
        return start + int(passes.argmin())
    return None


def check_text(array: ArrayData, path: str) -> None:
    """Raise InvalidBodyError with the first valid slot of strings with sound value offsets that is not UTF-8."""
    offsets = array_data.value_offsets(array)
    data = array_data.value_bytes(array)
    if is_ascii(data[int(offsets[0]) : int(offsets[-1])]):
        return
    start = 0
    while start < array.length:
        # In the type of the offsets: otherwise numpy widens all offsets for each search.
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
    valid = array_data.validity_mask(array, start, stop)
    if valid is not None:
        slot = text_failure(text * np.repeat(valid, np.diff(starts)), starts)
    return None if slot is None else start + slot


def text_failure(text: Bytes, starts: npt.NDArray[Any]) -> int | None:
    """Return the first slot with a wrong byte, or with the end of a torn code point, or None.

    `text` has the bytes of all slots, one after another; `starts` the start of each, and the end of the last: shape
    ``(slots + 1,)``, from 0 to ``len(text)``.
    """
    bad_byte = invalid_utf8(text)
    inner = starts[: np.searchsorted(starts[:-1], starts[-1], "left")]  # without empty slots at the end
    first_bytes = text.take(inner)
    slots = []
    if bad_byte is not None:
        slots.append(int(np.searchsorted(starts, bad_byte, "right")) - 1)
    if any_continues(first_bytes):
        # The slot that starts inside a code point: not an empty one, but the one after it.
        torn = inner[int(continues(first_bytes).argmax())]
        slots.append(int(np.searchsorted(starts, torn, "right")) - 1)
    return min(slots, default=None)
