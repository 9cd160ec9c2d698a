"""Dictionary-encode columns of files, each file with dictionaries of its own.

How it works
------------
1. A column that is a dictionary is one in all files of a table, with indices of one type: pyarrow casts all indices to the
   type in the first file. So the first job of a table decides on both (`WrittenColumns`), and never on 8 bits, which values
   that come later outgrow soon.
2. If the values of a file become more than the indices count, or its dictionaries too large, the next rows begin a new file,
   with empty dictionaries. So the memory of a task stays bounded.
3. Without names of columns the first rows of a task tell for which columns a dictionary pays (`choose_index`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.array_data import as_buffer
from spark_arrow_ipc.arrow.kernels.growing_dictionary import most_values
from spark_arrow_ipc.arrow.layout import BIT_WIDTHS
from spark_arrow_ipc.arrow.measure import nbytes
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import SchemaMismatchError, error_context
from spark_arrow_ipc.spark.options.values import DictionaryColumns
from spark_arrow_ipc.spark.write.column_dictionary import MOST_DIGITS, ColumnDictionary, Mask, Positions
from spark_arrow_ipc.spark.write.dictionaries import TaskDictionaries
from spark_arrow_ipc.spark.write.restore_values import restore

SAMPLE_ROWS: Final = 65_536
"""Rows of a task that tell for which columns a dictionary pays: by default one record batch."""

SAMPLE_NBYTES: Final = 64 << 20
"""Bytes of a sample, which is in memory."""

_LEAST_ROWS: Final = 1_000
"""In smaller samples a dictionary costs more than it saves."""

_FIRST_ROWS: Final = 4_096
"""Rows after which a column of which almost each value is new is looked at no further."""

_ROWS_PER_VALUE: Final = 8
"""Average number of occurrences of a value for which a dictionary pays."""

_ROWS_PER_NEW_VALUE: Final = 16
"""The same for values that are new in the second half of a sample."""

_MOST_SAMPLED: Final = 1 << 15
_MOST_SAMPLED_NBYTES: Final = 4 << 20
"""Largest dictionary of a sample."""

_FEW: Final = 1 << 14
"""Values of a sample for which indices of 16 bits have room for as many again."""

_LEAST_INDEX_BITS: Final = 16
"""Narrower indices, of files of other programs, would end a file every few rows."""

_WORDS: Final = (t.Date, t.Timestamp, t.FloatingPoint, t.Duration, t.Time)

_SAMPLED: Final[Mapping[DictionaryColumns, Callable[[t.DataType], bool]]] = {
    DictionaryColumns.NONE: lambda _: False,
    DictionaryColumns.AUTO: lambda type_: isinstance(type_, t.Utf8 | t.Binary),
    DictionaryColumns.ALL: lambda type_: (
        isinstance(type_, (t.Utf8, t.Binary, *_WORDS))
        or (isinstance(type_, t.Int) and type_.bit_width > _LEAST_INDEX_BITS)
        or (isinstance(type_, t.Decimal) and type_.precision <= MOST_DIGITS)
    ),
}
"""By word of ``dictionaryColumns``: tells whether columns of a type are sampled."""

_ENCODABLE: Final = (t.Bool, t.Utf8, t.Binary, t.LargeUtf8, t.LargeBinary, t.Int, t.Decimal, *_WORDS)


def can_encode(column: t.Field) -> bool:
    """Return whether a column can be dictionary-encoded."""
    # An extension prescribes its storage type, which is never a dictionary.
    return isinstance(column.type, _ENCODABLE) and column.extension_name is None


def is_sampled(column: t.Field, word: DictionaryColumns) -> bool:
    """Return whether tasks find out if a dictionary pays for a column."""
    return can_encode(column) and _SAMPLED[word](column.type)


def choose_index(arrays: Sequence[Array]) -> t.Int | None:
    """Return the indices with which a dictionary pays for a column with the values of a sample; None if it does not."""
    rows = sum(array.length - array.count_nulls() for array in arrays)
    if rows < _LEAST_ROWS:
        return None
    dictionary, seen, at_half = ColumnDictionary(arrays[0].type), 0, (0, 0)
    for piece in _pieces(arrays):
        dictionary.encode(piece)
        values = dictionary.values
        seen += piece.length - piece.count_nulls()
        is_unique = seen >= _FIRST_ROWS and values.length * 10 > seen * 9
        if is_unique or values.length > _MOST_SAMPLED or nbytes(values) > _MOST_SAMPLED_NBYTES:
            return None
        if not at_half[0] and seen * 2 >= rows:
            at_half = seen, values.length
    count, (half, before) = dictionary.values.length, at_half
    repeats = count * _ROWS_PER_VALUE <= rows
    settles = half < rows and (count - before) * _ROWS_PER_NEW_VALUE <= rows - half
    index = t.int16 if count <= _FEW else t.int32
    return index if (repeats or settles) and index.bit_width < _slot_bits(arrays[0].type) else None


def _pieces(arrays: Sequence[Array]) -> Iterator[Array]:
    for array in arrays:
        for start in range(0, array.length, _FIRST_ROWS):
            yield array.slice(start, min(_FIRST_ROWS, array.length - start))


def _slot_bits(type_: t.DataType) -> int:
    width = BIT_WIDTHS.get(type(type_))
    return 64 if width is None else width(type_)


@dataclass(frozen=True, slots=True)
class FileDictionaries:
    """The columns of files that are dictionaries, by name: makes the encoder of a series of files."""

    columns: Mapping[str, t.Dictionary]

    def __call__(self, most_nbytes: int) -> FileEncoder:
        """Return an encoder of files whose dictionaries have at most some bytes, unless one record batch has more."""
        return FileEncoder(self.columns, most_nbytes)


class FileEncoder:
    """Encodes the record batches of files, one file after another."""

    def __init__(self, targets: Mapping[str, t.Dictionary], most_nbytes: int) -> None:
        self._targets = targets
        self._most_nbytes = most_nbytes
        self._columns: dict[str, _Column] = {}
        self._schema: Schema | None = None
        self._most_rows: int | None = None  # of a record batch; None until a file ends for its values

    def begin(self) -> None:
        """Begin a new file."""
        self._columns, self._schema = {}, None

    def encode(self, batch: RecordBatch) -> RecordBatch | None:
        """Return the first rows of a batch with dictionaries, all if the file has room; None if it must end before them."""
        if self._most_rows is not None and batch.num_rows > self._most_rows:
            # All rows of a large batch would be encoded again for each of the files that it fills.
            batch = batch.slice(0, self._most_rows)
        fields = batch.schema.fields
        is_first = self._schema is None
        if is_first:
            self._columns = {f.name: _Column(f, self._targets[f.name]) for f in fields if f.name in self._targets}
        encoded = {
            field.name: self._columns[field.name].dictionary.encode(array)
            for field, array in zip(fields, batch.columns, strict=True)
            if field.name in self._columns
        }
        if any(column.is_full for column in self._columns.values()):
            self._most_rows = SAMPLE_ROWS
            return self.encode(batch.slice(0, batch.num_rows // 2)) if is_first else None
        if not is_first and sum(column.nbytes for column in self._columns.values()) > self._most_nbytes:
            return None
        if self._schema is None:
            written = [replace(f, type=self._targets.get(f.name, f.type)) for f in fields]
            self._schema = Schema(tuple(written), batch.schema.custom_metadata)
        columns = [
            self._columns[field.name].array(array, *encoded[field.name]) if field.name in encoded else array
            for field, array in zip(fields, batch.columns, strict=True)
        ]
        return RecordBatch(self._schema, tuple(columns), batch.num_rows, batch.custom_metadata)


class _Column:
    """A column of one file."""

    def __init__(self, field: t.Field, target: t.Dictionary) -> None:
        self.dictionary = ColumnDictionary(field.type)
        self._name, self._target = field.name, target
        # The values of the last batch, in the type of the column and in that of the file
        self._last: tuple[Array, Array] | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of the dictionary."""
        return nbytes(self.dictionary.values)

    @property
    def is_full(self) -> bool:
        """True if the values are more than the indices count, which is an error if these are narrow."""
        count, most = self.dictionary.values.length, most_values(self._target)
        if count > most and self._target.index.bit_width < _LEAST_INDEX_BITS:
            raise SchemaMismatchError(
                expected=f"at most {most:,} different values, which the indices of {self._target} can count",
                found=f"{count:,}; write all files anew by a rewrite with dictionaryColumns",
                field_path=self._name,
            )
        return count > most

    def array(self, source: Array, positions: Positions, valid: Mask) -> Array:
        """Return the array of the file for positions in the dictionary."""
        values = self.dictionary.values
        if self._last is None or self._last[0] is not values:
            with error_context(field_path=self._name):
                self._last = values, restore(values, self._target.value, self._name, TaskDictionaries())
        validity = None if valid is None else array_data.pack_bits(valid)
        indices = as_buffer(positions.astype(array_data.dtype_of(self._target), copy=False))
        return Array(self._target, source.length, source.count_nulls(), (validity, indices), (), self._last[1])
