"""`ingest`: a streaming query whose tasks read, change and write files in one worker, so that no row reaches the JVM.

How it works
------------
The query is an ordinary one of Spark (docs/adr/0041-ingest.md). Its source plans batches like the streaming source, and
gives each task a writer of the batch like the streaming sink (`ArrowIpcStreamWriter`). A task yields one row, the report of
its staged files. Spark's ``foreachBatch`` hands the reports of one attempt of each task to the driver's process, which
commits them as the sink does, once for each query and batch.
"""

from __future__ import annotations

import logging
import os
import pickle
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Unpack

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as s
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition, WriterCommitMessage
from pyspark.sql.streaming import StreamingQuery

from spark_arrow_ipc.dataset.stream.mode import StreamBatch
from spark_arrow_ipc.dataset.stream.overlap import check_unseen
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.staged_file import max_file_nbytes
from spark_arrow_ipc.errors import ArrowIpcError, OptionError, printable
from spark_arrow_ipc.spark.datasource import RefusedStreamReader, check_paths, stream_options, stream_schema
from spark_arrow_ipc.spark.functions.user_function import BatchFunction, ship
from spark_arrow_ipc.spark.options.keywords import IngestKeywords
from spark_arrow_ipc.spark.options.options import check_streamed, parse_read, parse_write
from spark_arrow_ipc.spark.options.read_options import IngestPaths, ReadOptions, StreamOptions
from spark_arrow_ipc.spark.options.typed import Paths, strings_of_read, strings_without_paths
from spark_arrow_ipc.spark.options.write_options import SparkWriteOptions
from spark_arrow_ipc.spark.process import short_errors, tune_worker
from spark_arrow_ipc.spark.read.exact import without_rounding
from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader, ArrowIpcInputPartition
from spark_arrow_ipc.spark.read.stream_reader import (
    ArrowIpcStreamReader,
    check_outside_source,
    plain_paths,
    stream_mode,
)
from spark_arrow_ipc.spark.rewrite.job import ChangedRows, Counted, context_of
from spark_arrow_ipc.spark.rewrite.rewrite import byte_argument, order_plan, split_options, zone_of
from spark_arrow_ipc.spark.write.plan import WritePlan, plan_write
from spark_arrow_ipc.spark.write.writer import ArrowIpcStreamWriter
from spark_arrow_ipc.storage.base import StorageOptions
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import is_remote, join
from spark_arrow_ipc.storage.storage import Storage
from spark_arrow_ipc.table.names import TableDirectory

_LOGGER: Final = logging.getLogger(__name__)

_SOURCE: Final = "arrowipc_ingest"

_SPEC: Final = "secretSpec"
"""The option with the `IngestSpec`, which may have credentials: Spark hides the values of options with such a name."""

_LOG: Final = ("sources", "0", "arrowipc")
"""The directory of the source log in a checkpoint, in the part that Spark reserves for the first source of a query."""

_METRICS: Final = "ingest"

_OF_JAVA: Final = "py4j.protocol.Py4JJavaError: An error occurred while calling"

_REPORTS: Final = s.StructType(
    [s.StructField(name, s.LongType()) for name in ("rowsRead", "rowsWritten", "files", "bytes")]
    + [s.StructField("report", s.BinaryType())]
)

_LEAST_SHARE: Final = 8
"""A task reads at least this fraction of `file_bytes`, because more tasks would write many small files."""

_MOST_JOINED: Final = 512
"""Most small files that one task reads."""


