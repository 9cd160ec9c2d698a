"""Message, RecordBatch, DictionaryBatch and Footer of the format's Flatbuffers, as frozen values.

Everything that can be checked by looking at metadata alone is checked here. Node, buffer and block vectors stay
numpy arrays, so that ten thousand columns cost no Python loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.errors import InvalidFramingError, InvalidMetadataError, UnsupportedError
from spark_arrow_ipc.ipc.constants import (
    BODY_ALIGNMENT,
    EXPERIMENTAL_COMPRESSION_KEY,
    READABLE_VERSIONS,
    CompressionType,
    MessageHeader,
    MetadataVersion,
)
from spark_arrow_ipc.ipc.flatbuf import reader, tables
from spark_arrow_ipc.ipc.limits import Limits

Int64s: TypeAlias = npt.NDArray[np.int64]

_EXPERIMENTAL_CODECS: Final = {"lz4": CompressionType.LZ4_FRAME, "zstd": CompressionType.ZSTD}


@dataclass(frozen=True, slots=True, eq=False)
class RecordBatchHeader:
    """``RecordBatch`` of Message.fbs.

    Parameters
    ----------
    length
        Rows.
    nodes
        int64, shape (nodes, 2): length and null_count of each field, in pre-order.
    buffers
        int64, shape (buffers, 2): byte offset inside the body, and nbytes.
    compression
        Codec of the buffers, or None.
    variadic_counts
        One number for each field of a view layout, in pre-order.
    """

    length: int
    nodes: Int64s
    buffers: Int64s
    compression: CompressionType | None
    variadic_counts: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class DictionaryBatchHeader:
    """``DictionaryBatch`` of Message.fbs: a record batch of one column that belongs to an id."""

    id: int
    data: RecordBatchHeader
    is_delta: bool


@dataclass(frozen=True, slots=True, eq=False)
class SchemaHeader:
    """``Schema`` of Schema.fbs, not yet decoded: `schema_message.decode_schema` does that."""

    view: reader.TableView


Header: TypeAlias = RecordBatchHeader | DictionaryBatchHeader | SchemaHeader


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """``Message`` of Message.fbs."""

    version: MetadataVersion
    kind: MessageHeader
    header: Header
    body_nbytes: int
    custom_metadata: CustomMetadata


@dataclass(frozen=True, slots=True)
class Block:
    """Where a message of a file lies: ``Block`` of File.fbs.

    Parameters
    ----------
    byte_offset
        Of the message's prefix, from the start of the file.
    metadata_nbytes
        Prefix, flatbuffer and padding.
    body_nbytes
        The body behind them.
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
    """``Footer`` of File.fbs."""

    schema: SchemaHeader
    dictionaries: tuple[Block, ...]
    record_batches: tuple[Block, ...]
    custom_metadata: CustomMetadata


def decode_custom_metadata(view: reader.TableView) -> CustomMetadata:
    """Return the ``custom_metadata`` of a table as pairs in order; a missing key or value is empty text."""
    if not view.has("custom_metadata"):
        return ()
    return tuple((pair.string("key") or "", pair.string("value") or "") for pair in view.tables("custom_metadata"))


def decode_message(flatbuffer: memoryview, limits: Limits) -> Message:
    """Return the message in the metadata of one encapsulated message.

    Raises
    ------
    InvalidMetadataError
        The flatbuffer is broken or holds what the specification forbids.
    UnsupportedError
        A metadata version before V4 or after V5, or a tensor.
    """
    view = reader.root(flatbuffer, tables.MESSAGE, max_depth=2 * limits.max_depth + 8)
    version = _readable_version(view)
    discriminant, header_view = view.union("header")
    if header_view is None:
        raise InvalidMetadataError(expected="a message header", found="none", spec="Message.fbs, Message.header")
    known = _HEADERS.get(discriminant)
    if known is None:
        raise UnsupportedError(
            f"the message is a {MessageHeader(discriminant).noun}, which is no table: "
            "spark-arrow-ipc reads record batches only"
        )
    kind, decode_header = known
    body_nbytes = int(view.scalar("bodyLength"))
    if body_nbytes < 0:
        raise InvalidMetadataError(expected="a body length of at least 0", found=f"{body_nbytes}")
    custom_metadata = decode_custom_metadata(view)
    header = decode_header(header_view, custom_metadata)
    return Message(version, kind, header, body_nbytes, custom_metadata)


def decode_footer(flatbuffer: memoryview, footer_byte_offset: int, limits: Limits) -> Footer:
    """Return the footer of a file whose footer flatbuffer begins at `footer_byte_offset`.

    The footer's own version is not judged: three files of Arrow 0.14 say V1 over V4 messages.

    Raises
    ------
    InvalidMetadataError, InvalidFramingError
        The flatbuffer is broken, there is no schema, or a block does not lie before the footer.
    """
    view = reader.root(flatbuffer, tables.FOOTER, max_depth=2 * limits.max_depth + 8)
    schema = view.table("schema")
    if schema is None:
        raise InvalidMetadataError(expected="a schema in the footer", found="none", spec="File.fbs, Footer.schema")
    version = int(view.scalar("version"))
    if version > max(MetadataVersion):
        raise UnsupportedError(f"the footer has metadata version {version}; this release reads up to V5 (4)")
    dictionaries = _decode_blocks(view, "dictionaries", footer_byte_offset)
    record_batches = _decode_blocks(view, "recordBatches", footer_byte_offset)
    _check_apart(dictionaries, record_batches)
    return Footer(SchemaHeader(schema), dictionaries, record_batches, decode_custom_metadata(view))


