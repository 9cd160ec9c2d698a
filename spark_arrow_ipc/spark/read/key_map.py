"""`key_map`: a bit for each whole number between the least and the greatest key, so that a row costs one look.

pyarrow's `is_in` makes a hash table for each batch and takes 8 to 200 ns a row, for many keys most. A map is made once for a
predicate, and takes 3 to 7 while it fits into the caches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_arrow_ipc.spark import bridge

_MOST_BITS: Final = 1 << 27
"""Of a map, which then has 16 MiB."""
_FEW_BITS: Final = 1 << 20
"""Of a map that stays in the caches of a core."""
_MOST_BITS_A_KEY: Final = 1 << 13
"""Few keys far apart are found faster in pyarrow's hash table: 2 keys at the ends of a map of 16 MiB take 33 ns a row, and 11."""


def key_map(keys: Sequence[Any], type_: pa.DataType) -> Callable[[pa.Array], pa.Array] | None:
    """Return a function that looks up the values of an array, whatever they are for nulls; None without a map of these keys.

    `keys` are sorted, each once, and values of the type.
    """
    is_whole = pa.types.is_signed_integer(type_) or pa.types.is_date32(type_)
    if not is_whole or not keys:
        return None
    size = keys[-1] - keys[0] + 1
    if size > min(_MOST_BITS, max(_FEW_BITS, len(keys) * _MOST_BITS_A_KEY)):
        return None
    bits = _bits(np.array(keys, np.int64) - keys[0], size)
    # 32 bits hold every number of bits, and types of fewer have few values.
    narrow = np.dtype(f"i{type_.bit_width // 8}")
    wide = np.dtype(f"i{max(4, narrow.itemsize)}")
    first = wide.type(keys[0])

    def look_up(array: pa.Array) -> pa.Array:
        values = bridge.view_values(array, narrow)
        # Differences wrap, so that a value below the first key is beyond the last one: there the bit is 0.
        positions = (values.astype(wide, copy=False) - first).view(f"u{wide.itemsize}")
        return bits.take(bridge.numbers(np.minimum(positions, size)))

    return look_up


def _bits(positions: np.ndarray[tuple[int], np.dtype[np.int64]], size: int) -> pa.Array:
    """Return booleans, true at the positions, and one more that is false."""
    numbers = positions >> 3
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    packed = np.zeros(size // 8 + 1, np.uint8)
    packed[numbers[starts]] = np.bitwise_or.reduceat(np.left_shift(1, positions & 7).astype(np.uint8), starts)
    return pa.Array.from_buffers(pa.bool_(), size + 1, [None, pa.py_buffer(packed)])
