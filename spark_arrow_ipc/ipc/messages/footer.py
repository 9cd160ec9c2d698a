"""``Footer`` of File.fbs: the schema, and the `Block` of each message; and a cache of decoded schemas.

The files of a dataset have one schema, and to decode it takes most of the time of opening one of them: 10 ms for 1,000
columns. `decode_schema_once` keeps what the last schemas decode to, by their bytes.

A file with bytes of batches that no block covers is refused (`check_covered`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    InvalidArrowError,
    InvalidFramingError,
    InvalidMetadataError,
    LimitError,
    UnsupportedError,
)
from spark_arrow_ipc.ipc.constants import (
    BODY_ALIGNMENT,
    CONTINUATION,
    EOS,
    FILE_HEADER,
    MAGIC,
    READABLE_VERSIONS,
    Format,
    Int64s,
    Limits,
)
from spark_arrow_ipc.ipc.flatbuf import reader, tables
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader, MetadataVersion
from spark_arrow_ipc.ipc.messages.message import (
    Message,
    decode_message,
    decode_prefix,
    expect,
    inside,
    read_head,
    read_stream_message,
    sniff,
)
from spark_arrow_ipc.ipc.messages.schema import SchemaHeader, SchemaMessage, decode_custom_metadata, decode_schema
from spark_arrow_ipc.storage.byte_source import ByteSource

LEAST_MESSAGE_NBYTES: Final = 48
"""Fewer bytes cannot be the message of a batch that has rows: prefix, root, two tables and their vtables."""


class Block(NamedTuple):
    """The place of a message in a file: ``Block`` of File.fbs.

    Attributes
    ----------
    byte_offset
        Where the message's prefix begins, counted from the start of the file.
    metadata_nbytes
        Prefix, flatbuffer and padding.
    body_nbytes
        The body after them.
    """

    byte_offset: int
    metadata_nbytes: int
    body_nbytes: int

    @property
    def nbytes(self) -> int:
        """The whole message: metadata and body."""
        return self.metadata_nbytes + self.body_nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Footer:
    """``Footer`` of File.fbs.

    `uncovered` has the start and stop of each range, from the file's magic to the footer, that no block covers and that
    is long enough for a message.
    """

    schema: SchemaHeader
    dictionaries: tuple[Block, ...]
    record_batches: tuple[Block, ...]
    custom_metadata: CustomMetadata
    uncovered: tuple[tuple[int, int], ...] = ()


def footer_depth(limits: Limits) -> int:
    """Return the most levels of tables of a footer, itself counted: of fields inside fields, with their types and pairs."""
    return 2 * limits.max_depth + 8


def decode_footer(flatbuffer: memoryview, footer_byte_offset: int, limits: Limits) -> Footer:
    """Return the footer in the flatbuffer that begins at `footer_byte_offset`.

    An old version of the footer itself is accepted: three files of Arrow 0.14 say V1 over V4 messages.
    """
    view = reader.root(flatbuffer, tables.FOOTER, max_depth=footer_depth(limits))
    schema = view.table("schema")
    if schema is None:
        raise InvalidMetadataError(expected="a schema in the footer", found="none", spec="File.fbs, Footer.schema")
    version = int(view.scalar("version"))
    if version > _NEWEST:
        raise UnsupportedError(f"the footer has metadata version {version}; this release reads up to V5 (4)")
    dictionaries, record_batches = (view.few_structs(name, _FEW_BLOCKS) for name in _BLOCK_VECTORS)
    uncovered = None
    if dictionaries is not None and record_batches is not None:
        uncovered = _between([*dictionaries, *record_batches], footer_byte_offset)
    if uncovered is None:
        numbers = [_decode_blocks(view, name, footer_byte_offset) for name in _BLOCK_VECTORS]
        # A `Block` takes six times as much memory as the 24 bytes that claim it: none is made before all are checked.
        limits.check("max_blocks", sum(map(len, numbers)), _LIST_OF_BLOCKS)
        uncovered = _gaps_between_blocks(numbers[0], numbers[1], footer_byte_offset)
        dictionaries, record_batches = (rows.tolist() for rows in numbers)
    assert dictionaries is not None
    assert record_batches is not None
    limits.check("max_blocks", len(dictionaries) + len(record_batches), _LIST_OF_BLOCKS)
    blocks = [tuple(map(Block._make, rows)) for rows in (dictionaries, record_batches)]
    return Footer(SchemaHeader(schema), blocks[0], blocks[1], decode_custom_metadata(view), uncovered)


_NEWEST: Final = max(MetadataVersion)
_LIST_OF_BLOCKS: Final = "the list of blocks in the footer"
_BLOCK_VECTORS: Final = ("dictionaries", "recordBatches")

_FEW_BLOCKS: Final = 32
"""Up to so many blocks a loop is faster than numpy."""


def _between(blocks: Sequence[Sequence[int]], end: int) -> tuple[tuple[int, int], ...] | None:
    """Return what `_uncovered` does of sound blocks that follow one another; None where numpy has to look closer."""
    at, uncovered = len(FILE_HEADER), list[tuple[int, int]]()
    for byte_offset, metadata_nbytes, body_nbytes in blocks:
        if byte_offset < at or byte_offset % BODY_ALIGNMENT or metadata_nbytes <= 0 or body_nbytes < 0:
            return None
        if byte_offset - at >= LEAST_MESSAGE_NBYTES:
            uncovered.append((at, byte_offset))
        at = byte_offset + metadata_nbytes + body_nbytes
    if at > end:
        return None
    return tuple(uncovered) if end - at < LEAST_MESSAGE_NBYTES else (*uncovered, (at, end))


def _decode_blocks(view: reader.TableView, name: str, end: int) -> Int64s:
    """Return the byte offset, metadata bytes and body bytes of each block, all of them before the footer."""
    blocks = view.structs(name)
    if not len(blocks):
        return blocks
    offsets, metadata_nbytes, body_nbytes = blocks.T
    # Taken for unsigned, a negative number is larger than any offset. Each summand is bounded first: no sum can overflow.
    if (
        int(np.maximum.reduce(blocks.view(np.uint64), axis=None)) <= end
        and int(np.minimum.reduce(metadata_nbytes)) > 0
        and not int(np.bitwise_or.reduce(offsets)) % BODY_ALIGNMENT
        and int(np.maximum.reduce(offsets + metadata_nbytes + body_nbytes)) <= end
    ):
        return blocks
    # Again, to find the first that is wrong.
    bad = (offsets < 0) | (offsets > end) | (metadata_nbytes <= 0) | (metadata_nbytes > end)
    bad |= (body_nbytes < 0) | (body_nbytes > end) | (offsets % BODY_ALIGNMENT != 0)
    bad |= np.where(bad, 0, offsets) + np.where(bad, 0, metadata_nbytes) + np.where(bad, 0, body_nbytes) > end
    if bad.any():
        i = int(bad.argmax())
        raise InvalidFramingError(
            expected=f"a block at a multiple of 8 that ends before the footer at byte {end:,}",
            found=f"byte offset {offsets[i]:,}, metadata of {metadata_nbytes[i]:,}, body of {body_nbytes[i]:,}; {_FOOTER_DAMAGED}",
            block_kind="dictionary batch" if name == "dictionaries" else "record batch",
            block_number=i,
            spec="File.fbs, Block",
        )
    return blocks


def _gaps_between_blocks(dictionaries: Int64s, record_batches: Int64s, end: int) -> tuple[tuple[int, int], ...]:
    """Return the ranges up to `end` that no block covers; refuse blocks that overlap.

    A small footer could name one batch a million times.
    """
    blocks = np.concatenate([dictionaries, record_batches])
    order = blocks[:, 0].argsort(kind="stable")
    starts, stops = blocks[order, 0], blocks.sum(axis=1)[order]
    overlaps = np.flatnonzero(stops[:-1] > starts[1:])
    if overlaps.size:
        number = int(order[overlaps[0] + 1])
        is_dictionary = number < len(dictionaries)
        raise InvalidFramingError(
            expected=f"a block after the one that ends at byte {int(stops[overlaps[0]]):,}",
            found=f"byte offset {int(blocks[number, 0]):,}; {_FOOTER_DAMAGED}",
            block_kind="dictionary batch" if is_dictionary else "record batch",
            block_number=number - (0 if is_dictionary else len(dictionaries)),
            spec="File.fbs, Block",
        )
    edges = np.empty((len(blocks) + 1, 2), np.int64)
    edges[0, 0], edges[1:, 0] = len(FILE_HEADER), stops
    edges[:-1, 1], edges[-1, 1] = starts, end
    wide = edges[edges[:, 1] - edges[:, 0] >= LEAST_MESSAGE_NBYTES]
    return tuple((start, stop) for start, stop in wide.tolist())


_ROOT: Final = struct.Struct("<II")
"""The place of the root table, and padding: places in the flatbuffer are at the same multiples of 8 as before."""

_MOST_ROOT: Final = 1 << 15
"""Below this, the root's place cannot be taken for a vtable: as one, it says that its tables have no bytes."""

