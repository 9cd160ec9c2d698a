"""The metadata of a file or stream: schema, blocks and headers, without bodies.

How it works: `read_file_metadata` goes from header to header, over the footer's blocks in a file and from message to
message in a stream, so it reads a few bytes of a file of any size. It checks as readers do, but not that bodies match
their headers. `read_layout` sums up the bytes of the buffers by these headers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.column_path import walk_fields
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared.files import Input
from spark_arrow_ipc.errors import ArrowIpcError, InvalidFramingError, error_context
from spark_arrow_ipc.ipc.bytes.source import Openable, open_source
from spark_arrow_ipc.ipc.columns.batch_layout import ROLES, ColumnBuffers
from spark_arrow_ipc.ipc.columns.compression import PREFIX_NBYTES, output_nbytes
from spark_arrow_ipc.ipc.concatenated_streams import next_stream
from spark_arrow_ipc.ipc.constants import RAW_BUFFER, Format, Int64s, Limits
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader, MetadataVersion
from spark_arrow_ipc.ipc.messages.footer import Block, check_covered, decode_footer, split_block
from spark_arrow_ipc.ipc.messages.message import (
    DictionaryBatchHeader,
    Message,
    RecordBatchHeader,
    decode_message,
    read_footer,
    read_head,
    read_message_or_end,
    read_stream_message,
    sniff,
)
from spark_arrow_ipc.ipc.messages.schema import SchemaHeader, SchemaMessage, decode_schema
from spark_arrow_ipc.storage.byte_source import ByteSource


@dataclass(frozen=True, slots=True)
class BatchMetadata:
    """One record batch or dictionary batch, by its header."""

    block: Block
    # Rows, or values of a dictionary
    length: int
    # "lz4", "zstd" or None
    compression: str | None
    # "V4" or "V5"
    metadata_version: str
    custom_metadata: t.CustomMetadata
    # None for a record batch
    dictionary_id: int | None = None
    # True if it extends a dictionary
    is_delta: bool = False
    # All buffers of a compressed body, without padding; None if it is not compressed, not measured, or broken
    uncompressed_nbytes: int | None = None


@dataclass(frozen=True, slots=True)
class FileMetadata:
    """The metadata of one file or stream."""

    path: str
    # "file" or "stream"
    format: str
    nbytes: int
    schema: Schema
    # Dictionary id -> the paths of the fields that use it
    dictionary_fields: dict[int, tuple[str, ...]]
    # In the order of the footer, or of the stream
    record_batches: tuple[BatchMetadata, ...]
    dictionaries: tuple[BatchMetadata, ...]
    # Those of the footer; a stream has none
    custom_metadata: t.CustomMetadata
    # The end of a stream's messages, where its end marker should be; None for a file
    end_offset: int | None = None
    # The start of another stream after the end of this one; None without any
    next_offset: int | None = None

    @property
    def num_rows(self) -> int:
        """The number of rows, by headers."""
        return sum(batch.length for batch in self.record_batches)

    @property
    def compressions(self) -> tuple[str, ...]:
        """The codecs of all batches in alphabetical order, with "none"."""
        return tuple(sorted({batch.compression or "none" for batch in (*self.record_batches, *self.dictionaries)}))

    @property
    def sizes_of_measured(self) -> tuple[int, int, int]:
        """Number, body bytes and uncompressed bytes of the measured batches."""
        every = (*self.record_batches, *self.dictionaries)
        sizes = [(b.block.body_nbytes, b.uncompressed_nbytes) for b in every if b.uncompressed_nbytes is not None]
        return len(sizes), sum(size for size, _ in sizes), sum(size or 0 for _, size in sizes)


SeeBatch: TypeAlias = Callable[[ByteSource, Schema, RecordBatchHeader, "BatchMetadata"], None]
"""Is called for each record batch and dictionary batch, with the schema of the file and the header of the batch."""


def read_file_metadata(
    openable: Openable, limits: Limits | None = None, *, measure: int | None = 0, see: SeeBatch | None = None
) -> FileMetadata:
    """Read the metadata of a file or stream, and the uncompressed sizes of the first `measure` batches of each kind, or all."""
    limits = limits or Limits()
    with closing(open_source(openable)) as source, error_context(path=source.path):
        read = _read_file if sniff(read_head(source), source.nbytes) is Format.FILE else _read_stream
        return read(source.path or "", source, limits, _Measure(source, measure, see))


class _Measure:
    """Reads the uncompressed sizes of the first compressed batches of each kind."""

    def __init__(self, source: ByteSource, most: int | None, see: SeeBatch | None = None) -> None:
        self._source = source
        self._see = see
        self.schema = Schema(())
        self._left = dict.fromkeys((MessageHeader.RecordBatch, MessageHeader.DictionaryBatch), most)

    def show(self, header: RecordBatchHeader, batch: BatchMetadata) -> BatchMetadata:
        """Pass a batch to `see`, and return it."""
        if self._see is not None:
            self._see(self._source, self.schema, header, batch)
        return batch

    def sum_uncompressed(self, kind: MessageHeader, header: RecordBatchHeader, block: Block) -> int | None:
        """Return the uncompressed bytes of a body, or None if it is not measured or broken."""
        left = self._left[kind]
        if left is not None:
            self._left[kind] = left - 1
        if header.compression is None or (left is not None and left <= 0):
            return None
        try:
            return sum(buffer_sizes(self._source, header, block))
        except ArrowIpcError:  # bodies are checked by `validate`
            return None


def buffer_sizes(source: ByteSource, header: RecordBatchHeader, block: Block) -> Iterator[int]:
    """Yield the uncompressed bytes of each buffer, 0 for one outside of the body; a small read for each compressed one."""
    body_offset = block.byte_offset + block.metadata_nbytes
    for start, nbytes in header.buffers.tolist():
        # Offsets are claims of the file.
        if not nbytes or not 0 <= start <= block.body_nbytes - nbytes:
            yield 0
        elif header.compression is None:
            yield nbytes
        else:
            # The length is in the first 8 bytes of the buffer itself, so that each costs a read.
            prefix = source.read_at(body_offset + start, min(nbytes, PREFIX_NBYTES))
            declared = output_nbytes(prefix)  # first, as it refuses a shorter prefix
            is_raw = int.from_bytes(prefix, "little", signed=True) == RAW_BUFFER
            yield nbytes - PREFIX_NBYTES if is_raw else declared


def _read_file(path: str, source: ByteSource, limits: Limits, measure: _Measure) -> FileMetadata:
    flatbuffer, footer_offset = read_footer(source, limits)
    with error_context(byte_offset=footer_offset):
        footer = decode_footer(flatbuffer, footer_offset, limits)
        schema = decode_schema(footer.schema.view, limits)
    # A footer that names too few blocks would hide rows.
    check_covered(source, read_head(source), footer, limits)
    measure.schema = schema.schema
    dictionaries = [
        _read_block(source, i, block, limits, measure=measure, kind="dictionary batch")
        for i, block in enumerate(footer.dictionaries)
    ]
    batches = [
        _read_block(source, i, block, limits, measure=measure, kind="record batch")
        for i, block in enumerate(footer.record_batches)
    ]
    return _build_metadata(source, schema, [*dictionaries, *batches], path=path, custom_metadata=footer.custom_metadata)


def _read_block(
    source: ByteSource, number: int, block: Block, limits: Limits, *, measure: _Measure, kind: str
) -> BatchMetadata:
    with error_context(block_kind=kind, block_number=number, byte_offset=block.byte_offset):
        # Before its memory is allocated.
        limits.check("max_metadata_bytes", block.metadata_nbytes, "a message's metadata")
        metadata = source.read_at(block.byte_offset, block.metadata_nbytes)
        message = decode_message(split_block(metadata, block), limits)
        batch = _batch(message, block, measure)
        read_kind = "record batch" if batch.dictionary_id is None else "dictionary batch"
        if read_kind != kind:
            raise InvalidFramingError(expected=f"a {kind}, as the footer says", found=f"a {read_kind}", spec="File.fbs")
        return batch


def _read_stream(path: str, source: ByteSource, limits: Limits, measure: _Measure) -> FileMetadata:
    messages = _stream_messages(source, limits)
    message, block = next(messages, (None, None))
    if message is None or block is None or not isinstance(message.header, SchemaHeader):
        actual = "the end of the stream" if message is None else f"a {message.kind.noun}"
        raise InvalidFramingError(expected="a schema as the first message", found=actual, byte_offset=0)
    schema = decode_schema(message.header.view, limits)
    end_offset = block.nbytes
    measure.schema = schema.schema
    batches = []
    for message, block in messages:
        batches.append(_batch(message, block, measure))
        # A stream may have any number of messages, and each takes memory here.
        limits.check("max_blocks", len(batches), "an outline of a stream")
        end_offset = block.byte_offset + block.nbytes
    metadata = _build_metadata(source, schema, batches, path=path, end_offset=end_offset)
    # The marker may be missing, or one of the two forms.
    after_marker = read_message_or_end(source, end_offset, limits)
    assert isinstance(after_marker, int), "the messages ended here"
    return replace(metadata, next_offset=after_marker) if next_stream(source, after_marker, limits) else metadata


def _stream_messages(source: ByteSource, limits: Limits) -> Iterator[tuple[Message, Block]]:
    byte_offset = 0
    while (start := read_stream_message(source, byte_offset, limits)) is not None:
        flatbuffer, body_offset = start
        with error_context(byte_offset=byte_offset):
            message = decode_message(flatbuffer, limits)
            # The body is not read, but its last byte must exist: a stream has no footer that proves it.
            if message.body_nbytes:
                source.read_at(body_offset + message.body_nbytes - 1, 1)
        yield message, Block(byte_offset, body_offset - byte_offset, message.body_nbytes)
        byte_offset = body_offset + message.body_nbytes


def _batch(message: Message, block: Block, measure: _Measure) -> BatchMetadata:
    header = message.header
    dictionary_id, is_delta = None, False
    if isinstance(header, DictionaryBatchHeader):
        dictionary_id, is_delta, header = header.id, header.is_delta, header.data
    if not isinstance(header, RecordBatchHeader):
        raise InvalidFramingError(
            expected="a record batch or dictionary batch", found=f"a {message.kind.noun}", byte_offset=block.byte_offset
        )
    batch = BatchMetadata(
        block,
        header.length,
        None if header.compression is None else header.compression.word,
        message.version.name,
        message.custom_metadata,
        dictionary_id,
        is_delta,
        measure.sum_uncompressed(message.kind, header, block),
    )
    return measure.show(header, batch)


def _build_metadata(
    source: ByteSource,
    message: SchemaMessage,
    batches: list[BatchMetadata],
    *,
    path: str,
    custom_metadata: t.CustomMetadata | None = None,
    end_offset: int | None = None,
) -> FileMetadata:
    encoded = [path for path, field in walk_fields(message.schema.fields) if isinstance(field.type, t.Dictionary)]
    fields: dict[int, tuple[str, ...]] = {}
    for field_path, dictionary_id in zip(encoded, message.dictionary_ids, strict=True):
        # Several fields may share a dictionary.
        fields[dictionary_id] = (*fields.get(dictionary_id, ()), field_path)
    return FileMetadata(
        path=path,
        format=(Format.STREAM if custom_metadata is None else Format.FILE).value,
        nbytes=source.nbytes or 0,
        schema=message.schema,
        dictionary_fields=fields,
        record_batches=tuple(batch for batch in batches if batch.dictionary_id is None),
        dictionaries=tuple(batch for batch in batches if batch.dictionary_id is not None),
        custom_metadata=custom_metadata or (),
        end_offset=end_offset,
    )


# ---- the bytes of a file by record batch, column and buffer

# Most groups of record batches in a picture; more batches make at least half as many
_MOST_GROUPS: Final = 32

# Compressed buffers whose uncompressed sizes are read: each is a small read.
_MOST_MEASURED: Final = 200_000

FILE, MEASURED, MEMORY = range(3)
"""Rows of a vector of bytes: in the file, in the file of measured buffers, and in memory of measured buffers."""


class BufferSizes:
    """Measures the buffers of batches, up to a number of compressed ones: each is a small read."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._compiled: tuple[Schema, str, ColumnBuffers] | None = None

    def buffers(self, schema: Schema, batch: BatchMetadata) -> ColumnBuffers:
        """Return the columns and roles of buffers, compiled once for neighbouring batches of a schema."""
        compiled = self._compiled
        if compiled is None or compiled[0] is not schema or compiled[1] != batch.metadata_version:
            buffers = ColumnBuffers(schema, MetadataVersion[batch.metadata_version])
            self._compiled = compiled = schema, batch.metadata_version, buffers
        return compiled[2]

    def sizes(
        self, source: ByteSource, header: RecordBatchHeader, batch: BatchMetadata, *, is_measured: bool = True
    ) -> Int64s:
        """Return the bytes of each buffer: shape ``(3, buffers)``, see `FILE`; zeros if it is not measured or broken."""
        nbytes = header.buffers[:, 1].astype(np.int64)
        sizes = np.stack([nbytes, np.zeros_like(nbytes), np.zeros_like(nbytes)])
        if header.compression is not None:
            if not is_measured:
                return sizes
            # Each measured buffer is a read: a file of millions of buffers would take hours.
            self._left -= len(nbytes)
            if self._left < 0:
                return sizes
        try:
            sizes[MEMORY] = np.fromiter(buffer_sizes(source, header, batch.block), np.int64)
        except ArrowIpcError:  # `validate` has the error
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

    def merge(self, other: Group) -> Group:
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
    metadata: FileMetadata
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

    def see(self, source: ByteSource, schema: Schema, header: RecordBatchHeader, batch: BatchMetadata) -> None:
        """Add a batch."""
        # One batch of each group is measured, as neighbours compress alike and each buffer costs a read.
        is_measured = batch.dictionary_id is not None or not self.number % self.size
        sizes = self.measure.sizes(source, header, batch, is_measured=is_measured)
        if batch.dictionary_id is not None:
            self.dictionaries += sizes.sum(axis=1)
            return
        buffers = self.measure.buffers(schema, batch)
        # Of each buffer its column and its role, also for views, whose number of buffers varies.
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
        last = self.groups[-1] if self.groups else None
        if last is not None and last.last - last.first + 1 < self.size:
            self.groups[-1] = last.merge(one)
        else:
            self.groups.append(one)
        self.number += 1
        if len(self.groups) > _MOST_GROUPS:
            # Groups double, so that a file of any number of batches has a bounded picture.
            pairs = [self.groups[i : i + 2] for i in range(0, len(self.groups), 2)]
            self.groups = [pair[0] if len(pair) == 1 else pair[0].merge(pair[1]) for pair in pairs]
            self.size *= 2


def read_layout(source_file: Input) -> FileLayout:
    """Read the layout of a file or stream. Reads headers, and 8 bytes of up to 200,000 compressed buffers."""
    collector = _Collector()
    metadata = read_file_metadata(source_file.openable(), see=collector.see)
    if not collector.buffers.shape[1]:
        collector.buffers = np.zeros((3, len(metadata.schema), len(ROLES)), np.int64)
    return FileLayout(source_file.path, metadata, collector.groups, collector.buffers, collector.dictionaries)
