"""`storage_of`: the storage that a path lies in."""

from __future__ import annotations

import os

from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.storage import Storage

__all__ = ["storage_of"]


def storage_of(path: str | os.PathLike[str]) -> tuple[Storage, str]:
    """Return the storage that a person's path or URI lies in, and its absolute path there.

    Raises
    ------
    OptionError
        It is no path.
    UnsupportedError
        No storage has its scheme.
    """
    return LOCAL, LOCAL.resolve(path)
