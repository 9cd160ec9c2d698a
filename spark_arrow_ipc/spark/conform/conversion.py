"""`Conversion`: from arrays of one field to the pyarrow arrays of Spark.

Strategy
--------
Conversions are compiled once a file schema and called once a batch. Each looks only at whole buffers.

Slots that are not visible (null ones, and all below a null struct or outside a list) may hold any value. A check
(overflow, a decimal's digits, NOT NULL) must ignore them, so a conversion that `checks` gets the *live* slots: those
whose parents are valid. Whether a live slot is itself null, its own validity bitmap says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import bitmap, numpy_views
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.measure import measure
from spark_arrow_ipc.errors import LimitError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.conform.bounds import slot_prices
from spark_arrow_ipc.spark.options.options import ReadOptions

Mask: TypeAlias = npt.NDArray[np.bool_] | None
"""One boolean a slot; None stands for all true."""

Numbers: TypeAlias = npt.NDArray[Any]

_MAX_OFFSET = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Conversion:
    """The conversion of one Arrow field's arrays to pyarrow arrays.

    Parameters
    ----------
    convert
        Takes an array and the mask of its live slots; returns as many slots of the expected type.
    checks
        Whether `convert` uses `live`; if not, parents need not compute it.
    """

    convert: Callable[[Array, Mask], pa.Array]
    checks: bool = False


ABSENT_FIELD: Final = t.Field("", t.null)
"""Stands for a column or struct field that a file lacks and others have, with ``mergeSchema``."""


def nulls(length: int) -> Array:
    """Return the array of `ABSENT_FIELD`."""
    return Array(t.null, length, length, ())


class DictionaryBudget:
    """The bytes of all converted dictionaries of one file, which stay in memory from batch to batch.

    Parameters
    ----------
    nbytes
        The most that they may take together.
    """

    def __init__(self, nbytes: int) -> None:
        self._nbytes = nbytes
        self._held: dict[int, int] = {}

    def hold(self, owner: object, values: Array, path: str) -> None:
        """Count the values that `owner` is about to convert, in place of those that it held.

        Raises
        ------
        LimitError
            With them, the budget is exceeded.
        """
        price = slot_prices([values.type])[0]
        whole = measure(values, decoded=True, slot_nbytes=price)(np.array([0]), np.array([values.length]))
        self._held[id(owner)] = int(whole[0])
        total = sum(self._held.values())
        if total > self._nbytes:
            raise LimitError(
                f"the decoded dictionaries of the file take {total:,} bytes, the budget is {self._nbytes:,}; "
                "raise the option maxBatchBytes where this file is trusted",
                field_path=path,
            )


class Compile(Protocol):
    """Compiles the conversion of a child."""

    def __call__(self, field: t.Field, target: s.DataType, path: str, *, nullable: bool) -> Conversion:
        """Return the conversion of `field` to the Spark type `target`."""


@dataclass(frozen=True, slots=True)
class Site:
    """The place and the options for which a conversion is compiled.

    Parameters
    ----------
    path
        Path of the field, for errors.
    options
        The options of the read.
    compile
        Compiles a child.
    dictionaries
        The budget of all converted dictionaries.
    """

    path: str
    options: ReadOptions
    compile: Compile
    dictionaries: DictionaryBudget


def data(array: Array, dtype: npt.DTypeLike) -> Numbers:
    """Return the DATA buffer's slots as numbers: a view, shape ``(length,)``."""
    return fixed(array, 1, dtype, array.length)


def fixed(array: Array, buffer_number: int, dtype: npt.DTypeLike, count: int) -> Numbers:
    """Return `count` elements of one buffer from the array's offset on: a view."""
    return numpy_views.typed(array.buffers[buffer_number], dtype, array.offset, count)


def offsets(array: Array, dtype: npt.DTypeLike) -> Numbers:
    """Return the ``length + 1`` value offsets: a view, or one zero if there are no slots."""
    return fixed(array, 1, dtype, array.length + 1) if array.length else np.zeros(1, dtype)


def validity(array: Array) -> pa.Buffer | None:
    """Return the validity bitmap from slot 0 on.

    It is shared if the array's offset is a multiple of 8, else copied.
    """
    bits = array.validity
    if bits is None or array.null_count == 0:
        return None
    return pa.py_buffer(bitmap.slice_bits(bits, array.offset, array.length) if array.offset else bits)


def valid(array: Array) -> Mask:
    """Return the mask of the slots that are not null, by the validity bitmap."""
    if array.validity is None or array.count_nulls() == 0:
        return None
    return numpy_views.validity_mask(array)


def both(one: Mask, other: Mask) -> Mask:
    """Return the mask of the slots where both masks are true."""
    return other if one is None else one if other is None else one & other


def seen(array: Array, live: Mask) -> Mask:
    """Return the mask of the slots that hold a visible value."""
    return both(valid(array), live)


def shared(type_: pa.DataType, array: Array) -> pa.Array:
    """Return the array with the type that Spark expects, without copying."""
    return pa.Array.from_buffers(type_, array.length, bridge.buffers_of(array), array.null_count, array.offset)


def rebuilt(type_: pa.DataType, array: Array, *buffers: Any) -> pa.Array:
    """Return an array of the validity of `array` and of new buffers, from slot 0 on."""
    made = [validity(array), *(pa.py_buffer(buffer) for buffer in buffers)]
    return pa.Array.from_buffers(type_, array.length, made, array.null_count)


def narrowed(values: Numbers, path: str) -> npt.NDArray[np.int32]:
    """Return value offsets that begin at 0 as the 32-bit ones of Spark.

    Raises
    ------
    LimitError
        They exceed 32 bits. Batches are cut before they are converted, so a single row is too large.
    """
    if values[-1] > _MAX_OFFSET:
        raise LimitError(
            f"a row has {int(values[-1]):,} bytes or elements, and Spark's value offsets end at {_MAX_OFFSET:,}",
            field_path=path,
        )
    return values.astype(np.int32)


def first_seen(bad: npt.NDArray[np.bool_], array: Array, live: Mask) -> int | None:
    """Return the first visible slot that is bad, or None."""
    if not bad.any():
        return None
    mask = seen(array, live)
    if mask is not None:
        bad = bad & mask
    return int(bad.argmax()) if bad.any() else None


def share(type_: pa.DataType) -> Conversion:
    """Return the conversion of a type whose layout is the one that Spark expects. O(1)."""
    return Conversion(lambda array, _live: shared(type_, array))
