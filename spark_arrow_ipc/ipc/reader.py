"""Readers of the file and the stream format: `open`, and what it returns.

Strategy
--------
A reader owns a `ByteSource`, knows the schema, and turns one message at a time into a `RecordBatch`. Opening a
file reads its footer and nothing else; a body is read when its batch is asked for, and with `columns` only the
ranges that those columns need. Every error that leaves here names the path, the block and the byte offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self, TypeVar

from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    InvalidFramingError,
    InvalidMetadataError,
    UnsupportedError,
    error_context,
)
from spark_arrow_ipc.ipc.body import BodyPlace
from spark_arrow_ipc.ipc.constants import Format, HeaderKind, MetadataVersion
from spark_arrow_ipc.ipc.dictionaries import DictionaryBlock, FileDictionaries, StreamDictionaries
from spark_arrow_ipc.ipc.framing import read_footer, read_stream_message, split_block
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.metadata import (
    Block,
    DictionaryBatchHeader,
    Footer,
    Message,
    RecordBatchHeader,
    SchemaHeader,
    decode_footer,
    decode_message,
)
from spark_arrow_ipc.ipc.plan import Plan
from spark_arrow_ipc.ipc.schema_message import decode_schema
from spark_arrow_ipc.ipc.selected_columns import Columns, SelectedColumns, Validation
from spark_arrow_ipc.ipc.sniff import sniff_source
from spark_arrow_ipc.ipc.source import ByteSource, ForwardSource, Openable, open_source

_VALIDATIONS = ("full", "structural")
_DEFAULT_LIMITS = Limits()
_H = TypeVar("_H", RecordBatchHeader, DictionaryBatchHeader, SchemaHeader)


@contextmanager
def _inside(byte_offset: int) -> Iterator[None]:
    """Turn byte offsets that count from inside a flatbuffer into those of the file."""
    try:
        yield
    except ArrowIpcError as error:
        error.byte_offset = byte_offset + (error.byte_offset or 0)
        raise


class _Reader:
    """What both readers share: a schema, a path, and the end of `with`."""

    format: str

    def __init__(self, source: ByteSource, columns: SelectedColumns) -> None:
        self._source = source
        self._columns = columns

    @property
    def schema(self) -> Schema:
        """The schema of the batches: that of the file, or the columns that were asked for."""
        return self._columns.schema

    @property
    def path(self) -> str | None:
        """The file as the caller named it, or None for bytes in memory."""
        return self._source.path

    def __iter__(self) -> Iterator[RecordBatch]:
        raise NotImplementedError

    def close(self) -> None:
        """Close the file, if this reader opened it. Batches that were read stay valid."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FileReader(_Reader):
    """Random access to the record batches of an Arrow IPC file. Made by `open`.

    Iterating yields all batches in order; each iteration starts anew. Dictionaries are read on first need, only
    those of the columns that are read.
    """

    format = Format.FILE.value

    def __init__(self, source: ByteSource, columns: SelectedColumns, footer: Footer) -> None:
        super().__init__(source, columns)
        self._footer = footer
        self._dictionaries = FileDictionaries(self._read_dictionary_headers, self._decode_dictionary)

    @property
    def custom_metadata(self) -> CustomMetadata:
        """The pairs of the footer."""
        return self._footer.custom_metadata

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Where the record batches lie."""
        return self._footer.record_batches

    @property
    def dictionary_blocks(self) -> tuple[Block, ...]:
        """Where the dictionary batches lie."""
        return self._footer.dictionaries

    def __len__(self) -> int:
        return len(self.blocks)

    def __iter__(self) -> Iterator[RecordBatch]:
        return map(self.read_batch, range(len(self)))

    def read_batch(self, i: int) -> RecordBatch:
        """Return record batch `i`. One read of its block, or with `columns` of the ranges that they need.

        Raises
        ------
        IndexError
            There is no such batch.
        ArrowIpcError
            Its bytes are broken.
        """
        block = self._block(i)
        with error_context(path=self.path, block_kind="record batch", block_number=i, byte_offset=block.byte_offset):
            source: ByteSource = self._source
            self._columns.limits.check("max_batch_bytes", block.body_nbytes, "the body of a batch")
            if self._columns.plan(MetadataVersion.V5).is_whole:
                source = _Window(source, block.byte_offset, source.read_at(block.byte_offset, block.nbytes))
            message = self._read_message(source, block)
            _expect(message, HeaderKind.RECORD_BATCH, RecordBatchHeader)
            place = BodyPlace(source, block.byte_offset + block.metadata_nbytes, block.body_nbytes)
            return self._columns.read_batch(message, place, self._dictionaries.find)

    def read_header(self, i: int) -> RecordBatchHeader:
        """Return the header of record batch `i` (its row count among others) without reading its body."""
        block = self._block(i)
        with error_context(path=self.path, block_kind="record batch", block_number=i, byte_offset=block.byte_offset):
            return _expect(self._read_message(self._source, block), HeaderKind.RECORD_BATCH, RecordBatchHeader)

    def read_dictionary_header(self, i: int) -> DictionaryBatchHeader:
        """Return the header of dictionary batch `i` without reading its body."""
        block = self.dictionary_blocks[i]
        with error_context(
            path=self.path, block_kind="dictionary batch", block_number=i, byte_offset=block.byte_offset
        ):
            message = self._read_message(self._source, block)
            return _expect(message, HeaderKind.DICTIONARY_BATCH, DictionaryBatchHeader)

    def _block(self, i: int) -> Block:
        if not 0 <= i < len(self):
            raise IndexError(f"expected a record batch number of 0 to {len(self) - 1}, found {i}")
        return self.blocks[i]

    def _read_message(self, source: ByteSource, block: Block) -> Message:
        limits = self._columns.limits
        limits.check("max_metadata_bytes", block.metadata_nbytes, "a message's metadata")
        flatbuffer = split_block(source.read_at(block.byte_offset, block.metadata_nbytes), block)
        with _inside(block.byte_offset + block.metadata_nbytes - len(flatbuffer)):
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
            header = _expect(message, HeaderKind.DICTIONARY_BATCH, DictionaryBatchHeader).data
            place = BodyPlace(self._source, block.byte_offset + block.metadata_nbytes, block.body_nbytes)
            return self._columns.read_dictionary(header, plan, place, self._dictionaries.find)

    def __repr__(self) -> str:
        return f"<Arrow IPC file {self.path or 'in memory'}: {len(self):,} record batches>\n{self.schema}"


class StreamReader(_Reader):
    """The record batches of an Arrow IPC stream, in order and once. Made by `open`."""

    format = Format.STREAM.value

    def __init__(self, source: ByteSource, columns: SelectedColumns, byte_offset: int) -> None:
        super().__init__(source, columns)
        self._byte_offset = byte_offset
        self._dictionaries = StreamDictionaries()
        self._ended = False
        self._counts = dict.fromkeys((HeaderKind.RECORD_BATCH, HeaderKind.DICTIONARY_BATCH), 0)

    def __iter__(self) -> Iterator[RecordBatch]:
        return self

    def __next__(self) -> RecordBatch:
        """Return the next record batch; dictionary batches before it are taken in.

        Raises
        ------
        ArrowIpcError
            The bytes are broken, or end inside a message.
        """
        while not self._ended:
            batch = self._read_message()
            if batch is not None:
                return batch
        raise StopIteration

    def _read_message(self) -> RecordBatch | None:
        """Read one message: a record batch is returned, a dictionary batch is taken in; None also at the end."""
        limits = self._columns.limits
        with error_context(path=self.path, byte_offset=self._byte_offset):
            found = read_stream_message(self._source, self._byte_offset, limits)
            if found is None:
                self._ended = True
                return None
            flatbuffer, body_offset = found
            with _inside(body_offset - len(flatbuffer)):
                message = decode_message(flatbuffer, limits)
        kind = message.kind
        if kind not in self._counts:
            raise InvalidFramingError(
                expected="one schema, at the start of the stream", found="another one",
                path=self.path, byte_offset=self._byte_offset, spec='Columnar.rst "IPC Streaming Format"',
            )  # fmt: skip
        number = self._counts[kind]
        with error_context(path=self.path, block_kind=kind.noun, block_number=number, byte_offset=self._byte_offset):
            batch = self._decode(message, body_offset)
            self._pass_body(body_offset, message.body_nbytes)
        self._counts[kind] += 1
        self._byte_offset = body_offset + message.body_nbytes
        return batch

    def _pass_body(self, byte_offset: int, nbytes: int) -> None:
        """Prove that a body is there to its end, read or not: behind a cut, batches would be missing silently."""
        known, end = self._source.nbytes, byte_offset + nbytes
        if known is None:
            self._source.read_up_to(end, 0)
        elif known < end:
            raise InvalidFramingError(
                expected=f"a body of {nbytes:,} bytes",
                found=f"{known - byte_offset:,}: the file ends at byte {known:,}, it is truncated",
                byte_offset=byte_offset,
            )

    def _decode(self, message: Message, body_offset: int) -> RecordBatch | None:
        find = self._dictionaries.find
        place = BodyPlace(self._source, body_offset, message.body_nbytes)
        if message.kind is HeaderKind.RECORD_BATCH:
            return self._columns.read_batch(message, place, find)
        header = _expect(message, HeaderKind.DICTIONARY_BATCH, DictionaryBatchHeader)
        plan = self._columns.plan(message.version).dictionaries.get(header.id)
        if plan is None:
            # Of a column that is not read, or of none at all: nothing can refer to it.
            return None
        values = self._columns.read_dictionary(header.data, plan, place, find)
        self._dictionaries.bring(header.id, values, is_delta=header.is_delta)
        return None

    def __repr__(self) -> str:
        return f"<Arrow IPC stream {self.path or 'in memory'}>\n{self.schema}"


class _Window:
    """A `ByteSource` over bytes of another one that were read already."""

    def __init__(self, source: ByteSource, byte_offset: int, data: memoryview) -> None:
        self.path = source.path
        self.nbytes = source.nbytes
        self._byte_offset = byte_offset
        self._data = data

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        start = byte_offset - self._byte_offset
        return self._data[start : start + nbytes]

    read_at = read_up_to

    def close(self) -> None:
        """Do nothing: the bytes belong to whoever read them."""


def _expect(message: Message, kind: HeaderKind, header_class: type[_H]) -> _H:
    if not isinstance(message.header, header_class):
        raise InvalidMetadataError(expected=f"a {kind.noun}", found=f"a {message.kind.noun}")
    return message.header


def open(  # noqa: A001 - `ipc.open` is the public name
    source: Openable,
    *,
    columns: Columns | None = None,
    validation: Validation = "full",
    limits: Limits = _DEFAULT_LIMITS,
) -> FileReader | StreamReader:
    """Return a reader of an Arrow IPC file or stream, told apart by the first bytes.

    Parameters
    ----------
    source
        A path, bytes, or a binary file object; a stream's may be unseekable.
    columns
        Names, positions, or tuples that go into structs; None for all. Buffers of other columns are not read.
        A function gets the file's schema and returns them.
    validation
        ``full`` checks values too (offsets, UTF-8, indices ...), ``structural`` only sizes and bounds.
    limits
        Budgets of memory and nesting.

    Raises
    ------
    InvalidFramingError
        It is neither; the text says what it looks like.
    ArrowIpcError
        The footer or the schema is broken.
    ColumnNotFoundError
        A column of `columns` does not exist.
    OSError
        The path cannot be opened.
    """
    return _open(source, None, columns, validation, limits)


def open_file(
    source: Openable,
    *,
    columns: Columns | None = None,
    validation: Validation = "full",
    limits: Limits = _DEFAULT_LIMITS,
) -> FileReader:
    """Return a reader of the file format; parameters and errors as for `open`."""
    reader = _open(source, Format.FILE, columns, validation, limits)
    assert isinstance(reader, FileReader)
    return reader


def open_stream(
    source: Openable,
    *,
    columns: Columns | None = None,
    validation: Validation = "full",
    limits: Limits = _DEFAULT_LIMITS,
) -> StreamReader:
    """Return a reader of the stream format; parameters and errors as for `open`."""
    reader = _open(source, Format.STREAM, columns, validation, limits)
    assert isinstance(reader, StreamReader)
    return reader


def read_schema(source: Openable, *, limits: Limits = _DEFAULT_LIMITS) -> Schema:
    """Return the schema of a file or stream, from its footer or first message alone."""
    with open(source, limits=limits) as reader:
        return reader.schema


def _open(
    openable: Openable,
    demanded: Format | None,
    columns: Columns | None,
    validation: Validation,
    limits: Limits,
) -> FileReader | StreamReader:
    if validation not in _VALIDATIONS:
        raise ValueError(f"expected validation {' or '.join(map(repr, _VALIDATIONS))}, found {validation!r}")
    source = open_source(openable)
    try:
        with error_context(path=source.path):
            found = sniff_source(source)
            if demanded is not None and found is not demanded:
                raise InvalidFramingError(
                    expected=f"the Arrow IPC {demanded.value} format", found=f"the {found.value} format", byte_offset=0
                )
            opener = _open_file if found is Format.FILE else _open_stream
            return opener(source, columns, validation, limits)
    except BaseException:
        source.close()
        raise


def _open_file(source: ByteSource, columns: Columns | None, validation: Validation, limits: Limits) -> FileReader:
    if isinstance(source, ForwardSource):
        raise UnsupportedError("the file format needs a source that can seek; read it into memory and open the bytes")
    flatbuffer, byte_offset = read_footer(source, limits)
    with _inside(byte_offset):
        footer = decode_footer(flatbuffer, byte_offset, limits)
        message = decode_schema(footer.schema.view, limits)
    return FileReader(source, SelectedColumns(message, columns, validation, limits), footer)


def _open_stream(source: ByteSource, columns: Columns | None, validation: Validation, limits: Limits) -> StreamReader:
    found = read_stream_message(source, 0, limits)
    if found is None:
        raise InvalidFramingError(expected="a schema", found="the end of the stream", byte_offset=0)
    flatbuffer, body_offset = found
    with _inside(body_offset - len(flatbuffer)):
        message = decode_message(flatbuffer, limits)
        header = _expect(message, HeaderKind.SCHEMA, SchemaHeader)
        if message.body_nbytes:
            # A wrong length would take the reader past all batches, to what looks like the end.
            raise InvalidMetadataError(
                expected="a schema without a body", found=f"one of {message.body_nbytes:,} bytes"
            )
        schema = decode_schema(header.view, limits)
    return StreamReader(source, SelectedColumns(schema, columns, validation, limits), body_offset + message.body_nbytes)
