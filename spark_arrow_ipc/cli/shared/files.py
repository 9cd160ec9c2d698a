"""Arguments and checks of commands that write a file.

Strategy
--------
A command writes new files and never overwrites one; the format of a file follows from its name by default.
"""

from __future__ import annotations

import argparse
import errno
from typing import Final, Literal

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.storage.storage import Storage

__all__ = [
    "add_output_arguments",
    "create",
    "foreign_metadata",
    "refuse_existing",
    "write_options",
]

_STREAM_SUFFIXES: Final = (".arrows", ".stream")
"""Endings that Arrow recommends for streams, or that others use; all others are files."""

_OWN_KEYS: Final = "spark_arrow_ipc."
"""Keys of footer metadata that describes the blocks of that file, so that it must not be copied."""


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


def create(arguments: argparse.Namespace, path: str, schema: Schema, pairs: t.CustomMetadata) -> ipc.Writer:
    """Return a writer of a file with pairs in its footer, or of a stream with them in its first message."""
    options = write_options(arguments, path)
    storage = dict(arguments.storage)
    if options.format == "stream":
        return ipc.create(path, schema, options, schema_metadata=pairs, storage=storage)
    writer = ipc.create(path, schema, options, storage=storage)
    writer.custom_metadata.update(pairs)
    return writer


def refuse_existing(storage: Storage, path: str) -> None:
    """Raise if a path to write exists.

    Raises
    ------
    FileExistsError
        It exists.
    """
    if storage.status(storage.resolve(path), follow_links=False) is not None:
        raise FileExistsError(errno.EEXIST, "files are never overwritten; remove it first, or give another name", path)


def foreign_metadata(pairs: t.CustomMetadata) -> t.CustomMetadata:
    """Return the footer metadata that may be copied to another file."""
    return tuple((key, value) for key, value in pairs if not key.startswith(_OWN_KEYS))
