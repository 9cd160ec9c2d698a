"""The columns of ``metadataColumns=true``, for whole batches, parts of them, and joined ones."""

import datetime as dt

import pyarrow as pa
import pytest
from docs_tables import metadata_columns

from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.scan.read_blocks import ScannedBatch
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.convert import pyarrow_schema
from spark_arrow_ipc.spark.read.columns import METADATA_COLUMNS, RowsOf, check_clash, metadata_schema

MODIFIED_NS = 1_767_323_045_123_456_789
PART = FileRange("/lake/a.arrow", 4096, MODIFIED_NS, 3, 6)


def rows_of(block_rows, first, count, *, first_block=3, first_row=0, rows_before=0):
    empty = RecordBatch(Schema(()), (), sum(block_rows))
    return RowsOf(PART, rows_before, ScannedBatch(empty, first_block, first_row, block_rows), first, count)


def values(name, rows):
    return METADATA_COLUMNS[name].array(rows, name).to_pylist()


POSITIONS = {
    # rows of the batch, numbers of their blocks, numbers of the rows
    "one block": (rows_of((4,), 0, 4), [3, 3, 3, 3], [0, 1, 2, 3]),
    "a part of a block": (rows_of((4,), 2, 2), [3, 3], [2, 3]),
    "a later block": (rows_of((2,), 0, 2, first_block=5, first_row=7), [5, 5], [7, 8]),
    "rows before the range": (rows_of((2,), 0, 2, rows_before=100), [3, 3], [100, 101]),
    "joined blocks": (rows_of((2, 1, 3), 0, 6), [3, 3, 4, 5, 5, 5], [0, 1, 2, 3, 4, 5]),
    "joined blocks, one empty": (rows_of((1, 0, 2), 0, 3), [3, 5, 5], [0, 1, 2]),
    "a part of joined blocks": (rows_of((2, 1, 3), 1, 3, first_row=10, rows_before=100), [3, 4, 5], [111, 112, 113]),
    "no row": (rows_of((0,), 0, 0), [], []),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_rows_have_their_block_and_their_number(name):
    rows, blocks, numbers = POSITIONS[name]
    assert blocks == values("_block", rows)
    assert numbers == values("_row_index", rows)


def test_columns_of_the_file_are_constant():
    rows = rows_of((2,), 0, 2)
    assert ["/lake/a.arrow"] * 2 == values("_file_path", rows)
    assert [4096] * 2 == values("_file_size", rows)


def test_the_modification_time_is_exact_to_the_microsecond():
    (moment,) = values("_file_modification_time", rows_of((1,), 0, 1))
    assert dt.datetime(2026, 1, 2, 3, 4, 5, 123456, dt.UTC) == moment


def test_columns_have_the_types_that_spark_expects():
    expected = pyarrow_schema(metadata_schema())
    rows = rows_of((2, 1), 0, 3)
    columns = [column.array(rows, name) for name, column in METADATA_COLUMNS.items()]
    assert 3 == pa.RecordBatch.from_arrays(columns, schema=expected).num_rows
    assert expected.types == [column.type for column in columns]


def test_a_column_of_the_data_may_not_have_the_name():
    check_clash(["block", "_blocks"])
    for name in METADATA_COLUMNS:
        with pytest.raises(OptionError, match=f"adds a column '{name.upper()}', and the data has one"):
            check_clash(["a", name.upper()])


def test_the_list_has_a_line_for_each_column():
    lines = metadata_columns().splitlines()
    assert list(METADATA_COLUMNS) == [line.split("`")[1] for line in lines]
    assert "- `_block` (int): number of the record batch in the file, from 0" in lines
