"""Convert our arrays to pyarrow's and back without copying memory.

The buffers of the columnar format are the same on both sides, in the same order, so an array is
converted by its buffers: `pyarrow.py_buffer` of a `memoryview`, which keeps its owner alive, and `memoryview` of a
`pyarrow.Buffer`. Only types are translated, each by one row of `_TO_PYARROW` and of `_FROM_PYARROW`.

Field names, nullability and metadata of nested types survive. Nothing is checked here: arrays come from our
decoder, which checks, or from Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import pyarrow as pa

from spark_arrow_ipc.arrow import bitmap
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.layout import LAYOUTS, Role
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema

PyArrowSchema: TypeAlias = pa.Schema
PyArrowBatch: TypeAlias = pa.RecordBatch
"""The batches that Spark gives a writer, for annotations in modules that do not import pyarrow."""

_ZEROS = memoryview(bytes(8))
"""The one value offset of an array without slots, which the format lets a file leave out."""

_WITH_OFFSETS: Final = frozenset(
    kind for kind, layout in LAYOUTS.items() if Role.OFFSETS in (row.role for row in layout.buffers)
)
"""Type classes that have value offsets."""

_UNIT = {unit.abbreviation: unit for unit in t.TimeUnit}


def to_pyarrow(array: Array) -> pa.Array:
    """Return an array as pyarrow's, sharing all memory. O(buffers).

    Dictionary-encoded, run-end encoded and view arrays become pyarrow's of the same type.
    """
    if isinstance(array.type, t.Dictionary):
        assert array.dictionary is not None
        index_type = type_to_pyarrow(array.type.index)
        indices = pa.Array.from_buffers(index_type, array.length, buffers_of(array), array.null_count, array.offset)
        values = to_pyarrow(array.dictionary)
        return pa.DictionaryArray.from_arrays(indices, values, ordered=array.type.ordered, safe=False)
    children = [to_pyarrow(child) for child in array.children]
    if isinstance(array.type, t.RunEndEncoded):
        return pa.RunEndEncodedArray.from_arrays(*children).slice(array.offset, array.length)
    type_ = type_to_pyarrow(array.type)
    if isinstance(array.type, t.Null):
        return pa.nulls(array.length)
    return pa.Array.from_buffers(
        type_, array.length, buffers_of(array), array.null_count, array.offset, children=children
    )


def buffers_of(array: Array) -> list[pa.Buffer | None]:
    """Return the buffers of an array in pyarrow's order: a validity bitmap first, or None.

    pyarrow has this place for types without a validity bitmap as well.
    """
    buffers = [None if buffer is None else pa.py_buffer(buffer) for buffer in array.buffers]
    kind = type(array.type)
    if array.length == 0 and kind in _WITH_OFFSETS and not array.buffers[1]:
        buffers[1] = pa.py_buffer(_ZEROS)
    return buffers if LAYOUTS[kind].has_validity else [None, *buffers]


def from_pyarrow(array: pa.Array) -> Array:
    """Return pyarrow's array as ours, sharing all memory. O(buffers).

    A slice keeps its offset.
    """
    if isinstance(array, pa.ExtensionArray):
        return from_pyarrow(array.storage)
    type_ = type_from_pyarrow(array.type)
    special = _SPECIAL.get(type(type_))
    if special is not None:
        return special(array, type_)
    children = tuple(map(from_pyarrow, _CHILDREN.get(type(type_), _no_children)(array)))
    counted = LAYOUTS[type(type_)].has_validity or isinstance(type_, t.Null)
    nulls = array.null_count if counted else 0
    return Array(type_, len(array), nulls, _own_buffers(array, type_), children, None, array.offset)


def batch_from_pyarrow(batch: pa.RecordBatch) -> RecordBatch:
    """Return pyarrow's record batch as ours, sharing all memory."""
    schema = schema_from_pyarrow(batch.schema)
    return RecordBatch(schema, tuple(map(from_pyarrow, batch.columns)), batch.num_rows)


def joined(batches: Iterable[pa.RecordBatch], rows: int, nbytes: int) -> Iterator[pa.RecordBatch]:
    """Join small batches of one schema into batches of `rows` rows or about `nbytes` bytes.

    Only the last batch, and one that reaches `nbytes` first, has fewer rows.
    """
    held: list[pa.RecordBatch] = []
    held_rows = held_nbytes = 0
    for batch in batches:
        first = 0
        while first < batch.num_rows:
            part = batch if first == 0 and batch.num_rows <= rows - held_rows else batch.slice(first, rows - held_rows)
            held.append(part)
            held_rows += part.num_rows
            held_nbytes += part.nbytes
            first += part.num_rows
            if held_rows == rows or held_nbytes >= nbytes:
                yield from _as_one(held)
                held, held_rows, held_nbytes = [], 0, 0
    if held:
        yield from _as_one(held)


