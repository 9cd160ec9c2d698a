"""`OPTIONS`: every option of the data source, once; reading and writing get frozen values of them.

Strategy
--------
Spark hands options over as a case-insensitive dict of strings. A row of `OPTIONS` says how the text of one
becomes a value, what it means and what it is without being given; `ReadOptions` and `SparkWriteOptions` are the
values, one attribute a row, and ``parse`` makes them. Nothing is guessed: an unknown option, an option of the
other side and a value of the wrong kind are each an `OptionError` that says what would be right. No Spark conf
is read here, because the planner has no session.

The tables of ``docs/options.md`` are printed from here.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark import option_values as values
from spark_arrow_ipc.spark.option_values import ColumnReference


class Side(StrEnum):
    """Where an option has a meaning."""

    READ = "read"
    WRITE = "write"
    BOTH = "both"


class Validation(StrEnum):
    """How much of a file's values is checked."""

    FULL = "full"
    STRUCTURAL = "structural"


class Nanoseconds(StrEnum):
    """What becomes of nanoseconds, which Spark does not have."""

    FLOOR = "floor"
    ERROR = "error"
    LONG = "long"


class Times(StrEnum):
    """What a time of day becomes."""

    INTERVAL = "interval"
    TIME = "time"
    LONG = "long"


class MapKeys(StrEnum):
    """What happens with a key that a map holds twice."""

    ERROR = "error"
    LAST_WINS = "lastWins"


class ExtensionTypes(StrEnum):
    """What becomes of the extension types that Spark has a type for."""

    CONVERT = "convert"
    STORAGE = "storage"


class Compression(StrEnum):
    """How the buffers of record batches are compressed."""

    LZ4 = "lz4"
    ZSTD = "zstd"
    NONE = "none"


class IpcFormat(StrEnum):
    """The framing of written files."""

    FILE = "file"
    STREAM = "stream"


@dataclass(frozen=True, slots=True)
class Option:
    """One row of `OPTIONS`.

    Parameters
    ----------
    name
        As it is written in documentation; it is matched in any case.
    side
        Where it has a meaning.
    parse
        Makes a value of the text, or raises ValueError.
    default
        The text that gives the value when the option is absent; None where absent is a value of its own.
    expected
        What the text must be, in words.
    example
        A text that is right.
    meaning
        One sentence for the documentation.
    """

    name: str
    side: Side
    parse: Callable[[str], Any]
    default: str | None
    expected: str
    example: str
    meaning: str


def _word(name: str, side: Side, default: StrEnum, meaning: str) -> Option:
    words = list(type(default))
    expected = f"one of {', '.join(word.value for word in words)}"
    other = next(word for word in words if word is not default)
    return Option(name, side, values.word_of(type(default)), default.value, expected, other.value, meaning)


def _size(name: str, side: Side, default: str, meaning: str) -> Option:
    expected = "bytes, as a whole number or with a unit of k, m, g, t or p"
    return Option(name, side, values.byte_size, default, expected, "64m", meaning)


def _count(name: str, side: Side, default: str, meaning: str) -> Option:
    return Option(name, side, values.count, default, "a whole number of at least 1", "100000", meaning)


OPTIONS: tuple[Option, ...] = (
    Option(
        "path", Side.BOTH, values.path, None, "a path", "/data/flights",
        "The file or directory; `load(path)` and `save(path)` set it.",
    ),
    Option(
        "paths", Side.READ, values.paths, None, "a JSON array of paths", '["/data/2023", "/data/2024"]',
        "Several files or directories; `load([a, b])` sets it.",
    ),
    Option(
        "columns", Side.READ, values.columns, "all",
        "column names separated by commas (a name with comma, dot or blank in backticks, a struct's field after a "
        "dot, a position as #n), a JSON array of them, or all",
        "id, `unit price`, address.city, #0",
        "The columns to read, in this order; nothing of the others is read or decoded.",
    ),
    _size("maxPartitionBytes", Side.READ, "128m", "How much of the files one Spark task reads at most."),
    _size("openCostInBytes", Side.READ, "4m", "What opening a file costs, in bytes that could be read meanwhile."),
    _count(
        "outputBatchRows", Side.READ, "1000000",
        "How many rows a batch has at most when it is given to Spark; it is also kept to about 64 MiB.",
    ),
    _size(
        "maxBatchBytes", Side.READ, "2g",
        "How much memory one record batch may ask for; a file that asks for more is refused.",
    ),
    _word(
        "validation", Side.READ, Validation.FULL,
        "`full` checks structure and values (UTF-8, offsets, indices); `structural` leaves out the values: only for "
        "files from a writer that you trust.",
    ),
    _word(
        "nanoseconds", Side.READ, Nanoseconds.FLOOR,
        "What becomes of nanoseconds, as Spark counts microseconds: `floor` rounds down (before 1970 too), `error` "
        "refuses values that are no whole microseconds, `long` gives the count as a number.",
    ),
    _word(
        "times", Side.READ, Times.INTERVAL,
        "What a time of day becomes: `interval` (day to second, since midnight), `time` (Spark's TIME, which Spark "
        "4.1 to 4.3 refuses to compute with until `spark.sql.timeType.enabled` is set), `long` (the count).",
    ),
    _word(
        "mapKeys", Side.READ, MapKeys.ERROR,
        "What happens with a key that a map holds twice: an `error`, or `lastWins`.",
    ),
    _word(
        "extensionTypes", Side.READ, ExtensionTypes.CONVERT,
        "`convert` gives the Spark type of arrow.uuid, arrow.bool8, arrow.json and arrow.parquet.variant; `storage` "
        "gives what lies in the file.",
    ),
    _word("compression", Side.WRITE, Compression.LZ4, "How the buffers are compressed."),
    Option(
        "compressionLevel", Side.WRITE, values.integer, None, "a whole number", "9",
        "The level of `compression`; without it, the library's own default.",
    ),
    _count("recordBatchRows", Side.WRITE, "65536", "How many rows a record batch of a written file has at most."),
    _word("ipcFormat", Side.WRITE, IpcFormat.FILE, "`file` (random access, `.arrow`) or `stream` (`.arrows`)."),
)  # fmt: skip
"""All options of this release, in the order of the documentation."""

