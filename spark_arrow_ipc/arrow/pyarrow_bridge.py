"""Convert our types and arrays to pyarrow's, and back, without copying memory.

How it works
------------
The buffers of the columnar format are the same on both sides, in the same order: `pyarrow.py_buffer` of a `memoryview`,
which keeps its owner alive, and `memoryview` of a `pyarrow.Buffer`. Types are translated, each by one row of
`_TO_PYARROW` and of `_FROM_PYARROW`; names, nullability and metadata of nested fields stay.

pyarrow has no class for arrays of year-month and day-time intervals: their memory crosses as int32 and as 8 bytes.
Only pyarrow's own checks apply here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import NOT_COUNTED, ArrayData
from spark_arrow_ipc.arrow.layout import LAYOUTS, Role, bit_width_of
from spark_arrow_ipc.errors import InvalidBodyError

try:
    import pyarrow as pa
except ImportError as error:
    raise ImportError("sharing arrays with other libraries needs pyarrow: pip install pyarrow") from error

_A = TypeVar("_A", bound=ArrayData)

_ZEROS = memoryview(bytes(8))  # the one value offset of an array without slots, which the format lets a file leave out

# Type classes that have value offsets
_WITH_OFFSETS: Final = frozenset(
    kind for kind, layout in LAYOUTS.items() if Role.OFFSETS in (row.role for row in layout.buffers)
)

_WIDEST: Final = 8  # buffers are aligned to their values, to 8 bytes at most: that is the alignment of the format

_UNIT = {unit.abbreviation: unit for unit in t.TimeUnit}


# ---- arrays


def to_pyarrow(array: ArrayData) -> pa.Array:
    """Return pyarrow's array of the same type, sharing all memory. O(buffers)."""
    # Buffers of an array without slots may be empty, and then hold nothing at the offset.
    offset = array.offset if array.length else 0
    if isinstance(array.type, t.Dictionary):
        assert array.dictionary is not None
        index_type = type_to_pyarrow(array.type.index)
        indices = pa.Array.from_buffers(index_type, array.length, buffers_of(array), array.null_count, offset)
        values = to_pyarrow(array.dictionary)
        return pa.DictionaryArray.from_arrays(indices, values, ordered=array.type.ordered, safe=False)
    if isinstance(array.type, t.Map):
        entries = array.children[0]
        nulls = max(entries.count_nulls(), entries.children[0].count_nulls())
        if nulls:  # used or not: pyarrow ends the process
            raise InvalidBodyError(expected="map entries and keys that are not null", found=f"{nulls} nulls")
    children = [to_pyarrow(child) for child in array.children]
    if isinstance(array.type, t.RunEndEncoded):
        return pa.RunEndEncodedArray.from_arrays(*children).slice(array.offset, array.length)
    if isinstance(array.type, t.Null):
        return pa.nulls(array.length)
    type_ = type_to_pyarrow(array.type)
    return pa.Array.from_buffers(type_, array.length, buffers_of(array), array.null_count, offset, children=children)


def buffers_of(array: ArrayData) -> list[pa.Buffer | None]:
    """Return the buffers of an array in pyarrow's order: a validity bitmap first, or None, for every type."""
    kind = type(array.type)
    layout = LAYOUTS[kind]
    buffers = [None if buffer is None else pa.py_buffer(buffer) for buffer in array.buffers]
    if array.length == 0 and kind in _WITH_OFFSETS and not array.buffers[1]:
        buffers[1] = pa.py_buffer(_ZEROS)
    for i, (buffer, row) in enumerate(zip(buffers, layout.buffers, strict=False)):
        if buffer is not None and buffer.address % _WIDEST and row.role is not Role.BYTES:
            # Files of old writers have bodies at multiples of 4, and users slice bytes: other libraries refuse
            # unaligned values, or crash.
            width = bit_width_of(array.type, row) // 8
            if buffer.address % min(width or 1, _WIDEST) and width & (width - 1) == 0:
                buffers[i] = pa.py_buffer(buffer.to_pybytes())
    return buffers if layout.has_validity else [None, *buffers]


def from_pyarrow(array: pa.Array, make: Callable[..., _A]) -> _A:
    """Return pyarrow's array as ours, of the class `make`, sharing all memory; a slice keeps its offset. O(buffers)."""
    return from_pyarrow_as(array, type_from_pyarrow(array.type), make)