def _as_one(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) == 1:
        return batches
    # There is more than one batch if strings exceed 32-bit value offsets.
    joined_batches: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined_batches


def schema_from_pyarrow(schema: pa.Schema) -> Schema:
    """Return pyarrow's schema as ours."""
    return Schema(tuple(map(field_from_pyarrow, schema)), _pairs(schema.metadata))


def field_to_pyarrow(field: t.Field) -> pa.Field:
    """Return a field as pyarrow's; the last value of a duplicate metadata key is kept."""
    metadata = {key.encode(): t.value_bytes(value) for key, value in field.custom_metadata}
    return pa.field(field.name, type_to_pyarrow(field.type), field.nullable, metadata or None)


def field_from_pyarrow(field: pa.Field) -> t.Field:
    """Return pyarrow's field as ours."""
    return t.Field(field.name, type_from_pyarrow(field.type), field.nullable, _pairs(field.metadata))


def type_to_pyarrow(type_: t.DataType) -> pa.DataType:
    """Return a type as pyarrow's."""
    return _TO_PYARROW[type(type_)](type_)


def type_from_pyarrow(type_: pa.DataType) -> t.DataType:
    """Return pyarrow's type as ours; of an extension type its storage."""
    if isinstance(type_, pa.BaseExtensionType):
        return type_from_pyarrow(type_.storage_type)
    make = _FROM_PYARROW.get(type_.id)
    if make is None:
        raise TypeError(f"expected a type of the Arrow columnar format, found {type_}")
    return make(type_)


def _pairs(metadata: Mapping[bytes, bytes] | None) -> t.CustomMetadata:
    return tuple((k.decode(), v.decode(errors="surrogateescape")) for k, v in (metadata or {}).items())


def _own_buffers(array: pa.Array, type_: t.DataType) -> tuple[memoryview | None, ...]:
    """Return an array's own buffers, without those of its children that pyarrow lists too."""
    layout = LAYOUTS[type(type_)]
    listed = array.buffers()
    first = 0 if layout.has_validity else 1
    number = len(listed) if layout.is_variadic else first + len(layout.buffers)
    views = [None if buffer is None else memoryview(buffer).cast("B") for buffer in listed[first:number]]
    return tuple(
        view if view is not None or (layout.has_validity and i == 0) else memoryview(b"")
        for i, view in enumerate(views)
    )


def _no_children(_array: pa.Array) -> tuple[pa.Array, ...]:
    return ()


def _values(array: pa.Array) -> tuple[pa.Array, ...]:
    """Return the elements or entries of a list or map array, whole, whatever the slice."""
    return (array.values,)


def _dense_fields(array: pa.Array) -> tuple[pa.Array, ...]:
    """Return the children of a dense union, whole, whatever the slice."""
    return tuple(array.field(i) for i in range(array.type.num_fields))


_CHILDREN: Mapping[type[t.DataType], Callable[[pa.Array], tuple[pa.Array, ...]]] = {
    t.List: _values,
    t.LargeList: _values,
    t.ListView: _values,
    t.LargeListView: _values,
    t.FixedSizeList: _values,
    t.Map: _values,
    t.DenseUnion: _dense_fields,
}


def _from_dictionary(array: pa.DictionaryArray, type_: t.DataType) -> Array:
    indices = from_pyarrow(array.indices)
    values = from_pyarrow(array.dictionary)
    return Array(type_, len(array), array.null_count, indices.buffers, (), values, indices.offset)


def _from_struct(array: pa.StructArray, type_: t.DataType) -> Array:
    """Return a struct of offset 0, because pyarrow slices its fields as the struct itself."""
    (validity,) = _own_buffers(array, type_)
    if validity is not None and array.offset:
        validity = bitmap.slice_bits(validity, array.offset, len(array))
    children = tuple(from_pyarrow(array.field(i)) for i in range(array.type.num_fields))
    return Array(type_, len(array), array.null_count, (validity,), children)


