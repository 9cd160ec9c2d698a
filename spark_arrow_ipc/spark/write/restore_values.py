"""Convert arrays of usual types to the annotated types, exactly.

How it works
------------
1. The usual type is the type of a column in the file without ``restoreTypes``; the annotated type is the one that it had
   in the file from which it was read.
2. `RESTORED` has one row for each pair of type classes. A row converts complete buffers at a time.
3. Nothing is rounded, truncated or wrapped: a value that the annotated type cannot hold is an error with that value.
   Values of null slots are ignored.
4. Dictionaries and runs are encoded first, so that a row converts only their few values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.equality import as_bits, differ
from spark_arrow_ipc.arrow.kernels.compact import compact, mask_array
from spark_arrow_ipc.arrow.kernels.concat import concat
from spark_arrow_ipc.arrow.kernels.take import positions_of_runs, take
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.errors import SchemaMismatchError
from spark_arrow_ipc.spark.types.field_metadata import vector_element
from spark_arrow_ipc.spark.write.dictionaries import TaskDictionaries

NDArray: TypeAlias = npt.NDArray[Any]
Restore: TypeAlias = Callable[["_Restoring", Array, Any], Array]

_DAY_SECONDS: Final = 86_400
_DAY_MILLISECONDS: Final = 86_400_000
_UUID_NBYTES: Final = 16
_UUID_LENGTH: Final = 36
_HYPHENS: Final = (8, 13, 18, 23)


def restore(array: Array, type_: t.DataType, path: str, dictionaries: TaskDictionaries) -> Array:
    """Convert an array of the usual type to the annotated type."""
    return _Restoring(path, dictionaries).restore(array, type_)


@dataclass(frozen=True, slots=True)
class _Restoring:
    """The conversion of one column's arrays."""

    path: str
    dictionaries: TaskDictionaries

    def restore(self, array: Array, type_: t.DataType) -> Array:
        if array.type == type_:
            return array
        if isinstance(type_, t.Dictionary):
            # Only the few distinct values are converted, and not each slot.
            encoded = self.dictionaries.encode(self.path, array, type_.index)
            assert encoded.dictionary is not None
            return replace(encoded, type=type_, dictionary=self.restore(encoded.dictionary, type_.value))
        if isinstance(type_, t.RunEndEncoded):
            return self.run_end_encoded(array, type_)
        return RESTORED[type(array.type), type(type_)].restore(self, array, type_)

    def run_end_encoded(self, array: Array, type_: t.RunEndEncoded) -> Array:
        # A run ends at the last slot and where a slot differs from the next one.
        slots, before = as_bits(array), np.arange(max(array.length - 1, 0))
        last = np.flatnonzero(np.append(differ(slots, before, slots, before + 1), [True] * bool(array.length)))
        ends = (last + 1).astype(array_data.dtype_of(type_.run_ends.type))
        if len(last) and int(ends[-1]) != array.length:
            raise SchemaMismatchError(
                expected=f"batches of at most {np.iinfo(ends.dtype).max:,} rows, which the run ends of {type_} count",
                found=f"{array.length:,}; set spark.sql.execution.arrow.maxRecordsPerBatch lower",
            )
        run_ends = Array(type_.run_ends.type, len(last), 0, (None, array_data.as_buffer(ends)))
        return Array(type_, array.length, 0, (), (run_ends, self.restore(take(array, last), type_.values.type)))

    def below(self, name: str) -> _Restoring:
        return _Restoring(f"{self.path}.{name}", self.dictionaries)


def _refuse(type_: t.DataType, value: object) -> NoReturn:
    raise SchemaMismatchError(
        expected=f"values that {type_} holds exactly, which restoreTypes writes (or drop the column's metadata)",
        found=str(value),
    )


def _find_wrong(fits: npt.NDArray[np.bool_], mask: NDArray | None) -> int | None:
    """Return the first valid slot whose value does not fit, or None."""
    wrong = ~fits if mask is None else ~fits & mask
    return int(wrong.argmax()) if wrong.any() else None


def _require(fits: npt.NDArray[np.bool_], values: NDArray, mask: NDArray | None, type_: t.DataType) -> None:
    """Raise for the first valid value that does not fit."""
    if (slot := _find_wrong(fits, mask)) is not None:
        _refuse(type_, values[slot])


def _validity(array: Array) -> tuple[memoryview | None, int]:
    mask = array_data.validity_mask(array)
    return (None, 0) if mask is None else (array_data.pack_bits(mask), array.count_nulls())


