"""The files that a command reads: of paths, directories, patterns and stdin, with the partition columns of their paths.

Strategy
--------
Paths are listed by the package's own listing, so that a command reads what Spark's reader reads: directories, patterns,
``key=value`` partitions as columns, pending commits applied, hidden names left out. ``-`` is stdin; a pipe is copied to
an unnamed temporary file first, because files have their index at the end. With ``--recursive`` the files of all
subdirectories are read, and those of a partition still have its columns.
"""

from __future__ import annotations

import argparse
import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, TypeAlias, cast

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.column_path import resolve_exactly
from spark_arrow_ipc.arrow.kernels.take import take_rows
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared.progress import count_files, count_rows
from spark_arrow_ipc.cli.shared.storages import add_storage_argument, storage_at
from spark_arrow_ipc.cli.shared.where import RowPredicate
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.globs import is_pattern
from spark_arrow_ipc.dataset.listing.hive import Partitioning, discover
from spark_arrow_ipc.dataset.listing.tree import Tree, list_tree
from spark_arrow_ipc.dataset.scan.partition_columns import CONSTANT_SLOTS, PartitionColumns
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    FileChangedError,
    NoFilesError,
    SchemaMismatchError,
    UnsupportedError,
    error_context,
    printable,
)
from spark_arrow_ipc.ipc.bytes.source import Openable, SeekableSource
from spark_arrow_ipc.ipc.columns.projection import known_columns
from spark_arrow_ipc.ipc.dissociated.schemes import is_served
from spark_arrow_ipc.storage.byte_source import ByteSource
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.paths import parent, relative
from spark_arrow_ipc.storage.storage import Storage

if TYPE_CHECKING:
    from spark_arrow_ipc.ipc.dissociated.reader import DissociatedReader
    from spark_arrow_ipc.spark.read.matching_rows import MatchingRows

STDIN: Final = "-"
"""The argument that stands for stdin."""

TOKEN_VARIABLE: Final = "ARROWIPC_TOKEN"  # noqa: S105 - its name
"""The environment variable with the token of servers."""


@dataclass(frozen=True, slots=True)
class Input:
    """One file to read.

    Parameters
    ----------
    path
        For people: its path, or `STDIN`.
    fields, values
        The partition columns of its path.
    below
        Its path below the directory or pattern that stands for it; None if it was named itself.
    content
        What came through stdin, or None.
    file
        As it was listed; None if it was named itself.
    storage
        The storage that holds it.
    """

    path: str
    fields: tuple[t.Field, ...] = ()
    values: tuple[object, ...] = ()
    below: str | None = None
    content: BinaryIO | None = None
    file: DataFile | None = None
    storage: Storage = LOCAL

    @property
    def is_served(self) -> bool:
        """Whether it is a table of a server, and no file."""
        return is_served(self.path)

    def openable(self) -> Openable:
        """Return a path or a file object at its first byte, for the codec. Use one before you ask for the next.

        Raises
        ------
        FileChangedError
            The file was removed after it was listed.
        UnsupportedError
            It is no file, but a table of a server.
        OSError
            It cannot be opened.
        """
        if self.is_served:
            raise UnsupportedError(
                "this command reads files; 'arrowipc concat URI FILE' writes a server's table into one", path=self.path
            )
        if self.file is not None:
            return _open_listed(self.file, self.storage)
        if self.content is None:
            return self.path
        self.content.seek(0)
        source = SeekableSource(self.content)
        source.path = self.path
        return source


def _open_listed(file: DataFile, storage: Storage) -> ByteSource:
    try:
        return file.open(storage)
    except FileNotFoundError as error:
        raise FileChangedError(
            "the directory changed while it was read: this file was listed a moment ago and is gone; run the command "
            "again",
            path=file.path,
        ) from error


def add_path_arguments(parser: argparse.ArgumentParser, name: str = "paths", metavar: str = "PATH") -> None:
    """Declare the arguments for the files to read."""
    parser.add_argument(
        name,
        nargs="+",
        metavar=metavar,
        help="Arrow IPC files and streams, directories of them (key=value directories are columns), patterns, "
        "and - for stdin",
    )
    parser.add_argument("-r", "--recursive", action="store_true", help="also the files below other subdirectories")
    add_storage_argument(parser)


