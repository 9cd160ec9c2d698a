"""The settings of the session, as tasks can know them.

Spark gives the tasks of a query the settings that the session has set, as properties of the job: those at the time of the
action. One that is not among them has its default. Jobs of RDDs (``df.rdd``, ``foreachPartition``) have no such properties,
and no number of a query either, so there a setting that is not given is not known. Planners know none at all.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from functools import cache
from math import inf
from typing import Final

from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_arrow_ipc.dataset.predicate import ANSI, CASE, SETTINGS
from spark_arrow_ipc.spark.bridge import PyArrowBatch

SESSION_ZONE: Final = "spark.sql.session.timeZone"
_QUERY: Final = "spark.sql.execution.id"
_ANSI_DEFAULT: Final = "SPARK_ANSI_SQL_MODE"
"""The variable of the JVM's environment that decides the default of `ANSI`."""


def read_setting(name: str) -> str | None:
    """Return the value of a setting that the session has set, in a task; None for all others."""
    context = TaskContext.get()
    value: str | None = None if context is None else context.getLocalProperty(name)
    return value


def value_of(name: str, defaults: Mapping[str, str]) -> str | None:
    """Return the value of a setting in a task; None if it cannot be known. Outside of tasks there are defaults alone."""
    context = TaskContext.get()
    value = read_setting(name)
    if value is None and (context is None or context.getLocalProperty(_QUERY) is not None):
        return defaults.get(name, SETTINGS[name].default)
    return value


def is_case_sensitive() -> bool:
    """Return whether names that differ in case alone are two names in the session, in a task; False where unknown."""
    value = value_of(CASE, {})
    return value is not None and value.strip().lower() == "true"


def planner_defaults() -> dict[str, str]:
    """Return the defaults that the environment of the driver's JVM changes; its planners inherit it."""
    return {ANSI: "false"} if os.environ.get(_ANSI_DEFAULT) == "false" else {}


def settings_for_tasks(spark: SparkSession) -> dict[str, str]:
    """Return the settings that decide what a predicate means, to be given to the tasks of an RDD."""
    values = {}
    for name, setting in SETTINGS.items():
        try:
            values[name] = str(spark.conf.get(name))
        except PySparkException:  # a setting that this release of Spark lacks
            values[name] = setting.default
    return values


_LOG: Final = logging.getLogger(__name__)

# The setting of Spark at whose default a write takes several times as long: warn of it, or set it.
#
# At the default of ``spark.sql.execution.arrow.maxBytesPerBatch`` Spark asks how many bytes an Arrow batch has after
# each row that it hands to a Python process, which takes most of a long write's time. The planner sees no setting. A
# task sees those that the session set, as its local properties, so the first task of a job can say what is missing.
MAX_BYTES_PER_BATCH: Final = "spark.sql.execution.arrow.maxBytesPerBatch"

UNLIMITED: Final = "2147483647"
"""The greatest value, at which Spark does not measure: batches are then limited by their number of rows alone."""

_FELT_VALUES: Final = 5_000_000
"""Values in one task, rows times columns, above which the time is felt: measuring takes some 0.1 microseconds for each."""


def with_warning(batches: Iterator[PyArrowBatch], context: TaskContext | None) -> Iterator[PyArrowBatch]:
    """Yield batches; log one line if they are many and the session left the setting at its default.

    In the first task of a job alone, and once in each of Spark's processes, which serve one job after another.
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


def unlimit_batch_bytes(spark: SparkSession) -> None:
    """Set the greatest value in a session that has none of its own."""
    if spark.conf.get(MAX_BYTES_PER_BATCH, None) is None:
        spark.conf.set(MAX_BYTES_PER_BATCH, UNLIMITED)


_COLUMNAR_INPUT: Final = "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled"
_HANGS: Final = "4.2.0"
"""The release in which a UDF that takes columns waits for ever (SPARK-58241); 4.1 has no such setting, 4.2.1 is right."""


def avoid_hang_of_columnar_functions(spark: SparkSession) -> None:
    """Turn columns for Python functions off in a session that would hang, if it has no value of its own."""
    if spark.version.startswith(_HANGS) and spark.conf.get(_COLUMNAR_INPUT, None) is None:
        spark.conf.set(_COLUMNAR_INPUT, "false")
        _LOG.warning(
            "Spark 4.2.0 hangs where an Arrow-optimised UDF takes columns (SPARK-58241, fixed in 4.2.1): %s is now false in "
            "this session",
            _COLUMNAR_INPUT,
        )
