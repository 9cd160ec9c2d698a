"""Build arrays of the types without children from Python values.

`LEAVES` has one function for each type class; `from_pylist.array` calls them. The values are a list with None for
null; a null slot becomes zeros, so that equal values give equal bytes.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.layout import LAYOUTS, Family, Role, by_type
from spark_arrow_ipc.arrow.python_values import scalars
from spark_arrow_ipc.errors import unfit

_Values = Sequence[Any]

MAX_OFFSET: Mapping[int, int] = {32: 2**31 - 1, 64: 2**63 - 1}
"""The largest value offset of each width."""


def as_buffer(values: npt.NDArray[Any]) -> memoryview:
    """Return the bytes of an array as a buffer."""
    return memoryview(values.tobytes())


def offset_buffer(values: Iterable[int], bit_width: int) -> memoryview:
    """Return signed integers of a bit width as a buffer.

    ValueError if a number does not fit: all elements together are too many for 32-bit value offsets.
    """
    numbers = list(values)
    most = MAX_OFFSET[bit_width]
    if numbers and max(numbers) > most:
        raise ValueError(f"expected at most {most:,} elements or bytes in one array, found {max(numbers):,}")
    return as_buffer(np.array(numbers, f"i{bit_width // 8}"))


def validity_of(values: _Values) -> tuple[memoryview | None, int]:
    """Return the validity bitmap, None without nulls, and the number of nulls."""
    valid = [value is not None for value in values]
    null_count = len(valid) - sum(valid)
    return (array_data.pack_bits(valid) if null_count else None), null_count


def _primitive(values: _Values, type_: t.DataType, data: memoryview) -> Array:
    validity, null_count = validity_of(values)
    return Array(type_, len(values), null_count, (validity, data))


def _null(values: _Values, type_: t.DataType) -> Array:
    for value in values:
        if value is not None:
            raise ValueError(unfit("only None", type_, value))
    return Array(type_, len(values), len(values), ())


def _bool(values: _Values, type_: t.DataType) -> Array:
    for value in values:
        if value is not None and not isinstance(value, (bool, np.bool_)):
            raise TypeError(unfit("a bool", type_, value))
    return _primitive(values, type_, array_data.pack_bits([bool(value) for value in values]))


def _whole(value: object, type_: t.DataType) -> int:
    """Return the value of any integer type, or of a float or Decimal without a fraction, as an int."""
    if isinstance(value, (bool, np.bool_)):  # an int to Python, and here most often a mistake
        raise TypeError(unfit("an integer", type_, value))
    if isinstance(value, (float, np.floating, Decimal)):
        # Before `int`, which raises other errors for infinity and NaN
        if not np.isfinite(float(value)) or value != (number := int(value)):
            raise ValueError(unfit("a whole number", type_, value))
        return number
    try:
        return operator.index(value)  # type: ignore[arg-type]  # no __index__ is the TypeError below
    except TypeError:
        raise TypeError(unfit("an integer", type_, value)) from None


def _int(values: _Values, type_: t.DataType) -> Array:
    return _primitive(values, type_, _int_buffer(values, type_, array_data.dtype_of(type_), _whole))


def _int_buffer(
    values: _Values, type_: t.DataType, dtype: np.dtype[Any], convert: Callable[[Any, Any], int]
) -> memoryview:
    numbers = [0 if value is None else convert(value, type_) for value in values]
    limits = np.iinfo(dtype)
    if numbers and not (limits.min <= min(numbers) and max(numbers) <= limits.max):
        worst = next(number for number in numbers if not limits.min <= number <= limits.max)
        raise ValueError(unfit(f"{limits.min:,} to {limits.max:,}", type_, worst))
    return as_buffer(np.array(numbers, dtype))


def _temporal(convert: Callable[[Any, Any], int]) -> Callable[[_Values, t.DataType], Array]:
    # An int is a raw count, so that values survive that `datetime` cannot hold.
    def units(value: object, type_: t.DataType) -> int:
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            return int(value)
        return convert(value, type_)

    def build(values: _Values, type_: t.DataType) -> Array:
        return _primitive(values, type_, _int_buffer(values, type_, array_data.dtype_of(type_), units))

    return build


_MANTISSA_BITS = (11, 24, 53)  # by precision: larger ints would be rounded


def _float(values: _Values, type_: t.DataType) -> Array:
    assert isinstance(type_, t.FloatingPoint)
    numbers = [0.0 if value is None else _real(value, type_) for value in values]
    # A number above the largest one of the type becomes infinity, as in pyarrow and C.
    with np.errstate(over="ignore"):
        return _primitive(values, type_, as_buffer(np.array(numbers, np.float64).astype(array_data.dtype_of(type_))))


def _real(value: object, type_: t.FloatingPoint) -> float:
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, (bool, int, np.integer, np.bool_)):
        number = int(value)
        if abs(number) > 2 ** _MANTISSA_BITS[type_.precision]:
            raise ValueError(unfit(f"an int of at most {_MANTISSA_BITS[type_.precision]} bits", type_, value))
        return float(number)
    raise TypeError(unfit("a float or an int", type_, value))


def _decimal(values: _Values, type_: t.DataType) -> Array:
    assert isinstance(type_, t.Decimal)
    nbytes = type_.bit_width // 8
    numbers = (0 if value is None else scalars.to_unscaled_int(value, type_) for value in values)
    # Arrays in memory have the byte order of this machine
    data = b"".join(number.to_bytes(nbytes, sys.byteorder, signed=True) for number in numbers)
    return _primitive(values, type_, memoryview(data))


def _interval(dtype: np.dtype[Any]) -> Callable[[_Values, t.DataType], Array]:
    names = dtype.names or ()
    zero = (0,) * len(names)
    expected = f"({', '.join(names)})"

    def build(values: _Values, type_: t.DataType) -> Array:
        for value in values:
            if value is not None and (not isinstance(value, (tuple, list)) or len(value) != len(names)):
                raise TypeError(unfit(expected, type_, value))
        data = np.zeros(len(values), dtype)
        for i, name in enumerate(names):
            column = [(zero if value is None else value)[i] for value in values]
            data[name] = np.frombuffer(_int_buffer(column, type_, dtype[name], _whole), dtype[name], len(column))
        return _primitive(values, type_, as_buffer(data))

    return build


def text_bytes(value: object, type_: t.DataType) -> bytes:
    """Return the bytes of a str (as UTF-8), bytes, bytearray or memoryview; TypeError for any other value.

    ValueError for bytes of a UTF-8 type that are not UTF-8, or a str with half of a surrogate pair.
    """
    try:
        if isinstance(value, str):
            return value.encode("utf-8")
        if isinstance(value, (bytes, bytearray, memoryview)):
            raw = bytes(value)
            if type(type_) in t.UTF8_CLASSES:
                raw.decode("utf-8")  # only to refuse other bytes
            return raw
    except UnicodeError as error:
        raise ValueError(unfit("a string that UTF-8 can hold", type_, value)) from error
    raise TypeError(unfit("str or bytes", type_, value))


def _binary(values: _Values, type_: t.DataType) -> Array:
    parts = [b"" if value is None else text_bytes(value, type_) for value in values]
    bit_width = next(b.bit_width for b in LAYOUTS[type(type_)].buffers if b.role is Role.OFFSETS)
    offsets = offset_buffer(accumulate(map(len, parts), initial=0), bit_width)
    validity, null_count = validity_of(values)
    return Array(type_, len(values), null_count, (validity, offsets, memoryview(b"".join(parts))))


def _fixed_size_binary(values: _Values, type_: t.DataType) -> Array:
    assert isinstance(type_, t.FixedSizeBinary)
    width = type_.byte_width
    parts = [bytes(width) if value is None else text_bytes(value, type_) for value in values]
    for part in parts:
        if len(part) != width:
            raise ValueError(unfit(f"{width} bytes", type_, part))
    return _primitive(values, type_, memoryview(b"".join(parts)))


def _binary_view(values: _Values, type_: t.DataType) -> Array:
    """Build views, with values longer than 12 bytes in variadic buffers of up to 2 GiB."""
    views = np.zeros(len(values), array_data.VIEW)
    # The 12 bytes of a view after its size: the inline value, or prefix, index and offset.
    rest = views.view([("size", np.int32), ("inline", f"V{array_data.VIEW_INLINE_NBYTES}")])["inline"]
    buffers: list[list[bytes]] = []
    room = 0
    for i, value in enumerate(values):
        part = b"" if value is None else text_bytes(value, type_)
        if len(part) <= array_data.VIEW_INLINE_NBYTES:
            rest[i] = part.ljust(array_data.VIEW_INLINE_NBYTES, b"\0")
            views["size"][i] = len(part)
            continue
        if len(part) > MAX_OFFSET[32]:
            raise ValueError(unfit(f"at most {MAX_OFFSET[32]:,} bytes", type_, f"{len(part):,} bytes"))
        if len(part) > room:  # an offset in a view has 31 bits
            buffers.append([])
            room = MAX_OFFSET[32]
        views[i] = (len(part), part[:4], len(buffers) - 1, MAX_OFFSET[32] - room)
        buffers[-1].append(part)
        room -= len(part)
    validity, null_count = validity_of(values)
    variadic = (memoryview(b"".join(parts)) for parts in buffers)
    return Array(type_, len(values), null_count, (validity, as_buffer(views), *variadic))


LEAVES: Mapping[type[t.DataType], Callable[[_Values, t.DataType], Array]] = {
    **by_type({Family.NULL: _null, Family.BITS: _bool, Family.BINARY: _binary, Family.VIEW: _binary_view}),
    t.Int: _int,
    t.FloatingPoint: _float,
    t.Decimal: _decimal,
    t.Date: _temporal(scalars.date_units),
    t.Time: _temporal(scalars.time_units),
    t.Timestamp: _temporal(scalars.timestamp_units),
    t.Duration: _temporal(scalars.duration_units),
    t.IntervalYearMonth: _int,
    t.IntervalDayTime: _interval(array_data.DAY_TIME),
    t.IntervalMonthDayNano: _interval(array_data.MONTH_DAY_NANO),
    t.FixedSizeBinary: _fixed_size_binary,
}
"""One function for each type class without children."""

NATURAL_LEAVES: Mapping[type[t.DataType], type] = {
    t.Null: type(None),
    t.Bool: bool,
    t.Int: int,
    t.FloatingPoint: float,
    t.Decimal: Decimal,
    t.Date: date,
    t.Time: time,
    t.Timestamp: datetime,
    t.Duration: timedelta,
    t.IntervalYearMonth: int,
    t.IntervalDayTime: tuple,
    t.IntervalMonthDayNano: tuple,
    t.FixedSizeBinary: bytes,
    **by_type({Family.BINARY: bytes, Family.VIEW: bytes}),
    **dict.fromkeys(t.UTF8_CLASSES, str),
}
"""The Python type of the values from ``to_pylist`` by type class, for classes without children."""
