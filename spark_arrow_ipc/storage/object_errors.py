"""`object_errors`: errors of the library as builtin ones of one line; `repeated`, `copied`: ask again after an error.

The library's errors hold twenty lines of inner state, and some hold the answer of the store. A status that the library
has no class for is read from the text.
"""

from __future__ import annotations

import errno
import html
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from spark_arrow_ipc.errors import FileChangedError, UnsupportedError
from spark_arrow_ipc.storage.base import missing
from spark_arrow_ipc.storage.object_options import StorageOptions, load_obstore, without_secrets

_MOST_CHARACTERS: Final = 400

_STATUS: Final = re.compile(r"status code: (\d{3})")

_REPLY_BROKE: Final = re.compile(r"request or response body error|error sending request")
"""The library's words for a connection that ended in the middle of an answer, or for none in time."""

_ANSWERED: Final = re.compile(r"status code: (429|500|503)|Server returned error response")
"""The library's words for a store that did not do it; a gateway (502, 504) may not know what the store does."""

_PAUSE_SECONDS: Final = 0.1
"""Before a copy is asked for a second time; each pause is twice the one before, less up to a half of it."""

_MOST_SECONDS: Final = 15.0

_GAVE_UP: Final = re.compile(r"after \d+ retries")

_MARKUP: Final = re.compile(r"[:\s]*<(\?xml|!DOCTYPE|[A-Za-z]+[\s/>]).*")
"""The body of a store's answer; a text may end anywhere in it."""

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
        raise _changed(path) from None
    except exceptions.NotSupportedError as error:
        raise UnsupportedError(_one_line(error, options), path=path) from None
    except (exceptions.BaseError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # one of ours: those of the library's writers have no number
        if not isinstance(error, exceptions.AlreadyExistsError) and _status(error) == "412":
            # While a body that broke off was resumed.
            raise _changed(path) from None
        raise _builtin(error, path, _one_line(error, options)) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        # A bug of the library, which gave up; no handler of errors would catch it.
        text = f"the library for object stores has failed ({_one_line(error, options)})"
        raise OSError(errno.EIO, text, path) from None


@contextmanager
def write_errors(path: str, options: StorageOptions) -> Iterator[None]:
    """Raise errors as `object_errors` does, of a request that makes an object: what is missing then is the bucket."""
    try:
        with object_errors(path, options):
            yield
    except FileNotFoundError:
        # Jobs take that for a directory that another one deleted, and go on.
        raise OSError(errno.EIO, _NO_BUCKET, path) from None


def _changed(path: str) -> FileChangedError:
    return FileChangedError("the object was replaced after it was listed; read the path again", path=path)


def repeated(call: Callable[[], _T]) -> _T:
    """Call, and once more where the reply broke off.

    The library repeats most requests itself, but none whose reply had begun, and no bulk deletion that was not answered
    in time. For calls that may happen twice.
    """
    try:
        return call()
    except OSError as error:
        text = error.strerror or ""
        if _REPLY_BROKE.search(text) is None or _GAVE_UP.search(text) is not None:
            raise
    return call()


def copied(call: Callable[[], None], repetitions: int) -> bool:
    """Ask for a copy until the store has made it; return whether an earlier request may still be under way.

    The library repeats no copies (`connect`), so that this is known.
    """
    is_under_way = False
    for number in range(repetitions):
        try:
            call()
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            is_under_way = is_under_way or _ANSWERED.search(error.strerror or "") is None
        else:
            return is_under_way
        pause = min(_MOST_SECONDS, _PAUSE_SECONDS * 2**number)
        time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - so that 64 at once do not come at once again
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
    }:
        number, text = errno.EACCES, "the store refuses it; check the credentials and their rights"
    elif status == "404":
        # Of a listing. No FileNotFoundError: that would say that a directory is empty.
        number, text = errno.EIO, _NO_BUCKET
    elif isinstance(error, exceptions.AlreadyExistsError):
        number, text = errno.EEXIST, "the store says that it is there, or being written by another request"
    else:
        return OSError(errno.EIO, line, path)
    return OSError(number, f"{text} ({line})", path)  # of the class that Python has for the number


def _status(error: Exception) -> str:
    """Return the status of the store's answer; empty where there was none."""
    match = _STATUS.search(str(error))
    return "" if match is None else match[1]


def _said(markup: re.Match[str]) -> str:
    """Return the code and the message of a store's answer, which is XML; of a page for people nothing."""
    parts = (re.search(rf"<{name}>([^<]*)", markup[0]) for name in ("Code", "Message"))
    said = ": ".join(html.unescape(part[1]).strip() for part in parts if part is not None)
    return f": {said}" if said else ""


def _one_line(error: BaseException, options: StorageOptions) -> str:
    """Return the text of an error without the library's inner state and the values of options."""
    text = without_secrets(_MARKUP.sub(_said, " ".join(str(error).partition("\n\n")[0].split())), options)
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 3] + "..."
