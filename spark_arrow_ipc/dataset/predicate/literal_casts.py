"""Casts of literals that a predicate writes, as Spark's ANSI mode casts them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate import literals
from spark_arrow_ipc.dataset.predicate.coercion import precision_of, rescale, spark_name
from spark_arrow_ipc.dataset.predicate.expressions import Literal, Raw
from spark_arrow_ipc.dataset.time_zones import BLANKS
from spark_arrow_ipc.errors import OptionError


def cast_to(operand: Literal, to: t.DataType, sql: str) -> Literal:
    """Return a literal cast to a type; raises for what is outside its range."""
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
    """Return a magnitude number, or None if its type does not hold it."""
    return value if -1 <= value >> (to.bit_width - 1) <= 0 else None


def _fits(value: int, to: t.Decimal) -> int | None:
    return value if precision_of(value) <= to.precision else None


def _to_floating(value: Decimal | int, to: t.FloatingPoint) -> float:
    if to.precision is t.Precision.SINGLE:
        return literals.nearest_single(Decimal(value))
    return float(value)


def _string_to(operand: Literal, to: t.DataType) -> Any:
    if isinstance(to, t.FloatingPoint) and to.precision is t.Precision.SINGLE:
        double = literals.cast(operand, t.float64, None)
        assert isinstance(double, float)
        if not math.isfinite(double) or double == 0:
            return double
        assert isinstance(operand.value, bytes)
        return literals.nearest_single(Decimal(operand.value.decode().strip(BLANKS)))
    return literals.cast(operand, to, None)


def _decimal_to_floating(operand: Any, to: t.FloatingPoint) -> float:
    if to.precision is t.Precision.DOUBLE:
        return float(operand.value / 10**operand.type.scale)
    return literals.nearest_single(Decimal(operand.value).scaleb(-operand.type.scale))


def _decimal_to_int(operand: Any, to: t.Int) -> int | None:
    magnitude = abs(operand.value) // 10**operand.type.scale
    return in_range(-magnitude if operand.value < 0 else magnitude, to)


def _floating_to_int(operand: Any, to: t.Int) -> int | None:
    return in_range(math.trunc(operand.value), to) if math.isfinite(operand.value) else None


def _floating_to_floating(operand: Any, to: t.FloatingPoint) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(operand.value)) if to.precision is t.Precision.SINGLE else operand.value


_CASTS: Final[Mapping[tuple[type[t.DataType], type[t.DataType]], Callable[[Any, Any], Raw | None]]] = {
    **{(t.Utf8, to): _string_to for to in (t.Int, t.FloatingPoint, t.Decimal, t.Bool, t.Binary)},
    (t.Int, t.Int): lambda operand, to: in_range(operand.value, to),
    (t.Int, t.FloatingPoint): lambda operand, to: _to_floating(operand.value, to),
    (t.Int, t.Decimal): lambda operand, to: _fits(operand.value * 10**to.scale, to),
    (t.Decimal, t.Int): _decimal_to_int,
    (t.Decimal, t.Decimal): lambda operand, to: _fits(rescale(operand.value, operand.type.scale, to.scale), to),
    (t.Decimal, t.FloatingPoint): _decimal_to_floating,
    (t.FloatingPoint, t.FloatingPoint): _floating_to_floating,
    (t.FloatingPoint, t.Int): _floating_to_int,
}
"""By the classes of both types; None for a value outside the range."""