_BY_KEY: Mapping[str, Option] = {option.name.lower(): option for option in OPTIONS}

SPARK_KEYS = frozenset({"checkpointlocation"})
"""What Spark adds on its own and which means nothing to a batch job."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a read; `parse` makes them from Spark's dict, the defaults are those of `OPTIONS`."""

    paths: tuple[str, ...] = ()
    columns: tuple[ColumnReference, ...] | None = None
    max_partition_bytes: int = 128 << 20
    open_cost_in_bytes: int = 4 << 20
    output_batch_rows: int = 1_000_000
    max_batch_bytes: int = 2 << 30
    validation: Validation = Validation.FULL
    nanoseconds: Nanoseconds = Nanoseconds.FLOOR
    times: Times = Times.INTERVAL
    map_keys: MapKeys = MapKeys.ERROR
    extension_types: ExtensionTypes = ExtensionTypes.CONVERT

    @classmethod
    def parse(cls, mapping: Mapping[str, str]) -> ReadOptions:
        """Return the options of a read.

        Raises
        ------
        OptionError
            An option is unknown, belongs to writing, or its value is not understood.
        """
        parsed = _parse(mapping, Side.READ)
        one = parsed.pop("path")
        several = parsed.pop("paths")
        if one is not None and several is not None:
            raise OptionError("the options path and paths exclude each other: give all paths to load([...])")
        return cls(
            paths=one or several or (),
            columns=parsed["columns"],
            max_partition_bytes=parsed["maxPartitionBytes"],
            open_cost_in_bytes=parsed["openCostInBytes"],
            output_batch_rows=parsed["outputBatchRows"],
            max_batch_bytes=parsed["maxBatchBytes"],
            validation=parsed["validation"],
            nanoseconds=parsed["nanoseconds"],
            times=parsed["times"],
            map_keys=parsed["mapKeys"],
            extension_types=parsed["extensionTypes"],
        )


@dataclass(frozen=True, slots=True)
class SparkWriteOptions:
    """Options of a write; `parse` makes them from Spark's dict, the defaults are those of `OPTIONS`."""

    path: str | None = None
    compression: Compression = Compression.LZ4
    compression_level: int | None = None
    record_batch_rows: int = 65_536
    ipc_format: IpcFormat = IpcFormat.FILE

    @classmethod
    def parse(cls, mapping: Mapping[str, str]) -> SparkWriteOptions:
        """Return the options of a write.

        Raises
        ------
        OptionError
            An option is unknown, belongs to reading, or its value is not understood.
        """
        parsed = _parse(mapping, Side.WRITE)
        options = cls(
            path=parsed["path"][0] if parsed["path"] else None,
            compression=parsed["compression"],
            compression_level=parsed["compressionLevel"],
            record_batch_rows=parsed["recordBatchRows"],
            ipc_format=parsed["ipcFormat"],
        )
        if options.compression is Compression.NONE and options.compression_level is not None:
            raise OptionError("the option compressionLevel has no meaning with compression=none: leave one of them out")
        return options


def options_table(side: Side) -> str:
    """Return the Markdown table of the options of one side, for ``docs/options.md``."""
    rows = ["| option | default | value | meaning |", "|---|---|---|---|"]
    rows += [
        f"| `{o.name}` | {f'`{o.default}`' if o.default is not None else ''} | {o.expected}; e.g. {_code(o.example)} "
        f"| {o.meaning} |"
        for o in _of_side(side)
    ]
    return "\n".join(rows)


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _of_side(side: Side) -> tuple[Option, ...]:
    return tuple(option for option in OPTIONS if option.side in (side, Side.BOTH))


def _parse(mapping: Mapping[str, str], side: Side) -> dict[str, Any]:
    given = {key.lower(): text for key, text in mapping.items() if key.lower() not in SPARK_KEYS}
    for key, text in mapping.items():
        if key.lower() in given:
            _check_known(key, text, side)
    return {option.name: _value(option, given.get(option.name.lower())) for option in _of_side(side)}


def _check_known(key: str, text: str, side: Side) -> None:
    option = _BY_KEY.get(key.lower())
    if option is not None and option.side in (side, Side.BOTH):
        return
    names = [o.name for o in _of_side(side)]
    if option is not None:
        verb = "reading" if option.side is Side.READ else "writing"
        here = "written" if side is Side.WRITE else "read"
        raise OptionError(f"the option {option.name} is for {verb}, and here data is {here}; remove it ({key}={text})")
    near = difflib.get_close_matches(key.lower(), [name.lower() for name in names], n=1)
    guess = f"; did you mean {_BY_KEY[near[0]].name}" if near else ""
    verb = "reading" if side is Side.READ else "writing"
    raise OptionError(f"there is no option {key}{guess}. The options for {verb} are {', '.join(names)}")


def _value(option: Option, text: str | None) -> Any:
    if text is None:
        return None if option.default is None else option.parse(option.default)
    try:
        return option.parse(text)
    except ValueError as error:
        raise OptionError(
            f"the option {option.name} must be {option.expected}, and is {text!r}; for example: {option.example}"
        ) from error
