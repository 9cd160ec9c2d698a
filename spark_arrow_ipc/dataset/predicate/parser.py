"""SQL text to predicates: sqlglot reads the structure, in Spark's dialect, and this module every literal.

Strategy
--------
What a literal means is not left to sqlglot, which keeps neither Spark's escapes nor a number's suffix. `_literals`
walks over the text with Spark's lexical rules, takes each literal out, and leaves a string of its number (``'3'``)
behind. sqlglot parses that, and `_CONVERT` has a row for each class of its tree that `where` takes. All others are
refused, by the name of what was found: SQL has much that looks harmless and is not (``a || b``, ``LIKE ANY``).

The only module that imports sqlglot; `dataset.predicate.parse` imports it when it is called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate import expressions as p
from spark_arrow_ipc.dataset.predicate import literals as values
from spark_arrow_ipc.errors import OptionError

__all__ = ["parse"]

_ALLOWED: Final = (
    "where takes comparisons (=, <=>, <>, !=, <, <=, >, >=), IN with a list of literals, BETWEEN, LIKE with % at the "
    "ends or once inside, IS [NOT] NULL, AND, OR, NOT and boolean columns, over columns, fields of structs (a.b) and "
    "literals; filter the DataFrame for everything else"
)

_MAX_TEXT: Final = 1 << 20
"""Characters of a predicate."""

_WORD: Final = re.compile(r"[^\W\d]\w*")
_QUOTED_NAME: Final = re.compile(r"`(?:[^`]|``)*`")
_NUMBER: Final = re.compile(r"((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)([bB][dD]|[yYsSlLdDfF])?(?!\w)")
_ESCAPED: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPES: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
"""``SparkParserUtils.unescapeSQLString``: all other characters stand for themselves."""


@dataclass(frozen=True, slots=True)
class _Token:
    """A literal that was taken out of the text: a string's value, bytes, or a number as it was written."""

    text: str
    value: str | bytes | tuple[str, str]


def parse(text: str) -> p.Predicate:
    """Return the predicate of an SQL text.

    Raises
    ------
    OptionError
        It is no SQL, or holds what `where` does not take.
    """
    if len(text) > _MAX_TEXT:
        raise OptionError(f"the option where: expected at most {_MAX_TEXT:,} characters, found {len(text):,}")
    structure, tokens = _literals(text)
    try:
        tree = sqlglot.parse_one(structure, read="spark", into=exp.Condition)
        return _Reader(tokens).predicate(tree)
    except SqlglotError as error:
        raise OptionError(f"the option where is no predicate: {text!r}; {_ALLOWED}") from error
    except RecursionError as error:
        raise OptionError("the option where: the predicate is nested too deeply") from error


def _literals(text: str) -> tuple[str, list[_Token]]:
    """Return the text with every literal replaced by a string of its number, and the literals."""
    tokens: list[_Token] = []
    out: list[str] = []
    at = 0
    while at < len(text):
        end, found = _next(text, at)
        if isinstance(found, str):
            out.append(found)
        else:
            out.append(f" '{len(tokens)}' ")
            tokens.append(found)
        at = end
    return "".join(out), tokens


def _next(text: str, at: int) -> tuple[int, _Token | str]:
    """Return where the next part of a text ends, and the literal that it is, or what is left of it for sqlglot."""
    character = text[at]
    if character == "`":
        name = _QUOTED_NAME.match(text, at)
        if name is None:
            raise _refused("a name in backticks that is not closed")
        return name.end(), name[0]
    if word := _WORD.match(text, at):
        if word[0].upper() not in ("X", "R") or text[word.end() : word.end() + 1] not in ("'", '"'):
            # A literal must not stand close to the word before it: DATE'2020-01-01'.
            return word.end(), word[0] + " "
        end, value = _string(text, word.end(), raw=True)
        return end, _Token(text[at:end], _hex(value) if word[0] in "xX" else value)
    if character in "'\"":
        end, value = _string(text, at, raw=False)
        return end, _Token(text[at:end], value)
    if digits := _NUMBER.match(text, at):
        return digits.end(), _Token(digits[0], (digits[1], digits[2] or ""))
    if character.isdigit():
        raise _refused("a name that begins with a digit, without backticks")
    if text.startswith(("--", "/*"), at) or character in ";:?$@{}[]\\":
        raise _refused(text[at : at + 2].strip())
    return at + 1, character


