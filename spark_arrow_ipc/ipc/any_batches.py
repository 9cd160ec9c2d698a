"""What a writer takes: our record batches, and what other libraries lend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.record_batch_stream import RecordBatchStream
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.ipc.batch_reader import BatchReader

if TYPE_CHECKING:
    from spark_arrow_ipc.arrow.c_data.capsules import ArrowArrayExportable, ArrowStreamExportable

AnyBatches: TypeAlias = "RecordBatch | ArrowStreamExportable | ArrowArrayExportable"
"""A record batch, or an object of any library with ``__arrow_c_stream__`` or ``__arrow_c_array__``."""


def record_batches(source: Iterable[AnyBatches] | AnyBatches) -> Iterator[RecordBatch]:
    """Return the record batches of a source, one after the other. What others lend is checked, and not copied.

    Parameters
    ----------
    source
        One of `AnyBatches`, or an iterable of them.

    Raises
    ------
    TypeError
        It is neither.
    ArrowIpcError
        What another library lends is not sound.
    """
    if isinstance(source, RecordBatch):
        return iter((source,))
    if isinstance(source, BatchReader | RecordBatchStream):
        return iter(source)
    if hasattr(source, "__arrow_c_stream__"):
        stream = RecordBatchStream.from_arrow(source)
        return _with_empty(stream, source) if hasattr(source, "__arrow_c_array__") else stream
    if hasattr(source, "__arrow_c_array__"):
        return iter((RecordBatch.from_arrow(source),))
    if not isinstance(source, Iterable):
        raise TypeError(f"expected record batches, found {type(source).__name__}")
    parts: Iterable[Any] = source
    return chain.from_iterable(map(_parts, parts))


def _with_empty(stream: RecordBatchStream, source: Any) -> Iterator[RecordBatch]:
    """Yield the batches of a source that can also give all its rows as one array."""
    batch = None
    for batch in stream:
        yield batch
    if batch is None:  # the stream of a pyarrow batch leaves the batch out if it has no rows
        yield RecordBatch.from_arrow(source)


def _parts(source: Any) -> Iterator[RecordBatch]:
    if not isinstance(source, RecordBatch) and not hasattr(source, "__arrow_c_array__"):
        return RecordBatchStream.from_arrow(source)
    return record_batches(source)


def with_schema(batches: Iterator[RecordBatch], schema: Schema | None) -> tuple[Schema, Iterator[RecordBatch]]:
    """Return a schema, or that of what `record_batches` returned, and all its batches.

    Raises
    ------
    ValueError
        There is neither a schema nor a batch.
    """
    if schema is not None:
        return schema, batches
    if isinstance(batches, RecordBatchStream):
        return batches.schema, batches
    first = next(batches, None)
    if first is None:
        raise ValueError("expected a schema or at least one record batch, found neither")
    return first.schema, chain((first,), batches)
