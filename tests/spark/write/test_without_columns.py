"""Rows without columns: each way of writing refuses them, before it touches anything. Spark's file sources are the oracle."""

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import types as s

from spark_arrow_ipc import ingest, rewrite

ROWS = [(i,) for i in range(5)]
NONE = s.StructType([])
EMPTY_SCHEMA = "EMPTY_SCHEMA_NOT_SUPPORTED_FOR_DATASOURCE"


@pytest.fixture
def path(spark, tmp_path):
    path = tmp_path / "data"
    spark.range(5, numPartitions=1).write.format("arrowipc").mode("append").save(str(path))
    return path


def written(frame, path, *, mode, **options):
    frame.write.format("arrowipc").mode(mode).options(**options).save(str(path))


def streamed(frame, path):
    source = frame.sparkSession.readStream.schema("id bigint").parquet(str(path.parent / "in"))
    query = source.select([]).writeStream.format("arrowipc")
    query.option("checkpointLocation", str(path.parent / "c")).trigger(availableNow=True).start(
        str(path)
    ).awaitTermination()


def no_columns(batches):
    return (batch.select([]) for batch in batches)


WAYS = {
    "append": lambda frame, path: written(frame, path, mode="append"),
    "overwrite": lambda frame, path: written(frame, path, mode="overwrite"),
    "dynamic": lambda frame, path: written(
        frame, path, mode="overwrite", partitionBy="id", partitionOverwriteMode="dynamic"
    ),
    "ifExists=ignore": lambda frame, path: written(frame, path, mode="append", ifExists="ignore"),
    "ifExists=error": lambda frame, path: written(frame, path, mode="append", ifExists="error"),
    "schemaCheck=none": lambda frame, path: written(frame, path, mode="append", schemaCheck="none"),
    "a new data set": lambda frame, path: written(frame, path / "new", mode="append"),
    "a stream": streamed,
    "rewrite": lambda frame, path: rewrite(frame.sparkSession, path, path, no_columns, NONE, mode="overwrite"),
    "ingest": lambda frame, path: ingest(
        frame.sparkSession,
        path,
        path.parent / "out",
        no_columns,
        NONE,
        checkpoint=path.parent / "c",
        trigger={"availableNow": True},
    ).awaitTermination(),
}


def everything_below(path):
    return {file: file.stat().st_mtime_ns for file in path.rglob("*")}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_rows_without_columns_are_refused(spark, path, way):
    frame = spark.range(5)
    frame.write.parquet(str(path.parent / "in"))
    before = everything_below(path)
    with pytest.raises(Exception, match=f"no columns.*{EMPTY_SCHEMA}"):
        way(frame.select([]), path)
    assert before == everything_below(path)
    assert ROWS == sorted(spark.read.format("arrowipc").load(str(path)).collect())


def test_parquet_refuses_them_by_the_same_name(spark, tmp_path):
    with pytest.raises(AnalysisException, match=EMPTY_SCHEMA):
        spark.range(5).select([]).write.parquet(str(tmp_path / "p"))


def test_all_columns_as_partition_columns_are_refused(spark, path):
    before = everything_below(path)
    with pytest.raises(Exception, match="all columns in partitionBy"):
        written(spark.range(5), path, mode="overwrite", partitionBy="id")
    assert before == everything_below(path)


EMPTY_STRUCTS = {
    "a column": "IF(id = 2, NULL, struct())",
    "beside a field": "struct(id, IF(id = 2, NULL, struct()) AS e)",
    "in an array": "IF(id = 1, NULL, array(struct(), NULL))",
    "in a map": "map('k', IF(id = 2, NULL, struct()))",
}


@pytest.mark.parametrize("sql", EMPTY_STRUCTS.values(), ids=EMPTY_STRUCTS)
def test_structs_without_fields_come_back(spark, tmp_path, sql):
    """Parquet cannot hold them, and Spark refuses some; Arrow holds their nulls."""
    frame = spark.range(5).selectExpr("id", f"{sql} AS e")
    written(frame, tmp_path / "e", mode="append")
    read = spark.read.format("arrowipc").load(str(tmp_path / "e"))
    assert frame.schema["e"].dataType.simpleString() == read.schema["e"].dataType.simpleString()
    assert sorted(frame.collect(), key=lambda row: row.id) == sorted(read.collect(), key=lambda row: row.id)
    only = frame.select("e")
    written(only, tmp_path / "o", mode="append")
    read = spark.read.format("arrowipc").load(str(tmp_path / "o"))
    assert (5, sorted(map(str, only.collect()))) == (read.count(), sorted(map(str, read.collect())))


@pytest.mark.parametrize("new_file", [pa.ipc.new_file, pa.ipc.new_stream], ids=["file", "stream"])
def test_a_file_without_columns_has_its_rows(spark, tmp_path, new_file):
    batch = pa.RecordBatch.from_struct_array(pa.array([{}] * 5, pa.struct([])))
    path = str(tmp_path / ("f.arrow" if new_file is pa.ipc.new_file else "f.arrows"))
    with new_file(path, batch.schema) as writer:
        writer.write_batch(batch)
    frame = spark.read.format("arrowipc").load(path)
    assert (5, [()] * 5) == (frame.count(), list(map(tuple, frame.collect())))
