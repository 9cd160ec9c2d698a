"""`HadoopStorage`: HDFS and what else Hadoop mounts (viewfs), over `pyarrow.fs.HadoopFileSystem`. Experimental.

HDFS has directories, and renames in one step; a file's bytes may be visible before it is closed. pyarrow's rename deletes
a file that has the new name, it says "not found" of every failure, and it deletes directories with all in them. An error
of a rename may be a lost reply, so what lies there is looked at. Only the options travel by pickle.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, ClassVar, Final, cast

from spark_arrow_ipc.errors import FileChangedError, LimitError, UnsupportedError
from spark_arrow_ipc.storage.base import Connections, RemoteStorage, StorageOptions, check_small, one_line, replaced
from spark_arrow_ipc.storage.byte_source import ByteSource
from spark_arrow_ipc.storage.hadoop_connect import HadoopSource, NewFile, connect, load_fs
from spark_arrow_ipc.storage.paths import (
    ONE_KIND,
    SEPARATOR,
    TEMPORARY_SUFFIX,
    Place,
    clean_url,
    join,
    name_of,
    parent,
    place_of,
    root_of,
    split_url,
)
from spark_arrow_ipc.storage.storage import Kind, Status, Traits

_ATTEMPTS: Final = 5
"""Attempts to put a file in place of one that other processes replace at the same time."""

_DEFAULT: Final = "default"
"""Host of ``hdfs:///a``: the one of ``fs.defaultFS`` in Hadoop's configuration."""

_connections: Final = Connections[Any]("Hadoop, whose Java machine")
"""By root, options and how they were made."""

_proven: set[tuple[str, StorageOptions, Callable[..., Any]]] = set()
"""Namenodes, by root, options and how they are reached, of which this process knows that they keep what is there."""


