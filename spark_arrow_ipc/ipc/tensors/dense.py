"""`Tensor`: a dense array of numbers with names for its dimensions, as a numpy array over the bytes of its message.

Checks of arrays, and of the indices of sparse tensors, are here too: a few passes of numpy each, and errors with the
first bad value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import dtype_of
from spark_arrow_ipc.errors import InvalidBodyError, printable
from spark_arrow_ipc.ipc.messages.tensor import ValueType, check_index_type, row_major_strides

NDArray = npt.NDArray[Any]

_FLOATS: Final[Mapping[int, t.FloatingPoint]] = {2: t.float16, 4: t.float32, 8: t.float64}


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A dense tensor.

    Parameters
    ----------
    values
        The cells, of integers or floating-point numbers, of which the tensor has a read-only view. Booleans become
        uint8.
    dim_names
        One for each dimension, "" for one without a name; or an empty tuple.
    custom_metadata
        Pairs of the message.

    Raises
    ------
    TypeError
        Tensors cannot have values of this dtype.
    ValueError
        The number of names differs from the number of dimensions.
    """

    values: NDArray
    dim_names: tuple[str, ...] = ()
    custom_metadata: t.CustomMetadata = ()

    def __post_init__(self) -> None:
        values = read_only_values(self.values)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "dim_names", full_dim_names(self.dim_names, values.ndim))

    def __repr__(self) -> str:
        return f"<Tensor of {self.type}, {shape_text(self.shape, self.dim_names)}>"

    @property
    def type(self) -> ValueType:
        """The Arrow type of the cells."""
        return value_type(self.values.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return self.values.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """The bytes from a cell to the next one along each dimension."""
        return self.values.strides

    def to_numpy(self) -> NDArray:
        """Return the cells as a read-only array of shape `shape`, without a copy."""
        return self.values


def value_type(dtype: np.dtype[Any]) -> ValueType:
    """Return the Arrow type of a dtype of integers or floating-point numbers."""
    if dtype.kind in "iu":
        return t.Int(8 * dtype.itemsize, dtype.kind == "i")
    if dtype.kind == "f" and dtype.itemsize in _FLOATS:
        return _FLOATS[dtype.itemsize]
    raise TypeError(f"expected values of an integer or floating-point type for a tensor, found {dtype}")


def little_endian(type_: t.DataType) -> np.dtype[Any]:
    """Return the dtype of values of a message, whose byte order is always little-endian."""
    return dtype_of(type_).newbyteorder("<")


def read_only_values(values: NDArray) -> NDArray:
    """Return a read-only view of an array, whose dtype is checked."""
    array = np.asarray(values)
    if array.dtype == np.bool_:
        array = array.view(np.uint8)
    value_type(array.dtype)
    return read_only(array)


def read_only(array: NDArray) -> NDArray:
    """Return a view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def full_dim_names(names: tuple[str, ...], dimensions: int) -> tuple[str, ...]:
    """Return one name for each dimension, by default "" for all."""
    if not names:
        return ("",) * dimensions
    if len(names) != dimensions:
        raise ValueError(f"expected {dimensions} names of dimensions, found {len(names)}: {list(names)!r}")
    return tuple(names)


def shape_text(shape: tuple[int, ...], dim_names: tuple[str, ...]) -> str:
    """Return a shape for people: ``[2 (row), 3 (column)]``."""
    parts = (f"{size} ({printable(name)})" if name else f"{size}" for size, name in zip(shape, dim_names, strict=True))
    return f"[{', '.join(parts)}]"


def view_with_strides(data: memoryview, type_: ValueType, shape: tuple[int, ...], strides: tuple[int, ...]) -> NDArray:
    """Return an array over bytes, which are enough for the shape and strides."""
    dtype = little_endian(type_)
    # The stride of a dimension of one cell has no meaning, and may be one that numpy refuses as it leads out of the bytes.
    usual = row_major_strides(shape, dtype.itemsize)
    fit = tuple(
        stride if (size > 1 and 0 not in shape) or 0 <= stride <= len(data) else usual[d]
        for d, (size, stride) in enumerate(zip(shape, strides, strict=True))
    )
    return np.ndarray(shape, dtype, data, strides=fit)


_SPEC: Final = "SparseTensor.fbs"


def broken(field: str, expected: str, actual: str) -> NoReturn:
    """Raise an `InvalidBodyError` about a part of an index."""
    raise InvalidBodyError(expected=expected, found=actual, field_path=field, spec=_SPEC)


def index_array(field: str, array: NDArray, dimensions: int) -> NDArray:
    """Return a read-only view of an index's array, which must be of integers."""
    array = np.asarray(array)
    if array.dtype.kind not in "iu" or array.ndim != dimensions:
        broken(field, f"integers in {dimensions} dimensions", f"{array.dtype} in {array.ndim}")
    check_index_type(integer_type(array), field)
    return read_only(array)


def integer_type(array: NDArray) -> t.Int:
    """Return the Arrow type of an array of integers."""
    return t.Int(8 * array.itemsize, array.dtype.kind == "i")


def narrow_integers(array: NDArray, type_: t.Int) -> NDArray:
    """Return an index in a type, which must hold its values."""
    check_index_type(type_, "index_type")
    most = np.iinfo(dtype_of(type_)).max
    if array.size and array.max() > most:
        broken("index_type", f"a type that holds {array.max():,}", f"{type_}")
    return array.astype(dtype_of(type_))


def check_width(field: str, array: NDArray, *sizes: int) -> None:
    """Refuse a type that cannot count the parts of the index, as Arrow C++ does."""
    most = np.iinfo(array.dtype).max
    if max(sizes) > most:
        broken(field, f"a type that holds {max(sizes):,}, the largest size of the index", f"{array.dtype}")


def check_inside(field: str, indices: NDArray, shape: tuple[int, ...]) -> None:
    """Refuse coordinates, of shape (values, dimensions), outside of a tensor's shape."""
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
    """Return True if each row is greater than the one before it, the first column first."""
    less = np.zeros(max(len(indices) - 1, 0), np.bool_)
    equal = ~less
    for column in indices.T:
        less |= equal & (column[:-1] < column[1:])
        equal &= column[:-1] == column[1:]
    return bool(less.all())
