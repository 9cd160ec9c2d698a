"""`ReadOptions` and `StreamOptions`: every option of a read and of reading a stream, declared once.

An attribute is an option in snake case; its declaration has the default, the valid values, the meaning, and the uses
that accept it (``declare.py``). Names are Spark's if its own file source has the option. No Spark conf is read here,
because the planner has no session.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from spark_arrow_ipc.arrow.column_path import ColumnPath
from spark_arrow_ipc.dataset.scan.error_policy import ErrorPolicy
from spark_arrow_ipc.dataset.scan.splits import OPEN_COST_BYTES
from spark_arrow_ipc.dataset.stream.mode import OnBadFile, OnOverwrite
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.ipc.concatenated_streams import ConcatenatedStreams
from spark_arrow_ipc.ipc.constants import Limits, TensorRows, Validation
from spark_arrow_ipc.ipc.dissociated import is_served
from spark_arrow_ipc.spark.options import declare as d
from spark_arrow_ipc.spark.options import values
from spark_arrow_ipc.spark.options.declare import Use
from spark_arrow_ipc.spark.options.values import (
    CleanSource,
    ExtensionTypes,
    MissingColumns,
    Nanoseconds,
    StartingFrom,
    Times,
    TimestampsWithOffset,
    Vectors,
)
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import is_remote
from spark_arrow_ipc.storage.storage import Storage

PATH = d.Option(
    values.not_blank, None, "a path", "/data/flights",
    "The file or directory; `load(path)` and `save(path)` set it.",
    name="path", kind=d.PATH, applies=Use.READS | Use.COUNT | Use.WRITES | Use.CHANGE,
)  # fmt: skip
_PATHS = d.Option(
    values.paths, None, "a JSON array of paths", '["/data/2023", "/data/2024"]',
    "Several files or directories; `load([a, b])` sets it.",
    name="paths", kind=d.PATHS, applies=Use.READS | Use.COUNT,
)  # fmt: skip
PATHS = (PATH.name, _PATHS.name)
"""The names of the options that are arguments of functions."""

STORAGE = (
    "storage.*", "a string", "eu-central-1",
    "Passed to [the object store](object_stores.md), as `storage.region`. Errors show no secret.",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a read; `parse_read` makes them from Spark's dict."""

    paths: tuple[str, ...] = d.one_of(replace(PATH, parse=values.path), _PATHS, absent=())
    columns: tuple[ColumnPath, ...] | None = d.option(
        values.columns,
        "all",
        "column names separated by commas (a name with comma, dot or blank in backticks, a struct's field after a "
        "dot, a position as #n), a JSON array of them, or all",
        "id, `unit price`, address.city, #0",
        "The columns to read, in this order, each once; also fields of structs and unions.",
        kind=d.COLUMNS,
        applies=Use.ROWS,
    )
    where: str | None = d.string(
        "a predicate in Spark's SQL",
        "year = 2024 AND name LIKE 'a%'",
        "Reads only rows for which this is true; skips partitions, files and record batches without such rows.",
        applies=Use.ROWS,
    )
    metadata_columns: bool = d.flag("false", "Adds columns with the origin of each row.", applies=Use.ROWS)
    metadata_only: bool = d.flag(
        "false",
        "Returns one row for each record batch, from headers only.",
        applies=Use.BATCH | Use.HEADERS,
    )
    max_partition_bytes: int = d.byte_size(
        "128m",
        "The most file bytes of a task, except for one larger batch.",
        applies=Use.FILES | Use.COUNT | Use.CHANGE,
    )
    max_batch_bytes: int = d.byte_size(
        "2g",
        "The most memory for one record batch, and for one row in Spark; more is [an error](limits.md).",
        applies=Use.READS | Use.COUNT | Use.COMPACTION | Use.CHANGE,
    )
    min_partition_num: int | None = d.optional_count(
        "200",
        "The number of tasks to aim for; by default one for each CPU of the driver.",
        applies=Use.LISTED | Use.SERVER | Use.COUNT | Use.CHANGE,
    )
    validation: Validation = d.word(
        Validation.FULL,
        "`full` checks structure and values; `structural` only structure, for files that you trust.",
        applies=Use.READS | Use.COUNT | Use.COMPACTION | Use.CHANGE,
    )
    verify_checksums: bool = d.flag(
        "true",
        "Checks the bytes read against the checksums in footers; a difference is an error.",
        applies=Use.LISTED | Use.COUNT | Use.COMPACTION | Use.CHANGE,
    )
    nanoseconds: Nanoseconds = d.word(
        Nanoseconds.FLOOR,
        "Spark has microseconds: `floor` rounds down (a Date64 to its day), `error` refuses to round, `long` returns the integer (Date64 as `error`).",
        applies=Use.READS | Use.COUNT | Use.CHANGE,
    )
    times: Times = d.word(
        Times.NOTED,
        "Reads a time of day as `time` (to compute with it, set `spark.sql.timeType.enabled`), as `interval` since midnight, or as `long`, the stored integer; `noted` reads columns that Spark wrote as TIME as `time`, others as `interval`.",
        applies=Use.READS | Use.COUNT | Use.CHANGE,
    )
    extension_types: ExtensionTypes = d.word(
        ExtensionTypes.CONVERT,
        "`convert` reads arrow.uuid, arrow.bool8, arrow.json, arrow.timestamp_with_offset and arrow.parquet.variant "
        "as Spark types; `tensor` also tensors as structs, `geometry` also [GEOMETRY and "
        "GEOGRAPHY](types.md#geometries). `all` converts all of these, `storage` none.",
        applies=Use.READS | Use.COUNT | Use.CHANGE,
    )
    timestamps_with_offset: TimestampsWithOffset = d.word(
        TimestampsWithOffset.TIMESTAMP,
        "Reads arrow.timestamp_with_offset as an instant, as ISO 8601 with the offset, or as both parts.",
        applies=Use.READS | Use.COUNT | Use.CHANGE,
    )
    vectors: Vectors = d.word(
        Vectors.ARRAY,
        "Reads lists of integers or floats as `array`, or as `binary`: the little-endian numbers, which reach Spark "
        "[in less than half the time](functions.md#vectors).",
        applies=Use.FILES | Use.COUNT | Use.CHANGE,
    )
    recursive_file_lookup: bool = d.flag(
        "false",
        "Reads subdirectories of any depth, without partition columns.",
        applies=Use.LISTED | Use.COUNT,
    )
    path_glob_filter: str | None = d.optional(
        values.file_pattern,
        "a pattern of a file's name",
        "part-*.arrow",
        "Reads only files whose names match; directory names do not matter.",
        applies=Use.LISTED | Use.COUNT | Use.COMPACTION,
    )
    modified_before: str | None = d.time(
        "Reads only files last modified before this time; a time without a zone is in `timeZone`, by default UTC.",
        applies=Use.LISTED | Use.COUNT | Use.COMPACTION,
    )
    modified_after: str | None = d.time(
        "Reads only files last modified after this time; zones as for `modifiedBefore`.",
        applies=Use.LISTED | Use.COUNT | Use.COMPACTION,
    )
    version_as_of: int | None = d.optional_count(
        "12",
        "Reads a table as it was after [the log entry](history.md#history) of this number.",
        applies=Use.BATCH | Use.HEADERS | Use.COUNT,
    )
    timestamp_as_of: str | None = d.time(
        "Reads a table as it was at this time; zones as for `modifiedBefore`.",
        applies=Use.BATCH | Use.HEADERS | Use.COUNT,
    )
    base_path: str | None = d.path(
        "/data/flights",
        "The directory below which `key=value` directories are columns; by default, each path of the read.",
        applies=Use.LISTED | Use.COUNT,
    )
    partition_type_inference: bool = d.flag(
        "true",
        "Infers the types of partition columns from their values; otherwise they are strings.",
        applies=Use.LISTED | Use.COUNT | Use.CHANGE,
    )
    time_zone: str | None = d.optional(
        values.time_zone,
        "a time zone's name or offset that Spark and this machine know",
        "Europe/Berlin",
        "The zone of timestamps without a zone in options and directory names. By default, `where` uses the session's "
        "zone, and timestamps in directory names are `timestamp_ntz`.",
        applies=Use.READS | Use.COUNT | Use.COMPACTION | Use.CHANGE,
    )
    merge_schema: bool = d.flag(
        "false",
        "Merges the schemas of all files: types widen. Otherwise [the newest log entry or file](writing.md#columns-and-types) "
        "sets the schema.",
        applies=Use.FILES | Use.COUNT | Use.CHANGE,
    )
    missing_columns: MissingColumns = d.word(
        MissingColumns.NULL,
        "A column that a file lacks is `null` or an `error`; with `mergeSchema` always null.",
        applies=Use.READS | Use.CHANGE,
    )
    ignore_corrupt_files: bool = d.flag(
        "false",
        "Skips the rest of a broken file, with a warning ([which rows](reading.md#truncated-and-damaged-files)).",
        applies=Use.LISTED,
    )
    ignore_missing_files: bool = d.flag(
        "false", "Skips a file that was deleted after it was listed, with a warning.", applies=Use.LISTED
    )
    tensors: TensorRows | None = d.optional_word(
        TensorRows.CELLS,
        "Reads [tensor files](tensors.md#tensor-files): a row is a cell (`cells`) or a complete tensor (`values`).",
        applies=Use.BATCH | Use.DIRECTORY | Use.TABLE,
    )
    recover: bool = d.flag(
        "false",
        "Reads the complete record batches of a truncated file, with a warning.",
        applies=Use.LISTED,
    )
    memory_map: bool = d.flag(
        "false",
        "Maps files into memory; truncating a file during the read crashes the worker.",
        applies=Use.FILES | Use.COUNT | Use.COMPACTION | Use.CHANGE,
    )
    token: str | None = d.secret(
        "a string",
        "s3cret",
        "The token for [a table server](dissociated.md). Errors never show it.",
        applies=Use.SERVER,
    )
    storage: tuple[tuple[str, str], ...] = d.secret_pairs(
        *STORAGE, applies=Use.FILES | Use.COUNT | Use.COMPACTION | Use.CHANGE
    )
    # Rewrites and compactions raise an error if another stream follows a stream's end, so that they lose no rows; reads warn.
    concatenated_streams: ConcatenatedStreams = d.internal(default=ConcatenatedStreams.WARN)
    # One task reads at most so many small files: opening one costs this part of the task's bytes, or 4 MiB.
    most_files_a_task: int = d.internal(default=32)
    is_exact: bool = d.internal(default=False)  # whether changing a value is an error, for rewrites
    may_be_empty: bool = d.internal(default=False)  # whether a path without anything is a table without rows
    marks_partition_columns: bool = d.internal(default=False)  # in their metadata, for the source of the JVM

    @property
    def reads_servers(self) -> bool:
        """True if the paths are tables of servers instead of files."""
        return any(map(is_served, self.paths))

    @property
    def path_storage(self) -> Storage:
        """The storage of the paths."""
        return storage_of(self.paths[0], self.storage)[0]

    @property
    def open_cost_bytes(self) -> int:
        """The cost of opening a file, in bytes that are read in the same time."""
        return min(OPEN_COST_BYTES, self.max_partition_bytes // self.most_files_a_task)

    @property
    def limits(self) -> Limits:
        """The budgets of each file."""
        return Limits(max_batch_bytes=self.max_batch_bytes, max_dictionary_bytes=self.max_batch_bytes)

    @property
    def fills_missing(self) -> bool:
        """True if columns that a file lacks are null."""
        return self.merge_schema or self.missing_columns is MissingColumns.NULL

    @property
    def column_paths(self) -> tuple[ColumnPath, ...] | None:
        """The option `columns` for each file; None to find columns by name."""
        # Positions refer to the merged schema, and differ between files.
        return None if self.merge_schema else self.columns

    @property
    def error_policy(self) -> ErrorPolicy:
        """The errors for which the scan skips a file."""
        return ErrorPolicy(self.ignore_corrupt_files, self.ignore_missing_files, self.recover)

    def check(self) -> None:
        """Refuse options that contradict each other or the paths."""
        if self.tensors is not None and self.recover:
            raise OptionError("recover=true mends tables, and with the option tensors the files are none; remove one")
        if self.version_as_of is not None and self.timestamp_as_of is not None:
            raise OptionError("versionAsOf and timestampAsOf each name a version of the table; remove one")
        if self.memory_map and any(map(is_remote, self.paths)):
            raise OptionError("memoryMap=true is for local files, and the path is a remote one; remove it")


@dataclass(frozen=True, slots=True)
class IngestPaths:
    """Paths for the source of a query that `ingest` starts, which has its checkpoint and target."""

    log: str | None = None  # the source log in the checkpoint, if neither sourceLog nor lateWindow is set
    log_storage: tuple[tuple[str, str], ...] = ()  # options, for a log that is remote if the source is not
    target: str | None = None  # if it is in the storage of the source


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options that only streams have; `parse_stream` makes them from Spark's dict."""

    max_files_per_trigger: int = d.count(
        "1000", "The most files in a batch. `Trigger.Once` reads all files.", applies=Use.STREAMS
    )
    max_bytes_per_trigger: int | None = d.optional_byte_size(
        "1g",
        "The most file bytes in a batch, which has at least one file.",
        applies=Use.STREAMS,
    )
    starting_from: StartingFrom | int | datetime = d.option(
        values.starting_point,
        "earliest",
        "earliest, latest, the number of a log entry, or a time with its zone as 2026-06-01T13:00:00Z",
        "latest",
        "Where a new query starts: at existing data (`earliest`), at data that comes later (`latest`), at the number of a "
        "log entry, or at a time.",
        kind=d.point_or(StartingFrom),
        applies=Use.STREAMS,
    )
    source_log: str | None = d.path(
        "/checkpoints/events-source",
        "A directory for this query only, which records the files of each batch: then files may arrive in any order.",
        applies=Use.DIRECTORY,
    )
    on_overwrite: OnOverwrite | None = d.optional_word(
        OnOverwrite.SKIP,
        "If a commit removed rows of earlier commits: `fail` ends the query (as without the option), `skip` reads nothing of "
        "the commit, `append` the rows that it wrote.",
        applies=Use.TABLE,
    )
    read_change_feed: bool = d.flag(
        "false",
        "Reads [the rows that each log entry inserted or deleted](streaming.md#the-change-feed).",
        applies=Use.TABLE,
    )
    fail_on_data_loss: bool = d.flag(
        "true",
        "Log entries or files that are removed before they are read are an error. With `false`, the query leaves out such files, and reads all existing files again if log entries are missing.",
        applies=Use.TABLE,
    )
    tail: bool = d.flag(
        "false",
        "Reads one `.arrows` file [that grows](streaming.md#a-file-that-grows), in a local or mounted file system.",
        applies=Use.TAIL,
    )
    late_window: int | None = d.optional_duration(
        "6h",
        "A new file may be at most this much older than the newest file that was read, 1h by default; otherwise it is not read, with a warning.",
        applies=Use.DIRECTORY,
    )
    on_bad_file: OnBadFile = d.word(
        OnBadFile.FAIL,
        "`fail` waits for incomplete files and fails at columns that the query cannot read; `skip` skips both kinds until they change, `quarantine` also records them in `sourceLog`.",
        applies=Use.DIRECTORY,
    )
    latest_first: bool = d.flag("false", "Reads the newest files first.", applies=Use.DIRECTORY)
    file_name_only: bool = d.flag(
        "false",
        "Of files with the same name in different directories, reads only the first.",
        applies=Use.DIRECTORY,
    )
    clean_source: CleanSource = d.word(
        CleanSource.OFF,
        "`delete` deletes the files of a batch after the sink has committed it, unless they have changed since.",
        applies=Use.DIRECTORY,
    )
    poll_interval: float | None = d.optional(
        values.pause,
        "a number of seconds, or one with a unit of ms, s, m, h or d",
        "200ms",
        "The pause between checks for new data; 200ms by default, 10s for remote storage.",
        kind=d.PAUSE,
        applies=Use.STREAMS,
    )
    ingest: IngestPaths = d.internal(default=IngestPaths())

    @property
    def late_seconds(self) -> int:
        """The option `late_window`, or its default."""
        return 3600 if self.late_window is None else self.late_window

    def check(self) -> None:
        """Refuse options that contradict each other."""
        if self.source_log is not None and self.late_window is not None:
            raise OptionError("with sourceLog no file is late, so that lateWindow has no meaning; remove one of them")
        if self.read_change_feed and self.on_overwrite is not None:
            raise OptionError(
                "readChangeFeed=true reads what an overwrite removed and what it wrote, so that onOverwrite has no meaning; "
                "remove one of them"
            )
