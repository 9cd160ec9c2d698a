"""Paths, local ones and URLs: the storage of a path, and its one spelling in all calls.

They are absolute strings with parts separated by ``/``, or URLs without a slash at the end, ``s3://bucket/a/b``, of a
root, which names the bucket, container or host, and a key. Percent signs are characters of a name like others, as in
Hadoop's paths; `local_path` decodes them in a ``file:`` URI.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Final
from urllib.parse import unquote

from spark_arrow_ipc.errors import OptionError, UnsupportedError, cut_repr, has_url_user

ONE_KIND: Final = (
    "one read takes either local paths or those of object stores, of Hadoop, or of other schemes; read each and unite "
    "them with union()"
)
"""Error for paths of several storages."""

# A URL; several schemes are a chain of fsspec's file systems, which is refused.
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+(?:::[A-Za-z0-9+.-]+)*)://([^/]*)(.*)", re.DOTALL)

_WEB: Final = frozenset({"http", "https"})

_SIGNED: Final = ".*(sig|signature|token|credentials?|secret|key|password)[^&/]*="

# The pattern of a query for web servers, and for other stores, whose names and patterns may have a ``?``
_QUERY: Final = {
    True: re.compile(rf"\?|#{_SIGNED}", re.IGNORECASE | re.DOTALL),
    False: re.compile(rf"[?#]{_SIGNED}", re.IGNORECASE | re.DOTALL),
}

# Characters that obstore refuses in keys
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")

# A scheme is at least two characters long and a slash follows: ``a:b.arrow`` is a plain name.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")

_LOCAL_HOSTS = ("", "localhost")

# Length of a path or pattern. Patterns may list names in braces; paths of systems, HDFS and stores have at most 8,000.
_MOST_CHARACTERS: Final = 1 << 16

SEPARATOR: Final = "/"

TEMPORARY_SUFFIX: Final = ".staged"
"""Suffix of files that are incomplete or not committed yet; readers skip them everywhere."""


def url_scheme(path: str) -> str | None:
    """Return the scheme of a URL with ``://``, in lower case; None for every other path, such as ``file:/a``."""
    if "://" not in path:
        return None
    match = _URL.fullmatch(path)
    return None if match is None else match[1].lower()


def has_query(path: str) -> bool:
    """Return True if a path is a URL with a query, which may be a signature or hold another secret."""
    match = _URL.fullmatch(path)
    return match is not None and _QUERY[match[1].lower() in _WEB].search(f"{match[2]}{match[3]}") is not None


def clean_url(path: str, *, authority: str, may_name: Callable[[str], bool], default: str = "") -> str:
    """Return a URL as all calls write it: the scheme in lower case, no slash doubled or at the end.

    `authority` describes the part after ``://`` for errors, and `default` replaces an empty one; `may_name` returns
    True for a name before an ``@`` that is not a key or password.
    """
    match = _URL.fullmatch(path)
    if match is None:
        raise UnsupportedError(ONE_KIND, path=path)
    if len(path) > _MOST_CHARACTERS:
        raise OptionError(
            expected=f"a path or pattern of at most {_MOST_CHARACTERS:,} characters", found=f"{len(path):,}"
        )
    scheme, host, key = match[1].lower(), match[2], match[3]
    # Before any error that shows the path.
    if has_query(path):
        raise OptionError(
            f"the path {scheme}://... has a query (?... or #...), as signed URLs have, and paths are shown in plans and logs; "
            "read the object by its store's own URL and credentials (s3://, gs://, abfss://, storage.*), or download it"
        )
    if _holds_user(host, key, may_name):
        raise OptionError(
            f"the path {scheme}://... holds a password or a key before @, and paths are shown in plans and logs; "
            "leave it to the machine's own credentials, or give it by the options storage.*"
        )
    host = host or (default if key.startswith(SEPARATOR) else "")
    if not host:
        raise OptionError(expected=f"{authority} after {scheme}://", found=cut_repr(path))
    parts = [part for part in key.split("/") if part]
    if {".", ".."} & set(parts):
        raise OptionError(expected="a path without . and .. in it", found=cut_repr(path))
    if "\0" in path or (not path.isascii() and _lone_surrogate(path)):
        raise OptionError(expected="a path", found=f"a NUL or a lone surrogate in {cut_repr(path)}")
    return "/".join([f"{scheme}://{host}", *parts])


