"""Which files Spark's rows come to lie in: partitions as Spark's own writer makes them, and files of a bounded size."""

import datetime as dt
import os
import shutil
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.spark.rewrite.compact import compact
from spark_arrow_ipc.spark.rewrite.rewrite import rewrite


def files_of(path):
    return sorted(str(file) for file in Path(path).rglob("part-*"))


def directories_of(path):
    return sorted({os.path.relpath(str(Path(name).parent), path) for name in files_of(path)})


def write(frame, path, mode="append", **options):
    frame.write.format("arrowipc").mode(mode).options(**options).save(str(path))
    return str(path)


KEYS = {
    "integers": "id % 3 AS a, cast(id % 2 AS tinyint) AS b",
    "strings": "element_at(array('x', 'a/b', 'p=q', '', '100%', 'é', ' ', 'a:b', NULL), cast(id % 9 AS int) + 1) AS a",
    "nulls": "if(id % 2 = 0, NULL, id) AS a",
    "booleans": "id % 2 = 0 AS a",
    "floats": "cast(id AS float) / 10 AS a, element_at(array(1e7, 1.5e-5, double('NaN'), double('-Infinity'), 123456.75, 0.1, 1e22), cast(id % 7 AS int) + 1) AS b",
    "decimals": "cast(id AS decimal(10, 2)) / 4 AS a, cast(id AS decimal(30, 0)) AS b",
    "dates": "date_add(date'1969-12-30', cast(id AS int)) AS a",
    "timestamps": "timestamp_micros((id + 1) * 1000000100000) AS a, cast(timestamp_micros(id * 1000000) AS timestamp_ntz) AS b",
    "binaries": "cast(concat('b', id) AS binary) AS a",
}


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_directories_are_named_as_spark_names_them(spark, tmp_path, keys):
    frame = spark.sql(f"SELECT id AS v, {keys} FROM range(0, 20, 1, 2)")
    names = [name for name in frame.columns if name != "v"]
    frame.write.partitionBy(*names).parquet(str(tmp_path / "theirs"))
    ours = write(frame, tmp_path / "ours", partitionBy=",".join(names))
    assert directories_of(tmp_path / "theirs") == directories_of(ours)
    for directory in directories_of(ours):
        ids = sorted(
            v for name in files_of(Path(ours) / directory) for v in pa.ipc.open_file(name).read_all()["v"].to_pylist()
        )
        theirs = pl.read_parquet(str(tmp_path / "theirs" / directory / "*.parquet"), hive_partitioning=False, glob=True)
        assert sorted(theirs["v"].to_list()) == ids


ROWS = "SELECT id, concat('k', id % 30) AS k, id % 2 AS p, concat('text ', id % 7) AS t FROM range(0, 3000, 1, 2)"


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("columns", ["k", "k, p", "#2", "`K`"])
@pytest.mark.parametrize("ipc_format", ["file", "stream"])
def test_partitions_come_back_in_every_reader(spark, tmp_path, columns, ipc_format):
    frame = spark.sql(ROWS)
    options = {"ipcFormat": ipc_format, "dictionaryColumns": "t"}
    path = write(frame.repartition(2), tmp_path / "d", partitionBy=columns, **options)
    expected = sorted((row.id, row.k, row.p, row.t) for row in frame.collect())
    again = spark.read.format("arrowipc").load(path).select("id", "k", "p", "t")
    assert expected == sorted((row.id, row.k, row.p, row.t) for row in again.collect())
    names = {"k": ["k"], "k, p": ["k", "p"], "#2": ["p"], "`K`": ["k"]}[columns]
    rows = []
    for name in files_of(path):
        reader = pl.read_ipc if ipc_format == "file" else pl.read_ipc_stream
        table = reader(name)
        assert not set(names) & set(table.columns)
        keys = dict(part.split("=") for part in os.path.relpath(str(Path(name).parent), path).split("/"))
        rows += [{**keys, **row} for row in table.to_dicts()]
    assert expected == sorted((row["id"], unquote(row["k"]), int(row["p"]), row["t"]) for row in rows)
    # One file for each partition of each task.
    assert 2 == max(Counter(str(Path(name).parent) for name in files_of(path)).values())


