"""Concatenate arrays and record batches of one type.

How it works
------------
The parts are compacted first. Then buffers are joined by their role, and all numbers that refer to slots or buffers
of a part (value offsets, positions, buffer numbers, run ends, dictionary indices) grow by the slots or buffers
before it. A number that no longer fits its type is a ValueError with the next step; no type is widened silently,
because it belongs to the schema.

Of dictionaries that are the same object, or begin with one another, the longest is used; others are concatenated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import array_data, equality
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.array_data import Buffer, as_buffer
from spark_arrow_ipc.arrow.equality import as_bits
from spark_arrow_ipc.arrow.kernels.compact import compact
from spark_arrow_ipc.arrow.layout import LAYOUTS, BufferLayout, Family, Role, bit_width_of, by_type
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.unseen import tolerate_unseen
from spark_arrow_ipc.errors import LimitError

NDArray: TypeAlias = npt.NDArray[Any]


def concat_batches(batches: Sequence[RecordBatch]) -> RecordBatch:
    """Return the rows of all batches as one batch; a single batch is returned unchanged.

    The schema comes from the first. Custom metadata stays only if all batches have the same. ValueError without
    batches, if types differ, or if numbers do not fit their type (see `concat`).
    """
    if not batches:
        raise ValueError("expected at least one record batch, found none")
    head = batches[0]
    if len(batches) == 1:
        return head
    for batch in batches[1:]:
        ours, theirs = ([f.type for f in b.schema.fields] for b in (head, batch))
        if ours != theirs or head.schema.names != batch.schema.names:
            raise ValueError(f"expected record batches of one schema, found\n{head.schema}\nand\n{batch.schema}")
    columns = []
    for i, field in enumerate(head.schema.fields):
        try:
            columns.append(concat([batch.columns[i] for batch in batches]))
        except ValueError as error:
            raise ValueError(f"column {field.name}: {error}") from error
    same_pairs = all(batch.custom_metadata == head.custom_metadata for batch in batches)
    num_rows = sum(batch.num_rows for batch in batches)
    return RecordBatch(head.schema, tuple(columns), num_rows, head.custom_metadata if same_pairs else ())


@tolerate_unseen
def concat(arrays: Sequence[Array]) -> Array:
    """Return the slots of all arrays as one array; the only one with slots is returned unchanged. O(bytes).

    ValueError without arrays, if types differ, if dictionaries that differ are ordered, or if value offsets, run ends
    or dictionary indices do not fit their type.
    """
    if not arrays:
        raise ValueError("expected at least one array, found none")
    for array in arrays:
        if array.type != arrays[0].type:
            raise ValueError(f"expected arrays of one type, found {arrays[0].type} and {array.type}")
    filled = [array for array in arrays if array.length]
    if len(filled) <= 1:
        return filled[0] if filled else arrays[0]
    parts = [compact(array) for array in filled]
    head = parts[0]
    joined = Array(
        head.type,
        sum(part.length for part in parts),
        sum(part.null_count for part in parts),
        tuple(
            _BUFFERS[row.role](parts, row, number)
            for number, row in enumerate(LAYOUTS[type(head.type)].buffers)
            if row.role is not Role.VARIADIC
        ),
        dictionary=head.dictionary,
    )
    return CHILDREN[type(head.type)](parts, joined)


# Buffers, by their role


def _bits(parts: Sequence[Array], number: int) -> Buffer:
    bits = [
        np.ones(part.length, np.bool_) if buffer is None else array_data.unpack_bits(buffer, 0, part.length)
        for part, buffer in ((part, part.buffers[number]) for part in parts)
    ]
    return array_data.pack_bits(np.concatenate(bits))


def _join_buffers(parts: Sequence[Array], row: BufferLayout, number: int) -> Buffer:
    if bit_width_of(parts[0].type, row) == 1:
        return _bits(parts, number)
    return as_buffer(np.concatenate([array_data.byte_values(part.buffers[number]) for part in parts]))


def _offsets(parts: Sequence[Array], _: BufferLayout, __: int) -> Buffer:
    moved = [array_data.value_offsets(part) for part in parts]
    # Sums of Python integers and int64: the total must not wrap around in the type of the offsets.
    ends = np.cumsum([int(offsets[-1]) for offsets in moved])
    _require_fit(int(ends[-1]), moved[0].dtype, "value offsets", "concatenate fewer arrays or use the large type")
    return as_buffer(
        np.concatenate([moved[0], *(o[1:] + o.dtype.type(end) for o, end in zip(moved[1:], ends, strict=False))])
    )


def _require_fit(most: int, dtype: np.dtype[Any], what: str, advice: str) -> None:
    if most > np.iinfo(dtype).max:
        raise ValueError(f"expected {what} that fit {dtype}, found {most}; {advice}")


# Joins buffers; positions and views still refer to their part, and are moved with the children
_BUFFERS: Mapping[Role, Callable[[Sequence[Array], BufferLayout, int], Buffer | None]] = {
    # Absent only if no part has nulls: a part without a bitmap then gets ones.
    Role.VALIDITY: lambda parts, _, number: (
        None if all(p.buffers[number] is None for p in parts) else _bits(parts, number)
    ),
    Role.DATA: _join_buffers,
    Role.OFFSETS: _offsets,
    Role.POSITIONS: _join_buffers,
    Role.SIZES: _join_buffers,
    Role.TYPE_IDS: _join_buffers,
    Role.VIEWS: _join_buffers,
    Role.BYTES: _join_buffers,
}


# Children, variadic buffers and dictionaries: (parts, array of joined buffers) -> the complete array


def _no_children(_: Sequence[Array], joined: Array) -> Array:
    return joined


def _children(parts: Sequence[Array], joined: Array) -> Array:
    children = zip(*(part.children for part in parts), strict=True)
    return replace(joined, children=tuple(concat(pieces) for pieces in children))


def _before(lengths: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the sum of the lengths before each part."""
    return np.concatenate([[0], np.cumsum(lengths[:-1], dtype=np.int64)])


