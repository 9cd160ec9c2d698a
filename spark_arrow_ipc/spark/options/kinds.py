"""What values of Python stand for an option, and the strings that they become.

Strategy
--------
Spark passes options as strings. Each option also has a `Kind`, which says what else a program may give for it
(``typed.py``): its annotation is printed into ``keywords.py`` for type checkers, and its function makes the string. A
string is always given on as it is, so that every option can be written as Spark takes it. Whether the string is a valid
one is the parser's to say.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn

_SECOND: Final = timedelta(seconds=1)
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Kind:
    """What a program may give for an option.

    Parameters
    ----------
    annotation
        For type checkers, with names of ``keywords.py``.
    string_of
        Makes the option's string of a value that is no string. Raises TypeError or ValueError for other values.
    """

    annotation: str
    string_of: Callable[[Any], str]


def words(values: Iterable[str]) -> Kind:
    """Return the kind of an option that is one of some words."""
    return Kind(_literal(values), _refuse)


def columns_or(values: Iterable[str]) -> Kind:
    """Return the kind of an option that is a list of columns or one of some words.

    A string is only annotated as a word, because a type checker takes every string for a sequence of strings, and could
    not tell a misspelt word then.
    """
    return Kind(f"{_literal(values)} | list[str] | tuple[str, ...]", _json)


def integer_or(values: Iterable[str]) -> Kind:
    """Return the kind of an option that is a whole number or one of some words."""
    return Kind(f"{_literal(values)} | int", _integer)


def _literal(values: Iterable[str]) -> str:
    return f"Literal[{', '.join(json.dumps(value) for value in values)}]"


def _refuse(value: object) -> NoReturn:
    raise TypeError(value)


def _flag(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else _refuse(value)


def _integer(value: object) -> str:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else _refuse(value)


def _duration(value: object) -> str:
    return f"{_whole(value, _SECOND)}s" if isinstance(value, timedelta) else _integer(value)


def _pause(value: object) -> str:
    return f"{_whole(value, _MILLISECOND)}ms" if isinstance(value, timedelta) else _integer(value)


def _whole(value: timedelta, unit: timedelta) -> int:
    count, rest = divmod(value, unit)
    if rest:
        raise ValueError(value)
    return count


def _time(value: object) -> str:
    """Return a time; one with a zone as it is in UTC, because options know no offsets with seconds."""
    if not isinstance(value, datetime):
        _refuse(value)
    return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat()


def _path(value: object) -> str:
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    return path if isinstance(path, str) else _refuse(value)


def _json(value: object) -> str:
    """Return a JSON array, in which names may have any characters."""
    is_list = isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)
    return json.dumps(value) if is_list else _refuse(value)


def _paths(value: object) -> str:
    return json.dumps([_path(each) for each in value]) if isinstance(value, (list, tuple)) else _refuse(value)


def _tensors(value: object) -> str:
    if not isinstance(value, Mapping):
        _refuse(value)
    return ", ".join(f"{name}:{_shape(shape)}" for name, shape in value.items())


def _shape(sizes: object) -> str:
    if not isinstance(sizes, (list, tuple)):
        _refuse(sizes)
    return "x".join("?" if size is None else _integer(size) for size in sizes)


STRING: Final = Kind("str", _refuse)
FLAG: Final = Kind("bool", _flag)
INTEGER: Final = Kind("int", _integer)
BYTES: Final = Kind("int | str", _integer)
DURATION: Final = Kind("timedelta | int | str", _duration)
PAUSE: Final = Kind("timedelta | int | str", _pause)
TIME: Final = Kind("datetime | str", _time)
PATH: Final = Kind("str | PathLike[str]", _path)
PATHS: Final = Kind("Sequence[str | PathLike[str]]", _paths)
COLUMNS: Final = Kind("str | Sequence[str]", _json)
TENSORS: Final = Kind("str | Mapping[str, Sequence[int | None]]", _tensors)
PAIRS: Final = Kind("Mapping[str, str]", _refuse)
"""Of an option with keys: the pair of each key is an option of its own, whose value is a string."""
