"""The outlines of a dataset's files, each read once, and its schema: that of the newest record or file, or each distinct one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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
from spark_arrow_ipc.dataset.scan.error_policy import STRICT, ErrorPolicy, advised
from spark_arrow_ipc.dataset.scan.outline import Outline, OutlineOptions, read_outline
from spark_arrow_ipc.errors import ArrowIpcError, NoFilesError, NotArrowError
from spark_arrow_ipc.ipc.columns.projection import Columns, SelectedColumns
from spark_arrow_ipc.ipc.constants import ENDINGS, Validation
from spark_arrow_ipc.ipc.messages.schema import number_dictionaries
from spark_arrow_ipc.storage.paths import SEPARATOR, name_of
from spark_arrow_ipc.storage.storage import each


class Outlines:
    """The outlines of files; each file is opened once."""

    def __init__(self, options: OutlineOptions) -> None:
        self._options = options
        self._waits = options.storage.traits.waits
        self._without_share: set[str] = set()
        self._schemas: dict[Schema, Schema] = {}
        self.by_path: dict[str, Outline] = {}
        """All outlines that were read."""

    def read(self, file: DataFile, *, cut_above: float | None = None, with_share: bool = False) -> Outline:
        """Return the outline of a file, and remember it."""
        outline = self.by_path.get(file.path)
        if outline is None or (with_share and file.path in self._without_share):
            options = self._options if cut_above is None else replace(self._options, cut_above=cut_above)
            self._without_share.discard(file.path)
            if self._waits and not with_share:
                options = replace(options, share_above=math.inf)
                self._without_share.add(file.path)
            outline = read_outline(file, options)
            if outline.schema is not None:  # most files have the same schema: keep it once
                schema = self._schemas.setdefault(outline.schema, outline.schema)
                outline = replace(outline, schema=schema)
            self.by_path[file.path] = outline
        return outline

    def read_all(self, files: Sequence[DataFile], *, cut_above: float | None = None) -> None:
        """Read the outlines of files, as `read` does."""

        def read(file: DataFile) -> None:
            self.read(file, cut_above=cut_above)

        self.each_file(read, files)

    def each_file(self, call: Callable[[DataFile], None], files: Sequence[DataFile]) -> None:
        """Call for each file once, in parallel on slow storage; raise the first error."""
        # A path that was given twice is listed twice, and two threads would open it.
        distinct = list({file.path: file for file in files}.values())
        each(call, distinct, waits=self._waits)


def read_schemas(
    files: Sequence[DataFile],
    heads: Mapping[str, MetRecord],
    outlines: Outlines,
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
            schemas += [(file.path, schema) for file, schema in [newest_schema(others, outlines, policy)]]
        return schemas
    file, schema = newest_schema(files, outlines, policy)
    return [(file.path, schema)]


def newest_schema(
    files: Sequence[DataFile], outlines: Outlines, policy: ErrorPolicy = STRICT
) -> tuple[DataFile, Schema]:
    """Return the newest file and its schema. Opens that file.

    The newest, because an append may add columns and widen types; see `newest_first` for files of one age.

    Files that the policy skips are skipped without a warning; the scan warns of them.
    """
    error: Exception | None = None
    for file in newest_first(files):
        outline = outlines.read(file)
        if outline.schema is not None:
            return file, outline.schema
        error = _skipped_error(outline, policy, len(files))
    raise _no_schema(error)


def distinct_schemas(
    files: Sequence[DataFile], outlines: Outlines, policy: ErrorPolicy = STRICT
) -> list[tuple[DataFile, Schema]]:
    """Return each distinct schema with its first file, in the order of the files.

    Opens all files.

    Parameters and errors as for `newest_schema`.
    """
    errors: list[Exception] = []

    def read(file: DataFile) -> None:
        outline = outlines.read(file)
        if outline.schema is None:
            errors.append(_skipped_error(outline, policy, len(files)))

    outlines.each_file(read, files)  # which stops at the first error
    first: dict[Schema, DataFile] = {}
    for file in files:
        schema = outlines.read(file).schema
        if schema is not None:
            first.setdefault(schema, file)
    if not first:
        raise _no_schema(errors[-1] if errors else None)
    return [(file, schema) for schema, file in first.items()]


def project(schema: Schema, columns: Columns | None) -> Schema:
    """Return the schema that a reader of these columns of a file has; None for all columns."""
    message = replace(number_dictionaries(schema), has_unknown=True)
    return SelectedColumns(message, columns, Validation.FULL, ipc.Limits()).schema


def _skipped_error(outline: Outline, policy: ErrorPolicy, files: int) -> Exception:
    """Return the error of a skipped file; raise it if the policy does not skip it."""
    assert outline.error is not None
    if not policy.skips(outline.error):
        raise advised(outline.error) if files > 1 else outline.error
    return outline.error


def _no_schema(error: Exception | None) -> NoFilesError:
    if error is None:
        return NoFilesError("there is no file to take the schema from")
    none_left = NoFilesError("none of the files can be read, so there is no schema")
    none_left.__cause__ = error
    return none_left


_USUAL: Final = tuple(f".{ending}" for ending in ENDINGS)

_MOST_OPENED: Final = 8
"""Most files that are opened. Names such as ``part.0``, ``part.1`` have an ending each."""


def check_no_foreign_files(files: Sequence[DataFile], outlines: Outlines, policy: ErrorPolicy = STRICT) -> None:
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
    outlines.read_all(opened)
    for file in opened:
        error = outlines.read(file).error
        if isinstance(error, NotArrowError) and not policy.skips(error):
            raise advised(error) if len(files) > 1 else error