def _list_view(parts: Sequence[Array], joined: Array) -> Array:
    children = _children(parts, joined)
    before = _before([part.children[0].length for part in parts])
    moved = [array_data.positions(part) + base for part, base in zip(parts, before, strict=True)]
    return _with_positions(children, np.concatenate(moved))


def _dense_union(parts: Sequence[Array], joined: Array) -> Array:
    assert isinstance(joined.type, t.DenseUnion)
    children = _children(parts, joined)
    before = np.zeros((len(parts), 128), np.int64)  # by type id, at most 127
    for i, type_id in enumerate(joined.type.type_ids):
        before[:, type_id] = _before([part.children[i].length for part in parts])
    moved = [
        array_data.positions(part) + base[array_data.type_ids(part)] for part, base in zip(parts, before, strict=True)
    ]
    return _with_positions(children, np.concatenate(moved))


def _with_positions(array: Array, positions: NDArray) -> Array:
    dtype = array_data.positions(array).dtype
    _require_fit(int(positions.max()), dtype, "value offsets", "concatenate fewer arrays or use the large type")
    first, _, *rest = array.buffers
    return replace(array, buffers=(first, as_buffer(positions.astype(dtype)), *rest))


def _runs(parts: Sequence[Array], joined: Array) -> Array:
    ends = [array_data.data_values(part.children[0]) for part in parts]
    _require_fit(joined.length, ends[0].dtype, "run ends", "concatenate fewer arrays or use wider run ends")
    before = _before([part.length for part in parts])
    moved = np.concatenate([part + part.dtype.type(base) for part, base in zip(ends, before, strict=True)])
    run_ends = Array(parts[0].children[0].type, len(moved), 0, (None, as_buffer(moved)))
    return replace(joined, children=(run_ends, concat([part.children[1] for part in parts])))


def _views(parts: Sequence[Array], joined: Array) -> Array:
    before = _before([len(part.buffers) - 2 for part in parts])
    moved = array_data.views(joined).copy()
    base = np.repeat(before, [part.length for part in parts]).astype(np.int32)
    # An inline view has bytes of its value at the place of the index.
    moved["index"] += np.where(moved["size"] > array_data.VIEW_INLINE_NBYTES, base, 0).astype(np.int32)
    variadic = (buffer for part in parts for buffer in part.buffers[2:])
    return replace(joined, buffers=(joined.buffers[0], as_buffer(moved), *variadic))


def _dictionary(parts: Sequence[Array], joined: Array) -> Array:
    dictionary, before = _one_dictionary([part.dictionary for part in parts if part.dictionary is not None])
    if any(before):
        assert isinstance(joined.type, t.Dictionary)
        if joined.type.ordered:
            raise ValueError("expected one ordered dictionary, found several; their order would be lost: decode them")
        indices = array_data.data_values(joined)
        advice = "concatenate fewer arrays, decode them or use wider indices"
        _require_fit(dictionary.length - 1, indices.dtype, "dictionary indices", advice)
        base = np.repeat(np.array(before, np.int64), [part.length for part in parts]).astype(indices.dtype)
        joined = replace(joined, buffers=(joined.buffers[0], as_buffer(indices + base)))
    return replace(joined, dictionary=dictionary)


def _one_dictionary(dictionaries: Sequence[Array]) -> tuple[Array, list[int]]:
    """Return one array with the values of all dictionaries, and the position of each dictionary in it."""
    # A dictionary that continues the one before it, or is its beginning (as after a delta), costs nothing. Values that
    # two others share occur twice, which the format allows.
    distinct: list[Array] = []
    number_of: dict[int, int] = {}
    for dictionary in dictionaries:
        if id(dictionary) in number_of:  # batches of one file share the object
            continue
        if distinct and _begins_alike(distinct[-1], dictionary):
            if dictionary.length > distinct[-1].length:
                distinct[-1] = dictionary
        else:
            distinct.append(dictionary)
        number_of[id(dictionary)] = len(distinct) - 1
    before = _before([dictionary.length for dictionary in distinct])
    values = distinct[0] if len(distinct) == 1 else concat(distinct)
    return values, [int(before[number_of[id(dictionary)]]) for dictionary in dictionaries]


def _begins_alike(a: Array, b: Array) -> bool:
    length = min(a.length, b.length)
    with suppress(LimitError):  # too many values to compare: both dictionaries stay
        return equality.difference(as_bits(a.slice(0, length)), as_bits(b.slice(0, length))) is None
    return False


CHILDREN: Mapping[type[t.DataType], Callable[[Sequence[Array], Array], Array]] = by_type(
    {
        Family.NULL: _no_children,
        Family.BITS: _no_children,
        Family.FIXED_WIDTH: _no_children,
        Family.BINARY: _no_children,
        Family.VIEW: _views,
        Family.LIST: _children,
        Family.LIST_VIEW: _list_view,
        Family.FIXED_SIZE_LIST: _children,
        Family.STRUCT: _children,
        Family.SPARSE_UNION: _children,
        Family.DENSE_UNION: _dense_union,
        Family.RUN_END_ENCODED: _runs,
        Family.DICTIONARY: _dictionary,
    }
)
"""One function for each layout family: joins children, variadic buffers and dictionaries."""
