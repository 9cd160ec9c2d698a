"""`PartitionValues`: compare directories of partitions by their values.

Writers spell one value in several ways: ``k=a b`` and ``k=a%20b``, ``k=é`` and ``k=%C3%A9``, ``k=1`` and ``k=01`` and
``k=1.0``. Readers see one partition, and all that lies below its directory is in it (``k=1/sub``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.listing.partition_values import cast, exact_number, unescape_path_name
from spark_arrow_ipc.dataset.spark_datetime_text import parse_timestamp
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.storage.paths import SEPARATOR, above, parent

Key = tuple[tuple[str, object], ...]
"""The columns of a directory in lower case, and their values."""

_NAN: Final = "NaN"


class PartitionValues:
    """Compares relative directories by the values of partition columns.

    Parameters
    ----------
    fields
        The partition columns with the types of the written table. Columns with other names are compared as strings.
    """

    def __init__(self, fields: Sequence[t.Field]) -> None:
        self._types = {field.name.lower(): field.type for field in fields}
        self._levels = len(fields)
        self._values: dict[tuple[str, str], object] = {}

    def key(self, directory: str) -> Key:
        """Return a value that is equal for directories of the same partition."""
        return tuple(self._part(part) for part in directory.split("/")) if directory else ()

    def same(self, directories: Collection[str], others: Collection[str]) -> set[str]:
        """Return the partitions in which `others` lie, of those that are the same as one of `directories`."""
        keys = {self.key(directory) for directory in directories}
        partitions = {SEPARATOR.join(other.split(SEPARATOR)[: self._levels]) for other in others}
        return {partition for partition in partitions if self.key(partition) in keys}

    def _part(self, part: str) -> tuple[str, object]:
        escaped, _, string = part.partition("=")
        name = unescape_path_name(escaped).lower()
        if (name, string) not in self._values:
            self._values[name, string] = self._value(string, self._types.get(name, t.utf8))
        return name, self._values[name, string]

    @staticmethod
    def _value(string: str, type_: t.DataType) -> object:
        try:
            if isinstance(type_, t.Timestamp):
                return _moment(string)
            value = cast(string, type_)
        except (ArrowIpcError, ValueError):
            number = exact_number(string) if isinstance(type_, (t.Int, t.Decimal)) else None
            if number is not None:
                return number  # k=1.0 of another writer is the integer 1
            return "text", unescape_path_name(string)  # another writer's; no value of ours is equal to it
        return _NAN if value != value else value  # noqa: PLR0124 - only NaN differs from itself


def is_in(path: str, partitions: Collection[str]) -> bool:
    """Return whether a file lies in one of some directories or, of a partition's, anywhere below."""
    return any(directory in partitions for directory in above(path)) or ("" in partitions and not parent(path))


def _moment(string: str) -> object:
    """Return the instant or local time of a string; the zone of a time without one is that of the job's other times."""
    value: datetime | None = parse_timestamp(unescape_path_name(string))
    return string if value is None else (value.tzinfo is None, value)
