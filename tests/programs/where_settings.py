"""Which settings of a session change what Spark's own filter answers to a predicate that `where` takes.

A table of predicates meets every coercion, literal, cast and function of `where`. Spark answers all of them, over rows
that came from SQL, under each value of each boolean and enumerated setting that it has registered, internal ones too,
one setting at a time. What differs from the answers under Spark's defaults is printed, by setting.

``python tests/programs/where_settings.py`` (needs a JVM, ten minutes; ``--ansi false`` for the answers without ANSI mode): fails where
an answer changes and the predicate does not note the setting (`dataset.predicate.SETTINGS`).
"""

import argparse
import os
import re
import sys
from contextlib import contextmanager
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

from spark_arrow_ipc.dataset import time_zones
from spark_arrow_ipc.dataset.predicate import ANSI, SETTINGS
from spark_arrow_ipc.dataset.predicate.bind import bind
from spark_arrow_ipc.dataset.predicate.parser import parse
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.spark.read.row_filter import predicate_fields

ZONE = "America/New_York"

ROWS = """
SELECT * FROM VALUES
(0, true, 1Y, 1S, 1, 1L, float(1), 1D, 1.00BD, 1BD, 'a', X'61', DATE '2024-01-01', TIMESTAMP '2024-01-01 00:00:00Z', TIMESTAMP_NTZ '2024-01-01 00:00:00', INTERVAL '1' HOUR, named_struct('x', 1, 's', 'a'), 'a', 1.0000000000000000000000000000000000001BD),
(1, false, 0Y, 0S, 0, 0L, float(0), 0D, 0.00BD, 0BD, '', X'', DATE '1970-01-01', TIMESTAMP '1970-01-01 00:00:00Z', TIMESTAMP_NTZ '1970-01-01 00:00:00', INTERVAL '0' HOUR, named_struct('x', 0, 's', ''), 'a', 0.0000000000000000000000000000000000000BD),
(2, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, 'a', 2.0000000000000000000000000000000000000BD),
(3, true, 127Y, 32767S, 2147483647, 9223372036854775807L, float(16777216), 16777217D, 99999.99BD, 12345678901234567890BD, 'u', X'FF', DATE '2024-02-29', TIMESTAMP '2024-03-10 07:00:00Z', TIMESTAMP_NTZ '2024-03-10 02:30:00', INTERVAL '30' HOUR, named_struct('x', 7, 's', 'u'), 'a', 1.0000000000000000000000000000000000000BD),
(4, false, -128Y, -32768S, -2147483648, -9223372036854775808L, float('NaN'), double('NaN'), -99999.99BD, -1BD, 'true', X'5C', DATE '1582-10-14', TIMESTAMP '1582-10-14 00:00:00Z', TIMESTAMP_NTZ '1582-10-14 00:00:00', INTERVAL '-1' DAY, named_struct('x', -1, 's', 'true'), 'a', 2.0000000000000000000000000000000000000BD),
(5, true, 2Y, 2S, 2, 2L, float(0.1), 0.1D, 0.10BD, 10BD, char(92), X'00', DATE '0001-01-01', TIMESTAMP '0001-01-03 00:00:00Z', TIMESTAMP_NTZ '0001-01-03 00:00:00', INTERVAL '1' SECOND, named_struct('x', 2, 's', char(92)), 'a', 0.1000000000000000000000000000000000000BD),
(6, true, 5Y, 5S, 40000, 2147483648L, float('Infinity'), double('Infinity'), 1.50BD, 5BD, 'a' || char(10) || 'b', X'6162', DATE '9999-12-31', TIMESTAMP '9999-12-29 00:00:00Z', TIMESTAMP_NTZ '9999-12-29 00:00:00', INTERVAL '2' DAY, named_struct('x', 5, 's', 'A'), 'a', 2.0000000000000000000000000000000000000BD),
(7, true, 5Y, 5S, 16777217, 16777217L, float(-0.0), -0.0D, 1.00BD, 5BD, 'A', X'41', DATE '2024-01-01', TIMESTAMP '2024-01-01 05:00:00Z', TIMESTAMP_NTZ '2024-01-01 05:00:00', INTERVAL '1' HOUR, named_struct('x', 5, 's', 'A'), 'a', 2.0000000000000000000000000000000000000BD),
(8, true, 5Y, 5S, 10, 10L, float(3), 3D, 3.00BD, 3BD, 'a ', X'6120', DATE '2024-12-30', TIMESTAMP '2011-12-30 10:00:00Z', TIMESTAMP_NTZ '2011-12-30 00:00:00', INTERVAL '1' DAY, named_struct('x', 5, 's', 'a '), 'a', 2.0000000000000000000000000000000000000BD),
(9, true, 5Y, 5S, 10, 10L, float(3), 3D, 3.00BD, 3BD, 'a%', X'25', DATE '2024-12-30', TIMESTAMP '2011-12-31 10:00:00Z', TIMESTAMP_NTZ '2011-12-30 00:00:00', INTERVAL '1' DAY, named_struct('x', 5, 's', 'a%'), 'a', 2.0000000000000000000000000000000000000BD),
(10, true, 5Y, 5S, 10, 10L, float(3), 3D, 3.00BD, 3BD, 'a' || char(92) || '%', X'25', DATE '2024-12-30', TIMESTAMP '2011-12-31 10:00:00Z', TIMESTAMP_NTZ '2011-12-30 00:00:00', INTERVAL '1' DAY, named_struct('x', 5, 's', 'n'), 'a', 2.0000000000000000000000000000000000000BD),
(11, true, 5Y, 5S, 10, 10L, float(3), 3D, 3.00BD, 3BD, 'x''y', X'25', DATE '2024-12-30', TIMESTAMP '2011-12-31 10:00:00Z', TIMESTAMP_NTZ '2011-12-30 00:00:00', INTERVAL '1' DAY, named_struct('x', 5, 's', 'ab'), 'a', 2.0000000000000000000000000000000000000BD)
AS t(row, b, t1, t2, t4, t8, f, d, n2, n0, s, x, day, ts, ntz, span, n, u, w)
"""  # fmt: skip
"""A column of each type; `u` is one whose name is also a string of `s`."""

