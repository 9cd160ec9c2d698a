"""`ArrowIpcDataSource`: the class that Spark instantiates for ``arrowipc``.

Spark creates the source, its reader and its writer in several Python processes and moves them by pickle, so each holds
only plain frozen values. Other modules parse options, list files and map schemas; this one connects them. Readers have
neither ``pushFilters`` nor ``pushLimit``: Spark's push-down for Python sources leaks the filters of one query into the
next, and while it is turned off a reader with these methods fails.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NoReturn

from pyspark import __version__ as spark_version
from pyspark.sql import types as s
from pyspark.sql.datasource import DataSource, DataSourceStreamReader

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.errors import OptionError, cut_repr
from spark_arrow_ipc.spark.options.options import (
    READING,
    STREAM_READING,
    WRITING,
    Side,
    is_for_streams,
    options_of,
    parse_read,
    parse_stream,
    parse_write,
)
from spark_arrow_ipc.spark.options.read_options import ReadOptions, StreamOptions
from spark_arrow_ipc.spark.process import is_session_directory, short_errors, tune_worker
from spark_arrow_ipc.storage.paths import is_relative

if TYPE_CHECKING:
    from spark_arrow_ipc.dataset.write.job_plan import ReadState
    from spark_arrow_ipc.spark.bridge import PyArrowSchema
    from spark_arrow_ipc.spark.read.metadata_only import ArrowIpcBlockReader
    from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader
    from spark_arrow_ipc.spark.read.stream_reader import ArrowIpcStreamReader
    from spark_arrow_ipc.spark.sail import SailReader
    from spark_arrow_ipc.spark.write.writer import ArrowIpcBatchWriter, ArrowIpcStreamWriter

if find_spec("pyarrow") is None:
    # Raised when Spark plans, and not in a task. An import would take 0.1 s, and inferring a schema does without it.
    raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")

_NO_TABLE = (
    "A table of Spark's catalog (CREATE TABLE ... USING arrowipc, saveAsTable) reaches this source without its path "
    "and options, because Spark does not pass them on to a Python data source; "
    "call spark_arrow_ipc.register(spark) first, or use CREATE TEMPORARY VIEW v USING arrowipc OPTIONS (path '...') instead"
)
_NO_PATH = f"there is no path: give one to load(path) or save(path). {_NO_TABLE}"

_NO_STREAM_SOURCE = "there is no path: give one to load(path). A table of Spark's catalog reaches this source without its path and options"
_SHOWN = 200
"""Characters of a path in an error."""

_NO_STREAM_PATH = "there is no path: give one to start(path) or option('path', ...)"

VERSION: Final[str] = sys.modules[__name__.partition(".")[0]].__version__
"""That of this package, which imports this module, so that an import would be a circle."""

_RELEASE_KEY = "arrowipc.release"
"""The jar's source of the JVM adds this option."""

_TABLE_KEY = "arrowipc.table"
"""It also adds this option for a table of a catalog, which may have no rows yet, and has options for reads and for writes."""

_TABLE_KEYS = frozenset({"provider", "owner"})
"""Spark passes these options only to infer the schema of a table that is being created."""

_PARTITION = "arrowipc.overwrittenpartition"
"""An option that the source of the JVM passes: the partition that INSERT OVERWRITE names, as pairs of column and value."""


