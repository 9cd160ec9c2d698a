"""Which columns of a written file have statistics: the value of the option `statistics`.

It stands apart from the collector because every worker knows the options, and one that only reads collects nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeAlias

from spark_arrow_ipc.arrow.column_path import ColumnPath


class Statistics(StrEnum):
    """The columns that have statistics, where no list names them."""

    AUTO = "auto"
    NONE = "none"
    ALL = "all"


Which: TypeAlias = Statistics | Sequence[ColumnPath]
"""Value of the option `statistics`: a word, or references to columns (a struct stands for all its leaves)."""
