"""Values of partition columns: inferred, cast, escaped and formatted as Spark does."""

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal

import numpy as np
import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.listing.partition_values import (
    CASTS,
    cast,
    escape_path_name,
    infer_type,
    partition_directory,
    unescape_path_name,
    widest,
)
from spark_arrow_ipc.errors import OptionError, UnsupportedError

NULL = "__HIVE_DEFAULT_PARTITION__"


LOCAL = t.Timestamp(t.TimeUnit.MICROSECOND)


INFERRED = [
    ("1", t.int32, 1),
    ("-007", t.int32, -7),
    ("+3", t.int32, 3),
    ("١٢", t.int32, 12),
    ("2147483647", t.int32, 2**31 - 1),
    ("2147483648", t.int64, 2**31),
    ("-9223372036854775808", t.int64, -(2**63)),
    ("9223372036854775808", t.Decimal(19, 0), Decimal(2**63)),
    ("9" * 38, t.Decimal(38, 0), Decimal("9" * 38)),
    ("9" * 39, t.float64, 1e39),
    ("1e3", t.Decimal(4, 0), Decimal(1000)),
    ("0e5", t.Decimal(6, 0), Decimal(0)),
    ("1.", t.Decimal(1, 0), Decimal(1)),
    ("1.5e1", t.Decimal(2, 0), Decimal(15)),
    ("1e999999999", t.float64, math.inf),
    ("1.5", t.float64, 1.5),
    (".5d", t.float64, 0.5),
    (" 1", t.float64, 1.0),
    ("-Infinity", t.float64, -math.inf),
    ("0x1.8p1", t.float64, 3.0),
    ("0x1p99999", t.float64, math.inf),
    ("2024-02-29", t.date32, date(2024, 2, 29)),
    ("2024-02-29 12%3A34%3A56", LOCAL, datetime(2024, 2, 29, 12, 34, 56)),
    ("2024-02-29 12%3A34%3A56.5", LOCAL, datetime(2024, 2, 29, 12, 34, 56, 500000)),
    ("2024-02-29 12%3A34%3A56.25", t.utf8, "2024-02-29 12:34:56.25"),
    ("2023-02-29", t.utf8, "2023-02-29"),
    ("2024-2-29", t.utf8, "2024-2-29"),
    ("12%3A34%3A56", t.utf8, "12:34:56"),
    ("0000-01-01", t.utf8, "0000-01-01"),
    ("true", t.utf8, "true"),
    ("1_000", t.utf8, "1_000"),
    ("inf", t.utf8, "inf"),
    ("a%3Ab%", t.utf8, "a:b%"),
    (NULL, t.null, None),
]


@pytest.mark.parametrize(("string", "type_", "value"), INFERRED, ids=[case[0][:40] for case in INFERRED])
def test_type_and_value_of_a_string(string, type_, value):
    assert (type_, value) == (infer_type(string), cast(string, type_))


WIDEST = [
    ([t.null], t.null),
    ([t.null, t.int32], t.int32),
    ([t.int32, t.int64], t.int64),
    ([t.int32, t.Decimal(4, 0)], t.Decimal(10, 0)),
    ([t.int32, t.int64, t.Decimal(4, 0)], t.Decimal(20, 0)),
    ([t.Decimal(25, 0), t.int64, t.Decimal(38, 0)], t.Decimal(38, 0)),
    ([t.int32, t.float64], t.float64),
    ([t.int64, t.float64], t.utf8),
    ([t.int32, t.int64, t.float64], t.utf8),
    ([t.Decimal(4, 0), t.float64], t.utf8),
    ([t.date32, LOCAL], LOCAL),
    ([t.date32, t.int32], t.utf8),
    ([LOCAL, t.float64, t.date32], t.utf8),
    ([t.utf8, t.null, t.int32], t.utf8),
]


@pytest.mark.parametrize(("types", "expected"), WIDEST, ids=[" ".join(map(str, case[0])) for case in WIDEST])
def test_widest_type(types, expected):
    assert [expected] * 2 == [widest(types), widest(reversed(types))]


def test_every_type_that_is_inferred_can_be_cast():
    assert {type(case[1]) for case in INFERRED} <= set(CASTS)


