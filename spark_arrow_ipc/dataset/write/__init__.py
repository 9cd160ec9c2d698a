"""Write files: plan a job, stage its files, and commit or abort it.

The words of options are here: each planner of Spark's starts with the table of options.
"""

from __future__ import annotations

from enum import Enum, StrEnum


class WriteMode(Enum):
    """The existing files that a write replaces."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    DYNAMIC = "dynamic"
    """Overwrite only the partitions that the job writes to."""
    REWRITE = "rewrite"
    """Replace chosen files by new files with the same rows. All other files stay, also those that others add meanwhile."""


class IfExists(StrEnum):
    """The behaviour of an append if the directory contains files already."""

    APPEND = "append"
    ERROR = "error"
    IGNORE = "ignore"
