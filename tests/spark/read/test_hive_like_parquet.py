"""Listing and hive partitions against what `spark.read.parquet` makes of the same tree: the oracle is Spark itself.

Meant to differ, and tested by name in `test_meant_to_differ`: times of day stay strings, because only some versions of
Spark infer them; years outside 1 to 9999 stay strings; a timestamp has no zone unless one is given; escapes of UTF-8 are
text, as polars and pyarrow write them.
"""

import contextlib
import itertools
import os
import random
import shutil
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.listing.data_file import FileFilter, parse_modified
from spark_arrow_ipc.dataset.listing.hive import discover, merge_fields, retype
from spark_arrow_ipc.dataset.listing.partition_values import escape_path_name, partition_directory
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write.partition_keys import directories_of
from spark_arrow_ipc.errors import ArrowIpcError, UnsupportedError
from spark_arrow_ipc.storage.paths import local_path

ZONE = "America/New_York"
"""The session's: see conftest.py."""

INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
REFUSED = "refused"
SEEDS = 52
ORDINARY = 18
"""So many of the random trees are compared in every run."""

SPARK_TYPES = {
    t.int32: "int",
    t.int64: "bigint",
    t.float64: "double",
    t.date32: "date",
    t.utf8: "string",
    t.null: "void",
    t.Timestamp(t.TimeUnit.MICROSECOND, ZONE): "timestamp",
    t.Timestamp(t.TimeUnit.MICROSECOND): "timestamp_ntz",
}


def spark_type(type_):
    return f"decimal({type_.precision},{type_.scale})" if isinstance(type_, t.Decimal) else SPARK_TYPES[type_]


def plant(root, paths):
    """Write Parquet files of one row; the column v says which of the paths it is."""
    for i, path in enumerate(paths):
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"v": pa.array([i], pa.int32())}), file)
    return root


def comparable(value):
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return repr(value)


def of_spark(spark, root, read, options, infer):
    """Return the columns with their types, and the rows, as Spark sees them."""
    spark.conf.set(INFERENCE, str(infer).lower())
    try:
        frame = spark.read.options(**options).parquet(*[f"{root}/{path}" for path in read])
        columns = [(field.name.lower(), field.dataType.simpleString()) for field in frame.schema]
        instants = [
            f"unix_micros(`{field.name}`)" if field.dataType.simpleString() == "timestamp" else f"`{field.name}`"
            for field in frame.schema
        ]
        return columns, sorted(tuple(map(comparable, row)) for row in frame.selectExpr(*instants).collect())
    except Exception:  # noqa: BLE001 - Spark and Hadoop refuse with errors of many classes
        return REFUSED
    finally:
        spark.conf.unset(INFERENCE)


def of_ours(root, paths, read, options, infer):
    recursive = options.get("recursiveFileLookup") == "true"
    wanted = FileFilter(options.get("pathGlobFilter"))
    try:
        tree = list_tree([f"{root}/{path}" for path in read], recursive=recursive, file_filter=wanted)
        found = discover(tree, base_path=options.get("basePath"), infer=infer, time_zone=ZONE)
    except ArrowIpcError:
        return REFUSED
    fields = merge_fields([t.field("v", t.int32)], found.fields)
    rows = []
    for file in found.files:
        row = dict(zip((field.name for field in found.fields), file.partition, strict=True))
        number = paths.index(os.path.relpath(file.path, root))
        rows.append(tuple(comparable(row.get(field.name, number)) for field in fields))
    return [(field.name.lower(), spark_type(field.type)) for field in fields], sorted(rows)


def compared(spark, root, paths, read=("",), options=None, *, infer=True):
    """Return the partitions of a tree, by Spark and by this package."""
    plant(root, paths)
    options = {key: value.replace("ROOT", str(root)) for key, value in (options or {}).items()}
    return of_spark(spark, root, read, options, infer), of_ours(root, paths, read, options, infer)


def strings(*values):
    return [f"k={value}/{i}.parquet" for i, value in enumerate(values)]


NULL = "__HIVE_DEFAULT_PARTITION__"
STAMP = "2020-01-02 03%3A04%3A05"

