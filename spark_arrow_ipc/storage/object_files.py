"""Requests to object stores: builtin errors, repetitions, and `ObjectUpload`, which writes an object.

The library's errors hold twenty lines of inner state, and some hold the answer of the store; a status without a class
of its own is only in that text. A large object is uploaded in parts while it is written. An upload that is dropped, or
whose ``with`` block fails, leaves no visible object.
"""

from __future__ import annotations

import errno
import html
import io
import random
import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.storage.base import StorageOptions, missing, one_line, replacement_error
from spark_arrow_ipc.storage.object_options import load_obstore
from spark_arrow_ipc.storage.object_reach import no_connection

if TYPE_CHECKING:
    from obstore.store import ObjectStore

WRITER: Final = "arrowipcwriter"
"""Attribute of an object: a random name of the call that wrote it. Azure refuses a hyphen in this key."""

_PART_NBYTES: Final = 8 << 20
# Parts that are uploaded at once; one more is in memory.
_AT_ONCE: Final = 4


class ObjectUpload(io.RawIOBase):
    """A file that can be written, with at most five parts of 8 MiB in memory."""

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
        """Write bytes into a buffer or the upload."""
        if self.closed:
            raise ValueError(f"{self.name}: the file is closed")
        view = memoryview(data).cast("B")
        if self._writer is None and len(self._small) + len(view) <= _PART_NBYTES:
            self._small += view
        else:
            with self._errors(self.name):
                self._begin()
                # A copy: the library sends it later, and encoders write the next batch into the same buffer.
                self._writer.write(bytes(view))
        self._nbytes += len(view)
        return len(view)

    def abort(self) -> None:
        """Close without an object."""
        self._aborted = True
        self.close()

    def close(self) -> None:
        """Complete the object; closing twice does nothing."""
        if self.closed:
            return
        super().close()
        writer, self._writer = self._writer, None
        if self._aborted:
            if writer is not None:
                # The store may refuse the abort as well; parts without an object are invisible, and expire.
                with suppress(Exception):
                    writer.__exit__(_Abort, _Abort(), None)
            return
        if writer is not None:
            self._complete(writer)
        # One request, which fails if another object has got the name.
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
        """Abort, as a dropped upload is incomplete."""
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
        # The bytes so far, which did not fill a part.
        self._writer.write(bytes(self._small))
        self._small = bytearray()

    def _complete(self, writer: Any) -> None:
        try:
            with self._errors(self.name):
                writer.close()
        except PermissionError:
            raise
        except OSError as error:
            if self._is_complete():  # the reply was lost after the store had the object
                return
            if isinstance(error, FileNotFoundError):
                raise OSError(
                    errno.EIO,
                    "the store no longer knows the upload, which a rule of the bucket may have ended; write it again",
                    self.name,
                ) from None
            raise

    def _is_complete(self) -> bool:
        """Return True if the store has the object of this upload."""
        try:
            with self._errors(self.name):
                reply = load_obstore().get(self._store, self._key, options={"range": (0, 1)})
        except FileNotFoundError:
            return False
        return reply.attributes.get(WRITER) == self._id and bool(reply.meta["size"] == self._nbytes)


class _Abort(Exception):  # noqa: N818 - not an error of ours
    """Tells the library's writer that its block failed."""


# ---- errors

# The second is of one object of a bulk deletion.
_STATUS: Final = re.compile(r"status code: (\d{3})|\(code: (AccessDenied)\)")

# The library's words for a connection that ended within an answer, or had none in time
_REPLY_BROKE: Final = re.compile(r"request or response body error|error sending request")

# The library's words for a store that did nothing; after a gateway's answer (502, 504) it may still act
_ANSWERED: Final = re.compile(r"status code: (429|500|503)|Server returned error response")

# Pause before the first repetition of a copy; each later one is twice as long, less up to a half at random.
_PAUSE_SECONDS: Final = 0.1

_MOST_SECONDS: Final = 15.0

_GAVE_UP: Final = re.compile(r"after \d+ retries")

# The body of a store's answer; a text may end anywhere in it
_MARKUP: Final = re.compile(r"[:\s]*<(\?xml|!DOCTYPE|[A-Za-z]+[\s/>]).*")

_NO_BUCKET: Final = "no such bucket or container"

_T = TypeVar("_T")


