"""``RecordBatch`` of Message.fbs: rows, nodes, buffers and compression of one batch.

The vectors stay numpy arrays: ten thousand columns take no Python loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.errors import InvalidMetadataError, UnsupportedError
from spark_arrow_ipc.ipc.constants import EXPERIMENTAL_COMPRESSION_KEY, Int64s
from spark_arrow_ipc.ipc.flatbuf import reader
from spark_arrow_ipc.ipc.flatbuf.tables import CompressionType

_NO_COUNTS: Final = np.zeros(0, np.int64)

_EXPERIMENTAL_CODECS: Final[dict[str, CompressionType]] = {codec.word: codec for codec in CompressionType}


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
        int64, shape (view fields,): a number of buffers for each field of a view layout, in pre-order.
    """

    length: int
    nodes: Int64s
    buffers: Int64s
    compression: CompressionType | None
    variadic_counts: Int64s


def decode_record_batch(view: reader.TableView, custom_metadata: CustomMetadata) -> RecordBatchHeader:
    """Return the header in a ``RecordBatch`` table; `custom_metadata` is that of its message."""
    length = int(view.scalar("length"))
    if length < 0:
        raise InvalidMetadataError(expected="a record batch length of at least 0", found=f"{length}")
    return RecordBatchHeader(
        length,
        view.structs("nodes"),
        view.structs("buffers"),
        _decode_compression(view, custom_metadata),
        view.scalars("variadicBufferCounts") if view.has("variadicBufferCounts") else _NO_COUNTS,
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
