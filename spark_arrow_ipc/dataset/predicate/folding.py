"""Compute expressions over literals: casts and arithmetic.

Spark's optimizer folds such expressions before it reads; here it happens when a predicate is bound, because some depend
on the session's time zone. Each operation has a row for each pair of types that has Spark's exact result: the types of
ANSI mode, overflow and division by zero as errors. Everything else is refused, and so is what a Python date cannot
hold.
"""

from __future__ import annotations

import operator
from calendar import monthrange
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any, Final, TypeAlias

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate import ANSI, PRECISION, literals
from spark_arrow_ipc.dataset.predicate.coercion import (
    MAX_PRECISION,
    UTC_TIMESTAMP,
    common_type,
    decimal_of,
    precision_of,
    spark_name,
)
from spark_arrow_ipc.dataset.predicate.expressions import Expression, Literal, TimestampLiteral
from spark_arrow_ipc.dataset.predicate.instants import (
    DAY_MICROSECONDS,
    EPOCH,
    Doubt,
    UncertainInstantError,
    instant,
    local_time,
    needs_zone,
)
from spark_arrow_ipc.dataset.predicate.literal_casts import Session, cast_to, certain, in_range, refused
from spark_arrow_ipc.errors import OptionError

_MICROSECOND: Final = timedelta(microseconds=1)


Constant: TypeAlias = Literal | TimestampLiteral | Expression


def fold(constant: Constant, session: Session) -> Literal:
    """Return the value of an expression over literals."""
    if isinstance(constant, Literal):
        return constant
    if isinstance(constant, TimestampLiteral):
        return literals.timestamp(constant, session.zone)
    operands = [fold(operand, session) for operand in constant.operands]
    folded = _OPERATIONS[constant.operation](constant, operands, session)
    return replace(folded, sql=constant.sql, is_computed=True)


def _cast(constant: Expression, operands: list[Literal], session: Session) -> Literal:
    (operand,) = operands
    assert constant.to is not None
    return cast_to(operand, constant.to, session, constant.sql)


_ARITHMETIC: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def _arithmetic(constant: Expression, operands: list[Literal], session: Session) -> Literal:
    left, right = operands
    find = _RESULTS.get((type(left.type), type(right.type), constant.operation))
    if find is None:
        raise OptionError(f"where does not compute {constant}, of {spark_name(left.type)} and {spark_name(right.type)}")
    if left.value is None or right.value is None:
        # NULL of the right type, whatever the other value is.
        ones = [replace(side, value=1) for side in (left, right)]
        return replace(find(constant, ones[0], ones[1], session), value=None)
    return find(constant, left, right, session)


_Result = Callable[[Expression, Literal, Literal, Session], Literal]


def _of_ints(constant: Expression, left: Literal, right: Literal, _session: Session) -> Literal:
    to = common_type(left.type, right.type)
    assert isinstance(to, t.Int)
    value = in_range(_ARITHMETIC[constant.operation](certain(left), certain(right)), to)
    if value is None:
        raise refused(constant.sql, f"a result within the range of {spark_name(to)}")
    return Literal(to, value, constant.sql)


def _of_floats(constant: Expression, left: Literal, right: Literal, session: Session) -> Literal:
    to = common_type(left.type, right.type)
    assert isinstance(to, t.FloatingPoint)
    if constant.operation == "/":
        to = t.float64
    elif t.float32 in (left.type, right.type) and t.Int in (type(left.type), type(right.type)):
        session.noted.setdefault(ANSI, constant.sql)
    values = [certain(cast_to(side, to, session, constant.sql)) for side in (left, right)]
    if constant.operation == "/" and values[1] == 0:
        raise refused(constant.sql, "a divisor that is not zero")
    kind = np.float32 if to.precision is t.Precision.SINGLE else np.float64
    with np.errstate(all="ignore"):
        return Literal(to, float(_ARITHMETIC[constant.operation](kind(values[0]), kind(values[1]))), constant.sql)


def _quotient(constant: Expression, left: Literal, right: Literal, session: Session) -> Literal:
    """Divide whole numbers: both are doubles."""
    doubles = [cast_to(side, t.float64, session, constant.sql) for side in (left, right)]
    return _of_floats(constant, doubles[0], doubles[1], session)


