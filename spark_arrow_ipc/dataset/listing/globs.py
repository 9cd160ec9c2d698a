r"""Hadoop's glob patterns: compile them to predicates on names, and expand braces.

As in ``org.apache.hadoop.fs.GlobPattern`` and ``GlobExpander``: ``*`` and ``?`` within one part of a path, ``[abc]``,
``[a-z]``, ``[^a]`` (or ``[!a]``), nested ``{a,b}`` that may contain slashes, and ``\` to escape a character. A part
``**``, which Hadoop does not have, stands for any number of directories. No function here accesses a file system.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby, pairwise
from typing import Final, TypeAlias

from spark_arrow_ipc.errors import OptionError, cut_repr

Matches: TypeAlias = Callable[[str], object]
"""A predicate on names: the result is true if the name matches."""

ANY_DIRECTORIES: Final = "**"
"""A part of a path that stands for any number of directories, including none."""

MOST_CHARACTERS: Final = 1 << 16
"""Length of a pattern."""

MOST_PATHS: Final = 10_000
"""Patterns that braces with a slash expand to."""

_MOST_EXPANDED_CHARACTERS: Final = 1_000_000
"""Characters of all patterns that one is expanded to, and of all steps between."""

_STAR: Final = "*"
_Choice: TypeAlias = tuple[str, ...]
"""A name without braces: `_STAR`, and a regular expression for each other character."""

_MAGIC: Final = re.compile(r"[*?\[\]{}\\]")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def is_pattern(path: str) -> bool:
    """Return whether a path contains a special character of patterns."""
    return _MAGIC.search(path) is not None


def escape(path: str) -> str:
    """Return the pattern that matches only a path."""
    return _MAGIC.sub(r"\\\g<0>", path)


def literal(part: str) -> str | None:
    r"""Return the only name that a part can match, or None: ``a\*b`` is ``a*b``."""
    name = _ESCAPED.sub(r"\1", part)
    return name if not is_pattern(_ESCAPED.sub("", part)) else None


def compile_name(pattern: str) -> Matches:
    """Compile a pattern into a predicate on names (without slashes); OptionError if it is malformed or too large."""
    if len(pattern) > MOST_CHARACTERS:
        raise OptionError(expected=f"a pattern of at most {MOST_CHARACTERS:,} characters", found=f"{len(pattern):,}")
    return re.compile("|".join(map(_expression, _Parser(pattern).choices())), re.DOTALL).fullmatch


def _expression(choice: _Choice) -> str:
    parts = ["".join(part) for is_star, part in groupby((*choice, ""), _STAR.__eq__) if not is_star]
    if _STAR not in choice:
        return parts[0]
    first, last = "" if choice[0] == _STAR else parts.pop(0), parts.pop()
    # A part between two stars has one length, so its leftmost match is as good as any: an atomic group tries no other.
    # With backtracking ``*a*a*a*ab`` takes seconds for one name.
    return first + "".join(f"(?>.*?{part})" for part in parts) + f".*{last}"


class _Parser:
    """Parses a pattern into the names that its braces stand for, character by character."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._expanded = 0

    def choices(self) -> list[_Choice]:
        choices: list[_Choice] = [()]
        part: list[str] = []
        outer: list[tuple[list[_Choice], list[_Choice]]] = []  # before each open brace, and in it up to its last comma
        while self._at < len(self._pattern):
            letter = self._next()
            if letter == "{" or (letter in "}," and outer):
                choices, part = self._combine(choices, [tuple(part)]), []
            if letter == "{":
                outer.append((choices, []))
                choices = [()]
            elif letter == "}" and outer:
                before, inside = outer.pop()
                choices = self._combine(before, inside + choices)
            elif letter == "," and outer:
                outer[-1][1].extend(choices)
                choices = [()]
            else:
                part.append(self._part(letter))
        if outer:
            raise self._wrong("a } for each {")
        return self._combine(choices, [tuple(part)])

    def _combine(self, before: list[_Choice], after: list[_Choice]) -> list[_Choice]:
        # Counted before it is built: ``{a,b}{a,b}...`` doubles with each pair of braces.
        self._expanded += len(before) * sum(map(len, after)) + len(after) * sum(map(len, before))
        if len(before) * len(after) > MOST_PATHS or self._expanded > _MOST_EXPANDED_CHARACTERS:
            raise OptionError(
                expected=f"braces that stand for at most {MOST_PATHS:,} names", found=cut_repr(self._pattern)
            )
        return [first + last for first in before for last in after]

    def _part(self, letter: str) -> str:
        if letter == "[":
            return self._set()
        if letter in "*?":
            return _STAR if letter == "*" else "."
        return re.escape(self._unescape() if letter == "\\" else letter)

    def _next(self) -> str:
        letter = self._pattern[self._at]
        self._at += 1
        return letter

    def _unescape(self) -> str:
        if self._at == len(self._pattern):
            raise self._wrong("a character after the backslash")
        return self._next()

    def _set(self) -> str:
        r"""Parse a set; ``\``, ``-``, ``]``, and a leading ``^`` or ``!`` are special."""
        negated = self._pattern[self._at : self._at + 1] in ("^", "!")
        self._at += negated
        ranges = ""
        first = self._at
        while True:
            if self._at == len(self._pattern):
                raise self._wrong("a ] for each [")
            letter = self._next()
            if letter == "]" and self._at > first + 1:  # the first ] of a set stands for itself
                return f"[{'^' * negated}{ranges}]"
            low = high = self._unescape() if letter == "\\" else letter
            following = self._pattern[self._at : self._at + 2]
            if len(following) == 2 and following[0] == "-" and following[1] != "]":
                self._at += 1
                letter = self._next()
                high = self._unescape() if letter == "\\" else letter
                if high < low:
                    raise self._wrong(f"a range from the lower to the higher character, not {low}-{high}")
            ranges += f"{re.escape(low)}-{re.escape(high)}"

    def _wrong(self, expected: str) -> OptionError:
        return OptionError(expected=f"{expected} in the pattern", found=cut_repr(self._pattern))


