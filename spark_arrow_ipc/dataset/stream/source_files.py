"""`SourceFiles`: list the files under the paths of a stream as a batch read lists them; and files as JSON, for offsets and logs.

It differs from a batch read where a stream begins before its data: a directory may be empty, and so may a pattern or a
prefix of an object store. It never lists a table's own files, which the table's log has: rows that a job rewrites would
come twice. `SeenFiles` remembers, in few bytes, which files a query has read.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, NoReturn, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.dataset.listing.data_file import DataFile, FileFilter
from spark_arrow_ipc.dataset.listing.globs import is_pattern
from spark_arrow_ipc.dataset.listing.hive import discover
from spark_arrow_ipc.dataset.listing.tree import Tree, list_tree
from spark_arrow_ipc.dataset.stream.mode import StreamBatch
from spark_arrow_ipc.dataset.stream.table_entries import table_around
from spark_arrow_ipc.errors import NoFilesError, StreamOffsetError, UnsupportedError, cut_repr, printable
from spark_arrow_ipc.storage.paths import SEPARATOR, join, name_of, parent, relative
from spark_arrow_ipc.storage.storage import Storage
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.names import TableDirectory, managed_name

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
    _strangers: set[tuple[str, str]] = field(default_factory=set)
    """Directories, and tables that copies in them are from."""

    def list_files(self) -> tuple[tuple[DataFile, ...], Roots]:
        """Return the files that are there, each once, in no order; and their roots.

        O(names), and one ``stat`` a file.
        """
        tree = self._tree()
        if tree is None:
            return (), Roots(())
        if tree.splits:
            raise UnsupportedError(
                "a stream gives rows no column for their split; stream the directory of one split, or read all in a batch",
                path=next(iter(tree.splits)),
            )
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
        self._refuse_tables(partitioning.files)
        files = {file.path: file for file in partitioning.files}
        return tuple(files.values()), self._roots(tree)

    def _refuse_tables(self, files: Iterable[DataFile]) -> None:
        """Raise if a file is one of a table at or above its directory. No request where no file has such a name."""
        managed = ((parent(file.path), name.table) for file in files if (name := managed_name(name_of(file.path))))
        for directory, table in dict.fromkeys(managed):
            if (directory, table) in self._strangers:
                continue
            root = table_around(self.storage, directory)
            state = None if root is None else read_state(TableDirectory(self.storage, root))
            if state is not None and (state.table == table or table in state.former):
                raise StreamOffsetError(
                    f"{root} is a table of this package, and a stream that lists its files would read rows twice that a job "
                    f"rewrites; begin a query of the table, .load({cut_repr(root)}), with a new checkpoint, and with "
                    "startingFrom=latest if the sink has all rows that are there",
                    path=directory,
                )
            # A copy of another table's file is a file like any other.
            self._strangers.add((directory, table))

    def _roots(self, tree: Tree) -> Roots:
        if self.base_path is not None:
            return Roots([self.storage.resolve(self.base_path)])
        return Roots([root if isinstance(root, str) else parent(root.path) for root in tree.roots])

    def _tree(self) -> Tree | None:
        """List the paths that exist; None if none does."""
        paths = list(self.paths)
        while paths:
            try:
                return list_tree(
                    paths,
                    recursive=self.recursive,
                    file_filter=self.file_filter,
                    storage=self.storage,
                    hugging_face=True,
                )
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
    return DataFile(join(roots[root], path), nbytes, mtime_ns, version=version)


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
        is_complete = unpacker.eof and not unpacker.unused_data
        value = parse_json(data) if is_complete else None
    except (ValueError, binascii.Error, zlib.error) as error:
        raise StreamOffsetError(expected="a packed list of files in an offset", found=str(error)) from error
    if not isinstance(value, dict):
        _refuse("a packed list of files in an offset", value)
    return files_from_json(value)


def _refuse(expected: str, actual: object) -> NoReturn:
    raise StreamOffsetError(expected=expected, found=cut_repr(actual))


Hashes: TypeAlias = npt.NDArray[np.uint64]
Seconds: TypeAlias = npt.NDArray[np.uint32]

_SECOND: Final = 1_000_000_000
_LAST: Final = (1 << 32) - 1
_HEAD: Final = struct.Struct("<8sQ16s")
_MAGIC: Final = b"IPCSEEN1"
_HASH_NBYTES: Final = 8
_ENTRY_NBYTES: Final = 12


def hashes_of(paths: Iterable[str], *, name_only: bool = False) -> Hashes:
    """Return the hash of each path, or of its last part: shape (n,)."""
    names = map(name_of, paths) if name_only else paths
    # Names of local files may hold halves of character pairs, for bytes that are not UTF-8.
    digests = b"".join(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest() for name in names)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64, copy=False)


def seconds_of(files: Sequence[DataFile]) -> Seconds:
    """Return the modification time of each file in whole seconds: shape (n,)."""
    return np.fromiter((_clip(file.mtime_ns) for file in files), np.uint32, len(files))


def unread(
    files: Sequence[DataFile], contains: Callable[[Hashes], npt.NDArray[np.bool_]], *, name_only: bool
) -> list[DataFile]:
    """Return the files that were not read; where names alone count, the oldest of each name."""
    hashes = hashes_of((file.path for file in files), name_only=name_only)
    new = [file for file, known in zip(files, contains(hashes), strict=True) if not known]
    return _first_of_each_name(new) if name_only else new


def _first_of_each_name(files: Sequence[DataFile]) -> list[DataFile]:
    """Return the oldest file of each name; what is read later has been seen."""
    first: dict[int, DataFile] = {}
    for hash_, file in zip(hashes_of((file.path for file in files), name_only=True).tolist(), files, strict=True):
        other = first.get(hash_)
        if other is None or (file.mtime_ns, file.path) < (other.mtime_ns, other.path):
            first[hash_] = file
    return list(first.values())


def _clip(mtime_ns: int) -> int:
    return min(max(mtime_ns // _SECOND, 0), _LAST)


@dataclass(frozen=True, slots=True, eq=False)
class SeenFiles:
    """Hashes of files, sorted, each once, with their times."""

    hashes: Hashes  # of the paths, ascending: shape (n,)
    seconds: Seconds  # of the files: shape (n,)

    @classmethod
    def of(cls, hashes: Hashes, seconds: Seconds) -> Self:
        """Return a set of hashes in any order; of equal ones the later time counts."""
        order = np.lexsort((seconds, hashes))
        hashes, seconds = hashes[order], seconds[order]
        last = np.append(hashes[1:] != hashes[:-1], True)[: len(hashes)]
        return cls(hashes[last], seconds[last])

    @classmethod
    def empty(cls) -> Self:
        """Return a set of nothing."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.uint32))

    def __len__(self) -> int:
        return len(self.hashes)

    def contains(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Return which hashes are in the set: shape (n,)."""
        if not len(self.hashes):
            return np.zeros(len(hashes), np.bool_)
        places = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        known: npt.NDArray[np.bool_] = self.hashes[places] == hashes
        return known

    def joined(self, hashes: Hashes, seconds: Seconds) -> SeenFiles:
        """Return the set with more hashes, in any order."""
        return SeenFiles.of(np.concatenate([self.hashes, hashes]), np.concatenate([self.seconds, seconds]))

    def since(self, low_ns: int) -> SeenFiles:
        """Return the set without the files that were modified before a time, in nanoseconds."""
        is_recent = self.seconds >= _clip(low_ns)
        return SeenFiles(self.hashes[is_recent], self.seconds[is_recent])

    def to_text(self) -> str:
        """Return the set as a short string: 11 characters a file, and about one for its time."""
        if not len(self.hashes):
            return ""
        order = np.argsort(self.seconds, kind="stable")
        steps = np.diff(self.seconds[order].astype(np.int64), prepend=0).astype("<u4")
        times = zlib.compress(steps.tobytes(), 6)
        data = struct.pack("<II", len(self.hashes), len(times)) + times + self.hashes[order].astype("<u8").tobytes()
        return base64.b64encode(data).decode("ascii")

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the set that `to_text` wrote."""
        if not text:
            return cls.empty()
        try:
            data = base64.b64decode(text.encode("ascii"), validate=True)
            count, times_nbytes = struct.unpack_from("<II", data)
            rest = data[8 + times_nbytes :]
            if len(rest) != count * _HASH_NBYTES:
                raise ValueError(f"{len(rest):,} bytes of hashes for {count:,} files")
            unpacker = zlib.decompressobj()
            steps = unpacker.decompress(data[8 : 8 + times_nbytes], count * 4 + 1)
            seconds = np.cumsum(np.frombuffer(steps, "<u4").astype(np.uint64))
        except (ValueError, struct.error, binascii.Error, zlib.error) as error:
            raise StreamOffsetError(expected="a packed set of files in an offset", found=str(error)) from error
        if len(seconds) != count or (count and seconds[-1] > _LAST):
            raise StreamOffsetError(expected=f"the times of {count:,} files in an offset", found=f"{len(seconds):,}")
        return cls.of(np.frombuffer(rest, "<u8").astype(np.uint64), seconds.astype(np.uint32))

    def to_bytes(self) -> bytes:
        """Return the set as a file: 32 bytes, and 12 for each file of the set."""
        body = self.hashes.astype("<u8").tobytes() + self.seconds.astype("<u4").tobytes()
        return _HEAD.pack(_MAGIC, len(self.hashes), blake2b(body, digest_size=16).digest()) + body

    @classmethod
    def from_bytes(cls, data: bytes, path: str) -> Self:
        """Return the set that `to_bytes` wrote."""
        if len(data) >= _HEAD.size:
            magic, count, digest = _HEAD.unpack_from(data)
            body = data[_HEAD.size :]
            is_complete = magic == _MAGIC and len(body) == count * _ENTRY_NBYTES
            if is_complete and blake2b(body, digest_size=16).digest() == digest:
                hashes = np.frombuffer(body, "<u8", count).astype(np.uint64)
                return cls.of(hashes, np.frombuffer(body, "<u4", count, count * _HASH_NBYTES).astype(np.uint32))
        raise StreamOffsetError(
            "this set of the files that a query has read is damaged, so that it cannot go on; give the query a new "
            "sourceLog and a new checkpoint",
            path=path,
        )
