"""Sparse tensors: their cells by numpy, pyarrow and scipy, and indices that contradict themselves."""

import sys
from pathlib import Path

import numpy as np
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import InvalidBodyError, LimitError, UnsupportedError

DATA = Path(__file__).parents[2] / "tensor_data"
GENERATOR = np.random.default_rng(7)


def sparse_array(*shape, dtype=np.int32):
    return np.where(GENERATOR.random(shape) < 0.3, GENERATOR.integers(1, 100, shape), 0).astype(dtype)


MATRICES = {"6x4": sparse_array(6, 4), "1x9": sparse_array(1, 9), "no zero": np.ones((2, 3)), "all zero": np.zeros((3, 2)),
            "no cell": np.zeros((0, 3)), "floats": sparse_array(5, 5, dtype=np.float64)}  # fmt: skip
CUBES = {"2x3x4x5": sparse_array(2, 3, 4, 5), "5x3x4": sparse_array(5, 3, 4), "all zero": np.zeros((2, 2, 2))}
KINDS = {"coo": ipc.CooTensor, "csr": ipc.CsrMatrix, "csc": ipc.CscMatrix, "csf": ipc.CsfTensor}

CASES = [(f"{kind} of {name}", cls, array) for name, array in MATRICES.items() for kind, cls in KINDS.items()]
CASES += [(f"{kind} of {name}", KINDS[kind], array) for name, array in CUBES.items() for kind in ("coo", "csf")]


