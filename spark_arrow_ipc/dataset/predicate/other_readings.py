"""Spark's readings of a comparison under other values of a session's settings.

A comparison depends on a setting only if Spark's reading of it under another value gives another bound predicate, so
comparisons of values of one type depend on none. `bind` compares the readings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Final, TypeAlias

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate import (
    ANSI,
    DATETIME_STRINGS,
    EXPONENTS,
    PRECISION,
    TIMESTAMP_TYPE,
    TRUNCATION,
    literals,
)
from spark_arrow_ipc.dataset.predicate.bound import BoundColumn
from spark_arrow_ipc.dataset.predicate.coercion import MAX_PRECISION, UTC_TIMESTAMP, common_type
from spark_arrow_ipc.dataset.predicate.expressions import (
    Comparison,
    In,
    Literal,
    TimestampLiteral,
)
from spark_arrow_ipc.dataset.predicate.literal_casts import cast_to
from spark_arrow_ipc.dataset.predicate.literals import narrowest_type
from spark_arrow_ipc.dataset.time_zones import parse_timestamp
from spark_arrow_ipc.errors import OptionError

_Known: TypeAlias = BoundColumn | Literal
Sides: TypeAlias = tuple[_Known, _Known, t.DataType | None]


def other_readings(left: _Known, right: _Known, predicate: Comparison) -> Iterator[tuple[str, Callable[[], Sides]]]:
    """Yield the readings under other values: the setting, the sides, and the type in which they are compared.

    Only readings that differ from the one of the defaults. A reading raises if it cannot be told.
    """
    common = common_type(left.type, right.type)
    legacy = _legacy_type(left.type, right.type)
    if legacy != common and legacy is not None:
        yield ANSI, lambda: (_as(left, legacy), _as(right, legacy), legacy)
    if _is_datetime_with_string(left, right):
        yield DATETIME_STRINGS, _cannot_be_told
    if isinstance(common, t.Decimal) and _is_cut_short(left.type, right.type, common):
        yield TRUNCATION, _cannot_be_told
    if any(isinstance(side, Literal) and narrowest_type(side) != side.type for side in (left, right)) and (
        isinstance(left.type, t.Decimal) or isinstance(right.type, t.Decimal)
    ):
        yield PRECISION, lambda: (left, right, common)
    for operand in (predicate.left, predicate.right):
        if isinstance(operand, TimestampLiteral) and is_by_setting(operand):
            yield TIMESTAMP_TYPE, partial(_with_other, left, right, operand, _local)
    for side in (left, right):
        if isinstance(side, Literal) and _is_exponential(side):
            yield EXPONENTS, partial(_with_decimals, left, right)


def _cannot_be_told() -> Sides:
    raise OptionError("it cannot be told")


def _with_other(
    left: _Known, right: _Known, operand: TimestampLiteral, make: Callable[[TimestampLiteral], Literal]
) -> Sides:
    """Return the sides with another literal for an operand."""
    is_left = isinstance(left, Literal) and left.sql == str(operand)
    left, right = (make(operand), right) if is_left else (left, make(operand))
    return left, right, common_type(left.type, right.type)


def _local(literal: TimestampLiteral) -> Literal:
    return replace(literals.local_timestamp(literal.value), sql=repr(literal.value))


def _with_decimals(left: _Known, right: _Known) -> Sides:
    left, right = (
        literals.number(side.sql, "BD") if isinstance(side, Literal) and _is_exponential(side) else side
        for side in (left, right)
    )
    return left, right, common_type(left.type, right.type)


def _as(side: _Known, to: t.DataType) -> _Known:
    """Return a side of a comparison with its string or number cast, which Spark does before it compares."""
    return side if isinstance(side, BoundColumn) or side.type == to else cast_to(side, to, side.sql)


def _legacy_type(left: t.DataType, right: t.DataType) -> t.DataType | None:
    """Return the type in which two sides are compared without ANSI mode, as ``TypeCoercion`` of Spark's analyzer."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, t.Int) and isinstance(other, t.FloatingPoint):
            return other
        if isinstance(one, t.Utf8) and isinstance(other, t.Int | t.FloatingPoint):
            return other
        if isinstance(one, t.Utf8) and isinstance(other, t.Decimal) and other.scale == 0:
            return other
    return common_type(left, right)


