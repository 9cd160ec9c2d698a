"""Enums of option values; each value is the word that users write."""

from __future__ import annotations

from enum import StrEnum


class Nanoseconds(StrEnum):
    """The treatment of nanoseconds, which Spark does not have."""

    FLOOR = "floor"
    ERROR = "error"
    LONG = "long"


class Times(StrEnum):
    """The Spark type of a time of day."""

    NOTED = "noted"
    INTERVAL = "interval"
    TIME = "time"
    LONG = "long"


class MapKeys(StrEnum):
    """The treatment of duplicate keys of a map."""

    ERROR = "error"
    LAST_WINS = "lastWins"


class MissingColumns(StrEnum):
    """The treatment of columns of Spark's schema that a file does not have."""

    NULL = "null"
    ERROR = "error"


class SchemaCheck(StrEnum):
    """The schemas that a job may write beside existing files."""

    MERGE = "merge"
    EXACT = "exact"
    NONE = "none"


class ExtensionTypes(StrEnum):
    """The treatment of the extension types that Spark has a type for."""

    CONVERT = "convert"
    STORAGE = "storage"
    TENSOR = "tensor"
    GEOMETRY = "geometry"
    ALL = "all"

    @property
    def reads_tensors(self) -> bool:
        """Whether tensor columns are structs of a shape and values."""
        return self in {ExtensionTypes.TENSOR, ExtensionTypes.ALL}

    @property
    def reads_geometries(self) -> bool:
        """Whether columns of well-known binary are Spark's GEOMETRY and GEOGRAPHY."""
        return self in {ExtensionTypes.GEOMETRY, ExtensionTypes.ALL}


class Durability(StrEnum):
    """The durability of written files and names before they are published."""

    FSYNC = "fsync"
    NONE = "none"


class PartitionOverwriteMode(StrEnum):
    """The part of a dataset that an overwrite replaces."""

    STATIC = "static"
    DYNAMIC = "dynamic"


class DictionaryColumns(StrEnum):
    """The columns that are dictionary-encoded, if no list names them."""

    AUTO = "auto"
    NONE = "none"


class CleanSource(StrEnum):
    """What is done with files of a stream that were read."""

    OFF = "off"
    ARCHIVE = "archive"
    DELETE = "delete"


class StartingFrom(StrEnum):
    """Where a new streaming query begins."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Vectors(StrEnum):
    """The Spark type of a list of numbers of a fixed width."""

    ARRAY = "array"
    BINARY = "binary"
