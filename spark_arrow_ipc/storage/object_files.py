"""Objects that are open: `ObjectSource` reads one in ranges, `ObjectUpload` writes one, which appears when it is closed.

Each request waits about 30 ms for its first byte, and one connection carries about 90 MB/s. So a long range is read in
pieces by several threads at once, and an object that does not fit into a buffer is uploaded in parts while it is
written. Every request names the version that the listing saw, so that a replaced object is an error and never half of
two. An upload that is dropped, or whose ``with`` block fails, leaves nothing that anybody sees.
"""

from __future__ import annotations

import errno
import io
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from itertools import starmap
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from spark_arrow_ipc.storage.byte_source import ExactReads, new_buffer
from spark_arrow_ipc.storage.object_options import load_obstore

TAIL_NBYTES: Final = 64 << 10
"""It holds every footer with statistics that was seen, and costs no more than 8 KiB: waiting is what costs."""

PIECE_NBYTES: Final = 8 << 20
"""Bytes of one request of a long range."""

_THREADS: Final = 8
"""Requests of one source at once."""


class ObjectSource(ExactReads):
    """An object, read with ranged requests. Several threads may read at once."""

    waits = True

    def __init__(self, fetch: Callable[[int, memoryview], None], path: str, nbytes: int) -> None:
        # Fills memory with the bytes from an offset on, of the version that is meant. Raises what the reader's caller
        # shall see
        self._fetch = fetch
        self.path: str | None = path
        self.nbytes: int | None = nbytes
        self._tail_start = max(0, nbytes - TAIL_NBYTES)
        self._tail: memoryview | None = None
        self._lock = Lock()
        self._pool: ThreadPoolExecutor | None = None

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return the bytes from `byte_offset` on, at most `nbytes`. One request for each 8 MiB, 8 at once."""
        assert self.nbytes is not None
        stop = min(byte_offset + nbytes, self.nbytes)
        if stop <= byte_offset:
            return memoryview(b"")
        if byte_offset >= self._tail_start:
            # Once: that is the footer of almost all files, and all of a small one.
            tail = self._last()
            return tail[byte_offset - self._tail_start : stop - self._tail_start]
        data = new_buffer(stop - byte_offset)
        if len(data) <= PIECE_NBYTES:
            self._fetch(byte_offset, data)
        else:
            starts = range(0, len(data), PIECE_NBYTES)
            pieces = [(byte_offset + start, data[start : start + PIECE_NBYTES]) for start in starts]
            list(self._threads().map(self._fetch, *zip(*pieces, strict=True)))
        return data.toreadonly()

    def read_into(self, byte_offset: int, into: memoryview) -> None:
        """Fill `into`, by one request: its bytes are stored as they come, and no second copy is held."""
        assert self.nbytes is not None
        if byte_offset + len(into) > self._tail_start:
            super().read_into(byte_offset, into)
        else:
            self._fetch(byte_offset, into)

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return each (byte offset, nbytes), several at once."""
        if len(ranges) < 2 or any(nbytes > PIECE_NBYTES for _, nbytes in ranges):
            return list(starmap(self.read_at, ranges))
        # One by one: the library joins neighbours into one long request, which reads what lies between.
        return list(self._threads().map(self.read_at, *zip(*ranges, strict=True)))

    def close(self) -> None:
        """Wait for nothing and keep nothing; reading afterwards is an error."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
        self._tail = None

    def _last(self) -> memoryview:
        with self._lock:
            if self._tail is None:
                assert self.nbytes is not None
                tail = new_buffer(self.nbytes - self._tail_start)
                self._fetch(self._tail_start, tail)
                self._tail = tail.toreadonly()
            return self._tail

    def _threads(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_THREADS, "arrowipc-ranges")
            return self._pool


if TYPE_CHECKING:
    from obstore.store import ObjectStore

WRITER: Final = "arrowipcwriter"
"""Attribute of an object: a random name of the call that made it. Azure refuses a hyphen in it."""

_PART_NBYTES: Final = 8 << 20
_AT_ONCE: Final = 4
"""Parts that are uploaded at once. An upload holds so many and one more in memory."""


class ObjectUpload(io.RawIOBase):
    """A file that can be written. Memory: five parts of 8 MiB."""

    def __init__(
        self,
        store: ObjectStore,
        key: str,
        path: str,
        errors: Callable[[str], AbstractContextManager[None]],
        put_if_absent: Callable[[str, bytes], bool],
    ) -> None:
        super().__init__()
        self.name = path
        self._store = store
        self._key = key
        # Returns a context that raises the library's errors as builtin ones
        self._errors = errors
        self._put_if_absent = put_if_absent
        self._id = uuid.uuid4().hex
        self._small = bytearray()
        self._nbytes = 0
        self._writer: Any = None
        self._aborted = False

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._nbytes

    def write(self, data: Any) -> int:
        """Write bytes; they are on their way when this returns, or still here."""
        if self.closed:
            raise ValueError(f"{self.name}: the file is closed")
        view = memoryview(data).cast("B")
        if self._writer is None and len(self._small) + len(view) <= _PART_NBYTES:
            self._small += view
        else:
            with self._errors(self.name):
                self._begin()
                # The library keeps what it is given until it is sent, and encoders write the next batch into the same
                # buffer.
                self._writer.write(bytes(view))
        self._nbytes += len(view)
        return len(view)

    def abort(self) -> None:
        """Close without an object."""
        self._aborted = True
        self.close()

    def close(self) -> None:
        """Make the object appear; closing twice does nothing."""
        if self.closed:
            return
        super().close()
        writer, self._writer = self._writer, None
        if self._aborted:
            if writer is not None:
                with suppress(Exception):
                    writer.__exit__(_Abort, _Abort(), None)
            return
        if writer is not None:
            self._complete(writer)
        # One request, which fails if the name is taken meanwhile.
        elif not self._put_if_absent(self.name, bytes(self._small)):
            raise FileExistsError(errno.EEXIST, "File exists", self.name)
        self._small = bytearray()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        """Abort, where a file object would close: what was dropped is not finished."""
        if not self.closed:
            self.abort()

    def _begin(self) -> None:
        if self._writer is not None:
            return
        obstore = load_obstore()
        # No request for an upload in parts can say "only if absent".
        with suppress(FileNotFoundError):
            obstore.head(self._store, self._key)
            raise FileExistsError(errno.EEXIST, "File exists", self.name)
        self._writer = obstore.open_writer(
            self._store, self._key, buffer_size=_PART_NBYTES, max_concurrency=_AT_ONCE, attributes={WRITER: self._id}
        )
        self._writer.write(bytes(self._small))
        self._small = bytearray()

    def _complete(self, writer: Any) -> None:
        try:
            with self._errors(self.name):
                writer.close()
        except PermissionError:
            raise
        except OSError as error:
            if self._is_there():  # the reply was lost after the store had made the object
                return
            if isinstance(error, FileNotFoundError):
                raise OSError(
                    errno.EIO,
                    "the store no longer knows the upload, which a rule of the bucket may have ended; write it again",
                    self.name,
                ) from None
            raise

    def _is_there(self) -> bool:
        """Return whether the object is the one of this upload."""
        try:
            with self._errors(self.name):
                reply = load_obstore().get(self._store, self._key, options={"range": (0, 1)})
        except FileNotFoundError:
            return False
        return reply.attributes.get(WRITER) == self._id and bool(reply.meta["size"] == self._nbytes)


class _Abort(Exception):  # noqa: N818 - not an error of ours
    """Tells the library's writer that its block failed."""
