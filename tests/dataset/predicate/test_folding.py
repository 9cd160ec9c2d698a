"""Expressions over literals; tests/spark/read/test_where.py asks Spark for the same ones."""

import pytest

from spark_arrow_ipc.dataset.predicate.folding import fold
from spark_arrow_ipc.dataset.predicate.instants import UncertainInstantError
from spark_arrow_ipc.dataset.predicate.literal_casts import Session
from spark_arrow_ipc.dataset.predicate.operands import parse_constant
from spark_arrow_ipc.dataset.predicate.tokens import Tokens
from spark_arrow_ipc.dataset.time_zones import UNKNOWN_ZONE, zone
from spark_arrow_ipc.errors import OptionError

HOUR = 3_600_000_000
NEW_YORK = zone("America/New_York")


def value_of(sql, session_zone=NEW_YORK):
    return fold(parse_constant(Tokens(sql)), Session(session_zone)).value


VALUES = [
    ("1 + 2", 3), ("7 / 2", 3.5), ("1.5 + 1", 25), ("2.0 * 1.50", 3000), ("CAST(-1.5 AS INT)", -1), ("CAST(1.255 AS DECIMAL(5,2))", 126),
    ("DATE '1970-01-31' + INTERVAL 1 MONTH", 58), ("DATE '1970-01-02' - 1", 0), ("date_add('1970-01-01', 7)", 7), ("1 + CAST(NULL AS INT)", None),
    ("string(5)", b"5"), ("CAST(DATE '1970-01-01' AS STRING)", b"1970-01-01"), ("INTERVAL 1 DAY * 2", 48 * HOUR), ("CAST(NULL AS DATE)", None),
    ("TIMESTAMP_NTZ '1970-01-31 01:00:00' + INTERVAL 1 MONTH", 58 * 24 * HOUR + HOUR),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "expected"), VALUES)
def test_values(sql, expected):
    assert expected == value_of(sql)


REFUSED = [
    "2147483647 + 1", "127Y + 1Y", "1 / 0", "1D / 0", "1.5 / 2", "CAST(300 AS TINYINT)", "CAST('x' AS INT)", "CAST('NaN' AS INT)", "int('1.5')",
    "CAST(1e10 AS INT)", "CAST(5 AS DECIMAL(1,1))", "DATE '9999-12-31' + 1", "DATE '2024-01-01' + 1L", "DATE '2024-01-01' + '1'", "-(DATE '2024-01-01')",
    "CAST(1D AS STRING)", "CAST(1 AS TIMESTAMP)", "'a' + 1", "DATE '2024-01-01' - DATE '2023-01-01'", "-(-2147483648)", "TIMESTAMP '9999-12-31 00:00:00' + INTERVAL 9 DAYS",
    "99999999999999999999999999999999999999 + 1", "DATE '2024-01-01' + INTERVAL 99999 YEARS",
]  # fmt: skip


@pytest.mark.parametrize("sql", REFUSED)
def test_what_has_no_exact_result_is_refused(sql):
    with pytest.raises(OptionError, match=r"^(expected|where does not)"):
        value_of(sql)


IN_A_ZONE = [
    "CAST(TIMESTAMP '2024-01-01 00:00:00Z' AS DATE)",
    "TIMESTAMP '2024-01-01 00:00:00Z' + INTERVAL 1 DAY",
]


@pytest.mark.parametrize("sql", IN_A_ZONE)
def test_what_depends_on_the_zone_needs_one(sql):
    with pytest.raises(OptionError, match="timeZone"):
        value_of(sql, None)
    with pytest.raises(UncertainInstantError, match="timeZone"):
        value_of(sql, UNKNOWN_ZONE)
    assert value_of("TIMESTAMP '1970-01-01 00:00:00Z' + INTERVAL 1 HOUR", None) == HOUR


def test_an_instant_that_is_not_certain_is_not_computed_with():
    with pytest.raises(UncertainInstantError, match="with an offset"):
        value_of("CAST(TIMESTAMP '1930-01-01 00:00:00' AS DATE)")
