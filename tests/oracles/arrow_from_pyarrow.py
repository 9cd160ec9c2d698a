"""Types, arrays and batches between pyarrow and this package, for tests that take pyarrow as the oracle.

Into ours: a copy of what pyarrow exports by Arrow's C data interface, so `Array` gets exactly the lengths, offsets
and buffers that pyarrow has (a sliced array keeps its offset, children stay unsliced). Into pyarrow:
``from_buffers`` over our memory. pyarrow has no Python arrays of year-month and day-time intervals.
"""

from __future__ import annotations

import ctypes
from typing import Any

import nanoarrow as na
import pyarrow as pa

from spark_arrow_ipc.arrow import Array, RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.layout import LAYOUTS, Role, bit_width_of, least_nbytes

_UNITS = {
    "s": t.TimeUnit.SECOND,
    "ms": t.TimeUnit.MILLISECOND,
    "us": t.TimeUnit.MICROSECOND,
    "ns": t.TimeUnit.NANOSECOND,
}
_DECIMALS = {32: pa.decimal32, 64: pa.decimal64, 128: pa.decimal128, 256: pa.decimal256}


def _decimal(bit_width: int):
    return lambda d: t.Decimal(d.precision, d.scale, bit_width)


def _time(bit_width: int):
    return lambda d: t.Time(_UNITS[d.unit], bit_width)


def _union(cls):
    return lambda d: cls(tuple(field_from_pyarrow(f) for f in d), tuple(d.type_codes))


def _element(cls):
    return lambda d: cls(field_from_pyarrow(d.value_field))


def _map(d: pa.MapType) -> t.Map:
    # `MapType.field` does not tell the name of the entries.
    entries = t.Struct((field_from_pyarrow(d.key_field), field_from_pyarrow(d.item_field)))
    return t.Map(t.Field("entries", entries, nullable=False), d.keys_sorted)


def _run_end_encoded(d: pa.RunEndEncodedType) -> t.RunEndEncoded:
    run_ends = t.Field("run_ends", type_from_pyarrow(d.run_end_type), nullable=False)
    return t.RunEndEncoded(run_ends, t.Field("values", type_from_pyarrow(d.value_type)))


_TYPES = {
    pa.lib.Type_NA: lambda _: t.Null(),
    pa.lib.Type_BOOL: lambda _: t.Bool(),
    pa.lib.Type_INT8: lambda _: t.int8,
    pa.lib.Type_INT16: lambda _: t.int16,
    pa.lib.Type_INT32: lambda _: t.int32,
    pa.lib.Type_INT64: lambda _: t.int64,
    pa.lib.Type_UINT8: lambda _: t.uint8,
    pa.lib.Type_UINT16: lambda _: t.uint16,
    pa.lib.Type_UINT32: lambda _: t.uint32,
    pa.lib.Type_UINT64: lambda _: t.uint64,
    pa.lib.Type_HALF_FLOAT: lambda _: t.float16,
    pa.lib.Type_FLOAT: lambda _: t.float32,
    pa.lib.Type_DOUBLE: lambda _: t.float64,
    pa.lib.Type_DECIMAL32: _decimal(32),
    pa.lib.Type_DECIMAL64: _decimal(64),
    pa.lib.Type_DECIMAL128: _decimal(128),
    pa.lib.Type_DECIMAL256: _decimal(256),
    pa.lib.Type_DATE32: lambda _: t.date32,
    pa.lib.Type_DATE64: lambda _: t.date64,
    pa.lib.Type_TIME32: _time(32),
    pa.lib.Type_TIME64: _time(64),
    pa.lib.Type_TIMESTAMP: lambda d: t.Timestamp(_UNITS[d.unit], d.tz),
    pa.lib.Type_DURATION: lambda d: t.Duration(_UNITS[d.unit]),
    pa.lib.Type_INTERVAL_MONTHS: lambda _: t.IntervalYearMonth(),
    pa.lib.Type_INTERVAL_DAY_TIME: lambda _: t.IntervalDayTime(),
    pa.lib.Type_INTERVAL_MONTH_DAY_NANO: lambda _: t.IntervalMonthDayNano(),
    pa.lib.Type_FIXED_SIZE_BINARY: lambda d: t.FixedSizeBinary(d.byte_width),
    pa.lib.Type_BINARY: lambda _: t.Binary(),
    pa.lib.Type_LARGE_BINARY: lambda _: t.LargeBinary(),
    pa.lib.Type_BINARY_VIEW: lambda _: t.BinaryView(),
    pa.lib.Type_STRING: lambda _: t.Utf8(),
    pa.lib.Type_LARGE_STRING: lambda _: t.LargeUtf8(),
    pa.lib.Type_STRING_VIEW: lambda _: t.Utf8View(),
    pa.lib.Type_LIST: _element(t.List),
    pa.lib.Type_LARGE_LIST: _element(t.LargeList),
    pa.lib.Type_LIST_VIEW: _element(t.ListView),
    pa.lib.Type_LARGE_LIST_VIEW: _element(t.LargeListView),
    pa.lib.Type_FIXED_SIZE_LIST: lambda d: t.FixedSizeList(field_from_pyarrow(d.value_field), d.list_size),
    pa.lib.Type_STRUCT: lambda d: t.Struct(tuple(field_from_pyarrow(f) for f in d)),
    pa.lib.Type_MAP: _map,
    pa.lib.Type_SPARSE_UNION: _union(t.SparseUnion),
    pa.lib.Type_DENSE_UNION: _union(t.DenseUnion),
    pa.lib.Type_RUN_END_ENCODED: _run_end_encoded,
    pa.lib.Type_DICTIONARY: lambda d: t.Dictionary(
        type_from_pyarrow(d.index_type), type_from_pyarrow(d.value_type), d.ordered
    ),
}