def from_pyarrow_as(array: pa.Array, type_: t.DataType, make: Callable[..., _A]) -> _A:
    """Return pyarrow's array as ours of a type that has the same layout."""
    # An extension array has the memory of its storage.
    array = getattr(array, "storage", array)
    special = _SPECIAL.get(type(type_))
    if special is not None:
        imported: _A = special(array, type_, make)
        return imported
    theirs = _CHILDREN.get(type(type_), lambda _: ())(array)
    children = tuple(
        from_pyarrow_as(child, field.type, make) for child, field in zip(theirs, type_.children, strict=True)
    )
    counted = LAYOUTS[type(type_)].has_validity or isinstance(type_, t.Null)
    nulls = array.null_count if counted else 0
    offset = array.offset if len(array) else 0  # buffers of other libraries may be empty then
    return make(type_, len(array), nulls, _own_buffers(array, type_), children, None, offset)


def _own_buffers(array: pa.Array, type_: t.DataType) -> tuple[memoryview | None, ...]:
    """Return an array's own buffers, without the buffers of its children, which pyarrow lists too."""
    layout = LAYOUTS[type(type_)]
    listed = array.buffers()
    first = 0 if layout.has_validity else 1
    number = len(listed) if layout.is_variadic else first + len(layout.buffers)
    views = [None if buffer is None else memoryview(buffer).cast("B").toreadonly() for buffer in listed[first:number]]
    return tuple(
        view if view is not None or (layout.has_validity and i == 0) else memoryview(b"")
        for i, view in enumerate(views)
    )


_CHILDREN: Mapping[type[t.DataType], Callable[[pa.Array], tuple[pa.Array, ...]]] = {
    # `values` and `field` do not depend on a slice; `flatten` would.
    **dict.fromkeys(
        (t.List, t.LargeList, t.ListView, t.LargeListView, t.FixedSizeList, t.Map), lambda array: (array.values,)
    ),
    t.DenseUnion: lambda array: tuple(array.field(i) for i in range(array.type.num_fields)),
}


def _from_dictionary(array: pa.DictionaryArray, type_: t.Dictionary, make: Callable[..., _A]) -> _A:
    indices = from_pyarrow_as(array.indices, type_.index, make)
    values = from_pyarrow_as(array.dictionary, type_.value, make)
    return make(type_, len(array), array.null_count, indices.buffers, (), values, indices.offset)


def _from_fields(array: pa.StructArray | pa.UnionArray, type_: t.DataType, make: Callable[..., _A]) -> _A:
    """Return a struct or a sparse union, whose fields pyarrow slices like the array itself."""
    offset = array.offset if len(array) else 0
    children = tuple(from_pyarrow_as(array.field(i), field.type, make) for i, field in enumerate(type_.children))
    if offset:
        children = tuple(_remove_slice(child, offset) for child in children)
    nulls = array.null_count if isinstance(type_, t.Struct) else 0
    return make(type_, len(array), nulls, _own_buffers(array, type_), children, None, offset)


def _remove_slice(array: _A, slots: int) -> _A:
    # The children of our structs are not sliced: the slots before the parent's offset come back.
    length = array.length + slots
    unknown = NOT_COUNTED if array.validity is not None else 0
    nulls = length if isinstance(array.type, t.Null) else unknown
    return replace(array, length=length, offset=max(array.offset - slots, 0), null_count=nulls)


def _from_run_ends(array: pa.RunEndEncodedArray, type_: t.RunEndEncoded, make: Callable[..., _A]) -> _A:
    children = (
        from_pyarrow_as(array.run_ends, type_.run_ends.type, make),
        from_pyarrow_as(array.values, type_.values.type, make),
    )
    return make(type_, len(array), 0, (), children, None, array.offset)


# Types whose pyarrow arrays need a conversion of their own
_SPECIAL: Mapping[type[t.DataType], Callable[..., Any]] = {
    t.Dictionary: _from_dictionary,
    t.Struct: _from_fields,
    t.SparseUnion: _from_fields,
    t.RunEndEncoded: _from_run_ends,
}


# ---- types


def type_to_pyarrow(type_: t.DataType) -> pa.DataType:
    """Return the type of `to_pyarrow`'s arrays."""
    return _type(type_, _TO_PYARROW)


