"""``Message`` of Message.fbs: the metadata before each body, with one of three headers.

All checks that need only metadata are here and in `messages.schema`. The vectors of a batch's header stay numpy arrays: ten
thousand columns take no Python loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.errors import ArrowIpcError, InvalidMetadataError, NoTableError, UnsupportedError
from spark_arrow_ipc.ipc.constants import EXPERIMENTAL_COMPRESSION_KEY, READABLE_VERSIONS, Int64s
from spark_arrow_ipc.ipc.flatbuf import reader, tables
from spark_arrow_ipc.ipc.flatbuf.tables import CompressionType, MessageHeader, MetadataVersion
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.messages.schema import SchemaHeader, decode_custom_metadata

_NO_COUNTS: Final = np.zeros(0, np.int64)

_EXPERIMENTAL_CODECS: Final[dict[str, CompressionType]] = {codec.word: codec for codec in CompressionType}


@dataclass(frozen=True, slots=True, eq=False)
class RecordBatchHeader:
    """``RecordBatch`` of Message.fbs.

    Parameters
    ----------
    length
        Rows.
    nodes
        int64, shape (nodes, 2): length and null_count of each field, in pre-order.
    buffers
        int64, shape (buffers, 2): byte offset inside the body, and nbytes.
    compression
        Codec of the buffers, or None.
    variadic_counts
        int64, shape (view fields,): a number of buffers for each field of a view layout, in pre-order.
    """

    length: int
    nodes: Int64s
    buffers: Int64s
    compression: CompressionType | None
    variadic_counts: Int64s


def decode_record_batch(view: reader.TableView, custom_metadata: CustomMetadata) -> RecordBatchHeader:
    """Return the header in a ``RecordBatch`` table; `custom_metadata` is that of its message."""
    length = int(view.scalar("length"))
    if length < 0:
        raise InvalidMetadataError(expected="a record batch length of at least 0", found=f"{length}")
    return RecordBatchHeader(
        length,
        view.structs("nodes"),
        view.structs("buffers"),
        _decode_compression(view, custom_metadata),
        view.scalars("variadicBufferCounts") if view.has("variadicBufferCounts") else _NO_COUNTS,
    )


def _decode_compression(view: reader.TableView, custom_metadata: CustomMetadata) -> CompressionType | None:
    compression = view.table("compression")
    if compression is None:
        word = next((value for key, value in custom_metadata if key == EXPERIMENTAL_COMPRESSION_KEY), None)
        if word is None:
            return None
        if word.lower() not in _EXPERIMENTAL_CODECS:
            raise UnsupportedError(f"the compression codec {word!r} of Arrow 0.17 is not one of LZ4, ZSTD")
        return _EXPERIMENTAL_CODECS[word.lower()]
    codec, method = int(compression.scalar("codec")), int(compression.scalar("method"))
    if method != 0:
        raise UnsupportedError(f"body compression method {method}: this release reads method 0 (BUFFER)")
    if codec not in tuple(CompressionType):
        raise UnsupportedError(f"compression codec {codec}: this release reads 0 (LZ4_FRAME) and 1 (ZSTD)")
    return CompressionType(codec)


@dataclass(frozen=True, slots=True, eq=False)
class DictionaryBatchHeader:
    """``DictionaryBatch`` of Message.fbs: a record batch of one column that belongs to an id."""

    id: int
    data: RecordBatchHeader
    is_delta: bool
    custom_metadata: CustomMetadata = ()
    """That of the message."""


def decode_dictionary_batch(view: reader.TableView, custom_metadata: CustomMetadata) -> DictionaryBatchHeader:
    """Return the header in a ``DictionaryBatch`` table; `custom_metadata` is that of its message."""
    data = view.table("data")
    if data is None:
        raise InvalidMetadataError(expected="data in the dictionary batch", found="none", spec="Message.fbs")
    header = decode_record_batch(data, custom_metadata)
    return DictionaryBatchHeader(int(view.scalar("id")), header, bool(view.scalar("isDelta")), custom_metadata)


_MOST_DIFFER: Final = 16
"""After this many messages that differ, one in turn with the next, `MessageDecoder` compares no more of them."""

Header: TypeAlias = RecordBatchHeader | DictionaryBatchHeader | SchemaHeader


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """``Message`` of Message.fbs."""

    version: MetadataVersion
    kind: MessageHeader
    header: Header
    body_nbytes: int
    custom_metadata: CustomMetadata


def decode_message(flatbuffer: memoryview, limits: Limits) -> Message:
    """Return the message in the flatbuffer of an encapsulated message."""
    view = reader.root(flatbuffer, tables.MESSAGE, max_depth=2 * limits.max_depth + 8)
    version = readable_version(view)
    discriminant, header_view = view.union("header")
    if header_view is None:
        raise InvalidMetadataError(expected="a message header", found="none", spec="Message.fbs, Message.header")
    entry = _HEADERS.get(discriminant)
    if entry is None:
        raise NoTableError(
            f"the file holds a {MessageHeader(discriminant).noun}, which is not a table; ipc.read_tensor and the "
            "option tensors read it, and in a directory the option pathGlobFilter leaves it out"
        )
    kind, decode_header = entry
    body_nbytes = body_length(view)
    custom_metadata = decode_custom_metadata(view)
    header = decode_header(header_view, custom_metadata)
    return Message(version, kind, header, body_nbytes, custom_metadata)


class MessageDecoder:
    """Decodes messages one after another, and returns the last record batch's again for the same bytes.

    Batches of as many numbers without nulls have the same metadata. What depends on them alone, such as the layout of
    the batch, can then be known by the object. Threads may share a decoder.

    Where many messages in turn differ, as those of strings do, the next ones are not compared any more.
    """

    __slots__ = ("_differ", "_last")

    def __init__(self) -> None:
        self._last: tuple[bytes, Message] | None = None
        self._differ = 0

    def decode(self, flatbuffer: memoryview, limits: Limits) -> Message:
        """Return the message in a flatbuffer, as `decode_message`. The limits are always the same ones."""
        if self._differ > _MOST_DIFFER:
            return decode_message(flatbuffer, limits)
        last = self._last
        # A copy: the flatbuffer may lie in a mapped file, or in memory that holds a whole body.
        data = bytes(flatbuffer)
        if last is not None and last[0] == data:
            self._differ = 0
            return last[1]
        self._differ += 1
        message = decode_message(memoryview(data), limits)
        if message.kind is MessageHeader.RecordBatch:
            self._last = None if self._differ > _MOST_DIFFER else (data, message)
        return message


def body_length(view: reader.TableView) -> int:
    """Return the bytes of the body after a ``Message`` table."""
    nbytes = int(view.scalar("bodyLength"))
    if nbytes < 0:
        raise InvalidMetadataError(expected="a body length of at least 0", found=f"{nbytes}")
    return nbytes


def readable_version(view: reader.TableView) -> MetadataVersion:
    """Return the metadata version of a ``Message`` table."""
    number = int(view.scalar("version"))
    version = _VERSIONS.get(number)
    if version is None:
        word = f"V{number + 1}" if number in tuple(MetadataVersion) else f"number {number}"
        raise UnsupportedError(
            f"the message has metadata version {word}; this release reads V4 (Arrow 0.8 of 2017) and V5"
        )
    return version


def _decode_schema(view: reader.TableView, _: CustomMetadata) -> SchemaHeader:
    return SchemaHeader(view)


_HEADERS: Final[dict[int, tuple[MessageHeader, Any]]] = {
    int(kind): (kind, decode)
    for kind, decode in (
        (MessageHeader.Schema, _decode_schema),
        (MessageHeader.DictionaryBatch, decode_dictionary_batch),
        (MessageHeader.RecordBatch, decode_record_batch),
    )
}
"""By discriminant. The keys are plain integers: converting to an enum costs a tiny batch 4 % of its time."""

_VERSIONS: Final[dict[int, MetadataVersion]] = {int(version): version for version in READABLE_VERSIONS}


_H = TypeVar("_H", RecordBatchHeader, DictionaryBatchHeader, SchemaHeader)


class inside:  # noqa: N801 - used as a statement, `with inside(byte_offset):`
    """Convert the byte offsets of errors inside a flatbuffer to those of the file."""

    __slots__ = ("_byte_offset",)

    def __init__(self, byte_offset: int) -> None:
        self._byte_offset = byte_offset

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if isinstance(error, ArrowIpcError):
            error.byte_offset = self._byte_offset + (error.byte_offset or 0)


def expect(message: Message, kind: MessageHeader, header_class: type[_H]) -> _H:
    """Return the header of a message, which must be of the given kind."""
    if not isinstance(message.header, header_class):
        raise InvalidMetadataError(expected=f"a {kind.noun}", found=f"a {message.kind.noun}")
    return message.header
