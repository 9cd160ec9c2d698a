"""`discard`: close a file that `Storage.create` returned, so that it does not appear."""

from __future__ import annotations

from contextlib import suppress
from typing import BinaryIO


class _Discarded(Exception):  # noqa: N818 - it is no error, and never seen
    pass


def discard(file: BinaryIO) -> None:
    """Close a file whose bytes are not needed; nothing happens if it is closed.

    Its ``with`` block is left as by an error: an object store, which shows a file when it is closed, shows none then.
    A local file stays, and is for the caller to delete. Errors of the storage are ignored.
    """
    if not file.closed:
        with suppress(OSError, _Discarded), file:
            raise _Discarded