_MOST_NBYTES: Final = 1 << 20
"""Longer schemas are not kept: 1,000 columns with short names take 52 kB."""

_LEAST_TABLE_NBYTES: Final = 8
"""Bytes for each table that is visited; writers need 20. Tables that share bytes could be millions of fields in memory."""

_MOST_KEPT: Final = 16
_MOST_KEPT_NBYTES: Final = 4 << 20

_KEPT: dict[tuple[bytes, Limits], SchemaMessage] = {}


def decode_schema_once(view: reader.TableView, limits: Limits) -> SchemaMessage:
    """Return the schema in a ``Schema`` table of a footer or message, as `decode_schema`; fast for bytes decoded before."""
    alone = _alone(view)
    if alone is None:
        return decode_schema(view, limits)
    key = alone, limits
    schema = _KEPT.get(key)
    if schema is None:
        try:
            # As a flatbuffer of its own it refers to nothing outside of itself, because nothing outside of it is there.
            # A schema that shares vtables with tables before it does, and is decoded where it is.
            most_tables, depth = len(alone) // _LEAST_TABLE_NBYTES, footer_depth(limits) - 1
            schema = decode_schema(reader.root(alone, tables.SCHEMA, max_tables=most_tables, max_depth=depth), limits)
        except (InvalidMetadataError, LimitError, UnsupportedError):
            return decode_schema(view, limits)  # whose errors have the places in the file
        if len(_KEPT) >= _MOST_KEPT or sum(len(flatbuffer) for flatbuffer, _ in [*_KEPT, key]) > _MOST_KEPT_NBYTES:
            _KEPT.clear()
        _KEPT[key] = schema
    return schema


