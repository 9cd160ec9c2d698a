"""`Snapshot`: the files that were in a dataset at one of its records.

Strategy
--------
It is what is listed now, without what later records added, and with what later rewrites replaced: a rewrite moves rows
into other files, and a stream goes on with the files that it has begun to read. They live on for as long as the rewrite
said (``keepReplaced``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.replaced_files import kept_places
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.stream.mode import Backlog
from spark_arrow_ipc.dataset.stream.table_records import TableRecord
from spark_arrow_ipc.storage.storage import Status


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files that were there at a record.

    Parameters
    ----------
    seq
        Number of the record.
    rewrites
        Numbers of the later rewrites that it takes into account.
    names, files
        Relative paths, sorted, and the file of each.
    nbytes
        Bytes of all files before each, and of all.
    """

    seq: int
    rewrites: frozenset[int]
    names: list[str]
    files: list[DataFile]
    nbytes: list[int]

    @classmethod
    def of(cls, seq: int, rewrites: frozenset[int], named: Iterable[tuple[str, DataFile]]) -> Snapshot:
        """Make a snapshot of files with their relative paths; a path that comes twice is one file."""
        by_name = dict(named)
        names = sorted(by_name)
        files = [by_name[name] for name in names]
        return cls(seq, rewrites, names, files, [0, *accumulate(file.nbytes for file in files)])

    def position(self, after: str) -> int:
        """Return the number of files up to a path, the path itself included."""
        return bisect_right(self.names, after)

    def rest(self, position: int) -> Backlog:
        """Return the number of files from a position on, and their bytes."""
        return Backlog(len(self.files) - position, self.nbytes[-1] - self.nbytes[position])


def replaced_since(
    dataset: DatasetDirectory, later: Iterable[TableRecord], added: set[str]
) -> tuple[dict[str, DataFile], set[str]]:
    """Return the files of a snapshot that later rewrites replaced, as they are found now, and the paths of those gone.

    A listing and a look for each such file.
    """
    there: dict[str, DataFile] = {}
    gone: set[str] = set()
    removed = (
        pair for record in later if record.is_rewrite for pair in zip(record.removes, record.versions, strict=True)
    )
    for name, version in ((name, version) for name, version in removed if name not in added):
        path = dataset.path(name)
        status = status_where_it_lives(dataset, path, version)
        if status is None:
            gone.add(name)
        else:
            is_kept = status.path != path  # a copy, which is looked for by the version that it was of
            there[name] = DataFile(
                path, status.nbytes, status.mtime_ns, (), None, version if is_kept else status.version
            )
    return there, gone


def status_where_it_lives(dataset: DatasetDirectory, path: str, version: str = "") -> Status | None:
    """Return the status of a file at its path, or where a replaced file lives on; None if it is gone."""
    storage = dataset.storage
    status = storage.status(path)
    return status or next(filter(None, map(storage.status, kept_places(storage, path, version))), None)
