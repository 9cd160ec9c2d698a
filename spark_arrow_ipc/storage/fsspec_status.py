"""The state of a file as the file systems of fsspec tell it, each in its own words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.storage.storage import Kind, Status

_TIMES: Final = (
    "mtime", "modified", "last_modified", "LastModified", "Last-Modified", "modificationTime", "modify", "updated",
    "last_commit", "time", "created",
)  # fmt: skip
"""Keys of the time of the last modification, best first. What is only ever created has not been modified."""

_VERSIONS: Final = (
    "ETag", "etag", "e_tag", "sha256", "sha", "oid", "blob_id", "checksum", "md5Hash", "md5", "content_md5",
    "content_hash", "version_id", "generation", "crc32c",
)  # fmt: skip
"""Keys of what differs whenever the bytes do, best first."""

_KINDS: Final = {"file": Kind.FILE, "directory": Kind.DIRECTORY}

_FTP_TIME: Final = re.compile(r"\d{14}")
_MOST_SECONDS: Final = 1e11
"""A larger number is of milliseconds: it would be the year 5138."""

_MOST_CHARACTERS: Final = 200
"""Of a version."""


def status_of(path: str, info: Mapping[str, Any]) -> Status:
    """Return the state of a path.

    Raises
    ------
    UnsupportedError
        It is a file, and nobody knows its size.
    """
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
    mtime_ns = next(filter(None, (_nanoseconds(info.get(key)) for key in _TIMES)), 0)
    version = next((str(info[key])[:_MOST_CHARACTERS] for key in _VERSIONS if info.get(key)), "")
    return Status(path, kind, nbytes, mtime_ns, version=version)


def has_changed(known: Status, now: Status) -> bool:
    """Return whether a file is another one than a listing said.

    What only one of the two answers says does not count, nor parts of a second, which listings may leave out.
    """
    if known.nbytes != now.nbytes:
        return True
    if known.version and now.version:
        return known.version != now.version
    return bool(known.mtime_ns and now.mtime_ns) and known.mtime_ns // 10**9 != now.mtime_ns // 10**9


def _nanoseconds(value: object) -> int:
    """Return a time in nanoseconds since 1970; 0 if it is none."""
    moment = getattr(value, "date", None)  # that of a commit
    if isinstance(moment, datetime):
        value = moment
    try:
        if isinstance(value, str):
            value = _parsed(value)
        if isinstance(value, datetime):
            value = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).timestamp()
        if isinstance(value, int | float) and math.isfinite(value) and value > 0:
            seconds = value / 1_000 if value > _MOST_SECONDS else value
            return round(seconds * 1e6) * 1_000
    except (ValueError, OverflowError, OSError):
        pass
    return 0


def _parsed(text: str) -> datetime:
    if _FTP_TIME.match(text):
        return datetime.strptime(text[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return parsedate_to_datetime(text)
