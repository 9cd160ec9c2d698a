"""Functions and casts of columns in `where`, with Spark's exact results on pyarrow arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark import bridge

_Int64s = npt.NDArray[np.int64]


def _of_days(part: Callable[[_Int64s, _Int64s], _Int64s]) -> Callable[[Any], Any]:
    """Return a function of dates, from a function of days and months since 1970."""

    # By numpy, which has dates of all years; pyarrow's kernels have 65,536 years.
    def compute(dates: pa.Array) -> pa.Array:
        days = pc.fill_null(dates.cast(pa.int32()), bridge.scalar(0, pa.int32())).to_numpy().astype(np.int64)
        months = days.view("M8[D]").astype("M8[M]").astype(np.int64)
        nulls = dates.is_null().to_numpy(zero_copy_only=False) if dates.null_count else None
        return bridge.numbers(part(days, months).astype(np.int32), nulls)

    return compute


def _day(days: _Int64s, months: _Int64s) -> _Int64s:
    month_starts: _Int64s = months.view("M8[M]").astype("M8[D]").astype(np.int64)
    return days - month_starts + 1


def _of_ascii(name: str, kernel: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function of strings that refuses letters beyond ASCII."""

    # Spark's result for other letters depends on Java's version of Unicode.
    def compute(strings: pa.Array) -> pa.Array:
        if pc.all(pc.string_is_ascii(strings), min_count=0).as_py() is False:
            raise OptionError(
                f"where computes {name}() of ASCII strings alone, and a value has other characters: filter "
                "the DataFrame for that"
            )
        return kernel(strings)

    return compute


COLUMN_FUNCTIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "YEAR": _of_days(lambda _days, months: months // 12 + 1970),
    "MONTH": _of_days(lambda _days, months: months % 12 + 1),
    "DAY": _of_days(_day),
    "UPPER": _of_ascii("upper", pc.ascii_upper),
    "LOWER": _of_ascii("lower", pc.ascii_lower),
}
"""One row for each function of `bound.ARGUMENTS`."""


def cast_column(array: pa.Array, to: pa.DataType) -> pa.Array:
    """Cast a column to the type in which it is compared with another."""
    if array.type == to:
        return array
    if pa.types.is_decimal(array.type) and pa.types.is_floating(to):
        # pyarrow parses digits to the nearest double, and its cast from decimals does not round so.
        return array.cast(pa.string()).cast(to)
    if pa.types.is_integer(array.type) and pa.types.is_decimal(to):
        array = array.cast(pa.decimal128(19 if array.type.bit_width == 64 else 10, 0))
    # A double or float may lose digits, as in Spark.
    return array.cast(to, safe=pa.types.is_decimal(to) or pa.types.is_temporal(to))