def _alone(view: reader.TableView) -> bytes | None:
    """Return the table and all bytes after it as a flatbuffer; None if that is too long."""
    # Writers build a flatbuffer from its end, and the schema before the rest of it: its bytes, those of all that it refers to
    # included, are the end of a footer or of a message.
    table, vtable = view.extents()
    start = min(table.start, vtable.start) & ~7
    buffer = view.vector_of_tables("fields")[0].buffer
    if len(buffer) - start > _MOST_NBYTES or table.start - start > _MOST_ROOT:
        return None
    return _ROOT.pack(table.start - start + _ROOT.size, 0) + bytes(buffer[start:])


LEAST_FLATBUFFER_NBYTES: Final = 16
"""Shorter bytes are not a message."""
_MOST_ZEROS_BEFORE: Final = 64
"""arrow-rs begins its first message at a multiple of this, after zeros."""
_MOST_UNPREFIXED_NBYTES: Final = 16 << 20
"""So far the end of a schema without a prefix is looked for."""
_MOST_CANDIDATES: Final = 1_000
"""So many places that look like a message's prefix are tried."""
_PREFIX_NBYTES: Final = 8
_BATCHES: Final = frozenset((MessageHeader.RecordBatch, MessageHeader.DictionaryBatch))


def read_first_message(source: ByteSource, limits: Limits) -> tuple[Message, int] | None:
    """Return the schema message of a file, and the byte offset after it; None where the messages end before one."""
    try:
        return _with_prefix(source, limits)
    except InvalidArrowError:
        message = _without_prefix(source, limits)
        if message is None:
            raise
        return message


