"""List the files of a dataset that readers see, and choose the small ones to join into larger ones.

Writers list to detect changes before a commit; compaction puts the small files of a directory into bins (`fill_bins`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.recorded_files import RemovedFile
from spark_arrow_ipc.dataset.listing.directory import Listing, list_directory
from spark_arrow_ipc.dataset.write.nested import check_listed
from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.storage.paths import join, name_of, parent

_NAMES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file that a reader sees.

    Parameters
    ----------
    path
        Relative to the dataset's directory.
    nbytes, mtime_ns
        Size, and time of the last modification in nanoseconds since 1970.
    version
        Text that differs whenever the bytes do (`Status.version`); empty where a storage has no such thing.
    """

    path: str
    nbytes: int
    mtime_ns: int
    version: str = ""

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
    """Return the visible files of a dataset and its partitions, sorted by path.

    Those of a partition are all below it: readers give the files of ``k=1/sub`` the value of ``k=1``.

    Parameters
    ----------
    dataset
        The dataset to list.
    directories
        Relative paths of the only directories to list; None for all.
    deep
        Whether what lies below those directories is listed, too.

    Raises
    ------
    CommitError
        A directory in it is a dataset of its own.
    UnsupportedError
        A directory of a partition is a link.
    NoFilesError
        A link is dangling.
    OSError
        A directory cannot be listed.
    """
    pending = [""] if directories is None else sorted(directories)
    seen: set[str] = set()
    files: list[LiveFile] = []
    while pending:
        inner = pending.pop()
        if inner in seen:
            continue
        seen.add(inner)
        listing = _listing(dataset, inner)
        check_listed(dataset, inner, listing)
        if directories is None or (deep and inner):
            pending += _below(dataset, inner, listing)
        if not inner or "=" in inner:
            files += [
                LiveFile(join(inner, name_of(file.path)), file.nbytes, file.mtime_ns, file.version)
                for file in listing.files
            ]
    return tuple(sorted(files, key=lambda file: file.path))


def _listing(dataset: DatasetDirectory, inner: str) -> Listing:
    try:
        return list_directory(dataset.storage, dataset.path(inner))
    except FileNotFoundError:
        if inner:  # it was deleted with its last file, or the job will make it
            return Listing()
        raise


def _below(dataset: DatasetDirectory, inner: str, listing: Listing) -> list[str]:
    """Return the relative directories below a directory; links are those of others where they are no partitions."""
    below = [join(inner, name) for name in listing.directories]
    for path in below:
        if name_of(path) in listing.links and "=" in path:
            raise UnsupportedError(
                "an overwrite does not follow links, and this directory of a partition is one; remove it or write "
                "elsewhere",
                path=dataset.path(path),
            )
    return [path for path in below if name_of(path) not in listing.links]


def shown(names: Collection[str]) -> str:
    """List the first of some names, and the number of the others, for a message."""
    some = ", ".join(list(names)[:_NAMES_SHOWN]) or "none"
    return some if len(names) <= _NAMES_SHOWN else f"{some} and {len(names) - _NAMES_SHOWN} more"


class Bin(NamedTuple):
    """Files that become one, and their directory relative to the dataset's."""

    directory: str
    files: tuple[LiveFile, ...]


def fill_bins(files: Iterable[LiveFile], nbytes: int) -> list[Bin]:
    """Return the bins of at least two files, sorted by directory. O(files log files).

    Parameters
    ----------
    files
        All files that may be joined.
    nbytes
        The size of a file that is aimed at.
    """
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
