"""Rewrites in place: tell that a job replaces files which it reads, and that their rows stay in their partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.listing.globs import is_pattern
from spark_arrow_ipc.dataset.listing.partition_values import cast, infer_type, partition_directory, unescape_path_name
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
    # The names zip=01067 and zip=1067 come from strings, but a read infers the same number from both.
    checked: set[str] = set()
    for partition in partitions:
        fields = partition.partition_fields
        if not any(isinstance(field.type, _NUMBERS) for field in fields):
            continue
        for part in partition.ranges:
            directory = parent(part.path)
            if directory in checked or (chosen is not None and part.path not in chosen):
                continue
            checked.add(directory)
            # A plain directory may be between the partition's and the file.
            names = [name for name in directory.split(SEPARATOR) if "=" in name][-len(fields) :]
            if len(names) < len(fields):  # the file is in no partition, and its values are null
                continue
            for field, value, name in zip(fields, part.partition, names, strict=True):
                string = unescape_path_name(name.partition("=")[2])
                if (
                    isinstance(field.type, _NUMBERS)
                    and value is not None
                    and string not in _spellings(field.type, value, string)
                ):
                    raise UnsupportedError(
                        f"the rows of {name} would move to {partition_directory([field.name], [_number(field.type, value)])}, as "
                        "a read finds this number in the name: give the option partitionTypeInference=false, or declare the "
                        "column with its own type, such as STRING, in CREATE TABLE. Nothing is changed",
                        path=directory,
                        field_path=field.name,
                    )


_NUMBERS: Final = (t.Int, t.FloatingPoint, t.Decimal)


def _spellings(type_: t.DataType, value: Any, string: str) -> set[str]:
    """Return a number as a write of its type names it, and as one of the type that its string has."""
    inferred = infer_type(string)
    numbers = [_number(type_, value), *([cast(string, inferred)] if isinstance(inferred, _NUMBERS) else [])]
    return {partition_directory(["k"], [number]).partition("=")[2] for number in numbers}


def _number(type_: t.DataType, value: Any) -> Any:
    # A float of 32 bits is written with fewer digits than the same number in 64.
    return np.float32(value) if type_ == t.float32 else value
