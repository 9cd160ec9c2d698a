"""What a read asks of a storage whose every call waits for a network, in requests: the plan, and its tasks.

No Spark runs: the source plans and reads in this process. `python -m pytest -s` prints the table.
"""

import io

import numpy as np
import pyarrow as pa
import pytest
from fault_server import BUCKET, fault_server
from pyspark.sql import types as s
from statistics_cases import write_described
from waiting import WaitingStorage

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import FileChangedError
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource
from spark_arrow_ipc.spark.options.read_options import ReadOptions

ROOT = "memory:/lake/table"


def table(columns, rows, first=0):
    names = [f"c{i}" for i in range(columns)]
    return pa.table({name: np.arange(first, first + rows) + i for i, name in enumerate(names)})


def file_of(columns, rows, batches):
    sink = io.BytesIO()
    content = table(columns, rows)
    with pa.ipc.new_file(sink, content.schema) as writer:
        for _ in range(batches):
            writer.write_table(content)
    return sink.getvalue()


def described(rows, batches):
    """A file with statistics, whose column c0 rises."""
    content = pa.concat_tables([table(2, rows, i * rows) for i in range(batches)])
    plain = io.BytesIO()
    with pa.ipc.new_file(plain, content.schema) as writer:
        writer.write_table(content, max_chunksize=rows)
    sink = io.BytesIO()
    with ipc.open_file(plain.getvalue()) as reader:
        write_described(sink, reader, reader.schema)
    return sink.getvalue()


def ddl(columns):
    return s.StructType([s.StructField(name, s.LongType()) for name in columns])


class Read:
    """A read of a table, in its steps, with what each asked for."""

    def __init__(self, storage, columns, monkeypatch, **options):
        monkeypatch.setattr(ReadOptions, "path_storage", storage)
        self.storage = storage
        self.reader = ArrowIpcDataSource({"path": ROOT, **options}).reader(ddl(columns))

    def plan(self):
        self._reset()
        self.partitions = self.reader.partitions()
        return dict(self.storage.asked.requests)

    def rows(self):
        self._reset()
        return sum(batch.num_rows for partition in self.partitions for batch in self.reader.read(partition))

    def _reset(self):
        asked = self.storage.asked
        asked.requests.clear()
        asked.nbytes = asked.peak = 0
        asked.reads.clear()


@pytest.fixture
def storage():
    return WaitingStorage(0.0005)


def named(columns):
    return [f"c{i}" for i in range(columns)]


SPLIT = {"maxPartitionBytes": "200k"}
HEAD, IDS = 1, 4
"""What the path is; and whether it, or a directory above it, is a table, before and after it is listed."""


@pytest.mark.slow
def test_planning_1000_small_files_opens_none(storage, monkeypatch):
    data = file_of(2, 10, 1)
    for i in range(1_000):
        storage.put(f"{ROOT}/part-{i:05}.arrow", data)
    read = Read(storage, named(2), monkeypatch)
    assert {"HEAD": HEAD, "LIST": 1, "GET": IDS} == read.plan()
    assert 10_000 == read.rows()
    assert {"GET": 1_000} == storage.asked.requests


@pytest.mark.slow
def test_planning_1000_files_above_a_split_reads_each_footer_with_one_request(storage, monkeypatch):
    data = file_of(2, 10_000, 2)
    for i in range(1_000):
        storage.put(f"{ROOT}/part-{i:05}.arrow", data)
    read = Read(storage, named(2), monkeypatch, **SPLIT)
    storage.asked.seconds = 0.01
    # One more is the header of the largest file's first batch, for the share of the columns.
    assert {"HEAD": HEAD, "LIST": 1, "GET": IDS + 1_001} == read.plan()
    assert 16 <= storage.asked.peak <= 64
    assert 2_000 == len(read.partitions)


@pytest.mark.parametrize(
    ("columns", "requests", "share"),
    [(40, 2 + 12, 1.01), (["c7", "c30"], 2 + 3 * 12, 0.12), (["c7", "c8"], 2 + 2 * 12, 0.12)],
    ids=["all columns", "2 of 40", "2 neighbours of 40"],
)
def test_a_scan(storage, monkeypatch, columns, requests, share):
    data = file_of(40, 10_000, 12)
    storage.put(f"{ROOT}/large.arrow", data)
    read = Read(storage, named(columns) if isinstance(columns, int) else columns, monkeypatch, minPartitionNum="1")
    read.plan()
    assert 1 == len(read.partitions)
    storage.asked.seconds = 0.03
    assert 120_000 == read.rows()
    assert requests - 1 <= storage.asked.total <= requests  # the first header may lie among the first bytes
    assert storage.asked.nbytes <= share * len(data)
    assert storage.asked.peak >= 3