def type_from_pyarrow(type_: pa.DataType) -> t.DataType:
    """Return our type; that of the storage for an extension type."""
    type_ = getattr(type_, "storage_type", type_)
    return _TYPES[type_.id](type_)


def _pairs(metadata: Any) -> tuple[tuple[str, str], ...]:
    return tuple((key.decode(), value.decode(errors="surrogateescape")) for key, value in (metadata or {}).items())


def field_from_pyarrow(field: pa.Field) -> t.Field:
    """Return our field; an extension type becomes its storage with the two pairs of metadata that name it."""
    pairs = _pairs(field.metadata)
    if isinstance(field.type, pa.BaseExtensionType):
        serialized = field.type.__arrow_ext_serialize__() if hasattr(field.type, "__arrow_ext_serialize__") else b""
        pairs += (
            ("ARROW:extension:name", field.type.extension_name),
            ("ARROW:extension:metadata", serialized.decode(errors="surrogateescape")),
        )
    return t.Field(field.name, type_from_pyarrow(field.type), field.nullable, pairs)


def schema_from_pyarrow(schema: pa.Schema) -> Schema:
    """Return our schema."""
    return Schema(tuple(field_from_pyarrow(field) for field in schema), _pairs(schema.metadata))


class _CArray(ctypes.Structure):
    """``struct ArrowArray`` of the C data interface."""


_CArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_CArray))),
    ("dictionary", ctypes.POINTER(_CArray)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_CArray))),
    ("private_data", ctypes.c_void_p),
]


def from_pyarrow(array: pa.Array) -> Array:
    """Return our array with a copy of pyarrow's buffers, at pyarrow's offset."""
    array = getattr(array, "storage", array)
    exported = _CArray()
    array._export_to_c(ctypes.addressof(exported))
    try:
        return _copied(exported, type_from_pyarrow(array.type))
    finally:
        exported.release(ctypes.byref(exported))


def batch_from_pyarrow(batch: pa.RecordBatch) -> RecordBatch:
    """Return our record batch."""
    return RecordBatch(
        schema_from_pyarrow(batch.schema), tuple(from_pyarrow(column) for column in batch.columns), batch.num_rows
    )


def _bytes(exported: _CArray, number: int, nbytes: int) -> memoryview:
    address = exported.buffers[number]
    return memoryview(ctypes.string_at(address, nbytes) if address and nbytes else b"")


def _copied(exported: _CArray, type_: t.DataType) -> Array:
    end = exported.offset + exported.length
    buffers: list[memoryview | None] = []
    for number, layout in enumerate(LAYOUTS[type(type_)].buffers):
        if layout.role is Role.VALIDITY:
            nbytes = (end + 7) // 8
            buffers.append(_bytes(exported, number, nbytes) if exported.buffers[number] else None)
        elif layout.role is Role.BYTES:
            offsets = buffers[-1].cast("i" if bit_width_of(type_, LAYOUTS[type(type_)].buffers[1]) == 32 else "q")
            buffers.append(_bytes(exported, number, offsets[end] if end else 0))
        elif layout.role is Role.VARIADIC:
            count = exported.n_buffers - 3
            sizes = _bytes(exported, exported.n_buffers - 1, 8 * count).cast("q")
            buffers.extend(_bytes(exported, number + i, sizes[i]) for i in range(count))
        else:
            buffers.append(_bytes(exported, number, least_nbytes(type_, layout, end)))
    children = tuple(_copied(exported.children[i].contents, child.type) for i, child in enumerate(type_.children))
    dictionary = _copied(exported.dictionary.contents, type_.value) if isinstance(type_, t.Dictionary) else None
    null_count = exported.length if isinstance(type_, t.Null) else exported.null_count
    return Array(type_, exported.length, null_count, tuple(buffers), children, dictionary, exported.offset)


