"""`ExistingFile`: a file of a dataset that stands for all, the schema that they are read with, and how they lie.

Readers take the columns of partitions from the names of directories, and refuse or skip files that lie otherwise. So a
job that keeps existing files must write to the same partition columns. The newest commit record names files, so that
our own datasets are not listed; a dataset without records is listed once, and files whose names end as those of Arrow
come first.

The schema is that of the newest record, as for readers, while files of our writers are there, and else that of the file.

A file without rows that lies in the dataset's directory is a placeholder for the schema: an empty dataset. A partitioned
job replaces it, after a listing: a record names the files of its own job, and others may lie beside them.

`live_files` lists all files that a read sees, for jobs that rewrite them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import Field
from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory, RemovedFile, has_own_name
from spark_arrow_ipc.dataset.commit_log.log import Pending
from spark_arrow_ipc.dataset.commit_log.record import COPIED, Record
from spark_arrow_ipc.dataset.listing.data_file import DataFile, newest_first
from spark_arrow_ipc.dataset.listing.directory import Listing, list_directory, walk_levels
from spark_arrow_ipc.dataset.listing.partition_values import unescape_path_name
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write.hugging_face_layout import check_none_named
from spark_arrow_ipc.dataset.write.nested import check_listed
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    FileChangedError,
    NoFilesError,
    NotArrowError,
    OptionError,
    UnsupportedError,
    error_context,
)
from spark_arrow_ipc.ipc.columns.projection import select_known_columns
from spark_arrow_ipc.ipc.constants import ENDINGS
from spark_arrow_ipc.ipc.messages.message import read_head, sniff
from spark_arrow_ipc.storage.paths import join, name_of, parent, relative
from spark_arrow_ipc.table.encoded_schema import decode_schema


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file that a reader sees."""

    path: str  # relative to the dataset's directory
    nbytes: int
    mtime_ns: int  # time of the last modification, nanoseconds since 1970
    version: str = ""  # differs whenever the bytes do (`Status.version`); empty where a storage has no such thing

    def __reduce__(self) -> tuple[type[LiveFile], tuple[str | int, ...]]:
        # Half the pickled size of a slotted dataclass: an overwrite of 20,000 files notes them all.
        state = (self.path, self.nbytes, self.mtime_ns)
        return LiveFile, (*state, self.version) if self.version else state

    def as_removed(self) -> RemovedFile:
        """Return the file as the record that removes it notes it."""
        return RemovedFile(self.path, self.nbytes, self.mtime_ns, self.version)


def live_files(
    dataset: DatasetDirectory, directories: Collection[str] | None = None, *, deep: bool = False
) -> tuple[LiveFile, ...]:
    """Return the visible files of a dataset and its partitions, or of some relative directories, sorted by path.

    With `deep` also those below the directories: readers give the files of ``k=1/sub`` the value of ``k=1``. Directories that
    are datasets, and links to those of partitions, are errors.
    """
    files: list[LiveFile] = []

    def below(inner: str) -> list[str]:
        listing = _listing(dataset, inner)
        check_listed(dataset, inner, listing)
        if not inner or "=" in inner:
            files.extend(
                LiveFile(join(inner, name_of(file.path)), file.nbytes, file.mtime_ns, file.version)
                for file in listing.files
            )
        return _below(dataset, inner, listing) if directories is None or (deep and inner) else []

    walk_levels([""] if directories is None else sorted(directories), below, waits=dataset.storage.traits.waits)
    return tuple(sorted(files, key=lambda file: file.path))


def _listing(dataset: DatasetDirectory, inner: str) -> Listing:
    try:
        return list_directory(dataset.storage, dataset.path(inner))
    except FileNotFoundError:
        if inner:  # it was deleted with its last file, or the job will make it
            return Listing()
        raise


def _below(dataset: DatasetDirectory, inner: str, listing: Listing) -> list[str]:
    """Return the relative directories below a directory, without links; `UnsupportedError` if one is a partition."""
    below = [join(inner, name) for name in listing.directories]
    for path in below:
        if name_of(path) in listing.links and "=" in path:
            raise UnsupportedError(
                "an overwrite does not follow links, and this directory of a partition is one; remove it or write "
                "elsewhere",
                path=dataset.path(path),
            )
    return [path for path in below if name_of(path) not in listing.links]


class Bin(NamedTuple):
    """Files that become one, and their directory relative to the dataset's."""

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
    """The schema that a plain read of a dataset has, and the path of what says so."""

    schema: Schema
    path: str


@dataclass(frozen=True, slots=True)
class ExistingFile:
    """The newest file of a dataset."""

    file: DataFile  # as a listing of the storage gives it
    path: str  # relative to the dataset's directory
    columns: tuple[str, ...] = ()  # names of the partition columns in its path, outermost first
    is_alone: bool = False  # whether it is the only file of the dataset, as far as is known
    rows: int | None = None  # None if unknown
    is_beside_own: bool = True  # whether files of our writers are there

    def as_live_file(self) -> LiveFile:
        """Return the file as a snapshot notes it."""
        return LiveFile(self.path, self.file.nbytes, self.file.mtime_ns, self.file.version)


