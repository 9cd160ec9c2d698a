"""Describe the record batches of a file by its headers: place, rows, compression, statistics.

No body is read. A file in the file format costs its footer and one small read a block; a stream costs one small
read a message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values.to_text import to_text
from spark_arrow_ipc.dataset.predicate.expressions import Raw
from spark_arrow_ipc.dataset.statistics.format import array_of
from spark_arrow_ipc.dataset.statistics.read import BlockStatistics, file_statistics
from spark_arrow_ipc.errors import error_context
from spark_arrow_ipc.ipc.bytes.source import Openable
from spark_arrow_ipc.ipc.columns.projection import known_columns
from spark_arrow_ipc.ipc.concatenated_streams import ConcatenatedStreams
from spark_arrow_ipc.ipc.flatbuf.tables import CompressionType
from spark_arrow_ipc.ipc.limits import DEFAULT_LIMITS
from spark_arrow_ipc.ipc.messages.footer import Block


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """Statistics of a column in one block, the bounds as strings."""

    nulls: int
    least: str | None
    greatest: str | None


@dataclass(frozen=True, slots=True)
class FileBlock:
    """One record batch of a file.

    Parameters
    ----------
    format
        ``file`` or ``stream``.
    block
        Its number, from 0.
    place
        The range of its message in the file.
    compression
        ``lz4``, ``zstd`` or ``none``.
    statistics
        By column path (names with dots between); None if the file has none.
    """

    format: str
    block: int
    place: Block
    rows: int
    compression: str
    statistics: Mapping[str, ColumnSummary] | None


def file_blocks(
    source: Openable,
    *,
    limits: ipc.Limits = DEFAULT_LIMITS,
    concatenated_streams: ConcatenatedStreams = ConcatenatedStreams.WARN,
) -> Iterator[FileBlock]:
    """Yield the record batches of a file or stream, in order."""
    reader = ipc.open(source, columns=known_columns, limits=limits, concatenated_streams=concatenated_streams)
    with reader, error_context(path=reader.path):
        statistics = file_statistics(reader) if reader.is_numbered else None
        summaries = None if statistics is None else _summaries(statistics)
        for i, batch in enumerate(reader.read_headers()):
            of_columns = None if summaries is None else {path: column[i] for path, column in summaries.items()}
            yield FileBlock(reader.format, i, batch.block, batch.rows, _word(batch.compression), of_columns)


def _word(compression: CompressionType | None) -> str:
    return "none" if compression is None else compression.word


def _summaries(statistics: BlockStatistics) -> dict[str, list[ColumnSummary]]:
    """Return the summaries of all blocks, by column path."""
    return {
        ".".join(path): list(map(ColumnSummary, c.null_counts, _strings(c.least, c.type), _strings(c.greatest, c.type)))
        for path, c in statistics.columns.items()
    }


def _strings(values: Sequence[Raw | None], type_: t.DataType) -> list[str | None]:
    return [None if value is None else str(value) for value in to_text(array_of(values, type_))]
