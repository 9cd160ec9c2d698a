"""The setting of Spark at whose default a write takes several times as long: warn of it, or set it.

Strategy
--------
At the default of ``spark.sql.execution.arrow.maxBytesPerBatch`` Spark asks how many bytes an Arrow batch has after each
row that it hands to a Python process, which takes most of a long write's time. The planner sees no setting. A task sees
those that the session set, as its local properties, so the first task of a job can say what is missing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache
from math import inf
from typing import Final

from pyspark import TaskContext
from pyspark.sql import SparkSession

from spark_arrow_ipc.spark.bridge import PyArrowBatch

_LOG: Final = logging.getLogger(__name__)

MAX_BYTES_PER_BATCH: Final = "spark.sql.execution.arrow.maxBytesPerBatch"

UNLIMITED: Final = "2147483647"
"""The greatest value, at which Spark does not measure: batches are then limited by their number of rows alone."""

_FELT_VALUES: Final = 5_000_000
"""Values in one task, rows times columns, above which the time is felt: measuring takes some 0.1 microseconds for each."""


def with_warning(batches: Iterator[PyArrowBatch], context: TaskContext | None) -> Iterator[PyArrowBatch]:
    """Yield batches; log one line if they are many and the session left the setting at its default.

    In the first task of a job alone, and once in each of Spark's processes, which serve one job after another.

    Parameters
    ----------
    batches
        As Spark gives them.
    context
        Of the task that runs; None outside of Spark.
    """
    values: float = 0
    if (
        context is None
        or context.partitionId() != 0
        or context.attemptNumber() != 0
        or context.getLocalProperty(MAX_BYTES_PER_BATCH) is not None
    ):
        values = -inf
    for batch in batches:
        if values < _FELT_VALUES:
            values += batch.num_rows * batch.num_columns
            if values >= _FELT_VALUES:
                _warn()
        yield batch


@cache
def _warn() -> None:
    _LOG.warning(
        "this write takes up to five times as long as it could, because Spark measures its batches after each row; "
        'before writing, call spark.conf.set("%s", "%s"), or spark_arrow_ipc.register(spark), which sets it',
        MAX_BYTES_PER_BATCH,
        UNLIMITED,
    )


def set_unless_chosen(spark: SparkSession) -> None:
    """Set the greatest value in a session that has none of its own."""
    if spark.conf.get(MAX_BYTES_PER_BATCH, None) is None:
        spark.conf.set(MAX_BYTES_PER_BATCH, UNLIMITED)
