"""Statistics of the record batches of a file, gathered while it is written and read before it is.

Strategy
--------
`StatisticsCollector` looks at each batch that is written and gives the pair for the footer; `read_statistics` takes
it back. A reader that does not know the pair ignores it.

They are bounded when nobody asked for more: the first 64 scalar leaf columns, and 1 % of the file or 1 MiB. Columns
that do not fit are dropped from the end, and their names are kept for ``arrowipc inspect``.

What comes from a file is a claim. It is used to skip what cannot match, so a claim that is malformed in any way is
ignored as a whole, with a warning: nothing is skipped then. One that is well-formed and false gives false answers,
like false data.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.column_path import ColumnPath, fields_along, resolve
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.predicate.coercion import order_key
from spark_arrow_ipc.dataset.predicate.expressions import Raw
from spark_arrow_ipc.dataset.statistics import format as f
from spark_arrow_ipc.dataset.statistics.min_max import Mask, summarise, valid_slots
from spark_arrow_ipc.errors import ArrowIpcError

__all__ = [
    "BlockStatistics",
    "ColumnStatistics",
    "Statistics",
    "StatisticsCollector",
    "StatisticsWarning",
    "Which",
    "read_statistics",
]


class Statistics(StrEnum):
    """The columns that have statistics, where no list names them."""

    AUTO = "auto"
    NONE = "none"
    ALL = "all"


Which: TypeAlias = Statistics | Sequence[ColumnPath]
"""What the option `statistics` says: a word, or references to columns (of a struct: all its leaves)."""

_AUTO_COLUMNS: Final = 64
_AUTO_NBYTES: Final = 1 << 20
_AUTO_SHARE: Final = 100
"""One part of so many of the file may be statistics."""

_MOST_NBYTES: Final = 64 << 20
"""Characters of a pair that is read: more is no statistics of ours."""

_LIMITS: Final = ipc.Limits(max_batch_bytes=_MOST_NBYTES, max_metadata_bytes=_MOST_NBYTES, max_slots=1 << 24)
_STREAM: Final = ipc.WriteOptions(format="stream", alignment=8)
_VALUE_NBYTES: Final = 24
"""What one number of a block costs in memory while a file is written, about."""


class StatisticsWarning(UserWarning):
    """The statistics of a file are not used, because they are broken."""


@dataclass(slots=True)
class _Gathered:
    """What was gathered of one leaf, one value a block."""

    leaf: f.Leaf
    null_counts: list[Raw | None] = field(default_factory=list)
    nan_counts: list[Raw | None] = field(default_factory=list)
    least: list[tuple[Raw | None, bool]] = field(default_factory=list)
    greatest: list[tuple[Raw | None, bool]] = field(default_factory=list)

    def add(self, array: Array, live: Mask) -> int:
        """Take in one block; returns the bytes that it costs, about."""
        found = summarise(array, live)
        self.null_counts.append(found.null_count)
        self.nan_counts.append(found.nan_count)
        self.least.append(f.bound_below(found.least, self.leaf))
        self.greatest.append(f.bound_above(found.greatest, self.leaf))
        bounds = (self.least[-1][0], self.greatest[-1][0])
        return 4 * _VALUE_NBYTES + sum(len(value) for value in bounds if isinstance(value, bytes))

    def array(self, field_: t.Field) -> Array:
        """Return what was gathered as a struct array."""
        lists: dict[str, list[Raw | None]] = {f.NULL_COUNT: self.null_counts, f.NAN_COUNT: self.nan_counts}
        for names, found in ((f.MIN, self.least), (f.MAX, self.greatest)):
            for name, is_exact in zip(names, (True, False), strict=True):
                lists[name] = [value if exact is is_exact else None for value, exact in found]
        children = tuple(f.array_of(lists[child.name], child.type) for child in field_.type.children)
        return Array(field_.type, len(self.null_counts), 0, (None,), children)


class StatisticsCollector:
    """Gathers the statistics of one file.

    Parameters
    ----------
    schema
        Of the file.
    which
        The columns that have statistics: references, or a word for the first of them, for none, for all.

    Raises
    ------
    ColumnNotFoundError
        A reference names no column.
    """

    def __init__(self, schema: Schema, which: Which) -> None:
        found = list(f.leaves(schema))
        self._is_bounded = which is Statistics.AUTO
        if which is Statistics.NONE:
            chosen = []
        elif isinstance(which, Statistics):
            chosen = found[:_AUTO_COLUMNS] if self._is_bounded else found
        else:
            asked = [_resolved(schema, reference) for reference in which]
            chosen = [leaf for leaf in found if any(leaf.path[: len(path)] == path for path in asked)]
        self._gathered = [_Gathered(leaf) for leaf in chosen]
        self._dropped = [leaf.path for leaf in found[len(chosen) :]] if self._is_bounded else []
        self._row_counts: list[Raw | None] = []
        self._nbytes = 0

    def add(self, batch: RecordBatch, file_nbytes: int = 0) -> None:
        """Take in a record batch as it is written. A few numpy calls a column.

        Parameters
        ----------
        batch
            One record batch of the file; all of them, in order.
        file_nbytes
            Bytes of the file so far, of which statistics may be a share.
        """
        if not self._gathered:
            return
        self._row_counts.append(batch.num_rows)
        above: dict[tuple[int, ...], tuple[Array, Mask]] = {}
        for gathered in self._gathered:
            array, live = _leaf_array(batch, gathered.leaf.positions, above)
            self._nbytes += gathered.add(array, live)
        # In memory a number costs more than in the file, whose size is not known yet: twice the room, and again.
        while self._is_bounded and self._gathered and self._nbytes > 4 * _budget(file_nbytes):
            self._nbytes -= self._nbytes // len(self._gathered)
            self._drop(1)

    def pair(self, file_nbytes: int = 0) -> tuple[str, str] | None:
        """Return key and value for the footer, or None where there is nothing to say.

        Parameters
        ----------
        file_nbytes
            Bytes of the file without its footer.
        """
        while self._gathered:
            text = self._text()
            if not self._is_bounded or len(text) <= _budget(file_nbytes):
                return f.KEY, text
            kept = len(self._gathered) * _budget(file_nbytes) // len(text)
            self._drop(max(1, len(self._gathered) - kept))
        return None

    def _drop(self, count: int) -> None:
        kept = len(self._gathered) - count
        self._dropped[:0] = [gathered.leaf.path for gathered in self._gathered[kept:]]
        del self._gathered[kept:]

    def _text(self) -> str:
        fields = [t.Field(f.ROW_COUNT, t.int64), *(gathered.leaf.field() for gathered in self._gathered)]
        pairs = {f.DROPPED_KEY: json.dumps(self._dropped)} if self._dropped else None
        columns = [f.array_of(self._row_counts, t.int64)]
        columns += [gathered.array(field_) for gathered, field_ in zip(self._gathered, fields[1:], strict=True)]
        schema = Schema.of(fields, pairs)
        sink = io.BytesIO()
        ipc.write(sink, [RecordBatch(schema, tuple(columns), len(self._row_counts))], schema, _STREAM)
        return base64.b64encode(sink.getvalue()).decode()


def _budget(file_nbytes: int) -> int:
    return max(_AUTO_NBYTES, file_nbytes // _AUTO_SHARE)


def _resolved(schema: Schema, path: ColumnPath) -> f.Path:
    """Return the names of a path as the schema has them."""
    return tuple(field.name for field in fields_along(schema.fields, resolve(schema.fields, path)))


def _leaf_array(
    batch: RecordBatch, positions: tuple[int, ...], above: dict[tuple[int, ...], tuple[Array, Mask]]
) -> tuple[Array, Mask]:
    """Return a leaf of a batch, and which of its slots have no null above them; `above` remembers structs."""
    if len(positions) == 1:
        return batch.columns[positions[0]], None
    outer = positions[:-1]
    if outer not in above:
        struct, live = _leaf_array(batch, outer, above)
        above[outer] = struct, (valid_slots(struct, live) if struct.count_nulls() or live is not None else None)
    struct, live = above[outer]
    return struct.children[positions[-1]].slice(struct.offset, struct.length), live


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What a file says of one leaf column, one value a block.

    Parameters
    ----------
    type
        Of the values: that of the data, of a dictionary that of its values.
    null_counts
        Null slots.
    nan_counts
        NaN slots; None where that is not known, and for types that have none.
    least, greatest
        Bounds in the unit of `type`; None where nothing is known. NaN is outside them.
    least_exact, greatest_exact
        Whether a bound is a value of the block, and not one that was cut.
    """

    type: t.DataType
    null_counts: tuple[int, ...]
    nan_counts: tuple[int | None, ...]
    least: tuple[Raw | None, ...]
    greatest: tuple[Raw | None, ...]
    least_exact: tuple[bool, ...]
    greatest_exact: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class BlockStatistics:
    """What a file says of its record batches.

    Parameters
    ----------
    row_counts
        Rows of each block. A reader that decodes a block can compare.
    columns
        By path, in the order of the file.
    dropped
        Paths of columns that had no room.
    """

    row_counts: tuple[int, ...]
    columns: Mapping[f.Path, ColumnStatistics]
    dropped: tuple[f.Path, ...] = ()


