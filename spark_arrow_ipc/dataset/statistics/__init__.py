"""Minima, maxima and null counts of each record batch: collect, store in the footer, read, skip blocks.

The words of the option are here because the table of options needs them, and each planner of Spark imports that table.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeAlias

from spark_arrow_ipc.arrow.column_path import ColumnPath


class Statistics(StrEnum):
    """The columns with statistics, if no list names them."""

    AUTO = "auto"
    NONE = "none"
    ALL = "all"


Which: TypeAlias = Statistics | Sequence[ColumnPath]
"""Value of the option `statistics`: a word, or references to columns (a struct stands for all its leaves)."""