def _with_values(array: Array, type_: t.DataType, values: NDArray) -> Array:
    validity, nulls = _validity(array)
    return Array(type_, array.length, nulls, (validity, array_data.as_buffer(values)))


def _numbers(_: _Restoring, array: Array, type_: t.DataType) -> Array:
    """Convert integers to another width or to counts of a unit."""
    values, mask, dtype = array_data.data_values(array), array_data.validity_mask(array), array_data.dtype_of(type_)
    limits = np.iinfo(dtype)
    usual = np.iinfo(values.dtype)
    # A comparison with a number outside of the values' type would convert all values.
    low, high = max(limits.min, usual.min), min(limits.max, usual.max)
    fits = (values >= low) & (values <= high)
    if isinstance(type_, t.Time):
        fits &= (values >= 0) & (values < _DAY_SECONDS * type_.unit.per_second)
    _require(fits, values, mask, type_)
    return _with_values(array, type_, values.astype(dtype))


def _unit_of(type_: Any) -> int:
    return int(type_.unit.per_second)


def _counts(_: _Restoring, array: Array, type_: t.DataType) -> Array:
    """Convert timestamps, durations and times of day to another unit."""
    values, mask = array_data.data_values(array), array_data.validity_mask(array)
    ours, theirs = _unit_of(array.type), _unit_of(type_)
    if theirs >= ours:
        factor = theirs // ours
        most = np.iinfo(np.int64).max // factor  # greater values would overflow
        fits = (values >= -most) & (values <= most)
        counted = values.astype(np.int64) * factor
    else:
        factor = ours // theirs
        counted = values.astype(np.int64) // factor
        fits = counted * factor == values  # without a remainder
    if isinstance(type_, t.Time):
        fits &= (counted >= 0) & (counted < _DAY_SECONDS * theirs)
    _require(fits, values, mask, type_)
    return _with_values(array, type_, counted.astype(array_data.dtype_of(type_)))


def _float16(_: _Restoring, array: Array, type_: t.DataType) -> Array:
    values, mask = array_data.data_values(array), array_data.validity_mask(array)
    # Overflow to infinity changes the value, so the comparison refuses it; NaN is equal to no value.
    with np.errstate(over="ignore", invalid="ignore"):
        halves = values.astype(np.float16)
        _require((halves.astype(values.dtype) == values) | np.isnan(values), values, mask, type_)
    return _with_values(array, type_, halves)


def _words_of(number: int) -> tuple[np.uint64, np.int64]:
    return np.uint64(number & (2**64 - 1)), np.int64(number >> 64)


def _within(values: NDArray, least: int, most: int) -> npt.NDArray[np.bool_]:
    """Return the mask of the 128-bit numbers from `least` to `most`, both included."""
    # numpy has no integers of 128 bits: the high words are compared first.
    low, high = values["w0"], values["w1"]
    (least_low, least_high), (most_low, most_high) = _words_of(least), _words_of(most)
    not_less = (high > least_high) | ((high == least_high) & (low >= least_low))
    not_more = (high < most_high) | ((high == most_high) & (low <= most_low))
    return not_less & not_more  # type: ignore[no-any-return]


def _require_within(array: Array, type_: t.DataType, least: int, most: int) -> NDArray:
    values, mask = array_data.data_values(array), array_data.validity_mask(array)
    if (slot := _find_wrong(_within(values, least, most), mask)) is not None:
        _refuse(type_, array.slice(slot, 1).to_pylist()[0])
    return values


def _decimals(restoring: _Restoring, array: Array, type_: t.DataType) -> Array:
    assert isinstance(array.type, t.Decimal)
    assert isinstance(type_, t.Decimal)
    if array.type.scale != type_.scale:
        return _by_value(restoring, array, type_)
    most = 10 ** min(type_.precision, array.type.precision) - 1
    values = _require_within(array, type_, -most, most)
    # The number fits, so the low word has all its bits.
    if type_.bit_width < 128:
        return _with_values(array, type_, values["w0"].view(np.int64).astype(array_data.dtype_of(type_)))
    if type_.bit_width == 128:
        return replace(array, type=type_)
    wide = np.zeros(len(values), array_data.dtype_of(type_))
    wide["w0"], wide["w1"] = values["w0"], values["w1"].view(np.uint64)
    wide["w3"] = values["w1"] >> 63  # the sign in all bits of the upper words
    wide["w2"] = wide["w3"].view(np.uint64)
    return _with_values(array, type_, wide)


