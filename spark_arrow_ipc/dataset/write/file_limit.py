"""How large a file may be that a job writes: where a storage copies, no larger than one copy can be."""

from __future__ import annotations

from typing import Final

from spark_arrow_ipc.errors import CommitError, OptionError
from spark_arrow_ipc.storage.storage import Traits

MAX_COPIED_NBYTES: Final = 5_000_000_000
"""Largest object that S3 copies in one request."""

DEFAULT_COPIED_NBYTES: Final = 1 << 30
"""Largest file where a storage copies and nothing else is asked for: a copy of it takes seconds."""


def max_file_nbytes(traits: Traits, asked: int | None) -> int | None:
    """Return the largest size of a file, or None for no limit.

    Parameters
    ----------
    traits
        Of the storage that it is written to.
    asked
        The option maxFileBytes, if it is given.

    Raises
    ------
    OptionError
        The storage publishes files by copies, and cannot copy such a file.
    """
    if traits.renames:
        return asked
    if asked is not None and asked > MAX_COPIED_NBYTES:
        raise OptionError(
            expected=f"maxFileBytes of at most {MAX_COPIED_NBYTES:,} in an object store, which publishes a file by one copy",
            found=f"{asked:,}",
        )
    return DEFAULT_COPIED_NBYTES if asked is None else asked


def check_copied(path: str, nbytes: int, root: str) -> None:
    """Raise if a file cannot be copied by one request.

    Parameters
    ----------
    path
        Of the file, relative to the dataset's directory.
    nbytes
        Its size.
    root
        The dataset's directory, for the error.

    Raises
    ------
    CommitError
        Nothing is published.
    """
    if nbytes > MAX_COPIED_NBYTES:
        raise CommitError(
            f"{path} has {nbytes:,} bytes, and an object store copies at most {MAX_COPIED_NBYTES:,} at once; nothing is "
            "published. Write smaller files (maxFileBytes, recordBatchBytes), and large ones without keepReplaced",
            path=root,
        )
