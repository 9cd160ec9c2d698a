"""`SourceFiles`: list the files under the paths of a stream as a batch read lists them; and files as JSON, for offsets and logs.

It differs from a batch read where a stream begins before its data: a directory may be empty, and so may a pattern or a
prefix of an object store. Files that a pending job has committed and that have not got their names yet come with a later
look.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.dataset.listing.data_file import DataFile, FileFilter
from spark_arrow_ipc.dataset.listing.globs import is_pattern
from spark_arrow_ipc.dataset.listing.hive import discover
from spark_arrow_ipc.dataset.listing.tree import Tree, list_tree
from spark_arrow_ipc.dataset.stream.mode import StreamBatch
from spark_arrow_ipc.errors import NoFilesError, StreamOffsetError, cut_repr, printable
from spark_arrow_ipc.storage.paths import SEPARATOR, join, parent, relative
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
    """The paths of a stream, to be listed again and again."""

    storage: Storage
    paths: tuple[str, ...]  # plain paths and patterns, as they were given
    # as for `list_tree`
    recursive: bool = False
    file_filter: FileFilter | None = None
    base_path: str | None = None  # as for `discover`
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


_MOST_NBYTES: Final = 64 << 20
"""Most bytes of a list of files when it is unpacked: a mebibyte of text may stand for a gigabyte."""

_MOST_TIME: Final = 1 << 63


def files_to_json(batch: StreamBatch) -> dict[str, Any]:
    """Return the files of a batch as a JSON object."""
    positions: dict[str, int] = {}
    files = []
    for file, root in zip(batch.files, batch.roots, strict=True):
        row: list[str | int] = [positions.setdefault(root, len(positions)), relative(file.path, root), file.nbytes]
        row.append(file.mtime_ns)
        if file.version:
            row.append(file.version)
        files.append(row)
    return {"roots": list(positions), "files": files}


def files_from_json(value: Mapping[str, object]) -> StreamBatch:
    """Return the batch that `files_to_json` wrote."""
    roots, rows = value.get("roots"), value.get("files")
    if not isinstance(roots, list) or not all(isinstance(root, str) and root for root in roots):
        _refuse("a list of directories", roots)
    if not isinstance(rows, list):
        _refuse("a list of files", rows)
    files = [_file(row, roots) for row in rows]
    return StreamBatch(tuple(files), tuple(roots[row[0]] for row in rows))


def _file(row: object, roots: list[str]) -> DataFile:
    if not isinstance(row, list) or len(row) not in (4, 5):
        _refuse("a file as [root, path, bytes, time, version]", row)
    root, path, nbytes, mtime_ns, version = [*row, ""][:5]
    if type(root) is not int or not 0 <= root < len(roots):
        _refuse(f"the position of one of {len(roots)} directories", row)
    if not isinstance(path, str) or not path or {"", ".", ".."} & set(path.split(SEPARATOR)):
        _refuse("a path below a directory", row)
    if type(nbytes) is not int or type(mtime_ns) is not int or not 0 <= nbytes < _MOST_TIME > abs(mtime_ns):
        _refuse("the size and the time of a file", row)
    if not isinstance(version, str):
        _refuse("the version of a file", row)
    return DataFile(join(roots[root], path), nbytes, mtime_ns, (), None, version)


def files_to_text(batch: StreamBatch) -> str:
    """Return the files of a batch as a short string: JSON, compressed, in base64. An empty batch is an empty string."""
    if not batch.files:
        return ""
    text = json.dumps(files_to_json(batch), separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode("ascii"), 6)).decode("ascii")


def files_from_text(text: str) -> StreamBatch:
    """Return the batch that `files_to_text` wrote."""
    if not text:
        return StreamBatch()
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(text.encode("ascii"), validate=True), _MOST_NBYTES)
        whole = unpacker.eof and not unpacker.unused_data
        value = parse_json(data) if whole else None
    except (ValueError, binascii.Error, zlib.error) as error:
        raise StreamOffsetError(expected="a packed list of files in an offset", found=str(error)) from error
    if not isinstance(value, dict):
        _refuse("a packed list of files in an offset", value)
    return files_from_json(value)


def _refuse(expected: str, found: object) -> NoReturn:
    raise StreamOffsetError(expected=expected, found=cut_repr(found))
