"""The statistics of ``arrowipc inspect --stats``: nulls, bounds, distinct values and bytes of each column over all files.

Bytes come from headers. Nulls and bounds come from the statistics in footers. A file without statistics is read, one
record batch at a time; only then are distinct values counted, up to `MOST_DISTINCT`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.kernels.order import DistinctValues, has_order
from spark_arrow_ipc.arrow.kernels.take import take
from spark_arrow_ipc.arrow.python_values.to_text import to_text
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared import files, terminal
from spark_arrow_ipc.cli.shared.file_metadata import (
    FILE,
    MEASURED,
    MEMORY,
    BatchMetadata,
    BufferSizes,
    read_file_metadata,
)
from spark_arrow_ipc.cli.shared.files import Input
from spark_arrow_ipc.cli.shared.rows import Chosen, Rows, check_same_schema, partition_row
from spark_arrow_ipc.cli.shared.storages import storage_at
from spark_arrow_ipc.dataset.predicate.expressions import Raw
from spark_arrow_ipc.dataset.statistics import Statistics
from spark_arrow_ipc.dataset.statistics.collect import StatisticsCollector, leaf_array
from spark_arrow_ipc.dataset.statistics.format import Leaf, Path, array_of, leaves, raws_of
from spark_arrow_ipc.dataset.statistics.read import (
    BlockStatistics,
    Bound,
    ColumnStatistics,
    ColumnTotals,
    Totals,
    file_statistics,
    statistics_batch,
)
from spark_arrow_ipc.errors import error_context
from spark_arrow_ipc.ipc.columns.projection import select_known_columns
from spark_arrow_ipc.ipc.messages.message import RecordBatchHeader
from spark_arrow_ipc.storage.byte_source import ByteSource

# The most compressed buffers whose uncompressed sizes are read: each costs a small read.
_MOST_MEASURED: Final = 100_000

MOST_DISTINCT: Final = 10_000
"""The most distinct values that are counted in one column."""


@dataclass(slots=True)
class _Column(Totals):
    """A column, with counts and bounds over the files so far."""

    path: Path
    type: str
    leaf: Leaf | None
    top: int
    distinct: DistinctValues = field(default_factory=lambda: DistinctValues(MOST_DISTINCT))
    counts_distinct: bool = True


class _ColumnSizes:
    """The bytes of the columns of several files, by the column names of the first file; dictionaries are not counted."""

    def __init__(self, schema: Schema) -> None:
        self._positions = {name: i for i, name in enumerate(schema.names)}
        self._sizes = np.zeros((3, len(schema)), np.int64)
        self._measure = BufferSizes(_MOST_MEASURED)

    def add(self, source: ByteSource, schema: Schema, header: RecordBatchHeader, batch: BatchMetadata) -> None:
        """Add a record batch of a file of the given schema."""
        if batch.dictionary_id is None:
            positions = np.array([self._positions.get(name, -1) for name in schema.names], np.int64)
            columns = positions[self._measure.buffers(schema, batch).columns(header)]
            # Columns that were not chosen have no position.
            is_counted = columns >= 0
            for total, sizes in zip(self._sizes, self._measure.sizes(source, header, batch), strict=True):
                # A column has several buffers, which plain indexing would count once.
                np.add.at(total, columns[is_counted], sizes[is_counted])

    def to_json(self, position: int) -> dict[str, Any]:
        """Return the bytes of a column in the files, and the ratio of its bytes in memory to them (None if unknown)."""
        sizes = self._sizes[:, position].tolist()
        ratio = sizes[MEMORY] / sizes[MEASURED] if sizes[MEASURED] else None
        return {"nbytes": sizes[FILE], "compression_ratio": ratio}


def print_statistics(arguments: argparse.Namespace) -> int:
    """Print the statistics of each column over all files, one line a column, or write them to an Arrow file."""
    chosen = Chosen.of(arguments)
    if arguments.arrow is not None:
        files.refuse_existing(storage_at(arguments.arrow, arguments.storage), arguments.arrow)
    columns: list[_Column] = []
    reference: tuple[str, Schema] | None = None
    rows = 0
    for source in files.list_inputs(arguments, columns=True):
        with error_context(path=source.path), chosen.open_rows(source) as opened:
            if reference is None:
                reference = source.path, opened.schema
                columns, sizes = _columns(opened.schema), _ColumnSizes(opened.schema)
            # Columns are summed by position.
            check_same_schema(*reference, source.path, opened.schema)
            rows += _add_file(source, opened, columns, scans=arguments.scan or chosen.where is not None)
        # With a predicate, buffers also hold the rows that it excludes.
        if chosen.where is None and not source.is_served:
            read_file_metadata(source.openable(), see=sizes.add)
    assert reference is not None, "list_inputs yields a file, or raises"
    described = [_to_json(column, rows) for column in columns]
    if chosen.where is None:
        described = [d | sizes.to_json(column.top) for d, column in zip(described, columns, strict=True)]
    if arguments.arrow is not None:
        batch = statistics_batch(reference[1], rows, [*map(_describe_column, columns)])
        with ipc.create(arguments.arrow, batch.schema, storage=dict(arguments.storage)) as writer:
            writer.write(batch)
    elif arguments.json:
        print("\n".join(map(terminal.json_line, described)))
    else:
        print(f"{terminal.count(rows, 'row')}, {terminal.count(len(columns), 'column')}")
        head = ("column", "type", "nulls", "min", "max", "distinct", "bytes", "ratio")
        cells = []
        for i, (each, column) in enumerate(zip(described, columns, strict=True)):
            # The bytes of a struct are printed once, with its first column.
            is_first = not i or columns[i - 1].top != column.top
            cells.append((*_cells(each), *(_size_cells(each) if is_first else ("-", "-"))))
        lines = terminal.table(head, cells, terminal.LEFT * 2 + terminal.RIGHT * 6)
        print("\n".join(terminal.fit_lines(lines)))
    return 0


def _columns(schema: Schema) -> list[_Column]:
    """Return each scalar column, at the top level or in structs, and each other top-level column."""
    columns: list[_Column] = []
    of_position: dict[int, list[Leaf]] = {}
    for leaf in leaves(schema):
        of_position.setdefault(leaf.positions[0], []).append(leaf)
    for i, field_ in enumerate(schema.fields):
        columns += (_Column(leaf.path, str(leaf.type), leaf, i) for leaf in of_position.get(i, []))
        if i not in of_position:
            columns.append(_Column((field_.name,), str(field_.type), None, i, nans=None, counts_distinct=False))
    return columns


def _add_file(source: Input, opened: Rows, columns: Sequence[_Column], *, scans: bool) -> int:
    """Add the rows of a file, by its statistics or by reading it; return their number."""
    by_path = {column.path: column for column in columns if column.leaf is not None}
    partition = {(field_.name,) for field_ in source.fields}
    stored = None
    if not scans and opened.reader.is_numbered:
        with ipc.open_file(source.openable(), columns=select_known_columns) as reader:
            stored = file_statistics(reader)
    # If one column has no statistics, for lack of space, the values of all columns are read.
    if stored is None or not by_path.keys() <= {*stored.columns, *partition}:
        return _add_values(opened, columns, by_path)
    rows = sum(stored.row_counts)
    for column in columns:
        if column.path in partition:
            continue
        column.counts_distinct = False
        if column.leaf is None:
            # The footer has statistics only of scalar columns.
            column.nulls = None
        else:
            column.add(stored.columns[column.path], stored.row_counts)
    if partition and rows:
        one = partition_row(source)
        for field_, array in zip(one.schema.fields, one.columns, strict=True):
            if (field_.name,) in by_path:
                column, raws, exact = by_path[field_.name,], tuple(raws_of(array)), (True,)
                nulls = rows * (raws[0] is None)
                column.add(ColumnStatistics(field_.type, (nulls,), (None,), raws, raws, exact, exact), [rows])
                column.distinct.add(array)
    return rows


def _add_values(opened: Rows, columns: Iterable[_Column], by_path: Mapping[Path, _Column]) -> int:
    collector = StatisticsCollector(opened.schema, Statistics.ALL)
    rows = 0
    for batch in opened.batches:
        collector.add(batch)
        _add_distinct(batch, by_path.values())
        for column in columns:
            if column.leaf is None and column.nulls is not None:
                column.nulls += batch.columns[column.top].count_nulls()
        rows += batch.num_rows
    statistics = collector.statistics()
    for path, of_column in statistics.columns.items():
        by_path[path].add(of_column, statistics.row_counts)
    return rows


def _add_distinct(batch: RecordBatch, columns: Iterable[_Column]) -> None:
    above: dict[tuple[int, ...], Any] = {}
    for column in columns:
        # The count is None above `MOST_DISTINCT`.
        if column.counts_distinct and column.distinct.count is not None:
            assert column.leaf is not None
            array, live = leaf_array(batch, column.leaf.positions, above)
            column.counts_distinct = has_order(array.type)
            if column.counts_distinct:
                column.distinct.add(array if live is None else take(array, np.flatnonzero(live)))


def _describe_column(column: _Column) -> ColumnTotals:
    positions, type_ = ((column.top,), t.null) if column.leaf is None else (column.leaf.positions, column.leaf.type)
    return ColumnTotals(positions, type_, column, column.distinct.count if column.counts_distinct else None)


def _to_json(column: _Column, rows: int) -> dict[str, Any]:
    def text(bound: Bound) -> str | None:
        return None if bound is None or column.leaf is None else _strings([bound[0]], column.leaf.type)[0]

    return {
        "column": list(column.path),
        "type": column.type,
        "rows": rows,
        "nulls": column.nulls,
        "nans": column.nans,
        "min": text(column.least),
        "min_is_exact": column.least is None or column.least[1],
        "max": text(column.greatest),
        "max_is_exact": column.greatest is None or column.greatest[1],
        "distinct": column.distinct.count if column.counts_distinct else None,
        "distinct_is_above": MOST_DISTINCT if column.counts_distinct and column.distinct.count is None else None,
    }


def _cells(described: Mapping[str, Any]) -> Iterator[str]:
    """Yield the first cells of a column's row."""
    yield terminal.cut(".".join(described["column"]), 60)
    yield terminal.cut(described["type"], 40)
    yield _number(described["nulls"])
    for end in ("min", "max"):
        text = described[end]
        yield "-" if text is None else terminal.cut(text, 30) + ("" if described[f"{end}_is_exact"] else "...")
    above = described["distinct_is_above"]
    yield _number(described["distinct"]) if above is None else f"over {above:,}"


def _size_cells(described: Mapping[str, Any]) -> tuple[str, str]:
    ratio = described.get("compression_ratio")
    return _number(described.get("nbytes")), "-" if ratio is None else f"{ratio:.2f}"


def _number(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def statistics_json(statistics: BlockStatistics) -> dict[str, Any]:
    """Convert the statistics of a footer for `json.dumps`; bounds are strings."""
    return {
        "row_counts": list(statistics.row_counts),
        "columns": [
            {
                "path": list(path),
                "null_counts": list(column.null_counts),
                "nan_counts": list(column.nan_counts),
                "least": _strings(column.least, column.type),
                "least_exact": list(column.least_exact),
                "greatest": _strings(column.greatest, column.type),
                "greatest_exact": list(column.greatest_exact),
            }
            for path, column in statistics.columns.items()
        ],
        "dropped": [list(path) for path in statistics.dropped],
    }


def _strings(values: Sequence[Raw | None], type_: t.DataType) -> list[str | None]:
    return [None if value is None else str(value) for value in to_text(array_of(values, type_))]