def each_input(
    paths: Sequence[str],
    *,
    recursive: bool,
    columns: bool = False,
    refused: Callable[[str, ArrowIpcError | OSError], None] | None = None,
    storage: Sequence[tuple[str, str]] = (),
) -> Iterator[Input]:
    """Yield the files that arguments stand for, in their order; those of a directory by name.

    Parameters
    ----------
    paths
        As given: files, directories, patterns, `STDIN`.
    recursive
        Whether files of subdirectories that are no partitions are read too.
    columns
        Whether partition columns are needed: directories that do not agree on them are an error then.
    refused
        Is called with a path that cannot be listed, and its error; without it, the error is raised.
    storage
        Options of the object stores of URLs, beside which local paths may stand.

    Raises
    ------
    ArrowIpcError, OSError
        A path does not exist, matches nothing, or cannot be listed.
    """
    for path in paths:
        if path == STDIN:
            yield Input(STDIN, content=_seekable(sys.stdin.buffer))
            continue
        if is_served(path):
            yield Input(path)
            continue
        try:
            listed = list(_listed(path, recursive=recursive, columns=columns, storage=storage))
        except (ArrowIpcError, OSError) as error:
            if refused is None:
                raise
            refused(path, error)
            continue
        yield from count_files(listed)


def complain(error: ArrowIpcError | OSError | str) -> None:
    """Print an error or a warning on stderr, in one line."""
    print(f"arrowipc: {printable(str(error))}", file=sys.stderr)


@lru_cache(maxsize=1)
def _seekable(stdin: BinaryIO) -> BinaryIO:
    """Return stdin as a file that can seek. A pipe is read once, also where a command lists its files again."""
    if stdin.seekable():
        return stdin
    copied = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - inputs may be opened until the process ends
    atexit.register(copied.close)
    shutil.copyfileobj(stdin, copied)
    return copied


def _listed(path: str, *, recursive: bool, columns: bool, storage: Sequence[tuple[str, str]]) -> Iterator[Input]:
    tree = list_tree([path], storage=storage_at(path, storage))
    partitioning = _partitioning(tree, recursive=recursive, columns=columns)
    if (warning := partitioning.warning()) is not None:
        complain(warning)
    (root, *others) = tree.roots
    is_named = not others and isinstance(root, DataFile) and root.path == tree.storage.resolve(path)
    base = _base(tree.storage.resolve(path))
    for file in partitioning.files:
        below = None if is_named else relative(file.path, base)
        # A file in the root of a partitioned table has no values.
        values = file.partition or (None,) * len(partitioning.fields)
        # A path is shown as it was given, where it can be opened by that.
        shown = path if is_named and file.staged is None and not path.lower().startswith("file:") else None
        if shown is not None and tree.storage is LOCAL:
            yield Input(shown, partitioning.fields, values, below)
        else:
            yield Input(shown or file.path, partitioning.fields, values, below, file=file, storage=tree.storage)


def _base(path: str) -> str:
    """Return the directory above the first part of a path that is a pattern; the path itself if it is none."""
    while is_pattern(path) and path != parent(path):
        path = parent(path)
    return path


def _partitioning(tree: Tree, *, recursive: bool, columns: bool) -> Partitioning:
    try:
        partitioning = discover(tree)
    except NoFilesError:
        if not recursive:
            raise
        partitioning = Partitioning((), ())
    except SchemaMismatchError:
        if columns:
            raise
        return Partitioning((), tree.accepted(tree.all_files()))
    if not recursive:
        return partitioning
    if not partitioning.fields:
        return Partitioning((), tree.accepted(tree.all_files()))
    return replace(partitioning, files=(*partitioning.unread, *partitioning.files), unread=())


AnyReader: TypeAlias = "ipc.FileReader | ipc.StreamReader | DissociatedReader"
"""What has a schema and record batches: of a file, a stream, or a server."""


class Rows(NamedTuple):
    """The rows of an open file, with the partition columns of its path."""

    reader: AnyReader
    schema: Schema
    batches: Iterable[RecordBatch]


Batches: TypeAlias = Callable[["ipc.FileReader | ipc.StreamReader"], Iterable[RecordBatch]]
"""Gives the record batches of an open file that are wanted."""


def given_token() -> str | None:
    """Return the token for servers, of the environment."""
    return os.environ.get(TOKEN_VARIABLE)


