"""Replaced files that live on for reads that were planned before.

With the option ``keepReplaced`` an overwrite moves old files instead of deleting them: into a hidden directory, so that
no reader lists them, under a name that follows from their path, so that a read which finds its file gone can look there.
The name of the directory says until when they are kept; the next commit or vacuum after that deletes it::

    _ipc_replaced/<end, 20 digits of seconds since 1970>-<job id>/<hash of the path in the dataset>.staged
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.recorded_files import has_own_name
from spark_arrow_ipc.storage.paths import TEMPORARY_SUFFIX, join, name_of, parent, relative
from spark_arrow_ipc.storage.storage import Storage

REPLACED_DIRECTORY: Final = "_ipc_replaced"
"""Directory inside a dataset that holds replaced files for running reads."""

_NAME: Final = re.compile(r"([0-9]{20})-[0-9a-f]{32}")


def all_replaced(dataset: DatasetDirectory) -> str:
    """Return the directory of the replaced files of all jobs."""
    return dataset.path(REPLACED_DIRECTORY)


def kept_directory(dataset: DatasetDirectory, kept_until: int, jobid: str) -> str:
    """Return the directory of the files that a job has replaced; `kept_until` in seconds since 1970."""
    return join(all_replaced(dataset), f"{kept_until:020d}-{jobid}")


def kept_path(directory: str, path: str, version: str = "") -> str:
    """Return the path of a replaced file in the `kept_directory`, by its path in the dataset and its `kept_version`."""
    text = f"{path}\n{version}" if version else path
    digest = hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
    return join(directory, f"{digest[:32]}{TEMPORARY_SUFFIX}")


def kept_version(path: str, version: str) -> str:
    """Return the part of a file's version that its kept name has: none where the name is of one file for ever."""
    # A kept copy has a version of its own, which does not tell the one that was planned: that one is part of its name.
    return "" if has_own_name(path) else version


def kept_places(storage: Storage, path: str, version: str = "") -> Iterator[str]:
    """Yield the places where a file may live on that is gone from its path: the newest job first.

    One listing, of the dataset that holds the file: the directory above those of partitions. Others may write elsewhere.
    """
    dataset = parent(path)
    while "=" in name_of(dataset) and dataset != parent(dataset):
        dataset = parent(dataset)
    directory = join(dataset, REPLACED_DIRECTORY)
    with suppress(OSError):
        names = [name_of(status.path) for status in storage.list(directory) if not status.is_link]
        for name in sorted(filter(_NAME.fullmatch, names), reverse=True):
            yield kept_path(join(directory, name), relative(path, dataset), kept_version(path, version))


def expired(dataset: DatasetDirectory, now: float) -> list[str]:
    """Return the directories whose files need not be kept any more; `now` in seconds since 1970."""
    try:
        paths = sorted(status.path for status in dataset.storage.list(all_replaced(dataset)))
    except FileNotFoundError:
        return []
    matches = [(path, _NAME.fullmatch(name_of(path))) for path in paths]
    return [path for path, match in matches if match is not None and int(match[1]) <= now]
