"""Follow a stream while another process writes it.

Strategy
--------
A producer appends messages to a file, in writes that may end anywhere. `FollowReader` returns a record batch as soon as
its message is whole; before, it looks at the file's length from time to time. What lies before the end that is known
never changes, so that it is read as any stream is, and once. The stream ends at its end-of-stream marker.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, TypeVar

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import TruncatedError, UnsupportedError, error_context, printable
from spark_arrow_ipc.ipc.constants import Format
from spark_arrow_ipc.ipc.messages.message import SNIFF_NBYTES, Message, sniff
from spark_arrow_ipc.ipc.stream_reader import StreamReader
from spark_arrow_ipc.storage.byte_source import ByteSource, GrowingSource
from spark_arrow_ipc.storage.paths import check_local, is_remote

_NO_END_YET: Final = (
    "this is the file format, which is read by what its writer puts at the end; only the stream format can be followed "
    "while it is written"
)

_Source = TypeVar("_Source", bound=ByteSource)
_Stream = TypeVar("_Stream", bound=StreamReader)

MakeStream = Callable[[GrowingSource], "GrowingStream"]
"""Reads the schema of a source, and makes the reader of its stream."""

_LEAST_POLL_SECONDS: Final = 0.001


@dataclass(frozen=True, slots=True)
class Follow:
    """The waits for a file that grows.

    Parameters
    ----------
    poll_seconds
        Time between two looks at the file's length.
    timeout_seconds
        Iteration ends if no record batch came for so long; None waits for ever.
    stop
        A callback that is asked before each wait; iteration ends when it returns True.
    """

    poll_seconds: float = 0.1
    timeout_seconds: float | None = None
    stop: Callable[[], bool] | None = None


class GrowingStream(StreamReader):
    """The record batches of a stream as far as it is written."""

    def next_whole(self) -> RecordBatch | None:
        """Return the next record batch; None if it is not whole yet, or the stream has ended.

        Raises
        ------
        ArrowIpcError
            A message is broken, or larger than the limits allow.
        """
        while not self.has_ended and not self.is_at_end:
            try:
                batch = self._read_message(self._decoder.decode)
            except TruncatedError:
                return None
            if batch is not None:
                return batch
        return None

    @property
    def has_ended(self) -> bool:
        """True if the end-of-stream marker was read."""
        return self._ended

    @property
    def is_at_end(self) -> bool:
        """True if all bytes that were seen were read."""
        nbytes = self._source.nbytes
        return nbytes is not None and self._byte_offset >= nbytes

    @property
    def byte_offset(self) -> int:
        """The end of the last message that was read."""
        return self._byte_offset

    def _check_body(self, message: Message, body_offset: int) -> None:
        """Raise if the body is not whole: before it is decoded, so that a part of it changes nothing and costs nothing."""
        self._columns.limits.check("max_batch_bytes", message.body_nbytes, f"the body of a {message.kind.noun}")
        self._skip_body(body_offset, message.body_nbytes)


class FollowReader:
    """The record batches of a stream that another process still writes. Made by ``ipc.open(path, follow=True)``.

    Iterating waits for more. It ends at the end-of-stream marker (`has_ended`), at the timeout or when the callback
    says so; another loop goes on where the last one ended.

    Parameters
    ----------
    source
        The file, which is closed with the reader.
    make
        Makes the reader of the stream once there is a schema.
    follow
        How to wait.
    """

    format = Format.STREAM.value

    def __init__(self, source: GrowingSource, make: MakeStream, follow: Follow) -> None:
        self._source = source
        self._make = make
        self._follow = follow
        self._stream: GrowingStream | None = None

    @property
    def path(self) -> str | None:
        """The file as the caller named it."""
        return self._source.path

    @property
    def has_ended(self) -> bool:
        """True if the end-of-stream marker was read: no more record batches come."""
        return self._stream is not None and self._stream.has_ended

    @property
    def schema(self) -> Schema:
        """The schema of the batches, waited for if it is not written yet.

        Raises
        ------
        TimeoutError
            The wait was ended by the timeout or the callback.
        ArrowIpcError
            The file is not a stream, its schema is broken, or it was replaced.
        """
        for _ in self._looks():
            if self._open_stream() is not None:
                break
        if self._stream is None:
            raise TimeoutError(f"{self.path}: there is no schema yet")
        return self._stream.schema

    def __iter__(self) -> Iterator[RecordBatch]:
        """Yield record batches as they are written, the dictionaries in force in each.

        Raises
        ------
        FileChangedError
            The file was cut, removed, or replaced by another.
        ArrowIpcError
            The bytes are broken.
        """
        while not self.has_ended:
            batch = self._wait()
            if batch is None:
                return
            yield batch

    def _wait(self) -> RecordBatch | None:
        """Return the next record batch; None at the end of the stream or of the wait."""
        for _ in self._looks():
            stream = self._open_stream()
            batch = None if stream is None else stream.next_whole()
            if batch is not None or self.has_ended:
                return batch
        return None

    def _looks(self) -> Iterator[None]:
        """Yield at once, and then whenever the file has grown, until the wait is over."""
        follow = self._follow
        deadline = None if follow.timeout_seconds is None else time.monotonic() + follow.timeout_seconds
        yield
        while True:
            if self._source.grow(0 if self._stream is None else self._stream.byte_offset):
                yield
            if follow.stop is not None and follow.stop():
                return
            pause = max(follow.poll_seconds, _LEAST_POLL_SECONDS)
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                pause = min(pause, left)
            time.sleep(pause)

    def _open_stream(self) -> GrowingStream | None:
        """Return the reader of the stream; None while there is no schema."""
        if self._stream is None:
            self._stream = open_growing(self._source, self._make)
        return self._stream

    def close(self) -> None:
        """Close the file. Batches that were read stay valid."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Arrow IPC stream {printable(str(self.path))}, followed>"


def open_growing(source: _Source, make: Callable[[_Source], _Stream], *, refusal: str = _NO_END_YET) -> _Stream | None:
    """Return the reader of a stream that is being written, by `make`; None if its schema is not whole yet.

    UnsupportedError, with the words of `refusal`, for the file format, whose end is written last; another ArrowIpcError
    if it is not a stream, or its schema is broken.
    """
    head = source.read_up_to(0, SNIFF_NBYTES)
    if len(head) < SNIFF_NBYTES:
        return None
    with error_context(path=source.path):
        if sniff(head) is Format.FILE:
            raise UnsupportedError(refusal)
        try:
            return make(source)
        except TruncatedError:
            return None


def open_source_to_follow(source: object) -> GrowingSource:
    """Open a local path to be followed; TypeError if it is not a path.

    UnsupportedError if it is in another storage, where files do not grow.
    """
    if not isinstance(source, str | os.PathLike):
        raise TypeError(f"expected the path of a file to follow, found {type(source).__name__}")
    path = os.fspath(source)
    if is_remote(path):
        raise UnsupportedError("only files of local and mounted file systems grow while they are read", path=path)
    check_local(path)
    return GrowingSource.open(path)
