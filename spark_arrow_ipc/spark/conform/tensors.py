"""Convert tensor columns to structs of the logical shape and of the values in its order (``extensionTypes=tensor``)."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import numpy_views
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.errors import InvalidBodyError, SchemaMismatchError
from spark_arrow_ipc.spark import pyarrow_values
from spark_arrow_ipc.spark.conform.conversion import Conversion, Mask, Numbers, Site, narrowed, seen, valid, validity
from spark_arrow_ipc.spark.conform.expected import expected_type
from spark_arrow_ipc.spark.types.tensor_columns import DATA, SHAPE, TensorColumn, spark_tensor, value_field

_SPEC: Final = "CanonicalExtensions.rst"

Parts = tuple[pa.Array, pa.Array]
"""The shapes and the values of the rows, both lists."""


def tensor(field: t.Field, column: TensorColumn, target: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of a tensor column to a struct of its shape and its values, or of one of them."""
    if not isinstance(target, s.StructType) or not {SHAPE, DATA} >= set(target.names) or not target.names:
        natural = spark_tensor(s.NullType()).simpleString().replace("void", "...")
        raise SchemaMismatchError(
            expected=f"{natural} for a tensor, with extensionTypes=tensor (the fields of a struct are chosen in a query)",
            found=target.simpleString(),
            field_path=site.path,
        )
    types = {name: _array_type(target, name, site) for name in (SHAPE, DATA)}
    element = site.compile(value_field(field), types[DATA].elementType, f"{site.path}.{DATA}[]", nullable=True)
    if isinstance(field.type, t.FixedSizeList):
        build = _fixed(column, types[DATA], element, site)
    else:
        build = _variable(field, column, types[DATA], element, site)
    to, shapes_type = expected_type(target, site.path), expected_type(types[SHAPE], site.path)

    def convert(array: Array, live: Mask) -> pa.Array:
        shapes, data = build(array, live)
        parts = {SHAPE: shapes.cast(shapes_type), DATA: data}
        children = [parts[name] for name in target.names]
        return pa.Array.from_buffers(to, array.length, [validity(array)], array.null_count, children=children)

    return Conversion(convert, checks=True)


def _array_type(target: s.StructType, name: str, site: Site) -> s.ArrayType:
    field = target[name] if name in target.names else None
    type_ = s.ArrayType(s.IntegerType()) if field is None else field.dataType
    wanted = (s.IntegerType, s.LongType) if name == SHAPE else s.DataType
    if not isinstance(type_, s.ArrayType) or not isinstance(type_.elementType, wanted):
        raise SchemaMismatchError(
            expected="an array<int> for the shape and an array for the data of a tensor",
            found=type_.simpleString(),
            field_path=f"{site.path}.{name}",
        )
    return type_


Build = Callable[[Array, Mask], Parts]


def _fixed(column: TensorColumn, data_type: s.ArrayType, element: Conversion, site: Site) -> Build:
    size = column.size
    to = expected_type(data_type, site.path)
    physical, logical = (tuple(size or 0 for size in shape) for shape in (column.shape, column.logical_shape))
    permutation = column.permutation

    def build(array: Array, live: Mask) -> Parts:
        offsets = narrowed(np.arange(array.length + 1, dtype=np.int64) * size, site.path)
        child = array.children[0].slice(array.offset * size, array.length * size)
        mask = seen(array, live) if element.checks else None
        values = element.convert(child, None if mask is None else np.repeat(mask, size))
        if permutation is not None and len(values):
            order = np.arange(size).reshape(physical).transpose(permutation).reshape(-1)
            places = np.arange(array.length)[:, None] * size + order
            values = values.take(pyarrow_values.numbers(places.reshape(-1)))
        rows = np.tile(np.array(logical, np.int32), (array.length, 1))
        return _lists(rows, site.path), _list(to, offsets, values)

    return build


