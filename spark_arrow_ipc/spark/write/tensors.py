"""Write columns as tensors, ``arrow.fixed_shape_tensor`` and ``arrow.variable_shape_tensor``, or as fixed-size lists.

How it works
------------
1. A column is written as tensors if the option `tensorColumns` names it, or if it has the metadata of a tensor column and
   is an array, or a struct of shape and data. A permutation in the metadata stays and applies to the stored values.
2. An array that the option `fixedSizeLists` names, or whose metadata have `SIZE_KEY`, is a tensor of one dimension without
   the extension, as vector stores read it.
3. `plan_tensors` decides for all tasks; `TensorTarget.convert` checks the rows of a batch and makes the storage. A row of
   another shape is an error that states its number: in a fixed-size list, it would shift the values of all later rows.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.array_data import as_buffer
from spark_arrow_ipc.arrow.column_path import ColumnPath, Positions, find_columns, path_string, resolve
from spark_arrow_ipc.arrow.kernels.compact import compact
from spark_arrow_ipc.errors import InvalidMetadataError, OptionError, SchemaMismatchError, cut_repr, error_context
from spark_arrow_ipc.spark.types.extension_columns import EXTENSION_METADATA, EXTENSION_NAME
from spark_arrow_ipc.spark.types.field_metadata import TYPE_KEY, annotation_of, type_of_annotation
from spark_arrow_ipc.spark.types.spark_to_arrow import arrow_field, storage_type
from spark_arrow_ipc.spark.types.tensor_columns import DATA, FIXED, NAMES, SHAPE, VARIABLE, TensorColumn, parse_tensor
from spark_arrow_ipc.spark.write.dictionaries import TaskDictionaries
from spark_arrow_ipc.spark.write.restore_values import restore
from spark_arrow_ipc.spark.write.schema_check import restore_schema

NDArray = npt.NDArray[Any]

SIZE_KEY: Final = "arrow.fixed-size-list.size"
"""Key of Lance's connector in the metadata of a Spark column: the length of its arrays, a number or a string."""

_MOST_VALUES: Final = 2**31 - 1
"""Most elements of a fixed-size list."""

_VALUES: Final = (t.Int, t.FloatingPoint, t.Bool, t.Decimal, t.Date, t.Time, t.Timestamp, t.Duration)
"""Classes of types with a fixed width, which values of tensors may have."""

_RESTORED_LISTS: Final = (t.List, t.LargeList, t.ListView, t.LargeListView, t.FixedSizeList)

