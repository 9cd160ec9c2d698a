"""The grammar of option values: every parser takes the text of one option and returns its value.

Strategy
--------
A parser raises ValueError for a text that it does not understand and says nothing about the option: `options`
knows the name, what is expected and an example, and makes the `OptionError` of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NoReturn, TypeAlias, TypeVar

from spark_arrow_ipc.ipc.constants import CompressionType

ColumnReference: TypeAlias = int | str | tuple[str, ...]
"""A position, a name, or the path to a field of a struct."""

_E = TypeVar("_E", bound=StrEnum)

_CODECS: dict[str, CompressionType | None] = {"none": None, **{codec.word: codec for codec in CompressionType}}
_SIZE = re.compile(r"([0-9]+)\s*([kmgtp]?b?)", re.IGNORECASE)
_POWER = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_WORDS = ("auto", "none", "all")
_COLUMN_PART = re.compile(r"`((?:[^`]|``)*)`|([^`.,\s]+)")


def byte_size(text: str) -> int:
    """Return bytes of a Spark byte string: ``128m``, ``2g``, ``64kb`` or plain bytes; at least 1."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    unit = match[2].lower()
    nbytes = int(match[1]) << (10 * _POWER[unit[:1]])
    if nbytes < 1:
        raise ValueError(text)
    return nbytes


def count(text: str) -> int:
    """Return a whole number of at least 1; underscores and commas are not understood, as in Spark."""
    if not text.strip().isascii() or not text.strip().isdigit() or int(text) < 1:
        raise ValueError(text)
    return int(text)


def integer(text: str) -> int:
    """Return a whole number, which may have a sign."""
    if re.fullmatch(r"[+-]?[0-9]+", text.strip()) is None:
        raise ValueError(text)
    return int(text)


def boolean(text: str) -> bool:
    """Return true or false, in any case."""
    return {"true": True, "false": False}[text.strip().lower()] if _is_boolean(text) else _refuse(text)


def word_of(enum: type[_E]) -> Callable[[str], _E]:
    """Return a parser of an enum's values, in any case."""
    values = {member.value.lower(): member for member in enum}

    def parse(text: str) -> _E:
        return values[text.strip().lower()] if text.strip().lower() in values else _refuse(text)

    return parse


def compression(string: str) -> CompressionType | None:
    """Return the codec that a word names, in any case; None for ``none``."""
    word = string.strip().lower()
    return _CODECS[word] if word in _CODECS else _refuse(string)


def string(given: str) -> str:
    """Return a string that is not blank, exactly as it was given."""
    return given if given.strip() else _refuse(given)


def path(text: str) -> tuple[str, ...]:
    """Return one path, exactly as it was given."""
    return (text,) if text.strip() else _refuse(text)


def paths(text: str) -> tuple[str, ...]:
    """Return the paths of a JSON array of strings, which is how Spark hands over ``load([a, b])``."""
    values = json.loads(text)
    sound = isinstance(values, list) and values and all(isinstance(v, str) and v.strip() for v in values)
    return tuple(values) if sound else _refuse(text)


def columns(text: str) -> tuple[ColumnReference, ...] | None:
    """Return column references, or None for ``all``.

    ``a, b.c, `x,y`, #0``: a comma separates, a dot addresses a field of a struct, backticks keep commas, dots and
    blanks in a name (a backtick in one is doubled), ``#n`` is a position. A text that begins with ``[`` is a
    JSON array of such references, where a number is a position too.
    """
    text = text.strip()
    if text.lower() == "all":
        return None
    if text.lower() in _WORDS:
        raise ValueError(text)
    if text.startswith("["):
        return tuple(map(_json_column, _json_list(text)))
    references = []
    at = 0
    while True:
        reference, at = _column_at(text, at)
        references.append(reference)
        if at == len(text):
            return tuple(references)
        at += 1


def column_list(text: str) -> tuple[ColumnReference, ...]:
    """Return column references, at least one, as `columns` reads them; no word stands for all."""
    references = columns(text)
    return references if references is not None else _refuse(text)


def column_list_or(enum: type[_E]) -> Callable[[str], _E | tuple[ColumnReference, ...]]:
    """Return a parser of column references or of one of an enum's words."""
    words = {member.value.lower(): member for member in enum}

    def parse(text: str) -> _E | tuple[ColumnReference, ...]:
        word = words.get(text.strip().lower())
        return column_list(text) if word is None else word

    return parse


def column_text(reference: ColumnReference) -> str:
    """Return a reference as it is written in an option: `columns` backwards."""
    if isinstance(reference, int):
        return f"#{reference}"
    parts = (reference,) if isinstance(reference, str) else reference
    return ".".join(map(_quoted, parts))


def _quoted(part: str) -> str:
    plain = _COLUMN_PART.fullmatch(part) and not part.startswith("#") and "`" not in part
    return part if plain and part.lower() not in _WORDS else "`" + part.replace("`", "``") + "`"


def _column_at(text: str, at: int) -> tuple[ColumnReference, int]:
    """Return one reference and where it ends: at a comma or at the end of the text."""
    parts: list[str] = []
    quoted = False
    while True:
        at = _skip_blanks(text, at)
        match = _COLUMN_PART.match(text, at)
        if match is None:
            raise ValueError(text)
        quoted = quoted or match[1] is not None
        parts.append(match[1].replace("``", "`") if match[1] is not None else match[2])
        at = _skip_blanks(text, match.end())
        if at == len(text) or text[at] == ",":
            break
        if text[at] != ".":
            raise ValueError(text)
        at += 1
    if not all(parts):
        raise ValueError(text)
    if len(parts) > 1:
        return tuple(parts), at
    if parts[0].startswith("#") and not quoted:
        return position(parts[0][1:]), at
    return parts[0], at


def position(text: str) -> int:
    """Return a whole number of at least 0."""
    return int(text) if text.isascii() and text.isdigit() else _refuse(text)


def _json_list(text: str) -> list[Any]:
    values = json.loads(text)
    return values if isinstance(values, list) and values else _refuse(text)


def _json_column(value: object) -> ColumnReference:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if not isinstance(value, str):
        return _refuse(str(value))
    reference, end = _column_at(value, 0)
    return reference if end == len(value) else _refuse(value)


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _is_boolean(text: str) -> bool:
    return text.strip().lower() in ("true", "false")


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)
