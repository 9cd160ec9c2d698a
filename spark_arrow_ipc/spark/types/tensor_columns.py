"""Tensor columns: ``arrow.fixed_shape_tensor`` and ``arrow.variable_shape_tensor`` of CanonicalExtensions.rst.

`tensor_of` reads a field's metadata and compares them with the storage. A tensor has a *physical* shape, in which its
values are stored by rows, and a *logical* one, into which a permutation turns it. Spark sees the logical one: a struct
of a shape and of the values by rows of that shape, so that ``reshape`` is right for every file. The metadata of the Spark
field describe the logical tensor, which has no permutation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final, NoReturn

from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.errors import InvalidMetadataError
from spark_arrow_ipc.ipc.constants import MOST_DIMENSIONS
from spark_arrow_ipc.spark.types.extension_columns import EXTENSION_METADATA, EXTENSION_NAME

FIXED: Final = "arrow.fixed_shape_tensor"
VARIABLE: Final = "arrow.variable_shape_tensor"
NAMES: Final = (FIXED, VARIABLE)
"""The names of the extension types."""

SHAPE: Final = "shape"
DATA: Final = "data"
"""The fields of the Spark struct, and of the storage of a tensor of variable shape."""

_SPEC: Final = "CanonicalExtensions.rst"
_MOST_TEXT: Final = 1 << 16
"""Characters of an extension's metadata that are read."""


@dataclass(frozen=True, slots=True)
class TensorColumn:
    """The shapes of a tensor column, by its metadata."""

    shape: tuple[int | None, ...]  # physical size of each dimension; None where it differs from row to row
    permutation: tuple[int, ...] | None = None  # physical dimension of each logical one; None where they are the same
    dim_names: tuple[str, ...] | None = None  # of the physical dimensions; None without names

    @property
    def is_fixed(self) -> bool:
        """True if every row has the same shape."""
        return None not in self.shape

    @property
    def size(self) -> int:
        """The values of a row of a fixed shape."""
        return prod(size or 0 for size in self.shape)

    @property
    def logical_shape(self) -> tuple[int | None, ...]:
        """The shape that the permutation makes."""
        return self.shape if self.permutation is None else tuple(self.shape[d] for d in self.permutation)

    def logical(self) -> TensorColumn:
        """Return the same tensors with their values in the logical order."""
        names = self.dim_names
        if self.permutation is not None and names is not None:
            names = tuple(names[d] for d in self.permutation)
        return TensorColumn(self.logical_shape, None, names)

    def pairs(self, name: str) -> dict[str, str]:
        """Return the custom metadata of a field of this extension."""
        values: dict[str, Any] = {}
        if name == FIXED:
            values["shape"] = list(self.shape)
        elif any(size is not None for size in self.shape):
            values["uniform_shape"] = list(self.shape)
        if self.dim_names is not None:
            values["dim_names"] = list(self.dim_names)
        if self.permutation is not None:
            values["permutation"] = list(self.permutation)
        return {EXTENSION_NAME: name, EXTENSION_METADATA: json.dumps(values, separators=(",", ":"))}

    def text(self) -> str:
        """Return the shape as in the option `tensorColumns`: ``2x?x3``."""
        return "x".join("?" if size is None else str(size) for size in self.shape)


def tensor_of(field: t.Field, path: str) -> TensorColumn | None:
    """Return the tensors that the metadata of a field describe; None if it has none."""
    name = field.extension_name
    if name not in NAMES or isinstance(field.type, t.Dictionary | t.RunEndEncoded):
        return None
    dimensions = None if name == FIXED else _dimensions(field, path)
    tensor = parse_tensor(str(name), dict(field.custom_metadata).get(EXTENSION_METADATA, ""), dimensions, path)
    if name == FIXED:
        expected = f"a fixed-size list of {tensor.size:,} elements, for the shape {list(tensor.shape)}"
        if not isinstance(field.type, t.FixedSizeList) or field.type.list_size != tensor.size:
            _invalid(path, expected, str(field.type))
    return tensor


