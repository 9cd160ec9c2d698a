"""`hide_secrets`: Spark's plans, event log and web pages show no value of an option that may hold a secret.

Spark hides the values of options by their names, and its defaults know few of ours: ``storage.account_key`` matches none of
them. Each session has a regular expression of its own for that.
"""

from __future__ import annotations

import re
from typing import Final

from pyspark.sql import SparkSession

from spark_arrow_ipc.spark.options.options import OPTIONS

SETTING: Final = "spark.sql.redaction.options.regex"

_DEFAULT: Final = "(?i)url"
"""Spark's own; Connect does not tell the defaults of this setting."""

_NAMES: Final = "|".join(re.escape(option.name).replace(r"\*", ".*") for option in OPTIONS if option.is_secret)

EXPRESSION: Final = f"(?i:^({_NAMES})$)"


def hide_secrets(spark: SparkSession) -> None:
    """Add our options to those that a session hides."""
    expression = spark.conf.get(SETTING, _DEFAULT) or ""
    if EXPRESSION not in expression:
        spark.conf.set(SETTING, f"{EXPRESSION}|{expression}" if expression else EXPRESSION)
