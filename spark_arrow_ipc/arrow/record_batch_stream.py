"""Record batches that another library gives, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Literal, Self

from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import error_context


class RecordBatchStream:
    """The record batches of a table, data frame or reader of another library, in order and once. Made by `from_arrow`.

    Batches are views of the other library's memory, which stays until no buffer of them is left.
    """

    def __init__(self, stream: Any, schema: Schema, *, full: bool) -> None:
        self._stream = stream
        self._full = full
        self._number = 0
        self.schema = schema
        """The schema of all batches."""

    @classmethod
    def from_arrow(cls, source: Any, *, validation: Literal["full", "structural"] = "full") -> RecordBatchStream:
        """Return the batches of an object with ``__arrow_c_stream__`` (the Arrow PyCapsule interface). Takes none yet.

        Parameters
        ----------
        source
            A polars or pandas data frame, a DuckDB relation, a pyarrow table or reader, ...
        validation
            As `RecordBatch.from_arrow`, of each batch.

        Raises
        ------
        TypeError
            It has no such method, or gives arrays that are no record batches.
        ArrowIpcError
            It has an error, or a type that is none of the format.
        """
        from spark_arrow_ipc.arrow import c_data  # programs that share nothing need no pyarrow

        stream = c_data.TakenStream(source)
        try:
            return cls(stream, Schema.of_struct(stream.field), full=validation == "full")
        except BaseException:
            stream.close()
            raise

    def __iter__(self) -> Iterator[RecordBatch]:
        return self

    def __next__(self) -> RecordBatch:
        """Return the next record batch.

        Raises
        ------
        ArrowIpcError
            The other library has an error, or what it gives is not sound.
        """
        with error_context(block_number=self._number):
            array = self._stream.next(Array)
            if array is None:
                raise StopIteration
            batch = RecordBatch.of_structs(self.schema, array, full=self._full)
        self._number += 1
        return batch

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule of the batches that were not taken yet."""
        from spark_arrow_ipc.arrow import c_data

        c_data.check_requested(self.schema.fields, requested_schema)
        return c_data.stream_capsule(
            self.schema.fields, self.schema.custom_metadata, (batch.as_structs() for batch in self)
        )

    def close(self) -> None:
        """Release the stream. Batches that were taken stay valid."""
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()

    def _repr_html_(self) -> str:
        from spark_arrow_ipc.arrow import notebook_html  # notebooks alone need it

        return notebook_html.reader_html(repr(self).partition("\n")[0], self.schema.fields, self.schema.custom_metadata)

    def __repr__(self) -> str:
        return f"<RecordBatchStream>\n{self.schema}"
