"""The files that a command reads, and the one that it writes.

The package's own listing lists paths, so that a command reads the same files as Spark's reader: directories, patterns,
``key=value`` partitions as columns, files that a table's log does not count and hidden names left out. ``-`` is stdin.
``--recursive`` adds the files of all subdirectories, with the columns of their partitions.

A file is written under another name in its directory, and gets its name when it is complete. Commands write new files;
``--force`` replaces one, but never a file that is read. The format of a file follows from its name by default.
"""

from __future__ import annotations

import argparse
import atexit
import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Final, Literal, Protocol, TypeAlias, cast

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.cli.shared.storages import add_storage_argument, storage_at
from spark_arrow_ipc.cli.shared.terminal import count_files
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.globs import is_pattern
from spark_arrow_ipc.dataset.listing.hive import Partitioning, discover
from spark_arrow_ipc.dataset.listing.tree import Tree, list_tree
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    FileChangedError,
    NoFilesError,
    OptionError,
    SchemaMismatchError,
    UnsupportedError,
    cut_repr,
    printable,
)
from spark_arrow_ipc.ipc.bytes.sinks import path_sink
from spark_arrow_ipc.ipc.bytes.source import Openable, SeekableSource
from spark_arrow_ipc.ipc.constants import ENDINGS
from spark_arrow_ipc.ipc.dissociated import is_served
from spark_arrow_ipc.ipc.messages.checksums import ROW_COUNTS_KEY
from spark_arrow_ipc.storage.byte_source import ByteSource
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.paths import SEPARATOR, is_remote, name_of, parent, place_of, relative
from spark_arrow_ipc.storage.storage import Storage

Refused: TypeAlias = Callable[[str, ArrowIpcError | OSError], None]
"""Is called with a path that cannot be listed or read, and its error."""

STDIN: Final = "-"
"""The argument that stands for stdin."""

TOKEN_VARIABLE: Final = "ARROWIPC_TOKEN"  # noqa: S105 - its name
"""The environment variable with the token of servers."""


@dataclass(frozen=True, slots=True)
class Input:
    """One file to read."""

    # For people: its path, or `STDIN`
    path: str
    fields: tuple[t.Field, ...] = ()
    values: tuple[object, ...] = ()
    # The path below the directory or pattern that stands for it; None if it was named itself
    below: str | None = None
    # The bytes of stdin
    content: BinaryIO | None = None
    # The listed file; None if it was named itself
    file: DataFile | None = None
    storage: Storage = LOCAL

    @property
    def is_served(self) -> bool:
        """True if it is a table of a server instead of a file."""
        return is_served(self.path)

    def openable(self) -> Openable:
        """Return a path or a file object at its first byte, for the codec; the next call moves the file object."""
        if self.is_served:
            raise UnsupportedError(
                "this command reads files; 'arrowipc concat URI FILE' writes a server's table into one", path=self.path
            )
        if self.file is not None:
            return _open_listed(self.file, self.storage)
        if self.content is None:
            return self.path
        self.content.seek(0)
        # Wrapped, so that errors have the path.
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
    refused: Refused | None = None,
    storage: Sequence[tuple[str, str]] = (),
) -> Iterator[Input]:
    """Yield the files that paths stand for, in the order of the paths; a directory's files by name.

    With `columns`, directories that disagree on partition columns are an error; without `refused`, so is a path that
    cannot be listed. `storage` has options of the object stores of URLs.
    """
    for path in paths:
        if path == STDIN:
            yield Input(STDIN, content=_seekable(sys.stdin.buffer))
            continue
        if is_served(path):
            yield Input(path)
            continue
        try:
            listed = list(_list_path(path, recursive=recursive, columns=columns, storage=storage))
        except (ArrowIpcError, OSError) as error:
            if refused is None:
                raise
            refused(path, error)
            continue
        yield from count_files(listed)


def list_inputs(
    arguments: argparse.Namespace, *, columns: bool = False, refused: Refused | None = None
) -> Iterator[Input]:
    """Yield the files that the arguments of a command name (`each_input`)."""
    return each_input(
        arguments.paths, recursive=arguments.recursive, columns=columns, refused=refused, storage=arguments.storage
    )


class Refusals:
    """Prints the errors of files while the others are read; the exit status of the command is 1 then."""

    status = 0

    def __call__(self, _: str, error: ArrowIpcError | OSError) -> None:
        """Print the error of a path."""
        complain(error)
        self.status = 1


def server_token() -> str | None:
    """Return the token for servers, of the environment."""
    return os.environ.get(TOKEN_VARIABLE)


def complain(error: ArrowIpcError | OSError | str) -> None:
    """Print an error or a warning on stderr, in one line."""
    print(f"arrowipc: {printable(str(error))}", file=sys.stderr)


