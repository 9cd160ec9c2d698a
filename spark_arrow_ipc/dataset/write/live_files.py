"""The files of a dataset that a reader sees, as a commit compares them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.listing.directory import Listing, list_directory
from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.storage.paths import join, name_of

__all__ = ["LiveFile", "live_files", "shown"]

_NAMES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file that a reader sees.

    Parameters
    ----------
    path
        Relative to the dataset's directory.
    nbytes, mtime_ns
        Its size and the time of its last modification, nanoseconds since 1970.
    """

    path: str
    nbytes: int
    mtime_ns: int

    def __reduce__(self) -> tuple[type[LiveFile], tuple[str, int, int]]:
        # Half of the bytes that a slotted dataclass pickles to: an overwrite of 20,000 files notes them all.
        return LiveFile, (self.path, self.nbytes, self.mtime_ns)


def live_files(dataset: DatasetDirectory, directories: Collection[str] | None = None) -> tuple[LiveFile, ...]:
    """Return what a reader of a dataset sees, sorted: its files and those in its partitions.

    Parameters
    ----------
    dataset
        Its directory.
    directories
        Relative paths of the only directories that are looked into; None for all.

    Raises
    ------
    UnsupportedError
        A partition's directory is a link.
    NoFilesError
        A name is a link that leads nowhere.
    OSError
        A directory cannot be listed.
    """
    pending = [""] if directories is None else sorted(directories)
    files: list[LiveFile] = []
    while pending:
        inner = pending.pop()
        listing = _listing(dataset, inner)
        if directories is None:
            pending += _partitions(dataset, inner, listing)
        files += [LiveFile(join(inner, name_of(file.path)), file.nbytes, file.mtime_ns) for file in listing.files]
    return tuple(sorted(files, key=lambda file: file.path))


def _listing(dataset: DatasetDirectory, inner: str) -> Listing:
    try:
        return list_directory(dataset.storage, dataset.path(inner))
    except FileNotFoundError:
        if inner:  # its last file went, and it with that; or the job makes it
            return Listing()
        raise


def _partitions(dataset: DatasetDirectory, inner: str, listing: Listing) -> list[str]:
    """Return the relative directories of the partitions directly below one."""
    names = [name for name in listing.directories if "=" in name]
    for name in names:
        if name in listing.links:
            raise UnsupportedError(
                "an overwrite does not follow links, and this partition is one; remove it or write elsewhere",
                path=dataset.path(join(inner, name)),
            )
    return [join(inner, name) for name in names]


def shown(names: Collection[str]) -> str:
    """Return the first of some names for a message, and how many more there are."""
    some = ", ".join(list(names)[:_NAMES_SHOWN]) or "none"
    return some if len(names) <= _NAMES_SHOWN else f"{some} and {len(names) - _NAMES_SHOWN} more"