PREDICATES = r"""
b
NOT b
b = 'true'
b = 't'
b <=> 'no'
b IN ('true', 'f')
b = CAST('y' AS BOOLEAN)
t1 = 1
t1 = 127L
t1 < 200
t2 = 40000
t4 = 1
t4 = 1L
t4 = '1'
t4 = ' 1 '
t4 = '+1'
t4 IN ('1')
t4 IN ('01')
t4 IN ('1', 2)
t4 IN (1, 2L)
t4 IN (1, 1.5)
t4 IN (1, 2D)
t4 IN (1, 16777217F)
t4 NOT IN ('1', '01')
t4 < '2147483648'
t4 > '-2147483649'
t2 <> '40000'
t1 = '300'
t8 = '1'
t8 < 9223372036854775808
t8 > -9223372036854775809
t8 = 9223372036854775808
t8 = 1.0
t8 = 1.0D
t8 = 16777217F
t4 = 16777216F
t4 > 16777216F
t4 BETWEEN 1 AND '5'
t4 BETWEEN 0.5 AND 1.5
t4 <=> NULL
t4 = NULL
f = 0.1
f = 0.1D
f = 0.1F
f = '0.1'
f = 16777217
f > 16777216
f IN (16777217, 1)
f = 'NaN'
f IN ('NaN')
f < 'Infinity'
d = 0.1
d = '0.1'
d = 16777217
d = 1e0
d = 1E0
d = .1
d > 1e-3
d IN ('0.1', '1')
d = -0.0
d IN (0, 1)
n2 = 1
n2 = 1.0
n2 = '1'
n2 = '1.0'
n2 IN ('1', '1.00')
n2 IN (1, 1.005)
n2 = 1.005
n2 = 1D
n2 = 1e0
n2 < 100000
n2 > 12345678901234567890123456789012345678
n0 = 12345678901234567890
n0 = '12345678901234567890'
n0 = '1.5'
n0 < '0.4'
n0 <> '100000000000000000000'
n0 <> 'NaN'
n2 <> '1000000'
n0 = 1.5
n0 < 1e19
n2 = n0
t4 = t8
t4 = f
t8 = f
f = d
t8 = d
n2 < t4
n0 > t8
n0 = t1
t1 < t2
f < t4
f >= t2
day = ntz
ntz = ntz
day < ntz
s = 'a'
s = "a"
s = "u"
s <> "u"
s = '\\'
s = '\\\\'
s = 'a\nb'
s = 'a\%'
s = 'x\'y'
s = "x'y"
s = '\u0061'
s = '\141'
s = r'\\'
s = r'\'
s = R'a'
s LIKE 'a%'
s LIKE '%a'
s LIKE 'a'
s LIKE 'a\\%'
s LIKE 'a\%'
s LIKE 'a!%' ESCAPE '!'
s LIKE 'a/%' ESCAPE '/'
s LIKE '\\\\'
s LIKE r'\\'
s LIKE r'a\%'
s LIKE '%a%'
s LIKE NULL
startswith(s, 'a')
endswith(s, '%')
contains(s, '\\')
contains(s, "\n")
s IN ('a', 'u')
s IN ("a", "u")
s IN ('a', NULL)
s NOT IN ('a', NULL)
s < 'b'
s > 'A'
s = x
s = X'61'
s < X'62'
s = 'A'
upper(s) = 'A'
lower(s) IN ('a', 'u')
s BETWEEN 'a' AND 'b'
s = ''
s IS NULL
s = 'a '
x = X'61'
x = x'F'
x = 'a'
x IN (X'61', X'FF')
x < X'FF'
x = CAST('a' AS BINARY)
day = DATE '2024-01-01'
day = '2024-01-01'
day = '2024-1-1'
day = '2024'
day = '2024-01-01 12:00:00'
day < '2024-02-30'
day = 'abc'
day IN ('2024-01-01')
day IN ('2024-1-1')
day IN ('2024-1-1', DATE '1970-01-01')
day IN (DATE '2024-01-01', TIMESTAMP_NTZ '2024-02-29 00:00:00')
day = TIMESTAMP '2024-01-01 00:00:00'
day < TIMESTAMP '2024-01-01 12:00:00'
day = TIMESTAMP '2024-01-01 00:00:00Z'
day = TIMESTAMP_NTZ '2024-01-01 00:00:00'
day IN (TIMESTAMP '2024-01-01 00:00:00')
day BETWEEN '2024-01-01' AND '2024-12-31'
day = DATE '2024-1-1'
day = DATE '1582-10-10'
day < DATE '1582-10-15'
day = CAST('2024-01-01' AS DATE)
year(day) = 2024
year(day) = '2024'
month(day) IN (1, 2)
day(day) < 3
ts = TIMESTAMP '2024-01-01 00:00:00'
ts = '2024-01-01 00:00:00'
ts >= '2024-01-01'
ts = TIMESTAMP '2024-01-01 00:00:00Z'
ts = TIMESTAMP '2024-01-01 00:00:00+00:00'
ts = '2024-01-01 00:00:00Z'
ts = '2024-01-01T00:00:00Z'
ts < '2024-13-01'
ts = 'abc'
ts IN ('2024-01-01 00:00:00')
ts IN ('2024-01-01 00:00:00Z')
ts IN (TIMESTAMP '2024-01-01 00:00:00Z', '2024-01-01 05:00:00Z')
ts < DATE '2024-01-01'
ts = DATE '2024-01-01'
ts > TIMESTAMP_NTZ '2024-01-01 00:00:00'
ts < TIMESTAMP_LTZ '2024-01-01 00:00:00'
ts = CAST('2024-01-01 00:00:00Z' AS TIMESTAMP)
ntz = TIMESTAMP_NTZ '2024-01-01 00:00:00'
ntz = TIMESTAMP '2024-01-01 00:00:00'
ntz = '2024-01-01 00:00:00'
ntz IN ('2024-01-01 00:00:00')
ntz < DATE '2024-01-01'
ntz < CAST('2024-01-01 00:00:00' AS TIMESTAMP_NTZ)
ntz < CAST('2024-01-01 00:00:00' AS TIMESTAMP)
t8 = -2147483648
f = CAST(16777217 AS FLOAT)
d = CAST('0.1' AS DOUBLE)
t4 = CAST('1' AS INT)
t4 = CAST('1.5' AS INT)
t4 = CAST('abc' AS INT)
t4 = CAST(1.9 AS INT)
t4 = CAST(1e10 AS INT)
t4 = CAST(2147483648 AS INT)
t1 = CAST(300 AS TINYINT)
t1 = CAST(1.5BD AS TINYINT)
n2 = CAST('1.005' AS DECIMAL(10, 2))
n2 = CAST('1' AS DECIMAL)
n2 = CAST(123456 AS DECIMAL(5, 2))
n2 = CAST(1.005 AS DECIMAL(5, 2))
n.x = 5
n.X = 5
N.x = 5
n.s = 'A'
n.s = "u"
n.x IN ('5')
n IS NULL
T4 = 1
`t4` = 1
`T4` = 1
t4 == 1
t4 != 1
!b
NOT t4 = 1
t4 IS NOT DISTINCT FROM 1
'1' = t4
1 = f
16777217 < f
'a' = 'A'
'1' = 1
'01' = 1
1 = 1.0
'a' = 'a '
NULL = 1
1 IN (1, '1')
1 IN ('01')
16777217 = 16777216F
0.1 = 0.1F
0.1D = 0.1
DATE '2024-01-01' = '2024-1-1'
DATE '2024-01-01' IN ('2024-1-1')
TIMESTAMP '2024-01-01 00:00:00' = '2024-01-01'
TIMESTAMP '2024-01-01 00:00:00Z' = DATE '2024-01-01'
true = 'true'
true AND NULL
s = 1
s = 0.1
s = true
s = DATE '2024-01-01'
s IN (1, 2)
b = 1
b IN (1, 0)
b < 1
t4 = DATE '1970-01-02'
t4 = true
ts = 0
x = 1
day = 1
span = '1'
t8 = 1BD
t4 = 1BD
t4 = 0x1
t4 = 1_000
t4 IN (null)
t4 in ()
day = to_date('2024-01-01')
s = 'a' 'b'
s = 'x''y'
d = 1.
d = 1.D
f = 1F
t8 = 1l
d = 10000000000000000000000000000000000000000
d < 123456789012345678901234567890123456789.5
w = 1
w IN (1, 2)
w > 1
w = 1.0
w < 12345678901
w = 1e0
w = t4
w = n0
n0 = 1.2345678901234567e19
n0 IN (1.2345678901234567e19, 1)
n2 = 1e-1
f = 1e-1
n0 < 1E20BD
n0 = 1.0E1BD
n2 = 15E-1BD
t4 = 1e0
t4 IN (1e0, 2)
t4 IN ('1', '2')
t4 IN ('1', 5)
t8 IN ('16777217', '1')
day IN ('2024-01-01', '1970-01-01')
d IN ('1.0', '3.0')
n2 IN ('1.00', '0.00')
f IN (1, 2)
f IN (1, 2.5)
f IN (1, 0.1)
day = TIMESTAMP '2024-03-10 02:30:00'
day > TIMESTAMP '2024-03-10 00:00:00'
ts = TIMESTAMP '2024-03-10 02:30:00'
ntz = TIMESTAMP '2024-03-10 02:30:00'
ntz > TIMESTAMP '2024-03-10 02:30:00'
day IN (TIMESTAMP '2024-03-10 02:30:00', DATE '1970-01-01')
ntz IN (TIMESTAMP '2024-03-10 02:30:00', TIMESTAMP '2024-01-01 00:00:00')
ntz < CAST('2024-03-10 02:30:00' AS TIMESTAMP)
day = CAST('2024-01-01 00:00:00Z' AS TIMESTAMP)
ts > TIMESTAMP '2024-01-01 00:00:00-05:00'
ts >= TIMESTAMP '2024-01-01'
ntz >= '2024-1-1'
day >= '2024-1-1'
ts >= '2024-1-1'
day BETWEEN '2024-1-1' AND '2024-12-31'
t4 = 1 AND s = 'a'
t4 > 0.5 AND n2 < 2
""".strip("\n").split("\n")  # fmt: skip
"""Those that `where` or Spark refuses under the defaults are left out (`taken`)."""

