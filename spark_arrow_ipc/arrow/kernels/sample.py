"""Choose rows at random, when their number is known only at the end.

Strategy
--------
Each row gets a random number, and those with the least numbers are kept. The numbers follow from the seed and the
position of the row alone, so a sample does not depend on how rows are grouped into batches.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_AT_ONCE = 1 << 20
"""Rows that get their numbers together: 8 MiB."""


class RowSample:
    """A sample of rows without replacement, each row with the same chance. Memory: O(size).

    Parameters
    ----------
    size
        Rows to choose; all if there are no more.
    seed
        Any number from 0 on; None for another sample each time.
    """

    def __init__(self, size: int, seed: int | None = None) -> None:
        self._size = size
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._keys = np.zeros(0)
        self._rows = np.zeros(0, np.int64)
        self._count = 0

    def add(self, rows: int) -> None:
        """Count the next rows. O(rows)."""
        while rows:
            length = min(rows, _AT_ONCE)
            keys = self._random.random(length)
            most = self._keys.max() if self._size and len(self._keys) == self._size else np.inf
            chosen = np.flatnonzero(keys < most)
            self._keys = np.concatenate([self._keys, keys[chosen]])
            self._rows = np.concatenate([self._rows, chosen + self._count])
            if len(self._keys) > self._size:
                least = np.argsort(self._keys, kind="stable")[: self._size]
                self._keys, self._rows = self._keys[least], self._rows[least]
            self._count += length
            rows -= length

    def rows(self) -> npt.NDArray[np.int64]:
        """Return the positions of the chosen rows among all rows, rising."""
        return np.sort(self._rows)
