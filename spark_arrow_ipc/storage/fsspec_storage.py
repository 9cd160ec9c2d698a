"""`FsspecStorage`: files of schemes that an installed fsspec has (hf, sftp, ftp, webhdfs, ...). Read only.

Directories are prefixes, as in an object store: a missing one is empty. Requests of fsspec name no version. So opening a
file requests its state again and compares it with the listing; a replacement of equal length during a read is not
noticed. A pickled storage has only the options.
"""

from __future__ import annotations

import errno
import inspect
import math
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, ClassVar, Final

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.errors import ArrowIpcError, FileChangedError, OptionError, UnsupportedError, cut_repr
from spark_arrow_ipc.storage.base import (
    PREFIX,
    Connections,
    ReadOnlyStorage,
    RemoteSource,
    StorageOptions,
    check_small,
    missing,
    one_line,
    replacement_error,
    unknown_option,
)
from spark_arrow_ipc.storage.byte_source import ByteSource
from spark_arrow_ipc.storage.paths import ONE_KIND, SEPARATOR, Place, clean_url, join, name_of, place_of, split_url
from spark_arrow_ipc.storage.storage import Kind, Status, Traits

# Schemes of fsspec without a storage: caches, wrappers, other names of local files
_WRAPPERS: Final = frozenset((
    "abstract", "async_wrapper", "asyncwrapper", "asynclocal", "blockcache", "cached", "data", "dir", "file",
    "filecache", "generic", "local", "reference", "simplecache",
))  # fmt: skip

# Names of ``**`` parameters that go to fsspec's base class, which takes no option of a user
_FORWARDED: Final = frozenset(("kwargs", "storage_options"))

# Arguments that this module sets
_OWN: Final = frozenset(("asynchronous", "batch_size", "loop", "self", "skip_instance_cache", "use_listings_cache"))

# Arguments that are integers although no constructor names them (paramiko's).
_NUMBERS: Final = frozenset(("port", "timeout"))

_FLAGS: Final = {"true": True, "false": False}


def filesystem_class(scheme: str, path: str) -> Any:
    """Return fsspec's class for a scheme."""
    try:
        from fsspec.registry import available_protocols, get_filesystem_class, registry
    except ImportError:
        raise UnsupportedError(
            f"paths with the scheme {scheme}:// are read through fsspec, if that knows the scheme: "
            "pip install 'spark-arrow-ipc[fsspec]'; or mount the storage, or copy the files",
            path=path,
        ) from None
    if scheme in _WRAPPERS or not (scheme in registry or scheme in available_protocols()):
        raise UnsupportedError(
            f"paths with the scheme {scheme}:// are not read, and the installed fsspec does not know it either; install "
            "the package that brings it to fsspec, mount the storage, or copy the files",
            path=path,
        )
    try:
        return get_filesystem_class(scheme)
    except ImportError as error:
        raise UnsupportedError(
            f"fsspec knows paths with the scheme {scheme}://, and needs a package for them: {_text(error)}",
            path=path,
        ) from None


def connect(cls: Any, root: str, options: StorageOptions) -> Any:
    """Return an instance of a class of fsspec for the root of URLs. The constructor may connect to a server."""
    arguments: dict[str, Any] = dict(cls._get_kwargs_from_urls(root))
    parameters, takes_any = _parameters(cls)
    for name, value in options:
        # A misspelt name would be ignored, or reach the server.
        if name in _OWN or (name not in parameters and not takes_any):
            raise _unknown(name, root, parameters)
        arguments[name] = _value(name, value, parameters.get(name))
    try:
        return cls(skip_instance_cache=True, **arguments)
    except TypeError as error:
        text = _text(error)
        wrong = next((name for name, _ in options if f"'{name}'" in text), None)
        if wrong is not None:
            raise _unknown(wrong, root, parameters) from None
        raise OptionError(f"the options {PREFIX}* do not make a connection: {one_line(text, options)}") from None


def _text(error: BaseException, options: StorageOptions = ()) -> str:
    """Return the text of an error on one line, or its type's name."""
    return one_line(str(error), options) or type(error).__name__


