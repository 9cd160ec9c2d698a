"""The option `where` against Spark's own filter, on random and on chosen predicates."""

import random
import re
from collections import Counter
from types import SimpleNamespace

import arrow_files
import numpy as np
import pyarrow as pa
import pytest
import where_cases as cases
import where_zones as zones
from pyspark.errors import PySparkException

from spark_arrow_ipc import aggregate, map_in_arrow
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset import time_zones
from spark_arrow_ipc.dataset.predicate.bind import bind
from spark_arrow_ipc.dataset.predicate.coercion import UTC_TIMESTAMP
from spark_arrow_ipc.dataset.predicate.expressions import Literal, TimestampLiteral
from spark_arrow_ipc.dataset.predicate.literals import cast, timestamp
from spark_arrow_ipc.dataset.predicate.operands import parse_constant
from spark_arrow_ipc.dataset.predicate.parser import parse
from spark_arrow_ipc.dataset.predicate.tokens import Tokens
from spark_arrow_ipc.dataset.scan import file_metadata
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource
from spark_arrow_ipc.spark.read.row_filter import _to_scalar, compile_filter, predicate_fields

SEED = 20_261_120
ZONE = time_zones.zone(cases.ZONE)


@pytest.mark.parametrize("count", [150, pytest.param(500, marks=pytest.mark.nightly)])
def test_random_predicates_keep_the_rows_that_spark_keeps(spark, count):
    """10,000 of them: ``python tests/programs/where_cases.py``."""
    coverage = cases.Coverage()
    assert [] == cases.run(spark, count, SEED, coverage)
    assert coverage.selective > count * 0.3
    assert coverage.skipping > count // 5
    assert coverage.skipping_partitions > count // 5


@pytest.mark.exhaustive
@pytest.mark.parametrize("worlds", [10, pytest.param(25, marks=pytest.mark.nightly)])
def test_random_predicates_in_other_sessions_are_answered_as_spark_does_or_name_the_setting(spark, worlds):
    """10,000 of them: ``python tests/programs/where_cases.py --settings``."""
    coverage = cases.Coverage()
    assert [] == cases.run(spark, worlds * 12, SEED, coverage, a_table=12, worlds=cases.worlds)
    assert len(coverage.answered) >= worlds // 2
    assert len(coverage.by_setting) >= worlds // 4


def test_literals_in_zones_whose_tables_differ_are_spark_s_or_refused(spark):
    """All zones: ``python tests/programs/where_zones.py``."""
    coverage = zones.Coverage()
    assert [] == zones.run(spark, ["Europe/Amsterdam", "America/New_York", "WET"], coverage, step=9)
    assert coverage.refused > 50
    assert coverage.answered > 200
    assert zones.filtered(spark, "Europe/Amsterdam", zones.literals(spark, "Europe/Amsterdam")[:5])


@pytest.mark.smoke("where")
def test_real_filters_keep_the_rows_that_ours_do(spark):
    """A column of truths and a filter are optimised differently: NULL is FALSE only in the latter."""
    r = random.Random(SEED)
    table = cases.make_table(r)
    frame = cases.frame_of(spark, table).cache()
    columns, tally = cases.column_values(table), Counter()
    compared = 0
    while compared < 12:
        predicate = cases.make_predicate(r, table, columns, tally, Counter())
        try:
            ours = cases.our_rows(table, predicate, ZONE, cases.Coverage())
        except OptionError:
            continue
        assert sorted(row.row for row in frame.filter(predicate).select("row").collect()) == ours, predicate
        compared += 1
    frame.unpersist()


NUMBERS = pa.record_batch(
    {
        "l": pa.array([1, 5, 2**63 - 1, -(2**63), None]),
        "i": pa.array([1, 5, 2**31 - 1, -(2**31), None], pa.int32()),
        "b": pa.array([1, 5, 127, -128, None], pa.int8()),
        "d": pa.array([1.0, -0.0, float("nan"), float("inf"), None]),
    }
)
EDGES = [
    f"{column} {operator} {literal}"
    for column in ("l", "i", "b", "d")
    for operator in ("<", "<=", ">", ">=", "=", "<>", "<=>")
    for literal in (
        "9223372036854775807.5", "9223372036854775808", "-9223372036854775809", "-9223372036854775808BD",
        "9223372036854775807", "3000000000BD", "3000000000L", "128Y", "127", "1e30", "'9223372036854775807'", "0", "-0.0D", "NULL",
    )
    if literal != "128Y"
] + [
    "1 < 9223372036854775808", "9223372036854775808 >= i", "l IN (9223372036854775808)", "NOT l IN (9223372036854775808, 5)",
    "d IN (0, 1)", "d = 'NaN'", "d >= 'NaN'", "d < 'NaN'", "NOT d < 'inf'", "d <=> d", "i < d", "d IN ('NaN', 0D)",
    "d IN (0D, 1D, 2D, 3D, 4D, 5D, 6D, 7D, 8D, 9D, 10D, 11D)", "d IN (-0D, 1D, 2D, 3D, 4D, 5D, 6D, 7D, 8D, 9D, 10D, 'NaN')",
]  # fmt: skip