def _by_value(_: _Restoring, array: Array, type_: t.DataType) -> Array:
    """Convert decimals with more than 38 digits or a negative scale one by one in Python."""
    values = array.to_pylist()
    try:
        return from_pylist.array([value if value is None else Decimal(value) for value in values], type_)
    except (ValueError, InvalidOperation) as error:
        raise SchemaMismatchError(
            expected=f"values that {type_} holds exactly, which restoreTypes writes", found=str(error)
        ) from error


def _pack_bits(_: _Restoring, array: Array, type_: t.DataType) -> Array:
    """Pack the fields of a struct into intervals."""
    mask = array_data.validity_mask(array)
    packed = np.zeros(array.length, array_data.dtype_of(type_))
    for field, child in zip(array.type.children, array.children, strict=True):
        part = child.slice(array.offset, array.length)
        present = array_data.validity_mask(part)
        # An interval has no validity of its parts.
        if present is not None and _find_wrong(present, mask) is not None:
            _refuse(type_, f"an interval whose {field.name} are null")
        packed[field.name] = array_data.data_values(part)
    return _with_values(array, type_, packed)


def _large(_: _Restoring, array: Array, type_: t.DataType) -> Array:
    array = compact(array)
    offsets = array_data.value_offsets(array).astype(np.int64)
    return replace(array, type=type_, buffers=(array.buffers[0], array_data.as_buffer(offsets), *array.buffers[2:]))


def _views(_: _Restoring, array: Array, type_: t.DataType) -> Array:
    array = compact(array)
    offsets = array_data.value_offsets(array).astype(np.int64)
    starts, sizes = offsets[:-1], np.diff(offsets)
    mask = array_data.validity_mask(array)
    if mask is not None:
        sizes = np.where(mask, sizes, 0)  # bytes of null slots are not copied
    data = array_data.value_bytes(array)
    views = np.zeros(array.length, array_data.VIEW)
    views["size"] = sizes
    long = sizes > array_data.VIEW_INLINE_NBYTES
    views["offset"] = np.where(long, starts, 0)
    # A view has values of up to 12 bytes, and the first four bytes of longer ones.
    prefixes = np.where(long, 4, sizes)
    targets = positions_of_runs(np.arange(array.length) * array_data.VIEW.itemsize + 4, prefixes)
    views.view(np.uint8)[targets] = data[positions_of_runs(starts, prefixes)]
    variadic = (array.buffers[2],) if long.any() else ()
    return Array(type_, array.length, array.null_count, (array.buffers[0], array_data.as_buffer(views), *variadic))


def _rows_of(array: Array, width: int, type_: t.DataType) -> NDArray:
    """Return values of one length as rows of bytes, with zeros for nulls."""
    offsets = array_data.value_offsets(array).astype(np.int64)
    mask = array_data.validity_mask(array)
    lengths = np.diff(offsets)
    if (slot := _find_wrong(lengths == width, mask)) is not None:
        _refuse(type_, f"a value of {lengths[slot]:,} bytes")
    valid = np.arange(array.length) if mask is None else np.flatnonzero(mask)
    rows = np.zeros((array.length, width), np.uint8)
    data = array_data.value_bytes(array)
    if len(valid) and width:
        # Values have one length, so one gather copies all.
        rows[valid] = data[offsets[valid][:, None] + np.arange(width)]
    return rows


_HEX: Final = np.full(256, 255, np.uint8)
"""Values of hexadecimal digits by their codes; 255 for other characters."""
for _value, _digit in enumerate("0123456789abcdef"):
    _HEX[[ord(_digit), ord(_digit.upper())]] = _value


def _of_uuid(_: _Restoring, array: Array, type_: t.DataType) -> Array:
    """Parse UUIDs of 36 characters."""
    rows = _rows_of(array, _UUID_LENGTH, type_)
    mask = array_data.validity_mask(array)
    digits = _HEX[np.delete(rows, _HYPHENS, axis=1)]
    fits = (rows[:, _HYPHENS] == ord("-")).all(axis=1) & (digits < 16).all(axis=1)
    if (slot := _find_wrong(fits, mask)) is not None:
        _refuse(type_, f"{array.slice(slot, 1).to_pylist()[0]!r}, which is no UUID")
    both = np.where(digits < 16, digits, 0)  # null rows have no digits
    return _with_values(array, type_, both[:, ::2] << 4 | both[:, 1::2])


