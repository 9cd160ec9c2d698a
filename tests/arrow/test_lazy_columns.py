"""Lazy columns are a sequence of arrays, each made once, when it is first asked for."""

import pytest

from spark_arrow_ipc.arrow import Array, RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.record_batch import LazyColumns

ARRAYS = tuple(Array(t.null, i, i, ()) for i in range(6))


@pytest.fixture
def made():
    """Positions in the order in which they were made."""
    return []


@pytest.fixture
def columns(made):
    def make(positions):
        made.extend(positions)
        return [ARRAYS[i] for i in positions]

    return LazyColumns([None, None, ARRAYS[2], None, None, None], make)


ASKS = {
    "nothing": (len, []),
    "one": (lambda columns: columns[1], [1]),
    "the last": (lambda columns: columns[-1], [5]),
    "one twice": (lambda columns: (columns[3], columns[3]), [3]),
    "one that is there": (lambda columns: columns[2], []),
    "some": (lambda columns: columns[1:4], [1, 3]),
    "all": (tuple, [0, 1, 3, 4, 5]),
    "all after one": (lambda columns: (columns[4], *columns), [4, 0, 1, 3, 5]),
}


@pytest.mark.parametrize("ask", ASKS)
def test_an_array_is_made_when_it_is_asked_for(ask, columns, made):
    asks, expected = ASKS[ask]
    asks(columns)
    assert made == expected


def test_they_are_the_arrays_of_a_tuple(columns):
    assert len(columns) == 6
    assert [columns[i] for i in (3, 0, -1, 2)] == [ARRAYS[i] for i in (3, 0, -1, 2)]
    assert columns[::-2] == ARRAYS[::-2]
    assert tuple(columns) == ARRAYS
    with pytest.raises(IndexError):
        columns[6]


def test_a_selection_of_a_batch_makes_only_what_is_asked_of_it(made):
    def make(positions):
        made.extend(positions)
        return [Array(t.null, 3, 3, ()) for _ in positions]

    schema = Schema(tuple(t.field(f"c{i}", t.null) for i in range(6)))
    batch = RecordBatch(schema, LazyColumns([None] * 6, make), 3)
    selected = batch.select(["c4", "c1"])
    assert made == []
    assert selected.column("c1") is batch.column("c1")
    assert made == [1]
    assert len(list(selected.columns)) == 2
    assert made == [1, 4]
