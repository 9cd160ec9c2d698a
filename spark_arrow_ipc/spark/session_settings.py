"""Settings of the session: read them in tasks, and change settings of Spark that harm reads, writes or secrets.

Tasks of a query get the settings that the session has set at the time of the action, as properties of the job; all others
have their defaults. Jobs of RDDs (``df.rdd``, ``foreachPartition``) have neither these properties nor the number of a
query, so in their tasks a setting without a value is unknown. Planners get no settings.
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
"""The environment variable of the JVM with the default of `ANSI`."""


CATALOG: Final = "spark.sql.catalog.arrowipc"
"""The setting by which Spark finds the catalog whose tables are named by their paths."""

CATALOG_CLASS: Final = "sparkarrowipc.Catalog"
"""The value of `CATALOG` in sessions that have the jar."""

CATALOGS: Final = {CATALOG: CATALOG_CLASS, "spark.sql.catalog.spark_catalog": "sparkarrowipc.SessionCatalog"}
"""The settings of both catalogs, with their values in sessions that have the jar."""


def read_setting(name: str) -> str | None:
    """Return the value of a setting in a task, if the session has set it; otherwise None."""
    context = TaskContext.get()
    value: str | None = None if context is None else context.getLocalProperty(name)
    return value


def value_of(name: str, defaults: Mapping[str, str]) -> str | None:
    """Return the value of a setting, outside of tasks its default; None in a task that cannot know it."""
    context = TaskContext.get()
    value = read_setting(name)
    if value is None and (context is None or context.getLocalProperty(_QUERY) is not None):
        return defaults.get(name, SETTINGS[name].default)
    return value


def is_case_sensitive() -> bool:
    """Return True if the session of this task has the setting by which case distinguishes names."""
    value = value_of(CASE, {})
    return value is not None and value.strip().lower() == "true"


def planner_defaults() -> dict[str, str]:
    """Return the defaults that the environment of the driver's JVM changes."""
    # Planners inherit that environment.
    return {ANSI: "false"} if os.environ.get(_ANSI_DEFAULT) == "false" else {}


def settings_for_tasks(spark: SparkSession) -> dict[str, str]:
    """Return the settings on which the meaning of a predicate depends, for the tasks of an RDD."""
    values = {}
    for name, setting in SETTINGS.items():
        try:
            values[name] = str(spark.conf.get(name))
        except PySparkException:  # a setting that this release of Spark lacks
            values[name] = setting.default
    return values


_LOG: Final = logging.getLogger(__name__)

# At the default of this setting Spark measures an Arrow batch after each row that it hands to a Python process, which takes
# most of the time of a long write. Only tasks know settings, so the first task of a job warns.
MAX_BYTES_PER_BATCH: Final = "spark.sql.execution.arrow.maxBytesPerBatch"

UNLIMITED: Final = "2147483647"
"""The greatest value, at which Spark does not measure: only the number of rows then limits batches."""

_FELT_VALUES: Final = 5_000_000
"""Rows times columns of a task from which it warns: measuring takes about 0.1 microseconds for each value."""


def with_warning(batches: Iterator[PyArrowBatch], context: TaskContext | None) -> Iterator[PyArrowBatch]:
    """Yield batches, and warn if they are many, the setting has its default and this is the first task of a job."""
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


@cache  # once in each process, which may run tasks of many jobs
def _warn() -> None:
    _LOG.warning(
        "this write takes up to five times as long as it could, because Spark measures its batches after each row; "
        'before writing, call spark.conf.set("%s", "%s"), or spark_arrow_ipc.register(spark), which sets it',
        MAX_BYTES_PER_BATCH,
        UNLIMITED,
    )


def unlimit_batch_bytes(spark: SparkSession) -> None:
    """Set the greatest value in a session that has no value."""
    if spark.conf.get(MAX_BYTES_PER_BATCH, None) is None:
        spark.conf.set(MAX_BYTES_PER_BATCH, UNLIMITED)


_COLUMNAR_INPUT: Final = "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled"
_HANGS: Final = "4.2.0"
"""The release in which a UDF that takes columns hangs (SPARK-58241); 4.1 lacks the setting, and 4.2.1 is correct."""


def avoid_hang_of_columnar_functions(spark: SparkSession) -> None:
    """Turn columns for Python functions off in a session that would hang and has no value."""
    if spark.version.startswith(_HANGS) and spark.conf.get(_COLUMNAR_INPUT, None) is None:
        spark.conf.set(_COLUMNAR_INPUT, "false")
        _LOG.warning(
            "Spark 4.2.0 hangs where an Arrow-optimised UDF takes columns (SPARK-58241, fixed in 4.2.1): %s is now false in "
            "this session",
            _COLUMNAR_INPUT,
        )


REDACTION: Final = "spark.sql.redaction.options.regex"

EXPRESSION: Final = "(?i:^(option[.]|.*catalog[.].*)?storage[.])"
"""Matches the options that may hold a secret; without a word such as ``token``, for which Spark Connect hides a setting."""


def hide_secrets(spark: SparkSession) -> None:
    """Let Spark hide the values of options ``storage.*`` in its plans, event log and web pages."""
    # Spark's own expressions have words such as secret, token and url, and match neither storage.account_key nor
    # storage.sas_key.
    try:
        expression = spark.conf.get(REDACTION) or ""
    except PySparkException:
        _LOG.warning("Spark does not tell the value of %s, which stays as it is; add %s to it", REDACTION, EXPRESSION)
        return
    if EXPRESSION not in expression:
        spark.conf.set(REDACTION, f"{EXPRESSION}|{expression}" if expression else EXPRESSION)
