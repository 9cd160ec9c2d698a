"""Build arrays of Python values: the inverse of ``to_pylist``.

How it works
------------
`BUILDERS` has one function for each type class: types without children are in `from_pylist_leaves`, nested types here,
with children built from flattened lists. They take the values of ``to_pylist`` and of pyarrow's ``pa.array``, with three
differences: nothing is cut off silently (a fraction, digit or microsecond that the type cannot hold is a ValueError),
unions can be built, and nanoseconds may be ints.

Null slots and padding bits are zero, validity is None without nulls, and null counts are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.distinct import first_equal
from spark_arrow_ipc.arrow.equality import as_bits, differ
from spark_arrow_ipc.arrow.layout import LAYOUTS, Family, by_type
from spark_arrow_ipc.arrow.python_values.from_pylist_leaves import (
    LEAVES,
    NATURAL_LEAVES,
    as_buffer,
    offset_buffer,
    validity_of,
)
from spark_arrow_ipc.errors import unfit


def array(values: Sequence[Any], type_: t.DataType) -> Array:
    """Return an array of Python values. Takes Python time for each value.

    - Temporal types take `datetime` values and raw counts as int; an aware datetime is taken as its instant.
    - Decimals take Decimal and int; intervals take tuples, or int months.
    - Structs take a mapping (an absent key is a null), a tuple by position, or a list of (name, value) pairs;
      maps take a mapping or (key, value) pairs; lists any iterable except str, bytes and mappings.
    - Unions take ``(type_id, value)`` where the child of that id accepts the value. Any other value goes to the first
      child whose ``to_pylist`` gives values of exactly its Python type, otherwise to the first that accepts it; None
      to the first nullable child. Use ``(type_id, value)`` where several children accept a value.
    - Dictionaries have the distinct values in the order in which they first occur; None is a null index.

    Raises
    ------
    ValueError
        A value does not fit its type.
    TypeError
        A value is of a Python type that the Arrow type does not take.
    """
    return BUILDERS[type(type_)](list(values), type_)


_Values = list[Any]


def _list(value: object, type_: t.DataType) -> list[Any]:
    # Iterable, but never meant as a list
    if isinstance(value, (str, bytes, bytearray, memoryview, Mapping)) or not isinstance(value, Iterable):
        raise TypeError(unfit("a list", type_, value))
    return list(value)


def _lists(values: _Values, type_: t.DataType) -> tuple[list[list[Any]], Array]:
    lists = [[] if value is None else _list(value, type_) for value in values]
    return lists, array([element for elements in lists for element in elements], type_.children[0].type)


def _with_offsets(values: _Values, type_: t.DataType, lists: list[list[Any]], child: Array) -> Array:
    offsets = offset_buffer(accumulate(map(len, lists), initial=0), LAYOUTS[type(type_)].buffers[1].bit_width)
    validity, null_count = validity_of(values)
    return Array(type_, len(values), null_count, (validity, offsets), (child,))


def _list_view(values: _Values, type_: t.DataType) -> Array:
    lists, child = _lists(values, type_)
    bit_width = LAYOUTS[type(type_)].buffers[1].bit_width
    begins = accumulate(map(len, lists[:-1]), initial=0)
    # Zeros under nulls: equal values give equal bytes
    positions = [0 if value is None else begin for value, begin in zip(values, begins, strict=False)]
    buffers = (offset_buffer(positions, bit_width), offset_buffer(map(len, lists), bit_width))
    validity, null_count = validity_of(values)
    return Array(type_, len(values), null_count, (validity, *buffers), (child,))


def _fixed_size_list(values: _Values, type_: t.DataType) -> Array:
    assert isinstance(type_, t.FixedSizeList)
    elements: list[Any] = []
    for value in values:
        slot = [None] * type_.list_size if value is None else _list(value, type_)
        if len(slot) != type_.list_size:
            raise ValueError(unfit(f"{type_.list_size} elements", type_, value))
        elements.extend(slot)
    validity, null_count = validity_of(values)
    return Array(type_, len(values), null_count, (validity,), (array(elements, type_.value.type),))


def _struct(values: _Values, type_: t.DataType) -> Array:
    rows = [_row(value, type_) for value in values]
    children = tuple(array([row[i] for row in rows], field.type) for i, field in enumerate(type_.children))
    validity, null_count = validity_of(values)
    return Array(type_, len(values), null_count, (validity,), children)


def _row(value: object, type_: t.DataType) -> Sequence[Any]:
    names = [field.name for field in type_.children]
    if value is None:
        return [None] * len(names)
    if isinstance(value, Mapping):
        return [value.get(name) for name in names]
    if isinstance(value, tuple) and len(value) == len(names):
        return value
    pairs = isinstance(value, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)
    if pairs and isinstance(value, list) and [name for name, _ in value] == names:
        return [item for _, item in value]
    raise TypeError(unfit("a dict, a tuple of all fields or a list of all (name, value) pairs", type_, value))


def _map(values: _Values, type_: t.DataType) -> Array:
    assert isinstance(type_, t.Map)
    maps = [_pairs(value, type_) for value in values]
    pairs = [pair for slot in maps for pair in slot]
    keys = [key for key, _ in pairs]
    if any(key is None for key in keys):
        raise ValueError(unfit("keys that are not None", type_, None))
    children = (array(keys, type_.key.type), array([item for _, item in pairs], type_.item.type))
    entries = Array(type_.entries.type, len(pairs), 0, (None,), children)
    return _with_offsets(values, type_, maps, entries)


def _pairs(value: object, type_: t.Map) -> list[Any]:
    if value is None:
        return []
    pairs = list(value.items()) if isinstance(value, Mapping) else _list(value, type_)
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(unfit("(key, value) pairs", type_, pair))
    return pairs


# The Python type of the values from ``to_pylist``; types that stand for another type have no row
_NATURAL: Mapping[type[t.DataType], type] = {
    **NATURAL_LEAVES,
    **by_type({Family.LIST: list, Family.LIST_VIEW: list, Family.FIXED_SIZE_LIST: list, Family.STRUCT: dict}),
}


def _natural(type_: t.DataType) -> type | None:
    if isinstance(type_, t.Dictionary):
        return _natural(type_.value)
    return _natural(type_.values.type) if isinstance(type_, t.RunEndEncoded) else _NATURAL.get(type(type_))


def _accepts(type_: t.DataType, value: object) -> bool:
    try:
        array([value], type_)  # the builder itself: a second set of rules could differ from it
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _choose_member(value: object, type_: t.SparseUnion | t.DenseUnion) -> tuple[int, Any]:
    """Return the number of the child for a value of a union, and the child's value."""
    fields = type_.fields
    if value is None:
        return next((i for i, field in enumerate(fields) if field.nullable), 0), None
    if isinstance(value, tuple) and len(value) == 2 and type(value[0]) is int and value[0] in type_.type_ids:
        child = type_.type_ids.index(value[0])
        if _accepts(fields[child].type, value[1]):
            return child, value[1]
    # A stable sort: of equally natural children the first one is tried first
    order = sorted(range(len(fields)), key=lambda i: _natural(fields[i].type) is not type(value))
    for child in order:
        if _accepts(fields[child].type, value):
            return child, value
    raise ValueError(unfit("a value that a child accepts", type_, value))


