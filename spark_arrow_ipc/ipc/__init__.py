"""Arrow IPC files and streams: bytes to record batches and back, without Spark and without pyarrow."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from spark_arrow_ipc.ipc.concatenated_streams import ConcatenatedStreams, ConcatenatedStreamsWarning
from spark_arrow_ipc.ipc.constants import Format, Limits
from spark_arrow_ipc.ipc.file_reader import FileReader
from spark_arrow_ipc.ipc.follow import Follow, FollowReader
from spark_arrow_ipc.ipc.messages.footer import Block
from spark_arrow_ipc.ipc.options import ReadOptions, WriteOptions
from spark_arrow_ipc.ipc.reader import open, open_file, open_stream, read_schema  # noqa: A004
from spark_arrow_ipc.ipc.stream_reader import StreamReader

if TYPE_CHECKING:
    from spark_arrow_ipc.ipc.dissociated.connect import connect
    from spark_arrow_ipc.ipc.dissociated.flight import find_streams
    from spark_arrow_ipc.ipc.dissociated.server import serve
    from spark_arrow_ipc.ipc.tensors.dense import Tensor
    from spark_arrow_ipc.ipc.tensors.read import read_tensor, read_tensors
    from spark_arrow_ipc.ipc.tensors.sparse import CooTensor, CscMatrix, CsfTensor, CsrMatrix, SparseTensor
    from spark_arrow_ipc.ipc.tensors.write import write_tensor
    from spark_arrow_ipc.ipc.writer import Writer, create, write

__all__ = [
    "Block",
    "ConcatenatedStreams",
    "ConcatenatedStreamsWarning",
    "CooTensor",
    "CscMatrix",
    "CsfTensor",
    "CsrMatrix",
    "FileReader",
    "Follow",
    "FollowReader",
    "Format",
    "Limits",
    "ReadOptions",
    "SparseTensor",
    "StreamReader",
    "Tensor",
    "WriteOptions",
    "Writer",
    "connect",
    "create",
    "find_streams",
    "open",
    "open_file",
    "open_stream",
    "read_schema",
    "read_tensor",
    "read_tensors",
    "serve",
    "write",
    "write_tensor",
]

# The modules of the names that are imported on first use.
_LATE = {
    name: module
    for module, names in {
        "writer": ("Writer", "create", "write"),
        "tensors.dense": ("Tensor",),
        "tensors.sparse": ("CooTensor", "CscMatrix", "CsfTensor", "CsrMatrix", "SparseTensor"),
        "tensors.read": ("read_tensor", "read_tensors"),
        "tensors.write": ("write_tensor",),
        "dissociated.flight": ("find_streams",),
        "dissociated.connect": ("connect",),
        "dissociated.server": ("serve",),
    }.items()
    for name in names
}


def __getattr__(name: str) -> object:
    """Import the writer, tensors or servers on first use."""
    # Without the writer, a worker that only reads starts in a tenth less time.
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATE[name]}"), name)


def __dir__() -> list[str]:
    return __all__