def test_where_that_hits_one_batch_of_100(storage, monkeypatch):
    data = described(10_000, 100)
    storage.put(f"{ROOT}/large.arrow", data)
    read = Read(storage, named(2), monkeypatch, where="c0 = 500500")
    # The footer, the schema message with the first header, and the other headers, which prove the statistics.
    assert {"HEAD": HEAD, "LIST": 1, "GET": IDS + 2 + 99} == read.plan()
    assert storage.asked.nbytes < 0.05 * len(data)
    assert 1 == read.rows()
    assert 4 == storage.asked.total  # the footer, the schema message, the batch's header and the batch
    assert storage.asked.nbytes < 0.05 * len(data)


@pytest.mark.slow
def test_partitions_are_listed_at_once(storage, monkeypatch):
    data = file_of(2, 10, 1)
    for year in range(4):
        for month in range(25):
            storage.put(f"{ROOT}/year={year}/month={month}/a.arrow", data)
    storage.asked.seconds = 0.03
    read = Read(storage, [*named(2), "year", "month"], monkeypatch)
    assert {"HEAD": HEAD, "LIST": 1 + 4 + 100, "GET": IDS + 4 + 100} == read.plan()
    assert 16 <= storage.asked.peak <= 64
    assert 1_000 == read.rows()


@pytest.mark.slow
def test_patterns_are_looked_for_at_once(storage, monkeypatch):
    data = file_of(2, 10, 1)
    for year in range(40):
        storage.put(f"{ROOT}/year={year}/month=1/a.arrow", data)
    storage.asked.seconds = 0.03
    Read(storage, named(2), monkeypatch)
    reader = ArrowIpcDataSource({"path": f"{ROOT}/year=*/month=1"}).reader(ddl(named(2)))
    storage.asked.peak = 0
    assert 40 == sum(len(partition.ranges) for partition in reader.partitions())
    assert 16 <= storage.asked.peak <= 64


def test_a_file_that_was_replaced_since_the_plan_is_an_error(storage, monkeypatch):
    storage.put(f"{ROOT}/a.arrow", file_of(2, 100_000, 3))
    read = Read(storage, named(2), monkeypatch)
    read.plan()
    batches = read.reader.read(read.partitions[0])
    storage.put(f"{ROOT}/a.arrow", file_of(2, 100_000, 3))
    with pytest.raises(FileChangedError, match=r"planned.*another version"):
        next(batches)
    read.plan()
    batches = read.reader.read(read.partitions[0])
    next(batches)
    storage.put(f"{ROOT}/a.arrow", file_of(2, 100_000, 3))
    with pytest.raises(FileChangedError, match=r"planned.*another version"):
        list(read.reader.read(read.partitions[0]))
    batches.close()


def test_a_file_that_is_gone_since_the_plan_is_an_error(storage, monkeypatch):
    storage.put(f"{ROOT}/a.arrow", file_of(2, 100_000, 3))
    read = Read(storage, named(2), monkeypatch)
    read.plan()
    storage.delete(f"{ROOT}/a.arrow")
    with pytest.raises(FileChangedError, match="it is gone"):
        list(read.reader.read(read.partitions[0]))


def test_small_files_are_opened_before_their_turn(storage, monkeypatch):
    for i in range(40):
        storage.put(f"{ROOT}/part-{i:05}.arrow", file_of(1, i + 1, 1))
    read = Read(storage, named(1), monkeypatch, minPartitionNum="1")
    read.plan()
    storage.asked.seconds = 0.02
    assert sum(range(41)) == read.rows()
    assert {"GET": 40} == storage.asked.requests
    assert 3 <= storage.asked.peak <= 8


def test_the_schema_of_a_data_set_costs_no_request_that_its_listing_does_not():
    """The log has the schema; an append reads it, too, and opens no file."""
    with fault_server() as server:
        storage = {f"storage.{name}": value for name, value in server.options.items()}
        source = ArrowIpcDataSource({"path": f"s3://{BUCKET}/lake", **storage})

        def asked(call):
            server.reset_counts()
            return call(), {kind.name: count for kind, count in server.requests.items() if count}

        for first in (True, False):
            writer, planned = asked(lambda: source.writer(ddl(["a"]), overwrite=False))
            writer.commit([writer.write(iter([pa.record_batch({"a": [1]})]))])
            assert first or (3, 1) == (planned["GET"], planned["HEAD"])
        schema, for_schema = asked(source.schema)
        _, for_plan = asked(lambda: list(source.reader(schema).partitions()))
        assert 5 == for_schema["GET"]
        assert for_schema == for_plan
