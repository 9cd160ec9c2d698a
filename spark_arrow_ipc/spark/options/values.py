"""Parsers of option values, from the string of an option to its value.

A parser raises ValueError for an invalid string and has no information about the option: `options` adds its name, the
expected values and an example in an `OptionError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NoReturn, TypeVar

from spark_arrow_ipc.arrow.column_path import WORDS, ColumnPath, parse_paths
from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.ipc.flatbuf.tables import CompressionType


class Nanoseconds(StrEnum):
    """The treatment of nanoseconds, which Spark does not have."""

    FLOOR = "floor"
    ERROR = "error"
    LONG = "long"


class Times(StrEnum):
    """The Spark type of a time of day."""

    # TIME if Spark wrote TIME, otherwise an interval.
    NOTED = "noted"
    INTERVAL = "interval"
    TIME = "time"
    LONG = "long"


class MissingColumns(StrEnum):
    """The treatment of columns of Spark's schema that a file does not have."""

    NULL = "null"
    ERROR = "error"


class SchemaCheck(StrEnum):
    """The schemas that a job may write next to existing files."""

    MERGE = "merge"
    EXACT = "exact"
    NONE = "none"


class ExtensionTypes(StrEnum):
    """The treatment of the extension types that Spark has a type for."""

    CONVERT = "convert"
    STORAGE = "storage"
    TENSOR = "tensor"
    GEOMETRY = "geometry"
    ALL = "all"

    @property
    def reads_tensors(self) -> bool:
        """True if tensor columns are structs of a shape and values."""
        return self in {ExtensionTypes.TENSOR, ExtensionTypes.ALL}

    @property
    def reads_geometries(self) -> bool:
        """True if columns of well-known binary are Spark's GEOMETRY and GEOGRAPHY."""
        return self in {ExtensionTypes.GEOMETRY, ExtensionTypes.ALL}


class TimestampsWithOffset(StrEnum):
    """The Spark type of a timestamp with an offset of its own."""

    TIMESTAMP = "timestamp"
    STRING = "string"
    STRUCT = "struct"


class Layout(StrEnum):
    """The manifest that a job writes in addition to the data, for libraries that need one."""

    PLAIN = "plain"
    HUGGINGFACE = "huggingface"


class PartitionOverwriteMode(StrEnum):
    """The part of a table that an overwrite replaces."""

    STATIC = "static"
    DYNAMIC = "dynamic"


class DictionaryColumns(StrEnum):
    """The columns that are dictionary-encoded, if no list names them."""

    AUTO = "auto"
    ALL = "all"
    NONE = "none"


class CleanSource(StrEnum):
    """The treatment of files of a stream that were read."""

    OFF = "off"
    DELETE = "delete"


class StartingFrom(StrEnum):
    """The beginning of a new streaming query."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Vectors(StrEnum):
    """The Spark type of a list of numbers of a fixed width."""

    ARRAY = "array"
    BINARY = "binary"


_E = TypeVar("_E", bound=StrEnum)

CODECS: dict[str, CompressionType | None] = {"none": None, **{codec.word: codec for codec in CompressionType}}
_SIZE = re.compile(r"([0-9]+)\s*([kmgtp]?b?)", re.IGNORECASE)
_MOST = (1 << 63) - 1
"""The greatest number of an option, as in Spark: a Java long."""

_POWER = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def byte_size(string: str) -> int:
    """Parse a Spark byte string: ``128m``, ``2g``, ``64kb`` or plain bytes; 1 to `_MOST`."""
    match = _SIZE.fullmatch(string.strip())
    if match is None:
        raise ValueError(string)
    unit = match[2].lower()
    nbytes = int(match[1]) << (10 * _POWER[unit[:1]])
    if not 1 <= nbytes <= _MOST:
        raise ValueError(string)
    return nbytes


def count(string: str) -> int:
    """Parse an integer of 1 to `_MOST`, without underscores and commas, as in Spark."""
    # `int` also takes underscores, and `isdigit` digits of other scripts.
    if not string.strip().isascii() or not string.strip().isdigit() or not 1 <= int(string) <= _MOST:
        raise ValueError(string)
    return int(string)


def count_or_zero(string: str) -> int | None:
    """Parse an integer as `count` does; 0 gives None."""
    return None if string.strip() == "0" else count(string)


def integer(string: str) -> int:
    """Parse an integer, which may have a sign."""
    if re.fullmatch(r"[+-]?[0-9]+", string.strip()) is None or abs(int(string)) > _MOST:
        raise ValueError(string)
    return int(string)


_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def duration(string: str) -> int:
    """Parse a duration into seconds: ``90``, ``30s``, ``10m``, ``2h``, ``1d``."""
    match = re.fullmatch(r"([0-9]{1,9})\s*([smhd]?)", string.strip().lower(), re.ASCII)
    if match is None:
        raise ValueError(string)
    return int(match[1]) * _SECONDS[match[2]]


def pause(string: str) -> float:
    """Parse a short time into seconds, as `duration` does, or ``200ms``."""
    match = re.fullmatch(r"([0-9]{1,9})\s*ms", string.strip().lower(), re.ASCII)
    return duration(string) if match is None else int(match[1]) / 1000


def starting_point(string: str) -> StartingFrom | int | datetime:
    """Parse ``earliest``, ``latest``, the number of a log entry, or a time with its zone."""
    string = string.strip()
    if re.fullmatch("[0-9]{1,18}", string, re.ASCII):
        return int(string)
    if re.match("[0-9]{4}-", string, re.ASCII) is None:
        return word_of(StartingFrom)(string)
    instant = datetime.fromisoformat(string)
    return _refuse(string) if instant.tzinfo is None else instant.astimezone(UTC)


def boolean(string: str) -> bool:
    """Parse true or false, in any case."""
    word = string.strip().lower()
    return word == "true" if word in ("true", "false") else _refuse(string)


def word_of(enum: type[_E]) -> Callable[[str], _E]:
    """Return a parser of an enum's values, in any case."""
    values = {member.value.lower(): member for member in enum}

    def parse(string: str) -> _E:
        return values[string.strip().lower()] if string.strip().lower() in values else _refuse(string)

    return parse


