"""`HadoopStorage`: HDFS and other mounts of Hadoop (viewfs), over `pyarrow.fs.HadoopFileSystem`. Read only.

The client runs in a JVM inside this process, and reads its settings from Hadoop's configuration files. An option with a
dot in its name is such a setting (``storage.dfs.client.use.datanode.hostname``). A file's bytes may be visible before it
is closed. Only the options travel by pickle, and errors hold no value of an option.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

from spark_arrow_ipc.errors import FileChangedError, OptionError, UnsupportedError
from spark_arrow_ipc.storage.base import (
    PREFIX,
    Connections,
    ReadOnlyStorage,
    RemoteSource,
    StorageOptions,
    check_small,
    one_line,
    replacement_error,
    unknown_option,
)
from spark_arrow_ipc.storage.byte_source import ByteSource
from spark_arrow_ipc.storage.paths import (
    ONE_KIND,
    SEPARATOR,
    Place,
    clean_url,
    join,
    name_of,
    place_of,
    split_url,
)
from spark_arrow_ipc.storage.storage import Kind, Status, Traits

# Host of ``hdfs:///a``: the one of ``fs.defaultFS`` in Hadoop's configuration.
_DEFAULT: Final = "default"

# By root, options and constructor
_connections: Final = Connections[Any]("Hadoop, whose Java machine")


_ENVIRONMENT: Final = (
    "on every machine Java and Hadoop must be installed, JAVA_HOME and HADOOP_HOME be set (or ARROW_LIBHDFS_DIR to the "
    "directory of libhdfs.so), and CLASSPATH be the output of 'hadoop classpath --glob'"
)

_INSTALL: Final = f"paths of hdfs and viewfs need pyarrow (pip install pyarrow); and {_ENVIRONMENT}"

# Arguments of `pyarrow.fs.HadoopFileSystem`, and functions that convert a string to one.
_OPTIONS: Final[Mapping[str, Callable[[str], Any]]] = {
    "user": str,
    "kerb_ticket": str,
    "buffer_size": int,
}

_PORT: Final = re.compile(r"(.*):([0-9]{1,5})")


def load_fs() -> Any:
    """Import pyarrow's file systems."""
    try:
        import pyarrow.fs
    except ImportError as error:
        raise UnsupportedError(_INSTALL) from error
    return pyarrow.fs


def connect(root: str, options: StorageOptions) -> Any:
    """Return pyarrow's file system of a root, ``hdfs://host:port``."""
    arguments, settings = _arguments(options)
    match = _PORT.fullmatch(root)
    host, port = (match[1], int(match[2])) if match else (root, 0)
    if host.partition("://")[2] == "default":
        host = "default"
    try:
        return load_fs().HadoopFileSystem(host, port, extra_conf=settings or None, **arguments)
    except OSError as error:
        reason = one_line(str(error).partition("\n")[0], options)
        if reason.startswith("Unable to load"):
            raise UnsupportedError(
                f"Hadoop's client could not be loaded ({reason}): {_ENVIRONMENT}", path=root
            ) from None
        raise OSError(
            error.errno,
            f"no connection to Hadoop ({reason}); the reason is on the standard error stream; {_ENVIRONMENT}",
            root,
        ) from None


def _arguments(options: StorageOptions) -> tuple[dict[str, Any], dict[str, str]]:
    arguments: dict[str, Any] = {}
    settings: dict[str, str] = {}
    for name, value in options:
        if "." in name:
            settings[name] = value
        elif name not in _OPTIONS:
            others = f"there are {', '.join(_OPTIONS)}, and Hadoop's own with a dot"
            raise unknown_option(name, _OPTIONS, "Hadoop", others)
        else:
            try:
                arguments[name] = _OPTIONS[name](value)
            except ValueError:
                raise OptionError(f"the option {PREFIX}{name} must be a whole number") from None
    return arguments, settings


