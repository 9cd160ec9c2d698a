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
    DELETE = "delete"
    """Replace chosen files by new files with some of their rows, for SQL's DELETE."""
    UPDATE = "update"
    """Replace chosen files by new files with other values, for SQL's UPDATE."""
    MERGE = "merge"
    """Replace chosen files by new files with changed, fewer or more rows, for SQL's MERGE."""

    @property
    def replaces_chosen(self) -> bool:
        """Whether the job replaces files that it has chosen, and all others stay."""
        return self is WriteMode.REWRITE or self.changes_rows

    @property
    def changes_rows(self) -> bool:
        """Whether the job is a statement that changes rows in place, and commits nothing if it changes none."""
        return self in {WriteMode.DELETE, WriteMode.UPDATE, WriteMode.MERGE}


class IfExists(StrEnum):
    """The behaviour of an append if the directory contains files already."""

    APPEND = "append"
    ERROR = "error"
    IGNORE = "ignore"