def _from_sparse(array: pa.UnionArray, type_: t.DataType) -> Array:
    """Return a sparse union of offset 0, because pyarrow slices its children too."""
    (type_ids,) = _own_buffers(array, type_)
    assert type_ids is not None
    children = tuple(from_pyarrow(array.field(i)) for i in range(array.type.num_fields))
    return Array(type_, len(array), 0, (type_ids[array.offset :],), children)


def _from_run_ends(array: pa.RunEndEncodedArray, type_: t.DataType) -> Array:
    children = (from_pyarrow(array.run_ends), from_pyarrow(array.values))
    return Array(type_, len(array), 0, (), children, None, array.offset)


_SPECIAL: Mapping[type[t.DataType], Callable[[pa.Array, t.DataType], Array]] = {
    t.Dictionary: _from_dictionary,
    t.Struct: _from_struct,
    t.SparseUnion: _from_sparse,
    t.RunEndEncoded: _from_run_ends,
}
"""Types whose pyarrow arrays need a conversion of their own."""


def _constant(type_: pa.DataType) -> Callable[[Any], pa.DataType]:
    return lambda _: type_


def _list_to(name: str) -> Callable[[Any], pa.DataType]:
    # By name, when it is needed: Spark 4.1 works with a pyarrow that has no list-views.
    return lambda type_: getattr(pa, name)(field_to_pyarrow(type_.value))


def _union_to(make: Callable[[list[pa.Field], list[int]], pa.DataType]) -> Callable[[Any], pa.DataType]:
    return lambda type_: make([field_to_pyarrow(f) for f in type_.fields], list(type_.type_ids))


def _int_to(type_: t.Int) -> pa.DataType:
    return _INTS[type_.signed, type_.bit_width]


_INTS = {
    (signed, width): getattr(pa, f"{'' if signed else 'u'}int{width}")()
    for signed in (True, False)
    for width in (8, 16, 32, 64)
}


_TO_PYARROW: Mapping[type[t.DataType], Callable[[Any], pa.DataType]] = {
    t.Null: _constant(pa.null()),
    t.Bool: _constant(pa.bool_()),
    t.Int: _int_to,
    t.FloatingPoint: lambda x: (pa.float16(), pa.float32(), pa.float64())[x.precision],
    # By name: Spark 4.1 works with a pyarrow that has no decimal32 and decimal64.
    t.Decimal: lambda x: getattr(pa, f"decimal{x.bit_width}")(x.precision, x.scale),
    t.Date: lambda x: (pa.date32(), pa.date64())[x.unit],
    t.Time: lambda x: (pa.time32 if x.bit_width == 32 else pa.time64)(x.unit.abbreviation),
    t.Timestamp: lambda x: pa.timestamp(x.unit.abbreviation, x.timezone),
    t.Duration: lambda x: pa.duration(x.unit.abbreviation),
    # pyarrow has no type for two of the intervals: their memory goes over as numbers and bytes.
    t.IntervalYearMonth: _constant(pa.int32()),
    t.IntervalDayTime: _constant(pa.binary(8)),
    t.IntervalMonthDayNano: _constant(pa.month_day_nano_interval()),
    t.FixedSizeBinary: lambda x: pa.binary(x.byte_width),
    t.Binary: _constant(pa.binary()),
    t.LargeBinary: _constant(pa.large_binary()),
    t.BinaryView: lambda _: pa.binary_view(),
    t.Utf8: _constant(pa.string()),
    t.LargeUtf8: _constant(pa.large_string()),
    t.Utf8View: lambda _: pa.string_view(),
    t.List: _list_to("list_"),
    t.LargeList: _list_to("large_list"),
    t.ListView: _list_to("list_view"),
    t.LargeListView: _list_to("large_list_view"),
    t.FixedSizeList: lambda x: pa.list_(field_to_pyarrow(x.value), x.list_size),
    t.Struct: lambda x: pa.struct([field_to_pyarrow(f) for f in x.fields]),
    t.Map: lambda x: pa.map_(
        field_to_pyarrow(x.key).with_nullable(nullable=False), field_to_pyarrow(x.item), keys_sorted=x.keys_sorted
    ),
    t.SparseUnion: _union_to(pa.sparse_union),
    t.DenseUnion: _union_to(pa.dense_union),
    t.RunEndEncoded: lambda x: pa.run_end_encoded(type_to_pyarrow(x.run_ends.type), type_to_pyarrow(x.values.type)),
    t.Dictionary: lambda x: pa.dictionary(type_to_pyarrow(x.index), type_to_pyarrow(x.value), ordered=x.ordered),
}
"""By our type class: pyarrow's type."""


