"""Headers of tensors: what contradicts itself is refused with the slot that says so, before a byte of a body is read."""

import numpy as np
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import InvalidMetadataError, LimitError, UnsupportedError
from spark_arrow_ipc.ipc.flatbuf import builder, tables
from spark_arrow_ipc.ipc.messages import tensor as tensor_metadata
from spark_arrow_ipc.ipc.messages.tensor import decode_tensor_message, row_major_strides

INT16 = (tables.INT, {"bitWidth": 16, "is_signed": True})
INT8 = {"bitWidth": 8, "is_signed": True}
UINT64 = {"bitWidth": 64, "is_signed": False}


def dims(*sizes):
    return [{"size": size} for size in sizes]


DENSE = {"type": INT16, "shape": dims(2, 3), "strides": [6, 2], "data": (0, 12)}
COO = {"indicesType": INT8, "indicesBuffer": (0, 8), "indicesStrides": [2, 1]}
CSX = {"compressedAxis": 0, "indptrType": INT8, "indptrBuffer": (0, 8), "indicesType": INT8, "indicesBuffer": (8, 8)}
CSF = {
    "indptrType": INT8, "indptrBuffers": [(0, 3)], "indicesType": INT8, "indicesBuffers": [(8, 2), (16, 2)],
    "axisOrder": [0, 1],
}  # fmt: skip
KINDS = {
    "coo": (tables.SPARSE_TENSOR_INDEX_COO, COO, 8),
    "csx": (tables.SPARSE_MATRIX_INDEX_CSX, CSX, 16),
    "csf": (tables.SPARSE_TENSOR_INDEX_CSF, CSF, 24),
}


def decoded(table, values, nbytes, limits=None):
    flatbuffer = builder.build(tables.MESSAGE, {"version": 4, "header": (table, values), "bodyLength": nbytes})
    return decode_tensor_message(memoryview(flatbuffer), limits or ipc.Limits())


def dense(nbytes=16, **changes):
    return lambda: decoded(tables.TENSOR, DENSE | changes, nbytes)


def sparse(kind, index=None, **changes):
    """A matrix of 2x3 with two values, whose index is changed."""
    table, values, start = KINDS[kind]
    whole = {
        "type": INT16,
        "shape": dims(2, 3),
        "non_zero_length": 2,
        "sparseIndex": (table, values | (index or {})),
        "data": (start, 8),
    }
    return lambda: decoded(tables.SPARSE_TENSOR, whole | changes, start + 8)  # fmt: skip


def test_a_dense_header():
    header = dense(shape=[{"size": 2, "name": "a"}, {"size": 3}])().header
    assert (t.int16, (2, 3), ("a", ""), (6, 2)) == (header.type, header.shape, header.dim_names, header.strides)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sparse_header(kind):
    header = sparse(kind)().header
    assert (t.int16, (2, 3), 2) == (header.type, header.shape, header.non_zero_length)


ACCEPTED = [
    ("no strides: by rows", dense(strides=None)),
    ("a body that is not padded", dense(nbytes=12)),
    ("values that begin later", dense(nbytes=24, data=(8, 12))),
    ("more bytes than are needed", dense(nbytes=24, data=(0, 24))),
    ("strides of no cell", dense(shape=dims(0, 3), strides=[-5, 2])),
    ("coordinates by column", sparse("coo", {"indicesStrides": [1, 2]})),
    ("coordinates without strides", sparse("coo", {"indicesStrides": None})),
]


@pytest.mark.parametrize("make", [case[1] for case in ACCEPTED], ids=[case[0] for case in ACCEPTED])
def test_what_is_accepted(make):
    assert make().header