def _holds_user(host: str, key: str, may_name: Callable[[str], bool]) -> bool:
    """Return True if a key or password stands before an ``@``."""
    # Also behind a slash, which keys of clouds have.
    user, at, _ = host.rpartition("@")
    if at:
        return not may_name(user)
    before = host or key.lstrip(SEPARATOR).partition("@")[0]
    return "@" in key and ":" in before and not before.rpartition(":")[2].isdecimal()


def split_url(path: str) -> tuple[str, str]:
    """Return the root and the key of a path from `clean_url`; the key of the root itself is ``""``."""
    scheme, _, rest = path.partition("://")
    authority, _, key = rest.partition("/")
    return f"{scheme}://{authority}", key


def _lone_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


class StoreKind(Enum):
    """The kinds of object stores."""

    S3 = "S3"
    GCS = "Google Cloud Storage"
    AZURE = "Azure Blob Storage"
    HTTP = "a web server"
    MEMORY = "memory"


_KINDS: Final = {
    "s3": StoreKind.S3,
    "s3a": StoreKind.S3,
    "gs": StoreKind.GCS,
    "az": StoreKind.AZURE,
    "abfs": StoreKind.AZURE,
    "abfss": StoreKind.AZURE,
    "https": StoreKind.HTTP,
    "http": StoreKind.HTTP,
    "memory": StoreKind.MEMORY,
}


OBJECT_SCHEMES: Final = tuple(_KINDS)
"""Schemes of object stores."""

# Other names of a scheme
_SAME: Final = {"s3a": "s3", "abfs": "az", "abfss": "az"}


def scheme_of(path: str) -> str | None:
    """Return the scheme of a URL of an object store, in lower case; None for every other path."""
    scheme = url_scheme(path)
    return scheme if scheme in _KINDS else None


def kind_of(path: str) -> StoreKind:
    """Return the kind of store of a URL, whose scheme is known."""
    scheme = scheme_of(path)
    assert scheme is not None
    return _KINDS[scheme]


def object_path(path: str | os.PathLike[str]) -> str:
    """Return a URL as all calls write it: the scheme in lower case, no slash doubled or at the end."""
    text = os.fspath(path)
    scheme = scheme_of(text)
    if scheme is None:
        raise UnsupportedError(ONE_KIND, path=text)
    # Azure has abfss://container@account.
    is_azure = _KINDS[scheme] is StoreKind.AZURE
    cleaned = clean_url(
        text, authority="a bucket, container or host", may_name=lambda user: is_azure and ":" not in user
    )
    if _CONTROL.search(cleaned):
        raise OptionError(
            "the path has a tab, line end or other control character, and the client of object stores takes none of them: "
            "give the object or directory another name",
            path=cleaned,
        )
    return cleaned


def join_url(root: str, key: str) -> str:
    """Return the path of a key; the reverse of `split_url`."""
    return f"{root}/{key}" if key else root


def real_url(path: str, account: str) -> str:
    """Return one URL for all spellings of a path, to compare two; `account` is Azure's if the path names none."""
    root, key = split_url(path)
    scheme, _, rest = root.partition("://")
    if _KINDS[scheme] is StoreKind.AZURE:
        container, at, host = rest.partition("@")
        rest = f"{container}@{(host.partition('.')[0] if at else account).lower()}"
    return join_url(f"{_SAME.get(scheme, scheme)}://{rest}", key)


class Place(Enum):
    """The storages that a path can be in."""

    LOCAL = auto()
    OBJECTS = auto()
    """An object store (`object_store`)."""
    HADOOP = auto()
    """Hadoop's file system (`hadoop`)."""
    OTHER = auto()
    """A scheme that an installed fsspec may know (`fsspec_storage`)."""


_PLACES: Final = {
    "file": Place.LOCAL,
    "hdfs": Place.HADOOP,
    "viewfs": Place.HADOOP,
    **dict.fromkeys(OBJECT_SCHEMES, Place.OBJECTS),
}


def place_of(path: str) -> Place:
    """Return the storage of a user's path, which is local without ``://``."""
    scheme = url_scheme(path)
    return Place.LOCAL if scheme is None else _PLACES.get(scheme, Place.OTHER)