@pytest.mark.parametrize(("cls", "array"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_dense_array_comes_back(cls, array):
    tensor = cls.from_dense_numpy(array)
    np.testing.assert_array_equal(array, tensor.to_dense_numpy())
    assert np.count_nonzero(array) == tensor.non_zero_length
    assert array.dtype == tensor.to_dense_numpy().dtype
    assert (tensor.non_zero_length, array.ndim) == tensor.coordinates().shape


PYARROW = {
    "coo": ("SparseCOOTensor", lambda ours: (ours.values, ours.indices)),
    "csr": ("SparseCSRMatrix", lambda ours: (ours.values, ours.indptr, ours.indices)),
    "csc": ("SparseCSCMatrix", lambda ours: (ours.values, ours.indptr, ours.indices)),
    "csf": ("SparseCSFTensor", lambda ours: (ours.values, ours.indptr, ours.indices)),
}
WITH_CELLS = [case for case in CASES if case[2].any()]


@pytest.mark.parametrize(("cls", "array"), [case[1:] for case in WITH_CELLS], ids=[case[0] for case in WITH_CELLS])
def test_an_index_is_that_of_pyarrow(cls, array):
    pa = pytest.importorskip("pyarrow")
    name, parts = PYARROW[cls.kind.lower()]
    theirs = getattr(pa, name).from_dense_numpy(array)
    ours = parts(cls.from_dense_numpy(array))
    for our, their in zip(ours, theirs.to_numpy(), strict=True):
        if isinstance(our, tuple):
            assert [a.tolist() for a in our] == [a.tolist() for a in their]
        else:
            assert np.asarray(their).reshape(our.shape).tolist() == our.tolist()


@pytest.mark.parametrize(("cls", "array"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_scipy_has_the_same_cells(cls, array):
    sparse = pytest.importorskip("scipy.sparse")
    theirs = cls.from_dense_numpy(array).to_scipy()
    expected = {ipc.CsrMatrix: sparse.csr_array, ipc.CscMatrix: sparse.csc_array}.get(cls, sparse.coo_array)
    assert expected is type(theirs)
    np.testing.assert_array_equal(array, theirs.toarray())


def test_without_scipy_one_sentence_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(ModuleNotFoundError, match=r"to_scipy needs scipy .*coordinates"):
        ipc.CsrMatrix.from_dense_numpy(np.eye(2)).to_scipy()


def test_scipy_has_no_half_precision():
    pytest.importorskip("scipy")
    with pytest.raises(ValueError, match="no sparse arrays of float16"):
        ipc.CsrMatrix.from_dense_numpy(np.eye(2, dtype="f2")).to_scipy()


def test_a_sparse_tensor_says_what_it_is():
    tensor = ipc.CsfTensor.from_dense_numpy(np.ones((2, 3), "f4"), dim_names=("a", ""), index_type=t.int8)
    assert "<CsfTensor of float32, [2 (a), 3], 6 values>" == repr(tensor)
    assert ("CSF", t.float32, t.int8) == (tensor.kind, tensor.type, tensor.index_type)


TWICE = {
    "coo": ipc.CooTensor(shape=(2, 2), values=np.array([1, 2]), indices=np.array([[0, 1], [0, 1]])),
    "csr": ipc.CsrMatrix(shape=(1, 2), values=np.array([1, 2]), indptr=np.array([0, 2]), indices=np.array([1, 1])),
    "csf": ipc.CsfTensor(
        shape=(1, 2), values=np.array([1, 2]), axis_order=(0, 1), indices=(np.array([0]), np.array([1, 1])),
        indptr=(np.array([0, 2]),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("tensor", TWICE.values(), ids=TWICE)
def test_a_cell_that_is_named_twice_has_no_meaning(tensor):
    """Arrow C++ takes the last value, scipy the sum; the format says nothing."""
    with pytest.raises(ValueError, match="1 cells are named again by the index"):
        tensor.to_dense_numpy()
    assert [[0, 1], [0, 1]] == tensor.coordinates().tolist()


LARGE = ipc.CooTensor(shape=(1 << 40, 1 << 40), values=np.ones(1), indices=np.array([[5, 1 << 39]]))
BUDGETS = [
    ("cells", LARGE, ipc.Limits(), "asks for 1,208,925,819,614,629,174,706,176, the budget max_slots"),
    ("bytes", LARGE, ipc.Limits(max_slots=1 << 90), "the budget max_batch_bytes"),
    ("coordinates", ipc.CooTensor.from_dense_numpy(np.ones(9)), ipc.Limits(max_batch_bytes=71), "72, the budget"),
    ("no cell", ipc.CooTensor(shape=(0, 1 << 40), values=np.ones(0), indices=np.zeros((0, 2), int)), ipc.Limits(), "max_slots"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("tensor", "limits", "says"), [case[1:] for case in BUDGETS], ids=[case[0] for case in BUDGETS]
)
def test_memory_is_bounded(tensor, limits, says):
    with pytest.raises(LimitError, match=says):
        tensor.to_dense_numpy(limits=limits)


def coo(**changes):
    parts = {"shape": (2, 3), "values": np.array([1, 2]), "indices": np.array([[0, 1], [1, 2]])}
    return lambda: ipc.CooTensor(**(parts | changes))


def csr(cls=ipc.CsrMatrix, **changes):
    parts = {"shape": (2, 3), "values": np.array([1, 2]), "indptr": np.array([0, 1, 2]), "indices": np.array([2, 0])}
    return lambda: cls(**(parts | changes))


def csf(**changes):
    parts = {
        "shape": (2, 3), "values": np.array([1, 2]), "axis_order": (0, 1),
        "indices": (np.array([0, 1]), np.array([1, 2])), "indptr": (np.array([0, 1, 2]),),
    }  # fmt: skip
    return lambda: ipc.CsfTensor(**(parts | changes))


BROKEN = [
    ("values of two dimensions", coo(values=np.ones((2, 1))), "expected one value for each cell"),
    ("a negative size", coo(shape=(-1, 3)), "sizes of at least 0"),
    ("indices of another number", coo(indices=np.zeros((3, 2), int)), r"field indices: expected indices of shape \(2, 2\), found \(3, 2\)"),
    ("indices by column", coo(indices=np.zeros((2, 4), int).T), r"found \(4, 2\)"),
    ("indices that are no integers", coo(indices=np.zeros((2, 2))), "expected integers in 2 dimensions, found float64 in 2"),
    ("a coordinate outside", coo(indices=np.array([[0, 1], [1, 3]])), r"field indices\[1\]: expected a coordinate of at least 0 and less than 3, found 3"),
    ("a negative coordinate", coo(indices=np.array([[0, 1], [-1, 2]])), r"indices\[1\]: .* less than 2, found -1"),
    ("not sorted, and said to be", coo(indices=np.array([[1, 2], [0, 1]]), is_canonical=True), "as isCanonical says"),
    ("twice, and said to be canonical", coo(indices=np.array([[1, 2], [1, 2]]), is_canonical=True), "as isCanonical says"),
    ("a type too small for the index", coo(shape=(200,), values=np.ones(200), indices=np.zeros((200, 1), np.int8)), "a type that holds 200, the largest size of the index, found int8"),
    ("a matrix of one dimension", csr(shape=(2,)), "expected 2 dimensions, of a matrix, found 1"),
    ("too few offsets", csr(indptr=np.array([0, 2])), "indptr: expected 3 offsets, found 2"),
    ("offsets from 1", csr(indptr=np.array([1, 1, 2])), "offsets from 0 to 2, found from 1 to 2"),
    ("offsets that end too soon", csr(indptr=np.array([0, 1, 1])), "offsets from 0 to 2, found from 0 to 1"),
    ("offsets that fall", csr(shape=(3, 3), indptr=np.array([0, 2, 1, 2])), r"indptr\[2\]: expected an offset of at least 2, found 1"),
    ("a column outside", csr(indices=np.array([2, 3])), r"indices\[1\]: .* less than 3, found 3"),
    ("a row outside", csr(ipc.CscMatrix, indptr=np.array([0, 1, 1, 2])), r"indices\[0\]: .* less than 2, found 2"),
    ("a missing column", csr(indices=np.array([2])), "indices: expected 2, one for each value, found 1"),
    ("a tree of one level", csf(shape=(2,), indices=(np.zeros(2, int),), indptr=(), axis_order=(0,)), "at least 2 dimensions"),
    ("a level without offsets", csf(indptr=()), "found 2 dimensions, 2 indices, 0 indptr"),
    ("an axis twice", csf(axis_order=(1, 1)), r"each of the dimensions 0 to 1 once, found \[1, 1\]"),
    ("a leaf without a value", csf(values=np.array([1])), r"indices\[1\]: expected 1, one a value, found 2"),
    ("a node outside", csf(indices=(np.array([0, 2]), np.array([1, 2]))), r"indices\[0\]\[1\]: .* less than 2, found 2"),
    ("a node without offsets", csf(indptr=(np.array([0, 2]),)), r"indptr\[0\]: expected 3 offsets, found 2"),
    ("children that do not exist", csf(indptr=(np.array([0, 1, 3]),)), "offsets from 0 to 2, found from 0 to 3"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "says"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_an_index_that_contradicts_itself_is_refused(make, says):
    with pytest.raises(InvalidBodyError, match=says):
        make()


def test_what_the_broken_ones_are_made_of_is_sound():
    assert [[[0, 1, 0], [0, 0, 2]], [[0, 0, 1], [2, 0, 0]], [[0, 1, 0], [0, 0, 2]]] == [
        make().to_dense_numpy().tolist() for make in (coo(), csr(), csf())
    ]


def test_an_index_of_uint64_is_refused_as_by_arrow_cpp():
    with pytest.raises(
        UnsupportedError, match="field indices: expected an index of integers up to int64, found uint64"
    ):
        coo(indices=np.zeros((2, 2), np.uint64))()


def test_an_index_type_that_is_too_small_is_refused():
    with pytest.raises(InvalidBodyError, match="a type that holds 200, found int8"):
        ipc.CooTensor.from_dense_numpy(np.eye(201), index_type=t.int8)


def test_a_level_may_have_nodes_without_children():
    """Nobody writes them, and nothing forbids them."""
    tensor = csf(indices=(np.array([0, 1]), np.array([1, 2])), indptr=(np.array([0, 0, 2]),))()
    assert [[1, 1], [1, 2]] == tensor.coordinates().tolist()