def _of_decimals(constant: Expression, left: Literal, right: Literal, session: Session) -> Literal:
    types = [narrowest_type(side) for side in (left, right)]
    if types != [left.type, right.type]:
        session.noted.setdefault(PRECISION, constant.sql)
    types = [decimal_of(type_) if isinstance(type_, t.Int) else type_ for type_ in types]
    (p1, s1), (p2, s2) = ((type_.precision, type_.scale) for type_ in types if isinstance(type_, t.Decimal))
    if constant.operation == "*":
        precision, scale = p1 + p2 + 1, s1 + s2
        value = certain(left) * certain(right)
    else:
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale + 1
        sides = certain(left) * 10 ** (scale - s1), certain(right) * 10 ** (scale - s2)
        value = _ARITHMETIC[constant.operation](*sides)
    if precision > MAX_PRECISION:
        raise refused(constant.sql, f"a result of at most {MAX_PRECISION} digits by Spark's rules for decimals")
    return Literal(t.Decimal(precision, scale), value, constant.sql)


def narrowest_type(literal: Literal) -> t.DataType:
    """Return the type of a literal beside a decimal: a whole number is a decimal of just its digits.

    As ``DecimalPrecisionTypeCoercion`` does for literals of smallint, int and bigint; a tinyint keeps three digits.
    """
    is_whole = isinstance(literal.type, t.Int) and literal.type.bit_width > 8 and not literal.is_computed
    if not is_whole or not isinstance(literal.value, int):
        return literal.type
    return t.Decimal(precision_of(literal.value), 0)


def _of_intervals(constant: Expression, left: Literal, right: Literal, _session: Session) -> Literal:
    value = _ARITHMETIC[constant.operation](certain(left), certain(right))
    if not -(1 << 63) <= value < 1 << 63:
        raise refused(constant.sql, "an interval within its type's range")
    interval = left if isinstance(left.type, t.Duration) else right
    is_sum = isinstance(left.type, t.Duration) and isinstance(right.type, t.Duration)
    return Literal(interval.type, value, constant.sql, is_days=is_sum and left.is_days and right.is_days)


def _date_and_days(constant: Expression, left: Literal, right: Literal, _session: Session) -> Literal:
    day, days = (left, right) if isinstance(left.type, t.Date) else (right, left)
    if isinstance(days.type, t.Int) and days.type.bit_width > 32:
        raise refused(constant.sql, "an int of days, which is no bigint")
    value = _ARITHMETIC[constant.operation](certain(day), certain(days))
    return _checked_date(value, constant.sql)


def _checked_date(value: int, sql: str) -> Literal:
    try:
        date(1970, 1, 1) + timedelta(days=value)
    except OverflowError as error:
        raise refused(sql, "a date of the years 1 to 9999") from error
    return Literal(t.date32, value, sql)


