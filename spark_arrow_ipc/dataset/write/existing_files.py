"""`ExistingFile`: a file of a table that stands for all, the schema that they are read with, and how they are partitioned.

Readers take partition columns from the names of directories, and refuse or skip files in other directories. So a job that
keeps existing files must write to the same partition columns. The log names files and has their schema, so that a table
with managed files is not listed; other directories are listed once, and files with the usual endings of Arrow count first.

A table that consists of one file without rows in its directory is empty: the file is a placeholder for the schema. A
partitioned job replaces it.

`live_files` returns all files that a read sees, for jobs that replace them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final, NamedTuple

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import Field
from spark_arrow_ipc.dataset.listing.data_file import DataFile, newest_first
from spark_arrow_ipc.dataset.listing.partition_values import unescape_path_name
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write.hugging_face_layout import check_none_named
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    NoFilesError,
    NotArrowError,
    OptionError,
    UnsupportedError,
    error_context,
)
from spark_arrow_ipc.ipc.columns.projection import select_known_columns
from spark_arrow_ipc.ipc.constants import ENDINGS
from spark_arrow_ipc.ipc.messages.message import read_head, sniff
from spark_arrow_ipc.storage.byte_source import ByteSource
from spark_arrow_ipc.storage.paths import name_of, parent, relative
from spark_arrow_ipc.table.encoded_schema import decode_schema
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.snapshot import Snapshot
from spark_arrow_ipc.table.state import State


class LiveFile(NamedTuple):
    """A file that a reader sees."""

    path: str  # relative to the table's directory
    nbytes: int
    mtime_ns: int  # time of the last modification, nanoseconds since 1970
    version: str = ""  # differs whenever the bytes do (`Status.version`); empty where a storage has no such thing
    is_link: bool = False


def live_files(snapshot: Snapshot) -> tuple[LiveFile, ...]:
    """Return the files of a snapshot that a reader sees, sorted by path."""
    # As for readers: files in other subdirectories than those of partitions do not count.
    unmanaged = {path: status for path, status in snapshot.unmanaged.items() if "/" not in path or "=" in parent(path)}
    return tuple(
        LiveFile(path, status.nbytes, status.mtime_ns, status.version, status.is_link)
        for path, status in sorted({**snapshot.managed, **unmanaged}.items())
    )


def check_no_links(directory: TableDirectory, files: Iterable[LiveFile]) -> None:
    """Raise an `UnsupportedError` if a file that a job replaces is a link: the log cannot tell what it leads to."""
    for file in files:
        if file.is_link:
            raise UnsupportedError(
                "a job does not replace files that are links, and this is one; remove it or put the file there. Nothing is "
                "published",
                path=directory.path(file.path),
            )


class Bin(NamedTuple):
    """Files that become one, and their directory relative to the table's."""

    directory: str
    files: tuple[LiveFile, ...]


def fill_bins(files: Iterable[LiveFile], nbytes: int) -> list[Bin]:
    """Return the bins of at least two files, each up to a size, sorted by directory. O(files log files)."""
    # A file is small below half of the size, so every bin but the last of a directory makes a file that is not small any
    # more, and a second run finds little to do. In the order in which they were written; rows never change their directory,
    # because it says which partition they are of.
    small = sorted(
        (file for file in files if 2 * file.nbytes < nbytes),
        key=lambda file: (parent(file.path), file.mtime_ns, file.path),
    )
    bins: list[Bin] = []
    held: list[LiveFile] = []
    total = 0
    for file in small:
        if held and (parent(file.path) != parent(held[0].path) or total + file.nbytes > nbytes):
            bins.append(Bin(parent(held[0].path), tuple(held)))
            held, total = [], 0
        held.append(file)
        total += file.nbytes
    if held:
        bins.append(Bin(parent(held[0].path), tuple(held)))
    return [each for each in bins if len(each.files) > 1]


_log: Final = logging.getLogger(__name__)


class ExistingSchema(NamedTuple):
    """The schema that a plain read of a table has, and the path of the log or file that has it."""

    schema: Schema
    path: str


@dataclass(frozen=True, slots=True)
class ExistingFile:
    """A file of a table: the last one that its log counts, or without any the newest of a listing."""

    path: str  # relative to the table's directory
    columns: tuple[str, ...]  # names of the partition columns in its path, outermost first
    is_alone: bool  # whether it is the only file of the table, as far as is known
    rows: int | None = None  # None if unknown
    listed: DataFile | None = None  # of a listing; None for a managed file


def existing_file(directory: TableDirectory, state: State | None) -> ExistingFile | None:
    """Return a file that a reader sees, or None if there is none. One listing of the table unless its log has files."""
    if state is not None and len(state.files):
        path = state.files.paths[-1]
        # In the order of their entries, and an append may have added an empty one.
        rows = int(state.files.rows[-1])
        return ExistingFile(path, partition_columns(parent(path)), len(state.files) == 1, rows)
    return _list_newest(directory)


