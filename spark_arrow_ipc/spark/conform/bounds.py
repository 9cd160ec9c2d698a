"""Bounds of how many bytes a batch has once it is decoded, by its buffers alone.

Strategy
--------
Whether a batch has to be cut is told exactly by `arrow.slicing`, at a few numpy calls a column and a look at each
slot of a dictionary-encoded one. Almost no batch has to be: so first its bytes are bounded from above by the sizes
of its buffers, and of dictionary-encoded columns by their longest value, which is looked for once a dictionary.
Types whose slots share bytes have no such bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.kernels.measure import measure

__all__ = ["compile_bound"]

Bound: TypeAlias = Callable[[Sequence[Array]], int]
"""From the columns of a batch to at least as many bytes as they have decoded."""

_OfArray: TypeAlias = Callable[[Array], int]

_SHARING: Final = (t.Utf8View, t.BinaryView, t.ListView, t.LargeListView, t.DenseUnion, t.RunEndEncoded)
"""Types whose slots may be the same bytes: their buffers say nothing of how many come out."""


def compile_bound(types: Sequence[t.DataType]) -> Bound | None:
    """Return the bound for columns of some types; None where one of them has none."""
    beyond = [(i, _beyond_own(type_)) for i, type_ in enumerate(types) if not _is_leaf(type_)]
    bounds = [(i, of_array) for i, of_array in beyond if of_array is not None]
    if len(bounds) < len(beyond):
        return None

    def bound(columns: Sequence[Array]) -> int:
        # One loop, for leaves are most of the columns of wide tables.
        own = sum([len(buffer) for column in columns for buffer in column.buffers if buffer])
        return own + sum(of_array(columns[i]) for i, of_array in bounds)

    return bound


def _is_leaf(type_: t.DataType) -> bool:
    """Return whether arrays of a type are their own buffers and nothing else."""
    return not type_.children and not isinstance(type_, (t.Dictionary, *_SHARING))


def _beyond_own(type_: t.DataType) -> _OfArray | None:
    """Return the bound of what an array of a type has beyond its own buffers, or None where there is none."""
    if isinstance(type_, _SHARING):
        return None
    if isinstance(type_, t.Dictionary):
        return _LongestValue().bound
    below = compile_bound([field.type for field in type_.children])
    return None if below is None else lambda array: below(array.children)


class _LongestValue:
    """Remembers the bytes of the longest value of one dictionary: most often it is that of all batches of a file."""

    def __init__(self) -> None:
        self._last: tuple[Array, int] | None = None

    def bound(self, array: Array) -> int:
        """Return as many bytes as the slots would have if each were of the longest value."""
        dictionary = array.dictionary
        assert dictionary is not None
        if self._last is None or self._last[0] is not dictionary:
            values = np.arange(dictionary.length)
            nbytes = measure(dictionary, decoded=True)(values, values + 1)
            self._last = (dictionary, int(nbytes.max(initial=0)))
        return array.length * self._last[1]