ESCAPES = [
    ("a:b", "a%3Ab"),
    ("100%", "100%25"),
    ("é 漢+&", "é 漢+&"),
    ("a/b\\c", "a%2Fb%5Cc"),
    ("{}[]^", "%7B}%5B%5D%5E"),
    ("\x00\x1f\x7f", "%00%1F%7F"),
    ("\"#'*=?", "%22%23%27%2A%3D%3F"),
]


@pytest.mark.parametrize(("string", "escaped"), ESCAPES)
def test_escapes(string, escaped):
    assert (escaped, string) == (escape_path_name(string), unescape_path_name(escaped))


@pytest.mark.parametrize(
    ("escaped", "string"), [("%", "%"), ("%4", "%4"), ("%zz", "%zz"), ("%e4%-1", "ä%-1"), ("%41%", "A%")]
)
def test_percent_signs_that_escape_nothing_stay(escaped, string):
    assert string == unescape_path_name(escaped)


# Polars and pyarrow escape each byte of UTF-8; Spark and Hive escape ASCII alone, and read each escape as one character.
BYTES_ESCAPED = [
    ("%C3%A9", "é"),
    ("%c3%a9t%C3%A9", "été"),
    ("%E6%97%A5%E6%9C%AC", "日本"),
    ("%F0%9F%98%80", "😀"),
    ("%41%C3%A9%25", "Aé%"),
    ("é%C3%A9", "éé"),
    ("%25C3%25A9", "%C3%A9"),
    ("%C3%A9%FF", "Ã©ÿ"),
    ("%C3A9", "ÃA9"),
    ("%E4", "ä"),
    ("%C0%80", "À\x80"),
    ("%ED%A0%80", "í\xa0\x80"),
]


@pytest.mark.parametrize(("escaped", "string"), BYTES_ESCAPED)
def test_a_run_of_escapes_that_is_utf8_is_utf8(escaped, string):
    """Each other escape is one character, as in Spark."""
    assert string == unescape_path_name(escaped)
    assert string == unescape_path_name(escape_path_name(string))


# As Spark's partitionBy writes them; the doubles are those of Java's Double.toString.
WRITTEN = [
    (None, NULL),
    ("", NULL),
    ("a/b", "a%2Fb"),
    (True, "true"),
    (np.bool_(0), "false"),
    (-7, "-7"),
    (np.int64(7), "7"),
    (1.0, "1.0"),
    (-0.0, "-0.0"),
    (100.0, "100.0"),
    (0.001, "0.001"),
    (9.99e-4, "9.99E-4"),
    (9999999.5, "9999999.5"),
    (1e7, "1.0E7"),
    (123456789.0, "1.23456789E8"),
    (1e-5, "1.0E-5"),
    (5e-324, "4.9E-324"),
    (1.7976931348623157e308, "1.7976931348623157E308"),
    (math.nan, "NaN"),
    (-math.inf, "-Infinity"),
    (np.float32(0.1), "0.1"),
    (np.float64(0.1), "0.1"),
    (Decimal("1.500"), "1.500"),
    (Decimal("1E-10"), "0.0000000001"),
    (date(99, 1, 2), "0099-01-02"),
    (datetime(99, 1, 2, 3, 4, 5), "0099-01-02 03%3A04%3A05"),
    (datetime(2024, 1, 2, 3, 4, 5, 120000), "2024-01-02 03%3A04%3A05.12"),
    (datetime(2024, 1, 2, tzinfo=UTC), "2024-01-02 00%3A00%3A00"),
    (time(3, 4, 5, 100000), "03%3A04%3A05.1"),
    (b"a:b", "a%3Ab"),
    ("x._COPYING_", "x._COPYING%5F"),
]


@pytest.mark.parametrize(("value", "string"), WRITTEN, ids=[repr(case[0]) for case in WRITTEN])
def test_values_are_written_as_spark_writes_them(value, string):
    assert f"a%3Ab=1/k={string}" == partition_directory(["a:b", "k"], [1, value])


def test_what_cannot_name_a_directory_is_refused():
    with pytest.raises(UnsupportedError, match="type dict"):
        partition_directory(["k"], [{}])
    with pytest.raises(OptionError, match="empty name"):
        partition_directory([""], [1])
