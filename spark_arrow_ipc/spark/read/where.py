"""The option `where`, from its text to the rows that are given to Spark.

Strategy
--------
On the driver the predicate is bound to the columns as Spark sees them: those that were asked for, and of those that
only the predicate names what they naturally are (`plan_selection`). It then passes over whole files by the values
that their paths tell. On an executor it passes over record batches by the file's statistics (`select_blocks`), and
over rows of conformed batches (``spark/read/row_filter.py``). What is read for the predicate alone stands behind the
columns that were asked for and never reaches Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import types as s

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.column_path import find_columns
from spark_arrow_ipc.arrow.types import Field
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.hive import Partitioning
from spark_arrow_ipc.dataset.predicate import expressions as p
from spark_arrow_ipc.dataset.predicate.bind import bind
from spark_arrow_ipc.dataset.predicate.bound import BoundPredicate
from spark_arrow_ipc.dataset.predicate.parser import parse
from spark_arrow_ipc.dataset.predicate.prune import keeps_partition
from spark_arrow_ipc.dataset.scan.scan import SelectedBlocks
from spark_arrow_ipc.dataset.spark_datetime_text import zone
from spark_arrow_ipc.dataset.statistics.prune_blocks import block_filter
from spark_arrow_ipc.dataset.statistics.read import read_statistics
from spark_arrow_ipc.errors import ArrowIpcError, error_context
from spark_arrow_ipc.spark.bridge import PyArrowSchema
from spark_arrow_ipc.spark.read.row_filter import RowFilter, compile_filter, predicate_fields

__all__ = ["RowSelection", "plan_selection", "selected_files"]


@dataclass(frozen=True, slots=True)
class RowSelection:
    """A predicate that knows its columns.

    Parameters
    ----------
    bound
        The predicate.
    extra
        Columns that are read for it alone; they stand behind those that Spark asked for.
    positions
        Where its columns are among both, by their names.
    """

    bound: BoundPredicate
    extra: tuple[s.StructField, ...]
    positions: dict[str, int]

    def row_filter(self, schema: PyArrowSchema, own: int, added: int) -> RowFilter:
        """Return the filter of batches.

        Parameters
        ----------
        schema
            Of the batches: columns that Spark asked for, `added` others, and those that are read for the predicate.
        own, added
            How many of each of the first two there are.
        """
        positions = {name: i if i < own else i + added for name, i in self.positions.items()}
        return compile_filter(self.bound, schema, output=own + added, positions=positions)

    def select_blocks(
        self, reader: ipc.FileReader, values: Sequence[object], fields: Sequence[Field]
    ) -> SelectedBlocks | None:
        """Return which record batches of a file may hold a row that matches; None where nothing is known.

        Parameters
        ----------
        reader
            The open file.
        values, fields
            Of the columns that the file's path tells.
        """
        statistics = read_statistics(reader.custom_metadata, reader.schema, len(reader))
        if statistics is None:
            return None
        constants = {field.name: value for field, value in zip(fields, values, strict=True)}
        keeps = block_filter(self.bound, reader.schema, statistics, constants)
        return SelectedBlocks(keeps, statistics.row_counts)

    def kept_sizes(self, file: DataFile, fields: Sequence[Field], limits: ipc.Limits) -> tuple[int, ...] | None:
        """Return the bytes of each record batch of a file, 0 for those that cannot match, by its footer.

        None where nothing is known: the file is a stream, has no statistics, or cannot be opened, which the task
        that reads it will say.
        """
        try:
            with ipc.open(file.path, limits=limits) as reader:
                if not isinstance(reader, ipc.FileReader):
                    return None
                selected = self.select_blocks(reader, file.partition, fields)
                if selected is None:
                    return None
                return tuple(block.nbytes * selected.keeps(i) for i, block in enumerate(reader.blocks))
        except (ArrowIpcError, OSError):
            return None


def plan_selection(
    text: str,
    asked: s.StructType,
    natural: Callable[[tuple[tuple[str, ...], ...]], s.StructType],
    time_zone: str | None,
) -> RowSelection:
    """Return the selection that a text asks for.

    Parameters
    ----------
    text
        The option `where`.
    asked
        What Spark asked for.
    natural
        Gives columns by their paths, as they naturally are; called only where `asked` lacks some.
    time_zone
        The option `timeZone`.

    Raises
    ------
    OptionError
        The text is no predicate, or it does not fit its columns' types.
    ColumnNotFoundError
        A column is not there.
    """
    with error_context(field_path="where"):
        predicate = parse(text)
    positions: dict[str, int] = {}
    fields: dict[str, s.StructField] = {}
    found = {column.path: _found(asked, column.path) for column in p.columns(predicate)}
    # A struct of which only some fields were asked for is read once more for the others.
    absent = {path[0].casefold() for path, position in found.items() if position is None}
    missing = tuple(path for path in found if path[0].casefold() in absent)
    extra = natural(missing).fields if missing else []
    for path, position in found.items():
        if position is not None and path not in missing:
            fields[asked.fields[position].name] = asked.fields[position]
            positions[asked.fields[position].name] = position
    for i, field in enumerate(extra):
        fields[field.name] = field
        positions[field.name] = len(asked.fields) + i
    known = predicate_fields(s.StructType(list(fields.values())))
    bound = bind(predicate, known, None if time_zone is None else zone(time_zone))
    return RowSelection(bound, tuple(extra), positions)


def selected_files(selection: RowSelection, partitioning: Partitioning) -> Partitioning:
    """Return the files whose paths do not already say that no row matches. One evaluation for each partition."""
    names = [field.name for field in partitioning.fields]
    if not names:
        return partitioning
    kept: dict[tuple[object, ...], bool] = {}
    files = []
    for file in partitioning.files:
        if file.partition not in kept:
            kept[file.partition] = keeps_partition(selection.bound, dict(zip(names, file.partition, strict=True)))
        if kept[file.partition]:
            files.append(file)
    return replace(partitioning, files=tuple(files), texts=())


def _found(asked: s.StructType, path: Sequence[str]) -> int | None:
    """Return the position of the column that a path begins with, or None where it does not lead to its end."""
    first = None
    type_: s.DataType = asked
    for name in path:
        if not isinstance(type_, s.StructType):
            break  # the binder says what is wrong
        (position,) = find_columns(type_.names, [name], absent=-1)
        if position < 0:
            return None
        first = position if first is None else first
        type_ = type_.fields[position].dataType
    return first
