"""`arrowipc inspect`, `validate`, `cat` and `count` of tensors."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.cli.main import main

DATA = Path(__file__).parents[2] / "tensor_data"
KINDS = ["coo", "csr", "csc", "csf"]


def run(capsys, *arguments):
    status = main([str(argument) for argument in arguments])
    return status, *capsys.readouterr()


@pytest.fixture
def two(tmp_path):
    """A file of a dense tensor of 2x3 by columns, and a sparse one."""
    path = tmp_path / "two.tensor"
    with path.open("wb") as sink:
        ipc.write_tensor(sink, np.asfortranarray(np.arange(6.0).reshape(2, 3)), dim_names=["row", "col"])
        ipc.write_tensor(sink, ipc.CsrMatrix.from_dense_numpy(np.eye(2, dtype=np.int8)))
    return path


def test_inspect(capsys, two):
    status, out, _ = run(capsys, "inspect", two)
    assert 0 == status
    assert [
        f"  Arrow IPC tensors, {two.stat().st_size:,} bytes, little-endian", "  2 tensors", "", "tensor 0:",
        "  dense, float64, shape [2 (row), 3 (col)]", "  column-major, strides [8, 16]",
        "  message at byte 0, body of 48 bytes at 256, metadata V5", "", "tensor 1:", "  CSR, int8, shape [2, 2]",
        "  2 values, index of int64",
    ] == out.splitlines()[1:12]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_inspect_as_json(capsys, kind):
    _, out, _ = run(capsys, "inspect", "--json", DATA / f"{kind}_int8.sparse")
    (tensor,) = json.loads(out)["tensors"]
    assert (kind.upper(), "int8") == (tensor["kind"], tensor["index_type"])
    assert [[6, 4], 9] == [tensor["shape"], tensor["non_zero_length"]] or kind == "csf"


LAYOUTS = [("row-major", np.zeros((2, 3)), (24, 8)), ("column-major", np.zeros((2, 3), order="F"), (8, 16))]


@pytest.mark.parametrize(("layout", "array", "strides"), LAYOUTS, ids=[case[0] for case in LAYOUTS])
def test_layouts(capsys, tmp_path, layout, array, strides):
    ipc.write_tensor(tmp_path / "t", array)
    _, out, _ = run(capsys, "inspect", "--json", tmp_path / "t")
    (tensor,) = json.loads(out)["tensors"]
    assert (layout, list(strides)) == (tensor["layout"], tensor["strides"])


def test_cat_prints_a_table_for_each_tensor(capsys, two):
    status, out, _ = run(capsys, "cat", two)
    assert (0, "  row  col  value") == (status, out.splitlines()[0])
    assert ["    0    0    0.0", "  i0  i1  value", "   0   0      1", "   1   1      1"] == [
        out.splitlines()[i] for i in (1, 7, 8, 9)
    ]


def test_cat_takes_columns_and_a_limit(capsys, two):
    _, out, _ = run(capsys, "cat", two, "--columns", "value,#0", "--limit", 2, "--format", "jsonl")
    assert [{"value": 0.0, "row": 0}, {"value": 1.0, "row": 0}] == [json.loads(line) for line in out.splitlines()]


def test_cat_has_the_partition_columns_of_a_path(capsys, tmp_path):
    (tmp_path / "k=7").mkdir()
    shutil.copy(DATA / "csr_int8.sparse", tmp_path / "k=7")
    _, out, _ = run(capsys, "cat", tmp_path, "--limit", 1, "--format", "jsonl")
    assert {"row": 0, "col": 1, "value": 1, "k": 7} == json.loads(out)


def test_count_counts_cells(capsys, two):
    assert (0, f"8\t{two}\n", "") == run(capsys, "count", two)
    _, out, _ = run(capsys, "count", "--json", two)
    assert {"path": str(two), "rows": 8, "record_batches": 0, "tensors": 2} == json.loads(out)


def test_validate(capsys, two):
    assert (0, f"{two}: ok: tensor, 2 tensors\n", "") == run(capsys, "validate", two)


def moved_values():
    """A tensor whose values begin at byte 8 of its body."""
    import raw_messages

    from spark_arrow_ipc.ipc.flatbuf import tables

    header = {"type": (tables.INT, {"bitWidth": 64}), "shape": [{"size": 1}], "data": (8, 8)}
    return raw_messages.message({"header": (tables.TENSOR, header)}, bytes(16))


def written(path, tensor):
    ipc.write_tensor(path, tensor)
    return path.read_bytes()


NOTES = [
    ("values that begin later", lambda path: moved_values(), "its values begin at byte 8 of its body; Arrow C++ reads them from byte 0"),
    ("a cell twice", lambda path: written(path, ipc.CooTensor(shape=(2,), values=np.ones(2), indices=np.array([[1], [1]]))), "its index names a cell twice"),
    ("columns that are not sorted", lambda path: written(path, ipc.CsrMatrix(shape=(1, 2), values=np.ones(2), indptr=np.array([0, 2]), indices=np.array([1, 0]))), "the columns of a row are not sorted"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "says"), [case[1:] for case in NOTES], ids=[case[0] for case in NOTES])
def test_validate_notes_pitfalls(capsys, tmp_path, make, says):
    (tmp_path / "t").write_bytes(make(tmp_path / "t"))
    status, out, _ = run(capsys, "validate", tmp_path / "t")
    assert 0 == status
    assert f"note: tensor 0: {says}" in out


def test_validate_notes_an_index_that_is_too_large_to_look_at(capsys, monkeypatch):
    limits = ipc.Limits(max_batch_bytes=100)
    coordinates = ipc.CsrMatrix.coordinates
    monkeypatch.setattr(ipc.SparseTensor, "coordinates", lambda tensor: coordinates(tensor, limits=limits))
    status, out, _ = run(capsys, "validate", DATA / "csr_int8.sparse")
    assert 0 == status
    assert "note: tensor 0: its index is not looked at for pitfalls: the coordinates of a tensor asks for 144" in out


@pytest.mark.parametrize("command", ["inspect", "validate", "count", "cat"])
def test_a_broken_tensor_is_an_error(capsys, two, command):
    two.write_bytes(two.read_bytes()[:-1])
    status, out, err = run(capsys, command, two)
    assert 1 == status
    assert "tensor 1: expected" in out + err
    assert "it is truncated" in out + err


def test_a_broken_index_is_bad_and_says_where(capsys, tmp_path):
    content = bytearray((DATA / "csr_int8.sparse").read_bytes())
    content[304 + 8] = 9  # the column of the first value
    (tmp_path / "t").write_bytes(content)
    status, out, _ = run(capsys, "validate", tmp_path / "t")
    assert 1 == status
    assert (
        "bad: tensor 0, field indices[0]: expected a coordinate of at least 0 and less than 4, found 9 (byte offset 304"
        in out
    )


def test_other_commands_say_what_it_is(capsys, two, tmp_path):
    status, _, err = run(capsys, "concat", two, tmp_path / "all.arrow")
    assert 1 == status
    assert "holds a tensor, which is not a table" in err
