"""`ObjectStorage`: buckets of S3, Google Cloud Storage and Azure, public web servers, over the library obstore.

A directory is a prefix of keys. A file appears complete when its writer is closed, and is never changed in place.
Errors are builtin ones (`OSError`) of one line, without values of options. Only the options travel by pickle.
"""

from __future__ import annotations

import os
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Final, cast

from spark_arrow_ipc.errors import FileChangedError, LimitError, UnsupportedError
from spark_arrow_ipc.storage.base import Connections, RemoteSource, RemoteStorage, StorageOptions, check_small, missing
from spark_arrow_ipc.storage.byte_source import ByteSource
from spark_arrow_ipc.storage.object_files import (
    WRITER,
    ObjectUpload,
    copy_with_repeats,
    object_errors,
    repeat,
    write_errors,
)
from spark_arrow_ipc.storage.object_options import connect, load_obstore, repetitions
from spark_arrow_ipc.storage.paths import StoreKind, join_url, kind_of, name_of, object_path, real_url, split_url
from spark_arrow_ipc.storage.storage import Kind, Status, Traits

if TYPE_CHECKING:
    from obstore.store import ObjectStore

# Attempts of a conditional request that the store refuses although no object has the name.
_ATTEMPTS: Final = 5

# The kinds whose ETags get no quotes: the store in memory compares them without, and web servers have no listing.
_UNQUOTED: Final = (StoreKind.MEMORY, StoreKind.HTTP)

# Fewest bytes of a reply that are copied at once.
_PART_NBYTES: Final = 256 << 10

_DELETE_THREADS: Final = 16
# Keys of one request that deletes, and of one page of a listing
_BATCH: Final = 1_000

# By root, options, and True for copies
_stores: Final = Connections["ObjectStore"]("an object store, whose connections")

# Name of the empty object that `ObjectStorage.check_put_if_absent` tries to create.
_PROBE: Final = "probe"

# Buckets, by root and options, that refuse to replace an object, as this process has checked.
_proven: set[tuple[str, StorageOptions]] = set()


