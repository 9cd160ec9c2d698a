"""Collect the statistics of each record batch while a file is written, and write one file with them in its footer.

By default the size is bounded: the first 64 scalar leaf columns, and 1 % of the file or 1 MiB. Columns that do not
fit are dropped from the end, and their names are stored for ``arrowipc inspect``.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.column_path import fields_along, resolve
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.dataset.predicate.expressions import Raw
from spark_arrow_ipc.dataset.statistics import Statistics, Which
from spark_arrow_ipc.dataset.statistics.format import (
    DROPPED_KEY,
    FINGERPRINT_KEY,
    KEY,
    MAX,
    MIN,
    NAN_COUNT,
    NULL_COUNT,
    ROW_COUNT,
    Leaf,
    array_of,
    bound_above,
    bound_below,
    leaves,
)
from spark_arrow_ipc.dataset.statistics.min_max import Mask, summarise, valid_slots
from spark_arrow_ipc.dataset.statistics.read import BlockStatistics, ColumnStatistics

_AUTO_COLUMNS: Final = 64
_AUTO_NBYTES: Final = 1 << 20
_AUTO_SHARE: Final = 100
"""Statistics may take one byte of this many of the file."""

_STREAM: Final = ipc.WriteOptions(format="stream", alignment=8)
_VALUE_NBYTES: Final = 24
"""Estimated memory for one number of a block while a file is written."""


@dataclass(slots=True)
class _Gathered:
    """The statistics of one leaf column so far, one value a block."""

    leaf: Leaf
    null_counts: list[Raw | None] = field(default_factory=list)
    nan_counts: list[Raw | None] = field(default_factory=list)
    least: list[tuple[Raw | None, bool]] = field(default_factory=list)
    greatest: list[tuple[Raw | None, bool]] = field(default_factory=list)

    def add(self, array: Array, live: Mask) -> int:
        """Add one block, and return the estimated size of its statistics in bytes."""
        summary = summarise(array, live)
        self.null_counts.append(summary.null_count)
        self.nan_counts.append(summary.nan_count)
        self.least.append(bound_below(summary.least, self.leaf))
        self.greatest.append(bound_above(summary.greatest, self.leaf))
        bounds = (self.least[-1][0], self.greatest[-1][0])
        return 4 * _VALUE_NBYTES + sum(len(value) for value in bounds if isinstance(value, bytes))

    def statistics(self) -> ColumnStatistics:
        """Return the statistics in the form that is read from a footer."""
        least, least_exact = zip(*self.least, strict=True) if self.least else ((), ())
        greatest, greatest_exact = zip(*self.greatest, strict=True) if self.greatest else ((), ())
        nulls = tuple(int(count or 0) for count in self.null_counts)
        nans = tuple(None if count is None else int(count) for count in self.nan_counts)
        return ColumnStatistics(self.leaf.type, nulls, nans, least, greatest, least_exact, greatest_exact)

    def array(self, field_: t.Field) -> Array:
        """Return a struct array with one slot a block."""
        lists: dict[str, list[Raw | None]] = {NULL_COUNT: self.null_counts, NAN_COUNT: self.nan_counts}
        for names, bounds in ((MIN, self.least), (MAX, self.greatest)):
            for name, is_exact in zip(names, (True, False), strict=True):
                lists[name] = [value if exact is is_exact else None for value, exact in bounds]
        children = tuple(array_of(lists[child.name], child.type) for child in field_.type.children)
        return Array(field_.type, len(self.null_counts), 0, (None,), children)


class StatisticsCollector:
    """Collects the statistics of one file, for the columns that `which` selects."""

    def __init__(self, schema: Schema, which: Which) -> None:
        every_leaf = list(leaves(schema))
        self._is_bounded = which is Statistics.AUTO
        if which is Statistics.NONE:
            chosen = []
        elif isinstance(which, Statistics):
            chosen = every_leaf[:_AUTO_COLUMNS] if self._is_bounded else every_leaf
        else:
            # A path ignores case, as in Spark; a struct stands for all its leaves.
            lines = [fields_along(schema.fields, resolve(schema.fields, reference)) for reference in which]
            paths = [tuple(field.name for field in line) for line in lines]
            chosen = [leaf for leaf in every_leaf if any(leaf.path[: len(path)] == path for path in paths)]
        self._gathered = [_Gathered(leaf) for leaf in chosen]
        self._dropped = [leaf.path for leaf in every_leaf[len(chosen) :]] if self._is_bounded else []
        self._row_counts: list[Raw | None] = []
        self._nbytes = 0

    def add(self, batch: RecordBatch, file_nbytes: int = 0) -> None:
        """Add the next record batch of the file."""
        if not self._gathered:  # no column has statistics any more, so that the rest of the file costs nothing
            return
        self._row_counts.append(batch.num_rows)
        above: dict[tuple[int, ...], tuple[Array, Mask]] = {}
        for gathered in self._gathered:
            array, live = leaf_array(batch, gathered.leaf.positions, above)
            self._nbytes += gathered.add(array, live)
        # Four times the budget, as a number takes more bytes in memory than in the file, and the file still grows.
        while self._is_bounded and self._gathered and self._nbytes > 4 * _budget(file_nbytes):
            self._nbytes -= self._nbytes // len(self._gathered)
            self._drop(1)

    @property
    def collects(self) -> bool:
        """True if any column has statistics so far."""
        return bool(self._gathered)

    def statistics(self) -> BlockStatistics:
        """Return the statistics so far in the form that is read from a footer."""
        columns = {gathered.leaf.path: gathered.statistics() for gathered in self._gathered}
        return BlockStatistics(tuple(int(count or 0) for count in self._row_counts), columns, tuple(self._dropped))

    def pair(self, file_nbytes: int = 0, *, fingerprint: str | None = None) -> tuple[str, str] | None:
        """Return key and value for the footer, or None without any column."""
        while self._gathered:
            encoded = self._encode(fingerprint)
            if not self._is_bounded or len(encoded) <= _budget(file_nbytes):
                return KEY, encoded
            # In proportion, so that a few rounds are enough for columns of any sizes.
            n_retained = len(self._gathered) * _budget(file_nbytes) // len(encoded)
            self._drop(max(1, len(self._gathered) - n_retained))
        return None

    def _drop(self, count: int) -> None:
        self._dropped[:0] = [gathered.leaf.path for gathered in self._gathered[-count:]]
        del self._gathered[-count:]

    def _encode(self, fingerprint: str | None) -> str:
        fields = [t.Field(ROW_COUNT, t.int64), *(gathered.leaf.field() for gathered in self._gathered)]
        pairs = {DROPPED_KEY: json.dumps(self._dropped)} if self._dropped else {}
        if fingerprint is not None:
            pairs[FINGERPRINT_KEY] = fingerprint
        columns = [array_of(self._row_counts, t.int64)]
        columns += [gathered.array(field_) for gathered, field_ in zip(self._gathered, fields[1:], strict=True)]
        schema = Schema.of(fields, pairs)
        sink = io.BytesIO()
        ipc.write(sink, [RecordBatch(schema, tuple(columns), len(self._row_counts))], schema, _STREAM)
        return base64.b64encode(sink.getvalue()).decode()


def _budget(file_nbytes: int) -> int:
    return max(_AUTO_NBYTES, file_nbytes // _AUTO_SHARE)


def leaf_array(
    batch: RecordBatch, positions: tuple[int, ...], above: dict[tuple[int, ...], tuple[Array, Mask]]
) -> tuple[Array, Mask]:
    """Return a leaf of a batch and the mask of its slots in structs that are not null; `above` caches structs."""
    if len(positions) == 1:
        return batch.columns[positions[0]], None
    outer = positions[:-1]
    if outer not in above:
        struct, live = leaf_array(batch, outer, above)
        above[outer] = struct, (valid_slots(struct, live) if struct.count_nulls() or live is not None else None)
    struct, live = above[outer]
    return struct.children[positions[-1]].slice(struct.offset, struct.length), live


class StatisticsWriter:
    """A writer that collects the statistics of what it writes."""

    def __init__(self, writer: ipc.Writer, collector: StatisticsCollector) -> None:
        self._writer = writer
        self._collector = collector

    def write(self, batch: RecordBatch, *, within: int | None = None) -> bool:
        """Append one record batch, as `ipc.Writer.write` does; False if the file would become too long."""
        if not self._writer.write(batch, within=within):
            return False
        self._collector.add(batch, self._writer.nbytes)
        return True


@contextmanager
def create_with_statistics(
    path: str,
    schema: Schema,
    options: ipc.WriteOptions,
    which: Which,
    *,
    custom_metadata: CustomMetadata = (),
    storage: Mapping[str, str] | None = None,
) -> Iterator[StatisticsWriter]:
    """Write a file whose footer has statistics; it appears when the context ends without an error."""
    is_file = options.format == "file"
    collector = StatisticsCollector(schema, which)
    if is_file and collector.collects:
        options = replace(options, checksums=True)  # by which statistics prove that they belong to their file
    # A stream has no footer: its pairs are in its first message, and it has no statistics.
    first_pairs = None if is_file else custom_metadata
    with ipc.create(path, schema, options, schema_metadata=first_pairs, storage=storage) as writer:
        if is_file:
            writer.custom_metadata.update(custom_metadata)
        yield StatisticsWriter(writer, collector)
        pair = collector.pair(writer.nbytes, fingerprint=writer.fingerprint) if is_file else None
        if pair is not None:
            writer.custom_metadata.update([pair])
