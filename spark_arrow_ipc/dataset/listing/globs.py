r"""Hadoop's glob patterns: compile them to regular expressions, and expand braces.

Strategy
--------
As in ``org.apache.hadoop.fs.GlobPattern`` and ``GlobExpander``: ``*`` and ``?`` within one part of a path, ``[abc]``,
``[a-z]``, ``[^a]`` (or ``[!a]``), nested ``{a,b}`` that may contain slashes, and ``\`` to escape a character. A part
``**``, which Hadoop does not have, stands for any number of directories.

Nothing here accesses a file system.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Final, TypeAlias

from spark_arrow_ipc.errors import OptionError

__all__ = ["ANY_DIRECTORIES", "Matches", "compile_name", "expand_braces", "is_pattern", "literal"]

Matches: TypeAlias = Callable[[str], object]
"""A predicate on names: the result is true if the name matches."""

ANY_DIRECTORIES: Final = "**"
"""A part of a path that stands for any number of directories, including none."""

_MAGIC: Final = re.compile(r"[*?\[\]{}\\]")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def is_pattern(path: str) -> bool:
    """Return whether a path contains a special character of patterns."""
    return _MAGIC.search(path) is not None


def literal(part: str) -> str | None:
    r"""Return the only name that a part can match, or None: ``a\*b`` is ``a*b``."""
    name = _ESCAPED.sub(r"\1", part)
    return name if not is_pattern(_ESCAPED.sub("", part)) else None


def compile_name(pattern: str) -> Matches:
    """Compile a pattern into a predicate on names (without slashes).

    Raises
    ------
    OptionError
        A bracket or brace is not closed, a range runs backwards, or the pattern ends in a backslash.
    """
    return re.compile(_Translation(pattern).expression(), re.DOTALL).fullmatch


class _Translation:
    """Translates a pattern into a regular expression, character by character."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def expression(self) -> str:
        parts = []
        braces = 0
        while self._at < len(self._pattern):
            letter = self._next()
            if letter == "\\":
                parts.append(re.escape(self._escaped()))
            elif letter == "*":
                parts.append(".*")
            elif letter == "?":
                parts.append(".")
            elif letter == "[":
                parts.append(self._set())
            elif letter == "{":
                braces += 1
                parts.append("(?:")
            elif letter == "}" and braces:
                braces -= 1
                parts.append(")")
            elif letter == "," and braces:
                parts.append("|")
            else:
                parts.append(re.escape(letter))
        if braces:
            raise self._wrong("a } for each {")
        return "".join(parts)

    def _next(self) -> str:
        letter = self._pattern[self._at]
        self._at += 1
        return letter

    def _escaped(self) -> str:
        if self._at == len(self._pattern):
            raise self._wrong("a character after the backslash")
        return self._next()

    def _set(self) -> str:
        r"""Translate a set; ``\``, ``-``, ``]`` leading ``^`` and ``!`` are special."""
        negated = self._pattern[self._at : self._at + 1] in ("^", "!")
        self._at += negated
        members: list[str] = []
        first = self._at
        while True:
            if self._at == len(self._pattern):
                raise self._wrong("a ] for each [")
            letter = self._next()
            if letter == "]" and self._at > first + 1:
                return f"[{'^' if negated else ''}{''.join(members)}]"
            low = self._escaped() if letter == "\\" else letter
            following = self._pattern[self._at : self._at + 2]
            if len(following) == 2 and following[0] == "-" and following[1] != "]":
                self._at += 1
                letter = self._next()
                high = self._escaped() if letter == "\\" else letter
                if high < low:
                    raise self._wrong(f"a range from the lower to the higher character, not {low}-{high}")
                members.append(f"{re.escape(low)}-{re.escape(high)}")
            else:
                # re.escape does not escape & | ~, which are reserved in a set when doubled.
                members.append(f"\\{low}" if low in "&|~" else re.escape(low))

    def _wrong(self, expected: str) -> OptionError:
        return OptionError(expected=f"{expected} in the pattern", found=repr(self._pattern))


def expand_braces(pattern: str) -> list[str]:
    r"""Expand braces that contain a slash: ``p{a/b,c}`` becomes ``pa/b`` and ``pc``.

    Braces without a slash stay, and so does a pattern with unclosed braces.

    Raises
    ------
    OptionError
        The pattern ends in a backslash.
    """
    waiting = [pattern]
    expanded = []
    while waiting:
        current = waiting.pop()
        braces = _braces_with_slash(current)
        if braces is None:
            expanded.append(current)
            continue
        first, commas, end = braces
        edges = [first, *commas, end]
        choices = [current[a + 1 : b] for a, b in pairwise(edges)]
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
