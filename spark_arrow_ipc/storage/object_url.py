"""URLs of object stores: which schemes there are, and where the bucket ends and the key begins.

Strategy
--------
A path in an object store is its URL without a slash at the end, ``s3://bucket/a/b``. Its root is the part that names
the bucket (or container, or host); what follows is the key. Percent signs are characters of a key like others, as in
Hadoop's paths.
"""

from __future__ import annotations

import os
import re
from enum import Enum
from typing import Final

from spark_arrow_ipc.errors import OptionError, UnsupportedError, cut_repr

__all__ = ["ONE_KIND", "Kind", "join_url", "kind_of", "object_path", "scheme_of", "split_url"]


class Kind(Enum):
    """The kinds of object stores."""

    S3 = "S3"
    GCS = "Google Cloud Storage"
    AZURE = "Azure Blob Storage"
    HTTP = "a web server"
    MEMORY = "memory"


_KINDS: Final = {
    "s3": Kind.S3,
    "s3a": Kind.S3,
    "gs": Kind.GCS,
    "az": Kind.AZURE,
    "abfs": Kind.AZURE,
    "abfss": Kind.AZURE,
    "https": Kind.HTTP,
    "http": Kind.HTTP,
    "memory": Kind.MEMORY,
}

ONE_KIND: Final = "one read takes either local paths or those of object stores; read both and unite them with union()"
"""Error for paths of both."""

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/]*)(.*)", re.DOTALL)

_MOST_CHARACTERS: Final = 1 << 16
"""Length of a path or pattern; keys have 1,024 bytes at most."""


def scheme_of(path: str) -> str | None:
    """Return the scheme of a URL of an object store, in lower case; None for every other path."""
    scheme = path.partition("://")[0].lower()
    return scheme if "://" in path and scheme in _KINDS else None


def kind_of(path: str) -> Kind:
    """Return the kind of store of a URL, whose scheme is known."""
    scheme = scheme_of(path)
    assert scheme is not None
    return _KINDS[scheme]


def object_path(path: str | os.PathLike[str]) -> str:
    """Return a URL as all calls write it: the scheme in lower case, no slash doubled or at the end.

    Raises
    ------
    OptionError
        It names no bucket, holds a password, ``.`` or ``..``, a NUL or a lone surrogate, or is too long.
    UnsupportedError
        It is a local path, or has a scheme that no object store has.
    """
    text = os.fspath(path)
    found = _URL.fullmatch(text)
    if found is None or scheme_of(text) is None:
        raise UnsupportedError(ONE_KIND, path=text)
    if len(text) > _MOST_CHARACTERS:
        raise OptionError(
            expected=f"a path or pattern of at most {_MOST_CHARACTERS:,} characters", found=f"{len(text):,}"
        )
    scheme, place, key = found[1].lower(), found[2], found[3]
    if _has_password(scheme, place):
        raise OptionError(
            f"the path {scheme}://... holds a password or a key before @, and paths are shown in plans and logs; "
            "leave it to the machine's own credentials, or give it by the options storage.*"
        )
    if not place:
        raise OptionError(expected=f"a bucket, container or host after {scheme}://", found=cut_repr(text))
    parts = [part for part in key.split("/") if part]
    if {".", ".."} & set(parts):
        raise OptionError(expected="a path without . and .. in it", found=cut_repr(text))
    if "\0" in text or (not text.isascii() and _lone_surrogate(text)):
        raise OptionError(expected="a path", found=f"a NUL or a lone surrogate in {cut_repr(text)}")
    return "/".join([f"{scheme}://{place}", *parts])


def split_url(path: str) -> tuple[str, str]:
    """Return the root and the key of a path from `object_path`; the key of the root itself is ``""``."""
    scheme, _, rest = path.partition("://")
    place, _, key = rest.partition("/")
    return f"{scheme}://{place}", key


def join_url(root: str, key: str) -> str:
    """Return the path of a key; the reverse of `split_url`."""
    return f"{root}/{key}" if key else root


def _has_password(scheme: str, place: str) -> bool:
    """Return whether something stands before an @ that is no container's name, as in abfss://container@account."""
    user, at, _ = place.rpartition("@")
    return bool(at) and (_KINDS[scheme] is not Kind.AZURE or ":" in user)


def _lone_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