def _list_newest(directory: TableDirectory) -> ExistingFile | None:
    try:
        tree = list_tree([directory.root], storage=directory.storage.inside(None))
    except NoFilesError:  # where directories are prefixes, one without files does not exist
        return None
    check_none_named(directory, [name_of(file.path) for file in tree.leaves.get(directory.root, ())])
    columns = {path: partition_columns(relative(path, directory.root)) for path in tree.leaves}
    # As for readers: files beside the directories of partitions do not count, nor do those in other subdirectories.
    read = [path for path in tree.leaves if columns[path]] or [directory.root]
    files = [file for path in read for file in tree.leaves.get(path, ())]
    if not files:
        return None
    arrow_files = [file for file in files if name_of(file.path).rpartition(".")[2].lower() in ENDINGS]
    newest = next(newest_first(arrow_files or files))
    return ExistingFile(
        relative(newest.path, directory.root), columns.get(parent(newest.path), ()), len(files) == 1, listed=newest
    )


def existing_schema(existing: ExistingFile, directory: TableDirectory, state: State | None) -> ExistingSchema | None:
    """Return the schema that a plain read of the table has; None, with a warning, if that cannot be known.

    Opens the file if the log has no schema.
    """
    logged = None if state is None else decode_schema(state.schema, directory.root)
    if logged is not None and existing.listed is None:
        return ExistingSchema(logged, directory.root)
    path = directory.path(existing.path)
    try:
        with (
            error_context(path=path),
            closing(_open(existing, directory)) as source,
            ipc.open(source, columns=select_known_columns) as reader,
        ):
            return ExistingSchema(reader.file_schema, path)
    except (ArrowIpcError, OSError) as error:
        _log.warning("the schema of the newest file is not compared with that of the job: %s", error)
        return None


def _open(existing: ExistingFile, directory: TableDirectory) -> ByteSource:
    if existing.listed is not None:
        return existing.listed.open(directory.storage)
    return directory.storage.open(directory.path(existing.path))


def check_is_arrow(existing: ExistingFile, directory: TableDirectory) -> None:
    """Raise an `OptionError` if a listed file is not Arrow by its first bytes: no reader could read new files beside it."""
    if existing.listed is None:
        return
    try:
        with closing(existing.listed.open(directory.storage)) as source:
            sniff(read_head(source), source.nbytes)
    except NotArrowError as error:
        raise OptionError(
            f"the directory holds files of another format: {existing.path} ({error.found}). A job that keeps them would "
            "leave a directory that no reader can read: write to another directory, replace everything by mode "
            "overwrite, or set schemaCheck=none and read with pathGlobFilter. Nothing is written",
            path=directory.root,
        ) from error
    except (ArrowIpcError, OSError):
        return


def partition_columns(directory: str) -> tuple[str, ...]:
    """Return the names of the partition columns in a relative directory; none if another directory lies above one."""
    parts = directory.split("/") if "=" in directory else []
    while parts and "=" not in parts[-1]:  # as for readers: a directory in a partition has its columns
        parts.pop()
    return tuple(unescape_path_name(part.partition("=")[0]) for part in parts) if all("=" in p for p in parts) else ()


def check_partition_columns_there(
    existing: ExistingFile | None, partition_by: Sequence[Field], directory: TableDirectory
) -> ExistingFile | None:
    """Return the placeholder that new files replace, or None; `OptionError` if the partition columns differ."""
    names = tuple(field.name for field in partition_by)
    if existing is None or existing.columns == names:
        return None
    if tuple(map(str.lower, existing.columns)) == tuple(map(str.lower, names)):
        raise OptionError(
            f"the directory is partitioned by {', '.join(existing.columns)} ({existing.path}), and this job by "
            f"{', '.join(names)}: names that differ only in case are one column for Spark and two for pyarrow and polars. "
            "Rename the columns of the DataFrame as those of the directory, or write to another directory. Nothing is "
            "written",
            path=directory.root,
        )
    if not existing.columns and existing.is_alone and not _count_rows(existing, directory):
        # The log counts one file, and there may be others of other programs.
        listed = existing if existing.listed is not None else _list_newest(directory)
        if listed is None or (listed.is_alone and listed.path == existing.path):
            return existing
        return check_partition_columns_there(listed, partition_by, directory)
    if not existing.columns:
        state, way = "is not partitioned", "leave partitionBy out"
    else:
        state = f"is partitioned by {', '.join(existing.columns)}"
        way = f"write with partitionBy={','.join(map(_quoted, existing.columns))}"
    own = f"partitionBy={','.join(map(_quoted, names))}" if names else "no partitionBy"
    raise OptionError(
        f"the directory {state} ({existing.path}), and this job has {own}: readers would not see all rows. To add to "
        f"it, {way}; to replace everything, use mode overwrite with partitionOverwriteMode=static; or write to another "
        "directory. Nothing is written",
        path=directory.root,
    )


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f"`{name.replace('`', '``')}`"


def _count_rows(existing: ExistingFile, directory: TableDirectory) -> int:
    if existing.rows is not None:
        return existing.rows
    with error_context(path=directory.path(existing.path)), closing(_open(existing, directory)) as source:
        reader = ipc.open(source, columns=[])
        return sum(batch.rows for batch in reader.read_headers())