_FOR_VALUES = "no-such-value"


def entries(spark):
    """Return key and default of all settings of SQL that this Spark has registered, static and internal ones too."""
    module = lambda name: getattr(getattr(spark._jvm, name), "MODULE$")  # noqa: E731
    module("org.apache.spark.sql.internal.StaticSQLConf$")
    found = module("org.apache.spark.sql.internal.SQLConf$").getConfigEntries().toArray()
    return sorted((entry.key(), entry.defaultValueString()) for entry in found)


def values_of(conf, key, default):
    """Return the values of a boolean or enumerated setting; Spark's error for a wrong one names them."""
    try:
        conf.setConfString(key, _FOR_VALUES)
    except Exception as error:  # noqa: BLE001 - of the JVM, of several kinds
        text = str(error)
    else:
        conf.unsetConf(key)
        return []
    if "'boolean' value" in text or "should be boolean" in text:
        return ["true", "false"]
    if "TYPE_MISMATCH" in text:  # a number, a time, a size
        return []
    named = re.search(r"should be one of '?([^']+?)'?(?:[.,] but was|\. SQLSTATE|\.? *$)", text, re.MULTILINE)
    if named:
        return re.split(r", *", named[1])
    return [
        value
        for value in re.findall(r"'([^']+)'", text.partition("invalid")[2])
        if value.lower() != _FOR_VALUES and value != key
    ]


