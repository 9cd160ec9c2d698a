"""The bytes of a file by record batch, column and buffer, compressed and not.

Every header is read once. A picture has a bounded size: when there are too many groups of neighbouring record batches,
each two become one, so that a file of any number of batches takes the memory of a few hundred.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared.inputs import Input
from spark_arrow_ipc.cli.shared.outline import BatchOutline, FileOutline, buffer_sizes, read_outline
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.ipc.columns.batch_layout import ROLES, ColumnBuffers
from spark_arrow_ipc.ipc.constants import Int64s
from spark_arrow_ipc.ipc.flatbuf.tables import MetadataVersion
from spark_arrow_ipc.ipc.messages.message import RecordBatchHeader
from spark_arrow_ipc.storage.byte_source import ByteSource

_MOST_GROUPS: Final = 32
"""Groups of record batches in a picture are between this number and half of it, if there are more batches."""

_MOST_MEASURED: Final = 200_000
"""Compressed buffers whose uncompressed sizes are read: each is a small read."""

FILE, MEASURED, MEMORY = range(3)
"""Rows of a vector of bytes: in the file; those of measured buffers in the file; and of these in memory."""


class BufferSizes:
    """Measures the buffers of batches, up to a number of compressed ones: each is a small read."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._compiled: tuple[Schema, str, ColumnBuffers] | None = None

    def buffers(self, schema: Schema, batch: BatchOutline) -> ColumnBuffers:
        """Return the columns and roles of buffers, compiled once for neighbouring batches of a schema."""
        compiled = self._compiled
        if compiled is None or compiled[0] is not schema or compiled[1] != batch.metadata_version:
            buffers = ColumnBuffers(schema, MetadataVersion[batch.metadata_version])
            self._compiled = compiled = schema, batch.metadata_version, buffers
        return compiled[2]

    def sizes(
        self, source: ByteSource, header: RecordBatchHeader, batch: BatchOutline, *, is_measured: bool = True
    ) -> Int64s:
        """Return the bytes of each buffer: shape ``(3, buffers)``, see `FILE`; zeros where it is not measured or broken."""
        nbytes = header.buffers[:, 1].astype(np.int64)
        sizes = np.stack([nbytes, np.zeros_like(nbytes), np.zeros_like(nbytes)])
        if header.compression is not None:
            if not is_measured:
                return sizes
            self._left -= len(nbytes)
            if self._left < 0:
                return sizes
        block = batch.block
        body = block.byte_offset + block.metadata_nbytes
        try:
            sizes[MEMORY] = np.fromiter(buffer_sizes(source, header, body, block.body_nbytes), np.int64)
        except ArrowIpcError:  # `validate` says what is broken
            return sizes
        sizes[MEASURED] = nbytes
        return sizes


@dataclass(slots=True)
class Group:
    """Neighbouring record batches."""

    first: int
    last: int
    # Bytes in the file, headers too
    start: int
    stop: int
    rows: int
    # Bytes of their headers
    metadata_nbytes: int
    # int64, shape ``(3, columns)``: see `FILE`
    columns: Int64s

    def joined(self, other: Group) -> Group:
        """Return this group and the next one as one."""
        return Group(
            self.first,
            other.last,
            min(self.start, other.start),
            max(self.stop, other.stop),
            self.rows + other.rows,
            self.metadata_nbytes + other.metadata_nbytes,
            self.columns + other.columns,
        )


@dataclass(slots=True)
class FileLayout:
    """All bytes of a file."""

    path: str
    outline: FileOutline
    groups: list[Group]
    # int64, shape ``(3, columns, roles)``: bytes by column and role of the buffer, of all record batches
    buffers: Int64s
    # int64, shape ``(3,)``: bytes of the bodies of all dictionary batches
    dictionaries: Int64s


@dataclass(slots=True)
class _Collector:
    groups: list[Group] = field(default_factory=list)
    size: int = 1
    number: int = 0
    measure: BufferSizes = field(default_factory=lambda: BufferSizes(_MOST_MEASURED))
    buffers: Int64s = field(default_factory=lambda: np.zeros((3, 0, len(ROLES)), np.int64))
    dictionaries: Int64s = field(default_factory=lambda: np.zeros(3, np.int64))

    def see(self, source: ByteSource, schema: Schema, header: RecordBatchHeader, batch: BatchOutline) -> None:
        """Add a batch."""
        # One batch of those that will be one group.
        is_measured = batch.dictionary_id is not None or not self.number % self.size
        sizes = self.measure.sizes(source, header, batch, is_measured=is_measured)
        if batch.dictionary_id is not None:
            self.dictionaries += sizes.sum(axis=1)
            return
        buffers = self.measure.buffers(schema, batch)
        owners, roles = buffers.columns(header), buffers.roles(header)
        if not self.buffers.shape[1]:
            self.buffers = np.zeros((3, len(schema), len(ROLES)), np.int64)
        by_role = np.zeros_like(self.buffers)
        for row in range(3):
            np.add.at(by_role[row], (owners, roles), sizes[row])
        self.buffers += by_role
        block = batch.block
        stop = block.byte_offset + block.nbytes
        one = Group(
            self.number, self.number, block.byte_offset, stop, batch.length, block.metadata_nbytes, by_role.sum(axis=2)
        )
        self._append(one)

    def _append(self, one: Group) -> None:
        last = self.groups[-1] if self.groups else None
        if last is not None and last.last - last.first + 1 < self.size:
            self.groups[-1] = last.joined(one)
        else:
            self.groups.append(one)
        self.number += 1
        if len(self.groups) > _MOST_GROUPS:
            pairs = [self.groups[i : i + 2] for i in range(0, len(self.groups), 2)]
            self.groups = [pair[0] if len(pair) == 1 else pair[0].joined(pair[1]) for pair in pairs]
            self.size *= 2


def read_layout(source_file: Input) -> FileLayout:
    """Read the layout of a file or stream. Reads headers, and 8 bytes of up to 200,000 compressed buffers."""
    collector = _Collector()
    outline = read_outline(source_file.openable(), see=collector.see)
    if not collector.buffers.shape[1]:
        collector.buffers = np.zeros((3, len(outline.schema), len(ROLES)), np.int64)
    return FileLayout(source_file.path, outline, collector.groups, collector.buffers, collector.dictionaries)
