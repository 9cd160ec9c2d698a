"""The options whose values are words: one enum each, of the words as users write them."""

from __future__ import annotations

from enum import StrEnum

__all__ = [
    "DictionaryColumns",
    "Durability",
    "ExtensionTypes",
    "MapKeys",
    "Nanoseconds",
    "PartitionOverwriteMode",
    "Times",
]


class Nanoseconds(StrEnum):
    """The treatment of nanoseconds, which Spark does not have."""

    FLOOR = "floor"
    ERROR = "error"
    LONG = "long"


class Times(StrEnum):
    """The Spark type of a time of day."""

    INTERVAL = "interval"
    TIME = "time"
    LONG = "long"


class MapKeys(StrEnum):
    """The treatment of a key that a map holds twice."""

    ERROR = "error"
    LAST_WINS = "lastWins"


class ExtensionTypes(StrEnum):
    """The treatment of the extension types that Spark has a type for."""

    CONVERT = "convert"
    STORAGE = "storage"


class Durability(StrEnum):
    """Whether written files and names are made durable before they are reported and published."""

    FSYNC = "fsync"
    NONE = "none"


class PartitionOverwriteMode(StrEnum):
    """The part of a dataset that an overwrite replaces."""

    STATIC = "static"
    DYNAMIC = "dynamic"


class DictionaryColumns(StrEnum):
    """The columns that are dictionary-encoded, where no list names them."""

    AUTO = "auto"
    NONE = "none"