class HadoopSource(RemoteSource):
    """A file of HDFS, which is closed when its last read has ended."""

    def close(self) -> None:
        """Drop the file; reads after it fail."""
        super().close()

        # The file itself is closed when no read refers to it: closing it during a read is not safe.
        def fail(_start: int, _into: memoryview) -> None:
            raise ValueError("the file is closed")

        self._fetch = fail


@dataclass(frozen=True, slots=True, repr=False)
class HadoopStorage(ReadOnlyStorage):
    """Files by URL, ``hdfs://namenode:8020/a/b``."""

    # Makes a file system with the interface of `pyarrow.fs.HadoopFileSystem` of a root and options
    connection: Callable[[str, StorageOptions], Any] = connect

    traits: ClassVar[Traits] = Traits(directories=True, renames=True, waits=True)
    reason: ClassVar[str] = (
        "paths of Hadoop are read only; write to a local disk or an object store, and copy the files with 'hdfs dfs -put'"
    )

    def resolve(self, path: str | os.PathLike[str]) -> str:
        """Return the URL that all calls write alike; ``hdfs:///a`` is ``hdfs://default/a``."""
        text = os.fspath(path)
        if place_of(text) is not Place.HADOOP:
            raise UnsupportedError(ONE_KIND, path=text)
        return clean_url(text, authority="a host", may_name=lambda _: False, default=_DEFAULT)

    def status(self, path: str, *, follow_links: bool = True) -> Status | None:  # noqa: ARG002 - without links
        """Return the state of a path by one call of the namenode, or None by three if it does not exist."""
        system, name = self._at(path)
        with self._errors(path):
            info = system.get_file_info(name)
            if _is_missing(info):
                try:  # pyarrow reports any failure so, also of the namenode; a listing has the error
                    system.get_file_info(load_fs().FileSelector(name))
                except (FileNotFoundError, NotADirectoryError):
                    return None
                info = system.get_file_info(name)
        return None if _is_missing(info) else _status(path, info)

    def list(self, directory: str) -> Iterator[Status]:
        """Yield the state of every name in a directory, 1,000 a request."""
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
        """Return the bytes of a file, which is the listed one."""
        # Opened before it is compared: an open file stays the same.
        system, name = self._at(path)
        with self._errors(path):
            file = system.open_input_file(name)
        status = self.status(path)
        if status is None:
            raise _missing(path)
        if listed is not None and (listed.nbytes, listed.mtime_ns) != (status.nbytes, status.mtime_ns):
            raise replacement_error(path)
        return HadoopSource(self._fetch(file, path), path, status.nbytes)

    def read(self, path: str, max_nbytes: int) -> bytes:
        """Return the bytes of a small file."""
        status = self.status(path)
        if status is None:
            raise _missing(path)
        if status.kind is not Kind.FILE:
            raise UnsupportedError("expected a file, found a directory", path=path)
        check_small(path, status.nbytes, max_nbytes)
        system, name = self._at(path)
        with self._errors(path), system.open_input_file(name) as file:
            return bytes(file.read(status.nbytes))

    def _at(self, path: str) -> tuple[Any, str]:
        """Return the connection and the name of a path in it."""
        root, key = split_url(path)
        # One connection for each namenode and user, as Hadoop's client caches them too.
        connect_to = partial(self.connection, root, self.options)
        return _connections.get((root, self.options, self.connection), connect_to, path), SEPARATOR + key

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
            if error.filename is not None:  # an error of this package
                raise
            if isinstance(error, FileNotFoundError):
                raise _missing(path) from None
            text = one_line(str(error.strerror or error), self.options)
            raise type(error)(error.errno or errno.EIO, text, path) from None


def _is_missing(info: Any) -> bool:
    return bool(info.type == load_fs().FileType.NotFound)


def _status(path: str, info: Any) -> Status:
    """Return the state of a path."""
    types = load_fs().FileType
    kind = Kind.FILE if info.type == types.File else Kind.DIRECTORY if info.type == types.Directory else Kind.SPECIAL
    return Status(path, kind, info.size or 0, info.mtime_ns or 0)


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "No such file or directory", path)