def read_statistics(custom_metadata: t.CustomMetadata, schema: Schema, blocks: int) -> BlockStatistics | None:
    """Return the statistics in a footer's pairs, or None where there are none that can be used.

    Parameters
    ----------
    custom_metadata
        Of the footer.
    schema
        Of the file, or a projection of it: columns that it does not have are left out.
    blocks
        Record batches of the file.

    Warns
    -----
    StatisticsWarning
        There are some, and they are broken.
    """
    texts = [value for key, value in custom_metadata if key == f.KEY]
    if not texts:
        return None
    try:
        if len(texts) > 1 or len(texts[0]) > _MOST_NBYTES:
            raise ValueError("they are there twice, or too large")
        return _read(texts[0], schema, blocks)
    except (ArrowIpcError, binascii.Error, ValueError, TypeError, KeyError) as error:
        warnings.warn(f"the statistics of a file are not used: {error}", StatisticsWarning, stacklevel=2)
        return None


def _read(text: str, schema: Schema, blocks: int) -> BlockStatistics:
    octets = base64.b64decode(text, validate=True)
    with ipc.open_stream(octets, limits=_LIMITS) as reader:
        stored = reader.schema
        batches = list(reader)
    if len(batches) != 1 or batches[0].num_rows != blocks:
        rows = sum(batch.num_rows for batch in batches)
        raise ValueError(f"they are of {rows:,} record batches, and the file has {blocks:,}")
    (batch,) = batches
    if not stored.fields or stored.fields[0] != t.Field(f.ROW_COUNT, t.int64):
        raise ValueError("they do not begin with the number of rows")
    row_counts = _counts(batch.columns[0])
    known = {leaf.path: leaf for leaf in f.leaves(schema)}
    columns: dict[f.Path, ColumnStatistics] = {}
    for field_, column in zip(stored.fields[1:], batch.columns[1:], strict=True):
        path = _path_of(dict(field_.custom_metadata)[f.PATH_KEY])
        leaf = known.get(path)
        if leaf is None:
            continue
        if path in columns or field_.type != leaf.field().type or column.count_nulls():
            raise ValueError(f"those of the column {'.'.join(path)} are not of its type")
        columns[path] = _column(column, leaf, row_counts)
    dropped = dict(stored.custom_metadata).get(f.DROPPED_KEY)
    return BlockStatistics(row_counts, columns, tuple(map(_path, json.loads(dropped))) if dropped else ())