def _date_and_interval(constant: Expression, left: Literal, right: Literal, session: Session) -> Literal:
    sides = {True: left, False: right}
    day = sides[isinstance(left.type, t.Date)]
    span = sides[not isinstance(left.type, t.Date)]
    sign = -1 if constant.operation == "-" else 1
    if isinstance(span.type, t.IntervalYearMonth):
        moved = _plus_months(EPOCH + timedelta(days=certain(day)), sign * certain(span), constant.sql)
        return Literal(t.date32, (moved - EPOCH).days, constant.sql)
    if span.is_days:
        return _checked_date(certain(day) + sign * (certain(span) // DAY_MICROSECONDS), constant.sql)
    moment = cast_to(day, UTC_TIMESTAMP, session, day.sql)
    return _timestamp_and_interval(constant, *((moment, span) if day is left else (span, moment)), session)


def _timestamp_and_interval(constant: Expression, left: Literal, right: Literal, session: Session) -> Literal:
    is_first = isinstance(left.type, t.Timestamp)
    moment, span = (left, right) if is_first else (right, left)
    assert isinstance(moment.type, t.Timestamp)
    count = -certain(span) if constant.operation == "-" else certain(span)
    is_months = isinstance(span.type, t.IntervalYearMonth)
    # Spark moves an instant by whole days, and by months, on the clock of its time zone.
    days = 0 if is_months else abs(count) // DAY_MICROSECONDS * (-1 if count < 0 else 1)
    try:
        if moment.type.timezone is None or not (days or is_months):
            at = EPOCH + certain(moment) * _MICROSECOND
            at = _plus_months(at, count, constant.sql) if is_months else at + count * _MICROSECOND
            return Literal(moment.type, (at - EPOCH) // _MICROSECOND, constant.sql)
        if session.zone is None:
            raise OptionError(needs_zone(constant.sql))
        before = local_time(certain(moment), session.zone, constant.sql)
        clock = before.replace(tzinfo=None)
        clock = _plus_months(clock, count, constant.sql) if is_months else clock + timedelta(days=days)
        for fold_ in (1, 0):
            # An hour that comes twice keeps its offset.
            after = clock.replace(tzinfo=session.zone, fold=fold_)
            if after.utcoffset() == before.utcoffset():
                break
        value = instant(after, session.zone, constant.sql)
    except OverflowError as error:
        raise refused(constant.sql, "a time of the years 1 to 9999") from error
    if isinstance(value, Doubt):
        raise UncertainInstantError(value.why)
    rest = 0 if is_months else count - days * DAY_MICROSECONDS
    return Literal(UTC_TIMESTAMP, value + rest, constant.sql)


def _plus_months(moment: datetime, months: int, sql: str) -> datetime:
    """Move a date by months; a day that the month does not have is its last."""
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise refused(sql, "a date of the years 1 to 9999")
    return moment.replace(year=year, month=month + 1, day=min(moment.day, monthrange(year, month + 1)[1]))


_RESULTS: Final[Mapping[tuple[type[t.DataType], type[t.DataType], str], _Result]] = {
    **{(t.Int, t.Int, sign): _of_ints for sign in "+-*"},
    (t.Int, t.Int, "/"): _quotient,
    **{
        (left, right, sign): _of_floats
        for left in (t.Int, t.Decimal, t.FloatingPoint)
        for right in (t.Int, t.Decimal, t.FloatingPoint)
        for sign in "+-*/"
        if t.FloatingPoint in (left, right)
    },
    **{
        (left, right, sign): _of_decimals
        for left, right in ((t.Int, t.Decimal), (t.Decimal, t.Int), (t.Decimal, t.Decimal))
        for sign in "+-*"
    },
    (t.Duration, t.Duration, "+"): _of_intervals,
    (t.Duration, t.Duration, "-"): _of_intervals,
    (t.Duration, t.Int, "*"): _of_intervals,
    (t.Int, t.Duration, "*"): _of_intervals,
    (t.Date, t.Int, "+"): _date_and_days,
    (t.Date, t.Int, "-"): _date_and_days,
    (t.Int, t.Date, "+"): _date_and_days,
    **{
        key: made
        for moment, made in ((t.Date, _date_and_interval), (t.Timestamp, _timestamp_and_interval))
        for span in (t.Duration, t.IntervalYearMonth)
        for key in ((moment, span, "+"), (moment, span, "-"), (span, moment, "+"))
    },
}
"""By the classes of both types and the operator."""


def _negated(constant: Expression, operands: list[Literal], _session: Session) -> Literal:
    (operand,) = operands
    if operand.value is None:
        return operand
    if not isinstance(operand.type, t.Int | t.FloatingPoint | t.Decimal | t.Duration | t.IntervalYearMonth):
        raise OptionError(f"where does not negate the {spark_name(operand.type)} literal {operand}")
    value = -certain(operand)
    if isinstance(operand.type, t.Int) and in_range(value, operand.type) is None:
        raise refused(constant.sql, f"a result within the range of {spark_name(operand.type)}")
    return replace(operand, value=value)


_OPERATIONS: Final[Mapping[str, Callable[[Expression, list[Literal], Session], Literal]]] = {
    "CAST": _cast,
    "NEGATE": _negated,
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
}
