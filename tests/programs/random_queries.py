"""Compare the answers of random SQL over this format, with push-down, to those over Parquet copies of the same rows.

    python tests/programs/random_queries.py --queries 1000 [--seed 1] [--dictionaries all]

The oracle is Parquet, read by Spark itself without generated code, and never a cached frame. Prints each difference
with its SQL and settings, after each 250 queries and at the end the number of queries, of those that both refuse, and of
those whose plan has a narrowed scan, or one that aggregates. A pushed condition may drop the row by which another one fails, so an answer where Parquet alone refuses is
counted, and is no difference. Ends with 1 if an answer differs, a query fails only over this format, or too few plans have
such scans.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

import quick_jvm

ROWS = """
    id, if(rand({0}) < 0.25, null, cast(id % 17 - 8 AS tinyint)) AS b, if(rand({0}+1) < 0.25, null, cast(id % 50 AS smallint)) AS h,
    if(rand({0}+2) < 0.25, null, cast(rand({0}+3) * 40 AS int)) AS i, if(rand({0}+4) < 0.25, null, cast(rand({0}+5) * 900 AS bigint)) AS l,
    if(rand({0}+6) < 0.2, null, element_at(array(float('NaN'), -0.0F, 0.0F, 1.25F, float('-Infinity')), cast(1 + floor(rand({0}+7) * 5) AS int))) AS f,
    if(rand({0}+8) < 0.2, null, element_at(array(double('NaN'), -0.0D, 0.0D, 1.25D, 2.5D), cast(1 + floor(rand({0}+9) * 5) AS int))) AS x,
    if(rand({0}+10) < 0.25, null, cast(floor(rand({0}+11) * 4000) / 100 AS decimal(4,2))) AS n,
    if(rand({0}+12) < 0.25, null, cast(id * 1000003 AS decimal(30,5))) AS wide,
    if(rand({0}+13) < 0.25, null, concat(element_at(array('a', 'B', 'ä', "o'n", '%', '', 'ab', '\\\\x', '日'), cast(1 + floor(rand({0}+14) * 9) AS int)), cast(id % 3 AS string))) AS s,
    if(rand({0}+15) < 0.25, null, cast(concat('k', cast(id % 5 AS string)) AS binary)) AS y,
    if(rand({0}+16) < 0.25, null, date_add(DATE '2023-10-20', cast(rand({0}+17) * 20 AS int))) AS d,
    if(rand({0}+18) < 0.2, null, timestamp_micros(if(id % 3 = 0, 1699149600000000, 1698537600000000) + cast(floor(rand({0}+19) * 16) * 900000000 AS bigint))) AS t,
    if(rand({0}+20) < 0.25, null, TIMESTAMP_NTZ '2023-10-29 00:00:00' + make_dt_interval(0, cast(rand({0}+21) * 6 AS int))) AS z,
    if(rand({0}+22) < 0.25, null, rand({0}+23) < 0.5) AS o,
    if(rand({0}+24) < 0.2, null, named_struct('p', if(rand({0}+25) < 0.3, null, cast(id % 9 AS int)), 'q', cast(id % 4 AS string), 'r', named_struct('u', id % 3))) AS st,
    array(id, id + 1) AS list, map('k', id % 6) AS m, if(id % 7 = 0, null, concat('p', cast(id % 4 AS string))) AS part, cast(id % 3 AS int) AS year,
    if(id % 5 = 0, null, date_add(DATE '2023-10-28', cast(id % 2 AS int))) AS pd
