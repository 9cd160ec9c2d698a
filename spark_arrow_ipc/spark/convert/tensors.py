"""Convert tensor columns (``extensionTypes=tensor``), Spark's vectors and matrices, and lists of numbers to binary.

A tensor column becomes structs of the logical shape and of the values in the order of that shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.kernels.take import positions_of_runs
from spark_arrow_ipc.errors import InvalidBodyError, SchemaMismatchError, UnsupportedError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.convert.conversion import (
    Conversion,
    Mask,
    Numbers,
    Site,
    convert_picked,
    data,
    even_offsets,
    narrow_offsets,
    offsets,
    offsets_of_sizes,
    pyarrow_type,
    valid,
    validity,
    visible_slots,
)
from spark_arrow_ipc.spark.types.field_metadata import vector_element
from spark_arrow_ipc.spark.types.tensor_columns import DATA, SHAPE, TensorColumn, spark_tensor, value_field

_SPEC: Final = "CanonicalExtensions.rst"

Parts = tuple[pa.Array, pa.Array]
"""The shapes and the values of the rows, both as lists."""


def tensor(field: t.Field, column: TensorColumn, target: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of a tensor column to a struct of its shape, its values, or both."""
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
        build = _uniform(column, types[DATA], element, site)
    else:
        build = _variable(field, column, types[DATA], element, site)
    to, shapes_type = pyarrow_type(target, site.path), pyarrow_type(types[SHAPE], site.path)

    def convert(array: Array, live: Mask) -> pa.Array:
        shapes, data = build(array, live)
        parts = {SHAPE: shapes.cast(shapes_type), DATA: data}
        children = [parts[name] for name in target.names]
        return pa.Array.from_buffers(to, array.length, [validity(array)], array.null_count, children=children)

    return Conversion(convert, checks=True)


def _array_type(target: s.StructType, name: str, site: Site) -> s.ArrayType:
    field = target[name] if name in target.names else None
    type_ = s.ArrayType(s.IntegerType()) if field is None else field.dataType
    allowed = (s.IntegerType, s.LongType) if name == SHAPE else s.DataType
    if not isinstance(type_, s.ArrayType) or not isinstance(type_.elementType, allowed):
        raise SchemaMismatchError(
            expected="an array<int> for the shape and an array for the data of a tensor",
            found=type_.simpleString(),
            field_path=f"{site.path}.{name}",
        )
    return type_


Build = Callable[[Array, Mask], Parts]


def _uniform(column: TensorColumn, data_type: s.ArrayType, element: Conversion, site: Site) -> Build:
    size = column.size
    to = pyarrow_type(data_type, site.path)
    physical, logical = (tuple(size or 0 for size in shape) for shape in (column.shape, column.logical_shape))
    permutation = column.permutation

    def build(array: Array, live: Mask) -> Parts:
        offsets = even_offsets(array.length, size, site.path)
        child = array.children[0].slice(array.offset * size, array.length * size)
        mask = visible_slots(array, live) if element.checks else None
        values = element.convert(child, None if mask is None else np.repeat(mask, size))
        if permutation is not None and len(values):
            order = np.arange(size).reshape(physical).transpose(permutation).reshape(-1)
            places = np.arange(array.length)[:, None] * size + order
            values = values.take(bridge.numbers(places.reshape(-1)))
        rows = np.tile(np.array(logical, np.int32), (array.length, 1))
        return _lists(rows, site.path), _list(to, offsets, values)

    return build


def _variable(field: t.Field, column: TensorColumn, data_type: s.ArrayType, element: Conversion, site: Site) -> Build:
    names = [child.name for child in field.type.children]
    lists = field.type.children[names.index(DATA)].type
    dtype = np.dtype(np.int64 if isinstance(lists, t.LargeList) else np.int32)
    to = pyarrow_type(data_type, site.path)

    def build(array: Array, live: Mask) -> Parts:
        data = array.children[names.index(DATA)].slice(array.offset, array.length)
        shapes = array.children[names.index(SHAPE)].slice(array.offset, array.length)
        mask = visible_slots(array, live)
        shown = np.ones(array.length, np.bool_) if mask is None else mask
        for name, child in ((DATA, data), (SHAPE, shapes)):
            present = visible_slots(child, None)
            if present is not None and (shown & ~present).any():
                _broken(f"{site.path}.{name}", "no null in a tensor that is not null", int((shown & ~present).argmax()))
        raw = (
            array_data.view_as(data.buffers[1], dtype, data.offset, data.length + 1)
            if data.length
            else np.zeros(1, dtype)
        )
        dimensions = len(column.shape)
        values = shapes.children[0].slice(shapes.offset * dimensions, shapes.length * dimensions)
        rows = array_data.data_values(values).reshape(array.length, dimensions)
        sized = valid(values)
        if sized is not None:
            rows = np.where(sized.reshape(rows.shape), rows, -1)
        lengths = np.where(shown, np.diff(raw.astype(np.int64)), 0)
        _check_shapes(rows, lengths, shown, column, site.path)
        # Elements of null rows are left out, so that the rest is in the order of the rows.
        starts = raw[:-1].astype(np.int64)
        offsets = offsets_of_sizes(lengths)
        places = _places(starts, offsets, rows, shown, column)
        converted = convert_picked(element, data.children[0], places)
        logical = rows if column.permutation is None else rows[:, list(column.permutation)]
        return _lists(np.where(shown[:, None], logical, 0), site.path), _list(
            to, narrow_offsets(offsets, site.path), converted
        )

    return build


