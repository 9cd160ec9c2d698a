"""Convert arrays to lists of Python values, like pyarrow's ``to_pylist``.

How it works
------------
`TO_PYLIST` has one function for each layout family or, where the meaning of a value matters, for a type class. Each
converts complete buffers at once where numpy can, and each child once, only in the range that the slots of its parent
use. A null slot is None, whatever the buffers hold under it.

pyarrow raises or loses some values that are returned here: a value that `datetime` cannot hold is an int of raw units
(`scalars`), and a struct with a name that occurs twice has its last field. The array need not be validated: a position
outside its target, or a string that is not UTF-8, is an InvalidBodyError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import ArrayData
from spark_arrow_ipc.arrow.layout import Family, Role, by_type
from spark_arrow_ipc.arrow.measure import check_expansion, measure
from spark_arrow_ipc.arrow.python_values import scalars
from spark_arrow_ipc.arrow.unseen import tolerate_unseen
from spark_arrow_ipc.errors import InvalidBodyError, LimitError

Converters: TypeAlias = "Mapping[type[t.DataType], Callable[[ArrayData, Converters], list[Any]]]"
"""One function a type class, from an array and all these functions (for its children) to values."""


@tolerate_unseen
def to_pylist(array: ArrayData, converters: Converters | None = None) -> list[Any]:
    """Return the slots as Python values. Takes Python time for each slot.

    `converters` replaces `TO_PYLIST`, as in `to_text`; without it, values are these:

    ======================================== =====================================================
    Null, Bool, Int, FloatingPoint           None, bool, int, float
    Decimal                                  `decimal.Decimal` with the type's scale
    Date, Time, Timestamp, Duration          date, time, datetime (aware with a zone), timedelta;
                                             int of raw units where they cannot hold the value
    IntervalYearMonth, DayTime, MonthDayNano months; (days, milliseconds); (months, days, nanoseconds)
    binary types, UTF-8 types                bytes, str
    list types, Struct, Map                  list, dict, list of (key, value)
    unions, Dictionary, RunEndEncoded        the value that the slot stands for
    ======================================== =====================================================

    A value that several slots stand for (runs, dictionary indices, overlapping list-views) is one object.

    Raises
    ------
    InvalidBodyError
        A slot points outside its memory, or a string is not UTF-8.
    LimitError
        The slots stand for far more values than they take bytes (`check_expansion`).
    """
    if converters is None:
        check_expansion(array)
        converters = TO_PYLIST
    return converters[type(array.type)](array, converters)


def _with_nulls(array: ArrayData, values: list[Any]) -> list[Any]:
    mask = array_data.validity_mask(array)
    if mask is not None:
        for i in np.flatnonzero(~mask).tolist():
            values[i] = None
    return values


def _valid(array: ArrayData) -> list[bool]:
    mask = array_data.validity_mask(array)
    return [True] * array.length if mask is None else mask.tolist()


def _plain(array: ArrayData, _: Converters) -> list[Any]:
    return _with_nulls(array, array_data.data_values(array).tolist())


def leaves(convert: Callable[[array_data.NDArray, Any], list[Any]]) -> Callable[[ArrayData, Converters], list[Any]]:
    """Return the converter of a fixed-width type, by a function from its raw values."""

    def to_values(array: ArrayData, _: Converters) -> list[Any]:
        # Null slots are converted too: a few wrong values cost less than a gather
        return _with_nulls(array, convert(array_data.data_values(array), array.type))

    return to_values


def _fixed_bytes(rows: array_data.NDArray, type_: t.FixedSizeBinary) -> list[bytes]:
    flat, width = rows.tobytes(), type_.byte_width
    return [flat[i * width : (i + 1) * width] for i in range(len(rows))]


def _range(low: int, high: int, length: int, what: str) -> None:
    if not 0 <= low <= high <= length:
        raise InvalidBodyError(expected=f"{what} within 0 to {length:,}", found=f"{low:,} to {high:,}")


def _ranges(array: ArrayData, available: int) -> tuple[int, int, Iterator[tuple[int, int, bool]]]:
    """Return the start and stop of the bytes or elements of all slots, and for each slot its range in them and validity."""
    offsets = array_data.value_offsets(array)
    first, last = int(offsets[0]), int(offsets[-1])
    _range(first, last, available, "value_offsets")
    if bool((offsets[1:] < offsets[:-1]).any()):
        raise InvalidBodyError(
            expected="value_offsets that do not decrease", found="one that is less than the one before"
        )
    relative = (offsets - offsets[0]).tolist()
    return first, last, zip(relative[:-1], relative[1:], _valid(array), strict=True)


def _byte_region(array: ArrayData) -> tuple[bytes, Iterator[tuple[int, int, bool]]]:
    buffer = array_data.buffer_of(array, Role.BYTES)
    region = memoryview(b"") if buffer is None else buffer
    first, last, ranges = _ranges(array, region.nbytes)
    return bytes(region[first:last]), ranges


def _binary(array: ArrayData, _: Converters) -> list[Any]:
    region, ranges = _byte_region(array)
    return [region[begin:end] if valid else None for begin, end, valid in ranges]


def _utf8(array: ArrayData, _: Converters) -> list[Any]:
    region, ranges = _byte_region(array)
    # In ASCII value offsets count characters too: one call decodes all strings.
    if region.isascii():
        characters = region.decode("ascii")
        return [characters[begin:end] if valid else None for begin, end, valid in ranges]
    return _decode_utf8([region[begin:end] if valid else None for begin, end, valid in ranges])


def _decode_utf8(values: list[bytes | None]) -> list[Any]:
    try:
        return [None if value is None else value.decode("utf-8") for value in values]
    except UnicodeDecodeError as error:
        raise InvalidBodyError(expected="UTF-8", found=str(error)) from error


def _binary_view(array: ArrayData, _: Converters) -> list[Any]:
    views = array_data.views(array)
    raw = views.tobytes()
    buffers = [memoryview(b"") if buffer is None else buffer for buffer in array.buffers[2:]]
    fields = (views[name].tolist() for name in ("size", "index", "offset"))
    _check_view_nbytes(array, raw, buffers)
    values: list[Any] = []
    for i, (valid, size, number, offset) in enumerate(zip(_valid(array), *fields, strict=True)):
        if not valid:
            values.append(None)
        elif 0 <= size <= array_data.VIEW_INLINE_NBYTES:
            values.append(raw[16 * i + 4 : 16 * i + 4 + size])
        else:
            _range(number, number + 1, len(buffers), "a view's buffer")
            _range(offset, offset + size, len(buffers[number]), "a view's bytes")
            values.append(bytes(buffers[number][offset : offset + size]))
    return values


def _check_view_nbytes(array: ArrayData, raw: bytes, buffers: list[memoryview]) -> None:
    """Refuse views that share bytes so much that copies would take far more memory than the views."""
    nbytes = int(measure(array, decoded=False)(np.array([0]), np.array([array.length]))[0])
    most = max(_FREE_VIEW_NBYTES, _VIEWS_A_BYTE * (len(raw) + sum(buffer.nbytes for buffer in buffers)))
    if nbytes > most:
        raise LimitError(f"views that share bytes stand for {nbytes:,} bytes, the budget is {most:,}; read fewer rows")


# Bytes that all views of an array may point at: the first number at least, and the second for each byte of the array
_FREE_VIEW_NBYTES = 1 << 28
_VIEWS_A_BYTE = 8


def _list(array: ArrayData, converters: Converters) -> list[Any]:
    (child,) = array.children
    first, last, ranges = _ranges(array, child.length)
    elements = to_pylist(child.slice(first, last - first), converters)
    return [elements[begin:end] if valid else None for begin, end, valid in ranges]


def _list_view(array: ArrayData, converters: Converters) -> list[Any]:
    (child,) = array.children
    begins, counts = array_data.positions(array).astype(np.int64), array_data.sizes(array).astype(np.int64)
    mask = array_data.validity_mask(array)
    used = counts != 0 if mask is None else mask & (counts != 0)
    if bool((counts[used] < 0).any()) or bool((begins[used] < 0).any()):
        raise InvalidBodyError(expected="positions and sizes of at least 0", found="a negative one")
    low = int(begins[used].min(initial=child.length))
    # As Python integers: the sum of two offsets of a file may not fit 64 bits.
    high = max(map(sum, zip(begins[used].tolist(), counts[used].tolist(), strict=True)), default=low)
    _range(low, high, child.length, "list-view elements")
    # One range if most of its elements are in use, otherwise only the ranges in use.
    if high - low <= _DENSE * int(counts[used].sum()):
        elements = to_pylist(child.slice(low, high - low), converters)
        begins = begins - low
    elif used.any():
        starts, stops = _join_ranges(begins[used], begins[used] + counts[used])
        elements = _convert_ranges(child, starts, stops, converters)
        before = np.cumsum(stops - starts) - (stops - starts)
        number = np.maximum(np.searchsorted(starts, begins, "right") - 1, 0)
        begins = begins - starts[number] + before[number]
    else:
        elements = []
    slots = zip(begins.tolist(), (begins + counts).tolist(), used.tolist(), _valid(array), strict=True)
    return [(elements[begin:end] if some else []) if valid else None for begin, end, some, valid in slots]


def _fixed_size_list(array: ArrayData, converters: Converters) -> list[Any]:
    assert isinstance(array.type, t.FixedSizeList)
    size = array.type.list_size
    elements = to_pylist(_slots(array.children[0], array.offset * size, array.length * size), converters)
    return _with_nulls(array, [elements[i * size : (i + 1) * size] for i in range(array.length)])


def _slots(child: ArrayData, offset: int, length: int) -> ArrayData:
    _range(offset, offset + length, child.length, "slots of a child")
    return child.slice(offset, length)


def _columns(array: ArrayData, converters: Converters) -> list[list[Any]]:
    return [to_pylist(_slots(child, array.offset, array.length), converters) for child in array.children]


def _struct(array: ArrayData, converters: Converters) -> list[Any]:
    names = [field.name for field in array.type.children]
    if not names:  # `zip` of no columns would give no rows
        return _with_nulls(array, [{} for _ in range(array.length)])
    rows = zip(*_columns(array, converters), strict=True)
    return _with_nulls(array, [dict(zip(names, row, strict=True)) for row in rows])


def _map(array: ArrayData, converters: Converters) -> list[Any]:
    (entries,) = array.children
    first, last, ranges = _ranges(array, entries.length)
    pairs = list(zip(*_columns(entries.slice(first, last - first), converters), strict=True))
    return [pairs[begin:end] if valid else None for begin, end, valid in ranges]


def _sparse_union(array: ArrayData, converters: Converters) -> list[Any]:
    chosen = _members(array)
    columns = _columns(array, converters)
    return [columns[child][i] for i, child in enumerate(chosen.tolist())]


def _dense_union(array: ArrayData, converters: Converters) -> list[Any]:
    chosen = _members(array)
    begins = array_data.positions(array)
    values: list[Any] = [None] * array.length
    for number, child in enumerate(array.children):
        slots = np.flatnonzero(chosen == number)
        for i, value in zip(
            slots.tolist(), _take_values(child, begins[slots], "dense union positions", converters), strict=True
        ):
            values[i] = value
    return values


def _members(array: ArrayData) -> array_data.NDArray:
    assert isinstance(array.type, (t.SparseUnion, t.DenseUnion))
    children = np.full(256, -1, np.int16)  # for every byte: an unknown type id has a row too, and is refused below
    children[list(array.type.type_ids)] = range(len(array.type.type_ids))
    type_ids = array_data.type_ids(array)
    chosen: array_data.NDArray = children[type_ids.view(np.uint8)]
    if bool((chosen < 0).any()):
        unknown = int(type_ids[chosen < 0][0])
        raise InvalidBodyError(expected=f"a union type id of {list(array.type.type_ids)}", found=str(unknown))
    return chosen


def _take_values(array: ArrayData, indices: array_data.NDArray, what: str, converters: Converters) -> list[Any]:
    """Return the values at some positions, converting few others."""
    if not len(indices):
        return []
    low, high = int(indices.min()), int(indices.max()) + 1
    _range(low, high, array.length, what)
    if high - low <= _DENSE * len(indices):
        values = to_pylist(array.slice(low, high - low), converters)
        return [values[i - low] for i in indices.tolist()]
    used = np.unique(indices.astype(np.int64))
    starts, stops = _join_ranges(used, used + 1)
    values = _convert_ranges(array, starts, stops, converters)
    # The position of each index in the values, which follow one another range by range.
    before = np.cumsum(stops - starts) - (stops - starts)
    number = np.searchsorted(starts, indices, "right") - 1
    return [values[i] for i in (before[number] + indices - starts[number]).tolist()]


_DENSE = 8  # elements converted for each one in use: with more, a search for the ones in use is faster


def _join_ranges(
    starts: array_data.NDArray, stops: array_data.NDArray
) -> tuple[array_data.NDArray, array_data.NDArray]:
    """Return ascending, disjoint ranges that cover others; ranges that nearly touch become one."""
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(stops[order])
    apart = np.flatnonzero(starts[1:] > reach[:-1] + _DENSE) + 1
    return starts[np.append(0, apart)], reach[np.append(apart - 1, len(reach) - 1)]


def _convert_ranges(
    array: ArrayData, starts: array_data.NDArray, stops: array_data.NDArray, converters: Converters
) -> list[Any]:
    """Return the values of ranges, in their order."""
    values: list[Any] = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        values += to_pylist(array.slice(start, stop - start), converters)
    return values


def _run_end_encoded(array: ArrayData, converters: Converters) -> list[Any]:
    run_ends, values = array.children
    ends = array_data.data_values(run_ends)
    runs = np.searchsorted(ends, np.arange(array.offset, array.offset + array.length), side="right")
    return _take_values(values, runs, "run ends that reach", converters)


def _dictionary(array: ArrayData, converters: Converters) -> list[Any]:
    assert array.dictionary is not None
    indices, mask = array_data.data_values(array), array_data.validity_mask(array)
    if mask is None:
        return _take_values(array.dictionary, indices, "dictionary indices", converters)
    values: list[Any] = [None] * array.length
    # Indices under nulls may be anything
    valid_values = _take_values(array.dictionary, indices[mask], "dictionary indices", converters)
    for i, value in zip(np.flatnonzero(mask).tolist(), valid_values, strict=True):
        values[i] = value
    return values


TO_PYLIST: Converters = {
    **by_type(
        {
            Family.NULL: lambda array, _: [None] * array.length,
            Family.BITS: _plain,
            Family.BINARY: _binary,
            Family.VIEW: _binary_view,
            Family.LIST: _list,
            Family.LIST_VIEW: _list_view,
            Family.FIXED_SIZE_LIST: _fixed_size_list,
            Family.STRUCT: _struct,
            Family.SPARSE_UNION: _sparse_union,
            Family.DENSE_UNION: _dense_union,
            Family.RUN_END_ENCODED: _run_end_encoded,
            Family.DICTIONARY: _dictionary,
        }
    ),
    t.Int: _plain,
    t.FloatingPoint: _plain,
    t.Decimal: leaves(scalars.decimals),
    t.Date: leaves(scalars.dates),
    t.Time: leaves(scalars.times),
    t.Timestamp: leaves(scalars.timestamps),
    t.Duration: leaves(scalars.durations),
    t.IntervalYearMonth: _plain,
    t.IntervalDayTime: _plain,
    t.IntervalMonthDayNano: _plain,
    t.FixedSizeBinary: leaves(_fixed_bytes),
    t.Utf8: _utf8,
    t.LargeUtf8: _utf8,
    t.Utf8View: lambda array, converters: _decode_utf8(_binary_view(array, converters)),
    t.Map: _map,
}
"""One function for each layout family, and for each type class with values of its own meaning."""
