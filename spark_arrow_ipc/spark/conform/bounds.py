"""Upper bounds of the decoded size of a batch, by its buffers alone.

Strategy
--------
`arrow.kernels.measure` says exactly whether a batch has to be cut, but costs a few numpy calls a column and reads
each index of a dictionary-encoded one. Almost no batch has to be cut, so a cheap upper bound comes first: the sizes
of its buffers, and for dictionary-encoded columns their longest value, which is computed once a dictionary.
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
"""Takes the columns of a batch; returns an upper bound of their decoded bytes."""

_OfArray: TypeAlias = Callable[[Array], int]

_SHARING: Final = (t.Utf8View, t.BinaryView, t.ListView, t.LargeListView, t.DenseUnion, t.RunEndEncoded)
"""Types whose slots may share bytes, so that the decoded size may exceed their buffers."""


def compile_bound(types: Sequence[t.DataType]) -> Bound | None:
    """Compile the bound for columns of these types, or None if one of them has none."""
    beyond = [(i, _beyond_own(type_)) for i, type_ in enumerate(types) if not _is_leaf(type_)]
    bounds = [(i, of_array) for i, of_array in beyond if of_array is not None]
    if len(bounds) < len(beyond):
        return None

    def bound(columns: Sequence[Array]) -> int:
        # One loop for the own buffers of all columns: most columns of wide tables are leaves and need no call.
        own = sum([len(buffer) for column in columns for buffer in column.buffers if buffer])
        return own + sum(of_array(columns[i]) for i, of_array in bounds)

    return bound


def _is_leaf(type_: t.DataType) -> bool:
    """Return True if arrays of a type have neither children nor a dictionary."""
    return not type_.children and not isinstance(type_, (t.Dictionary, *_SHARING))


def _beyond_own(type_: t.DataType) -> _OfArray | None:
    """Compile the bound of an array's children or dictionary, or None if it has no bound."""
    if isinstance(type_, _SHARING):
        return None
    if isinstance(type_, t.Dictionary):
        return _LongestValue().bound
    below = compile_bound([field.type for field in type_.children])
    return None if below is None else lambda array: below(array.children)


class _LongestValue:
    """Caches the size of the longest value of one dictionary.

    Most files have the same dictionary for all batches.
    """

    def __init__(self) -> None:
        self._last: tuple[Array, int] | None = None

    def bound(self, array: Array) -> int:
        """Return the decoded bytes if every slot had the longest value."""
        dictionary = array.dictionary
        assert dictionary is not None
        if self._last is None or self._last[0] is not dictionary:
            values = np.arange(dictionary.length)
            nbytes = measure(dictionary, decoded=True)(values, values + 1)
            self._last = (dictionary, int(nbytes.max(initial=0)))
        return array.length * self._last[1]
