"""Tensors of pyarrow and Arrow C++ are read to their values; broken ones are refused with their place."""

import io
from pathlib import Path

import corpus
import numpy as np
import pytest
import raw_messages

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import ArrowIpcError, InvalidArrowError, InvalidFramingError, LimitError, UnsupportedError
from spark_arrow_ipc.ipc.bytes.source import open_source
from spark_arrow_ipc.ipc.tensors.read import holds_tensors, iterate_tensors

DATA = Path(__file__).parents[2] / "tensor_data"
CUBE = np.arange(24.0).reshape(2, 3, 4)

THEIRS = [
    ("by rows", CUBE),
    ("by columns", np.asfortranarray(CUBE)),
    ("every second column", CUBE[:, :, ::2]),
    ("no dimension", np.array(5, np.int16)),
    ("no cell", np.zeros((0, 3), np.int16)),
    ("an odd number of bytes", np.arange(3, dtype=np.uint8)),
    ("half precision", np.array([0.5, np.nan], np.float16)),
    ("booleans", np.array([1, 0, 1], np.uint8)),
]


def theirs(*arrays, names=None):
    pa = pytest.importorskip("pyarrow")
    sink = pa.BufferOutputStream()
    for array in arrays:
        pa.ipc.write_tensor(pa.Tensor.from_numpy(array, dim_names=names), sink)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("array", [case[1] for case in THEIRS], ids=[case[0] for case in THEIRS])
def test_a_tensor_of_pyarrow(array):
    tensor = ipc.read_tensor(theirs(array))
    np.testing.assert_array_equal(array, tensor.to_numpy())
    assert (array.shape, array.dtype) == (tensor.shape, tensor.to_numpy().dtype)


def test_names_and_strides_of_pyarrow():
    tensor = ipc.read_tensor(theirs(np.asfortranarray(CUBE), names=["a", "", "c"]))
    assert (("a", "", "c"), (8, 16, 48)) == (tensor.dim_names, tensor.strides)


def test_the_bytes_of_an_example():
    """The first appendix of the facts: 304 bytes, of which 256 are metadata."""
    tensor = ipc.read_tensor(DATA / "tensor_f64_2x3.tensor")
    assert [[0, 1, 2], [3, 4, 5]] == tensor.to_numpy().tolist()
    assert ("float64", (24, 8)) == (str(tensor.type), tensor.strides)


HOLDS = {
    "a tensor": (lambda pa: theirs(CUBE), True),
    "a stream of batches": (lambda pa: raw_stream(pa, pa.ipc.new_stream), False),
    "a file of batches": (lambda pa: raw_stream(pa, pa.ipc.new_file), False),
    "text": (lambda pa: b"a,b\n1,2\n", False),
    "nothing": (lambda pa: b"", False),
}


