"""Arguments and checks of commands that write a file.

A file is written under another name in its directory, and gets its own when it is whole. Commands write new files;
``--force`` replaces one, which is never a file that is read. The format of a file follows from its name by default.
"""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Literal, Protocol

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.cli.shared.inputs import STDIN, Input, storage_at
from spark_arrow_ipc.errors import OptionError, cut_repr
from spark_arrow_ipc.ipc.bytes.sinks import path_sink
from spark_arrow_ipc.ipc.constants import ENDINGS
from spark_arrow_ipc.storage.paths import SEPARATOR, name_of
from spark_arrow_ipc.storage.storage import Storage
from spark_arrow_ipc.storage.url import is_remote, place_of

_CODECS: Final[Mapping[str, Literal["lz4", "zstd"] | None]] = {"lz4": "lz4", "zstd": "zstd", "none": None}

_WAY: Final = (
    "give another name, or say --ipc-format file or stream; Parquet, CSV and JSON lines are written by arrowipc convert"
)

_OWN_KEYS: Final = "spark_arrow_ipc."
"""Keys of footer metadata that describes the blocks of that file, so that it must not be copied."""


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
        "--compression", choices=tuple(_CODECS), default="lz4", help="the codec of the buffers (default: lz4)"
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
        sink.finish(lambda _: None)
    except BaseException:
        sink.discard()
        raise


def _is_same(path: str, target: str, storage: Storage) -> bool:
    if is_remote(path) or is_remote(target):
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
    if name.strip(".") and not name.rpartition(".")[0].strip(".") and name.startswith("."):
        raise OptionError(
            f"this name is an ending with nothing before it, and readers pass over names that begin with a dot; {way}. "
            "Nothing is written",
            path=path,
        )
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
    """Raise before anything is read if the name of an Arrow file to write says that it is something else."""
    _refuse_directory(path)
    if arguments.ipc_format is None:
        format_of(path, ENDINGS, _WAY)


def _refuse_directory(path: str) -> None:
    """Raise if a name ends in a slash: one file is written, and its name would be that of the directory."""
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
    """Return the options for a format and a codec, which may be ``none``."""
    return ipc.WriteOptions(format=ipc.Format(form), compression=_CODECS[compression])


def create(arguments: argparse.Namespace, path: str, schema: Schema, pairs: t.CustomMetadata) -> ipc.Writer:
    """Return a writer of a file with pairs in its footer, or of a stream with them in its first message."""
    options = write_options(arguments, path)
    storage = dict(arguments.storage)
    if options.format == "stream":
        return ipc.create(path, schema, options, schema_metadata=pairs, storage=storage)
    writer = ipc.create(path, schema, options, storage=storage)
    writer.custom_metadata.update(pairs)
    return writer


def write_all(writer: _TakesBatches, batches: Iterable[RecordBatch]) -> tuple[int, int]:
    """Write batches; return their number and that of their rows."""
    written = rows = 0
    for batch in batches:
        writer.write(batch)
        written, rows = written + 1, rows + batch.num_rows
    return written, rows


def refuse_existing(storage: Storage, path: str) -> None:
    """Raise if a path to write exists."""
    if storage.status(storage.resolve(path), follow_links=False) is not None:
        raise FileExistsError(errno.EEXIST, "files are not overwritten; remove it first, or give another name", path)


def foreign_metadata(pairs: t.CustomMetadata) -> t.CustomMetadata:
    """Return the footer metadata that may be copied to another file."""
    return tuple((key, value) for key, value in pairs if not key.startswith(_OWN_KEYS))
