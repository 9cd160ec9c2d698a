"""Compare arrays by value, and describe the first difference.

Strategy
--------
`arrow.equality` compares pairs of slots, and says what is equal. Here arrays are compared slot by slot, a chunk at a
time, and the first difference is told in words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.equality import CHUNK_SLOTS, differs
from spark_arrow_ipc.arrow.layout import Family, by_type
from spark_arrow_ipc.arrow.measure import check_expansion

if TYPE_CHECKING:
    from spark_arrow_ipc.arrow.array import Array
    from spark_arrow_ipc.arrow.record_batch import RecordBatch

_LONGEST_VALUE = 200
"""Characters of a value that a description shows."""


def batch_difference(a: RecordBatch, b: RecordBatch, *, types: bool = True) -> str | None:
    """Describe the first difference between two batches, or return None if there is none.

    Compares names and rows, but neither custom metadata nor the nullability of top-level fields.
    """
    if a.schema.names != b.schema.names:
        return f"the columns are {', '.join(a.schema.names)} and {', '.join(b.schema.names)}"
    if a.num_rows != b.num_rows:
        return f"there are {a.num_rows} and {b.num_rows} rows"
    for name, ours, theirs in zip(a.schema.names, a.columns, b.columns, strict=True):
        sentence = difference(ours, theirs, name, types=types)
        if sentence is not None:
            return sentence
    return None


def difference(a: Array, b: Array, path: str = "", *, types: bool = True) -> str | None:
    """Describe the first difference between two arrays, or return None if they are equal by value.

    Vectorised, except for the description.

    Parameters
    ----------
    a, b
        Sound arrays.
    path
        The path of the field, for the description.
    types
        Whether types must be equal. If not, they must be equal without their encoding (dictionaries, runs, views,
        the width of value offsets) and without the names and nullability of nested fields.

    Raises
    ------
    LimitError
        The slots stand for far more values than they take bytes (`check_expansion`).
    """
    where = f"{path}: " if path else ""
    same_types = a.type == b.type if types else alike(a.type) == alike(b.type)
    if not same_types:
        return f"{where}the types are {a.type} and {b.type}"
    if a.length != b.length:
        return f"{where}there are {a.length} and {b.length} slots"
    for side in (a, b):
        check_expansion(side)
    for start in range(0, a.length, CHUNK_SLOTS):
        slots = np.arange(start, min(start + CHUNK_SLOTS, a.length))
        unequal = differs(a, slots, b, slots)
        if unequal.any():
            slot = start + int(unequal.argmax())
            ours, theirs = _shown(a, slot), _shown(b, slot)
            if ours == theirs:  # nulls of two children of a union, or values that differ after the cut
                return f"{where}slot {slot} differs, though both read {ours}"
            return f"{where}slot {slot} is {ours} and {theirs}"
    return None


def _shown(array: Array, slot: int) -> str:
    shown = repr(array.slice(slot, 1).to_pylist()[0])
    return shown if len(shown) <= _LONGEST_VALUE else f"{shown[:_LONGEST_VALUE]}..."


# Types without their encoding


def alike(type_: t.DataType) -> t.DataType:
    """Return one type for all encodings of the same values, without names and nullability."""
    return _ALIKE.get(type(type_), _as_is)(type_)


def _as_is(type_: t.DataType) -> t.DataType:
    return type_


def _bare(field: t.Field) -> t.Field:
    return t.Field("", alike(field.type))


def _bare_union(type_: t.SparseUnion | t.DenseUnion) -> t.DataType:
    return replace(type_, fields=tuple(map(_bare, type_.fields)))


def _bare_list(type_: t.DataType) -> t.DataType:
    return t.List(_bare(type_.children[0]))


def _bare_bytes(type_: t.DataType) -> t.DataType:
    return t.utf8 if type(type_) in t.UTF8_CLASSES else t.binary


_ALIKE: Mapping[type[t.DataType], Callable[[Any], t.DataType]] = {
    **by_type(
        {
            Family.BINARY: _bare_bytes,
            Family.VIEW: _bare_bytes,
            Family.LIST: _bare_list,
            Family.LIST_VIEW: _bare_list,
            Family.FIXED_SIZE_LIST: lambda type_: replace(type_, value=_bare(type_.value)),
            Family.STRUCT: lambda type_: t.Struct(tuple(map(_bare, type_.fields))),
            Family.SPARSE_UNION: _bare_union,
            Family.DENSE_UNION: _bare_union,
            Family.RUN_END_ENCODED: lambda type_: alike(type_.values.type),
            Family.DICTIONARY: lambda type_: alike(type_.value),
        }
    ),
    t.Map: lambda type_: t.Map(_bare(type_.entries), keys_sorted=False),
}
"""The type without its encoding, for the families that have one; all others stay as they are."""
