"""The parser of `where`: its grammar, and that everything else is refused."""

import pickle
import re

import cpu_time
import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate import expressions as p
from spark_arrow_ipc.dataset.predicate.bind import bind
from spark_arrow_ipc.dataset.predicate.parser import parse
from spark_arrow_ipc.dataset.predicate.prune import UNKNOWN, keeps
from spark_arrow_ipc.errors import ColumnNotFoundError, OptionError

MICROSECOND = t.TimeUnit.MICROSECOND


def literal_of(text):
    predicate = parse(f"a = {text}")
    assert isinstance(predicate, p.Comparison)
    return predicate.right


LITERALS = [
    ("int", "5", t.int32, 5),
    ("negative", "-5", t.int32, -5),
    ("negative_apart", "- 5", t.int32, -5),
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
    ("double_of_a_point_and_an_exponent", "1.5e-1", t.float64, 0.15),
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
    ("cast_to_date", "CAST('1970-01-02' AS DATE)", t.date32, 1),
    ("cast_to_timestamp_ntz", "cast('1970-01-01' AS timestamp_ntz)", t.Timestamp(MICROSECOND), 0),
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
    ("not_distinct_from", "a IS DISTINCT FROM b", p.Not(p.Comparison(p.Operator.NULL_SAFE_EQ, A, B))),
    ("literal_first", "1 < a", p.Comparison(p.Operator.LT, ONE, A)),
    ("function_of_a_column", "DayOfMonth(b) = 1", p.Comparison(p.Operator.EQ, p.ColumnCall("DAY", B), ONE)),
    ("starts", "startswith(a, 'x')", p.Like(A, (b"x", b""))),
    ("ends", "NOT endswith(a, 'x')", p.Not(p.Like(A, (b"", b"x")))),
    ("contains", "contains(a, 'x')", p.Like(A, (b"", b"x", b""))),
    ("starts_with_null", "startswith(a, NULL)", p.Like(A, None)),
    ("function_as_a_name", "year = 1", p.Comparison(p.Operator.EQ, p.Column(("year",)), ONE)),
    ("two_columns", "a >= b", p.Comparison(p.Operator.GE, A, B)),
    ("nested", "a.`b c`.d = 1", p.Comparison(p.Operator.EQ, p.Column(("a", "b c", "d")), ONE)),
    ("six_names", "a.b.c.d.e.f = 1", p.Comparison(p.Operator.EQ, p.Column(tuple("abcdef")), ONE)),
    ("backtick_in_a_name", "`a``b` = 1", p.Comparison(p.Operator.EQ, p.Column(("a`b",)), ONE)),
    ("keyword_as_a_name", "date = 1", p.Comparison(p.Operator.EQ, p.Column(("date",)), ONE)),
    (
        "keywords_as_names",
        "interval.order.and = 1",
        p.Comparison(p.Operator.EQ, p.Column(("interval", "order", "and")), ONE),
    ),
    ("keyword_in_backticks", "`not` = 1", p.Comparison(p.Operator.EQ, p.Column(("not",)), ONE)),
    ("dots_apart", "a . b = 1", p.Comparison(p.Operator.EQ, p.Column(("a", "b")), ONE)),
    ("without_blanks", "a='1'AND(b)", p.And((p.Comparison(p.Operator.EQ, A, literal_of("'1'")), p.Bare(B)))),
    ("blanks_of_all_kinds", "\t a\u00a0=\n1 ", p.Comparison(p.Operator.EQ, A, ONE)),
    ("in_list", "a IN (1, 2)", p.In(A, (ONE, TWO))),
    ("not_in_list", "a NOT IN (1)", p.Not(p.In(A, (ONE,)))),
    (
        "between",
        "a BETWEEN 1 AND 2",
        p.And((p.Comparison(p.Operator.GE, A, ONE), p.Comparison(p.Operator.LE, A, TWO))),
    ),
    (
        "between_binds_its_and",
        "a BETWEEN 1 AND 2 AND b",
        p.And((p.And((p.Comparison(p.Operator.GE, A, ONE), p.Comparison(p.Operator.LE, A, TWO))), p.Bare(B))),
    ),
    (
        "not_between",
        "a NOT BETWEEN b AND 2 OR b",
        p.Or((p.Not(p.And((p.Comparison(p.Operator.GE, A, B), p.Comparison(p.Operator.LE, A, TWO)))), p.Bare(B))),
    ),
    (
        "not_binds_less_than_a_comparison",
        "NOT a = 1 AND b",
        p.And((p.Not(p.Comparison(p.Operator.EQ, A, ONE)), p.Bare(B))),
    ),
    ("not_not", "NOT ! a", p.Not(p.Not(p.Bare(A)))),
    ("not_before_not_in", "NOT a NOT IN (1)", p.Not(p.Not(p.In(A, (ONE,))))),
    ("not_binds_less_than_is_null", "NOT a IS NULL", p.Not(p.IsNull(A))),
    (
        "or_of_ands",
        "a AND b OR b AND a OR a",
        p.Or((p.And((p.Bare(A), p.Bare(B))), p.And((p.Bare(B), p.Bare(A))), p.Bare(A))),
    ),
    ("parentheses_are_not_flattened", "a AND (b AND a)", p.And((p.Bare(A), p.And((p.Bare(B), p.Bare(A)))))),
    (
        "list_of_all_kinds",
        "a IN (1, - 2, 'x' , NULL,2)",
        p.In(A, (ONE, literal_of("-2"), literal_of("'x'"), literal_of("NULL"), TWO)),
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
    "f(a) = 1", "a + 1 = 2", "a || b = 'x'", "a = CAST(5 AS CHAR(3))", "a = CAST(5 AS DECIMAL(39))", "a = CAST(5 AS DECIMAL(2,3))", "a = CAST(b AS INT)", "a::int = 1", "a[0] = 1", "a = ?", "a = :x",
    "a = b = c", "a = 1 IS NULL", "(a > 1) IS NULL", "a IS TRUE", "'x'", "1", "a = current_user", "a = current_date(1)", "a = 1 + b", "a = (b + 1)", "a = 1 % 2", "year(1) = 2", "startswith(a, b)", "startswith('x', 'y')", "startswith(a, 'x') = TRUE", "CASE WHEN a THEN b END",
    "a IN (b)", "a IN (SELECT 1)", "EXISTS (SELECT 1)", "1 LIKE 'x'",
    "a LIKE 'x_'", "a LIKE 'x%y%'", "a LIKE '%x%y'", r"a LIKE 'x\\'", "a LIKE '%x%' ESCAPE 'xx'", "a LIKE b",
    "a LIKE ANY ('x')", "a RLIKE 'x'", "a ILIKE 'x'", "a = 'x' 'y'", "a = 'it''s'", "a = 'x", "`a = 1",
    "a COLLATE UTF8_LCASE = 'x'", "1a = 5", "a = 128Y", "a = 1e400", "a = 1e39F", "a = 1.5L", "a = X'zz'",
    "a = DATE 'x'", "a = DATE '2020-02-30'", "a = TIMESTAMP_NTZ '2020-01-01 00:00:00Z'", "a = TIME '10:00'",
    "a = " + "(" * 5_000 + "1" + ")" * 5_000, "a = " + " + ".join(["1"] * 5_000), "a = (1)", "a = CAST((1) AS INT)", "a = - -1", "a = CAST(CAST('1' AS INT) AS BIGINT)", "a = CAST(TIMESTAMP '2024-01-01' AS DATE)", "a = CAST(DATE '2024-01-01' AS TIMESTAMP)", "year(year(a)) = 1", "a = CAST(TRUE AS INT)", "a = CAST(300 AS TINYINT)", "a = CAST(1 AS STRING)",
    "a = 123456789012345678901234567890123456789", f"a = {'9' * 5000}", "a = +'5'", "+a = 1", "a IS DISTINCT b",
    "a ISNULL", "a NOTNULL", "a NOT NULL", "a NOT IS NULL", "a ! IN (1)", "a IN (1,)", "a IN (,1)", "a IN ()", "a IN (1 (2)",
    "(a) = 1", "a <> b < c", "a IN (1) IS NULL", "a IS NULL IS NULL", "a BETWEEN 1 AND 2 = b", "a BETWEEN SYMMETRIC 1 AND 2",
    "a = TIMESTAMPTZ '2020-01-01'", "a = DATE('2020-01-01', 'x')", "a = TRY_CAST('2020-01-01' AS DATE)", "a = INTERVAL 5 `HOUR`",
    "a < > 1", "a === 1", "a !> 1", "a && b", "a XOR b", "a.1 = 1", "a.`b` (1) = 1", "NOT", "a AND", "a OR OR b", "(a", "a)", "a IS UNKNOWN",
    "a LIKE 'x' 'y'", "a LIKE 'x!' ESCAPE '!'", "a BETWEEN 1", r"a = '\uD800'", "a = -'5'",
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_all_else_is_refused(text):
    with pytest.raises(OptionError, match="the option where"):
        parse(text)


MISTAKES = [
    ("function", "length(a) = 1", "character 1: expected a column or a literal, found the function length (near 'length(a) = 1'); where takes"),
    ("column_in_a_list", "a = 1 AND b IN (c)", "character 17: expected a literal, found the column c (near 'a = 1 AND b IN (c)')"),
    ("late_in_a_list", "b IN (1, 2,\n 'x', c)", "line 2, character 7: expected a literal, found the column c"),
    ("comparison_as_an_operand", "a = b = c", "character 7: expected AND, OR or the end after a comparison, which is no operand here, found ="),
    ("operand_in_parentheses", "(a) < 1", "character 5: expected AND, OR or the end after a condition in parentheses (operands stand without)"),
    ("distinct", "a IS DISTINCT 1", "character 15: expected FROM, found 1"),
    ("is", "a IS b", "character 6: expected NULL, NOT NULL or [NOT] DISTINCT FROM after IS, found b"),
    ("arithmetic", "a = -b", "character 6: expected a number after a sign (where takes literals, not arithmetic: compute the value in Python, or filter the DataFrame, which push-down narrows after register(spark)), found b"),
    ("value", "a = 1 OR a = 128Y", "character 14: expected a number within its type's range, found 128Y"),
    ("date", "DATE '2020-02-30' = a", "character 1: expected a string that Spark casts to date, found '2020-02-30'"),
    ("escape", r"a = 'xy\uD800'", r"character 8: expected a whole character, found \uD800"),
    ("open_string", "a = 'x", "character 5: expected a column or a literal, found a string that is not closed"),
    ("two_quotes", "a = 'it''s'", r"character 9: expected one string (write \' for a quote), found two strings side by side"),
    ("comment", "a -- b", "character 3: expected AND, OR or the end, found a comment"),
    ("typed_literal", "a = TIME '10:00'", "(typed ones: DATE, TIMESTAMP, TIMESTAMP_LTZ, TIMESTAMP_NTZ), found TIME '10:00'"),
    ("keyword", "a = NOT b", "character 5: expected a column or a literal (a column of this name stands in backticks), found NOT"),
    ("end", "a BETWEEN 1", "character 12: expected AND, found the end"),
    ("long", "a = 1 AND " * 50 + "b c" + " OR d" * 50, "character 503: expected AND, OR or the end, found c (near '...= 1 AND a = 1 AND b c OR d OR d OR d OR...')"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), [pytest.param(*case[1:], id=case[0]) for case in MISTAKES])
def test_an_error_says_where_the_mistake_is(text, words):
    with pytest.raises(OptionError, match=re.escape(words)):
        parse(text)


CLOCK = "compute the date or time in Python and write DATE '...' or TIMESTAMP '...', as where does not read the clock"
VALUE = "where takes literals, not arithmetic: compute the value in Python, or filter the DataFrame, which push-down narrows after register(spark)"
REMEDIES = [
    ("a = current_date", CLOCK), ("a = CURRENT_DATE()", CLOCK), ("a > current_timestamp", CLOCK), ("a IN (now())", CLOCK),
    ("a = 1 + 2", VALUE), ("a = 1 -2", VALUE), ("a IN (1, 2 * 3)", VALUE), ("a + 1 = 2", VALUE), ("a < b / 2", VALUE), ("a = -(1)", VALUE), ("a = -DATE '2024-01-01'", VALUE),
    ("a > DATE '2024-01-01' - INTERVAL 1 DAY", VALUE), ("a = INTERVAL '1' DAY", VALUE), ("a = INTERVAL -5 HOURS", VALUE), ("a = date_add('2024-01-01', 7)", VALUE),
    ("a = date('2024-01-01')", "write CAST('...' AS DATE)"), ("a = Double('NaN')", "write CAST('...' AS DOUBLE)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "remedy"), REMEDIES)
def test_a_construct_of_sparks_is_refused_with_what_to_do_instead(text, remedy):
    with pytest.raises(OptionError, match=re.escape(f"({remedy})")):
        parse(text)


def test_a_name_of_a_function_is_a_column_in_backticks():
    assert parse("`current_date` = 1 AND now = 1")


@pytest.mark.exhaustive
def test_long_chains_and_lists_take_linear_time():
    assert len(parse(" OR ".join(["a = 1"] * 20_000)).parts) == 20_000
    assert len(parse(f"a IN ({', '.join(map(str, range(200_000)))})").options) == 200_000
    with pytest.raises(OptionError, match="at most 8,388,608 characters"):
        parse("a" * ((1 << 23) + 1))


MANY = [
    ("or", lambda n: " OR ".join(f"a = {i}" for i in range(n)), 120_000, "20,000 conditions"),
    ("and", lambda n: " AND ".join(f"a <> {i}" for i in range(n)), 120_000, "20,000 conditions"),
    ("mixed", lambda n: " OR ".join(f"(a = {i} AND s LIKE 'x%')" for i in range(n)), 60_000, "20,000 conditions"),
    ("between", lambda n: " OR ".join(f"a BETWEEN {i} AND {i}" for i in range(n)), 60_000, "20,000 conditions"),
    ("bare", lambda n: "(" + " OR ".join(["b"] * n) + ")", 1_600_000, "20,000 conditions"),
    ("short_lists", lambda n: " OR ".join(["a IN (1, 2)"] * n), 60_000, "20,000 conditions"),
    ("casts", lambda n: f"a IN ({','.join(f'CAST({i} AS INT)' for i in range(n))})", 300_000, "50,000 options of IN"),
    ("nulls", lambda n: f"a IN ({','.join(['NULL'] * n)})", 1_600_000, "50,000 options of IN"),
]


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize(("many", "count", "words"), [pytest.param(*case[1:], id=case[0]) for case in MANY])
def test_a_predicate_of_a_few_megabytes_is_refused_within_seconds(many, count, words):
    sql = many(count)
    with pytest.raises(OptionError, match=f"expected at most {words}"):
        cpu_time.at_most(10, parse, sql)


NESTED = {
    "parentheses": ("(", "a = 1", ")"),
    "not": ("NOT ", "a = 1", ""),
    "bang": ("!", "a = 1", ""),
    "ors": ("(a = 1 OR ", "a = 2", ")"),
    "ands of ors": ("(a = 2 OR a = 1 AND ", "a = 2", ")"),
    "fields": ("b.", "b", ""),
}
"""By production: what is repeated before and after an innermost part."""

CONDITIONS = ("parentheses", "not", "bang", "ors", "ands of ors")
PLACES = {
    "condition": lambda nested: nested,
    "right": lambda nested: f"a = {nested}",
    "left": lambda nested: f"{nested} = a",
    "between": lambda nested: f"a BETWEEN 0 AND {nested}",
    "argument": lambda nested: f"year({nested}) = 1",
}


NESTINGS = [
    pytest.param(name, place, id=f"{name}-{place}")
    for name in NESTED
    for place in PLACES
    if (place == "condition") == (name in CONDITIONS)
]


def tried(call, *arguments):
    """Return what a call returns, or its error."""
    try:
        return call(*arguments)
    except (OptionError, ColumnNotFoundError) as error:
        return error


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize(("name", "place"), NESTINGS)
def test_nesting_is_bounded_and_what_is_parsed_can_be_used(name, place):
    before, inner, after = NESTED[name]
    refused = []
    for depth in (1, 30, 49, 50, 51, 98, 99, 100, 101, 150, 1_000, 10_000, 100_000):
        predicate = tried(parse, PLACES[place](before * depth + inner + after * depth))
        if isinstance(predicate, OptionError):
            refused.append(depth)
            assert "expected at most 100 levels of parentheses, NOTs and fields" in str(predicate)
            assert len(str(predicate)) < 1_000
            continue
        assert predicate == pickle.loads(pickle.dumps(predicate))
        bound = tried(bind, predicate, (t.field("a", t.int32),))
        if isinstance(bound, Exception):
            assert len(str(bound)) < 1_000
        else:
            assert keeps(bound, lambda _: UNKNOWN)
            assert bound == pickle.loads(pickle.dumps(bound))
    assert 30 not in refused
    assert refused[-5:] == [101, 150, 1_000, 10_000, 100_000]


HOSTILE = {
    "a long number": "a = " + "9" * 5_000,
    "a long string as a number": "a = '" + "9" * 5_000 + "'",
    "a long fraction": "a = 0." + "9" * 5_000,
    "a large exponent": "a = 1e-99999999999999999999BD",
    "a large exponent of a string": "a = '1e99999999999999999999'",
    "a long interval": f"iv = INTERVAL {'9' * 5_000} DAYS",
    "a long binary": "a = X'" + "z" * 5_000 + "'",
    "half a character": "s = '\ud800'",
    "half a character in a name": "`\udfff` = 1",
    "half a character in a pattern": "s LIKE '\ud800%'",
    "parentheses": "(" * 5_000 + "a = 1" + ")" * 5_000,
    "negations": "NOT " * 100_000 + "a = 1",
    "casts": "a = " + "cast(" * 150 + "1" + " AS int)" * 150,
    "a long name": "b" * 1_000_000 + " = 1",
    "a long path": "b." * 1_000_000 + "b = 1",
    "a long sum": f"a = {'9' * 900}D + 1",
    "a row of long strings": "a = " + " + ".join(["'" + "x" * 80_000 + "'"] * 100),
    "signs": "a = " + "- " * 100_000 + "1",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_predicates_are_errors_that_can_be_shown(case):
    fields = (t.field("a", t.int32), t.field("s", t.utf8), t.field("iv", t.Duration(MICROSECOND)))
    with pytest.raises((OptionError, ColumnNotFoundError)) as caught:
        bind(parse(HOSTILE[case]), fields)
    assert len(str(caught.value).encode()) < 1_000