def _string(text: str, start: int, *, raw: bool) -> tuple[int, str]:
    """Return where a string literal ends, and its value."""
    quote = text[start]
    at = start + 1
    while at < len(text) and text[at] != quote:
        at += 2 if text[at] == "\\" and not raw else 1
    if at >= len(text):
        raise _refused(f"a string that is not closed: {text[start : start + 20]}")
    if text[at + 1 : at + 2] == quote:
        # Two strings that touch are one to Spark, and one with a quote inside to others.
        raise _refused("two quotes in a string: write \\' for one")
    inside = text[start + 1 : at]
    return at + 1, inside if raw else _ESCAPED.sub(_unescaped, inside)


def _unescaped(found: re.Match[str]) -> str:
    escape = found[1]
    if len(escape) == 1:
        return _ESCAPES.get(escape, escape)
    code = int(escape, 8) if escape[0] in "0123" else int(escape[1:], 16)
    if 0xD800 <= code < 0xE000 or code > 0x10FFFF:
        raise _refused(f"half a character: {found[0]}")
    return chr(code)


def _hex(digits: str) -> bytes:
    try:
        if not digits.isascii() or any(c.isspace() for c in digits):
            raise ValueError(digits)
        return bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)
    except ValueError as error:
        raise _refused(f"hexadecimal digits X'{digits}'") from error


def _refused(found: str) -> OptionError:
    return OptionError(f"the option where does not take {found}; {_ALLOWED}")


_COMPARISONS: Final[Mapping[type[exp.Expression], p.Operator]] = {
    exp.EQ: p.Operator.EQ,
    exp.NullSafeEQ: p.Operator.NULL_SAFE_EQ,
    exp.NEQ: p.Operator.NE,
    exp.LT: p.Operator.LT,
    exp.LTE: p.Operator.LE,
    exp.GT: p.Operator.GT,
    exp.GTE: p.Operator.GE,
}


class _Reader:
    """Makes predicates of sqlglot's trees, for the literals of one text."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens

    def predicate(self, node: exp.Expression) -> p.Predicate:
        """Return what a condition says."""
        convert = _CONVERT.get(type(node))
        if convert is not None:
            return convert(self, node)
        if type(node) in _OPERANDS:
            operand = self.operand(node)
            if isinstance(operand, p.Column) or (
                isinstance(operand, p.Literal) and isinstance(operand.type, t.Bool | t.Null)
            ):
                return p.Bare(operand)
            raise _refused(f"{operand} as a condition")
        raise _refused(self.shown(node))

    def operand(self, node: exp.Expression) -> p.Operand:
        """Return what stands on a side of a comparison."""
        convert = _OPERANDS.get(type(node))
        if convert is None:
            raise _refused(self.shown(node))
        return convert(self, node)

    def constant(self, node: exp.Expression) -> p.Literal | p.TimestampText:
        """Return a literal; a column is refused."""
        operand = self.operand(node)
        if isinstance(operand, p.Column):
            raise _refused(f"the column {operand} where a literal must stand")
        return operand

    def token(self, node: exp.Expression) -> _Token:
        """Return the literal that stands behind a string of sqlglot's."""
        if type(node) is not exp.Literal or not node.is_string:
            raise _refused(self.shown(node))
        return self._tokens[int(node.this)]

    def text(self, node: exp.Expression) -> str:
        """Return the value of a string literal."""
        value = self.token(node).value
        if not isinstance(value, str):
            raise _refused(f"{self.shown(node)} where a string must stand")
        return value

    def only(self, node: exp.Expression, *allowed: str) -> None:
        """Refuse a node that says more than is understood: an argument of a release of sqlglot to come, for one."""
        more = [name for name, value in node.args.items() if name not in allowed and value not in (None, False, [])]
        if more:
            raise _refused(self.shown(node))

    def shown(self, node: exp.Expression) -> str:
        text = re.sub(r"'(\d+)'", lambda found: self._tokens[int(found[1])].text, node.sql(dialect="spark"))
        return text if len(text) <= 200 else f"{text[:200]}..."

    def parts(self, node: exp.Expression) -> tuple[p.Predicate, ...]:
        """Return the parts of a chain of one connector, in order; the chain may be long."""
        kind = type(node)
        parts: list[exp.Expression] = []
        pending = [node]
        while pending:
            current = pending.pop()
            if type(current) is kind:
                self.only(current, "this", "expression")
                pending += (current.expression, current.this)
            else:
                parts.append(current)
        return tuple(map(self.predicate, parts))


