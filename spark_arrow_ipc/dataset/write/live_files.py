"""List the files of a dataset that readers see, and choose the small ones to join into larger ones.

Writers list to detect changes before a commit; compaction puts the small files of a directory into bins (`fill_bins`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.recorded_files import RemovedFile
from spark_arrow_ipc.dataset.listing.directory import Listing, list_directory, walk_levels
from spark_arrow_ipc.dataset.write.nested import check_listed
from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.storage.paths import join, name_of, parent


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
