"""Paths and Spark's schema become positions in each file's own schema."""

import pytest
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import ColumnNotFoundError
from spark_arrow_ipc.spark.read.columns import partition_position, select_columns, select_needed, select_referenced

POINT = t.Struct((t.field("x", t.int32), t.field("y", t.int32)))
FILE = Schema.of([t.field("id", t.int64), t.field("p", POINT), t.field("name", t.utf8)])
OTHER_ORDER = Schema.of([t.field("name", t.utf8), t.field("p", POINT), t.field("id", t.int64)])
HIVE = (t.field("year", t.int32),)


def struct(ddl):
    return s.StructType([struct_field(*part.split(" ")) for part in ddl.split(", ") if part])


def struct_field(path, type_="bigint"):
    head, _, below = path.partition(".")
    if below:
        return s.StructField(head, s.StructType([struct_field(name, type_) for name in below.split("+")]))
    return s.StructField(head, s.LongType())


ASKED = [
    # Spark's schema, paths in FILE, paths in OTHER_ORDER
    ("id, name", [(0,), (2,)], [(2,), (0,)]),
    ("name, id", [(2,), (0,)], [(0,), (2,)]),
    ("p.y", [(1, 1)], [(1, 1)]),
    ("p.y+x, id", [(1, 1), (1, 0), (0,)], [(1, 1), (1, 0), (2,)]),
    ("p", [(1,)], [(1,)]),
    ("ID", [(0,)], [(2,)]),
    ("year, id", [(0,)], [(2,)]),
    ("", [], []),
]


@pytest.mark.parametrize(("ddl", "expected", "in_other_order"), ASKED, ids=[case[0] or "none" for case in ASKED])
def test_sparks_schema_is_resolved_in_each_file(ddl, expected, in_other_order):
    select = select_columns(None, struct(ddl), HIVE)
    assert expected == select(FILE)
    assert in_other_order == select(OTHER_ORDER)


def test_the_option_columns_takes_precedence_over_sparks_schema():
    select = select_columns([2, ("p", "x")], struct("name, p.x"), HIVE)
    assert select(FILE) == select_referenced([2, ("p", "x")])(FILE)
    assert 2 == len(select(FILE))


def test_files_that_differ_are_resolved_by_name():
    """With merged schemas the positions of the option are those of the first file alone, so that it is left out."""
    select = select_columns(None, struct("name"), skips_absent=True)
    assert [(2,)] == select(FILE)
    assert [(0,)] == select(OTHER_ORDER)


def test_positions_are_those_of_each_file_where_columns_may_be_missing():
    select = select_columns([2, "absent"], struct("name, absent"), skips_absent=True)
    assert ([(2,)], [(2,)]) == (select(FILE), select(OTHER_ORDER))


def test_an_absent_column_is_an_error_or_skipped():
    with pytest.raises(ColumnNotFoundError, match="absent"):
        select_columns(None, struct("id, absent"))(FILE)
    with pytest.raises(ColumnNotFoundError, match="'z'"):
        select_columns(None, struct("p.z"))(FILE)
    assert [(0,)] == select_columns(None, struct("id, absent"), skips_absent=True)(FILE)
    assert [] == select_referenced([("absent",)], skips_absent=True)(FILE)


def test_a_struct_without_any_requested_field_is_read_for_its_validity():
    assert [(1,)] == select_columns(None, struct("p.z"), skips_absent=True)(FILE)


def test_columns_of_the_predicate_follow_the_requested_ones():
    select = select_needed(None, struct("name"), struct("p.x, id, year").fields, HIVE)
    assert [(2,), (1, 0), (0,)] == select(FILE)
    assert [(2,)] == select_needed(None, struct("name"), (), HIVE)(FILE)


POSITIONS = [("year", 0), ("YEAR", 0), (("year",), 0), (("year", "x"), None), ("id", None), (0, None)]


@pytest.mark.parametrize(("path", "position"), POSITIONS, ids=[str(case[0]) for case in POSITIONS])
def test_a_path_may_name_a_partition_column(path, position):
    assert position == partition_position(HIVE, path)
    assert partition_position((), path) is None
