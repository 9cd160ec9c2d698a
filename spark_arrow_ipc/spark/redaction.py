"""`hide_secrets`: Spark's plans, event log and web pages show no value of an option ``storage.*``.

Spark hides the values of options by their names: ``spark.redaction.regex`` has words such as ``secret`` and ``token``, and
each session an expression of its own, ``url``. Neither matches ``storage.account_key`` or ``storage.sas_key``.
"""

from __future__ import annotations

import logging
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_LOG: Final = logging.getLogger(__name__)

SETTING: Final = "spark.sql.redaction.options.regex"

EXPRESSION: Final = "(?i:^storage[.])"
"""Has no word such as ``token``: Spark Connect tells no value of a setting that has one."""


def hide_secrets(spark: SparkSession) -> None:
    """Add our options to those that a session hides, and leave a person's own expression in it."""
    try:
        expression = spark.conf.get(SETTING) or ""
    except PySparkException:
        _LOG.warning("Spark does not tell the value of %s, which stays as it is; add %s to it", SETTING, EXPRESSION)
        return
    if EXPRESSION not in expression:
        spark.conf.set(SETTING, f"{EXPRESSION}|{expression}" if expression else EXPRESSION)
