"""Make the constants of a predicate from SQL literals, and cast them: by CAST, and to the type of a comparison.

Values are `Raw`: in the unit of their type. `cast_to` is a cast in the SQL, `cast` the coercion of a comparison, both as in
Spark's ANSI mode: a string that is not a value of the type is an error at planning, where Spark raises CAST_INVALID_INPUT.
Some spellings that Spark takes are refused (hexadecimal floating point numbers, 'today'); none that Spark refuses is taken.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, timedelta, tzinfo
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate.coercion import (
    MAX_PRECISION,
    UTC_TIMESTAMP,
    find_widening,
    precision_of,
    rescale,
    spark_name,
)
from spark_arrow_ipc.dataset.predicate.expressions import Literal, Raw, TimestampLiteral
from spark_arrow_ipc.dataset.predicate.instants import EPOCH, Doubt, instant, midnight
from spark_arrow_ipc.dataset.time_zones import BLANKS, is_certain, parse_date, parse_timestamp
from spark_arrow_ipc.errors import OptionError

_MICROSECOND: Final = timedelta(microseconds=1)

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SPECIAL: Final = {"nan": "nan", "inf": "inf", "infinity": "inf"}
_TRUE: Final = ("t", "true", "y", "yes", "1")
_FALSE: Final = ("f", "false", "n", "no", "0")
_EXACT: Final = Context(prec=1000, rounding=ROUND_HALF_UP)

_SUFFIXED: Final = {"Y": t.int8, "S": t.int16, "L": t.int64}
_MAX_EXPONENT: Final = 400
"""Beyond it a number is zero or out of range in every type, and its digits would take memory without a limit."""

_SHOWN: Final = 100
"""Characters of a literal in an error."""

_MAX_LENGTH: Final = 1000
"""Characters of a number; Python's own limit for `int` is 4,300 digits."""

_FLOAT_LIMIT: Final = 3.4028235677973366e38
"""Half a step above the greatest float: from this number on Java rounds to infinity."""


def number(digits: str, suffix: str) -> Literal:
    """Return the literal of a number: digits with a sign, a point or an exponent, and a suffix."""
    sql = digits + suffix
    suffix = suffix.upper()
    if len(digits) > _MAX_LENGTH:
        raise _error(f"{len(digits):,}", f"a number of at most {_MAX_LENGTH} characters")
    is_integer = _INTEGER.fullmatch(digits) is not None
    if suffix in ("D", "F") or (not suffix and "e" in digits.lower()):
        return _floating(digits, sql, is_single=suffix == "F")
    if suffix in _SUFFIXED or (not suffix and is_integer):
        if not is_integer:
            raise _error(sql, "a whole number")
        return _whole(int(digits), suffix, sql)
    return _decimal(digits, sql)


def _whole(value: int, suffix: str, sql: str) -> Literal:
    for type_ in (_SUFFIXED[suffix],) if suffix else (t.int32, t.int64):
        if -1 <= value >> (type_.bit_width - 1) <= 0:
            return Literal(type_, value, sql)
    if suffix or precision_of(value) > MAX_PRECISION:
        raise _error(sql, "a number within its type's range")
    return Literal(t.Decimal(precision_of(value), 0), value, sql)


def _floating(digits: str, sql: str, *, is_single: bool) -> Literal:
    value = float(digits)
    if abs(value) == float("inf") or (is_single and abs(value) >= _FLOAT_LIMIT):
        raise _error(sql, "a number within its type's range")
    if is_single:
        # Java rounds the digits to a float at once; by way of a double they might be rounded twice.
        exact = _exact(digits)
        value = 0.0 * value if exact is None else nearest_single(exact)  # None: below all floats, and the sign stays
    return Literal(t.float32 if is_single else t.float64, value, sql)


def nearest_single(value: Decimal) -> float:
    """Return the nearest single precision number, or an infinity beyond their range."""
    if abs(value) >= Decimal(_FLOAT_LIMIT):
        return math.copysign(math.inf, value)
    with np.errstate(over="ignore"):
        near = np.float32(float(value))
        around = (np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf)))
    finite = [x for x in around if np.isfinite(x)]
    # Of two equally near floats, the one with an even significand.
    return float(
        min(finite, key=lambda x: (abs(_EXACT.subtract(Decimal(float(x)), value)), int(x.view(np.uint32)) & 1))
    )


def _decimal(digits: str, sql: str) -> Literal:
    value = _exact(digits)
    if value is None:
        raise _error(sql, "a decimal of at most 38 digits")
    _, parts, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    unscaled = int(value.scaleb(scale, _EXACT))
    precision = max(len(parts) + max(0, exponent), scale, 1)
    if precision > MAX_PRECISION:
        raise _error(sql, "a decimal of at most 38 digits")
    return Literal(t.Decimal(precision, scale), unscaled, sql)


def date_literal(string: str) -> Literal:
    """Return the literal ``DATE 'string'``."""
    return Literal(t.date32, _date(string, t.date32, None), f"DATE {string!r}")