def test_edges_of_numbers(spark):
    fields = bridge.schema_from_pyarrow(NUMBERS.schema).fields
    frame = spark.createDataFrame(pa.Table.from_batches([NUMBERS])).coalesce(1)
    truths = frame.selectExpr(*(f"({predicate}) AS p{i}" for i, predicate in enumerate(EDGES))).toArrow()
    expected = {predicate: truths.column(i).to_pylist() for i, predicate in enumerate(EDGES)}
    found = {}
    for predicate in EDGES:
        mask = compile_filter(bind(parse(predicate), fields), NUMBERS.schema).mask(NUMBERS)
        found[predicate] = [mask.as_py()] * 5 if isinstance(mask, pa.Scalar) else mask.to_pylist()
    assert expected == found


DAYS = ["2020-01-01", "2020-1-1", "2020", "2020-01", " 2020-01-01 ", "2020-01-01x", "2020-01-01 x", "2020-01-01T", "+2020-01-01", "2020-13-01", "2020-02-30", "20200101", "", "2020-"]  # fmt: skip
MOMENTS = [
    "2020-01-01", "2020", "2020-01-01 1:2:3", "2020-01-01 00", "2020-01-01T00:00:00", "2020-01-01 00:00:00.", "2020-01-01 00:00:00.1234567",
    "2020-01-01 00:00:00Z", "2020-01-01 00:00:00 Z", "2020-01-01 00:00:00+1", "2020-01-01 00:00:00+1:2", "2020-01-01 00:00:00-0100",
    "2020-01-01 00:00:00+19:00", "2020-01-01 00:00:00UTC+1", "2020-01-01 00:00:00 Europe/Berlin", "2020-01-01 00:00Z", "2020-01-01Z",
    "2020-01-01 24:00:00", "2020-01-01 23:59:60", "2020-01-01  00:00:00", "2020-03-08 02:30:00", "2020-11-01 01:30:00",
    "1883-11-18 12:03:00", "1800-01-01 00:00:00", "\t2020-01-01 00:00:00\n", "2020-01-01 00:00:00 europe/berlin",
]  # fmt: skip
WHOLES = [
    "5",
    " 5 ",
    "+5",
    "5.0",
    "5L",
    "",
    "-",
    "\t5\n",
    "9223372036854775808",
    "-9223372036854775808",
    "1e3",
    "0x1F",
    "\u0665",
    "\u00a05",
]
FLOATS = [
    "5",
    " 5 ",
    "5.",
    "+.5",
    ".",
    "1e5",
    "1e",
    "NaN",
    "NAN",
    "inf",
    "-Infinity",
    "infinit",
    "1_0",
    "1e400",
    "1e-400",
    "",
    "- 5",
    "++5",
    "-+inf",
]
WORDS = ["t", "true", "TRUE", " y ", "yes", "1", "0", "no", "f", "on", "", "2"]
CASTS = [
    ("date", t.date32, "unix_date({})", DAYS),
    ("timestamp", UTC_TIMESTAMP, "unix_micros({})", MOMENTS),
    ("bigint", t.int64, "{}", WHOLES),
    ("double", t.float64, "{}", FLOATS),
    ("boolean", t.bool_, "cast({} AS int)", WORDS),
    ("decimal(21,1)", t.Decimal(21, 1), "cast({} * 10 AS decimal(38,0))", ["5", "5.55", "5.54", "-5.55", "1e3", " .5 ", "1e30", "x"]),
]  # fmt: skip


def test_texts_are_cast_as_spark_casts_them(spark):
    """What this cannot cast is refused; what it casts has Spark's value."""
    for name, type_, unit, strings in CASTS:
        frame = spark.createDataFrame([(string,) for string in strings], "x string")
        expected = {
            row.x: row.v for row in frame.selectExpr("x", unit.format(f"try_cast(x AS {name})") + " AS v").collect()
        }
        found = {string: ours(string, type_) for string in strings}
        for string, value in found.items():
            if value == "not certain" and expected[string] < 0:
                found[string] = expected[string]  # a local time before 1970
        assert list(map(repr, map(plain, expected.values()))) == list(map(repr, found.values())), name


