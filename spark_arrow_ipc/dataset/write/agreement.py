"""`agree`: the tasks of a job decide once which columns are dictionaries, though they do not know each other and may run again.

The first task that gets there puts its choice into the job's staging directory, where at most one can (`put_if_absent`, by
which log entries are put too), and all tasks read it from there: later attempts of a task as well. It is deleted with the
staging directory, and what counts for later jobs is in the log. A task of a job that has ended may decide anew, and its job
cannot commit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Final

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.dataset.write.staged_file import Staging, missing_staging
from spark_arrow_ipc.errors import CommitError, cut_repr

INDEX_BITS: Final = (16, 32)
"""Bits of the indices on which tasks agree."""

_NAME: Final = ".dictionaries"
"""Hidden, as the mark of the job is."""

_MOST_NBYTES: Final = 16 << 20


def agree(staging: Staging, propose: Callable[[], Mapping[str, int]], among: Collection[str]) -> dict[str, int]:
    """Return the dictionaries on which the tasks of a job agree, by column the bits of their indices.

    `propose` is called if there is no agreement yet; its columns are `among` some.
    """
    agreed = _read(staging, among)
    if agreed is not None:
        return agreed
    data, error = json.dumps(dict(propose())).encode(), None
    try:
        staging.storage.put_if_absent(staging.file(_NAME), data)
    except FileNotFoundError as absent:
        raise missing_staging(staging.path) from absent
    except OSError as lost:  # it may be there all the same, or the one of another task
        error = lost
    agreed = _read(staging, among)
    if agreed is not None:
        return agreed
    raise error or missing_staging(staging.path)


def _read(staging: Staging, among: Collection[str]) -> dict[str, int] | None:
    path = staging.file(_NAME)
    try:
        data = staging.storage.read(path, _MOST_NBYTES)
    except FileNotFoundError:
        return None
    try:
        agreed = parse_json(data)
    except ValueError:
        agreed = None
    if not isinstance(agreed, dict) or not all(
        name in among and type(bits) is int and bits in INDEX_BITS for name, bits in agreed.items()
    ):
        raise CommitError(
            expected="columns of this job and the bits of their indices, as one of its tasks has put them",
            found=cut_repr(data.decode(errors="replace"), 100),
            path=path,
        )
    return agreed
