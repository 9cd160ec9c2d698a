"""Convert nested types and runs: lists, structs, unions, ...

A nested conversion slices the children to the visible range, computes their live slots if a child checks values,
converts them, and adds validity and offsets, shared if they fit. Runs are converted once and repeated.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.array_data import comparable_floats
from spark_arrow_ipc.arrow.column_path import find_columns
from spark_arrow_ipc.arrow.kernels.take import positions_of_runs
from spark_arrow_ipc.arrow.validate.arrays import VALUE_CHECKS
from spark_arrow_ipc.errors import InvalidBodyError, SchemaMismatchError
from spark_arrow_ipc.ipc.constants import Validation
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.convert.conversion import (
    ABSENT_FIELD,
    Conversion,
    Mask,
    Numbers,
    Refusal,
    Site,
    both,
    buffer_values,
    convert_picked,
    data,
    even_offsets,
    narrow_offsets,
    nulls,
    offsets,
    offsets_of_sizes,
    pyarrow_type,
    valid,
    validity,
    visible_slots,
)
from spark_arrow_ipc.spark.types.arrow_to_spark import union_names

Longs: TypeAlias = npt.NDArray[np.int64]

# Refuse duplicate keys of maps.
#
# Spark does not check the keys of maps that come from Arrow. Here they become numbers, equal for equal keys (-0.0
# equals 0.0, NaN equals NaN, as in Spark): their bits if they have a fixed width, otherwise pyarrow's dictionary codes.
# In small maps every entry is compared with those after it, one numpy comparison for each distance; in larger ones
# (map, number) pairs are sorted. Only keys of a nested type become Python values.
_SMALL_MAP = 16
"""Entries up to which comparing all pairs is cheaper than sorting (measured: 0.4 ms for a million entries and a distance)."""


def check_distinct(keys: pa.Array, sizes: Longs, path: str) -> None:
    """Raise if a map has a key twice; `keys` are of all maps in turn, `sizes` the entries of each."""
    if len(keys) == 0 or sizes.max() <= 1:
        return
    maps = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    bits = _bits(keys)
    if bits is not None and not _may_repeat(bits, maps, int(sizes.max())):
        return
    codes, kinds = _codes(keys)
    if kinds == len(keys) or not _may_repeat(codes, maps, int(sizes.max())):
        return
    # Maps and keys are counted in 32 bits, so the product does not overflow.
    pairs = maps * kinds + codes
    order = np.argsort(pairs, kind="stable")
    ordered = pairs[order]
    repeats = order[1:][ordered[1:] == ordered[:-1]]
    if len(repeats):
        entry = int(repeats.min())
        raise SchemaMismatchError(
            f"a map holds the key {keys[entry].as_py()!r} twice (slot {maps[entry]}), which Spark's maps do not; "
            "leave the column out with the option columns",
            field_path=path,
        )


def _may_repeat(numbers: Numbers, maps: Longs, largest: int) -> bool:
    """Return False if no map has a duplicate number; large maps are not compared."""
    if largest > _SMALL_MAP:
        return True
    return any(
        bool(((numbers[lag:] == numbers[:-lag]) & (maps[lag:] == maps[:-lag])).any()) for lag in range(1, largest)
    )


def _bits(keys: pa.Array) -> Numbers | None:
    """Return keys of a fixed width as integers that are equal for equal keys; None for other keys."""
    if pa.types.is_floating(keys.type):
        keys = _normal_floats(keys)
    if not (pa.types.is_integer(keys.type) or pa.types.is_temporal(keys.type)):
        return None
    bits: Numbers = keys.view(f"int{keys.type.bit_width}").to_numpy(zero_copy_only=False)
    return bits


def _codes(keys: pa.Array) -> tuple[Longs, int]:
    """Return one number for each key, equal for equal keys, and how many numbers differ."""
    if pa.types.is_nested(keys.type):
        # pyarrow cannot encode nested types, so these become Python values.
        numbers: dict[Any, int] = {}
        codes = [numbers.setdefault(_hashable(key), len(numbers)) for key in keys.to_pylist()]
        return np.array(codes, np.int64), len(numbers)
    if pa.types.is_floating(keys.type):
        keys = _normal_floats(keys)
    encoded = keys.dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def _normal_floats(keys: pa.Array) -> pa.Array:
    """Return floats with one zero and one NaN, as integers of the same bits."""
    values = comparable_floats(keys.to_numpy(zero_copy_only=False))
    return bridge.numbers(values.view(f"i{values.dtype.itemsize}"))


def _hashable(value: object) -> Any:
    """Return a hashable value that is equal for equal keys, NaN included."""
    if isinstance(value, dict):
        return tuple((name, _hashable(part)) for name, part in value.items())
    if isinstance(value, list):
        return ("list", *map(_hashable, value))
    if isinstance(value, float):
        return ("float", "nan") if value != value else ("float", value)  # noqa: PLR0124 - only NaN differs from itself
    return value


def list_of(field: t.Field, target: s.ArrayType, site: Site) -> Conversion:
    """Compile the conversion of List and LargeList, with 32-bit offsets."""
    to = pyarrow_type(target, site.path)
    element = _element(field, target, site)
    dtype = np.dtype(np.int64 if isinstance(field.type, t.LargeList) else np.int32)

    def convert(array: Array, live: Mask) -> pa.Array:
        list_offsets = offsets(array, dtype)
        start, stop = int(list_offsets[0]), int(list_offsets[-1])
        child = array.children[0].slice(start, stop - start)
        converted = element.convert(child, _live_below(element, array, live, list_offsets))
        # Offsets from 0 in 32 bits are already as Spark has them, and are shared.
        narrow = list_offsets if start == 0 and dtype.itemsize == 4 else narrow_offsets(list_offsets - start, site.path)
        return _around(to, array, converted, narrow)

    return Conversion(convert, element.checks, Refusal.of_parts([element]))


def list_of_one_size(field: t.Field, target: s.ArrayType, site: Site) -> Conversion:
    """Compile the conversion of FixedSizeList, with new offsets."""
    to = pyarrow_type(target, site.path)
    element = _element(field, target, site)
    assert isinstance(field.type, t.FixedSizeList)
    size = field.type.list_size

    def convert(array: Array, live: Mask) -> pa.Array:
        new_offsets = even_offsets(array.length, size, site.path)
        child = array.children[0].slice(array.offset * size, array.length * size)
        converted = element.convert(child, _live_below(element, array, live, new_offsets))
        return _around(to, array, converted, new_offsets)

    return Conversion(convert, element.checks, Refusal.of_parts([element]))


def list_view(field: t.Field, target: s.ArrayType, site: Site) -> Conversion:
    """Compile the conversion of ListView and LargeListView, which gathers the elements."""
    to = pyarrow_type(target, site.path)
    element = _element(field, target, site)
    dtype = np.dtype(np.int64 if isinstance(field.type, t.LargeListView) else np.int32)
    is_checked = site.options.validation is Validation.FULL

    def convert(array: Array, live: Mask) -> pa.Array:
        if not is_checked:
            VALUE_CHECKS[type(array.type)](array, site.path)  # numpy would allocate memory for any size
        starts = buffer_values(array, 1, dtype, array.length).astype(np.int64)
        sizes = buffer_values(array, 2, dtype, array.length).astype(np.int64)
        mask = visible_slots(array, live)
        if mask is not None:
            sizes = np.where(mask, sizes, 0)  # a hidden slot may have any size
        new_offsets = offsets_of_sizes(sizes)
        narrow = narrow_offsets(new_offsets, site.path)
        picked = positions_of_runs(starts, sizes)
        return _around(to, array, convert_picked(element, array.children[0], picked), narrow)

    return Conversion(convert, element.checks, Refusal.of_parts([element]))


def struct(field: t.Field, target: s.StructType, site: Site) -> Conversion:
    """Compile the conversion of Struct to the requested fields, which are found by name."""
    to = pyarrow_type(target, site.path)
    names = [child.name for child in field.type.children]
    children = (*field.type.children, ABSENT_FIELD)
    absent = len(names) if site.options.fills_missing else None
    positions = find_columns(names, target.names, site.path, absent=absent)
    conversions = [
        site.compile(children[i], requested.dataType, f"{site.path}.{requested.name}", nullable=requested.nullable)
        for i, requested in zip(positions, target.fields, strict=True)
    ]
    checks = any(conversion.checks for conversion in conversions)

    def convert(array: Array, live: Mask) -> pa.Array:
        mask = visible_slots(array, live) if checks else None
        # The last column stands for fields that the file lacks; it is sliced as the others are.
        columns = (*array.children, nulls(array.offset + array.length))
        parts = [
            conversion.convert(columns[i].slice(array.offset, array.length), mask)
            for i, conversion in zip(positions, conversions, strict=True)
        ]
        return pa.Array.from_buffers(to, array.length, [validity(array)], array.null_count, children=parts)

    return Conversion(convert, checks, Refusal.of_parts(conversions))


def map_of(field: t.Field, target: s.MapType, site: Site) -> Conversion:
    """Compile the conversion of Map, which refuses null and duplicate keys."""
    to = pyarrow_type(target, site.path)
    type_ = field.type
    assert isinstance(type_, t.Map)
    # Keys may be null for the compiler: `_check_keys` finds null ones before pyarrow, which would end the process.
    key = site.compile(type_.key, target.keyType, f"{site.path}[].{type_.key.name}", nullable=True)
    value = site.compile(
        type_.item, target.valueType, f"{site.path}[].{type_.item.name}", nullable=target.valueContainsNull
    )

    def convert(array: Array, live: Mask) -> pa.Array:
        map_offsets = offsets(array, np.int32)
        start, stop = int(map_offsets[0]), int(map_offsets[-1])
        entries = array.children[0].slice(start, stop - start)
        sizes = np.diff(map_offsets).astype(np.int64)
        mask = visible_slots(array, live)
        live_entries = None if mask is None else np.repeat(mask, sizes)
        if live_entries is not None and live_entries.all():
            live_entries = None  # nothing is hidden, so that offsets and entries can be shared
        keys, values = (child.slice(entries.offset, entries.length) for child in entries.children)
        _check_keys(entries, keys, live_entries, site.path)
        keys, values = key.convert(keys, live_entries), value.convert(values, live_entries)
        if live_entries is not None:
            assert mask is not None
            entry_indices = bridge.numbers(np.flatnonzero(live_entries))
            keys, values, sizes = keys.take(entry_indices), values.take(entry_indices), np.where(mask, sizes, 0)
        check_distinct(keys, sizes, site.path)
        unchanged = live_entries is None and start == 0
        narrow = map_offsets if unchanged else offsets_of_sizes(sizes).astype(np.int32)
        pairs = pa.StructArray.from_arrays([keys, values], fields=[to.key_field, to.item_field])
        return _around(to, array, pairs, narrow)

    return Conversion(convert, checks=True)


def union(field: t.Field, target: s.StructType, site: Site) -> Conversion:
    """Compile the conversion of a union to a struct in which only the selected child is set."""
    to = pyarrow_type(target, site.path)
    type_ = field.type
    assert isinstance(type_, t.SparseUnion | t.DenseUnion)
    names = union_names(type_)
    positions = find_columns(names, target.names, site.path)
    children = [
        site.compile(type_.fields[i], requested.dataType, f"{site.path}.{requested.name}", nullable=requested.nullable)
        for i, requested in zip(positions, target.fields, strict=True)
    ]
    dense = isinstance(type_, t.DenseUnion)

    def convert(array: Array, live: Mask) -> pa.Array:
        type_ids = buffer_values(array, 0, np.int8, array.length)
        parts = []
        for i, requested, conversion in zip(positions, target.fields, children, strict=True):
            selected = type_ids == type_.type_ids[i]
            if not requested.nullable and not (selected if live is None else selected | ~live).all():
                raise SchemaMismatchError(
                    "expected no nulls (the schema says NOT NULL), found some",
                    field_path=f"{site.path}.{requested.name}",
                )
            child, picks = array.children[i], buffer_values(array, 1, np.int32, array.length) if dense else None
            if picks is None:
                child = child.slice(array.offset, array.length)
            parts.append(_convert_selected(conversion, child, both(selected, live), picks))
        return pa.Array.from_buffers(to, array.length, [None], 0, children=parts)

    # A union has no validity bitmap, so headers count no nulls for it.
    refusal = Refusal.of_parts(children)
    return Conversion(convert, any(not f.nullable for f in target.fields) or any(c.checks for c in children), refusal)


def run_ends(field: t.Field, target: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of RunEndEncoded, which repeats converted values."""
    type_ = field.type
    assert isinstance(type_, t.RunEndEncoded)
    values = site.compile(type_.values, target, site.path, nullable=True)
    ends_type = type_.run_ends.type
    assert isinstance(ends_type, t.Int)
    dtype = np.dtype(f"i{ends_type.bit_width // 8}")

    def convert(array: Array, _live: Mask) -> pa.Array:
        first, lengths = runs(array, dtype)
        child = array.children[1].slice(first, len(lengths))
        picked = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
        return values.convert(child, None).take(bridge.numbers(picked))

    return Conversion(convert, refusal=values.refusal)