def expand_braces(pattern: str) -> list[str]:
    r"""Expand braces that contain a slash: ``p{a/b,c}`` becomes ``pa/b`` and ``pc``; OptionError if they are too many."""
    # Braces without a slash stay, and so does a pattern with unclosed braces: `compile_name` reads both.
    waiting = [pattern]
    expanded: list[str] = []
    characters = 0
    while waiting:
        current = waiting.pop()
        characters += len(current)
        if len(expanded) + len(waiting) >= MOST_PATHS or characters > _MOST_EXPANDED_CHARACTERS:
            raise OptionError(expected=f"braces that stand for at most {MOST_PATHS:,} paths", found=cut_repr(pattern))
        braces = _braces_with_slash(current)
        if braces is None:
            expanded.append(current)
            continue
        first, commas, end = braces
        edges = [first, *commas, end]
        choices = [current[a + 1 : b] for a, b in pairwise(edges)]
        # Reversed, as the last is expanded next and the results are in the order of the pattern.
        waiting.extend(current[:first] + choice + current[end + 1 :] for choice in reversed(choices))
    return expanded


def _braces_with_slash(pattern: str) -> tuple[int, list[int], int] | None:
    """Return the positions of the first outer braces with a slash, and their commas."""
    depth = first = 0
    commas: list[int] = []
    slash = False
    i = 0
    while i < len(pattern):
        letter = pattern[i]
        if letter == "\\":
            i += 1
        elif letter == "{":
            depth += 1
            if depth == 1:
                first, commas, slash = i, [], False
        elif letter == "}" and depth:
            depth -= 1
            if depth == 0 and slash:
                return first, commas, i
        elif letter == "," and depth == 1:
            commas.append(i)
        elif letter == "/" and depth:
            slash = True
        i += 1
    return None
