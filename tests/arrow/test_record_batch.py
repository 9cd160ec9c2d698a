"""Record batches: columns of one length, selected, sliced and converted to Python values."""

from dataclasses import replace

import pytest

from spark_arrow_ipc.arrow import Field, RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.errors import ColumnNotFoundError, InvalidBodyError

SCHEMA = Schema.of([Field("a", t.int8), Field("b", t.utf8)], {"k": "v"})
ROWS = [{"a": 1, "b": "x"}, {"a": None, "b": "y"}, {"a": 3, "b": None}]
BATCH = replace(RecordBatch.from_pylist(ROWS, SCHEMA), custom_metadata=(("m", "n"),))
TWICE = Schema.of([Field("a", t.int8), Field("a", t.int8)])


def test_rows_and_columns_come_back():
    assert ROWS == BATCH.to_pylist()
    assert {"a": [1, None, 3], "b": ["x", "y", None]} == BATCH.to_pydict()
    assert ROWS == RecordBatch.from_pydict(BATCH.to_pydict(), SCHEMA).to_pylist()
    assert 3 == len(BATCH)


def test_an_absent_key_is_a_null():
    assert [{"a": 1, "b": None}] == RecordBatch.from_pylist([{"a": 1, "c": 2}], SCHEMA).to_pylist()


def test_a_batch_may_have_rows_and_no_columns():
    batch = RecordBatch.from_pylist([{}, {}], Schema(()))
    assert (2, [{}, {}], {}) == (batch.num_rows, batch.to_pylist(), batch.to_pydict())
    assert 1 == batch.slice(1).num_rows


def test_a_name_that_occurs_twice_keeps_its_last_column():
    batch = RecordBatch(TWICE, tuple(from_pylist.array([i], t.int8) for i in (1, 2)), 1)
    assert ([{"a": 2}], {"a": [2]}) == (batch.to_pylist(), batch.to_pydict())


REFUSED = [
    ("a column too few", lambda: RecordBatch(SCHEMA, BATCH.columns[:1], 3), "expected 2 columns, found 1"),
    ("another length", lambda: RecordBatch(SCHEMA, BATCH.columns, 2), "column a: expected 2 slots, found 3"),
    ("a column missing", lambda: RecordBatch.from_pydict({"a": []}, SCHEMA), "found none for b"),
    ("lengths that differ", lambda: RecordBatch.from_pydict({"a": [1], "b": []}, SCHEMA), "column b: expected 1 slots"),
    ("a value of another type", lambda: RecordBatch.from_pylist([{"a": 300}], SCHEMA), "expected -128 to 127 for int8"),
]


@pytest.mark.parametrize(("make", "words"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_columns_that_do_not_fit_are_refused(make, words):
    with pytest.raises(ValueError) as caught:
        make()
    assert words in str(caught.value)


def test_columns_are_selected_by_position_or_name_in_the_order_asked_for():
    selected = BATCH.select(["b", 0])
    assert ("b", "a") == selected.schema.names
    assert selected.columns[0] is BATCH.column("b") is BATCH.column(1)
    assert ((("k", "v"),), (("m", "n"),)) == (selected.schema.custom_metadata, selected.custom_metadata)
    with pytest.raises(ColumnNotFoundError, match="there is no column 'c'"):
        BATCH.select(["c"])


def test_slices_share_memory():
    part = BATCH.slice(1, 1)
    assert ([ROWS[1]], (("m", "n"),)) == (part.to_pylist(), part.custom_metadata)
    assert part.columns[0].buffers is BATCH.columns[0].buffers


@pytest.mark.parametrize(("offset", "length"), [(-1, 1), (0, 4), (4, None), (1, -1)])
def test_a_slice_outside_is_an_error(offset, length):
    with pytest.raises(IndexError, match="expected rows within 0 to 3"):
        BATCH.slice(offset, length)


def test_validation_names_the_column():
    column = BATCH.column("b")
    broken = replace(column, buffers=(*column.buffers[:2], memoryview(b"\xff\xff")))
    batch = RecordBatch(SCHEMA, (BATCH.column("a"), broken), 3)
    batch.validate(full=False)
    with pytest.raises(InvalidBodyError, match="field b: expected UTF-8 text in slot 0"):
        batch.validate()


def test_representations_are_for_people():
    assert "<RecordBatch 3 rows of 2 columns>\na: int8\nb: utf8" == repr(BATCH)
    assert "<p>3 rows of 2 columns</p><table>" in BATCH._repr_html_()