@lru_cache(maxsize=1)
def _seekable(stdin: BinaryIO) -> BinaryIO:
    """Return stdin as a file that can seek."""
    # Cached: a pipe can be read once, and `count` may list its inputs again.
    if stdin.seekable():
        return stdin
    copied = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - inputs may be opened until the process ends
    atexit.register(copied.close)
    shutil.copyfileobj(stdin, copied)
    return copied


def _list_path(path: str, *, recursive: bool, columns: bool, storage: Sequence[tuple[str, str]]) -> Iterator[Input]:
    tree = list_tree([path], storage=storage_at(path, storage), hugging_face=True)
    partitioning = _partitioning(tree, recursive=recursive, columns=columns)
    if (warning := partitioning.warning()) is not None:
        complain(warning)
    (root, *others) = tree.roots
    is_named = not others and isinstance(root, DataFile) and root.path == tree.storage.resolve(path)
    # The directory above the first part that is a pattern
    base = tree.storage.resolve(path)
    while is_pattern(base) and base != parent(base):
        base = parent(base)
    for file in partitioning.files:
        below = None if is_named else relative(file.path, base)
        # A file in the root of a partitioned table has no values.
        values = file.partition or (None,) * len(partitioning.fields)
        # Messages repeat the path of the argument if the codec can open it: people search for what they typed.
        shown = path if is_named and not path.lower().startswith("file:") else None
        if shown is not None and tree.storage is LOCAL:
            yield Input(shown, partitioning.fields, values, below)
        else:
            yield Input(shown or file.path, partitioning.fields, values, below, file=file, storage=tree.storage)


def _partitioning(tree: Tree, *, recursive: bool, columns: bool) -> Partitioning:
    try:
        partitioning = discover(tree)
    except NoFilesError:
        if not recursive:
            raise
        # Only other subdirectories have files.
        partitioning = Partitioning((), ())
    except SchemaMismatchError:
        # Commands that read only headers show files of any directory.
        if columns:
            raise
        return Partitioning((), tree.files(nested=True))
    if not recursive:
        return partitioning
    if not partitioning.fields:
        return Partitioning((), tree.files(nested=True))
    return replace(partitioning, files=(*partitioning.unread, *partitioning.files), unread=())


# ---- the file to write

_CODECS: Final[Mapping[str, Literal["lz4", "zstd"] | None]] = {"lz4": "lz4", "zstd": "zstd", "none": None}

# Bytes of a stream usually are not kept, so that CPU counts for more
_DEFAULT_CODECS: Final[Mapping[ipc.Format, str]] = {ipc.Format.FILE: "zstd", ipc.Format.STREAM: "lz4"}

_WAY: Final = (
    "give another name, or say --ipc-format file or stream; Parquet, CSV and JSON lines are written by arrowipc convert"
)

# Keys of footer metadata that describes the blocks of that file, so that it must not be copied
_OWN_KEYS: Final = ("spark_arrow_ipc.", ROW_COUNTS_KEY)


_JOINED: Final = "that were joined, or have no rows, is left out: 'arrowipc concat' without --batch-rows copies those with rows as they are"


class _TakesBatches(Protocol):
    def write(self, batch: RecordBatch, /) -> bool: ...


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments for the file to write."""
    parser.add_argument(
        "--ipc-format",
        choices=tuple(form.value for form in ipc.Format),
        help="the format to write; by default that of the name's ending: a file for .arrow, .feather, .ipc or none, a stream "
        "for .arrows and .stream",
    )
    parser.add_argument(
        "--compression",
        choices=tuple(_CODECS),
        default="",
        help="the codec of the buffers (default: zstd, and lz4 for a stream)",
    )


def add_force_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the argument that lets a command replace a file."""
    parser.add_argument(
        "--force", action="store_true", help="replace the file to write if it exists; never one that is read"
    )


def check_target(arguments: argparse.Namespace, target: str, sources: Iterable[Input]) -> None:
    """Check that a file may be written."""
    _refuse_directory(target)
    storage = storage_at(target, arguments.storage)
    if not arguments.force:
        refuse_existing(storage, target)
    for one in sources:
        if one.content is None and not one.is_served and _is_same(one.path, target, storage):
            raise FileExistsError(
                errno.EEXIST, "this file is read; give another name, and rename it afterwards", target
            )


@contextmanager
def open_target(arguments: argparse.Namespace, target: str) -> Iterator[BinaryIO]:
    """Open a file to write, which gets its name when the context ends without an error; ``-`` is stdout."""
    if target == STDIN:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    sink = path_sink(target, dict(arguments.storage))
    try:
        yield sink.file
        # The file is complete: its name appears in one step.
        sink.finish(lambda _: None)
    # Also for Ctrl-C, so that no incomplete file stays.
    except BaseException:
        sink.discard()
        raise


