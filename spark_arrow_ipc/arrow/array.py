"""`Array`, the class for arrays of all types, with values for Python and numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_arrow_ipc.arrow.array_data import ArrayData
from spark_arrow_ipc.arrow.python_values import to_numpy, to_pylist
from spark_arrow_ipc.arrow.types import Field

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
        from spark_arrow_ipc.arrow.c_data import capsules  # programs that share nothing need no ctypes

        _, array = capsules.array_from(source, cls)
        return array

    def __arrow_c_schema__(self) -> object:
        """Return the type as a capsule."""
        from spark_arrow_ipc.arrow.c_data import capsules

        return capsules.field_capsule(Field("", self.type))

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return capsules of the type and of the array, which lends its memory. O(buffers).

        A requested schema is not taken notice of: "conversion to this schema is best-effort".
        """
        from spark_arrow_ipc.arrow.c_data import capsules

        return capsules.array_capsules(self, Field("", self.type))

    def __arrow_c_device_array__(
        self, requested_schema: object | None = None, **others: object
    ) -> tuple[object, object]:
        """Return what `__arrow_c_array__` returns, for consumers that ask on which device the memory is: the CPU."""
        from spark_arrow_ipc.arrow.c_data import capsules

        return capsules.device_array_capsules(self, Field("", self.type), others)

    def to_pylist(self) -> list[Any]:
        """Return the slots as Python values, like pyarrow's ``to_pylist``. Costs Python time a slot."""
        return to_pylist.to_pylist(self)

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """Return the slots as a numpy array: a view if possible, else Python objects."""
        return to_numpy.to_numpy(self)