def exact_type_to_pyarrow(type_: t.DataType) -> pa.DataType:
    """Return pyarrow's type, also for intervals without arrays."""
    return _type(type_, _EXACT)


def field_to_pyarrow(field: t.Field) -> pa.Field:
    """Return pyarrow's field."""
    return _field(field, _TO_PYARROW)


def exact_schema_to_pyarrow(fields: tuple[t.Field, ...], custom_metadata: t.CustomMetadata) -> pa.Schema:
    """Return pyarrow's schema, with the types of `exact_type_to_pyarrow`."""
    return pa.schema([_field(field, _EXACT) for field in fields], metadata_to_pyarrow(custom_metadata))


def type_from_pyarrow(type_: pa.DataType) -> t.DataType:
    """Return pyarrow's type as ours, for an extension type its storage; TypeError for a type that this package lacks."""
    if isinstance(type_, pa.BaseExtensionType):
        return type_from_pyarrow(type_.storage_type)
    make = _FROM_PYARROW.get(type_.id)
    if make is None:
        raise TypeError(f"expected a type of the Arrow columnar format, found {type_}")
    return make(type_)


def field_from_pyarrow(field: pa.Field) -> t.Field:
    """Return pyarrow's field as ours; an extension type becomes its storage and two pairs of metadata."""
    return t.Field(field.name, type_from_pyarrow(field.type), field.nullable, pairs_of(field))


def _type(type_: t.DataType, rows: _Rows) -> pa.DataType:
    return rows[type(type_)](type_, partial(_field, rows=rows))


def _field(field: t.Field, rows: _Rows) -> pa.Field:
    # pyarrow refuses a field of the type null that allows no null; files of other writers have them.
    nullable = field.nullable or isinstance(field.type, t.Null)
    return pa.field(field.name, _type(field.type, rows), nullable, metadata_to_pyarrow(field.custom_metadata))


def metadata_to_pyarrow(pairs: t.CustomMetadata) -> pa.KeyValueMetadata | None:
    """Return pairs of custom metadata as pyarrow's, or None without pairs."""
    # A dict would lose a key that occurs twice.
    return pa.KeyValueMetadata([(key, t.value_bytes(value)) for key, value in pairs]) if pairs else None


# The offset of the pointer to the metadata in ``struct ArrowSchema``, after the pointers to format and name
_METADATA_AT: Final = 2 * ctypes.sizeof(ctypes.c_void_p)

_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def pairs_of(source: pa.Field | pa.Schema) -> t.CustomMetadata:
    """Return the metadata of pyarrow's field or schema in order, with the pairs that name an extension type."""
    if source.metadata is None and not isinstance(getattr(source, "type", None), pa.BaseExtensionType):
        return ()
    # pyarrow's dict has a key once, and most of its extension types have no serialized form in Python. Its C structure has
    # both: ``metadata`` is the number of pairs, and for each the bytes of key and value.
    capsule = source.__arrow_c_schema__()
    address = ctypes.c_void_p.from_address(_pointer_of(capsule, b"arrow_schema") + _METADATA_AT).value
    texts = _texts(address) if address else iter(())
    return tuple(
        (key.decode(), value.decode(errors="surrogateescape")) for key, value in zip(texts, texts, strict=True)
    )


def _texts(address: int) -> Iterator[bytes]:
    count = ctypes.c_int32.from_address(address).value
    address += 4
    for _ in range(2 * count):
        nbytes = ctypes.c_int32.from_address(address).value
        yield ctypes.string_at(address + 4, nbytes)
        address += 4 + nbytes


# Makes pyarrow's type from our type and a function for its fields
_Row: TypeAlias = Callable[[Any, Callable[[t.Field], pa.Field]], pa.DataType]
_Rows: TypeAlias = Mapping[type[t.DataType], _Row]


def _constant(type_: pa.DataType) -> _Row:
    return lambda *_: type_


def _list_to(name: str) -> _Row:
    # By name, on first use: Spark 4.1 works with a pyarrow that has no list-views.
    return lambda type_, field: getattr(pa, name)(field(type_.value))


def _union_to(make: Callable[[list[pa.Field], list[int]], pa.DataType]) -> _Row:
    return lambda type_, field: make([*map(field, type_.fields)], list(type_.type_ids))


