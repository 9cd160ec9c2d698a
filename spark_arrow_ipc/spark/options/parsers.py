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
from typing import NoReturn, TypeVar

from spark_arrow_ipc.arrow.column_path import WORDS, ColumnPath, parse_paths
from spark_arrow_ipc.ipc.constants import CompressionType

_E = TypeVar("_E", bound=StrEnum)

_CODECS: dict[str, CompressionType | None] = {"none": None, **{codec.word: codec for codec in CompressionType}}
_SIZE = re.compile(r"([0-9]+)\s*([kmgtp]?b?)", re.IGNORECASE)
_POWER = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


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


def columns(text: str) -> tuple[ColumnPath, ...] | None:
    """Return the column paths of a list, or None for the word ``all``; see `parse_paths`."""
    word = text.strip().lower()
    if word == "all":
        return None
    return parse_paths(text) if word not in WORDS else _refuse(text)


def column_list(text: str) -> tuple[ColumnPath, ...]:
    """Return column paths, at least one, as `columns` reads them; no word stands for all."""
    listed = columns(text)
    return listed if listed is not None else _refuse(text)


def column_list_or(enum: type[_E]) -> Callable[[str], _E | tuple[ColumnPath, ...]]:
    """Return a parser of column paths or of one of an enum's words."""
    words = {member.value.lower(): member for member in enum}

    def parse(text: str) -> _E | tuple[ColumnPath, ...]:
        word = words.get(text.strip().lower())
        return column_list(text) if word is None else word

    return parse


def _is_boolean(text: str) -> bool:
    return text.strip().lower() in ("true", "false")


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)