def plain(value):
    return int(value) if hasattr(value, "as_tuple") else value


def ours(string, type_):
    try:
        return cast(Literal(t.utf8, string.encode(), string), type_, ZONE)
    except OptionError as error:
        return "not certain" if "is not certain" in str(error) else None


CASTED = [
    "-5Y", "- 5", "+5", "CAST(1.5 AS INT)", "CAST(-1.5 AS INT)", "CAST(2.9D AS INT)", "CAST(1.255 AS DECIMAL(5,2))", "CAST(-1.255 AS DECIMAL(5,2))",
    "CAST('a' AS BINARY)", "CAST('b' AS STRING)", "CAST(1.5D AS FLOAT)", "CAST('0.1' AS FLOAT)", "CAST(0.1D AS FLOAT)", "CAST(1e300 AS FLOAT)", "CAST(16777217 AS FLOAT)",
    "CAST('1.5' AS DECIMAL)", "CAST('NaN' AS DOUBLE)", "CAST('-inf' AS DOUBLE)", "CAST('1e39' AS FLOAT)", "CAST(1 AS DEC(3,1))", "CAST(1 AS NUMERIC(3))", "CAST('1' AS LONG)", "CAST('1' AS BYTE)",
    "CAST('7' AS BIGINT)", "CAST(NULL AS DATE)", "CAST(NULL AS BIGINT)", "CAST(0.1 AS DOUBLE)", "CAST(0.1 AS FLOAT)", "CAST('yes' AS BOOLEAN)", "CAST(' 7 ' AS SMALLINT)",
    "CAST('2024-03-10 02:30:00' AS TIMESTAMP)", "CAST('2024-01-01' AS TIMESTAMP_NTZ)", "CAST('2024-1-1' AS DATE)",
]  # fmt: skip


def value_of(sql):
    literal = parse_constant(Tokens(sql))
    return timestamp(literal, ZONE) if isinstance(literal, TimestampLiteral) else literal


def test_literals_are_cast_as_spark_casts_them(spark):
    row = spark.range(1).selectExpr(*(f"{sql} AS v{i}" for i, sql in enumerate(CASTED))).toArrow()
    differences = []
    for i, sql in enumerate(CASTED):
        found = value_of(sql)
        theirs, type_ = row.column(i)[0], bridge.type_to_pyarrow(found.type)
        ours = pa.scalar(None, type_) if found.value is None else _to_scalar(found.value, type_)
        if pa.types.is_timestamp(type_) and type_.tz and theirs.type.tz:
            theirs = theirs.cast(type_)
        if repr(ours) != repr(theirs) or (pa.types.is_decimal(type_) and type_ != theirs.type):
            differences.append((sql, ours, theirs))
    assert [] == differences


OVERFLOWING = ["CAST(300 AS TINYINT)", "CAST('1.5' AS INT)", "CAST(5 AS DECIMAL(1,1))"]


@pytest.mark.parametrize("sql", OVERFLOWING)
def test_a_cast_that_spark_refuses_is_refused(spark, sql):
    with pytest.raises(PySparkException):
        spark.range(1).selectExpr(sql).collect()
    with pytest.raises(OptionError):
        value_of(sql)


CLOCKS = {
    # A zone, and a local time near which its clocks are changed.
    "put forward": ("America/New_York", "2023-03-12"),
    "put back": ("America/New_York", "2023-11-05"),
    "put forward before the day": ("Europe/Berlin", "2023-03-26"),
    "by half an hour": ("Australia/Lord_Howe", "2023-10-01"),
    "by 44 minutes and a half": ("Africa/Monrovia", "1972-01-07"),
    "over midnight": ("America/Sao_Paulo", "2018-11-04"),
    "by a day": ("Pacific/Apia", "2011-12-30"),
    "by another day": ("Pacific/Kwajalein", "1993-08-21"),
    "not at all": ("+05:30", "2023-03-12"),
    "at the end of the certain": ("Europe/Amsterdam", "1970-01-01"),
}


