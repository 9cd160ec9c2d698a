"""The columns of ``metadataColumns=true``: file, block and position of a row.

Strategy
--------
Spark has no ``_metadata`` column for a Python source, so these are ordinary columns whose names begin with an
underscore. A batch of a scan knows its file and its blocks; the values of a column are one constant for a file, or a
few numpy calls for a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import types as s

from spark_arrow_ipc.dataset.scan.file_range import Origin
from spark_arrow_ipc.dataset.scan.join_small import ScannedBatch
from spark_arrow_ipc.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class RowsOf:
    """The file and the positions that the rows of a batch are from.

    Parameters
    ----------
    range
        The part of the file that is read, or a part of a server's table.
    rows_before
        Rows of the file before the range.
    scanned
        The batch as the scan yields it.
    first, count
        Position of the first row in that batch, and number of rows: a large batch is cut for Spark.
    """

    range: Origin
    rows_before: int
    scanned: ScannedBatch
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class MetadataColumn:
    """A row of `METADATA_COLUMNS`.

    Parameters
    ----------
    type
        In Spark.
    meaning
        For the documentation.
    of_rows
        Returns the value of each row; None if all rows of a file have one value.
    of_file
        Returns that value; None for the others.
    """

    type: s.DataType
    meaning: str
    of_rows: Callable[[RowsOf], np.ndarray[Any, Any]] | None = None
    of_file: Callable[[Origin], str | int | None] | None = None

    def value_of(self, file: Origin) -> str | int | None:
        """Return the value of all rows of a file, a time in microseconds since 1970."""
        assert self.of_file is not None
        return self.of_file(file)

    def array(self, rows: RowsOf, name: str) -> pa.Array:
        """Return the values for a batch, in the type that Spark expects."""
        # Imported late: a schema is inferred without pyarrow.
        from pyarrow import repeat

        from spark_arrow_ipc.spark import pyarrow_values
        from spark_arrow_ipc.spark.conform.expected import expected_type

        to = expected_type(self.type, name)
        if self.of_rows is not None:
            return pyarrow_values.numbers(self.of_rows(rows)).cast(to)
        return repeat(pyarrow_values.scalar(self.value_of(rows.range), to), rows.count)


def _blocks(rows: RowsOf) -> np.ndarray[Any, Any]:
    first, block_rows = rows.scanned.first_block, rows.scanned.block_rows
    if len(block_rows) == 1:  # perhaps a part of a block
        return np.full(rows.count, first, np.int32)
    blocks = np.repeat(np.arange(first, first + len(block_rows), dtype=np.int32), block_rows)
    return blocks[rows.first : rows.first + rows.count]


def _row_indices(rows: RowsOf) -> np.ndarray[Any, Any]:
    first = rows.rows_before + rows.scanned.first_row + rows.first
    return np.arange(first, first + rows.count, dtype=np.int64)


METADATA_COLUMNS: Mapping[str, MetadataColumn] = {
    "_file_path": MetadataColumn(s.StringType(), "absolute path of the file", of_file=lambda file: file.path),
    "_file_size": MetadataColumn(s.LongType(), "its bytes", of_file=lambda file: file.nbytes),
    "_file_modification_time": MetadataColumn(
        s.TimestampType(),
        "when it was last modified",
        of_file=lambda file: None if file.mtime_ns is None else file.mtime_ns // 1000,
    ),
    "_block": MetadataColumn(s.IntegerType(), "number of the record batch in the file, from 0", of_rows=_blocks),
    "_row_index": MetadataColumn(s.LongType(), "number of the row in the file, from 0", of_rows=_row_indices),
}
"""By name, in the order in which they follow all other columns."""


def metadata_schema(names: Iterable[str] = METADATA_COLUMNS) -> s.StructType:
    """Return the Spark schema of the columns, or of some."""
    return s.StructType([s.StructField(name, METADATA_COLUMNS[name].type) for name in names])


def hidden_columns(names: Sequence[str], added: Sequence[str]) -> list[str]:
    """Return those of the columns `names` of `where` that are not among the ones for Spark, in any case."""
    return [name for name in names if name not in set(map(str.lower, added))]


def check_clash(names: Sequence[str]) -> None:
    """Raise if the data has a column with the name of a metadata column.

    Names are compared without regard to case.

    Raises
    ------
    OptionError
        The message has the name.
    """
    own = {name.lower() for name in METADATA_COLUMNS}
    clashes = [name for name in names if name.lower() in own]
    if clashes:
        raise OptionError(
            f"metadataColumns=true adds a column {clashes[0]!r}, and the data has one; choose others with the option "
            "columns, or do without metadataColumns"
        )


def metadata_table() -> str:
    """Return the Markdown table of the columns, for ``docs/options.md``."""
    rows = [f"| `{name}` | {c.type.simpleString()} | {c.meaning} |" for name, c in METADATA_COLUMNS.items()]
    return "\n".join(["| column | type | meaning |", "|---|---|---|", *rows])