def _list(restoring: _Restoring, array: Array, type_: t.DataType) -> Array:
    array = compact(array)
    (value,) = type_.children
    child = restoring.below("[]").restore(array.children[0], value.type)
    return replace(array, type=type_, children=(child,))


def _large_list(restoring: _Restoring, array: Array, type_: t.DataType) -> Array:
    offsets = array_data.value_offsets(compact(array)).astype(np.int64)
    array = _list(restoring, array, type_)
    return replace(array, buffers=(array.buffers[0], array_data.as_buffer(offsets)))


def _list_view(bits: type[np.signedinteger[Any]]) -> Restore:
    def view(restoring: _Restoring, array: Array, type_: t.DataType) -> Array:
        offsets = array_data.value_offsets(compact(array))
        array = _list(restoring, array, type_)
        where = array_data.as_buffer(offsets[:-1].astype(bits)), array_data.as_buffer(np.diff(offsets).astype(bits))
        return replace(array, buffers=(array.buffers[0], *where))

    return view


def _list_of_fixed_size(restoring: _Restoring, array: Array, type_: t.FixedSizeList) -> Array:
    array = compact(array)
    offsets, size = array_data.value_offsets(array).astype(np.int64), type_.list_size
    mask, lengths = array_data.validity_mask(array), np.diff(offsets)
    if (slot := _find_wrong(lengths == size, mask)) is not None:
        _refuse(type_, f"a list of {lengths[slot]:,} elements")
    child = restoring.below("[]").restore(array.children[0], type_.value.type)
    if mask is not None:
        # In this layout a null list has elements, too, which become null.
        padded = concat([child, from_pylist.array([None], child.type)])
        elements = offsets[:-1, None] + np.arange(size)
        child = take(padded, np.where(mask[:, None], elements, child.length).reshape(-1))
    return Array(type_, array.length, array.null_count, (array.buffers[0],), (child,))


def _struct(restoring: _Restoring, array: Array, type_: t.DataType) -> Array:
    by_name = {field.name: child for field, child in zip(array.type.children, array.children, strict=True)}
    valid = array_data.validity_mask(array)
    children = []
    for field in type_.children:
        part = by_name[field.name].slice(array.offset, array.length)
        part = part if valid is None else mask_array(part, valid)  # values below a null struct are not checked
        children.append(restoring.below(field.name).restore(part, field.type))
    validity, nulls = _validity(array)
    return Array(type_, array.length, nulls, (validity,), tuple(children))


def _map(restoring: _Restoring, array: Array, type_: t.Map) -> Array:
    array = compact(array)
    usual, annotated = array.children[0], type_.entries.type
    # A file may have other names for keys and values.
    fields = tuple(replace(a, name=b.name) for a, b in zip(usual.type.children, annotated.children, strict=True))
    entries = restoring.below("[]").restore(replace(usual, type=t.Struct(fields)), annotated)
    return replace(array, type=type_, children=(entries,))