def local_timestamp(string: str) -> Literal:
    """Return the literal ``TIMESTAMP_NTZ 'string'``."""
    type_ = t.Timestamp(t.TimeUnit.MICROSECOND)
    return Literal(type_, _timestamp(string, type_, None), f"TIMESTAMP_NTZ {string!r}")


def timestamp(literal: TimestampLiteral, zone: tzinfo | None) -> Literal:
    """Return the literal ``TIMESTAMP 'string'``: an instant."""
    return Literal(UTC_TIMESTAMP, _timestamp(literal.value, UTC_TIMESTAMP, zone), str(literal))


def narrowest_type(literal: Literal) -> t.DataType:
    """Return the type of a literal that is compared with a decimal: an integer is a decimal of just its digits."""
    # As ``DecimalPrecisionTypeCoercion``, for literals of smallint, int and bigint; a tinyint keeps three digits.
    is_narrowed = isinstance(literal.type, t.Int) and literal.type.bit_width > 8 and not literal.is_cast
    if not is_narrowed or not isinstance(literal.value, int):
        return literal.type
    return t.Decimal(precision_of(literal.value), 0)


def cast(literal: Literal, to: t.DataType, zone: tzinfo | None) -> Raw | Doubt | None:
    """Return the value of a literal cast to a common type; None for NULL, a `Doubt` for an instant without a time zone."""
    value = literal.value
    if value is None or literal.type == to:
        return value
    if isinstance(literal.type, t.Utf8) and not isinstance(to, t.Binary):
        assert isinstance(value, bytes)
        read = _FROM_STRING.get(type(to))
        assert read is not None, to
        return read(value.decode(), to, zone)
    if isinstance(literal.type, t.Timestamp) and isinstance(to, t.Timestamp):
        assert isinstance(value, int)
        return instant(EPOCH + timedelta(microseconds=value), zone, literal.sql)
    if (
        isinstance(literal.type, t.Date) and isinstance(to, t.Timestamp) and to.timezone is not None
    ):  # midnight may be a doubt
        assert isinstance(value, int)
        return _of_date(value, zone, literal.sql)
    widen = find_widening(literal.type, to, zone)
    assert widen is not None, (literal.type, to)
    widened_value = widen(value)
    if isinstance(to, t.Decimal) and isinstance(widened_value, int) and precision_of(widened_value) > to.precision:
        raise _error(literal.sql, f"a value that fits {spark_name(to)}, as which it is compared")
    return widened_value


def _error(string: str, expected: str) -> OptionError:
    shown = string if len(string) <= _SHOWN else f"{string[:_SHOWN]}... ({len(string):,} characters)"
    return OptionError(expected=expected, found=shown)


def _exact(digits: str) -> Decimal | None:
    """Return the exact value of a number, or None if its exponent is out of bounds."""
    try:
        value = Decimal(digits)
    except InvalidOperation:
        return None
    return value if abs(value.adjusted()) <= _MAX_EXPONENT else None


def _invalid(string: str, to: t.DataType) -> OptionError:
    return _error(repr(string), f"a string that Spark casts to {spark_name(to)}")


def _integer(string: str, to: t.Int, _zone: tzinfo | None) -> Raw:
    trimmed = string.strip(BLANKS)
    if _INTEGER.fullmatch(trimmed) is None or len(trimmed) > _MAX_LENGTH:
        raise _invalid(string, to)
    value = int(trimmed)
    if not -(1 << (to.bit_width - 1)) <= value < 1 << (to.bit_width - 1):
        raise _invalid(string, to)
    return value


def _double(string: str, to: t.FloatingPoint, _zone: tzinfo | None) -> Raw:
    trimmed = string.strip(BLANKS)
    # Infinities may have one sign, and NaN none; lstrip would take several.
    special = _SPECIAL.get(trimmed.lower().lstrip("+-")) if trimmed[1:2] not in ("+", "-") else None
    if special is not None and not (special == "nan" and trimmed[:1] in "+-"):
        return float(("-" if trimmed.startswith("-") else "") + special)
    if _NUMBER.fullmatch(trimmed) is None:
        raise _invalid(string, to)
    return float(trimmed)


def _decimal_of_string(string: str, to: t.Decimal, _zone: tzinfo | None) -> Raw:
    trimmed = string.strip(BLANKS)
    if _NUMBER.fullmatch(trimmed) is None or len(trimmed) > _MAX_LENGTH:
        raise _invalid(string, to)
    value = _exact(trimmed)
    if value is None:
        raise _invalid(string, to)
    # Rounded half up, as Spark's cast of strings.
    unscaled = int(value.scaleb(to.scale, _EXACT).quantize(Decimal(1), context=_EXACT))
    if precision_of(unscaled) > to.precision:
        raise _invalid(string, to)
    return unscaled


def _boolean(string: str, to: t.Bool, _zone: tzinfo | None) -> Raw:
    word = string.strip(BLANKS).lower()
    if word not in (*_TRUE, *_FALSE):
        raise _invalid(string, to)
    return int(word in _TRUE)


