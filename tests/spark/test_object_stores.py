"""Spark on an object store that runs: reads, writes in every mode, a cluster, and what other programs see.

SeaweedFS runs requests at once and checks signatures. Files that are read here are put there by boto3, and what is
written is read by pyarrow, polars and boto3.
"""

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
import quick_jvm
import quick_spark
from object_stores import BUCKET, SECRET, boto_client
from pushed import BOTH_WAYS, sql_session
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from spark_arrow_ipc.storage.object_store import ObjectStorage
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.vacuum import vacuum

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).parents[2]
WORDS = ["red", "green", "blue"]


class Bucket:
    """A directory of the bucket that nobody used, by our options, by boto3, by pyarrow and by polars."""

    def __init__(self, store):
        self.store = store
        self.url = store.directory()
        self.prefix = self.url.removeprefix(f"s3://{BUCKET}/")
        self.client = boto_client(store)

    def read(self, spark, *paths, **options):
        urls = [f"{self.url}/{path}" if path else self.url for path in paths or [""]]
        return spark.read.format("arrowipc").options(**self.store.spark_options, **options).load(urls)

    def write(self, frame, path, mode="append", **options):
        writer = frame.write.format("arrowipc").mode(mode).options(**self.store.spark_options, **options)
        writer.save(f"{self.url}/{path}")

    def put(self, key, table, *, rows=100):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)
        self.client.put_object(Bucket=BUCKET, Key=f"{self.prefix}/{key}", Body=sink.getvalue().to_pybytes())

    def files(self, path=""):
        """The keys below a path, but those of the log and the sign of success."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{self.prefix}/{path}")
        found = [entry["Key"].removeprefix(f"{self.prefix}/") for page in pages for entry in page.get("Contents", ())]
        return sorted(key for key in found if "_ipc_log/" not in key and not key.endswith("_SUCCESS"))

    def arrow(self, path):
        """All rows, as pyarrow's dataset reads a directory."""
        options = self.store.options
        there = fs.S3FileSystem(
            access_key=options["access_key_id"], secret_key=options["secret_access_key"], region=options["region"],
            endpoint_override=options["endpoint"].removeprefix("http://"), scheme="http",
        )  # fmt: skip
        where = f"{BUCKET}/{self.prefix}/{path}"
        return ds.dataset(where, filesystem=there, format="ipc", partitioning="hive").to_table()

    def polars(self, pattern):
        names = {"access_key_id": "aws_access_key_id", "secret_access_key": "aws_secret_access_key"}
        names |= {"endpoint": "aws_endpoint_url", "region": "aws_region", "allow_http": "aws_allow_http"}
        options = {names[name]: value for name, value in self.store.options.items()}
        return pl.scan_ipc(f"{self.url}/{pattern}", storage_options=options).collect()


@pytest.fixture
def bucket(servers):
    place = Bucket(servers("seaweedfs"))
    yield place
    place.client.close()


def table(first, rows=1_000, **more):
    ids = range(first, first + rows)
    return pa.table({"id": pa.array(ids, pa.int64()), "word": [WORDS[i % 3] for i in ids], **more})


@pytest.fixture
def lake(bucket):
    """Three files in two partitions, ids 0 to 2,999; `k=2` has one more column; what is hidden is no data."""
    bucket.put("t/k=1/a.arrow", table(0))
    bucket.put("t/k=1/b.arrow", table(1_000))
    bucket.put("t/k=2/c d%.arrow", table(2_000, extra=pa.array([0.5] * 1_000)))
    bucket.put("t/_hidden/x.arrow", table(9_000))
    bucket.client.put_object(Bucket=BUCKET, Key=f"{bucket.prefix}/t/_SUCCESS", Body=b"")
    return bucket


ALL, FIRST, LAST = range(3_000), range(2_000), range(2_000, 3_000)

READS = {
    "a directory": (["t"], {}, None, ALL),
    "a directory with a slash": (["t/"], {}, None, ALL),
    "a partition": (["t/k=2"], {}, None, LAST),
    "a pattern": (["t/k=*/[ab].arrow"], {}, None, FIRST),
    "alternatives": (["t/{k=2,k=3}/*.arrow"], {}, None, LAST),
    "several paths": (["t/k=1/b.arrow", "t/k=2/c d%.arrow"], {}, None, range(1_000, 3_000)),
    "every depth": ([""], {"recursiveFileLookup": "true"}, None, ALL),
    "a filter of names": (["t"], {"pathGlobFilter": "c*"}, None, LAST),
    "a base path": (["t/k=2"], {"basePath": "t"}, "k = 2", LAST),
    "a filter on a partition": (["t"], {}, "k = 2", LAST),
    "where, on a partition": (["t"], {"where": "k = 1"}, None, FIRST),
    "where, on rows": (["t"], {"where": "id >= 2990 or id < 3"}, None, [*range(3), *range(2_990, 3_000)]),
    "where, on nothing": (["t"], {"where": "id > 5000"}, None, []),
    "a filter on rows": (["t"], {}, "id % 1000 = 7", [7, 1_007, 2_007]),
    "columns": (["t"], {"columns": "id"}, None, ALL),
    "many splits": (["t"], {"maxPartitionBytes": "6k"}, None, ALL),
    "recover": (["t"], {"recover": "true"}, None, ALL),
}


