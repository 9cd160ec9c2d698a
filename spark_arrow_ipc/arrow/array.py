"""`Array`, the class for arrays of all types, with values for Python and numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_arrow_ipc.arrow.array_data import NOT_COUNTED, ArrayData, Buffer
from spark_arrow_ipc.arrow.python_values import to_numpy, to_pylist

if TYPE_CHECKING:
    import numpy as np

__all__ = ["NOT_COUNTED", "Array", "Buffer"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Array(ArrayData):
    """Slots of one type, with their values as Python and numpy objects. The fields are those of `ArrayData`."""

    def to_pylist(self) -> list[Any]:
        """Return the slots as Python values, like pyarrow's ``to_pylist``. Costs Python time a slot."""
        return to_pylist.to_pylist(self)

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """Return the slots as a numpy array: a view if possible, else Python objects."""
        return to_numpy.to_numpy(self)
