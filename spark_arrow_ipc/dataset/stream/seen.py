"""`SeenFiles`: the files that a query has read, as hashes of eight bytes with their times in seconds.

A query that has read a million files keeps 12 MB of them. Hashes are sorted, so that many files are looked up by one
binary search of numpy. Of two among a million files the chance of an equal hash is 1 in 40 million.

Times are only there to forget: whole seconds, rounded down, of 1970 to 2106; what is outside counts as the end that is
nearer. So a file may be remembered a second longer than asked for, never less.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.errors import StreamOffsetError
from spark_arrow_ipc.storage.paths import name_of

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
    return np.fromiter((_clipped(file.mtime_ns) for file in files), np.uint32, len(files))


def unread(
    files: Sequence[DataFile], know: Callable[[Hashes], npt.NDArray[np.bool_]], *, name_only: bool
) -> list[DataFile]:
    """Return the files that were not read; where names alone count, the oldest of each name."""
    hashes = hashes_of((file.path for file in files), name_only=name_only)
    new = [file for file, known in zip(files, know(hashes), strict=True) if not known]
    return _first_of_each_name(new) if name_only else new


def _first_of_each_name(files: Sequence[DataFile]) -> list[DataFile]:
    """Return the oldest file of each name; what is read later has been seen."""
    first: dict[int, DataFile] = {}
    for hash_, file in zip(hashes_of((file.path for file in files), name_only=True).tolist(), files, strict=True):
        other = first.get(hash_)
        if other is None or (file.mtime_ns, file.path) < (other.mtime_ns, other.path):
            first[hash_] = file
    return list(first.values())


def _clipped(mtime_ns: int) -> int:
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

    def know(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
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
        kept = self.seconds >= _clipped(low_ns)
        return SeenFiles(self.hashes[kept], self.seconds[kept])

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
            whole = magic == _MAGIC and len(body) == count * _ENTRY_NBYTES
            if whole and blake2b(body, digest_size=16).digest() == digest:
                hashes = np.frombuffer(body, "<u8", count).astype(np.uint64)
                return cls.of(hashes, np.frombuffer(body, "<u4", count, count * _HASH_NBYTES).astype(np.uint32))
        raise StreamOffsetError(
            "this set of the files that a query has read is damaged, so that it cannot go on; give the query a new "
            "sourceLog and a new checkpoint",
            path=path,
        )