@pytest.mark.smoke("partitioned write")
def test_pyarrow_finds_the_partitions(spark, tmp_path):
    path = write(spark.sql(ROWS), tmp_path / "d", partitionBy="k,p")
    table = pa.dataset.dataset(path, format="ipc", partitioning="hive").to_table()
    expected = sorted(map(tuple, spark.sql(ROWS).collect()))
    assert expected == sorted(zip(*(table[c].to_pylist() for c in ("id", "k", "p", "t")), strict=True))


@pytest.mark.smoke("partitioned write")
def test_rows_without_order_are_one_file_a_partition(spark, tmp_path):
    path = write(
        spark.range(0, 20000, 1, 1).select("id", (f.hash("id") % 500).alias("k")), tmp_path / "d", partitionBy="k"
    )
    counts = Counter(str(Path(name).parent) for name in files_of(path))
    assert {1} == set(counts.values())
    assert 900 < len(counts)


def test_an_empty_frame_keeps_its_schema(spark, tmp_path):
    frame = spark.sql(ROWS).where("false")
    path = write(frame, tmp_path / "d")
    (name,) = files_of(path)
    assert ["id", "k", "p", "t"] == pa.ipc.open_file(name).schema.names
    assert frame.dtypes == spark.read.format("arrowipc").load(path).dtypes


@pytest.mark.parametrize("partition_by", [None, "p"])
def test_no_file_has_more_records_than_asked_for(spark, tmp_path, partition_by):
    options = {"maxRecordsPerFile": "400"} | ({"partitionBy": partition_by} if partition_by else {})
    path = write(spark.sql(ROWS), tmp_path / "d", **options)
    rows = [len(pa.ipc.open_file(name).read_all()) for name in files_of(path)]
    assert (3000, 400) == (sum(rows), max(rows))
    assert 8 == len(rows)


def test_no_file_is_longer_than_asked_for(spark, tmp_path):
    frame = spark.range(0, 150_000, 1, 1).select("id", f.sha2(f.col("id").cast("string"), 256).alias("h"))
    path = write(frame, tmp_path / "d", maxFileBytes="1m", recordBatchRows="4096")
    sizes = sorted(Path(name).stat().st_size for name in files_of(path))
    assert 4 < len(sizes)
    assert 1 << 20 >= sizes[-1]
    assert 150_000 == spark.read.format("arrowipc").load(path).count()


def test_record_batches_are_as_large_as_asked_for(spark, tmp_path):
    path = write(spark.range(0, 30_000, 1, 1), tmp_path / "rows", recordBatchRows="20000")
    with ipc.open_file(files_of(path)[0]) as reader:
        assert [20_000, 10_000] == [len(batch) for batch in reader]


ERRORS = {
    "no column": ("x", "there is no column 'x'"),
    "all columns": ("id,k,p,t", "expected a column that stays in the files"),
    "twice": ("k,K", "each partition column once"),
    "a field": ("k.x", "whole columns in partitionBy"),
}


@pytest.mark.parametrize(("columns", "message"), ERRORS.values(), ids=ERRORS)
def test_partition_columns_that_cannot_be_are_an_error_before_any_task(spark, tmp_path, columns, message):
    with pytest.raises(Exception, match=message):
        write(spark.sql(ROWS), tmp_path / "d", partitionBy=columns)
    assert not (tmp_path / "d").exists()


def test_a_type_that_cannot_name_a_directory_is_an_error_before_any_task(spark, tmp_path):
    frame = spark.sql("SELECT id, array(id) AS l FROM range(3)")
    with pytest.raises(Exception, match=r"field l: a column of type list.*cannot be a partition column"):
        write(frame, tmp_path / "d", partitionBy="l")
    assert not (tmp_path / "d").exists()


