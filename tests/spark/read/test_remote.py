"""Spark reads tables of servers: values as of the file, parts as input partitions, and no secret in a plan."""

import pickle

import pyarrow as pa
import pytest
from arrow_files import write

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import ColumnNotFoundError, OptionError
from spark_arrow_ipc.spark.datasource import schema_of
from spark_arrow_ipc.spark.options.options import parse_read
from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader
from spark_arrow_ipc.spark.read.remote import ArrowIpcRemoteReader

TABLE = pa.table({
    "id": range(1000),
    "name": pa.array([f"n{i % 7}" for i in range(1000)]).dictionary_encode(),
    "s": [{"x": i, "y": None} for i in range(1000)],
})  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("t") / "t.arrow"
    write(path, TABLE, rows=100)
    return path


WAYS = [("tcp", None), ("tcp", "named"), ("unix", "memfd")]


@pytest.fixture(scope="module", params=WAYS, ids=["packed", "named", "memfd"])
def uri(request, path, tmp_path_factory):
    scheme, memory = request.param
    listen = (
        "dissociated+tcp://127.0.0.1:0" if scheme == "tcp" else f"dissociated+unix://{tmp_path_factory.mktemp('s')}/s"
    )
    with ipc.serve({"t": path}, listen, shared_memory=memory, token="geheim") as server:
        yield server.uri_of("t")


def reader_of(path, kind=ArrowIpcRemoteReader, schema=None, **options):
    parsed = parse_read({"path": str(path), **options})
    return kind(schema_of(parsed) if schema is None else schema, parsed)


def rows(reader):
    """Rows as executors read them: reader and partitions are sent there."""
    sent, partitions = pickle.loads(pickle.dumps((reader, reader.partitions())))
    return [row for partition in partitions for batch in sent.read(partition) for row in batch.to_pylist()]


READS = [
    ("everything", {}),
    ("some columns", {"columns": "name, id"}),
    ("a field", {"columns": "s.x"}),
    ("some rows", {"where": "id >= 150 AND name = 'n3'"}),
    ("rows by another column", {"columns": "id", "where": "s.x < 700 AND name <> 'n1'"}),
]


@pytest.mark.parametrize("given", [c[1] for c in READS], ids=[c[0] for c in READS])
def test_a_table_is_read_as_its_file(uri, path, given):
    of_file = reader_of(path, ArrowIpcBatchReader, **given)
    served = reader_of(uri, token="geheim", minPartitionNum="3", **given)
    assert of_file._schema == served._schema
    assert rows(of_file) == rows(served)
    assert 3 == len(served.partitions())


def test_metadata_columns_count_in_the_part(uri):
    served = reader_of(uri, token="geheim", minPartitionNum="2", columns="id", metadataColumns="true")
    found = rows(served)
    assert [*range(1000)] == [row["id"] for row in found]
    assert [i // 100 for i in range(500)] * 2 == [row["_block"] for row in found]
    assert [*range(500)] * 2 == [row["_row_index"] for row in found]
    assert {(None, None)} == {(row["_file_size"], row["_file_modification_time"]) for row in found}
    address = uri.partition("?")[0]
    assert {f"{address}?ticket=t&part={i}&of=2" for i in range(2)} == {row["_file_path"] for row in found}


def test_a_missing_column_is_null_or_an_error(uri):
    from pyspark.sql import types as s

    schema = s.StructType([s.StructField("id", s.LongType()), s.StructField("none", s.StringType())])
    found = rows(reader_of(uri, schema=schema, token="geheim"))
    assert [{"id": i, "none": None} for i in range(1000)] == found
    with pytest.raises(ColumnNotFoundError, match="none"):
        rows(reader_of(uri, schema=schema, token="geheim", missingColumns="error"))


def test_a_column_that_is_not_there_is_an_error_at_planning(uri):
    with pytest.raises(ColumnNotFoundError, match="'z'"):
        reader_of(uri, columns="z", token="geheim")
    with pytest.raises(OptionError, match="where"):
        reader_of(uri, where="id = 'x' +", token="geheim").partitions()


def test_spark_reads_parts_in_tasks_and_shows_no_token(spark, path, tmp_path, capfd):
    with (
        ipc.serve({"t": path}, f"dissociated+unix://{tmp_path}/s", shared_memory="memfd", parts=4) as shared,
        ipc.serve({"t": path}, token="geheim") as packed,
    ):
        uris = [shared.uri_of("t"), packed.uri_of("t")]
        reads = spark.read.format("arrowipc").option("token", "geheim")
        frame = reads.load(uris).where("id % 2 = 0")
        assert 5 == frame.rdd.getNumPartitions()
        assert sorted([*range(0, 1000, 2)] * 2) == sorted(row.id for row in frame.select("id").collect())
        assert sorted(TABLE["name"].to_pylist()) == sorted(row.name for row in reads.load(uris[0]).collect())
        for mode in ("simple", "extended", "codegen", "cost", "formatted"):
            frame.explain(mode)
        with pytest.raises(Exception, match="the token is wrong") as raised:
            spark.read.format("arrowipc").option("token", "geheim2").load(uris[1])
        shown = "".join(capfd.readouterr()) + str(raised.value) + repr(frame) + frame._jdf.queryExecution().toString()
    assert "geheim" not in shown
    assert len(str(raised.value)) < 600
    assert "Traceback" not in str(raised.value)


def test_a_server_that_is_gone_is_an_error_that_says_where(spark, path):
    with ipc.serve({"t": path}) as server:
        frame = spark.read.format("arrowipc").load(server.uri_of("t"))
    with pytest.raises(Exception, match=r"dissociated\+tcp://127.0.0.1:\d+: cannot connect") as raised:
        frame.collect()
    assert "want_data" not in str(raised.value)


def test_a_table_of_a_server_is_not_written(spark, path):
    with (
        ipc.serve({"t": path}) as server,
        pytest.raises(Exception, match="serve them") as raised,
    ):
        spark.range(3).write.format("arrowipc").mode("append").save(server.uri_of("t"))
    assert "want_data" not in str(raised.value)
