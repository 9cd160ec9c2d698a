"""What other programs make of a table whose columns are dictionaries: the rows are those that were given (docs/writing.md).

No session: writers and tasks are called as Spark calls them.
"""

import datetime as dt
import decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from pyspark.sql import types as s

from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource

pytestmark = pytest.mark.nightly

ROWS = 4000
START = dt.datetime(2024, 1, 1)
COLUMNS = {
    "text": (s.StringType(), pa.string(), lambda i: None if i % 7 == 0 else f"v{i % 5}"),
    "raw": (s.BinaryType(), pa.binary(), lambda i: b"%d" % (i % 3)),
    "n": (s.LongType(), pa.int64(), lambda i: None if i % 11 == 0 else i % 90 - 45),
    "small": (s.IntegerType(), pa.int32(), lambda i: i % 4),
    "x": (s.DoubleType(), pa.float64(), lambda i: (i % 6) / 4),
    "price": (s.DecimalType(12, 2), pa.decimal128(12, 2), lambda i: decimal.Decimal(i % 40) / 4),
    "day": (s.DateType(), pa.date32(), lambda i: dt.date(2024, 1, 1) + dt.timedelta(i % 30)),
    "at": (s.TimestampNTZType(), pa.timestamp("us"), lambda i: START + dt.timedelta(hours=i % 20)),
}


def rows(first, count):
    arrays = [pa.array([make(i) for i in range(first, first + count)], type_) for _, type_, make in COLUMNS.values()]
    ids = pa.array(range(first, first + count), pa.int64())
    return pa.record_batch([ids, *arrays], ["id", *COLUMNS])


GIVEN = pa.Table.from_batches([rows(0, 3 * ROWS)])


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Write a table by two jobs of several tasks each."""
    path = tmp_path_factory.mktemp("lake")
    schema = s.StructType(
        [s.StructField("id", s.LongType()), *(s.StructField(name, row[0]) for name, row in COLUMNS.items())]
    )
    for tasks in ([0, 1], [2]):
        writer = ArrowIpcDataSource({"path": str(path), "dictionaryColumns": "all"}).writer(schema, overwrite=False)
        writer.commit([writer.write(iter([rows(task * ROWS, ROWS)])) for task in tasks])
    for file in path.glob("*.arrow"):
        schema = pa.ipc.open_file(file).schema
        assert [name for name in schema.names if name != "id"] == [
            f.name for f in schema if pa.types.is_dictionary(f.type)
        ]
    return path


def test_pyarrow_has_the_same_values_and_lacks_arithmetic(lake):
    for files in (sorted(lake.glob("*.arrow")), sorted(lake.glob("*.arrow"))[::-1]):
        table = ds.dataset(files, format="ipc").to_table().sort_by("id")
        assert GIVEN.to_pylist() == table.to_pylist()
    decoded = pa.table({name: table[name].cast(GIVEN[name].type) for name in table.column_names})
    assert GIVEN.equals(decoded)
    for compute in (pc.sum, pc.mean, pc.min_max):
        with pytest.raises(pa.ArrowNotImplementedError):
            compute(table["n"])
    assert 1500 < table.filter(pc.field("n") > 0).num_rows
    with pytest.raises(pa.ArrowNotImplementedError):
        table.group_by("text").aggregate([("n", "sum")])


def test_polars_has_numbers_as_numbers_and_strings_as_categories(lake):
    pl = pytest.importorskip("polars")
    frame = pl.scan_ipc(lake / "*.arrow").sort("id").collect()
    assert [pl.Int64, pl.Categorical, pl.Int64, pl.Int32] == [
        frame.schema[name] for name in ("id", "text", "n", "small")
    ]
    plain = pl.from_arrow(GIVEN)
    assert plain.to_dicts() == frame.with_columns(pl.col("text").cast(pl.String)).to_dicts()
    assert plain["n"].sum() == frame["n"].sum()
    assert plain["price"].sum() == frame["price"].sum()
    with pytest.raises(pl.exceptions.PolarsError):
        frame.join(plain.select("text").unique(), on="text")


def test_duckdb_has_the_same_rows_and_sums(lake):
    duckdb = pytest.importorskip("duckdb")
    lake = ds.dataset(sorted(lake.glob("*.arrow")), format="ipc")
    given = GIVEN  # noqa: F841 - as above
    query = 'SELECT text, count(*), sum(n), min(price), max(day), min("at"), sum(x) FROM {} WHERE small > 0 GROUP BY ALL ORDER BY ALL'
    assert duckdb.sql(query.format("given")).fetchall() == duckdb.sql(query.format("lake")).fetchall()
    assert GIVEN.to_pylist() == duckdb.sql("SELECT * FROM lake ORDER BY id").to_arrow_table().to_pylist()


def test_pandas_has_categories_without_arithmetic(lake):
    pd = pytest.importorskip("pandas")
    frame = pd.concat([pd.read_feather(file) for file in sorted(lake.glob("*.arrow"))]).sort_values("id")
    frame = ds.dataset(sorted(lake.glob("*.arrow")), format="ipc").to_table().sort_by("id").to_pandas()
    assert {"category"} == {str(frame[name].dtype) for name in COLUMNS}
    plain = GIVEN.to_pandas()
    for name in COLUMNS:
        ours, theirs = frame[name].astype(object), plain[name].astype(object)
        assert theirs.where(theirs.notna(), None).tolist() == ours.where(ours.notna(), None).tolist()
    for compute in (lambda c: c.sum(), lambda c: c.mean(), lambda c: c + 1, lambda c: c > 1):
        with pytest.raises(TypeError):
            compute(frame["n"])
    assert plain["n"].sum() == frame["n"].astype("float64").sum()


def test_nanoarrow_reads_them_uncompressed(tmp_path):
    na = pytest.importorskip("nanoarrow")
    schema = s.StructType([s.StructField("text", s.StringType()), s.StructField("n", s.LongType())])
    options = {"path": str(tmp_path), "dictionaryColumns": "all", "compression": "none", "ipcFormat": "stream"}
    writer = ArrowIpcDataSource(options).writer(schema, overwrite=False)
    given = rows(0, ROWS).select(["text", "n"])
    writer.commit([writer.write(iter([given]))])
    (file,) = tmp_path.glob("*.arrows")
    with na.ArrayStream.from_path(str(file)) as stream:
        columns = [
            list(column.to_pylist())
            for column in pa.Table.from_batches([pa.record_batch(each) for each in stream]).columns
        ]
    assert [given["text"].to_pylist(), given["n"].to_pylist()] == columns