REFUSED = [
    ("a negative size", dense(shape=dims(2, -3)), r"field Tensor.shape\[1\].size: expected a size of at least 0, found -3"),
    ("too few strides", dense(strides=[2]), "field Tensor.strides: expected 2, one for each dimension, found 1"),
    ("a negative stride", dense(strides=[6, -2]), r"field Tensor.strides\[1\]: expected a stride of at least 0, found -2"),
    ("strides out of the body", dense(strides=[8, 2]), r"field Tensor.data: expected 14 bytes of int16 values in the shape \[2, 3\], found 12"),
    ("strides beyond int64", dense(shape=dims(9, 9), strides=[1 << 62, 1 << 62]), "expected 73,786,976,294,838,206,466 bytes"),
    ("fewer bytes than cells", dense(data=(0, 11)), "field Tensor.data: expected 12 bytes .* found 11"),
    ("a length of 2^40", dense(data=(0, 1 << 40)), "field Tensor.data: expected a buffer inside the body of 16 bytes"),
    ("an odd offset", dense(data=(3, 12)), "field Tensor.data: expected an offset of at least 0 that is a multiple of 8, found 3"),
    ("a negative offset", dense(data=(-8, 12)), "field Tensor.data: expected an offset .* found -8"),
    ("a negative length", dense(data=(0, -1)), "field Tensor.data: .* found -1 bytes at 0"),
    ("an integer of 7 bits", dense(type=(tables.INT, {"bitWidth": 7})), "field Tensor.type: .*bit width.*7"),
    ("a negative body", lambda: decoded(tables.TENSOR, DENSE, -8), "a body length of at least 0, found -8"),
    ("a negative number of values", sparse("coo", non_zero_length=-1), "field SparseTensor.non_zero_length: expected a number of at least 0"),
    ("fewer values than said", sparse("coo", non_zero_length=5), "field SparseTensor.data: expected at least 10 bytes, found 8"),
    ("values out of the body", sparse("coo", data=(16, 8)), "field SparseTensor.data: .*inside the body"),
    ("too few coordinates", sparse("coo", {"indicesBuffer": (0, 3)}), "field SparseTensorIndexCOO.indicesBuffer: expected at least 4 bytes, found 3"),
    ("coordinates with gaps", sparse("coo", {"indicesStrides": [4, 1]}), r"indicesStrides: expected \[2, 1\] \(by row\) or \[1, 2\] \(by column\), found \[4, 1\]"),
    ("one stride of no coordinates", sparse("coo", {"indicesStrides": [4]}, non_zero_length=0), "indicesStrides: expected 2 strides"),
    ("a compressed axis of 2", sparse("csx", {"compressedAxis": 2}), r"compressedAxis: expected 0 \(Row\) or 1 \(Column\), found 2"),
    ("a matrix of three dimensions", sparse("csx", shape=dims(2, 3, 1)), "field SparseTensor.shape: expected 2 dimensions, of a matrix, found 3"),
    ("too few offsets", sparse("csx", {"indptrBuffer": (0, 2)}), "indptrBuffer: expected at least 3 bytes, found 2"),
    ("more rows than bytes", sparse("csx", shape=dims(1 << 60, 3)), "indptrBuffer: expected at least 1,152,921,504,606,846,977 bytes"),
    ("too few columns", sparse("csx", {"indicesBuffer": (8, 1)}), "indicesBuffer: expected at least 2 bytes, found 1"),
    ("a tree of one dimension", sparse("csf", shape=dims(2)), "field SparseTensor.shape: expected at least 2 dimensions, found 1"),
    ("a level too few", sparse("csf", {"indicesBuffers": [(8, 2)]}), "indicesBuffers: expected 2 buffers .* found 1"),
    ("a level of offsets too many", sparse("csf", {"indptrBuffers": [(0, 3), (0, 3)]}), "indptrBuffers: expected 1 buffers .* found 2"),
    ("more elements than bytes", sparse("csf", {"indptrBuffers": [(0, 99)]}), r"indptrBuffers\[0\]: expected a buffer inside the body of 32 bytes, found 99 elements at 0"),
    ("a negative number of elements", sparse("csf", {"indptrBuffers": [(0, -3)]}), r"indptrBuffers\[0\]: .* found -3 elements"),
    ("leaves without values", sparse("csf", {"indicesBuffers": [(8, 2), (16, 3)]}), r"indicesBuffers\[1\]: expected 2 elements, one for each value, found 3"),
    ("an axis twice", sparse("csf", {"axisOrder": [0, 0]}), r"axisOrder: expected each of the dimensions 0 to 1 once, found \[0, 0\]"),
    ("an index of 7 bits", sparse("coo", {"indicesType": {"bitWidth": 7}}), "field SparseTensorIndexCOO.indicesType: .*bit width.*7"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "says"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_contradictions_are_refused(make, says):
    with pytest.raises(InvalidMetadataError, match=says):
        make()


UNSUPPORTED = [
    ("booleans", dense(type=(tables.BOOL, {})), "found the type Bool, which tensors cannot have"),
    ("decimals", dense(type=(tables.DECIMAL, {})), "found the type Decimal"),
    (
        "an index of uint64",
        sparse("coo", {"indicesType": UINT64}),
        "expected an index of integers up to int64, found uint64",
    ),
    (
        "a record batch",
        lambda: decoded(tables.RECORD_BATCH, {}, 0),
        "the message is a record batch, which is not a tensor",
    ),
]


@pytest.mark.parametrize(("make", "says"), [case[1:] for case in UNSUPPORTED], ids=[case[0] for case in UNSUPPORTED])
def test_what_tensors_cannot_have_is_refused_by_name(make, says):
    with pytest.raises(UnsupportedError, match=says):
        make()


BUDGETS = [
    ("one value over and over", dense(shape=dims(1 << 40), strides=[0]), "the tensor asks for 1,099,511,627,776, the budget max_slots"),
    ("no cell of huge dimensions", dense(shape=dims(0, 1 << 40, 1 << 40), strides=None), "the budget max_slots"),
    ("65 dimensions", dense(shape=dims(*[1] * 65), strides=None), "at most 64 dimensions"),
    ("a body beyond the budget", lambda: decoded(tables.TENSOR, DENSE, 17, ipc.Limits(max_batch_bytes=16)), "max_batch_bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "says"), [case[1:] for case in BUDGETS], ids=[case[0] for case in BUDGETS])
def test_budgets(make, says):
    with pytest.raises(LimitError, match=says):
        make()


def test_every_index_of_the_format_is_decoded():
    assert set(tables.SparseTensorIndex) - {0} == set(tensor_metadata._INDICES)


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 3, 4), (1, 1)])
def test_row_major_strides_are_those_of_numpy(shape):
    assert np.zeros(shape, np.int16).strides == row_major_strides(shape, 2)


def test_strides_of_no_cell_are_those_of_arrow_cpp():
    assert (2, 2) == row_major_strides((0, 3), 2)