# (What it is about, files, paths that are read, options.)
TREES = [
    ("null alone", strings(NULL)),
    ("null and int", strings(NULL, 1)),
    ("leading zeros, signs", strings("01", "-007", "+3")),
    ("int and long", strings(1, 2147483648)),
    ("int, long and huge", strings(1, 2147483648, 12345678901234567890)),
    ("exponents are decimals", strings("1e3", 5)),
    ("decimals of different width", strings("1e3", "12345678901234567890", "1234567890123456789012345678")),
    ("39 digits are a double", strings("1" * 39)),
    ("38 digits and an int", strings("1" * 38, 5)),
    ("int and double", strings(1, "1.5")),
    ("long and double are strings", strings(1, "1.5", 3000000000)),
    ("decimal and double are strings", strings("1.5", "1e3")),
    ("doubles of Java", strings("1d", "-2F", "NaN", "-Infinity", ".5", "0x1p3")),
    ("blanks around a number", strings(" 1", "2 ")),
    ("digits of another script", strings("١٢")),
    ("digits of another script that a double cannot hold", strings("١٢", "1.5")),
    ("date", strings("2020-01-02", "1582-10-10", NULL)),
    ("no dates", strings("2020-1-2", "2020-02-30")),
    ("date and int", strings("2020-01-02", "1")),
    ("date and timestamp", strings("2020-01-02", STAMP)),
    ("timestamps with one digit of a fraction", strings(STAMP, f"{STAMP}.5")),
    ("timestamps with six digits of a fraction", strings(f"{STAMP}.123456")),
    ("timestamp in no hour of the zone, and in two", strings("2021-03-14 02%3A30%3A00", "2021-11-07 01%3A30%3A00")),
    ("timestamp with a T", strings("2020-01-02T03%3A04%3A05")),
    ("escapes", strings("a%3Ab", "%41", "x%2Fy", "%E4", "é %20", "a=b")),
    ("percent signs that escape nothing", strings("%", "%4", "%zz", "%-1", "a%")),
    ("escaped name", ["a%3Ab=1/0.parquet"]),
    ("names that differ by case", ["K=1/0.parquet", "k=2/1.parquet"]),
    ("name that begins with _", ["_x=1/0.parquet"]),
    ("hidden partition", [".x=1/0.parquet", "1.parquet"]),
    ("one name twice", ["k=1/k=2/0.parquet"]),
    ("one name twice, by case", ["k=1/K=2/0.parquet"]),
    ("empty value", ["k=/0.parquet"]),
    ("empty name", ["=1/0.parquet"]),
    ("column of the data", ["x=1/v=7/0.parquet"]),
    ("column of the data, by case", ["V=7/0.parquet", "V=8/1.parquet"]),
    ("directory without = beside", ["k=1/0.parquet", "foo/1.parquet"]),
    ("directory without = around", ["foo/k=1/0.parquet"]),
    ("two directories without = around", ["foo/k=1/0.parquet", "bar/k=1/1.parquet"]),
    ("directory without = inside", ["k=1/foo/0.parquet", "k=2/1.parquet"]),
    ("directory without = between", ["k=1/foo/j=2/0.parquet"]),
    ("file in the root", ["k=1/0.parquet", "1.parquet"]),
    ("file in the middle", ["k=1/j=1/0.parquet", "k=1/1.parquet"]),
    ("different depth", ["k=1/j=2/0.parquet", "k=2/1.parquet"]),
    ("different names", ["k=1/0.parquet", "j=2/1.parquet"]),
    ("no partitions: nested files are not read", ["0.parquet", "foo/1.parquet"]),
    ("nested files only", ["foo/0.parquet"]),
    ("a partition is a root", ["k=1/0.parquet"], ["k=1"]),
    ("partitions are roots", strings(1, 2), ["k=1", "k=2"]),
    ("partitions are roots, base path", strings(1, 2), ["k=1", "k=2"], {"basePath": "ROOT"}),
    ("a file is a root", strings(1), ["k=1/0.parquet"]),
    ("a file is a root, base path", strings(1), ["k=1/0.parquet"], {"basePath": "ROOT/"}),
    ("pattern", strings(1, 2), ["k=*"]),
    ("pattern, base path", strings(1, 2, 3), ["k={1,[3-9]}"], {"basePath": "ROOT"}),
    ("pattern of files", strings(1, 2), ["k=*/*.parquet"]),
    ("pattern of the outer level", ["k=1/j=1/0.parquet", "k=2/j=2/1.parquet"], ["k=*"]),
    ("base path elsewhere", ["k=1/0.parquet", "z/1.parquet"], ["k=1"], {"basePath": "ROOT/z"}),
    ("base path that is none", strings(1), ["k=1"], {"basePath": "ROOT/absent"}),
    ("base path that is a file", strings(1), ["k=1"], {"basePath": "ROOT/k=1/0.parquet"}),
    ("base path above a directory without =", ["q=5/foo/k=1/0.parquet"], ["q=5/foo/k=1"], {"basePath": "ROOT"}),
    ("root inside a partition", ["q=5/k=1/0.parquet"], ["q=5"]),
    ("one root in another", strings(1, 2), ["", "k=1"]),
    ("a file and its root", strings(1, 2), ["", "k=1/0.parquet"]),
    ("one root twice", strings(1), ["", ""]),
    ("one plain root twice", ["0.parquet"], ["", ""]),
    ("recursive", ["k=1/0.parquet", "foo/bar/1.parquet"], [""], {"recursiveFileLookup": "true"}),
    ("recursive, root twice", ["k=1/0.parquet", "k=2/1.parquet"], ["", "k=1"], {"recursiveFileLookup": "true"}),
    ("filtered files count for the type", ["k=1/a", "k=x/b"], [""], {"pathGlobFilter": "a*"}),
    ("filtered files count for conflicts", ["k=1/a", "j=1/b"], [""], {"pathGlobFilter": "a*"}),
    ("filter of names of directories", strings(1), [""], {"pathGlobFilter": "k=1"}),
    ("missing path", strings(1), ["k=1", "absent"], {"ignoreMissingFiles": "true"}),
    ("pattern without match", strings(1), ["x*"]),
    ("hidden files", ["_a.parquet", ".b.parquet", "c._COPYING_", "3.parquet"]),
]


