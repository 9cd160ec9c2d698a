"""Base class of the readers of both formats: batches one after the other, or several ahead; and what a writer takes: record batches of any library."""

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
    """Record batches that are known by their numbers: those of a file's footer, or pieces of tensors."""

    is_numbered: Literal[True]

    def __len__(self) -> int: ...

    def row_counts(self, numbers: Sequence[int]) -> list[int]:
        """Return the rows of some of them, by their headers."""


class BatchReader:
    """Base class of both readers: schema, path, and closing."""

    format: str
    is_numbered: bool
    """True if record batches are read by their numbers; of a stream the headers before tell where one is."""

    def __init__(self, source: ByteSource, columns: SelectedColumns) -> None:
        self._source = source
        self._columns = columns
        self._messages = MessageDecoder()

    @property
    def schema(self) -> Schema:
        """The schema of the batches: that of the file, or the selected columns."""
        return self._columns.schema

    @property
    def file_schema(self) -> Schema:
        """The schema of the file or stream with all its columns, also those that are not read."""
        return self._columns.message.schema

    @property
    def path(self) -> str | None:
        """The file as the caller named it, or None for bytes in memory."""
        return self._source.path

    def null_counts(self, header: RecordBatchHeader) -> list[int | None]:
        """Return the nulls of each column of `schema` by the header of a batch; None where the header does not say."""
        return self._columns.null_counts(header)

    def __iter__(self) -> Iterator[RecordBatch]:
        raise NotImplementedError

    def __arrow_c_schema__(self) -> object:
        """Return a capsule of the schema (the Arrow PyCapsule interface)."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule of the record batches, each decoded when the consumer takes it, in the consumer's thread.

        Of a file all batches; of a stream those that were not read yet. The reader has to stay open until then.

        Raises
        ------
        SchemaMismatchError
            The requested schema has other columns. Other types are not provided: "conversion is best-effort".
        """
        from spark_arrow_ipc.arrow import c_data  # programs that share nothing need no pyarrow

        c_data.check_requested(self.schema.fields, requested_schema)
        return c_data.export_stream(
            self.schema.fields, self.schema.custom_metadata, (batch.as_structs() for batch in self)
        )

    def to_pyarrow(self) -> Any:
        """Return a ``pyarrow.RecordBatchReader`` of the record batches, without a copy; as `__arrow_c_stream__`.

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
        from spark_arrow_ipc.arrow.python_values import to_text  # notebooks alone need it

        return to_text.reader_html(repr(self).partition("\n")[0], self.schema.fields, self.schema.custom_metadata)

    def close(self) -> None:
        """Close the file, if this reader opened it. Batches that were read stay valid."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


if TYPE_CHECKING:
    from spark_arrow_ipc.arrow.c_data import ArrowArrayExportable, ArrowStreamExportable

AnyBatches: TypeAlias = "RecordBatch | ArrowStreamExportable | ArrowArrayExportable"
"""A record batch, or an object of any library with ``__arrow_c_stream__`` or ``__arrow_c_array__``."""

_Part: TypeAlias = BatchReader | RecordBatchStream | Iterable[RecordBatch]
"""The record batches of one of `AnyBatches`; a table or reader has a schema, even without a batch."""


_OURS: Final = (BatchReader, RecordBatchStream)


def record_batches(source: Iterable[AnyBatches] | AnyBatches) -> Iterator[RecordBatch]:
    """Return the record batches of a source, one after the other. What others lend is checked, and not copied."""
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
    if isinstance(source, RecordBatch):
        return (source,)
    if isinstance(source, _OURS):
        return source
    if hasattr(source, "__arrow_c_stream__"):
        stream = RecordBatchStream.from_arrow(source)
        return _with_empty(stream, source) if hasattr(source, "__arrow_c_array__") else stream
    return (RecordBatch.from_arrow(source),) if hasattr(source, "__arrow_c_array__") else None


def _with_empty(stream: RecordBatchStream, source: Any) -> Iterator[RecordBatch]:
    """Yield the batches of a source that can also give all its rows as one array."""
    batch = None
    for batch in stream:
        yield batch
    if batch is None:  # the stream of a pyarrow batch leaves the batch out if it has no rows
        yield RecordBatch.from_arrow(source)


def with_schema(
    source: Iterable[AnyBatches] | AnyBatches, schema: Schema | None
) -> tuple[Schema, Iterator[RecordBatch]]:
    """Return a schema, or else that of the first batch, and all batches of a source, as `record_batches`.

    Where there are no batches, because all tables are empty, the schema is theirs.
    """
    if schema is not None:
        return schema, record_batches(source)
    parts = _parts(source)
    for part in parts:
        batches = iter(part)
        head = next(batches, None)
        if head is not None:
            return head.schema, chain((head,), batches, chain.from_iterable(parts))
        if isinstance(part, _OURS):
            if schema is not None and schema != part.schema:
                raise ValueError("expected tables of one schema, found only empty ones, whose schemas differ")
            schema = part.schema
    if schema is None:
        raise ValueError("expected a schema, or at least one record batch or table, found neither")
    return schema, iter(())


