"""Keyword arguments of ``spark_arrow_ipc.options`` and of functions that read or rewrite, for type checkers.

Printed by ``tests/programs/docs_tables.py`` from the table of options (``read_options.py``, ``write_options.py``): change that, and print anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import Literal, TypedDict


class _ScanKeywords(TypedDict, total=False):
    """Options of reads and of reading streams."""

    columns: str | Sequence[str]
    """The columns to read, in this order, each once; also fields of structs and unions."""
    metadataColumns: bool
    """Adds columns with the origin of each row."""
    maxPartitionBytes: int | str
    """The most file bytes of a task, except for one larger batch."""
    maxBatchBytes: int | str
    """The most memory for one record batch, and for one row in Spark; more is [an error](limits.md)."""
    minPartitionNum: int
    """The number of tasks to aim for; by default one for each CPU of the driver."""
    validation: Literal["full", "structural"]
    """`full` checks structure and values; `structural` only structure, for files that you trust."""
    verifyChecksums: bool
    """Checks the bytes read against the checksums in footers; a difference is an error."""
    nanoseconds: Literal["floor", "error", "long"]
    """Spark has microseconds: `floor` rounds down (a Date64 to its day), `error` refuses to round, `long` returns the
    integer (Date64 as `error`)."""
    times: Literal["noted", "interval", "time", "long"]
    """Reads a time of day as `time` (to compute with it, set `spark.sql.timeType.enabled`), as `interval` since
    midnight, or as `long`, the stored integer; `noted` reads columns that Spark wrote as TIME as `time`, others as
    `interval`."""
    extensionTypes: Literal["convert", "storage", "tensor", "geometry", "all"]
    """`convert` reads arrow.uuid, arrow.bool8, arrow.json, arrow.timestamp_with_offset and arrow.parquet.variant as
    Spark types; `tensor` also tensors as structs, `geometry` also [GEOMETRY and GEOGRAPHY](types.md#geometries). `all`
    converts all of these, `storage` none."""
    timestampsWithOffset: Literal["timestamp", "string", "struct"]
    """Reads arrow.timestamp_with_offset as an instant, as ISO 8601 with the offset, or as both parts."""
    vectors: Literal["array", "binary"]
    """Reads lists of integers or floats as `array`, or as `binary`: the little-endian numbers, which reach Spark [in
    less than half the time](functions.md#vectors)."""
    recursiveFileLookup: bool
    """Reads subdirectories of any depth, without partition columns."""
    pathGlobFilter: str
    """Reads only files whose names match; directory names do not matter."""
    modifiedBefore: datetime | str
    """Reads only files last modified before this time; a time without a zone is in `timeZone`, by default UTC."""
    modifiedAfter: datetime | str
    """Reads only files last modified after this time; zones as for `modifiedBefore`."""
    basePath: str | PathLike[str]
    """The directory below which `key=value` directories are columns; by default, each path of the read."""
    partitionTypeInference: bool
    """Infers the types of partition columns from their values; otherwise they are strings."""
    timeZone: str
    """The zone of timestamps without a zone in options and directory names. By default, `where` uses the session's
    zone, and timestamps in directory names are `timestamp_ntz`."""
    mergeSchema: bool
    """Merges the schemas of all files: types widen. Otherwise [the newest log entry or
    file](writing.md#columns-and-types) sets the schema."""
    missingColumns: Literal["null", "error"]
    """A column that a file lacks is `null` or an `error`; with `mergeSchema` always null."""
    ignoreCorruptFiles: bool
    """Skips the rest of a broken file, with a warning ([which rows](reading.md#truncated-and-damaged-files))."""
    ignoreMissingFiles: bool
    """Skips a file that was deleted after it was listed, with a warning."""
    tensors: Literal["cells", "values"]
    """Reads [tensor files](tensors.md#tensor-files): a row is a cell (`cells`) or a complete tensor (`values`)."""
    recover: bool
    """Reads the complete record batches of a truncated file, with a warning."""
    memoryMap: bool
    """Maps files into memory; truncating a file during the read crashes the worker."""
    storage: Mapping[str, str]
    """Passed to [the object store](object_stores.md), as `storage.region`. Errors show no secret."""


class CountKeywords(_ScanKeywords, total=False):
    """Options of `count`."""

    metadataOnly: bool
    """Returns one row for each record batch, from headers only."""
    versionAsOf: int
    """Reads a table as it was after [the log entry](history.md#history) of this number."""
    timestampAsOf: datetime | str
    """Reads a table as it was at this time; zones as for `modifiedBefore`."""
    token: str
    """The token for [a table server](dissociated.md). Errors never show it."""


class FunctionKeywords(CountKeywords, total=False):
    """Options of `map_in_arrow` and `aggregate`."""

    where: str
    """Reads only rows for which this is true; skips partitions, files and record batches without such rows."""


class ReadKeywords(FunctionKeywords, total=False):
    """Options of a read."""

    path: str | PathLike[str]
    """The file or directory; `load(path)` and `save(path)` set it."""
    paths: Sequence[str | PathLike[str]]
    """Several files or directories; `load([a, b])` sets it."""


class _FollowKeywords(_ScanKeywords, total=False):
    """Options of reading a stream and of `ingest`."""

    where: str
    """Reads only rows for which this is true; skips partitions, files and record batches without such rows."""
    maxFilesPerTrigger: int
    """The most files in a batch. `Trigger.Once` reads all files."""
    maxBytesPerTrigger: int | str
    """The most file bytes in a batch, which has at least one file."""
    startingFrom: Literal["earliest", "latest"] | int | datetime
    """Where a new query starts: at existing data (`earliest`), at data that comes later (`latest`), at the number of a
    log entry, or at a time."""
    sourceLog: str | PathLike[str]
    """A directory for this query only, which records the files of each batch: then files may arrive in any order."""
    onOverwrite: Literal["fail", "skip", "append"]
    """If a commit removed rows of earlier commits: `fail` ends the query (as without the option), `skip` reads nothing
    of the commit, `append` the rows that it wrote."""
    readChangeFeed: bool
    """Reads [the rows that each log entry inserted or deleted](streaming.md#the-change-feed)."""
    failOnDataLoss: bool
    """Log entries or files that are removed before they are read are an error. With `false`, the query leaves out such
    files, and reads all existing files again if log entries are missing."""
    tail: bool
    """Reads one `.arrows` file [that grows](streaming.md#a-file-that-grows), in a local or mounted file system."""
    lateWindow: timedelta | int | str
    """A new file may be at most this much older than the newest file that was read, 1h by default; otherwise it is not
    read, with a warning."""
    onBadFile: Literal["fail", "skip", "quarantine"]
    """`fail` waits for incomplete files and fails at columns that the query cannot read; `skip` skips both kinds until
    they change, `quarantine` also records them in `sourceLog`."""
    latestFirst: bool
    """Reads the newest files first."""
    fileNameOnly: bool
    """Of files with the same name in different directories, reads only the first."""
    cleanSource: Literal["off", "delete"]
    """`delete` deletes the files of a batch after the sink has committed it, unless they have changed since."""
    pollInterval: timedelta | int | str
    """The pause between checks for new data; 200ms by default, 10s for remote storage."""


class ReadStreamKeywords(_FollowKeywords, total=False):
    """Options of reading a stream."""

    path: str | PathLike[str]
    """The file or directory; `load(path)` and `save(path)` set it."""
    paths: Sequence[str | PathLike[str]]
    """Several files or directories; `load([a, b])` sets it."""


class _FileKeywords(TypedDict, total=False):
    """Options of all that writes, but for those of reads."""

    compression: Literal["none", "lz4", "zstd"]
    """The compression of buffers ([when `lz4` is better](writing.md#compression)). `ipcFormat=stream` defaults to
    `lz4`."""
    compressionLevel: int
    """The level of `compression`; by default 1 for `zstd`, 0 for `lz4`."""
    recordBatchRows: int
    """The most rows in a record batch, which has about 64 MiB at most."""
    ipcFormat: Literal["file", "stream"]
    """`file` (random access, `.arrow`) or `stream` (`.arrows`)."""
    partitionBy: str | Sequence[str]
    """Columns that become directories `year=2024/month=1` instead of columns of files. Rows may come in any order."""
    maxRecordsPerFile: int
    """The most rows in a file; by default, or with 0, any number."""
    maxFileBytes: int | str
    """The most bytes in a file, which has at least one record batch. In an object store the default and limit are
    5,000,000,000."""
    dictionaryColumns: Literal["auto", "all", "none"] | list[str] | tuple[str, ...]
    """Columns that a table's first job writes as [dictionaries](writing.md#dictionaries): `auto` takes strings and
    binaries that repeat, `all` numbers, dates and times too."""
    tensorColumns: str | Mapping[str, Sequence[int | None]]
    """Writes arrays or structs as [tensors](tensors.md#columns-writing) of these shapes; `?` is any size. A row of
    another shape is an error."""
    fixedSizeLists: str | Mapping[str, int]
    """Writes arrays as fixed-size lists; so does `arrow.fixed-size-list.size` in a column's metadata. A row of another
    length is an error."""
    metadata: Mapping[str, str]
    """`metadata.owner=me` adds owner=me to the metadata of each file. Spark passes the key in lower case."""
    statistics: Literal["auto", "none", "all"] | list[str] | tuple[str, ...]
    """Columns that get [statistics](statistics.md) in the footer, for `where`. `auto` takes the first 64, up to 1 % of
    the file or 1 MiB, whichever is more. `.arrows` files have none."""
    schemaCheck: Literal["merge", "exact", "none"]
    """The columns that an append or a dynamic overwrite [may have](writing.md#columns-and-types)."""
    caseSensitive: bool
    """Allows column names that differ only in case; Spark reads such columns only with
    `spark.sql.caseSensitive=true`."""
    retention: timedelta | int | str
    """How long the table [retains](history.md#retention) log entries and removed files."""
    restoreTypes: bool
    """Writes columns with [the Arrow types that they were read from](types.md#back-to-the-types-that-were-read), or
    fails."""


class WriteStreamKeywords(_FileKeywords, total=False):
    """Options of writing a stream."""

    path: str | PathLike[str]
    """The file or directory; `load(path)` and `save(path)` set it."""
    vectors: Literal["array", "binary"]
    """`binary` writes a binary column whose metadata describes lists of numbers as lists."""
    storage: Mapping[str, str]
    """Passed to [the object store](object_stores.md), as `storage.region`. Errors show no secret."""


class WriteKeywords(WriteStreamKeywords, total=False):
    """Options of a write."""

    partitionOverwriteMode: Literal["static", "dynamic"]
    """Mode overwrite replaces everything (`static`), or only the partitions that the job writes to."""
    ifExists: Literal["append", "error", "ignore"]
    """If the directory holds data, mode append appends, fails (`error`) or writes nothing (`ignore`)."""
    commitToken: str
    """Identifies the job: if the token is among the newest 1,000 of the table, the job writes nothing and succeeds."""
    layout: Literal["plain", "huggingface"]
    """`huggingface` writes [a directory that `datasets.load_from_disk` opens](howto/huggingface.md)."""


class RewriteKeywords(FunctionKeywords, _FileKeywords, total=False):
    """Options of `rewrite`."""

    partitionOverwriteMode: Literal["static", "dynamic"]
    """Mode overwrite replaces everything (`static`), or only the partitions that the job writes to."""
    ifExists: Literal["append", "error", "ignore"]
    """If the directory holds data, mode append appends, fails (`error`) or writes nothing (`ignore`)."""
    commitToken: str
    """Identifies the job: if the token is among the newest 1,000 of the table, the job writes nothing and succeeds."""
    layout: Literal["plain", "huggingface"]
    """`huggingface` writes [a directory that `datasets.load_from_disk` opens](howto/huggingface.md)."""


class IngestKeywords(_FollowKeywords, _FileKeywords, total=False):
    """Options of `ingest`."""


class CompactKeywords(TypedDict, total=False):
    """Options of `compact`."""

    maxBatchBytes: int | str
    """The most memory for one record batch, and for one row in Spark; more is [an error](limits.md)."""
    validation: Literal["full", "structural"]
    """`full` checks structure and values; `structural` only structure, for files that you trust."""
    verifyChecksums: bool
    """Checks the bytes read against the checksums in footers; a difference is an error."""
    pathGlobFilter: str
    """Reads only files whose names match; directory names do not matter."""
    modifiedBefore: datetime | str
    """Reads only files last modified before this time; a time without a zone is in `timeZone`, by default UTC."""
    modifiedAfter: datetime | str
    """Reads only files last modified after this time; zones as for `modifiedBefore`."""
    timeZone: str
    """The zone of timestamps without a zone in options and directory names. By default, `where` uses the session's
    zone, and timestamps in directory names are `timestamp_ntz`."""
    memoryMap: bool
    """Maps files into memory; truncating a file during the read crashes the worker."""
    storage: Mapping[str, str]
    """Passed to [the object store](object_stores.md), as `storage.region`. Errors show no secret."""
    compression: Literal["none", "lz4", "zstd"]
    """The compression of buffers ([when `lz4` is better](writing.md#compression)). `ipcFormat=stream` defaults to
    `lz4`."""
    compressionLevel: int
    """The level of `compression`; by default 1 for `zstd`, 0 for `lz4`."""
    recordBatchRows: int
    """The most rows in a record batch, which has about 64 MiB at most."""
    ipcFormat: Literal["file", "stream"]
    """`file` (random access, `.arrow`) or `stream` (`.arrows`)."""
    maxRecordsPerFile: int
    """The most rows in a file; by default, or with 0, any number."""
    maxFileBytes: int | str
    """The most bytes in a file, which has at least one record batch. In an object store the default and limit are
    5,000,000,000."""
    metadata: Mapping[str, str]
    """`metadata.owner=me` adds owner=me to the metadata of each file. Spark passes the key in lower case."""
    statistics: Literal["auto", "none", "all"] | list[str] | tuple[str, ...]
    """Columns that get [statistics](statistics.md) in the footer, for `where`. `auto` takes the first 64, up to 1 % of
    the file or 1 MiB, whichever is more. `.arrows` files have none."""
    caseSensitive: bool
    """Allows column names that differ only in case; Spark reads such columns only with
    `spark.sql.caseSensitive=true`."""
    retention: timedelta | int | str
    """How long the table [retains](history.md#retention) log entries and removed files."""
    commitToken: str
    """Identifies the job: if the token is among the newest 1,000 of the table, the job writes nothing and succeeds."""
