"""Check buffers of many columns at once, where all lie in one memory.

Strategy
--------
A batch of a thousand columns has two or three thousand buffers, and a call of numpy for each costs more than the work
on their bytes. The columns of a batch have the same number of slots, so buffers of one role have the same length: their
slots are a table, one row a column, that one call gathers or, where the buffers lie at equal distances, views in place.

Nothing is named here: each function returns an answer for each column, and the caller has `validate.arrays` find out what
is wrong with a column that fails. Starts must be multiples of 8 and the slots lie inside the memory: the caller has
checked both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow.validate.text import Bools, Bytes

Int64s: TypeAlias = npt.NDArray[np.int64]

_AT_ONCE: Final = 1 << 15
"""Items of a table: with their positions they stay in the cache of the processor."""

_FEW_SLOTS: Final = 256
"""Up to this many slots a gather of value offsets is faster than a call for each column (measured)."""


def count_set(memory: Bytes, starts: Int64s, length: int) -> Int64s:
    """Return the number of set bits among the first `length` bits of each of many bitmaps. O(bits / 64).

    Parameters
    ----------
    memory
        Holds all bitmaps.
    starts
        The first byte of each: multiples of 8.
    length
        Bits of each; those after them may be anything.
    """
    counts = np.zeros(len(starts), np.int64)
    words, rest = divmod(length, 64)
    whole = memory[: len(memory) & ~7].view("<u8")
    firsts = starts >> 3
    if words:
        for rows, bits in _tables(whole, firsts, words):
            counts[rows] = np.add.reduce(np.bitwise_count(bits), axis=1, dtype=np.uint32)
    if rest:
        last = firsts + words
        tails = whole.take(last, mode="clip") if len(whole) else np.zeros(len(last), "<u8")
        if len(memory) & 7:
            # The memory ends inside of a word, which may be somebody's last one.
            end = memory[len(whole) * 8 :].tobytes().ljust(8, b"\0")
            tails[last == len(whole)] = int.from_bytes(end, "little")
        counts += np.bitwise_count(tails & np.uint64((1 << rest) - 1))
    return counts


def are_sound_offsets(memory: Bytes, starts: Int64s, length: int, ends: Int64s, dtype: npt.DTypeLike) -> Bools:
    """Return for each of many columns whether its value offsets rise from 0 on, or more, to its end at most.

    Parameters
    ----------
    memory
        Holds the value offsets of all columns.
    starts
        The first byte of the value offsets of each: multiples of 8.
    length
        Slots of each column, at least one.
    ends
        The bytes that the value offsets of each point into.
    dtype
        That of the value offsets.
    """
    dtype = np.dtype(dtype)
    offsets = memory[: len(memory) // dtype.itemsize * dtype.itemsize].view(dtype)
    firsts = starts // dtype.itemsize
    sound: Bools = (offsets[firsts] >= 0) & (offsets[firsts + length] <= ends)
    if length <= _FEW_SLOTS:
        for rows, table in _tables(offsets, firsts, length + 1):
            sound[rows] &= ~np.logical_or.reduce(table[:, 1:] < table[:, :-1], axis=1)
        return sound
    falls = np.empty(length, np.bool_)
    for i, first in enumerate(firsts.tolist()):
        np.less(offsets[first + 1 : first + length + 1], offsets[first : first + length], out=falls)
        if 1 in falls.tobytes():  # the fastest of all ways to find one
            sound[i] = False
    return sound


def are_ascii(memory: Bytes, starts: Int64s, stops: Int64s) -> Bools:
    """Return for each of many half-open ranges of bytes whether every byte is below 128. O(bytes), at memory speed."""
    ascii_only = np.ones(len(starts), np.bool_)
    # The last byte of the memory is its own segment: `reduceat` knows no segment that ends there.
    for i in (stops == len(memory)).nonzero()[0].tolist():
        ascii_only[i] = starts[i] == stops[i] or np.maximum.reduce(memory[starts[i] :]) < 0x80
    (some,) = ((starts < stops) & (stops < len(memory))).nonzero()
    if len(some):
        # From the last range to the first: the segment from the end of one to the start of the next is then
        # one byte, and not all that lies between them.
        some = some[(-starts[some]).argsort()]
        edges = np.empty((len(some), 2), np.int64)
        edges[:, 0], edges[:, 1] = starts[some], stops[some]
        ascii_only[some] = np.maximum.reduceat(memory, edges.ravel())[::2] < 0x80
    return ascii_only


def _tables(items: npt.NDArray[Any], firsts: Int64s, width: int) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
    """Yield the `width` items from each position on, one row a position, for some positions at a time."""
    stride = int(firsts[1] - firsts[0]) if len(firsts) > 1 else width
    is_regular = len(firsts) > 0 and stride >= 0 and bool((firsts[1:] - firsts[:-1] == stride).all())
    columns = np.arange(0 if is_regular else width)
    some = max(1, _AT_ONCE // width)
    for start in range(0, len(firsts), some):
        rows = slice(start, start + some)
        if is_regular:
            shape, strides = (min(some, len(firsts) - start), width), (stride * items.itemsize, items.itemsize)
            offset = int(firsts[start]) * items.itemsize
            yield rows, np.ndarray(shape, items.dtype, items.data, offset, strides)
        elif items.flags.aligned:
            yield rows, items.take(firsts[rows, None] + columns)
        else:
            yield rows, items[firsts[rows, None] + columns]  # `take` would first copy all items to an aligned place
