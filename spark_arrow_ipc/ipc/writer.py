"""Write record batches in the file or the stream format: `create`, `write` and `Writer`.

How it works
------------
A writer appends encapsulated messages to a sink and records their blocks. Only `close` writes a footer, so that an
incomplete file never seems complete. A path is written under another name in its directory and renamed at `close`: an older
file of that name stays until then.

A dictionary precedes the first batch that uses it, in a file as in a stream, so that the bytes of a file are a stream
(Columnar.rst, "Equivalence with the IPC Streaming Format"). A file has one dictionary for each field, and all its
values are known at the end: until then the record batches of a file with dictionaries wait, in memory or in a temporary
file, unless later values are written as deltas.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, BinaryIO, Final, Self, TypeAlias

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.ipc.batch_reader import AnyBatches, record_batches, with_schema
from spark_arrow_ipc.ipc.bytes.sinks import AnySink, FileSink, WaitingBytes, path_sink, prove_ends
from spark_arrow_ipc.ipc.columns.compression import Compressor
from spark_arrow_ipc.ipc.columns.decode import NATIVE
from spark_arrow_ipc.ipc.columns.dictionaries import (
    DueDictionary,
    ReplacedDictionaries,
    SoundDictionaries,
    UnifiedDictionaries,
)
from spark_arrow_ipc.ipc.columns.encode import (
    BodyForm,
    BytesLike,
    EncodedBatch,
    dictionary_values,
    encode_columns,
    encode_footer,
    encode_message,
    encode_schema_once,
)
from spark_arrow_ipc.ipc.columns.plan import Plan, nested_dictionaries
from spark_arrow_ipc.ipc.constants import BODY_ALIGNMENT, EOS, FILE_HEADER, LEGACY_EOS, MAGIC, Format
from spark_arrow_ipc.ipc.flatbuf import builder, tables
from spark_arrow_ipc.ipc.flatbuf.tables import MetadataVersion
from spark_arrow_ipc.ipc.messages.checksums import (
    CHECKSUMS_KEY,
    ROW_COUNTS_KEY,
    MessageChecksums,
    checksum,
    encode_checksums,
    encode_row_counts,
    fingerprint,
    new_file_id,
)
from spark_arrow_ipc.ipc.messages.footer import Block
from spark_arrow_ipc.ipc.messages.schema import encode_custom_metadata
from spark_arrow_ipc.ipc.options import WriteOptions, check_message_metadata, check_version

Writable: TypeAlias = str | os.PathLike[str] | BinaryIO
"""A path, or a binary file object that the caller closes."""

_INT32: Final = struct.Struct("<i")
# The size of one block in a footer (File.fbs).
_BLOCK_NBYTES: Final = 24
# Messages of at most this size are joined for one write: many small writes cost more than a copy.
_JOINED_NBYTES: Final = 32 << 10
_CONTINUATION: Final = b"\xff\xff\xff\xff"

_DEFAULT_OPTIONS: Final = WriteOptions()


class Writer:
    """Writes record batches of one schema; `create` returns one, and an exception in its ``with`` block aborts it.

    Attributes
    ----------
    custom_metadata
        Pairs for the footer (file format), which may be changed until `close`. A value may be bytes.
    dictionary_metadata
        Pairs for the messages of the dictionary batches that are written from now on.
    """

    def __init__(
        self, sink: AnySink, schema: Schema, options: WriteOptions, schema_metadata: t.CustomMetadata = ()
    ) -> None:
        self._sink = sink
        self._options = options
        # Bodies are in the schema's byte order, which may not be this machine's.
        self._form = BodyForm(options.alignment, options.checksums, schema.endianness != NATIVE)
        self._version = MetadataVersion[options.metadata_version]
        check_version(schema, self._version)
        self._schema = schema
        self._encoded_schema = encode_schema_once(schema, self._version)
        self._plan = self._encoded_schema.plan
        self._compressor = self._new_compressor()
        self._dictionary_compressor = self._new_compressor()
        # Two, as output is valid until the next use: dictionaries are written before the batch, which is encoded already.
        self._sound = SoundDictionaries()
        self._replaced = ReplacedDictionaries()
        is_file, has_dictionaries = options.format == Format.FILE, bool(self._plan.dictionaries)
        unifies = has_dictionaries and (is_file or options.dictionaries == "delta")
        self._unified = UnifiedDictionaries() if unifies else None
        # A file has no replacements, and dictionaries inside of dictionaries have no deltas.
        waits = is_file and (options.dictionaries == "unify" or nested_dictionaries(self._plan))
        self._waiting = WaitingBytes() if waits and has_dictionaries else None
        # The messages of record batches, which `close` writes behind the dictionaries
        self._blocks: dict[Any, list[Block]] = {tables.RECORD_BATCH: [], tables.DICTIONARY_BATCH: []}
        self._checksums: dict[Any, list[MessageChecksums]] = {table: [] for table in (tables.SCHEMA, *self._blocks)}
        self._rows: list[int] = []
        self._position = 0
        # The first bytes of the file or stream, which `close` compares
        self._head = b""
        self._is_open = True
        self.custom_metadata: dict[str, str | bytes] = {}
        self.dictionary_metadata: dict[str, str | bytes] = {}
        if options.format == Format.FILE:
            self._put(FILE_HEADER)
        pairs = (*schema_metadata, *new_file_id()) if options.checksums else schema_metadata
        if pairs:
            self._put_message(tables.SCHEMA, self._encoded_schema.part, EncodedBatch(), pairs)
        else:
            self._put_flatbuffer(tables.SCHEMA, self._encoded_schema.message, EncodedBatch())
        # Bytes before the first batch; a footer without blocks has about as many.
        self._schema_nbytes = self._position

    @property
    def schema(self) -> Schema:
        """The schema of the batches."""
        return self._schema

    @property
    def nbytes(self) -> int:
        """Bytes so far, with those that wait for dictionaries before them."""
        return self._position + (0 if self._waiting is None else self._waiting.nbytes)

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of a file with checksums, as `FileChecksums.fingerprint` reads it."""
        of_schema = self._checksums[tables.SCHEMA]
        return fingerprint(of_schema[0].header) if of_schema else None

    def write(self, batch: AnyBatches, *, within: int | None = None) -> bool:
        """Append one record batch, in O(buffers) Python, plus compression and the write itself.

        Parameters
        ----------
        batch
            A batch of the writer's schema; or a batch, table or data frame of another library, which may be several
            batches.
        within
            The most bytes of the complete file; if the batch would exceed them, nothing is written, and False returned.
            Footer pairs are not counted, and dictionaries are counted uncompressed.

        Raises
        ------
        ValueError
            The batch has other names or types than the writer's schema, the format cannot hold its custom metadata, or
            the writer is closed.
        UnsupportedError
            The dictionaries of the batches cannot be one: they have more values than the field's indices can count, or
            their order has a meaning and would be lost. The writer stays usable.
        """
        if not self._is_open:
            raise ValueError("the writer is closed")
        if not isinstance(batch, RecordBatch):
            if within is not None:
                raise ValueError("expected a RecordBatch where `within` is given, found what may be several")
            # Parts are written as they come: a reader of another library may be longer than memory.
            return all(self.write(part) for part in record_batches(batch))
        self._check_metadata(batch.custom_metadata)
        self._check_schema(batch.schema)
        # To forget the batch's values if it is not written
        lengths = {} if self._unified is None else self._unified.lengths()
        columns = batch.columns
        if self._plan.dictionaries:
            columns = self._sound.columns(self._plan, columns)
        if self._unified is not None:
            columns = self._unified.unify(self._plan, columns)
        encoded = self._encode(self._plan, columns, batch.num_rows, self._compressor)
        if within is not None and self._nbytes_when_closed(encoded) > within:
            if self._unified is not None:
                self._unified.forget(lengths)
            return False
        if self._plan.dictionaries and self._waiting is None:
            due = self._replaced.due(self._plan, columns) if self._unified is None else self._unified.due(self._plan)
            self._put_dictionaries(due)
        if batch.custom_metadata:
            self._put_message(tables.RECORD_BATCH, encoded.header, encoded, batch.custom_metadata)
        else:
            self._put_flatbuffer(tables.RECORD_BATCH, encode_message(self._version, encoded), encoded)
        self._rows.append(batch.num_rows)
        return True

    def _nbytes_when_closed(self, encoded: EncodedBatch) -> int:
        """Estimate the bytes of the file with one more batch."""
        nbytes = self.nbytes + len(encode_message(self._version, encoded)) + encoded.nbytes + 2 * self._schema_nbytes
        # The footer lists this batch too.
        nbytes += _BLOCK_NBYTES * (1 + sum(map(len, self._blocks.values())))
        if self._unified is not None:
            count, due_nbytes = self._unified.nbytes_due()
            nbytes += due_nbytes + count * self._schema_nbytes
        return nbytes

    def close(self) -> None:
        """Write the end-of-stream marker and a file's footer; the second call does nothing."""
        if not self._is_open:
            return
        try:
            self._check_metadata(())
            self._put_waiting()
            tail = LEGACY_EOS if self._options.legacy_framing else EOS
            self._put(tail)
            if self._options.format == Format.FILE:
                tail = self._put_footer()
            # A path's file is opened again before it is renamed: some storages lose bytes without an error.
            self._sink.finish(partial(prove_ends, nbytes=self._position, head=self._head, tail=tail))
        except BaseException:
            self.abort()
            raise
        self._is_open = False

    def abort(self) -> None:
        """Stop without a footer, and remove a path's new file; an older one stays."""
        if self._is_open:
            self._is_open = False
            if self._waiting is not None:
                self._waiting.close()
            self._sink.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def _check_metadata(self, pairs: t.CustomMetadata) -> None:
        if self.custom_metadata and self._options.format != Format.FILE:
            raise ValueError(
                "a stream has no footer for the writer's custom_metadata: give its pairs to create(..., schema_metadata=...)"
            )
        check_message_metadata(pairs or self.dictionary_metadata, self._version)

    def _check_schema(self, schema: Schema) -> None:
        # Usually the same objects, which compare at once.
        if schema.fields == self.schema.fields:
            return
        expected = [(field.name, field.type) for field in self.schema.fields]
        # Nullability and metadata may differ: the file has the writer's.
        actual = [(field.name, field.type) for field in schema.fields]
        if expected != actual:
            different = next(
                (i for i, pair in enumerate(zip(expected, actual, strict=False)) if pair[0] != pair[1]), None
            )
            if different is None:
                raise ValueError(f"expected a batch of {len(expected)} columns, found {len(actual)}")
            raise ValueError(
                f"expected column {different} to be {expected[different][0]}: {expected[different][1]}, "
                f"found {actual[different][0]}: {actual[different][1]}"
            )

    def _new_compressor(self) -> Compressor | None:
        options = self._options
        return None if options.codec is None else Compressor(options.codec, options.compression_level)

    def _encode(self, plan: Plan, columns: Sequence[Array], length: int, compressor: Compressor | None) -> EncodedBatch:
        return encode_columns(plan, columns, length, compressor, self._form)

    def _put(self, data: BytesLike, waiting: WaitingBytes | None = None) -> None:
        """Write bytes, or let them wait; abort after an error, as positions are unknown then."""
        try:
            if waiting is not None:
                waiting.write(data)
                return
            left = memoryview(data)
            while left:
                # Unbuffered file objects may write a part; None means that all was written.
                n_written = self._sink.file.write(left)
                left = left[len(left) if n_written is None else n_written :]
        except BaseException:
            self.abort()
            raise
        # The first bytes are the magic, or the start of a stream's schema.
        if not self._position:
            self._head = bytes(data)
        self._position += len(data)

    def _put_message(self, table: Any, header: Any, encoded: EncodedBatch, pairs: t.CustomMetadata) -> None:
        values = {
            "version": self._version,
            "header": (table, header),
            "bodyLength": encoded.nbytes,
            "custom_metadata": encode_custom_metadata(pairs),
        }
        self._put_flatbuffer(table, builder.build(tables.MESSAGE, values), encoded)

    def _put_flatbuffer(self, table: Any, flatbuffer: bytes, encoded: EncodedBatch) -> None:
        """Write a message; a subclass may send it."""
        waiting = self._waiting if table is tables.RECORD_BATCH else None
        start = self._position if waiting is None else waiting.nbytes
        prefix_nbytes = 4 if self._options.legacy_framing else 8
        # The body begins at a multiple of the alignment, counted from the start of the file.
        padding = -(start + prefix_nbytes + len(flatbuffer)) % max(self._options.alignment, BODY_ALIGNMENT)
        length = _INT32.pack(len(flatbuffer) + padding)
        prefix = length if self._options.legacy_framing else _CONTINUATION + length
        metadata = b"".join([prefix, flatbuffer, bytes(padding)])
        # Large buffers go to the sink without a copy.
        if len(metadata) + encoded.nbytes > _JOINED_NBYTES:
            for piece in (metadata, *encoded.pieces):
                self._put(piece, waiting)
        else:
            self._put(b"".join([metadata, *encoded.pieces]), waiting)
        if table in self._blocks:
            self._blocks[table].append(Block(start, len(metadata), encoded.nbytes))
        if self._options.checksums:
            # Of the bytes as written, with prefix and padding.
            self._checksums[table].append(MessageChecksums(checksum(metadata), encoded.checksums))

    def _put_waiting(self) -> None:
        """Write the dictionaries, followed by the record batches that waited."""
        if self._waiting is None:
            return
        assert self._unified is not None
        self._put_dictionaries(self._unified.due(self._plan))
        # Messages begin and end at multiples of the alignment, so that bodies keep theirs.
        moved = self._position
        blocks = self._blocks[tables.RECORD_BATCH]
        blocks[:] = [block._replace(byte_offset=block.byte_offset + moved) for block in blocks]
        # In pieces, as the batches that waited may be larger than memory.
        for data in self._waiting.take():
            self._put(data)
        self._waiting = None

    def _put_dictionaries(self, due: Iterable[DueDictionary]) -> None:
        for dictionary in due:
            encoded = self._encode(
                dictionary.plan, (dictionary.values,), dictionary.values.length, self._dictionary_compressor
            )
            table, header = dictionary_values(dictionary.id, encoded.header, is_delta=dictionary.is_delta)
            self._put_message(table, header, encoded, t.pairs(self.dictionary_metadata))

    def _put_footer(self) -> bytes:
        """Write the footer, and return the last bytes of the file from its start on."""
        # A copied pair would describe another file.
        reserved_keys = {CHECKSUMS_KEY, ROW_COUNTS_KEY}
        pairs = {key: value for key, value in self.custom_metadata.items() if key not in reserved_keys}
        pairs.update(encode_row_counts(self._rows))
        if self._options.checksums:
            pairs.update([self._encode_checksums()])
        footer = encode_footer(
            self._version,
            self._encoded_schema.part,
            self._blocks[tables.DICTIONARY_BATCH],
            self._blocks[tables.RECORD_BATCH],
            t.pairs(pairs),
        )
        tail = b"".join([footer, _INT32.pack(len(footer)), MAGIC])
        self._put(tail)
        return tail

    def _encode_checksums(self) -> tuple[str, str]:
        (of_schema,) = self._checksums[tables.SCHEMA]
        batches, dictionaries = (
            zip(blocks, self._checksums[table], strict=True) for table, blocks in self._blocks.items()
        )
        return encode_checksums(of_schema.header, batches, dictionaries)