GivenShape = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class TensorTarget:
    """The tensor type of a written column."""

    field: t.Field  # the written field
    column: TensorColumn  # the shape that rows must have
    origin: str  # option or metadata, for errors

    def convert(self, array: Array, first_row: int, dictionaries: TaskDictionaries) -> Array:
        """Convert the rows of a batch to the written type."""
        name, array = self.field.name, compact(array)
        if isinstance(array.type, t.List):
            self._check_lengths(array, _mask(array), first_row)
            return restore(array, self.field.type, name, dictionaries)
        children = {f.name.lower(): child for f, child in zip(array.type.children, array.children, strict=True)}
        shape, data = children[SHAPE], children[DATA]
        shown = _mask(array)
        rows = self._check_shapes(shape, data, shown, first_row)
        if isinstance(self.field.type, t.FixedSizeList):
            # The lists get the validity of the structs.
            values = replace(data, null_count=array.null_count, buffers=(array.buffers[0], *data.buffers[1:]))
            return restore(values, self.field.type, name, dictionaries)
        types = {f.name: f.type for f in self.field.type.children}
        restored = restore(data, types[DATA], f"{name}.{DATA}", dictionaries)
        full_shapes = np.zeros((array.length, len(self.column.shape)), np.int32)
        full_shapes[shown] = rows  # null rows have zeros
        sizes = Array(t.int32, full_shapes.size, 0, (None, as_buffer(full_shapes.reshape(-1))))
        shapes = Array(types[SHAPE], array.length, 0, (None,), (sizes,))
        return Array(self.field.type, array.length, array.null_count, (array.buffers[0],), (restored, shapes))

    def _check_shapes(self, shape: Array, data: Array, shown: npt.NDArray[np.bool_], first_row: int) -> NDArray:
        """Return the shapes of the rows that are not null, one row each."""
        for name, child in ((SHAPE, shape), (DATA, data)):
            missing = shown & ~_mask(child)
            if missing.any():
                self._refuse(f"a {name}", "null", first_row + int(missing.argmax()))
        dimensions = len(self.column.shape)
        offsets = array_data.value_offsets(shape).astype(np.int64)
        wrong = shown & (np.diff(offsets) != dimensions)
        if wrong.any():
            row = int(wrong.argmax())
            self._refuse(f"{dimensions} dimensions", f"{offsets[row + 1] - offsets[row]:,}", first_row + row)
        visible = np.flatnonzero(shown)
        places = offsets[visible][:, None] + np.arange(dimensions)
        rows = array_data.data_values(shape.children[0])[places].astype(np.int64)
        validity = array_data.validity_mask(shape.children[0])
        # A null size is refused like a negative one.
        rows = rows if validity is None else np.where(validity[places], rows, -1)
        # -1 stands for any size.
        declared = np.array([-1 if size is None else size for size in self.column.shape])
        other = ((rows != declared) & (declared >= 0)) | (rows < 0) | (rows > _MOST_VALUES)
        if other.any():
            at = int(other.any(axis=1).argmax())
            self._refuse(f"the shape {self.column.text()}", f"{rows[at].tolist()}", first_row + int(visible[at]))
        lengths = np.diff(array_data.value_offsets(data).astype(np.int64))[visible]
        with np.errstate(over="ignore", invalid="ignore"):
            # Doubles are exact enough: a row has fewer than 2^53 values, and a product that is rounded is greater than any length.
            unlike = np.prod(rows.astype(np.float64), axis=1) != lengths
        if unlike.any():
            at = int(unlike.argmax())
            expected = f"as many values as the shape {rows[at].tolist()} has"
            self._refuse(expected, f"{lengths[at]:,}", first_row + int(visible[at]))
        return rows

    def _check_lengths(self, array: Array, shown: npt.NDArray[np.bool_], first_row: int) -> None:
        lengths = np.diff(array_data.value_offsets(array).astype(np.int64))
        wrong = shown & (lengths != self.column.size)
        if wrong.any():
            row = int(wrong.argmax())
            shape = f" ({self.column.text()})" if len(self.column.shape) > 1 else ""
            expected = f"{self.column.size:,} values{shape}"
            self._refuse(expected, f"{lengths[row]:,}", first_row + row)

    def _refuse(self, expected: str, actual: str, row: int) -> NoReturn:
        raise SchemaMismatchError(
            expected=f"{expected} in each row that is not null, as {self.origin}",
            found=f"{actual} in row {row:,} of this task",
        )


@dataclass(frozen=True, slots=True)
class ListsBelow:
    """The lengths of arrays inside of a struct that are written as fixed-size lists."""

    field: t.Field  # the written column
    lengths: Mapping[Positions, int]  # by positions inside of the column

    def convert(self, array: Array, first_row: int, dictionaries: TaskDictionaries) -> Array:
        """Convert the rows of a batch to the written type."""
        for positions, length in self.lengths.items():
            names, below, shown = [self.field.name], array, _mask(array)
            for position in positions:
                names.append(below.type.children[position].name)
                below = below.children[position].slice(below.offset, below.length)
                shown = shown & _mask(below)  # lengths below null structs do not matter
            inner = TensorTarget(self.field, TensorColumn((length,)), f"{_LISTS} says")
            with error_context(field_path=".".join(names)):
                inner._check_lengths(compact(below), shown, first_row)  # noqa: SLF001 - a class of this module
        return restore(array, self.field.type, self.field.name, dictionaries)


def _mask(array: Array) -> npt.NDArray[np.bool_]:
    mask = array_data.validity_mask(array)
    return np.ones(array.length, np.bool_) if mask is None else mask


