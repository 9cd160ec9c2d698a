"""`Array`, the class for arrays of all types, with values for Python and numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_arrow_ipc.arrow.array_data import ArrayData
from spark_arrow_ipc.arrow.python_values import to_numpy, to_pylist
from spark_arrow_ipc.arrow.validate import arrays as validate

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Array(ArrayData):
    """Slots of one type, with their values as Python and numpy objects. The fields are those of `ArrayData`."""

    @classmethod
    def from_arrow(cls, source: Any) -> Array:
        """Return an array over the memory of another library's, such as ``pyarrow.array([1, 2])``. O(buffers), no copy.

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
            What it gives is no array of the format.
        """
        from spark_arrow_ipc.arrow import c_data  # programs that share nothing need no pyarrow

        _, array = c_data.take_array(source, cls)
        validate.check_sizes(array, "")
        return array

    def __arrow_c_schema__(self) -> object:
        """Return the type as a capsule."""
        from spark_arrow_ipc.arrow import c_data

        capsule: object = c_data.lend_type(self.type).__arrow_c_schema__()
        return capsule

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return capsules of the type and of the array, which lends its memory. O(buffers).

        A requested schema is not taken notice of: "conversion to this schema is best-effort".
        """
        from spark_arrow_ipc.arrow import c_data

        capsules: tuple[object, object] = c_data.lend_array(self).__arrow_c_array__()
        return capsules

    def __arrow_c_device_array__(
        self, requested_schema: object | None = None, **others: object
    ) -> tuple[object, object]:
        """Return what `__arrow_c_array__` returns, for consumers that ask on which device the memory is: the CPU."""
        from spark_arrow_ipc.arrow import c_data

        capsules: tuple[object, object] = c_data.lend_array(self).__arrow_c_device_array__(**others)
        return capsules

    def to_pylist(self) -> list[Any]:
        """Return the slots as Python values, like pyarrow's ``to_pylist``. Costs Python time a slot."""
        return to_pylist.to_pylist(self)

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """Return the slots as a numpy array: a view if possible, else Python objects."""
        return to_numpy.to_numpy(self)