def _variable(field: t.Field, column: TensorColumn, data_type: s.ArrayType, element: Conversion, site: Site) -> Build:
    names = [child.name for child in field.type.children]
    lists = field.type.children[names.index(DATA)].type
    dtype = np.dtype(np.int64 if isinstance(lists, t.LargeList) else np.int32)
    to = expected_type(data_type, site.path)

    def build(array: Array, live: Mask) -> Parts:
        data = array.children[names.index(DATA)].slice(array.offset, array.length)
        shapes = array.children[names.index(SHAPE)].slice(array.offset, array.length)
        mask = seen(array, live)
        shown = np.ones(array.length, np.bool_) if mask is None else mask
        for name, child in ((DATA, data), (SHAPE, shapes)):
            present = seen(child, None)
            if present is not None and (shown & ~present).any():
                _broken(f"{site.path}.{name}", "no null in a tensor that is not null", int((shown & ~present).argmax()))
        raw = (
            numpy_views.typed(data.buffers[1], dtype, data.offset, data.length + 1)
            if data.length
            else np.zeros(1, dtype)
        )
        dimensions = len(column.shape)
        values = shapes.children[0].slice(shapes.offset * dimensions, shapes.length * dimensions)
        rows = numpy_views.data_values(values).reshape(array.length, dimensions)
        known = valid(values)
        if known is not None:
            rows = np.where(known.reshape(rows.shape), rows, -1)
        lengths = np.where(shown, np.diff(raw.astype(np.int64)), 0)
        _check_shapes(rows, lengths, shown, column, site.path)
        # What null rows have is left out, so that all elements are in the order of the rows.
        starts = raw[:-1].astype(np.int64)
        offsets = np.zeros(array.length + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        places = _places(starts, offsets, rows, shown, column)
        child = data.children[0]
        live_below = None
        if element.checks:
            live_below = np.zeros(child.length, np.bool_)
            live_below[places] = True
        made = element.convert(child, live_below)
        if len(places) != child.length or not np.array_equal(places, np.arange(child.length)):
            made = made.take(pyarrow_values.numbers(places))
        logical = rows if column.permutation is None else rows[:, list(column.permutation)]
        return _lists(np.where(shown[:, None], logical, 0), site.path), _list(to, narrowed(offsets, site.path), made)

    return build


def _check_shapes(
    rows: Numbers, lengths: Numbers, shown: npt.NDArray[np.bool_], column: TensorColumn, path: str
) -> None:
    """Refuse rows whose shape is negative, not the uniform one, or not that of their values."""
    wrong = (rows < 0).any(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        # Floating point is exact here where it has to be: a row has fewer than 2^53 values.
        wrong |= np.prod(rows.astype(np.float64), axis=1) != lengths
    for d, size in enumerate(column.shape):
        if size is not None:
            wrong |= rows[:, d] != size
    wrong &= shown
    if wrong.any():
        row = int(wrong.argmax())
        uniform = "" if all(size is None for size in column.shape) else f" and the uniform shape {column.text()}"
        _broken(path, f"a shape of the {lengths[row]:,} values{uniform}", row, f"{rows[row].tolist()}")


def _places(
    starts: Numbers, offsets: Numbers, rows: Numbers, shown: npt.NDArray[np.bool_], column: TensorColumn
) -> npt.NDArray[np.int64]:
    """Return the place of each element in the order of the rows, and in a row in that of its logical shape."""
    lengths = np.diff(offsets)
    places = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1], dtype=np.int64)
    if column.permutation is None:
        return places
    visible = np.flatnonzero(shown)
    shapes, inverse = np.unique(rows[visible], axis=0, return_inverse=True)
    for number, shape in enumerate(shapes.tolist()):
        if not prod(shape):
            continue
        order = np.arange(prod(shape)).reshape(shape).transpose(column.permutation).reshape(-1)
        of_shape = visible[inverse.reshape(-1) == number]
        places[offsets[of_shape][:, None] + np.arange(len(order))] = starts[of_shape][:, None] + order
    return places


def _lists(rows: Numbers, path: str) -> pa.Array:
    """Return the rows of a matrix as lists of int32."""
    count, width = rows.shape
    offsets = narrowed(np.arange(count + 1, dtype=np.int64) * width, path)
    values = pyarrow_values.numbers(rows.reshape(-1).astype(np.int32))
    return pa.ListArray.from_arrays(pyarrow_values.numbers(offsets), values)


def _list(to: pa.DataType, offsets: Numbers, values: pa.Array) -> pa.Array:
    made = [None, pa.py_buffer(np.ascontiguousarray(offsets))]
    return pa.Array.from_buffers(to, len(offsets) - 1, made, 0, children=[values])


def _broken(path: str, expected: str, row: int, found: str = "one") -> None:
    raise InvalidBodyError(expected=expected, found=f"{found} in slot {row:,}", field_path=path, spec=_SPEC)
