"""Predicates over resolved columns, in the columns' own types: the input of evaluators.

`bind` makes these. `Range`, `OneOf` and `Like` compare one column in its own type, `Pair` compares two. Evaluators
(``dataset/predicate/prune.py``, ``spark/read/row_filter.py``) have a row for each class, and need neither SQL nor Spark's
casts.

Truth is three-valued as in SQL: true, false, unknown. A leaf over a null is unknown, except `IsNull` and `NullSafe`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate.coercion import Cut, cut, order_key
from spark_arrow_ipc.dataset.predicate.expressions import Operator, Raw
from spark_arrow_ipc.errors import printable


@dataclass(frozen=True, slots=True)
class BoundColumn:
    """A resolved column or field of a struct."""

    path: tuple[str, ...]  # its names in the schema
    type: t.DataType  # its type as Spark sees it, or the type of the function's results
    function: str | None = None  # a function of its values, one of `ARGUMENTS`

    def __str__(self) -> str:
        name = printable(".".join(self.path))
        return name if self.function is None else f"{self.function.lower()}({name})"

    @property
    def base(self) -> BoundColumn:
        """The column without the function."""
        return self if self.function is None else BoundColumn(self.path, ARGUMENTS[self.function][0])


ARGUMENTS: Final[Mapping[str, tuple[t.DataType, t.DataType]]] = {
    **dict.fromkeys(("YEAR", "MONTH", "DAY"), (t.date32, t.int32)),
    **dict.fromkeys(("UPPER", "LOWER"), (t.utf8, t.utf8)),
}
"""By function: the type of its argument and the type of its results."""


@dataclass(frozen=True, slots=True)
class Constant:
    """True, false, or unknown (None), for every row."""

    truth: bool | None


@dataclass(frozen=True, slots=True)
class Range:
    """``lower <= value < upper`` in the order of the column's type; None stands for no bound.

    With `is_point`, `lower` is the only value inside.
    """

    column: BoundColumn
    lower: Raw | None
    upper: Raw | None
    is_point: bool = False


@dataclass(frozen=True, slots=True)
class OneOf:
    """The value is one of `values`, which have the column's type, are sorted, and never NaN."""

    column: BoundColumn
    values: tuple[Raw, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """The string starts with `prefix`, ends with `suffix` after it, and contains `infix`."""

    column: BoundColumn
    prefix: bytes
    suffix: bytes
    infix: bytes


@dataclass(frozen=True, slots=True)
class Doubtful:
    """A comparison with an instant of an unknown time zone: values in ``lower <= value < upper`` may be true or false."""

    column: BoundColumn  # compared in its own type
    # bounds of the doubt
    lower: int
    upper: int
    # the truth of values below and above
    is_below: bool
    is_above: bool
    why: str  # the reason and the next step, for an error


@dataclass(frozen=True, slots=True)
class Unsure:
    """A predicate over literals that is undecided until the session's time zone is known; see `Doubtful`."""

    why: str


@dataclass(frozen=True, slots=True)
class Pair:
    """Two columns compare, both cast to `common`."""

    operator: Operator
    left: BoundColumn
    right: BoundColumn
    common: t.DataType


@dataclass(frozen=True, slots=True)
class IsNull:
    """The column is null. Never unknown."""

    column: BoundColumn


@dataclass(frozen=True, slots=True)
class NullSafe:
    """The part, with false for unknown."""

    part: BoundPredicate


@dataclass(frozen=True, slots=True)
class Negated:
    """NOT."""

    part: BoundPredicate


@dataclass(frozen=True, slots=True)
class All:
    """AND of any number of parts."""

    parts: tuple[BoundPredicate, ...]


@dataclass(frozen=True, slots=True)
class Any_:  # noqa: N801 - `Any` is typing's
    """OR of any number of parts."""

    parts: tuple[BoundPredicate, ...]


BoundPredicate: TypeAlias = (
    Constant | Range | OneOf | Like | Doubtful | Unsure | Pair | IsNull | NullSafe | Negated | All | Any_
)


def is_empty(bound: Range) -> bool:
    """Return whether no value can be in a range."""
    if bound.lower is None or bound.upper is None:
        return False
    return bool(order_key(bound.lower) == order_key(bound.upper))


def points_of(part: BoundPredicate) -> tuple[Raw, ...]:
    """Return the values for which a part is true; none if they are not a list of values."""
    if isinstance(part, OneOf):
        return part.values
    if not isinstance(part, Range) or not part.is_point or part.lower is None:
        return ()
    is_nan = part.lower != part.lower
    return () if is_nan else (part.lower,)  # `OneOf` has no NaN, which equals itself only in Spark


def merge_alternatives(parts: Iterable[BoundPredicate]) -> list[BoundPredicate]:
    """Return the parts of an OR, with one part for all values that a column may equal, and one for overlapping doubts."""
    # Lists of hundreds of thousands of keys are then one search, and not a predicate each.
    of_columns: dict[BoundColumn, list[BoundPredicate]] = {}
    doubts: dict[BoundColumn, list[Doubtful]] = {}
    others: list[BoundPredicate] = []
    for part in parts:
        if points_of(part):
            assert isinstance(part, Range | OneOf)
            of_columns.setdefault(part.column, []).append(part)
        elif isinstance(part, Doubtful) and not part.is_below and not part.is_above:  # an equality
            doubts.setdefault(part.column, []).append(part)
        else:
            others.append(part)
    for column, same in of_columns.items():
        values = dict.fromkeys(value for part in same for value in points_of(part))
        others.append(same[0] if len(same) == 1 else OneOf(column, tuple(sorted(values))))
    for overlapping in doubts.values():
        joined: list[Doubtful] = []
        for doubt in sorted(overlapping, key=lambda doubt: doubt.lower):
            if joined and doubt.lower <= joined[-1].upper:
                joined[-1] = replace(joined[-1], upper=max(joined[-1].upper, doubt.upper))
            else:
                joined.append(doubt)
        others += joined
    return others


def has_doubt(bound: BoundPredicate) -> bool:
    """Return whether a part of a predicate depends on the unknown time zone."""
    match bound:
        case All(parts) | Any_(parts):
            return any(map(has_doubt, parts))
        case Negated(part) | NullSafe(part):
            return has_doubt(part)
        case _:
            return isinstance(bound, Doubtful | Unsure)


def bound_columns(bound: BoundPredicate) -> tuple[BoundColumn, ...]:
    """Return the columns of a predicate, each once."""
    return tuple(dict.fromkeys(_columns(bound)))


def _columns(bound: BoundPredicate) -> Iterator[BoundColumn]:
    match bound:
        case All(parts) | Any_(parts):
            for part in parts:
                yield from _columns(part)
        case Negated(part) | NullSafe(part):
            yield from _columns(part)
        case Pair(_, left, right):
            yield from (left, right)
        case Range(column) | OneOf(column) | Like(column) | Doubtful(column) | IsNull(column):
            yield column


COMPARE: Final[Mapping[Operator, Callable[[Any, Any], bool]]] = {
    Operator.EQ: lambda left, right: bool(left == right),
    Operator.NULL_SAFE_EQ: lambda left, right: bool(left == right),
    Operator.NE: lambda left, right: bool(left != right),
    Operator.LT: lambda left, right: bool(left < right),
    Operator.LE: lambda left, right: bool(left <= right),
    Operator.GT: lambda left, right: bool(left > right),
    Operator.GE: lambda left, right: bool(left >= right),
}
"""Comparisons of two values that are not null, by their `order_key`."""


def _below(column: BoundColumn, lower: Raw | None, *, is_least: bool) -> BoundPredicate:
    if lower is None:
        return Range(column, None, None)
    return Negated(Range(column, None, None)) if is_least else Range(column, None, lower)


def _from(column: BoundColumn, lower: Raw | None, *, is_least: bool) -> BoundPredicate:
    if lower is None:
        return Negated(Range(column, None, None))
    return Range(column, None if is_least else lower, None)


def _equal(column: BoundColumn, position: Cut) -> Range:
    if position.lower is None:  # all values are below the constant
        return Range(column, *EMPTY)
    return Range(column, position.lower, position.upper, is_point=_is_point(column.type, position))


EMPTY: Final = (1, 1)
"""Bounds of an empty range, for every type: `is_empty` is checked before values are compared with them."""


def _is_point(type_: t.DataType, position: Cut) -> bool:
    """Return whether only one value of a type equals a constant."""
    lower, upper = position.lower, position.upper
    if isinstance(lower, bytes):
        return True
    if isinstance(lower, float):
        assert isinstance(type_, t.FloatingPoint)
        if upper is None:
            return math.isnan(lower)  # the greatest value
        exact = cut(type_, type_, lower)
        return exact is not None and exact.upper is not None and order_key(exact.upper) == order_key(upper)
    if upper is None:
        # The greatest value of the type, or a lossy cast of several values to the constant.
        exact = cut(type_, type_, lower) if lower is not None else None
        return exact is not None and exact.upper is None
    assert isinstance(upper, int)
    return lower is not None and upper - lower == 1


COMPARISONS: Final[Mapping[Operator, Callable[[BoundColumn, Cut], BoundPredicate]]] = {
    Operator.EQ: _equal,
    Operator.NULL_SAFE_EQ: _equal,
    Operator.NE: lambda column, position: Negated(_equal(column, position)),
    Operator.LT: lambda column, position: _below(column, position.lower, is_least=position.is_least),
    Operator.GE: lambda column, position: _from(column, position.lower, is_least=position.is_least),
    Operator.LE: lambda column, position: _below(column, position.upper, is_least=False),
    Operator.GT: lambda column, position: _from(column, position.upper, is_least=False),
}
"""By operator: the predicate over a column's own values for a comparison with a constant, by its position among them."""

DOUBTS: Final[Mapping[Operator, tuple[bool, bool]]] = {
    Operator.EQ: (False, False),
    Operator.NULL_SAFE_EQ: (False, False),
    Operator.NE: (True, True),
    Operator.LT: (True, False),
    Operator.LE: (True, False),
    Operator.GT: (False, True),
    Operator.GE: (False, True),
}
"""By operator: the truth of values below and above a doubt."""
