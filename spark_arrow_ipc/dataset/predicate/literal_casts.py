"""Casts of literals, as Spark's ANSI mode casts them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Final

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate import literals
from spark_arrow_ipc.dataset.predicate.coercion import precision_of, rescaled, spark_name
from spark_arrow_ipc.dataset.predicate.expressions import Literal, Raw
from spark_arrow_ipc.dataset.predicate.instants import (
    DAY_MICROSECONDS,
    EPOCH,
    Doubt,
    UncertainInstantError,
    local_time,
    needs_zone,
)
from spark_arrow_ipc.dataset.time_zones import BLANKS
from spark_arrow_ipc.errors import OptionError

_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Session:
    """The surroundings of an expression that its value may depend on."""

    zone: tzinfo | None  # the session's time zone, `UNKNOWN_ZONE`, or None
    # takes the settings on which the predicate depends, and the part that does; see `settings`
    noted: dict[str, str] = field(default_factory=dict, compare=False)


def certain(literal: Literal) -> Any:
    """Return the value of a literal; raises for an instant that is not certain."""
    if isinstance(literal.value, Doubt):
        raise UncertainInstantError(literal.value.why)
    return literal.value


def refused(sql: str, expected: str) -> OptionError:
    """Return the error for an expression."""
    return OptionError(expected=expected, found=sql)


def cast_to(operand: Literal, to: t.DataType, session: Session, sql: str) -> Literal:
    """Return a literal cast to a type, as Spark's ANSI mode casts it; raises for what is outside its range."""
    if operand.value is None or operand.type == to:
        return replace(operand, type=to)
    convert = _CASTS.get((type(operand.type), type(to)))
    if convert is None:
        raise OptionError(f"where does not cast the {spark_name(operand.type)} literal {operand} to {spark_name(to)}")
    if isinstance(operand.value, Doubt) and not isinstance(to, t.Timestamp):
        certain(operand)
    value = convert(operand, to, session)
    if value is None:
        raise refused(sql, f"a value within the range of {spark_name(to)}")
    return Literal(to, value, sql)


_Convert = Callable[[Literal, Any, Session], "Raw | Doubt | None"]


def in_range(value: int, to: t.Int) -> int | None:
    """Return a whole number, or None if its type does not hold it."""
    return value if -1 <= value >> (to.bit_width - 1) <= 0 else None


def _fits(value: int, to: t.Decimal) -> int | None:
    return value if precision_of(value) <= to.precision else None


def _to_floating(value: Decimal | int, to: t.FloatingPoint) -> float:
    if to.precision is t.Precision.SINGLE:
        return literals.nearest_single(Decimal(value))
    return float(value)


def _string_to(operand: Literal, to: t.DataType, session: Session) -> Raw | Doubt | None:
    if isinstance(to, t.FloatingPoint) and to.precision is t.Precision.SINGLE:
        double = literals.cast(operand, t.float64, session.zone)
        assert isinstance(double, float)
        if not math.isfinite(double) or double == 0:
            return double
        assert isinstance(operand.value, bytes)
        return literals.nearest_single(Decimal(operand.value.decode().strip(BLANKS)))
    return literals.cast(operand, to, session.zone)


def _decimal_to_floating(operand: Literal, to: t.FloatingPoint, _session: Session) -> float:
    assert isinstance(operand.type, t.Decimal)
    value = certain(operand)
    if to.precision is t.Precision.DOUBLE:
        return float(value / 10**operand.type.scale)
    return literals.nearest_single(Decimal(value).scaleb(-operand.type.scale))


def _decimal_to_int(operand: Literal, to: t.Int, _session: Session) -> int | None:
    assert isinstance(operand.type, t.Decimal)
    value = certain(operand)
    whole = abs(value) // 10**operand.type.scale
    return in_range(-whole if value < 0 else whole, to)


