"""The files that the benchmarks read: one table, deterministic, in several sizes and compressions.

Strategy
--------
A row is 40 bytes: two integers, a double that is null now and then, ASCII text of 8 bytes on average, an instant. A
file is written once a directory by pyarrow, batch by batch, under a name that says what is in it, so that a second run
with the same `--directory` finds it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_arrow_ipc import ipc

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("quantity", pa.int32()),
        ("amount", pa.float64()),
        ("name", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)

_NULL_SHARE = 0.05
_SHORTEST, _LONGEST = 4, 12
"""Bytes of a text."""

_FIRST_INSTANT = 1_500_000_000_000_000
"""Microseconds: 14 July 2017."""

_ROW_GROUP_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Workload:
    """A file, by what is in it.

    Parameters
    ----------
    rows
        Of the whole file; a row is about 40 bytes.
    batches
        Record batches that they lie in, of equally many rows, save the last.
    compression
        ``none``, ``lz4`` or ``zstd``.
    """

    rows: int
    batches: int
    compression: str = "none"

    def times(self, factor: int) -> Workload:
        """Return a file of as large record batches, and `factor` times as many."""
        return Workload(self.rows * factor, self.batches * factor, self.compression)

    @property
    def batch_rows(self) -> int:
        """Rows of every record batch, save the last."""
        return -(-self.rows // self.batches)

    @property
    def name(self) -> str:
        return f"{self.rows}_rows_{self.batches}_batches_{self.compression}"


def arrow_file(workload: Workload, directory: Path) -> Path:
    """Return the Arrow file of a workload; it is written unless it is there."""
    path = directory / f"{workload.name}.arrow"
    if not path.exists():
        compression = None if workload.compression == "none" else workload.compression
        unfinished = path.with_suffix(".unfinished")
        with pa.ipc.new_file(unfinished, SCHEMA, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
            for first in range(0, workload.rows, workload.batch_rows):
                writer.write_batch(_batch(first, min(workload.batch_rows, workload.rows - first)))
        unfinished.rename(path)
    return path


def parquet_file(workload: Workload, directory: Path) -> Path:
    """Return a Parquet file of the same rows, as pyarrow writes it by default, in row groups of a million."""
    path = directory / f"{workload.name}.parquet"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        with pa.memory_map(os.fspath(arrow_file(workload, directory))) as source:
            table = pa.ipc.open_file(source).read_all()
            pq.write_table(table, unfinished, row_group_size=_ROW_GROUP_ROWS)
        unfinished.rename(path)
    return path


def _batch(first: int, rows: int) -> pa.RecordBatch:
    random = np.random.default_rng(first)
    value_offsets = np.zeros(rows + 1, np.int32)
    random.integers(_SHORTEST, _LONGEST, rows, endpoint=True, dtype=np.int32).cumsum(out=value_offsets[1:])
    text = random.integers(ord("a"), ord("z"), value_offsets[-1], endpoint=True, dtype=np.uint8)
    columns = [
        pa.array(np.arange(first, first + rows)),
        pa.array(random.integers(0, 1000, rows, dtype=np.int32)),
        pa.array(random.random(rows), mask=random.random(rows) < _NULL_SHARE),
        pa.StringArray.from_buffers(rows, pa.py_buffer(value_offsets), pa.py_buffer(text)),
        pa.array(_FIRST_INSTANT + random.integers(0, 10**15, rows)).view(SCHEMA.field("at").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def largest_body_nbytes(path: Path) -> int:
    """Return the bytes of the largest record batch body of a file, by its footer."""
    with ipc.open_file(path) as reader:
        return max(block.body_nbytes for block in reader.blocks)
