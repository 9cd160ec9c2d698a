"""The columns of ``metadataColumns=true``: file, block and position of a row.

Strategy
--------
Spark has no ``_metadata`` column for a Python source, so these are ordinary columns whose names begin with an
underscore. A batch of a scan knows its file and its blocks; the values of a column are one constant for a file, or a
few numpy calls for a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import types as s

from spark_arrow_ipc.dataset.scan.file_range import Origin
from spark_arrow_ipc.dataset.scan.join_small import ScannedBatch
from spark_arrow_ipc.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["METADATA_COLUMNS", "MetadataColumn", "RowsOf", "check_clash", "metadata_schema", "metadata_table"]


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
    values
        Returns an array with the value of each row, or one value for all rows.
    meaning
        For the documentation.
    """

    type: s.DataType
    values: Callable[[RowsOf], Any]
    meaning: str

    def array(self, rows: RowsOf, name: str) -> pa.Array:
        """Return the values for a batch, in the type that Spark expects."""
        # Imported late: a schema is inferred without pyarrow.
        from pyarrow import repeat

        from spark_arrow_ipc.spark import pyarrow_values
        from spark_arrow_ipc.spark.conform.expected import expected_type

        to = expected_type(self.type, name)
        values = self.values(rows)
        if isinstance(values, np.ndarray):
            return pyarrow_values.numbers(values).cast(to)
        return repeat(pyarrow_values.scalar(values, to), rows.count)


def _modified(rows: RowsOf) -> datetime | None:
    if rows.range.mtime_ns is None:
        return None
    # Whole microseconds, without the rounding of floating point.
    seconds, nanoseconds = divmod(rows.range.mtime_ns, 1_000_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanoseconds // 1000)


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
    "_file_path": MetadataColumn(s.StringType(), lambda rows: rows.range.path, "absolute path of the file"),
    "_file_size": MetadataColumn(s.LongType(), lambda rows: rows.range.nbytes, "its bytes"),
    "_file_modification_time": MetadataColumn(s.TimestampType(), _modified, "when it was last modified"),
    "_block": MetadataColumn(s.IntegerType(), _blocks, "number of the record batch in the file, from 0"),
    "_row_index": MetadataColumn(s.LongType(), _row_indices, "number of the row in the file, from 0"),
}
"""By name, in the order in which they follow all other columns."""


def metadata_schema() -> s.StructType:
    """Return the Spark schema of the columns."""
    return s.StructType([s.StructField(name, column.type) for name, column in METADATA_COLUMNS.items()])


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
