"""The predicates of the option `where`, as frozen values: what was written, before anything is known of columns.

Strategy
--------
`parser` makes these of SQL text, `bind` gives them types. A predicate is a tree of `And`,
`Or` and `Not` over comparisons of columns with literals or with other columns. Whatever SQL has beyond that is no
value here, so that nothing can be half understood.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from spark_arrow_ipc.arrow import types as t

__all__ = [
    "And",
    "Bare",
    "Column",
    "Comparison",
    "In",
    "IsNull",
    "Like",
    "Literal",
    "Not",
    "Operand",
    "Operator",
    "Or",
    "Predicate",
    "Raw",
    "TimestampText",
    "columns",
]

Raw: TypeAlias = int | float | bytes
"""A value in the unit of its type, as it lies in a buffer: whole numbers (0 and 1 for booleans, unscaled decimals,
days, microseconds), floating point numbers, and bytes, which text is by its UTF-8."""


class Operator(Enum):
    """A comparison."""

    EQ = "="
    NULL_SAFE_EQ = "<=>"
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


MIRRORED: Mapping[Operator, Operator] = {
    Operator.EQ: Operator.EQ,
    Operator.NULL_SAFE_EQ: Operator.NULL_SAFE_EQ,
    Operator.NE: Operator.NE,
    Operator.LT: Operator.GT,
    Operator.LE: Operator.GE,
    Operator.GT: Operator.LT,
    Operator.GE: Operator.LE,
}
"""The comparison that says the same with its sides exchanged."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field of a struct, by the names as they were written."""

    path: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant.

    Parameters
    ----------
    type
        Spark's type of it, as an Arrow type: `Null`, `Bool`, a signed `Int`, `FloatingPoint`, 128-bit `Decimal`,
        `Utf8`, `Binary`, `Date`, `Timestamp`, `Time` or `Duration` in microseconds.
    value
        None for `Null` only.
    text
        As it was written.
    """

    type: t.DataType
    value: Raw | None
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class TimestampText:
    """A literal ``TIMESTAMP '...'``: which instant it is, the time zone says, where the text does not."""

    value: str

    def __str__(self) -> str:
        return f"TIMESTAMP {self.value!r}"


Operand: TypeAlias = Column | Literal | TimestampText


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two operands and how they compare."""

    operator: Operator
    left: Operand
    right: Operand

    def __str__(self) -> str:
        return f"{self.left} {self.operator.value} {self.right}"


@dataclass(frozen=True, slots=True)
class In:
    """An operand and the literals of a list."""

    operand: Operand
    options: tuple[Literal | TimestampText, ...]

    def __str__(self) -> str:
        return f"{self.operand} IN ({', '.join(map(str, self.options))})"


@dataclass(frozen=True, slots=True)
class Like:
    """A column and a pattern without wildcards but ``%`` at the ends, or once inside.

    Parameters
    ----------
    operand
        What is looked at.
    parts
        The texts between the ``%``, as UTF-8: one is an exact match, ``(b"a", b"")`` is ``a%``, ``(b"", b"a", b"")``
        is ``%a%``. None for the pattern NULL.
    """

    operand: Column
    parts: tuple[bytes, ...] | None

    def __str__(self) -> str:
        return f"{self.operand} LIKE ..."


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether an operand is null."""

    operand: Operand

    def __str__(self) -> str:
        return f"{self.operand} IS NULL"


@dataclass(frozen=True, slots=True)
class Bare:
    """A boolean column or literal as a condition."""

    operand: Operand

    def __str__(self) -> str:
        return str(self.operand)


@dataclass(frozen=True, slots=True)
class Not:
    """Negation: unknown stays unknown."""

    part: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """All of two or more."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of two or more."""

    parts: tuple[Predicate, ...]


Predicate: TypeAlias = Comparison | In | Like | IsNull | Bare | Not | And | Or


def columns(predicate: Predicate) -> tuple[Column, ...]:
    """Return the columns that a predicate names, each once, in the order of the text.

    What is read for it must hold these beside the columns that are asked for.
    """
    return tuple(dict.fromkeys(_columns(predicate)))


def _columns(predicate: Predicate) -> Iterator[Column]:
    match predicate:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _columns(part)
        case Not(part):
            yield from _columns(part)
        case Comparison(_, left, right):
            yield from (side for side in (left, right) if isinstance(side, Column))
        case In(operand) | Like(operand) | IsNull(operand) | Bare(operand):
            if isinstance(operand, Column):
                yield operand
