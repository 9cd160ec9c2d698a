"""Find the schema of a table: of its newest log entry or file, or each distinct one of its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.listing.data_file import DataFile, newest_first
from spark_arrow_ipc.dataset.scan.error_policy import STRICT, ErrorPolicy, add_advice
from spark_arrow_ipc.dataset.scan.file_metadata import FileMetadata, MetadataCache
from spark_arrow_ipc.errors import ArrowIpcError, NoFilesError, NotArrowError
from spark_arrow_ipc.ipc.columns.projection import Columns, SelectedColumns
from spark_arrow_ipc.ipc.constants import ENDINGS, Validation
from spark_arrow_ipc.ipc.messages.schema import number_dictionaries
from spark_arrow_ipc.storage.paths import SEPARATOR, join, name_of
from spark_arrow_ipc.table.encoded_schema import decode_schema
from spark_arrow_ipc.table.state import State


def read_schemas(
    files: Sequence[DataFile],
    states: Mapping[str, State],
    cache: MetadataCache,
    policy: ErrorPolicy = STRICT,
) -> list[tuple[str, Schema]]:
    """Return the schemas whose columns together a plain read has, each with a path for errors; opens at most one file."""
    # If the newest file is in a table with files of our writers: the schema of its newest log entry, and the schema of its
    # newest unmanaged file, which no entry has. Otherwise: the schema of the newest file.
    counted = {root: {join(root, path) for path in state.files.paths} for root, state in states.items()}
    managed = set().union(*counted.values())
    for root in sorted(filter(lambda root: states[root].schema, states), key=len, reverse=True):  # an inner one first
        inside = root.rstrip(SEPARATOR) + SEPARATOR
        rest = [file for file in files if file.path not in counted[root]]
        # A table inside of this one has files of its own.
        unmanaged = [file for file in rest if file.path not in managed and file.path.startswith(inside)]
        if len(rest) == len(files):
            continue
        # Files outside of this table are read as well: the newest file decides among the tables.
        if len(unmanaged) < len(rest) and not next(newest_first(files)).path.startswith(inside):
            continue
        recorded = decode_schema(states[root].schema, root)
        if recorded is None:
            continue
        schemas = [(root, recorded)]
        with suppress(ArrowIpcError, OSError):  # the task that reads such a file raises its error
            file, schema = newest_schema(unmanaged, cache, policy)
            schemas.append((file.path, schema))
        return schemas
    file, schema = newest_schema(files, cache, policy)
    return [(file.path, schema)]


def newest_schema(
    files: Sequence[DataFile], cache: MetadataCache, policy: ErrorPolicy = STRICT
) -> tuple[DataFile, Schema]:
    """Return the newest file that the policy does not skip, and its schema; opens that file."""
    # The newest, because an append may add columns and widen types. The scan warns of skipped files, so this does not.
    error: Exception | None = None
    for file in newest_first(files):
        metadata = cache.read(file)
        if metadata.schema is not None:
            return file, metadata.schema
        error = _skip_or_raise(metadata, policy, len(files))
    raise _no_schema(error)


def distinct_schemas(
    files: Sequence[DataFile], cache: MetadataCache, policy: ErrorPolicy = STRICT
) -> list[tuple[DataFile, Schema]]:
    """Return each distinct schema with its first file, in the order of the files; opens all files."""
    errors: list[Exception] = []

    def read(file: DataFile) -> None:
        metadata = cache.read(file)
        if metadata.schema is None:
            errors.append(_skip_or_raise(metadata, policy, len(files)))

    cache.each_file(read, files)  # stops at the first error, so that it does not open all files for it
    first: dict[Schema, DataFile] = {}
    for file in files:
        schema = cache.read(file).schema
        if schema is not None:
            first.setdefault(schema, file)
    if not first:
        raise _no_schema(errors[-1] if errors else None)
    return [(file, schema) for schema, file in first.items()]


def project(schema: Schema, columns: Columns | None) -> Schema:
    """Return the schema of a reader of these columns; None for all columns."""
    message = replace(number_dictionaries(schema), has_unknown=True)
    return SelectedColumns(message, columns, Validation.FULL, ipc.Limits()).schema


def _skip_or_raise(metadata: FileMetadata, policy: ErrorPolicy, files: int) -> Exception:
    """Return the error of a file, or raise it if the policy does not skip the file."""
    assert metadata.error is not None
    if not policy.skips(metadata.error):
        raise add_advice(metadata.error) if files > 1 else metadata.error
    return metadata.error


def _no_schema(error: Exception | None) -> NoFilesError:
    if error is None:
        return NoFilesError("there is no file to take the schema from")
    none_left = NoFilesError("none of the files can be read, so there is no schema")
    none_left.__cause__ = error
    return none_left


_USUAL: Final = tuple(f".{ending}" for ending in ENDINGS)

_MOST_OPENED: Final = 8
"""Most files that are opened. Names such as ``part.0`` and ``part.1`` have an ending each."""


def check_no_foreign_files(files: Sequence[DataFile], cache: MetadataCache, policy: ErrorPolicy = STRICT) -> None:
    """Raise if a file is not Arrow by its first bytes; opens one file of each unusual ending, at most 8."""
    unusual: dict[str, DataFile] = {}
    for file in files:
        if file.path.endswith(_USUAL):  # most of 100,000 files, at a third of the time
            continue
        _, dot, ending = name_of(file.path).rpartition(".")
        if ending.lower() not in ENDINGS or not dot:
            unusual.setdefault(ending if dot else "", file)
    opened = list(islice(unusual.values(), _MOST_OPENED))
    cache.read_all(opened)
    for file in opened:
        error = cache.read(file).error
        # Other errors are left to the task that reads the file.
        if isinstance(error, NotArrowError) and not policy.skips(error):
            raise add_advice(error) if len(files) > 1 else error
