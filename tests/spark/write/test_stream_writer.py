"""Batches of a streaming query, from the tasks' rows to the commit, without a session, and once with one."""

import pickle
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest
from commit_jobs import table
from pyspark import TaskContext
from pyspark.sql import types as s

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.errors import CommitError, OptionError, SchemaMismatchError
from spark_arrow_ipc.spark.convert.conversion import pyarrow_schema
from spark_arrow_ipc.spark.options.options import parse_write
from spark_arrow_ipc.spark.write.writer import ArrowIpcBatchWriter, ArrowIpcStreamWriter
from spark_arrow_ipc.table.vacuum import vacuum

SCHEMA = s.StructType([s.StructField("n", s.LongType())])


def writer(path, *, overwrite=False, schema=SCHEMA, **options):
    """Return the writer of one of Spark's processes: each has its own."""
    made = ArrowIpcStreamWriter.plan(schema, str(path), parse_write(options), overwrite=overwrite)
    return pickle.loads(pickle.dumps(made))


@pytest.fixture
def task(monkeypatch):
    """Return a function that runs one task of a batch."""

    def run(own, values, batch, query="q1", partition=0):
        properties = {"sql.streaming.queryId": query, "streaming.sql.batchId": None if batch is None else str(batch)}
        context = SimpleNamespace(getLocalProperty=properties.get, partitionId=lambda: partition)
        with monkeypatch.context() as patched:
            patched.setattr(TaskContext, "get", lambda: context)
            batches = [pa.record_batch([pa.array(values, pa.int64())], ["n"])] if values else []
            return own.write(iter(batches))

    return run


def visible(path):
    """Return the rows that a reader sees, those that are not null."""
    rows = []
    for file in list_tree([str(path)]).all_files():
        with ipc.open(file.path) as reader:
            rows += [value for batch in reader for value in batch.columns[0].to_pylist() if value is not None]
    return sorted(rows)


def staged(path):
    return sorted(job.name for job in path.glob("_ipc_stage/*"))


@pytest.mark.slow
def test_a_batch_is_visible_after_its_commit_and_its_tasks_may_be_many(tmp_path, task):
    path = tmp_path / "data"
    own = writer(path)
    messages = [task(own, [1, 2], 0), task(own, [3], 0, partition=1), task(own, [], 0, partition=2)]
    assert [] == list(path.glob("*.arrow"))
    writer(path).commit(messages, 0)
    assert [1, 2, 3] == visible(path)
    assert [] == staged(path)


@pytest.mark.parametrize("overwrite", [False, True], ids=["append", "complete"])
def test_a_batch_that_is_committed_is_not_committed_again(tmp_path, task, overwrite):
    path = tmp_path / "data"
    for batch, rows in enumerate([[1], [2], [3]]):
        for _ in range(2):  # the second time after a restart, by another attempt
            writer(path, overwrite=overwrite).commit([task(writer(path, overwrite=overwrite), rows, batch)], batch)
    assert ([3] if overwrite else [1, 2, 3]) == visible(path)
    assert [] == staged(path)


@pytest.mark.parametrize(("batch", "is_new"), [(0, False), (1, False), (1, True), (2, True)])
def test_another_batch_in_the_place_of_one_that_is_committed_is_refused(tmp_path, task, batch, is_new):
    path = tmp_path / "data"
    for number in range(3):
        writer(path).commit([task(writer(path), [number], number)], number)
    message = replace(task(writer(path), [9], batch), is_new=is_new)
    with pytest.raises(CommitError, match=f"batch 2 of this query is committed here, .* another batch {batch}: "):
        writer(path).commit([message], batch)
    writer(path).abort([message], batch)
    assert [0, 1, 2] == visible(path)
    assert [] == staged(path)


def test_queries_that_write_into_one_directory_are_told_apart(tmp_path, task):
    path = tmp_path / "data"
    for query, rows in (("q1", [1]), ("q2", [2]), ("q1", [9]), ("q2", [9])):
        writer(path).commit([task(writer(path), rows, 0, query)], 0)
    assert [1, 2] == visible(path)


def test_what_earlier_attempts_of_the_query_have_staged_is_removed(tmp_path, task):
    path = tmp_path / "data"
    task(writer(path), [7], 0)
    of_other = task(writer(path), [8], 0, "q2")
    writer(path).commit([task(writer(path), [1], 0)], 0)
    assert [of_other.output.jobid] == staged(path)
    writer(path).commit([of_other], 0)
    assert [1, 8] == visible(path)
    assert [] == staged(path)


