"""Errors of queries with push-down and without: the same condition, SQLSTATE and words."""

from decimal import Decimal

import arrow_files
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

pytestmark = pytest.mark.usefixtures("large")

MOST = Decimal(10**38 - 1)
DIGITS = pa.decimal128(38, 0)
TABLE = pa.table(
    {
        "k": pa.array([1, 1, 2], pa.int32()),
        "zero": pa.array([0, 0, 0], pa.int32()),
        "long": pa.array([2**63 - 1, 2**63 - 1, 1]),
        "text": ["1", "x", "2026-13-01"],
        "bytes": pa.array([b"a", b"\xff", None]),
        "items": [[1], [2], None],
        "price": pa.array([Decimal("9999999999999.99")] * 3, pa.decimal128(15, 2)),
        "wide": pa.array([MOST, MOST, Decimal(1)], DIGITS),
        "other": pa.array([Decimal(1), Decimal(2), MOST], DIGITS),
        "scaled": pa.array([Decimal("0.5"), Decimal(10**30), None], pa.decimal128(38, 6)),
        "at": pa.array([0, 1, 2], pa.timestamp("us", "UTC")),
    }
)

# A query, and the condition that Spark ends it with; None where it has an answer.
OUT_OF_RANGE, OVERFLOW = "NUMERIC_VALUE_OUT_OF_RANGE", "ARITHMETIC_OVERFLOW"
QUERIES = {
    "a product in a sum": ("SELECT sum(wide * price) FROM t", OUT_OF_RANGE),
    "a product of two columns in a sum": ("SELECT sum(wide * other) FROM t", OUT_OF_RANGE),
    "an addition in a sum": ("SELECT sum(wide + other) FROM t", OUT_OF_RANGE),
    "a subtraction in a sum": ("SELECT sum(-5 - wide) FROM t", OUT_OF_RANGE),
    "the second of two sums": ("SELECT k, sum(price * price), sum(wide * price) FROM t GROUP BY k", OUT_OF_RANGE),
    "a sum over several lines": ("SELECT k,\n  sum(wide * price) AS s\nFROM t GROUP BY k", OUT_OF_RANGE),
    "a sum beside a filter": ("SELECT sum(wide * price) FROM t WHERE k = 1", OUT_OF_RANGE),
    "a product that a filter leaves out": ("SELECT sum(wide * other) FROM t WHERE k = 3", None),
    "greatest values that do not meet": ("SELECT sum(wide * other) FROM t WHERE other <> 2 AND long > 5", None),
    "the sum of decimals": ("SELECT sum(wide) FROM t", OVERFLOW),
    "the sum of decimals of groups": ("SELECT k, sum(wide) FROM t GROUP BY k", OVERFLOW),
    "the average of decimals": ("SELECT avg(wide) FROM t", OVERFLOW),
    "the sum of longs": ("SELECT sum(long) FROM t", OVERFLOW),
    "the sum of longs of groups": ("SELECT k, sum(long) FROM t GROUP BY k", OVERFLOW),
    "arithmetic in a filter": ("SELECT k FROM t WHERE long + 1 > 0", OVERFLOW),
    "a division in a filter": ("SELECT k FROM t WHERE 1 / zero > 0", "DIVIDE_BY_ZERO"),
    "a division in a sum": ("SELECT sum(price / zero) FROM t", "DIVIDE_BY_ZERO"),
    "a remainder below a count": ("SELECT count(*) FROM t WHERE k % zero = 1", "REMAINDER_BY_ZERO"),
    "a division behind another condition": ("SELECT k FROM t WHERE zero <> 0 AND 1 / zero > 0", None),
    "a cast in a filter": ("SELECT count(*) FROM t WHERE CAST(text AS int) = 1", "CAST_INVALID_INPUT"),
    "a cast in a comparison": ("SELECT k FROM t WHERE text > 1", "CAST_INVALID_INPUT"),
    "a cast in a maximum": ("SELECT max(CAST(text AS int)) FROM t", "CAST_INVALID_INPUT"),
    "a narrow cast in a sum": ("SELECT sum(CAST(long AS int)) FROM t", "CAST_OVERFLOW"),
    "a date in a filter": ("SELECT k FROM t WHERE CAST(text AS date) > DATE '2026-01-01'", "CAST_INVALID_INPUT"),
    "a date by a format": ("SELECT min(to_date(text, 'yyyy-MM-dd')) FROM t", "CANNOT_PARSE_TIMESTAMP"),
    "the year of a text": ("SELECT k FROM t WHERE year(text) = 2026", "CAST_INVALID_INPUT"),
    "an index of an array": ("SELECT k FROM t WHERE items[1] = 2", "INVALID_ARRAY_INDEX"),
    "an element of an array": ("SELECT max(element_at(items, 0)) FROM t", "INVALID_INDEX_OF_ZERO"),
    "bytes that are not UTF-8": ("SELECT count(validate_utf8(CAST(bytes AS string))) FROM t", "INVALID_UTF8_STRING"),
    "an error by a function": ("SELECT max(k) FROM t WHERE assert_true(k > 1) IS NULL", "USER_RAISED_EXCEPTION"),
}


@pytest.fixture(scope="module", autouse=True)
def view(pushed, tmp_path_factory):
    path = arrow_files.write(tmp_path_factory.mktemp("errors") / "t.arrow", TABLE, rows=3)
    pushed.read.format("arrowipc").load(str(path)).createOrReplaceTempView("t")


def outcome(run):
    try:
        return "rows", sorted(map(str, run()))
    except PySparkException as error:
        return type(error).__name__, error.getCondition(), error.getSqlState(), error.getMessage()


@pytest.mark.parametrize(("sql", "condition"), QUERIES.values(), ids=QUERIES)
def test_errors_are_those_of_spark(pushed, without, sql, condition):
    spark = outcome(lambda: without(sql))
    assert (spark[0] == "rows") is (condition is None)
    assert condition is None or str(spark[1]).startswith(condition)
    assert spark == outcome(pushed.sql(sql).collect)
