import io

import duckdb
import nanoarrow as na
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, RecordBatchStream, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import ArrowIpcError

TABLE = pa.table({"a": [1, 2, None], "s": ["x", None, "grün"]})
BATCH = TABLE.to_batches()[0]
OURS = RecordBatch.from_arrow(BATCH)
COLUMNS = TABLE.to_pydict()

SOURCES = {
    "a record batch": lambda: OURS,
    "record batches": lambda: [OURS],
    "a reader": lambda: ipc.open(file_of(TABLE)),
    "a stream of batches": lambda: RecordBatchStream.from_arrow(TABLE),
    "polars": lambda: pl.DataFrame(TABLE),
    "pandas": lambda: pd.DataFrame(COLUMNS).convert_dtypes(),
    "DuckDB": lambda: duckdb.sql("SELECT * FROM TABLE_OF"),
    "pyarrow, a table": lambda: TABLE,
    "pyarrow, a batch": lambda: BATCH,
    "pyarrow, a reader": TABLE.to_reader,
    "pyarrow, an array": BATCH.to_struct_array,
    "nanoarrow": lambda: na.Array(TABLE),
    "nanoarrow, of several chunks": lambda: na.Array(pa.concat_tables([TABLE, TABLE])),
    "some of each": lambda: (part for part in [OURS, BATCH, TABLE]),
}
TABLE_OF = TABLE


def file_of(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("format_", ["file", "stream"])
def test_write_takes(make, format_):
    sink = io.BytesIO()
    ipc.write(sink, make(), options=ipc.WriteOptions(format=format_))
    opened = (pa.ipc.open_file if format_ == "file" else pa.ipc.open_stream)(sink.getvalue())
    table = opened.read_all()
    assert table.num_rows % 3 == 0
    assert COLUMNS == table.slice(table.num_rows - 3).to_pydict()


def test_a_writer_takes_them_too():
    sink = io.BytesIO()
    with ipc.create(sink, OURS.schema) as writer:
        assert writer.write(TABLE)
        assert writer.write(BATCH)
        with pytest.raises(ValueError, match="expected a RecordBatch where `within` is given"):
            writer.write(TABLE, within=10)
    assert 6 == pa.ipc.open_file(sink.getvalue()).read_all().num_rows


def test_a_table_without_batches_has_a_schema():
    sink = io.BytesIO()
    ipc.write(sink, TABLE.slice(0, 0))
    assert TABLE.schema == pa.ipc.open_file(sink.getvalue()).schema


EMPTY_BATCHES = {
    "pyarrow, alone": lambda: BATCH.slice(0, 0),
    "pyarrow, in a list": lambda: [BATCH.slice(0, 0)],
    "pyarrow, of no columns": lambda: pa.record_batch({}),
    "pyarrow, an array": lambda: BATCH.slice(0, 0).to_struct_array(),
    "nanoarrow": lambda: na.c_array(BATCH.slice(0, 0)),
    "ours, alone": lambda: OURS.slice(0, 0),
    "ours, in a list": lambda: [OURS.slice(0, 0)],
}


@pytest.mark.parametrize("make", EMPTY_BATCHES.values(), ids=EMPTY_BATCHES)
def test_a_batch_without_rows_is_a_batch(make):
    """Whoever made it: a stream of batches may have empty ones, and they may be all there is."""
    sink = io.BytesIO()
    ipc.write(sink, make())
    reader = pa.ipc.open_file(sink.getvalue())
    assert [0] == [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]


EMPTY = TABLE.slice(0, 0)
EMPTY_TABLES = {
    "a table in a list": lambda: [EMPTY],
    "two tables": lambda: (EMPTY for _ in range(2)),
    "a reader in a tuple": lambda: (EMPTY.to_reader(),),
    "a file of ours": lambda: ipc.open(file_of(EMPTY)),
    "a file of ours in a list": lambda: [ipc.open(file_of(EMPTY))],
    "pandas in a list": lambda: [pd.DataFrame(COLUMNS).convert_dtypes().head(0)],
    "DuckDB in a list": lambda: [duckdb.sql("SELECT * FROM TABLE_OF WHERE false")],
}


@pytest.mark.parametrize("make", EMPTY_TABLES.values(), ids=EMPTY_TABLES)
def test_tables_without_batches_have_a_schema(make):
    """A day without rows is a table, and its file has the columns."""
    sink = io.BytesIO()
    ipc.write(sink, make())
    reader = pa.ipc.open_file(sink.getvalue())
    assert (["a", "s"], 0) == (reader.schema.names, reader.num_record_batches)


def test_empty_tables_before_a_batch_leave_the_schema_to_it():
    sink = io.BytesIO()
    ipc.write(sink, [EMPTY, TABLE, EMPTY])
    assert COLUMNS == pa.ipc.open_file(sink.getvalue()).read_all().to_pydict()


def test_empty_tables_of_two_schemas_are_refused():
    with pytest.raises(ValueError, match="expected tables of one schema, found only empty ones, whose schemas differ"):
        ipc.write(io.BytesIO(), [EMPTY, EMPTY.rename_columns(["b", "s"])])


REFUSED = [
    ("a number", 5, TypeError, "expected record batches, found int"),
    ("numbers", [5], TypeError, "an object with __arrow_c_stream__ .*found int"),
    ("a series", pl.Series([1]), TypeError, "the structs of a record batch"),
    ("nothing", [], ValueError, "a schema, or at least one record batch or table"),
]


@pytest.mark.parametrize(("source", "error", "message"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_what_has_no_record_batches_is_refused(source, error, message):
    with pytest.raises(error, match=message):
        ipc.write(io.BytesIO(), source)


def test_an_error_on_the_way_leaves_no_file(tmp_path):
    def make():
        yield BATCH
        raise OSError("the source is gone")

    reader = pa.RecordBatchReader.from_batches(TABLE.schema, make())
    with pytest.raises(ArrowIpcError, match="the source is gone"):
        ipc.write(tmp_path / "x.arrow", reader)
    assert [] == list(tmp_path.iterdir())


def test_another_schema_is_refused():
    with pytest.raises(ValueError, match="expected column 0 to be b: int64, found a: int64"):
        ipc.write(io.BytesIO(), BATCH, Schema.of([t.field("b", t.int64), t.field("s", t.utf8)]))
