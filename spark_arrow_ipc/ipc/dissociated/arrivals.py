"""Puts the messages of a stream in order: metadata and bodies arrive in any order, and are taken by their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc.errors import InvalidFramingError, InvalidMetadataError
from spark_arrow_ipc.ipc.dissociated.protocol import MAX_UINT32, BodyType, EndOfStream, decode_body_tag, decode_untagged
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.messages.message import Message, decode_message

_WINDOW: Final = 1 << 31
"""Numbers less than this ahead are to come; others are behind, as numbers roll over."""

_SPEC: Final = 'Dissociated IPC, "Client Sequence"'


@dataclass(frozen=True, slots=True)
class TaggedBody:
    """A body as it arrived."""

    body_type: BodyType
    data: memoryview


@dataclass(frozen=True, slots=True)
class Arrived:
    """The next message of the stream; `body` is None for a schema."""

    sequence: int
    message: Message
    body: TaggedBody | None


class Arrivals:
    """What has arrived of a stream and was not taken yet.

    Parameters
    ----------
    limits
        ``max_metadata_bytes`` and ``max_blocks`` bound the metadata that waits, ``max_batch_bytes`` and ``max_blocks``
        the bodies.
    lenient
        As `decode_body_tag`.
    first
        The number of the first message, which the protocol says is 0.
    """

    def __init__(self, limits: Limits, *, lenient: bool = False, first: int = 0) -> None:
        self._limits = limits
        self._lenient = lenient
        self._first = first
        self._next = first
        self._end: int | None = None
        self._headers: dict[int, memoryview] = {}
        self._bodies: dict[int, TaggedBody] = {}
        self._headers_nbytes = 0
        self._bodies_nbytes = 0
        self._message: Message | None = None
        """The next message, decoded while its body is still to come."""
        self._began = False

    @property
    def is_finished(self) -> bool:
        """Whether the end of the stream arrived, and every message before it was taken."""
        return self._end == self._next

    @property
    def bodies_nbytes(self) -> int:
        """The bytes of the bodies that wait."""
        return self._bodies_nbytes

    @property
    def needs_metadata(self) -> bool:
        """Whether the next message's metadata, or the end of the stream, is still to come."""
        return self._message is None and self._next not in self._headers and not self.is_finished

    def add_untagged(self, data: memoryview) -> None:
        """Take metadata, or the end of the stream.

        Raises
        ------
        InvalidFramingError
            The message is broken; its number was there before, or lies behind or after the end.
        LimitError
            More waits than the limits allow.
        """
        message = decode_untagged(data)
        sequence = message.sequence
        if isinstance(message, EndOfStream):
            self._add_end(sequence)
            return
        self._check_new(sequence, self._headers, "metadata")
        if self._message is not None and sequence == self._next:
            raise _twice("metadata", sequence)
        self._headers_nbytes += len(message.flatbuffer)
        self._limits.check("max_metadata_bytes", self._headers_nbytes, "the sum of metadata that waits")
        self._limits.check("max_blocks", len(self._headers) + 1, "metadata that waits for earlier messages")
        self._headers[sequence] = message.flatbuffer

    def add_tagged(self, tag: int, data: memoryview) -> None:
        """Take a body.

        Raises
        ------
        InvalidFramingError, UnsupportedError
            The tag is broken, or its number was there before, or lies behind or after the end.
        LimitError
            More waits than the limits allow.
        """
        known = decode_body_tag(tag, lenient=self._lenient)
        self._check_new(known.sequence, self._bodies, "body")
        self._bodies_nbytes += len(data)
        self._limits.check("max_blocks", len(self._bodies) + 1, "bodies that wait for earlier messages")
        if known.sequence != self._next:
            self._limits.check("max_batch_bytes", self._bodies_nbytes, "the sum of bodies that wait")
        self._bodies[known.sequence] = TaggedBody(known.body_type, data)

    def take(self) -> Arrived | None:
        """Return the next message with its body, or None while one of them is still to come.

        Raises
        ------
        InvalidMetadataError
            The metadata is broken; the first message is no schema, or a later one is.
        """
        sequence = self._next
        if self._message is None:
            flatbuffer = self._headers.pop(sequence, None)
            if flatbuffer is None:
                return None
            self._headers_nbytes -= len(flatbuffer)
            self._message = decode_message(flatbuffer, self._limits)
            self._check_place(self._message)
        body = None
        if self._message.kind is not MessageHeader.Schema:
            body = self._bodies.pop(sequence, None)
            if body is None:
                return None
            self._bodies_nbytes -= len(body.data)
        elif sequence in self._bodies:
            raise InvalidFramingError(expected="no body for the schema", found="one", spec=_SPEC)
        message, self._message = self._message, None
        self._began = True
        self._next = (sequence + 1) & MAX_UINT32
        return Arrived(sequence, message, body)

    def truncated(self) -> InvalidFramingError:
        """Return the error of a connection that ends before the stream does."""
        if self._end is None:
            found = f"the connection ends, without an end of stream, while message {self._next:,} is still to come"
        else:
            found = f"the connection ends while {self._missing():,} messages from number {self._next:,} on are missing"
        return InvalidFramingError(expected="all messages of the stream", found=f"{found}; read it again", spec=_SPEC)

    def _check_place(self, message: Message) -> None:
        is_first = not self._began
        if (message.kind is MessageHeader.Schema) != is_first:
            expected = "a schema as the first message" if is_first else "one schema, at the beginning"
            raise InvalidMetadataError(
                expected=expected, found=f"a {message.kind.noun} as message {self._next:,}", spec=_SPEC
            )
        if is_first and message.body_nbytes:
            raise InvalidMetadataError(
                expected="a schema without a body", found=f"one of {message.body_nbytes:,} bytes", spec=_SPEC
            )

    def _add_end(self, sequence: int) -> None:
        if self._end is not None:
            raise InvalidFramingError(expected="one end of stream", found="a second one", spec=_SPEC)
        latest = max((self._ahead(number) for number in (*self._headers, *self._bodies)), default=-1)
        if not self._began and self._message is None and self._ahead(sequence) == 0:
            raise InvalidFramingError(expected="a schema", found="the end of the stream", spec=_SPEC)
        if not latest < self._ahead(sequence) < _WINDOW:
            raise InvalidFramingError(
                expected="the end of the stream after its last message",
                found=f"number {sequence:,}, where message {(self._next + latest) & MAX_UINT32:,} is known",
                spec=_SPEC,
            )
        if self._message is not None and self._ahead(sequence) == 0:
            raise InvalidFramingError(
                expected=f"the end of the stream after message {self._next:,}", found=f"{sequence:,}", spec=_SPEC
            )
        self._end = sequence

    def _check_new(self, sequence: int, known: dict[int, memoryview] | dict[int, TaggedBody], what: str) -> None:
        if sequence in known:
            raise _twice(what, sequence)
        end = _WINDOW if self._end is None else self._ahead(self._end)
        if not self._ahead(sequence) < end:
            raise InvalidFramingError(
                expected=f"numbers from {self._next:,} on" + ("" if self._end is None else f", before {self._end:,}"),
                found=f"{what} of number {sequence:,}",
                spec=_SPEC,
            )

    def _ahead(self, sequence: int) -> int:
        return (sequence - self._next) & MAX_UINT32

    def _missing(self) -> int:
        assert self._end is not None
        decoded = self._message is not None
        return self._ahead(self._end) - len(self._headers) - decoded


def _twice(what: str, sequence: int) -> InvalidFramingError:
    return InvalidFramingError(expected=f"one {what} of number {sequence:,}", found="a second one", spec=_SPEC)
