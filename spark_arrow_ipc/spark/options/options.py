"""`ReadOptions` and `SparkWriteOptions`: every option, declared once.

Strategy
--------
An attribute is an option in snake case; its declaration has the default, the valid values and the meaning
(``declare.py``). ``parse`` makes the values from the case-insensitive dict of strings that Spark passes.
`OPTIONS` is the table of all of them: the errors of ``parse`` and ``docs/options.md`` are printed from it. No Spark
conf is read here, because the planner has no session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from spark_arrow_ipc.arrow.column_path import ColumnPath
from spark_arrow_ipc.dataset.scan.error_policy import ErrorPolicy
from spark_arrow_ipc.dataset.statistics.format import Statistics
from spark_arrow_ipc.dataset.write.modes import IfExists
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.ipc.concatenated_streams import ConcatenatedStreams
from spark_arrow_ipc.ipc.constants import Format, TensorRows, Validation
from spark_arrow_ipc.ipc.dissociated.schemes import is_served
from spark_arrow_ipc.ipc.flatbuf.tables import CompressionType
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.spark.options import declare as d
from spark_arrow_ipc.spark.options import values
from spark_arrow_ipc.spark.options.given import Side, parse_given
from spark_arrow_ipc.spark.options.served import check_served
from spark_arrow_ipc.spark.options.stream_options import STREAMING, StreamOptions
from spark_arrow_ipc.spark.options.values import (
    DictionaryColumns,
    Durability,
    ExtensionTypes,
    MapKeys,
    MissingColumns,
    Nanoseconds,
    PartitionOverwriteMode,
    SchemaCheck,
    Times,
    Vectors,
)
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.storage import Storage
from spark_arrow_ipc.storage.url import is_remote

_PATH = d.Option(
    values.not_blank, None, "a path", "/data/flights",
    "The file or directory; `load(path)` and `save(path)` set it.",
    name="path", kind=d.PATH,
)  # fmt: skip
_PATHS = d.Option(
    values.paths, None, "a JSON array of paths", '["/data/2023", "/data/2024"]',
    "Several files or directories; `load([a, b])` sets it.",
    name="paths", kind=d.PATHS,
)  # fmt: skip
PATHS = (_PATH.name, _PATHS.name)
"""The names of the options that functions have as an argument."""

_STORAGE = (
    "storage.*", "a string", "eu-central-1",
    "Passed to the object store, as `storage.region` ([object_stores.md](object_stores.md)). No error shows a value.",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a read; `parse` makes them from Spark's dict."""

    paths: tuple[str, ...] = d.one_of(replace(_PATH, parse=values.path), _PATHS, absent=())
    columns: tuple[ColumnPath, ...] | None = d.option(
        values.columns,
        "all",
        "column names separated by commas (a name with comma, dot or blank in backticks, a struct's field after a "
        "dot, a position as #n), a JSON array of them, or all",
        "id, `unit price`, address.city, #0",
        "The columns to read, in this order, fields of structs (and of unions, to Spark structs) too, and each once; the others are neither read nor decoded.",
        kind=d.COLUMNS,
    )
    where: str | None = d.string(
        "a predicate in Spark's SQL",
        "year = 2024 AND name LIKE 'a%'",
        "Only rows for which this is true are read. Partitions, files and record batches without such rows are skipped.",
    )
    metadata_columns: bool = d.flag("false", "Whether columns with the origin of each row are added.")
    metadata_only: bool = d.flag(
        "false", "Whether the result is a table of the files' record batches, made from their headers alone."
    )
    max_partition_bytes: int = d.byte_size("128m", "How much of the files one Spark task reads at most.")
    open_cost_in_bytes: int = d.byte_size_or_zero(
        "4m", "Estimated cost of opening a file, in bytes that could be read in the same time."
    )
    output_batch_rows: int = d.count(
        "1000000", "How many rows a batch has at most when it is given to Spark; it is also kept to about 64 MiB."
    )
    max_batch_bytes: int = d.byte_size(
        "2g",
        "The most memory that one record batch may need as it is in the file, and one row as Spark gets it, where a value of a "
        "dictionary, a run or a shared element counts each time that it occurs. All rows of a batch may take 32 times as much, "
        "one after the other, and all dictionaries of a file as much again. A file that needs more is an error "
        "([limits.md](limits.md)).",
    )
    min_partition_num: int | None = d.optional_count(
        "200", "How many tasks are aimed at if there is enough to read; without it, one for each CPU of the driver."
    )
    concatenated_streams: ConcatenatedStreams = d.word(
        ConcatenatedStreams.WARN,
        "What is done where another stream begins after the end of a stream, as `cat a.arrows b.arrows` makes it: `warn` "
        "reads the first one, with a warning, `read` all of them, if their schemas agree; or it is an `error`.",
    )
    validation: Validation = d.word(
        Validation.FULL,
        "`full` checks structure and values (UTF-8, offsets, indices); `structural` skips the values: only for "
        "files from a writer that you trust.",
    )
    verify_checksums: bool = d.flag(
        "true",
        "Whether what is read of a file with `statistics` is compared with the checksums in its footer; bytes that were "
        "changed after it was written are then an error.",
    )
    nanoseconds: Nanoseconds = d.word(
        Nanoseconds.FLOOR,
        "The treatment of nanoseconds, as Spark counts microseconds: `floor` rounds down (before 1970 too; a Date64 to its "
        "day), `error` refuses what is not whole, `long` gives the count as a number. It holds for what functions make, too.",
    )
    times: Times = d.word(
        Times.NOTED,
        "The Spark type of a time of day: `time` (Spark refuses to compute with TIME until `spark.sql.timeType.enabled` is "
        "set), `interval` (since midnight), `long` (the count); `noted` is TIME where Spark wrote TIME, else an interval.",
    )
    map_keys: MapKeys = d.word(MapKeys.ERROR, "The treatment of a duplicate key of a map: an `error`, or `lastWins`.")
    extension_types: ExtensionTypes = d.word(
        ExtensionTypes.CONVERT,
        "`convert` gives the Spark type of arrow.uuid, arrow.bool8, arrow.json and arrow.parquet.variant; `storage` "
        "gives that of their storage; `tensor` converts them, and arrow.fixed_shape_tensor and arrow.variable_shape_tensor "
        "to a struct of the shape and the values; `geometry` converts them, and geoarrow.wkb to GEOMETRY and GEOGRAPHY "
        "([types.md](types.md#geometries)); `all` converts all of these.",
    )
    vectors: Vectors = d.word(
        Vectors.ARRAY,
        "The Spark type of a column (or a struct's field) that is a list of whole numbers or floats: `array`, or `binary`, the "
        "little-endian numbers, which cross in less than half of the time ([functions.md](functions.md#vectors)).",
    )
    recursive_file_lookup: bool = d.flag(
        "false", "Whether files in subdirectories of any depth are read; names of directories are then not columns."
    )
    path_glob_filter: str | None = d.optional(
        values.file_pattern,
        "a pattern of a file's name",
        "part-*.arrow",
        "Only files whose names match are read. Names of directories do not matter.",
    )
    modified_before: str | None = d.time(
        "Only files that were last modified before this time are read; without a zone it is in `timeZone`, else in UTC.",
    )
    modified_after: str | None = d.time(
        "Only files that were last modified after this time are read; without a zone it is in `timeZone`, else in UTC.",
    )
    base_path: str | None = d.path(
        "/data/flights",
        "The directory below which `key=value` directories are columns; without it, the given paths.",
    )
    partition_type_inference: bool = d.flag(
        "true", "Whether the types of partition columns are inferred from their values; else they are strings."
    )
    time_zone: str | None = d.optional(
        values.time_zone,
        "a time zone's name or offset that Spark and this machine know",
        "Europe/Berlin",
        "The zone of timestamps without one, in options and in the names of directories. Without it, `where` takes "
        "the session's, which only tasks know, and timestamps in the names of directories are `timestamp_ntz`.",
    )
    merge_schema: bool = d.flag(
        "false",
        "Whether the schemas of all files are merged: missing columns are null, types widen. Else the schema is that of "
        "the file that was modified last (of several, the first by path).",
    )
    missing_columns: MissingColumns = d.word(
        MissingColumns.NULL,
        "What a column of the schema is in a file that does not have it: `null`, as in Spark's own sources, or an "
        "`error`. With `mergeSchema` it is null.",
    )
    ignore_corrupt_files: bool = d.flag(
        "false", "Whether the rest of a broken file is skipped, with a warning that says what is missing."
    )
    ignore_missing_files: bool = d.flag(
        "false", "Whether a file that was deleted after it was listed is skipped, with a warning."
    )
    tensors: TensorRows | None = d.optional_word(
        TensorRows.CELLS,
        "What is a row where the files are tensors and not tables: of `cells` the coordinates of a cell and its value (of a "
        "sparse tensor the cells that its index names), of `values` a whole tensor with its shape and all its values.",
    )
    recover: bool = d.flag("false", "Whether the complete record batches of a truncated file are read, with a warning.")
    memory_map: bool = d.flag(
        "false", "Whether files are mapped into memory; a file that is truncated meanwhile then crashes the worker."
    )
    token: str | None = d.secret(
        "a string", "s3cret", "The token of a server of tables ([dissociated.md](dissociated.md)). No error shows it."
    )
    storage: tuple[tuple[str, str], ...] = d.secret_pairs(*_STORAGE)
    is_exact: bool = d.internal(default=False)  # a value that the conversion would change is an error: for rewrites

    @property
    def reads_servers(self) -> bool:
        """Whether the paths are tables of servers, and no files."""
        return any(map(is_served, self.paths))

    @property
    def opened_storage(self) -> Storage:
        """The storage of the paths."""
        return storage_of(self.paths[0], self.storage)[0]

    @property
    def limits(self) -> Limits:
        """The budgets of each file."""
        return Limits(max_batch_bytes=self.max_batch_bytes, max_dictionary_bytes=self.max_batch_bytes)

    @property
    def fills_missing(self) -> bool:
        """Whether columns that a file does not have are null."""
        return self.merge_schema or self.missing_columns is MissingColumns.NULL

    @property
    def column_paths(self) -> tuple[ColumnPath, ...] | None:
        """The option `columns` for each file; None to resolve by name, as positions are those of one file."""
        return None if self.merge_schema else self.columns

    @property
    def error_policy(self) -> ErrorPolicy:
        """Which errors of files the scan skips."""
        return ErrorPolicy(self.ignore_corrupt_files, self.ignore_missing_files, self.recover)

    @classmethod
    def parse(cls, mapping: Mapping[str, str]) -> ReadOptions:
        """Parse the options of a read.

        Raises
        ------
        OptionError
            An option is unknown, belongs to writing, or its value is not understood.
        """
        return cls._checked(mapping, parse_given(mapping, READING, WRITING, STREAMING))

    @classmethod
    def _checked(cls, mapping: Mapping[str, str], values: Mapping[str, Any]) -> ReadOptions:
        options = cls(**values)
        if {"path", "paths"} <= {key.lower() for key in mapping}:
            raise OptionError("the options path and paths exclude each other: give all paths to load([...])")
        check_served(options.paths, mapping, READING)
        _check_metadata_only(options)
        if options.tensors is not None and options.recover:
            raise OptionError("recover=true mends tables, and with the option tensors the files are none; remove one")
        if options.memory_map and any(map(is_remote, options.paths)):
            raise OptionError("memoryMap=true is for local files, and the path is a remote one; remove it")
        return options


