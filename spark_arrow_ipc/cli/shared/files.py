"""What commands share that read several files, or write one.

Strategy
--------
Paths are what Spark's reader takes: files, directories and patterns, hidden names left out. What is written is one
new file: none is ever overwritten, and its format follows its name where nothing is asked for.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.cli.shared import render
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.tree import list_files
from spark_arrow_ipc.errors import ArrowIpcError

__all__ = [
    "add_output_arguments",
    "add_path_arguments",
    "complain",
    "each_file",
    "foreign_metadata",
    "refuse_existing",
    "write_options",
]

_STREAM_SUFFIXES: Final = (".arrows", ".stream")
"""Names that Arrow recommends for streams, or that others give them; all others are files."""

_OWN_KEYS: Final = "spark_arrow_ipc."
"""What this package notes in a footer is about the blocks of that file, and true of no other."""


def add_path_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the paths that a command reads."""
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="Arrow IPC files and streams, directories of them, and patterns"
    )
    parser.add_argument("-r", "--recursive", action="store_true", help="also the files below subdirectories")


def each_file(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the path of each file that is named; files of one directory in the order of their names.

    Raises
    ------
    ArrowIpcError, OSError
        A path names nothing.
    """
    for path in arguments.paths:
        yield from map(_place, list_files([path], recursive=arguments.recursive))


def _place(file: DataFile) -> str:
    """Return where a file lies: one that is committed and not renamed yet, still among the staged ones."""
    return file.path if file.staged is None or Path(file.path).exists() else file.staged


def complain(error: ArrowIpcError | OSError) -> None:
    """Say on stderr what is wrong with a file, in one line."""
    print(f"arrowipc: {render.printable(str(error))}", file=sys.stderr)


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how a file is written."""
    parser.add_argument(
        "--ipc-format",
        choices=tuple(form.value for form in ipc.Format),
        help=f"what is written; by default a stream where the name ends in {' or '.join(_STREAM_SUFFIXES)}, else a file",
    )
    parser.add_argument(
        "--compression", choices=("lz4", "zstd", "none"), default="lz4", help="of the buffers (default: lz4)"
    )


def write_options(arguments: argparse.Namespace, path: str) -> ipc.WriteOptions:
    """Return how the file at `path` is written."""
    form: Literal["file", "stream"] = "stream" if path.endswith(_STREAM_SUFFIXES) else "file"
    compression = arguments.compression
    return ipc.WriteOptions(
        format=arguments.ipc_format or form, compression=None if compression == "none" else compression
    )


def refuse_existing(path: str) -> None:
    """Raise where something stands at a path that is to be written.

    Raises
    ------
    FileExistsError
        Something does.
    """
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, "this is never overwritten; remove it first, or give another name", path)


def foreign_metadata(pairs: t.CustomMetadata) -> t.CustomMetadata:
    """Return the pairs of a footer that may be copied to another file."""
    return tuple((key, value) for key, value in pairs if not key.startswith(_OWN_KEYS))
