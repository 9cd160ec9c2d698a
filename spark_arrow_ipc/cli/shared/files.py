"""Arguments and checks of commands that read several files or write one.

Strategy
--------
Paths are those of Spark's reader: files, directories and patterns, without hidden names. A command writes one new
file and never overwrites one; its format follows from its name by default.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Iterator
from typing import Final, Literal

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.cli.shared import render
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
"""Endings that Arrow recommends for streams, or that others use; all others are files."""

_OWN_KEYS: Final = "spark_arrow_ipc."
"""Keys of footer metadata that describes the blocks of that file, so that it must not be copied."""


def add_path_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments for the paths to read."""
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="Arrow IPC files and streams, directories of them, and patterns"
    )
    parser.add_argument("-r", "--recursive", action="store_true", help="also the files below subdirectories")


def each_file(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the path of each given file; those of a directory in the order of their names.

    Raises
    ------
    ArrowIpcError, OSError
        A path does not exist or matches nothing.
    """
    for path in arguments.paths:
        yield from (file.place() for file in list_files([path], recursive=arguments.recursive))


def complain(error: ArrowIpcError | OSError) -> None:
    """Print an error of a file on stderr, in one line."""
    print(f"arrowipc: {render.printable(str(error))}", file=sys.stderr)


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments for the file to write."""
    parser.add_argument(
        "--ipc-format",
        choices=tuple(form.value for form in ipc.Format),
        help=f"the format to write; by default a stream where the name ends in {' or '.join(_STREAM_SUFFIXES)}, else a file",
    )
    parser.add_argument(
        "--compression", choices=("lz4", "zstd", "none"), default="lz4", help="the codec of the buffers (default: lz4)"
    )


def write_options(arguments: argparse.Namespace, path: str) -> ipc.WriteOptions:
    """Return the options for the file to write at `path`."""
    form: Literal["file", "stream"] = "stream" if path.endswith(_STREAM_SUFFIXES) else "file"
    compression = arguments.compression
    return ipc.WriteOptions(
        format=arguments.ipc_format or form, compression=None if compression == "none" else compression
    )


def refuse_existing(path: str) -> None:
    """Raise if a path to write exists.

    Raises
    ------
    FileExistsError
        It exists.
    """
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, "files are never overwritten; remove it first, or give another name", path)


def foreign_metadata(pairs: t.CustomMetadata) -> t.CustomMetadata:
    """Return the footer metadata that may be copied to another file."""
    return tuple((key, value) for key, value in pairs if not key.startswith(_OWN_KEYS))
