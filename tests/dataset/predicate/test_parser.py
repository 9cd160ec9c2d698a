"""Predicates of SQL text: what is understood, and that all else is refused."""

import subprocess
import sys

import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate import expressions as p
from spark_arrow_ipc.dataset.predicate.parser import parse
from spark_arrow_ipc.errors import OptionError

pytest.importorskip("sqlglot", reason="the extra 'where' is missing")

MICROSECOND = t.TimeUnit.MICROSECOND


def literal_of(text):
    predicate = parse(f"a = {text}")
    assert isinstance(predicate, p.Comparison)
    return predicate.right


LITERALS = [
    ("int", "5", t.int32, 5),
    ("negative", "-5", t.int32, -5),
    ("plus", "+5", t.int32, 5),
    ("least_int", "-2147483648", t.int32, -(2**31)),
    ("beyond_int", "2147483648", t.int64, 2**31),
    ("least_bigint", "-9223372036854775808", t.int64, -(2**63)),
    ("beyond_bigint", "9223372036854775808", t.Decimal(19, 0), 2**63),
    ("bigint", "5L", t.int64, 5),
    ("smallint", "5s", t.int16, 5),
    ("tinyint", "-128Y", t.int8, -128),
    ("decimal", "1.50", t.Decimal(3, 2), 150),
    ("decimal_without_digits_behind", "1.", t.Decimal(1, 0), 1),
    ("decimal_without_digits_before", ".05", t.Decimal(2, 2), 5),
    ("decimal_suffix", "5e-3BD", t.Decimal(3, 3), 5),
    ("decimal_of_positive_exponent", "1E3bd", t.Decimal(4, 0), 1000),
    ("double_by_exponent", "1e3", t.float64, 1000.0),
    ("double", "1D", t.float64, 1.0),
    ("float", "0.1F", t.float32, 0.10000000149011612),
    ("true", "TRUE", t.bool_, 1),
    ("false", "false", t.bool_, 0),
    ("null", "NULL", t.null, None),
    ("string", "'abc'", t.utf8, b"abc"),
    ("string_of_double_quotes", '"abc"', t.utf8, b"abc"),
    ("string_with_escapes", r"'\'\"\\\n\t\u00e4\101\%\_\q'", t.utf8, "'\"\\\n\täA\\%\\_q".encode()),
    ("raw_string", r"r'\n'", t.utf8, rb"\n"),
    ("binary", "X'1fA0'", t.binary, b"\x1f\xa0"),
    ("binary_of_odd_digits", "x'fff'", t.binary, b"\x0f\xff"),
    ("date", "DATE '1970-01-02'", t.date32, 1),
    ("date_close_by", "DATE'1970-1-2'", t.date32, 1),
    ("timestamp_ntz", "TIMESTAMP_NTZ '1970-01-01 00:00:01.5'", t.Timestamp(MICROSECOND), 1_500_000),
    ("interval", "INTERVAL '1 02:03:04.000005' DAY TO SECOND", t.Duration(MICROSECOND), 93_784_000_005),
    ("interval_of_one_unit", "INTERVAL 5 HOURS", t.Duration(MICROSECOND), 18_000_000_000),
    ("negative_interval", "INTERVAL '-1:30' HOUR TO MINUTE", t.Duration(MICROSECOND), -5_400_000_000),
    ("interval_negated", "-INTERVAL '0.5' SECOND", t.Duration(MICROSECOND), -500_000),
]


@pytest.mark.parametrize(("text", "type_", "value"), [pytest.param(*case[1:], id=case[0]) for case in LITERALS])
def test_a_literal_has_sparks_type_and_value(text, type_, value):
    found = literal_of(text)
    assert (type_, value) == (found.type, found.value)


A, B = p.Column(("a",)), p.Column(("b",))
ONE, TWO = literal_of("1"), literal_of("2")

