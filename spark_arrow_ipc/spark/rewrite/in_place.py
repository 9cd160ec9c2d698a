"""Rewrites in place: tell that a job replaces files which it reads, and that their rows stay in their partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.listing.globs import is_pattern
from spark_arrow_ipc.dataset.listing.partition_values import partition_directory, unescape_path_name
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.job_plan import JobPlan
from spark_arrow_ipc.errors import OptionError, UnsupportedError
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.read.reader import ArrowIpcInputPartition
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


def check_spellings(partitions: Iterable[ArrowIpcInputPartition], chosen: Collection[str] | None = None) -> None:
    """Raise if rows of files, or of those at some paths, would move, as their directory spells a number in another way."""
    # Whoever wrote zip=01067 and zip=1067 wrote strings, and a read infers one number from both.
    for partition in partitions:
        numbers = [isinstance(field.type, t.Int | t.FloatingPoint | t.Decimal) for field in partition.partition_fields]
        names = [field.name for field in partition.partition_fields]
        if not any(numbers):
            continue
        for part in partition.ranges:
            if chosen is not None and part.path not in chosen:
                continue
            directories = parent(part.path).split(SEPARATOR)[-len(names) :]
            for is_number, name, value, directory in zip(numbers, names, part.partition, directories, strict=True):
                new = partition_directory([name], [value]) if is_number and value is not None else directory  # type: ignore[list-item]
                if _value(new) != _value(directory):
                    raise UnsupportedError(
                        f"the rows of {directory} would move to {new}, as a read infers a number from the name: give the option "
                        "partitionTypeInference=false, or declare the column as STRING in CREATE TABLE. Nothing is changed",
                        path=parent(part.path),
                        field_path=name,
                    )


def _value(directory: str) -> str:
    return unescape_path_name(directory.partition("=")[2])
