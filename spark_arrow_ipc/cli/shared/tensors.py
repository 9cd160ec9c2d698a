"""Files of tensors on the command line: their description, and their cells as rows.

A command calls `holds_tensors` only if a file is not a table, so that tables cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

import numpy as np

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared import terminal
from spark_arrow_ipc.cli.shared.files import Input
from spark_arrow_ipc.cli.shared.rows import Chosen, ChosenColumns
from spark_arrow_ipc.errors import LimitError, printable
from spark_arrow_ipc.ipc.bytes.source import open_source
from spark_arrow_ipc.ipc.constants import TensorRows
from spark_arrow_ipc.ipc.messages.tensor import (
    CooIndexHeader,
    CsfIndexHeader,
    CsxIndexHeader,
    SparseTensorHeader,
    TensorHeader,
    row_major_strides,
)
from spark_arrow_ipc.ipc.tensors import read
from spark_arrow_ipc.ipc.tensors.dense import Tensor, ascends, shape_text
from spark_arrow_ipc.ipc.tensors.read import StoredTensor, row_schema, slab_batches, slabs
from spark_arrow_ipc.ipc.tensors.sparse import CscMatrix, CsrMatrix
from spark_arrow_ipc.storage.byte_source import ByteSource

_KINDS: Final[Mapping[type[Any], tuple[str, ...]]] = {
    CooIndexHeader: ("COO",),
    CsxIndexHeader: ("CSR", "CSC"),
    CsfIndexHeader: ("CSF",),
}


def holds_tensors(source: Input) -> bool:
    """Return True if the first message of a file is a tensor."""
    with closing(open_source(source.openable())) as opened:
        return read.holds_tensors(opened)


@contextmanager
def open_tensors(source: Input) -> Iterator[Iterator[StoredTensor]]:
    """Open a file of tensors; a body is read when its tensor is."""
    with closing(open_source(source.openable())) as opened:
        yield _check_ends(opened)


def _check_ends(opened: ByteSource) -> Iterator[StoredTensor]:
    for stored in read.iterate_tensors(opened):
        # The body is not read, but its last byte must exist: a file of tensors has no footer that proves it.
        if stored.message.body_nbytes:
            with stored.place():
                opened.read_at(stored.end_offset - 1, 1)
        yield stored


def each_table_of_cells(
    source: Input, columns: Sequence[int | str] | None
) -> Iterator[tuple[Schema, Iterator[RecordBatch]]]:
    """Yield the cells of each tensor of a file as rows, with the partition columns of its path."""
    with open_tensors(source) as tensors:
        for stored in tensors:
            chosen = ChosenColumns(source, Chosen(columns))
            read_columns = chosen.of_file(row_schema(stored.message, TensorRows.CELLS))
            batches = (
                batch.select(read_columns)
                for slab in slabs(stored.message, TensorRows.CELLS)
                for batch in slab_batches(stored, TensorRows.CELLS, slab)
            )
            yield chosen.schema, chosen.batches(batches)


def count_cells(stored: StoredTensor) -> int:
    """Return the number of rows that `each_table_of_cells` yields for a tensor. Reads only its header."""
    return sum(slab.num_rows for slab in slabs(stored.message, TensorRows.CELLS))


def notes(stored: StoredTensor) -> Iterator[str]:
    """Read a tensor and yield sentences about it, if it is sound."""
    header, tensor = stored.message.header, stored.read()
    if header.data.byte_offset and isinstance(header, TensorHeader):
        yield f"its values begin at byte {header.data.byte_offset:,} of its body; Arrow C++ reads them from byte 0"
    if isinstance(tensor, Tensor):
        return
    try:
        # `read` has checked the bounds of the index, but neither its order nor repeated cells.
        coordinates = tensor.coordinates()
    except LimitError as error:
        yield f"its index is not looked at for pitfalls: {error}"
        return
    # Sorted coordinates ascend strictly unless one occurs twice.
    ordered = coordinates[np.lexsort(coordinates.T[::-1])] if coordinates.size else coordinates
    if not ascends(ordered):
        yield "its index names a cell twice: Arrow C++ takes the last value, scipy the sum"
    elif isinstance(tensor, CsrMatrix | CscMatrix):
        axis = tensor.axis
        if not ascends(coordinates[:, [axis, 1 - axis]]):
            yield f"the {('columns of a row', 'rows of a column')[axis]} are not sorted, as the format wants them"


def kind_of(stored: StoredTensor) -> str:
    """Return the kind of a tensor: ``dense``, ``COO``, ``CSR``, ``CSC`` or ``CSF``."""
    header = stored.message.header
    if isinstance(header, TensorHeader):
        return "dense"
    index = header.index
    return _KINDS[type(index)][index.axis if isinstance(index, CsxIndexHeader) else 0]


def layout_of(header: TensorHeader) -> str:
    """Return the order of the cells of a dense tensor in the file."""
    width = header.type.bit_width // 8
    by_rows = row_major_strides(header.shape, width)
    if header.strides == by_rows:
        return "row-major"
    by_columns = row_major_strides(header.shape[::-1], width)[::-1]
    return "column-major" if header.strides == by_columns else "strided"


def describe(path: str, nbytes: int, tensors: list[StoredTensor]) -> Iterator[str]:
    """Yield the lines of the text output of ``inspect``."""
    yield printable(path)
    yield f"  Arrow IPC tensors, {terminal.count(nbytes, 'byte')}, little-endian"
    yield f"  {terminal.count(len(tensors), 'tensor')}"
    for stored in tensors:
        header, message = stored.message.header, stored.message
        yield ""
        yield f"tensor {stored.number}:"
        yield f"  {kind_of(stored)}, {header.type}, shape {terminal.cut(shape_text(header.shape, header.dim_names), 200)}"
        if isinstance(header, TensorHeader):
            yield f"  {layout_of(header)}, strides {list(header.strides)}"
        else:
            yield f"  {terminal.count(header.non_zero_length, 'value')}, index of {index_type(header)}"
        body = f"body of {terminal.count(message.body_nbytes, 'byte')} at {stored.body_offset:,}"
        yield f"  message at byte {stored.byte_offset:,}, {body}, metadata {message.version.name}"
        yield from (f"  {terminal.cut(key)}: {terminal.cut(value)}" for key, value in message.custom_metadata)


def index_type(header: SparseTensorHeader) -> str:
    """Return the type of the index, or its two types."""
    index = header.index
    types = [index.indices_type] if isinstance(index, CooIndexHeader) else [index.indptr_type, index.indices_type]
    return ", ".join(dict.fromkeys(map(str, types)))


def to_json(path: str, nbytes: int, tensors: list[StoredTensor]) -> dict[str, Any]:
    """Convert headers for `json.dumps`; nothing is truncated or escaped."""
    return {"path": path, "format": "tensor", "nbytes": nbytes, "tensors": [_tensor_json(stored) for stored in tensors]}


def _tensor_json(stored: StoredTensor) -> dict[str, Any]:
    header, message = stored.message.header, stored.message
    dense = header if isinstance(header, TensorHeader) else None
    sparse = header if isinstance(header, SparseTensorHeader) else None
    return {
        "kind": kind_of(stored),
        "type": str(header.type),
        "shape": list(header.shape),
        "dim_names": list(header.dim_names),
        "strides": list(dense.strides) if dense else None,
        "layout": layout_of(dense) if dense else None,
        "non_zero_length": sparse.non_zero_length if sparse else None,
        "index_type": index_type(sparse) if sparse else None,
        "byte_offset": stored.byte_offset,
        "body_offset": stored.body_offset,
        "body_nbytes": message.body_nbytes,
        "metadata_version": message.version.name,
        "custom_metadata": [{"key": key, "value": value} for key, value in message.custom_metadata],
    }