def runs(array: Array, dtype: npt.DTypeLike) -> tuple[int, npt.NDArray[np.int64]]:
    """Return the number of the first visible run of an array, and the visible lengths of all visible runs."""
    if array.length == 0:
        return 0, np.zeros(0, np.int64)
    ends = data(array.children[0], dtype).astype(np.int64)
    first = int(np.searchsorted(ends, array.offset, side="right"))
    last = int(np.searchsorted(ends, array.offset + array.length - 1, side="right"))
    if last >= len(ends):
        raise InvalidBodyError(
            expected=f"run ends up to {array.offset + array.length}", found=f"up to {ends[-1] if len(ends) else 0}"
        )
    shown = np.minimum(ends[first : last + 1], array.offset + array.length)
    return first, np.diff(shown, prepend=array.offset)


def _element(field: t.Field, target: s.ArrayType, site: Site) -> Conversion:
    return site.compile(field.type.children[0], target.elementType, f"{site.path}[]", nullable=target.containsNull)


def _around(to: pa.DataType, array: Array, child: pa.Array, narrow: Numbers) -> pa.Array:
    """Return a list or map of new offsets and a converted child, with the validity of `array`."""
    buffers = [validity(array), pa.py_buffer(np.ascontiguousarray(narrow))]
    return pa.Array.from_buffers(to, array.length, buffers, array.null_count, children=[child])


