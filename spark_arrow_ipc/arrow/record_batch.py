"""Record batches: a schema, one array for each field, and the row count; lazily decoded columns; streams of batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self, overload

from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import CustomMetadata, Struct
from spark_arrow_ipc.arrow.validate import arrays as validate
from spark_arrow_ipc.errors import InvalidBodyError, error_context


class LazyColumns(Sequence[Array]):
    """A sequence of arrays that are made on first use.

    `columns` has None for each array that `make` makes from its position, which raises no error.
    """

    __slots__ = ("_columns", "_make")

    def __init__(self, columns: Sequence[Array | None], make: Callable[[Sequence[int]], Sequence[Array]]) -> None:
        self._columns = list(columns)
        self._make = make

    def __len__(self) -> int:
        return len(self._columns)

    @overload
    def __getitem__(self, position: int) -> Array: ...

    @overload
    def __getitem__(self, position: slice) -> tuple[Array, ...]: ...

    def __getitem__(self, position: int | slice) -> Array | tuple[Array, ...]:
        if isinstance(position, slice):
            return self.some(range(*position.indices(len(self._columns))))
        column = self._columns[position]
        if column is None:
            position %= len(self._columns)  # negative positions count from the end, as in a tuple
            (column,) = self._make((position,))
            self._columns[position] = column
        return column

    def __iter__(self) -> Iterator[Array]:
        return iter(self.some(range(len(self._columns))))

    def replace(self, position: int, column: Array) -> None:
        """Replace the array at a position by one with the same values."""
        self._columns[position] = column

    def peek(self, position: int) -> Array | None:
        """Return the array at a position, or None if it is not made yet."""
        return self._columns[position]

    def some(self, positions: Sequence[int]) -> tuple[Array, ...]:
        """Return the arrays at some positions, in that order."""
        missing = [i for i in positions if self._columns[i] is None]
        for i, array in zip(missing, self._make(missing) if missing else (), strict=True):
            self._columns[i] = array
        # No array is None any more, which a type checker does not see.
        return tuple(column for i in positions if (column := self._columns[i]) is not None)

    def __repr__(self) -> str:
        return f"<{len(self):,} columns>"


def pick(columns: Sequence[Array], positions: Sequence[int]) -> Sequence[Array]:
    """Return the columns at some positions, in that order, without making lazy ones."""
    if not isinstance(columns, LazyColumns):
        return tuple(columns[i] for i in positions)
    columns_so_far = [columns.peek(i) for i in positions]
    return LazyColumns(columns_so_far, lambda numbers: columns.some([positions[i] for i in numbers]))


@dataclass(frozen=True, slots=True, eq=False)
class RecordBatch:
    """Columns of equal length.

    Parameters
    ----------
    schema
        One field for each column.
    columns
        Arrays of `num_rows` slots, in the order of the fields. Readers of wide tables make each on first use
        (`LazyColumns`).
    num_rows
        Rows; a batch without columns may have some too.
    custom_metadata
        Pairs of the message that held the batch.
    """

    schema: Schema
    columns: Sequence[Array]
    num_rows: int
    custom_metadata: CustomMetadata = ()

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.schema):
            raise ValueError(f"expected {len(self.schema)} columns, found {len(self.columns)}")
        if type(self.columns) is LazyColumns:
            return  # they have the right lengths, and access to one would make it
        num_rows = self.num_rows
        for i, column in enumerate(self.columns):
            if column.length != num_rows:
                raise ValueError(
                    f"column {self.schema.fields[i].name}: expected {num_rows} slots, found {column.length}"
                )

    @classmethod
    def from_pylist(cls, rows: Sequence[Mapping[str, Any]], schema: Schema) -> RecordBatch:
        """Return a batch of rows in dicts; an absent key is a null. Takes Python time for each value.

        Raises
        ------
        ValueError, TypeError
            A value does not fit its field's type.
        """
        columns = tuple(from_pylist.array([row.get(f.name) for row in rows], f.type) for f in schema.fields)
        return cls(schema, columns, len(rows))

    @classmethod
    def from_pydict(cls, columns: Mapping[str, Sequence[Any]], schema: Schema) -> RecordBatch:
        """Return a batch of columns in sequences of Python values. Takes Python time for each value.

        Raises
        ------
        ValueError, TypeError
            The lengths differ, a column is missing, or a value does not fit its field's type.
        """
        missing = [name for name in schema.names if name not in columns]
        if missing:
            raise ValueError(f"expected a column for every field, found none for {', '.join(missing)}")
        arrays = tuple(from_pylist.array(columns[f.name], f.type) for f in schema.fields)
        return cls(schema, arrays, arrays[0].length if arrays else 0)

    @classmethod
    def from_arrow(cls, source: Any, *, validation: Literal["full", "structural"] = "full") -> RecordBatch:
        """Return a batch over the memory of another library, such as a pyarrow record batch. No copy.

        The memory is released after the last buffer of the batch.

        Parameters
        ----------
        source
            An object with ``__arrow_c_array__`` (the Arrow PyCapsule interface) that is a struct without nulls. Objects with
            ``__arrow_c_stream__`` only, such as tables and data frames, are for `RecordBatchStream`.
        validation
            ``full`` checks values too (offsets, UTF-8, indices ...), O(bytes); ``structural`` only sizes, O(buffers).

        Raises
        ------
        TypeError
            It has no such method, or is not a record batch.
        ArrowIpcError
            The batch is not sound.
        """
        from spark_arrow_ipc.arrow import c_data  # programs that share nothing need no pyarrow

        field, array = c_data.import_array(source, Array)
        return cls.of_structs(Schema.of_struct(field), array, full=validation == "full")

    @classmethod
    def of_structs(cls, schema: Schema, array: Array, *, full: bool = True) -> RecordBatch:
        """Return the rows of a struct array as a batch, sharing memory, after the checks of `validate`.

        Raises
        ------
        InvalidBodyError
            A struct is null, or the arrays are not sound.
        """
        validate.check_sizes(array, "")
        if array.count_nulls():
            raise InvalidBodyError(
                expected="structs of a record batch, none of them null", found=f"{array.count_nulls()}"
            )
        columns = tuple(child.slice(array.offset, array.length) for child in array.children)
        if full:
            columns = validate.sound_columns(columns, schema.fields)
        return cls(schema, columns, array.length)

    def __arrow_c_schema__(self) -> object:
        """Return a capsule of the schema (the Arrow PyCapsule interface)."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return capsules of the schema and of the columns, which share their memory. O(buffers).

        Raises
        ------
        SchemaMismatchError
            The requested schema has other columns. Other types are not provided: "conversion is best-effort".
        """
        capsules: tuple[object, object] = self._export(requested_schema).__arrow_c_array__()
        return capsules

    def __arrow_c_device_array__(
        self, requested_schema: object | None = None, **others: object
    ) -> tuple[object, object]:
        """Return the capsules of `__arrow_c_array__`, for consumers that ask for the device of the memory: the CPU."""
        capsules: tuple[object, object] = self._export(requested_schema).__arrow_c_device_array__(**others)
        return capsules

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule of a stream of this one batch, for consumers of tables; as `__arrow_c_array__`."""
        capsule: object = self._export(requested_schema).__arrow_c_stream__()
        return capsule

    def _export(self, requested_schema: object | None) -> Any:
        """Return pyarrow's record batch over the same memory."""
        from spark_arrow_ipc.arrow import c_data

        c_data.check_requested(self.schema.fields, requested_schema)
        return c_data.export_batch(self.as_structs(), self.schema.custom_metadata)

    def as_structs(self) -> Array:
        """Return the columns as one struct array, sharing memory."""
        return Array(Struct(self.schema.fields), self.num_rows, 0, (None,), tuple(self.columns))

    def __len__(self) -> int:
        return self.num_rows

    def column(self, column: int | str) -> Array:
        """Return the column at a position, or of a name that occurs once."""
        return self.columns[self.schema.position(column)]

    def select(self, columns: Iterable[int | str]) -> RecordBatch:
        """Return a batch of some columns, in their order, sharing memory."""
        positions = [self.schema.position(column) for column in columns]
        fields = tuple(self.schema.fields[i] for i in positions)
        schema = Schema(fields, self.schema.custom_metadata, self.schema.endianness)
        return RecordBatch(schema, pick(self.columns, positions), self.num_rows, self.custom_metadata)

    def slice(self, offset: int, length: int | None = None) -> RecordBatch:
        """Return `length` rows from `offset` on, sharing memory. O(columns)."""
        length = self.num_rows - offset if length is None else length
        if offset < 0 or length < 0 or offset + length > self.num_rows:
            raise IndexError(f"expected rows within 0 to {self.num_rows}, found {offset} to {offset + length}")
        columns = tuple(column.slice(offset, length) for column in self.columns)
        return RecordBatch(self.schema, columns, length, self.custom_metadata)

    def validate(self, *, full: bool = True) -> None:
        """Check that the arrays are sound: sizes always, with `full` the values too.

        Raises
        ------
        InvalidBodyError
            With the field's path, what was expected and what was found.
        """
        for field, column in zip(self.schema.fields, self.columns, strict=True):
            validate.check(column, field.name, full=full)

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the rows as dicts. A name that occurs twice keeps its last column."""
        columns = [column.to_pylist() for column in self.columns]
        if not columns:
            return [{} for _ in range(self.num_rows)]  # different objects, because a caller may change one
        return [dict(zip(self.schema.names, values, strict=True)) for values in zip(*columns, strict=True)]

    def to_pydict(self) -> dict[str, list[Any]]:
        """Return the columns as lists by name. A name that occurs twice keeps its last column."""
        return {f.name: c.to_pylist() for f, c in zip(self.schema.fields, self.columns, strict=True)}

    def __repr__(self) -> str:
        return f"<RecordBatch {self.num_rows:,} rows of {len(self.columns)} columns>\n{self.schema}"

    def _repr_html_(self) -> str:
        from spark_arrow_ipc.arrow.python_values import to_text  # only notebooks need it

        return to_text.batch_html(self.schema.fields, self.columns, self.num_rows)


class RecordBatchStream:
    """The record batches of a table, data frame or reader of another library, in order and once. Made by `from_arrow`.

    Batches are views of the other library's memory, which stays until their last buffer is released.
    """

    def __init__(self, stream: Any, schema: Schema, *, full: bool) -> None:
        self._stream = stream
        self._full = full
        self._number = 0
        self.schema = schema
        """The schema of all batches."""

    @classmethod
    def from_arrow(cls, source: Any, *, validation: Literal["full", "structural"] = "full") -> RecordBatchStream:
        """Return the batches of an object with ``__arrow_c_stream__`` (the Arrow PyCapsule interface), before the first.

        Parameters
        ----------
        source
            A polars or pandas data frame, a DuckDB relation, a pyarrow table or reader, ...
        validation
            As `RecordBatch.from_arrow`, of each batch.

        Raises
        ------
        TypeError
            It has no such method, or gives arrays that are not record batches.
        ArrowIpcError
            It has an error, or a type that the format lacks.
        """
        from spark_arrow_ipc.arrow import c_data  # programs that share nothing need no pyarrow

        stream = c_data.ImportedStream(source)
        try:
            return cls(stream, Schema.of_struct(stream.field), full=validation == "full")
        except BaseException:  # the stream may hold resources of the other library
            stream.close()
            raise

    def __iter__(self) -> Iterator[RecordBatch]:
        return self

    def __next__(self) -> RecordBatch:
        """Return the next record batch.

        Raises
        ------
        ArrowIpcError
            The other library has an error, or its batch is not sound.
        """
        with error_context(block_number=self._number):
            array = self._stream.next(Array)
            if array is None:
                raise StopIteration
            batch = RecordBatch.of_structs(self.schema, array, full=self._full)
        self._number += 1
        return batch

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule of the remaining batches."""
        from spark_arrow_ipc.arrow import c_data

        c_data.check_requested(self.schema.fields, requested_schema)
        return c_data.export_stream(
            self.schema.fields, self.schema.custom_metadata, (batch.as_structs() for batch in self)
        )

    def close(self) -> None:
        """Release the stream. Earlier batches stay valid."""
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()

    def _repr_html_(self) -> str:
        from spark_arrow_ipc.arrow.python_values import to_text  # only notebooks need it

        return to_text.reader_html(repr(self).partition("\n")[0], self.schema.fields, self.schema.custom_metadata)

    def __repr__(self) -> str:
        return f"<RecordBatchStream>\n{self.schema}"
