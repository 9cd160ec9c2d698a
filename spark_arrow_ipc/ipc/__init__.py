"""Arrow IPC files and streams: bytes to record batches and back, without Spark and without pyarrow."""

from spark_arrow_ipc.ipc.constants import Format
from spark_arrow_ipc.ipc.file_reader import FileReader
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.metadata.footer import Block
from spark_arrow_ipc.ipc.reader import open, open_file, open_stream, read_schema  # noqa: A004
from spark_arrow_ipc.ipc.stream_reader import StreamReader
from spark_arrow_ipc.ipc.writer import WriteOptions, Writer, create, write

__all__ = [
    "Block",
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