def _readable_version(view: reader.TableView) -> MetadataVersion:
    found = int(view.scalar("version"))
    version = _VERSIONS.get(found)
    if version is None:
        known = f"V{found + 1}" if found in tuple(MetadataVersion) else f"number {found}"
        raise UnsupportedError(
            f"the message has metadata version {known}; this release reads V4 (Arrow 0.8 of 2017) and V5"
        )
    return version


def _decode_blocks(view: reader.TableView, name: str, end: int) -> tuple[Block, ...]:
    blocks = view.structs(name)
    offsets, metadata_nbytes, body_nbytes = blocks[:, 0], blocks[:, 1], blocks[:, 2]
    # Each summand is bounded by `end` first, so that no sum can overflow.
    bad = (offsets < 0) | (offsets > end) | (metadata_nbytes <= 0) | (metadata_nbytes > end)
    bad |= (body_nbytes < 0) | (body_nbytes > end) | (offsets % BODY_ALIGNMENT != 0)
    bad |= np.where(bad, 0, offsets) + np.where(bad, 0, metadata_nbytes) + np.where(bad, 0, body_nbytes) > end
    if bad.any():
        i = int(bad.argmax())
        raise InvalidFramingError(
            expected=f"a block at a multiple of 8 that ends before the footer at byte {end:,}",
            found=f"byte offset {offsets[i]:,}, metadata of {metadata_nbytes[i]:,} bytes, body of {body_nbytes[i]:,}",
            block_kind="dictionary batch" if name == "dictionaries" else "record batch",
            block_number=i,
            spec="File.fbs, Block",
        )
    return tuple(Block(*row) for row in blocks.tolist())


def _check_apart(dictionaries: Sequence[Block], record_batches: Sequence[Block]) -> None:
    """Refuse blocks that share bytes: a footer of a few bytes could claim one batch a million times."""
    blocks = (*dictionaries, *record_batches)
    places = np.array([(block.byte_offset, block.nbytes) for block in blocks], np.int64).reshape(-1, 2)
    order = np.argsort(places[:, 0], kind="stable")
    starts, ends = places[order, 0], places[order].sum(axis=1)
    overlaps = np.flatnonzero(ends[:-1] > starts[1:])
    if overlaps.size:
        before, number = order[overlaps[0]], int(order[overlaps[0] + 1])
        is_dictionary = number < len(dictionaries)
        raise InvalidFramingError(
            expected=f"a block behind the one that ends at byte {int(places[before].sum()):,}",
            found=f"byte offset {int(places[number, 0]):,}",
            block_kind="dictionary batch" if is_dictionary else "record batch",
            block_number=number - (0 if is_dictionary else len(dictionaries)),
            spec="File.fbs, Block",
        )


def _decode_record_batch(view: reader.TableView, custom_metadata: CustomMetadata) -> RecordBatchHeader:
    length = int(view.scalar("length"))
    if length < 0:
        raise InvalidMetadataError(expected="a record batch length of at least 0", found=f"{length}")
    return RecordBatchHeader(
        length,
        view.structs("nodes"),
        view.structs("buffers"),
        _decode_compression(view, custom_metadata),
        tuple(view.scalars("variadicBufferCounts").tolist()) if view.has("variadicBufferCounts") else (),
    )


def _decode_compression(view: reader.TableView, custom_metadata: CustomMetadata) -> CompressionType | None:
    compression = view.table("compression")
    if compression is None:
        word = next((value for key, value in custom_metadata if key == EXPERIMENTAL_COMPRESSION_KEY), None)
        if word is None:
            return None
        if word.lower() not in _EXPERIMENTAL_CODECS:
            raise UnsupportedError(f"the compression codec {word!r} of Arrow 0.17 is not one of LZ4, ZSTD")
        return _EXPERIMENTAL_CODECS[word.lower()]
    codec, method = int(compression.scalar("codec")), int(compression.scalar("method"))
    if method != 0:
        raise UnsupportedError(f"body compression method {method}: this release reads method 0 (BUFFER)")
    if codec not in tuple(CompressionType):
        raise UnsupportedError(f"compression codec {codec}: this release reads 0 (LZ4_FRAME) and 1 (ZSTD)")
    return CompressionType(codec)


def _decode_dictionary_batch(view: reader.TableView, custom_metadata: CustomMetadata) -> DictionaryBatchHeader:
    data = view.table("data")
    if data is None:
        raise InvalidMetadataError(expected="data in the dictionary batch", found="none", spec="Message.fbs")
    header = _decode_record_batch(data, custom_metadata)
    return DictionaryBatchHeader(int(view.scalar("id")), header, bool(view.scalar("isDelta")))


def _decode_schema(view: reader.TableView, _: CustomMetadata) -> SchemaHeader:
    return SchemaHeader(view)


_HEADERS: Final[dict[int, tuple[MessageHeader, Any]]] = {
    int(kind): (kind, decode)
    for kind, decode in (
        (MessageHeader.Schema, _decode_schema),
        (MessageHeader.DictionaryBatch, _decode_dictionary_batch),
        (MessageHeader.RecordBatch, _decode_record_batch),
    )
}
"""By discriminant. Plain numbers as keys: making an enum's member of each costs a tiny batch 4 % of its time."""

_VERSIONS: Final[dict[int, MetadataVersion]] = {int(version): version for version in READABLE_VERSIONS}
