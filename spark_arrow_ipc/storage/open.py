"""`storage_of`: find the storage of a path."""

from __future__ import annotations

import os

from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.storage import Storage

__all__ = ["storage_of"]


def storage_of(path: str | os.PathLike[str]) -> tuple[Storage, str]:
    """Return the storage of a user's path or URI, and the absolute path in it.

    Raises
    ------
    OptionError
        It is not a valid path.
    UnsupportedError
        No storage has its scheme.
    """
    return LOCAL, LOCAL.resolve(path)
