import pyarrow as pa
import pytest

from spark_arrow_ipc.arrow import RecordBatchStream
from spark_arrow_ipc.errors import InvalidBodyError

TABLE = pa.Table.from_batches([pa.record_batch({"a": [i, i]}) for i in range(3)])


def test_batches_in_order_and_once():
    stream = RecordBatchStream.from_arrow(TABLE)
    assert ("a",) == stream.schema.names
    assert [0, 1, 2] == [batch.to_pylist()[0]["a"] for batch in stream]
    assert [] == list(stream)
    assert "a: int64" in repr(stream)


def test_batches_stay_valid_after_the_stream():
    with RecordBatchStream.from_arrow(TABLE) as stream:
        first = next(stream)
    assert [] == list(stream)
    assert [0, 0] == first.to_pydict()["a"]


def test_what_is_left_can_be_given_on():
    stream = RecordBatchStream.from_arrow(TABLE)
    next(stream)
    assert TABLE.slice(2).equals(pa.table(stream))


BROKEN = pa.Table.from_batches(
    [
        pa.record_batch({"s": ["fine"]}),
        pa.RecordBatch.from_arrays(
            [pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))], ["s"]
        ),
    ]
)


def test_values_are_checked():
    stream = RecordBatchStream.from_arrow(BROKEN)
    assert 1 == next(stream).num_rows
    with pytest.raises(InvalidBodyError, match=r"record batch 1, field s: .*UTF-8"):
        next(stream)


def test_values_that_are_trusted_are_not_checked():
    assert 2 == len(list(RecordBatchStream.from_arrow(BROKEN, validation="structural")))
