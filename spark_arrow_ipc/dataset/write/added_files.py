"""Files that others add while an overwrite runs: they stay, where they fit beside the new ones.

An overwrite replaces the files that a reader saw when it was planned. A job that appends meanwhile conflicts with it
only if readers could not read both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from spark_arrow_ipc.arrow.types import Field
from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.log import read_changes
from spark_arrow_ipc.dataset.commit_log.record import WITHDRAWN
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.write.existing_files import partition_columns
from spark_arrow_ipc.dataset.write.live_files import LiveFile
from spark_arrow_ipc.dataset.write.modes import WriteMode
from spark_arrow_ipc.storage.paths import parent

Fits: TypeAlias = Callable[[DataFile], bool]
"""Callback that returns whether a file has the schema of the new files."""

_MOST_OPENED: Final = 1000
"""Most added files; each is opened for its schema."""


def may_stay(
    dataset: DatasetDirectory, added: Sequence[LiveFile], partition_by: Sequence[Field] | None, fits: Fits | None
) -> bool:
    """Return whether added files can be read beside the files of an overwrite.

    Opens each of them.

    Parameters
    ----------
    dataset
        The dataset.
    added
        The files that are there now and were not when the job was planned.
    partition_by
        The partition columns of the new files, which must be those of the added ones.
    fits
        Compares schemas. None: nothing may be added.
    """
    if fits is None or partition_by is None or len(added) > _MOST_OPENED:
        return False
    names = tuple(field.name for field in partition_by)
    return all(
        partition_columns(parent(file.path)) == names
        and fits(DataFile(dataset.path(file.path), file.nbytes, file.mtime_ns))
        for file in added
    )


def added_since(dataset: DatasetDirectory, seq: int) -> tuple[LiveFile, ...] | None:
    """Return the files that jobs after a record have added; None if that is unknown, or they did something else.

    Reads the records that follow, which must be applied.
    """
    changes = read_changes(dataset, seq)
    if changes is None:
        return None
    if any(
        change.record.mode not in (WriteMode.APPEND.value, WITHDRAWN) or change.record.removes for change in changes
    ):
        return None
    return tuple(LiveFile(add.final, add.nbytes, 0) for change in changes for add in change.record.adds)
