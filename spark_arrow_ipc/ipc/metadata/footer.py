"""``Footer`` of File.fbs: the schema, and the `Block` of each message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.errors import InvalidFramingError, InvalidMetadataError, UnsupportedError
from spark_arrow_ipc.ipc.constants import BODY_ALIGNMENT, MetadataVersion
from spark_arrow_ipc.ipc.flatbuf import reader, tables
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.metadata.custom_metadata import decode_custom_metadata
from spark_arrow_ipc.ipc.metadata.schema import SchemaHeader


@dataclass(frozen=True, slots=True)
class Block:
    """The place of a message in a file: ``Block`` of File.fbs.

    Parameters
    ----------
    byte_offset
        Of the message's prefix, from the start of the file.
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
    """``Footer`` of File.fbs."""

    schema: SchemaHeader
    dictionaries: tuple[Block, ...]
    record_batches: tuple[Block, ...]
    custom_metadata: CustomMetadata


def decode_footer(flatbuffer: memoryview, footer_byte_offset: int, limits: Limits) -> Footer:
    """Return the footer in the flatbuffer that begins at `footer_byte_offset`.

    An old version of the footer itself is accepted: three files of Arrow 0.14 say V1 over V4 messages.

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
    """Refuse blocks that overlap: a small footer could name one batch a million times."""
    blocks = (*dictionaries, *record_batches)
    places = np.array([(block.byte_offset, block.nbytes) for block in blocks], np.int64).reshape(-1, 2)
    order = np.argsort(places[:, 0], kind="stable")
    starts, ends = places[order, 0], places[order].sum(axis=1)
    overlaps = np.flatnonzero(ends[:-1] > starts[1:])
    if overlaps.size:
        before, number = order[overlaps[0]], int(order[overlaps[0] + 1])
        is_dictionary = number < len(dictionaries)
        raise InvalidFramingError(
            expected=f"a block after the one that ends at byte {int(places[before].sum()):,}",
            found=f"byte offset {int(places[number, 0]):,}",
            block_kind="dictionary batch" if is_dictionary else "record batch",
            block_number=number - (0 if is_dictionary else len(dictionaries)),
            spec="File.fbs, Block",
        )
