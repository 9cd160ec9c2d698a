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
    """What becomes of nanoseconds, which Spark does not have."""

    FLOOR = "floor"
    ERROR = "error"
    LONG = "long"


class Times(StrEnum):
    """What a time of day becomes."""

    INTERVAL = "interval"
    TIME = "time"
    LONG = "long"


class MapKeys(StrEnum):
    """What happens with a key that a map holds twice."""

    ERROR = "error"
    LAST_WINS = "lastWins"


class ExtensionTypes(StrEnum):
    """What becomes of the extension types that Spark has a type for."""

    CONVERT = "convert"
    STORAGE = "storage"


class Durability(StrEnum):
    """Whether written files and names are made durable before they are reported and published."""

    FSYNC = "fsync"
    NONE = "none"


class PartitionOverwriteMode(StrEnum):
    """What an overwrite replaces."""

    STATIC = "static"
    DYNAMIC = "dynamic"


class DictionaryColumns(StrEnum):
    """Which columns are dictionary-encoded, where no list says it."""

    AUTO = "auto"
    NONE = "none"
