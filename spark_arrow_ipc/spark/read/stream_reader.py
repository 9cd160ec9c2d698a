"""The streaming reader: offsets and plans on the driver, batches on executors.

How it works
------------
A mode (`dataset.stream`) decides the files of a batch, and the batch reader reads them without a listing. ``tail=true``
follows one growing file. A table is read by its log; every other source is directories of files. Spark creates one reader
in a process that lives as long as the query, and calls all methods but `read` in it. For tasks, Spark pickles further
readers, which need no mode; so a reader creates its mode when it first needs it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql import types as s
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from spark_arrow_ipc.dataset.listing.globs import is_pattern
from spark_arrow_ipc.dataset.stream.admission import SETTLE_SECONDS, Admission
from spark_arrow_ipc.dataset.stream.clean import Cleaner
from spark_arrow_ipc.dataset.stream.log import LOG, LogMode, LogOptions
from spark_arrow_ipc.dataset.stream.mode import (
    ALL_AVAILABLE,
    Limit,
    OnOverwrite,
    StreamBatch,
    StreamMode,
)
from spark_arrow_ipc.dataset.stream.overlap import check_unseen, pattern_sees, seen
from spark_arrow_ipc.dataset.stream.polls import Polls
from spark_arrow_ipc.dataset.stream.source_files import SourceFiles
from spark_arrow_ipc.dataset.stream.source_log import SourceLog
from spark_arrow_ipc.dataset.stream.table import TableMode, TableOptions
from spark_arrow_ipc.dataset.stream.table_entries import table_around
from spark_arrow_ipc.dataset.stream.tail import TailMode, TailOptions
from spark_arrow_ipc.dataset.stream.waiting_files import WaitingFiles
from spark_arrow_ipc.dataset.stream.window import WindowMode, WindowOptions
from spark_arrow_ipc.errors import OptionError, UnsupportedError, cut_repr, printable
from spark_arrow_ipc.spark.bridge import PyArrowBatch
from spark_arrow_ipc.spark.options.declare import Use
from spark_arrow_ipc.spark.options.options import READING, STREAMING, find_misapplied
from spark_arrow_ipc.spark.options.read_options import IngestPaths, ReadOptions, StreamOptions
from spark_arrow_ipc.spark.options.values import CleanSource, StartingFrom
from spark_arrow_ipc.spark.process import short_errors, show_log
from spark_arrow_ipc.spark.read.dataset_schema import file_filter
from spark_arrow_ipc.spark.read.file_check import bad_files_of
from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader, ArrowIpcInputPartition
from spark_arrow_ipc.spark.read.stream_schema import StreamSchema, log_of
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.paths import parent
from spark_arrow_ipc.storage.storage import Kind, Storage
from spark_arrow_ipc.table.names import TableDirectory

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )
except ModuleNotFoundError as error:
    # Any other missing module is a fault of the installation.
    if error.name != "pyspark.sql.streaming.datasource":
        raise
    raise UnsupportedError(
        "reading a stream needs Spark 4.2 or later: before, Spark does not tell a source where a query goes on after "
        "a restart. Read in batches with modifiedAfter, or stream from another source; writing streams works"
    ) from error

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_POLL_SECONDS = SETTLE_SECONDS  # a file that changed within these seconds is not read yet
_REMOTE_POLL_SECONDS = 10.0
_LOOKS: Final = "the stream looks for files"


def stream_mode(options: ReadOptions, stream: StreamOptions, columns: s.StructType | None = None) -> StreamMode:
    """Return the mode that follows the source; with the columns of the query, the mode checks files by them."""
    storage = options.path_storage
    if stream.tail:
        return _follow_tail(storage, options, stream)
    directory = _find_table(storage, options)
    if directory is not None:
        return _follow_table(directory, options, stream)
    _refuse(Use.DIRECTORY, options, stream, "the source is not a table, which has a log")
    if isinstance(stream.starting_from, int):
        raise OptionError(
            f"startingFrom={stream.starting_from} is the number of a log entry, and this source is a directory of files "
            "without a log; give earliest, latest or a time"
        )
    source = SourceFiles(
        storage, options.paths, options.recursive_file_lookup, file_filter(options), base_path=options.base_path
    )
    log = _open_log(storage, options, stream)
    bad_files = bad_files_of(options, stream, columns, log)
    # A policy for bad files precedes the option ignoreCorruptFiles.
    skips_broken = options.error_policy.skips_corrupt and bad_files is None
    of_tensors = options.tensors is not None
    admission = Admission(storage, skips_broken, of_tensors, bad_files)
    waiting = WaitingFiles(source, admission, stream.latest_first, stream.ingest.target)
    cleaner = _make_cleaner(storage, options, stream)
    from_latest = stream.starting_from is StartingFrom.LATEST
    if log is not None:
        followed = LogOptions(from_latest, _start_ns(stream), stream.file_name_only)
        return LogMode(waiting, log, followed, cleaner)
    window = WindowOptions(stream.late_seconds, from_latest, _start_ns(stream), stream.file_name_only)
    return WindowMode(waiting, window, cleaner)


def _open_log(storage: Storage, options: ReadOptions, stream: StreamOptions) -> SourceLog | None:
    """Return the log of a stream of a directory; None if the stream has no log."""
    path = log_of(options, stream)
    if path is None:
        return None
    log_storage, directory = path
    log_storage.check_takes_changes(directory)
    # Paths of different storages cannot be in each other.
    if type(log_storage) is type(storage):
        check_outside_source(storage, options, directory, "sourceLog" if stream.source_log else "the checkpoint")
    resolved = tuple(map(storage.resolve, options.paths))
    return SourceLog(log_storage, directory, resolved, name_only=stream.file_name_only)


def _refuse(use: Use, options: ReadOptions, stream: StreamOptions, why: str) -> None:
    """Refuse options that have no effect on a source."""
    for option in (*find_misapplied(stream, STREAMING, use), *find_misapplied(options, READING, use)):
        raise OptionError(f"the option {option.name} has no meaning here: {why}; remove it")


def _start_ns(stream: StreamOptions) -> int | None:
    """Return the time from which a new query reads, in nanoseconds since 1970, or None."""
    start = stream.starting_from
    # By integers, as a float of seconds is not exact.
    return (start - _EPOCH) // _MICROSECOND * 1_000 if isinstance(start, datetime) else None


def _find_table(storage: Storage, options: ReadOptions) -> TableDirectory | None:
    """Return the table that is the source; None if the source is files; raise if these are in a table."""
    for root in plain_paths(storage, options):
        table = table_around(storage, root)
        if table == root and [root] == list(map(storage.resolve, options.paths)):
            return TableDirectory(storage, root)
        if table is not None:
            raise OptionError(
                "this is a table, and a stream reads a complete table by its log: give its path as the only one, and the option "
                "where for some of its partitions",
                path=table,
            )
    return None


def _follow_table(directory: TableDirectory, options: ReadOptions, stream: StreamOptions) -> TableMode:
    _refuse(Use.TABLE, options, stream, "the source is a table, which is read by its log, commit by commit")
    start = stream.starting_from
    chosen = TableOptions(
        start if isinstance(start, int) else None,
        start is StartingFrom.LATEST,
        _start_ns(stream),
        stream.on_overwrite or OnOverwrite.FAIL,
        stream.read_change_feed,
        stream.fail_on_data_loss,
        file_filter(options),
        None if options.base_path is None else directory.storage.resolve(options.base_path),
    )
    return TableMode(directory, chosen)


def _follow_tail(storage: Storage, options: ReadOptions, stream: StreamOptions) -> TailMode:
    if storage is not LOCAL:
        raise OptionError(
            "tail=true follows a file that grows, and only files of local and mounted file systems do; here read the "
            "directory of complete files as a stream",
            path=options.paths[0],
        )
    if len(options.paths) != 1 or is_pattern(options.paths[0]):
        raise OptionError("tail=true follows one file; give its path alone, and a query for each of several files")
    path = storage.resolve(options.paths[0])
    status = storage.status(path)
    if status is None or status.kind is not Kind.FILE:
        actual = "there is nothing" if status is None else "this is a directory or a device"
        raise OptionError(
            f"tail=true follows one file that exists, and {actual}; give the path of the stream", path=path
        )
    _refuse(Use.TAIL, options, stream, "tail=true follows one growing stream")
    if not isinstance(stream.starting_from, StartingFrom):
        raise OptionError(
            "startingFrom is earliest or latest where tail=true follows a file; record batches have no number and no time there"
        )
    chosen = TailOptions(stream.starting_from is StartingFrom.LATEST, options.max_partition_bytes, options.limits)
    return TailMode(storage, path, chosen)


def poll_seconds(options: ReadOptions, stream: StreamOptions) -> float:
    """Return the least number of seconds between two listings of a query that waits."""
    if stream.poll_interval is not None:
        return stream.poll_interval
    return _REMOTE_POLL_SECONDS if options.path_storage.traits.waits else _POLL_SECONDS


def _make_cleaner(storage: Storage, options: ReadOptions, stream: StreamOptions) -> Cleaner | None:
    if stream.clean_source is CleanSource.OFF:
        return None
    return Cleaner(storage, tuple(plain_paths(storage, options)))


def check_outside_source(storage: Storage, options: ReadOptions, directory: str, option: str) -> None:
    """Refuse a directory for the stream's own files that overlaps with the directories of the source."""
    for path in map(storage.resolve, options.paths):
        root = _above_pattern(path)
        if root == path:
            check_unseen(storage, [root], directory, option, _LOOKS)
        elif pattern_sees(storage, path, root, directory):
            raise seen(path, directory, option, _LOOKS)


