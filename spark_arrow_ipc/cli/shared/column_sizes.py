"""The bytes of each column in files, compressed and not, by the headers of their record batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared.inputs import Input
from spark_arrow_ipc.cli.shared.outline import BatchOutline, buffer_sizes, read_outline
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.ipc.columns.column_buffers import ColumnBuffers
from spark_arrow_ipc.ipc.flatbuf.tables import MetadataVersion
from spark_arrow_ipc.ipc.messages.record_batch import Int64s, RecordBatchHeader
from spark_arrow_ipc.storage.byte_source import ByteSource

_MOST_MEASURED: Final = 100_000
"""Compressed buffers whose uncompressed sizes are read: each is a small read."""


@dataclass(frozen=True, slots=True)
class ColumnSize:
    """The bytes of one column in the buffers of all record batches; dictionaries are not counted.

    Parameters
    ----------
    nbytes
        In the files.
    measured_nbytes, uncompressed_nbytes
        Of the buffers whose uncompressed sizes are known, in the files and in memory.
    codecs
        Of its record batches.
    """

    nbytes: int
    measured_nbytes: int
    uncompressed_nbytes: int
    codecs: tuple[str, ...]

    @property
    def ratio(self) -> float | None:
        """Bytes in memory for each byte in the files; None if unknown."""
        return self.uncompressed_nbytes / self.measured_nbytes if self.measured_nbytes else None

    def texts(self) -> tuple[str, str, str]:
        """Return the cells of a table."""
        ratio = "-" if self.ratio is None else f"{self.ratio:.2f}"
        return f"{self.nbytes:,}", ratio, ", ".join(self.codecs) or "-"

    def to_json(self) -> dict[str, Any]:
        """Convert the sizes for `json.dumps`."""
        return {"nbytes": self.nbytes, "compression_ratio": self.ratio, "compression": list(self.codecs)}


class ColumnSizes:
    """The bytes of the columns of several files, by the names of the first."""

    def __init__(self, schema: Schema) -> None:
        self._names = schema.names
        self._sizes = np.zeros((3, len(schema)), np.int64)
        self._codecs: set[str] = set()
        self._left = _MOST_MEASURED
        self._known: tuple[Schema, str, ColumnBuffers, Int64s] | None = None

    def of_column(self, position: int) -> ColumnSize:
        """Return the bytes of a column."""
        nbytes, measured, uncompressed = self._sizes[:, position].tolist()
        return ColumnSize(nbytes, measured, uncompressed, tuple(sorted(self._codecs)))

    def add(self, source: ByteSource, schema: Schema, header: RecordBatchHeader, batch: BatchOutline) -> None:
        """Add a record batch of a file of the given schema.

        Raises
        ------
        InvalidMetadataError
            The header is not of that schema.
        """
        owners = self._owners(schema, batch, header)
        counted = owners >= 0
        nbytes = header.buffers[:, 1].astype(np.int64)
        self._codecs.add(batch.compression or "none")
        np.add.at(self._sizes[0], owners[counted], nbytes[counted])
        if header.compression is not None:
            self._left -= len(nbytes)
            if self._left < 0:
                return
        block = batch.block
        try:
            sizes = np.fromiter(
                buffer_sizes(source, header, block.byte_offset + block.metadata_nbytes, block.body_nbytes), np.int64
            )
        except ArrowIpcError:  # `validate` says it
            return
        np.add.at(self._sizes[1], owners[counted], nbytes[counted])
        np.add.at(self._sizes[2], owners[counted], sizes[counted])

    def _owners(self, schema: Schema, batch: BatchOutline, header: RecordBatchHeader) -> Int64s:
        """Return the column of each buffer, -1 for those that were not asked for."""
        if self._known is None or self._known[0] is not schema or self._known[1] != batch.metadata_version:
            places = {name: i for i, name in enumerate(self._names)}
            of_file = np.array([places.get(name, -1) for name in schema.names], np.int64)
            buffers = ColumnBuffers(schema, MetadataVersion[batch.metadata_version])
            self._known = schema, batch.metadata_version, buffers, of_file
        _, _, buffers, of_file = self._known
        return of_file[buffers.columns(header)]


def read_sizes(given: Input, sizes: ColumnSizes) -> None:
    """Add the record batches of a file. Reads headers, and 8 bytes of each compressed buffer that is measured.

    Raises
    ------
    ArrowIpcError, OSError
        As `read_outline`.
    """

    def see(source: ByteSource, schema: Schema, header: RecordBatchHeader, batch: BatchOutline) -> None:
        if batch.dictionary_id is None:
            sizes.add(source, schema, header, batch)

    read_outline(given.openable(), see=see)
