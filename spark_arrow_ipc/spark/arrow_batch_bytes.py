"""The setting of Spark at whose default a write takes several times as long: warn of it, or set it.

Strategy
--------
At the default of ``spark.sql.execution.arrow.maxBytesPerBatch`` Spark asks how many bytes an Arrow batch has after each
row that it hands to a Python process, which takes most of a write's time. The planner sees no setting. A task sees those
that the session set, as its local properties, so the first task of a job can say what is missing.
"""

from __future__ import annotations

import logging
from typing import Final

from pyspark import TaskContext
from pyspark.sql import SparkSession

__all__ = ["MAX_BYTES_PER_BATCH", "UNLIMITED", "set_unless_chosen", "warn_if_default"]

_LOG: Final = logging.getLogger(__name__)

MAX_BYTES_PER_BATCH: Final = "spark.sql.execution.arrow.maxBytesPerBatch"

UNLIMITED: Final = "2147483647"
"""The greatest value, at which Spark does not measure: batches are then limited by their number of rows alone."""


def warn_if_default(context: TaskContext | None) -> None:
    """Log one line if the session left the setting at its default; in the first task of a job alone.

    Parameters
    ----------
    context
        Of the task that runs; None outside of Spark.
    """
    if context is None or context.partitionId() != 0 or context.attemptNumber() != 0:
        return
    if context.getLocalProperty(MAX_BYTES_PER_BATCH) is None:
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
