"""Make pyarrow arrays and scalars of Python values and of numpy arrays, without pandas.

`pyarrow.array` and `pyarrow.scalar` ask whether a value is pandas's, and for that import pandas where it is installed, as
kernels do that are given a Python value: 0.4 seconds of CPU and 35 MB in each new worker of Spark, and in each process that
plans. So Python values go through our own builders, and numpy arrays are buffers already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_arrow_ipc.arrow import bitmap
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.spark import bridge


def array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Return an array of Python values, those that `from_pylist.array` takes. Costs Python time a value."""
    return bridge.to_pyarrow(from_pylist.array(values, bridge.type_from_pyarrow(type_)))


def scalar(value: object, type_: pa.DataType) -> pa.Scalar:
    """Return one Python value as a scalar."""
    return array([value], type_)[0]


def numbers(values: npt.NDArray[Any], nulls: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return a numpy array of numbers or booleans, of one dimension, as an array of the same type.

    Shares its memory if it is contiguous and not of booleans.
    """
    type_ = pa.from_numpy_dtype(values.dtype)
    buffer = pa.py_buffer(bitmap.pack(values) if values.dtype == np.bool_ else np.ascontiguousarray(values))
    validity = None if nulls is None else pa.py_buffer(bitmap.pack(~nulls))
    return pa.Array.from_buffers(type_, len(values), [validity, buffer])
