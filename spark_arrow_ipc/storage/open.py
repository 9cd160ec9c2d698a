"""`storage_of`: find the storage of a path."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.paths import Place, place_of
from spark_arrow_ipc.storage.storage import Storage

if TYPE_CHECKING:
    from spark_arrow_ipc.storage.base import StorageOptions


def storage_of(path: str | os.PathLike[str], options: StorageOptions = ()) -> tuple[Storage, str]:
    """Return the storage of a user's path or URI, and the absolute path in it."""
    text = os.fspath(path)
    storage = _STORAGES[place_of(text)](options)
    resolved = storage.resolve(text)
    if options and storage is LOCAL:
        raise OptionError(
            f"the option storage.{options[0][0]} is for object stores and other remote paths, and the path is a local "
            "one; remove it",
            path=resolved,
        )
    return storage, resolved


# Imported late: workers that read local files start without these modules.


def _objects(options: StorageOptions) -> Storage:
    from spark_arrow_ipc.storage.object_store import ObjectStorage

    return ObjectStorage(options)


def _hadoop(options: StorageOptions) -> Storage:
    from spark_arrow_ipc.storage.hadoop import HadoopStorage

    return HadoopStorage(options)


def _other(options: StorageOptions) -> Storage:
    from spark_arrow_ipc.storage.fsspec_storage import FsspecStorage

    return FsspecStorage(options)


_STORAGES: Final[Mapping[Place, Callable[[StorageOptions], Storage]]] = {
    Place.LOCAL: lambda _: LOCAL,
    Place.OBJECTS: _objects,
    Place.HADOOP: _hadoop,
    Place.OTHER: _other,
}