def ingest(
    spark: SparkSession,
    source: Paths,
    target: str | os.PathLike[str],
    function: BatchFunction | None = None,
    schema: s.StructType | str | None = None,
    *,
    checkpoint: str | os.PathLike[str],
    trigger: Mapping[str, Any] | None = None,
    query_name: str | None = None,
    source_schema: s.StructType | str | None = None,
    file_bytes: int | str = "128m",
    sort_by: str | Sequence[str] = (),
    sort_bytes: int | str = "256m",
    **options: Unpack[IngestKeywords],
) -> StreamingQuery:
    """Start a streaming query that writes new rows of a source into a table, without a row that reaches the JVM.

    Rows, files and guarantees equal ``readStream.load(source)`` and ``writeStream.start(target)`` with the same options: each
    batch is committed once, whenever the driver fails. The figures of a batch are in the query's progress,
    ``query.lastProgress["observedMetrics"]["ingest"]``: ``rowsRead`` (after ``where``), ``rowsWritten``, ``files`` and
    ``bytes``; the input rows of Spark are the reports of tasks.

    Parameters
    ----------
    spark
        A classic session of Spark 4.2 or later: the driver's process commits.
    source
        The source, as for ``readStream.load``: directories to which files are added, a table with a log, or with
        ``tail=True`` a growing file.
    target
        The directory of the table.
    function
        Gets an iterator of `pyarrow.RecordBatch` in the schema of the source, and returns or yields such batches, as for
        `map_in_arrow`; called once for each task of a batch.
    schema
        The schema of the function's result, a `StructType` or a string such as ``"id bigint"``; by default the input's.
    checkpoint
        The directory of Spark's checkpoint, only for this query, which goes on from it after a restart. It also has the log
        of files that were read, unless ``sourceLog`` or ``lateWindow`` is given.
    trigger
        Keyword arguments of ``DataStreamWriter.trigger``: ``{"availableNow": True}`` reads all present files and ends,
        ``{"processingTime": "1 minute"}`` waits between batches. By default a batch starts as soon as the source has new
        rows.
    query_name
        The name of the query, in Spark's UI and its progress.
    source_schema
        The columns to read, as for ``readStream.schema``; by default the columns of the newest log entry, or of the newest
        file at the first start, which are stored in the source's log (``schema.json``).
    file_bytes
        The most bytes that one task reads, and about the size of its files. Small files of a batch are joined up to this
        size; a batch of less than an eighth is one task.
    sort_by, sort_bytes
        As for `rewrite`, for the rows of each new file.
    **options
        Options of reading and of writing a stream: ``where="year = 2024"``, ``partitionBy=["day"]``,
        ``maxFilesPerTrigger=100``, ``cleanSource="delete"``. ``nanoseconds`` is ``error`` by default.

    Returns
    -------
    StreamingQuery
        The query, which runs in the background: ``awaitTermination()``, ``stop()``, ``lastProgress``.

    Raises
    ------
    OptionError, NoFilesError, ArrowIpcError
        An option is wrong, or the columns cannot be read or written, before the query starts.
    FunctionError
        The function cannot be sent to the workers.
    UnsupportedError
        The session is one of Spark Connect.
    """
    check_paths([os.fspath(target), os.fspath(checkpoint)])
    checkpoint_path = _resolve_checkpoint(spark, os.fspath(checkpoint))
    notes = [checkpoint_path, *(str(value) for name, value in options.items() if name.lower() == "sourcelog")]
    of_read, of_write = split_options(options, source, target, notes=notes)
    reading, following = stream_options(strings_of_read(source, of_read))
    names = {name.lower() for name in of_read}
    nbytes = byte_argument("file_bytes", file_bytes)
    if "maxpartitionbytes" not in names:
        reading = replace(reading, max_partition_bytes=nbytes)
    reading = without_rounding(reading, names)
    log_storage = _storage_options(options)
    paths = IngestPaths(_log_in_checkpoint(checkpoint_path, log_storage), log_storage)
    following = replace(following, ingest=paths)
    stream_mode(reading, following)  # raises for other errors in the options
    writing = parse_write({**of_write, "path": os.fspath(target)})
    check_streamed(writing)
    if function is None and schema is not None:
        raise OptionError(
            "a schema is that of a function's result; without a function the columns are those of source_schema"
        )
    read_schema = stream_schema(reading, following) if source_schema is None else _parse_schema(source_schema)
    output = read_schema if schema is None else _parse_schema(schema)
    plan = order_plan(plan_write(output, writing), sort_by, sort_bytes)
    storage, root = storage_of(os.fspath(target), writing.storage)
    max_file_nbytes(storage.traits, writing.max_file_bytes)
    _check_apart(storage, root, reading, following, checkpoint_path)
    # The source must not read the files of the target.
    if type(storage) is type(reading.path_storage):
        following = replace(following, ingest=replace(paths, target=root))
    dataset = TableDirectory(storage, root)
    changed = ChangedRows(zone_of(spark), output, None if function is None else ship(function), reading.nanoseconds)
    spec = IngestSpec(reading, following, read_schema, changed, dataset, plan, writing)
    spark.dataSource.register(ArrowIpcIngestSource)
    reports = spark.readStream.format(_SOURCE).option(_SPEC, spec.to_text()).load()
    sums = [f.sum(name).alias(name) for name in _REPORTS.names[:-1]]
    writer = reports.observe(_METRICS, *sums).writeStream.foreachBatch(_make_commit(spec))
    writer = writer.option("checkpointLocation", os.fspath(checkpoint))
    if trigger is not None:
        writer = writer.trigger(**trigger)
    if query_name is not None:
        writer = writer.queryName(query_name)
    return writer.start()