def _vector(_: _Restoring, array: Array, type_: t.DataType) -> Array:
    """Convert binary values to lists of the numbers in their bytes (``vectors=binary``)."""
    element = vector_element(type_)
    assert element is not None
    width = array_data.dtype_of(element).itemsize
    fixed = type_.list_size * width if isinstance(type_, t.FixedSizeList) else None
    array = compact(array)
    offsets = array_data.value_offsets(array).astype(np.int64)
    mask = array_data.validity_mask(array)
    nbytes = np.diff(offsets)
    fits = nbytes % width == 0 if fixed is None else nbytes == fixed
    if (row := _find_wrong(fits, mask)) is not None:
        expected = (
            f"a multiple of {width} bytes, as {type_}" if fixed is None else f"{fixed:,} bytes, which {type_} has"
        )
        raise SchemaMismatchError(expected=expected, found=f"{int(nbytes[row]):,} in row {row:,} of a batch")
    data = array_data.value_bytes(array)[int(offsets[0]) : int(offsets[-1])]
    if mask is not None and (nbytes[~mask] != (fixed or 0)).any():
        # Some null rows have bytes, where this layout has `fixed` zeros, or none.
        sizes = np.where(mask, nbytes, fixed or 0)
        present, data = data[np.repeat(mask, nbytes)], np.zeros(int(sizes.sum()), np.uint8)
        data[np.repeat(mask, sizes)] = present
        offsets = np.concatenate([[0], np.cumsum(sizes)])
    numbers = Array(element, len(data) // width, 0, (None, array_data.as_buffer(data)))
    if fixed is not None:
        return replace(array, type=type_, buffers=(array.buffers[0],), children=(numbers,))
    starts = ((offsets - offsets[0]) // width).astype(np.int64 if isinstance(type_, t.LargeList) else np.int32)
    return replace(array, type=type_, buffers=(array.buffers[0], array_data.as_buffer(starts)), children=(numbers,))


def _has_fields(*fields: tuple[str, t.DataType]) -> Callable[[Any, Any], bool]:
    return lambda usual, _: [(f.name, f.type) for f in usual.fields] == list(fields)


def _is_count(usual: t.Int, _: Any) -> bool:
    return usual == t.int64


def _same_names(usual: t.Struct, annotated: t.Struct) -> bool:
    return sorted(f.name for f in usual.fields) == sorted(f.name for f in annotated.fields)


@dataclass(frozen=True, slots=True)
class Row:
    """A conversion between type classes, and the check of their parameters."""

    restore: Restore
    fits: Callable[[Any, Any], bool] = lambda _usual, _annotated: True
    is_complete: bool = False  # True if `restore` also converts the children, which then need no rows


RESTORED: Final[Mapping[tuple[type[t.DataType], type[t.DataType]], Row]] = {
    (t.Int, t.Int): Row(_numbers),
    (t.Decimal, t.Int): Row(
        lambda _, array, type_: _with_values(array, type_, _require_within(array, type_, 0, 2**64 - 1)["w0"]),
        lambda usual, annotated: usual == t.Decimal(20, 0) and annotated == t.uint64,
    ),
    (t.Bool, t.Int): Row(
        lambda _, array, type_: _with_values(array, type_, array_data.data_values(array).astype(np.int8)),
        lambda _, annotated: annotated == t.int8,
    ),
    (t.FloatingPoint, t.FloatingPoint): Row(
        _float16, lambda usual, annotated: (usual, annotated) == (t.float32, t.float16)
    ),
    (t.Decimal, t.Decimal): Row(_decimals),
    (t.Utf8, t.Decimal): Row(_by_value),
    (t.Date, t.Date): Row(
        lambda _, array, type_: _with_values(
            array, type_, array_data.data_values(array).astype(np.int64) * _DAY_MILLISECONDS
        )
    ),
    (t.Duration, t.Time): Row(_counts),
    (t.Time, t.Time): Row(_counts),
    (t.Int, t.Time): Row(_numbers, _is_count),
    (t.Timestamp, t.Timestamp): Row(_counts, lambda a, b: (a.timezone is None) == (b.timezone is None)),
    (t.Int, t.Timestamp): Row(_numbers, _is_count),
    (t.Duration, t.Duration): Row(_counts),
    (t.Int, t.Duration): Row(_numbers, _is_count),
    (t.Int, t.IntervalYearMonth): Row(_numbers, lambda usual, _: usual == t.int32),
    (t.Struct, t.IntervalDayTime): Row(
        _pack_bits, _has_fields(("days", t.int32), ("milliseconds", t.int32)), is_complete=True
    ),
    (t.Struct, t.IntervalMonthDayNano): Row(
        _pack_bits, _has_fields(("months", t.int32), ("days", t.int32), ("nanoseconds", t.int64)), is_complete=True
    ),
    (t.Binary, t.LargeBinary): Row(_large),
    (t.Utf8, t.LargeUtf8): Row(_large),
    (t.Binary, t.BinaryView): Row(_views),
    (t.Utf8, t.Utf8View): Row(_views),
    (t.Binary, t.FixedSizeBinary): Row(
        lambda _, array, type_: _with_values(array, type_, _rows_of(array, type_.byte_width, type_))
    ),
    **{
        (t.Binary, kind): Row(_vector, lambda _, annotated: vector_element(annotated) is not None, is_complete=True)
        for kind in (t.List, t.LargeList, t.FixedSizeList)
    },
    (t.Utf8, t.FixedSizeBinary): Row(_of_uuid, lambda _, annotated: annotated.byte_width == _UUID_NBYTES),
    (t.List, t.List): Row(_list),
    (t.List, t.LargeList): Row(_large_list),
    (t.List, t.ListView): Row(_list_view(np.int32)),
    (t.List, t.LargeListView): Row(_list_view(np.int64)),
    (t.List, t.FixedSizeList): Row(_list_of_fixed_size),
    (t.Struct, t.Struct): Row(_struct, _same_names),
    (t.Map, t.Map): Row(_map),
}
"""By the classes of the usual and the annotated type."""