def _live_below(element: Conversion, array: Array, live: Mask, list_offsets: Numbers) -> Mask:
    """Return the mask of the visible elements between the first and the last offset."""
    mask = visible_slots(array, live) if element.checks else None
    return None if mask is None else np.repeat(mask, np.diff(list_offsets))


def _check_keys(entries: Array, keys: Array, live: Mask, path: str) -> None:
    mask = both(valid(entries), valid(keys))
    if mask is None:
        return
    bad = ~mask if live is None else ~mask & live
    if bad.any():
        raise InvalidBodyError(
            expected="map keys that are not null",
            found=f"a null key in entry {int(bad.argmax())}",
            field_path=path,
            spec='Columnar.rst "Map"',
        )


def _convert_selected(conversion: Conversion, child: Array, selected: Mask, picks: Numbers | None) -> pa.Array:
    """Return a union's child with one slot for each of the union's, null if not selected."""
    assert selected is not None
    child_live: Mask = selected
    if picks is not None:
        # The child of a dense union has slots for its own rows only.
        child_live = np.zeros(child.length, np.bool_)
        child_live[picks[selected]] = True
    converted = conversion.convert(child, child_live)
    if not selected.any():
        return pa.nulls(len(selected), converted.type)
    if picks is None and selected.all():
        return converted
    indices = np.where(selected, np.arange(len(selected)) if picks is None else picks, 0)
    return converted.take(bridge.numbers(indices.astype(np.int64), ~selected))