@pytest.mark.one_in(2, "exhaustive")
@pytest.mark.parametrize("case", [case[1:] for case in TREES], ids=[case[0] for case in TREES])
def test_tree_is_what_spark_makes_of_it(spark, tmp_path, case):
    expected, actual = compared(spark, tmp_path, *case)
    assert expected == actual


POOLS = {
    "ints": lambda rng: rng.choice(["{}", "0{}", "{:05}", "-{}"]).format(rng.randrange(100)),
    "longs": lambda rng: str(rng.randrange(2**31, 2**63)),
    "huge": lambda rng: str(rng.randrange(2**63, 10 ** rng.randrange(20, 41))),
    "doubles": lambda rng: rng.choice(["{:.3f}", "{:.2e}", "{:.1f}d"]).format(rng.uniform(-50, 50)),
    "dates": lambda rng: f"{rng.randrange(1900, 2100)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 31):02}",
    "timestamps": lambda rng: escape_path_name(
        f"{rng.randrange(1970, 2100)}-0{rng.randrange(1, 10)}-11 {rng.randrange(25):02}:{rng.randrange(SEEDS):02}:09"
    ),
    "words": lambda rng: escape_path_name(
        "".join(rng.choices("abcé漢 ~&+%=:/'\"#?*{}[]\\-_.😀", k=rng.randrange(1, 6)))
    ),
    "booleans": lambda rng: rng.choice(["true", "false"]),
    "nulls": lambda _: NULL,
}


