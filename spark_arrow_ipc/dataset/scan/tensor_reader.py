"""Read a file of tensors as blocks of rows, so that the scan treats it like the record batches of a table.

A block is a piece of a tensor (`ipc.tensors.read.slabs`): the pieces of the first tensor, then the pieces of the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.scan.read_blocks import BlockRows, Blocks
from spark_arrow_ipc.errors import InvalidFramingError, SchemaMismatchError, error_context
from spark_arrow_ipc.ipc.bytes.source import Openable, open_source
from spark_arrow_ipc.ipc.columns.projection import Columns, SelectedColumns
from spark_arrow_ipc.ipc.constants import TensorRows, Validation
from spark_arrow_ipc.ipc.messages.schema import number_dictionaries
from spark_arrow_ipc.ipc.tensors.read import Slab, StoredTensor, iterate_tensors, row_schema, slab_batches, slabs


class TensorReader:
    """The rows of the tensors of a file, which all have the same columns. Opening reads their headers."""

    # The protocol of `ipc.FileReader`: blocks can be read by their number, in any order.
    is_numbered: Literal[True] = True

    def __init__(self, source: Openable, rows: TensorRows, columns: Columns | None, limits: ipc.Limits) -> None:
        self._source = open_source(source)
        self._rows = rows
        self._pieces: list[tuple[StoredTensor, Slab]] = []
        try:
            with error_context(path=self._source.path):
                message = number_dictionaries(self._read_headers(limits))
                self.schema = SelectedColumns(message, columns, Validation.FULL, limits).schema
        except BaseException:
            self._source.close()
            raise

    def _read_headers(self, limits: ipc.Limits) -> Schema:
        first: Schema | None = None
        for stored in iterate_tensors(self._source, limits):
            schema = row_schema(stored.message, self._rows)
            first = schema if first is None else first
            if schema != first:
                raise SchemaMismatchError(
                    expected=f"tensors of the same columns as the first one in this file, {_columns(first)}",
                    found=f"{_columns(schema)} of tensor {stored.number}; write them to a file each",
                )
            self._pieces += ((stored, slab) for slab in slabs(stored.message, self._rows))
            limits.check("max_blocks", len(self._pieces), "a file of tensors")
        if first is None:
            raise InvalidFramingError(expected="a tensor", found="the end of the stream", byte_offset=0)
        return first

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def block_nbytes(self) -> tuple[int, ...]:
        """The bytes of each block."""
        return tuple(slab.nbytes for _, slab in self._pieces)

    def row_counts(self, blocks: Iterable[int]) -> list[int]:
        """Return the rows of blocks."""
        return [self._pieces[i][1].num_rows for i in blocks]

    def read(self, blocks: range) -> Blocks:
        """Yield the rows of neighbouring blocks."""
        for i in blocks:
            yield from self._read_block(i)

    def _read_block(self, i: int) -> Iterator[BlockRows]:
        stored, slab = self._pieces[i]
        left = slab.num_rows
        if not left:
            yield BlockRows(None, (0,), 1)
        for batch in slab_batches(stored, self._rows, slab):
            left -= batch.num_rows
            # The block ends with its last rows, which may be several batches after its first ones.
            yield BlockRows(batch.select(self.schema.names), (batch.num_rows,), int(not left))

    def close(self) -> None:
        """Close the file."""
        self._source.close()


def _columns(schema: Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema.fields)