def _parameters(cls: Any) -> tuple[dict[str, inspect.Parameter], bool]:
    """Return the named arguments of a class's constructors, and True if they pass others on to another library."""
    named: dict[str, inspect.Parameter] = {}
    takes_any = False
    for base in cls.__mro__:
        if "__init__" not in vars(base) or base.__module__ == "fsspec.spec" or base is object:
            continue
        for name, parameter in inspect.signature(base.__init__).parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                takes_any |= name not in _FORWARDED
            elif parameter.kind is not parameter.VAR_POSITIONAL and name not in _OWN:
                named.setdefault(name, parameter)
    return named, takes_any


def _value(name: str, value: str, parameter: inspect.Parameter | None) -> Any:
    """Convert an option's string to the type of the argument."""
    # Constructors have no annotations to rely on: the default has the type.
    default = None if parameter is None else parameter.default
    kind = int if name in _NUMBERS and not isinstance(default, float) else type(default)
    parse = _PARSERS.get(kind)
    if parse is None:
        return value
    expected, function = parse
    try:
        return function(value)
    except (ValueError, KeyError):
        raise OptionError(f"the option {PREFIX}{name} must be {expected}") from None


# By the type of an argument's default: a description, and a parser. Values of other types stay strings.
_PARSERS: Final[Mapping[type, tuple[str, Callable[[str], Any]]]] = {
    bool: ("true or false", lambda value: _FLAGS[value.lower()]),
    int: ("a whole number", int),
    float: ("a number", float),
    dict: ("a JSON object", parse_json),
}


def _unknown(name: str, root: str, names: Mapping[str, object]) -> OptionError:
    scheme = root.partition("://")[0]
    return unknown_option(name, names, f"the scheme {scheme}", f"there are {', '.join(sorted(names)) or 'none'}")


# Keys of the time of the last modification, best first; objects that are never modified have the time of creation.
_TIMES: Final = (
    "mtime", "modified", "last_modified", "LastModified", "Last-Modified", "modificationTime", "modify", "updated",
    "last_commit", "time", "created",
)  # fmt: skip

# Keys of versions, which differ whenever the bytes do, best first
_VERSIONS: Final = (
    "ETag", "etag", "e_tag", "sha256", "sha", "oid", "blob_id", "checksum", "md5Hash", "md5", "content_md5",
    "content_hash", "version_id", "generation", "crc32c",
)  # fmt: skip

_KINDS: Final = {"file": Kind.FILE, "directory": Kind.DIRECTORY}

_FTP_TIME: Final = re.compile(r"\d{14}")
# Larger numbers are milliseconds: as seconds, they would be times after the year 5138.
_MOST_SECONDS: Final = 1e11

# Most characters of a version
_MOST_CHARACTERS: Final = 200


def status_of(path: str, info: Mapping[str, Any]) -> Status:
    """Return the state of a path."""
    kind = _KINDS.get(info.get("type", ""), Kind.SPECIAL)
    if kind is not Kind.FILE:
        return Status(path, kind)
    nbytes = info.get("size")
    if not isinstance(nbytes, int) or nbytes < 0:
        raise UnsupportedError(
            "the server does not say how many bytes this file has, without which its end cannot be found; copy it to a "
            "local disk",
            path=path,
        )
    # Servers name the time differently, and some have none.
    mtime_ns = next(filter(None, (_nanoseconds(info.get(key)) for key in _TIMES)), 0)
    version = next((str(info[key])[:_MOST_CHARACTERS] for key in _VERSIONS if info.get(key)), "")
    return Status(path, kind, nbytes, mtime_ns, version=version)


def has_changed(listed: Status, now: Status) -> bool:
    """Return True if a file was replaced after it was listed."""
    # Only properties that both answers have are compared; times by seconds, as listings may omit fractions.
    if listed.nbytes != now.nbytes:
        return True
    if listed.version and now.version:
        return listed.version != now.version
    return bool(listed.mtime_ns and now.mtime_ns) and listed.mtime_ns // 10**9 != now.mtime_ns // 10**9


