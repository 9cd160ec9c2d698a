"""The schemas of many files: each distinct one once, with the file that has it first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.scan import error_policy as f
from spark_arrow_ipc.dataset.scan.scan import read_schema
from spark_arrow_ipc.errors import NoFilesError
from spark_arrow_ipc.ipc.projection import Columns

__all__ = ["distinct_schemas"]

_DEFAULT_LIMITS: Final = ipc.Limits()


def distinct_schemas(
    files: Sequence[DataFile],
    *,
    columns: Columns | None = None,
    limits: ipc.Limits = _DEFAULT_LIMITS,
    faults: f.Faults = f.NONE,
) -> Iterator[tuple[DataFile, Schema]]:
    """Yield each schema that a file has, with the first file that has it, in the order of the files.

    One footer, or one message, a file; no body is read. Files that `faults` allows to skip are skipped.

    Parameters
    ----------
    files
        As `list_files` gives them.
    columns
        What of each file counts; all by default.
    limits
        Budgets for each file.
    faults
        What is put up with.

    Raises
    ------
    NoFilesError
        There is no file, or all are skipped.
    FileChangedError, InvalidArrowError, UnsupportedError, LimitError, ColumnNotFoundError
        What opening a file can say, with its path.
    """
    seen: set[Schema] = set()
    skipped: NoFilesError | None = None
    for file in files:
        try:
            schema = read_schema([file], columns=columns, limits=limits, faults=faults)
        except NoFilesError as error:
            skipped = error
            continue
        if schema not in seen:
            seen.add(schema)
            yield file, schema
    if not seen:
        raise skipped or NoFilesError("there is no file to take the schema from")