def random_tree(rng):
    """Return a tree, mostly one that makes sense: files, paths that are read, options."""
    names = rng.sample(["k", "J", "year", "a%3Ab", "_c", "naïve"], rng.randrange(1, 4))
    kinds = [rng.sample(sorted(POOLS), rng.choice([1, 1, 2, 3])) for _ in names]
    around = rng.choice(["", "", "", "foo/"])
    paths = []
    for number in range(rng.randrange(2, 7)):
        parts = [f"{name}={POOLS[rng.choice(pool)](rng)}" for name, pool in zip(names, kinds, strict=True)]
        if rng.random() < 0.04 and len(parts) > 1:
            parts = parts[:-1]
        if rng.random() < 0.04:
            parts.insert(rng.randrange(len(parts) + 1), "bar")
        if rng.random() < 0.1:
            parts[-1:] = [parts[-1].swapcase()] if "=" in parts[-1] and "%" not in parts[-1] else parts[-1:]
        paths.append(around + "/".join([*parts, f"{number}.parquet"]))
    if rng.random() < 0.1:
        paths.append(f"{around}root.parquet")
    first = around + paths[0].removeprefix(around).split("/")[0]
    read = rng.choice([[""], [""], [""], [first], ["*"], [first, paths[-1]]])
    options = {"basePath": f"ROOT/{rng.choice(['', around])}"} if rng.random() < 0.3 else {}
    return paths, read, options


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=() if seed < ORDINARY else pytest.mark.exhaustive) for seed in range(SEEDS)]
)
def test_random_tree_is_what_spark_makes_of_it(spark, tmp_path, seed):
    rng = random.Random(seed)
    expected, actual = compared(spark, tmp_path, *random_tree(rng), infer=seed % 6 != 0)
    if actual == REFUSED and has_time_before_1970(expected):
        return  # Python's tables and the JVM's may differ for it, and a guess could be another instant
    assert expected == actual


def has_time_before_1970(found):
    """Return whether a partition column holds an instant that Java and Python may place differently."""
    if found == REFUSED:
        return False
    columns, rows = found
    return any(row[i].startswith("-") for i, (_, type_) in enumerate(columns) for row in rows if type_ == "timestamp")


@pytest.mark.slow
def test_random_trees_are_of_many_kinds(tmp_path):
    """Most of the trees above are read, in many types: agreement on refusals alone would prove little."""
    seen = []
    for seed in range(SEEDS):
        paths, read, options = random_tree(random.Random(seed))
        root = plant(tmp_path / str(seed), paths)
        options = {key: value.replace("ROOT", str(root)) for key, value in options.items()}
        seen.append(of_ours(root, paths, read, options, seed % 6 != 0))
        shutil.rmtree(root)
    columns = [columns[1:] for columns, _ in (found for found in seen if found != REFUSED)]
    types = {type_.split("(")[0] for _, type_ in itertools.chain.from_iterable(columns)}
    assert len(columns) >= 30
    assert {"int", "bigint", "double", "decimal", "date", "timestamp", "string"} <= types


ASKED = [
    ("1", "string", t.utf8),
    ("01", "string", t.utf8),
    ("a%3Ab", "string", t.utf8),
    ("1", "tinyint", t.int8),
    ("007", "smallint", t.int16),
    ("7", "bigint", t.int64),
    ("1", "double", t.float64),
    ("0.1", "float", t.float32),
    ("12", "decimal(10,0)", t.Decimal(10, 0)),
    ("2020-01", "date", t.date32),
    ("2020-1-2", "date", t.date32),
    ("2020-01-02", "timestamp", t.Timestamp(t.TimeUnit.MICROSECOND, ZONE)),
    ("2020-01-02T03%3A04%3A05.123456Z", "timestamp", t.Timestamp(t.TimeUnit.MICROSECOND, ZONE)),
    ("2020-1-2 3%3A4", "timestamp_ntz", t.Timestamp(t.TimeUnit.MICROSECOND)),
    ("TRUE", "boolean", t.bool_),
    (NULL, "int", t.int32),
    ("x", "int", t.int32),
    ("1.5", "int", t.int32),
    ("maybe", "boolean", t.bool_),
    ("2020-02-30", "date", t.date32),
    ("x", "timestamp", t.Timestamp(t.TimeUnit.MICROSECOND, ZONE)),
]


