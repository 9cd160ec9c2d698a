"""Parse the operands of a predicate: columns, functions of them, and expressions over literals.

Precedence climbing as in `parser`: ``*`` and ``/`` bind more than ``+`` and ``-``. Arithmetic is of literals alone.
Nothing is computed here but plain literals; `folding` does the rest when the predicate is bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias, TypeVar

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate import INTERVALS, NEGATIVE_SCALES, TIMESTAMP_TYPE, literals
from spark_arrow_ipc.dataset.predicate.coercion import LOCAL_TIMESTAMP, MAX_PRECISION, UTC_TIMESTAMP
from spark_arrow_ipc.dataset.predicate.expressions import (
    WHERE,
    Column,
    ColumnCall,
    Expression,
    Literal,
    Operand,
    TimestampLiteral,
)
from spark_arrow_ipc.dataset.predicate.tokens import STRINGS, Tokens
from spark_arrow_ipc.errors import OptionError

_NO_NAMES: Final = ("AND", "OR", "NOT", "BETWEEN", "LIKE", "CASE", "SELECT", "CURRENT_DATE", "CURRENT_TIMESTAMP", "CURRENT_USER")  # fmt: skip
"""Words that begin no path of a column without backticks. Spark takes its other keywords as names too."""

WORDS: Final[Mapping[str, Literal]] = {
    "NULL": Literal(t.null, None, "NULL"),
    "TRUE": Literal(t.bool_, 1, "TRUE"),
    "FALSE": Literal(t.bool_, 0, "FALSE"),
}
_TYPED: Final[Mapping[str, Callable[[str], Literal | TimestampLiteral]]] = {
    "DATE": literals.date_literal,
    "TIMESTAMP": TimestampLiteral,
    "TIMESTAMP_LTZ": partial(TimestampLiteral, is_session_type=False),
    "TIMESTAMP_NTZ": literals.local_timestamp,
}
"""Types of ``DATE '...'`` and ``CAST('...' AS DATE)``."""

_TYPES: Final[Mapping[str, t.DataType]] = {
    "BOOLEAN": t.bool_,
    "TINYINT": t.int8,
    "BYTE": t.int8,
    "SMALLINT": t.int16,
    "SHORT": t.int16,
    "INT": t.int32,
    "INTEGER": t.int32,
    "BIGINT": t.int64,
    "LONG": t.int64,
    "FLOAT": t.float32,
    "REAL": t.float32,
    "DOUBLE": t.float64,
    "DECIMAL": t.Decimal(10, 0),
    "DEC": t.Decimal(10, 0),
    "NUMERIC": t.Decimal(10, 0),
    "STRING": t.utf8,
    "BINARY": t.binary,
    "DATE": t.date32,
    "TIMESTAMP": UTC_TIMESTAMP,
    "TIMESTAMP_LTZ": UTC_TIMESTAMP,
    "TIMESTAMP_NTZ": LOCAL_TIMESTAMP,
}
"""Types of casts."""

_TYPE_FUNCTIONS: Final = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "STRING", "BINARY", "DATE", "TIMESTAMP")  # fmt: skip
"""Types whose name is a function too: ``DATE('...')`` casts."""

_CLOCK: Final = (
    "compute the date or time in Python and write DATE '...' or TIMESTAMP '...', as where does not read the clock"
)
_REMEDIES: Final[Mapping[str, str]] = dict.fromkeys(("CURRENT_DATE", "CURRENT_TIMESTAMP", "NOW"), _CLOCK)
"""Functions of Spark that are refused: what to do instead."""

_DATE_SUMS: Final = {"DATE_ADD": "+", "DATE_SUB": "-"}
_OF_COLUMNS: Final = {"YEAR": "YEAR", "MONTH": "MONTH", "DAY": "DAY", "DAYOFMONTH": "DAY", "UPPER": "UPPER", "UCASE": "UPPER", "LOWER": "LOWER", "LCASE": "LOWER"}  # fmt: skip
_BINDING: Final = {"+": 1, "-": 1, "*": 2, "/": 2}
"""The binding strength of a sign."""

Constant: TypeAlias = Literal | TimestampLiteral | Expression

_Made = TypeVar("_Made")


def parse_constant(tokens: Tokens, expected: str = "a literal") -> Constant:
    """Parse an expression over literals, which no column is part of."""
    start = tokens.start
    operand = parse_operand(tokens, expected)
    if isinstance(operand, Column | ColumnCall):
        raise tokens.error(expected, f"the column {operand}", start)
    return operand


def parse_operand(tokens: Tokens, expected: str = "a column or a literal", precedence: int = 1) -> Operand:
    """Parse a column, or literals with signs; `precedence` is that of the weakest sign taken."""
    start = tokens.start
    left = _factor(tokens, expected)
    while (binding := _BINDING.get(tokens.key, 0)) >= precedence:
        sign = tokens.key
        tokens.advance()
        right = parse_operand(tokens, expected, binding + 1)
        for side in (left, right):
            if isinstance(side, Column | ColumnCall):
                raise tokens.error("arithmetic on literals alone", f"the column {side}", start)
        assert not isinstance(left, Column | ColumnCall)
        assert not isinstance(right, Column | ColumnCall)
        left = _expression(tokens, start, sign, (left, right))
    return left


def _expression(
    tokens: Tokens, start: int, operation: str, operands: tuple[Constant, ...], to: t.DataType | None = None
) -> Expression:
    """Make an expression that was written from `start` on."""
    depth = 1 + max((operand.depth for operand in operands if isinstance(operand, Expression)), default=0)
    tokens.check_nesting(depth)
    return Expression(operation, operands, tokens.written(start), to, depth)


def _factor(tokens: Tokens, expected: str) -> Operand:
    kind, token = tokens.kind, tokens.token
    if kind == "number":
        return _number(tokens, "")
    if kind in STRINGS:
        return Literal(t.utf8, tokens.take_string(expected).encode(), token)
    if kind == "binary":
        return Literal(t.binary, tokens.take_binary(), token)
    if kind == "name":
        return _column(tokens)
    if kind == "word":
        return _word(tokens, expected)
    if tokens.key in ("+", "-"):
        return _signed(tokens, expected)
    if tokens.skip("("):
        tokens.enter()
        operand = parse_operand(tokens, expected)
        tokens.leave()
        tokens.take(")")
        return operand
    raise tokens.error(expected)


def _word(tokens: Tokens, expected: str) -> Operand:
    """Parse what begins with a word: a typed literal, a call, NULL, TRUE, FALSE, or a column."""
    key, start = tokens.key, tokens.start
    kind, following = tokens.following()
    if key in _TYPED and kind in STRINGS:
        tokens.advance()
        return _located(tokens, start, _TYPED[key], tokens.take_string(expected))
    if key == "INTERVAL" and (kind in (*STRINGS, "number") or following in ("+", "-")):
        return _interval(tokens, "")
    if following == "(":
        return _call(tokens, expected)
    if kind in STRINGS:
        typed = ", ".join(_TYPED)
        raise tokens.error(f"{expected} (typed ones: {typed} and INTERVAL)", f"{tokens.token} {following}")
    if key in _NO_NAMES:
        if key in _REMEDIES:
            raise tokens.error(_instead(expected, key))
        raise tokens.error(f"{expected} (a column of this name stands in backticks)", tokens.token)
    if key in WORDS:
        tokens.advance()
        return WORDS[key]
    return _column(tokens)


def _column(tokens: Tokens) -> Column:
    """Parse names with dots between, each in backticks or not."""
    path = []
    while True:
        path.append(tokens.token if tokens.kind == "word" else tokens.token[1:-1].replace("``", "`"))
        tokens.check_nesting(len(path))
        tokens.advance()
        if not tokens.skip("."):
            return Column(tuple(path))
        if tokens.kind not in ("word", "name") or tokens.following()[1] == "(":
            raise tokens.error("the name of a field after the dot")


def _call(tokens: Tokens, expected: str) -> Operand:
    """Parse a cast, a function of dates or a function of a column."""
    start, function, key = tokens.start, tokens.token, tokens.key
    if key in _REMEDIES:
        raise tokens.error(_instead(expected, key))
    if key not in ("CAST", *_DATE_SUMS, *_OF_COLUMNS, *_TYPE_FUNCTIONS):
        raise tokens.error(expected)
    tokens.advance()
    tokens.take("(")
    tokens.enter()
    made = _called(tokens, start, function, key)
    tokens.leave()
    return made


def _instead(expected: str, key: str) -> str:
    return f"{expected} ({_REMEDIES[key]})"


def _called(tokens: Tokens, start: int, function: str, key: str) -> Operand:
    """Parse the arguments of a call and its closing parenthesis."""
    if key in _OF_COLUMNS:
        operand = parse_operand(tokens)
        tokens.take(")")
        if not isinstance(operand, Column):
            raise tokens.error(f"a column in {function}(...)", str(operand), start)
        return ColumnCall(_OF_COLUMNS[key], operand)
    string, inside = tokens.kind in STRINGS, tokens.start
    value = parse_constant(tokens, f"a literal in {function}(...)")
    if key in _DATE_SUMS:
        day = _expression(tokens, inside, "CAST", (value,), t.date32)
        tokens.take(",")
        days = parse_constant(tokens, f"a literal in {function}(...)")
        tokens.take(")")
        return _expression(tokens, start, _DATE_SUMS[key], (day, days))
    if key == "CAST":
        tokens.take("AS")
        key = tokens.key
        to = _type(tokens)
    else:
        to = _TYPES[key]
    tokens.take(")")
    if function.upper() == "CAST" and key == "TIMESTAMP":
        tokens.note(TIMESTAMP_TYPE, f"CAST({value} AS {key})")
    if key in _TYPED and string and isinstance(value, Literal):
        assert isinstance(value.value, bytes)
        return _located(tokens, start, _TYPED[key], value.value.decode())
    return _expression(tokens, start, "CAST", (value,), to)


def _type(tokens: Tokens) -> t.DataType:
    """Parse the type of a cast."""
    key, start = tokens.key, tokens.start
    if key not in _TYPES:
        raise tokens.error(f"a cast to {', '.join(_TYPES)}")
    tokens.advance()
    type_ = _TYPES[key]
    if not isinstance(type_, t.Decimal) or not tokens.skip("("):
        return type_
    numbers = [_digits(tokens)]
    if tokens.skip(","):
        numbers.append(_digits(tokens))
    tokens.take(")")
    precision, scale = numbers[0], numbers[1] if len(numbers) > 1 else 0
    if not 1 <= precision <= MAX_PRECISION or scale > precision:
        raise tokens.error(f"a decimal of 1 to {MAX_PRECISION} digits", f"decimal({precision}, {scale})", start)
    return t.Decimal(precision, scale)


def _digits(tokens: Tokens) -> int:
    if tokens.kind != "number" or not tokens.token.isdigit() or len(tokens.token) > 2:
        raise tokens.error("a number of digits")
    digits, _ = tokens.take_number()
    return int(digits)


def _signed(tokens: Tokens, expected: str) -> Operand:
    first = tokens.start
    while tokens.skip("+"):
        pass
    sign = "-" if tokens.skip("-") else ""
    if tokens.kind == "number":
        return _number(tokens, sign)
    if tokens.key == "INTERVAL":
        return _interval(tokens, sign)
    start = tokens.start
    if tokens.key not in ("(", "-", "+"):
        raise tokens.error(
            "a number, an interval or a parenthesis after a sign, as where does no arithmetic on columns"
        )
    tokens.enter()
    operand = _factor(tokens, expected)
    tokens.leave()
    if isinstance(operand, Column | ColumnCall):
        raise tokens.error("arithmetic on literals alone", f"the column {operand}", start)
    return _expression(tokens, first, "NEGATE", (operand,)) if sign else operand


def _number(tokens: Tokens, sign: str) -> Literal:
    start = tokens.start
    digits, suffix = tokens.take_number()
    if suffix.upper() == "BD" and "e" in digits.lower():
        tokens.note(NEGATIVE_SCALES, digits + suffix)
    return _located(tokens, start, literals.number, sign + digits, suffix)


def _interval(tokens: Tokens, sign: str) -> Literal:
    """Parse ``INTERVAL '1 02:03' DAY TO MINUTE`` or ``INTERVAL 5 HOURS``."""
    start = tokens.start
    tokens.advance()
    inner = "-" if tokens.key == "-" else ""
    if tokens.key in ("+", "-"):
        tokens.advance()
    quantity_start = tokens.start
    if tokens.kind == "number":
        quantity, suffix = tokens.take_number()
    else:
        quantity, suffix = tokens.take_string("a number or a string after INTERVAL"), ""
    if suffix or (inner and not quantity[:1].isdigit()):
        raise tokens.error("a quantity after INTERVAL", f"{inner}{quantity}{suffix}", quantity_start)
    units = [_unit(tokens)]
    if tokens.skip("TO"):
        units.append(_unit(tokens))
    of_months = _located(tokens, start, literals.months, inner + quantity, units[0]) if len(units) == 1 else None
    literal = of_months or _located(tokens, start, literals.interval, inner + quantity, *units)
    tokens.note(INTERVALS, literal.sql)
    assert isinstance(literal.value, int)
    return replace(literal, value=-literal.value, sql=f"-{literal.sql}") if sign else literal


def _unit(tokens: Tokens) -> str:
    unit = tokens.key
    if tokens.kind != "word":
        raise tokens.error("a unit of the interval, such as HOUR or DAY TO SECOND")
    tokens.advance()
    return unit


def _located(tokens: Tokens, start: int, make: Callable[..., _Made], *arguments: str) -> _Made:
    """Make a literal; the error for its value says where it stands."""
    try:
        return make(*arguments)
    except OptionError as error:
        error.asked_by = f"{WHERE}, {tokens.place(start)}"
        raise