def _decimal_from(bit_width: int) -> Callable[[Any], t.DataType]:
    return lambda x: t.Decimal(x.precision, x.scale, bit_width)


def _unit_from(make: Callable[..., t.DataType], *rest: int) -> Callable[[Any], t.DataType]:
    return lambda x: make(_UNIT[x.unit], *rest)


def _list_from(make: Callable[[t.Field], t.DataType]) -> Callable[[Any], t.DataType]:
    return lambda x: make(field_from_pyarrow(x.value_field))


def _map_from(type_: pa.MapType) -> t.DataType:
    entries = t.Struct((field_from_pyarrow(type_.key_field), field_from_pyarrow(type_.item_field)))
    return t.Map(t.Field("entries", entries, nullable=False), type_.keys_sorted)


def _union_from(make: Callable[..., t.DataType]) -> Callable[[Any], t.DataType]:
    return lambda x: make(tuple(field_from_pyarrow(x.field(i)) for i in range(x.num_fields)), tuple(x.type_codes))


def _run_ends_from(type_: pa.RunEndEncodedType) -> t.DataType:
    ends = t.Field("run_ends", type_from_pyarrow(type_.run_end_type), nullable=False)
    return t.RunEndEncoded(ends, t.Field("values", type_from_pyarrow(type_.value_type)))


def _dictionary_from(type_: pa.DictionaryType) -> t.DataType:
    index = type_from_pyarrow(type_.index_type)
    assert isinstance(index, t.Int)
    return t.Dictionary(index, type_from_pyarrow(type_.value_type), type_.ordered)


def _same(type_: t.DataType) -> Callable[[Any], t.DataType]:
    return lambda _: type_


_FROM_BY_NAME: Mapping[str, Callable[[Any], t.DataType]] = {
    "NA": _same(t.null),
    "BOOL": _same(t.bool_),
    "INT8": _same(t.int8),
    "INT16": _same(t.int16),
    "INT32": _same(t.int32),
    "INT64": _same(t.int64),
    "UINT8": _same(t.uint8),
    "UINT16": _same(t.uint16),
    "UINT32": _same(t.uint32),
    "UINT64": _same(t.uint64),
    "HALF_FLOAT": _same(t.float16),
    "FLOAT": _same(t.float32),
    "DOUBLE": _same(t.float64),
    "DECIMAL32": _decimal_from(32),
    "DECIMAL64": _decimal_from(64),
    "DECIMAL128": _decimal_from(128),
    "DECIMAL256": _decimal_from(256),
    "DATE32": _same(t.date32),
    "DATE64": _same(t.date64),
    "TIME32": _unit_from(t.Time, 32),
    "TIME64": _unit_from(t.Time, 64),
    "TIMESTAMP": lambda x: t.Timestamp(_UNIT[x.unit], x.tz),
    "DURATION": _unit_from(t.Duration),
    "INTERVAL_MONTH_DAY_NANO": _same(t.IntervalMonthDayNano()),
    "FIXED_SIZE_BINARY": lambda x: t.FixedSizeBinary(x.byte_width),
    "BINARY": _same(t.binary),
    "LARGE_BINARY": _same(t.large_binary),
    "BINARY_VIEW": _same(t.binary_view),
    "STRING": _same(t.utf8),
    "LARGE_STRING": _same(t.large_utf8),
    "STRING_VIEW": _same(t.utf8_view),
    "LIST": _list_from(t.List),
    "LARGE_LIST": _list_from(t.LargeList),
    "LIST_VIEW": _list_from(t.ListView),
    "LARGE_LIST_VIEW": _list_from(t.LargeListView),
    "FIXED_SIZE_LIST": lambda x: t.FixedSizeList(field_from_pyarrow(x.value_field), x.list_size),
    "STRUCT": lambda x: t.Struct(tuple(field_from_pyarrow(x.field(i)) for i in range(x.num_fields))),
    "MAP": _map_from,
    "SPARSE_UNION": _union_from(t.SparseUnion),
    "DENSE_UNION": _union_from(t.DenseUnion),
    "RUN_END_ENCODED": _run_ends_from,
    "DICTIONARY": _dictionary_from,
}
"""By the name of pyarrow's type id (``Type_<name>``): our type."""

_FROM_PYARROW = {getattr(pa.lib, f"Type_{name}", name): make for name, make in _FROM_BY_NAME.items()}
"""By pyarrow's type id. A type that this pyarrow does not have stays under its name and is never looked up."""
