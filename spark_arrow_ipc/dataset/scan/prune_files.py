"""Skip the files of tables by the statistics in their logs, before any of them is opened.

How it works: a table's state has a row of statistics for each file, in the form that footers have for each record batch. The
structs of the columns that the predicate names are decoded, and the predicate is evaluated for each file as
`statistics.prune_blocks` does for a record batch. A file whose statistics are missing or malformed is read.

A column that changed its type has a struct for each type. Names match without regard to case; a name that matches columns
of different names is not known to be the one that the file has.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import numpy as np

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.kernels.take import take
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.predicate.bound import BoundColumn, BoundPredicate, bound_columns
from spark_arrow_ipc.dataset.predicate.prune import UNKNOWN, Summary, keeps, summary_of_constant
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.statistics.format import MIN, Leaf, Path
from spark_arrow_ipc.dataset.statistics.prune_blocks import summaries_of
from spark_arrow_ipc.dataset.statistics.read import StatisticsWarning, column_statistics, path_of
from spark_arrow_ipc.errors import printable
from spark_arrow_ipc.storage.paths import join
from spark_arrow_ipc.table.files import Files
from spark_arrow_ipc.table.state import State

_SummaryOf = Callable[[int], "Summary | None"]
"""From the position of a file in `Files` to the summary of a column; None if the file has no such column."""

_NONE: Final[tuple[_SummaryOf, ...]] = ()


def file_filter(
    bound: BoundPredicate,
    states: Mapping[str, State],
    constants: Callable[[DataFile | FileRange], Mapping[str, object]],
    unknown: Collection[str] = (),
) -> Callable[[DataFile | FileRange], bool]:
    """Return a callback that returns whether a file may have a matching row.

    `states` are those of the tables, by their paths; `constants` returns the values of columns that do not come from the
    file's data, and `unknown` has the names of those without one value in all rows. Costs some microseconds for each file.
    """
    columns = [column for column in bound_columns(bound) if column.path[0] not in unknown]
    tables = [_Table(root, state, columns) for root, state in states.items()]
    positions = {path: (table, i) for table in tables for i, path in enumerate(table.paths)}

    def may_match(file: DataFile | FileRange) -> bool:
        if file.path not in positions:  # unmanaged
            return True
        table, i = positions[file.path]
        values = constants(file)
        return keeps(bound, lambda column: summary_of_constant(column, values) or table.summary(column, i))

    return may_match


class _Table:
    """The statistics of a table's files that a predicate needs."""

    def __init__(self, root: str, state: State, columns: Iterable[BoundColumn]) -> None:
        files = state.files
        self.paths = [join(root, path) for path in files.paths]
        self._summaries = {column: _summaries(root, files, column) for column in columns}

    def summary(self, column: BoundColumn, i: int) -> Summary:
        """Return what is known of a column in the i-th file."""
        of_types = [summary for of_type in self._summaries.get(column, _NONE) if (summary := of_type(i)) is not None]
        return of_types[0] if len(of_types) == 1 else UNKNOWN


def _summaries(root: str, files: Files, column: BoundColumn) -> tuple[_SummaryOf, ...]:
    """Return the summaries of a column, by each type that it has in some file."""
    if files.statistics is None:
        return _NONE
    structs: list[tuple[Path, t.Field, Array]] = []
    try:
        for field, array in zip(files.statistics.schema.fields, files.statistics.columns, strict=True):
            path = path_of(field)
            if list(map(str.casefold, path)) == list(map(str.casefold, column.path)):
                structs.append((path, field, array))
        if len({path for path, *_ in structs}) > 1:
            return _NONE
        return tuple(_decode(files, *struct, column) for struct in structs)
    except (ValueError, KeyError, TypeError) as error:
        words = f"{root}: the statistics in the table's log are not used: {error}"
        warnings.warn(printable(words), StatisticsWarning, stacklevel=1)
        return _NONE


def _decode(files: Files, path: Path, field: t.Field, array: Array, column: BoundColumn) -> _SummaryOf:
    type_ = _value_type(field)
    if field.type != Leaf(path, (), type_).field().type:
        raise ValueError(f"those of the column {'.'.join(path)} are not of its type")
    valid = array_data.validity_mask(array)
    slots = np.arange(len(files)) if valid is None else np.flatnonzero(valid)
    rows = files.rows[slots].tolist()
    of_slots = summaries_of(column_statistics(take(array, slots), path, type_, rows), rows, column)
    at = np.full(len(files), -1)
    at[slots] = np.arange(len(slots))
    numbers = at.tolist()
    return lambda i: None if numbers[i] < 0 else of_slots(numbers[i])


def _value_type(field: t.Field) -> t.DataType:
    if isinstance(field.type, t.Struct):
        for child in field.type.fields:
            if child.name == MIN[0]:
                return child.type
    raise ValueError(f"those of the column {field.name} have no bounds")