def _with_prefix(source: ByteSource, limits: Limits) -> tuple[Message, int] | None:
    head = bytes(source.read_up_to(len(FILE_HEADER), _MOST_ZEROS_BEFORE))
    zeros = len(head) - len(head.lstrip(b"\0"))
    byte_offset = len(FILE_HEADER) + zeros // BODY_ALIGNMENT * BODY_ALIGNMENT
    encapsulated = read_stream_message(source, byte_offset, limits)
    if encapsulated is None:
        return None
    flatbuffer, body_offset = encapsulated
    with inside(body_offset - len(flatbuffer)):
        message = decode_message(flatbuffer, limits)
        expect(message, MessageHeader.Schema, SchemaHeader)
    return message, body_offset


def _without_prefix(source: ByteSource, limits: Limits) -> tuple[Message, int] | None:
    start = len(FILE_HEADER)
    data = source.read_up_to(start, min(limits.max_metadata_bytes, _MOST_UNPREFIXED_NBYTES))
    stop = first_batch(data)
    if stop is None or message_kind(data[:stop]) is not MessageHeader.Schema:
        return None
    return decode_message(data[:stop], limits), start + stop


def message_kind(flatbuffer: memoryview) -> MessageHeader | None:
    """Return the kind of the message in a flatbuffer, or None if it is none. O(1)."""
    try:
        view = reader.root(flatbuffer, tables.MESSAGE)
        kind, header = view.union("header")
    except ArrowIpcError:
        return None
    is_message = header is not None and view.scalar("version") in READABLE_VERSIONS
    return MessageHeader(kind) if is_message else None


