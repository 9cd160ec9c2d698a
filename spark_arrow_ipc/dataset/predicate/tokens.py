"""Read the tokens of a predicate's SQL by the rules of Spark's lexer, and make errors that point at a token or a conjunct.

`Tokens` is a cursor: it has the next token, and `advance` finds the one after it, so that a string of any length needs the
memory of one token. A character that cannot begin a token is a token of kind ``other``, which the parser always refuses.
Comments, hints and parameters begin with such characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from spark_arrow_ipc.dataset.predicate import DOUBLE_QUOTES, ESCAPES, shorten
from spark_arrow_ipc.dataset.predicate.expressions import WHERE
from spark_arrow_ipc.errors import OptionError

_ALLOWED: Final = (
    'where takes comparisons with AND, OR and NOT ("What where understands" in Options has all); '
    "filter the DataFrame for everything else"
)
_EXCERPT: Final = 20
"""Characters shown on each side of a mistake."""

_MAX_NESTING: Final = 100
"""Levels of all that nests. Parsing and pickling take at most six frames of Python's stack for each."""

CONDITIONS: Final = "conditions (many values of one column are one of them as IN (...); with more, join the DataFrame)"
COMPUTED: Final = "options of IN with CAST or NULL (other literals are not counted)"
_MOST: Final = {CONDITIONS: 20_000, COMPUTED: 50_000}
"""A condition or option takes about 50 microseconds to parse and to bind, and each task binds again."""

_MOST_WRITTEN: Final = 200
"""Characters of an expression that errors and plans repeat."""

_BLANKS: Final = " \t\n\f\r\v\u00a0\u1680\u2000-\u200a\u2028\u202f\u205f\u3000"
"""``WS`` of Spark's lexer."""

_TOKEN: Final = re.compile(
    rf"""[{_BLANKS}]*+(?:
    (?P<string>'[^'\\]*+(?:\\.[^'\\]*+)*+' | "[^"\\]*+(?:\\.[^"\\]*+)*+")
    | (?P<raw>[rR](?:'[^']*+'|"[^"]*+"))
    | (?P<binary>[xX](?:'[^']*+'|"[^"]*+"))
    | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:[bB][dD]|[yYsSlLdDfF])?(?!\w))
    | (?P<comment>--|/\*)
    | (?P<symbol><=>|<>|!=|==|<=|>=|[=<>!(),.+\-*/])
    | (?P<word>[^\W\d]\w*+)
    | (?P<name>`(?:[^`]|``)*+`)
    | (?P<end>\Z)
    | (?P<other>.)
    )""",
    re.VERBOSE | re.DOTALL,
)

_SURROGATE: Final = re.compile("[\ud800-\udfff]")

_NUMBER: Final = re.compile(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)")
"""Digits and suffix."""

STRINGS: Final = ("string", "raw")
"""Kinds of tokens that are string literals."""

_ESCAPED: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPES: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
"""``SparkParserUtils.unescapeSQLString``: all other characters stand for themselves."""

_UNCLOSED: Final = {
    "'": "a string that is not closed",
    '"': "a string that is not closed",
    "`": "a name in backticks that is not closed",
}


