"""`Files`: the managed files of an entry or a snapshot, as columns.

A snapshot may have 100,000 files, so nothing here loops over them but the encoding of paths. `Files` is stored in two
forms: as columns of JSON in an entry, and as columns of an Arrow file in a checkpoint. Both hold the same statistics: a
struct for each scalar leaf column, with one row for each data file, in the form that footers have for each record batch
(`dataset.statistics.format`). Files that lack a column have nulls there.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.kernels.concat import concat
from spark_arrow_ipc.arrow.kernels.take import take
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage.paths import join
from spark_arrow_ipc.table.names import are_visible, is_text, is_visible

Numbers: TypeAlias = npt.NDArray[np.int64]

# Bounds of neighbouring files are alike: zstd halves them.
_STREAM: Final = ipc.WriteOptions(format="stream", alignment=8, compression="zstd")

LIMITS: Final = ipc.Limits(
    max_batch_bytes=1 << 30, max_dictionary_bytes=1 << 20, max_metadata_bytes=64 << 20, max_slots=1 << 26
)
"""A million files with the statistics of 64 columns take less."""

_COLUMNS: Final = (t.Field("path", t.utf8), *(t.Field(name, t.int64) for name in ("bytes", "rows", "crc32", "number")))


class StagedFile(NamedTuple):
    """A file that a task has written, made durable and read back."""

    staged: str  # name in the staging directory of the job
    directory: str  # relative directory of the table where it belongs, empty for the table's own
    name: str  # final name
    nbytes: int
    rows: int
    crc32: int

    @property
    def path(self) -> str:
        """The relative path that the file gets."""
        return join(self.directory, self.name) if self.directory else self.name


@dataclass(frozen=True, slots=True, eq=False)
class Files:
    """Data files, one slot each.

    Parameters
    ----------
    paths
        Relative to the table, each once.
    nbytes, rows
        Sizes in bytes, and numbers of rows.
    crc32
        Checksums of the last bytes of each file (`tail_crc32`).
    numbers
        The entry that added each file.
    statistics
        One column for each leaf column that any of the files has statistics of; None if none has.
    """

    paths: tuple[str, ...]
    nbytes: Numbers
    rows: Numbers
    crc32: Numbers
    numbers: Numbers
    statistics: RecordBatch | None = None

    def __len__(self) -> int:
        return len(self.paths)

    @classmethod
    def of(
        cls,
        rows: Sequence[tuple[str, int, int, int]],
        number: int = 0,
        statistics: RecordBatch | None = None,
    ) -> Files:
        """Return the files of an entry, given by path, size, rows and checksum."""
        paths = tuple(row[0] for row in rows)
        nbytes, rows_, crc32 = (np.array([row[i] for row in rows], np.int64) for i in (1, 2, 3))
        return cls(paths, nbytes, rows_, crc32, np.full(len(paths), number, np.int64), statistics)

    def select(self, mask: npt.NDArray[np.bool_]) -> Files:
        """Return the files at which the mask is True. O(files)."""
        # Most entries remove nothing, and 100,000 paths would be copied.
        if mask.all():
            return self
        slots = np.flatnonzero(mask)
        statistics = self.statistics
        if statistics is not None:
            columns = tuple(take(column, slots) for column in statistics.columns)
            statistics = RecordBatch(statistics.schema, columns, len(slots))
        return Files(
            tuple(self.paths[i] for i in slots),
            self.nbytes[slots],
            self.rows[slots],
            self.crc32[slots],
            self.numbers[slots],
            statistics,
        )

    def check(self) -> None:
        """Raise a `CommitError` if a path leads out of the table or occurs twice, or a number is impossible."""
        # One search for all: a match for each of 100,000 paths takes three times as long.
        if not are_visible(self.paths):
            path = next(path for path in self.paths if not is_visible(path))
            raise CommitError(f"the path {path!r:.300} is not a relative one that readers see")
        if not is_text("".join(self.paths)):
            raise CommitError("a path is not UTF-8")
        # Twice in one snapshot, its rows would count twice.
        if len(set(self.paths)) != len(self.paths):
            raise CommitError("a path occurs twice")
        if any((column < 0).any() for column in (self.nbytes, self.rows, self.crc32, self.numbers)):
            raise CommitError("a size, a number of rows or a checksum is negative")
        if self.statistics is not None and self.statistics.num_rows != len(self):
            raise CommitError(expected=f"statistics of {len(self):,} files", found=f"{self.statistics.num_rows:,}")

    # ---- in an entry

    def to_json(self) -> dict[str, Any]:
        """Return the columns for an entry, without the entry's own number."""
        columns: dict[str, Any] = {
            "path": list(self.paths),
            "bytes": self.nbytes.tolist(),
            "rows": self.rows.tolist(),
            "crc32": self.crc32.tolist(),
        }
        if self.statistics is not None:
            sink = io.BytesIO()
            ipc.write(sink, [self.statistics], self.statistics.schema, _STREAM)
            columns["statistics"] = base64.b64encode(sink.getbuffer()).decode()
        return columns

    @classmethod
    def from_json(cls, columns: dict[str, Any], number: int) -> Files:
        """Decode the columns of an entry.

        Raises
        ------
        CommitError, ArrowIpcError, ValueError, TypeError, KeyError
            They are malformed.
        """
        paths = columns["path"]
        numeric = [columns[name] for name in ("bytes", "rows", "crc32")]
        if any(type(column) is not list for column in (paths, *numeric)):
            raise CommitError("a column of the files is not a list")
        # `True` is an int of Python, and numpy would round a float without a word.
        if not all(type(value) is int for column in numeric for value in column):
            raise CommitError("a size, a number of rows or a checksum is not an integer")
        # zip and numpy would pair the files with sizes of others.
        if {len(column) for column in numeric} != {len(paths)}:
            raise CommitError("the columns of the files have different lengths")
        nbytes, rows, crc32 = (np.array(column, np.int64) for column in numeric)
        numbers = np.full(len(paths), number, np.int64)
        files = cls(tuple(paths), nbytes, rows, crc32, numbers, _read_statistics(columns.get("statistics")))
        files.check()
        return files

    # ---- in a checkpoint

    def to_batch(self) -> RecordBatch:
        """Return the record batch of a checkpoint."""
        columns = [from_pylist.array(list(self.paths), t.utf8)]
        columns += [_int64(values) for values in (self.nbytes, self.rows, self.crc32, self.numbers)]
        statistics = self.statistics or RecordBatch(Schema.of([]), (), len(self))
        struct = t.Struct(statistics.schema.fields)
        columns.append(Array(struct, len(self), 0, (None,), tuple(statistics.columns)))
        return RecordBatch(Schema.of([*_COLUMNS, t.Field("statistics", struct)]), tuple(columns), len(self))

    @classmethod
    def from_batch(cls, batch: RecordBatch) -> Files:
        """Decode the record batch of a checkpoint.

        Raises
        ------
        CommitError
            It has other columns, nulls, or values that no checkpoint has.
        """
        fields = batch.schema.fields
        if fields[: len(_COLUMNS)] != _COLUMNS or len(fields) != len(_COLUMNS) + 1:
            raise CommitError("the columns are not those of a checkpoint")
        struct = batch.columns[-1]
        # A null path or size would become an arbitrary value of its slot.
        if not isinstance(struct.type, t.Struct) or any(column.count_nulls() for column in batch.columns):
            raise CommitError("the columns are not those of a checkpoint")
        nbytes, rows, crc32, numbers = (
            np.array(array_data.data_values(column), np.int64) for column in batch.columns[1:-1]
        )
        statistics = None
        if struct.type.fields:
            children = tuple(child.slice(struct.offset, struct.length) for child in struct.children)
            statistics = RecordBatch(Schema(struct.type.fields), children, batch.num_rows)
        files = cls(tuple(batch.columns[0].to_pylist()), nbytes, rows, crc32, numbers, statistics)
        files.check()
        return files


