"""Base class of the readers of both formats, and the record batches that a writer takes: theirs, or any library's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, TypeAlias

from spark_arrow_ipc.arrow.record_batch import RecordBatch, RecordBatchStream
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.ipc.columns.projection import SelectedColumns
from spark_arrow_ipc.ipc.messages.message import MessageDecoder, RecordBatchHeader
from spark_arrow_ipc.storage.byte_source import ByteSource


class NumberedBatches(Protocol):
    """Record batches that are known by their numbers: those of a file's footer, or pieces of tensors."""

    is_numbered: Literal[True]

    def __len__(self) -> int: ...

    def row_counts(self, numbers: Sequence[int]) -> list[int]:
        """Return the rows of some of them, by their headers."""


class BatchReader:
    """Base class of both readers: schema, path, and closing."""

    format: str
    is_numbered: bool
    """True if record batches are read by their numbers; of a stream the headers before tell where one is."""

    def __init__(self, source: ByteSource, columns: SelectedColumns) -> None:
        self._source = source
        self._columns = columns
        self._messages = MessageDecoder()

    @property
    def schema(self) -> Schema:
        """The schema of the batches: that of the file, or the selected columns."""
        return self._columns.schema

    @property
    def file_schema(self) -> Schema:
        """The schema of the file or stream with all its columns, also those that are not read."""
        return self._columns.message.schema

    @property
    def path(self) -> str | None:
        """The file as the caller named it, or None for bytes in memory."""
        return self._source.path

    def null_counts(self, header: RecordBatchHeader) -> list[int | None]:
        """Return the nulls of each column of `schema` by the header of a batch; None where the header does not say."""
        return self._columns.null_counts(header)

    def __iter__(self) -> Iterator[RecordBatch]:
        raise NotImplementedError

    def __arrow_c_schema__(self) -> object:
        """Return a capsule of the schema (the Arrow PyCapsule interface)."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule of the record batches, each decoded when the consumer takes it, in the consumer's thread.

        Of a file all batches; of a stream those that were not read yet. The reader has to stay open until then.

        Raises
        ------
        SchemaMismatchError
            The requested schema has other columns. Other types are not provided: "conversion is best-effort".
        """
        from spark_arrow_ipc.arrow import c_data  # programs that share nothing need no pyarrow

        c_data.check_requested(self.schema.fields, requested_schema)
        return c_data.stream_capsule(
            self.schema.fields, self.schema.custom_metadata, (batch.as_structs() for batch in self)
        )

    def to_pyarrow(self) -> Any:
        """Return a ``pyarrow.RecordBatchReader`` of the record batches, without a copy; as `__arrow_c_stream__`.

        Raises
        ------
        ImportError
            pyarrow is not installed.
        """
        try:
            import pyarrow as pa
        except ImportError as error:
            raise ImportError("to_pyarrow needs pyarrow: pip install pyarrow") from error
        return pa.RecordBatchReader.from_stream(self)

    def _repr_html_(self) -> str:
        from spark_arrow_ipc.arrow import notebook_html  # notebooks alone need it

        return notebook_html.reader_html(repr(self).partition("\n")[0], self.schema.fields, self.schema.custom_metadata)

    def close(self) -> None:
        """Close the file, if this reader opened it. Batches that were read stay valid."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


if TYPE_CHECKING:
    from spark_arrow_ipc.arrow.c_data import ArrowArrayExportable, ArrowStreamExportable

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
        head = next(batches, None)
        if head is not None:
            return head.schema, chain((head,), batches, chain.from_iterable(parts))
        if isinstance(part, _OURS):
            if schema is not None and schema != part.schema:
                raise ValueError("expected tables of one schema, found only empty ones, whose schemas differ")
            schema = part.schema
    if schema is None:
        raise ValueError("expected a schema, or at least one record batch or table, found neither")
    return schema, iter(())
