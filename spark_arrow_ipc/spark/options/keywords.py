"""Keyword arguments of ``spark_arrow_ipc.options`` and of functions that read or rewrite, for type checkers.

Printed by ``spark/docs_tables.py`` from the table of options (``read_options.py``, ``write_options.py``): change that, and print anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import Literal, TypedDict


class _ScanKeywords(TypedDict, total=False):
    """Options of reads and of reading streams."""

    columns: str | Sequence[str]
    """The columns to read, in this order, fields of structs (and of unions, to Spark structs) too, and each once; the
    others are neither read nor decoded."""
    metadataColumns: bool
    """Whether columns with the origin of each row are added."""
    maxPartitionBytes: int | str
    """How much of the files one Spark task reads at most."""
    openCostInBytes: int | str
    """Estimated cost of opening a file, in bytes that could be read in the same time."""
    outputBatchRows: int
    """How many rows a batch has at most when it is given to Spark; it is also kept to about 64 MiB."""
    maxBatchBytes: int | str
    """The most memory that one record batch may need as it is in the file, and one row as Spark gets it, where a value
    of a dictionary, a run or a shared element counts each time that it occurs. All rows of a batch may take 32 times as
    much, one after the other, and all dictionaries of a file as much again. A file that needs more is an error
    ([limits.md](limits.md))."""
    minPartitionNum: int
    """How many tasks are aimed at if there is enough to read; without it, one for each CPU of the driver."""
    concatenatedStreams: Literal["warn", "read", "error"]
    """What is done where another stream begins after the end of a stream, as `cat a.arrows b.arrows` makes it: `warn`
    reads the first one, with a warning, `read` all of them, if their schemas agree; or it is an `error`."""
    validation: Literal["full", "structural"]
    """`full` checks structure and values (UTF-8, offsets, indices); `structural` skips the values: only for files from
    a writer that you trust."""
    verifyChecksums: bool
    """Whether what is read of a file with `statistics` is compared with the checksums in its footer; bytes that were
    changed after it was written are then an error."""
    nanoseconds: Literal["floor", "error", "long"]
    """The treatment of nanoseconds, as Spark counts microseconds: `floor` rounds down (before 1970 too; a Date64 to its
    day), `error` refuses what is not whole, `long` gives the count as a number. It holds for what functions make,
    too."""
    times: Literal["noted", "interval", "time", "long"]
    """The Spark type of a time of day: `time` (Spark refuses to compute with TIME until `spark.sql.timeType.enabled` is
    set), `interval` (since midnight), `long` (the count); `noted` is TIME where Spark wrote TIME, else an interval."""
    mapKeys: Literal["error", "lastWins"]
    """The treatment of a duplicate key of a map: an `error`, or `lastWins`."""
    extensionTypes: Literal["convert", "storage", "tensor", "geometry", "all"]
    """`convert` gives the Spark type of arrow.uuid, arrow.bool8, arrow.json, arrow.timestamp_with_offset and
    arrow.parquet.variant; `storage` gives that of their storage; `tensor` converts them, and arrow.fixed_shape_tensor
    and arrow.variable_shape_tensor to a struct of the shape and the values; `geometry` converts them, and geoarrow.wkb
    to GEOMETRY and GEOGRAPHY ([types.md](types.md#geometries)); `all` converts all of these."""
    timestampsWithOffset: Literal["timestamp", "string", "struct"]
    """The Spark type of arrow.timestamp_with_offset: `timestamp` (the instant), `string` (ISO 8601 with the offset) or
    `struct` (the instant, and the minutes of the offset)."""
    vectors: Literal["array", "binary"]
    """The Spark type of a column (or a struct's field) that is a list of whole numbers or floats: `array`, or `binary`,
    the little-endian numbers, which cross in less than half of the time ([functions.md](functions.md#vectors))."""
    recursiveFileLookup: bool
    """Whether files in subdirectories of any depth are read; names of directories are then not columns."""
    pathGlobFilter: str
    """Only files whose names match are read. Names of directories do not matter."""
    modifiedBefore: datetime | str
    """Only files that were last modified before this time are read; without a zone it is in `timeZone`, else in UTC."""
    modifiedAfter: datetime | str
    """Only files that were last modified after this time are read; without a zone it is in `timeZone`, else in UTC."""
    basePath: str | PathLike[str]
    """The directory below which `key=value` directories are columns; without it, the given paths."""
    partitionTypeInference: bool
    """Whether the types of partition columns are inferred from their values; else they are strings."""
    timeZone: str
    """The zone of timestamps without one, in options and in the names of directories. Without it, `where` takes the
    session's, which only tasks know, and timestamps in the names of directories are `timestamp_ntz`."""
    mergeSchema: bool
    """Whether the schemas of all files are merged: missing columns are null, types widen. Else the schema is that of
    the file that was modified last (of several, the first by path)."""
    missingColumns: Literal["null", "error"]
    """What a column of the schema is in a file that does not have it: `null`, as in Spark's own sources, or an `error`.
    With `mergeSchema` it is null."""
    ignoreCorruptFiles: bool
    """Whether the rest of a broken file is skipped, with a warning that says what is missing."""
    ignoreMissingFiles: bool
    """Whether a file that was deleted after it was listed is skipped, with a warning."""
    tensors: Literal["cells", "values"]
    """What is a row where the files are tensors and not tables: of `cells` the coordinates of a cell and its value (of
    a sparse tensor the cells that its index names), of `values` a whole tensor with its shape and all its values."""
    recover: bool
    """Whether the complete record batches of a truncated file are read, with a warning."""
    memoryMap: bool
    """Whether files are mapped into memory; a file that is truncated meanwhile then crashes the worker."""
    storage: Mapping[str, str]
    """Passed to the object store, as `storage.region` ([object_stores.md](object_stores.md)). No error shows a
    value."""


class CountKeywords(_ScanKeywords, total=False):
    """Options of `count`."""

    metadataOnly: bool
    """Whether the result is a table of the files' record batches, made from their headers alone."""
    token: str
    """The token of a server of tables ([dissociated.md](dissociated.md)). No error shows it."""


class FunctionKeywords(CountKeywords, total=False):
    """Options of `map_in_arrow` and `aggregate`."""

    where: str
    """Only rows for which this is true are read. Partitions, files and record batches without such rows are skipped."""


class ReadKeywords(FunctionKeywords, total=False):
    """Options of a read."""

    path: str | PathLike[str]
    """The file or directory; `load(path)` and `save(path)` set it."""
    paths: Sequence[str | PathLike[str]]
    """Several files or directories; `load([a, b])` sets it."""


class _FollowKeywords(_ScanKeywords, total=False):
    """Options of reading a stream and of `ingest`."""

    where: str
    """Only rows for which this is true are read. Partitions, files and record batches without such rows are skipped."""
    maxFilesPerTrigger: int
    """How many files a batch has at most. `Trigger.Once` takes all."""
    maxBytesPerTrigger: int | str
    """How many bytes the files of a batch have at most; it has at least one file. Both limits may be given."""
    startingFrom: Literal["earliest", "latest"] | int
    """What a new query reads first: all that is there (`earliest`), only what comes after its start (`latest`), or the
    commits of a data set from the record of this number on. After a restart a query goes on where it was."""
    sourceLog: str | PathLike[str]
    """A directory of this query alone, in which it notes the files of each batch: files may come in any order and at
    any time then. It belongs to the checkpoint."""
    onOverwrite: Literal["fail", "skip", "append"]
    """What a stream of a data set's commits does where one removed rows of earlier ones: `fail`, as without the option,
    `skip` it, or `append`: read the rows that it wrote as new ones."""
    failOnDataLoss: bool
    """Whether a stream of a data set's commits ends with an error where records or files are gone before it has read
    them. With `false` it leaves out such files, and begins anew with all that is there if records are gone, each with a
    warning."""
    tail: bool
    """Whether the path is one stream (`.arrows`) of a local or mounted file system that another process appends to,
    which is read record batch by record batch."""
    lateWindow: timedelta | int | str
    """How much older than the newest file that was read a file may be when it appears in a directory; without it, 1h. A
    file that is older is not read, and a warning names it. Offsets grow with the number of files in this time."""
    maxFileAge: timedelta | int | str
    """How much older than the newest file that was read a file may be; without it, files of any age are read."""
    unfinishedAfter: timedelta | int | str
    """How long a stream (`.arrows`) without its end marker must not have changed to be read as it is, with a warning;
    without it, a stream of a directory waits for the marker. Files of `tensors`, which have no marker, wait for this
    time, or for a minute. What is written later is not read, and a warning names the file."""
    onBadFile: Literal["fail", "skip", "quarantine"]
    """What a stream of a directory does with a file that is not whole, not Arrow, or has other columns than the query
    can read, as its footer and headers say: `fail` waits for its end, and else ends the query; `skip` passes over it
    until it changes, with a warning; `quarantine` notes it in `sourceLog` as well."""
    latestFirst: bool
    """Whether the newest files are read first, instead of the oldest."""
    fileNameOnly: bool
    """Whether files of one name are one file, in whatever directory: only the first is read."""
    cleanSource: Literal["off", "archive", "delete"]
    """What is done with the files of a batch when the sink has it: `off` leaves them, `archive` moves them to
    `sourceArchiveDir`, `delete` deletes them. A file that has changed since is left, with a warning."""
    sourceArchiveDir: str | PathLike[str]
    """Where `cleanSource=archive` moves files to, in the same storage; they keep their whole path below it."""
    pollInterval: timedelta | int | str
    """The pause of a query that waits between two looks for something new: without it 1s, and 10s where storage is
    remote. It is longer where a look takes long, so that a query looks for at most a fifth of the time."""


class ReadStreamKeywords(_FollowKeywords, total=False):
    """Options of reading a stream."""

    path: str | PathLike[str]
    """The file or directory; `load(path)` and `save(path)` set it."""
    paths: Sequence[str | PathLike[str]]
    """Several files or directories; `load([a, b])` sets it."""


class _FileKeywords(TypedDict, total=False):
    """Options of all that writes, but for those of reads."""

    compression: Literal["none", "lz4", "zstd"]
    """How the buffers are compressed."""
    compressionLevel: int
    """The level of `compression`; without it, the library's own default."""
    recordBatchRows: int
    """How many rows a record batch of a written file has at most."""
    recordBatchBytes: int | str
    """About how many bytes a record batch of a written file has at most, before compression."""
    ipcFormat: Literal["file", "stream"]
    """`file` (random access, `.arrow`) or `stream` (`.arrows`)."""
    partitionBy: str | Sequence[str]
    """The columns that become directories `year=2024/month=1` and are not in the files. Rows may come in any order; a
    task writes one file for each partition."""
    maxRecordsPerFile: int
    """How many rows a file has at most; without it, or with 0, a task writes one file (one for each partition)."""
    maxFileBytes: int | str
    """How many bytes a file has at most: it ends before the record batch that would exceed it, and has at least one. In
    an object store, where a file is published by one copy, 1g if it is not given, and at most 5,000,000,000."""
    dictionaryColumns: Literal["auto", "none"] | list[str] | tuple[str, ...]
    """The columns that are dictionary-encoded, with int32 indices and one dictionary a file. `auto` takes the strings
    and binaries whose values occur at least 8 times on average in the first 65,536 rows of a task."""
    tensorColumns: str | Mapping[str, Sequence[int | None]]
    """The columns that are written as tensors: arrays, or structs of shape and data, as arrow.fixed_shape_tensor; with
    a `?`, structs as arrow.variable_shape_tensor. A row of another shape is an error."""
    fixedSizeLists: str | Mapping[str, int]
    """The arrays that are written as fixed-size lists; so are those with `arrow.fixed-size-list.size` in their
    metadata. A row of another length is an error."""
    metadata: Mapping[str, str]
    """`metadata.owner=me` adds the pair owner=me to the schema's and the footer's metadata of every file. Spark passes
    the key in lower case."""
    statistics: Literal["auto", "none", "all"] | list[str] | tuple[str, ...]
    """The columns whose null count, least and greatest value of each record batch are noted in the footer, for `where`.
    `auto` takes the first 64 columns, and at most 1 % of the file, or 1 MiB if that is more. The stream format cannot
    hold them."""
    schemaCheck: Literal["merge", "exact", "none"]
    """What columns a job may have that keeps files: with `merge` those of the newest record or fewer, which are null in
    its rows, or more, with types that widen to one another; with `exact` the same; `none` checks nothing."""
    caseSensitive: bool
    """Whether names of columns may differ only in case (`a` and `A`). Spark can read such columns only with
    `spark.sql.caseSensitive=true`."""
    keepReplaced: timedelta | int | str
    """How long files that an overwrite replaces live on for reads that were planned before; 1h for `compact`. The next
    write or vacuum after that removes them."""
    commitRetention: timedelta | int | str
    """Keeps the records of commits, from this job on, so that streams can read the data set record by record: for this
    time, and the newest 1,000 however old. It holds for the jobs of all writers until one says otherwise."""
    durability: Literal["fsync", "none"]
    """`fsync` makes every step survive a power failure; `none` leaves that to the operating system."""
    restoreTypes: bool
    """Whether columns are written with the Arrow types that they were read from, which their metadata notes. What
    cannot come back exactly is an error ([types.md](types.md#back-to-the-types-that-were-read))."""


class WriteStreamKeywords(_FileKeywords, total=False):
    """Options of writing a stream."""

    path: str | PathLike[str]
    """The file or directory; `load(path)` and `save(path)` set it."""
    vectors: Literal["array", "binary"]
    """`binary` writes binary columns whose metadata notes a list of numbers (read with `vectors=binary`, or noted by
    `spark_arrow_ipc.vectors.metadata`) as such lists; with `array` they stay binary."""
    storage: Mapping[str, str]
    """Passed to the object store, as `storage.region` ([object_stores.md](object_stores.md)). No error shows a
    value."""


class WriteKeywords(WriteStreamKeywords, total=False):
    """Options of a write."""

    partitionOverwriteMode: Literal["static", "dynamic"]
    """What mode overwrite replaces: `static` everything, `dynamic` only the partitions that are written to."""
    ifExists: Literal["append", "error", "ignore"]
    """What mode append does if the directory holds data: `append`, an `error` before any work, or `ignore` (nothing is
    written)."""
    commitToken: str
    """Identifies the job, so that it can be rerun: if the token is committed already, it writes nothing and succeeds. A
    directory remembers the newest 1,000 tokens."""
    layout: Literal["plain", "huggingface"]
    """`huggingface` writes what `datasets.load_from_disk` opens: streams, and `dataset_info.json` and `state.json`
    beside them, in one step, which mode overwrite or `ifExists` says. Then `compression` is none and `restoreTypes`
    true unless they are given ([howto/huggingface.md](howto/huggingface.md))."""


class RewriteKeywords(FunctionKeywords, _FileKeywords, total=False):
    """Options of `rewrite`."""

    partitionOverwriteMode: Literal["static", "dynamic"]
    """What mode overwrite replaces: `static` everything, `dynamic` only the partitions that are written to."""
    ifExists: Literal["append", "error", "ignore"]
    """What mode append does if the directory holds data: `append`, an `error` before any work, or `ignore` (nothing is
    written)."""
    commitToken: str
    """Identifies the job, so that it can be rerun: if the token is committed already, it writes nothing and succeeds. A
    directory remembers the newest 1,000 tokens."""
    layout: Literal["plain", "huggingface"]
    """`huggingface` writes what `datasets.load_from_disk` opens: streams, and `dataset_info.json` and `state.json`
    beside them, in one step, which mode overwrite or `ifExists` says. Then `compression` is none and `restoreTypes`
    true unless they are given ([howto/huggingface.md](howto/huggingface.md))."""


class IngestKeywords(_FollowKeywords, _FileKeywords, total=False):
    """Options of `ingest`."""


class CompactKeywords(TypedDict, total=False):
    """Options of `compact`."""

    outputBatchRows: int
    """How many rows a batch has at most when it is given to Spark; it is also kept to about 64 MiB."""
    maxBatchBytes: int | str
    """The most memory that one record batch may need as it is in the file, and one row as Spark gets it, where a value
    of a dictionary, a run or a shared element counts each time that it occurs. All rows of a batch may take 32 times as
    much, one after the other, and all dictionaries of a file as much again. A file that needs more is an error
    ([limits.md](limits.md))."""
    concatenatedStreams: Literal["warn", "read", "error"]
    """What is done where another stream begins after the end of a stream, as `cat a.arrows b.arrows` makes it: `warn`
    reads the first one, with a warning, `read` all of them, if their schemas agree; or it is an `error`."""
    validation: Literal["full", "structural"]
    """`full` checks structure and values (UTF-8, offsets, indices); `structural` skips the values: only for files from
    a writer that you trust."""
    verifyChecksums: bool
    """Whether what is read of a file with `statistics` is compared with the checksums in its footer; bytes that were
    changed after it was written are then an error."""
    pathGlobFilter: str
    """Only files whose names match are read. Names of directories do not matter."""
    modifiedBefore: datetime | str
    """Only files that were last modified before this time are read; without a zone it is in `timeZone`, else in UTC."""
    modifiedAfter: datetime | str
    """Only files that were last modified after this time are read; without a zone it is in `timeZone`, else in UTC."""
    timeZone: str
    """The zone of timestamps without one, in options and in the names of directories. Without it, `where` takes the
    session's, which only tasks know, and timestamps in the names of directories are `timestamp_ntz`."""
    memoryMap: bool
    """Whether files are mapped into memory; a file that is truncated meanwhile then crashes the worker."""
    storage: Mapping[str, str]
    """Passed to the object store, as `storage.region` ([object_stores.md](object_stores.md)). No error shows a
    value."""
    compression: Literal["none", "lz4", "zstd"]
    """How the buffers are compressed."""
    compressionLevel: int
    """The level of `compression`; without it, the library's own default."""
    recordBatchRows: int
    """How many rows a record batch of a written file has at most."""
    recordBatchBytes: int | str
    """About how many bytes a record batch of a written file has at most, before compression."""
    ipcFormat: Literal["file", "stream"]
    """`file` (random access, `.arrow`) or `stream` (`.arrows`)."""
    maxRecordsPerFile: int
    """How many rows a file has at most; without it, or with 0, a task writes one file (one for each partition)."""
    maxFileBytes: int | str
    """How many bytes a file has at most: it ends before the record batch that would exceed it, and has at least one. In
    an object store, where a file is published by one copy, 1g if it is not given, and at most 5,000,000,000."""
    metadata: Mapping[str, str]
    """`metadata.owner=me` adds the pair owner=me to the schema's and the footer's metadata of every file. Spark passes
    the key in lower case."""
    statistics: Literal["auto", "none", "all"] | list[str] | tuple[str, ...]
    """The columns whose null count, least and greatest value of each record batch are noted in the footer, for `where`.
    `auto` takes the first 64 columns, and at most 1 % of the file, or 1 MiB if that is more. The stream format cannot
    hold them."""
    caseSensitive: bool
    """Whether names of columns may differ only in case (`a` and `A`). Spark can read such columns only with
    `spark.sql.caseSensitive=true`."""
    keepReplaced: timedelta | int | str
    """How long files that an overwrite replaces live on for reads that were planned before; 1h for `compact`. The next
    write or vacuum after that removes them."""
    commitRetention: timedelta | int | str
    """Keeps the records of commits, from this job on, so that streams can read the data set record by record: for this
    time, and the newest 1,000 however old. It holds for the jobs of all writers until one says otherwise."""
    durability: Literal["fsync", "none"]
    """`fsync` makes every step survive a power failure; `none` leaves that to the operating system."""
    commitToken: str
    """Identifies the job, so that it can be rerun: if the token is committed already, it writes nothing and succeeds. A
    directory remembers the newest 1,000 tokens."""