def _check_shapes(
    rows: Numbers, lengths: Numbers, shown: npt.NDArray[np.bool_], column: TensorColumn, path: str
) -> None:
    """Refuse rows whose shape is negative, not uniform, or does not fit the number of their values."""
    wrong = (rows < 0).any(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        # Integers could overflow; floats are exact up to 2^53, and a row has fewer values.
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
    """Return the position of each element, by row and then in the order of its logical shape."""
    lengths = np.diff(offsets)
    places = positions_of_runs(starts, lengths)
    if column.permutation is None:
        return places
    visible = np.flatnonzero(shown)
    shapes, inverse = np.unique(rows[visible], axis=0, return_inverse=True)
    # One turn for each distinct shape, as most rows share a few.
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
    offsets = even_offsets(count, width, path)
    values = bridge.numbers(rows.reshape(-1).astype(np.int32))
    return pa.ListArray.from_arrays(bridge.numbers(offsets), values)


def _list(to: pa.DataType, offsets: Numbers, values: pa.Array) -> pa.Array:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets))]
    return pa.Array.from_buffers(to, len(offsets) - 1, buffers, 0, children=[values])


def _broken(path: str, expected: str, row: int, actual: str = "one") -> None:
    raise InvalidBodyError(expected=expected, found=f"{actual} in slot {row:,}", field_path=path, spec=_SPEC)


# Check the values of Spark's vectors and matrices, because their storage can hold other values too.
#
# ``VectorUDT`` and ``MatrixUDT`` are stored as structs, and a file may annotate a struct of any values with them. Java
# would fail in the middle of a job with an ``IllegalArgumentException`` that names neither column nor file, or read
# another vector (a null number as 0). So the converted struct is checked here, all rows of a batch at once: each
# rule gives a mask of the slots that break it, and the first visible one is an error. The conversion of the struct has
# already refused nulls that the storage cannot have (the kind, a matrix's sides, elements of the lists).
_Slots: TypeAlias = npt.NDArray[np.bool_]
_Rule: TypeAlias = tuple[_Slots, Callable[[int], str]]
"""The slots that break a rule, and the function from such a slot to the reason."""

_SPARSE: Final = 0
_KINDS: Final = 2


def check_user_type(conversion: Conversion, target: s.DataType, path: str) -> Conversion:
    """Return a conversion to a user-defined type that refuses values which Spark's vectors and matrices cannot have."""
    kind = target.scalaUDT().rpartition(".")[2] if isinstance(target, s.UserDefinedType) else ""
    if kind not in _RULES or not target.scalaUDT().startswith("org.apache.spark."):
        return conversion
    rules = _RULES[kind]

    def convert(array: Array, live: Mask) -> pa.Array:
        converted = conversion.convert(array, live)
        struct = bridge.from_pyarrow(converted)
        shown = visible_slots(struct, live)
        shown = np.ones(struct.length, np.bool_) if shown is None else shown
        for broken, said in _only(shown, rules(struct)):
            # The first rule that is broken: later ones rely on it.
            if broken.any():
                slot = int(broken.argmax())
                raise UnsupportedError(
                    f"slot {slot:,} is not a {kind[:-3].lower()} of Spark's: {said(slot)}; if the file notes the type, "
                    f"another program has changed the values: ask for {target.sqlType().simpleString()} with .schema(...)",
                    field_path=path,
                )
        return converted

    return Conversion(convert, checks=True)


