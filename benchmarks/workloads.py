"""The files that the benchmarks read: the tables of ``table_kinds.py``, in several sizes, layouts and compressions.

Strategy
--------
A file is written once a directory by pyarrow, batch by batch, under a name that says what is in it, so that a second
run with the same `--directory` finds it. Many files are many names (hard links) of one: they are planned, opened and
read like others, and a lake of 10 GB needs no 10 GB.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from table_kinds import KINDS

from spark_arrow_ipc import ipc

ROW_GROUP_ROWS = 1_000_000
"""Rows of a row group of Parquet, where nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A file, by what is in it.

    Parameters
    ----------
    rows
        Of the whole file.
    batches
        Record batches that they lie in, of equally many rows, save the last.
    compression
        ``none``, ``lz4`` or ``zstd``.
    kind
        Of `KINDS`; a row of ``numbers`` is about 40 bytes.
    ipc_format
        ``file`` or ``stream``.
    files
        How many files of this size a directory holds; 1 is a file alone.
    """

    rows: int
    batches: int
    compression: str = "none"
    kind: str = "numbers"
    ipc_format: str = "file"
    files: int = 1

    def times(self, factor: float) -> Workload:
        """Return a file of as large record batches, and `factor` times as many (at least one)."""
        return replace(
            self, rows=max(1, round(self.rows * factor)), batches=max(1, min(self.rows, round(self.batches * factor)))
        )

    @property
    def batch_rows(self) -> int:
        """Rows of every record batch, save the last."""
        return -(-self.rows // self.batches)

    @property
    def name(self) -> str:
        words = [str(self.rows), "rows", str(self.batches), "batches", self.compression]
        words += [word for word in (self.kind, self.ipc_format) if word not in {"numbers", "file"}]
        return "_".join(words)


def arrow_file(workload: Workload, directory: Path) -> Path:
    """Return the Arrow file of a workload, the first of many; it is written unless it is there."""
    suffix = ".arrow" if workload.ipc_format == "file" else ".arrows"
    path = directory / f"{workload.name}{suffix}"
    if not path.exists():
        schema = KINDS[workload.kind].schema
        compression = None if workload.compression == "none" else workload.compression
        create = pa.ipc.new_file if workload.ipc_format == "file" else pa.ipc.new_stream
        unfinished = path.with_suffix(".unfinished")
        with create(unfinished, schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
            for batch in batches_of(workload):
                writer.write_batch(batch)
        unfinished.rename(path)
    return path


def parquet_file(
    workload: Workload, directory: Path, codec: str = "snappy", row_group_rows: int = ROW_GROUP_ROWS
) -> Path:
    """Return a Parquet file of the same rows, as pyarrow writes it by default, the first of many."""
    path = directory / f"{workload.name}_{codec}_{row_group_rows}.parquet"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        table = pa.Table.from_batches(batches_of(workload), KINDS[workload.kind].schema)
        pq.write_table(table, unfinished, compression=codec, row_group_size=row_group_rows)
        unfinished.rename(path)
    return path


def lake(file: Path, files: int) -> Path:
    """Return a directory of so many names of a file, or the file where it is to be alone."""
    if files == 1:
        return file
    directory = file.with_name(f"{file.name}_{files}_files")
    if not directory.exists():
        unfinished = directory.with_suffix(".unfinished")
        unfinished.mkdir()
        for i in range(files):
            os.link(file, unfinished / f"part-{i:06}{file.suffix}")
        unfinished.rename(directory)
    return directory


def batches_of(workload: Workload) -> Iterator[pa.RecordBatch]:
    """Return the record batches of a workload, one after the other."""
    kind = KINDS[workload.kind]
    for first in range(0, workload.rows, workload.batch_rows):
        yield kind.batch(first, min(workload.batch_rows, workload.rows - first))


def largest_body_nbytes(path: Path) -> int:
    """Return the bytes of the largest record batch body of a file, by its footer."""
    with ipc.open_file(path) as reader:
        return max(block.body_nbytes for block in reader.blocks)