_HEADER_NBYTES: Final = 16 << 10
"""Bytes that are read of a batch to know where its columns are."""

_GROUP_NBYTES: Final = 4 << 20
"""Most bytes of small neighbours that are read together."""

_WHOLE_BATCHES: Final = 4
_PROJECTED_BATCHES: Final = 8
"""Most batches under way. Of projected ones few bytes are read, in two waits."""


def windows(
    count: int, take: Callable[[int], tuple[int, ByteSource] | None] | None
) -> Iterator[tuple[int, ByteSource | None]]:
    """Yield the number of each record batch, and its bytes if they were read ahead."""
    stop, window = 0, None
    for i in range(count):
        if take is not None and i >= stop:
            stop, window = take(i) or (i + 1, None)
        yield i, window


def small_neighbours(blocks: Sequence[Block], numbers: range, *, small: int, most: int) -> int:
    """Count the first record batches of `numbers` that are worth one read together, at least one."""
    nbytes, next_offset = 0, blocks[numbers.start].byte_offset
    for i in numbers:
        block = blocks[i]
        nbytes += block.nbytes
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
        ahead = _WHOLE_BATCHES if columns.is_whole else _PROJECTED_BATCHES
        self._prefetch = Prefetch(source, self._jobs(numbers), ahead=ahead)
        self.close = self._prefetch.close

    def take(self, number: int) -> tuple[int, ByteSource] | None:
        """Return the bytes of a record batch and of its small neighbours, and the number after the last of them.

        None if they are not known; then whoever reads them gets them, or the error.
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
                yield start, partial(self._whole, start, start + count) if is_whole else partial(self._ranges, start)
                start += count

    def _whole(self, start: int, stop: int) -> Fetch[tuple[int, ByteSource] | None]:
        head, tail = self._blocks[start], self._blocks[stop - 1]
        if head.body_nbytes > self._columns.limits.max_batch_bytes:
            return None  # no memory is taken for it; reading it raises the error
        (data,) = yield [(head.byte_offset, tail.byte_offset + tail.nbytes - head.byte_offset)]
        return stop, Window(self._source, head.byte_offset, data)

    def _ranges(self, number: int) -> Fetch[tuple[int, ByteSource] | None]:
        block, limits = self._blocks[number], self._columns.limits
        if block.metadata_nbytes > limits.max_metadata_bytes or block.body_nbytes > limits.max_batch_bytes:
            return None
        head_nbytes = min(max(block.metadata_nbytes, _HEADER_NBYTES), block.nbytes)
        (head,) = yield [(block.byte_offset, head_nbytes)]
        ranges = [(start, nbytes) for start, nbytes in self._wanted(block, head) if start + nbytes > head_nbytes]
        places = [(block.byte_offset + start, nbytes) for start, nbytes in ranges]
        parts = (yield places) if places else ()
        starts = [block.byte_offset, *(start for start, _ in places)]
        return number + 1, Fetched(self._source, starts, [head, *parts])

    def _wanted(self, block: Block, head: memoryview) -> list[tuple[int, int]]:
        """Return the ranges that a batch's columns need, from its first byte on; none if its header is broken."""
        try:
            metadata = head[: block.metadata_nbytes]
            message = decode_message(split_block(metadata, block), self._columns.limits)
            expect(message, MessageHeader.RecordBatch, RecordBatchHeader)
            ranges = self._columns.body_ranges(message, WAITING_GAP_NBYTES)
        except ArrowIpcError:  # reading the header again raises it, with its place
            return []
        return [(block.metadata_nbytes + start, stop - start) for start, stop in ranges if stop <= block.body_nbytes]


def with_blocks(source: ByteSource, blocks: Sequence[Block]) -> ByteSource:
    """Return a source with some blocks in memory: small ones whole, of others the headers. `source` if it does not wait."""
    if not source.waits:
        return source
    places = join_ranges([(block.byte_offset, block.nbytes) for block in blocks], WAITING_GAP_NBYTES)
    if sum(stop - start for start, stop in places) > PIECE_NBYTES:
        return with_headers(source, blocks)
    return _with_ranges(source, places)


def with_headers(source: ByteSource, blocks: Sequence[Block]) -> ByteSource:
    """Return a source with the headers of blocks in memory; `source` if it does not wait, or they are very large."""
    if not source.waits:
        return source
    return _with_ranges(
        source, join_ranges([(block.byte_offset, block.metadata_nbytes) for block in blocks], GAP_NBYTES)
    )


def _with_ranges(source: ByteSource, places: Sequence[tuple[int, int]]) -> ByteSource:
    if not places or sum(stop - start for start, stop in places) > AHEAD_NBYTES:
        return source
    parts = source.read_ranges([(start, stop - start) for start, stop in places])
    return Fetched(source, [start for start, _ in places], parts)