"""
"""The columns of both tables; {0} is a seed."""

LITERALS = {
    "b": ["-3Y", "5", "2.5", "null"], "h": ["7S", "20", "33L"], "i": ["3", "17", "12L", "10.5", "'20'"],
    "l": ["100L", "500", "250.5", "1e2"], "f": ["0.0F", "float('NaN')", "1.25F", "-0.0D"],
    "x": ["0.0D", "double('NaN')", "1.25D", "2"], "n": ["10.5", "20", "0.05", "39.99BD", "15.5D"], "wide": ["200000600.00000BD", "5"],
    "s": ["'a0'", "'ab1'", "\"o'n2\"", "'\\\\\\\\x1'", "''", "'%1'", "'ä2'", "'日0'"], "y": ["X'6B31'", "X'6B33'", "cast('k2' AS binary)"],
    "d": ["DATE '2023-10-29'", "'2023-11-01'", "TIMESTAMP '2023-10-29 00:00:00'", "DATE '2023-10-25'"],
    "t": ["TIMESTAMP '2023-10-29 02:30:00'", "TIMESTAMP '2023-10-29 01:15:00Z'", "'2023-10-29 03:00:00'", "DATE '2023-10-29'"],
    "z": ["TIMESTAMP_NTZ '2023-10-29 03:00:00'", "TIMESTAMP_NTZ '2023-10-29 01:00:00'", "TIMESTAMP '2023-10-29 02:00:00'"],
    "o": ["true", "false", "null"], "st.p": ["3", "5", "8L"], "st.r.u": ["1", "2L"], "part": ["'p1'", "'p2'", "'p3'", "null"], "pd": ["DATE '2023-10-28'", "'2023-10-29'", "TIMESTAMP '2023-10-28 12:00:00'", "null"], "year": ["1", "2"],
    "id": ["17", "300L", "0"],
}  # fmt: skip
OF_TEXT = [
    "{} LIKE 'a%'",
    "{} LIKE '%1'",
    "{} LIKE '%b%'",
    "{} LIKE 'a_'",
    "upper({}) = 'AB1'",
    "length({}) > 2",
    "{} RLIKE 'a.*'",
    "startswith({}, 'o')",
    "substr({}, 1, 1) = 'a'",
    "cast({} AS int) = 1",
]
OF_DATES = [
    "year({}) = 2023",
    "month({}) = 10",
    "day({}) > 25",
    "date_add({}, 1) > DATE '2023-10-30'",
    "trunc({}, 'MM') = DATE '2023-10-01'",
]
OF_TIMES = [
    "cast({} AS date) = DATE '2023-10-29'",
    "hour({}) = 2",
    "{} + INTERVAL 1 HOUR > TIMESTAMP '2023-10-29 03:00:00'",
]
OF_NUMBERS = [
    "{} + 1 > 10",
    "abs({}) = 3",
    "{} * 2 = 10",
    "coalesce({}, 5) = 5",
    "{} % 3 = 1",
    "CASE WHEN {} > 5 THEN true ELSE o END",
    "if({} IS NULL, true, {} > 7)",
    "10 / {} > 3",
    "{} * 1000000000 > 5",
]
COLUMNS = [
    "id",
    "b",
    "h",
    "i",
    "l",
    "n",
    "wide",
    "s",
    "d",
    "t",
    "z",
    "o",
    "st",
    "st.q",
    "list",
    "m['k']",
    "part",
    "pd",
    "year",
    "x",
    "f",
    "y",
]
AGGREGATES = [
    "count(*)",
    "count({})",
    "min({})",
    "max({})",
    "count(DISTINCT {})",
    "sum({n})",
    "avg({n})",
    "sum({a}.n * (1 - {a}.n))",
    "sum({a}.wide - {a}.n * {a}.n)",
]
NUMBERS = ["b", "h", "i", "l", "n", "wide", "year"]
JOINS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]
KEYS = ["i", "s", "part", "pd", "d", "o", "year", "b", "h", "l", "n", "wide", "x", "f", "y", "t", "z", "st.p"]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "-07:30"]

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""For the oracle: compiling a query over 600 rows takes a quarter of its CPU time."""

MANY = 500
"""So many queries are worth a JVM that compiles well: it takes 1.3 CPU seconds for each of the first 250, and then half of that."""


FEWEST = {"narrowed": 0.75, "aggregated": 0.04}
"""Shares of queries; of 2,500 about 0.94 and 0.09."""