class ArrowIpcDataSource(DataSource):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    """Arrow IPC files and streams as a source and sink of batches and streams."""

    _is_table = False
    is_inferred = False
    """True after Spark has called `schema`."""

    @short_errors
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._is_of_jar = pop_release(options)
        if self._is_of_jar:
            self._is_table = options.pop(_TABLE_KEY, None) is not None

    def options_of(self, *sides: Side) -> Mapping[str, str]:
        """Return the options of reads or of writes; those of a table are for both."""
        return options_of(self.options, *sides) if self._is_table else self.options

    @classmethod
    def name(cls) -> str:
        """Return the short name for ``format(...)``."""
        return "arrowipc"

    @short_errors
    def schema(self) -> s.StructType:
        """Infer the Spark schema of the newest log entry or file, or of all with ``mergeSchema``; all columns are nullable.

        Raises
        ------
        OptionError, NoFilesError, ArrowIpcError
            An option is wrong, no file can be read, or the newest file is broken.
        """
        # Spark infers the schema of a stream by the same call.
        is_stream = is_for_streams(self.options)
        if is_stream:
            inferred = stream_schema(*stream_options(self.options_of(STREAM_READING)))
        else:
            inferred = schema_of(
                replace(read_options(self.options_of(READING)), marks_partition_columns=self._is_of_jar)
            )
        tune_worker()
        # Spark pickles the source after this call, and creates the reader from the pickle.
        self.is_inferred = True
        return inferred

    def streamReader(self, schema: s.StructType | PyArrowSchema) -> ArrowIpcStreamReader | RefusedStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a streaming query, which raises the errors of this method, as Spark shows none from here."""
        try:
            from spark_arrow_ipc.spark.read.stream_reader import ArrowIpcStreamReader  # only streams need it

            options, stream = stream_options(self.options_of(STREAM_READING))
            return ArrowIpcStreamReader(_to_spark_schema(schema), options, stream)
        except Exception as error:  # noqa: BLE001 - Spark would show any error as an UnboundLocalError
            return RefusedStreamReader(error)

    @short_errors
    def reader(self, schema: s.StructType | PyArrowSchema) -> ArrowIpcBatchReader | ArrowIpcBlockReader | SailReader:
        """Return the reader for a schema, inferred or given by ``.schema(...)``."""
        options = replace(read_options(self.options_of(READING)), may_be_empty=self._is_table)
        reader: ArrowIpcBatchReader | ArrowIpcBlockReader = reader_of(options)(_to_spark_schema(schema), options)
        reader.is_inferred = self.is_inferred
        if isinstance(schema, s.StructType):
            return reader
        from spark_arrow_ipc.spark.sail import SailReader

        return SailReader(reader, schema)

    @short_errors
    def writer(self, schema: s.StructType | PyArrowSchema, overwrite: bool) -> ArrowIpcBatchWriter:
        """Return the writer of a new job."""
        return self.plan_writer(schema, overwrite, None)

    def plan_writer(
        self, schema: s.StructType | PyArrowSchema, overwrite: bool, read: ReadState | None
    ) -> ArrowIpcBatchWriter:
        """Return the writer of a job that relies on a read of the table, if there is one."""
        from spark_arrow_ipc.spark.write.writer import ArrowIpcBatchWriter  # reads are planned sooner without it

        mapping = dict(self.options_of(WRITING))
        partition = _directory_of(mapping.pop(_PARTITION, None)) if self._is_of_jar and overwrite else ""
        options = parse_write(mapping)
        if options.path is None:
            raise OptionError(_NO_PATH)
        check_paths([options.path])
        writer = ArrowIpcBatchWriter.plan(
            _to_spark_schema(schema), options.path, options, overwrite=overwrite, read=read, partition=partition
        )
        tune_worker()
        return writer

    @short_errors
    def streamWriter(self, schema: s.StructType | PyArrowSchema, overwrite: bool) -> ArrowIpcStreamWriter:  # noqa: N802 - Spark's name
        """Return the writer of a batch of a streaming query, or the writer that commits it."""
        from spark_arrow_ipc.spark.write.writer import ArrowIpcStreamWriter

        options = parse_write(self.options_of(WRITING))
        if options.path is None:
            raise OptionError(_NO_STREAM_PATH)
        check_paths([options.path])
        writer = ArrowIpcStreamWriter.plan(_to_spark_schema(schema), options.path, options, overwrite=overwrite)
        tune_worker()
        return writer


def _directory_of(pairs: str | None) -> str:
    """Return the relative directory of a partition."""
    if pairs is None:
        return ""
    from spark_arrow_ipc.dataset.listing.partition_values import partition_directory

    names, values = zip(*parse_json(pairs), strict=True)
    return partition_directory(names, values)


def release_of(spark_version: str) -> str:
    """Return the versions that the jar of this package and the package must share: its own, and Spark's without the patch."""
    return f"{VERSION} for Spark {'.'.join(spark_version.split('.')[:2])}"


def pop_release(options: MutableMapping[str, str]) -> bool:
    """Remove the jar's release from the options, refuse any other than this package's, and return whether a jar asks."""
    of_jar, of_package = options.pop(_RELEASE_KEY, None), release_of(spark_version)
    if of_jar is not None and of_jar != of_package:
        raise OptionError(
            f"the jar of spark-arrow-ipc in this session is {cut_repr(of_jar, _SHOWN)}, and the Python package that Spark plans "
            f"with is '{of_package}': write the jar anew with this package's 'arrowipc jar', and name it in spark.jars"
        )
    return of_jar is not None


class RefusedStreamReader(DataSourceStreamReader):  # type: ignore[misc]  # as above
    """Raises an error of `ArrowIpcDataSource.streamReader` in the method that Spark calls first."""

    # Spark's runner stops the reader in a ``finally``, also if `streamReader` raised and the variable of the reader is
    # unbound: users would see the UnboundLocalError of that line.

    def __init__(self, error: Exception) -> None:
        self._error = error

    @short_errors
    def _refuse(self, *_: object) -> NoReturn:
        raise self._error

    # Spark 4.2 calls getDefaultReadLimit first, Spark 4.1 initialOffset, and both call partitions after a restart.
    getDefaultReadLimit = initialOffset = latestOffset = reportLatestOffset = _refuse  # noqa: N815 - Spark's names
    partitions = commit = read = _refuse