def _floating_to_int(operand: Literal, to: t.Int, _session: Session) -> int | None:
    value = certain(operand)
    return in_range(math.trunc(value), to) if math.isfinite(value) else None


def _floating_to_floating(operand: Literal, to: t.FloatingPoint, _session: Session) -> float:
    value = certain(operand)
    with np.errstate(over="ignore"):
        return float(np.float32(value)) if to.precision is t.Precision.SINGLE else value


def to_date(operand: Literal, session: Session) -> Literal:
    """Return the date of a timestamp, in the session's time zone if it is an instant."""
    value = certain(operand)
    assert isinstance(operand.type, t.Timestamp)
    if operand.type.timezone is None:
        return Literal(t.date32, value // DAY_MICROSECONDS, operand.sql)
    return Literal(t.date32, (_local(operand, session) - EPOCH).days, operand.sql)


def _local(operand: Literal, session: Session) -> datetime:
    """Return the local time of an instant in the session's time zone, without the zone."""
    if session.zone is None:
        raise OptionError(needs_zone(operand.sql))
    return local_time(certain(operand), session.zone, operand.sql).replace(tzinfo=None)


def _text(string: str) -> bytes:
    return string.encode()


def _date_text(operand: Literal, _to: t.DataType, _session: Session) -> bytes:
    return _text((date(1970, 1, 1) + timedelta(days=certain(operand))).isoformat())


_CASTS: Final[Mapping[tuple[type[t.DataType], type[t.DataType]], _Convert]] = {
    **{(t.Utf8, to): _string_to for to in (t.Int, t.FloatingPoint, t.Decimal, t.Bool, t.Date, t.Timestamp)},
    (t.Utf8, t.Binary): lambda operand, _to, _session: operand.value,
    (t.Int, t.Int): lambda operand, to, _: in_range(certain(operand), to),
    (t.Int, t.FloatingPoint): lambda operand, to, _: _to_floating(certain(operand), to),
    (t.Int, t.Decimal): lambda operand, to, _: _fits(certain(operand) * 10**to.scale, to),
    (t.Int, t.Bool): lambda operand, _to, _session: int(certain(operand) != 0),
    (t.Int, t.Utf8): lambda operand, _to, _session: _text(str(certain(operand))),
    (t.Bool, t.Int): lambda operand, _to, _session: certain(operand),
    (t.Bool, t.FloatingPoint): lambda operand, _to, _session: float(certain(operand)),
    (t.Bool, t.Decimal): lambda operand, to, _: _fits(certain(operand) * 10**to.scale, to),
    (t.Bool, t.Utf8): lambda operand, _to, _session: _text("true" if operand.value else "false"),
    (t.Decimal, t.Int): _decimal_to_int,
    (t.Decimal, t.Decimal): lambda operand, to, _: _fits(rescaled(certain(operand), operand.type.scale, to.scale), to),  # type: ignore[attr-defined]  # a decimal
    (t.Decimal, t.FloatingPoint): _decimal_to_floating,
    (t.Decimal, t.Bool): lambda operand, _to, _session: int(certain(operand) != 0),
    (t.FloatingPoint, t.FloatingPoint): _floating_to_floating,
    (t.FloatingPoint, t.Int): _floating_to_int,
    (t.FloatingPoint, t.Bool): lambda operand, _to, _session: int(certain(operand) != 0),
    (t.Date, t.Timestamp): lambda operand, to, session: literals.cast(operand, to, session.zone),
    (t.Date, t.Utf8): _date_text,
    (t.Timestamp, t.Date): lambda operand, _, session: to_date(operand, session).value,
    (t.Timestamp, t.Timestamp): lambda operand, to, session: (
        literals.cast(operand, to, session.zone)
        if to.timezone is not None
        else (_local(operand, session) - EPOCH) // _MICROSECOND
    ),
}
"""By the classes of both types; None for a value outside the range. Spark has more: floating point numbers and
timestamps as strings, and floating point numbers as decimals, depend on how Java writes them."""