@dataclass(frozen=True, slots=True)
class SparkWriteOptions:
    """Options of a write; `parse` makes them from Spark's dict."""

    path: str | None = d.one_of(_PATH, absent=None)
    compression: CompressionType | None = d.option(
        values.compression,
        "lz4",
        "one of lz4, zstd, none",
        "zstd",
        "How the buffers are compressed.",
        kind=d.one_of_words(values.CODECS),
    )
    compression_level: int | None = d.optional(
        values.integer,
        "a whole number",
        "9",
        "The level of `compression`; without it, the library's own default.",
        kind=d.INTEGER,
    )
    record_batch_rows: int = d.count("65536", "How many rows a record batch of a written file has at most.")
    record_batch_bytes: int = d.byte_size(
        "64m", "About how many bytes a record batch of a written file has at most, before compression."
    )
    ipc_format: Format = d.word(Format.FILE, "`file` (random access, `.arrow`) or `stream` (`.arrows`).")
    partition_by: tuple[ColumnPath, ...] | None = d.column_list(
        "year, month",
        "The columns that become directories `year=2024/month=1` and are not in the files. Rows may come in any "
        "order; a task writes one file for each partition.",
    )
    max_records_per_file: int | None = d.limit(
        "1000000",
        "How many rows a file has at most; without it, or with 0, a task writes one file (one for each partition).",
    )
    max_file_bytes: int | None = d.optional_byte_size(
        "512m",
        "How many bytes a file has at most: it ends before the record batch that would exceed it, and has at least one. "
        "In an object store, where a file is published by one copy, 1g if it is not given, and at most 5,000,000,000.",
    )
    dictionary_columns: DictionaryColumns | tuple[ColumnPath, ...] = d.column_list_or(
        DictionaryColumns.NONE,
        "country, `unit name`",
        "The columns that are dictionary-encoded, with int32 indices and one dictionary a file. `auto` takes the "
        "strings and binaries whose values occur at least 8 times on average in the first 65,536 rows of a task.",
    )
    tensor_columns: tuple[tuple[ColumnPath, tuple[int | None, ...]], ...] | None = d.optional(
        values.tensor_columns,
        "columns with shapes, as name:2x3, separated by commas; ? is a size that differs from row to row",
        "image:224x224x3, text:?x768",
        "The columns that are written as tensors: arrays, or structs of shape and data, as arrow.fixed_shape_tensor; with "
        "a `?`, structs as arrow.variable_shape_tensor. A row of another shape is an error.",
        kind=d.TENSORS,
    )
    metadata: tuple[tuple[str, str], ...] = d.pairs(
        "metadata.*",
        "a string",
        "flights of 2023",
        "`metadata.owner=me` adds the pair owner=me to the schema's and the footer's metadata of every file. Spark "
        "passes the key in lower case.",
    )
    statistics: Statistics | tuple[ColumnPath, ...] = d.column_list_or(
        Statistics.AUTO,
        "id, at",
        "The columns whose null count, least and greatest value of each record batch are noted in the footer, for `where`. "
        "`auto` takes the first 64 columns, and at most 1 % of the file, or 1 MiB if that is more. The stream format cannot "
        "hold them.",
    )
    partition_overwrite_mode: PartitionOverwriteMode = d.word(
        PartitionOverwriteMode.STATIC,
        "What mode overwrite replaces: `static` everything, `dynamic` only the partitions that are written to.",
    )
    if_exists: IfExists = d.word(
        IfExists.APPEND,
        "What mode append does if the directory holds data: `append`, an `error` before any work, or `ignore` "
        "(nothing is written).",
    )
    schema_check: SchemaCheck = d.word(
        SchemaCheck.MERGE,
        "What columns a job may have that keeps files: with `merge` those of the newest record or fewer, which are null in "
        "its rows, or more, with types that widen to one another; with `exact` the same; `none` checks nothing.",
    )
    case_sensitive: bool = d.flag(
        "false",
        "Whether names of columns may differ only in case (`a` and `A`). Spark can read such columns only with "
        "`spark.sql.caseSensitive=true`.",
    )
    keep_replaced: int = d.duration(
        "0",
        "10m",
        "How long files that an overwrite replaces live on for reads that were planned before; 1h for `compact`. The next "
        "write or vacuum after that removes them.",
    )
    commit_retention: int | None = d.optional_duration(
        "7d",
        "Keeps the records of commits, from this job on, so that streams can read the data set record by record: for this "
        "time, and the newest 1,000 however old. It holds for the jobs of all writers until one says otherwise.",
    )
    durability: Durability = d.word(
        Durability.FSYNC,
        "`fsync` makes every step survive a power failure; `none` leaves that to the operating system.",
    )
    commit_token: str | None = d.optional(
        values.token,
        "a string of your own of at most 1,000 characters",
        "load-2026-06-01",
        "Identifies the job, so that it can be rerun: if the token is committed already, it writes nothing and succeeds. "
        "A directory remembers the newest 1,000 tokens.",
    )
    restore_types: bool = d.flag(
        "false",
        "Whether columns are written with the Arrow types that they were read from, which their metadata notes. What cannot "
        "come back exactly is an error ([types.md](types.md#back-to-the-types-that-were-read)).",
    )
    vectors: Vectors = d.word(
        Vectors.ARRAY,
        "`binary` writes binary columns whose metadata notes a list of numbers (read with `vectors=binary`, or noted by "
        "`spark_arrow_ipc.vectors.metadata`) as such lists; with `array` they stay binary.",
    )
    storage: tuple[tuple[str, str], ...] = d.secret_pairs(*_STORAGE)

    @classmethod
    def parse(cls, mapping: Mapping[str, str]) -> SparkWriteOptions:
        """Parse the options of a write.

        Raises
        ------
        OptionError
            An option is unknown, belongs to reading, or its value is not understood.
        """
        options = cls(**parse_given(mapping, WRITING, READING, STREAMING))
        if options.path is not None and is_served(options.path):
            raise OptionError("tables of servers are read and not written: write files, and serve them")
        if options.compression is None and options.compression_level is not None:
            raise OptionError("the option compressionLevel has no meaning with compression=none: remove one")
        if options.path is not None and is_remote(options.path) and _gives(mapping, "durability"):
            raise OptionError(
                "the option durability is for local files; elsewhere the storage says when data are safe: remove it"
            )
        return options


