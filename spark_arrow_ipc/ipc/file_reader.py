"""Random access to the record batches of an Arrow IPC file (Columnar.rst, "IPC File Format")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

import numpy as np

from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.errors import (
    InvalidFramingError,
    error_context,
)
from spark_arrow_ipc.ipc.batch_reader import BatchReader, Window, expect, inside
from spark_arrow_ipc.ipc.body import BodyPlace
from spark_arrow_ipc.ipc.coalesce import Run, Shapes, coalesce
from spark_arrow_ipc.ipc.constants import Format, MessageHeader
from spark_arrow_ipc.ipc.dictionaries import DictionaryBlock, FileDictionaries
from spark_arrow_ipc.ipc.framing import split_block
from spark_arrow_ipc.ipc.metadata.dictionary_batch import DictionaryBatchHeader
from spark_arrow_ipc.ipc.metadata.footer import Block, Footer
from spark_arrow_ipc.ipc.metadata.message import Message, decode_message
from spark_arrow_ipc.ipc.metadata.record_batch import RecordBatchHeader
from spark_arrow_ipc.ipc.plan import Plan
from spark_arrow_ipc.ipc.projection import SelectedColumns
from spark_arrow_ipc.ipc.read_ahead import MOST_NBYTES, SMALL_NBYTES
from spark_arrow_ipc.ipc.row_ranges import BatchRows, can_cut
from spark_arrow_ipc.ipc.source import ByteSource


class FileReader(BatchReader):
    """Random access to the record batches of an Arrow IPC file. Made by `open`.

    Iterating yields all batches in order; each iteration starts anew. Dictionaries are read on first need, only
    those of the columns that are read.
    """

    format = Format.FILE.value

    def __init__(self, source: ByteSource, columns: SelectedColumns, footer: Footer) -> None:
        super().__init__(source, columns)
        self._footer = footer
        self._dictionary_nbytes = 0
        self._dictionaries = FileDictionaries(self._read_dictionary_headers, self._decode_dictionary)

    @property
    def custom_metadata(self) -> CustomMetadata:
        """The custom metadata of the footer."""
        return self._footer.custom_metadata

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The places of the record batches."""
        return self._footer.record_batches

    @property
    def dictionary_blocks(self) -> tuple[Block, ...]:
        """The places of the dictionary batches."""
        return self._footer.dictionaries

    def __len__(self) -> int:
        return len(self.blocks)

    def __iter__(self) -> Iterator[RecordBatch]:
        return map(self.read_batch, range(len(self)))

    def read_batch(self, i: int) -> RecordBatch:
        """Read record batch `i`: one read of its block, or with `columns` of the ranges they need.

        Raises
        ------
        IndexError
            There is no such batch.
        ArrowIpcError
            Its bytes are broken.
        """
        self._block(i)
        return self._read_batch(i, None)

    def _read_batch(self, i: int, window: Window | None) -> RecordBatch:
        """Read record batch `i`, from a window in memory if there is one."""
        block = self.blocks[i]
        with error_context(path=self.path, block_kind="record batch", block_number=i, byte_offset=block.byte_offset):
            source: ByteSource = self._source if window is None else window
            self._columns.limits.check("max_batch_bytes", block.body_nbytes, "the body of a batch")
            if self._columns.is_whole and window is None:
                source = Window(source, block.byte_offset, source.read_at(block.byte_offset, block.nbytes))
            message = self._read_batch_message(source, block)
            place = BodyPlace(source, block.byte_offset + block.metadata_nbytes, block.body_nbytes)
            return self._columns.read_batch(message, place, self._dictionaries.find)

    def read_joined(self, start: int, stop: int, *, below_rows: int) -> Iterator[tuple[RecordBatch, tuple[int, ...]]]:
        """Yield record batches `start` to `stop`, small ones joined, and the rows of each.

        Small neighbours that can be decoded as one batch are joined: a few hundred kilobytes at a time, read at once
        and whole whatever the projection. Other batches are as `read_batch` returns them.

        Parameters
        ----------
        start, stop
            Numbers of record batches.
        below_rows
            Batches of this many rows or more are not joined.

        Raises
        ------
        ArrowIpcError
            As `read_batch`, after all batches before the broken one.
        """
        shapes = Shapes(self._columns.limits)
        window: Window | None = None
        held_stop = start
        """Blocks before this one lie in the window."""
        coalesces = True
        while start < stop:
            if start >= held_stop:
                held_stop = start + self._small_neighbours(start, stop)
                window = self._window(start, held_stop) if held_stop > start + 1 else None
                coalesces = below_rows > 1
            joined = None
            if window is not None and coalesces and held_stop > start + 1:
                joined = self._coalesce(window, self.blocks[start:held_stop], shapes, below_rows)
            if joined is None:
                batch = self._read_batch(start, window)
                joined = batch, (batch.num_rows,)
                # A small batch that cannot be coalesced most often has neighbours like it.
                coalesces = coalesces and batch.num_rows >= below_rows
            yield joined
            start += len(joined[1])

    def batch_rows(self, i: int) -> BatchRows | None:
        """Return record batch `i` for reading ranges of its rows, or None if that is impossible.

        Reads its header, and not its body.
        """
        block = self._block(i)
        with error_context(path=self.path, block_kind="record batch", block_number=i, byte_offset=block.byte_offset):
            self._columns.limits.check("max_batch_bytes", block.body_nbytes, "the body of a batch")
            message = self._read_batch_message(self._source, block)
            if not can_cut(self._columns, message):
                return None
            place = BodyPlace(self._source, block.byte_offset + block.metadata_nbytes, block.body_nbytes)
            return BatchRows(self._columns, message, place, self._dictionaries.find)

    def _small_neighbours(self, start: int, stop: int) -> int:
        """Count the record batches from `start` on that are worth one read together, at least one."""
        nbytes, next_offset = 0, self.blocks[start].byte_offset
        for i in range(start, stop):
            block = self.blocks[i]
            nbytes += block.nbytes
            if block.byte_offset != next_offset or block.nbytes > SMALL_NBYTES or nbytes > MOST_NBYTES:
                return max(i - start, 1)
            next_offset += block.nbytes
        return stop - start

    def _window(self, start: int, stop: int) -> Window:
        byte_offset, last = self.blocks[start].byte_offset, self.blocks[stop - 1]
        with error_context(path=self.path, block_kind="record batch", block_number=start, byte_offset=byte_offset):
            data = self._source.read_at(byte_offset, last.byte_offset + last.nbytes - byte_offset)
        return Window(self._source, byte_offset, data)

    def _coalesce(
        self, window: Window, blocks: Sequence[Block], shapes: Shapes, below_rows: int
    ) -> tuple[RecordBatch, tuple[int, ...]] | None:
        metadata_nbytes = blocks[0].metadata_nbytes
        if metadata_nbytes > self._columns.limits.max_metadata_bytes:
            return None
        metadata = window.read_at(blocks[0].byte_offset, metadata_nbytes)
        shape = shapes.of(metadata)
        if shape is None or shape.rows(metadata) >= below_rows:
            return None
        alike = list(takewhile(lambda block: block.metadata_nbytes == metadata_nbytes, blocks))
        # The window may begin with earlier blocks; the run takes its data from here on.
        origin = blocks[0].byte_offset
        data = window.read_at(origin, blocks[-1].byte_offset + blocks[-1].nbytes - origin)
        run = Run(
            data,
            np.array([block.byte_offset - origin for block in alike]),
            shape,
            np.array([block.body_nbytes for block in alike]),
        )
        return coalesce(self._columns, run, self._dictionaries.find, below_rows=below_rows)

    def read_header(self, i: int) -> RecordBatchHeader:
        """Read the header of record batch `i`, with its row count, and not its body."""
        block = self._block(i)
        with error_context(path=self.path, block_kind="record batch", block_number=i, byte_offset=block.byte_offset):
            return expect(self._read_message(self._source, block), MessageHeader.RecordBatch, RecordBatchHeader)

    def wanted_nbytes(self, i: int) -> int:
        """Return the bytes that `read_batch` reads for record batch `i`. Reads its header only."""
        block = self._block(i)
        with error_context(path=self.path, block_kind="record batch", block_number=i, byte_offset=block.byte_offset):
            message = self._read_batch_message(self._source, block)
            return block.metadata_nbytes + self._columns.wanted_nbytes(message)

    def read_dictionary_header(self, i: int) -> DictionaryBatchHeader:
        """Read the header of dictionary batch `i`, and not its body."""
        block = self.dictionary_blocks[i]
        with error_context(
            path=self.path, block_kind="dictionary batch", block_number=i, byte_offset=block.byte_offset
        ):
            message = self._read_message(self._source, block)
            return expect(message, MessageHeader.DictionaryBatch, DictionaryBatchHeader)

    def _block(self, i: int) -> Block:
        if not 0 <= i < len(self):
            raise IndexError(f"expected a record batch number of 0 to {len(self) - 1}, found {i}")
        return self.blocks[i]

    def _read_batch_message(self, source: ByteSource, block: Block) -> Message:
        message = self._read_message(source, block)
        expect(message, MessageHeader.RecordBatch, RecordBatchHeader)
        return message

    def _read_message(self, source: ByteSource, block: Block) -> Message:
        limits = self._columns.limits
        limits.check("max_metadata_bytes", block.metadata_nbytes, "a message's metadata")
        flatbuffer = split_block(source.read_at(block.byte_offset, block.metadata_nbytes), block)
        with inside(block.byte_offset + block.metadata_nbytes - len(flatbuffer)):
            message = decode_message(flatbuffer, limits)
        if message.body_nbytes != block.body_nbytes:
            raise InvalidFramingError(
                expected=f"a body of {block.body_nbytes:,} bytes, as the footer says",
                found=f"{message.body_nbytes:,} in the message",
                spec="File.fbs, Block.bodyLength",
            )
        return message

    def _read_dictionary_headers(self) -> tuple[DictionaryBlock, ...]:
        headers = map(self.read_dictionary_header, range(len(self.dictionary_blocks)))
        return tuple(DictionaryBlock(header.id, header.is_delta) for header in headers)

    def _decode_dictionary(self, number: int, plan: Plan) -> Array:
        block = self.dictionary_blocks[number]
        with error_context(
            path=self.path, block_kind="dictionary batch", block_number=number, byte_offset=block.byte_offset
        ):
            message = self._read_message(self._source, block)
            header = expect(message, MessageHeader.DictionaryBatch, DictionaryBatchHeader).data
            place = BodyPlace(self._source, block.byte_offset + block.metadata_nbytes, block.body_nbytes)
            held = self._dictionary_nbytes
            values, nbytes = self._columns.read_dictionary(header, plan, place, self._dictionaries.find, held=held)
            self._dictionary_nbytes += nbytes
            return values

    def __repr__(self) -> str:
        return f"<Arrow IPC file {self.path or 'in memory'}: {len(self):,} record batches>\n{self.schema}"
