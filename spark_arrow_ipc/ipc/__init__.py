"""Arrow IPC files and streams: bytes to record batches and back, without Spark and without pyarrow."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from spark_arrow_ipc.ipc.concatenated_streams import ConcatenatedStreams, ConcatenatedStreamsWarning
from spark_arrow_ipc.ipc.constants import Format
from spark_arrow_ipc.ipc.file_reader import FileReader
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.metadata.footer import Block
from spark_arrow_ipc.ipc.reader import open, open_file, open_stream, read_schema  # noqa: A004
from spark_arrow_ipc.ipc.stream_reader import StreamReader

if TYPE_CHECKING:
    from spark_arrow_ipc.ipc.write_options import WriteOptions
    from spark_arrow_ipc.ipc.writer import Writer, create, write

__all__ = [
    "Block",
    "ConcatenatedStreams",
    "ConcatenatedStreamsWarning",
    "FileReader",
    "Format",
    "Limits",
    "StreamReader",
    "WriteOptions",
    "Writer",
    "create",
    "open",
    "open_file",
    "open_stream",
    "read_schema",
    "write",
]


def __getattr__(name: str) -> object:
    """Import the writer on first use: a worker that only reads starts a tenth sooner without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.writer"), name)
