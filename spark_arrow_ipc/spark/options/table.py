"""`OPTIONS`: every option of the data source, once.

Strategy
--------
A row says how the text of an option becomes a value, what it means and what it is without being given. The values
of one read or write are made of the rows in ``spark/options/options.py``; the tables of ``docs/options.md`` are printed
from here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from spark_arrow_ipc.dataset.write.modes import IfExists
from spark_arrow_ipc.spark.options import parsers as values
from spark_arrow_ipc.spark.options.enums import (
    Compression,
    DictionaryColumns,
    Durability,
    ExtensionTypes,
    IpcFormat,
    MapKeys,
    Nanoseconds,
    PartitionOverwriteMode,
    Statistics,
    Times,
    Validation,
)

__all__ = ["OPTIONS", "Option", "Side"]


class Side(StrEnum):
    """Where an option has a meaning."""

    READ = "read"
    WRITE = "write"
    BOTH = "both"


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


def _flag(name: str, side: Side, default: str, meaning: str) -> Option:
    other = "false" if default == "true" else "true"
    return Option(name, side, values.boolean, default, "true or false", other, meaning)


def _text(name: str, side: Side, expected: str, example: str, meaning: str) -> Option:
    return Option(name, side, values.text, None, expected, example, meaning)


_INSTANT = "a time as 2026-06-01T13:00:00"

_COLUMNS = (
    "column names separated by commas (a name with comma, dot or blank in backticks, a position as #n), or a JSON "
    "array of them"
)

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
    _text(
        "where", Side.READ, "a predicate in Spark's SQL", "year = 2024 AND name LIKE 'a%'",
        "Only rows for which this is true are read. Partitions, files, record batches and rows are passed over by it.",
    ),
    _flag(
        "metadataColumns", Side.READ, "false",
        "Whether columns are added that say where each row is from.",
    ),
    _flag(
        "metadataOnly", Side.READ, "false",
        "Whether the result is a table of the files' record batches, made of their headers alone.",
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
    Option(
        "minPartitionNum", Side.READ, values.count, None, "a whole number of at least 1", "200",
        "How many tasks are aimed at where there is enough to read; without it, as many as the driver has CPUs.",
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
    _flag(
        "recursiveFileLookup", Side.READ, "false",
        "Whether directories are read to the bottom; then the names of directories are no columns.",
    ),
    _text(
        "pathGlobFilter", Side.READ, "a pattern of a file's name", "part-*.arrow",
        "Only files whose names match are read. Directories are not asked.",
    ),
    _text(
        "modifiedBefore", Side.READ, _INSTANT, "2026-06-01T13:00:00",
        "Only files that were last modified before are read; without a zone in the text, in `timeZone`, else in UTC.",
    ),
    _text(
        "modifiedAfter", Side.READ, _INSTANT, "2026-06-01T13:00:00",
        "Only files that were last modified after are read; without a zone in the text, in `timeZone`, else in UTC.",
    ),
    _text(
        "basePath", Side.READ, "a path", "/data/flights",
        "The directory below which `key=value` directories are columns; without it, the paths that are read.",
    ),
    _flag(
        "partitionTypeInference", Side.READ, "true",
        "Whether columns made of directories get the type that their values look like; else they are strings.",
    ),
    _text(
        "timeZone", Side.READ, "a time zone's name or offset", "Europe/Berlin",
        "The zone of timestamps without one, in options and in the names of directories. The session's zone cannot "
        "be known here.",
    ),
    _flag(
        "mergeSchema", Side.READ, "false",
        "Whether the schemas of all files are united: missing columns are null, types widen. Else the first file's "
        "schema is that of all.",
    ),
    _flag(
        "ignoreCorruptFiles", Side.READ, "false",
        "Whether the rest of a broken file is left out, with a warning that says what is missing.",
    ),
    _flag(
        "ignoreMissingFiles", Side.READ, "false",
        "Whether a file that is gone since it was listed is left out, with a warning.",
    ),
    _flag(
        "recover", Side.READ, "false",
        "Whether the record batches that are whole are read from a file whose end is missing, with a warning.",
    ),
    _flag(
        "memoryMap", Side.READ, "false",
        "Whether files are mapped into memory; one that is cut or rewritten meanwhile then ends the worker.",
    ),
    _word("compression", Side.WRITE, Compression.LZ4, "How the buffers are compressed."),
    Option(
        "compressionLevel", Side.WRITE, values.integer, None, "a whole number", "9",
        "The level of `compression`; without it, the library's own default.",
    ),
    _count("recordBatchRows", Side.WRITE, "65536", "How many rows a record batch of a written file has at most."),
    _size(
        "recordBatchBytes", Side.WRITE, "64m",
        "About how many bytes a record batch of a written file has at most, before compression.",
    ),
    _word("ipcFormat", Side.WRITE, IpcFormat.FILE, "`file` (random access, `.arrow`) or `stream` (`.arrows`)."),
    Option(
        "partitionBy", Side.WRITE, values.column_list, None, _COLUMNS, "year, month",
        "The columns that become directories `year=2024/month=1` and are left out of the files. Rows may come in any "
        "order; a task writes one file a partition.",
    ),
    Option(
        "maxRecordsPerFile", Side.WRITE, values.count, None, "a whole number of at least 1", "1000000",
        "How many rows a file has at most; without it, a task writes one file (one a partition).",
    ),
    Option(
        "maxFileBytes", Side.WRITE, values.byte_size, None, "bytes, as a whole number or with a unit of k, m, g, t or p",
        "512m",
        "How long a file becomes at most: it ends before the record batch that would exceed it, and has at least one.",
    ),
    Option(
        "dictionaryColumns", Side.WRITE, values.column_list_or(DictionaryColumns), "none", f"auto, none, or {_COLUMNS}",
        "country, `unit name`",
        "The columns that are dictionary-encoded, with int32 indices and one dictionary a file. `auto` takes the "
        "strings and binaries of which each value comes at least 8 times on average in the first 65,536 rows of a task.",
    ),
    Option(
        "metadata.*", Side.WRITE, values.text, None, "a text", "flights of 2023",
        "`metadata.owner=me` puts the pair owner=me into the schema's and the footer's metadata of every file. Spark "
        "hands the key over in lower case.",
    ),
    Option(
        "statistics", Side.WRITE, values.column_list_or(Statistics), "auto", f"auto, none, all, or {_COLUMNS}",
        "id, at",
        "The columns whose nulls, least and greatest value of each record batch are noted in the footer, for `where`. "
        "`auto` takes the first 64 and at most 1 % of the file or 1 MiB. The stream format has no place for them.",
    ),
    _word(
        "partitionOverwriteMode", Side.WRITE, PartitionOverwriteMode.STATIC,
        "What mode overwrite replaces: with `static` everything, with `dynamic` the partitions that are written to.",
    ),
    _word(
        "ifExists", Side.WRITE, IfExists.APPEND,
        "What mode append does where the directory holds data: `append`, an `error` before any work, or `ignore` "
        "(nothing is written).",
    ),
    _word(
        "durability", Side.WRITE, Durability.FSYNC,
        "`fsync` makes every step survive a loss of power; `none` leaves that to the operating system.",
    ),
    Option(
        "commitToken", Side.WRITE, values.text, None, "a text of your own", "load-2026-06-01",
        "Names the job: a job whose token is committed already writes nothing and succeeds, so that it can be run again.",
    ),
    _flag(
        "restoreTypes", Side.WRITE, "false",
        "Whether columns are written in the Arrow types that they were read from, as their metadata notes. A value "
        "that the type does not hold exactly is an error.",
    ),
)  # fmt: skip
"""All options of this release, in the order of the documentation."""
