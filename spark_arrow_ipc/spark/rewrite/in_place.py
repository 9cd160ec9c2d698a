"""Rewrites in place: tell that a job replaces files which it reads."""

from __future__ import annotations

from spark_arrow_ipc.dataset.listing.globs import is_pattern
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.job_plan import JobPlan
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import SEPARATOR, parent


def is_in_place(job: JobPlan, reading: ReadOptions) -> bool:
    """Return True if a job may replace files that it reads; `OptionError` if it reads an older version of them."""
    if job.intent.mode is WriteMode.APPEND or reading.reads_servers:
        return False
    # With a final separator, so that /a does not contain /ab.
    root = job.staging.storage.unique_path(job.staging.root).rstrip(SEPARATOR) + SEPARATOR
    for path in reading.paths:
        storage, read = storage_of(path, reading.storage)
        while is_pattern(read):  # all matches are below the directory before the first special character
            read = parent(read)
        fixed = storage.unique_path(read).rstrip(SEPARATOR) + SEPARATOR
        if fixed.startswith(root) or root.startswith(fixed):
            _check_newest(job, reading)
            return True
    return False


def _check_newest(job: JobPlan, reading: ReadOptions) -> None:
    version = reading.timestamp_as_of if reading.version_as_of is None else reading.version_as_of
    if version is not None:
        root = job.staging.root
        raise OptionError(
            f"a rewrite in place would replace the newest rows by those of version {version}, and nothing is written: "
            f"'arrowipc fsck --back-to N {root}' brings an older version back, and another target gets a copy of it",
            path=root,
        )
