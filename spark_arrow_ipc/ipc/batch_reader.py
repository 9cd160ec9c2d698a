"""Base class and parts of the readers of both formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol, Self

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.ipc.columns.projection import SelectedColumns
from spark_arrow_ipc.ipc.messages.message import MessageDecoder
from spark_arrow_ipc.ipc.messages.record_batch import RecordBatchHeader
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
    """Whether the record batches are known by their numbers; of a stream the headers before tell where one is."""

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
        from spark_arrow_ipc.arrow.c_data import capsules  # programs that share nothing need no ctypes

        field = capsules.requested_struct(self.schema.fields, self.schema.custom_metadata, requested_schema)
        return capsules.stream_capsule(field, (batch.as_structs() for batch in self))

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