def test_a_summer_night_that_comes_twice(spark, tmp_path):
    """Instants are named in the session's time zone, as Spark names them; it reads the second of two as the first."""
    first, second = (
        spark.createDataFrame([(hour, dt.datetime(2024, 11, 3, hour, 30, tzinfo=dt.UTC))], "id int, at timestamp")
        for hour in (5, 6)
    )
    first.union(second).write.partitionBy("at").parquet(str(tmp_path / "theirs"))
    ours = write(first, tmp_path / "ours", partitionBy="at")
    assert ["at=2024-11-03 01%3A30%3A00"] == directories_of(tmp_path / "theirs") == directories_of(ours)
    with pytest.raises(Exception, match=r"field at: .*2024-11-03 06:30:00.*comes twice"):
        write(second, tmp_path / "ours", partitionBy="at")
    assert [5] == [row.id for row in spark.read.format("arrowipc").load(str(ours)).collect()]


@pytest.mark.parametrize("mode", ["dynamic", "static"])
def test_an_overwrite_replaces_what_lies_deeper_in_its_partitions_as_parquets_does(spark, tmp_path, mode):
    found = {}
    for source in ("parquet", "arrowipc"):
        path = tmp_path / source

        def save(sql, path=path, source=source, **options):
            writer = spark.sql(sql).coalesce(1).write.format(source).options(**options)
            by = {"partitionBy": "k"} if source == "arrowipc" else {}
            (writer.options(**by) if by else writer.partitionBy("k")).mode("overwrite").save(str(path))

        save("SELECT id, id % 3 AS k FROM range(6)")
        for directory in ("k=0/sub", "k=1/sub/more"):
            (path / directory).mkdir(parents=True)
            old = next((path / directory[:3]).glob("part-*"))
            shutil.copy(old, path / directory / f"copied-{old.name}")
        before = spark.read.format(source).load(str(path)).collect()
        save("SELECT 100 + id AS id, id AS k FROM range(1, 2)", partitionOverwriteMode=mode)
        after = spark.read.format(source).load(str(path)).collect()
        found[source] = [sorted((row.id, row.k) for row in rows) for rows in (before, after)]
        assert not (path / "k=1/sub").exists()
    assert found["parquet"] == found["arrowipc"]
    assert 10 == len(found["parquet"][0])
    assert (101, 1) in found["parquet"][1]


def test_a_job_inside_of_a_data_set_or_above_one_is_refused_in_one_sentence(spark, tmp_path):
    lake, base = str(tmp_path / "lake"), str(tmp_path / "base")
    frame = spark.range(6).selectExpr("id", "id % 3 AS k").coalesce(1)
    write(frame, lake, partitionBy="k")
    for k in (1, 2):
        write(frame.where(f"k = {k}").drop("k"), f"{base}/k={k}")
    frame.write.parquet(str(tmp_path / "in"))

    def stream(path):
        started = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "in")).writeStream.format("arrowipc")
        checkpoint = str(tmp_path / f"checkpoint-{len(refused)}")
        started.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(path).awaitTermination()

    jobs = [
        lambda path: write(frame, path),
        lambda path: write(frame, path, mode="overwrite"),
        lambda path: compact(spark, path),
        lambda path: rewrite(spark, path, path, mode="overwrite"),
        stream,
    ]
    refused = []
    for path, reason in ((f"{lake}/k=1", f"inside of the table {lake}, "), (base, "is a table of its own")):
        before = sorted(
            (row.id, row.k) for row in spark.read.format("arrowipc").load(path).selectExpr("id", "1 AS k").collect()
        )
        for job in jobs:
            with pytest.raises((PySparkException, ArrowIpcError), match=reason):
                job(path)
            refused.append(path)
        after = spark.read.format("arrowipc").load(path).selectExpr("id", "1 AS k").collect()
        assert before == sorted((row.id, row.k) for row in after)
    assert 6 == spark.read.format("arrowipc").load(lake).count()
    write(
        frame.where("k = 1").selectExpr("id + 10 AS id", "k"),
        lake,
        mode="overwrite",
        partitionBy="k",
        partitionOverwriteMode="dynamic",
    )
    assert {11, 14} == {row.id for row in spark.read.format("arrowipc").load(f"{lake}/k=1").collect()}