@pytest.mark.parametrize(("string", "asked", "type_"), ASKED, ids=[f"{case[0]} as {case[1]}" for case in ASKED])
def test_value_in_the_type_that_a_user_asks_for(spark, tmp_path, string, asked, type_):
    plant(tmp_path, strings(string))
    column = "unix_micros(K)" if asked == "timestamp" else "K"
    expected = actual = REFUSED
    with contextlib.suppress(Exception):
        expected = comparable(
            spark.read.schema(f"v int, K {asked}").parquet(str(tmp_path)).selectExpr(column).collect()[0][0]
        )
    with contextlib.suppress(ArrowIpcError):
        found = retype(discover(list_tree([str(tmp_path)]), time_zone=ZONE), {"v": t.int32, "K": type_})
        assert (t.field("K", type_),) == found.fields
        actual = comparable(found.files[0].partition[0])
    assert expected == actual


AUTUMN = datetime(2021, 11, 7, 4, 30, tzinfo=UTC)

# Values in names that a write gives, by Spark's type; of the instants one is refused, at the second 01:30 of its day.
GIVEN = {
    "timestamp": (t.Timestamp(t.TimeUnit.MICROSECOND, "UTC"), [AUTUMN + timedelta(hours=n, microseconds=n * 10) for n in range(4)]),
    "timestamp_ntz": (t.Timestamp(t.TimeUnit.MICROSECOND), [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)]),
    "date": (t.date32, [datetime(1, 1, 1).date(), datetime(1582, 10, 10).date(), datetime(9999, 12, 31).date()]),
    "double": (t.float64, [0.1, -0.0, 0.0, 5e-324, 1e22, np.inf, -np.inf, np.nan, 9007199254740993.0]),
    "float": (t.float32, [0.1, -0.0, 1e-45, 3.4028235e38, np.nan, 16777216.0]),
    "decimal(38,18)": (t.Decimal(38, 18), [Decimal("1.50"), Decimal("-0.000000000000000001"), Decimal(10**19)]),
    "bigint": (t.int64, [-(2**63), 2**63 - 1, 0]),
    "boolean": (t.bool_, [True, False]),
    "string": (t.utf8, ["é", "%C3%A9", " a ", "01", "2020-01-01", "null", "ab   ", ".", "a/b", "true", "x\n\t", "日本😀"]),
    "binary": (t.binary, ["é".encode(), b"a"]),  # Spark does not unescape the names of binaries
}  # fmt: skip


@pytest.mark.parametrize("asked", GIVEN)
def test_spark_reads_the_names_that_a_write_gives(spark, tmp_path, asked):
    """Whoever reads a name finds the value that named it."""
    type_, values = GIVEN[asked]
    columns = [RecordBatch.from_pydict({"k": [v]}, Schema.of([t.field("k", type_)])).columns[0] for v in values]
    expected = []
    for column in columns:
        with contextlib.suppress(UnsupportedError):
            [directory] = directories_of(["k"], [column], np.array([0]), ZONE)
            plant(tmp_path / "t" / directory, ["0.parquet"])
            expected += map(comparable, column.to_pylist())
    assert len(values) - (asked == "timestamp") == len(expected)
    k = "unix_micros(k)" if asked == "timestamp" else "k"
    rows = spark.read.schema(f"v int, k {asked}").parquet(f"{tmp_path}/t").selectExpr(k).collect()
    # Python's Row has a float's bits as a double, and binaries as bytearray.
    found = [bytes(row[0]) if isinstance(row[0], bytearray) else row[0] for row in rows]
    assert sorted(expected) == sorted(map(comparable, found))


def test_meant_to_differ(tmp_path):
    """Each of these is inferred otherwise by Spark, or by some of its versions; the module says why."""
    root = plant(tmp_path, [f"a={STAMP}/b=03%3A04%3A05/c=+12020-01-01/d=0000-01-01/e=%C3%A9/0.parquet"])
    found = discover(list_tree([str(root)]))
    assert ["timestamp_ntz", *["string"] * 4] == [spark_type(field.type) for field in found.fields]
    assert (datetime(2020, 1, 2, 3, 4, 5), "03:04:05", "+12020-01-01", "0000-01-01", "é") == found.files[0].partition  # fmt: skip