READING = Side("reading", "read", d.declared(ReadOptions))
WRITING = Side("writing", "written", d.declared(SparkWriteOptions), takes_query=True)

_STREAM_READING = Side(STREAMING.doing, STREAMING.done, {**READING.attributes, **STREAMING.attributes})

OPTIONS: tuple[d.Option, ...] = tuple({option.name: option for option in (*READING, *STREAMING, *WRITING)}.values())
"""All options of this release, in the order of the documentation."""


def parse_stream(mapping: Mapping[str, str]) -> tuple[ReadOptions, StreamOptions]:
    """Parse the options of reading a stream: those of a read, and its own.

    Raises
    ------
    OptionError
        An option is unknown, belongs to writing, has no meaning for a stream, or its value is not understood.
    """
    values = parse_given(mapping, _STREAM_READING, WRITING)
    of_read = {name: value for name, value in values.items() if name in READING.attributes}
    options = ReadOptions._checked(mapping, of_read)  # noqa: SLF001 - one module
    if options.reads_servers:
        raise OptionError("the table of a server is read once, and not as a stream; use spark.read")
    if options.metadata_only:
        raise OptionError("metadataOnly=true is for batch reads: a stream is read for its rows; remove it")
    stream = StreamOptions(**{name: value for name, value in values.items() if name not in of_read})
    stream.check()
    return options, stream


def is_for_streams(mapping: Mapping[str, str]) -> bool:
    """Return whether an option is given that only streams have."""
    return any(STREAMING.option(key) is not None for key in mapping)


def _gives(mapping: Mapping[str, str], name: str) -> bool:
    return name in map(str.lower, mapping)


def _check_metadata_only(options: ReadOptions) -> None:
    """Refuse options that need rows if only headers are read."""
    given = {"columns": options.columns is not None, "where": options.where is not None}
    given |= {"metadataColumns": options.metadata_columns, "tensors": options.tensors is not None}
    for name in filter(given.get, given):
        if options.metadata_only:
            raise OptionError(f"metadataOnly=true reads no rows, so that the option {name} has no meaning; remove one")
