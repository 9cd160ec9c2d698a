"""`ObjectUpload`: write an object of any length, which appears when it is closed.

Strategy
--------
What fits into a buffer is one request when it is closed, which fails if the name is taken meanwhile. A longer object is
uploaded in parts while it is written; there no request can say "only if absent", so the name is looked at first.

A reply can get lost after the store made the object. So each upload names its writer, and after an error of the last
request what lies there is looked at.

An upload that is dropped, or whose ``with`` block fails, leaves nothing that anybody sees.
"""

from __future__ import annotations

import errno
import io
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from spark_arrow_ipc.storage.object_options import load_obstore

if TYPE_CHECKING:
    from obstore.store import ObjectStore

WRITER: Final = "arrowipcwriter"
"""Attribute of an object: a random name of the call that made it. Azure refuses a hyphen in it."""

_PART_NBYTES: Final = 8 << 20
_AT_ONCE: Final = 4
"""Parts that are uploaded at once. An upload holds so many and one more in memory."""


class ObjectUpload(io.RawIOBase):
    """A file that can be written. Memory: five parts of 8 MiB.

    Parameters
    ----------
    store, key
        Where it will be.
    path
        For errors.
    errors
        Returns a context that raises the library's errors as builtin ones.
    put_if_absent
        That of the storage.
    """

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
        """Return how many bytes were written."""
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
        """Make the object appear; closing twice does nothing.

        Raises
        ------
        FileExistsError
            The name was taken meanwhile.
        OSError
            The store refuses it, or cannot be reached.
        """
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
            if self._is_there():
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


class _Abort(Exception):  # noqa: N818 - it is no error of ours
    """Tells the library's writer that its block failed."""