# Paths of one tree, and what is read of them by patterns.
LEAVES = ["a.x", "b.x", "c.y", "d1/e.x", "d2/f.x", "d2/g.y", "d10/h.x", "i{1}.x", "j[1].x", "d2/s/k.x", "l,m.x"]
PATTERNS = [
    "*.x", "?.x", "[ab].x", "[a-c].?", "[^a].x", "{a,b}.x", "{a.x,d1/*}", "d?", "d[0-9]", "d*", "{d1,d2/s}", "*/*.x",
    "d{1,2}/*.{x,y}", "{a,{b,c}}.*", r"i\{1\}.x", r"j\[1\].x", "l,m.x", r"j[\[]1].x", "d*/s", "d2/*", "{*.x,*.y}", "*",
    "**.x", "d2/*/*", "[!a].x", "{a,b}*.x", "z*", "a.x/*", "d{1,10,2}",
]  # fmt: skip


@pytest.fixture(scope="module")
def leaves(tmp_path_factory):
    return plant(tmp_path_factory.mktemp("leaves"), LEAVES)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_pattern_matches_what_it_matches_in_spark(spark, leaves, pattern):
    expected = actual = []
    with contextlib.suppress(Exception):
        expected = sorted(map(local_path, spark.read.schema("v int").parquet(str(leaves / pattern)).inputFiles()))
    with contextlib.suppress(ArrowIpcError):
        actual = sorted(file.path for file in discover(list_tree([str(leaves / pattern)])).files)
    assert expected == actual


@pytest.mark.parametrize(
    "options",
    [
        {"modifiedBefore": "2024-03-09T12:00:00"},
        {"modifiedAfter": "2024-03-09T12:00:00"},
        {"modifiedAfter": "2024-03-09", "modifiedBefore": "2024-03-09 12:00:01+01:00"},
        {"modifiedBefore": "2024-03-09T12:00:00", "pathGlobFilter": "{0,2}.*"},
    ],
    ids=str,
)
def test_times_of_modification_are_compared_as_in_spark(spark, tmp_path, options):
    """In UTC: elsewhere Spark 4.3 adds the zone's offset to the file's time, though its value is an instant already."""
    noon = datetime(2024, 3, 9, 12, tzinfo=UTC).timestamp()
    for i, seconds in enumerate([noon - 50000, noon - 12 * 3600, noon - 3600, noon - 1, noon, noon + 1]):
        plant(tmp_path / f"k={i}", [f"{i}.parquet"])
        os.utime(tmp_path / f"k={i}" / f"{i}.parquet", (seconds, seconds))
    rows = spark.read.options(timeZone="UTC", **options).parquet(str(tmp_path)).select("k").collect()
    before, after = (options.get(key) and parse_modified(options[key]) for key in ("modifiedBefore", "modifiedAfter"))
    wanted = FileFilter(options.get("pathGlobFilter"), before, after)
    files = discover(list_tree([str(tmp_path)], file_filter=wanted)).files
    assert sorted(row.k for row in rows) == [file.partition[0] for file in files]


WRITTEN = """
    select 1 as v, double('NaN') as a, float(0.1) as b, date'2020-01-02' as c, timestamp'2020-01-02 03:04:05.120' as d,
    cast('1.50' as decimal(10, 3)) as e, true as f, '' as g, binary('a:b') as h, timestamp_ntz'0099-01-02 03:04:05' as i,
    1e-5d as j, 123456789.0d as k, 100.0d as l, 0.001d as m, -0.0d as n, cast(1e-10 as decimal(20, 10)) as o, 1e300d as p,
    cast(null as int) as q, 'é {}[]^"#%''*/:=?\\\\\\t~&<>|' as r, float('-Infinity') as s, 4.9e-324d as t
"""


def test_directories_are_written_as_spark_writes_them(spark, tmp_path):
    frame = spark.sql(WRITTEN)
    names = frame.columns[1:]
    frame.write.partitionBy(*names).parquet(str(tmp_path / "spark"))
    (expected,) = {path.parent for path in (tmp_path / "spark").rglob("*.parquet")}
    values = list(frame.collect()[0][1:])
    for name in "bs":
        values[names.index(name)] = np.float32(values[names.index(name)])
    values[names.index("d")] = datetime(2020, 1, 2, 3, 4, 5, 120000)
    values[names.index("o")] = Decimal("1e-10")
    values[names.index("h")] = bytes(values[names.index("h")])
    assert str(expected.relative_to(tmp_path / "spark")) == partition_directory(names, values)