def _comparison(read: _Reader, node: exp.Expression) -> p.Predicate:
    read.only(node, "this", "expression")
    return p.Comparison(_COMPARISONS[type(node)], read.operand(node.this), read.operand(node.expression))


def _not(read: _Reader, node: exp.Expression) -> p.Predicate:
    read.only(node, "this")
    return p.Not(read.predicate(node.this))


def _paren(read: _Reader, node: exp.Expression) -> p.Predicate:
    read.only(node, "this")
    return read.predicate(node.this)


def _is(read: _Reader, node: exp.Expression) -> p.Predicate:
    read.only(node, "this", "expression")
    if type(node.expression) is not exp.Null:
        raise _refused(read.shown(node))
    return p.IsNull(read.operand(node.this))


def _in(read: _Reader, node: exp.Expression) -> p.Predicate:
    read.only(node, "this", "expressions")
    options = tuple(map(read.constant, node.expressions))
    if not options:
        raise _refused("IN without a list of literals")
    return p.In(read.operand(node.this), options)


def _between(read: _Reader, node: exp.Expression) -> p.Predicate:
    read.only(node, "this", "low", "high")
    operand = read.operand(node.this)
    return p.And(
        (
            p.Comparison(p.Operator.GE, operand, read.operand(node.args["low"])),
            p.Comparison(p.Operator.LE, operand, read.operand(node.args["high"])),
        )
    )


def _like(read: _Reader, node: exp.Expression) -> p.Predicate:
    return _pattern(read, node, "\\")


def _escape(read: _Reader, node: exp.Expression) -> p.Predicate:
    read.only(node, "this", "expression")
    if type(node.this) is not exp.Like or len(read.text(node.expression)) != 1:
        raise _refused(read.shown(node))
    return _pattern(read, node.this, read.text(node.expression))


def _pattern(read: _Reader, node: exp.Expression, escape: str) -> p.Predicate:
    read.only(node, "this", "expression", "negate")
    operand = read.operand(node.this)
    if not isinstance(operand, p.Column):
        raise _refused(f"LIKE of the literal {operand}")
    parts = None if type(node.expression) is exp.Null else _parts(read.text(node.expression), escape)
    like = p.Like(operand, parts)
    return p.Not(like) if node.args.get("negate") else like


def _parts(pattern: str, escape: str) -> tuple[bytes, ...]:
    """Return the texts between the wildcards of a pattern."""
    parts = [""]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None or escaped not in ("%", "_", escape):
                raise _refused(f"the escape in the pattern {pattern!r}, before what needs none")
            parts[-1] += escaped
        elif character == "_":
            raise _refused(f"the wildcard _ in the pattern {pattern!r} (write \\_ for the character)")
        elif character == "%":
            if len(parts) == 1 or parts[-1]:
                parts.append("")
        else:
            parts[-1] += character
    fixed = [part for part in parts if part]
    ends_only = len(parts) <= 2 or (len(parts) == 3 and not parts[0] and not parts[2] and len(fixed) <= 1)
    if not ends_only:
        raise _refused(f"the pattern {pattern!r}")
    return tuple(part.encode() for part in parts)


