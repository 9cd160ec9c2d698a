"""Follow a stream while another process writes it.

How it works: a producer appends messages to a file, in writes that may end anywhere. `FollowReader` checks the file's
length from time to time, and returns a record batch as soon as its message is complete. Bytes before the known end
never change, so that they are read like any stream, and once. The stream ends at its end-of-stream marker.
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
from spark_arrow_ipc.storage.paths import is_remote, plain_path

_NO_END_YET: Final = (
    "this is the file format, which is read by what its writer puts at the end; only the stream format can be followed "
    "while it is written"
)

_Source = TypeVar("_Source", bound=ByteSource)
_Stream = TypeVar("_Stream", bound=StreamReader)

MakeStream = Callable[[GrowingSource], "GrowingStream"]
"""Reads the schema of a source, and returns the reader of its stream."""

_LEAST_POLL_SECONDS: Final = 0.001


@dataclass(frozen=True, slots=True)
class Follow:
    """The waits for a file that grows.

    Parameters
    ----------
    poll_seconds
        Time between two checks of the file's length.
    timeout_seconds
        Iteration ends after this time without a record batch; None waits for ever.
    stop
        A callback before each wait; iteration ends when it returns True.
    """

    poll_seconds: float = 0.1
    timeout_seconds: float | None = None
    stop: Callable[[], bool] | None = None


class GrowingStream(StreamReader):
    """The complete record batches of a stream that is being written."""

    def next_complete(self) -> RecordBatch | None:
        """Return the next record batch; None if it is incomplete, or the stream has ended.

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
        """True if all bytes of the last check were read."""
        nbytes = self._source.nbytes
        return nbytes is not None and self._byte_offset >= nbytes

    @property
    def byte_offset(self) -> int:
        """The end of the last message that was read."""
        return self._byte_offset

    def _check_body(self, message: Message, body_offset: int) -> None:
        """Raise if the body is incomplete."""
        # Before it is decoded: a part of a dictionary batch must not change the dictionaries in force.
        self._columns.limits.check("max_batch_bytes", message.body_nbytes, f"the body of a {message.kind.noun}")
        self._skip_body(body_offset, message.body_nbytes)


class FollowReader:
    """The record batches of a stream that another process still writes, opened by ``ipc.open(path, follow=True)``.

    Iteration waits for more batches. It ends at the end-of-stream marker (`has_ended`), at the timeout or by the
    callback; another loop continues after the last batch.

    Parameters
    ----------
    source
        The file, which is closed with the reader.
    make
        Returns the reader of the stream once the schema is complete.
    follow
        The waits.
    """

    format = Format.STREAM.value

    def __init__(self, source: GrowingSource, make: MakeStream, follow: Follow) -> None:
        self._source = source
        self._make = make
        self._follow = follow
        self._stream: GrowingStream | None = None

    @property
    def path(self) -> str | None:
        """The caller's name of the file."""
        return self._source.path

    @property
    def has_ended(self) -> bool:
        """True after the end-of-stream marker and the last record batch."""
        return self._stream is not None and self._stream.has_ended

    @property
    def schema(self) -> Schema:
        """The schema of the batches, after a wait if it is not written yet.

        Raises
        ------
        TimeoutError
            The timeout or the callback ended the wait.
        ArrowIpcError
            The file is not a stream, its schema is broken, or it was replaced.
        """
        for _ in self._growths():
            if self._open_stream() is not None:
                break
        if self._stream is None:
            raise TimeoutError(f"{self.path}: there is no schema yet")
        return self._stream.schema

    def __iter__(self) -> Iterator[RecordBatch]:
        """Yield record batches when they are complete, each with the dictionaries in force.

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
        """Return the next record batch; None at the end of the stream or the wait."""
        for _ in self._growths():
            stream = self._open_stream()
            batch = None if stream is None else stream.next_complete()
            if batch is not None or self.has_ended:
                return batch
        return None

    def _growths(self) -> Iterator[None]:
        """Yield at once, and then each time that the file has grown, until the wait is over."""
        follow = self._follow
        # Monotonic, as the system's clock may be set.
        deadline = None if follow.timeout_seconds is None else time.monotonic() + follow.timeout_seconds
        yield
        while True:
            if self._source.grow(0 if self._stream is None else self._stream.byte_offset):
                yield
            if follow.stop is not None and follow.stop():
                return
            # A pause of 0 would keep a processor busy.
            pause = max(follow.poll_seconds, _LEAST_POLL_SECONDS)
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                pause = min(pause, left)
            time.sleep(pause)

    def _open_stream(self) -> GrowingStream | None:
        """Return the reader of the stream; None before its schema is complete."""
        if self._stream is None:
            self._stream = open_growing(self._source, self._make)
        return self._stream

    def close(self) -> None:
        """Close the file; batches stay valid."""
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
    """Return the reader of a stream that is being written, by `make`; None if its schema is incomplete.

    UnsupportedError with the text of `refusal` for the file format, whose end is written last; another ArrowIpcError
    for other bytes or a broken schema.
    """
    head = source.read_up_to(0, SNIFF_NBYTES)
    if len(head) < SNIFF_NBYTES:
        return None
    with error_context(path=source.path):
        # Its first bytes do not change, so that waiting would be in vain.
        if sniff(head) is Format.FILE:
            raise UnsupportedError(refusal)
        try:
            return make(source)
        except TruncatedError:
            return None


def open_source_to_follow(source: object) -> GrowingSource:
    """Open a local path to follow; TypeError for another value, UnsupportedError for a storage whose files do not grow."""
    if not isinstance(source, str | os.PathLike):
        raise TypeError(f"expected the path of a file to follow, found {type(source).__name__}")
    path = os.fspath(source)
    if is_remote(path):
        raise UnsupportedError("only files of local and mounted file systems grow while they are read", path=path)
    return GrowingSource.open(plain_path(path))