def existing_file(dataset: DatasetDirectory, record: Record | None) -> ExistingFile | None:
    """Return the newest file that a reader sees, or None if there is none.

    At most two calls of the storage if `record` names files, else one listing of the dataset.
    """
    if record is not None and record.adds and record.mode != COPIED:  # which knows neither rows nor what is newest
        add = record.adds[-1]
        try:
            there = Pending(dataset, record).file(add)
        except (FileNotFoundError, FileChangedError):
            pass  # changed by a writer that makes no records
        else:
            file = DataFile(there.path, there.nbytes, there.mtime_ns, (), there.staged, there.version)
            return ExistingFile(file, add.final, partition_columns(parent(add.final)), len(record.adds) == 1, add.rows)
    return _listed(dataset)


def is_empty(dataset: DatasetDirectory) -> bool:
    """Return whether a reader sees no file in a dataset, and False where that cannot be told. One listing of it."""
    with suppress(ArrowIpcError, OSError):
        return _listed(dataset) is None
    return False


def _listed(dataset: DatasetDirectory) -> ExistingFile | None:
    try:
        tree = list_tree([dataset.root], storage=dataset.storage.inside(None))  # it looks for records above, too
    except NoFilesError:  # where directories are prefixes, one without files is not there
        return None
    check_none_named(dataset, [name_of(file.path) for file in tree.leaves.get(dataset.root, ())])
    columns = {directory: partition_columns(relative(directory, dataset.root)) for directory in tree.leaves}
    # As for readers: files beside the directories of partitions do not count, nor do those in other subdirectories.
    read = [directory for directory in tree.leaves if columns[directory]] or [dataset.root]
    files = [file for directory in read for file in tree.leaves.get(directory, ())]
    if not files:
        return None
    newest = next(newest_first([file for file in files if _is_named_as_arrow(file)] or files))
    return ExistingFile(
        newest,
        relative(newest.path, dataset.root),
        columns.get(parent(newest.path), ()),
        len(files) == 1,
        is_beside_own=any(has_own_name(file.path) for file in files),
    )


def existing_schema(existing: ExistingFile, dataset: DatasetDirectory, record: Record | None) -> ExistingSchema | None:
    """Return the schema that a plain read of the dataset has; None, with a warning, if that cannot be known.

    Opens the file if the record has no schema.
    """
    recorded = None if record is None else decode_schema(record.schema, dataset.root)
    if recorded is not None and existing.is_beside_own:
        return ExistingSchema(recorded, dataset.root)
    path = existing.file.path
    try:
        with (
            error_context(path=path),
            closing(existing.file.open(dataset.storage)) as source,
            ipc.open(source, columns=select_known_columns) as reader,
        ):
            return ExistingSchema(reader.file_schema, path)
    except (ArrowIpcError, OSError) as error:
        # A text file of another program does not make the columns of the record be forgotten.
        if recorded is not None:
            return ExistingSchema(recorded, dataset.root)
        _log.warning("the schema of the newest file is not compared with that of the job: %s", error)
        return None


def _is_named_as_arrow(file: DataFile) -> bool:
    return name_of(file.path).rpartition(".")[2].lower() in ENDINGS


def check_is_arrow(existing: ExistingFile, dataset: DatasetDirectory) -> None:
    """Raise an `OptionError` if a listed file is not Arrow by its first bytes: no reader could read new files beside it."""
    if existing.rows is not None:  # from a commit record
        return
    try:
        with closing(existing.file.open(dataset.storage)) as source:
            sniff(read_head(source), source.nbytes)
    except NotArrowError as error:
        raise OptionError(
            f"the directory holds files of another format: {existing.path} ({error.found}). A job that keeps them would "
            "leave a directory that no reader can read: write to another directory, replace everything by mode "
            "overwrite, or set schemaCheck=none and read with pathGlobFilter. Nothing is written",
            path=dataset.root,
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
    existing: ExistingFile | None, partition_by: Sequence[Field], dataset: DatasetDirectory
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
            path=dataset.root,
        )
    if not existing.columns and existing.is_alone and not _count_rows(existing, dataset):
        listed = existing if existing.rows is None else _listed(dataset)
        if listed is None or (listed.is_alone and listed.path == existing.path):
            return existing
        return check_partition_columns_there(listed, partition_by, dataset)
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
        path=dataset.root,
    )


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f"`{name.replace('`', '``')}`"


def _count_rows(existing: ExistingFile, dataset: DatasetDirectory) -> int:
    if existing.rows is not None:
        return existing.rows
    with error_context(path=existing.file.path), closing(existing.file.open(dataset.storage)) as source:
        reader = ipc.open(source, columns=[])
        return sum(batch.rows for batch in reader.read_headers())
