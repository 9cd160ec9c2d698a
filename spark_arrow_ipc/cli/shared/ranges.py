"""Find decimals, times and dates that are out of their type's range.

Strategy
--------
The specification bounds these values, several writers exceed the bounds, and every reader accepts them; so they are
notes and not errors. Each type has one vectorised check of all slots that are valid by their own bitmap; recursion
into children and dictionaries is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import numpy_views
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.column_path import child_path

Bools: TypeAlias = npt.NDArray[np.bool_]

_DAY_SECONDS = 24 * 60 * 60
_DAY_MILLISECONDS = 1000 * _DAY_SECONDS
_WORD = 1 << 64


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """Slots of one array whose values are out of their type's range.

    Parameters
    ----------
    path
        Of the field.
    what
        A description of the values.
    count
        The number of such slots.
    first
        The first such slot of the array at `path`.
    """

    path: str
    what: str
    count: int
    first: int


def out_of_range(array: Array, path: str) -> Iterator[OutOfRange]:
    """Check an array, its children and its dictionary, recursively. O(slots)."""
    check = _CHECKS.get(type(array.type))
    if check is not None and array.length:
        what, bad = check(array)
        valid = numpy_views.validity_mask(array)
        bad = bad if valid is None else bad & valid
        if bad.any():
            yield OutOfRange(path, what, int(np.count_nonzero(bad)), int(bad.argmax()))
    if array.dictionary is not None:
        yield from out_of_range(array.dictionary, path)
    for field, child in zip(array.type.children, array.children, strict=True):
        yield from out_of_range(child, child_path(array.type, path, field))


def _decimals(array: Array) -> tuple[str, Bools]:
    type_ = array.type
    assert isinstance(type_, t.Decimal)
    words = numpy_views.data_values(array)
    bound = 10**type_.precision
    bad = ~(_below(words, bound) & ~_below(words, 1 - bound))
    return f"decimals of more than {type_.precision} digits", bad


def _below(words: npt.NDArray[Any], bound: int) -> Bools:
    """Return the mask of integers less than `bound`; the words of wide ones are named from the lowest."""
    if words.dtype.names is None:
        small: Bools = words < bound
        return small
    below = np.zeros(len(words), np.bool_)
    *low, top = sorted(words.dtype.names)
    for name in low:
        bound, limit = divmod(bound, _WORD)
        below = (words[name] < np.uint64(limit)) | ((words[name] == np.uint64(limit)) & below)
    result: Bools = (words[top] < bound) | ((words[top] == bound) & below)
    return result


def _times(array: Array) -> tuple[str, Bools]:
    type_ = array.type
    assert isinstance(type_, t.Time)
    values = numpy_views.data_values(array)
    return "times outside of a day", (values < 0) | (values >= _DAY_SECONDS * type_.unit.per_second)


def _dates(array: Array) -> tuple[str, Bools]:
    assert isinstance(array.type, t.Date)
    values = numpy_views.data_values(array)
    if array.type.unit is t.DateUnit.DAY:
        return "", np.zeros(len(values), np.bool_)
    return "dates with a time of day", values % _DAY_MILLISECONDS != 0


_CHECKS: Mapping[type[t.DataType], Callable[[Array], tuple[str, Bools]]] = {
    t.Decimal: _decimals,
    t.Time: _times,
    t.Date: _dates,
}
"""By type whose bits hold more values than the type (Schema.fbs): a description and the mask of bad slots."""
