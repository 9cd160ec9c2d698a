"""The files that a command reads: of paths, directories, patterns and stdin, with the partition columns of their paths.

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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import BinaryIO, Final, TypeAlias, cast

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.cli.shared.progress import count_files
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.globs import is_pattern
from spark_arrow_ipc.dataset.listing.hive import Partitioning, discover
from spark_arrow_ipc.dataset.listing.tree import Tree, list_tree
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    FileChangedError,
    NoFilesError,
    SchemaMismatchError,
    UnsupportedError,
    printable,
)
from spark_arrow_ipc.ipc.bytes.source import Openable, SeekableSource
from spark_arrow_ipc.ipc.dissociated.schemes import is_served
from spark_arrow_ipc.storage.byte_source import ByteSource
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import parent, relative
from spark_arrow_ipc.storage.storage import Storage
from spark_arrow_ipc.storage.url import is_remote


def add_storage_argument(
    parser: argparse.ArgumentParser,
    name: str = "--storage",
    of: str = "an option of the object store of a URL, such as region=eu-central-1",
) -> None:
    """Declare the argument for the options of an object store."""
    parser.add_argument(
        name,
        action="append",
        default=[],
        type=_pair,
        metavar="NAME=VALUE",
        help=f"{of}; may be repeated. Keys and passwords are better left to the environment, as other users see arguments",
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError("expected NAME=VALUE, such as region=eu-central-1")
    return name, value


def storage_at(path: str, options: Sequence[tuple[str, str]]) -> Storage:
    """Return the storage of a path, with the options unless it is local."""
    return storage_of(path, tuple(options) if is_remote(path) else ())[0]


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
        """True if it is a table of a server, and no file."""
        return is_served(self.path)

    def openable(self) -> Openable:
        """Return a path or a file object at its first byte, for the codec. Use one before you ask for the next."""
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
    refused: Refused | None = None,
    storage: Sequence[tuple[str, str]] = (),
) -> Iterator[Input]:
    """Yield the files that paths stand for, in the order of the paths; those of a directory by name.

    With `columns`, directories that do not agree on partition columns are an error. Without `refused`, so is a path that
    cannot be listed. `storage` has options of the object stores of URLs, beside which local paths may stand.
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


def named_by(
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


def given_token() -> str | None:
    """Return the token for servers, of the environment."""
    return os.environ.get(TOKEN_VARIABLE)


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
        return Partitioning((), tree.files(nested=True))
    if not recursive:
        return partitioning
    if not partitioning.fields:
        return Partitioning((), tree.files(nested=True))
    return replace(partitioning, files=(*partitioning.unread, *partitioning.files), unread=())