def _union(values: _Values, type_: t.SparseUnion | t.DenseUnion) -> tuple[list[tuple[int, Any]], memoryview]:
    if values and not type_.fields:
        raise ValueError(unfit("no values", type_, values[0]))
    chosen = [_choose_member(value, type_) for value in values]
    return chosen, as_buffer(np.array([type_.type_ids[child] for child, _ in chosen], np.int8))


def _sparse_union(values: _Values, type_: t.DataType) -> Array:
    assert isinstance(type_, t.SparseUnion)
    chosen, type_ids = _union(values, type_)
    children = tuple(
        array([value if child == i else None for child, value in chosen], field.type)
        for i, field in enumerate(type_.fields)
    )
    return Array(type_, len(values), 0, (type_ids,), children)


def _dense_union(values: _Values, type_: t.DataType) -> Array:
    assert isinstance(type_, t.DenseUnion)
    chosen, type_ids = _union(values, type_)
    values_by_member: list[list[Any]] = [[] for _ in type_.fields]
    positions = []
    for child, value in chosen:
        positions.append(len(values_by_member[child]))
        values_by_member[child].append(value)
    children = tuple(array(slots, field.type) for slots, field in zip(values_by_member, type_.fields, strict=True))
    return Array(type_, len(values), 0, (type_ids, offset_buffer(positions, 32)), children)


def _dictionary(values: _Values, type_: t.DataType) -> Array:
    assert isinstance(type_, t.Dictionary)
    present = [value for value in values if value is not None]
    # Compared in Arrow, and not in Python, where 1 == True and NaN differs from itself.
    first = first_equal(array(present, type_.value))
    distinct = np.flatnonzero(first == np.arange(len(present)))
    most = 2 ** (type_.index.bit_width - type_.index.signed)
    if len(distinct) > most:
        raise ValueError(f"expected at most {most:,} different values for {type_}, found {len(distinct):,}")
    # The first occurrences rise, so that their ranks are the indices
    numbers = iter(np.searchsorted(distinct, first).tolist())
    slots = array([None if value is None else next(numbers) for value in values], type_.index)
    dictionary = array([present[i] for i in distinct], type_.value)
    return Array(type_, len(values), slots.null_count, slots.buffers, (), dictionary)


def _run_end_encoded(values: _Values, type_: t.DataType) -> Array:
    assert isinstance(type_, t.RunEndEncoded)
    slots = as_bits(array(values, type_.values.type))  # runs of equal bits: 0.0 and -0.0 must stay
    before = np.arange(max(len(values) - 1, 0))
    last = np.append(differ(slots, before, slots, before + 1), [True] * bool(values)).nonzero()[0]
    runs = array([int(i) + 1 for i in last], type_.run_ends.type), array([values[i] for i in last], type_.values.type)
    return Array(type_, len(values), 0, (), runs)


BUILDERS: Mapping[type[t.DataType], Callable[[_Values, Any], Array]] = {
    **LEAVES,
    **by_type(
        {
            Family.LIST: lambda values, type_: _with_offsets(values, type_, *_lists(values, type_)),
            Family.LIST_VIEW: _list_view,
            Family.FIXED_SIZE_LIST: _fixed_size_list,
            Family.STRUCT: _struct,
            Family.SPARSE_UNION: _sparse_union,
            Family.DENSE_UNION: _dense_union,
            Family.RUN_END_ENCODED: _run_end_encoded,
            Family.DICTIONARY: _dictionary,
        }
    ),
    t.Map: _map,
}
"""One function for each type class; a test proves that none is missing."""
