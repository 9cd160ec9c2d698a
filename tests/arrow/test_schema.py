"""Columns of a schema by position and by name."""

import pytest

from spark_arrow_ipc.arrow import Field, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import ColumnNotFoundError

SCHEMA = Schema.of([Field("a", t.int8), Field("b", t.utf8, nullable=False), Field("a", t.bool_)], {"k": "v"})


@pytest.mark.parametrize(("column", "expected"), [(0, 0), (2, 2), ("b", 1)])
def test_position(column, expected):
    assert expected == SCHEMA.position(column)
    assert SCHEMA.fields[expected] == SCHEMA.field(column)


NOT_THERE = [
    (3, "a column position below 3, found 3"),
    (-1, "a column position below 3, found -1"),
    ("a", "the name 'a' stands for 2 columns; address one of them by position: #0, #2"),
    ("c", "there is no column 'c'; the columns are 'a', 'b', 'a'"),
]


@pytest.mark.parametrize(("column", "words"), NOT_THERE, ids=[str(c[0]) for c in NOT_THERE])
def test_a_column_that_is_not_there_is_an_error(column, words):
    with pytest.raises(ColumnNotFoundError) as caught:
        SCHEMA.position(column)
    assert words in str(caught.value)


def test_a_long_list_of_columns_is_cut():
    wide = Schema.of(Field(f"c{i}", t.int8) for i in range(30))
    with pytest.raises(ColumnNotFoundError, match="'c21' and 8 more"):
        wide.position("x")


def test_schemas_compare_by_value_and_have_a_length():
    assert 3 == len(SCHEMA)
    assert (("k", "v"),) == SCHEMA.custom_metadata
    assert SCHEMA == Schema(SCHEMA.fields, (("k", "v"),))


def test_schema_as_people_read_it():
    assert "a: int8\nb: utf8 not null\na: bool" == str(SCHEMA)
    assert "(no columns)" == str(Schema(()))
