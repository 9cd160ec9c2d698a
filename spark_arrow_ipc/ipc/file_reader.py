"""Random access to the record batches of an Arrow IPC file (Columnar.rst, "IPC File Format").

How it works: the footer has the block of each record batch, which one read gets, or with `columns` a few. Where reads
wait for a network, blocks are fetched ahead in threads. Small neighbours of one shape are decoded as one batch
(`read_joined`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from functools import cached_property, partial
from itertools import repeat, takewhile
from typing import Literal
from weakref import WeakSet

import numpy as np

from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.errors import InvalidArrowError, LimitError, error_context, printable
from spark_arrow_ipc.ipc.batch_reader import (
    BatchesAhead,
    BatchReader,
    small_neighbours,
    windows,
    with_blocks,
    with_headers,
)
from spark_arrow_ipc.ipc.bytes.ahead import Ahead
from spark_arrow_ipc.ipc.bytes.body import BodyPlace, Window, gap_nbytes
from spark_arrow_ipc.ipc.bytes.source import MOST_NBYTES, SMALL_NBYTES, KeptEnds
from spark_arrow_ipc.ipc.columns.coalesce import Run, coalesce
from spark_arrow_ipc.ipc.columns.dictionaries import DictionaryBlock, FileDictionaries
from spark_arrow_ipc.ipc.columns.plan import Plan
from spark_arrow_ipc.ipc.columns.projection import SelectedColumns
from spark_arrow_ipc.ipc.columns.row_ranges import BatchRows, can_cut
from spark_arrow_ipc.ipc.constants import FILE_HEADER, Format
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.messages.checksums import (
    FileChecksums,
    MessageChecksums,
    buffer_checksums,
    check_count,
    check_header,
    checksum,
    decode_checksums,
)
from spark_arrow_ipc.ipc.messages.footer import Block, Footer, check_body, check_start, read_first_message, split_block
from spark_arrow_ipc.ipc.messages.message import DictionaryBatchHeader, Message, RecordBatchHeader, expect, inside
from spark_arrow_ipc.ipc.messages.shape import Shapes
from spark_arrow_ipc.ipc.stream_index import IndexedBatch
from spark_arrow_ipc.storage.byte_source import BufferSource, ByteSource


class FileReader(BatchReader):
    """Random access to the record batches of an Arrow IPC file, opened by `open`.

    Each iteration yields all batches in order. Dictionaries of the selected columns are read when a batch needs them.
    """

    format = Format.FILE.value
    is_numbered: Literal[True] = True

    def __init__(
        self,
        source: ByteSource,
        columns: SelectedColumns,
        footer: Footer,
        *,
        verify_checksums: bool = True,
        checks_start: bool = False,
        threads: int = 1,
    ) -> None:
        super().__init__(source, columns)
        self._footer = footer
        self._dictionary_nbytes = 0
        self._verifies = verify_checksums
        self._dictionaries = FileDictionaries(self._list_dictionaries, self._decode_dictionary)
        self._checks_start = checks_start
        self._threads = threads
        # Weak, so that an iteration that was dropped frees its bytes; `close` ends those that are left.
        self._ahead: WeakSet[BatchesAhead | Ahead[RecordBatch]] = WeakSet()

    def check_start(self) -> None:
        """Check that the file begins as one, and that the footer names all its batches, if `ipc.open` did not."""
        # Where reads wait, `ipc.open` leaves this to the first read of a batch, to save a wait.
        if self._checks_start:
            with error_context(path=self.path):
                check_start(self._source, self._footer, self._columns.limits)
            self._checks_start = False

    @property
    def custom_metadata(self) -> CustomMetadata:
        """The custom metadata of the footer."""
        return self._footer.custom_metadata

    def read_schema_metadata(self) -> CustomMetadata:
        """Read the custom metadata of the schema's message, apart from the schema's own; empty without a message.

        Raises
        ------
        ArrowIpcError
            The first message of the file is broken, or not a schema.
        """
        with error_context(path=self.path):
            start = read_first_message(self._source, self._columns.limits)
        return () if start is None else start[0].custom_metadata

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of the record batches."""
        return self._footer.record_batches

    @property
    def dictionary_blocks(self) -> tuple[Block, ...]:
        """The blocks of the dictionary batches."""
        return self._footer.dictionaries

    @cached_property
    def checksums(self) -> FileChecksums | None:
        """The checksums of the file's messages; None without any, or if the footer's belong to another file."""
        checksums = decode_checksums(self.custom_metadata)
        blocks = (*self.blocks, *self.dictionary_blocks)
        if checksums is None or not blocks:
            return None
        self.check_start()
        # The schema message ends where the first batch begins.
        nbytes = min(block.byte_offset for block in blocks) - len(FILE_HEADER)
        if not 0 < nbytes <= self._columns.limits.max_metadata_bytes:
            return None
        # A program may have copied the pair into another file: the checksums cover the schema message, too.
        schema_message = self._source.read_at(len(FILE_HEADER), nbytes)
        return checksums if checksums.describe(schema_message, self.blocks, self.dictionary_blocks) else None

    def headers_fit(self, numbers: range) -> bool:
        """Return True if all headers of record batches are readable and have the checksums of the footer."""
        if (checksums := self.checksums) is None:
            return False
        try:
            source, expected = self._with_headers(numbers), checksums.headers.tolist()
            return all(checksum(self._read_metadata(source, self.blocks[i])) == expected[i] for i in numbers)
        # Statistics are used only for headers that can be read; reading the batch raises.
        except (InvalidArrowError, LimitError):
            return False

    def __len__(self) -> int:
        return len(self.blocks)

    def __iter__(self) -> Iterator[RecordBatch]:
        if self._threads > 1:
            return self._read_in_threads()
        if not self._source.waits:
            # `map`, as a generator would add a frame of Python to each small batch.
            return map(self._read_batch, range(len(self)), repeat(None))
        return (batch for batch, _ in self.read_joined(0, len(self), below_rows=0))

    def _read_in_threads(self) -> Iterator[RecordBatch]:
        self.check_start()
        if self._verifies:
            _ = self.checksums  # before the threads need them
        ahead = self.read_ahead(range(len(self)))
        places = windows(len(self), None if ahead is None else partial(self._take, ahead))
        jobs = (partial(self._read_batch, i, window) for i, window in places)
        decoded = Ahead(jobs, self._threads, "arrow-ipc-decode", waits=True)
        with closing(decoded), nullcontext() if ahead is None else closing(ahead):
            self._ahead.add(decoded)
            yield from decoded

    @property
    def waits(self) -> bool:
        """True if reads wait for a network (`ByteSource.waits`)."""
        return self._source.waits

    def read_ahead(self, numbers: Sequence[int]) -> BatchesAhead | None:
        """Start to read record batches in threads, for `read_joined`; None if reads do not wait.

        Takes memory for 4 batches or 64 MiB, whichever is less, and at least for one batch.

        Parameters
        ----------
        numbers
            Record batches that will be read, rising. The caller closes the result.
        """
        # A small source is in memory already.
        if not self._source.waits or not numbers or (isinstance(self._source, KeptEnds) and self._source.is_small):
            return None
        ahead = BatchesAhead(self._source, self.blocks, self._columns, numbers)
        self._ahead.add(ahead)
        return ahead

    def close(self) -> None:
        """Close the file, if this reader opened it, and its threads; batches stay valid."""
        for ahead in self._ahead:
            ahead.close()
        super().close()

    def read_batch(self, i: int) -> RecordBatch:
        """Read record batch `i`, by one read of its block, or with `columns` by reads of their ranges.

        Raises
        ------
        IndexError
            The file has no batch of this number.
        ArrowIpcError
            Its bytes are broken.
        """
        self._block(i)
        return self._read_batch(i, None)

    def _read_batch(self, i: int, window: ByteSource | None) -> RecordBatch:
        """Read record batch `i` from the source, or from a window in memory."""
        block = self.blocks[i]
        try:
            source: ByteSource = self._source if window is None else window
            self._columns.limits.check("max_batch_bytes", block.body_nbytes, "the body of a batch")
            if self._checks_start:
                self.check_start()
            if self._columns.is_whole and window is None and not isinstance(source, BufferSource):
                # A slow source may read one range in several parts at once.
                (data,) = source.read_ranges([(block.byte_offset, block.nbytes)])
                # Header and body come by one read.
                source = Window(source, block.byte_offset, data)
            checksums = self._checksums(i)
            message = self._read_batch_message(source, block, checksums)
            body_place = BodyPlace(source, block.byte_offset + block.metadata_nbytes, block.body_nbytes)
            return self._columns.read_batch(message, body_place, self._dictionaries.find, buffer_checksums(checksums))
        except BaseException as error:
            self._at(i, block).add_to(error)
            raise

    def read_joined(
        self, start: int, stop: int, *, below_rows: int, ahead: BatchesAhead | None = None
    ) -> Iterator[tuple[RecordBatch, tuple[int, ...]]]:
        """Yield record batches `start` to `stop`, small ones joined, and the rows of each.

        Small neighbours that can be decoded as one batch are joined, up to a few hundred kilobytes, which one read gets
        completely for any projection. Other batches are as from `read_batch`.

        Parameters
        ----------
        start, stop
            Numbers of record batches.
        below_rows
            Batches of this many rows or more are not joined.
        ahead
            From `read_ahead` for these batches and maybe others; by default for these.

        Raises
        ------
        ArrowIpcError
            As `read_batch`, after all batches before the broken one.
        """
        new = None if ahead is not None else self.read_ahead(range(start, stop))
        with nullcontext() if new is None else closing(new):
            self.check_start()
            yield from self._read_joined(start, stop, below_rows, new if ahead is None else ahead)

    def _read_joined(
        self, start: int, stop: int, below_rows: int, ahead: BatchesAhead | None
    ) -> Iterator[tuple[RecordBatch, tuple[int, ...]]]:
        shapes = Shapes(self._columns.limits)
        window: ByteSource | None = None
        held_stop = start  # of the blocks in the window
        coalesces = True
        while start < stop:
            if start >= held_stop:
                bytes_ahead = None if ahead is None else self._take(ahead, start)
                if bytes_ahead is not None:
                    held_stop, window = min(bytes_ahead[0], stop), bytes_ahead[1]
                else:
                    numbers = range(start, stop)
                    held_stop = start + small_neighbours(self.blocks, numbers, small=SMALL_NBYTES, most=MOST_NBYTES)
                    window = self._window(start, held_stop) if held_stop > start + 1 else None
                coalesces = below_rows > 1
            joined = None
            if window is not None and coalesces and held_stop > start + 1:
                joined = self._coalesce(window, range(start, held_stop), shapes, below_rows)
            if joined is None:
                batch = self._read_batch(start, window)
                joined = batch, (batch.num_rows,)
                # A small batch that cannot be coalesced most often has neighbours like it.
                coalesces = coalesces and batch.num_rows >= below_rows
            yield joined
            start += len(joined[1])

    def batch_rows(self, i: int) -> BatchRows | None:
        """Read the header of record batch `i`, to read ranges of its rows; None if they cannot be read apart."""
        block = self._block(i)
        with self._at(i, block):
            self._columns.limits.check("max_batch_bytes", block.body_nbytes, "the body of a batch")
            checksums = self._checksums(i)
            message = self._read_batch_message(self._source, block, checksums)
            # Compressed buffers are decoded completely.
            if not can_cut(self._columns, message):
                return None
            body_place = BodyPlace(self._source, block.byte_offset + block.metadata_nbytes, block.body_nbytes)
            return BatchRows(self._columns, message, body_place, self._dictionaries.find, buffer_checksums(checksums))

    def _take(self, ahead: BatchesAhead, i: int) -> tuple[int, ByteSource] | None:
        with self._at(i, self.blocks[i]):
            return ahead.take(i)

    def _window(self, start: int, stop: int) -> Window:
        first, last = self.blocks[start], self.blocks[stop - 1]
        with self._at(start, first):
            data = self._source.read_at(first.byte_offset, last.byte_offset + last.nbytes - first.byte_offset)
        return Window(self._source, first.byte_offset, data)

    def _coalesce(
        self, window: ByteSource, numbers: range, shapes: Shapes, below_rows: int
    ) -> tuple[RecordBatch, tuple[int, ...]] | None:
        blocks = self.blocks[numbers.start : numbers.stop]
        metadata_nbytes = blocks[0].metadata_nbytes
        if metadata_nbytes > self._columns.limits.max_metadata_bytes:
            return None
        metadata = window.read_at(blocks[0].byte_offset, metadata_nbytes)
        shape = shapes.of(metadata)
        # Batches that are large enough are decoded by themselves, without a copy.
        if shape is None or shape.rows(metadata) >= below_rows:
            return None
        # Messages of one shape have headers of one length.
        alike = list(takewhile(lambda block: block.metadata_nbytes == metadata_nbytes, blocks))
        # The window may begin with earlier blocks; the run takes its data from here on.
        origin = blocks[0].byte_offset
        data = window.read_at(origin, blocks[-1].byte_offset + blocks[-1].nbytes - origin)
        checksums = None
        if self._verifies and self.checksums is not None:
            checksums = self.checksums.record_batches(numbers.start, numbers.start + len(alike))
            if checksums is None:
                return None
        run = Run(
            data,
            np.array([block.byte_offset - origin for block in alike]),
            shape,
            np.array([block.body_nbytes for block in alike]),
            checksums,
        )
        return coalesce(self._columns, run, self._dictionaries.find, below_rows=below_rows)

    def read_header(self, i: int) -> RecordBatchHeader:
        """Read the header of record batch `i`, with its row count."""
        return self._read_header(self._source, i, None)

    def _read_header(self, source: ByteSource, i: int, checksums: MessageChecksums | None) -> RecordBatchHeader:
        block = self._block(i)
        with self._at(i, block):
            message = self._read_message(source, block, checksums)
            return expect(message, MessageHeader.RecordBatch, RecordBatchHeader)

    def read_headers(self) -> Iterator[IndexedBatch]:
        """Yield all record batches by their headers."""
        rows = 0
        for i, block in enumerate(self.blocks):
            header = self.read_header(i)
            yield IndexedBatch(block, header.length, rows, 0, header.compression)
            rows += header.length

    def _with_headers(self, numbers: Sequence[int]) -> ByteSource:
        """Return the source, with the headers of record batches in memory if reads wait and the headers are small."""
        blocks = [self._block(i) for i in numbers] if self._source.waits else ()
        return with_headers(self._source, blocks)

    def row_counts(self, numbers: Sequence[int], *, verified: bool = False) -> list[int]:
        """Return the rows of record batches by their headers, optionally `verified` by their checksums."""
        source = self._with_headers(numbers)
        return [self._read_header(source, i, self._checksums(i) if verified else None).length for i in numbers]

    def nbytes_to_read(self, i: int) -> int:
        """Return the bytes that `read_batch` reads for record batch `i`, by its header."""
        block = self._block(i)
        with self._at(i, block):
            message = self._read_batch_message(self._source, block, None)
            ranges = self._columns.body_ranges(message, gap_nbytes(self._source))
            return block.metadata_nbytes + sum(stop - start for start, stop in ranges)

    def read_dictionary_header(self, i: int) -> DictionaryBatchHeader:
        """Read the header of dictionary batch `i`."""
        block = self.dictionary_blocks[i]
        with self._at(i, block, MessageHeader.DictionaryBatch):
            message = self._read_message(self._dictionary_source, block)
            return expect(message, MessageHeader.DictionaryBatch, DictionaryBatchHeader)

    def _at(self, i: int, block: Block, kind: MessageHeader = MessageHeader.RecordBatch) -> error_context:
        """Return the context of errors in a batch."""
        return error_context(path=self.path, block_kind=kind.noun, block_number=i, byte_offset=block.byte_offset)

    def _block(self, i: int) -> Block:
        if not 0 <= i < len(self):
            raise IndexError(f"expected a record batch number of 0 to {len(self) - 1}, found {i}")
        return self.blocks[i]

    def _checksums(self, i: int) -> MessageChecksums | None:
        """Return the checksums to verify record batch `i`, or None."""
        return self.checksums.record_batch(i) if self._verifies and self.checksums is not None else None

    def _read_batch_message(self, source: ByteSource, block: Block, checksums: MessageChecksums | None) -> Message:
        message = self._read_message(source, block, checksums)
        header = expect(message, MessageHeader.RecordBatch, RecordBatchHeader)
        check_count(len(header.buffers), checksums)
        return message

    def _read_metadata(self, source: ByteSource, block: Block) -> memoryview:
        self._columns.limits.check("max_metadata_bytes", block.metadata_nbytes, "a message's metadata")
        return source.read_at(block.byte_offset, block.metadata_nbytes)

    def _read_message(self, source: ByteSource, block: Block, checksums: MessageChecksums | None = None) -> Message:
        limits = self._columns.limits
        metadata = self._read_metadata(source, block)
        if checksums is not None:
            check_header(metadata, checksums.header)
        message = self._messages.find_alike(metadata)
        if message is None:
            # The prefix is 8 bytes, or 4 before Arrow 0.15.
            start = block.metadata_nbytes - len(split_block(metadata, block))
            with inside(block.byte_offset + start):
                message = self._messages.decode(metadata, start, limits)
        check_body(message.body_nbytes, block)
        return message

    @cached_property
    def _dictionary_source(self) -> ByteSource:
        """The source of dictionary batches; if reads wait, small ones are read at once into memory."""
        return with_blocks(self._source, self.dictionary_blocks)

    def _list_dictionaries(self) -> tuple[DictionaryBlock, ...]:
        headers = map(self.read_dictionary_header, range(len(self.dictionary_blocks)))
        return tuple(DictionaryBlock(header.id, header.is_delta) for header in headers)

    def _decode_dictionary(self, number: int, plan: Plan) -> Array:
        block = self.dictionary_blocks[number]
        at = self._at(number, block, MessageHeader.DictionaryBatch)
        with at:
            checksums = self.checksums.dictionary(number) if self._verifies and self.checksums is not None else None
            message = self._read_message(self._dictionary_source, block, checksums)
            header = expect(message, MessageHeader.DictionaryBatch, DictionaryBatchHeader).data
            check_count(len(header.buffers), checksums)
            body_place = BodyPlace(
                self._dictionary_source, block.byte_offset + block.metadata_nbytes, block.body_nbytes
            )
            find, held = self._dictionaries.find, self._dictionary_nbytes
            values, nbytes = self._columns.read_dictionary(
                header, plan, body_place, find, held=held, at=at, checksums=buffer_checksums(checksums)
            )
            self._dictionary_nbytes += nbytes  # of one budget for all dictionaries
            return values

    def __repr__(self) -> str:
        return f"<Arrow IPC file {printable(self.path or 'in memory')}: {len(self):,} record batches>\n{self.schema}"