@contextmanager
def object_errors(path: str, options: StorageOptions) -> Iterator[None]:
    """Raise the library's errors as builtin ones of one line, with the path and without a secret."""
    exceptions = load_obstore().exceptions
    try:
        yield
    except FileNotFoundError:
        raise missing(path) from None
    except exceptions.PreconditionError:
        raise replacement_error(path, "object") from None
    except exceptions.NotSupportedError as error:
        raise UnsupportedError(_one_line(error, options), path=path) from None
    except (exceptions.BaseError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # an error of this package, as errors of the library's writers have no number
        if not isinstance(error, exceptions.AlreadyExistsError) and _status(error) == "412":
            # The library resumed a body that broke off, and found another version.
            raise replacement_error(path, "object") from None
        raise _builtin(error, path, _one_line(error, options)) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        # A panic of the library is a BaseException, which no caller's handler would catch.
        text = f"the library for object stores has failed ({_one_line(error, options)})"
        raise OSError(errno.EIO, text, path) from None


@contextmanager
def write_errors(path: str, options: StorageOptions) -> Iterator[None]:
    """Raise errors as `object_errors` does, for a request that makes an object: it can only miss the bucket."""
    try:
        with object_errors(path, options):
            yield
    except FileNotFoundError:
        # Not FileNotFoundError, by which jobs recognise a directory that another job deleted.
        raise OSError(errno.EIO, _NO_BUCKET, path) from None


def repeat(call: Callable[[], _T]) -> _T:
    """Call, and once more if the reply broke off; for calls that may happen twice."""
    # The library repeats most requests itself, but none with a partial reply, and no bulk deletion after a time-out.
    try:
        return call()
    except OSError as error:
        text = error.strerror or ""
        if _REPLY_BROKE.search(text) is None or _GAVE_UP.search(text) is not None:
            raise
    return call()


def copy_with_repeats(call: Callable[[], None], repetitions: int) -> bool:
    """Repeat a copy until it succeeds, and return True if an earlier request may still run."""
    # `connect` turns the library's repetitions off, which would hide the answer.
    is_under_way = False
    for number in range(repetitions):
        try:
            call()
        except OSError as error:
            # Missing rights or objects do not change by repetition.
            if error.errno != errno.EIO:
                raise
            is_under_way = is_under_way or _ANSWERED.search(error.strerror or "") is None
        else:
            return is_under_way
        pause = min(_MOST_SECONDS, _PAUSE_SECONDS * 2**number)
        time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - spreads 64 requests that failed at once
    call()
    return is_under_way


def _builtin(error: Exception, path: str, line: str) -> OSError:
    exceptions = load_obstore().exceptions
    status = _status(error)
    if isinstance(error, exceptions.InvalidPathError):
        number, text = errno.EINVAL, "a key here has an empty part (//) or one that no path can have; rename it"
    elif isinstance(error, (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)) or status in {
        "401",
        "403",
        "AccessDenied",
    }:
        number, text = errno.EACCES, "the store refuses it; check the credentials and their rights"
    elif status == "404":
        # For a listing. A FileNotFoundError would mean that a directory is empty.
        number, text = errno.EIO, _NO_BUCKET
    elif isinstance(error, exceptions.AlreadyExistsError):
        number, text = errno.EEXIST, "the store says that it is there, or being written by another request"
    else:
        return OSError(errno.EIO, no_connection(error) or line, path)
    return OSError(number, f"{text} ({line})", path)  # Python picks the subclass by the number


def _status(error: Exception) -> str:
    """Return the status or the code of the store's answer, or an empty string."""
    match = _STATUS.search(str(error))
    return "" if match is None else match[1] or match[2]


def _one_line(error: BaseException, options: StorageOptions) -> str:
    """Return the text of an error without the library's inner state and the values of options."""

    def replace_markup(markup: re.Match[str]) -> str:
        # An answer in XML has a code and a message; a page for people has neither.
        parts = (re.search(rf"<{name}>([^<]*)", markup[0]) for name in ("Code", "Message"))
        answer = ": ".join(html.unescape(part[1]).strip() for part in parts if part is not None)
        return f": {answer}" if answer else ""

    return one_line(_MARKUP.sub(replace_markup, " ".join(str(error).partition("\n\n")[0].split())), options)