def _vector_rules(struct: Array) -> Iterator[_Rule]:
    kind, size, indices, values = _children(struct)
    yield _of_no_kind(kind)
    yield _nulls(values), lambda _: "its values are null"
    is_sparse = data(kind, np.int8) == _SPARSE
    yield is_sparse & _nulls(size), lambda _: "its size is null"
    yield _negative("size", size, is_sparse)
    yield is_sparse & _nulls(indices), lambda _: "its indices are null"
    counts = _counts(indices), _counts(values)
    yield is_sparse & (counts[0] != counts[1]), lambda i: f"it has {counts[0][i]} indices and {counts[1][i]} values"
    yield from _only(is_sparse, _within(indices, data(size, np.int32), lambda _: "size"))
    yield is_sparse & _per_slot(indices, _falls(indices)), lambda _: "its indices do not rise"


def _matrix_rules(struct: Array) -> Iterator[_Rule]:
    kind, rows, columns, pointers, row_indices, values, transposed = _children(struct)
    yield _of_no_kind(kind)
    for name, child in (("numRows", rows), ("numCols", columns)):
        yield _negative(name, child)
    yield _nulls(values), lambda _: "its values are null"
    is_sparse = data(kind, np.int8) == _SPARSE
    sides = data(rows, np.int32).astype(np.int64), data(columns, np.int32).astype(np.int64)
    held = _counts(values)
    yield (
        ~is_sparse & (sides[0] * sides[1] != held),
        lambda i: f"it has {sides[0][i]:,} rows and {sides[1][i]:,} columns, and {held[i]:,} values",
    )
    yield is_sparse & _nulls(pointers), lambda _: "its colPtrs are null"
    yield is_sparse & _nulls(row_indices), lambda _: "its rowIndices are null"
    # The pointers of a transposed matrix are by rows.
    bits = np.unpackbits(np.frombuffer(transposed.buffers[1] or b"", np.uint8), bitorder="little")
    by_rows = bits[transposed.offset : transposed.offset + transposed.length].astype(np.bool_)
    outer, inner = np.where(by_rows, *sides), np.where(by_rows, *reversed(sides))
    counted, named = _counts(pointers), _counts(row_indices)
    yield (
        is_sparse & (counted != outer + 1),
        lambda i: f"it has {counted[i]} colPtrs and {outer[i]} {'rows' if by_rows[i] else 'columns'}",
    )
    yield is_sparse & (named != held), lambda i: f"it has {named[i]} rowIndices and {held[i]} values"
    yield is_sparse & _astray(pointers, held), lambda i: f"its colPtrs do not lead from 0 to {held[i]}"
    yield from _only(
        is_sparse, _within(row_indices, inner, lambda i: f"number of {'columns' if by_rows[i] else 'rows'}")
    )


_RULES: Final[Mapping[str, Callable[[Array], Iterator[_Rule]]]] = {
    "VectorUDT": _vector_rules,
    "MatrixUDT": _matrix_rules,
}
"""By the name of the class. A rule may rely on the rules before it."""


def _children(struct: Array) -> list[Array]:
    return [child.slice(struct.offset, struct.length) for child in struct.children]


def _nulls(array: Array) -> _Slots:
    mask = valid(array)
    return np.zeros(array.length, np.bool_) if mask is None else ~mask


def _of_no_kind(kind: Array) -> _Rule:
    kinds = data(kind, np.int8)
    return (kinds < 0) | (kinds >= _KINDS), lambda i: f"its type is {kinds[i]}"


def _negative(name: str, numbers: Array, slots: _Slots | bool = True) -> _Rule:
    counts = data(numbers, np.int32)
    return (counts < 0) & slots, lambda i: f"its {name} is {counts[i]}"


def _only(slots: _Slots, rules: Iterator[_Rule]) -> Iterator[_Rule]:
    for broken, said in rules:
        yield broken & slots, said


def _elements(lists: Array) -> Array:
    """Return the elements between the first offset and the last."""
    list_offsets = offsets(lists, np.int32)
    return lists.children[0].slice(int(list_offsets[0]), int(list_offsets[-1] - list_offsets[0]))


def _counts(lists: Array) -> Numbers:
    return np.diff(offsets(lists, np.int32)).astype(np.int64)


def _per_slot(lists: Array, elements: _Slots) -> _Slots:
    """Return the slots that have an element in a mask of `_elements`."""
    slots = np.zeros(lists.length, np.bool_)
    list_offsets = offsets(lists, np.int32)
    slots[np.searchsorted(list_offsets, np.flatnonzero(elements) + list_offsets[0], side="right") - 1] = True
    return slots


