"""Keyword arguments of ``spark_arrow_ipc.options`` and of functions that read or rewrite, for type checkers.

Printed by ``tests/docs_tables.py`` from the table of options (``read_options.py``, ``write_options.py``): change that, and print anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import Literal, TypedDict


class _ScanKeywords(TypedDict, total=False):
    """Options of reads and of reading streams."""

    columns: str | Sequence[str]
    """The columns to read, in this order, each once, fields of structs and unions too."""
    metadataColumns: bool
    """Adds columns with the origin of each row."""
    maxPartitionBytes: int | str
    """The most bytes of files that one Spark task reads."""
    maxBatchBytes: int | str
    """The most memory of one record batch in the file, and of one row in Spark, each value counted as often as it
    occurs; more is an error ([limits.md](limits.md))."""
    minPartitionNum: int
    """How many tasks to aim at; by default one for each CPU of the driver."""
    validation: Literal["full", "structural"]
    """`full` checks structure and values (UTF-8, offsets, indices); `structural` no values: only for a writer that you
    trust."""
    verifyChecksums: bool
    """Compares what is read with the checksums in footers; a difference is an error."""
    nanoseconds: Literal["floor", "error", "long"]
    """Spark counts microseconds: `floor` rounds down (before 1970 too; a Date64 to its day), `error` refuses what is
    not whole, `long` gives the count."""
    times: Literal["noted", "interval", "time", "long"]
    """A time of day as `time` (to compute with it needs `spark.sql.timeType.enabled`), `interval` since midnight, or
    `long`, the count; `noted` is TIME where Spark wrote TIME, else an interval."""
    extensionTypes: Literal["convert", "storage", "tensor", "geometry", "all"]
    """`convert` gives Spark's types of arrow.uuid, arrow.bool8, arrow.json, arrow.timestamp_with_offset and
    arrow.parquet.variant; `tensor` also structs of tensors, `geometry` also [GEOMETRY and
    GEOGRAPHY](types.md#geometries), `all` all of these, `storage` none."""
    timestampsWithOffset: Literal["timestamp", "string", "struct"]
    """arrow.timestamp_with_offset as `timestamp` (the instant), `string` (ISO 8601 with the offset) or `struct` (the
    instant, and the minutes of the offset)."""
    vectors: Literal["array", "binary"]
    """Lists of whole numbers or floats as `array`, or as `binary`: the little-endian numbers, which cross [in less than
    half of the time](functions.md#vectors)."""
    recursiveFileLookup: bool
    """Reads subdirectories of any depth; their names are then not columns."""
    pathGlobFilter: str
    """Only files whose names match; names of directories do not matter."""
    modifiedBefore: datetime | str
    """Only files last modified before this time; without a zone it is in `timeZone`, else in UTC."""
    modifiedAfter: datetime | str
    """Only files last modified after this time; zones as for `modifiedBefore`."""
    basePath: str | PathLike[str]
    """The directory below which `key=value` directories are columns; by default the paths."""
    partitionTypeInference: bool
    """Infers the types of partition columns from their values; else they are strings."""
    timeZone: str
    """The zone of timestamps without one, in options and names of directories. Without it `where` takes the session's,
    and names of directories give `timestamp_ntz`."""
    mergeSchema: bool
    """Merges the schemas of all files: missing columns are null, types widen. Else it is that of the file modified last
    (of several, the first by path)."""
    missingColumns: Literal["null", "error"]
    """A column that a file lacks is `null`, or an `error`; with `mergeSchema` null."""
    ignoreCorruptFiles: bool
    """Skips the rest of a broken file, with a warning ([which rows](options.md#rows-that-ignorecorruptfiles-loses))."""
    ignoreMissingFiles: bool
    """Skips a file that was deleted after it was listed, with a warning."""
    tensors: Literal["cells", "values"]
    """Of files of tensors a row is, with `cells`, a cell's coordinates and value (of a sparse tensor those that its
    index names), with `values` a whole tensor."""
    recover: bool
    """Reads the complete record batches of a truncated file, with a warning."""
    memoryMap: bool
    """Maps files into memory; a file that is truncated meanwhile crashes the worker."""
    storage: Mapping[str, str]
    """Passed to the object store, as `storage.region` ([object_stores.md](object_stores.md)). No error shows a
    value."""


class CountKeywords(_ScanKeywords, total=False):
    """Options of `count`."""

    metadataOnly: bool
    """Gives a table of the files' record batches, from their headers alone."""
    token: str
    """The token of a server of tables ([dissociated.md](dissociated.md)). No error shows it."""


class FunctionKeywords(CountKeywords, total=False):
    """Options of `map_in_arrow` and `aggregate`."""

    where: str
    """Only rows for which this is true; partitions, files and record batches without any are skipped."""


class ReadKeywords(FunctionKeywords, total=False):
    """Options of a read."""

    path: str | PathLike[str]
    """The file or directory; `load(path)` and `save(path)` set it."""
    paths: Sequence[str | PathLike[str]]
    """Several files or directories; `load([a, b])` sets it."""


class _FollowKeywords(_ScanKeywords, total=False):
    """Options of reading a stream and of `ingest`."""

    where: str
    """Only rows for which this is true; partitions, files and record batches without any are skipped."""
    maxFilesPerTrigger: int
    """The most files of a batch. `Trigger.Once` takes all."""
    maxBytesPerTrigger: int | str
    """The most bytes of the files of a batch, which has at least one file."""
    startingFrom: Literal["earliest", "latest"] | int | datetime
    """For a new query: all that is there (`earliest`), only what comes later (`latest`), commits from this record on,
    or what is not older than a time, by times of files or records."""
    sourceLog: str | PathLike[str]
    """A directory of this query alone that notes the files of each batch: files may then come in any order and at any
    time."""
    onOverwrite: Literal["fail", "skip", "append"]
    """Where a commit removed rows of earlier ones: `fail` (also without the option), `skip` it, or `append` what it
    wrote as new rows."""
    readChangeFeed: bool
    """Reads a dataset's changes, as rows with `_change_type` (`insert`, or `delete`) and `_commit`, the number of the
    record. Compactions change no row."""
    failOnDataLoss: bool
    """Records or files that are gone before they are read are an error. With `false`, and a warning, such files are
    left out; if records are gone, all that is there is read anew."""
    tail: bool
    """Reads one stream (`.arrows`) of a local or mounted file system, to which another process appends, by record
    batches."""
    lateWindow: timedelta | int | str
    """How much older than the newest file that was read a file may be when it appears; 1h without it. An older one is
    not read, with a warning."""
    onBadFile: Literal["fail", "skip", "quarantine"]
    """With `fail` a file that is not whole or not Arrow waits, and one with columns that the query cannot read ends it;
    `skip` passes over both until they change, `quarantine` also notes them in `sourceLog`."""
    latestFirst: bool
    """Reads the newest files first."""
    fileNameOnly: bool
    """Of files of one name, in whatever directories, only the first is read."""
    cleanSource: Literal["off", "delete"]
    """When the sink has a batch, its files stay (`off`) or are deleted (`delete`); those that have changed since are
    left, with a warning."""
    pollInterval: timedelta | int | str
    """The pause between two looks: without it 200ms, 10s where storage is remote; longer where a look takes long."""


class ReadStreamKeywords(_FollowKeywords, total=False):
    """Options of reading a stream."""

    path: str | PathLike[str]
    """The file or directory; `load(path)` and `save(path)` set it."""
    paths: Sequence[str | PathLike[str]]
    """Several files or directories; `load([a, b])` sets it."""


class _FileKeywords(TypedDict, total=False):
    """Options of all that writes, but for those of reads."""

    compression: Literal["none", "lz4", "zstd"]
    """The compression of buffers."""
    compressionLevel: int
    """The level of `compression`; by default the library's own."""
    recordBatchRows: int
    """The most rows of a record batch."""
    recordBatchBytes: int | str
    """About the most bytes of a record batch, before compression."""
    ipcFormat: Literal["file", "stream"]
    """`file` (random access, `.arrow`) or `stream` (`.arrows`)."""
    partitionBy: str | Sequence[str]
    """Columns that become directories `year=2024/month=1` and are not in the files. Rows may come in any order."""
    maxRecordsPerFile: int
    """The most rows of a file; without it, or with 0, any number."""
    maxFileBytes: int | str
    """The most bytes of a file, which has at least one record batch. In an object store 1g without it, and at most
    5,000,000,000."""
    dictionaryColumns: Literal["auto", "none"] | list[str] | tuple[str, ...]
    """Columns that are dictionary-encoded, one dictionary a file. `auto` takes strings and binaries whose values occur
    at least 8 times on average in a task's first 65,536 rows."""
    tensorColumns: str | Mapping[str, Sequence[int | None]]
    """Arrays, or structs of shape and data, written as arrow.fixed_shape_tensor; with a `?`, structs as
    arrow.variable_shape_tensor. A row of another shape is an error."""
    fixedSizeLists: str | Mapping[str, int]
    """Arrays written as fixed-size lists, as are those with `arrow.fixed-size-list.size` in their metadata. A row of
    another length is an error."""
    metadata: Mapping[str, str]
    """`metadata.owner=me` adds owner=me to the metadata of each file. Spark passes the key in lower case."""
    statistics: Literal["auto", "none", "all"] | list[str] | tuple[str, ...]
    """Columns whose null count, least and greatest value of each record batch are in the footer, for `where`. `auto`
    takes the first 64, and at most 1 % of the file, or 1 MiB if that is more. Streams have none."""
    schemaCheck: Literal["merge", "exact", "none"]
    """[The columns](writing.md#columns-and-types) of a job that keeps files: `merge` takes fewer or more, and types
    that widen; `exact` the same; `none` checks nothing."""
    caseSensitive: bool
    """Names of columns may differ only in case; Spark reads them only with `spark.sql.caseSensitive=true`."""
    keepReplaced: timedelta | int | str
    """How long files that an overwrite replaces live on for reads that were planned before; 1h for `compact`."""
    commitRetention: timedelta | int | str
    """Keeps records of commits for this time, and the newest 1,000, for streams of the dataset. It holds for all
    writers until one says otherwise."""
    restoreTypes: bool
    """Writes columns with the Arrow types that they were read from; what cannot come back exactly is an error
    ([types.md](types.md#back-to-the-types-that-were-read))."""


class WriteStreamKeywords(_FileKeywords, total=False):
    """Options of writing a stream."""

    path: str | PathLike[str]
    """The file or directory; `load(path)` and `save(path)` set it."""
    vectors: Literal["array", "binary"]
    """`binary` writes binary columns whose metadata notes a list of numbers as such lists; with `array` they stay
    binary."""
    storage: Mapping[str, str]
    """Passed to the object store, as `storage.region` ([object_stores.md](object_stores.md)). No error shows a
    value."""


class WriteKeywords(WriteStreamKeywords, total=False):
    """Options of a write."""

    partitionOverwriteMode: Literal["static", "dynamic"]
    """Mode overwrite replaces everything (`static`), or only the partitions that are written to."""
    ifExists: Literal["append", "error", "ignore"]
    """If the directory holds data, mode append appends, is an `error`, or writes nothing (`ignore`)."""
    commitToken: str
    """Identifies the job: if the token is committed already, it writes nothing and succeeds. The newest 1,000 tokens
    are remembered."""
    layout: Literal["plain", "huggingface"]
    """`huggingface` writes what `datasets.load_from_disk` opens ([howto/huggingface.md](howto/huggingface.md));
    `compression` is then none and `restoreTypes` true unless given."""


class RewriteKeywords(FunctionKeywords, _FileKeywords, total=False):
    """Options of `rewrite`."""

    partitionOverwriteMode: Literal["static", "dynamic"]
    """Mode overwrite replaces everything (`static`), or only the partitions that are written to."""
    ifExists: Literal["append", "error", "ignore"]
    """If the directory holds data, mode append appends, is an `error`, or writes nothing (`ignore`)."""
    commitToken: str
    """Identifies the job: if the token is committed already, it writes nothing and succeeds. The newest 1,000 tokens
    are remembered."""
    layout: Literal["plain", "huggingface"]
    """`huggingface` writes what `datasets.load_from_disk` opens ([howto/huggingface.md](howto/huggingface.md));
    `compression` is then none and `restoreTypes` true unless given."""


class IngestKeywords(_FollowKeywords, _FileKeywords, total=False):
    """Options of `ingest`."""


class CompactKeywords(TypedDict, total=False):
    """Options of `compact`."""

    maxBatchBytes: int | str
    """The most memory of one record batch in the file, and of one row in Spark, each value counted as often as it
    occurs; more is an error ([limits.md](limits.md))."""
    validation: Literal["full", "structural"]
    """`full` checks structure and values (UTF-8, offsets, indices); `structural` no values: only for a writer that you
    trust."""
    verifyChecksums: bool
    """Compares what is read with the checksums in footers; a difference is an error."""
    pathGlobFilter: str
    """Only files whose names match; names of directories do not matter."""
    modifiedBefore: datetime | str
    """Only files last modified before this time; without a zone it is in `timeZone`, else in UTC."""
    modifiedAfter: datetime | str
    """Only files last modified after this time; zones as for `modifiedBefore`."""
    timeZone: str
    """The zone of timestamps without one, in options and names of directories. Without it `where` takes the session's,
    and names of directories give `timestamp_ntz`."""
    memoryMap: bool
    """Maps files into memory; a file that is truncated meanwhile crashes the worker."""
    storage: Mapping[str, str]
    """Passed to the object store, as `storage.region` ([object_stores.md](object_stores.md)). No error shows a
    value."""
    compression: Literal["none", "lz4", "zstd"]
    """The compression of buffers."""
    compressionLevel: int
    """The level of `compression`; by default the library's own."""
    recordBatchRows: int
    """The most rows of a record batch."""
    recordBatchBytes: int | str
    """About the most bytes of a record batch, before compression."""
    ipcFormat: Literal["file", "stream"]
    """`file` (random access, `.arrow`) or `stream` (`.arrows`)."""
    maxRecordsPerFile: int
    """The most rows of a file; without it, or with 0, any number."""
    maxFileBytes: int | str
    """The most bytes of a file, which has at least one record batch. In an object store 1g without it, and at most
    5,000,000,000."""
    metadata: Mapping[str, str]
    """`metadata.owner=me` adds owner=me to the metadata of each file. Spark passes the key in lower case."""
    statistics: Literal["auto", "none", "all"] | list[str] | tuple[str, ...]
    """Columns whose null count, least and greatest value of each record batch are in the footer, for `where`. `auto`
    takes the first 64, and at most 1 % of the file, or 1 MiB if that is more. Streams have none."""
    caseSensitive: bool
    """Names of columns may differ only in case; Spark reads them only with `spark.sql.caseSensitive=true`."""
    keepReplaced: timedelta | int | str
    """How long files that an overwrite replaces live on for reads that were planned before; 1h for `compact`."""
    commitRetention: timedelta | int | str
    """Keeps records of commits for this time, and the newest 1,000, for streams of the dataset. It holds for all
    writers until one says otherwise."""
    commitToken: str
    """Identifies the job: if the token is committed already, it writes nothing and succeeds. The newest 1,000 tokens
    are remembered."""
