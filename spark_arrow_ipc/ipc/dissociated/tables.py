"""Tables that a server offers, before they are messages: files, record batches, functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import NamedTuple, Protocol, TypeAlias

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.errors import InvalidArrowError
from spark_arrow_ipc.ipc.bytes.source import Openable
from spark_arrow_ipc.ipc.dissociated.selection import Selection
from spark_arrow_ipc.ipc.file_reader import FileReader
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.reader import open as open_any
from spark_arrow_ipc.ipc.stream_reader import StreamReader


class Table(NamedTuple):
    """Record batches of one schema, and the custom metadata of the schema's message."""

    schema: Schema
    batches: Iterable[RecordBatch]
    message_metadata: CustomMetadata = ()


OpenTable: TypeAlias = Callable[[], AbstractContextManager[Table]]
"""Opens a table; called for each client, or once where it goes into shared memory."""


class TableSource(Protocol):
    """A table that can be opened any number of times, by several threads."""

    @property
    def selects(self) -> bool:
        """Whether it gives parts and columns, and not only the whole table."""

    def open(self, selection: Selection) -> AbstractContextManager[Table]:
        """Open what is selected.

        Raises
        ------
        ArrowIpcError, OSError
            The table cannot be read, or has no such column.
        """

    def version(self) -> Hashable | None:
        """Return a value that changes whenever the rows do; None if nothing says so, and nothing may be kept."""


class FileTable:
    """What `ipc.open` opens."""

    def __init__(self, given: Openable, limits: Limits) -> None:
        self._given = given
        self._limits = limits

    @property
    def selects(self) -> bool:
        """Return True: files have places to begin at."""
        return True

    @contextmanager
    def open(self, selection: Selection) -> Iterator[Table]:
        """Open the file."""
        with open_any(self._given, columns=selection.columns, limits=self._limits) as reader:
            yield Table(reader.schema, selected_batches(reader, selection), _message_metadata(reader))

    def version(self) -> Hashable | None:
        """Return identity, size and times of a path, or a constant for bytes, which do not change."""
        if isinstance(self._given, bytes):
            return "bytes"
        return file_version(self._given) if isinstance(self._given, str | os.PathLike) else None


def file_version(path: str | os.PathLike[str]) -> Hashable | None:
    """Return identity, size and times of a local file; None if there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - a path as it was given
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


class BatchesTable:
    """Record batches in memory, at least one."""

    def __init__(self, batches: tuple[RecordBatch, ...]) -> None:
        self._batches = batches

    @property
    def selects(self) -> bool:
        """Return True."""
        return True

    @contextmanager
    def open(self, selection: Selection) -> Iterator[Table]:
        """Select of the batches, without a copy."""
        cut = selection.cut(len(self._batches))
        batches = [self._batches[0], *self._batches[cut.start : cut.stop]]
        if selection.columns is not None:
            batches = [batch.select(selection.columns) for batch in batches]
        yield Table(batches[0].schema, batches[1:])

    def version(self) -> Hashable | None:
        """Return a constant: batches do not change."""
        return "batches"


class FunctionTable:
    """A function that opens a table: whole, and maybe another one each time."""

    def __init__(self, opens: OpenTable) -> None:
        self._opens = opens

    @property
    def selects(self) -> bool:
        """Return False."""
        return False

    def open(self, selection: Selection) -> AbstractContextManager[Table]:
        """Call the function."""
        assert selection == Selection(), "a session refuses others"
        return self._opens()

    def version(self) -> Hashable | None:
        """Return None: only the function knows."""
        return None


def selected_batches(reader: FileReader | StreamReader, selection: Selection) -> Iterable[RecordBatch]:
    """Return the record batches of a part. Of a stream, the headers before it are read.

    Raises
    ------
    UnsupportedError
        The stream cannot seek, so that it has no parts.
    ArrowIpcError
        A header is broken.
    """
    if selection.of == 1:
        return reader
    if reader.is_numbered:
        cut = selection.cut(len(reader))
        return (batch for batch, _ in reader.read_joined(cut.start, cut.stop, below_rows=0))
    if selection.is_schema_alone:
        return ()
    index = reader.index()
    cut = selection.cut(len(index.batches))
    if not cut:
        return ()
    reader.start_at(index.start(cut.start))
    return islice(reader, len(cut))


def _message_metadata(reader: FileReader | StreamReader) -> CustomMetadata:
    try:
        return reader.read_schema_metadata()
    except InvalidArrowError:
        # Some writers of files leave the message of the schema out: the footer has it.
        return ()
