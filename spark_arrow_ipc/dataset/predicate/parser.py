"""Parse the SQL string of the option `where` into a predicate, by Spark's lexical rules and precedence.

How it works: precedence climbing over `Tokens`, as OR binds less than AND, AND less than NOT, and NOT less than a comparison.
In Spark a comparison is a value too (``a = b = c`` compares a boolean with c), and any value may be in parentheses. Here
operands are only columns, a few functions of one column, and literals (`operands`); all other SQL is refused, with the
position of the mistake.

Parsing is linear in the length of the string. Length and nesting are bounded, so that a predicate can be evaluated, compared
and pickled within Python's recursion limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from spark_arrow_ipc.dataset.predicate.expressions import (
    WHERE,
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
)
from spark_arrow_ipc.dataset.predicate.operands import WORDS, Constant, parse_constant, parse_operand
from spark_arrow_ipc.dataset.predicate.tokens import COMPUTED, CONDITIONS, Tokens
from spark_arrow_ipc.errors import OptionError

_MAX_CHARACTERS: Final = 1 << 23

_OPERATORS: Final[Mapping[str, Operator]] = {
    **{operator.value: operator for operator in Operator},
    "==": Operator.EQ,
    "!=": Operator.NE,
}
_PREDICATES: Final = (*_OPERATORS, "IS", "IN", "BETWEEN", "LIKE", "NOT")
"""Words that can follow an operand without a connector."""

_CONNECTORS: Final[Mapping[str, tuple[int, Callable[[tuple[Predicate, ...]], Predicate]]]] = {
    "OR": (1, Or),
    "AND": (2, And),
}
"""Precedence and predicate."""

_STRING_TESTS: Final[Mapping[str, Callable[[bytes], tuple[bytes, ...]]]] = {
    "STARTSWITH": lambda part: (part, b""),
    "ENDSWITH": lambda part: (b"", part),
    "CONTAINS": lambda part: (b"", part, b""),
}
"""Functions that are patterns of LIKE."""


def parse(sql: str, dependencies: dict[str, str] | None = None) -> Predicate:
    """Return the predicate of an SQL string; add the settings on which it depends to `dependencies`."""
    if len(sql) > _MAX_CHARACTERS:
        raise OptionError(expected=f"at most {_MAX_CHARACTERS:,} characters", found=f"{len(sql):,}", asked_by=WHERE)
    tokens = Tokens(sql, dependencies)
    predicate = _condition(tokens)
    if tokens.kind != "end":
        raise tokens.error("AND, OR or the end")
    return predicate


def _condition(tokens: Tokens, precedence: int = 1) -> Predicate:
    """Parse a condition and all connectors that bind at least as tightly as `precedence`."""
    left = _negation(tokens)
    while (key := tokens.key) in _CONNECTORS:
        binding, connect = _CONNECTORS[key]
        if binding < precedence:
            break
        # One predicate for a chain of any length: thousands of conditions must not nest.
        parts = [left]
        while tokens.skip(key):
            parts.append(_condition(tokens, binding + 1))
        left = connect(tuple(parts))
    return left


def _negation(tokens: Tokens) -> Predicate:
    """Parse ``NOT a``, ``(a)`` or a predicate."""
    if tokens.key not in ("NOT", "!", "("):
        return _predicate(tokens)
    tokens.enter()
    if not tokens.skip("("):
        tokens.advance()
        inner: Predicate = Not(_negation(tokens))
        tokens.leave()
        return inner
    inner = _condition(tokens)
    tokens.leave()
    tokens.take(")", "AND, OR or )")
    if tokens.key in _PREDICATES:  # ``(a = 1) = b``: a condition as a value
        raise tokens.error("AND, OR or the end after a condition in parentheses (operands stand without)")
    return inner


def _predicate(tokens: Tokens) -> Predicate:
    """Parse ``a = 1``, ``a IS NULL``, ``a IN (1)``, ``a BETWEEN 1 AND 2``, ``a LIKE 'b%'`` or ``a``."""
    start = tokens.start
    at = tokens.describe_position(start)
    tokens.count(CONDITIONS)
    if tokens.key in _STRING_TESTS and tokens.following()[1] == "(":
        return _string_test(tokens, at)
    operand = parse_operand(tokens)
    if tokens.key not in _PREDICATES:  # a condition by itself, which other literals cannot be
        if not isinstance(operand, Column) and operand not in WORDS.values():
            raise tokens.error("a condition", f"the literal {operand}", start)
        return Bare(operand, at)
    operator = _OPERATORS.get(tokens.key)
    if operator is not None:
        tokens.advance()
        predicate: Predicate = Comparison(operator, operand, parse_operand(tokens), at)
    elif tokens.skip("IS"):
        predicate = _is(tokens, operand, at)
    elif tokens.skip("NOT"):
        predicate = Not(_in_between_like(tokens, operand, start, at))
    else:
        predicate = _in_between_like(tokens, operand, start, at)
    if tokens.key in _PREDICATES:
        raise tokens.error("AND, OR or the end after a comparison, which is no operand here")
    return predicate


def _string_test(tokens: Tokens, at: str) -> Predicate:
    """Parse ``startswith(a, 'b')`` and the like."""
    function, key = tokens.token, tokens.key
    tokens.advance()
    tokens.take("(")
    start = tokens.start
    operand = parse_operand(tokens)
    if not isinstance(operand, Column):
        raise tokens.error(f"a column in {function}(...)", str(operand), start)
    tokens.take(",", f"a comma and a string in {function}(...)")
    is_null = tokens.skip("NULL")
    part = b"" if is_null else tokens.take_string(f"a string in {function}(...)").encode()
    tokens.take(")")
    if tokens.key in _PREDICATES:
        raise tokens.error(f"AND, OR or the end after {function}(...), which is no operand here")
    return Like(operand, None if is_null else _STRING_TESTS[key](part), at)


def _is(tokens: Tokens, operand: Operand, at: str) -> Predicate:
    is_not = tokens.skip("NOT")
    if tokens.skip("NULL"):
        return Not(IsNull(operand, at)) if is_not else IsNull(operand, at)
    if tokens.key != "DISTINCT":
        raise tokens.error("NULL, NOT NULL or [NOT] DISTINCT FROM after IS")
    tokens.advance()
    tokens.take("FROM")
    is_same = Comparison(Operator.NULL_SAFE_EQ, operand, parse_operand(tokens), at)
    return is_same if is_not else Not(is_same)


def _in_between_like(tokens: Tokens, operand: Operand, start: int, at: str) -> Predicate:
    if tokens.skip("IN"):
        return In(operand, _list(tokens), at)
    if tokens.skip("BETWEEN"):
        low = parse_operand(tokens)
        tokens.take("AND")
        high = parse_operand(tokens)
        return And((Comparison(Operator.GE, operand, low, at), Comparison(Operator.LE, operand, high, at)))
    if not tokens.skip("LIKE"):
        raise tokens.error("IN, BETWEEN or LIKE after NOT")
    if not isinstance(operand, Column):
        raise tokens.error("a column before LIKE", str(operand), start)
    return _like(tokens, operand, at)


def _list(tokens: Tokens) -> tuple[Constant, ...]:
    if tokens.key != "(":
        raise tokens.error("a list of literals in parentheses after IN")
    options: list[Constant] = []
    while not options or tokens.key == ",":
        tokens.advance()
        option = parse_constant(tokens)
        # Each of these becomes a condition of its own in `bind`; other literals are entries of a set.
        if option is WORDS["NULL"] or (isinstance(option, Literal) and option.is_cast):
            tokens.count(COMPUTED)
        options.append(option)
    tokens.take(")", ", or )")
    return tuple(options)


def _like(tokens: Tokens, operand: Column, at: str) -> Predicate:
    start = tokens.start
    pattern = None if tokens.skip("NULL") else tokens.take_string("a string as the pattern of LIKE")
    escape = "\\"
    if tokens.skip("ESCAPE"):
        escape_start = tokens.start
        escape = tokens.take_string("a string after ESCAPE")
        if len(escape) != 1:
            raise tokens.error("one character after ESCAPE", repr(escape), escape_start)
    if pattern is None:
        return Like(operand, None, at)
    parts, mistake = _parts(pattern, escape)
    if mistake:
        raise tokens.error(mistake, f"the pattern {pattern!r}", start)
    return Like(operand, parts, at)


def _parts(pattern: str, escape: str) -> tuple[tuple[bytes, ...], str | None]:
    """Return the strings between the wildcards of a pattern, or the words of an error: the expected pattern."""
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
            if len(parts) == 1 or parts[-1]:  # ``%%`` is the same as ``%``
                parts.append("")
        else:
            parts[-1] += character
    is_inside = len(parts) == 3 and not parts[0] and not parts[2]
    if len(parts) > 2 and not is_inside:
        return (), "% at the ends of a pattern or once inside"
    return tuple(part.encode() for part in parts), None