def _parse_schema(schema: s.StructType | str) -> s.StructType:
    return s.StructType.fromDDL(schema) if isinstance(schema, str) else schema


def _resolve_checkpoint(spark: SparkSession, checkpoint: str) -> str:
    """Return the URL of a checkpoint in Spark's Hadoop, for which a path without a scheme may be in HDFS."""
    context = context_of(spark)
    jvm: Any = context._jvm  # noqa: SLF001 - the only way to Spark's Hadoop
    try:
        path = jvm.org.apache.hadoop.fs.Path(checkpoint)
        system = path.getFileSystem(context._jsc.hadoopConfiguration())  # noqa: SLF001 - as above
        return str(system.makeQualified(path).toString())
    except Exception as error:  # noqa: BLE001 - an error of py4j, or one that PySpark translated from Java
        java = getattr(error, "java_exception", None)
        words = error if java is None else java.getMessage()
        raise OptionError(
            f"Spark, which writes the checkpoint, does not reach it ({printable(str(words))}); give a directory that its "
            "Hadoop reaches"
        ) from None


def _storage_options(user_options: Mapping[str, Any]) -> StorageOptions:
    """Return the options ``storage.*``, for the remote paths among source, target, checkpoint and log."""
    strings = strings_without_paths(user_options)
    return parse_read({name: text for name, text in strings.items() if name.lower().startswith("storage.")}).storage


def _log_in_checkpoint(checkpoint_path: str, options: StorageOptions) -> str | None:
    """Return the directory of the source log in a checkpoint; None with a warning if only Spark can write to it."""
    log = join(checkpoint_path, *_LOG)
    try:
        storage_of(log, options if is_remote(log) else ())[0].check_takes_changes(log)
    except (ArrowIpcError, ImportError) as error:
        _LOGGER.warning(
            "the log of the files that are read cannot lie in the checkpoint %s (%s): a file that comes more than "
            "lateWindow late is not read; give sourceLog, a directory of this query alone",
            printable(checkpoint_path), printable(str(error)),
        )  # fmt: skip
        return None
    return log


def _check_apart(
    storage: Storage, target: str, reading: ReadOptions, following: StreamOptions, checkpoint_path: str
) -> None:
    """Refuse a target in the source, and a source, checkpoint or log in the target."""
    source = reading.path_storage
    if type(storage) is type(source):
        check_outside_source(storage, reading, target, "the target")
    inside = [("the source", source, path) for path in plain_paths(source, reading)]
    for name, path in (("the checkpoint", checkpoint_path), ("sourceLog", following.source_log)):
        if path is not None:
            with suppress(ArrowIpcError, ImportError):  # only Spark reaches it, and a warning said so
                inside.append((name, *storage_of(path, following.ingest.log_storage if is_remote(path) else ())))
    for name, other, path in inside:
        if type(storage) is type(other):
            check_unseen(storage, [target], path, name, "readers of the target look for files")


@dataclass(frozen=True)
class IngestSpec:
    """The definition of a query, for the processes in which Spark plans and runs it."""

    # The options of reading the stream.
    reading: ReadOptions
    following: StreamOptions
    read_schema: s.StructType  # columns of the source
    changed: ChangedRows  # how tasks change the rows
    dataset: TableDirectory  # the target
    # The columns and files that tasks write, and the options of the plan.
    plan: WritePlan
    writing: SparkWriteOptions

    def to_text(self) -> str:
        """Return the definition as the value of an option."""
        return b64encode(pickle.dumps(self)).decode()

    @classmethod
    def from_text(cls, text: str) -> IngestSpec:
        """Return the definition from a text, in another process of the same application."""
        spec = pickle.loads(b64decode(text))  # noqa: S301 - from the driver of this application, like all pickles of Spark
        assert isinstance(spec, cls)
        return spec

    def writer(self) -> ArrowIpcStreamWriter:
        """Return the writer of a new attempt of a batch, or of the commit of a batch."""
        return ArrowIpcStreamWriter(self.dataset, self.plan, self.writing, WriteMode.APPEND)