def near_clocks(day):
    """Return columns of times and dates around a day, 15 minutes apart and with odd microseconds, in two orders."""
    middle = int(np.datetime64(day, "us").astype(np.int64))
    local = middle + np.arange(-72 * 4, 72 * 4) * 900_000_000 + np.resize([0, 0, 0, -1, 1], 72 * 8)
    days = np.resize(middle // (cases.DAY * 10**6) + np.arange(-3, 4), len(local))
    r = random.Random(SEED)
    shifted = local + np.array([r.choice([0, 60, -60, 30, 300, -330, 660, -840]) for _ in local]) * 60_000_000
    absent = np.arange(len(local)) % 50 == 7
    return pa.record_batch(
        {
            "row": pa.array(np.arange(len(local)), pa.int32()),
            "n": pa.array(local, pa.timestamp("us"), mask=absent),
            "t": pa.array(shifted, pa.timestamp("us", "UTC"), mask=np.roll(absent, 1)),
            "a": pa.array(days.astype(np.int32), pa.date32(), mask=np.roll(absent, 2)),
        }
    )


def clock_predicates(batch, zone):
    r = random.Random(SEED)
    locals_ = [str(value) for value in batch.column("n").drop_null().to_pylist()]
    ends = ["", "", "Z", "+02:00", "-05:00"]
    literals = [f"TIMESTAMP '{r.choice(locals_)}{r.choice(ends)}'" for _ in range(60)]
    pairs = [("n", "a"), ("a", "n")]
    operators = cases.COMPARISONS
    found = [f"n {r.choice(operators)} {literal}" for literal in literals]
    found += [f"{literal} {r.choice(operators)} {r.choice('na')}" for literal in literals]
    found += [f"a {r.choice(operators)} TIMESTAMP '{r.choice(locals_)[:10]}'" for _ in range(20)]
    found += [f"{left} {operator} {right}" for left, right in pairs for operator in operators]
    found += [f"n IN ({', '.join(r.sample(literals, size))})" for size in (1, 2, 9)]
    found += [
        f"n NOT IN ({', '.join(r.sample(literals, 3))}, TIMESTAMP_NTZ '{locals_[99]}', DATE '{locals_[99][:10]}')"
    ]
    same = f"TIMESTAMP '{locals_[300]}', TIMESTAMP_NTZ '{locals_[300]}', CAST('{locals_[300]}' AS TIMESTAMP)"
    found += [
        f"n IN ({same})",
        f"n IN ({same}, NULL)",
        f"n IN ({literals[3]}, {literals[3]})",
        f"{literals[4]} BETWEEN n AND a",
    ]
    long = ", ".join(f"TIMESTAMP '{local}{end}'" for local in locals_[::3] for end in ("", "Z"))
    return [
        *found,
        f"n IN ({long})",
        f"n BETWEEN {literals[0]} AND {literals[1]}",
        f"NOT (n < {literals[2]} OR n <=> a)",
    ]


IN_DOUBT = "is not certain|clocks of .* were changed near|skipped the days before"


def far_from_clocks(batch, day):
    """Return the rows of `near_clocks` that lie near no change of clocks, nor on a day that was skipped."""
    middle = np.datetime64(day, "us")
    away = np.abs(batch.column("n").fill_null(middle.item()).to_numpy(zero_copy_only=False) - middle)
    days = np.abs(
        batch.column("a").fill_null(middle.item().date()).to_numpy(zero_copy_only=False) - middle.astype("M8[D]")
    )
    return batch.filter(pa.array((away > np.timedelta64(49, "h")) & (days > np.timedelta64(1, "D"))))


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("case", CLOCKS)
def test_local_times_and_dates_beside_instants_are_spark_s_where_clocks_change(spark, case):
    """A literal for which Spark has two answers is refused, and so are local times before 1970."""
    name, day = CLOCKS[case]
    near = near_clocks(day)
    predicates = clock_predicates(near, name)
    fields = bridge.schema_from_pyarrow(near.schema).fields
    refused = []
    for batch in (near, far_from_clocks(near, day)):
        assert batch.num_rows > 20
        with cases.set_in(spark, name, {}):
            expected = cases.spark_rows(spark, SimpleNamespace(file=batch, converted=batch), predicates)
        refused.append(0)
        for predicate, theirs in zip(predicates, expected, strict=True):
            try:
                bound = bind(parse(predicate), fields, time_zones.zone(name))
                ours = cases.rows_of(compile_filter(bound, batch.schema).filter(batch))
            except OptionError as error:
                ours, refused[-1] = str(error), refused[-1] + 1
            is_refused = isinstance(ours, str) and re.search(IN_DOUBT, ours)
            assert is_refused or theirs == ours, predicate
    if day > "1970-01-02":
        assert max(refused) < len(predicates) / 3


SPARK_REFUSES = [
    "b = 5", "flag = 1", "d = 5", "s = 128Y", "i IN (TRUE)", "a = 1", "n.z = 1", "i LIKE", "iv = '1 day'", "i = 'x'", "d = 'x'", "flag = 'x'",
    "i = 1e400", "ts = 'x'", "iv = INTERVAL '1 25:00' DAY TO MINUTE", "i", "s", "'x'", "i = DATE '2020-02-30'", "s LIKE 'x\\\\'",
    "s LIKE 'x\\\\y'", "u IN (1, '2', iv)",
]  # fmt: skip


@pytest.fixture(scope="module")
def one_row(spark):
    return spark.sql(
        "SELECT 1 AS i, DATE '2020-01-01' AS d, 'x' AS s, X'41' AS b, true AS flag, TIMESTAMP '2020-01-01 00:00:00' AS ts, "
        "INTERVAL '1 02:03:04' DAY TO SECOND AS iv, named_struct('x', 1) AS n, 1 AS u"
    )


@pytest.mark.parametrize("predicate", SPARK_REFUSES)
def test_what_spark_refuses_is_refused(one_row, predicate):
    with pytest.raises(PySparkException):
        one_row.filter(predicate).collect()
    with pytest.raises(Exception, match=r"option where|there is no"):
        bind(parse(predicate), predicate_fields(one_row.schema), ZONE)


WRONG = {
    "no SQL": ("id >", "OptionError: the option where, character 5: expected a column or a literal, found the end"),
    "no column": ("nope = 1", "ColumnNotFoundError: .*there is no column 'nope'"),
    "no field": ("s.nope = 1", "ColumnNotFoundError: .*there is no (field 'nope'|column 's')"),
    "no type": (
        "id = 'much'",
        "OptionError: the option where, character 1: expected a string that Spark casts to bigint",
    ),
    "no column beside one": ("id = 1 AND nope = 1", "ColumnNotFoundError: .*there is no column 'nope'"),
    "no type of a column that is not read": (
        "d = 'today'",
        "OptionError: the option where, character 1: expected a string that Spark",
    ),
}


def loads(path):
    return {
        "load": lambda spark, where: spark.read.format("arrowipc").option("where", where).load(path),
        "columns": lambda spark, where: spark.read.format("arrowipc").options(where=where, columns="id").load(path),
        "metadata": lambda spark, where: (
            spark.read.format("arrowipc").options(where=where, metadataColumns="true").load(path)
        ),
        "merged": lambda spark, where: (
            spark.read.format("arrowipc").options(where=where, mergeSchema="true").load(path)
        ),
        "stream": lambda spark, where: spark.readStream.format("arrowipc").option("where", where).load(path),
        "map": lambda spark, where: map_in_arrow(spark, path, lambda batches: batches, "id bigint", where=where),
        "aggregate": lambda spark, where: aggregate(spark, path, aggregates={"n": "count(*)"}, where=where),
    }


@pytest.mark.one_in(3, "exhaustive")
@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_predicate_is_an_error_of_load(spark, tmp_path, case):
    where, words = WRONG[case]
    table = pa.table({"id": [1, 2], "s": [{"x": 1}, None], "d": pa.array([1, 2], pa.date32())})
    arrow_files.write(tmp_path / "one.arrow", table)
    for name, load in loads(str(tmp_path)).items():
        with pytest.raises(PySparkException, match=words):
            load(spark, where)
            pytest.fail(f"{name} takes {where}")


def test_the_schema_of_a_read_with_a_predicate_opens_one_file_once(tmp_path, monkeypatch):
    table = pa.table({"id": [1, 2], "d": [3, 4]})
    for i in range(3):
        arrow_files.write(tmp_path / f"{i}.arrow", table)
    opened = []
    read = file_metadata.read_metadata
    monkeypatch.setattr(
        file_metadata, "read_metadata", lambda file, options: opened.append(file.path) or read(file, options)
    )
    options = {"path": str(tmp_path), "columns": "id", "where": "d = 3"}
    assert ArrowIpcDataSource(options).schema().names == ["id"]
    assert len(opened) == 1


@pytest.mark.parametrize("columns", ["id", "id, s.x", "s.y, id", "id, s"])
@pytest.mark.parametrize("where", ["s.x IS NULL AND s IS NOT NULL", "s IS NULL OR s.y = 1", "s.x = s.y AND s IS NOT NULL"])  # fmt: skip
def test_a_struct_and_its_field_may_be_named_together(spark, tmp_path, where, columns):
    """The files were asked for both, which the option columns refuses."""
    rows = [None, {"x": None, "y": 1}, {"x": 2, "y": 2}, {"x": 3, "y": None}]
    arrow_files.write(tmp_path / "one.arrow", pa.table({"id": [1, 2, 3, 4], "s": rows}))
    read = spark.read.format("arrowipc")
    expected = read.load(str(tmp_path)).where(where).select("id").collect()
    assert expected == read.options(columns=columns, where=where).load(str(tmp_path)).select("id").collect()
