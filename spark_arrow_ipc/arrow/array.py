"""`Array`, the class for arrays of all types, with values for Python and numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import ArrayData, Doubt, NDArray
from spark_arrow_ipc.arrow.python_values import to_pylist
from spark_arrow_ipc.arrow.validate import arrays as validate
from spark_arrow_ipc.errors import InvalidBodyError


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Array(ArrayData):
    """Slots of one type, with the fields of `ArrayData`, and with values as Python and numpy objects."""

    @classmethod
    def from_arrow(cls, source: Any) -> Array:
        """Return an array over the memory of another library, such as ``pyarrow.array([1, 2])``. O(buffers), no copy.

        Its sizes are checked, its values are not (`validate.arrays.check` does that).

        Parameters
        ----------
        source
            An object with ``__arrow_c_array__`` (the Arrow PyCapsule interface).

        Raises
        ------
        TypeError
            It has no such method.
        ArrowIpcError
            It gives something that is not an array of the format.
        """
        from spark_arrow_ipc.arrow import c_data  # programs that share nothing need no pyarrow

        _, array = c_data.import_array(source, cls)
        validate.check_sizes(array, "")
        return array

    def __arrow_c_schema__(self) -> object:
        """Return the type as a capsule."""
        from spark_arrow_ipc.arrow import c_data

        capsule: object = c_data.export_type(self.type).__arrow_c_schema__()
        return capsule

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return capsules of the type and of the array, which share its memory. O(buffers).

        A requested schema is ignored: "conversion to this schema is best-effort".
        """
        from spark_arrow_ipc.arrow import c_data

        capsules: tuple[object, object] = c_data.export_array(self).__arrow_c_array__()
        return capsules

    def __arrow_c_device_array__(
        self, requested_schema: object | None = None, **others: object
    ) -> tuple[object, object]:
        """Return the capsules of `__arrow_c_array__`, for consumers that ask for the device of the memory: the CPU."""
        from spark_arrow_ipc.arrow import c_data

        capsules: tuple[object, object] = c_data.export_array(self).__arrow_c_device_array__(**others)
        return capsules

    def to_pylist(self) -> list[Any]:
        """Return the slots as Python values, like pyarrow's ``to_pylist``. Takes Python time for each slot."""
        return to_pylist.to_pylist(self)

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """Return the slots as a numpy array: a view if possible, otherwise Python objects."""
        return to_numpy(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DoubtfulValues(Array):
    """Values of a dictionary, some unsound, that are checked where rows use them."""

    doubt: Doubt | None = None

    @classmethod
    def of(cls, values: Array, error: InvalidBodyError) -> DoubtfulValues:
        """Return the values of a dictionary with the error that rows raise which use an unsound one."""
        parts = {field.name: getattr(values, field.name) for field in fields(values)}
        return cls(**parts | {"doubt": Doubt(error)})


def _same(values: NDArray, _: Any) -> NDArray:
    return values


def _timedeltas(values: NDArray, type_: t.Time | t.Duration) -> NDArray:
    return values.astype(np.int64, copy=False).view(f"m8[{type_.unit.abbreviation}]")


NUMPY: Mapping[type[t.DataType], Callable[[NDArray, Any], NDArray]] = {
    t.Bool: _same,
    t.Int: _same,
    t.FloatingPoint: _same,
    # numpy has no days of 32 bits.
    t.Date: lambda values, type_: values.astype("M8[D]") if type_.unit is t.DateUnit.DAY else values.view("M8[ms]"),
    t.Time: _timedeltas,
    t.Timestamp: lambda values, type_: values.view(f"M8[{type_.unit.abbreviation}]"),
    t.Duration: _timedeltas,
    t.IntervalYearMonth: _same,
}
"""From the slots of the DATA buffer to a numpy type, for the types that have one."""


def to_numpy(array: ArrayData) -> NDArray:
    """Return the slots as one numpy array, shape ``(length,)``.

    Without nulls, a read-only view of the buffer for integers, floating point, year-month intervals (months),
    ``date64`` (datetime64[ms]), timestamps (datetime64, UTC where the type has a zone), durations and 64-bit times
    (timedelta64); a copy for booleans, ``date32`` (datetime64[D]) and 32-bit times. The smallest int64 is NaT in
    numpy. With nulls, and for all other types, a copy with the Python objects of `to_pylist`.
    """
    convert = NUMPY.get(type(array.type))
    if convert is None or array.count_nulls():
        return np.fromiter(to_pylist.to_pylist(array), object, array.length)
    return convert(array_data.data_values(array), array.type)
