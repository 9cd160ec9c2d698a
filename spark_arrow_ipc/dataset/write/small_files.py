"""Choose the small files of a dataset that are joined into larger ones.

Strategy
--------
A file is small if it has less than half of the size that is aimed at. The small files of a directory are put into bins, in
the order in which they were written, each up to that size; the rows of a bin become one file. So every bin but the last
of a directory makes a file that is not small any more, and a second run over the same files finds little to do. Rows never
change their directory, because it says which partition they are of.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from spark_arrow_ipc.dataset.write.live_files import LiveFile
from spark_arrow_ipc.storage.paths import parent


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