@dataclass(frozen=True, slots=True, repr=False)
class ObjectStorage(RemoteStorage):
    """Objects by URL."""

    traits: ClassVar[Traits] = Traits(directories=False, renames=False, waits=True)

    def resolve(self, path: str | os.PathLike[str]) -> str:
        """Return a URL in the form that all calls use (`object_path`)."""
        return object_path(path)

    def unique_path(self, path: str) -> str:
        """Return one path for all spellings of its bucket (`real_url`)."""
        account = dict(self.options).get("account_name") or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")
        return real_url(path, account)

    def status(self, path: str, *, follow_links: bool = True) -> Status | None:  # noqa: ARG002 - without links
        """Return the state of an object or of a prefix of keys, by one request or two; the root of a bucket always exists."""
        store, key = self._at(path)
        if not key:
            return Status(path, Kind.DIRECTORY)
        requests = (self._file_status, self._directory_status)
        # Most names with a dot are files, and most others directories, so that the first request has the answer.
        for request in requests if "." in name_of(key) else reversed(requests):
            status = request(store, path, key)
            if status is not None:
                return status
        return None

    def list(self, directory: str) -> Iterator[Status]:
        """Yield the states of names directly below a prefix, 1,000 a request; a web server has no listing."""
        # Of a web server only files with known URLs are read.
        if kind_of(directory) is StoreKind.HTTP:
            return
        store, key = self._at(directory)
        root = split_url(directory)[0]

        def list_objects() -> Any:
            with self._errors(directory):
                return load_obstore().list_with_delimiter(store, prefix=key or None)

        listing = repeat(list_objects)
        prefixes = set(listing["common_prefixes"])
        for prefix in prefixes:
            yield Status(join_url(root, prefix), Kind.DIRECTORY)
        for meta in listing["objects"]:
            # A console marks a folder by an object of no bytes whose key is the folder's with a slash.
            if meta["path"] != key and (meta["size"] or meta["path"] not in prefixes):
                yield _file(join_url(root, meta["path"]), meta)

    def open(
        self,
        path: str,
        *,
        memory_map: bool = False,  # noqa: ARG002 - refused with the option
        listed: Status | None = None,
    ) -> ByteSource:
        """Open an object, by one request, or without a request if it was listed."""
        status = listed
        if status is None:
            store, key = self._at(path)
            status = self._file_status(store, path, key) if key else None
            if status is None:
                raise missing(path)
        return RemoteSource(self._fetch(path, status.nbytes, status.version), path, status.nbytes)

    def read(self, path: str, max_nbytes: int) -> bytes:
        """Return the bytes of a small object, by one request."""
        return self._read(path, max_nbytes)[0]

    def create(self, path: str) -> BinaryIO:
        """Create an object, which appears when it is closed, unless its ``with`` block fails."""
        store, key = self._at(path)
        return cast("BinaryIO", ObjectUpload(store, key, path, self._errors, self.put_if_absent))

    def put(self, path: str, data: bytes, *, durable: bool = False, scratch: str | None = None) -> None:  # noqa: ARG002
        """Write or replace a small object, by one request."""
        store, key = self._at(path)
        with write_errors(path, self.options):
            load_obstore().put(store, key, data, use_multipart=False)

    def put_if_absent(self, path: str, data: bytes, *, durable: bool = False) -> bool:  # noqa: ARG002 - it always is
        """Write a small object unless it exists, by one request, or more if the answer is ambiguous."""
        obstore = load_obstore()
        store, key = self._at(path)
        # A refusal may be about our own object: the library repeats a request whose reply was lost. So each object names
        # its writer, and a refused one is read.
        writer = uuid.uuid4().hex
        for last in [False] * (_ATTEMPTS - 1) + [True]:
            try:
                with write_errors(path, self.options):
                    obstore.put(store, key, data, mode="create", use_multipart=False, attributes={WRITER: writer})
            except PermissionError:
                raise
            except (OSError, FileChangedError) as error:
                try:
                    content, attributes = self._read(path, len(data))
                except LimitError:
                    return False  # it is larger, so it is another object
                except FileNotFoundError:
                    if last:
                        raise error from None
                    continue  # another attempt caused the refusal and failed, or the object was never stored
                return attributes[WRITER] == writer if WRITER in attributes else content == data
            else:
                return True
        raise AssertionError("unreachable")

    def check_put_if_absent(self, directory: str) -> None:
        """Raise if the store replaces an object despite the condition; one request a bucket and process, or two."""
        # The empty object stays in the directory, so that the next process needs only the request that must be refused.
        bucket = split_url(directory)[0], self.options
        if bucket in _proven:
            return
        path = f"{directory}/{_PROBE}"
        if self._makes(path) and self._makes(path):
            with suppress(OSError):
                self.delete(path)
            raise UnsupportedError(
                "this store does not refuse to write an object that is there already (If-None-Match: *), so that two "
                "jobs at once would lose data; write to a store that does, or to local files and copy them",
                path=directory,
            )
        _proven.add(bucket)

    def _makes(self, path: str) -> bool:
        """Return True if the store answers that it made an empty object."""
        obstore = load_obstore()
        store, key = self._at(path)
        try:
            with write_errors(path, self.options):
                obstore.put(store, key, b"", mode="create", use_multipart=False)
        except FileExistsError:
            return False
        except UnsupportedError:  # no such requests
            return True
        return True

    def publish(self, staged: str, final: str) -> bool:
        """Copy an object on the server, by one request, or more after errors."""
        if len({split_url(self.unique_path(path))[0] for path in (staged, final)}) > 1:
            raise UnsupportedError(f"an object is copied within its bucket, and not to {final}", path=staged)
        store, key = self._at(staged, copies=True)

        def copy() -> None:
            with self._errors(staged):
                load_obstore().copy(store, key, split_url(final)[1])

        return copy_with_repeats(copy, max(1, repetitions(self.options)))

    def give_back(self, moved: str, path: str) -> bool:  # noqa: ARG002
        """Refuse, as no object is ever moved."""
        raise UnsupportedError("an object store copies, and moves nothing", path=path)

    def delete(self, path: str) -> None:
        """Delete an object if it exists."""
        store, key = self._at(path)

        def delete() -> None:
            with self._errors(path):
                load_obstore().delete(store, key)

        with suppress(FileNotFoundError):
            repeat(delete)

    def delete_all(self, paths: Sequence[str]) -> None:
        """Delete objects, if they exist, 1,000 a request."""
        # A request deletes keys of one bucket.
        by_root = defaultdict(list)
        for path in paths:
            root, key = split_url(path)
            by_root[root].append(key)
        for root, keys in by_root.items():
            store, _ = self._at(root)
            for start in range(0, len(keys), _BATCH):
                self._delete_batch(store, root, keys[start : start + _BATCH])

    def delete_tree(self, directory: str) -> None:
        """Delete all objects below a prefix."""
        store, key = self._at(directory)
        root = split_url(directory)[0]

        def keys() -> Sequence[str]:
            with self._errors(directory):
                return [meta["path"] for page in load_obstore().list(store, prefix=key or None) for meta in page]

        # Listed completely first: a page after a deletion may begin behind keys that remain.
        self.delete_all([join_url(root, key_below) for key_below in repeat(keys)])

    def _at(self, path: str, *, copies: bool = False) -> tuple[ObjectStore, str]:
        """Return the connection and the key of a path."""
        root, key = split_url(path)
        # The store in memory is the same for all options.
        of = (root, (), False) if kind_of(root) is StoreKind.MEMORY else (root, self.options, copies)
        return _stores.get(of, partial(connect, root, self.options, copies=of[2]), path), key

    def _file_status(self, store: ObjectStore, path: str, key: str) -> Status | None:
        try:
            with self._errors(path):
                return _file(path, load_obstore().head(store, key))
        except FileNotFoundError:
            return None

    def _directory_status(self, store: ObjectStore, path: str, key: str) -> Status | None:
        if kind_of(path) is StoreKind.HTTP:
            return None

        def is_prefix() -> bool:
            with self._errors(path):
                pages = load_obstore().list(store, prefix=key, chunk_size=1)
                return any(meta["path"] != key for page in pages for meta in page)

        return Status(path, Kind.DIRECTORY) if repeat(is_prefix) else None

    def _fetch(self, path: str, nbytes: int, version: str) -> Callable[[int, memoryview], None]:
        store, key = self._at(path)
        obstore = load_obstore()
        # So that all ranges come from one version of the object.
        if_match: dict[str, Any] = {"if_match": version} if version else {}

        def fetch(start: int, into: memoryview) -> None:
            filled = 0
            with self._errors_of_version(store, path, key):
                reply = obstore.get(store, key, options={"range": (start, start + len(into)), **if_match})
                nbytes_now = reply.meta["size"]
                # In parts: the library would hold a complete reply twice, in parts and joined.
                for part in reply.stream(min_chunk_size=_PART_NBYTES) if nbytes_now == nbytes else ():
                    part_nbytes = len(part)
                    # A server may ignore the range, and send the object from its start.
                    if filled + part_nbytes > len(into):
                        break
                    into[filled : filled + part_nbytes] = memoryview(part)
                    filled += part_nbytes
            if filled != len(into):
                raise FileChangedError(
                    f"expected an object of {nbytes:,} bytes, found {nbytes_now:,}: it was replaced after it was listed; read "
                    "the path again",
                    path=path,
                )

        return fetch

    def _read(self, path: str, max_nbytes: int) -> tuple[bytes, dict[str, str]]:
        """Return a small object and its attributes."""
        store, key = self._at(path)
        with self._errors(path):
            if not key:
                raise missing(path)
            reply = load_obstore().get(store, key)
            nbytes = reply.meta["size"]
            check_small(path, nbytes, max_nbytes)
            return bytes(reply.bytes()), dict(reply.attributes)

    def _delete_batch(self, store: ObjectStore, root: str, keys: Sequence[str]) -> None:
        def delete() -> None:
            with self._errors(root):
                load_obstore().delete(store, keys)

        try:
            repeat(delete)
        except (FileNotFoundError, UnsupportedError):  # some keys are gone, or the store has no bulk deletion
            with ThreadPoolExecutor(_DELETE_THREADS) as pool:
                list(pool.map(lambda key: self.delete(join_url(root, key)), keys))

    def _errors(self, path: str) -> AbstractContextManager[None]:
        return object_errors(path, self.options)

    @contextmanager
    def _errors_of_version(self, store: ObjectStore, path: str, key: str) -> Iterator[None]:
        """Raise errors as `_errors` does; if the store refuses a version, one request more shows if the object is gone."""
        try:
            with self._errors(path):
                yield
        except FileChangedError:
            # HTTP has one answer (412) for another version and for a missing object, as Azure gives it.
            if self._is_gone(store, path, key):
                raise missing(path) from None
            raise

    def _is_gone(self, store: ObjectStore, path: str, key: str) -> bool:
        """Return True if an object does not exist; False if the store does not tell."""
        try:
            return self._file_status(store, path, key) is None
        except OSError:
            return False


def _file(path: str, meta: Any) -> Status:
    modified: datetime = meta["last_modified"]
    mtime_ns = int(modified.timestamp()) * 1_000_000_000 + modified.microsecond * 1_000
    version = meta["e_tag"] or ""
    # Requests need the quotes, which listings of Azure leave out.
    if version and not version.endswith('"') and kind_of(path) not in _UNQUOTED:
        version = f'"{version}"'
    return Status(path, Kind.FILE, meta["size"], mtime_ns, version=version)
