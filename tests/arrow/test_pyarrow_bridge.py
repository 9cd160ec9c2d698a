"""What crosses to pyarrow beside the arrays and types of tests/spark/test_bridge.py and tests/arrow/c_data."""

import sys
from dataclasses import replace

import pyarrow as pa
import pytest

from spark_arrow_ipc.arrow import Array, RecordBatch, Schema, pyarrow_bridge
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.layout import LAYOUTS
from spark_arrow_ipc.errors import UnsupportedError


def test_every_class_of_types_has_a_row():
    assert set(LAYOUTS) == set(pyarrow_bridge._TO_PYARROW)


MONTHS = Array(t.IntervalYearMonth(), 3, 1, (memoryview(b"\5"), memoryview(bytes(4) + b"\1\0\0\0\2\0\0\0")))
DAYS = Array(t.IntervalDayTime(), 3, 0, (None, memoryview(bytes(24))))
WORDS = Array(t.dictionary(t.int8, MONTHS.type), 3, 0, (None, memoryview(b"\0\2\2")), (), MONTHS)
LISTS = Array(t.list_(DAYS.type), 3, 0, (None, memoryview(b"\0\0\0\0\1\0\0\0\1\0\0\0\3\0\0\0")), (DAYS,))
INTERVALS = {"months": MONTHS, "days": DAYS, "dictionary": WORDS, "lists": LISTS}

# Without buffers of their own, in arrays of other lengths.
NULLS = Array(
    t.list_(t.null), 3, 0, (None, memoryview(b"\0\0\0\0\4\0\0\0\4\0\0\0\7\0\0\0")), (Array(t.null, 7, 7, ()),)
)
UNIONS = Array(
    t.SparseUnion((t.field("", t.null),), (0,)),
    3,
    0,
    (memoryview(bytes(8)),),
    (Array(t.null, 8, 8, (), offset=5),),
    offset=5,
)
RUNS = Array(
    t.run_end_encoded(t.int16, MONTHS.type),
    3,
    0,
    (),
    (Array(t.int16, 2, 0, (None, memoryview(b"\2\0\5\0"))), replace(MONTHS, length=2)),
)
PAIRS = Array(
    t.list_(RUNS.type), 3, 0, (None, memoryview(b"\0\0\0\0\2\0\0\0\5\0\0\0\5\0\0\0")), (replace(RUNS, length=5),)
)
BARE = {"nulls": NULLS, "unions": UNIONS, "runs": RUNS, "lists of runs": PAIRS}


def test_intervals_cross_in_record_batches():
    """pyarrow has types of them, and no class of arrays: a batch of them is the same memory all the same."""
    schema = Schema.of([t.field(name, array.type) for name, array in INTERVALS.items()])
    batch = RecordBatch(schema, tuple(INTERVALS.values()), 3)
    theirs = pa.record_batch(batch)
    assert ["month_interval", "day_time_interval"] == [str(type_) for type_ in theirs.schema.types[:2]]
    back = RecordBatch.from_arrow(theirs)
    assert schema == back.schema
    assert batch.to_pydict() == back.to_pydict()
    assert batch.to_pydict() == RecordBatch.from_arrow(pa.table(batch).to_batches()[0]).to_pydict()


@pytest.mark.parametrize("name", BARE)
def test_what_has_no_buffers_crosses_beside_intervals(name):
    batch = RecordBatch(Schema.of([t.field("a", WORDS.type), t.field("b", BARE[name].type)]), (WORDS, BARE[name]), 3)
    theirs = pa.record_batch(batch)
    theirs.validate(full=True)
    assert batch.to_pydict() == RecordBatch.from_arrow(theirs).to_pydict()


@pytest.mark.parametrize("name", ["months", "days"])
def test_an_array_of_them_alone_is_refused(name):
    with pytest.raises(UnsupportedError, match=r"pyarrow has no arrays of .*_interval outside of"):
        INTERVALS[name].__arrow_c_array__()
    assert pa.schema([("x", pyarrow_bridge.exact_type_to_pyarrow(INTERVALS[name].type))])


@pytest.mark.parametrize("ask", ["lend", "take"])
def test_without_pyarrow_one_sentence_says_so(ask, monkeypatch):
    batch = RecordBatch.from_pydict({"a": [1]}, Schema.of([t.field("a", t.int8)]))
    theirs = pa.record_batch({"a": [1]})
    for name in ("c_data", "pyarrow_bridge"):
        monkeypatch.delitem(sys.modules, f"spark_arrow_ipc.arrow.{name}")
        monkeypatch.delattr(f"spark_arrow_ipc.arrow.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="sharing arrays with other libraries needs pyarrow: pip install pyarrow"):
        batch.__arrow_c_array__() if ask == "lend" else RecordBatch.from_arrow(theirs)
