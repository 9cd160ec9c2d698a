"""Base class of the readers of both formats, the import of record batches of any library, and blocks fetched ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, TypeAlias

from spark_arrow_ipc.arrow.record_batch import RecordBatch, RecordBatchStream
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.ipc.bytes.ahead import AHEAD_NBYTES, PIECE_NBYTES, Fetch, Prefetch
from spark_arrow_ipc.ipc.bytes.body import GAP_NBYTES, WAITING_GAP_NBYTES, Fetched, Window, join_ranges
from spark_arrow_ipc.ipc.columns.projection import SelectedColumns
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.messages.footer import Block, split_block
from spark_arrow_ipc.ipc.messages.message import RecordBatchHeader, decode_message, expect
from spark_arrow_ipc.ipc.messages.shape import MessageDecoder
from spark_arrow_ipc.storage.byte_source import ByteSource


class NumberedBatches(Protocol):
    """Record batches with numbers: of a file's footer, or pieces of tensors."""

    is_numbered: Literal[True]

    def __len__(self) -> int: ...

    def row_counts(self, numbers: Sequence[int]) -> list[int]:
        """Return the rows of some batches, by their headers."""


class BatchReader:
    """Base class of both readers: schema, path, and closing."""

    format: str
    is_numbered: bool
    """True for random access by numbers; a stream is read in order."""

    def __init__(self, source: ByteSource, columns: SelectedColumns) -> None:
        self._source = source
        self._columns = columns
        self._messages = MessageDecoder()

    @property
    def schema(self) -> Schema:
        """The schema of the batches, with all or the selected columns."""
        return self._columns.schema

    @property
    def file_schema(self) -> Schema:
        """The schema of the file or stream with all its columns."""
        return self._columns.message.schema

    @property
    def path(self) -> str | None:
        """The caller's name of the file, or None for bytes in memory."""
        return self._source.path

    def null_counts(self, header: RecordBatchHeader) -> list[int | None]:
        """Return the nulls of each column of `schema` by the header of a batch; None for a column without a count."""
        return self._columns.null_counts(header)

    def __iter__(self) -> Iterator[RecordBatch]:
        raise NotImplementedError

    def __arrow_c_schema__(self) -> object:
        """Return a capsule of the schema (the Arrow PyCapsule interface)."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule of all record batches of a file, or the remaining ones of a stream.

        Each is decoded when the consumer requests it, in the consumer's thread; until then the reader must stay open.

        Raises
        ------
        SchemaMismatchError
            The requested schema has other columns. Other types are not provided: "conversion is best-effort".
        """
        from spark_arrow_ipc.arrow import c_data  # imported late: programs that export nothing need no ctypes

        c_data.check_requested(self.schema.fields, requested_schema)
        return c_data.export_stream(
            self.schema.fields, self.schema.custom_metadata, (batch.as_structs() for batch in self)
        )

    def to_pyarrow(self) -> Any:
        """Return a ``pyarrow.RecordBatchReader`` of the record batches of `__arrow_c_stream__`, without a copy.

        Raises
        ------
        ImportError
            pyarrow is not installed.
        """
        try:
            import pyarrow as pa
        except ImportError as error:
            raise ImportError("to_pyarrow needs pyarrow: pip install pyarrow") from error
        return pa.RecordBatchReader.from_stream(self)

    def _repr_html_(self) -> str:
        from spark_arrow_ipc.arrow.python_values import to_text  # imported late, for notebooks

        return to_text.reader_html(repr(self).partition("\n")[0], self.schema.fields, self.schema.custom_metadata)

    def close(self) -> None:
        """Close the file, if this reader opened it; batches stay valid."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


if TYPE_CHECKING:
    from spark_arrow_ipc.arrow.c_data import ArrowArrayExportable, ArrowStreamExportable

AnyBatches: TypeAlias = "RecordBatch | ArrowStreamExportable | ArrowArrayExportable"
"""A record batch, or an object of any library with ``__arrow_c_stream__`` or ``__arrow_c_array__``."""

# The record batches of one of `AnyBatches`; a table or reader has a schema, even without a batch.
_Part: TypeAlias = BatchReader | RecordBatchStream | Iterable[RecordBatch]


_OURS: Final = (BatchReader, RecordBatchStream)


def record_batches(source: Iterable[AnyBatches] | AnyBatches) -> Iterator[RecordBatch]:
    """Return the record batches of a source, one after the other; imported ones are checked, and not copied."""
    return chain.from_iterable(_parts(source))


def _parts(source: Any) -> Iterator[_Part]:
    """Return the parts of a source: itself, or the items of an iterable."""
    part = _part(source)
    if part is not None:
        return iter((part,))
    if not isinstance(source, Iterable):
        raise TypeError(f"expected record batches, found {type(source).__name__}")
    items: Iterable[Any] = source
    # An item without a method of the interface is an error of from_arrow, which names its type.
    return (_part(item) or RecordBatchStream.from_arrow(item) for item in items)


def _part(source: Any) -> _Part | None:
    """Return one of `AnyBatches` as its record batches, and anything else as None."""
    # Before the interfaces of other libraries, which a record batch has too.
    if isinstance(source, RecordBatch):
        return (source,)
    if isinstance(source, _OURS):
        return source
    if hasattr(source, "__arrow_c_stream__"):
        stream = RecordBatchStream.from_arrow(source)
        return _with_empty(stream, source) if hasattr(source, "__arrow_c_array__") else stream
    return (RecordBatch.from_arrow(source),) if hasattr(source, "__arrow_c_array__") else None


def _with_empty(stream: RecordBatchStream, source: Any) -> Iterator[RecordBatch]:
    """Yield the batches of a source that can also export all its rows as one array."""
    batch = None
    for batch in stream:
        yield batch
    if batch is None:  # the stream of a pyarrow batch without rows is empty
        yield RecordBatch.from_arrow(source)


def with_schema(
    source: Iterable[AnyBatches] | AnyBatches, schema: Schema | None
) -> tuple[Schema, Iterator[RecordBatch]]:
    """Return the given schema, or the schema of the first batch or of empty tables, and all batches of a source."""
    if schema is not None:
        return schema, record_batches(source)
    parts = _parts(source)
    for part in parts:
        batches = iter(part)
        head = next(batches, None)
        if head is not None:
            return head.schema, chain((head,), batches, chain.from_iterable(parts))
        if isinstance(part, _OURS):
            # Without a row no table decides.
            if schema is not None and schema != part.schema:
                raise ValueError("expected tables of one schema, found only empty ones, whose schemas differ")
            schema = part.schema
    if schema is None:
        raise ValueError("expected a schema, or at least one record batch or table, found neither")
    return schema, iter(())


# First bytes of a batch that are read for the offsets of its columns.
_HEADER_NBYTES: Final = 16 << 10

# Most bytes of small neighbours that are read together.
_GROUP_NBYTES: Final = 4 << 20

# Most batches that are fetched at once. A projected one is few bytes, by two waits.
_COMPLETE_BATCHES: Final = 4
_PROJECTED_BATCHES: Final = 8


def windows(
    count: int, take: Callable[[int], tuple[int, ByteSource] | None] | None
) -> Iterator[tuple[int, ByteSource | None]]:
    """Yield the number of each record batch, and its bytes if they were read ahead."""
    stop, window = 0, None
    for i in range(count):
        # A window may hold several small batches.
        if take is not None and i >= stop:
            stop, window = take(i) or (i + 1, None)
        yield i, window


def small_neighbours(blocks: Sequence[Block], numbers: range, *, small: int, most: int) -> int:
    """Count the first record batches of `numbers` that are worth one read together, at least one."""
    nbytes, next_offset = 0, blocks[numbers.start].byte_offset
    for i in numbers:
        block = blocks[i]
        nbytes += block.nbytes
        # Neighbours in the footer may be apart in the file.
        if block.byte_offset != next_offset or block.nbytes > small or nbytes > most:
            return max(i - numbers.start, 1)
        next_offset += block.nbytes
    return len(numbers)


class BatchesAhead:
    """The bytes of the record batches `numbers`, which rise, fetched ahead of their use from a source that waits."""

    def __init__(
        self, source: ByteSource, blocks: Sequence[Block], columns: SelectedColumns, numbers: Sequence[int]
    ) -> None:
        self._source, self._blocks, self._columns = source, blocks, columns
        ahead = _COMPLETE_BATCHES if columns.is_whole else _PROJECTED_BATCHES
        self._prefetch = Prefetch(source, self._jobs(numbers), ahead=ahead)
        self.close = self._prefetch.close

    def take(self, number: int) -> tuple[int, ByteSource] | None:
        """Return the bytes of a record batch and its small neighbours, and the number after the last one.

        None if they were not fetched, so that the usual read gets them or raises.
        """
        return self._prefetch.take(number)

    def _jobs(self, numbers: Sequence[int]) -> Iterator[tuple[int, partial[Fetch[tuple[int, ByteSource] | None]]]]:
        at = 0
        while at < len(numbers):
            start = stop = numbers[at]
            while at < len(numbers) and numbers[at] == stop:
                at, stop = at + 1, stop + 1
            while start < stop:
                count = small_neighbours(self._blocks, range(start, stop), small=WAITING_GAP_NBYTES, most=_GROUP_NBYTES)
                block = self._blocks[start]
                is_whole = self._columns.is_whole or block.nbytes <= WAITING_GAP_NBYTES
                yield (
                    start,
                    partial(self._fetch_blocks, start, start + count)
                    if is_whole
                    else partial(self._fetch_ranges, start),
                )
                start += count

    def _fetch_blocks(self, start: int, stop: int) -> Fetch[tuple[int, ByteSource] | None]:
        head, tail = self._blocks[start], self._blocks[stop - 1]
        if head.body_nbytes > self._columns.limits.max_batch_bytes:
            return None  # without memory for it; the usual read raises the error
        (data,) = yield [(head.byte_offset, tail.byte_offset + tail.nbytes - head.byte_offset)]
        return stop, Window(self._source, head.byte_offset, data)

    def _fetch_ranges(self, number: int) -> Fetch[tuple[int, ByteSource] | None]:
        block, limits = self._blocks[number], self._columns.limits
        if block.metadata_nbytes > limits.max_metadata_bytes or block.body_nbytes > limits.max_batch_bytes:
            return None
        # The header's size is known, and a few more bytes cost no wait: small columns may be in them.
        head_nbytes = min(max(block.metadata_nbytes, _HEADER_NBYTES), block.nbytes)
        (head,) = yield [(block.byte_offset, head_nbytes)]
        ranges = [(start, nbytes) for start, nbytes in self._ranges_of(block, head) if start + nbytes > head_nbytes]
        places = [(block.byte_offset + start, nbytes) for start, nbytes in ranges]
        # All ranges at once, which costs one wait.
        parts = (yield places) if places else ()
        starts = [block.byte_offset, *(start for start, _ in places)]
        return number + 1, Fetched(self._source, starts, [head, *parts])

    def _ranges_of(self, block: Block, head: memoryview) -> list[tuple[int, int]]:
        """Return the ranges of a batch's columns, counted from its first byte; none if its header is broken."""
        try:
            metadata = head[: block.metadata_nbytes]
            message = decode_message(split_block(metadata, block), self._columns.limits)
            expect(message, MessageHeader.RecordBatch, RecordBatchHeader)
            ranges = self._columns.body_ranges(message, WAITING_GAP_NBYTES)
        except ArrowIpcError:  # the usual read raises it with its location
            return []
        return [(block.metadata_nbytes + start, stop - start) for start, stop in ranges if stop <= block.body_nbytes]


def with_blocks(source: ByteSource, blocks: Sequence[Block]) -> ByteSource:
    """Return a source that waits with blocks in memory, or only their headers if they are large; others unchanged."""
    if not source.waits:
        return source
    places = join_ranges([(block.byte_offset, block.nbytes) for block in blocks], WAITING_GAP_NBYTES)
    if sum(stop - start for start, stop in places) > PIECE_NBYTES:
        return with_headers(source, blocks)
    return _with_ranges(source, places)


def with_headers(source: ByteSource, blocks: Sequence[Block]) -> ByteSource:
    """Return a source that waits with the headers of blocks in memory, unless they are very large; others unchanged."""
    if not source.waits:
        return source
    return _with_ranges(
        source, join_ranges([(block.byte_offset, block.metadata_nbytes) for block in blocks], GAP_NBYTES)
    )


def _with_ranges(source: ByteSource, places: Sequence[tuple[int, int]]) -> ByteSource:
    # Large ranges would take too much memory at once.
    if not places or sum(stop - start for start, stop in places) > AHEAD_NBYTES:
        return source
    parts = source.read_ranges([(start, stop - start) for start, stop in places])
    return Fetched(source, [start for start, _ in places], parts)
