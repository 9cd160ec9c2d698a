"""Hive partitions: columns, types and values of directories. That Spark agrees is tested in tests/spark."""

import math
import pickle
from datetime import UTC, date, datetime, time
from decimal import Decimal

import numpy as np
import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.listing.file_filter import FileFilter
from spark_arrow_ipc.dataset.listing.hive import discover, merged_fields, retype
from spark_arrow_ipc.dataset.listing.partition_values import (
    CASTS,
    cast,
    escape_path_name,
    infer_type,
    partition_directory,
    unescape_path_name,
    widest,
)
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.errors import NoFilesError, OptionError, SchemaMismatchError, UnsupportedError

NULL = "__HIVE_DEFAULT_PARTITION__"
LOCAL = t.Timestamp(t.TimeUnit.MICROSECOND)
BERLIN = t.Timestamp(t.TimeUnit.MICROSECOND, "Europe/Berlin")


def plant(root, *paths):
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    return root


def found(root, *read, file_filter=None, **options):
    tree = list_tree([str(root / path) for path in read or ("",)], file_filter=file_filter)
    return discover(tree, **{key: str(root) if value == "ROOT" else value for key, value in options.items()})


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


@pytest.mark.parametrize(("text", "type_", "value"), INFERRED, ids=[case[0][:40] for case in INFERRED])
def test_type_and_value_of_a_text(text, type_, value):
    assert (type_, value) == (infer_type(text), cast(text, type_))


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


def test_columns_and_values(tmp_path):
    plant(tmp_path, "year=2024/city=a%3Ab/0", f"year=2024/city={NULL}/1", "year=2025/city=é/2", "year=2025/city=é/3")
    partitioning = found(tmp_path)
    assert (t.field("year", t.int32), t.field("city", t.utf8)) == partitioning.fields
    assert [(2024, None), (2024, "a:b"), (2025, "é"), (2025, "é")] == [file.partition for file in partitioning.files]
    assert partitioning.files[2].partition is partitioning.files[3].partition
    assert partitioning == pickle.loads(pickle.dumps(partitioning))


TABLES = [
    ("not partitioned", ["0", "1"], [""], {}, [], [(), ()]),
    ("nested files of no partition are not read", ["0", "foo/1"], [""], {}, [], [()]),
    ("partition as root", ["k=1/0"], ["k=1"], {}, [], [()]),
    ("partition as root, base path", ["k=1/0"], ["k=1"], {"base_path": "ROOT"}, ["k"], [(1,)]),
    ("file as root, base path", ["k=1/0"], ["k=1/0"], {"base_path": "ROOT"}, ["k"], [(1,)]),
    ("pattern, base path", ["k=1/0", "k=2/0", "k=33/0"], ["k=?"], {"base_path": "ROOT"}, ["k"], [(1,), (2,)]),
    ("without inference", ["k=01/0", f"k={NULL}/0"], [""], {"infer": False}, ["k"], [("01",), (None,)]),
    ("time zone", ["k=2024-07-01 12%3A00%3A00/0"], [""], {"time_zone": "Europe/Berlin"}, ["k"],
     [(datetime(2024, 7, 1, 10, tzinfo=UTC),)]),
    ("directory without = inside", ["k=1/foo/0", "k=2/0"], [""], {}, ["k"], [(1,), (2,)]),
    ("directory without = between", ["k=1/foo/j=2/0"], [""], {}, ["j"], [(2,)]),
    ("filtered files count for the type", ["k=1/a", "k=x/b"], [""], {"file_filter": FileFilter("a")}, ["k"], [("1",)]),
    ("one root twice", ["k=1/0"], ["", ""], {}, ["k"], [(1,)]),
    ("names that differ by case", ["K=1/0", "k=2/0"], [""], {}, ["K"], [(1,), (2,)]),
]  # fmt: skip


@pytest.mark.parametrize("case", [case[1:] for case in TABLES], ids=[case[0] for case in TABLES])
def test_tables(tmp_path, case):
    paths, read, options, names, values = case
    partitioning = found(plant(tmp_path, *paths), *read, **options)
    assert (names, values) == ([f.name for f in partitioning.fields], [f.partition for f in partitioning.files])


