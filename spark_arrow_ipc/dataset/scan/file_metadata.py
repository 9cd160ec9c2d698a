"""Read the metadata of files that a plan needs, from one open of each; and count the rows of many files by headers.

The metadata are a file's schema, the bytes of its record batches, and its statistics. If the file may be cut, they also have
the rows of large record batches, or the index of a stream. They are read from the footer and a few headers, never from a
body. Reading never raises: the metadata of a file that cannot be opened hold the error, as only some callers need the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.listing.data_file import DataFile, open_at_current_path, status_from_listing
from spark_arrow_ipc.dataset.statistics.read import BlockStatistics, file_statistics
from spark_arrow_ipc.errors import ArrowIpcError, FileChangedError, InvalidArrowError, LimitError, error_context
from spark_arrow_ipc.ipc.batch_reader import with_headers
from spark_arrow_ipc.ipc.bytes.source import keep_ends
from spark_arrow_ipc.ipc.columns.projection import select_known_columns
from spark_arrow_ipc.ipc.constants import TensorRows
from spark_arrow_ipc.ipc.options import DEFAULT_READ
from spark_arrow_ipc.ipc.recovery import open_recovered
from spark_arrow_ipc.ipc.stream_index import StreamIndex
from spark_arrow_ipc.storage.byte_source import ByteSource
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.paths import join
from spark_arrow_ipc.storage.storage import Storage, each
from spark_arrow_ipc.table.state import State

_UNREADABLE: Final = (ArrowIpcError, OSError)
"""Errors of a file. Where the plan does not raise them, the task that reads the file does."""


@dataclass(frozen=True, slots=True)
class FileMetadata:
    """The metadata of one file."""

    schema: Schema | None = None  # with all columns; None if it cannot be opened
    # bytes of each record batch; None for a stream, and for a file that cannot be opened
    block_nbytes: tuple[int, ...] | None = None
    # the positions of a stream's messages; None for a file, and for a stream that is not cut
    stream: StreamIndex | None = None
    # of the record batches; None if the file has none, or they were not requested
    statistics: BlockStatistics | None = None
    projected_share: float = 1.0  # the part of the first record batch's bytes that the query needs; 1 if unknown
    # rows of each large record batch that can be cut between its rows, by its number
    block_rows: Mapping[int, int] = field(default_factory=dict)
    error: Exception | None = None  # why the file cannot be opened; with a schema, why it cannot be cut


@dataclass(frozen=True, slots=True)
class MetadataOptions:
    """The options of reading metadata."""

    read: ipc.ReadOptions = DEFAULT_READ  # how the codec reads each file, and the columns that will be read
    with_statistics: bool = False  # whether to read statistics
    recover: bool = False  # whether to read the schema of a truncated file, which is never cut then
    # record batches and streams of more bytes may be cut, so their rows or the index of the stream are read
    cut_above: float = math.inf
    share_above: float = math.inf  # `FileMetadata.projected_share` is read of files of more bytes
    tensors: TensorRows | None = None  # files are tensors, and this is a row of them; None for tables
    storage: Storage = LOCAL


def read_metadata(file: DataFile, options: MetadataOptions) -> FileMetadata:
    """Return the metadata of a file, which is opened once."""
    storage = options.storage

    def metadata_at(path: str) -> FileMetadata:
        # With the listed status the first request is the first read, which fails if the file is gone.
        source = storage.open(path, listed=status_from_listing(file, path, storage))
        with error_context(path=file.path), closing(keep_ends(source)) as ends:
            return _metadata_of(_Shared(ends), file, options)

    try:
        return open_at_current_path(file, metadata_at, storage)
    except FileNotFoundError as error:
        gone = FileChangedError("the file was listed a moment ago and is gone now; read the path again", path=file.path)
        gone.__cause__ = error
        return FileMetadata(error=gone)
    except _UNREADABLE as error:
        return FileMetadata(error=error)


class _Shared:
    """A `ByteSource` for several readers, one after the other; the caller closes it."""

    def __init__(self, source: ByteSource) -> None:
        self.path = source.path
        self.nbytes = source.nbytes
        self.waits = source.waits
        self.read_at = source.read_at
        self.read_up_to = source.read_up_to
        self.read_into = source.read_into
        self.read_ranges = source.read_ranges

    def close(self) -> None:
        """Leave the source open for the next reader."""


def _metadata_of(source: ByteSource, file: DataFile, options: MetadataOptions) -> FileMetadata:
    if options.tensors is not None:
        from spark_arrow_ipc.dataset.scan.tensor_reader import TensorReader  # tables start faster without it

        tensors = TensorReader(source, options.tensors, None, options.read.limits)
        return FileMetadata(tensors.schema, tensors.block_nbytes)
    try:
        # Columns of types that this package cannot read do not matter to a plan that does not read them.
        columns = None if options.read.columns is None else select_known_columns
        reader = ipc.open(source, replace(options.read, columns=columns))
    except InvalidArrowError as error:
        return FileMetadata(_recover_schema(source, options) if options.recover else None, error=error)
    if not reader.is_numbered:
        return _metadata_of_stream(reader) if file.nbytes > options.cut_above else FileMetadata(reader.file_schema)
    nbytes = tuple(block.nbytes for block in reader.blocks)
    wants_share = file.nbytes > options.share_above and bool(nbytes)
    large = [] if options.recover else [i for i, size in enumerate(nbytes) if size > options.cut_above]
    share, rows = 1.0, dict[int, int]()
    if wants_share or large:
        numbers = [0, *large] if wants_share else large
        # All headers in one request, where each would wait.
        headers = with_headers(source, [reader.blocks[i] for i in numbers])
        share, rows = _read_share_and_rows(headers, options, large, wants_share=wants_share)
    statistics = file_statistics(reader) if options.with_statistics else None
    return FileMetadata(reader.file_schema, nbytes, None, statistics, share, rows)


def _metadata_of_stream(reader: ipc.StreamReader) -> FileMetadata:
    try:
        return FileMetadata(reader.file_schema, stream=reader.index())
    except LimitError:
        # Too many messages for an index: one task reads the stream from its start, in bounded memory.
        return FileMetadata(reader.file_schema)
    except _UNREADABLE as error:
        return FileMetadata(reader.file_schema, error=error)


def _read_share_and_rows(
    source: ByteSource, options: MetadataOptions, large: Sequence[int], *, wants_share: bool
) -> tuple[float, dict[int, int]]:
    """Return `FileMetadata.projected_share` and `FileMetadata.block_rows`, as far as they can be read."""
    share = 1.0
    rows: dict[int, int] = {}
    # Errors are suppressed because the task that reads the file raises them.
    with suppress(*_UNREADABLE):
        reader = ipc.open_file(source, columns=options.read.columns, limits=options.read.limits)
        if wants_share:
            with suppress(*_UNREADABLE):
                share = reader.nbytes_to_read(0) / max(1, reader.blocks[0].nbytes)
        for i in large:
            with suppress(*_UNREADABLE):
                batch = reader.batch_rows(i)
                if batch is not None:
                    rows[i] = batch.num_rows
    return share, rows


def _recover_schema(source: ByteSource, options: MetadataOptions) -> Schema | None:
    with suppress(InvalidArrowError):
        recovered = open_recovered(lambda: source, replace(options.read, columns=None))
        return None if recovered.reader is None else recovered.reader.schema
    return None


class MetadataCache:
    """The metadata of files; each file is opened once."""

    def __init__(self, options: MetadataOptions) -> None:
        self._options = options
        self._waits = options.storage.traits.waits
        self._without_share: set[str] = set()
        self._schemas: dict[Schema, Schema] = {}
        self.by_path: dict[str, FileMetadata] = {}
        """All metadata that were read."""

    def read(self, file: DataFile, *, cut_above: float | None = None, with_share: bool = False) -> FileMetadata:
        """Return the metadata of a file, and remember them."""
        metadata = self.by_path.get(file.path)
        if metadata is None or (with_share and file.path in self._without_share):
            options = self._options if cut_above is None else replace(self._options, cut_above=cut_above)
            self._without_share.discard(file.path)
            if self._waits and not with_share:  # the share needs one more request, and of the largest file only
                options = replace(options, share_above=math.inf)
                self._without_share.add(file.path)
            metadata = read_metadata(file, options)
            if metadata.schema is not None:  # most files have the same schema: one object for all bounds the memory
                schema = self._schemas.setdefault(metadata.schema, metadata.schema)
                metadata = replace(metadata, schema=schema)
            self.by_path[file.path] = metadata
        return metadata

    def read_all(self, files: Sequence[DataFile], *, cut_above: float | None = None) -> None:
        """Read the metadata of files, as `read` does."""
        self.each_file(lambda file: self.read(file, cut_above=cut_above), files)

    def each_file(self, call: Callable[[DataFile], object], files: Sequence[DataFile]) -> None:
        """Call for each file once, in parallel on slow storage; raise the first error."""
        # A path that the user names twice is listed twice, and two threads would open it.
        distinct = list({file.path: file for file in files}.values())
        each(call, distinct, waits=self._waits)


_MOST_FILES: Final = 5_000
"""Most files that are counted, in a little more than a second, or in a few seconds where reads wait."""

_MOST_HEADERS: Final = 50_000
"""Most record batches of all files: about half a second."""

_MOST_WAITING_HEADERS: Final = 5_000
"""The same where each header is a request."""

_MOST_HEADER_NBYTES: Final = 256 << 20
"""Most bytes of all headers, a quarter of a second: the header of 10,000 columns has half a megabyte."""

_SLOW_SECONDS: Final = 0.004
"""A file that takes longer is on a slow file system, where threads are worth it, not only on a busy machine."""


class _NotCountedError(Exception):
    """The driver cannot count the rows; tasks have to."""


def count_rows(
    files: Sequence[DataFile],
    storage: Storage,
    *,
    limits: ipc.Limits,
    verify_checksums: bool = True,
    states: Mapping[str, State] = MappingProxyType({}),
) -> int | None:
    """Return the number of rows of files; None if they are too many, or streams, or change meanwhile.

    Files that the logs of tables count, whose `states` are given by path, are not opened.
    """
    logged = {
        join(root, path): rows
        for root, state in states.items()
        for path, rows in zip(state.files.paths, state.files.rows.tolist(), strict=True)
    }
    rows: list[int] = [logged[file.path] for file in files if file.path in logged]
    files = [file for file in files if file.path not in logged]
    if len(files) > _MOST_FILES:
        return None
    headers_left = _MOST_WAITING_HEADERS if storage.traits.waits else _MOST_HEADERS
    nbytes_left = _MOST_HEADER_NBYTES

    def count(file: DataFile) -> None:
        nonlocal headers_left, nbytes_left
        with ipc.open(file.open(storage), limits=limits, verify_checksums=verify_checksums) as reader:
            if not reader.is_numbered:
                raise _NotCountedError
            headers_left -= len(reader)
            nbytes_left -= sum(block.metadata_nbytes for block in reader.blocks)
            if headers_left < 0 or nbytes_left < 0:
                raise _NotCountedError
            reader.check_start()
            rows.extend(reader.row_counts(range(len(reader)), verified=True))
        if not _is_as_listed(file, storage):
            raise _NotCountedError  # the tasks raise the error of a file that changed

    try:
        each(count, files, waits=storage.traits.waits, slow_seconds=_SLOW_SECONDS)
    except _NotCountedError:
        return None
    return sum(rows)


def _is_as_listed(file: DataFile, storage: Storage) -> bool:
    """Return whether a file that was read is the listed one; False if it is gone by now."""
    if file.version:  # each read named the version
        return True
    status = storage.status(file.path)
    return status is not None and (status.nbytes, status.mtime_ns) == (file.nbytes, file.mtime_ns)