def compression(string: str) -> CompressionType | None:
    """Parse the name of a codec, in any case; None for ``none``."""
    word = string.strip().lower()
    return CODECS[word] if word in CODECS else _refuse(string)


_MOST_TOKEN: Final = 1000
"""Most characters of a token: the state of a table has its newest thousand tokens."""


def not_blank(string: str) -> str:
    """Return a string unchanged unless it is blank."""
    return string if string.strip() else _refuse(string)


def token(string: str) -> str:
    """Return a token unchanged unless it is blank or too long."""
    return string if string.strip() and len(string) <= _MOST_TOKEN else _refuse(string)


def file_pattern(string: str) -> str:
    """Return a pattern of file names unchanged, if it can be compiled."""
    # Imported late, as in the parsers below, so that workers start faster.
    from spark_arrow_ipc.dataset.listing.globs import compile_name

    compile_name(not_blank(string))
    return string


def time(string: str) -> str:
    """Return a time unchanged, if it is valid."""
    from spark_arrow_ipc.dataset.time_zones import parse_timestamp

    return string if parse_timestamp(string) is not None else _refuse(string)


def time_zone(string: str) -> str:
    """Return the name of a time zone unchanged, if Spark and this machine have it."""
    from spark_arrow_ipc.dataset.time_zones import zone

    zone(string)
    return string


def path(string: str) -> tuple[str, ...]:
    """Return one path unchanged unless it is blank."""
    return (string,) if string.strip() else _refuse(string)


def paths(string: str) -> tuple[str, ...]:
    """Parse a JSON array of paths, which Spark makes of ``load([a, b])``."""
    values = parse_json(string)
    sound = isinstance(values, list) and values and all(isinstance(v, str) and v.strip() for v in values)
    return tuple(values) if sound else _refuse(string)


def columns(string: str) -> tuple[ColumnPath, ...] | None:
    """Parse a list of column paths (`parse_paths`); ``all`` gives None."""
    word = string.strip().lower()
    if word == "all":
        return None
    return parse_paths(string) if word not in WORDS else _refuse(string)


def column_list(string: str) -> tuple[ColumnPath, ...]:
    """Parse a list of column paths as `columns`, without the word ``all``."""
    listed = columns(string)
    return listed if listed is not None else _refuse(string)


def column_list_or(enum: type[_E]) -> Callable[[str], _E | tuple[ColumnPath, ...]]:
    """Return a parser of column paths or of one of an enum's words."""
    words = {member.value.lower(): member for member in enum}

    def parse(string: str) -> _E | tuple[ColumnPath, ...]:
        word = words.get(string.strip().lower())
        return column_list(string) if word is None else word

    return parse


_MOST_SIZE = 2**31 - 1
_MOST_DIMENSIONS = 64


def tensor_columns(string: str) -> tuple[tuple[ColumnPath, tuple[int | None, ...]], ...]:
    """Parse columns with shapes: ``image:224x224x3, text:?x768``; ``?`` is a size that differs from row to row."""
    return tuple(_tensor_column(part) for part in _outside_backticks(string))


def list_sizes(string: str) -> tuple[tuple[ColumnPath, int], ...]:
    """Parse columns with lengths: ``embedding:768, a.b:3, `a,b`:3``."""
    columns = [_tensor_column(part, takes_fields=True) for part in _outside_backticks(string)]
    # A length is a shape of one size, which is known and not 0.
    return tuple((path, (shape[0] if len(shape) == 1 else None) or _refuse(string)) for path, shape in columns)


def _outside_backticks(string: str) -> Iterator[str]:
    """Yield the parts of a string between commas that are outside of quoted names."""
    start, quoted = 0, False
    for i, character in enumerate(string):
        quoted ^= character == "`"
        if character == "," and not quoted:
            yield string[start:i]
            start = i + 1
    yield string[start:]


def _tensor_column(string: str, *, takes_fields: bool = False) -> tuple[ColumnPath, tuple[int | None, ...]]:
    name, _, shape = string.rpartition(":")
    paths = parse_paths(name)
    sizes = [size.strip() for size in shape.split("x", _MOST_DIMENSIONS)]
    is_field = bool(paths) and isinstance(paths[0], tuple)
    if len(paths) != 1 or (is_field and not takes_fields) or len(sizes) > _MOST_DIMENSIONS:
        _refuse(string)
    for size in sizes:
        if size != "?" and (re.fullmatch("[0-9]{1,10}", size) is None or int(size) > _MOST_SIZE):
            _refuse(string)
    return paths[0], tuple(None if size == "?" else int(size) for size in sizes)


def _refuse(string: str) -> NoReturn:
    raise ValueError(string)