def _capsule_type(schema: Any) -> pa.DataType:
    return pa.DataType._import_from_c_capsule(schema.__arrow_c_schema__())


_PLAIN = {
    "null": pa.null(), "bool": pa.bool_(), "date32[day]": pa.date32(), "date64[ms]": pa.date64(),
    "interval[year_month]": _capsule_type(na.interval_months()),
    "interval[day_time]": _capsule_type(na.interval_day_time()),
    "interval[month_day_nano]": pa.month_day_nano_interval(),
    "binary": pa.binary(), "large_binary": pa.large_binary(), "binary_view": pa.binary_view(),
    "utf8": pa.utf8(), "large_utf8": pa.large_utf8(), "utf8_view": pa.string_view(),
    "float16": pa.float16(), "float32": pa.float32(), "float64": pa.float64(),
    "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
    "uint8": pa.uint8(), "uint16": pa.uint16(), "uint32": pa.uint32(), "uint64": pa.uint64(),
}  # fmt: skip
_NESTED = {
    t.Decimal: lambda a: _DECIMALS[a.bit_width](a.precision, a.scale),
    t.Time: lambda a: (pa.time32 if a.bit_width == 32 else pa.time64)(a.unit.abbreviation),
    t.Timestamp: lambda a: pa.timestamp(a.unit.abbreviation, a.timezone),
    t.Duration: lambda a: pa.duration(a.unit.abbreviation),
    t.FixedSizeBinary: lambda a: pa.binary(a.byte_width),
    t.List: lambda a: pa.list_(field_to_pyarrow(a.value)),
    t.LargeList: lambda a: pa.large_list(field_to_pyarrow(a.value)),
    t.ListView: lambda a: pa.list_view(field_to_pyarrow(a.value)),
    t.LargeListView: lambda a: pa.large_list_view(field_to_pyarrow(a.value)),
    t.FixedSizeList: lambda a: pa.list_(field_to_pyarrow(a.value), a.list_size),
    t.Struct: lambda a: pa.struct([field_to_pyarrow(f) for f in a.fields]),
    t.Map: lambda a: pa.map_(field_to_pyarrow(a.key), field_to_pyarrow(a.item), a.keys_sorted),
    t.SparseUnion: lambda a: pa.sparse_union([field_to_pyarrow(f) for f in a.fields], list(a.type_ids)),
    t.DenseUnion: lambda a: pa.dense_union([field_to_pyarrow(f) for f in a.fields], list(a.type_ids)),
    t.RunEndEncoded: lambda a: pa.run_end_encoded(type_to_pyarrow(a.run_ends.type), type_to_pyarrow(a.values.type)),
    t.Dictionary: lambda a: pa.dictionary(type_to_pyarrow(a.index), type_to_pyarrow(a.value), a.ordered),
}


def type_to_pyarrow(type_: t.DataType) -> pa.DataType:
    """Return pyarrow's type."""
    return _NESTED[type(type_)](type_) if type(type_) in _NESTED else _PLAIN[str(type_)]


def field_to_pyarrow(field: t.Field) -> pa.Field:
    """Return pyarrow's field."""
    return pa.field(field.name, type_to_pyarrow(field.type), field.nullable, dict(field.custom_metadata) or None)


_UNSEEN_BUFFERS = (t.Null, t.SparseUnion, t.DenseUnion, t.RunEndEncoded)
"""Types for which pyarrow wants a buffer in front that is always absent."""


def to_pyarrow(array: Array) -> pa.Array:
    """Return pyarrow's array over our memory, at our offset."""
    buffers = [None if buffer is None else pa.py_buffer(buffer) for buffer in array.buffers]
    if isinstance(array.type, t.Dictionary):
        return pa.DictionaryArray.from_buffers(
            type_to_pyarrow(array.type),
            array.length,
            buffers,
            to_pyarrow(array.dictionary),
            array.null_count,
            array.offset,
        )
    if isinstance(array.type, _UNSEEN_BUFFERS):
        buffers.insert(0, None)
    return pa.Array.from_buffers(
        type_to_pyarrow(array.type),
        array.length,
        buffers,
        array.null_count,
        array.offset,
        [to_pyarrow(child) for child in array.children],
    )


def batch_to_pyarrow(batch: RecordBatch) -> pa.RecordBatch:
    """Return pyarrow's record batch over our memory."""
    schema = pa.schema([field_to_pyarrow(f) for f in batch.schema.fields], dict(batch.schema.custom_metadata) or None)
    return pa.RecordBatch.from_arrays([to_pyarrow(column) for column in batch.columns], schema=schema)
