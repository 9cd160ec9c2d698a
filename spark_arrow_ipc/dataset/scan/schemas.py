"""The cache of a dataset's files, each read once, and its schema: that of the newest record or file, or each distinct one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.commit_log.dataset_directory import own_names_below
from spark_arrow_ipc.dataset.commit_log.record import decode_schema
from spark_arrow_ipc.dataset.listing.committed_view import MetRecord
from spark_arrow_ipc.dataset.listing.data_file import DataFile, newest_first
from spark_arrow_ipc.dataset.scan.error_policy import STRICT, ErrorPolicy, add_advice
from spark_arrow_ipc.dataset.scan.file_metadata import FileMetadata, MetadataCache
from spark_arrow_ipc.errors import ArrowIpcError, NoFilesError, NotArrowError
from spark_arrow_ipc.ipc.columns.projection import Columns, SelectedColumns
from spark_arrow_ipc.ipc.constants import ENDINGS, Validation
from spark_arrow_ipc.ipc.messages.schema import number_dictionaries
from spark_arrow_ipc.storage.paths import SEPARATOR, name_of


def read_schemas(
    files: Sequence[DataFile],
    heads: Mapping[str, MetRecord],
    cache: MetadataCache,
    policy: ErrorPolicy = STRICT,
) -> list[tuple[str, Schema]]:
    """Return the schemas whose columns together a plain read has, each with a path for errors. Opens at most one file.

    That of the newest record, while files of our writers are there, and that of the newest file of another program, which
    no record knows. Else that of the newest file. Of several datasets, that of the newest file is taken.
    """
    for root in sorted(filter(lambda root: heads[root].schema, heads), key=len, reverse=True):  # an inner one first
        inside, is_own = root.rstrip(SEPARATOR) + SEPARATOR, own_names_below(root).fullmatch
        rest = [file for file in files if is_own(file.path) is None]
        others = [file for file in rest if file.path.startswith(inside)]
        if len(rest) == len(files):
            continue
        if len(others) < len(rest) and not next(newest_first(files)).path.startswith(inside):
            continue
        recorded = decode_schema(heads[root].schema, root)
        if recorded is None:
            continue
        schemas = [(root, recorded)]
        with suppress(ArrowIpcError, OSError):  # the task that reads such a file raises what is wrong with it
            schemas += [(file.path, schema) for file, schema in [newest_schema(others, cache, policy)]]
        return schemas
    file, schema = newest_schema(files, cache, policy)
    return [(file.path, schema)]


def newest_schema(
    files: Sequence[DataFile], cache: MetadataCache, policy: ErrorPolicy = STRICT
) -> tuple[DataFile, Schema]:
    """Return the newest file and its schema. Opens that file.

    The newest, because an append may add columns and widen types; see `newest_first` for files of one age.

    Files that the policy skips are skipped without a warning; the scan warns of them.
    """
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
    """Return each distinct schema with its first file, in the order of the files.

    Opens all files.

    Parameters and errors as for `newest_schema`.
    """
    errors: list[Exception] = []

    def read(file: DataFile) -> None:
        metadata = cache.read(file)
        if metadata.schema is None:
            errors.append(_skip_or_raise(metadata, policy, len(files)))

    cache.each_file(read, files)  # which stops at the first error
    first: dict[Schema, DataFile] = {}
    for file in files:
        schema = cache.read(file).schema
        if schema is not None:
            first.setdefault(schema, file)
    if not first:
        raise _no_schema(errors[-1] if errors else None)
    return [(file, schema) for schema, file in first.items()]


def project(schema: Schema, columns: Columns | None) -> Schema:
    """Return the schema that a reader of these columns of a file has; None for all columns."""
    message = replace(number_dictionaries(schema), has_unknown=True)
    return SelectedColumns(message, columns, Validation.FULL, ipc.Limits()).schema


def _skip_or_raise(metadata: FileMetadata, policy: ErrorPolicy, files: int) -> Exception:
    """Return the error of a skipped file; raise it if the policy does not skip it."""
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
"""Most files that are opened. Names such as ``part.0``, ``part.1`` have an ending each."""


def check_no_foreign_files(files: Sequence[DataFile], cache: MetadataCache, policy: ErrorPolicy = STRICT) -> None:
    """Raise if a file is not Arrow by its first bytes; opens one file of each unusual ending, at most 8.

    Other errors of a file, and those that the policy skips, are left to the task that reads it.
    """
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
        if isinstance(error, NotArrowError) and not policy.skips(error):
            raise add_advice(error) if len(files) > 1 else error
