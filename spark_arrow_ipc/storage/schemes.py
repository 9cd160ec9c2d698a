"""Which storage a path is in, by its scheme."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from spark_arrow_ipc.storage import object_url
from spark_arrow_ipc.storage.url import url_scheme


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
    **dict.fromkeys(object_url.SCHEMES, Place.OBJECTS),
}


def place_of(path: str) -> Place:
    """Return the storage of a path as a person writes it. Without ``://`` it is local."""
    scheme = url_scheme(path)
    return Place.LOCAL if scheme is None else _PLACES.get(scheme, Place.OTHER)


def is_remote(path: str) -> bool:
    """Return whether a path is in another storage than the local one."""
    return place_of(path) is not Place.LOCAL