def _nanoseconds(value: object) -> int:
    """Return a time in nanoseconds since 1970; 0 for any other value."""
    moment = getattr(value, "date", None)  # of a commit
    if isinstance(moment, datetime):
        value = moment
    try:
        if isinstance(value, str):
            value = _parse_time(value)
        if isinstance(value, datetime):
            value = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).timestamp()
        if isinstance(value, int | float) and math.isfinite(value) and value > 0:
            seconds = value / 1_000 if value > _MOST_SECONDS else value
            return round(seconds * 1e6) * 1_000
    except (ValueError, OverflowError, OSError):
        pass
    return 0


def _parse_time(text: str) -> datetime:
    if _FTP_TIME.match(text):
        return datetime.strptime(text[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return parsedate_to_datetime(text)


_NOT_THERE: Final = (FileNotFoundError, NotADirectoryError)

# By scheme: valid text before an ``@``, such as a user's name. For other schemes it is a token, as in ``hf://TOKEN@...``.
_BEFORE_AT: Final[Mapping[str, re.Pattern[str]]] = {
    "github": re.compile(r"[^:@]+:[^:@]+"),  # github://organisation:repository@branch/path
    **dict.fromkeys(("ftp", "ftps", "git", "scp", "sftp", "smb", "ssh", "webdav", "webhdfs"), re.compile("[^:@]+")),
}

# The type of a link in a listing; a listing does not have the state of the link's target.
_LINK: Final = "link"


@dataclass(frozen=True, slots=True)
class _Connection:
    """A file system of fsspec."""

    system: Any
    lock: AbstractContextManager[Any]
    # The file system's name of the root of the URLs: a file's name is this and the rest of its URL
    prefix: str
    range_options: Mapping[str, str]


# By root and options
_connections: Final = Connections[_Connection]()


@dataclass(frozen=True, slots=True, repr=False)
class FsspecStorage(ReadOnlyStorage):
    """Files by URL, as fsspec writes it."""

    traits: ClassVar[Traits] = Traits(directories=False, renames=False, waits=True)
    reason: ClassVar[str] = (
        "paths with this scheme are read through fsspec, and are read only; write to a local disk or an object store, and "
        "copy the files"
    )

    def resolve(self, path: str | os.PathLike[str]) -> str:
        """Return the URL in the one form that all other methods expect."""
        text = os.fspath(path)
        if place_of(text) is not Place.OTHER:
            raise UnsupportedError(ONE_KIND, path=text)
        scheme = text.partition("://")[0].lower()
        names = _BEFORE_AT.get(scheme)
        clean = clean_url(
            text,
            authority="a host or first directory",
            may_name=lambda user: names is not None and names.fullmatch(user) is not None,
        )
        if "::" in text:
            raise OptionError(expected="the URL of one file system", found=f"a chain of them in {cut_repr(text)}")
        # This makes an unknown scheme an error before anything is planned.
        filesystem_class(scheme, clean)
        return clean

    def status(self, path: str, *, follow_links: bool = True) -> Status | None:  # noqa: ARG002 - links are not told apart
        """Return the state of a path, or None if it does not exist, by one or two requests; a root always exists."""
        if not split_url(path)[1]:
            return Status(path, Kind.DIRECTORY)
        info = self._info(path)
        return None if info is None else status_of(path, info)

    def list(self, directory: str) -> Iterator[Status]:
        """Yield the states of names directly below a path, in no order."""
        connection, name = self._at(directory)
        with self._errors(directory), connection.lock:
            connection.system.invalidate_cache()  # fsspec remembers listings
            try:
                infos = connection.system.ls(name, detail=True)
            except _NOT_THERE:
                infos = ()
        for info in infos:
            full = str(info["name"]).strip(SEPARATOR)
            path = join(directory, name_of(full))
            if full != name.strip(SEPARATOR) and name_of(full) not in {"", ".", ".."}:  # a file lists itself
                target = self._info(path) if info.get("type") == _LINK else info
                if target is not None:
                    yield status_of(path, target)

    def open(
        self,
        path: str,
        *,
        memory_map: bool = False,  # noqa: ARG002 - refused with the option
        listed: Status | None = None,
    ) -> ByteSource:
        """Return the bytes of a file, by one or two requests."""
        status = self._file(path)
        if listed is not None and has_changed(listed, status):
            raise replacement_error(path)

        def fill(start: int, into: memoryview) -> None:
            into[:] = self._fetch(path, start, start + len(into))

        return RemoteSource(fill, path, status.nbytes)

    def read(self, path: str, max_nbytes: int) -> bytes:
        """Return the bytes of a small file."""
        nbytes = self._file(path).nbytes
        check_small(path, nbytes, max_nbytes)
        return bytes(self._fetch(path, 0, nbytes)) if nbytes else b""

    def _at(self, path: str) -> tuple[_Connection, str]:
        """Return the connection and the name of a path in it."""
        root, key = split_url(path)
        with self._errors(root):
            connection = _connections.get((root, self.options), partial(_connection, root, self.options), path)
        return connection, (connection.prefix + key).rstrip(SEPARATOR) or connection.prefix

    def _info(self, path: str) -> Mapping[str, Any] | None:
        connection, name = self._at(path)
        with self._errors(path), connection.lock:
            connection.system.invalidate_cache()
            try:
                info: Mapping[str, Any] = connection.system.info(name)
            except _NOT_THERE:
                return None
        return info

    def _file(self, path: str) -> Status:
        status = self.status(path)
        if status is None:
            raise missing(path)
        if status.kind is not Kind.FILE:
            raise UnsupportedError("expected a file, found a directory or something that is neither", path=path)
        return status

    def _fetch(self, path: str, start: int, stop: int) -> memoryview:
        connection, name = self._at(path)
        with self._errors(path), connection.lock:
            # Exactly these bytes: fsspec's file objects read ahead by megabytes, and cache them.
            data = memoryview(connection.system.cat_file(name, start, stop, **connection.range_options))
        if len(data) > stop - start:
            raise UnsupportedError(
                f"{stop - start:,} bytes were asked for, and {len(data):,} came: the server does not serve parts of a "
                "file; copy it to a local disk",
                path=path,
            )
        if len(data) < stop - start:
            raise FileChangedError(
                f"expected {stop - start:,} bytes at byte offset {start:,}, found {len(data):,}: the file was replaced "
                "by a shorter one after it was listed; read the path again",
                path=path,
            )
        return data

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        """Raise the errors of a file system, of any class, with the path and without a secret."""
        try:
            yield
        except ArrowIpcError:
            raise
        except FileNotFoundError:
            raise missing(path) from None
        except PermissionError as error:
            raise PermissionError(errno.EACCES, _text(error, self.options), path) from None
        except (ImportError, NotImplementedError) as error:
            raise UnsupportedError(_text(error, self.options), path=path) from None
        except Exception as error:  # noqa: BLE001 - each library has its own
            raise OSError(errno.EIO, f"{type(error).__name__}: {_text(error, self.options)}", path) from None


def _connection(root: str, options: StorageOptions) -> _Connection:
    from fsspec.spec import AbstractFileSystem

    cls = filesystem_class(root.partition("://")[0], root)
    system = connect(cls, root, options)
    # A file system without asynchronous calls (ftp, sftp, ...) has one connection, for one thread at a time.
    lock: AbstractContextManager[Any] = nullcontext() if system.async_impl else threading.RLock()
    # The base class's method opens a file object, which must not read ahead.
    by_file = cls.cat_file is AbstractFileSystem.cat_file
    # The root's name with a slash if the file system needs one: names are joined to it, as fsspec's functions for URLs
    # drop the text after a ``?``.
    prefix = cls._strip_protocol(f"{root}/x").removesuffix("x")
    return _Connection(system, lock, prefix, {"cache_type": "none"} if by_file else {})
