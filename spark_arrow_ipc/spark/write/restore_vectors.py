"""Convert binary values to lists of numbers, for ``vectors=binary``; the reverse of ``conform/vectors.py``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import numpy_views
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.kernels.compact import as_buffer, compact
from spark_arrow_ipc.errors import SchemaMismatchError
from spark_arrow_ipc.spark.types.noted_types import vector_element


def restored_vector(array: Array, type_: Any) -> Array:
    """Return binary values as lists of the numbers that their bytes are.

    Shares the bytes, unless null rows of a fixed-size list need room.
    """
    element = vector_element(type_)
    assert element is not None
    width = numpy_views.dtype_of(element).itemsize
    array = compact(array)
    own = numpy_views.value_offsets(array).astype(np.int64)
    present = numpy_views.validity_mask(array)
    nbytes = np.diff(own)
    fixed = isinstance(type_, t.FixedSizeList)
    wrong = nbytes != type_.list_size * width if fixed else nbytes % width != 0
    if present is not None:
        wrong &= present
    if wrong.any():
        row = int(wrong.argmax())
        wanted = (
            f"{type_.list_size * width:,} bytes, which {type_} has"
            if fixed
            else f"a multiple of {width} bytes, as {type_}"
        )
        raise SchemaMismatchError(expected=wanted, found=f"{int(nbytes[row]):,} in row {row:,} of a batch")
    data = numpy_views.value_bytes(array)[int(own[0]) : int(own[-1])]
    if present is not None and (nbytes[~present] != (type_.list_size * width if fixed else 0)).any():
        data, own = _only_present(data, own, present, type_.list_size * width if fixed else 0)
    numbers = Array(element, len(data) // width, 0, (None, as_buffer(data)))
    if fixed:
        return replace(array, type=type_, buffers=(array.buffers[0],), children=(numbers,))
    dtype = np.int64 if isinstance(type_, t.LargeList) else np.int32
    made = as_buffer(((own - own[0]) // width).astype(dtype))
    return replace(array, type=type_, buffers=(array.buffers[0], made), children=(numbers,))


def _only_present(
    data: npt.NDArray[np.uint8], own: npt.NDArray[np.int64], present: npt.NDArray[np.bool_], of_null: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the bytes of rows that are not null, with `of_null` zeros for each that is; and their offsets."""
    nbytes = np.diff(own)
    made_own = np.zeros(len(own), np.int64)
    np.cumsum(np.where(present, nbytes, of_null), out=made_own[1:])
    made = np.zeros(int(made_own[-1]), np.uint8)
    kept = np.repeat(present, nbytes)
    into = np.repeat(present, np.diff(made_own))
    made[into] = data[kept]
    return made, made_own