# --- the plan


def plan_tensors(
    schema: s.StructType,
    shapes: Sequence[tuple[ColumnPath, GivenShape]],
    lists: Sequence[tuple[ColumnPath, int]] = (),
    *,
    restore_types: bool,
) -> dict[int, TensorTarget]:
    """Return the targets of columns that are written as tensors or fixed-size lists, by position."""
    targets: dict[int, TensorTarget] = {}
    for path, shape in shapes:
        position = _resolve_position(schema, path, _TENSORS)
        if position in targets:
            raise OptionError(f"{_TENSORS} names the column {schema.fields[position].name!r} twice")
        targets[position] = _plan_by_option(schema.fields[position], shape, restore_types=restore_types)
    for path, size in lists:
        if isinstance(path, tuple):  # `lists_below` plans fields of structs
            continue
        position = _resolve_position(schema, path, _LISTS)
        field = schema.fields[position]
        if position in targets:
            raise OptionError(f"{_LISTS} names the column {field.name!r}, which it or tensorColumns names before")
        targets[position] = _plan_list(field, size, f"{_LISTS} says", restore_types=restore_types)
    # Options precede metadata.
    for position, field in enumerate(schema.fields):
        if position not in targets:
            target = _plan_by_metadata(field, restore_types=restore_types) or _plan_by_size(
                field, restore_types=restore_types
            )
            if target is not None:
                targets[position] = target
    return targets


def lists_below(
    fields: Sequence[t.Field], lists: Sequence[tuple[ColumnPath, int]], others: Container[int]
) -> dict[int, ListsBelow]:
    """Return the targets of structs whose fields the option `fixedSizeLists` names, by position."""
    lengths: dict[int, dict[Positions, int]] = {}
    for path, size in lists:
        if not isinstance(path, tuple):
            continue
        with error_context(asked_by=_LISTS):
            position, *below = resolve(fields, path)
        if position in others or tuple(below) in lengths.get(position, {}):
            raise OptionError(f"{_LISTS} names {path_string(path)}, which it or tensorColumns names before")
        lengths.setdefault(position, {})[tuple(below)] = size
    return {i: ListsBelow(_with_lengths(fields[i], sizes, fields[i].name), sizes) for i, sizes in lengths.items()}


def _with_lengths(field: t.Field, lengths: Mapping[Positions, int], path: str) -> t.Field:
    """Return a field in which the arrays at some positions have a fixed length."""
    if () not in lengths:
        children = list(field.type.children)
        for position in {positions[0] for positions in lengths}:
            below = {positions[1:]: size for positions, size in lengths.items() if positions[0] == position}
            children[position] = _with_lengths(children[position], below, f"{path}.{children[position].name}")
        return replace(field, type=t.Struct(tuple(children)))
    type_ = field.type
    if len(lengths) > 1 or not isinstance(type_, _RESTORED_LISTS) or not isinstance(type_.value.type, _VALUES):
        raise OptionError(
            f"{path} is {type_}, and {_LISTS} says that it is written as fixed-size lists, which only arrays of numbers, "
            "times or booleans can be"
        )
    return replace(field, type=t.FixedSizeList(type_.value, lengths[()]))


def without_annotations(schema: s.StructType, targets: Mapping[int, TensorTarget]) -> s.StructType:
    """Return a schema without annotations for tensor columns, as their targets have restored these types."""
    return s.StructType([
        s.StructField(f.name, f.dataType, f.nullable, {k: v for k, v in (f.metadata or {}).items() if k != TYPE_KEY})
        if i in targets
        else f
        for i, f in enumerate(schema.fields)
    ])  # fmt: skip


_TENSORS: Final = "the option tensorColumns"
_LISTS: Final = "the option fixedSizeLists"


def _resolve_position(schema: s.StructType, path: ColumnPath, option: str) -> int:
    if isinstance(path, int):
        if path >= len(schema.fields):
            raise OptionError(expected=f"positions below {len(schema.fields)} in {option}", found=f"#{path}")
        return path
    assert isinstance(path, str), "the parser takes whole columns only"
    with error_context(asked_by=option):
        return find_columns(schema.names, [path])[0]


