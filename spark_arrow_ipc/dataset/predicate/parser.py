"""Parse the SQL string of the option `where` into a predicate, by Spark's lexical rules and precedence.

Strategy
--------
Precedence climbing over `Tokens`: OR binds less than AND, AND less than NOT, NOT less than a comparison. In Spark a
comparison is a value too (``a = b = c`` compares a boolean with c), and any value may stand in parentheses. Here
operands are columns and literals alone; everything else is refused, by the column of the mistake. `literals` gives
the values of literals.

Linear in the length of the string, which is bounded, as is the nesting: what is parsed here can be evaluated,
compared and pickled within Python's recursion limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate import literals
from spark_arrow_ipc.dataset.predicate.expressions import (
    And,
    Bare,
    Column,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Operand,
    Operator,
    Or,
    Predicate,
    Run,
    TimestampLiteral,
)
from spark_arrow_ipc.dataset.predicate.long_lists import runs
from spark_arrow_ipc.dataset.predicate.tokens import STRINGS, Tokens
from spark_arrow_ipc.errors import OptionError

__all__ = ["parse"]

_MAX_CHARACTERS: Final = 1 << 23
_MAX_NESTING: Final = 100
"""Parentheses and NOTs around each other. Pickling takes about six frames of the stack for each."""

_OPERATORS: Final[Mapping[str, Operator]] = {
    **{operator.value: operator for operator in Operator},
    "==": Operator.EQ,
    "!=": Operator.NE,
}
_PREDICATES: Final = (*_OPERATORS, "IS", "IN", "BETWEEN", "LIKE", "NOT")
"""What can follow an operand and is no connector."""

_CONNECTORS: Final[Mapping[str, tuple[int, Callable[[tuple[Predicate, ...]], Predicate]]]] = {
    "OR": (1, Or),
    "AND": (2, And),
}
"""Precedence and predicate."""

_NO_NAMES: Final = ("AND", "OR", "NOT", "BETWEEN", "LIKE", "CASE", "SELECT", "CURRENT_DATE", "CURRENT_TIMESTAMP", "CURRENT_USER")  # fmt: skip
"""Words that begin no path of a column without backticks. Spark takes its other keywords as names too."""

_WORDS: Final[Mapping[str, Literal]] = {
    "NULL": Literal(t.null, None, "NULL"),
    "TRUE": Literal(t.bool_, 1, "TRUE"),
    "FALSE": Literal(t.bool_, 0, "FALSE"),
}
_TYPED: Final[Mapping[str, Callable[[str], Literal | TimestampLiteral]]] = {
    "DATE": literals.date_literal,
    "TIMESTAMP": TimestampLiteral,
    "TIMESTAMP_LTZ": TimestampLiteral,
    "TIMESTAMP_NTZ": literals.local_timestamp,
}
"""Types of ``DATE '...'`` and ``CAST('...' AS DATE)``."""

_FUNCTIONS: Final = ("DATE", "TIMESTAMP")
"""Types whose name is a function too: ``DATE('...')`` casts."""

_Made = TypeVar("_Made")


def parse(sql: str) -> Predicate:
    """Return the predicate of an SQL string.

    Raises
    ------
    OptionError
        The string is no SQL, or holds what `where` does not take. The message has the column of the mistake.
    """
    if len(sql) > _MAX_CHARACTERS:
        raise OptionError(f"the option where: expected at most {_MAX_CHARACTERS:,} characters, found {len(sql):,}")
    tokens = Tokens(sql)
    predicate = _condition(tokens, 0)
    if tokens.kind != "end":
        raise tokens.error("AND, OR or the end")
    return predicate


def _condition(tokens: Tokens, nesting: int, precedence: int = 1) -> Predicate:
    """Parse a condition and all connectors that bind at least as tightly as `precedence`."""
    left = _negation(tokens, nesting)
    while (key := tokens.key) in _CONNECTORS:
        binding, connect = _CONNECTORS[key]
        if binding < precedence:
            break
        parts = [left]
        while tokens.skip(key):
            parts.append(_condition(tokens, nesting, binding + 1))
        left = connect(tuple(parts))
    return left


def _negation(tokens: Tokens, nesting: int) -> Predicate:
    """Parse ``NOT a``, ``(a)`` or a predicate."""
    if tokens.key not in ("NOT", "!", "("):
        return _predicate(tokens)
    if nesting == _MAX_NESTING:
        raise tokens.error(f"at most {_MAX_NESTING} parentheses and NOTs around each other", "one more")
    if not tokens.skip("("):
        tokens.advance()
        return Not(_negation(tokens, nesting + 1))
    inner = _condition(tokens, nesting + 1)
    tokens.take(")", "AND, OR or )")
    if tokens.key in _PREDICATES:
        raise tokens.error("AND, OR or the end after a condition in parentheses (operands stand without)")
    return inner


def _predicate(tokens: Tokens) -> Predicate:
    """Parse ``a = 1``, ``a IS NULL``, ``a IN (1)``, ``a BETWEEN 1 AND 2``, ``a LIKE 'b%'`` or ``a``."""
    start = tokens.start
    operand = _operand(tokens)
    if tokens.key not in _PREDICATES:
        if not isinstance(operand, Column) and operand not in _WORDS.values():
            raise tokens.error("a condition", f"the literal {operand}", start)
        return Bare(operand)
    operator = _OPERATORS.get(tokens.key)
    if operator is not None:
        tokens.advance()
        predicate: Predicate = Comparison(operator, operand, _operand(tokens))
    elif tokens.skip("IS"):
        predicate = _is(tokens, operand)
    elif tokens.skip("NOT"):
        predicate = Not(_in_between_like(tokens, operand, start))
    else:
        predicate = _in_between_like(tokens, operand, start)
    if tokens.key in _PREDICATES:
        raise tokens.error("AND, OR or the end after a comparison, which is no operand here")
    return predicate


def _is(tokens: Tokens, operand: Operand) -> Predicate:
    is_not = tokens.skip("NOT")
    if tokens.skip("NULL"):
        return Not(IsNull(operand)) if is_not else IsNull(operand)
    if tokens.key != "DISTINCT":
        raise tokens.error("NULL or NOT NULL after IS")
    if not is_not:
        raise tokens.error("IS NOT DISTINCT FROM, or NOT (a <=> b)", "IS DISTINCT FROM")
    tokens.advance()
    tokens.take("FROM")
    return Comparison(Operator.NULL_SAFE_EQ, operand, _operand(tokens))


def _in_between_like(tokens: Tokens, operand: Operand, start: int) -> Predicate:
    if tokens.skip("IN"):
        return In(operand, _list(tokens))
    if tokens.skip("BETWEEN"):
        low = _operand(tokens)
        tokens.take("AND")
        return And((Comparison(Operator.GE, operand, low), Comparison(Operator.LE, operand, _operand(tokens))))
    if not tokens.skip("LIKE"):
        raise tokens.error("IN, BETWEEN or LIKE after NOT")
    if not isinstance(operand, Column):
        raise tokens.error("a column before LIKE", f"the literal {operand}", start)
    return _like(tokens, operand)


def _list(tokens: Tokens) -> tuple[Literal | TimestampLiteral | Run, ...]:
    if tokens.key != "(":
        raise tokens.error("a list of literals in parentheses after IN")
    options: list[Literal | TimestampLiteral | Run] = []
    while True:
        while items := tokens.plain_items():
            options += runs(items)
        tokens.advance()
        options.append(_literal(tokens))
        if tokens.key != ",":
            break
    tokens.take(")", ", or )")
    return tuple(options)


def _like(tokens: Tokens, operand: Column) -> Predicate:
    start = tokens.start
    pattern = None if tokens.skip("NULL") else tokens.take_string("a string as the pattern of LIKE")
    escape = "\\"
    if tokens.skip("ESCAPE"):
        escape_start = tokens.start
        escape = tokens.take_string("a string after ESCAPE")
        if len(escape) != 1:
            raise tokens.error("one character after ESCAPE", repr(escape), escape_start)
    if pattern is None:
        return Like(operand, None)
    parts, mistake = _parts(pattern, escape)
    if mistake:
        raise tokens.error(mistake, f"the pattern {pattern!r}", start)
    return Like(operand, parts)


def _parts(pattern: str, escape: str) -> tuple[tuple[bytes, ...], str | None]:
    """Return the strings between the wildcards of a pattern, or in words what was expected of it."""
    parts = [""]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped not in ("%", "_", escape):
                return (), "%, _ or the escape itself after each escape"
            parts[-1] += escaped
        elif character == "_":
            return (), "no wildcard _ (write \\_ for the character)"
        elif character == "%":
            if len(parts) == 1 or parts[-1]:
                parts.append("")
        else:
            parts[-1] += character
    is_inside = len(parts) == 3 and not parts[0] and not parts[2]
    if len(parts) > 2 and not is_inside:
        return (), "% at the ends of a pattern or once inside"
    return tuple(part.encode() for part in parts), None


def _literal(tokens: Tokens) -> Literal | TimestampLiteral:
    start = tokens.start
    operand = _operand(tokens, "a literal")
    if isinstance(operand, Column):
        raise tokens.error("a literal", f"the column {operand}", start)
    return operand


def _operand(tokens: Tokens, expected: str = "a column or a literal") -> Operand:
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
        return _signed(tokens)
    raise tokens.error(expected)


def _word(tokens: Tokens, expected: str) -> Operand:
    """Parse what begins with a word: a typed literal, a cast, NULL, TRUE, FALSE, or a column."""
    key, start = tokens.key, tokens.start
    kind, following = tokens.following()
    if key in _TYPED and kind in STRINGS:
        tokens.advance()
        return _located(tokens, start, _TYPED[key], tokens.take_string(expected))
    if key == "INTERVAL" and (kind in (*STRINGS, "number") or following in ("+", "-")):
        return _interval(tokens, "")
    if following == "(" and (key == "CAST" or key in _FUNCTIONS):
        return _cast(tokens)
    if kind in STRINGS:
        typed = ", ".join(_TYPED)
        raise tokens.error(f"{expected} (typed ones: {typed} and INTERVAL)", f"{tokens.token} {following}")
    if key in _NO_NAMES:
        raise tokens.error(f"{expected} (a column of this name stands in backticks)", tokens.token)
    if following == "(":
        raise tokens.error(expected)
    if key in _WORDS:
        tokens.advance()
        return _WORDS[key]
    return _column(tokens)


def _column(tokens: Tokens) -> Column:
    """Parse names with dots between, each in backticks or not."""
    path = []
    while True:
        path.append(tokens.token if tokens.kind == "word" else tokens.token[1:-1].replace("``", "`"))
        tokens.advance()
        if not tokens.skip("."):
            return Column(tuple(path))
        if tokens.kind not in ("word", "name") or tokens.following()[1] == "(":
            raise tokens.error("the name of a field after the dot")


def _cast(tokens: Tokens) -> Operand:
    """Parse ``CAST('...' AS DATE)`` or ``DATE('...')``."""
    start, function, key = tokens.start, tokens.token, tokens.key
    tokens.advance()
    tokens.take("(")
    string = tokens.take_string(f"a string in {function}(...)")
    if key == "CAST":
        tokens.take("AS")
        key = tokens.key
        if key not in _TYPED:
            raise tokens.error(f"a cast to {', '.join(_TYPED)}")
        tokens.advance()
    tokens.take(")")
    return _located(tokens, start, _TYPED[key], string)


def _signed(tokens: Tokens) -> Operand:
    while tokens.skip("+"):
        pass
    sign = "-" if tokens.skip("-") else ""
    if tokens.kind == "number":
        return _number(tokens, sign)
    if tokens.key == "INTERVAL":
        return _interval(tokens, sign)
    raise tokens.error("a number or an interval after a sign, as where does no arithmetic")


def _number(tokens: Tokens, sign: str) -> Literal:
    start = tokens.start
    digits, suffix = tokens.take_number()
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
    literal = _located(tokens, start, literals.interval, inner + quantity, *units)
    assert isinstance(literal.value, int)
    return Literal(literal.type, -literal.value, f"-{literal.sql}") if sign else literal


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
        error.message = tokens.place(start)
        raise
