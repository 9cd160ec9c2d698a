"""Whether bytes are UTF-8, at a few operations a byte whatever the language.

Strategy
--------
ASCII is proven by one maximum over the bytes, and text that is almost ASCII by Python's strict decoder, which goes
over ASCII in words. All other text is proven a chunk at a time by numpy, with no branch a character (Unicode, table
3-7): the bytes that continue a code point are those that some byte before them asks for, and no code point is longer
than it needs to be, a surrogate, or above U+10FFFF. The decoder would follow each character, which costs twice as
much where all are alike, and up to ten times where they are not.

Where that proof fails the decoder has the last word: it says which byte is wrong.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["CHUNK_NBYTES", "Bools", "Bytes", "any_continues", "continues", "invalid_utf8", "is_ascii"]

Bytes: TypeAlias = npt.NDArray[np.uint8]
Bools: TypeAlias = npt.NDArray[np.bool_]

CHUNK_NBYTES: Final = 1 << 20
"""Bytes of text looked at together."""

_PROVEN_NBYTES: Final = 1 << 18
"""Bytes proven together: with what is computed of them they stay in the processor's cache (measured)."""

_DECODED_NBYTES: Final = 1 << 13
"""Of fewer bytes the decoder is the faster proof."""

_SAMPLED: Final = 509
"""Of so many bytes one tells whether text is almost ASCII: from about one in 200 on, the decoder is the slower proof."""

_CONTINUES_BELOW: Final = -0x40
"""Bytes that continue a code point (``10xxxxxx``), as signed numbers, are those below this."""

_TWO, _THREE, _FOUR, _LAST = 0xC0, 0xE0, 0xF0, 0xF4
"""First bytes of the code points of two, three and four bytes, and the last that may begin one."""

_TOO_SHORT = (b"\xc0", b"\xc1")
"""What would begin two bytes for ASCII."""

_SECOND_BYTES = ((0xE0, 0xA0, 0xFF), (0xED, 0x00, 0x9F), (0xF0, 0x90, 0xFF), (0xF4, 0x00, 0x8F))
"""First bytes of which not every continuation is well-formed: the first byte, the least and greatest second one."""


def is_ascii(data: Bytes) -> bool:
    """Return whether every byte is below 128. O(bytes), at memory speed."""
    return all(
        _greatest(data[i : i + _PROVEN_NBYTES]) < 0x80  # in chunks, to stop early
        for i in range(0, len(data), _PROVEN_NBYTES)
    )


def _greatest(data: Bytes) -> int:
    # The ufunc itself: `ndarray.max` is a function of Python around it.
    return int(np.maximum.reduce(data))


def continues(data: npt.NDArray[Any]) -> Bools:
    """Return which bytes continue a UTF-8 code point (``10xxxxxx``)."""
    continuing: Bools = data.view(np.int8) < _CONTINUES_BELOW
    return continuing


def any_continues(data: Bytes) -> bool:
    """Return whether a byte continues a code point."""
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
    """Return the last place not behind `behind` where the text may be cut without tearing a code point."""
    if stop == len(data):
        return stop
    for cut in range(stop, max(start, stop - 4), -1):
        if data[cut] & 0xC0 != 0x80:
            return cut
    return stop  # five continuation bytes: invalid wherever it is cut


class _Proof:
    """Proves chunks to be UTF-8, in memory that is used again for each. What it leaves unproven may still be."""

    def __init__(self, most_nbytes: int) -> None:
        self._scratch = np.empty((3, most_nbytes), np.bool_)

    def holds(self, chunk: Bytes) -> bool:
        """Return whether a chunk, of one byte at least, is proven to be UTF-8 by itself."""
        greatest = _greatest(chunk)
        if greatest < 0x80:
            return True
        if greatest > _LAST or len(chunk) < _DECODED_NBYTES or _greatest(chunk[::_SAMPLED]) < 0x80:
            return False
        # In a copy a byte is found several times faster than by comparing all.
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
        """Return whether exactly those bytes continue a code point that bytes before them ask for."""
        asks, longer, found = self._scratch[:, : len(chunk)]
        # asks[i]: byte i, or one before it, needs byte i + 1 to continue it. The last byte must not.
        np.greater_equal(chunk, _TWO, out=asks)
        for lead, before in ((_THREE, 1), (_FOUR, 2)):
            if greatest >= lead:
                np.greater_equal(chunk, lead, out=longer)
                np.logical_or(asks[before:], longer[:-before], out=asks[before:])
        np.less(chunk.view(np.int8), _CONTINUES_BELOW, out=found)
        return not (asks[-1] or found[0]) and asks[:-1].tobytes() == found[1:].tobytes()

    def _is_within(self, chunk: Bytes, lead: int, least: int, most: int) -> bool:
        """Return whether the second byte of each code point that begins with `lead` is within bounds."""
        begins, outside, _ = self._scratch[:, : len(chunk)]
        np.equal(chunk, lead, out=begins)
        (np.less if least else np.greater)(chunk, least or most, out=outside)
        return not np.logical_and(begins[:-1], outside[1:], out=begins[:-1]).any()