def first_batch(data: memoryview) -> int | None:
    """Return the position of the first message of a batch in bytes that begin at a multiple of 8, or None.

    Where very many places look like one, the one at which the search ends counts as found.
    """
    words = np.frombuffer(data, "<u4", len(data) // BODY_ALIGNMENT * 2).reshape(-1, 2)
    left = len(data) - BODY_ALIGNMENT * np.arange(1, len(words) + 1)
    may_be = (words[:, 0] == CONTINUATION) & (words[:, 1] >= LEAST_FLATBUFFER_NBYTES) & (words[:, 1] <= left)
    candidates = np.flatnonzero(may_be)[: _MOST_CANDIDATES + 1]
    for number, word in enumerate(candidates.tolist()):
        start: int = BODY_ALIGNMENT * word
        flatbuffer = data[start + _PREFIX_NBYTES :][: int(words[word, 1])]
        if number == _MOST_CANDIDATES or message_kind(flatbuffer) in _BATCHES:
            return start
    return None


_PREFIX: Final = struct.Struct("<Ii")
_LEGACY_PREFIX: Final = struct.Struct("<i")
_MOST_PADDING_NBYTES: Final = 1 << 16
"""Longer zeros are not padding."""
_MOST_RANGES: Final = 1_000
"""So many ranges of padding are looked at, one small read each; sound files have none."""


_FOOTER_DAMAGED: Final = "the footer is damaged: `arrowipc repair` reads the batches without it"
_DISAGREES: Final = (
    "this batch or the footer is damaged, or it is that of a longer file: `arrowipc repair` copies what is sound"
)


def check_start(source: ByteSource, footer: Footer, limits: Limits) -> None:
    """Refuse a file that does not begin as one, or that `check_covered` refuses. Reads its first bytes."""
    head = read_head(source)
    if sniff(head, source.nbytes) is not Format.FILE:
        raise InvalidFramingError(
            expected=f"the magic {MAGIC.decode()} at the start of a file that ends with it",
            found="the start of a stream",
            byte_offset=0,
            spec='Columnar.rst "IPC File Format"',
        )
    check_covered(source, head, footer, limits)


def check_covered(source: ByteSource, head: memoryview, footer: Footer, limits: Limits) -> None:
    """Refuse a file that has bytes of batches which no block of its footer covers.

    Costs nothing but a look at `head` for the files of most writers.
    """
    if len(footer.uncovered) > _MOST_RANGES:
        raise _not_covered(*footer.uncovered[_MOST_RANGES])
    # Most often one range is uncovered, which the prefix of the schema message explains, among the first bytes of the file,
    # which are read in any case. Only other ranges are looked at.
    for start, stop in footer.uncovered:
        schema_stop = start if start > len(FILE_HEADER) else _schema_stop(source, head, stop, limits)
        if schema_stop is None:
            _check_no_batch(source, start, stop, limits)
        elif stop - schema_stop >= LEAST_MESSAGE_NBYTES:
            _check_padding(source, schema_stop, stop)


def _schema_stop(source: ByteSource, head: memoryview, stop: int, limits: Limits) -> int | None:
    """Return the end of the schema message, which begins after the magic or after zeros; None without a prefix."""
    after_magic = bytes(head[len(FILE_HEADER) :])
    zeros = len(after_magic) - len(after_magic.lstrip(b"\0"))
    for start in dict.fromkeys((len(FILE_HEADER), len(FILE_HEADER) + zeros)):
        if start + _PREFIX.size > len(head):
            continue
        marker, nbytes = _PREFIX.unpack_from(head, start)
        flatbuffer = start + _PREFIX.size
        if marker != CONTINUATION:
            (nbytes,) = _LEGACY_PREFIX.unpack_from(head, start)
            flatbuffer = start + _LEGACY_PREFIX.size
        end: int = flatbuffer + nbytes
        if nbytes < LEAST_FLATBUFFER_NBYTES or end > stop:
            continue
        # Most often it ends with the range. Else it might be a batch, or the offset of a root that looks like a length.
        if end == stop or _is_schema(source, flatbuffer, nbytes, limits):
            return end
    return None


def _is_schema(source: ByteSource, byte_offset: int, nbytes: int, limits: Limits) -> bool:
    limits.check("max_metadata_bytes", nbytes, "a message's metadata")
    return message_kind(source.read_at(byte_offset, nbytes)) is MessageHeader.Schema


def _check_no_batch(source: ByteSource, start: int, stop: int, limits: Limits) -> None:
    """Refuse a message of a batch inside a range that begins with a schema without a prefix."""
    limits.check("max_metadata_bytes", stop - start, "a schema without a prefix")
    at = first_batch(source.read_at(start, stop - start))
    if at is not None:
        raise _not_covered(start + at, stop)


def _check_padding(source: ByteSource, start: int, stop: int) -> None:
    """Refuse a range that is not zeros, after an end-of-stream marker or without one."""
    if stop - start <= _MOST_PADDING_NBYTES:
        data = bytes(source.read_at(start, stop - start))
        if not data.removeprefix(EOS).strip(b"\0"):
            return
    raise _not_covered(start, stop)


def _not_covered(start: int, stop: int) -> InvalidFramingError:
    return InvalidFramingError(
        expected="blocks in the footer for all bytes between the schema and the footer",
        found=f"{stop - start:,} bytes that belong to none: {_FOOTER_DAMAGED}",
        byte_offset=start,
        spec="File.fbs, Footer",
    )


def split_block(metadata: memoryview, block: Block) -> memoryview:
    """Return the flatbuffer inside the metadata of a file's block."""
    try:
        prefix = decode_prefix(metadata[:8], block.byte_offset)
    except InvalidFramingError as error:
        error.found = f"{error.found}; {_DISAGREES}"
        raise
    metadata_nbytes = prefix.nbytes + prefix.flatbuffer_nbytes
    if metadata_nbytes != block.metadata_nbytes or not prefix.flatbuffer_nbytes:
        expected = f"a message whose metadata takes {block.metadata_nbytes:,} bytes, as the footer says"
        actual, spec = f"{metadata_nbytes:,}; {_DISAGREES}", "File.fbs, Block.metaDataLength"
        raise InvalidFramingError(expected=expected, found=actual, byte_offset=block.byte_offset, spec=spec)
    return metadata[prefix.nbytes :]


def check_body(body_nbytes: int, block: Block) -> None:
    """Refuse a message whose body is not as long as its block says."""
    if body_nbytes != block.body_nbytes:
        expected = f"a body of {block.body_nbytes:,} bytes, as the footer says"
        actual = f"{body_nbytes:,} in the message; {_DISAGREES}"
        raise InvalidFramingError(expected=expected, found=actual, spec="File.fbs, Block.bodyLength")