def _to_spark_schema(schema: s.StructType | PyArrowSchema) -> s.StructType:
    """Return a schema from Spark, or convert one from Sail."""
    if isinstance(schema, s.StructType):
        return schema
    from spark_arrow_ipc.spark.sail import spark_schema_of  # needed by Sail only

    return spark_schema_of(schema)


def reader_of(options: ReadOptions) -> type[ArrowIpcBatchReader | ArrowIpcBlockReader]:
    """Return the class that reads files, their headers, or tables of servers."""
    # Imported late: a query starts sooner without the other readers.
    if options.metadata_only:
        from spark_arrow_ipc.spark.read.metadata_only import ArrowIpcBlockReader

        return ArrowIpcBlockReader
    if not options.reads_servers:
        from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader

        return ArrowIpcBatchReader
    from spark_arrow_ipc.spark.read.remote import ArrowIpcRemoteReader

    return ArrowIpcRemoteReader


def schema_of(options: ReadOptions) -> s.StructType:
    """Infer the Spark schema of a read."""
    # Not by the readers, which import pyarrow: the first query of a session shows its columns sooner.
    if options.metadata_only:
        from spark_arrow_ipc.spark.read.metadata_only import BLOCK_SCHEMA

        return BLOCK_SCHEMA
    if options.reads_servers:
        from spark_arrow_ipc.spark.read.remote import ArrowIpcRemoteReader

        return ArrowIpcRemoteReader.spark_schema(options)
    from spark_arrow_ipc.spark.read.dataset_schema import read_spark_schema

    return read_spark_schema(options)


def stream_schema(options: ReadOptions, stream: StreamOptions) -> s.StructType:
    """Return the columns that the log of a stream has, or infer them."""
    if stream.read_change_feed:
        return _schema_of_changes(options)
    annotation = None
    if stream.source_log is not None or stream.ingest.log is not None:
        from spark_arrow_ipc.spark.read.stream_schema import StreamSchema  # only streams with a log need it

        annotation = StreamSchema(options, stream).read()
    # A stream waits for a file that is incomplete or not an Arrow file, so such a file does not decide the columns.
    return annotation or schema_of(options if stream.tail else replace(options, ignore_corrupt_files=True))


def _schema_of_changes(options: ReadOptions) -> s.StructType:
    from spark_arrow_ipc.spark.read.columns import with_change_columns

    schema = with_change_columns(schema_of(replace(options, where=None)))
    if options.where is not None:  # it may name the columns of changes, so they are added before it is checked
        from spark_arrow_ipc.spark.read.where import RowSelection

        RowSelection.of(schema, options, lambda missing: schema_of(replace(missing, where=None)))
    return schema


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Parse the options of a read, which must name a path and must not come from a catalog table."""
    if _TABLE_KEYS.issubset(key.lower() for key in options):
        raise OptionError(_NO_TABLE)
    parsed = parse_read(options)
    _check_read(parsed)
    return parsed


def stream_options(options: Mapping[str, str]) -> tuple[ReadOptions, StreamOptions]:
    """Parse the options of reading a stream, which must name a path."""
    parsed, stream = parse_stream(options)
    _check_read(parsed, _NO_STREAM_SOURCE)
    check_paths(filter(None, [stream.source_log]))
    return parsed, stream


def _check_read(parsed: ReadOptions, no_path: str = _NO_PATH) -> None:
    if not parsed.paths:
        raise OptionError(no_path)
    check_paths([*parsed.paths, *filter(None, [parsed.base_path])])


def check_paths(paths: Iterable[str]) -> None:
    """Refuse paths below ``~``, and relative paths if the working directory is a temporary one of Spark's."""
    paths = list(paths)
    of_home = next((path for path in paths if path.split("/")[0] == "~"), None)
    if of_home is not None:
        raise OptionError(
            f"the path {cut_repr(of_home, _SHOWN)} begins with ~, which only shells replace by the home directory: give "
            f"os.path.expanduser({cut_repr(of_home, _SHOWN)}), or ./~ for a directory of this name"
        )
    relative = next(filter(is_relative, paths), None)
    if relative is not None and is_session_directory():
        raise OptionError(
            f"the path {relative!r} is relative, and under Spark Connect there is nothing that it could be relative to: "
            "the server plans in a temporary directory and deletes it with the session; "
            "give the absolute path at which the server sees the files"
        )
