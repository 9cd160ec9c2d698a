"""A file of tensors is read as blocks of rows."""

import io
from pathlib import Path

import numpy as np
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.scan.tensor_reader import TensorReader
from spark_arrow_ipc.errors import InvalidFramingError, LimitError, NoTensorError, SchemaMismatchError
from spark_arrow_ipc.ipc.constants import TensorRows
from spark_arrow_ipc.ipc.tensors import read as tensor_rows

DATA = Path(__file__).parents[2] / "data"


def content(*tensors):
    sink = io.BytesIO()
    for tensor in tensors:
        ipc.write_tensor(sink, tensor)
    return sink.getvalue()


def opened(*tensors, rows=TensorRows.CELLS, columns=None, limits=None):
    return TensorReader(content(*tensors), rows, columns, limits or ipc.Limits())


SQUARE = np.arange(16.0).reshape(4, 4)
THREE = (SQUARE, np.zeros((0, 4)), ipc.CsrMatrix.from_dense_numpy(np.eye(4)))


def test_blocks_are_the_pieces_of_all_tensors(monkeypatch):
    monkeypatch.setattr(tensor_rows, "_SLAB_CELLS", 8)
    monkeypatch.setattr(tensor_rows, "_BATCH_CELLS", 3)
    reader = opened(*THREE)
    assert (4, [8, 8, 0, 4], (64, 64, 0, 104)) == (len(reader), reader.row_counts(range(4)), reader.block_nbytes)
    found = list(reader.read(range(4)))
    assert [0, 0, 1, 0, 0, 1, 1, 0, 1] == [rows.blocks_ended for rows in found]
    assert [8, 8, 0, 4] == [
        sum(sum(rows.counts) for rows in block) for block in (found[:3], found[3:6], found[6:7], found[7:])
    ]
    values = [row["value"] for rows in found if rows.batch for row in rows.batch.to_pylist()]
    assert [*range(16), 1, 1, 1, 1] == values


def test_columns_are_selected():
    (rows,) = opened(SQUARE, columns=["value", "i1"]).read(range(1))
    assert ["value", "i1"] == list(rows.batch.schema.names)


REFUSED = [
    ("a table", (DATA / "integers.arrows").read_bytes(), NoTensorError, "the message is a schema, which is not a tensor"),
    ("a file", (DATA / "integers.arrow").read_bytes(), NoTensorError, "which holds a table and no tensor"),
    ("the end alone", b"\xff\xff\xff\xff\0\0\0\0", InvalidFramingError, "expected a tensor, found the end"),
    ("another number of dimensions", content(SQUARE, np.zeros(3)), SchemaMismatchError,
     "expected tensors of the same columns .* i0 int64, i1 int64, value float64, found i0 int64, value float64 of tensor 1"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "error", "says"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_other_files_are_refused(data, error, says):
    with pytest.raises(error, match=says):
        TensorReader(data, TensorRows.CELLS, None, ipc.Limits())


def test_tensors_of_any_shape_are_rows_of_values():
    found = [rows.batch for rows in opened(SQUARE, np.zeros(3), rows=TensorRows.VALUES).read(range(2))]
    assert [[4, 4], [3]] == [batch.to_pylist()[0]["shape"] for batch in found]


def test_the_number_of_pieces_has_a_budget():
    with pytest.raises(LimitError, match="max_blocks"):
        opened(SQUARE, SQUARE, limits=ipc.Limits(max_blocks=1))
