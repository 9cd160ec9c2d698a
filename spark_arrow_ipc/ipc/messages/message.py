"""``Message`` of Message.fbs: the metadata before each body, with one of three headers.

All checks that need only metadata are here and in the modules of the headers.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, TypeAlias, TypeVar

from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.errors import ArrowIpcError, InvalidMetadataError, NoTableError, UnsupportedError
from spark_arrow_ipc.ipc.constants import READABLE_VERSIONS
from spark_arrow_ipc.ipc.flatbuf import reader, tables
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader, MetadataVersion
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.messages.custom_metadata import decode_custom_metadata
from spark_arrow_ipc.ipc.messages.dictionary_batch import DictionaryBatchHeader, decode_dictionary_batch
from spark_arrow_ipc.ipc.messages.record_batch import RecordBatchHeader, decode_record_batch
from spark_arrow_ipc.ipc.messages.schema import SchemaHeader

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
    known = _HEADERS.get(discriminant)
    if known is None:
        raise NoTableError(
            f"the file holds a {MessageHeader(discriminant).noun}, which is no table; ipc.read_tensor and the "
            "option tensors read it, and in a directory the option pathGlobFilter leaves it out"
        )
    kind, decode_header = known
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
        known = f"V{number + 1}" if number in tuple(MetadataVersion) else f"number {number}"
        raise UnsupportedError(
            f"the message has metadata version {known}; this release reads V4 (Arrow 0.8 of 2017) and V5"
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