def _path_of(text: str) -> f.Path:
    return _path(json.loads(text))


def _path(value: object) -> f.Path:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError("the name of a column is none")
    return tuple(value)


def _counts(array: Array) -> tuple[int, ...]:
    counts = [count for count in f.raws_of(array) if isinstance(count, int) and count >= 0]
    if len(counts) != array.length:
        raise ValueError("a count is null or below 0")
    return tuple(counts)


def _column(column: Array, leaf: f.Leaf, row_counts: tuple[int, ...]) -> ColumnStatistics:
    children = dict(zip((child.name for child in column.type.children), column.children, strict=True))
    null_counts = _counts(children[f.NULL_COUNT])
    nan_counts: tuple[int | None, ...] = (None,) * len(null_counts)
    if f.NAN_COUNT in children:
        nan_counts = tuple(int(count) if count is not None else None for count in f.raws_of(children[f.NAN_COUNT]))
    for rows, nulls, nans in zip(row_counts, null_counts, nan_counts, strict=True):
        if not 0 <= nulls + (nans or 0) <= rows or (nans or 0) < 0:
            raise ValueError(f"there are more nulls than rows in {'.'.join(leaf.path)}")
    least, least_exact = _bounds(children, f.MIN)
    greatest, greatest_exact = _bounds(children, f.MAX)
    for low, high in zip(least, greatest, strict=True):
        if low is not None and high is not None and order_key(low) > order_key(high):
            raise ValueError(f"the least value of {'.'.join(leaf.path)} is above the greatest")
    return ColumnStatistics(leaf.type, null_counts, nan_counts, least, greatest, least_exact, greatest_exact)


def _bounds(children: Mapping[str, Array], names: tuple[str, str]) -> tuple[tuple[Raw | None, ...], tuple[bool, ...]]:
    exact = f.raws_of(children[names[0]])
    cut = f.raws_of(children[names[1]]) if names[1] in children else [None] * len(exact)
    values = [_usable(cut[i] if value is None else value) for i, value in enumerate(exact)]
    return tuple(values), tuple(value is not None for value in exact)


def _usable(value: Raw | None) -> Raw | None:
    """Return a bound, of NaN nothing: it bounds no number."""
    return None if isinstance(value, float) and order_key(value)[0] else value