def _make_commit(spec: IngestSpec) -> Callable[[DataFrame, int], None]:
    """Return the function that commits a batch in the driver's process by the reports of its tasks."""

    def commit(reports: DataFrame, number: int) -> None:
        # Spark passes the row of one attempt of each task. The pickles are from tasks of this application.
        messages: list[WriterCommitMessage | None] = []
        writer = spec.writer()
        try:
            messages += [pickle.loads(row.report) for row in reports.select("report").collect()]  # noqa: S301
            writer.commit(messages, number)
        except BaseException as error:  # also an interrupt
            writer.abort(messages, number)
            if isinstance(error, (ArrowIpcError, PySparkException)):
                raise error.with_traceback(None) from None  # Spark would show the traceback
            java = getattr(error, "java_exception", None)
            if java is not None:
                # Spark recognises a stopped query by these words, and its search overflows in a complete Java stack.
                raise RuntimeError(f"{_OF_JAVA} collect: {java.toString()}") from None
            raise

    return commit


class ArrowIpcIngestSource(DataSource):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    """The source of an ingest, whose rows are the reports of tasks."""

    @classmethod
    def name(cls) -> str:
        """Return the name under which `ingest` registers it."""
        return _SOURCE

    def schema(self) -> s.StructType:
        """Return the columns of a report."""
        return _REPORTS

    def streamReader(self, schema: s.StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's signature
        """Return the reader of the query that the option defines."""
        try:
            return ArrowIpcIngestReader(IngestSpec.from_text(self.options[_SPEC]))
        except Exception as error:  # noqa: BLE001 - Spark would show any error as an UnboundLocalError
            return RefusedStreamReader(error)


@dataclass(frozen=True)
class IngestPartition(InputPartition):  # type: ignore[misc]  # as above
    """The files that one task reads, its writer, and if the batch certainly runs for the first time."""

    read: ArrowIpcInputPartition
    writer: ArrowIpcStreamWriter
    is_new: bool


class ArrowIpcIngestReader(ArrowIpcStreamReader):
    """Plans the batches of an ingest, whose tasks stage files and yield their reports."""

    def __init__(self, spec: IngestSpec) -> None:
        super().__init__(spec.read_schema, spec.reading, spec.following)
        self._spec = spec

    @short_errors
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Plan the tasks of a batch."""
        writer = self._spec.writer()  # one for all tasks, which are one attempt
        # A batch that this process has just found cannot have been committed.
        is_new = self._next is not None and self._next[:2] == (start, end)
        return [IngestPartition(each, writer, is_new) for each in super().partitions(start, end)]

    def _plan(self, batch: StreamBatch) -> list[ArrowIpcInputPartition]:
        if batch.ranges:
            return super()._plan(batch)
        options = replace(self._spec.reading, most_files_a_task=_MOST_JOINED)
        nbytes = options.max_partition_bytes
        if options.min_partition_num is None:
            n_tasks = min(os.cpu_count() or 1, batch.nbytes // max(1, nbytes // _LEAST_SHARE))
            options = replace(options, min_partition_num=max(1, n_tasks))
        rows = ArrowIpcBatchReader(self._spec.read_schema, options)
        return rows.partitions_of(batch.files, batch.roots, batch.changes)

    def read(self, partition: InputPartition | None) -> Generator[Any, None, None]:
        """Stage the rows of one task, and yield one row with its report."""
        if not isinstance(partition, IngestPartition):  # Spark converts an empty list of partitions to one that is None
            return
        tune_worker()
        counted = Counted()
        with (
            short_errors,
            closing(super().read(partition.read)) as batches,
            closing(self._spec.changed.of(batches, counted)) as rows,
        ):
            message = replace(partition.writer.write(rows), is_new=partition.is_new)
        files = message.output.files
        figures = counted.rows, sum(file.rows for file in files), len(files), sum(file.nbytes for file in files)
        yield (*figures, pickle.dumps(message))
