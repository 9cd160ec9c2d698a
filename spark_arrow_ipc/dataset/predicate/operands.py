"""Parse the operands of a predicate: columns, functions of columns, and literals.

Operands do not nest: a function takes a column and a cast takes a literal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate import EXPONENTS, NEGATIVE_SCALES, TIMESTAMP_TYPE, literals
from spark_arrow_ipc.dataset.predicate.coercion import LOCAL_TIMESTAMP, MAX_PRECISION, UTC_TIMESTAMP
from spark_arrow_ipc.dataset.predicate.expressions import (
    WHERE,
    Column,
    ColumnCall,
    Literal,
    Operand,
    TimestampLiteral,
)
from spark_arrow_ipc.dataset.predicate.tokens import STRINGS, Tokens
from spark_arrow_ipc.errors import OptionError

_NO_NAMES: Final = ("AND", "OR", "NOT", "BETWEEN", "LIKE", "CASE", "SELECT", "CURRENT_DATE", "CURRENT_TIMESTAMP", "CURRENT_USER")  # fmt: skip
"""Words that cannot begin the path of a column without backticks. Spark takes its other keywords as names too."""

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

_CLOCK: Final = (
    "compute the date or time in Python and write DATE '...' or TIMESTAMP '...', as where does not read the clock"
)
_VALUE: Final = (
    "where takes literals, not arithmetic: compute the value in Python, or filter the DataFrame, which push-down narrows "
    "after register(spark)"
)
_REMEDIES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("CURRENT_DATE", "CURRENT_TIMESTAMP", "NOW"), _CLOCK),
    **dict.fromkeys(("DATE_ADD", "DATE_SUB", "INTERVAL"), _VALUE),
    **{name: f"write CAST('...' AS {name})" for name in _TYPES},
}
"""By word of Spark that is refused: advice."""

_OF_COLUMNS: Final = {"YEAR": "YEAR", "MONTH": "MONTH", "DAY": "DAY", "DAYOFMONTH": "DAY", "UPPER": "UPPER", "UCASE": "UPPER", "LOWER": "LOWER", "LCASE": "LOWER"}  # fmt: skip
Constant: TypeAlias = Literal | TimestampLiteral

_Made = TypeVar("_Made")


def parse_constant(tokens: Tokens, expected: str = "a literal") -> Constant:
    """Parse a literal."""
    start = tokens.start
    operand = parse_operand(tokens, expected)
    if isinstance(operand, Column | ColumnCall):
        raise tokens.error(expected, f"the column {operand}", start)
    return operand


def parse_operand(tokens: Tokens, expected: str = "a column or a literal") -> Operand:
    """Parse a column, a function of one, or a literal."""
    operand = _operand(tokens, expected)
    if tokens.key in ("+", "-", "*", "/"):
        raise tokens.error(f"{expected} ({_VALUE})")
    return operand


def _operand(tokens: Tokens, expected: str) -> Operand:
    kind, token = tokens.kind, tokens.token
    if kind in STRINGS:
        return Literal(t.utf8, tokens.take_string(expected).encode(), token)
    if kind == "binary":
        return Literal(t.binary, tokens.take_binary(), token)
    if kind == "name":
        return _column(tokens)
    if kind == "word":
        return _word(tokens, expected)
    sign = token if tokens.skip("-") or tokens.skip("+") else ""
    if tokens.kind == "number":
        return _number(tokens, sign.removeprefix("+"))
    raise tokens.error(f"a number after a sign ({_VALUE})" if sign else expected)


def _word(tokens: Tokens, expected: str) -> Operand:
    """Parse an operand that begins with a word: a typed literal, a call, NULL, TRUE, FALSE, or a column."""
    key, start = tokens.key, tokens.start
    kind, following = tokens.following()
    if key in _TYPED and kind in STRINGS:
        tokens.advance()
        return _make_literal(tokens, start, _TYPED[key], tokens.take_string(expected))
    if key == "INTERVAL" and (kind in (*STRINGS, "number") or following in ("+", "-")):
        raise tokens.error(f"{expected} ({_REMEDIES[key]})")
    if following == "(":
        return _call(tokens, expected)
    if kind in STRINGS:  # a typed literal that is not supported, such as TIME '12:00'
        raise tokens.error(f"{expected} (typed ones: {', '.join(_TYPED)})", f"{tokens.token} {following}")
    if key in _NO_NAMES:
        remedy = _REMEDIES.get(key, "a column of this name stands in backticks")
        raise tokens.error(f"{expected} ({remedy})", tokens.token)
    if key in WORDS:
        tokens.advance()
        return WORDS[key]
    return _column(tokens)


def _column(tokens: Tokens) -> Column:
    """Parse names with dots between, each in backticks or not."""
    path = []
    while True:
        path.append(tokens.token if tokens.kind == "word" else tokens.token[1:-1].replace("``", "`"))
        tokens.check_nesting(len(path))  # fields of structs are resolved and read recursively
        tokens.advance()
        if not tokens.skip("."):
            return Column(tuple(path))
        if tokens.kind not in ("word", "name") or tokens.following()[1] == "(":
            raise tokens.error("the name of a field after the dot")


def _call(tokens: Tokens, expected: str) -> Operand:
    """Parse a cast or a function of a column."""
    start, function, key = tokens.start, tokens.token, tokens.key
    if key != "CAST" and key not in _OF_COLUMNS:
        raise tokens.error(f"{expected} ({_REMEDIES[key]})" if key in _REMEDIES else expected)
    tokens.advance()
    tokens.take("(")
    if key == "CAST":
        return _cast(tokens, start)
    if tokens.following()[1] == "(":  # refused before it is parsed, which would recurse without a limit
        raise tokens.error(f"a column in {function}(...)")
    operand = parse_operand(tokens)
    tokens.take(")")
    if not isinstance(operand, Column):
        raise tokens.error(f"a column in {function}(...)", str(operand), start)
    return ColumnCall(_OF_COLUMNS[key], operand)


def _cast(tokens: Tokens, start: int) -> Constant:
    """Parse a cast after ``CAST(``."""
    expected = "a literal in CAST(...)"
    if tokens.following()[1] == "(":
        raise tokens.error(expected)
    is_string, inside = tokens.kind in STRINGS, tokens.start
    operand = parse_constant(tokens, expected)
    if isinstance(operand, TimestampLiteral):
        raise tokens.error(f"{expected} that is not a timestamp", str(operand), inside)
    tokens.take("AS")
    key = tokens.key
    to = _type(tokens)
    tokens.take(")")
    if key == "TIMESTAMP":
        tokens.depend_on(TIMESTAMP_TYPE, f"CAST({operand} AS {key})")
    if key in _TYPED and is_string:  # the same as the typed literal, for Spark too
        assert isinstance(operand.value, bytes)
        return _make_literal(tokens, start, _TYPED[key], operand.value.decode())
    return _make_literal(tokens, start, literals.cast_to, operand, to, tokens.text_since(start))


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
    if tokens.kind != "number" or not tokens.token.isdigit() or len(tokens.token) > 2:  # 38 at most
        raise tokens.error("a number of digits")
    digits, _ = tokens.take_number()
    return int(digits)


def _number(tokens: Tokens, sign: str) -> Literal:
    start = tokens.start
    digits, suffix = tokens.take_number()
    if suffix.upper() in ("", "BD") and "e" in digits.lower():
        tokens.depend_on(NEGATIVE_SCALES if suffix else EXPONENTS, digits + suffix)
    return _make_literal(tokens, start, literals.number, sign + digits, suffix)


def _make_literal(tokens: Tokens, start: int, make: Callable[..., _Made], *arguments: Any) -> _Made:
    """Return a literal; an error of its value gets the position in the SQL."""
    try:
        return make(*arguments)
    except OptionError as error:
        error.asked_by = f"{WHERE}, {tokens.describe_position(start)}"
        raise
