"""Find the settings of a session on which a comparison or a list may depend.

ANSI mode is tried both ways: `bind` binds a comparison in the types of both modes, and depends on the mode if the results
differ. Whether any other setting matters follows from the types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from typing import Final, TypeAlias

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate import DATETIME_STRINGS, PRECISION, TIMESTAMP_TYPE, TRUNCATION
from spark_arrow_ipc.dataset.predicate.bound import BoundColumn
from spark_arrow_ipc.dataset.predicate.coercion import MAX_PRECISION, UTC_TIMESTAMP, common_type
from spark_arrow_ipc.dataset.predicate.expressions import Literal, Operand, TimestampLiteral
from spark_arrow_ipc.dataset.predicate.literals import cast_to, narrowest_type
from spark_arrow_ipc.dataset.time_zones import parse_timestamp

_Side: TypeAlias = BoundColumn | Literal


def settings_of(operands: Sequence[Operand], sides: Sequence[_Side], common: t.DataType | None) -> Iterator[str]:
    """Yield the settings, except ANSI mode, that can matter to a comparison of `sides`, which are `operands`, as `common`."""
    types = {side.type for side in sides}
    classes = set(map(type, types))
    if t.Utf8 in classes and not classes.isdisjoint((t.Date, t.Timestamp)):
        yield DATETIME_STRINGS
    if isinstance(common, t.Decimal) and common.precision == MAX_PRECISION:
        scales = [type_.scale for type_ in types if isinstance(type_, t.Decimal)]
        if common.scale < max(scales, default=0):
            yield TRUNCATION
            if any(isinstance(side, Literal) and narrowest_type(side) != side.type for side in sides):
                yield PRECISION
    # A local time that is compared with instants is an instant in every session.
    has_instants = any(isinstance(side, BoundColumn) and side.type == UTC_TIMESTAMP for side in sides[:2])
    if not has_instants and any(map(_is_by_setting, operands)):
        yield TIMESTAMP_TYPE


def _is_by_setting(operand: Operand) -> bool:
    """Return whether an operand's type depends on `TIMESTAMP_TYPE`: it is ``TIMESTAMP '...'`` without a zone in the string."""
    if not isinstance(operand, TimestampLiteral) or not operand.is_session_type:
        return False
    parsed = parse_timestamp(operand.value)
    return parsed is None or parsed.tzinfo is None


def legacy_type(left: t.DataType, right: t.DataType) -> t.DataType | None:
    """Return the type in which ``TypeCoercion`` of Spark's analyzer compares two sides without ANSI mode."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, t.Int) and isinstance(other, t.FloatingPoint):
            return other
        if isinstance(one, t.Utf8) and isinstance(other, t.Int | t.FloatingPoint):
            return other
        if isinstance(one, t.Utf8) and isinstance(other, t.Decimal) and other.scale == 0:
            return other
    return common_type(left, right)


def as_legacy(side: _Side, to: t.DataType) -> _Side:
    """Return a side of a comparison; a literal is cast first, as Spark folds it without ANSI mode."""
    return side if isinstance(side, BoundColumn) or side.type == to else cast_to(side, to, side.sql)


def legacy_list_type(types: Sequence[t.DataType]) -> t.DataType | None:
    """Return the type of an operand and a list of numbers without ANSI mode."""
    common: t.DataType | None = t.null
    for type_ in types:
        common = legacy_type(common, type_) if common is not None else None
    return common


def is_list_of_strings_and_others(operand: _Side, options: Sequence[Literal]) -> bool:
    """Return whether a list depends on ANSI mode, without which Spark compares strings with other types as strings."""
    classes = {type(side.type) for side in (operand, *options)} - {t.Null}
    return t.Utf8 in classes and len(classes) > 1 and not _are_canonical(operand, options)


def _are_canonical(operand: _Side, options: Sequence[Literal]) -> bool:
    """Return whether values and strings that are equal are equal as strings, too."""
    is_canonical = _CANONICAL.get(type(operand.type)) if isinstance(operand, BoundColumn) else None
    if is_canonical is None:
        return False
    for option in options:
        if isinstance(option.type, t.Utf8):
            if isinstance(option.value, bytes) and not is_canonical(option.value):
                return False
        elif type(option.type) not in (type(operand.type), t.Null):
            return False
    return True


def _is_canonical_date(value: bytes) -> bool:
    try:
        return date.fromisoformat(value.decode()).isoformat().encode() == value
    except ValueError:
        return False


_CANONICAL: Final[Mapping[type[t.DataType], Callable[[bytes], bool]]] = {
    # Bounded before int(), which is quadratic in the digits.
    t.Int: lambda value: len(value) < 20 and value.removeprefix(b"-").isdigit() and str(int(value)).encode() == value,
    t.Date: _is_canonical_date,
}
"""By the class of a column: whether a string is as Spark formats the column's values."""
