"""Hive partitions discovered in directories. That Spark agrees is tested in tests/spark."""

import pickle
from datetime import UTC, date, datetime, time
from decimal import Decimal

import numpy as np
import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.listing.data_file import FileFilter
from spark_arrow_ipc.dataset.listing.hive import discover, merge_fields, partition_by_directory, retype
from spark_arrow_ipc.dataset.listing.partition_values import partition_directory
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


def discovered(root, *read, file_filter=None, **options):
    tree = list_tree([str(root / path) for path in read or ("",)], file_filter=file_filter)
    return discover(tree, **{key: str(root) if value == "ROOT" else value for key, value in options.items()})


def test_columns_and_values(tmp_path):
    plant(tmp_path, "year=2024/city=a%3Ab/0", f"year=2024/city={NULL}/1", "year=2025/city=é/2", "year=2025/city=é/3")
    partitioning = discovered(tmp_path)
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
    partitioning = discovered(plant(tmp_path, *paths), *read, **options)
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
    (
        "old time",
        ["k=1930-01-01 12%3A00%3A00/0"],
        [""],
        {"time_zone": "Europe/Amsterdam"},
        OptionError,
        "with an offset",
    ),
    ("filtered away", ["k=1/0"], [""], {"file_filter": FileFilter("z")}, NoFilesError, "pathGlobFilter"),
    ("nothing", ["k=1/_0"], [""], {}, NoFilesError, "found none"),
]


@pytest.mark.parametrize("case", [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refusals_name_what_is_wrong(tmp_path, case):
    paths, read, options, error, text = case
    plant(tmp_path, *paths)
    if error is None:
        discovered(tmp_path, *read, **options)
        return
    with pytest.raises(error, match=text):
        discovered(tmp_path, *read, **options)


def test_base_path_must_be_above_all_paths_by_whole_names(tmp_path):
    plant(tmp_path, "t/0", "tt/k=1/0")
    with pytest.raises(OptionError, match=r"paths in the basePath .*/t, found .*/tt"):
        discovered(tmp_path, "tt", base_path=str(tmp_path / "t"))


def test_files_beside_partitions_are_counted(tmp_path):
    partitioning = discovered(plant(tmp_path, "k=1/0", "a", "b"))
    assert ["a", "b"] == [file.path.rpartition("/")[2] for file in partitioning.unread]
    assert "2 files such as" in partitioning.warning()
    assert discovered(tmp_path, file_filter=FileFilter("0")).warning() is None


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
    partitioning = retype(discovered(plant(tmp_path, f"k={text}/0")), {"K": type_, "other": t.int8})
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
    partitioning = discovered(plant(tmp_path, f"k={text}/0"))
    with pytest.raises(error, match=message):
        retype(partitioning, {"K": type_})


def test_exact_name_counts_before_one_of_another_case(tmp_path):
    partitioning = discovered(plant(tmp_path, "k=1/0"))
    assert (t.field("k", t.utf8),) == retype(partitioning, {"K": t.int8, "k": t.utf8}).fields
    assert partitioning is retype(partitioning, {"j": t.int8})


def test_column_of_files_and_paths_stands_where_the_files_have_it():
    data = [t.field(name, t.int64) for name in ("a", "V", "b")]
    partition = [t.field("v", t.int32), t.field("k", t.utf8)]
    assert (data[0], partition[0], data[2], partition[1]) == merge_fields(data, partition)


def test_directory_that_would_be_hidden_is_escaped_and_read_back(tmp_path):
    plant(tmp_path, partition_directory([".h", "_u"], ["x._COPYING_", "y.staged"]) + "/0")
    partitioning = discovered(tmp_path)
    assert [".h", "_u"] == [field.name for field in partitioning.fields]
    assert ("x._COPYING_", "y.staged") == partitioning.files[0].partition


@pytest.mark.parametrize("infer", [True, False])
def test_known_files_have_the_values_that_a_listing_would_find(tmp_path, infer):
    plant(tmp_path, "k=1/j=a/0", "k=1/j=b/1", f"k={NULL}/j=c/2")
    found = discovered(tmp_path, infer=infer)
    bare = [file._replace(partition=()) for file in found.files]
    assert found == partition_by_directory(bare, [str(tmp_path)], infer=infer)
    (one,) = partition_by_directory(bare[:1], [str(tmp_path / "k=1")]).files
    assert ("a",) == one.partition
    assert () == partition_by_directory(bare[:1], [str(tmp_path / "k=1" / "j=a")]).fields


def test_a_known_file_beside_partitions_has_no_values(tmp_path):
    plant(tmp_path, "k=1/0", "beside")
    files = [*discovered(tmp_path).files, discovered(tmp_path).unread[0]]
    assert [(1,), (None,)] == [file.partition for file in partition_by_directory(files, [str(tmp_path)]).files]
