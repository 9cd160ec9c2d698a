"""Declare an option as a field of the dataclass with its value.

`ReadOptions` and `SparkWriteOptions` (``read_options.py``, ``write_options.py``) declare every option once: the attribute
is the option's name in snake case, its annotation the type of the value, and the call of a function of this module gives
the parser of Spark's string, the default and the documentation. These functions return a dataclass field and are
annotated with the type of the value, as `dataclasses.field` is, so that mypy checks the attribute's annotation.
`options_by_attribute` reads the declarations.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import Flag, StrEnum, auto
from typing import Any, Final, NoReturn, TypeVar

from spark_arrow_ipc.arrow.column_path import ColumnPath
from spark_arrow_ipc.spark.options import values

# Python values for options, and the strings that they become.
#
# Spark passes options as strings. The `Kind` of an option has the other values that a program may give for it
# (``typed.py``): its annotation is printed into ``keywords.py`` for type checkers, and its function makes the string.
# Strings are never changed, so that every option can be written as for Spark; the parser decides whether one is valid.


@dataclass(frozen=True, slots=True)
class Kind:
    """The Python values that a program may give for an option."""

    annotation: str  # for type checkers, in ``keywords.py``
    # Makes the option's string from a value that is not a string; raises TypeError or ValueError for other values.
    string_of: Callable[[Any], str]


def one_of_words(values: Iterable[str]) -> Kind:
    """Return the kind of an option that is one of some words."""
    return Kind(_literal(values), _refuse)


def columns_or(values: Iterable[str]) -> Kind:
    """Return the kind of an option that is a list of columns or one of some words."""
    # Not `Sequence[str]`: a string is one too, so a type checker would accept misspelt words.
    return Kind(f"{_literal(values)} | list[str] | tuple[str, ...]", _json)


def point_or(values: Iterable[str]) -> Kind:
    """Return the kind of an option that is an integer, a time with its zone, or one of some words."""
    words = _literal(values)
    return Kind(f"{words} | int | datetime", lambda value: (_time if isinstance(value, datetime) else _integer)(value))


def _literal(values: Iterable[str]) -> str:
    return f"Literal[{', '.join(json.dumps(value) for value in values)}]"


def _refuse(value: object) -> NoReturn:
    raise TypeError(value)


def _integer(value: object) -> str:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else _refuse(value)


def _in_units(unit: timedelta, name: str) -> Callable[[object], str]:
    def string_of(value: object) -> str:
        if not isinstance(value, timedelta):
            return _integer(value)
        count, rest = divmod(value, unit)
        if rest:
            raise ValueError(value)
        return f"{count}{name}"

    return string_of


def _time(value: object) -> str:
    # In UTC, because options have no offsets with seconds.
    if not isinstance(value, datetime):
        _refuse(value)
    return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat()


def _path(value: object) -> str:
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    return path if isinstance(path, str) else _refuse(value)


def _json(value: object) -> str:
    # In JSON names may have any characters.
    is_list = isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)
    return json.dumps(value) if is_list else _refuse(value)


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else _refuse(value)


def _by_column(string_of: Callable[[Any], str]) -> Callable[[object], str]:
    def string_of_mapping(value: object) -> str:
        columns = value if isinstance(value, Mapping) else _refuse(value)
        return ", ".join(f"{name}:{string_of(each)}" for name, each in columns.items())

    return string_of_mapping


STRING: Final = Kind("str", _refuse)
FLAG: Final = Kind("bool", lambda value: str(value).lower() if isinstance(value, bool) else _refuse(value))
INTEGER: Final = Kind("int", _integer)
BYTES: Final = Kind("int | str", _integer)
DURATION: Final = Kind("timedelta | int | str", _in_units(timedelta(seconds=1), "s"))
PAUSE: Final = Kind("timedelta | int | str", _in_units(timedelta(milliseconds=1), "ms"))
TIME: Final = Kind("datetime | str", _time)
PATH: Final = Kind("str | PathLike[str]", _path)
PATHS: Final = Kind("Sequence[str | PathLike[str]]", lambda value: json.dumps([*map(_path, _list(value))]))
COLUMNS: Final = Kind("str | Sequence[str]", _json)
TENSORS: Final = Kind(
    "str | Mapping[str, Sequence[int | None]]",
    _by_column(lambda sizes: "x".join("?" if size is None else _integer(size) for size in _list(sizes))),
)
SIZES: Final = Kind("str | Mapping[str, int]", _by_column(_integer))
PAIRS: Final = Kind("Mapping[str, str]", _refuse)
"""For an option with keys, of which each is a separate option with a string."""


_T = TypeVar("_T")
_E = TypeVar("_E", bound=StrEnum)

_OPTIONS = "options"
"""Key of a field's options in its metadata."""

