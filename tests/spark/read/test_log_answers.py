"""Aggregates that the log of a table answers: the files of the table are overwritten, so that an opened one is an error."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from job_plans import plan_job
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.statistics import Statistics
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.commit import commit
from spark_arrow_ipc.dataset.write.conflicts import NewSchema
from spark_arrow_ipc.dataset.write.staged_file import SinkOptions
from spark_arrow_ipc.dataset.write.task import write_task
from spark_arrow_ipc.errors import NotArrowError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.functions.map_in_arrow import FunctionMapping, MappedReader
from spark_arrow_ipc.spark.functions.partial_aggregates import Part, PartialAggregates
from spark_arrow_ipc.spark.functions.user_function import ship
from spark_arrow_ipc.spark.options.options import parse_read
from spark_arrow_ipc.spark.read import log_answers
from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader

TABLE = pa.table({
    "id": pa.array(range(100)),
    "name": pa.array([f"{'x' * (70 if i < 50 else 3)}{i:03}" for i in range(100)]),
    "maybe": pa.array([None if i < 50 or i % 2 else i for i in range(100)], pa.int16()),
    "day": pa.array(range(100), pa.int32()).cast(pa.date32()),
    "tiny": pa.array([i % 7 for i in range(100)], pa.int8()),
    "none": pa.array([None] * 100, pa.int32()),
    "k": pa.array(["b" if i < 50 else "a" for i in range(100)]),
})  # fmt: skip
NAMES = TABLE.column_names
SPARK = [s.LongType(), s.StringType(), s.ShortType(), s.DateType(), s.ByteType(), s.IntegerType(), s.StringType()]
SCHEMA = s.StructType([s.StructField(name, type_) for name, type_ in zip(NAMES, SPARK, strict=True)])
"""The columns of the read."""


def save(root, table=TABLE, **options):
    """Commit a job that writes the rows of each `k` into files of ten rows below its directory."""
    plan = plan_job(str(root), WriteMode.APPEND, partition_by=(t.field("k", t.utf8),), **options)
    outputs = []
    for k in sorted(set(table["k"].to_pylist())):
        rows = table.filter(pc.equal(table["k"], k)).drop_columns(["k"])
        for start in range(0, len(rows), 10):
            batches = [bridge.batch_from_pyarrow(batch) for batch in rows.slice(start, 10).to_batches()]
            sink = SinkOptions(statistics=Statistics.ALL)
            number = len(outputs)
            schema = batches[0].schema
            outputs.append(
                write_task(plan.staging, batches, schema, partition_id=number, options=sink, directory=f"k={k}")
            )
    new = NewSchema(schema, schema, lambda _, __: schema)
    commit(plan, outputs, write_empty=None, schema=new)


@pytest.fixture
def lake(tmp_path, monkeypatch):
    """Return a table whose files are overwritten by as many other bytes."""
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    monkeypatch.setattr(log_answers, "_READ", {})
    save(tmp_path)
    ruin(tmp_path)
    return tmp_path


def ruin(root):
    for path in Path(root).rglob("part-*.arrow"):
        path.write_bytes(b"\xee" * path.stat().st_size)


def run(root, keys, parts, **options):
    """Return the partial rows of all tasks, added up by key as Spark does."""
    columns = sorted({NAMES.index(name) for name in (*keys, *(column for _, column in parts if column))})
    schema = s.StructType([SCHEMA.fields[i] for i in columns])
    at = {NAMES[i]: position for position, i in enumerate(columns)}
    partials = PartialAggregates(
        tuple(at[key] for key in keys), tuple(Part(function, at.get(column)) for function, column in parts)
    )
    types = [SCHEMA[key].dataType for key in keys]
    types += [s.LongType() if each.startswith("count") else SCHEMA[column].dataType for each, column in parts]
    names = [*(f"k{i}" for i in range(len(keys))), *(f"a{i}" for i in range(len(parts)))]
    output = s.StructType([s.StructField(name, type_) for name, type_ in zip(names, types, strict=True)])
    inner = ArrowIpcBatchReader(schema, parse_read({"path": str(root), **options}))
    reader = MappedReader(inner, FunctionMapping(ship(partials), output, "UTC", schema))
    rows = [row for partition in reader.partitions() for batch in reader.read(partition) for row in batch.to_pylist()]
    merged = {}
    for row in rows:
        values = [row[name] for name in names]
        merged.setdefault(tuple(values[: len(keys)]), []).append(values[len(keys) :])
    totals = {"count_all": sum, "count": sum, "min": min, "max": max}
    return {
        key: [
            totals[function](values) if (values := [row[i] for row in some if row[i] is not None]) else None
            for i, (function, _) in enumerate(parts)
        ]
        for key, some in merged.items()
    }


def expected(table, keys, parts):
    """Return what pyarrow computes."""
    functions = {"count_all": ([], "count_all"), "count": (pc.CountOptions(mode="only_valid"), "count")}
    calls = [(column or [], functions.get(f, (None, f))[1]) for f, column in parts]
    grouped = table.group_by(list(keys), use_threads=False).aggregate(calls)
    names = ["count_all" if f == "count_all" else f"{column}_{f}" for f, column in parts]
    return {tuple(row[key] for key in keys): [row[name] for name in names] for row in grouped.to_pylist()}


COUNT = ("count_all", None)
ANSWERED = {
    "rows": ((), [COUNT]),
    "rows of partitions": (("k",), [COUNT]),
    "partitions, as DISTINCT asks for them": (("k",), []),
    "nulls": ((), [("count", "maybe"), ("count", "none"), ("count", "name")]),
    "extremes": ((), [("min", "id"), ("max", "id"), ("min", "day"), ("max", "maybe"), COUNT]),
    "extremes of partitions": (("k",), [("min", "id"), ("max", "day"), ("count", "maybe")]),
    "of a column of nulls": ((), [("min", "none"), ("max", "none")]),
    "a partition's value": ((), [("min", "k"), ("max", "k"), ("count", "k")]),
}


@pytest.mark.parametrize(("keys", "parts"), ANSWERED.values(), ids=ANSWERED)
def test_what_the_log_has_is_answered_without_opening_a_file(lake, keys, parts):
    assert expected(TABLE, keys, parts) == run(lake, keys, parts)


OPENED = {
    "strings that were cut": ((), [("max", "name")], {}),
    "a key in the files": (("id",), [COUNT], {}),
    "8-bit integers, which may stand for booleans": ((), [("max", "tiny")], {}),
    "a predicate": ((), [COUNT], {"where": "id > 3"}),
    "an option that reads other columns": ((), [COUNT], {"columns": "id"}),
    "an option about errors": ((), [COUNT], {"ignoreMissingFiles": "true"}),
}


@pytest.mark.parametrize(("keys", "parts", "options"), OPENED.values(), ids=OPENED)
def test_what_the_log_does_not_have_is_read(lake, keys, parts, options):
    with pytest.raises(NotArrowError):
        run(lake, keys, parts, **options)


def test_a_process_for_each_task_reads_no_log(lake, monkeypatch):
    monkeypatch.delenv("SPARK_REUSE_WORKER")
    with pytest.raises(NotArrowError):
        run(lake, (), [COUNT])


def test_files_that_the_log_does_not_count_are_read_beside_it(lake):
    other = TABLE.slice(0, 7).drop_columns(["k"])
    with pa.ipc.new_file(str(lake / "k=a" / "other.arrow"), other.schema) as writer:
        writer.write_table(other)
    parts = [COUNT, ("min", "id"), ("count", "maybe")]
    with_key = other.append_column("k", pa.array(["a"] * 7))
    assert expected(pa.concat_tables([TABLE, with_key]), ("k",), parts) == run(lake, ("k",), parts)


def test_a_process_reads_newer_entries_of_a_table_that_it_has_read(lake):
    assert {(): [100]} == run(lake, (), [COUNT])
    more = TABLE.slice(90, 10)
    save(lake, more)
    ruin(lake)
    parts = [COUNT, ("max", "id")]
    assert expected(pa.concat_tables([TABLE, more]), ("k",), parts) == run(lake, ("k",), parts)


def test_a_column_that_changed_its_type_is_read(lake):
    ids = TABLE.slice(90, 10).set_column(0, "id", pa.array(range(10), pa.int32()))
    save(lake, ids)
    with pytest.raises(NotArrowError):
        run(lake, (), [("max", "id")])
    assert {(): [110]} == run(lake, (), [COUNT])