_CONVERT: Final[Mapping[type[exp.Expression], Callable[[_Reader, Any], p.Predicate]]] = {
    **dict.fromkeys(_COMPARISONS, _comparison),
    exp.And: lambda read, node: p.And(read.parts(node)),
    exp.Or: lambda read, node: p.Or(read.parts(node)),
    exp.Not: _not,
    exp.Paren: _paren,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like,
    exp.Escape: _escape,
}
"""By sqlglot's class: conditions. What has no row, nor one in `_OPERANDS`, is refused."""


def _column(read: _Reader, node: exp.Expression) -> p.Operand:
    path: list[str] = []
    while type(node) is exp.Dot:
        read.only(node, "this", "expression")
        path.insert(0, _name(read, node.expression))
        node = node.this
    if type(node) is not exp.Column:
        raise _refused(read.shown(node))
    read.only(node, "this", "table", "db", "catalog")
    path[:0] = [_name(read, node.args[part]) for part in ("catalog", "db", "table", "this") if node.args.get(part)]
    return p.Column(tuple(path))


def _name(read: _Reader, node: exp.Expression) -> str:
    if type(node) is not exp.Identifier:
        raise _refused(read.shown(node))
    return str(node.this)


def _literal(read: _Reader, node: exp.Expression, sign: str = "") -> p.Operand:
    token = read.token(node)
    if isinstance(token.value, tuple):
        digits, suffix = token.value
        return values.number(sign + digits, suffix)
    if sign:
        raise _refused(f"-{token.text}")
    is_text = isinstance(token.value, str)
    value = token.value.encode() if isinstance(token.value, str) else token.value
    return p.Literal(t.utf8 if is_text else t.binary, value, token.text)


def _negative(read: _Reader, node: exp.Expression) -> p.Operand:
    read.only(node, "this")
    if type(node.this) is exp.Interval:
        literal = _interval(read, node.this)
        assert isinstance(literal, p.Literal)
        assert isinstance(literal.value, int)
        return p.Literal(literal.type, -literal.value, f"-{literal.text}")
    return _literal(read, node.this, "-")


def _typed(read: _Reader, node: exp.Expression) -> p.Operand:
    """Return a literal with its type before it: ``DATE '...'``; sqlglot gives ``CAST('...' AS DATE)`` alike."""
    read.only(node, "this", "to", "requires_string")
    read.only(node.to, "this")
    make = _TYPED.get(node.to.this)
    if make is None:
        raise _refused(read.shown(node))
    return make(read.text(node.this))


_TYPED: Final[Mapping[Any, Callable[[str], p.Operand]]] = {
    exp.DataType.Type.DATE: values.date_literal,
    exp.DataType.Type.TIMESTAMP: p.TimestampText,
    exp.DataType.Type.TIMESTAMPTZ: p.TimestampText,
    exp.DataType.Type.TIMESTAMPLTZ: p.TimestampText,
    exp.DataType.Type.TIMESTAMPNTZ: values.local_timestamp,
}


def _interval(read: _Reader, node: exp.Expression) -> p.Operand:
    read.only(node, "this", "unit")
    sign, quantity = ("-", node.this.this) if type(node.this) is exp.Neg else ("", node.this)
    value = read.token(quantity).value
    unit = node.args.get("unit")
    if unit is None or isinstance(value, bytes) or (isinstance(value, tuple) and value[1]):
        raise _refused(read.shown(node))
    text = value if isinstance(value, str) else value[0]
    if sign and not text[:1].isdigit():
        raise _refused(read.shown(node))
    first, last = (unit.this.name, unit.expression.name) if type(unit) is exp.IntervalSpan else (unit.name, None)
    return values.interval(sign + text, first, last)


_OPERANDS: Final[Mapping[type[exp.Expression], Callable[[_Reader, Any], p.Operand]]] = {
    exp.Column: _column,
    exp.Dot: _column,
    exp.Literal: _literal,
    exp.Neg: _negative,
    exp.Cast: _typed,
    exp.TryCast: _typed,
    exp.Interval: _interval,
    exp.Boolean: lambda _, node: p.Literal(t.bool_, int(node.this), str(node.this).upper()),
    exp.Null: lambda _, __: p.Literal(t.null, None, "NULL"),
}
"""By sqlglot's class: what can stand on a side of a comparison."""
