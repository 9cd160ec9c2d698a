"""Checks of the indices of sparse tensors: a few passes of numpy each, and errors that name the first bad value."""

from __future__ import annotations

from typing import Final, NoReturn

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import dtype_of
from spark_arrow_ipc.errors import InvalidBodyError
from spark_arrow_ipc.ipc.messages.tensor import check_index_type
from spark_arrow_ipc.ipc.tensors.dense import NDArray, read_only

_SPEC: Final = "SparseTensor.fbs"


def broken(field: str, expected: str, found: str) -> NoReturn:
    """Raise an `InvalidBodyError` that names a part of an index."""
    raise InvalidBodyError(expected=expected, found=found, field_path=field, spec=_SPEC)


def index_array(field: str, array: NDArray, dimensions: int) -> NDArray:
    """Return a read-only view of an array of an index, which must be of integers."""
    array = np.asarray(array)
    if array.dtype.kind not in "iu" or array.ndim != dimensions:
        broken(field, f"integers in {dimensions} dimensions", f"{array.dtype} in {array.ndim}")
    check_index_type(integer_type(array), field)
    return read_only(array)


def integer_type(array: NDArray) -> t.Int:
    """Return the Arrow type of an array of integers."""
    return t.Int(8 * array.itemsize, array.dtype.kind == "i")


def narrowed(array: NDArray, type_: t.Int) -> NDArray:
    """Return an index in a type, whose values must fit."""
    check_index_type(type_, "index_type")
    most = np.iinfo(dtype_of(type_)).max
    if array.size and array.max() > most:
        broken("index_type", f"a type that holds {array.max():,}", f"{type_}")
    return array.astype(dtype_of(type_))


def check_width(field: str, array: NDArray, *sizes: int) -> None:
    """Refuse a type that could not count the parts of the index: Arrow C++ does not read such a tensor."""
    most = np.iinfo(array.dtype).max
    if max(sizes) > most:
        broken(field, f"a type that holds {max(sizes):,}, the largest size of the index", f"{array.dtype}")


def check_inside(field: str, indices: NDArray, shape: tuple[int, ...]) -> None:
    """Refuse coordinates, shape (values, dimensions), that are not inside a shape."""
    for d, size in enumerate(shape):
        column = indices[:, d]
        if len(column) and not (column.min() >= 0 and column.max() < size):
            at = int(np.flatnonzero((column < 0) | (column >= size))[0])
            broken(f"{field}[{at}]", f"a coordinate of at least 0 and less than {size:,}", f"{column[at]:,}")


def check_offsets(field: str, offsets: NDArray, parents: int, children: int) -> None:
    """Refuse offsets that do not divide the children between the parents."""
    if len(offsets) != parents + 1:
        broken(field, f"{parents + 1:,} offsets", f"{len(offsets):,}")
    if offsets[0] != 0 or offsets[-1] != children:
        broken(field, f"offsets from 0 to {children:,}", f"from {offsets[0]:,} to {offsets[-1]:,}")
    falls = np.flatnonzero(offsets[1:] < offsets[:-1])
    if len(falls):
        at = int(falls[0]) + 1
        broken(f"{field}[{at}]", f"an offset of at least {offsets[at - 1]:,}", f"{offsets[at]:,}")


def ascends(indices: NDArray) -> bool:
    """Return whether each row comes after the one before it, the first column first."""
    less = np.zeros(max(len(indices) - 1, 0), np.bool_)
    equal = ~less
    for column in indices.T:
        less |= equal & (column[:-1] < column[1:])
        equal &= column[:-1] == column[1:]
    return bool(less.all())
