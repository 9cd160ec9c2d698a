"""`SourceFiles`: list the files under the paths of a stream, as a batch read lists them.

Strategy
--------
The same files count as in a batch read of the same options (`list_tree`, `discover`): names, globs, filters, links and
partitions. It differs where a stream begins before its data: a directory may be empty, and so may a pattern or a prefix
of an object store. Files that a pending job has committed and that have not got their names yet come with a later look.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.file_filter import FileFilter
from spark_arrow_ipc.dataset.listing.globs import is_pattern
from spark_arrow_ipc.dataset.listing.hive import discover
from spark_arrow_ipc.dataset.listing.tree import Tree, list_tree
from spark_arrow_ipc.errors import NoFilesError, printable
from spark_arrow_ipc.storage.paths import join, parent
from spark_arrow_ipc.storage.storage import Storage

_LOG: Final = logging.getLogger(__name__)


class Roots:
    """The directories below which ``key=value`` directories are columns, and which of them a file belongs to."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = frozenset(roots)

    def of(self, path: str) -> str:
        """Return the nearest root at or above the directory of a file; that directory itself if there is none."""
        directory = own = parent(path)
        while directory not in self._roots:
            above = parent(directory)
            if above == directory:
                return own
            directory = above
        return directory


@dataclass(slots=True)
class SourceFiles:
    """The paths of a stream, to be listed again and again.

    Parameters
    ----------
    storage
        The storage that holds them.
    paths
        Plain paths and patterns, as they were given.
    recursive, file_filter
        As for `list_tree`.
    base_path
        As for `discover`.
    """

    storage: Storage
    paths: tuple[str, ...]
    recursive: bool = False
    file_filter: FileFilter | None = None
    base_path: str | None = None
    _has_warned: bool = False

    def look(self) -> tuple[tuple[DataFile, ...], Roots]:
        """Return the files that are there, each once, in no order; and their roots.

        O(names), and one ``stat`` a file.
        """
        tree = self._tree()
        if tree is None:
            return (), Roots(())
        try:
            partitioning = discover(tree, base_path=self.base_path, infer=False)
        except NoFilesError as error:
            if any(error.path == join(above, name) for above, listing in tree.dangling for name in listing.dangling):
                raise
            return (), Roots(())
        warning = partitioning.warning()
        if warning is not None and not self._has_warned:
            self._has_warned = True
            _LOG.warning("%s", printable(warning))
        files = {file.path: file for file in partitioning.files if file.staged is None}
        return tuple(files.values()), self._roots(tree)

    def _roots(self, tree: Tree) -> Roots:
        if self.base_path is not None:
            return Roots([self.storage.resolve(self.base_path)])
        return Roots([root if isinstance(root, str) else parent(root.path) for root in tree.roots])

    def _tree(self) -> Tree | None:
        """List the paths that exist; None if none does."""
        paths = list(self.paths)
        while paths:
            try:
                return list_tree(paths, recursive=self.recursive, file_filter=self.file_filter, storage=self.storage)
            except NoFilesError as error:
                absent = [path for path in paths if self.storage.resolve(path) == error.path and self._may_come(path)]
                if not absent:
                    raise
                paths = [path for path in paths if path not in absent]
        return None

    def _may_come(self, path: str) -> bool:
        """Return whether a path that is not there may still come: a pattern, or a prefix of an object store."""
        return is_pattern(path) or not self.storage.traits.directories