def is_remote(path: str) -> bool:
    """Return True if a path is in another storage than the local one."""
    return place_of(path) is not Place.LOCAL


# ---- paths and their parts


def join(directory: str, *parts: str) -> str:
    """Join a directory and parts of a path; empty parts add nothing."""
    return posixpath.join(directory, *filter(None, parts)) if any(parts) else directory


def parent(path: str) -> str:
    """Return the directory of a path: the root for the root itself, ``""`` for a bare name."""
    above = posixpath.dirname(path)
    # `dirname` of s3://bucket is `s3:`.
    return path if above[-1:] == ":" and path.startswith(above + "//") else above


def above(path: str) -> Iterator[str]:
    """Yield the directories above a path, innermost first; none for a root."""
    while (directory := parent(path)) not in ("", path):
        yield directory
        path = directory


def root_of(path: str) -> str:
    """Return the root of an absolute path: ``/``, or ``scheme://bucket`` of a URL."""
    head, _, rest = path.partition(SEPARATOR)
    return f"{head}//{rest[1:].partition(SEPARATOR)[0]}" if rest.startswith(SEPARATOR) else head + SEPARATOR


def name_of(path: str) -> str:
    """Return the last part of a path."""
    return path.rpartition(SEPARATOR)[2]


def relative(path: str, directory: str) -> str:
    """Return a path relative to a directory above it; ``""`` for the same one."""
    inside = directory if directory.endswith(SEPARATOR) else directory + SEPARATOR
    return path.removeprefix(inside) if path.startswith(inside) else "" if path == directory else path


def local_path(path: str | os.PathLike[str]) -> str:
    """Return the absolute local path of a plain path or ``file:`` URI, whose percent escapes are decoded."""
    path = os.fspath(path)
    if not path:
        raise OptionError(expected="a path", found="an empty string")
    if len(path) > _MOST_CHARACTERS:
        raise OptionError(
            expected=f"a path or pattern of at most {_MOST_CHARACTERS:,} characters", found=f"{len(path):,}"
        )
    if "\0" in path:
        raise OptionError(expected="a path", found=f"a NUL character in {cut_repr(path)}")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise OptionError(
            expected="a path", found=f"the lone surrogate {path[error.start]!r} in {cut_repr(path)}, which no name has"
        ) from error
    if is_remote(path):
        raise UnsupportedError(ONE_KIND, path=path)
    path = plain_path(path)
    if path.lower().startswith("file:"):  # without a slash: refused
        path = _of_file_uri(path)
    return os.path.abspath(path)  # resolves . and .. as Hadoop's paths do, without following links


def plain_path(path: str) -> str:
    """Return a local path, that of a ``file:`` URI too; raise for a URL with one slash, or with a password, which errors show."""
    if (scheme := _SCHEME.match(path)) and scheme[1].lower() != "file":
        raise UnsupportedError(
            f"paths with the scheme {scheme[1]}: and a single slash are not read or written; write {scheme[1]}:// and a "
            "host, mount the storage, or copy the files",
            path=path,
        )
    if has_url_user(path):
        raise OptionError(
            "the local path holds a URL with a password, and paths are shown in plans and logs; "
            "write a URL from its scheme on, and leave credentials to the machine or the options storage.*"
        )
    return _of_file_uri(path) if path.lower().startswith("file:/") else path


def is_relative(path: str) -> bool:
    """Return True if a path or URI depends on the working directory."""
    return not path.startswith("/") and not path.lower().startswith("file:") and _SCHEME.match(path) is None


def _of_file_uri(uri: str) -> str:
    rest = uri[len("file:") :]
    if not rest.startswith("/"):
        raise OptionError(expected="an absolute path after file:", found=repr(uri))
    if rest.startswith("//"):
        host, slash, rest = rest[2:].partition("/")
        # Without a user, which might be a password.
        host = host.rpartition("@")[2]
        if host.lower() not in _LOCAL_HOSTS:
            raise UnsupportedError(
                f"the file: URI names the host {host!r}; write file:///{host}/... where that is a directory", path=uri
            )
        rest = slash + rest
    return unquote(rest) or "/"