def _date(string: str, to: t.Date, _zone: tzinfo | None) -> int:
    parsed = parse_date(string)
    if parsed is None:
        raise _invalid(string, to)
    return parsed.toordinal() - date(1970, 1, 1).toordinal()


def _timestamp(string: str, to: t.Timestamp, zone: tzinfo | None) -> int | Doubt:
    parsed = parse_timestamp(string)
    if parsed is None:
        raise _invalid(string, to)
    if to.timezone is None:
        if parsed.tzinfo is not None:
            # Spark drops the zone in silence.
            raise _error(repr(string), "a string without a zone, for a timestamp_ntz")
        return (parsed - EPOCH) // _MICROSECOND
    return instant(parsed, zone, repr(string))


def _of_date(day: int, zone: tzinfo | None, sql: str) -> int | Doubt:
    local = EPOCH + timedelta(days=day)
    if zone is None or not is_certain(local, zone):
        return instant(local, zone, sql)
    try:
        return midnight(day, zone)
    except OverflowError as error:
        raise _error(sql, "an instant of the years 1 to 9999") from error


_FROM_STRING: Final[Mapping[type[t.DataType], Callable[[str, Any, tzinfo | None], Raw | Doubt]]] = {
    t.Int: _integer,
    t.FloatingPoint: _double,
    t.Decimal: _decimal_of_string,
    t.Bool: _boolean,
    t.Date: _date,
    t.Timestamp: _timestamp,
}
"""By the class of the common type: Spark's cast of a string."""


def cast_to(operand: Literal, to: t.DataType, sql: str) -> Literal:
    """Return a literal cast to a type; raise for a value outside its range."""
    if operand.value is None or operand.type == to:
        return replace(operand, type=to, sql=sql, is_cast=True)
    convert = _CASTS.get((type(operand.type), type(to)))
    if convert is None:
        raise OptionError(
            f"where does not cast the {spark_name(operand.type)} literal {operand} to {spark_name(to)}: write a literal of "
            "that type, or cast a string"
        )
    value = convert(operand, to)
    if value is None:
        raise OptionError(expected=f"a value within the range of {spark_name(to)}", found=sql)
    return Literal(to, value, sql, is_cast=True)


def in_range(value: int, to: t.Int) -> int | None:
    """Return an integer, or None if it is outside the range of a type."""
    return value if -1 <= value >> (to.bit_width - 1) <= 0 else None


def _fits(value: int, to: t.Decimal) -> int | None:
    return value if precision_of(value) <= to.precision else None


def _string_to(operand: Literal, to: t.DataType) -> Any:
    if isinstance(to, t.FloatingPoint) and to.precision is t.Precision.SINGLE:
        # Rounded once, as by Java's parseFloat; the double only has NaN, infinities and the signs of zeros.
        double = cast(operand, t.float64, None)
        assert isinstance(double, float)
        if not math.isfinite(double) or double == 0:
            return double
        assert isinstance(operand.value, bytes)
        return nearest_single(Decimal(operand.value.decode().strip(BLANKS)))
    return cast(operand, to, None)


def _decimal_to_floating(operand: Any, to: t.FloatingPoint) -> float:
    if to.precision is t.Precision.DOUBLE:
        return float(operand.value / 10**operand.type.scale)
    return nearest_single(Decimal(operand.value).scaleb(-operand.type.scale))


def _decimal_to_int(operand: Any, to: t.Int) -> int | None:
    magnitude = abs(operand.value) // 10**operand.type.scale  # towards zero, as Spark
    return in_range(-magnitude if operand.value < 0 else magnitude, to)


def _floating_to_floating(operand: Any, to: t.FloatingPoint) -> float:
    with np.errstate(over="ignore"):  # infinite, as in Spark
        return float(np.float32(operand.value)) if to.precision is t.Precision.SINGLE else operand.value


_CASTS: Final[Mapping[tuple[type[t.DataType], type[t.DataType]], Callable[[Any, Any], Raw | None]]] = {
    **{(t.Utf8, to): _string_to for to in (t.Int, t.FloatingPoint, t.Decimal, t.Bool, t.Binary)},
    (t.Int, t.Int): lambda operand, to: in_range(operand.value, to),
    (t.Int, t.FloatingPoint): lambda operand, to: (
        nearest_single(Decimal(operand.value)) if to.precision is t.Precision.SINGLE else float(operand.value)
    ),
    (t.Int, t.Decimal): lambda operand, to: _fits(operand.value * 10**to.scale, to),
    (t.Decimal, t.Int): _decimal_to_int,
    (t.Decimal, t.Decimal): lambda operand, to: _fits(rescale(operand.value, operand.type.scale, to.scale), to),
    (t.Decimal, t.FloatingPoint): _decimal_to_floating,
    (t.FloatingPoint, t.FloatingPoint): _floating_to_floating,
    (t.FloatingPoint, t.Int): lambda operand, to: (
        in_range(math.trunc(operand.value), to) if math.isfinite(operand.value) else None
    ),
}
"""By the classes of both types; None for a value outside the range."""
