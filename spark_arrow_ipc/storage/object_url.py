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
from functools import partial
from typing import Final

from spark_arrow_ipc.errors import OptionError, UnsupportedError
from spark_arrow_ipc.storage.url import ONE_KIND, clean_url, split_url, url_scheme


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

SCHEMES: Final = tuple(_KINDS)
"""Schemes of object stores."""

_SAME: Final = {"s3a": "s3", "abfs": "az", "abfss": "az"}
"""Schemes that are other names of one."""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
"""Characters that obstore takes in no key."""


def scheme_of(path: str) -> str | None:
    """Return the scheme of a URL of an object store, in lower case; None for every other path."""
    scheme = url_scheme(path)
    return scheme if scheme in _KINDS else None


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
        It names no bucket, holds a password, ``.`` or ``..``, a control character or a lone surrogate, or is too long.
    UnsupportedError
        It is a local path, or has a scheme that no object store has.
    """
    text = os.fspath(path)
    scheme = scheme_of(text)
    if scheme is None:
        raise UnsupportedError(ONE_KIND, path=text)
    cleaned = clean_url(text, place="a bucket, container or host", may_name=partial(_is_container, _KINDS[scheme]))
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
    """Return the one URL that all spellings of a path have, to compare two: ``s3a`` is ``s3``, ``abfss`` is ``az``.

    `account` is the one of Azure where the path names none.
    """
    root, key = split_url(path)
    scheme, _, place = root.partition("://")
    if _KINDS[scheme] is Kind.AZURE:
        container, at, host = place.partition("@")
        place = f"{container}@{(host.partition('.')[0] if at else account).lower()}"
    return join_url(f"{_SAME.get(scheme, scheme)}://{place}", key)


def _is_container(kind: Kind, user: str) -> bool:
    """Return whether what stands before an @ is a container's name, as in abfss://container@account."""
    return kind is Kind.AZURE and ":" not in user
