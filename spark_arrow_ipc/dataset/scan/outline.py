"""The outline of a file: everything that planning a read needs of it, from one open.

Strategy
--------
A file's outline is its schema, the bytes of its record batches, its statistics, and for what may have to be cut the
rows of large record batches, or where the messages of a stream lie. It is read from the footer and few headers, never
from a body. How a data set is cut into input partitions then follows from outlines alone (`splits.plan_splits`).

Which headers are needed depends on the size of a split, and that on all files. So an outline is read with a size up to
which nothing will be cut (`OutlineOptions.cut_above`); one that is too low costs some headers, and changes no plan.

An outline never raises: a file that cannot be opened has an outline that says why, since only some readers of it mind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.statistics.read import BlockStatistics, read_statistics
from spark_arrow_ipc.errors import ArrowIpcError, FileChangedError, InvalidArrowError, error_context
from spark_arrow_ipc.ipc.projection import Columns
from spark_arrow_ipc.ipc.recover import open_recovered
from spark_arrow_ipc.ipc.stream_index import StreamIndex
from spark_arrow_ipc.storage.byte_source import ByteSource
from spark_arrow_ipc.storage.concurrent import each

__all__ = ["Outline", "OutlineOptions", "Outlines", "each_file", "read_outline"]

_DEFAULT_LIMITS: Final = ipc.Limits()

_UNREADABLE: Final = (ArrowIpcError, OSError)
"""Errors of a file; the task that reads it raises them, where planning does not."""


@dataclass(frozen=True, slots=True)
class Outline:
    """What planning knows of one file.

    Parameters
    ----------
    schema
        Of the whole file; None where it cannot be opened.
    block_nbytes
        Bytes of each record batch; None for a stream, and for a file that cannot be opened.
    stream
        Where the messages of a stream lie; None for a file, and for a stream that is not cut.
    statistics
        Of the record batches; None where the file has none, or they were not asked for.
    wanted_share
        The part of the first record batch's bytes that the wanted columns need, 1 where that is not known.
    block_rows
        Rows of each record batch that is large and can be cut between its rows.
    error
        Why the file cannot be opened or, where there is a schema, why it cannot be cut.
    """

    schema: Schema | None = None
    block_nbytes: tuple[int, ...] | None = None
    stream: StreamIndex | None = None
    statistics: BlockStatistics | None = None
    wanted_share: float = 1.0
    block_rows: Mapping[int, int] = field(default_factory=dict)
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class OutlineOptions:
    """What outlines are to tell.

    Parameters
    ----------
    columns
        Columns that will be read; all by default.
    limits
        Budgets for each file.
    with_statistics
        Whether statistics are read.
    recover
        Whether a file that lost its end has a schema. Its record batches are never cut then.
    cut_above
        Record batches and streams of more bytes may have to be cut: their rows, or where their messages lie, are read.
    share_above
        Of larger files `Outline.wanted_share` is read.
    """

    columns: Columns | None = None
    limits: ipc.Limits = _DEFAULT_LIMITS
    with_statistics: bool = False
    recover: bool = False
    cut_above: float = math.inf
    share_above: float = math.inf


class Outlines:
    """The outlines of files; each file is opened once.

    Parameters
    ----------
    options
        What outlines are to tell.
    """

    def __init__(self, options: OutlineOptions) -> None:
        self._options = options
        self._schemas: dict[Schema, Schema] = {}
        self.by_path: dict[str, Outline] = {}
        """All that were read."""

    def read(self, file: DataFile, *, cut_above: float | None = None) -> Outline:
        """Return the outline of a file, from memory where it was read before.

        Parameters
        ----------
        file
            As it was listed.
        cut_above
            In place of that of the options, where a better one is known by now.
        """
        outline = self.by_path.get(file.path)
        if outline is None:
            options = self._options if cut_above is None else replace(self._options, cut_above=cut_above)
            outline = read_outline(file, options)
            if outline.schema is not None:  # most files have the same, and there may be many files
                schema = self._schemas.setdefault(outline.schema, outline.schema)
                outline = replace(outline, schema=schema)
            self.by_path[file.path] = outline
        return outline

    def read_all(self, files: Sequence[DataFile], *, cut_above: float | None = None) -> None:
        """Read the outlines of files; parameters as for `read`."""

        def read(file: DataFile) -> None:
            self.read(file, cut_above=cut_above)

        each_file(read, files)


def each_file(call: Callable[[DataFile], None], files: Sequence[DataFile]) -> None:
    """Call for each file once, for many at a time where opening one waits for its storage; raise the first error."""
    # A path that was given twice is listed twice, and two threads would open it.
    each(call, list({file.path: file for file in files}.values()))


def read_outline(file: DataFile, options: OutlineOptions) -> Outline:
    """Return the outline of a file. Opens it once.

    Parameters
    ----------
    file
        As it was listed.
    options
        What the outline is to tell.
    """
    try:
        with error_context(path=file.path), closing(file.open()) as source:
            return _outline(_Shared(source), file, options)
    except FileNotFoundError as error:
        gone = FileChangedError("the file was listed a moment ago and is gone now; read the path again", path=file.path)
        gone.__cause__ = error
        return Outline(error=gone)
    except _UNREADABLE as error:
        return Outline(error=error)


class _Shared:
    """A `ByteSource` that several readers use one after the other; its owner closes it."""

    def __init__(self, source: ByteSource) -> None:
        self.path = source.path
        self.nbytes = source.nbytes
        self.read_at = source.read_at
        self.read_up_to = source.read_up_to
        self.read_ranges = source.read_ranges

    def close(self) -> None:
        """Do nothing: the next reader needs the source."""


def _outline(source: ByteSource, file: DataFile, options: OutlineOptions) -> Outline:
    try:
        reader = ipc.open(source, limits=options.limits)
    except InvalidArrowError as error:
        return Outline(_recovered_schema(source, options) if options.recover else None, error=error)
    if isinstance(reader, ipc.StreamReader):
        return _outline_stream(reader) if file.nbytes > options.cut_above else Outline(reader.schema)
    nbytes = tuple(block.nbytes for block in reader.blocks)
    wants_share = file.nbytes > options.share_above and bool(nbytes)
    large = [] if options.recover else [i for i, size in enumerate(nbytes) if size > options.cut_above]
    share, rows = 1.0, dict[int, int]()
    if wants_share or large:
        share, rows = _wanted(source, options, large, wants_share=wants_share)
    statistics = None
    if options.with_statistics:
        statistics = read_statistics(reader.custom_metadata, reader.schema, len(reader))
    return Outline(reader.schema, nbytes, None, statistics, share, rows)


def _outline_stream(reader: ipc.StreamReader) -> Outline:
    try:
        return Outline(reader.schema, stream=reader.index())
    except _UNREADABLE as error:
        return Outline(reader.schema, error=error)


def _wanted(
    source: ByteSource, options: OutlineOptions, large: Sequence[int], *, wants_share: bool
) -> tuple[float, dict[int, int]]:
    """Return the share of bytes that the wanted columns need, and the rows of record batches that can be cut.

    What cannot be learnt is left out: the task that reads the file says why.
    """
    share = 1.0
    rows: dict[int, int] = {}
    with suppress(*_UNREADABLE):
        reader = ipc.open_file(source, columns=options.columns, limits=options.limits)
        if wants_share:
            with suppress(*_UNREADABLE):
                share = reader.wanted_nbytes(0) / max(1, reader.blocks[0].nbytes)
        for i in large:
            with suppress(*_UNREADABLE):
                batch = reader.batch_rows(i)
                if batch is not None:
                    rows[i] = batch.num_rows
    return share, rows


def _recovered_schema(source: ByteSource, options: OutlineOptions) -> Schema | None:
    with suppress(InvalidArrowError):
        recovered = open_recovered(lambda: source, limits=options.limits)
        return None if recovered.reader is None else recovered.reader.schema
    return None