REFUSED = [
    ("two tables", ["a/k=1/0", "b/k=1/0"], [""], {}, SchemaMismatchError, "conflicting directory .*/a, .*/b.*basePath"),
    ("beside a partition", ["k=1/0", "b/0"], [""], {}, SchemaMismatchError, "conflicting directory structures"),
    ("names", ["k=1/0", "j=1/0"], [""], {}, SchemaMismatchError, "names of partition columns: j in .*j=1; k in .*k=1"),
    ("depth", ["k=1/0", "k=1/j=1/0"], [""], {}, SchemaMismatchError, "innermost"),
    ("twice", ["k=1/K=1/0"], [""], {}, SchemaMismatchError, "'K' twice"),
    ("no value", ["k=/0"], [""], {}, SchemaMismatchError, "a value after the equals sign.*'k='"),
    ("no name", ["=1/0"], [""], {}, SchemaMismatchError, "a name before .*'=1'"),
    ("widened in vain", ["k=\u0661/0", "k=1.5/0"], [""], {}, SchemaMismatchError, "k=\u0661: field k: .*float64"),
    ("no UTF-8", [b"k=\xff/0".decode(errors="surrogateescape")], [""], {}, SchemaMismatchError, "type utf8"),
    ("base path elsewhere", ["k=1/0"], ["k=1"], {"base_path": "/"}, None, None),
    ("base path below", ["k=1/j=1/0"], [""], {"base_path": "k=1"}, OptionError, "directory for the option basePath"),
    ("time zone", ["k=1/0"], [""], {"time_zone": "Mars/X"}, OptionError, "Mars"),
    ("filtered away", ["k=1/0"], [""], {"file_filter": FileFilter("z")}, NoFilesError, "pathGlobFilter"),
    ("nothing", ["k=1/_0"], [""], {}, NoFilesError, "found none"),
]


