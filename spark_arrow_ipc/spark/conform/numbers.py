"""Convert numbers: widen integers and floats, decimals to 128 bits.

Strategy
--------
A decimal is copied as 64-bit words, least significant first: no value becomes a Python object, except those of more
than 38 digits, which become strings. Spark trusts a decimal to have no more digits than its type says, and fails late
and far away if it has more; so this is checked here, with two comparisons of words for each value.
"""

from __future__ import annotations

from decimal import Context
from decimal import Decimal as PyDecimal
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import numpy_views
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.errors import InvalidBodyError
from spark_arrow_ipc.spark import pyarrow_values
from spark_arrow_ipc.spark.conform.conversion import (
    Conversion,
    Mask,
    Numbers,
    Site,
    data,
    first_seen,
    rebuilt,
    seen,
    share,
    shared,
)
from spark_arrow_ipc.spark.conform.expected import expected_type
from spark_arrow_ipc.spark.types.arrow_to_spark import normal_decimal

_WORD = 1 << 64


def integer(type_: t.Int, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of integers: signed ones are shared, unsigned ones widened."""
    to = expected_type(natural, site.path)
    if type_.signed:
        return share(to)
    dtype = np.dtype(f"u{type_.bit_width // 8}")
    if type_.bit_width == 64:
        return Conversion(lambda array, _live: rebuilt(to, array, _words_of_unsigned(data(array, dtype))))
    wider = np.dtype(f"i{type_.bit_width // 4}")
    return Conversion(lambda array, _live: rebuilt(to, array, data(array, dtype).astype(wider)))


def floating_point(type_: t.FloatingPoint, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of floating point: half precision is widened, the rest shared."""
    to = expected_type(natural, site.path)
    if type_.precision is not t.Precision.HALF:
        return share(to)
    return Conversion(lambda array, _live: rebuilt(to, array, data(array, np.float16).astype(np.float32)))


def decimal(type_: t.Decimal, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of decimals of any width."""
    normal = normal_decimal(type_)
    if normal is None:
        return Conversion(lambda array, _live: _decimal_strings(array, type_))
    to = expected_type(natural, site.path)
    # The words are whole numbers until the end; the scale is only part of the type.
    unscaled = pa.decimal128(min(type_.precision, 38), min(type_.scale, 38))

    def convert(array: Array, live: Mask) -> pa.Array:
        words, dead = _checked_words(array, type_, live, site.path)
        if type_.bit_width == 128 and dead is None:
            if type_.scale >= 0:
                return shared(to, array)
        elif dead is not None:
            words = np.where(dead[:, None], np.uint64(0), words)
        if type_.scale >= 0:
            return rebuilt(to, array, np.ascontiguousarray(words))
        return rebuilt(unscaled, array, np.ascontiguousarray(words)).cast(to)

    return Conversion(convert, checks=True)


def _words_of_unsigned(values: Numbers) -> Numbers:
    """Return uint64 values as 128-bit words, shape ``(length, 2)``."""
    words = np.zeros((len(values), 2), np.uint64)
    words[:, 0] = values
    return words


def _words_of_signed(values: Numbers) -> Numbers:
    """Return int32 or int64 values as 128-bit words, sign-extended, shape ``(length, 2)``."""
    words = np.empty((len(values), 2), np.int64)
    words[:, 0] = values
    np.right_shift(words[:, 0], 63, out=words[:, 1])
    return words.view(np.uint64)


def _checked_words(array: Array, type_: t.Decimal, live: Mask, path: str) -> tuple[Numbers, Numbers | None]:
    """Return decimals as 128-bit words, and the mask of hidden slots with too many digits."""
    words, bad = _WORDS[type_.bit_width](array, type_.precision)
    if not bad.any():
        return words, None
    i = first_seen(bad, array, live)
    if i is not None:
        width = type_.bit_width // 8
        buffer = array.buffers[1]
        assert buffer is not None
        start = (array.offset + i) * width
        value = int.from_bytes(buffer[start : start + width], "little", signed=True)
        raise InvalidBodyError(
            expected=f"decimals of at most {type_.precision} digits ({type_})",
            found=f"the unscaled value {value} in slot {i}",
            field_path=path,
            spec='Schema.fbs "Decimal"',
        )
    return words, bad


def _words_32(array: Array, precision: int) -> tuple[Numbers, Numbers]:
    return _small(data(array, np.int32).astype(np.int64), precision)


def _words_64(array: Array, precision: int) -> tuple[Numbers, Numbers]:
    return _small(data(array, np.int64), precision)


def _small(values: Numbers, precision: int) -> tuple[Numbers, Numbers]:
    bound = 10**precision
    return _words_of_signed(values), (values >= bound) | (values <= -bound)


def _words_128(array: Array, precision: int) -> tuple[Numbers, Numbers]:
    words = _words(array, 2)
    return words, _beyond(words, precision)


def _words_256(array: Array, precision: int) -> tuple[Numbers, Numbers]:
    wide = _words(array, 4)
    sign = (wide[:, 1].view(np.int64) >> 63).view(np.uint64)
    return wide[:, :2], _beyond(wide, precision) | (wide[:, 2] != sign) | (wide[:, 3] != sign)


_WORDS = {32: _words_32, 64: _words_64, 128: _words_128, 256: _words_256}
"""By bit width: makes the 128-bit words of slots, and the mask of those with too many digits."""


def _words(array: Array, number: int) -> Numbers:
    """Return slots as 64-bit words, lowest first: a view, shape ``(length, number)``."""
    words = numpy_views.typed(array.buffers[1], np.uint64, array.offset * number, array.length * number)
    rows: Numbers = words.reshape(-1, number)
    return rows


def _beyond(words: Numbers, precision: int) -> Numbers:
    """Return the mask of 128-bit values of more than `precision` digits."""
    if len(words) == 0:
        return np.zeros(0, np.bool_)
    low, high = words[:, 0], words[:, 1].view(np.int64)
    bound_high, bound_low = divmod(10**precision, _WORD)
    least_high, least_low = divmod(1 - 10**precision, _WORD)
    too_large = high > bound_high
    too_large |= (high == bound_high) & (low >= np.uint64(bound_low))
    too_small = high < least_high
    too_small |= (high == least_high) & (low < np.uint64(least_low))
    beyond: Numbers = too_large | too_small
    return beyond


def _decimal_strings(array: Array, type_: t.Decimal) -> pa.Array:
    """Return decimals as exact strings without an exponent. Costs a Python call a value."""
    width = type_.bit_width // 8
    buffer = array.buffers[1]
    assert buffer is not None
    mask = seen(array, None)
    exact = Context(prec=400)
    strings: list[Any] = [None] * array.length
    for i in range(array.length) if mask is None else np.flatnonzero(mask):
        start = (array.offset + int(i)) * width
        value = int.from_bytes(buffer[start : start + width], "little", signed=True)
        strings[i] = f"{PyDecimal(value).scaleb(-type_.scale, exact):f}"
    return pyarrow_values.array(strings, pa.string())