@dataclass(frozen=True, slots=True, repr=False)
class HadoopStorage(RemoteStorage):
    """Files by URL, ``hdfs://namenode:8020/a/b``."""

    # Makes a file system with the interface of `pyarrow.fs.HadoopFileSystem` of a root and options
    connection: Callable[[str, StorageOptions], Any] = connect

    traits: ClassVar[Traits] = Traits(directories=True, renames=True, waits=True)

    def resolve(self, path: str | os.PathLike[str]) -> str:
        """Return the URL that all calls write alike; ``hdfs:///a`` is ``hdfs://default/a``."""
        text = os.fspath(path)
        if place_of(text) is not Place.HADOOP:
            raise UnsupportedError(ONE_KIND, path=text)
        scheme, _, rest = text.partition("://")
        host = _DEFAULT if rest.startswith(SEPARATOR) else ""
        return clean_url(f"{scheme}://{host}{rest}", place="a host", may_name=lambda _: False)

    def status(self, path: str, *, follow_links: bool = True) -> Status | None:  # noqa: ARG002 - there are no links
        """Return the state of a path, or None if nothing is there. One call of the namenode, three if nothing is."""
        system, name = self._at(path)
        with self._errors(path):
            info = system.get_file_info(name)
            if _is_missing(info):
                try:  # pyarrow says so of a namenode that does not answer, too; a listing has the error
                    system.get_file_info(load_fs().FileSelector(name))
                except (FileNotFoundError, NotADirectoryError):
                    return None
                info = system.get_file_info(name)
        return None if _is_missing(info) else _status(path, info)

    def list(self, directory: str) -> Iterator[Status]:
        """Yield every name in a directory. One request for 1,000 names."""
        system, name = self._at(directory)
        with self._errors(directory):
            infos = system.get_file_info(load_fs().FileSelector(name))
        for info in infos:
            if not _is_missing(info):
                yield _status(join(directory, name_of(info.path)), info)

    def open(
        self,
        path: str,
        *,
        memory_map: bool = False,  # noqa: ARG002 - refused with the option
        listed: Status | None = None,
    ) -> ByteSource:
        """Return the bytes of a file. What is opened stays the same file; it is compared with what the listing said."""
        system, name = self._at(path)
        with self._errors(path):
            file = system.open_input_file(name)
        status = self.status(path)
        if status is None:
            raise _missing(path)
        if listed is not None and (listed.nbytes, listed.mtime_ns) != (status.nbytes, status.mtime_ns):
            raise replaced(path)
        return HadoopSource(self._fetch(file, path), path, status.nbytes)

    def read(self, path: str, max_nbytes: int) -> bytes:
        """Return a small file whole."""
        status = self.status(path)
        if status is None:
            raise _missing(path)
        if status.kind is not Kind.FILE:
            raise UnsupportedError("expected a file, found a directory", path=path)
        check_small(path, status.nbytes, max_nbytes)
        system, name = self._at(path)
        with self._errors(path), system.open_input_file(name) as file:
            return bytes(file.read(status.nbytes))

    def create(self, path: str) -> BinaryIO:
        """Create a file, whose directory must exist. It is looked for first: HDFS would replace it."""
        if self.status(path) is not None:
            raise FileExistsError(errno.EEXIST, "File exists", path)
        self._check_directory(parent(path))
        return self._new_file(path)

    def put(self, path: str, data: bytes, *, durable: bool = False, scratch: str | None = None) -> None:  # noqa: ARG002
        """Write a small file, in place of what is there. Readers may find no file while one is replaced by other bytes.

        One that has these bytes stays, so that a mark which several processes write never vanishes.
        """
        for last in [False] * (_ATTEMPTS - 1) + [True]:
            there = self._has(path, data)
            if there or (there is None and self._put_absent(path, data, scratch)):
                return
            if there is None:
                continue  # another process was faster: what did it write?
            try:
                self._replace(path, data, scratch)
            except OSError:  # another process replaced it at the same time
                if last:
                    raise
            else:
                return
        raise OSError(errno.EBUSY, "other processes write this file again and again", path)

    def put_if_absent(self, path: str, data: bytes, *, durable: bool = False) -> bool:  # noqa: ARG002
        """Write a small file into a directory of its own, and move it to its directory, unless its name is taken there.

        An error says that it cannot be found out whether the file was written, or that its directory is not there.
        """
        return self._put_absent(path, data)

    def check_put_if_absent(self, directory: str) -> None:
        """Raise if a second file of one name replaces the first, as it may on what is not HDFS. A process asks once."""
        namenode = split_url(directory)[0], self.options, self.connection
        if namenode in _proven:
            return
        path = join(directory, f"probe-{uuid.uuid4().hex}")
        try:
            is_new, is_new_again = self.put_if_absent(path, b"1"), self.put_if_absent(path, b"2")
            works = (is_new, is_new_again, self.read(path, 1)) == (True, False, b"1")
        finally:
            with suppress(OSError):
                self.delete(path)
        if not works:
            raise UnsupportedError(
                "this file system does not refuse to move a file into a directory that has one of its name, so that two "
                "jobs at once would lose data; write to HDFS, or to local files and copy them",
                path=directory,
            )
        _proven.add(namenode)

    def publish(self, staged: str, final: str) -> bool:
        """Rename a file. One that has the name is deleted before."""
        if root_of(staged) != root_of(final):
            raise UnsupportedError(f"a file is renamed on its host, and not to {final}", path=staged)
        system, old = self._at(staged)
        with self._errors(staged):
            try:
                system.move(old, self._at(final)[1])
            except OSError:
                if self.status(staged) is None:
                    raise FileNotFoundError from None
                self._check_directory(parent(final))
                raise
        return False

    def give_back(self, moved: str, path: str) -> bool:
        """Rename a file, unless another has the name: two requests, as a namenode's rename through this client replaces."""
        if self.status(path) is not None:
            return False
        self.publish(moved, path)
        return True

    def delete(self, path: str) -> None:
        """Delete a file; nothing happens if it is not there."""
        system, name = self._at(path)
        with self._errors(path):
            try:
                system.delete_file(name)
            except OSError:
                if self.status(path) is not None:
                    raise

    def delete_tree(self, directory: str) -> None:
        """Delete a directory with all in it; nothing happens if it is not there."""
        system, name = self._at(directory)
        with self._errors(directory):
            try:
                system.delete_dir(name)
            except OSError:
                if self.status(directory) is not None:
                    raise

    def make_directory(self, directory: str) -> None:
        """Make a directory and those above it; nothing happens if it is there."""
        system, name = self._at(directory)
        with self._errors(directory):
            system.create_dir(name, recursive=True)

    # Empty directories are kept, as in the base: pyarrow would delete with one a file that another job puts there.

    def sync_file(self, file: BinaryIO) -> None:
        """Hand the bytes of a file to the datanodes; HDFS keeps them in the memory of several, or on their disks."""
        file.flush()

    def _at(self, path: str) -> tuple[Any, str]:
        """Return the connection and the name of a path in it."""
        root, key = split_url(path)
        connect_to = partial(self.connection, root, self.options)
        return _connections.get((root, self.options, self.connection), connect_to, path), SEPARATOR + key

    def _new_file(self, path: str) -> BinaryIO:
        system, name = self._at(path)
        with self._errors(path):
            return cast("BinaryIO", NewFile(system.open_output_stream(name), path, self._errors))

    def _write(self, path: str, data: bytes) -> None:
        with self._new_file(path) as file:
            file.write(data)

    def _put_absent(self, path: str, data: bytes, scratch: str | None = None) -> bool:
        """Write a file under its own name below its directory, and move it there unless the name is taken.

        It must be below: then its directory is there when it is moved, and cannot become the file's new name.
        """
        # HDFS moves a file into a directory unless the name is taken there, and pyarrow deletes no directory; a rename to
        # the name itself would replace a file that has it.
        directory = parent(path)
        inside = scratch is not None and scratch.startswith(directory + SEPARATOR)
        temporary = join(scratch if scratch and inside else directory, uuid.uuid4().hex + TEMPORARY_SUFFIX)
        try:
            self._check_directory(directory)
            self._write(join(temporary, name_of(path)), data)
            return self._move_into(directory, join(temporary, name_of(path)), data)
        finally:
            with suppress(OSError):  # vacuum finds what stays
                self.delete_tree(temporary)

    def _replace(self, path: str, data: bytes, scratch: str | None) -> None:
        temporary = join(scratch or parent(path), uuid.uuid4().hex + TEMPORARY_SUFFIX)
        try:
            self._write(temporary, data)
            self.publish(temporary, path)
        except BaseException:
            with suppress(OSError):  # the first error is the one to raise
                self.delete(temporary)
            raise

    def _move_into(self, directory: str, source: str, data: bytes) -> bool:
        """Move a file into a directory that is not its own; return False if its name is taken there.

        An error may be that refusal, or a lost reply. The file tells them apart: while it is still at its place it was
        not moved, and once it is deleted there it cannot be any more.
        """
        path = join(directory, name_of(source))
        system, name = self._at(source)
        with self._errors(path):
            try:
                system.move(name, self._at(directory)[1])
            except OSError:
                was_moved = self.status(source) is None
                if not was_moved:
                    self.delete(source)
                has = self._has(path, data)
                if has is None:
                    raise  # not stored; or it was, and another process has deleted it already
                return was_moved and has
        return True

    def _has(self, path: str, data: bytes) -> bool | None:
        """Return whether a file has these bytes; None if it is not there."""
        try:
            return self.read(path, len(data)) == data
        except FileNotFoundError:
            return None
        except LimitError:
            return False

    def _check_directory(self, directory: str) -> None:
        status = self.status(directory)
        if status is None:
            raise _missing(directory)
        if status.kind is not Kind.DIRECTORY:
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", directory)

    def _fetch(self, file: Any, path: str) -> Callable[[int, memoryview], None]:
        def fetch(start: int, into: memoryview) -> None:
            with self._errors(path):
                data = memoryview(file.read_at(len(into), start))
            if len(data) != len(into):
                raise FileChangedError(
                    f"expected {len(into):,} bytes at byte offset {start:,}, found {len(data):,}: the file was "
                    "truncated after it was listed; read the path again",
                    path=path,
                )
            into[:] = data

        return fetch

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        """Raise errors of the file system with the path, on one line and without a secret."""
        try:
            yield
        except OSError as error:
            if error.filename is not None:  # one of ours
                raise
            if isinstance(error, FileNotFoundError):
                raise _missing(path) from None
            text = one_line(str(error.strerror or error), self.options)
            raise type(error)(error.errno or errno.EIO, text, path) from None


def _is_missing(info: Any) -> bool:
    return bool(info.type == load_fs().FileType.NotFound)


def _status(path: str, info: Any) -> Status:
    """Return the state of a path; directories have their time too, by which vacuum knows dead ones."""
    types = load_fs().FileType
    kind = Kind.FILE if info.type == types.File else Kind.DIRECTORY if info.type == types.Directory else Kind.SPECIAL
    return Status(path, kind, info.size or 0, info.mtime_ns or 0)


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "No such file or directory", path)
