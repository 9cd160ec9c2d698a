"""Base class and parts of the readers of both formats."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import ArrowIpcError, InvalidMetadataError
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.metadata.dictionary_batch import DictionaryBatchHeader
from spark_arrow_ipc.ipc.metadata.message import Message, MessageDecoder
from spark_arrow_ipc.ipc.metadata.record_batch import RecordBatchHeader
from spark_arrow_ipc.ipc.metadata.schema import SchemaHeader
from spark_arrow_ipc.ipc.projection import SelectedColumns
from spark_arrow_ipc.storage.byte_source import ByteSource

_H = TypeVar("_H", RecordBatchHeader, DictionaryBatchHeader, SchemaHeader)


class inside:  # noqa: N801 - used as a statement, `with inside(byte_offset):`
    """Convert the byte offsets of errors inside a flatbuffer to those of the file."""

    __slots__ = ("_byte_offset",)

    def __init__(self, byte_offset: int) -> None:
        self._byte_offset = byte_offset

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if isinstance(error, ArrowIpcError):
            error.byte_offset = self._byte_offset + (error.byte_offset or 0)


class BatchReader:
    """Base class of both readers: schema, path, and closing."""

    format: str

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


def expect(message: Message, kind: MessageHeader, header_class: type[_H]) -> _H:
    """Return the header of a message, which must be of the given kind.

    Raises
    ------
    InvalidMetadataError
        The header is of another kind.
    """
    if not isinstance(message.header, header_class):
        raise InvalidMetadataError(expected=f"a {kind.noun}", found=f"a {message.kind.noun}")
    return message.header
