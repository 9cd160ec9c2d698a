"""Refuse a dataset inside of another one: jobs of two chains over the same files would not know of each other.

A directory is a dataset once a job has been committed in it. A job looks for datasets above its own when it is planned:
one call for each directory above, at once where calls wait. Datasets below are in the listings that overwrites make
anyway. The first job of a dataset looks both ways once more before its record, also for jobs that have only staged
files: of two first jobs, one above the other, both have staged their files before they look, so that one sees the other.

A hidden directory (``lake/_tables/x``) is not a part of the outer dataset for anybody, and is not looked at.
"""

from __future__ import annotations

from contextlib import suppress

from spark_arrow_ipc.dataset.commit_log.dataset_directory import (
    COMMITS_DIRECTORY,
    STAGING_DIRECTORY,
    DatasetDirectory,
    has_any,
)
from spark_arrow_ipc.dataset.commit_log.log import newest_record
from spark_arrow_ipc.dataset.commit_log.record import Record
from spark_arrow_ipc.dataset.listing.directory import Listing, is_hidden, read_directory, walk_levels
from spark_arrow_ipc.dataset.listing.partition_values import unescape_path_name
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError
from spark_arrow_ipc.storage.paths import SEPARATOR, above, join, relative
from spark_arrow_ipc.storage.storage import Storage, each

_OURS = "_ipc_"
"""Prefix of the directories that a dataset makes for itself."""


def check_alone(dataset: DatasetDirectory, newest: Record | None = None) -> None:
    """Raise before a dataset's first record if there is another above or below, or is about to be: then none can begin."""
    if _is_begun(newest):
        return
    check_none_above(dataset, first=True)
    check_none_below(dataset, first=True)


def check_none_above(dataset: DatasetDirectory, *, first: bool = False) -> None:
    """Raise if a directory above is a dataset; with `first` also if it is about to become one."""
    outer = dataset_above(dataset)
    if outer is not None:
        columns = [unescape_path_name(part.partition("=")[0]) for part in _parts(dataset, outer) if "=" in part]
        way = f" with partitionBy={','.join(columns)}" if columns else ""
        dynamic = (
            "; mode overwrite with partitionOverwriteMode=dynamic replaces single partitions of it" if columns else ""
        )
        raise CommitError(
            f"this directory lies inside of the dataset {outer}, and jobs of the two would not know of each other: write to "
            f"{outer}{way}{dynamic}; or give a directory outside of it. Nothing is written",
            path=dataset.root,
        )
    if first:
        for directory in _above(dataset):
            if _has_staged(dataset.storage.inside(None), directory):
                raise _runs(dataset, directory)


def dataset_above(dataset: DatasetDirectory) -> str | None:
    """Return the nearest directory above a dataset's that is a dataset itself and has it in its tree, or None.

    One call of the storage for each directory above. One that may not be read is not a dataset of ours.
    """
    storage = dataset.storage.inside(None)
    directories = _above(dataset)
    having: set[str] = set()

    def ask(directory: str) -> None:
        if _has_any(storage, join(directory, COMMITS_DIRECTORY)) and is_dataset(storage, directory):
            having.add(directory)

    each(ask, directories, waits=storage.traits.waits)
    return next((directory for directory in directories if directory in having), None)


def check_none_below(dataset: DatasetDirectory, *, first: bool = False) -> None:
    """Raise if a directory of a dataset is a dataset itself; with `first` also if it is about to become one.

    Lists the directories, each level at once where calls wait. Links are not followed: what they lead to lies elsewhere.
    """

    def below(inner: str) -> list[str]:
        try:
            listing = read_directory(dataset.storage, dataset.path(inner))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return []
        check_listed(dataset, inner, listing, first=first)
        return [join(inner, name) for name in listing.directories if name not in listing.links]

    walk_levels([""], below, waits=dataset.storage.traits.waits)


def check_listed(dataset: DatasetDirectory, inner: str, listing: Listing, *, first: bool = False) -> None:
    """Raise if a directory of a dataset, which was listed, is a dataset itself."""
    if not inner:
        return
    path = dataset.path(inner)
    if listing.committed and is_dataset(dataset.storage, path):
        raise CommitError(
            f"the directory {path} in it is a dataset of its own, and jobs of the two would not know of each other: to make "
            f"it a part of this one, run 'arrowipc vacuum {path}' and remove {join(path, COMMITS_DIRECTORY)}; or write to a "
            "directory outside of it. Nothing is written or replaced",
            path=dataset.root,
        )
    if first and listing.staging and _has_staged(dataset.storage, path):
        raise _runs(dataset, path)


def _runs(dataset: DatasetDirectory, directory: str) -> ConcurrentWriteError:
    return ConcurrentWriteError(
        f"a job runs in {directory}, or has died there, and would make a dataset of it: one of the two would lie inside of the "
        f"other. Wait for it, or run 'arrowipc vacuum --older-than 0 {directory}', and try again; nothing is published",
        path=dataset.root,
    )


def _above(dataset: DatasetDirectory) -> list[str]:
    """Return the directories above a dataset's, innermost first, also of where links lead, in whose tree it is visible."""
    visible: dict[str, None] = {}
    for root in (dataset.root, dataset.storage.inside(None).real_path(dataset.root)):
        for directory in above(root):
            parts = relative(root, directory).split(SEPARATOR)
            if not any(is_hidden(part) and not part.startswith(_OURS) for part in parts):
                visible[directory] = None
    return [*visible]


def _parts(dataset: DatasetDirectory, outer: str) -> list[str]:
    """Return the names between a directory above and a dataset's own."""
    path = relative(dataset.root, outer)
    if path == dataset.root:
        path = relative(dataset.storage.inside(None).real_path(dataset.root), outer)
    return path.split(SEPARATOR)


def _is_begun(newest: Record | None) -> bool:
    """Return whether a job has been committed in a chain; a withdrawn first job leaves one, too."""
    return newest is not None and bool(newest.jobs)


def is_dataset(storage: Storage, directory: str) -> bool:
    """Return whether a job has been committed in a directory that has records, also where they cannot be read."""
    try:
        return _is_begun(newest_record(DatasetDirectory(storage, directory))[1])
    except CommitError:
        return True


def _has_staged(storage: Storage, directory: str) -> bool:
    return _has_any(storage, join(directory, STAGING_DIRECTORY))


def _has_any(storage: Storage, directory: str) -> bool:
    """Return whether anything is in a directory; no if that may not be known."""
    with suppress(NotADirectoryError, PermissionError):
        return has_any(storage, directory)
    return False