def create(
    sink: Writable,
    schema: Schema,
    options: WriteOptions = _DEFAULT_OPTIONS,
    *,
    schema_metadata: t.AnyPairs | None = None,
    storage: Mapping[str, str] | None = None,
) -> Writer:
    """Return a writer of record batches of `schema`.

    Parameters
    ----------
    sink
        A path or the URL of an object store, whose file appears when the writer closes and replaces an old one; or a
        binary file object, which the caller closes.
    schema
        The schema of all batches. Bodies are written in its byte order.
    options
        Format, compression and so on.
    schema_metadata
        Pairs for the message of the schema, apart from the schema's own pairs. A stream has them instead of a footer's.
    storage
        Options of an object store, as for `open`.

    Raises
    ------
    OSError
        The path cannot be created.
    TypeError
        The sink is neither a path nor a binary file object.
    """
    if isinstance(sink, str | os.PathLike):
        of_path = path_sink(os.fspath(sink), storage)
        try:
            return Writer(of_path, schema, options, t.pairs(schema_metadata))
        except BaseException:
            # The staged file must not stay if the schema cannot be written.
            of_path.discard()
            raise
    if not callable(getattr(sink, "write", None)):
        raise TypeError(f"expected a path or a binary file object, found {type(sink).__name__}")
    return Writer(FileSink(sink), schema, options, t.pairs(schema_metadata))


def write(
    sink: Writable,
    batches: Iterable[AnyBatches] | AnyBatches,
    schema: Schema | None = None,
    options: WriteOptions = _DEFAULT_OPTIONS,
    *,
    storage: Mapping[str, str] | None = None,
) -> None:
    """Write record batches as one file or stream; the default schema is the first batch's, or of the tables if all are empty.

    Parameters
    ----------
    sink
        A path, URL or binary file object, as for `create`.
    batches
        Record batches, or objects with ``__arrow_c_stream__`` or ``__arrow_c_array__``: a polars or pandas data frame,
        a DuckDB relation, a pyarrow table ...
    schema, options, storage
        As for `create`.

    Raises
    ------
    ValueError
        `batches` has no batch and no empty table, and `schema` is None; or a batch does not fit the schema.
    """
    schema_of_all, remaining = with_schema(batches, schema)
    with create(sink, schema_of_all, options, storage=storage) as writer:
        for batch in remaining:
            writer.write(batch)
