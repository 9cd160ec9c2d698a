"""``Tensor`` of Tensor.fbs and ``SparseTensor`` of SparseTensor.fbs: the metadata before the body of a tensor.

All checks that need only metadata are here. What Arrow C++ writes is decisive where the texts contradict themselves:
the lengths of the buffers of a CSF index count elements, all others count bytes, padded to 8 or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final, NoReturn, TypeAlias

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.errors import InvalidMetadataError, LimitError, NoTensorError, UnsupportedError, error_context
from spark_arrow_ipc.ipc.constants import BODY_ALIGNMENT, MOST_DIMENSIONS, Limits
from spark_arrow_ipc.ipc.flatbuf import builder, reader, tables
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader, MetadataVersion, SparseMatrixCompressedAxis
from spark_arrow_ipc.ipc.messages.message import body_length, readable_version
from spark_arrow_ipc.ipc.messages.schema import DISCRIMINANTS, TYPES, decode_custom_metadata, encode_custom_metadata

ValueType: TypeAlias = t.Int | t.FloatingPoint


@dataclass(frozen=True, slots=True)
class BufferPlace:
    """A buffer of a body."""

    field: str  # the slot with the numbers, for errors: ``SparseTensor.data``
    byte_offset: int  # from the start of the body
    length: int  # bytes; in the index of a CSF tensor elements


@dataclass(frozen=True, slots=True, eq=False)
class TensorHeader:
    """``Tensor`` of Tensor.fbs; `strides` are in bytes, one a dimension."""

    type: ValueType
    shape: tuple[int, ...]
    dim_names: tuple[str, ...]
    strides: tuple[int, ...]
    data: BufferPlace


@dataclass(frozen=True, slots=True, eq=False)
class CooIndexHeader:
    """``SparseTensorIndexCOO``: one row of coordinates for each value, in rows or, with `by_column`, in columns."""

    indices_type: t.Int
    indices: BufferPlace
    by_column: bool
    is_canonical: bool


@dataclass(frozen=True, slots=True, eq=False)
class CsxIndexHeader:
    """``SparseMatrixIndexCSX``: compressed rows (CSR) or columns (CSC)."""

    axis: SparseMatrixCompressedAxis
    indptr_type: t.Int
    indptr: BufferPlace
    indices_type: t.Int
    indices: BufferPlace


@dataclass(frozen=True, slots=True, eq=False)
class CsfIndexHeader:
    """``SparseTensorIndexCSF``: a tree with a level for each dimension, in the order `axis_order`."""

    indptr_type: t.Int
    indptr: tuple[BufferPlace, ...]
    indices_type: t.Int
    indices: tuple[BufferPlace, ...]
    axis_order: tuple[int, ...]


IndexHeader: TypeAlias = CooIndexHeader | CsxIndexHeader | CsfIndexHeader


@dataclass(frozen=True, slots=True, eq=False)
class SparseTensorHeader:
    """``SparseTensor`` of SparseTensor.fbs."""

    type: ValueType
    shape: tuple[int, ...]
    dim_names: tuple[str, ...]
    non_zero_length: int
    index: IndexHeader
    data: BufferPlace


@dataclass(frozen=True, slots=True, eq=False)
class TensorMessage:
    """A ``Message`` whose header is a tensor."""

    version: MetadataVersion
    header: TensorHeader | SparseTensorHeader
    body_nbytes: int
    custom_metadata: CustomMetadata


def decode_tensor_message(flatbuffer: memoryview, limits: Limits) -> TensorMessage:
    """Return the tensor message in the flatbuffer of an encapsulated message. O(dimensions)."""
    view = reader.root(flatbuffer, tables.MESSAGE)
    version = readable_version(view)
    discriminant, header_view = view.union("header")
    decode_header = _HEADERS.get(discriminant)
    if header_view is None:
        _invalid("Message.header", "a message header", "none")
    if decode_header is None:
        raise NoTensorError(
            f"the message is a {MessageHeader(discriminant).noun}, which is not a tensor; tables are read with "
            "ipc.open, and in Spark without the option tensors"
        )
    body_nbytes = body_length(view)
    limits.check("max_batch_bytes", body_nbytes, "the tensor's body")
    header = decode_header(header_view, body_nbytes, limits)
    return TensorMessage(version, header, body_nbytes, decode_custom_metadata(view))


def encode_tensor_message(
    table: Any, values: builder.Values, body_nbytes: int, custom_metadata: CustomMetadata
) -> bytes:
    """Return the flatbuffer of a message whose header is `table`, TENSOR or SPARSE_TENSOR, with these values."""
    return builder.build(
        tables.MESSAGE,
        {
            "version": int(MetadataVersion.V5),
            "header": (table, values),
            "bodyLength": body_nbytes,
            "custom_metadata": encode_custom_metadata(custom_metadata),
        },
    )


def encode_value_type(type_: ValueType) -> tuple[Any, Mapping[str, Any]]:
    """Return the slot ``type`` of a tensor for `builder.build`."""
    row = TYPES[DISCRIMINANTS[type(type_)]]
    return row.table, row.encode(type_)


def encode_shape(shape: Iterable[int], dim_names: Iterable[str]) -> list[dict[str, Any]]:
    """Return the slot ``shape`` of a tensor for `builder.build`."""
    return [{"size": size, "name": name} for size, name in zip(shape, dim_names, strict=True)]


def row_major_strides(shape: tuple[int, ...], width: int) -> tuple[int, ...]:
    """Return the strides in bytes of a tensor whose last dimension varies fastest."""
    if 0 in shape:  # as in Arrow C++
        return (width,) * len(shape)
    return tuple(width * prod(shape[d + 1 :]) for d in range(len(shape)))


# --- dense


def _decode_tensor(view: reader.TableView, body_nbytes: int, limits: Limits) -> TensorHeader:
    type_ = _decode_value_type(view, "Tensor")
    shape, dim_names = _decode_shape(view, "Tensor")
    # With a dimension of 0 the tensor has no cells, but numpy still multiplies the others.
    limits.check("max_slots", prod(max(size, 1) for size in shape), "the tensor")
    data = _decode_buffer(view, "data", "Tensor")
    _check_inside(data, data.length, body_nbytes)
    strides = _decode_strides(view, shape, type_.bit_width // 8)
    _check_extent(shape, strides, type_, data)
    return TensorHeader(type_, shape, dim_names, strides, data)


def _decode_strides(view: reader.TableView, shape: tuple[int, ...], width: int) -> tuple[int, ...]:
    strides = tuple(view.scalars("strides").tolist())
    if not strides:
        return row_major_strides(shape, width)
    if len(strides) != len(shape):
        _invalid("Tensor.strides", f"{len(shape)}, one for each dimension", f"{len(strides)}")
    for d, stride in enumerate(strides):
        if stride < 0 and shape[d]:
            _invalid(f"Tensor.strides[{d}]", "a stride of at least 0", f"{stride}")
    return strides


def _check_extent(shape: tuple[int, ...], strides: tuple[int, ...], type_: ValueType, data: BufferPlace) -> None:
    if 0 in shape:
        return
    # The last value of each dimension, which strides may put anywhere
    needed = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) + type_.bit_width // 8
    if needed > data.length:
        _invalid(data.field, f"{needed:,} bytes of {type_} values in the shape {list(shape)}", f"{data.length:,}")


# --- sparse


def _decode_sparse_tensor(view: reader.TableView, body_nbytes: int, _: Limits) -> SparseTensorHeader:
    type_ = _decode_value_type(view, "SparseTensor")
    shape, dim_names = _decode_shape(view, "SparseTensor")
    count = int(view.scalar("non_zero_length"))
    if count < 0:
        _invalid("SparseTensor.non_zero_length", "a number of at least 0", f"{count}")
    data = _decode_buffer(view, "data", "SparseTensor")
    _check_inside(data, count * (type_.bit_width // 8), body_nbytes)
    discriminant, index_view = view.union("sparseIndex")
    if index_view is None:
        _invalid("SparseTensor.sparseIndex", "an index", "none")
    index = _INDICES[discriminant](index_view, shape, count, body_nbytes)
    return SparseTensorHeader(type_, shape, dim_names, count, index, data)


def _decode_coo(view: reader.TableView, shape: tuple[int, ...], count: int, body_nbytes: int) -> CooIndexHeader:
    table = "SparseTensorIndexCOO"
    type_ = _decode_index_type(view, "indicesType", table)
    width = type_.bit_width // 8
    indices = _decode_buffer(view, "indicesBuffer", table)
    _check_inside(indices, count * len(shape) * width, body_nbytes)
    strides = tuple(view.scalars("indicesStrides").tolist())
    by_row, by_column = (width * len(shape), width), (width, width * count)
    if strides and count and strides not in {by_row, by_column}:
        _invalid(
            f"{table}.indicesStrides", f"{list(by_row)} (by row) or {list(by_column)} (by column)", f"{list(strides)}"
        )
    if strides and len(strides) != 2:
        _invalid(f"{table}.indicesStrides", "2 strides, of a matrix", f"{len(strides)}")
    is_by_column = bool(strides) and strides != by_row
    return CooIndexHeader(type_, indices, is_by_column, bool(view.scalar("isCanonical")))


def _decode_csx(view: reader.TableView, shape: tuple[int, ...], count: int, body_nbytes: int) -> CsxIndexHeader:
    table = "SparseMatrixIndexCSX"
    if len(shape) != 2:
        _invalid("SparseTensor.shape", "2 dimensions, of a matrix", f"{len(shape)}")
    axis = int(view.scalar("compressedAxis"))
    if axis not in tuple(SparseMatrixCompressedAxis):
        _invalid(f"{table}.compressedAxis", "0 (Row) or 1 (Column)", f"{axis}")
    indptr_type = _decode_index_type(view, "indptrType", table)
    indptr = _decode_buffer(view, "indptrBuffer", table)
    _check_inside(indptr, (shape[axis] + 1) * (indptr_type.bit_width // 8), body_nbytes)
    indices_type = _decode_index_type(view, "indicesType", table)
    indices = _decode_buffer(view, "indicesBuffer", table)
    _check_inside(indices, count * (indices_type.bit_width // 8), body_nbytes)
    return CsxIndexHeader(SparseMatrixCompressedAxis(axis), indptr_type, indptr, indices_type, indices)


def _decode_csf(view: reader.TableView, shape: tuple[int, ...], count: int, body_nbytes: int) -> CsfIndexHeader:
    table = "SparseTensorIndexCSF"
    if len(shape) < 2:
        _invalid("SparseTensor.shape", "at least 2 dimensions", f"{len(shape)}")
    indptr_type = _decode_index_type(view, "indptrType", table)
    indptr = _decode_counted_buffers(view, "indptrBuffers", len(shape) - 1, indptr_type, body_nbytes)
    indices_type = _decode_index_type(view, "indicesType", table)
    indices = _decode_counted_buffers(view, "indicesBuffers", len(shape), indices_type, body_nbytes)
    if indices[-1].length != count:
        _invalid(indices[-1].field, f"{count:,} elements, one for each value", f"{indices[-1].length:,}")
    axis_order = tuple(view.scalars("axisOrder").tolist())
    if sorted(axis_order) != list(range(len(shape))):
        _invalid(f"{table}.axisOrder", f"each of the dimensions 0 to {len(shape) - 1} once", f"{list(axis_order)}")
    return CsfIndexHeader(indptr_type, indptr, indices_type, indices, axis_order)


def _decode_counted_buffers(
    view: reader.TableView, slot: str, expected: int, type_: t.Int, body_nbytes: int
) -> tuple[BufferPlace, ...]:
    """Return the buffers of a vector, whose lengths count elements as in Arrow C++."""
    field = f"SparseTensorIndexCSF.{slot}"
    rows = view.structs(slot)
    if len(rows) != expected:
        _invalid(field, f"{expected} buffers for a tensor of its dimensions", f"{len(rows)}")
    places = tuple(BufferPlace(f"{field}[{i}]", *row) for i, row in enumerate(rows.tolist()))
    for extent in places:
        _check_inside(extent, extent.length * (type_.bit_width // 8), body_nbytes, counts_elements=True)
    return places


# --- parts of both


def _invalid(field: str, expected: str, actual: str) -> NoReturn:
    raise InvalidMetadataError(expected=expected, found=actual, field_path=field, spec="Tensor.fbs, SparseTensor.fbs")


def _decode_value_type(view: reader.TableView, table: str) -> ValueType:
    discriminant, type_view = view.union("type")
    if type_view is None:
        _invalid(f"{table}.type", "a type", "none")
    if discriminant not in _VALUE_TYPES:
        raise UnsupportedError(
            expected="values of an integer or floating-point type",
            found=f"the type {tables.Type(discriminant).name}, which tensors cannot have",
            field_path=f"{table}.type",
        )
    with error_context(field_path=f"{table}.type"):
        try:
            type_ = TYPES[discriminant].decode(type_view, ())
        except InvalidMetadataError:
            raise
        except ValueError as error:
            raise InvalidMetadataError(str(error)) from error
    assert isinstance(type_, t.Int | t.FloatingPoint)
    return type_


def _decode_index_type(view: reader.TableView, slot: str, table: str) -> t.Int:
    type_view = view.table(slot)
    assert type_view is not None, "the slot is required"
    try:
        type_ = t.Int(int(type_view.scalar("bitWidth")), bool(type_view.scalar("is_signed")))
    except ValueError as error:
        raise InvalidMetadataError(str(error), field_path=f"{table}.{slot}") from error
    check_index_type(type_, f"{table}.{slot}")
    return type_


def check_index_type(type_: t.Int, field: str) -> None:
    """Raise UnsupportedError if the values of an index cannot have this type."""
    if type_ == t.uint64:
        raise UnsupportedError(expected="an index of integers up to int64", found="uint64", field_path=field)


def _decode_shape(view: reader.TableView, table: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    dims = view.tables("shape")
    if len(dims) > MOST_DIMENSIONS:
        raise LimitError(
            expected=f"a tensor of at most {MOST_DIMENSIONS} dimensions, as many as numpy has",
            found=f"{len(dims):,}",
            field_path=f"{table}.shape",
        )
    shape = tuple(int(dim.scalar("size")) for dim in dims)
    for d, size in enumerate(shape):
        if size < 0:
            _invalid(f"{table}.shape[{d}].size", "a size of at least 0", f"{size}")
    return shape, tuple(dim.string("name") or "" for dim in dims)


def _decode_buffer(view: reader.TableView, slot: str, table: str) -> BufferPlace:
    extent = view.struct(slot)
    assert extent is not None, "the slot is required"
    return BufferPlace(f"{table}.{slot}", *extent)


def _check_inside(extent: BufferPlace, needed: int, body_nbytes: int, *, counts_elements: bool = False) -> None:
    """Refuse a buffer that is not aligned, not inside the body, or has fewer than the needed bytes."""
    if extent.byte_offset < 0 or extent.byte_offset % BODY_ALIGNMENT:
        _invalid(extent.field, "an offset of at least 0 that is a multiple of 8", f"{extent.byte_offset:,}")
    nbytes = needed if counts_elements else extent.length
    if extent.length < 0 or extent.byte_offset + nbytes > body_nbytes:
        unit = "elements" if counts_elements else "bytes"
        end = f"{extent.length:,} {unit} at {extent.byte_offset:,}"
        _invalid(extent.field, f"a buffer inside the body of {body_nbytes:,} bytes", end)
    if nbytes < needed:
        _invalid(extent.field, f"at least {needed:,} bytes", f"{nbytes:,}")


_HEADERS: Final[Mapping[int, Callable[[reader.TableView, int, Limits], TensorHeader | SparseTensorHeader]]] = {
    MessageHeader.Tensor: _decode_tensor,
    MessageHeader.SparseTensor: _decode_sparse_tensor,
}

# By discriminant; a test proves that it is total
_INDICES: Final[Mapping[int, Callable[[reader.TableView, tuple[int, ...], int, int], IndexHeader]]] = {
    tables.SparseTensorIndex.SparseTensorIndexCOO: _decode_coo,
    tables.SparseTensorIndex.SparseMatrixIndexCSX: _decode_csx,
    tables.SparseTensorIndex.SparseTensorIndexCSF: _decode_csf,
}

_VALUE_TYPES: Final = frozenset((tables.Type.Int, tables.Type.FloatingPoint))  # the same types as in Arrow C++
