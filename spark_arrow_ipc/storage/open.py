"""`storage_of`: find the storage of a path."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.object_url import scheme_of
from spark_arrow_ipc.storage.storage import Storage

if TYPE_CHECKING:
    from spark_arrow_ipc.storage.object_options import StorageOptions

__all__ = ["storage_of"]


def storage_of(path: str | os.PathLike[str], options: StorageOptions = ()) -> tuple[Storage, str]:
    """Return the storage of a user's path or URI, and the absolute path in it.

    Parameters
    ----------
    path
        As it was given.
    options
        Of an object store (`object_options.connect`), without their prefix.

    Raises
    ------
    OptionError
        It is not a valid path, or options are given for a local one.
    UnsupportedError
        No storage has its scheme.
    """
    if scheme_of(os.fspath(path)) is not None:
        # Only now: workers that read local files start without it.
        from spark_arrow_ipc.storage.object_store import ObjectStorage

        storage = ObjectStorage(options)
        return storage, storage.resolve(path)
    found = LOCAL.resolve(path)
    if options:
        raise OptionError(
            f"the option storage.{options[0][0]} is for object stores, and the path is a local one; remove it",
            path=found,
        )
    return LOCAL, found