def _is_same(path: str, target: str, storage: Storage) -> bool:
    if is_remote(path) or is_remote(target):
        # Paths of two storages are never one file.
        is_there = place_of(path) is place_of(target)
        return is_there and storage.unique_path(storage.resolve(path)) == storage.unique_path(storage.resolve(target))
    try:
        return Path(path).samefile(storage.resolve(target))
    except OSError:  # the target is a new file
        return False


def format_of(path: str, formats: Mapping[str, str], way: str) -> str:
    """Return the format that the ending of a name stands for; a name without one stands for an Arrow file."""
    ending = ending_of(path)
    name = name_of(path)
    # A name like `.arrow` would be hidden from every reader.
    if name.strip(".") and not name.rpartition(".")[0].strip(".") and name.startswith("."):
        raise OptionError(
            f"this name is an ending with nothing before it, and readers pass over names that begin with a dot; {way}. "
            "Nothing is written",
            path=path,
        )
    # Not silently as Arrow: `out.csv` must hold CSV.
    if ending and ending not in formats:
        endings = ", ".join(f".{each}" for each in formats)
        raise OptionError(
            f"this command writes files whose names end in {endings}, and not in .{cut_repr(ending)[1:-1]}; {way}. Nothing is "
            "written",
            path=path,
        )
    return formats.get(ending, ipc.Format.FILE)


def ending_of(path: str) -> str:
    """Return the ending of a name in lower case, without the dot; empty if it has none."""
    stem, _, ending = name_of(path).rpartition(".")
    return ending.lower() if stem else ""


def check_ending(arguments: argparse.Namespace, path: str) -> None:
    """Raise before anything is read if the name of an Arrow file to write has the ending of another format."""
    _refuse_directory(path)
    if arguments.ipc_format is None:
        format_of(path, ENDINGS, _WAY)


def _refuse_directory(path: str) -> None:
    """Raise if the name of the file to write ends in a slash."""
    # Storages drop the slash, so that the file would get the directory's name.
    if path.endswith(SEPARATOR):
        raise OptionError(
            f"this command writes one file, and a name that ends in {SEPARATOR} is that of a directory; give the file's name, "
            f"such as {path}x.arrow. Nothing is written",
            path=path,
        )


def write_options(arguments: argparse.Namespace, path: str) -> ipc.WriteOptions:
    """Return the options for the file to write at `path`."""
    form = ENDINGS.get(ending_of(path), ipc.Format.FILE)
    return write_options_of(arguments.ipc_format or form, arguments.compression)


def write_options_of(form: str, compression: str) -> ipc.WriteOptions:
    """Return the options for a format and a codec, which may be ``none``, or empty for the format's default."""
    format_ = ipc.Format(form)
    return ipc.WriteOptions(format=format_, compression=_CODECS[compression or _DEFAULT_CODECS[format_]])


def create(arguments: argparse.Namespace, path: str, schema: Schema, pairs: t.CustomMetadata) -> ipc.Writer:
    """Return a writer of a file with pairs in its footer, or of a stream with pairs in its first message."""
    options = write_options(arguments, path)
    storage = dict(arguments.storage)
    if options.format == "stream":
        return ipc.create(path, schema, options, schema_metadata=pairs, storage=storage)
    writer = ipc.create(path, schema, options, storage=storage)
    writer.custom_metadata.update(pairs)
    return writer


def write_all(writer: _TakesBatches, batches: Iterable[RecordBatch]) -> tuple[int, int]:
    """Write batches; return their number and the number of their rows."""
    written = rows = 0
    for batch in batches:
        writer.write(batch)
        written, rows = written + 1, rows + batch.num_rows
    return written, rows


class MetadataCount:
    """Counts the rows of record batches that have custom metadata: when they are read, and when they are written."""

    def __init__(self) -> None:
        self._left = 0

    def read(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Yield the batches that are read."""
        for batch in batches:
            self._left += _rows_with_metadata(batch)
            yield batch

    def count_written(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Yield the batches to write, built from the batches that were read."""
        for batch in batches:
            self._left -= _rows_with_metadata(batch)
            yield batch

    def complain(self, target: str, why: str = _JOINED) -> None:
        """Print one line if metadata was left out."""
        if self._left:
            complain(f"{target}: custom metadata of record batches {why}")


def _rows_with_metadata(batch: RecordBatch) -> int:
    # A batch without rows may have metadata too.
    return max(batch.num_rows, 1) if batch.custom_metadata else 0


def refuse_existing(storage: Storage, path: str) -> None:
    """Raise if a path to write exists."""
    if storage.status(storage.resolve(path), follow_links=False) is not None:
        raise FileExistsError(errno.EEXIST, "files are not overwritten; remove it first, or give another name", path)


def foreign_metadata(pairs: t.CustomMetadata) -> t.CustomMetadata:
    """Return the footer metadata that may be copied to another file."""
    return tuple((key, value) for key, value in pairs if not key.startswith(_OWN_KEYS))