class Tokens:
    """A cursor over the tokens of one SQL string; it adds the settings on which the SQL depends to `dependencies`."""

    __slots__ = (
        "_counts",
        "_dependencies",
        "_line",
        "_nesting",
        "_sql",
        "before",
        "key",
        "kind",
        "start",
        "stop",
        "token",
    )

    def __init__(self, sql: str, dependencies: dict[str, str] | None = None) -> None:
        self._sql = sql
        self._dependencies = {} if dependencies is None else dependencies
        self._nesting = 0
        self._counts = dict.fromkeys(_MOST, 0)
        self._line = (0, 0, 0)
        self.before = self.start = self.stop = 0
        if (surrogate := _SURROGATE.search(sql)) is not None:
            # Replaced, as the message has a part of the SQL and must be encodable.
            self._sql = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", sql)
            raise self.error("characters of Unicode", f"{surrogate[0]!a}, half of one", surrogate.start())
        self.advance()

    def advance(self) -> None:
        """Go to the next token."""
        match = _TOKEN.match(self._sql, self.stop)
        assert match is not None
        assert match.lastgroup is not None
        # Group of `_TOKEN`: string, raw, binary, number, comment, symbol, word, name (in backticks), end or other.
        self.kind = kind = match.lastgroup
        self.before = self.stop  # the end of the previous token
        self.start, self.stop = match.span(kind)
        self.token = match[kind]
        # Empty for all others, so that a name in backticks is not a keyword.
        self.key = self.token if kind == "symbol" else self.token.upper() if kind == "word" else ""

    def following(self) -> tuple[str, str]:
        """Return kind and characters of the token after the current one."""
        match = _TOKEN.match(self._sql, self.stop)
        assert match is not None
        assert match.lastgroup is not None
        return match.lastgroup, match[match.lastgroup]

    def enter(self) -> None:
        """Go one level deeper; `leave` goes back."""
        # All productions that nest call this, which bounds the stack of the parser and of all functions on its result.
        self._nesting += 1
        self.check_nesting()

    def leave(self) -> None:
        """Go one level back."""
        self._nesting -= 1

    def check_nesting(self, below: int = 0) -> None:
        """Refuse a value with `below` levels of its own if it would be too deep."""
        if self._nesting + below > _MAX_NESTING:
            raise self.error(f"at most {_MAX_NESTING} levels of parentheses, NOTs and fields", "one more")

    def count(self, what: str) -> None:
        """Count an item that `_MOST` bounds."""
        self._counts[what] += 1
        if self._counts[what] > _MOST[what]:
            raise self.error(f"at most {_MOST[what]:,} {what}", "more")

    def text_since(self, start: int) -> str:
        """Return the SQL from a position to the end of the previous token, shortened."""
        return shorten(self._sql[start : self.before], _MOST_WRITTEN)

    def skip(self, key: str) -> bool:
        """Go past a keyword or symbol if it is next; return whether it was."""
        if self.key != key:
            return False
        self.advance()
        return True

    def take(self, key: str, expected: str | None = None) -> None:
        """Go past a keyword or symbol that must be next."""
        if self.key != key:
            raise self.error(expected or key)
        self.advance()

    def take_number(self) -> tuple[str, str]:
        """Go past a number; return its digits and its suffix."""
        match = _NUMBER.fullmatch(self.token)
        assert match is not None
        self.advance()
        return match[1], match[2]

    def take_string(self, expected: str) -> str:
        """Go past a string literal; return its value."""
        kind, token, start = self.kind, self.token, self.start
        if kind not in STRINGS:
            raise self.error(expected)
        self.advance()
        if kind == "raw" or "\\" in token:
            self.depend_on(ESCAPES, token)
        if token[-1] != "'":
            self.depend_on(DOUBLE_QUOTES, token)
        if self.kind in STRINGS:
            # Spark joins neighbouring strings, other dialects read two quotes as one.
            raise self.error("one string (write \\' for a quote)", "two strings side by side")
        if kind == "raw":
            return token[2:-1]
        value = token[1:-1]
        return _ESCAPED.sub(lambda escape: self._unescape(escape, start), value) if "\\" in value else value

    def depend_on(self, setting: str, part: str) -> None:
        """Add a setting of the session on which a part of the SQL depends."""
        self._dependencies.setdefault(setting, part)

    def _unescape(self, match: re.Match[str], start: int) -> str:
        escape = match[1]
        if len(escape) == 1:
            return _ESCAPES.get(escape, escape)
        code = int(escape, 8) if escape[0] in "0123" else int(escape[1:], 16)
        if 0xD800 <= code < 0xE000 or code > 0x10FFFF:
            raise self.error("a whole character", match[0], start + 1 + match.start())
        return chr(code)

    def take_binary(self) -> bytes:
        """Go past a binary literal; return its value."""
        digits, start = self.token[2:-1], self.start
        if re.fullmatch("[0-9a-fA-F]*", digits) is None:
            raise self.error("hexadecimal digits", self.token, start)
        self.advance()
        # As Spark, which pads an odd number of digits at the front.
        return bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)

    def error(self, expected: str, actual: str | None = None, start: int | None = None) -> OptionError:
        """Return the error for the current token, or for the SQL from `start` on."""
        start = self.start if start is None else start
        first, stop = max(0, start - _EXCERPT), start + _EXCERPT
        near = " ".join(self._sql[first:stop].split())
        excerpt = ("..." if first else "") + near + ("..." if stop < len(self._sql) else "")
        actual = self._describe() if not actual else shorten(actual, 4 * _EXCERPT)
        return OptionError(
            expected=expected,
            found=f"{actual} (near {excerpt!r}); {_ALLOWED}",
            asked_by=f"{WHERE}, {self.describe_position(start)}",
        )

    def describe_position(self, start: int) -> str:
        """Return line and character of a position, for errors."""
        counted, lines, first = self._line if start >= self._line[0] else (0, 0, 0)
        lines += self._sql.count("\n", counted, start)
        first = max(first, self._sql.rfind("\n", counted, start) + 1)
        # Every condition has its position: lines are counted on from the previous one, so that all are O(length).
        self._line = start, lines, first
        character = start - first + 1
        return f"line {lines + 1}, character {character}" if lines else f"character {character}"

    def _describe(self) -> str:
        if self.kind == "end":
            return "the end"
        if self.kind == "comment":
            return "a comment"
        if self.kind == "other" and self.token.isdigit():
            return "a name that begins with a digit, without backticks"
        if self.kind == "other":
            return _UNCLOSED.get(self.token, self.token)
        shown = shorten(self.token, _EXCERPT)
        if self.kind in STRINGS:
            return f"the string {shown}"
        return f"the function {shown}" if self.kind == "word" and self.following()[1] == "(" else shown


