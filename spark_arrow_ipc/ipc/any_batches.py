"""What a writer takes: our record batches, and what other libraries lend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.record_batch_stream import RecordBatchStream
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.ipc.batch_reader import BatchReader

if TYPE_CHECKING:
    from spark_arrow_ipc.arrow.c_data.capsules import ArrowArrayExportable, ArrowStreamExportable

AnyBatches: TypeAlias = "RecordBatch | ArrowStreamExportable | ArrowArrayExportable"
"""A record batch, or an object of any library with ``__arrow_c_stream__`` or ``__arrow_c_array__``."""

_Part: TypeAlias = BatchReader | RecordBatchStream | Iterable[RecordBatch]
"""The record batches of one of `AnyBatches`; a table or reader has a schema, even without a batch."""


_OURS: Final = (BatchReader, RecordBatchStream)


def record_batches(source: Iterable[AnyBatches] | AnyBatches) -> Iterator[RecordBatch]:
    """Return the record batches of a source, one after the other. What others lend is checked, and not copied."""
    return chain.from_iterable(_parts(source))


def _parts(source: Any) -> Iterator[_Part]:
    """Return the parts of a source: itself, or the items of an iterable."""
    part = _part(source)
    if part is not None:
        return iter((part,))
    if not isinstance(source, Iterable):
        raise TypeError(f"expected record batches, found {type(source).__name__}")
    items: Iterable[Any] = source
    # An item without a method of the interface is an error of from_arrow, which names its type.
    return (_part(item) or RecordBatchStream.from_arrow(item) for item in items)


def _part(source: Any) -> _Part | None:
    """Return one of `AnyBatches` as its record batches, and anything else as None."""
    if isinstance(source, RecordBatch):
        return (source,)
    if isinstance(source, _OURS):
        return source
    if hasattr(source, "__arrow_c_stream__"):
        stream = RecordBatchStream.from_arrow(source)
        return _with_empty(stream, source) if hasattr(source, "__arrow_c_array__") else stream
    return (RecordBatch.from_arrow(source),) if hasattr(source, "__arrow_c_array__") else None


def _with_empty(stream: RecordBatchStream, source: Any) -> Iterator[RecordBatch]:
    """Yield the batches of a source that can also give all its rows as one array."""
    batch = None
    for batch in stream:
        yield batch
    if batch is None:  # the stream of a pyarrow batch leaves the batch out if it has no rows
        yield RecordBatch.from_arrow(source)


def with_schema(
    source: Iterable[AnyBatches] | AnyBatches, schema: Schema | None
) -> tuple[Schema, Iterator[RecordBatch]]:
    """Return a schema, or else that of the first batch, and all batches of a source, as `record_batches`.

    Where there are no batches, because all tables are empty, the schema is theirs.
    """
    if schema is not None:
        return schema, record_batches(source)
    parts = _parts(source)
    for part in parts:
        batches = iter(part)
        first = next(batches, None)
        if first is not None:
            return first.schema, chain((first,), batches, chain.from_iterable(parts))
        if isinstance(part, _OURS):
            if schema is not None and schema != part.schema:
                raise ValueError("expected tables of one schema, found only empty ones, whose schemas differ")
            schema = part.schema
    if schema is None:
        raise ValueError("expected a schema, or at least one record batch or table, found neither")
    return schema, iter(())
