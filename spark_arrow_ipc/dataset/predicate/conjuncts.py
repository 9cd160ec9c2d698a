"""Say which part of a refused predicate is at fault, and which part would still work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spark_arrow_ipc.dataset.predicate.tokens import Tokens
from spark_arrow_ipc.errors import OptionError

_MOST: Final = 50
"""Conjuncts to try one by one."""

_SHOWN: Final = 300
"""Characters of a conjunct in an error."""


def explained(error: OptionError, sql: str, check: Callable[[str], object]) -> OptionError:
    """Return the error for a predicate, with the conjunct at fault and the others if there are some that work."""
    parts = _conjuncts(sql)
    if not 1 < len(parts) <= _MOST:
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
            f"{error.asked_by} (in the condition {_shown(' AND '.join(refused))}; without it where "
            f"takes {_shown(' AND '.join(working))}, and the DataFrame can be filtered by the rest)"
        )
    return error


def _shown(string: str) -> str:
    string = " ".join(string.split())
    return f"[{string}]" if len(string) <= _SHOWN else f"[{string[:_SHOWN]}...]"


def _conjuncts(sql: str) -> list[str]:
    """Return the conditions that ANDs at the top connect; one where that cannot be told."""
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
        if depth == 0 and tokens.key == "BETWEEN":
            betweens += 1
        elif depth == 0 and tokens.key == "AND" and betweens:
            betweens -= 1
        elif depth == 0 and tokens.key == "AND":
            parts.append(sql[first : tokens.start].strip())
            first = tokens.stop
        tokens.advance()
    return [*parts, sql[first:].strip()]
