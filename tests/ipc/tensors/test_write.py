"""What we write is read by Arrow C++, dense tensors through pyarrow and sparse ones through a program of its own."""

import io
import os
import re
import shutil
import subprocess
import uuid
from pathlib import Path

import numpy as np
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.storage.byte_source import BufferSource, FileSource

TESTS = Path(__file__).parents[2]
CUBE = np.arange(24.0).reshape(2, 3, 4)

DENSE = [
    ("by rows", CUBE),
    ("by columns", np.asfortranarray(CUBE)),
    ("every second column", CUBE[:, :, ::2]),
    ("backwards", CUBE[::-1]),
    ("one value over again", np.broadcast_to(np.float32(7), (3, 4))),
    ("no dimension", np.array(5, np.int16)),
    ("no cell", np.zeros((0, 3), np.int16)),
    ("an odd number of bytes", np.arange(3, dtype=np.uint8)),
    ("big-endian", np.arange(6, dtype=">i4").reshape(2, 3)),
    ("half precision", np.array([0.5, np.nan], np.float16)),
    ("booleans", np.array([True, False, True])),
    *((dtype, np.array([0, 1, 100], dtype)) for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")),
]


def written(tensor, **how):
    sink = io.BytesIO()
    ipc.write_tensor(sink, tensor, **how)
    return sink.getvalue()


@pytest.mark.parametrize("array", [case[1] for case in DENSE], ids=[case[0] for case in DENSE])
def test_pyarrow_reads_a_dense_tensor(array):
    pa = pytest.importorskip("pyarrow")
    names = list("abc")[: array.ndim]
    theirs = pa.ipc.read_tensor(pa.py_buffer(written(array, dim_names=names)))
    expected = array.astype(np.uint8) if array.dtype == bool else array
    np.testing.assert_array_equal(expected, theirs.to_numpy().reshape(array.shape))
    assert names == theirs.dim_names
    assert expected.dtype.newbyteorder("=") == theirs.to_numpy().dtype


def test_pyarrow_reads_several_tensors_of_one_file(tmp_path):
    pa = pytest.importorskip("pyarrow")
    with (tmp_path / "t").open("wb") as sink:
        for _, array in DENSE:
            ipc.write_tensor(sink, array)
    with pa.OSFile(str(tmp_path / "t")) as source:
        for _, array in DENSE:
            np.testing.assert_array_equal(array, pa.ipc.read_tensor(source).to_numpy().reshape(array.shape))


def test_memory_by_columns_is_written_as_it_is():
    tensor = ipc.read_tensor(written(np.asfortranarray(CUBE)))
    assert (8, 16, 48) == tensor.strides
    assert CUBE.tobytes("F") == written(np.asfortranarray(CUBE))[-192:]


def test_values_begin_at_a_multiple_of_64_and_end_at_one_of_8():
    """As Arrow C++ begins them; it does not pad their end, and then a next message begins anywhere."""
    content = written(np.arange(3, dtype=np.uint8))
    assert (b"\0\1\2" + bytes(5), 0) == (content[-8:], (len(content) - 8) % 64)


MATRIX = np.array([[0, 1, 2, 0], [0, 0, 3, 0], [0, 4, 0, 5], [0, 0, 0, 0], [6, 0, 7, 8], [0, 9, 0, 0]])
CUBE_OF_4 = np.zeros((2, 3, 4, 5), np.int16)
for _value, _cell in enumerate(
    [(0, 0, 0, 1), (0, 0, 0, 2), (0, 1, 0, 0), (0, 1, 0, 2), (0, 1, 1, 0), (1, 1, 1, 0), (1, 1, 1, 1), (1, 1, 1, 2)]
):
    CUBE_OF_4[_cell] = _value + 1

SPARSE = [
    (f"{cls.kind.lower()}_{index_type}", cls, array, names, index_type)
    for cls, array, names in (
        (ipc.CooTensor, MATRIX, ("row", "col")),
        (ipc.CsrMatrix, MATRIX, ("row", "col")),
        (ipc.CscMatrix, MATRIX, ("row", "col")),
        (ipc.CsfTensor, CUBE_OF_4, ()),
    )
    for index_type in (t.int8, t.int32, t.int64)
]


def sparse_body(content):
    """The bytes after the metadata of one message."""
    return content[8 + int.from_bytes(content[4:8], "little") :]


GOLDEN = [case for case in SPARSE if case[-1] != t.int32]


@pytest.mark.parametrize("case", GOLDEN, ids=[case[0] for case in GOLDEN])
def test_the_body_of_a_sparse_tensor_is_that_of_arrow_cpp(case):
    name, cls, array, names, index_type = case
    golden = TESTS / "tensor_data" / f"{name}.sparse"
    ours = written(cls.from_dense_numpy(array, dim_names=names, index_type=index_type))
    assert sparse_body(golden.read_bytes()) == sparse_body(ours)


@pytest.fixture(scope="module")
def oracle(tmp_path_factory):
    """Arrow C++'s own reader of sparse tensors; ARROW_TENSOR_ORACLE names a program that was built before."""
    built = os.environ.get("ARROW_TENSOR_ORACLE")
    if built:
        return built
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is missing")
    pa = pytest.importorskip("pyarrow")
    library = next(Path(pa.get_library_dirs()[0]).glob("libarrow.so.*"), None)
    if library is None:
        pytest.skip("this pyarrow brings no libarrow.so")
    program = tmp_path_factory.mktemp("oracle") / "oracle"
    source = TESTS / "interop" / "tensor_oracle.cc"
    subprocess.run(
        [compiler, "-std=c++20", "-O0", "-w", f"-I{pa.get_include()}", source, "-o", program, library, f"-Wl,-rpath,{library.parent}"],
        check=True,
    )  # fmt: skip
    return program


@pytest.mark.exhaustive
def test_arrow_cpp_reads_sparse_tensors(oracle, tmp_path):
    """By their checksums: the sum of each cell times its position from 1."""
    for name, cls, array, names, index_type in SPARSE:
        ipc.write_tensor(tmp_path / name, cls.from_dense_numpy(array, dim_names=names, index_type=index_type))
    paths = [str(tmp_path / case[0]) for case in SPARSE]
    answer = subprocess.run([oracle, "read", *paths], capture_output=True, text=True, check=True).stdout
    expected = {path: 2122 if "csf" in path else 722 for path in paths}
    assert expected == {path: int(total) for path, total in re.findall(r"^(\S+) .* sum (\d+)$", answer, re.MULTILINE)}


def test_a_written_tensor_is_read_again_with_all_that_it_has():
    tensor = ipc.CooTensor.from_dense_numpy(MATRIX, dim_names=("row", "col"), index_type=t.uint8)
    tensor = ipc.CooTensor(
        shape=tensor.shape, values=tensor.values, dim_names=tensor.dim_names, indices=tensor.indices,
        is_canonical=True, custom_metadata=(("k", "v"),),
    )  # fmt: skip
    again = ipc.read_tensor(written(tensor))
    assert (("k", "v"),) == again.custom_metadata
    assert (("row", "col"), t.uint8, True) == (again.dim_names, again.index_type, again.is_canonical)


def test_the_two_types_of_an_index_are_written_as_one():
    """Arrow C++ ends the process where they differ."""
    csr = ipc.CsrMatrix(
        shape=(2, 2), values=np.ones(1), indptr=np.array([0, 1, 1], np.int64), indices=np.array([1], np.int8)
    )
    again = ipc.read_tensor(written(csr))
    assert ("int64", "int64") == (again.indptr.dtype, again.indices.dtype)


def test_a_path_appears_when_it_is_whole(tmp_path, monkeypatch):
    path = tmp_path / "t.tensor"
    path.write_bytes(b"old")
    with monkeypatch.context() as patched:
        patched.setattr(FileSource, "open", lambda _: BufferSource(memoryview(b"short")))
        with pytest.raises(OSError, match="what was written is not what is there"):
            ipc.write_tensor(path, CUBE)
    assert [b"old"] == [p.read_bytes() for p in tmp_path.iterdir()]
    ipc.write_tensor(path, CUBE)
    assert ipc.read_tensor(path).to_numpy().tolist() == CUBE.tolist()
    assert [path] == list(tmp_path.iterdir())


def test_a_url_is_written_and_read():
    pytest.importorskip("obstore")
    url = f"memory://{uuid.uuid4().hex}/t.tensor"
    ipc.write_tensor(url, CUBE, storage={})
    assert [CUBE.tolist()] == [tensor.to_numpy().tolist() for tensor in ipc.read_tensors(url, storage={})]
    assert CUBE.tolist() == ipc.read_tensor(url).to_numpy().tolist()


MISTAKES = [
    ("strings", (np.array(["a"]),), {}, TypeError, "an integer or floating-point type for a tensor, found <U1"),
    ("complex numbers", (np.zeros(1, complex),), {}, TypeError, "found complex128"),
    ("too few names", (CUBE,), {"dim_names": ("a",)}, ValueError, "expected 3 names of dimensions, found 1"),
    ("names of a tensor", (ipc.Tensor(CUBE),), {"dim_names": ("a",)}, ValueError, "a tensor has names of its own"),
]


@pytest.mark.parametrize(("arguments", "how", "error", "says"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_mistakes_are_refused(arguments, how, error, says):
    with pytest.raises(error, match=says):
        written(*arguments, **how)


def test_a_sink_is_a_path_or_a_file():
    with pytest.raises(TypeError, match="a path or a binary file object, found int"):
        ipc.write_tensor(7, CUBE)
