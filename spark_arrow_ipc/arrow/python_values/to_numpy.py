"""Convert arrays to numpy arrays, of Python objects if numpy has no such type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from spark_arrow_ipc.arrow import numpy_views
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import ArrayData
from spark_arrow_ipc.arrow.numpy_views import NDArray
from spark_arrow_ipc.arrow.python_values.to_pylist import to_pylist


def _same(values: NDArray, _: Any) -> NDArray:
    return values


def _datetimes(values: NDArray, type_: t.Timestamp) -> NDArray:
    return values.view(f"M8[{type_.unit.abbreviation}]")


def _dates(values: NDArray, type_: t.Date) -> NDArray:
    return values.astype("M8[D]") if type_.unit is t.DateUnit.DAY else values.view("M8[ms]")


def _timedeltas(values: NDArray, type_: t.Time | t.Duration) -> NDArray:
    return values.astype(np.int64, copy=False).view(f"m8[{type_.unit.abbreviation}]")


NUMPY: Mapping[type[t.DataType], Callable[[NDArray, Any], NDArray]] = {
    t.Bool: _same,
    t.Int: _same,
    t.FloatingPoint: _same,
    t.Date: _dates,
    t.Time: _timedeltas,
    t.Timestamp: _datetimes,
    t.Duration: _timedeltas,
    t.IntervalYearMonth: _same,
}
"""From the slots of the DATA buffer to a numpy type, for the types that have one."""


def to_numpy(array: ArrayData) -> NDArray:
    """Return the slots as one numpy array, shape ``(length,)``.

    Without nulls, a read-only view of the buffer for integers, floating point, year-month intervals (months),
    ``date64`` (datetime64[ms]), timestamps (datetime64, UTC where the type has a zone), durations and 64-bit times
    (timedelta64); a copy for booleans, ``date32`` (datetime64[D]) and 32-bit times. The smallest int64 is NaT in
    numpy. With nulls, and for all other types, a copy of Python objects as `to_pylist` gives them.
    """
    convert = NUMPY.get(type(array.type))
    if convert is None or array.count_nulls():
        return np.fromiter(to_pylist(array), object, array.length)
    return convert(numpy_views.data_values(array), array.type)
