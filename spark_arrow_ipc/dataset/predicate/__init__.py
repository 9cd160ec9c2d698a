"""The option `where` as a typed predicate: parse it, bind it to columns, and skip data that cannot match.

This module has the settings of a session that change the meaning of a predicate in Spark's own filter. `where` answers as
Spark does under its defaults. Parsing and binding collect the settings on which a predicate depends, each with a part of the
SQL: `tokens` and `operands` for literals, `settings` for coercions. The caller that has the session checks their values
(`check_settings`).

The rows of `SETTINGS` come from ``tests/programs/where_settings.py``, which compares Spark's answers under all of its settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc.errors import OptionError

ANSI: Final = "spark.sql.ansi.enabled"
CASE: Final = "spark.sql.caseSensitive"
DATETIME_STRINGS: Final = "spark.sql.legacy.typeCoercion.datetimeToString.enabled"
DOUBLE_QUOTES: Final = "spark.sql.ansi.doubleQuotedIdentifiers"
ESCAPES: Final = "spark.sql.parser.escapedStringLiterals"
EXPONENTS: Final = "spark.sql.legacy.exponentLiteralAsDecimal.enabled"
NEGATIVE_SCALES: Final = "spark.sql.legacy.allowNegativeScaleOfDecimal"
PRECISION: Final = "spark.sql.legacy.literal.pickMinimumPrecision"
TIMESTAMP_TYPE: Final = "spark.sql.timestampType"
TRUNCATION: Final = "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate"

_SINGLE_TYPED = "write each literal in the type of its column (1.5F, 7, DATE '2024-01-31', CAST('7' AS INT))"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting."""

    default: str  # the value for which `where` answers: Spark's own default
    changes: str  # the effect of another value
    instead: str  # advice: SQL that does not depend on the setting
    ansi: str | None = None  # the value of `ANSI` under which Spark uses this setting; None for both
    refuses: bool = False  # whether another value only makes Spark refuse more predicates, and never answer differently


SETTINGS: Final[Mapping[str, Setting]] = {
    ANSI: Setting("true", "the types in which Spark compares values and literals", _SINGLE_TYPED),
    ESCAPES: Setting("false", "what a backslash and r'...' mean in a string", "write strings without them"),
    DOUBLE_QUOTES: Setting("false", 'whether "..." is a string or a column', "write strings in single quotes", "true"),
    TIMESTAMP_TYPE: Setting(
        "TIMESTAMP_LTZ",
        "whether TIMESTAMP is an instant or a local time",
        "write TIMESTAMP_LTZ '...' or TIMESTAMP_NTZ '...'",
    ),
    EXPONENTS: Setting("false", "whether 1e3 is a double or a decimal", "write 1e3D or 1000BD"),
    NEGATIVE_SCALES: Setting("false", "the type of decimals with an exponent", "write them without"),
    PRECISION: Setting("true", "the digits of an integer next to a decimal", "write the number as a decimal (7BD)"),
    TRUNCATION: Setting("false", "which digits decimals of more than 38 digits lose", "write numbers of fewer digits"),
    DATETIME_STRINGS: Setting(
        "false",
        "whether dates are compared with strings as strings",
        "write DATE '...' or TIMESTAMP '...'",
        ansi="false",
    ),
    CASE: Setting("false", "whether names in another case match", "write names as the file has them", refuses=True),
}
"""By name: all settings except the time zone, in which predicates are bound (`instants`)."""


def shorten(text: str, most: int = 100) -> str:
    """Return a part of a predicate for a message; more than `most` characters are cut."""
    return text if len(text) <= most else f"{text[:most]}..."


def check_settings(dependencies: Mapping[str, str], value_of: Callable[[str], str | None]) -> None:
    """Refuse a predicate whose meaning the settings of a session change."""
    for name, part in dependencies.items():
        setting = SETTINGS[name]
        shown = shorten(part)
        value = value_of(name)
        if value is None and setting.refuses:
            continue
        if value is not None and value.strip().lower() == setting.default.lower():
            continue
        # Without ANSI's value the setting may matter: refused, rather than answered differently.
        ansi = value_of(ANSI) if setting.ansi is not None else None
        if setting.ansi is not None and ansi is not None and ansi.strip().lower() != setting.ansi:
            continue
        if value is None:
            raise OptionError(
                f"the session's setting {name} decides {setting.changes}, in [{shown}], and this action "
                f"does not tell its tasks the settings (rdd and foreachPartition do not): {setting.instead}, or use "
                "another action, such as collect, mapInArrow or write"
            )
        raise OptionError(
            f"the session's setting {name}={value} changes {setting.changes}, in [{shown}]: "
            f"{setting.instead}, or filter the DataFrame, or set it to {setting.default}"
        )
