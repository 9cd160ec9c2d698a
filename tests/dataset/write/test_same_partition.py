"""Directories of one partition, spelled in several ways."""

import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.write.conflicts import PartitionValues, is_in

MICROSECONDS = t.Timestamp(t.TimeUnit.MICROSECOND, "UTC")

# (Type of the column k, the directory that is written, directories of the same partition, others.)
CASES = {
    "escapes": (t.utf8, "k=a b", {"k=a%20b", "K=a b"}, {"k=a%2520b", "k=a+b", "j=a b"}),
    "bytes of UTF-8": (t.utf8, "k=é", {"k=%C3%A9", "K=%c3%a9"}, {"k=%E9%", "k=%25C3%25A9", "k=Ã©"}),
    "strings of digits": (t.utf8, "k=1", {"k=%31"}, {"k=01", "k=1.0"}),
    "integers": (t.int32, "k=1", {"k=01", "k=+1", "k=1.0", "k=1e0", "k=1d"}, {"k=10", "k=1.5", "k=one", "k=1e999999999", "k=NaN"}),
    "floats": (t.float64, "k=1.0", {"k=1", "k=1e0"}, {"k=2", "k=NaN"}),
    "not a number": (t.float64, "k=NaN", {"k=NaN"}, {"k=0.0"}),
    "decimals": (t.Decimal(5, 2), "k=1.50", {"k=1.5", "k=1.500", "k=1.5f"}, {"k=1.55", "k=1500", "k=1.501"}),
    "large integers": (t.int64, "k=9007199254740993", {"k=9007199254740993.0"}, {"k=9007199254740992", "k=9007199254740992.0"}),
    "booleans": (t.bool_, "k=true", {"k=TRUE"}, {"k=false", "k=1"}),
    "dates": (t.date32, "k=2024-01-02", {"k=2024-1-2"}, {"k=2024-01-03"}),
    "instants": (MICROSECONDS, "k=2024-01-02 00%3A00%3A00", {"k=2024-01-02 00:00:00", "k=2024-01-02"}, {"k=2024-01-02 00:00:00Z"}),
    "null": (t.int32, "k=__HIVE_DEFAULT_PARTITION__", {"k=__HIVE_DEFAULT_PARTITION__"}, {"k=0"}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_directories_are_compared_by_value(case):
    type_, written, same, others = CASES[case]
    values = PartitionValues([t.Field("k", type_)])
    assert same == values.same({written}, same | others)


def test_all_columns_of_a_path_count():
    values = PartitionValues([t.Field("a", t.int32), t.Field("b", t.utf8)])
    assert {"a=01/b=x", "A=1/B=%78"} == values.same({"a=1/b=x"}, {"a=01/b=x", "A=1/B=%78", "a=1", "a=1/b=y", "b=x/a=1"})


def test_what_lies_below_a_partition_is_in_it():
    values = PartitionValues([t.Field("k", t.int32)])
    assert {"k=01", "k=1"} == values.same({"k=1"}, {"k=01/sub", "k=1/j=1/i=1", "k=2/k=1", "k=10"})


@pytest.mark.parametrize(
    ("path", "partitions", "expected"),
    [
        ("k=1/a", {"k=1"}, True),
        ("k=1/sub/j=2/a", {"k=1"}, True),
        ("k=1/a", {"k=1/sub"}, False),
        ("k=10/a", {"k=1"}, False),
        ("a", {"k=1"}, False),
        ("a", {""}, True),
        ("k=1/a", {""}, False),
    ],
)
def test_a_file_is_in_a_partition(path, partitions, expected):
    assert expected == is_in(path, partitions)