@pytest.mark.parametrize("case", [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refusals_name_what_is_wrong(tmp_path, case):
    paths, read, options, error, text = case
    plant(tmp_path, *paths)
    if error is None:
        found(tmp_path, *read, **options)
        return
    with pytest.raises(error, match=text):
        found(tmp_path, *read, **options)


def test_base_path_must_be_above_all_paths_by_whole_names(tmp_path):
    plant(tmp_path, "t/0", "tt/k=1/0")
    with pytest.raises(OptionError, match=r"paths in the basePath .*/t, found .*/tt"):
        found(tmp_path, "tt", base_path=str(tmp_path / "t"))


def test_files_beside_partitions_are_counted(tmp_path):
    partitioning = found(plant(tmp_path, "k=1/0", "a", "b"))
    assert ["a", "b"] == [file.path.rpartition("/")[2] for file in partitioning.unread]
    assert "2 files such as" in partitioning.warning()
    assert found(tmp_path, file_filter=FileFilter("0")).warning() is None


RETYPED = [
    ("01", t.utf8, "01"),
    ("01", t.large_utf8, "01"),
    ("1", t.int8, 1),
    ("255", t.uint8, 255),
    ("1", t.float64, 1.0),
    ("0.1", t.float32, float(np.float32(0.1))),
    ("1", t.Decimal(10, 2), Decimal("1.00")),
    ("1.50", t.Decimal(3, 1), Decimal("1.5")),
    ("0", t.Decimal(2, 2), Decimal("0.00")),
    ("True", t.bool_, True),
    ("2024-1", t.date32, date(2024, 1, 1)),
    ("2024-01-02", LOCAL, datetime(2024, 1, 2)),
    ("2024-01-02T03%3A04%3A05.123456789+01:00", LOCAL, datetime(2024, 1, 2, 3, 4, 5, 123456)),
    ("2024-01-02T03%3A04%3A05 CET", BERLIN, datetime(2024, 1, 2, 2, 4, 5, tzinfo=UTC)),
    ("03%3A04%3A05.1", t.Time(t.TimeUnit.MICROSECOND, 64), time(3, 4, 5, 100000)),
    ("a%3Ab", t.binary, b"a:b"),
    (NULL, t.int32, None),
]


@pytest.mark.parametrize(("text", "type_", "value"), RETYPED, ids=[f"{case[0]} as {case[1]}" for case in RETYPED])
def test_types_that_a_user_asks_for(tmp_path, text, type_, value):
    partitioning = retype(found(plant(tmp_path, f"k={text}/0")), {"K": type_, "other": t.int8})
    assert ((t.field("K", type_),), (value,)) == (partitioning.fields, partitioning.files[0].partition)


UNFIT = [
    ("x", t.int32, SchemaMismatchError, "k=x: field K: expected a partition value of the type int32, found 'x'"),
    ("128", t.int8, SchemaMismatchError, "int8"),
    ("-1", t.uint8, SchemaMismatchError, "uint8"),
    ("1.55", t.Decimal(3, 1), SchemaMismatchError, "decimal128"),
    ("100", t.Decimal(3, 1), SchemaMismatchError, "decimal128"),
    ("1e999999999", t.Decimal(3, 1), SchemaMismatchError, "decimal128"),
    ("1e-999999999", t.Decimal(3, 1), SchemaMismatchError, "decimal128"),
    ("yes", t.bool_, SchemaMismatchError, "bool"),
    ("2024-02-30", t.date32, SchemaMismatchError, "date32"),
    ("2024-01-02 03", BERLIN, OptionError, "field K: expected the option timeZone"),
    ("1", t.list_(t.int8), UnsupportedError, "cannot have the type list"),
]


@pytest.mark.parametrize(("text", "type_", "error", "message"), UNFIT, ids=[f"{c[0]} as {c[1]}" for c in UNFIT])
def test_value_that_does_not_fit_the_type_is_named(tmp_path, text, type_, error, message):
    partitioning = found(plant(tmp_path, f"k={text}/0"))
    with pytest.raises(error, match=message):
        retype(partitioning, {"K": type_})


def test_exact_name_counts_before_one_of_another_case(tmp_path):
    partitioning = found(plant(tmp_path, "k=1/0"))
    assert (t.field("k", t.utf8),) == retype(partitioning, {"K": t.int8, "k": t.utf8}).fields
    assert partitioning is retype(partitioning, {"j": t.int8})


def test_every_type_that_is_inferred_can_be_cast():
    assert {type(case[1]) for case in INFERRED} <= set(CASTS)


def test_column_of_files_and_paths_stands_where_the_files_have_it():
    data = [t.field(name, t.int64) for name in ("a", "V", "b")]
    partition = [t.field("v", t.int32), t.field("k", t.utf8)]
    assert (data[0], partition[0], data[2], partition[1]) == merged_fields(data, partition)


ESCAPES = [
    ("a:b", "a%3Ab"),
    ("100%", "100%25"),
    ("é 漢+&", "é 漢+&"),
    ("a/b\\c", "a%2Fb%5Cc"),
    ("{}[]^", "%7B}%5B%5D%5E"),
    ("\x00\x1f\x7f", "%00%1F%7F"),
    ("\"#'*=?", "%22%23%27%2A%3D%3F"),
]


@pytest.mark.parametrize(("text", "escaped"), ESCAPES)
def test_escapes(text, escaped):
    assert (escaped, text) == (escape_path_name(text), unescape_path_name(escaped))


@pytest.mark.parametrize(
    ("escaped", "text"), [("%", "%"), ("%4", "%4"), ("%zz", "%zz"), ("%e4%-1", "ä%-1"), ("%41%", "A%")]
)
def test_percent_signs_that_escape_nothing_stay(escaped, text):
    assert text == unescape_path_name(escaped)


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


@pytest.mark.parametrize(("value", "text"), WRITTEN, ids=[repr(case[0]) for case in WRITTEN])
def test_values_are_written_as_spark_writes_them(value, text):
    assert f"a%3Ab=1/k={text}" == partition_directory(["a:b", "k"], [1, value])


def test_directory_that_would_be_hidden_is_escaped_and_read_back(tmp_path):
    plant(tmp_path, partition_directory([".h", "_u"], ["x._COPYING_", "y.staged"]) + "/0")
    partitioning = found(tmp_path)
    assert [".h", "_u"] == [field.name for field in partitioning.fields]
    assert ("x._COPYING_", "y.staged") == partitioning.files[0].partition


def test_what_cannot_name_a_directory_is_refused():
    with pytest.raises(UnsupportedError, match="type dict"):
        partition_directory(["k"], [{}])
    with pytest.raises(OptionError, match="empty name"):
        partition_directory([""], [1])
