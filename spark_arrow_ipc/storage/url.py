"""URLs of all storages but the local one: their scheme, and the one way in which every call writes them.

Strategy
--------
A path in such a storage is its URL without a slash at the end, ``s3://bucket/a/b``. Its root is the part that names the
bucket, container or host. Percent signs are characters of a name like others, as in Hadoop's paths.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from spark_arrow_ipc.errors import OptionError, UnsupportedError, cut_repr

ONE_KIND: Final = (
    "one read takes either local paths or those of object stores, of Hadoop, or of other schemes; read each and unite "
    "them with union()"
)
"""Error for paths of several storages."""

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/]*)(.*)", re.DOTALL)

_WEB: Final = frozenset({"http", "https"})

_QUERY: Final = {
    True: re.compile(r"\?"),
    False: re.compile(r"\?.*(sig|signature|token|credentials?|secret|key|password)[^&/]*=", re.IGNORECASE | re.DOTALL),
}
"""What is a query, of a web server and of others, in whose names ``?`` is a character or a pattern's."""

_MOST_CHARACTERS: Final = 1 << 16
"""Length of a path or pattern; keys of object stores have 1,024 bytes at most, paths of HDFS 8,000 characters."""


def url_scheme(path: str) -> str | None:
    """Return the scheme of a URL with ``://``, in lower case; None for every other path, such as ``file:/a``."""
    if "://" not in path:
        return None
    found = _URL.fullmatch(path)
    return None if found is None else found[1].lower()


def has_query(path: str) -> bool:
    """Return True if a path is a URL with a query, as signed ones have, or that may hold a secret in one."""
    found = _URL.fullmatch(path)
    return found is not None and _QUERY[found[1].lower() in _WEB].search(f"{found[2]}{found[3]}") is not None


def clean_url(path: str, *, place: str, may_name: Callable[[str], bool]) -> str:
    """Return a URL as all calls write it: the scheme in lower case, no slash doubled or at the end.

    Parameters
    ----------
    path
        As it was given.
    place
        What stands after ``://``, for the error.
    may_name
        Whether a text before an ``@`` there is a name, and no key or password.

    Raises
    ------
    OptionError
        It names no place, holds a password, a query, ``.`` or ``..``, a NUL or a lone surrogate, or is too long.
    UnsupportedError
        It is no URL.
    """
    found = _URL.fullmatch(path)
    if found is None:
        raise UnsupportedError(ONE_KIND, path=path)
    if len(path) > _MOST_CHARACTERS:
        raise OptionError(
            expected=f"a path or pattern of at most {_MOST_CHARACTERS:,} characters", found=f"{len(path):,}"
        )
    scheme, host, key = found[1].lower(), found[2], found[3]
    if has_query(path):
        raise OptionError(
            f"the path {scheme}://... has a query (?...), as signed URLs have, and paths are shown in plans and logs; "
            "read the object by its store's own URL and credentials (s3://, gs://, abfss://, storage.*), or download it"
        )
    user, at, _ = host.rpartition("@")
    if at and not may_name(user):
        raise OptionError(
            f"the path {scheme}://... holds a password or a key before @, and paths are shown in plans and logs; "
            "leave it to the machine's own credentials, or give it by the options storage.*"
        )
    if not host:
        raise OptionError(expected=f"{place} after {scheme}://", found=cut_repr(path))
    parts = [part for part in key.split("/") if part]
    if {".", ".."} & set(parts):
        raise OptionError(expected="a path without . and .. in it", found=cut_repr(path))
    if "\0" in path or (not path.isascii() and _lone_surrogate(path)):
        raise OptionError(expected="a path", found=f"a NUL or a lone surrogate in {cut_repr(path)}")
    return "/".join([f"{scheme}://{host}", *parts])


def split_url(path: str) -> tuple[str, str]:
    """Return the root and the key of a path from `clean_url`; the key of the root itself is ``""``."""
    scheme, _, rest = path.partition("://")
    place, _, key = rest.partition("/")
    return f"{scheme}://{place}", key


def _lone_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
