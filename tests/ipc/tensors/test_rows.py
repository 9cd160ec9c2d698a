"""Tensors as rows are the cells that numpy has, whichever way they are cut."""

import io
import itertools
import tracemalloc

import numpy as np
import pytest
import raw_messages

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import LimitError
from spark_arrow_ipc.ipc.bytes.source import open_source
from spark_arrow_ipc.ipc.constants import TensorRows
from spark_arrow_ipc.ipc.flatbuf import tables
from spark_arrow_ipc.ipc.tensors import read as tensor_rows
from spark_arrow_ipc.ipc.tensors.read import iterate_tensors, row_schema, slab_batches, slabs

CUBE = np.arange(24.0).reshape(2, 3, 4)


def stored(tensor, *, limits=None, **how):
    sink = io.BytesIO()
    ipc.write_tensor(sink, tensor, **how)
    return next(iterate_tensors(open_source(sink.getvalue()), limits or ipc.Limits()))


def rows_of(one, rows=TensorRows.CELLS):
    batches = [batch for slab in slabs(one.message, rows) for batch in slab_batches(one, rows, slab)]
    for batch in batches:
        batch.validate()
    assert sum(slab.num_rows for slab in slabs(one.message, rows)) == sum(batch.num_rows for batch in batches)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def cells_of(array):
    return [(*place, array[place]) for place in itertools.product(*map(range, array.shape))]


DENSE = [
    ("by rows", CUBE),
    ("by columns", np.asfortranarray(CUBE)),
    ("one dimension", np.arange(5, dtype=np.uint8)),
    ("no dimension", np.array(5, np.int16)),
    ("no cell", np.zeros((0, 3), np.int16)),
    ("half precision", np.array([[0.5, 2]], np.float16)),
]


@pytest.mark.parametrize("cells", [1, 3, 5, 8, 1 << 20])
@pytest.mark.parametrize("array", [case[1] for case in DENSE], ids=[case[0] for case in DENSE])
def test_cells_of_a_dense_tensor(monkeypatch, array, cells):
    monkeypatch.setattr(tensor_rows, "_SLAB_CELLS", cells)
    monkeypatch.setattr(tensor_rows, "_BATCH_CELLS", 4)
    assert cells_of(array) == sorted(rows_of(stored(array)))


@pytest.mark.parametrize("cls", [ipc.CooTensor, ipc.CsrMatrix, ipc.CscMatrix, ipc.CsfTensor], ids=lambda cls: cls.kind)
def test_cells_of_a_sparse_tensor_are_those_of_its_index(monkeypatch, cls):
    monkeypatch.setattr(tensor_rows, "_BATCH_CELLS", 2)
    array = np.array([[0, 5, 0], [7, 0, 0], [0, 0, 1]])
    assert [(0, 1, 5), (1, 0, 7), (2, 2, 1)] == sorted(rows_of(stored(cls.from_dense_numpy(array))))


@pytest.mark.parametrize(("order", "axis"), [("C", 0), ("F", 2)])
def test_a_tensor_is_cut_so_that_no_byte_is_read_twice(monkeypatch, order, axis):
    monkeypatch.setattr(tensor_rows, "_SLAB_CELLS", 5)
    one = stored(np.asarray(CUBE, order=order))
    reads = []
    read_at = one.source.read_at
    one.source.read_at = lambda byte_offset, nbytes: reads.append((byte_offset, nbytes)) or read_at(byte_offset, nbytes)
    rows_of(one)
    assert [axis] * len(reads) == [slab.axis for slab in slabs(one.message, TensorRows.CELLS)]
    assert one.body_offset == reads[0][0]
    assert all(a + n == b for (a, n), (b, _) in itertools.pairwise(reads))
    assert 192 == sum(nbytes for _, nbytes in reads)


@pytest.mark.parametrize("array", [CUBE, np.asfortranarray(CUBE), np.zeros((0, 3))])
def test_a_tensor_as_one_row_has_its_values_by_rows(array):
    ((shape, dim_names, values),) = rows_of(stored(array, dim_names="abc"[: array.ndim]), TensorRows.VALUES)
    assert (list(array.shape), list("abc"[: array.ndim]), array.reshape(-1).tolist()) == (shape, dim_names, values)


def test_a_sparse_tensor_as_one_row_is_dense():
    ((shape, _, values),) = rows_of(stored(ipc.CsrMatrix.from_dense_numpy(np.eye(2))), TensorRows.VALUES)
    assert ([2, 2], [1, 0, 0, 1]) == (shape, values)


NAMES = [
    ("none", (), ["i0", "i1", "value"]),
    ("all", ("row", "col"), ["row", "col", "value"]),
    ("some", ("row", ""), ["row", "i1", "value"]),
    ("twice", ("a", "A"), ["i0", "i1", "value"]),
    ("that of the value", ("Value", "b"), ["i0", "i1", "value"]),
    ("that of another's number", ("i1", ""), ["i0", "i1", "value"]),
]


@pytest.mark.parametrize(("names", "expected"), [case[1:] for case in NAMES], ids=[case[0] for case in NAMES])
def test_columns_have_the_names_of_the_dimensions(names, expected):
    schema = row_schema(stored(np.zeros((2, 2), np.uint16), dim_names=names).message, TensorRows.CELLS)
    assert (expected, [t.int64, t.int64, t.uint16]) == (list(schema.names), [f.type for f in schema.fields])


def one_value_over_again(*shape):
    """A tensor of one float64 that stands for all cells."""
    header = {"type": (tables.FLOATING_POINT, {"precision": 2}), "data": (0, 8), "strides": [0] * len(shape)}
    values = header | {"shape": [{"size": size} for size in shape]}
    return next(iterate_tensors(open_source(raw_messages.message({"header": (tables.TENSOR, values)}, bytes(8)))))


@pytest.mark.parametrize("shape", [(2**31 - 1,), (2, 2**30 - 1), (2**30 - 1, 2)], ids=str)
def test_cells_that_share_a_value_are_made_a_few_at_a_time(shape):
    one = one_value_over_again(*shape)
    first = slabs(one.message, TensorRows.CELLS)[0]
    tracemalloc.start()
    batch = next(slab_batches(one, TensorRows.CELLS, first))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (1 << 16, 0.0) == (batch.num_rows, batch.column("value").to_numpy()[-1])
    assert peak < 32 << 20
    with pytest.raises(LimitError, match="the values of a tensor asks for 17,179,869,1"):
        rows_of(one, TensorRows.VALUES)


def test_memory_is_bounded():
    sparse = ipc.CooTensor(shape=(1 << 40,), values=np.ones(1), indices=np.array([[5]]))
    assert [(5, 1)] == rows_of(stored(sparse))
    with pytest.raises(LimitError, match="max_batch_bytes"):
        rows_of(stored(sparse), TensorRows.VALUES)
    with pytest.raises(LimitError, match="max_batch_bytes"):
        rows_of(
            stored(
                ipc.CooTensor.from_dense_numpy(np.ones((4, 4)), index_type=t.int8),
                limits=ipc.Limits(max_batch_bytes=200),
            )
        )
