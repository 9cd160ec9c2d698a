"""Streams over an object store that runs: each mode of the source, the sink, and restarts.

Files of other programs are put there by boto3, those of mode `table` by our writer; what the sink has published is read by pyarrow.
"""

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from object_stores import BUCKET, boto_client
from pyarrow import fs

pytest.importorskip("pyspark.sql.streaming.datasource", reason="reading a stream needs Spark 4.2 or later")

from spark_arrow_ipc import ingest

ROWS = 5


@pytest.fixture
def store(servers):
    return servers("seaweedfs")


@pytest.fixture
def client(store):
    found = boto_client(store)
    yield found
    found.close()


def put(client, url, number):
    table = pa.table({"id": pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    key = f"{url}/{number}.arrow".removeprefix(f"s3://{BUCKET}/")
    client.put_object(Bucket=BUCKET, Key=key, Body=sink.getvalue().to_pybytes())


def append(spark, store, url, number):
    frame = spark.range(number * ROWS, (number + 1) * ROWS, 1, 1)
    options = store.spark_options | {"retention": "1d"}
    frame.write.format("arrowipc").mode("append").options(**options).save(url)


def published(store, url):
    options = store.options
    there = fs.S3FileSystem(
        access_key=options["access_key_id"], secret_key=options["secret_access_key"], region=options["region"],
        endpoint_override=options["endpoint"].removeprefix("http://"), scheme="http",
    )  # fmt: skip
    found = ds.dataset(url.removeprefix("s3://"), filesystem=there, format="ipc")
    return sorted(found.to_table()["id"].to_pylist())


def written(spark, store, source, sink, checkpoint, options):
    stream = spark.readStream.format("arrowipc").schema("id long").options(**options, maxFilesPerTrigger=2)
    writer = stream.load(source).writeStream.format("arrowipc").options(**store.spark_options)
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(sink)


def ingested(spark, store, source, sink, checkpoint, options):
    given = {"trigger": {"availableNow": True}, "source_schema": "id long", "maxFilesPerTrigger": 2, **options}
    return ingest(spark, source, sink, checkpoint=checkpoint, **given)


@pytest.mark.exhaustive
@pytest.mark.one_in(3)
@pytest.mark.parametrize("run", [written, ingested])
@pytest.mark.parametrize("mode", ["window", "log", "table"])
def test_every_row_is_read_and_written_once_over_restarts(spark, store, client, tmp_path, mode, run):
    place = store.directory()
    source, sink = f"{place}/in", f"{place}/out"
    of_mode = {"log": {"sourceLog": f"{place}/source-log"}, "window": {"lateWindow": "1h"}, "table": {}}
    options = store.spark_options | of_mode[mode]
    for count in (3, 6, 9):
        for number in range(count - 3, count):
            if mode == "table":
                append(spark, store, source, number)
            else:
                put(client, source, number)
        query = run(spark, store, source, sink, str(tmp_path / "checkpoint"), options)
        assert query.awaitTermination(120)
        assert [*range(count * ROWS)] == published(store, sink)