@contextmanager
def setting(conf, key, value):
    """Give a setting a value, static ones too, as if the session had begun with it."""
    before = conf.getConfString(key, None)
    conf.setConfString(key, value)
    try:
        yield
    finally:
        conf.unsetConf(key) if before is None else conf.setConfString(key, before)


def outcomes(frame, predicates):
    """Return for each predicate the rows, or the class of the error; all in one query where none fails."""
    try:
        rows = frame.selectExpr("row", *(f"({one})" for one in predicates)).collect()
        return [str([row[0] for row in rows if row[i]]) for i in range(1, len(predicates) + 1)]
    except Exception as error:  # noqa: BLE001 - of the JVM, of many kinds
        if len(predicates) == 1:
            return [(re.search(r"\[([A-Z0-9_.]+)\]", str(error)) or ["", type(error).__name__])[1]]
    half = len(predicates) // 2
    return outcomes(frame, predicates[:half]) + outcomes(frame, predicates[half:])


def noted(fields, predicate):
    """Return the settings that a predicate notes; None if `where` refuses it."""
    settings = {}
    try:
        bind(parse(predicate, settings), fields, time_zones.zone(ZONE), dependencies=settings)
    except ArrowIpcError:
        return None
    return frozenset(settings)


def changes(spark, keys=None, ansi="true"):
    """Yield setting, value, predicate, Spark's answer and its answer under the setting, where these differ.

    The session's time zone is `ZONE`. Without `keys`, all settings are tried.
    """
    conf = spark._jsparkSession.sessionState().conf()
    frame = spark.sql(ROWS)
    fields = predicate_fields(frame.schema)
    accepted = [one for one in PREDICATES if noted(fields, one) is not None]
    with setting(conf, ANSI, ansi):
        usual = {one: rows for one, rows in zip(accepted, outcomes(frame, accepted), strict=True) if rows[0] == "["}
        for key, default in entries(spark):
            if key == ANSI and ansi == "false":
                continue
            for value in values_of(conf, key, default) if keys is None or key in keys else ():
                if value.lower() == default.lower():
                    continue
                with setting(conf, key, value):
                    found = outcomes(frame, list(usual))
                yield from (
                    (key, value, one, usual[one], rows)
                    for one, rows in zip(usual, found, strict=True)
                    if rows != usual[one]
                )


def fields_of(spark):
    return predicate_fields(spark.sql(ROWS).schema)


def main():
    from pyspark.sql import SparkSession

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ansi", choices=("true", "false"), default="true")
    ansi = parser.parse_args().ansi
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.session.timeZone", ZONE).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    fields, unnoted, found = fields_of(spark), 0, {}
    for key, value, predicate, usual, other in changes(spark, ansi=ansi):
        known = key in noted(fields, predicate)
        unnoted += not known
        found[key] = found.get(key, 0) + 1
        print(f"{'' if known else 'NOT NOTED: '}{key}={value}: {predicate}: {usual} becomes {other}", flush=True)
    print(f"Spark {spark.version}: {len(found)} settings change answers; {unnoted} changes are not noted")
    print(found, "of them not in the table:", sorted(set(found) - set(SETTINGS)), sep="\n")
    return 1 if unnoted else 0


if __name__ == "__main__":
    sys.exit(main())
