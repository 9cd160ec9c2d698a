"""Modes of a write: append, overwrite, and the handling of existing files."""

from __future__ import annotations

from enum import Enum, StrEnum

__all__ = ["IfExists", "WriteMode"]


class WriteMode(Enum):
    """Whether a write keeps or replaces the existing files."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    DYNAMIC = "dynamic"
    """Overwrite only the partitions that the job writes to."""


class IfExists(StrEnum):
    """What an append does if the directory contains files already."""

    APPEND = "append"
    ERROR = "error"
    IGNORE = "ignore"