_INTS = {
    (signed, width): getattr(pa, f"{'' if signed else 'u'}int{width}")()
    for signed in (True, False)
    for width in (8, 16, 32, 64)
}


# By our type class: pyarrow's type
_TO_PYARROW: _Rows = {
    t.Null: _constant(pa.null()),
    t.Bool: _constant(pa.bool_()),
    t.Int: lambda x, _: _INTS[x.signed, x.bit_width],
    t.FloatingPoint: lambda x, _: (pa.float16(), pa.float32(), pa.float64())[x.precision],
    # By name: Spark 4.1 works with a pyarrow that has no decimal32 and decimal64.
    t.Decimal: lambda x, _: getattr(pa, f"decimal{x.bit_width}")(x.precision, x.scale),
    t.Date: lambda x, _: (pa.date32(), pa.date64())[x.unit],
    t.Time: lambda x, _: (pa.time32 if x.bit_width == 32 else pa.time64)(x.unit.abbreviation),
    t.Timestamp: lambda x, _: pa.timestamp(x.unit.abbreviation, x.timezone),
    t.Duration: lambda x, _: pa.duration(x.unit.abbreviation),
    # Their memory, for which pyarrow has arrays: `_EXACT` has the types.
    t.IntervalYearMonth: _constant(pa.int32()),
    t.IntervalDayTime: _constant(pa.binary(8)),
    t.IntervalMonthDayNano: _constant(pa.month_day_nano_interval()),
    t.FixedSizeBinary: lambda x, _: pa.binary(x.byte_width),
    t.Binary: _constant(pa.binary()),
    t.LargeBinary: _constant(pa.large_binary()),
    t.BinaryView: lambda *_: pa.binary_view(),
    t.Utf8: _constant(pa.string()),
    t.LargeUtf8: _constant(pa.large_string()),
    t.Utf8View: lambda *_: pa.string_view(),
    t.List: _list_to("list_"),
    t.LargeList: _list_to("large_list"),
    t.ListView: _list_to("list_view"),
    t.LargeListView: _list_to("large_list_view"),
    t.FixedSizeList: lambda x, field: pa.list_(field(x.value), x.list_size),
    t.Struct: lambda x, field: pa.struct([*map(field, x.fields)]),
    t.Map: lambda x, field: pa.map_(
        field(x.key).with_nullable(nullable=False), field(x.item), keys_sorted=x.keys_sorted
    ),
    t.SparseUnion: _union_to(pa.sparse_union),
    t.DenseUnion: _union_to(pa.dense_union),
    t.RunEndEncoded: lambda x, field: pa.run_end_encoded(field(x.run_ends).type, field(x.values).type),
    t.Dictionary: lambda x, field: pa.dictionary(
        field(t.Field("", x.index)).type, field(t.Field("", x.value)).type, ordered=x.ordered
    ),
}

# Read from a schema message with two columns, because pyarrow has no function that returns these types.
LONE_INTERVALS: Final = dict(
    zip(
        (t.IntervalYearMonth, t.IntervalDayTime),
        pa.lib.read_schema(
            pa.py_buffer(
                bytes.fromhex(
                    "ffffffffa00000001000000000000a000c000600050008000a000000000104000c000000080008000000040008000000"
                    "04000000020000004400000004000000d4ffffff0000010b100000001800000004000000000000000000000000000600"
                    "080006000600000000000100100014000800060007000c0000001000100000000000010b100000001800000004000000"
                    "000000000000000000000000040004000400000000000000"
                )
            )
        ).types,
        strict=True,
    )
)
"""Intervals that have a type in pyarrow, but neither a constructor nor a class of arrays."""

_EXACT: _Rows = {**_TO_PYARROW, **{kind: _constant(type_) for kind, type_ in LONE_INTERVALS.items()}}


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


# By the name of pyarrow's type id (``Type_<name>``): our type
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
    "INTERVAL_MONTHS": _same(t.IntervalYearMonth()),
    "INTERVAL_DAY_TIME": _same(t.IntervalDayTime()),
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

# By pyarrow's type id. A type that this pyarrow does not have stays under its name and is never looked up.
_FROM_PYARROW = {getattr(pa.lib, f"Type_{name}", name): make for name, make in _FROM_BY_NAME.items()}