def plain_paths(storage: Storage, options: ReadOptions) -> list[str]:
    """Return the directories that a stream lists, or the directories above its patterns."""
    return [_above_pattern(storage.resolve(path)) for path in options.paths]


def _above_pattern(path: str) -> str:
    """Return a path, or for a pattern the directory above its first special character."""
    while is_pattern(path):
        path = parent(path)
    return path


_LOG: Final = logging.getLogger(__name__)

_UNKNOWN: Final = "unknown"

_ADVICE: Final = (
    "a batch of a stream reads the files that it was made of: put the file back as it was, or begin with a new checkpoint; "
    "ignoreMissingFiles=true skips files that are gone. Give a new file a new name, and move it in when it is complete"
)


class ArrowIpcStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    """Reads new files below the paths of a stream, batch by batch, in the schema that Spark expects."""

    def __init__(self, schema: s.StructType, options: ReadOptions, stream: StreamOptions) -> None:
        self._options = options
        self._stream = stream
        self._schema = schema
        self._columns: StreamSchema | None = None
        self._rows = ArrowIpcBatchReader(schema, options, advice=_ADVICE)
        self._started_polls: Polls | None = None
        self._last: dict[str, str | int] = {"position": _UNKNOWN, "files": 0, "bytes": 0}
        self._next: tuple[Mapping[str, Any], Mapping[str, Any], StreamBatch] | None = None
        """The offsets and the batch of `latestOffset`, for `partitions`: a mode may read each file to create a batch."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for tasks, without the mode."""
        # It belongs to the process of the driver, and a task only reads.
        return self.__dict__ | {"_started_polls": None, "_next": None, "_columns": None}

    @property
    def _polls(self) -> Polls:
        if self._started_polls is None:
            show_log()  # here, as only this process lives as long as the query
            mode = stream_mode(self._options, self._stream, self._rows.data_columns)
            self._started_polls = Polls(mode, poll_seconds(self._options, self._stream))
        return self._started_polls

    @property
    def _mode(self) -> StreamMode:
        return self._polls.mode

    @short_errors
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Ignore files that appear from now on."""
        self._polls.only_available_now()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit by the option maxFilesPerTrigger."""
        # Spark passes only one limit on, and `_limit` adds maxBytesPerTrigger.
        return ReadMaxFiles(self._stream.max_files_per_trigger)

    @short_errors
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset before the first batch."""
        return dict(self._mode.initial())

    @short_errors
    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset after the next batch; without new files sleep at most half a second and return `start`."""
        end = self._polls.latest(start, self._limit(limit))
        if end != start:
            batch = self._mode.batch(start, end)
            self._next = start, end, batch
            files = len(batch.files) + len(batch.ranges)
            self._last = {"position": self._mode.words(end), "files": files, "bytes": batch.nbytes}
            self._store_columns(batch)
        # After a restart without new files the progress has a position, too.
        elif self._last["position"] == _UNKNOWN:
            self._last["position"] = self._mode.words(start)
        return dict(end)

    def _store_columns(self, batch: StreamBatch) -> None:
        """Write the columns of the stream once in this process, and warn of new columns in later files."""
        if self._columns is None:
            # Other modes do not own the directory of a log.
            log = (
                self._stream if self._mode.name == LOG else replace(self._stream, source_log=None, ingest=IngestPaths())
            )
            self._columns = StreamSchema(self._options, log)
            try:
                self._columns.store(self._schema, batch.files)
            except OSError as error:
                # The query can go on; only a restart may infer other columns.
                _LOG.warning("noting the columns of the stream failed: %s", printable(str(error)))
        self._columns.warn_of_new(self._schema, batch.files)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the position and the waiting files in words, for ``latestOffset`` of the progress."""
        source = {"path": cut_repr(", ".join(self._options.paths)).strip("'\""), "mode": self._mode.name}
        return source | self._last | self._polls.backlog.to_json(time.time_ns())

    @short_errors
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[ArrowIpcInputPartition]:
        """Plan the input partitions of a batch, without a listing."""
        planned, self._next = self._next, None
        batch = planned[2] if planned is not None and planned[:2] == (start, end) else self._mode.batch(start, end)
        if not batch.files and not batch.ranges:
            return []
        waiting = self._polls.backlog
        _LOG.info(
            "a batch of %d files, %d bytes, in the mode %s; %d files, %d bytes wait",
            len(batch.files) + len(batch.ranges), batch.nbytes, self._mode.name, waiting.files, waiting.nbytes,
        )  # fmt: skip
        return self._plan(batch)

    def _plan(self, batch: StreamBatch) -> list[ArrowIpcInputPartition]:
        """Plan the tasks of a batch that has files."""
        if batch.ranges:
            return self._rows.partitions_of_ranges(batch.ranges)
        return self._rows.partitions_of(batch.files, batch.roots, batch.changes)

    def read(self, partition: InputPartition | None) -> Generator[PyArrowBatch, None, None]:
        """Yield the batches of one input partition."""
        return self._rows.read(partition)

    @short_errors
    def commit(self, end: Mapping[str, Any]) -> None:
        """Clean up after a batch that the sink has committed."""
        try:
            self._mode.committed(end)
        except OSError as error:
            # The batch is complete, and a failed clean-up must not end the query.
            _LOG.warning("tidying up after a batch failed: %s", printable(str(error)))

    def stop(self) -> None:
        """Do nothing: Spark does not call this at the end of most queries."""

    def _limit(self, limit: ReadLimit) -> Limit:
        by_options = Limit(self._stream.max_files_per_trigger, self._stream.max_bytes_per_trigger)
        # Spark's limit precedes the options: a trigger may request all files at once.
        if isinstance(limit, ReadAllAvailable):
            return ALL_AVAILABLE
        if isinstance(limit, ReadMaxFiles):
            return Limit(limit.max_files, by_options.max_bytes)
        return Limit(by_options.max_files, limit.max_bytes) if isinstance(limit, ReadMaxBytes) else by_options
