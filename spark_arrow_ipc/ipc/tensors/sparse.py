"""Sparse tensors: the cells that are not zero, by one of the four kinds of index of SparseTensor.fbs.

The constructor checks every index, of a file or a caller, in a few passes of numpy: coordinates are inside the shape,
offsets begin at 0, never fall, and end at the end of the next level. So no computation with a tensor can leave its
arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Self

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import InvalidBodyError
from spark_arrow_ipc.ipc.constants import DEFAULT_LIMITS, Limits
from spark_arrow_ipc.ipc.messages.tensor import ValueType
from spark_arrow_ipc.ipc.tensors.dense import (
    NDArray,
    ascends,
    broken,
    check_inside,
    check_offsets,
    check_width,
    full_dim_names,
    index_array,
    integer_type,
    narrow_integers,
    read_only_values,
    shape_text,
    value_type,
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class SparseTensor:
    """Base class of the sparse tensors.

    Parameters
    ----------
    shape
        The size of each dimension.
    values
        The cells of the index, of shape (cells,), of which the tensor has a read-only view.
    dim_names
        One for each dimension, "" for one without a name; or an empty tuple.
    custom_metadata
        Pairs of the message.

    Raises
    ------
    InvalidBodyError
        The index contradicts the shape, the values or itself; a ValueError.
    UnsupportedError
        The index is of uint64.
    TypeError
        Tensors cannot have values of this dtype.
    """

    kind: ClassVar[str]
    """The format's name of the kind of index."""

    shape: tuple[int, ...]
    values: NDArray
    dim_names: tuple[str, ...] = ()
    custom_metadata: t.CustomMetadata = ()

    def __post_init__(self) -> None:
        self._set("values", read_only_values(self.values))
        self._set("shape", tuple(map(int, self.shape)))
        self._set("dim_names", full_dim_names(self.dim_names, len(self.shape)))
        if self.values.ndim != 1 or min(self.shape, default=0) < 0:
            raise InvalidBodyError(
                expected="one value for each cell, and sizes of at least 0",
                found=f"values of shape {self.values.shape} for a tensor of shape {self.shape}",
            )

    def __repr__(self) -> str:
        shape = shape_text(self.shape, self.dim_names)
        return f"<{type(self).__name__} of {self.type}, {shape}, {self.non_zero_length} values>"

    @property
    def type(self) -> ValueType:
        """The Arrow type of the cells."""
        return value_type(self.values.dtype)

    @property
    def index_type(self) -> t.Int:
        """The Arrow type of the values of the index."""
        raise NotImplementedError

    @property
    def non_zero_length(self) -> int:
        """The number of cells in the index."""
        return len(self.values)

    @classmethod
    def from_dense_numpy(cls, array: NDArray, *, dim_names: Sequence[str] = (), index_type: t.Int = t.int64) -> Self:
        """Return a tensor of the cells of an array that are not zero, in O(cells).

        Raises
        ------
        InvalidBodyError
            The index type cannot count the cells, or the kind of tensor has another number of dimensions.
        TypeError
            Tensors cannot have values of this dtype.
        """
        dense = read_only_values(array)
        return cls._from_coordinates(dense, np.argwhere(dense), dim_names=tuple(dim_names), index_type=index_type)

    @classmethod
    def _from_coordinates(
        cls, dense: NDArray, coordinates: NDArray, *, dim_names: tuple[str, ...], index_type: t.Int
    ) -> Self:
        raise NotImplementedError

    def coordinates(self, *, limits: Limits = DEFAULT_LIMITS) -> NDArray:
        """Return the coordinates of each value: int64 of shape (values, dimensions), in the order of the values.

        Raises
        ------
        LimitError
            They need more than `max_batch_bytes`.
        """
        limits.check("max_batch_bytes", 8 * self.non_zero_length * len(self.shape), "the coordinates of a tensor")
        return self._coordinates()

    def _coordinates(self) -> NDArray:
        raise NotImplementedError

    def to_dense_numpy(self, *, limits: Limits = DEFAULT_LIMITS) -> NDArray:
        """Return all cells as a new array, with zeros for cells that are not in the index, in O(cells).

        Raises
        ------
        LimitError
            The shape has more than `max_slots` cells, or they need more than `max_batch_bytes`.
        ValueError
            A cell is in the index twice, which the format does not define.
        """
        cells = prod(self.shape)
        # With a dimension of 0 the tensor has no cells, but numpy multiplies the others nevertheless.
        limits.check("max_slots", prod(max(size, 1) for size in self.shape), "the dense tensor")
        limits.check("max_batch_bytes", cells * self.values.itemsize, "the dense tensor")
        coordinates = self.coordinates(limits=limits)
        dense = np.zeros(self.shape, self.values.dtype)
        places = tuple(coordinates.T)
        named = np.zeros(self.shape, np.bool_)
        named[places] = True
        if np.count_nonzero(named) != self.non_zero_length:
            twice = self.non_zero_length - np.count_nonzero(named)
            raise ValueError(
                f"{twice:,} cells are named again by the index, and the format does not say what that means; "
                "sum or choose with coordinates() and values"
            )
        dense[places] = self.values
        return dense

    def to_scipy(self) -> Any:
        """Return a ``scipy.sparse`` array: csr_array, csc_array, or coo_array for the other kinds.

        Its values share the memory of this tensor if scipy allows it. scipy adds up cells that are in the index twice.

        Raises
        ------
        ModuleNotFoundError
            scipy is not installed.
        ValueError
            scipy has no sparse arrays of this type or number of dimensions.
        """
        sparse = _scipy_sparse()
        if self.type == t.float16:
            raise ValueError("scipy has no sparse arrays of float16; take coordinates() and values.astype('f4')")
        return self._to_scipy(sparse)

    def _to_scipy(self, sparse: Any) -> Any:
        return sparse.coo_array((self.values, tuple(self.coordinates().T)), shape=self.shape)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class CooTensor(SparseTensor):
    """A sparse tensor in coordinates (COO).

    Parameters
    ----------
    indices
        Integers of shape (values, dimensions): the coordinates of each value.
    is_canonical
        True for coordinates that are sorted, the first dimension first, and occur once; verified.
    """

    kind: ClassVar[str] = "COO"

    indices: NDArray
    is_canonical: bool = False

    def __post_init__(self) -> None:
        super(CooTensor, self).__post_init__()
        self._set("indices", index_array("indices", self.indices, 2))
        count, dimensions = self.non_zero_length, len(self.shape)
        if self.indices.shape != (count, dimensions):
            broken("indices", f"indices of shape {(count, dimensions)}", f"{self.indices.shape}")
        # Arrow C++ counts with the type of the index.
        check_width("indices", self.indices, count, dimensions)
        check_inside("indices", self.indices, self.shape)
        if self.is_canonical and not ascends(self.indices):
            broken("indices", "sorted coordinates that occur once, as isCanonical says", "others")

    @classmethod
    def _from_coordinates(
        cls, dense: NDArray, coordinates: NDArray, *, dim_names: tuple[str, ...], index_type: t.Int
    ) -> Self:
        return cls(
            shape=dense.shape,
            values=dense[tuple(coordinates.T)].reshape(-1),
            dim_names=dim_names,
            indices=narrow_integers(coordinates, index_type),
            is_canonical=True,
        )

    @property
    def index_type(self) -> t.Int:
        """The Arrow type of the values of the index."""
        return integer_type(self.indices)

    def _coordinates(self) -> NDArray:
        return self.indices.astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class _CompressedMatrix(SparseTensor):
    """A sparse matrix by compressed rows or columns."""

    axis: ClassVar[int]
    """The compressed dimension."""

    indptr: NDArray
    indices: NDArray

    def __post_init__(self) -> None:
        super(_CompressedMatrix, self).__post_init__()
        if len(self.shape) != 2:
            broken("shape", "2 dimensions, of a matrix", f"{len(self.shape)}")
        self._set("indptr", index_array("indptr", self.indptr, 1))
        self._set("indices", index_array("indices", self.indices, 1))
        count = self.non_zero_length
        if len(self.indices) != count:
            broken("indices", f"{count:,}, one for each value", f"{len(self.indices):,}")
        check_width("indptr", self.indptr, len(self.indptr), count)
        check_width("indices", self.indices, len(self.indptr), count)
        check_offsets("indptr", self.indptr, self.shape[self.axis], count)
        check_inside("indices", self.indices[:, None], (self.shape[1 - self.axis],))

    @classmethod
    def _from_coordinates(
        cls, dense: NDArray, coordinates: NDArray, *, dim_names: tuple[str, ...], index_type: t.Int
    ) -> Self:
        if dense.ndim != 2:
            broken("shape", "2 dimensions, of a matrix", f"{dense.ndim}")
        # Stable, so that cells of one row stay in order.
        ordered = coordinates[np.argsort(coordinates[:, cls.axis], kind="stable")]
        counts = np.bincount(ordered[:, cls.axis], minlength=dense.shape[cls.axis])
        return cls(
            shape=dense.shape,
            values=dense[tuple(ordered.T)],
            dim_names=dim_names,
            indptr=narrow_integers(np.concatenate([[0], np.cumsum(counts)]), index_type),
            indices=narrow_integers(ordered[:, 1 - cls.axis], index_type),
        )

    @property
    def index_type(self) -> t.Int:
        """The Arrow type of the values of the index."""
        return integer_type(self.indices)

    def _coordinates(self) -> NDArray:
        coordinates = np.empty((self.non_zero_length, 2), np.int64)
        offsets = self.indptr.astype(np.int64)
        lengths = offsets[1:] - offsets[:-1]
        coordinates[:, self.axis] = np.repeat(np.arange(len(lengths)), lengths)
        coordinates[:, 1 - self.axis] = self.indices
        return coordinates

    def _to_scipy(self, sparse: Any) -> Any:
        make = (sparse.csr_array, sparse.csc_array)[self.axis]
        return make((self.values, self.indices, self.indptr), shape=self.shape)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class CsrMatrix(_CompressedMatrix):
    """A sparse matrix by compressed rows (CSR).

    Parameters
    ----------
    indptr
        Integers, shape (rows + 1,): row ``i`` has the values ``indptr[i]`` up to ``indptr[i + 1]``.
    indices
        Integers, shape (values,): the column of each value.
    """

    kind: ClassVar[str] = "CSR"
    axis: ClassVar[int] = 0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class CscMatrix(_CompressedMatrix):
    """A sparse matrix by compressed columns (CSC).

    Parameters
    ----------
    indptr
        Integers, shape (columns + 1,): column ``i`` has the values ``indptr[i]`` up to ``indptr[i + 1]``.
    indices
        Integers, shape (values,): the row of each value.
    """

    kind: ClassVar[str] = "CSC"
    axis: ClassVar[int] = 1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class CsfTensor(SparseTensor):
    """A sparse tensor as a tree (CSF): a level for each dimension, whose nodes are the coordinates that occur there.

    Parameters
    ----------
    axis_order
        The dimension of each level, the root's first.
    indices
        For each level the coordinates of its nodes, integers of shape (nodes,). The last level has a node for each
        value.
    indptr
        For each level but the last, integers of shape (nodes + 1,): the children of node ``i`` are the nodes
        ``indptr[i]`` up to ``indptr[i + 1]`` of the next level.
    """

    kind: ClassVar[str] = "CSF"

    axis_order: tuple[int, ...]
    indices: tuple[NDArray, ...]
    indptr: tuple[NDArray, ...]

    def __post_init__(self) -> None:
        super(CsfTensor, self).__post_init__()
        levels = len(self.shape)
        self._set("axis_order", tuple(map(int, self.axis_order)))
        if levels < 2 or (len(self.indices), len(self.indptr)) != (levels, levels - 1):
            broken(
                "indices",
                "at least 2 dimensions, indices for each, and indptr for each but one",
                f"{levels} dimensions, {len(self.indices)} indices, {len(self.indptr)} indptr",
            )
        if sorted(self.axis_order) != list(range(levels)):
            broken("axis_order", f"each of the dimensions 0 to {levels - 1} once", f"{list(self.axis_order)}")
        for name in ("indices", "indptr"):
            self._set(name, tuple(index_array(f"{name}[{i}]", a, 1) for i, a in enumerate(getattr(self, name))))
        if len(self.indices[-1]) != self.non_zero_length:
            broken(f"indices[{levels - 1}]", f"{self.non_zero_length:,}, one a value", f"{len(self.indices[-1]):,}")
        for level, (axis, indices) in enumerate(zip(self.axis_order, self.indices, strict=True)):
            check_width(f"indices[{level}]", indices, *map(len, self.indices))
            check_inside(f"indices[{level}]", indices[:, None], (self.shape[axis],))
        for level, indptr in enumerate(self.indptr):
            check_width(f"indptr[{level}]", indptr, *map(len, self.indices))
            check_offsets(f"indptr[{level}]", indptr, len(self.indices[level]), len(self.indices[level + 1]))

    @classmethod
    def _from_coordinates(
        cls, dense: NDArray, coordinates: NDArray, *, dim_names: tuple[str, ...], index_type: t.Int
    ) -> Self:
        # As in Arrow C++: the smallest dimension at the root, which has few nodes.
        axis_order = tuple(np.argsort(dense.shape, kind="stable").tolist())
        ordered = coordinates[:, axis_order]
        by_level = np.lexsort(ordered.T[::-1]) if ordered.size else np.zeros(0, np.int64)
        ordered = ordered[by_level]
        begins = np.ones(ordered.shape, np.bool_)
        begins[1:] = np.logical_or.accumulate(ordered[1:] != ordered[:-1], axis=1)
        indices = [ordered[begins[:, level], level] for level in range(dense.ndim)]
        indptr = []
        for level in range(dense.ndim - 1):
            node_below = np.cumsum(begins[:, level + 1]) - 1
            indptr.append(np.append(node_below[begins[:, level]], len(indices[level + 1])))
        return cls(
            shape=dense.shape,
            values=dense[tuple(coordinates[by_level].T)].reshape(-1),
            dim_names=dim_names,
            axis_order=axis_order,
            indices=tuple(narrow_integers(a, index_type) for a in indices),
            indptr=tuple(narrow_integers(a, index_type) for a in indptr),
        )

    @property
    def index_type(self) -> t.Int:
        """The Arrow type of the values of the index."""
        return integer_type(self.indices[0])

    def _coordinates(self) -> NDArray:
        coordinates = np.empty((self.non_zero_length, len(self.shape)), np.int64)
        leaves = np.ones(self.non_zero_length, np.int64)
        for level in range(len(self.shape) - 1, -1, -1):
            coordinates[:, self.axis_order[level]] = np.repeat(self.indices[level], leaves)
            if level:
                until = np.concatenate([[0], np.cumsum(leaves)])
                leaves = until[self.indptr[level - 1]]
                leaves = leaves[1:] - leaves[:-1]
        return coordinates


def _scipy_sparse() -> Any:
    try:
        from scipy import sparse
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "to_scipy needs scipy (pip install scipy); without it, use coordinates() and values"
        ) from error
    return sparse
