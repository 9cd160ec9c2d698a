"""``Footer`` of File.fbs: the schema, and the `Block` of each message; and a cache of decoded schemas.

The files of a table have one schema, and decoding it takes most of the time of opening a file: 10 ms for 1,000 columns.
`decode_schema_once` caches the last decoded schemas, by their bytes.

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
        """The complete message: metadata and body."""
        return self.metadata_nbytes + self.body_nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Footer:
    """``Footer`` of File.fbs."""

    schema: SchemaHeader
    dictionaries: tuple[Block, ...]
    record_batches: tuple[Block, ...]
    custom_metadata: CustomMetadata
    # Start and stop of each range, from the magic to the footer, without a block and long enough for a message.
    uncovered: tuple[tuple[int, int], ...] = ()


def footer_depth(limits: Limits) -> int:
    """Return the most levels of tables of a footer: fields inside fields, with their types and pairs."""
    return 2 * limits.max_depth + 8


def decode_footer(flatbuffer: memoryview, footer_byte_offset: int, limits: Limits) -> Footer:
    """Return the footer in the flatbuffer that begins at `footer_byte_offset`."""
    view = reader.root(flatbuffer, tables.FOOTER, max_depth=footer_depth(limits))
    schema = view.table("schema")
    if schema is None:
        raise InvalidMetadataError(expected="a schema in the footer", found="none", spec="File.fbs, Footer.schema")
    version = int(view.scalar("version"))
    if version > _NEWEST:  # an old one is accepted: three files of Arrow 0.14 have V1 in the footer and V4 messages
        raise UnsupportedError(f"the footer has metadata version {version}; this release reads up to V5 (4)")
    dictionaries, record_batches = (view.few_structs(name, _FEW_BLOCKS) for name in _BLOCK_VECTORS)
    uncovered = None
    if dictionaries is not None and record_batches is not None:
        uncovered = _between([*dictionaries, *record_batches], footer_byte_offset)
    if uncovered is None:
        numbers = [_decode_blocks(view, name, footer_byte_offset) for name in _BLOCK_VECTORS]
        # A `Block` takes six times the memory of the 24 bytes that claim it: none is made before all are checked.
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

_FEW_BLOCKS: Final = 32  # up to so many blocks a loop is faster than numpy


def _between(blocks: Sequence[Sequence[int]], end: int) -> tuple[tuple[int, int], ...] | None:
    """Return the result of `_gaps_between_blocks` for sound blocks in the order of the file; None for other blocks."""
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
    """Return the byte offset, metadata bytes and body bytes of each block, all before the footer."""
    blocks = view.structs(name)
    if not len(blocks):
        return blocks
    offsets, metadata_nbytes, body_nbytes = blocks.T
    # As unsigned, a negative number is larger than any offset. Each summand is bounded first: no sum can overflow.
    if (
        int(np.maximum.reduce(blocks.view(np.uint64), axis=None)) <= end
        and int(np.minimum.reduce(metadata_nbytes)) > 0
        and not int(np.bitwise_or.reduce(offsets)) % BODY_ALIGNMENT
        and int(np.maximum.reduce(offsets + metadata_nbytes + body_nbytes)) <= end
    ):
        return blocks
    # Again, to find the first wrong block.
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
    """Return the ranges up to `end` that no block covers; refuse blocks that overlap."""
    # Overlapping blocks could name one batch a million times in a small footer.
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


# The offset of the root table, and padding, so that positions in the flatbuffer are the same modulo 8 as before
_ROOT: Final = struct.Struct("<II")

# Below this, the root's offset cannot be read as a vtable of a table with bytes
_MOST_ROOT: Final = 1 << 15

_MOST_NBYTES: Final = 1 << 20  # longer schemas are not cached: 1,000 columns with short names take 52 kB

# Bytes for each visited table; writers need 20. Tables that share bytes could be millions of fields in memory.
_LEAST_TABLE_NBYTES: Final = 8

_MOST_CACHED: Final = 16
_MOST_CACHED_NBYTES: Final = 4 << 20

_CACHE: dict[tuple[bytes, Limits], SchemaMessage] = {}


def decode_schema_once(view: reader.TableView, limits: Limits) -> SchemaMessage:
    """Return the schema in a ``Schema`` table of a footer or message; fast for bytes that were decoded before."""
    flatbuffer = _to_flatbuffer(view)
    if flatbuffer is None:
        return decode_schema(view, limits)
    key = flatbuffer, limits
    schema = _CACHE.get(key)
    if schema is None:
        try:
            # A flatbuffer of its own cannot refer to bytes outside. A schema that shares vtables with earlier tables does,
            # and is decoded in its place.
            most_tables, depth = len(flatbuffer) // _LEAST_TABLE_NBYTES, footer_depth(limits) - 1
            schema = decode_schema(
                reader.root(flatbuffer, tables.SCHEMA, max_tables=most_tables, max_depth=depth), limits
            )
        except (InvalidMetadataError, LimitError, UnsupportedError):
            return decode_schema(view, limits)  # whose errors have byte offsets in the file
        if len(_CACHE) >= _MOST_CACHED or sum(len(data) for data, _ in [*_CACHE, key]) > _MOST_CACHED_NBYTES:
            _CACHE.clear()  # rare, because a job reads few schemas: an order of use would cost time for each file
        _CACHE[key] = schema
    return schema


def _to_flatbuffer(view: reader.TableView) -> bytes | None:
    """Return the table and all bytes after it as a flatbuffer; None for too many bytes."""
    # Writers build a flatbuffer from its end, and the schema before the other tables: it is the end of a footer or message,
    # with all that it refers to.
    table, vtable = view.extents()
    start = min(table.start, vtable.start) & ~7  # so that all positions stay the same modulo 8
    buffer = view.buffer
    if len(buffer) - start > _MOST_NBYTES or table.start - start > _MOST_ROOT:
        return None
    return _ROOT.pack(table.start - start + _ROOT.size, 0) + bytes(buffer[start:])


LEAST_FLATBUFFER_NBYTES: Final = 16
"""Fewer bytes are not a message."""
_MOST_ZEROS_BEFORE: Final = 64  # arrow-rs begins its first message at a multiple of this, after zeros
_MOST_UNPREFIXED_NBYTES: Final = 16 << 20  # the end of a schema without a prefix is searched up to here
_MOST_CANDIDATES: Final = 1_000  # positions that look like a message's prefix and are tried
_PREFIX_NBYTES: Final = 8
_BATCHES: Final = frozenset((MessageHeader.RecordBatch, MessageHeader.DictionaryBatch))


def read_first_message(source: ByteSource, limits: Limits) -> tuple[Message, int] | None:
    """Return the schema message of a file, and the byte offset after it; None if the messages end before one."""
    try:
        return _read_with_prefix(source, limits)
    except InvalidArrowError:
        message = _read_without_prefix(source, limits)
        if message is None:
            raise
        return message


def _read_with_prefix(source: ByteSource, limits: Limits) -> tuple[Message, int] | None:
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


def _read_without_prefix(source: ByteSource, limits: Limits) -> tuple[Message, int] | None:
    start = len(FILE_HEADER)
    data = source.read_up_to(start, min(limits.max_metadata_bytes, _MOST_UNPREFIXED_NBYTES))
    stop = first_batch(data)
    if stop is None or message_kind(data[:stop]) is not MessageHeader.Schema:
        return None
    return decode_message(data[:stop], limits), start + stop


def message_kind(flatbuffer: memoryview) -> MessageHeader | None:
    """Return the kind of the message in a flatbuffer, or None for other bytes. O(1)."""
    try:
        view = reader.root(flatbuffer, tables.MESSAGE)
        kind, header = view.union("header")
    except ArrowIpcError:
        return None
    is_message = header is not None and view.scalar("version") in READABLE_VERSIONS
    return MessageHeader(kind) if is_message else None


def first_batch(data: memoryview) -> int | None:
    """Return the position of the first message of a batch in bytes that begin at a multiple of 8, or None."""
    words = np.frombuffer(data, "<u4", len(data) // BODY_ALIGNMENT * 2).reshape(-1, 2)
    left = len(data) - BODY_ALIGNMENT * np.arange(1, len(words) + 1)
    may_be = (words[:, 0] == CONTINUATION) & (words[:, 1] >= LEAST_FLATBUFFER_NBYTES) & (words[:, 1] <= left)
    candidates = np.flatnonzero(may_be)[: _MOST_CANDIDATES + 1]
    for number, word in enumerate(candidates.tolist()):
        start: int = BODY_ALIGNMENT * word
        flatbuffer = data[start + _PREFIX_NBYTES :][: int(words[word, 1])]
        # With so many candidates the last one is taken for a message, so that the file is refused.
        if number == _MOST_CANDIDATES or message_kind(flatbuffer) in _BATCHES:
            return start
    return None


_PREFIX: Final = struct.Struct("<Ii")
_LEGACY_PREFIX: Final = struct.Struct("<i")
_MOST_PADDING_NBYTES: Final = 1 << 16  # longer zeros are not padding
_MOST_RANGES: Final = 1_000  # ranges of padding to check, with a small read each; sound files have none


_FOOTER_DAMAGED: Final = "the footer is damaged: `arrowipc repair` reads the batches without it"
_DISAGREES: Final = (
    "this batch or the footer is damaged, or it is that of a longer file: `arrowipc repair` copies what is sound"
)


def check_start(source: ByteSource, footer: Footer, limits: Limits) -> None:
    """Refuse a file that does not begin as one, or that `check_covered` refuses."""
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
    """Refuse a file with bytes of batches that no block of its footer covers. Most files need no read beyond `head`."""
    if len(footer.uncovered) > _MOST_RANGES:
        raise _not_covered(*footer.uncovered[_MOST_RANGES])
    # Most often the only uncovered range is the schema message, by its prefix in the first bytes of the file, which are
    # read in any case. Only other ranges are read.
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
        flatbuffer_offset = start + _PREFIX.size
        if marker != CONTINUATION:
            (nbytes,) = _LEGACY_PREFIX.unpack_from(head, start)
            flatbuffer_offset = start + _LEGACY_PREFIX.size
        end: int = flatbuffer_offset + nbytes
        if nbytes < LEAST_FLATBUFFER_NBYTES or end > stop:
            continue
        if end == stop:
            return end
        # Otherwise it might be a batch, or the offset of a root that looks like a length.
        limits.check("max_metadata_bytes", nbytes, "a message's metadata")
        if message_kind(source.read_at(flatbuffer_offset, nbytes)) is MessageHeader.Schema:
            return end
    return None


def _check_no_batch(source: ByteSource, start: int, stop: int, limits: Limits) -> None:
    """Refuse a message of a batch inside a range that begins with a schema without a prefix."""
    limits.check("max_metadata_bytes", stop - start, "a schema without a prefix")
    at = first_batch(source.read_at(start, stop - start))
    if at is not None:
        raise _not_covered(start + at, stop)


def _check_padding(source: ByteSource, start: int, stop: int) -> None:
    """Refuse a range with other bytes than zeros after an optional end-of-stream marker."""
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
    """Refuse a message whose body has another length than in its block."""
    if body_nbytes != block.body_nbytes:
        expected = f"a body of {block.body_nbytes:,} bytes, as the footer says"
        actual = f"{body_nbytes:,} in the message; {_DISAGREES}"
        raise InvalidFramingError(expected=expected, found=actual, spec="File.fbs, Block.bodyLength")
