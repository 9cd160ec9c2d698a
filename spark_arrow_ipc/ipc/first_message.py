"""Read the schema message of a file, which its footer does not name.

Writers put it after the magic; arrow-rs has zeros before it, polars leaves out its prefix, and arrow-js the message.
"""

from __future__ import annotations

from typing import Final

from spark_arrow_ipc.ipc.batch_reader import expect, inside
from spark_arrow_ipc.ipc.constants import BODY_ALIGNMENT, FILE_HEADER, MessageHeader
from spark_arrow_ipc.ipc.framing import read_stream_message
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.metadata.message import Message, decode_message
from spark_arrow_ipc.ipc.metadata.schema import SchemaHeader
from spark_arrow_ipc.ipc.source import ByteSource

_MOST_PADDING: Final = 64
"""arrow-rs begins its first message at a multiple of this, after zeros."""


def read_first_message(source: ByteSource, limits: Limits) -> tuple[Message, int] | None:
    """Return the schema message of a file, and the byte offset after it; None where the messages end before one.

    Raises
    ------
    InvalidArrowError
        There is no such message, or it is broken or cut off.
    UnsupportedError, LimitError
        As for reading a message.
    """
    head = bytes(source.read_up_to(len(FILE_HEADER), _MOST_PADDING))
    zeros = len(head) - len(head.lstrip(b"\0"))
    byte_offset = len(FILE_HEADER) + zeros // BODY_ALIGNMENT * BODY_ALIGNMENT
    encapsulated = read_stream_message(source, byte_offset, limits)
    if encapsulated is None:
        return None
    flatbuffer, body_offset = encapsulated
    with inside(body_offset - len(flatbuffer)):
        message = decode_message(flatbuffer, limits)
        expect(message, MessageHeader.Schema, SchemaHeader)
    return message, body_offset