def _plan_by_option(field: s.StructField, shape: GivenShape, *, restore_types: bool) -> TensorTarget:
    column = TensorColumn(shape)
    if column.is_fixed and column.size > _MOST_VALUES:
        raise OptionError(
            f"the option tensorColumns: a row of {field.name!r} would have {column.size:,} values, and a tensor of fixed "
            f"shape has at most {_MOST_VALUES:,}; write {'x'.join('?' for _ in shape)}"
        )
    values = _values_of(field.dataType)
    expected = "struct<shape: array<int>, data: array<...>>"
    if column.is_fixed:
        expected = f"array<...> or {expected}"
    if values is None or not (column.is_fixed or _is_struct(field.dataType)):
        raise OptionError(
            f"the option tensorColumns: {field.name!r} is {storage_type(field.dataType).simpleString()}, and tensors of the "
            f"shape {column.text()} are written from {expected}, with numbers as values; convert nested arrays with "
            "flatten, and vectors of pyspark.ml with vector_to_array"
        )
    extension = column.pairs(FIXED if column.is_fixed else VARIABLE)
    target = _make_target(field, column, "the option tensorColumns says", extension, restore_types=restore_types)
    if not isinstance(_value_type(target.field.type), _VALUES):
        raise OptionError(
            f"the option tensorColumns: the values of {field.name!r} are {values.simpleString()}, not numbers"
        )
    return target


def _plan_by_metadata(field: s.StructField, *, restore_types: bool) -> TensorTarget | None:
    """Return the target of a column with the metadata of a tensor; None for other columns and other types."""
    metadata = field.metadata or {}
    name, text = metadata.get(EXTENSION_NAME), metadata.get(EXTENSION_METADATA, "")
    values = _values_of(field.dataType) if name in NAMES and isinstance(text, str) else None
    if values is None or (name == VARIABLE and not _is_struct(field.dataType)):
        return None
    try:
        column = parse_tensor(str(name), text, _count_dimensions(field) if name == VARIABLE else None, field.name)
    except InvalidMetadataError:  # the column may have changed since its metadata was written
        return None
    if name == FIXED and column.size > _MOST_VALUES:
        return None
    origin = "the metadata of the column say (drop them with df.withMetadata)"
    pairs = {key: metadata[key] for key in (EXTENSION_NAME, EXTENSION_METADATA) if key in metadata}
    target = _make_target(field, column, origin, pairs, restore_types=restore_types)
    return target if isinstance(_value_type(target.field.type), _VALUES) else None


def _plan_list(field: s.StructField, size: int, origin: str, *, restore_types: bool) -> TensorTarget:
    type_ = storage_type(field.dataType)
    target = None
    if isinstance(type_, s.ArrayType):
        target = _make_target(field, TensorColumn((size,)), origin, {}, restore_types=restore_types)
    if target is None or not isinstance(_value_type(target.field.type), _VALUES):
        raise OptionError(
            f"{field.name!r} is {type_.simpleString()}, and {origin} that it is written as fixed-size lists, which only "
            "arrays of numbers, times or booleans can be; convert vectors of pyspark.ml with vector_to_array"
        )
    return target


def _plan_by_size(field: s.StructField, *, restore_types: bool) -> TensorTarget | None:
    """Return the target of an array whose metadata have a length; None for other columns."""
    size_annotation = (field.metadata or {}).get(SIZE_KEY)
    if size_annotation is None or not isinstance(storage_type(field.dataType), s.ArrayType):
        return None
    text = str(size_annotation) if isinstance(size_annotation, str) or type(size_annotation) is int else ""
    # Only short texts of digits become numbers: the time of int() grows with the square of the length.
    size = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(_MOST_VALUES)) else 0
    if not 0 < size <= _MOST_VALUES:
        raise OptionError(
            f"the metadata {SIZE_KEY} of {field.name!r}: expected a length from 1 to {_MOST_VALUES:,}, found {cut_repr(size_annotation)}"
        )
    return _plan_list(field, size, f"the metadata {SIZE_KEY} of the column say", restore_types=restore_types)