NO_FILES: Final = Files.of(())


def concat_files(parts: Sequence[Files]) -> Files:
    """Return the files of all parts in order. O(files x columns with statistics)."""
    parts = [part for part in parts if len(part)]
    if len(parts) < 2:
        return parts[0] if parts else NO_FILES
    nbytes, rows, crc32, numbers = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("nbytes", "rows", "crc32", "numbers")
    )
    paths = tuple(chain.from_iterable(part.paths for part in parts))
    return Files(paths, nbytes, rows, crc32, numbers, _concat_statistics(parts))


def _concat_statistics(parts: Sequence[Files]) -> RecordBatch | None:
    """Join statistics by field: a column of another type, after a change of the schema, is a column of its own."""
    columns = [
        {}
        if part.statistics is None
        else dict(zip(part.statistics.schema.fields, part.statistics.columns, strict=True))
        for part in parts
    ]
    # In the order of their first file, so that all processes make the same checkpoint.
    fields = list(dict.fromkeys(field for by_field in columns for field in by_field))
    if not fields:
        return None
    arrays = tuple(
        concat(
            [
                by_field[field] if field in by_field else from_pylist.array([None] * len(part), field.type)
                for part, by_field in zip(parts, columns, strict=True)
            ]
        )
        for field in fields
    )
    return RecordBatch(Schema.of(fields), arrays, sum(map(len, parts)))


def _read_statistics(encoded: str | None) -> RecordBatch | None:
    if encoded is None:
        return None
    with ipc.open_stream(base64.b64decode(encoded, validate=True), limits=LIMITS) as reader:
        batches = list(reader)
    # One row for each file, in one batch: what is more would be of other files.
    if len(batches) != 1:
        raise CommitError(expected="statistics in one record batch", found=f"{len(batches)}")
    return batches[0]


def _int64(values: Numbers) -> Array:
    return Array(t.int64, len(values), 0, (None, memoryview(values.tobytes())))