_MOST_CONJUNCTS: Final = 50
"""Conjuncts that are tried one by one."""

_SHOWN: Final = 300
"""Characters of a conjunct in an error."""


def explain_refusal(error: OptionError, sql: str, check: Callable[[str], object]) -> OptionError:
    """Return the error for a predicate; if some of its conjuncts work, it names them and the others."""
    parts = _conjuncts(sql)
    if not 1 < len(parts) <= _MOST_CONJUNCTS:
        return error
    working, refused = [], []
    for part in parts:
        try:
            check(part)
        except OptionError:
            refused.append(part)
        else:
            working.append(part)
    if working and refused:
        error.asked_by = (
            f"{error.asked_by} (in the condition [{_join(refused)}]; without it where "
            f"takes [{_join(working)}], and the DataFrame can be filtered by the rest)"
        )
    return error


def _join(conjuncts: Sequence[str]) -> str:
    return shorten(" ".join(" AND ".join(conjuncts).split()), _SHOWN)


def _conjuncts(sql: str) -> list[str]:
    """Return the conditions that ANDs at the top level connect; one if this is unclear without a parser."""
    parts: list[str] = []
    depth = first = betweens = 0
    try:
        tokens = Tokens(sql)
    except OptionError:
        return [sql]
    while tokens.kind != "end":
        depth += {"(": 1, ")": -1, "CASE": 1, "END": -1}.get(tokens.key, 0)
        if tokens.kind in ("other", "comment") or (depth == 0 and tokens.key == "OR"):
            return [sql]
        if depth == 0 and tokens.key == "BETWEEN":  # the next AND is its own
            betweens += 1
        elif depth == 0 and tokens.key == "AND" and betweens:
            betweens -= 1
        elif depth == 0 and tokens.key == "AND":
            parts.append(sql[first : tokens.start].strip())
            first = tokens.stop
        tokens.advance()
    return [*parts, sql[first:].strip()]