def raw_stream(pa, writer):
    table, sink = pa.table({"a": [1]}), pa.BufferOutputStream()
    with writer(sink, table.schema) as opened:
        opened.write(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(("content", "expected"), HOLDS.values(), ids=HOLDS)
def test_files_of_tensors_are_told_from_others(content, expected):
    assert expected is holds_tensors(open_source(content(pytest.importorskip("pyarrow"))))


def test_tensors_follow_one_another_at_any_byte():
    """pyarrow does not pad a body: the second message begins at byte 195."""
    content = theirs(np.arange(3, dtype=np.uint8), CUBE, np.arange(5, dtype=np.int16))
    assert [195, 0] == [content.index(b"\xff\xff\xff\xff", 1), content.index(b"\xff\xff\xff\xff")]
    assert [[0, 1, 2], CUBE.tolist(), [0, 1, 2, 3, 4]] == [x.to_numpy().tolist() for x in ipc.read_tensors(content)]


def test_a_file_object_is_left_after_the_tensor():
    source = io.BytesIO(theirs(np.arange(3, dtype=np.uint8), np.arange(2)))
    assert [[0, 1, 2], [0, 1]] == [ipc.read_tensor(source).to_numpy().tolist() for _ in range(2)]
    with pytest.raises(InvalidFramingError, match="an empty file"):
        ipc.read_tensor(source)


class _Pipe(io.BytesIO):
    def seekable(self):
        return False


def test_a_pipe_is_read_forward():
    assert 2 == len(list(ipc.read_tensors(_Pipe(theirs(CUBE, CUBE)))))


def test_a_mark_of_the_end_ends_the_tensors():
    content = theirs(CUBE) + b"\xff\xff\xff\xff\0\0\0\0" + b"whatever"
    assert 1 == len(list(ipc.read_tensors(content)))


def test_values_are_views_that_cannot_be_written_to():
    content = theirs(CUBE)
    array = ipc.read_tensor(content).to_numpy()
    assert not array.flags.writeable
    assert np.shares_memory(array, np.frombuffer(content, np.uint8))


def test_legacy_framing():
    content = theirs(np.arange(3, dtype=np.uint8))
    length = int.from_bytes(content[4:8], "little")
    legacy = (length + 4).to_bytes(4, "little") + content[8 : 8 + length] + bytes(4) + content[8 + length :]
    assert [0, 1, 2] == ipc.read_tensor(legacy).to_numpy().tolist()


CHECKSUMS = {"coo": 722, "csr": 722, "csc": 722, "csf": 2122}


@pytest.mark.parametrize("path", sorted(DATA.glob("*.sparse")), ids=lambda path: path.stem)
def test_a_sparse_tensor_of_arrow_cpp(path):
    kind, index = path.stem.split("_")
    tensor = ipc.read_tensor(path)
    cells = tensor.to_dense_numpy().reshape(-1).astype(np.int64)
    assert CHECKSUMS[kind] == (cells * np.arange(1, len(cells) + 1)).sum()
    assert (kind.upper(), index) == (tensor.kind, str(tensor.index_type))
    assert ("row", "col") == tensor.dim_names or kind == "csf"


SOUND_OF_CORPUS = 11


def test_the_tensors_of_the_corpus_are_read_as_their_writers_read_them():
    """Dense ones as pyarrow does; sparse ones by their checksums; and the fuzz file of Arrow's own corpus is refused."""
    pa = pytest.importorskip("pyarrow")
    directory = corpus.root()
    if directory is None:
        pytest.skip(f"{corpus.VARIABLE} is not set")
    sound = 0
    for entry in corpus.entries(directory):
        if entry.format != "tensor":
            continue
        if "fuzz" in entry.name:
            with pytest.raises(ArrowIpcError):
                ipc.read_tensor(entry.path)
            continue
        tensor = ipc.read_tensor(entry.path)
        if isinstance(tensor, ipc.Tensor):
            theirs = pa.ipc.read_tensor(pa.OSFile(str(entry.path)))
            np.testing.assert_array_equal(theirs.to_numpy(), tensor.to_numpy())
            assert [*theirs.dim_names] == [*tensor.dim_names]
        else:
            cells = tensor.to_dense_numpy().reshape(-1).astype(np.int64)
            assert CHECKSUMS[entry.path.stem.split("_")[0]] == (cells * np.arange(1, len(cells) + 1)).sum()
        sound += 1
    assert sound >= SOUND_OF_CORPUS


def test_headers_alone_are_read(tmp_path):
    (tmp_path / "t").write_bytes(theirs(CUBE, CUBE))
    source = open_source(tmp_path / "t")
    reads = []
    read_at = source.read_at
    source.read_at = lambda byte_offset, nbytes: reads.append(nbytes) or read_at(byte_offset, nbytes)
    stored = list(iterate_tensors(source))
    assert [(0, 256), (448, 704)] == [(x.byte_offset, x.body_offset) for x in stored]
    assert 2 * [248] == reads
    source.close()


TABLE = raw_messages.schema(ipc.read_tensor(DATA / "tensor_f64_2x3.tensor").type)
EXAMPLE = (DATA / "tensor_f64_2x3.tensor").read_bytes()

REFUSED = [
    ("nothing", b"", InvalidFramingError, "an empty file"),
    ("the end alone", b"\xff\xff\xff\xff\0\0\0\0", InvalidFramingError, "expected a tensor, found the end of the stream"),
    ("a table", TABLE, UnsupportedError, "the message is a schema, which is not a tensor.* ipc.open"),
    ("a file", b"ARROW1\0\0" + bytes(100), UnsupportedError, "Arrow IPC file format, which holds a table"),
    ("text", b"a,b\n1,2\n" * 4, InvalidFramingError, "text"),
    ("cut in its body", EXAMPLE[:-1], InvalidFramingError, r"tensor 0: expected 48 bytes, found 47.*byte offset 256"),
    ("cut in its metadata", EXAMPLE[:100], InvalidFramingError, "the file ends at byte 100"),
    ("bytes after it", EXAMPLE + b"\0\0\0", InvalidFramingError, r"tensor 1: expected a message prefix .*byte offset 304"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "error", "says"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_what_is_no_tensor_is_refused(content, error, says):
    with pytest.raises(error, match=says):
        list(ipc.read_tensors(content)) if content.startswith(EXAMPLE) else ipc.read_tensor(content)


def test_an_error_names_the_path(tmp_path):
    (tmp_path / "t").write_bytes(EXAMPLE[:-1])
    with pytest.raises(InvalidArrowError) as caught:
        ipc.read_tensor(tmp_path / "t")
    assert (str(tmp_path / "t"), "tensor", 0, 256) == (
        caught.value.path, caught.value.block_kind, caught.value.block_number, caught.value.byte_offset,
    )  # fmt: skip


@pytest.mark.parametrize("limits", [ipc.Limits(max_batch_bytes=47), ipc.Limits(max_slots=5)])
def test_budgets(limits):
    with pytest.raises(LimitError, match="asks for"):
        ipc.read_tensor(EXAMPLE, limits=limits)
