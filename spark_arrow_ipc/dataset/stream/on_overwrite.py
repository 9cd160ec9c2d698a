"""What a stream of a data set does where rows are removed."""

from __future__ import annotations

from enum import StrEnum


class OnOverwrite(StrEnum):
    """What a stream does at a record that removed rows of earlier ones."""

    FAIL = "fail"
    """Raise an error."""
    SKIP = "skip"
    """Go on after it: neither what it removed nor what it added."""
    APPEND = "append"
    """Read what it added as new rows."""