def test_an_earlier_attempt_cannot_commit_after_a_later_one(tmp_path, task):
    path = tmp_path / "data"
    late = task(writer(path), [7], 1)
    writer(path).commit([task(writer(path), [1], 0)], 0)
    with pytest.raises(CommitError):
        writer(path).commit([late], 1)
    assert [1] == visible(path)


def test_an_aborted_attempt_leaves_nothing_and_the_next_one_commits(tmp_path, task):
    path = tmp_path / "data"
    writer(path).abort([task(writer(path), [7], 0), None], 0)
    writer(path).abort([None], 0)
    assert [] == staged(path)
    writer(path).commit([task(writer(path), [1], 0)], 0)
    assert [1] == visible(path)


def test_an_abort_after_the_commit_changes_nothing(tmp_path, task):
    path = tmp_path / "data"
    message = task(writer(path), [1], 0)
    writer(path).commit([message], 0)
    writer(path).abort([message], 0)
    assert [1] == visible(path)


@pytest.mark.parametrize("overwrite", [False, True], ids=["append", "complete"])
def test_a_first_batch_without_rows_leaves_a_file_with_the_schema(tmp_path, task, overwrite):
    path = tmp_path / "data"
    writer(path, overwrite=overwrite).commit([task(writer(path, overwrite=overwrite), [], 0)], 0)
    (file,) = path.glob("*.arrow")
    assert ("n",) == ipc.read_schema(file).names
    writer(path, overwrite=overwrite).commit([], 1)
    writer(path, overwrite=overwrite).commit([task(writer(path, overwrite=overwrite), [1], 2)], 2)
    assert [1] == visible(path)


@pytest.mark.slow
def test_the_newest_batch_survives_many_other_jobs_and_vacuum(tmp_path, task):
    path = tmp_path / "data"
    writer(path).commit([task(writer(path), [1], 0)], 0)
    for batch in range(12):
        writer(path).commit([task(writer(path), [2 + batch], batch, "q2")], batch)
    vacuum(table(path), older_than=0)
    writer(path).commit([task(writer(path), [1], 0)], 0)
    assert list(range(1, 14)) == visible(path)


def test_reports_of_two_attempts_or_of_another_batch_are_refused(tmp_path, task):
    path = tmp_path / "data"
    first, second = task(writer(path), [1], 0), task(writer(path), [1], 0)
    for messages, batch in (([first, second], 0), ([first], 1)):
        with pytest.raises(CommitError, match=f"expected reports of one attempt of batch {batch}"):
            writer(path).commit(messages, batch)
    assert [] == list(path.glob("*.arrow"))


@pytest.mark.parametrize("query", [None, "q1"])
def test_a_task_that_knows_no_query_and_batch_is_refused(tmp_path, task, query):
    with pytest.raises(CommitError, match="foreachBatch and the option commitToken"):
        task(writer(tmp_path / "data"), [1], None if query else 0, query)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"commitToken": "a"}, "commitToken is for single jobs"),
        ({"ifExists": "ignore"}, "ifExists is for single jobs"),
        ({"partitionOverwriteMode": "dynamic", "partitionBy": "n"}, "use foreachBatch"),
    ],
)
def test_options_of_single_jobs_are_refused(tmp_path, options, message):
    with pytest.raises(OptionError, match=message):
        writer(tmp_path / "data", **options)


def test_files_of_another_schema_are_refused(tmp_path, task):
    path = tmp_path / "data"
    writer(path).commit([task(writer(path), [1], 0)], 0)
    other = s.StructType([s.StructField("n", s.StringType())])
    message = task(writer(path), [2], 1)
    with pytest.raises(Exception, match="n"):
        writer(path, schema=other).commit([message], 1)
    assert [1] == visible(path)


MORE = s.StructType([*SCHEMA.fields, s.StructField("extra", s.StringType())])


def add_columns(path, schema=MORE, **options):
    """Write a row as a batch job that adds columns, or other ones."""
    job = ArrowIpcBatchWriter.plan(schema, str(path), parse_write(options), overwrite=False)
    types = pyarrow_schema(schema)
    row = pa.record_batch([pa.array([None], type_) for type_ in types.types], types)
    job.commit([job.write(iter([row]))])


