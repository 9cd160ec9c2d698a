"""Upper bounds of the decoded size of a batch, by its buffers alone.

Strategy
--------
`arrow.measure` says exactly whether a batch has to be cut, but costs a few numpy calls a column and reads
each index of a dictionary-encoded one. Almost no batch has to be cut, so a cheap upper bound comes first: the sizes
of its buffers, and for dictionary-encoded columns their longest value, which is computed once a dictionary.
Types whose slots share bytes, or have none, have no such bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.layout import Family, by_type
from spark_arrow_ipc.arrow.measure import MOST, measure

Bound: TypeAlias = Callable[[Sequence[Array]], int]
"""Takes the columns of a batch; returns an upper bound of their decoded bytes."""

_MOST_VALUES: Final = 1 << 22
"""A dictionary of more values is not measured whole: that takes dozens of bytes for each."""

_OfArray: TypeAlias = Callable[[Array], int]


def compile_bound(types: Sequence[t.DataType]) -> Bound | None:
    """Compile the bound for columns of these types, or None if one of them has none."""
    free = [i for i, type_ in enumerate(types) if _is_leaf(type_) and _hides_slots(type_)]
    beyond = [(i, _beyond_own(type_)) for i, type_ in enumerate(types) if not _is_leaf(type_)]
    bounds = [(i, of_array) for i, of_array in beyond if of_array is not None]
    if len(bounds) < len(beyond):
        return None

    def bound(columns: Sequence[Array]) -> int:
        # One loop for the own buffers of all columns: most columns of wide tables are leaves and need no call.
        own = sum([len(buffer) for column in columns for buffer in column.buffers if buffer])
        if free:
            own += _SLOT_NBYTES * sum(columns[i].length for i in free)
        return own + sum(of_array(columns[i]) for i, of_array in bounds)

    return bound


_WITH_BYTES_ELSEWHERE: Final = (t.Dictionary, t.Utf8View, t.BinaryView)
"""Types without children whose values are not in buffers of their own, or shared."""


def _is_leaf(type_: t.DataType) -> bool:
    """Return True if arrays of a type have neither children nor a dictionary."""
    return not type_.children and not isinstance(type_, _WITH_BYTES_ELSEWHERE)


def _beyond_own(type_: t.DataType) -> _OfArray | None:
    """Compile the bound of an array's children or dictionary, or None if it has no bound."""
    if _hides_slots(type_):
        return None
    if isinstance(type_, t.Dictionary):
        return _LongestValue().bound
    below = compile_bound([field.type for field in type_.children])
    return None if below is None else lambda array: below(array.children)


_SLOT_NBYTES: Final = 16
"""About the bytes that a conversion spends on a slot beside its value: a position to gather it from, an offset."""


def slot_prices(types: Sequence[t.DataType]) -> tuple[int, ...]:
    """Return for each column the bytes to count for a decoded slot beside its value.

    0 for types whose slots have bytes of their own, which conversion shares or copies once.
    """
    return tuple(_SLOT_NBYTES if _hides_slots(type_) else 0 for type_ in types)


def _hides_slots(type_: t.DataType) -> bool:
    """Return whether slots, at any depth, may share bytes or have none: a few bytes may stand for billions of slots."""
    return _HIDES_SLOTS[type(type_)](type_)


def _any_child(type_: t.DataType) -> bool:
    return any(_hides_slots(field.type) for field in type_.children)


def _always(_: t.DataType) -> bool:
    return True


def _never(_: t.DataType) -> bool:
    return False


_HIDES_SLOTS: Final[Mapping[type[t.DataType], Callable[[Any], bool]]] = {
    **by_type(
        {
            Family.NULL: _always,
            Family.BITS: _never,
            Family.FIXED_WIDTH: _never,
            Family.BINARY: _never,
            Family.VIEW: _always,
            Family.LIST: _any_child,
            Family.LIST_VIEW: _always,
            Family.FIXED_SIZE_LIST: lambda type_: not type_.list_size or _any_child(type_),
            Family.STRUCT: lambda type_: not type_.children or _any_child(type_),
            Family.SPARSE_UNION: _any_child,
            Family.DENSE_UNION: _always,
            Family.RUN_END_ENCODED: _always,
            Family.DICTIONARY: lambda type_: _hides_slots(type_.value),
        }
    ),
    t.FixedSizeBinary: lambda type_: not type_.byte_width,
}


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
        if dictionary.length > _MOST_VALUES:
            return MOST
        if self._last is None or self._last[0] is not dictionary:
            values = np.arange(dictionary.length)
            nbytes = measure(dictionary, decoded=True)(values, values + 1)
            self._last = (dictionary, int(nbytes.max(initial=0)))
        return array.length * self._last[1]
