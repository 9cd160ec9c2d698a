"""What a write does with the data that is there."""

from __future__ import annotations

from enum import Enum, StrEnum

__all__ = ["IfExists", "WriteMode"]


class WriteMode(Enum):
    """What happens to the files that are there."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    DYNAMIC = "dynamic"
    """Overwrite of only those partitions that the job writes to."""


class IfExists(StrEnum):
    """What an append does where the directory holds files already."""

    APPEND = "append"
    ERROR = "error"
    IGNORE = "ignore"