def columns(path):
    """Return the names of the columns of each file, oldest first."""
    files = sorted(path.rglob("*.arrow"), key=lambda file: file.stat().st_mtime_ns)
    return [ipc.read_schema(file).names for file in files]


def test_a_query_goes_on_after_a_job_that_adds_columns_and_writes_them_as_nulls(tmp_path, task):
    path = tmp_path / "data"
    writer(path).commit([task(writer(path), [1], 0)], 0)
    add_columns(path)
    own = writer(path)
    writer(path).commit([task(own, [2], 1), task(own, [], 1, partition=1)], 1)
    assert [("n",), ("n", "extra"), ("n", "extra")] == columns(path)
    add_columns(path, s.StructType([*MORE.fields, s.StructField("other", s.DateType())]))
    writer(path).commit([task(writer(path), [], 2)], 2)
    writer(path).commit([task(writer(path), [3], 3)], 3)
    assert ("n", "extra", "other") == columns(path)[-1]
    assert [1, 2, 3] == visible(path)


def test_types_that_came_while_a_batch_ran_stop_it_before_anything_is_published(tmp_path, task):
    """A batch that lacks columns is published: test_columns_beside.py."""
    path = tmp_path / "data"
    writer(path).commit([task(writer(path), [1], 0)], 0)
    late = task(writer(path), [2], 1)
    add_columns(path, s.StructType([s.StructField("n", s.DecimalType(38, 0))]), schemaCheck="none")
    before = columns(path)
    with pytest.raises(SchemaMismatchError, match=r"n: .*Nothing is written"):
        writer(path).commit([late], 1)
    assert before == columns(path)


@pytest.mark.parametrize("check", ["exact", "none"])
def test_what_a_query_writes_without_the_check_or_with_a_strict_one(tmp_path, task, check):
    path = tmp_path / "data"
    add_columns(path)
    message = task(writer(path, schemaCheck=check), [2], 0)
    if check == "exact":
        with pytest.raises(SchemaMismatchError, match="extra is missing"):
            writer(path, schemaCheck=check).commit([message], 0)
    else:
        writer(path, schemaCheck=check).commit([message], 0)
        assert ("n",) == columns(path)[-1]


@pytest.mark.exhaustive
def test_a_stream_of_files_is_written_once_though_its_last_batch_is_run_again(spark, tmp_path):
    source, out, checkpoint = (str(tmp_path / name) for name in ("in", "out", "checkpoint"))
    for i in range(2):
        spark.range(i * 10, i * 10 + 10).selectExpr("id", "id % 3 AS k").write.mode("append").parquet(source)

    def run():
        stream = spark.readStream.schema("id long, k long").option("maxFilesPerTrigger", 2).parquet(source)
        started = stream.writeStream.format("arrowipc").option("checkpointLocation", checkpoint)
        query = started.option("partitionBy", "k").trigger(availableNow=True).start(out)
        query.awaitTermination()
        return [progress["batchId"] for progress in query.recentProgress]

    batches = run()
    last = tmp_path / "checkpoint" / "commits" / str(batches[-1])
    for file in (last, last.with_name(f".{last.name}.crc")):
        file.unlink(missing_ok=True)
    assert batches[-1:] == run()
    rows = spark.read.format("arrowipc").load(out)
    assert [(i, i % 3) for i in range(20)] == sorted(map(tuple, rows.collect()))


def test_a_running_query_and_a_job_that_adds_a_column(spark, tmp_path):
    """One query in one session, never stopped, as its files come."""
    source, out = str(tmp_path / "in"), str(tmp_path / "out")
    spark.range(3).coalesce(1).write.parquet(source)
    started = spark.readStream.schema("id long").parquet(source).writeStream.format("arrowipc")
    query = started.option("checkpointLocation", str(tmp_path / "checkpoint")).start(out)
    try:
        query.processAllAvailable()
        spark.range(10, 11).selectExpr("id", "'x' AS extra").write.format("arrowipc").mode("append").save(out)
        spark.range(3, 5).coalesce(1).write.mode("append").parquet(source)
        query.processAllAvailable()
    finally:
        query.stop()
    rows = spark.read.format("arrowipc").load(out)
    expected = [(i, "x" if i == 10 else None) for i in (0, 1, 2, 3, 4, 10)]
    assert expected == sorted(map(tuple, rows.select("id", "extra").collect()), key=lambda row: row[0])