_BYTES = "bytes, as a whole number or with a unit of k, m, g, t or p"
_COLUMNS = (
    "column names separated by commas (a name with comma, dot or blank in backticks, a position as #n), or a JSON "
    "array of them"
)
_COUNT = "a whole number of at least 1"
_DURATION = "a number of seconds, or one with a unit of s, m, h or d"


class Use(Flag):
    """The uses of the package in which an option is accepted; in others it is refused."""

    BATCH = auto()  # a batch read of files
    HEADERS = auto()  # with metadataOnly=true
    SERVER = auto()  # a server's table
    DIRECTORY = auto()  # a stream of directories of files
    TABLE = auto()  # a stream of a table by its log entries
    TAIL = auto()  # a stream of one growing file
    COUNT = auto()  # `count` from headers, without tasks: options that do not change the number of rows
    COMPACTION = auto()  # options that change neither rows nor types
    CHANGE = auto()  # DELETE, UPDATE and MERGE: options of the table that leave out no rows and no columns
    JOB = auto()  # a batch write
    QUERY = auto()  # a streaming write, of which each batch is a job

    LISTED = BATCH | HEADERS | DIRECTORY | TABLE
    FILES = LISTED | TAIL
    READS = FILES | SERVER
    ROWS = BATCH | DIRECTORY | TABLE | TAIL | SERVER
    STREAMS = DIRECTORY | TABLE | TAIL
    WRITES = JOB | QUERY


@dataclass(frozen=True, slots=True)
class Option:
    """One option as the documentation shows it."""

    parse: Callable[[str], Any]  # converts the string to a value, or raises ValueError
    default: str | None  # the string that is parsed when the option is absent; None if there is none
    expected: str  # describes valid strings
    example: str  # a valid string
    meaning: str  # one sentence for the documentation
    # As in the documentation; it matches in any case. Empty in a declaration, whose attribute in camel case is the name. A
    # name that ends in ``.*`` stands for all options with this prefix.
    name: str = ""
    is_secret: bool = False  # no error may show the value
    kind: Kind = STRING  # the Python values that a program may give
    applies: Use = field(kw_only=True)  # the uses that accept it


def option(
    parse: Callable[[str], _T],
    default: str,
    expected: str,
    example: str,
    meaning: str,
    *,
    applies: Use,
    kind: Kind = STRING,
) -> _T:
    """Declare an option with a default, which is a string as the option is."""
    row = Option(parse, default, expected, example, meaning, kind=kind, applies=applies)
    return field(default=parse(default), metadata={_OPTIONS: (row,)})


def optional(
    parse: Callable[[str], _T], expected: str, example: str, meaning: str, *, applies: Use, kind: Kind = STRING
) -> _T | None:
    """Declare an option that is None when it is absent."""
    return one_of(Option(parse, None, expected, example, meaning, kind=kind, applies=applies), absent=None)


def one_of(*options: Option, absent: _T) -> _T:
    """Declare an attribute that has the value of one of several options, or `absent`."""
    return field(default=absent, metadata={_OPTIONS: options})


def word(default: _E, meaning: str, *, applies: Use) -> _E:
    """Declare an option that is one of the words of an enum."""
    words = list(type(default))
    expected = f"one of {', '.join(each.value for each in words)}"
    other = next(each for each in words if each is not default)
    kind = one_of_words(each.value for each in words)
    return option(
        values.word_of(type(default)), default.value, expected, other.value, meaning, kind=kind, applies=applies
    )


def optional_word(example: _E, meaning: str, *, applies: Use) -> _E | None:
    """Declare an option that is one of the words of an enum, or None when it is absent."""
    expected = f"one of {', '.join(each.value for each in type(example))}"
    kind = one_of_words(each.value for each in type(example))
    return optional(values.word_of(type(example)), expected, example.value, meaning, kind=kind, applies=applies)


def byte_size(default: str, meaning: str, *, applies: Use) -> int:
    """Declare an option that is a size in bytes."""
    return option(values.byte_size, default, _BYTES, "64m", meaning, kind=BYTES, applies=applies)


def optional_byte_size(example: str, meaning: str, *, applies: Use) -> int | None:
    """Declare an option that is a size in bytes, or None when it is absent."""
    return optional(values.byte_size, _BYTES, example, meaning, kind=BYTES, applies=applies)


