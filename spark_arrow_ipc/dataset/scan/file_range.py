"""`FileRange`: the part of a file that one task reads, and the partition values of its path as constant columns.

A range names its file by path, size, modification time and version, so that a task notices a file that changed since
planning. A range of a stream also has the dictionary batches that are in force at its first record batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal, NamedTuple, Protocol

import numpy as np

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.array_data import Buffer
from spark_arrow_ipc.arrow.layout import LAYOUTS, Role
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.ipc.stream_index import StreamStart


class Origin(Protocol):
    """The origin of rows: a range of a file, or a part of something else that has neither size nor time."""

    @property
    def path(self) -> str:
        """The path for messages."""

    @property
    def nbytes(self) -> int | None:
        """Size of the complete file."""

    @property
    def mtime_ns(self) -> int | None:
        """Modification time of the complete file."""


class FileRange(NamedTuple):
    """The record batches `start` to `stop` (exclusive) of a file; all by default."""

    # A named tuple, because a plan makes 100,000 of them: it takes a third of the time of a frozen dataclass.
    path: str  # absolute
    # size and modification time of the complete file at planning
    nbytes: int
    mtime_ns: int
    # record batch numbers; None for a file that was not cut at planning
    start: int | None = None
    stop: int | None = None
    partition: tuple[object, ...] = ()  # values of the hive partition columns
    # position in a stream at which the range starts; None for a file, and for a stream that is not cut
    stream_start: StreamStart | None = None
    rows: tuple[int, int] | None = None  # start and stop of the rows, in a range of one record batch; None for all rows
    # text that differs whenever the bytes of the file do (`Status.version`); empty where a storage has no versions
    version: str = ""
    # True if the file is appended to: it may be longer than `nbytes`, and newer. None for all others.
    grows: Literal[True] | None = None

    def __reduce__(self) -> tuple[type[FileRange], tuple[object, ...]]:
        # Without the defaults at its end: a driver holds and sends one for every file.
        end = len(self)
        while end > _REQUIRED and self[end - 1] in _DEFAULTS:
            end -= 1
        return FileRange, self[:end]


_DEFAULTS: Final = frozenset({None, (), ""})

_REQUIRED: Final = 3
"""Fields of a `FileRange` that have no default."""


CONSTANT_SLOTS: Final = 1 << 20
"""Most slots of a constant column, which bounds its memory; longer batches are sliced before columns are added."""

_REPEATED: Final = (Role.VALIDITY, Role.OFFSETS, Role.DATA, Role.BYTES)


class PartitionColumns:
    """Adds the partition columns of one file to its batches."""

    def __init__(self, schema: Schema, fields: Sequence[t.Field], values: Sequence[object]) -> None:
        if len(fields) != len(values):
            raise ValueError(f"expected {len(fields)} partition values, found {len(values)}")
        merged = list(schema.fields)
        self.positions: list[int] = []
        """Position of each partition column: where the file has a column of the same name, or after all columns."""
        # Reversed, so that of several columns of one name the first is replaced.
        names = {field.name: i for i, field in reversed(list(enumerate(merged)))}
        for field in fields:
            position = names.get(field.name, len(merged))
            merged[position : position + 1] = [field]
            self.positions.append(position)
        self._file_columns = len(schema.fields)
        self._slots = [from_pylist.array([value], field.type) for field, value in zip(fields, values, strict=True)]
        self._constants = self._slots
        self._length = 1
        self.schema = Schema(tuple(merged), schema.custom_metadata, schema.endianness)

    def add(self, batch: RecordBatch) -> RecordBatch:
        """Return a batch of at most `CONSTANT_SLOTS` rows with the partition columns."""
        length = batch.num_rows
        if length > self._length:
            # Doubled, so that batches of rising lengths cost O(rows) in total; a shorter batch takes a prefix.
            self._length = max(length, min(2 * self._length, CONSTANT_SLOTS))
            self._constants = [repeat_slot(slot, self._length) for slot in self._slots]
        columns = list(batch.columns)
        for position, constant in zip(self.positions, self._constants, strict=True):
            column = replace(constant, length=length, null_count=min(constant.null_count, length))
            columns[position : position + 1] = [column]
        return RecordBatch(self.schema, tuple(columns), length, batch.custom_metadata)


def repeat_slot(slot: Array, length: int) -> Array:
    """Return an array of `length` copies of the only slot of a flat array."""
    layout = LAYOUTS[type(slot.type)]
    is_flat = slot.dictionary is None and all(row.role in _REPEATED for row in layout.buffers)
    if slot.length != 1 or slot.offset or slot.children or not is_flat:
        raise ValueError(f"expected one slot of a flat type, found {slot.length} of {slot.type}")
    nulls = length * slot.count_nulls()
    buffers: list[Buffer | None] = []
    for row, buffer in zip(layout.buffers, slot.buffers, strict=True):
        if buffer is None:
            buffers.append(None)
        elif row.role is Role.OFFSETS:
            offsets = array_data.value_offsets(slot)
            buffers.append((np.arange(length + 1, dtype=offsets.dtype) * offsets[1]).view(np.uint8).data)
        elif row.role is Role.VALIDITY or isinstance(slot.type, t.Bool):
            buffers.append(np.full((length + 7) // 8, 0xFF if buffer[0] & 1 else 0, np.uint8).data)
        else:
            buffers.append(np.tile(array_data.byte_values(buffer), length).data)
    return Array(slot.type, length, nulls, tuple(buffers))