def _make_target(
    field: s.StructField, column: TensorColumn, origin: str, extension: dict[str, str], *, restore_types: bool
) -> TensorTarget:
    values = _values_of(field.dataType)
    assert values is not None, "the column is one of values"
    metadata = {
        k: v for k, v in (field.metadata or {}).items() if k not in {EXTENSION_NAME, EXTENSION_METADATA, TYPE_KEY}
    }
    lists = s.StructField(field.name, s.ArrayType(values), metadata=metadata)
    lists_field = arrow_field(lists.name, lists.dataType, metadata, field.name)
    annotation = _value_annotation(field) if restore_types else None
    if annotation is not None:
        lists.metadata[TYPE_KEY] = annotation_of(t.List(t.Field("item", annotation)))
        # Refuses an annotation to which the values cannot be converted.
        lists_field = restore_schema(s.StructType([lists])).fields[0]
    assert isinstance(lists_field.type, t.List)
    type_: t.DataType
    if extension.get(EXTENSION_NAME) != VARIABLE:
        type_ = t.FixedSizeList(lists_field.type.value, column.size)
    else:
        shape = t.FixedSizeList(t.Field("item", t.int32), len(column.shape))
        type_ = t.struct([(DATA, lists_field.type), (SHAPE, shape)])
    pairs = (*extension.items(), *lists_field.custom_metadata)
    return TensorTarget(t.Field(field.name, type_, custom_metadata=pairs), column, origin)


def _value_type(type_: t.DataType) -> t.DataType:
    """Return the type of the values of a written tensor column."""
    if isinstance(type_, t.FixedSizeList):
        return type_.value.type
    return type_.children[0].type.children[0].type


def _is_struct(spark_type: s.DataType) -> bool:
    return isinstance(storage_type(spark_type), s.StructType)


def _values_of(spark_type: s.DataType) -> s.DataType | None:
    """Return the type of the values of an array, or of a struct of shape and data; otherwise None."""
    spark_type = storage_type(spark_type)
    if isinstance(spark_type, s.ArrayType):
        return spark_type.elementType
    if not isinstance(spark_type, s.StructType) or sorted(map(str.lower, spark_type.names)) != [DATA, SHAPE]:
        return None
    types = {field.name.lower(): field.dataType for field in spark_type.fields}
    shape, data = types[SHAPE], types[DATA]
    is_shape = isinstance(shape, s.ArrayType) and isinstance(shape.elementType, s.IntegerType | s.LongType)
    return data.elementType if is_shape and isinstance(data, s.ArrayType) else None


def _read_annotation(field: s.StructField) -> t.DataType | None:
    """Return the annotated type of a tensor column, or None."""
    note = (field.metadata or {}).get(TYPE_KEY)
    if not isinstance(note, str):
        return None
    values = _values_of(field.dataType)
    assert values is not None, "the column is one of values"
    # An annotation is completed by the usual type of its storage, which is a list or a struct.
    lists = arrow_field("item", s.ArrayType(values), {}, field.name).type
    storage = t.struct([(DATA, lists), (SHAPE, t.list_(t.int32))])
    for usual in (lists, storage):
        try:
            return type_of_annotation(note, usual)
        except ValueError:
            continue
    return None


def _value_annotation(field: s.StructField) -> t.DataType | None:
    annotation = _read_annotation(field)
    if annotation is None:
        return None
    lists = (
        annotation
        if not isinstance(annotation, t.Struct)
        else next(f.type for f in annotation.fields if f.name == DATA)
    )
    return lists.children[0].type if lists.children else None


def _count_dimensions(field: s.StructField) -> int | None:
    annotation = _read_annotation(field)
    shape = {f.name: f.type for f in annotation.fields}.get(SHAPE) if isinstance(annotation, t.Struct) else None
    return shape.list_size if isinstance(shape, t.FixedSizeList) else None