def count(default: str, meaning: str, *, applies: Use) -> int:
    """Declare an option that is a number of at least 1."""
    return option(values.count, default, _COUNT, "100000", meaning, kind=INTEGER, applies=applies)


def optional_count(example: str, meaning: str, *, applies: Use) -> int | None:
    """Declare an option that is a number of at least 1, or None when it is absent."""
    return optional(values.count, _COUNT, example, meaning, kind=INTEGER, applies=applies)


def limit(example: str, meaning: str, *, applies: Use) -> int | None:
    """Declare an option that is a number; None when it is absent or 0."""
    return optional(values.count_or_zero, "a whole number", example, meaning, kind=INTEGER, applies=applies)


def duration(default: str, example: str, meaning: str, *, applies: Use) -> int:
    """Declare an option that is a duration in seconds."""
    return option(values.duration, default, _DURATION, example, meaning, kind=DURATION, applies=applies)


def optional_duration(example: str, meaning: str, *, applies: Use) -> int | None:
    """Declare an option that is a duration in seconds, or None when it is absent."""
    return optional(values.duration, _DURATION, example, meaning, kind=DURATION, applies=applies)


def flag(default: str, meaning: str, *, applies: Use) -> bool:
    """Declare an option that is true or false."""
    other = "false" if default == "true" else "true"
    return option(values.boolean, default, "true or false", other, meaning, kind=FLAG, applies=applies)


def string(expected: str, example: str, meaning: str, *, applies: Use) -> str | None:
    """Declare an option that is a string that is not blank, or None when it is absent."""
    return optional(values.not_blank, expected, example, meaning, applies=applies)


def path(example: str, meaning: str, *, applies: Use) -> str | None:
    """Declare an option that is a path, or None when it is absent."""
    return optional(values.not_blank, "a path", example, meaning, kind=PATH, applies=applies)


def time(meaning: str, *, applies: Use) -> str | None:
    """Declare an option that is a time, or None when it is absent."""
    # It stays a string here: its instant depends on the option `timeZone`.
    return optional(
        values.time, "a time as 2026-06-01T13:00:00", "2026-06-01T13:00:00", meaning, kind=TIME, applies=applies
    )


def column_list(example: str, meaning: str, *, applies: Use) -> tuple[ColumnPath, ...] | None:
    """Declare an option that is a list of columns, or None when it is absent."""
    return optional(values.column_list, _COLUMNS, example, meaning, kind=COLUMNS, applies=applies)


def column_list_or(default: _E, example: str, meaning: str, *, applies: Use) -> _E | tuple[ColumnPath, ...]:
    """Declare an option that is a list of columns, or one of the words of an enum."""
    words = [each.value for each in type(default)]
    expected = f"{', '.join(words)}, or {_COLUMNS}"
    parse = values.column_list_or(type(default))
    return option(parse, default.value, expected, example, meaning, kind=columns_or(words), applies=applies)


def pairs(name: str, expected: str, example: str, meaning: str, *, applies: Use) -> tuple[tuple[str, str], ...]:
    """Declare options that share a prefix: `name` ends in ``.*``; pairs are sorted by key."""
    row = Option(values.not_blank, None, expected, example, meaning, name, kind=PAIRS, applies=applies)
    return one_of(row, absent=())


def secret_pairs(name: str, expected: str, example: str, meaning: str, *, applies: Use) -> tuple[tuple[str, str], ...]:
    """Declare options as `pairs` does, whose values neither errors nor repr show."""
    row = Option(values.not_blank, None, expected, example, meaning, name, is_secret=True, kind=PAIRS, applies=applies)
    return field(default=(), repr=False, metadata={_OPTIONS: (row,)})


def secret(expected: str, example: str, meaning: str, *, applies: Use) -> str | None:
    """Declare an option as `string` does, whose value neither errors nor repr show."""
    row = Option(values.not_blank, None, expected, example, meaning, is_secret=True, applies=applies)
    return field(default=None, repr=False, metadata={_OPTIONS: (row,)})


def internal(*, default: _T) -> _T:
    """Declare a value that is not an option of users: other modules set it."""
    return field(default=default, metadata={_OPTIONS: ()})


def options_by_attribute(cls: type) -> Mapping[str, tuple[Option, ...]]:
    """Return the options of a class by attribute, in order of declaration."""
    return {
        attribute.name: tuple(
            each
            if each.name
            else replace(each, name=re.sub("_([a-z])", lambda letter: letter[1].upper(), attribute.name))
            for each in attribute.metadata[_OPTIONS]
        )
        for attribute in dataclasses.fields(cls)
    }