@pytest.mark.parametrize("case", READS)
def test_reads(spark, lake, case):
    paths, options, condition, ids = READS[case]
    if "basePath" in options:
        options = {"basePath": f"{lake.url}/t"}
    frame = lake.read(spark, *paths, **options)
    frame = frame if condition is None else frame.filter(condition)
    assert list(ids) == sorted(row.id for row in frame.select("id").collect())
    if "word" in frame.columns:
        assert all(row.word == WORDS[row.id % 3] for row in frame.select("id", "word").collect())


def test_partitions_and_merged_schemas(spark, lake):
    frame = lake.read(spark, "t", mergeSchema="true")
    assert ["id", "word", "extra", "k"] == frame.columns
    found = {row.k: (row.n, row.total) for row in frame.groupBy("k").agg(f.count("*").alias("n"), f.sum("extra").alias("total")).collect()}  # fmt: skip
    assert {1: (2_000, None), 2: (1_000, 500.0)} == found


def test_metadata_columns_say_where_a_row_is_from(spark, lake):
    rows = lake.read(spark, "t", metadataColumns="true", where="id in (5, 2005)").collect()
    found = {row.id: {name: value for name, value in row.asDict().items() if "path" in name} for row in rows}
    assert {5, 2005} == set(found)
    assert [f"{lake.url}/t/k=1/a.arrow"] == list(found[5].values())
    assert [f"{lake.url}/t/k=2/c d%.arrow"] == list(found[2005].values())


def test_metadata_alone_is_read_from_headers(spark, lake):
    frame = lake.read(spark, "t", metadataOnly="true")
    numbers = [field.name for field in frame.schema if "row" in field.name.lower()]
    assert 30 == frame.count()
    assert 3_000 in [
        frame.agg(f.sum(name)).first()[0] for name in numbers if frame.schema[name].dataType.typeName() == "long"
    ]


def test_what_is_not_there_and_a_wrong_key_are_one_sentence(spark, lake):
    with pytest.raises(PySparkException, match=r"does not exist.*|no file"):
        lake.read(spark, "nothing").collect()
    options = lake.store.spark_options | {"storage.secret_access_key": f"{SECRET}-wrong"}
    with pytest.raises(PySparkException, match="check the credentials and their rights") as caught:
        spark.read.format("arrowipc").options(**options).load(f"{lake.url}/t").collect()
    assert SECRET not in str(caught.value)
    with pytest.raises(PySparkException, match=r"storage.acess_key_id for S3; did you mean storage.access_key_id"):
        lake.read(spark, "t", **{"storage.acess_key_id": "x"}).collect()


# Writing


def ids(bucket, path):
    return sorted(bucket.arrow(path)["id"].to_pylist())


def test_append_and_overwrite(spark, bucket):
    bucket.write(spark.range(0, 5, 1, 2), "out")
    first = bucket.files("out")
    assert 2 == len(first)
    bucket.write(spark.range(5, 9, 1, 1), "out")
    assert [*range(9)] == ids(bucket, "out") == sorted(row.id for row in bucket.read(spark, "out").collect())
    assert set(first) < set(bucket.files("out"))
    bucket.write(spark.range(20, 23, 1, 1), "out", "overwrite")
    assert [20, 21, 22] == ids(bucket, "out") == sorted(row.id for row in bucket.read(spark, "out").collect())
    assert 1 == len(bucket.files("out"))
    assert [20, 21, 22] == sorted(bucket.polars("out/*.arrow")["id"].to_list())


@pytest.mark.parametrize(("if_exists", "expected"), [("error", None), ("ignore", [0, 1, 2])])
def test_what_is_there_is_kept(spark, bucket, if_exists, expected):
    bucket.write(spark.range(3), "out", ifExists=if_exists)
    if expected is None:
        with pytest.raises(PySparkException, match="the directory holds 2 files"):
            bucket.write(spark.range(5), "out", ifExists=if_exists)
    else:
        bucket.write(spark.range(5), "out", ifExists=if_exists)
    assert [0, 1, 2] == ids(bucket, "out")