def _dimensions(field: t.Field, path: str) -> int:
    """Return the number of dimensions of a tensor of variable shape, by its storage."""
    children = {child.name: child.type for child in field.type.children} if isinstance(field.type, t.Struct) else {}
    shape = children.get(SHAPE)
    is_sound = isinstance(children.get(DATA), _LISTS) and isinstance(shape, t.FixedSizeList)
    if not is_sound or len(children) != 2 or shape is None or shape.children[0].type != t.int32:
        _invalid(path, "a struct of data, a list, and shape, a fixed-size list of int32", str(field.type))
    assert isinstance(shape, t.FixedSizeList)
    return shape.list_size


_LISTS: Final = (t.List, t.LargeList)


def parse_tensor(name: str, text: str, dimensions: int | None, path: str) -> TensorColumn:
    """Parse the metadata of an extension; `dimensions` of the storage are None for a fixed shape."""
    try:
        values = parse_json(text) if text and len(text) <= _MOST_TEXT else None if text else {}
    except ValueError:
        values = None
    if not isinstance(values, dict):
        _invalid(path, f"metadata of {name} that are a JSON object", _cut(text))
    key = "shape" if name == FIXED else "uniform_shape"
    shape = values.get(key)
    if shape is None and name == VARIABLE and dimensions is not None:
        shape = [None] * dimensions
    # `type` instead of isinstance, because JSON's true and false are not sizes.
    size_types = (int,) if name == FIXED else (int, type(None))
    if not isinstance(shape, list) or not all(type(n) in size_types and (n is None or 0 <= n < 1 << 31) for n in shape):
        _invalid(path, f"{key}, a list of sizes", _cut(text))
    if len(shape) > MOST_DIMENSIONS or dimensions not in {None, len(shape)}:
        _invalid(path, f"{key} of {dimensions or f'at most {MOST_DIMENSIONS}'} dimensions", f"{len(shape)}")
    return TensorColumn(tuple(shape), _permutation(values, len(shape), path), _dim_names(values, len(shape), path))


def _permutation(values: Mapping[str, Any], dimensions: int, path: str) -> tuple[int, ...] | None:
    axes = values.get("permutation")
    if axes is None:
        return None
    usual = list(range(dimensions))
    if not isinstance(axes, list) or not all(type(d) is int for d in axes) or sorted(axes) != usual:
        _invalid(path, f"a permutation with each of the dimensions 0 to {dimensions - 1} once", _cut(str(axes)))
    return None if axes == usual else tuple(axes)  # the identity needs no reordering


def _dim_names(values: Mapping[str, Any], dimensions: int, path: str) -> tuple[str, ...] | None:
    names = values.get("dim_names")
    if names is None:
        return None
    if not isinstance(names, list) or len(names) != dimensions or not all(isinstance(name, str) for name in names):
        _invalid(path, f"dim_names, a list of {dimensions} strings", _cut(str(names)))
    return tuple(names)


def _cut(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:100]}..."


def _invalid(path: str, expected: str, actual: str) -> NoReturn:
    raise InvalidMetadataError(expected=expected, found=actual or "nothing", field_path=path, spec=_SPEC)


def spark_tensor(value: s.DataType) -> s.StructType:
    """Return the Spark type of tensors with these values."""
    return s.StructType([
        s.StructField(SHAPE, s.ArrayType(s.IntegerType())), s.StructField(DATA, s.ArrayType(value)),
    ])  # fmt: skip


def value_field(field: t.Field) -> t.Field:
    """Return the field of the values of a tensor column."""
    if isinstance(field.type, t.FixedSizeList):
        return field.type.value
    (data,) = (child for child in field.type.children if child.name == DATA)
    assert isinstance(data.type, _LISTS)
    return data.type.value


def logical_field(field: t.Field, tensor: TensorColumn) -> t.Field:
    """Return a field with the metadata of its logical tensors."""
    if tensor.permutation is None:
        return field
    pairs = tensor.logical().pairs(str(field.extension_name))
    return replace(field, custom_metadata=tuple((key, pairs.get(key, value)) for key, value in field.custom_metadata))