def _is_datetime_with_string(left: _Known, right: _Known) -> bool:
    types = {type(left.type), type(right.type)}
    return t.Utf8 in types and bool(types & {t.Date, t.Timestamp})


def _is_cut_short(left: t.DataType, right: t.DataType, common: t.Decimal) -> bool:
    scales = [side.scale for side in (left, right) if isinstance(side, t.Decimal)]
    return common.precision == MAX_PRECISION and common.scale < max(scales, default=0)


def _is_exponential(literal: Literal) -> bool:
    return (
        literal.type == t.float64 and not literal.is_cast and "e" in literal.sql.lower() and literal.sql[-1].isdigit()
    )


def is_by_setting(literal: TimestampLiteral) -> bool:
    """Return whether the type of a literal depends on `TIMESTAMP_TYPE`: ``TIMESTAMP`` without a zone in its string."""
    if not literal.is_session_type:
        return False
    parsed = parse_timestamp(literal.value)
    return parsed is None or parsed.tzinfo is None


def settings_of_list(predicate: In, operand: _Known, options: Sequence[Literal], common: t.DataType) -> Iterator[str]:
    """Yield the settings on which the types of a list of `IN` depend; those of `ANSI` with numbers alone apart."""
    types = {operand.type, *(option.type for option in options)}
    classes = {type(type_) for type_ in types} - {t.Null}
    if t.Utf8 in classes and len(classes) > 1 and not _are_canonical(operand, options):
        yield ANSI
    is_instant = operand.type == UTC_TIMESTAMP
    if not is_instant and any(map(_is_session_timestamp, predicate.options)):
        yield TIMESTAMP_TYPE
    is_floating = isinstance(operand.type, t.FloatingPoint)
    if not is_floating and any(isinstance(one, Literal) and _is_exponential(one) for one in options):
        yield EXPONENTS
    if isinstance(common, t.Decimal) and any(_is_cut_short(type_, type_, common) for type_ in types):
        yield TRUNCATION


def _is_session_timestamp(option: object) -> bool:
    return isinstance(option, TimestampLiteral) and is_by_setting(option)


def legacy_list_type(types: Sequence[t.DataType]) -> t.DataType | None:
    """Return the type of an operand and a list of numbers without ANSI mode."""
    common: t.DataType | None = t.null
    for type_ in types:
        common = _legacy_type(common, type_) if common is not None else None
    return common


def _are_canonical(operand: _Known, options: Sequence[Literal]) -> bool:
    """Return whether values and strings are equal as strings, too, which is how Spark compares them without ANSI mode."""
    write = _WRITTEN.get(type(operand.type)) if isinstance(operand, BoundColumn) else None
    if write is None:
        return False
    for option in options:
        if isinstance(option.type, t.Utf8):
            if isinstance(option.value, bytes) and not write(option.value):
                return False
        elif type(option.type) not in (type(operand.type), t.Null):
            return False
    return True


def _is_written_int(value: bytes) -> bool:
    return value.removeprefix(b"-").isdigit() and len(value) < 20 and str(int(value)).encode() == value


def _is_written_date(value: bytes) -> bool:
    try:
        return date.fromisoformat(value.decode()).isoformat().encode() == value
    except ValueError:
        return False


_WRITTEN: Final[Mapping[type[t.DataType], Callable[[bytes], bool]]] = {t.Int: _is_written_int, t.Date: _is_written_date}
"""By the class of a column: whether a string is written as Spark writes the column's values."""