STRUCTURES = [
    ("equal", "a == 1", p.Comparison(p.Operator.EQ, A, ONE)),
    ("not_equal", "a != 1", p.Comparison(p.Operator.NE, A, ONE)),
    ("null_safe", "a <=> 1", p.Comparison(p.Operator.NULL_SAFE_EQ, A, ONE)),
    ("distinct_from", "a IS NOT DISTINCT FROM 1", p.Comparison(p.Operator.NULL_SAFE_EQ, A, ONE)),
    ("literal_first", "1 < a", p.Comparison(p.Operator.LT, ONE, A)),
    ("two_columns", "a >= b", p.Comparison(p.Operator.GE, A, B)),
    ("nested", "a.`b c`.d = 1", p.Comparison(p.Operator.EQ, p.Column(("a", "b c", "d")), ONE)),
    ("six_names", "a.b.c.d.e.f = 1", p.Comparison(p.Operator.EQ, p.Column(tuple("abcdef")), ONE)),
    ("backtick_in_a_name", "`a``b` = 1", p.Comparison(p.Operator.EQ, p.Column(("a`b",)), ONE)),
    ("keyword_as_a_name", "date = 1", p.Comparison(p.Operator.EQ, p.Column(("date",)), ONE)),
    ("in_list", "a IN (1, 2)", p.In(A, (ONE, TWO))),
    ("not_in_list", "a NOT IN (1)", p.Not(p.In(A, (ONE,)))),
    (
        "between",
        "a BETWEEN 1 AND 2",
        p.And((p.Comparison(p.Operator.GE, A, ONE), p.Comparison(p.Operator.LE, A, TWO))),
    ),
    ("is_null", "a IS NULL", p.IsNull(A)),
    ("is_not_null", "a IS NOT NULL", p.Not(p.IsNull(A))),
    ("bare", "a", p.Bare(A)),
    ("precedence", "a OR NOT b AND a", p.Or((p.Bare(A), p.And((p.Not(p.Bare(B)), p.Bare(A)))))),
    ("parentheses", "(a OR b) AND a", p.And((p.Or((p.Bare(A), p.Bare(B))), p.Bare(A)))),
    ("a_chain_is_flat", "a AND b AND a", p.And((p.Bare(A), p.Bare(B), p.Bare(A)))),
    ("bang", "! a = 1", p.Not(p.Comparison(p.Operator.EQ, A, ONE))),
    ("like_exact", "a LIKE 'xy'", p.Like(A, (b"xy",))),
    ("like_prefix", "a LIKE 'x%'", p.Like(A, (b"x", b""))),
    ("like_both_ends", "a LIKE 'x%y'", p.Like(A, (b"x", b"y"))),
    ("like_inside", "a LIKE '%x%'", p.Like(A, (b"", b"x", b""))),
    ("like_anything", "a LIKE '%%'", p.Like(A, (b"", b""))),
    ("like_escaped", r"a LIKE 'x\\%\_%'", p.Like(A, (b"x%_", b""))),
    ("like_other_escape", "a LIKE 'x!%%' ESCAPE '!'", p.Like(A, (b"x%", b""))),
    ("like_null", "a LIKE NULL", p.Like(A, None)),
    ("not_like", "a NOT LIKE 'x'", p.Not(p.Like(A, (b"x",)))),
]


@pytest.mark.parametrize(("text", "expected"), [pytest.param(*case[1:], id=case[0]) for case in STRUCTURES])
def test_structure(text, expected):
    assert expected == parse(text)


REFUSED = [
    "", "a =", "a = 1 GROUP BY b", "a; b", "a -- b", "a /* b */ = 1",
    "f(a) = 1", "a + 1 = 2", "a || b = 'x'", "a = CAST(5 AS INT)", "a::int = 1", "a[0] = 1", "a = ?", "a = :x",
    "a = b = c", "a = 1 IS NULL", "(a > 1) IS NULL", "a IS TRUE", "'x'", "1", "a = current_date", "CASE WHEN a THEN b END",
    "a IN (b)", "a IN (SELECT 1)", "EXISTS (SELECT 1)", "1 LIKE 'x'",
    "a LIKE 'x_'", "a LIKE 'x%y%'", "a LIKE '%x%y'", r"a LIKE 'x\\'", "a LIKE '%x%' ESCAPE 'xx'", "a LIKE b",
    "a LIKE ANY ('x')", "a RLIKE 'x'", "a ILIKE 'x'", "a = 'x' 'y'", "a = 'it''s'", "a = 'x", "`a = 1",
    "a COLLATE UTF8_LCASE = 'x'", "1a = 5", "a = 128Y", "a = 1e400", "a = 1e39F", "a = 1.5L", "a = X'zz'",
    "a = DATE 'x'", "a = DATE '2020-02-30'", "a = TIMESTAMP_NTZ '2020-01-01 00:00:00Z'", "a = TIME '10:00'",
    "a = INTERVAL 1 YEAR", "a = INTERVAL '1 25:00' DAY TO MINUTE", "a = INTERVAL 1.5 HOURS", "a = INTERVAL '1'",
    "a = 123456789012345678901234567890123456789", "a BETWEEN 1", r"a = '\uD800'", "a = -'5'",
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_all_else_is_refused(text):
    with pytest.raises(OptionError, match="the option where"):
        parse(text)


def test_an_error_says_what_was_found_and_what_is_allowed():
    with pytest.raises(OptionError, match=r"does not take LOWER\(a\); where takes comparisons"):
        parse("lower(a) = 'x'")


def test_columns_are_named_once_in_order():
    found = p.columns(parse("b.c = 1 AND (a IN (1) OR NOT b.c <=> a) AND d"))
    assert ["b.c", "a", "d"] == [str(column) for column in found]


def test_long_chains_and_deep_nesting():
    assert len(parse(" OR ".join(["a = 1"] * 3000)).parts) == 3000
    with pytest.raises(OptionError):
        parse("(" * 5000 + "a" + ")" * 5000)


def test_without_sqlglot_the_error_is_the_pip_command():
    code = (
        "import sys; sys.modules['sqlglot'] = None\n"
        "from spark_arrow_ipc.spark.read import where\n"
        "try: where._parse('a = 1')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "OptionError the option where needs sqlglot: pip install 'spark-arrow-ipc[where]'"
