"""The predicates of the option `where` as values, before columns are resolved.

`parser` makes these from SQL, `bind` gives them types. A predicate is a tree of `And`, `Or` and `Not` over comparisons of
columns with literals or with other columns. Other SQL has no class, so that no predicate is understood in part. `at` is the
position of a condition in the SQL, for errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate.instants import Doubt
from spark_arrow_ipc.errors import printable

Raw: TypeAlias = int | float | bytes
"""A value in the unit of its type, as in a buffer: an integer (0 and 1 for booleans, unscaled decimals, days, microseconds), a
floating point number, or bytes (UTF-8 for strings)."""

WHERE: Final = "the option where"
"""The name in errors of the option that holds a predicate (`ArrowIpcError.asked_by`)."""


def prefix_end(prefix: bytes) -> bytes | None:
    """Return the least bytes above all bytes that start with `prefix`, or None."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,)) if stem else None


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
"""The comparison with the same meaning when its sides are exchanged."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field of a struct, by its names in the SQL."""

    path: tuple[str, ...]

    def __str__(self) -> str:
        return printable(".".join(self.path))


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    # its type in Spark, as an Arrow type: `Null`, `Bool`, a signed `Int`, `FloatingPoint`, 128-bit `Decimal`, `Utf8`,
    # `Binary`, `Date`, `Timestamp`, `Time` or `Duration` in microseconds
    type: t.DataType
    value: Raw | Doubt | None  # None for `Null` only; a `Doubt` for an instant of an unknown time zone
    sql: str  # the literal in the SQL
    is_cast: bool = False  # whether it is the result of a cast, to which Spark's rules of literals do not apply

    def __str__(self) -> str:
        return printable(self.sql)


@dataclass(frozen=True, slots=True)
class TimestampLiteral:
    """A literal ``TIMESTAMP '...'``, whose instant may depend on the session's time zone."""

    value: str  # the string
    # whether the session decides its type, if the string has no zone; false for ``TIMESTAMP_LTZ '...'``
    is_session_type: bool = True

    def __str__(self) -> str:
        return f"TIMESTAMP {self.value!r}"


@dataclass(frozen=True, slots=True)
class ColumnCall:
    """A function of a column: ``YEAR``, ``MONTH``, ``DAY``, ``UPPER`` or ``LOWER``."""

    function: str
    column: Column

    def __str__(self) -> str:
        return f"{self.function.lower()}({self.column})"


Operand: TypeAlias = Column | ColumnCall | Literal | TimestampLiteral


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of two operands."""

    operator: Operator
    left: Operand
    right: Operand
    at: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.left} {self.operator.value} {self.right}"


_SHOWN = 20
"""Options of a list in its string."""


@dataclass(frozen=True, slots=True)
class In:
    """An operand and the literals of a list."""

    operand: Operand
    options: tuple[Literal | TimestampLiteral, ...]
    at: str = field(default="", compare=False)

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.options[:_SHOWN])) + (", ..." if len(self.options) > _SHOWN else "")
        return f"{self.operand} IN ({shown})"


@dataclass(frozen=True, slots=True)
class Keys:
    """An operand and whole numbers or days of its own type, sorted and each once: `In` for hundreds of thousands."""

    operand: Column | ColumnCall
    type: t.DataType
    values: tuple[int, ...]
    has_null: bool  # whether NULL is in the list
    at: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.operand} IN ({len(self.values):,} keys)"


@dataclass(frozen=True, slots=True)
class Like:
    """A column and a pattern without wildcards but ``%`` at the ends, or once inside."""

    operand: Column  # the column
    # The strings between the ``%``, as UTF-8: one is an exact match, ``(b"a", b"")`` is ``a%``, ``(b"", b"a", b"")``
    # is ``%a%``. None for the pattern NULL.
    parts: tuple[bytes, ...] | None
    at: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.operand} LIKE ..."


@dataclass(frozen=True, slots=True)
class IsNull:
    """A test for null."""

    operand: Operand
    at: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.operand} IS NULL"


@dataclass(frozen=True, slots=True)
class Bare:
    """A boolean column or literal as a condition."""

    operand: Operand
    at: str = field(default="", compare=False)

    def __str__(self) -> str:
        return str(self.operand)


@dataclass(frozen=True, slots=True)
class Not:
    """NOT; unknown stays unknown."""

    part: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """AND of two or more predicates."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """OR of two or more predicates."""

    parts: tuple[Predicate, ...]


Condition: TypeAlias = Comparison | In | Keys | Like | IsNull | Bare
Predicate: TypeAlias = Condition | Not | And | Or


def columns(predicate: Predicate) -> tuple[Column, ...]:
    """Return the columns that a predicate names, each once, in the order of the SQL."""
    return tuple(dict.fromkeys(_columns(predicate)))


def _columns(predicate: Predicate) -> Iterator[Column]:
    match predicate:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _columns(part)
        case Not(part):
            yield from _columns(part)
        case Comparison(_, left, right):
            yield from (column for side in (left, right) for column in _column_of(side))
        case In(operand) | Keys(operand) | Like(operand) | IsNull(operand) | Bare(operand):
            yield from _column_of(operand)


def _column_of(operand: Operand) -> tuple[Column, ...]:
    if isinstance(operand, ColumnCall):
        return (operand.column,)
    return (operand,) if isinstance(operand, Column) else ()