def _within(lists: Array, ends: Numbers, of: Callable[[int], str]) -> Iterator[_Rule]:
    """Yield the rules that the elements of a slot are at least 0 and below its end."""
    list_offsets = offsets(lists, np.int32)
    numbers = data(_elements(lists), np.int32)

    def worst(i: int) -> Numbers:
        return numbers[list_offsets[i] - list_offsets[0] : list_offsets[i + 1] - list_offsets[0]]

    yield _per_slot(lists, numbers < 0), lambda i: f"the index {worst(i).min()} is negative"
    yield (
        _per_slot(lists, numbers >= np.repeat(ends, _counts(lists))),
        lambda i: f"the index {worst(i).max()} is not below its {of(i)}, {ends[i]}",
    )


def _falls(lists: Array) -> _Slots:
    """Return the mask of elements that do not exceed the one before them in their slot."""
    numbers = data(_elements(lists), np.int32)
    falls = np.zeros(len(numbers), np.bool_)
    falls[1:] = numbers[1:] <= numbers[:-1]
    return falls & ~_first(lists, len(numbers))


def _first(lists: Array, count: int) -> _Slots:
    list_offsets = offsets(lists, np.int32)
    first = np.zeros(count + 1, np.bool_)
    first[list_offsets - list_offsets[0]] = True
    return first[:count]


def _astray(pointers: Array, ends: Numbers) -> _Slots:
    """Return the slots whose pointers fall, or do not go from 0 to their end."""
    list_offsets = offsets(pointers, np.int32)
    numbers = data(_elements(pointers), np.int32)
    falls = np.zeros(len(numbers), np.bool_)
    falls[1:] = numbers[1:] < numbers[:-1]
    astray = _per_slot(pointers, falls & ~_first(pointers, len(numbers)))
    held = np.flatnonzero(_counts(pointers))  # an earlier rule refuses slots without pointers
    starts, lasts = list_offsets[:-1][held] - list_offsets[0], list_offsets[1:][held] - list_offsets[0] - 1
    astray[held] |= (numbers[starts] != 0) | (numbers[lasts] != ends[held])
    return astray


# Convert lists of numbers to binary values, for ``vectors=binary``.
#
# The numbers of all rows are in one buffer, and so are the bytes of binary values: the buffer is shared, and the list's
# offsets are multiplied by the bytes of a number. Only offsets are copied.
def vector(field: t.Field, target: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of a list of numbers to binary; `field` has a `vector_element`."""
    to = pyarrow_type(target, site.path)
    element = vector_element(field.type)
    assert element is not None
    width = array_data.dtype_of(element).itemsize
    own_offsets = _offsets_of(field.type)

    def convert(array: Array, live: Mask) -> pa.Array:
        vector_offsets = own_offsets(array)
        start, stop = int(vector_offsets[0]), int(vector_offsets[-1])
        numbers = array.children[0].slice(start, stop - start)
        _check_no_nulls(numbers, array, live, vector_offsets, site.path)
        data = array_data.data_values(numbers).view(np.uint8)
        narrow = narrow_offsets((vector_offsets.astype(np.int64) - start) * width, site.path)
        buffers_of_array = [validity(array), pa.py_buffer(narrow), pa.py_buffer(data)]
        return pa.Array.from_buffers(to, array.length, buffers_of_array, array.null_count)

    return Conversion(convert, checks=True)


def _offsets_of(type_: t.DataType) -> Callable[[Array], Numbers]:
    """Return a function from an array to the ``length + 1`` offsets of its rows in its child."""
    if isinstance(type_, t.FixedSizeList):
        size = type_.list_size
        return lambda array: (np.arange(array.length + 1, dtype=np.int64) + array.offset) * size
    dtype = np.dtype(np.int64 if isinstance(type_, t.LargeList) else np.int32)
    return lambda array: offsets(array, dtype)


def _check_no_nulls(numbers: Array, array: Array, live: Mask, list_offsets: Numbers, path: str) -> None:
    """Refuse a null number in a row that is not null."""
    present = valid(numbers)
    if present is None:
        return
    missing = ~present
    shown = visible_slots(array, live)
    if shown is not None:
        missing &= np.repeat(shown, np.diff(list_offsets))
    if missing.any():
        row = int(np.searchsorted(list_offsets, int(list_offsets[0]) + int(missing.argmax()), side="right")) - 1
        raise SchemaMismatchError(
            f"the vector in slot {row:,} has a null among its numbers, which binary values cannot hold; read it without "
            "vectors=binary",
            field_path=path,
        )