class Queries:
    """Makes random queries over the views ``{t}1`` and ``{t}2``, where {t} is a or p."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def predicate(self, alias, depth=0):
        pick, roll = self.random.choice, self.random.random()
        if depth < 2 and roll < 0.3:
            return (
                f"({self.predicate(alias, depth + 1)} {pick(['AND', 'OR', 'AND'])} {self.predicate(alias, depth + 1)})"
            )
        if depth < 3 and roll < 0.36:
            return f"NOT ({self.predicate(alias, depth + 1)})"
        name = pick(list(LITERALS))
        column, literal = f"{alias}.{name}", lambda: pick(LITERALS[name])
        roll = self.random.random()
        if roll < 0.45:
            return f"{column} {pick(['=', '<', '<=', '>', '>=', '<>', '<=>'])} {literal()}"
        if roll < 0.57:
            return f"{column} {pick(['', 'NOT '])}IN ({literal()}, {literal()}, {literal()})"
        if roll < 0.67:
            return f"{column} BETWEEN {literal()} AND {literal()}"
        if roll < 0.77:
            return f"{column} IS {pick(['', 'NOT '])}NULL"
        kinds = {"s": OF_TEXT, "part": OF_TEXT, "d": OF_DATES, "pd": OF_DATES, "t": OF_TIMES, "o": ["{}"]}
        text = pick(kinds.get(name, OF_NUMBERS if name in NUMBERS else ["{} IS NOT NULL"]))
        return text.replace("{}", column).replace("ELSE o", f"ELSE {alias}.o")

    def aggregate(self, alias):
        # min and max of -0.0 and 0.0 are the one that comes first, and files come in another order.
        plain = self.random.choice([name for name in COLUMNS if name not in {"st", "list", "m['k']", "x", "f"}])
        return self.random.choice(AGGREGATES).format(
            f"{alias}.{plain}", n=f"{alias}.{self.random.choice(NUMBERS)}", a=alias
        )

    def query(self):
        pick = self.random.choice
        one, two = pick(["{t}1", "{t}2"]), pick(["{t}1", "{t}2"])
        where, other = self.predicate("a"), self.predicate("b")
        columns = ", ".join(f"a.{name}" for name in self.random.sample(COLUMNS, self.random.randint(1, 4)))
        keys = ", ".join(f"a.{name}" for name in self.random.sample(KEYS, self.random.randint(1, 2)))
        sums = ", ".join(self.aggregate("a") for _ in range(self.random.randint(1, 3)))
        return pick([
            f"SELECT {columns} FROM {one} a WHERE {where}",
            f"SELECT {sums} FROM {one} a WHERE {where}",
            f"SELECT {sums} FROM {one} a",
            f"SELECT {keys}, {sums} FROM {one} a WHERE {where} GROUP BY {keys}",
            f"SELECT {keys}, {sums} FROM {one} a GROUP BY {keys} HAVING count(*) > 3",
            f"SELECT a.id, b.id, b.s FROM {one} a {pick(JOINS)} {two} b ON a.i = b.i AND {other} WHERE {where} AND a.id < 80",
            f"SELECT {columns} FROM {one} a WHERE {where} UNION ALL SELECT {columns.replace('a.', 'b.')} FROM {two} b WHERE {other}",
            f"SELECT a.id, row_number() OVER (PARTITION BY a.i ORDER BY a.id), sum(a.l) OVER (PARTITION BY a.h) FROM {one} a WHERE {where}",
            f"SELECT {columns} FROM {one} a WHERE {where} AND a.i IN (SELECT b.i FROM {two} b WHERE {other})",
            f"SELECT {columns} FROM {one} a WHERE {where} AND a.l > (SELECT avg(b.l) FROM {two} b WHERE {other})",
            f"SELECT {columns} FROM {one} a WHERE NOT EXISTS (SELECT 1 FROM {two} b WHERE b.i = a.i AND {other}) AND {where}",
            f"SELECT {columns} FROM {one} a WHERE a.l > (SELECT max(b.l) FROM {two} b WHERE b.part = a.part AND {other})",
            f"WITH c AS (SELECT * FROM {one} a WHERE {where}) SELECT x.id, y.id FROM c x {pick(JOINS)} c y ON x.id = y.id + 1 WHERE {self.predicate('x')}",
            f"SELECT * FROM (SELECT a.*, a.i + 1 AS j FROM {one} a) a WHERE {where} AND j > 3 ORDER BY id LIMIT 20",
            f"SELECT DISTINCT {keys} FROM {one} a LEFT {pick(['SEMI', 'ANTI'])} JOIN {two} b ON a.id = b.id AND {other} WHERE {where}",
            f"SELECT DISTINCT {keys} FROM {one} a",
        ])  # fmt: skip


def make_tables(spark, folder, dictionaries="none"):
    """Write both tables in both formats, of evolved schemas, and make views a1, a2, p1 and p2; a2 alone has partitions."""
    for number, seed in ((1, 3), (2, 500)):
        rows = spark.sql(f"SELECT {ROWS.format(seed)} FROM range(0, {600 // number}, 1, 2)")
        partitioned = ["part", "pd"] if number == 2 else []
        for first in (True, False):  # the files of the first half lack a column
            half = rows.filter(f"id {'<' if first else '>='} 200")
            half = half.drop("wide") if first else half
            path = f"{folder}/a{number}"
            writer = (
                half.write.format("arrowipc").mode("append").option("statistics", "all").option("recordBatchRows", 20)
            )
            writer = writer.option("dictionaryColumns", dictionaries)
            (writer.option("partitionBy", ",".join(partitioned)) if partitioned else writer).save(path)
            half.write.mode("append").parquet(f"{folder}/p{number}")
    for number in (1, 2):
        for name, source in (("a", spark.read.format("arrowipc")), ("p", spark.read.format("parquet"))):
            options = {"mergeSchema": "true"} | ({"minPartitionNum": 12} if name == "a" else {})
            frame = source.options(**options).load(f"{folder}/{name}{number}")
            frame.select(*sorted(frame.columns)).createOrReplaceTempView(f"{name}{number}")


def answer(spark, sql, settings):
    """Return sorted rows, or the first line of an error, and the plan, which is empty after an error."""
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        frame = spark.sql(sql)
        rows = sorted(map(repr, frame.collect()))
    except Exception as error:  # noqa: BLE001 - whatever Spark answers
        return "refused: " + str(error).splitlines()[0][:160], ""
    return rows, frame._jdf.queryExecution().executedPlan().toString()


def only(rows, others):
    """Return a part of the rows of one answer that the other lacks, or its error."""
    return (
        rows
        if isinstance(rows, str) or isinstance(others, str)
        else sorted((Counter(rows) - Counter(others)).elements())[:5]
    )


def compare(spark, queries, number):
    """Run queries over both formats; return counts, and differences as lines."""
    counts, differences = dict.fromkeys(["queries", "both refuse", "Parquet alone refuses", *FEWEST], 0), []
    pick = queries.random.choice
    for _ in range(number):
        settings = {
            "spark.sql.session.timeZone": pick(ZONES), "spark.sql.ansi.enabled": pick(["true", "true", "false"]),
            "spark.sql.optimizer.inSetConversionThreshold": pick(["10", "2"]), "spark.sql.adaptive.enabled": pick(["true", "true", "false"]),
            "spark.sql.codegen.wholeStage": pick(["true", "true", "true", "false"]), "spark.sql.codegen.factoryMode": "FALLBACK",
            "spark.sql.autoBroadcastJoinThreshold": pick(["10485760", "-1"]),
        }  # fmt: skip
        sql = queries.query()
        expected, _ = answer(spark, sql.replace("{t}", "p"), settings | INTERPRETED)
        found, plan = answer(spark, sql.replace("{t}", "a"), settings)
        counts["queries"] += 1
        if isinstance(expected, str) and isinstance(found, str):
            counts["both refuse"] += 1
            continue
        counts["narrowed"] += "arrowipc [" in plan
        counts["aggregated"] += "] aggregated {" in plan
        if isinstance(expected, str):
            counts["Parquet alone refuses"] += 1
        elif expected != found:
            lost, made = (only(one, other) for one, other in ((expected, found), (found, expected)))
            differences.append(f"{sql}\n  {settings}\n  Parquet alone: {lost}\n  arrowipc alone: {made}")
            print(differences[-1], flush=True)
        if counts["queries"] % 250 == 0:
            print(f"{counts}, {len(differences)} different", flush=True)
    return counts, differences


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--dictionaries", default="none", help="the option dictionaryColumns of the tables that are asked"
    )
    chosen = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    is_long = chosen.queries >= MANY
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", "pyspark-shell" if is_long else quick_jvm.SUBMIT_ARGS)
    from pyspark.sql import SparkSession

    from spark_arrow_ipc import push_down

    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    spark = builder.config("spark.ui.showConsoleProgress", "false").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    # Spark's Parquet reader loses rows with 0.0 or -0.0 that an IN names (tests/spark/upstream.md): the oracle filters in Spark alone.
    spark.conf.set("spark.sql.parquet.filterPushdown", "false")
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        assert push_down(spark)  # before views are made, which stay without it
        make_tables(spark, folder, chosen.dictionaries)
        counts, differences = compare(spark, Queries(chosen.seed), chosen.queries)
    spark.stop()
    print(f"{counts}, {len(differences)} different, {time.monotonic() - begun:.0f} s")
    too_few = [name for name, share in FEWEST.items() if counts[name] < share * chosen.queries]
    if too_few:
        print(f"fewer queries than {FEWEST} were {too_few}: nothing is compared")
    return 1 if differences or too_few else 0


if __name__ == "__main__":
    sys.exit(main())