@contextmanager
def open_rows(
    given: Input,
    columns: Sequence[int | str] | None = None,
    batches_of: Batches = iter,
    where: RowPredicate | None = None,
) -> Iterator[Rows]:
    """Open a file for its rows. Partition columns follow those of the file, or replace the one of their name.

    Parameters
    ----------
    columns
        Names and positions of the columns to read, in order; None for all.
    batches_of
        Chooses the record batches of a file; all by default. A server's table is read whole.
    where
        The rows to read; None for all. Record batches that statistics exclude are not read, and those without a match
        are left out.

    Raises
    ------
    ArrowIpcError, OSError
        As `ipc.open`, or `ipc.connect`.
    """
    chosen = ChosenColumns(given, columns, where)
    if given.is_served:
        asked = columns if where is None else None
        with ipc.connect(given.path, columns=asked, token=given_token()) as served:
            if where is None:
                yield Rows(served, served.schema, count_rows(served))
            else:
                read = chosen.of_file(served.schema)
                yield Rows(served, chosen.schema, chosen.batches(batch.select(read) for batch in count_rows(served)))
        return
    if columns is None and where is None and not given.fields:
        with ipc.open(given.openable()) as reader:
            yield Rows(reader, reader.schema, count_rows(batches_of(reader)))
        return
    with ipc.open(given.openable(), columns=chosen.of_file) as reader:
        wanted = batches_of(reader) if batches_of is not iter else chosen.wanted_batches(reader)
        yield Rows(reader, chosen.schema, chosen.batches(count_rows(wanted)))


def read_schema(given: Input) -> Schema:
    """Return the schema of a file with the columns of its path, those of unknown types too.

    Raises
    ------
    ArrowIpcError, OSError
        As `open_rows`.
    """
    if given.is_served:
        with open_rows(given) as rows:
            return rows.schema
    with ipc.open(given.openable(), columns=known_columns) as reader:
        return PartitionColumns(reader.file_schema, given.fields, given.values).schema


def partition_row(given: Input) -> RecordBatch:
    """Return the partition columns of a file as a batch of one row."""
    return PartitionColumns(Schema(()), given.fields, given.values).add(RecordBatch(Schema(()), (), 1))


class ChosenColumns:
    """Puts the columns that were asked for together, from a file and from its path.

    Parameters
    ----------
    given
        The file.
    columns
        Names and positions of the columns, in order; None for all.
    where
        The rows; None for all.
    """

    def __init__(self, given: Input, columns: Sequence[int | str] | None, where: RowPredicate | None = None) -> None:
        self._columns = columns
        self._where = where
        self._matching: MatchingRows | None = None
        self._path = given
        self._partition = PartitionColumns(Schema(()), given.fields, given.values)
        self.schema = Schema(())
        self._places: list[int] = []
        """Positions among the columns that are read, and after them those of the path."""

    def of_file(self, schema: Schema) -> list[int]:
        """Return the positions to read, and note what becomes of them; `ipc.open` calls this."""
        all_columns = PartitionColumns(schema, self._path.fields, self._path.values)
        fields = all_columns.schema.fields
        of_path = {position: i for i, position in enumerate(all_columns.positions)}
        chosen = list(range(len(fields)))
        if self._columns is not None:
            with error_context(asked_by="--columns"):
                chosen = [position for (position,) in resolve_exactly(fields, self._columns)]
        self._matching = None if self._where is None else self._where.compile(all_columns.schema)
        needed = (*chosen, *(() if self._matching is None else self._matching.positions))
        read = list(dict.fromkeys(position for position in needed if position not in of_path))
        places = {position: i for i, position in enumerate(read)}
        self._places = [places[p] if p in places else len(read) + of_path[p] for p in needed]
        self.schema = Schema(tuple(fields[p] for p in chosen), schema.custom_metadata, schema.endianness)
        return read

    def wanted_batches(self, reader: ipc.FileReader | ipc.StreamReader) -> Iterable[RecordBatch]:
        """Return the record batches of an open file, without those that statistics exclude."""
        if self._matching is None or not isinstance(reader, ipc.FileReader):
            return reader
        of_path = {field.name: value for field, value in zip(self._path.fields, self._path.values, strict=True)}
        keeps = self._matching.select_blocks(reader, of_path)
        return reader if keeps is None else (reader.read_batch(i) for i in range(len(reader)) if keeps(i))

    def batches(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Yield the batches with the columns of the path, in the order that was asked for, and their rows."""
        for batch in batches:
            for first in range(0, max(batch.num_rows, 1), CONSTANT_SLOTS):
                part = batch.slice(first, min(CONSTANT_SLOTS, batch.num_rows - first))
                of_path = self._partition.add(RecordBatch(Schema(()), (), part.num_rows))
                columns = (*part.columns, *of_path.columns)
                needed = [columns[place] for place in self._places]
                ordered = tuple(needed[: len(self.schema)])
                whole = RecordBatch(self.schema, ordered, part.num_rows, batch.custom_metadata)
                if self._matching is None:
                    yield whole
                    continue
                named = Schema(tuple(t.Field("", column.type) for column in needed[len(self.schema) :]))
                rows = self._matching.find(RecordBatch(named, tuple(needed[len(self.schema) :]), part.num_rows))
                if len(rows):
                    yield whole if len(rows) == part.num_rows else take_rows(whole, rows)