def test_a_commit_token_is_committed_once(spark, bucket):
    for _ in range(2):
        bucket.write(spark.range(3), "out", commitToken="night 1")
    assert [0, 1, 2] == ids(bucket, "out")


def test_partitions_are_written_and_replaced_one_by_one(spark, bucket):
    frame = spark.range(0, 100, 1, 2).withColumn("k", f.col("id") % 3).withColumn("name", f.concat(f.lit("ä /%"), "k"))
    bucket.write(frame, "out", partitionBy="k,name")
    found = bucket.arrow("out")
    assert [*range(100)] == sorted(found["id"].to_pylist())
    assert all(i % 3 == k for i, k in zip(found["id"].to_pylist(), found["k"].to_pylist(), strict=True))
    assert {"ä /%0", "ä /%1", "ä /%2"} == {
        row.name for row in bucket.read(spark, "out").select("name").distinct().collect()
    }
    bucket.write(
        frame.filter("k = 1").withColumn("id", f.lit(-1).cast("long")).limit(4), "out", "overwrite",
        partitionBy="k,name", partitionOverwriteMode="dynamic",
    )  # fmt: skip
    back = {row.k: (row.n, row.least) for row in bucket.read(spark, "out").groupBy("k").agg(f.count("*").alias("n"), f.min("id").alias("least")).collect()}  # fmt: skip
    assert {0: (34, 0), 1: (4, -1), 2: (33, 2)} == back


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_files_of_many_batches_and_parts(spark, bucket, compression):
    """More bytes than fit into one request, so that uploads have parts where they are not compressed away."""
    rows = 1_500_000
    frame = spark.range(0, rows, 1, 1).withColumn("noise", f.xxhash64("id"))
    bucket.write(frame, "out", compression=compression, recordBatchRows="100000")
    found = bucket.arrow("out")
    assert rows == found.num_rows == bucket.polars("out/*.arrow").height
    expected = frame.agg(f.sum(f.col("noise") % 1_000)).first()[0]
    assert expected == bucket.read(spark, "out").agg(f.sum(f.col("noise") % 1_000)).first()[0]
    assert 15 == len(bucket.read(spark, "out", metadataOnly="true").collect())


def test_nothing_is_left_of_a_job_that_fails(spark, bucket):
    bucket.write(spark.range(3), "out")
    broken = spark.range(0, 1_000, 1, 2).withColumn(
        "id", f.expr("if(id = 900, raise_error('broken'), id)").cast("long")
    )
    with pytest.raises(PySparkException, match="broken"):
        bucket.write(broken, "out", recordBatchRows="10")
    assert [0, 1, 2] == ids(bucket, "out")
    # A task that still wrote when the job was aborted leaves its file, which vacuum takes.
    storage = ObjectStorage(tuple(bucket.store.options.items()))
    end = time.monotonic() + 120
    while left := [key for key in bucket.files() if "part-" not in key]:
        assert time.monotonic() < end, left
        assert all("_ipc_stage" in key for key in left)
        vacuum(TableDirectory(storage, f"{bucket.url}/out"), older_than=0)


def test_files_are_cut(spark, bucket):
    bucket.write(
        spark.range(0, 400_000, 1, 1).withColumn("noise", f.xxhash64("id")),
        "out",
        maxFileBytes="1m",
        compression="none",
    )
    assert len(bucket.files("out")) >= 5
    assert [*range(400_000)] == ids(bucket, "out")


# A cluster, and what it says


PROGRAM = (
    BOTH_WAYS
    + """
import json, sys
from pyspark.sql import SparkSession, functions as f

url, options = sys.argv[1], json.loads(sys.argv[2])
spark = (
    SparkSession.builder.master("local-cluster[2,1,1024]")
    .config("spark.ui.enabled", "false")
    .config("spark.executor.memory", "512m")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("INFO")  # a shell, as which this counts, starts with WARN
def load(path, **more):
    return spark.read.format("arrowipc").options(**options, **more).load(f"{url}/{path}")
def save(frame, path, mode):
    frame.write.format("arrowipc").mode(mode).options(**options).save(f"{url}/{path}")
def load_input():
    return load("t", maxPartitionBytes="6k", mergeSchema="true", where="id >= 100")
frame = load_input()
executors = frame.select(f.udf(lambda _: __import__("os").environ.get("SPARK_EXECUTOR_DIRS", ""), "string")("id").alias("e"))
save(frame.select("id", "word", (f.col("id") * 2).alias("double")), "out", "append")
save(frame.groupBy("word").agg(f.count("*").alias("rows")).coalesce(1), "totals", "overwrite")
for mode in ("simple", "extended", "codegen", "cost", "formatted"):
    frame.explain(mode)
print(repr(frame), frame._jdf.queryExecution().toString())
try:
    spark.read.format("arrowipc").options(**options | {"storage.access_key_id": "nobody"}).load(f"{url}/t").collect()
except Exception as error:
    print("ERROR", error, repr(error))
back = load("out")
print()
print(json.dumps({
    "application": spark.sparkContext.applicationId,
    "partitions": frame.rdd.getNumPartitions(),
    "executors": executors.distinct().count(),
    "both ways": both_ways(load_input),
    "back": list(back.agg(f.count("*"), f.sum("id"), f.sum("double"), f.countDistinct("word")).first()),
}))
spark.stop()
"""
)


LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = driver.log
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c{1}: %m%n%ex
"""
"""To a file: what this program writes to the console is cut to warnings, as in a shell."""


def test_a_cluster_reads_and_writes_and_shows_no_secret(lake, tmp_path):
    environment = quick_spark.environment()
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    (tmp_path / "log4j2.properties").write_text(LOGGING)
    java = shlex.quote(f"{quick_jvm.OPTIONS} -Dlog4j2.configurationFile={tmp_path / 'log4j2.properties'}")
    environment["PYSPARK_SUBMIT_ARGS"] = f"--driver-java-options {java} pyspark-shell"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, lake.url, json.dumps(lake.store.spark_options)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr[-5_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    application = found.pop("application")
    assert found.pop("partitions") >= 4
    expected = range(100, 3_000)
    assert {"executors": 2, "both ways": [True, True], "back": [2_900, sum(expected), 2 * sum(expected), 3]} == found
    assert list(expected) == ids(lake, "out")
    assert 2_900 == sum(lake.polars("totals/*.arrow")["rows"].to_list())
    executors = quick_spark.spark_home() / "work" / application
    logs = [path.read_text(errors="replace") for path in (tmp_path / "driver.log", *executors.glob("*/stderr"))]
    assert [True] * 3 == ["INFO" in text for text in logs]
    assert not any(SECRET in text for text in (done.stdout, done.stderr, *logs))
    assert "== Physical Plan ==" in done.stdout
    assert "check the credentials" in done.stdout


def test_tables_of_sql_are_in_a_bucket(spark, bucket, tmp_path):
    """By a name with LOCATION, its options stored with it; and by the path, the options those of the catalog."""
    options = ", ".join(f"'{name}' '{value}'" for name, value in bucket.store.spark_options.items())
    by_path, name = f"arrowipc.`{bucket.url}/by_path`", f"t{bucket.url.rpartition('/')[2].replace('-', '_')}"
    settings = {f"spark.sql.catalog.arrowipc.{name}": value for name, value in bucket.store.spark_options.items()}
    with sql_session(spark):
        spark.sql(
            f"CREATE TABLE {name} (id BIGINT, word STRING, k INT) USING arrowipc OPTIONS ({options}) "
            f"PARTITIONED BY (k) LOCATION '{bucket.url}/named'"
        )
        for setting, value in settings.items():
            spark.conf.set(setting, value)
        try:
            spark.sql(f"CREATE TABLE {by_path} PARTITIONED BY (k) AS SELECT * FROM {name}")
            for table in (name, by_path):
                spark.sql(f"INSERT INTO {table} VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 2)")
                spark.sql(
                    f"MERGE INTO {table} t USING (SELECT 2L AS id) s ON t.id = s.id "
                    "WHEN MATCHED THEN UPDATE SET word = 'B'"
                )
                spark.sql(f"DELETE FROM {table} WHERE k = 2")
                spark.sql(f"UPDATE {table} SET word = upper(word) WHERE id = 1")
                spark.sql(f"INSERT OVERWRITE {table} PARTITION (k = 3) VALUES (9, 'z')")
                assert [(1, "A", 1), (2, "B", 1), (9, "z", 3)] == sorted(map(tuple, spark.table(table).collect()))
            local = f"arrowipc.`{tmp_path}/t`"  # which the options are not for
            spark.sql(f"CREATE TABLE {local} AS SELECT * FROM {name}")
            assert 3 == spark.table(local).count()
            assert 3 == spark.sql(f"SELECT * FROM {name} VERSION AS OF 1").count()
            assert 3 == spark.sql(f"SELECT * FROM {by_path} VERSION AS OF 2").count()
            assert {"A", "B", "z"} == {*bucket.arrow("named")["word"].to_pylist()}
            assert {"A", "B", "z"} == {*bucket.arrow("by_path")["word"].to_pylist()}
            spark.sql(f"DROP TABLE {name}")
            assert bucket.files("named")
        finally:
            for setting in settings:
                spark.conf.unset(setting)
