"""One table, one encoding: a column is a dictionary in all files of a table or in none, whoever writes them and when.

No session: writers and tasks are called as Spark calls them. polars and pyarrow are the oracles, which refuse directories of
two encodings.
"""

import itertools
import pickle
from types import SimpleNamespace

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark import TaskContext
from pyspark.sql import types as s
from rewrite_jobs import Tasks

from spark_arrow_ipc import compact, rewrite
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, OptionError
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource
from spark_arrow_ipc.spark.options.options import parse_write
from spark_arrow_ipc.spark.write.writer import ArrowIpcStreamWriter

SCHEMA = s.StructType([s.StructField("s", s.StringType()), s.StructField("n", s.LongType())])
ROWS = 2000
FEW = [f"v{i % 5}" for i in range(ROWS)]
MANY = [f"u{i}" for i in range(ROWS)]


def batch(texts):
    """Return rows with as many different numbers as strings."""
    return pa.record_batch([pa.array(texts), pa.array([hash(text) for text in texts], pa.int64())], ["s", "n"])


def begin(path, mode="append", schema=SCHEMA, **options):
    return ArrowIpcDataSource({"path": str(path), **options}).writer(schema, mode == "overwrite")


def save(path, *tasks, mode="append", **options):
    writer = begin(path, mode, **options)
    writer.commit([writer.write(iter([batch(texts)])) for texts in tasks])


def files(path):
    return sorted(path.rglob("*.arrow"))


def encodings(path):
    """Return which columns are dictionaries: the same ones in all files, with the same indices."""
    schemas = [pa.ipc.open_file(file).schema for file in files(path)]
    (encoded,) = {tuple((f.name, f.type) for f in schema if pa.types.is_dictionary(f.type)) for schema in schemas}
    return {name for name, _ in encoded}


def rows(path):
    """Return the strings that pyarrow and polars read from all files together, in both orders of the files."""
    found = []
    for each in (files(path), files(path)[::-1]):
        found += [
            sorted(ds.dataset(each, format="ipc").to_table(columns=["s"])["s"].to_pylist()),
            sorted(pl.scan_ipc(each).select(pl.col("s").cast(pl.String)).collect()["s"].to_list()),
        ]
    assert all(found[0] == other for other in found)
    return found[0]


FIRST = {
    "a few values, then many": ([FEW, MANY], "auto", {"s"}),
    "many, then few": ([MANY, FEW], "auto", set()),
    "numbers too": ([FEW, MANY], "all", {"s", "n"}),
    "a task without rows does not decide": ([[], FEW], "auto", {"s"}),
    "a small task does": ([["a"], FEW], "all", set()),
    "names": ([MANY, FEW], "s", {"s"}),
    "none": ([FEW], "none", set()),
}


@pytest.mark.parametrize("name", FIRST)
def test_the_first_task_with_rows_decides_for_all(tmp_path, name):
    """Before, each task decided for itself, and polars refused the directory."""
    tasks, word, expected = FIRST[name]
    save(tmp_path, *tasks, dictionaryColumns=word)
    assert expected == encodings(tmp_path)
    assert sorted(itertools.chain(*tasks)) == rows(tmp_path)


def test_later_attempts_of_tasks_follow_the_first_one(tmp_path):
    """A task may run twice, and its first attempt may be the one that has decided and is lost."""
    writer = begin(tmp_path, dictionaryColumns="all")
    writer.write(iter([batch(FEW)]))
    messages = [pickle.loads(pickle.dumps(writer)).write(iter([batch(texts)])) for texts in (MANY, FEW)]
    writer.commit(messages)
    assert {"s", "n"} == encodings(tmp_path)
    assert sorted(MANY + FEW) == rows(tmp_path)
    assert not (tmp_path / "_ipc_stage").exists() or not [*(tmp_path / "_ipc_stage").iterdir()]


def test_tasks_that_did_not_agree_cannot_commit(tmp_path):
    """The decision of a job that was expired may be gone, and its tasks may still run."""
    writer = begin(tmp_path, dictionaryColumns="auto")
    first = writer.write(iter([batch(FEW)]))
    (tmp_path / "_ipc_stage" / writer._job.staging.jobid / ".dictionaries").unlink()
    with pytest.raises(CommitError, match="dictionaries that others have written plain; nothing is published"):
        writer.commit([first, writer.write(iter([batch(MANY)]))])
    assert [] == files(tmp_path)


LATER = {
    "no option": {},
    "auto": {"dictionaryColumns": "auto"},
    "all": {"dictionaryColumns": "all"},
    "no checks": {"schemaCheck": "none", "dictionaryColumns": "auto"},
    "exact": {"schemaCheck": "exact"},
}


@pytest.mark.parametrize("first", [("auto", {"s"}), ("none", set()), ("n", {"n"})], ids=lambda first: first[0])
@pytest.mark.parametrize("name", LATER)
def test_later_jobs_follow_the_table(tmp_path, first, name):
    word, expected = first
    save(tmp_path, FEW, dictionaryColumns=word)
    for texts in (MANY, FEW):
        save(tmp_path, texts, **LATER[name])
    assert expected == encodings(tmp_path)
    assert sorted(2 * FEW + MANY) == rows(tmp_path)


def test_an_overwrite_decides_anew(tmp_path):
    for texts, word, expected in [
        (FEW, "all", {"s", "n"}),
        (MANY, "auto", set()),
        (FEW, "auto", {"s"}),
        (FEW, "none", set()),
    ]:
        save(tmp_path, texts, mode="overwrite", dictionaryColumns=word)
        assert expected == encodings(tmp_path)


def test_files_of_other_programs_are_followed(tmp_path):
    table = pa.table({"s": pa.array(FEW).dictionary_encode(), "n": pa.array([1.5] * ROWS)})
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    save(tmp_path, MANY, schemaCheck="none")
    assert {"s"} == encodings(tmp_path)


def test_a_column_that_the_table_has_plain_cannot_be_named(tmp_path):
    save(tmp_path, FEW)
    with pytest.raises(
        OptionError, match=r"field s: the files that are there have this column without a dictionary \(utf8\)"
    ):
        save(tmp_path, FEW, dictionaryColumns="s")
    assert [] == [*(tmp_path / "_ipc_stage").glob("*")]
    rewrite(Tasks(), tmp_path, tmp_path, mode="overwrite", dictionaryColumns=["s"])
    save(tmp_path, FEW, dictionaryColumns="s")
    assert {"s"} == encodings(tmp_path)


def test_a_new_column_is_encoded_as_its_first_job_says(tmp_path):
    save(tmp_path, FEW, dictionaryColumns="auto")
    schema = s.StructType([*SCHEMA.fields, s.StructField("t", s.StringType())])
    for word in ("auto", "none"):
        writer = begin(tmp_path, schema=schema, dictionaryColumns=word)
        writer.commit([writer.write(iter([batch(FEW).append_column("t", pa.array(FEW))]))])
    save(tmp_path, MANY)  # and is null there
    newest = [pa.ipc.open_file(file).schema for file in files(tmp_path)]
    assert 3 == sum("t" in schema.names and pa.types.is_dictionary(schema.field("t").type) for schema in newest)


@pytest.mark.parametrize(
    "modes", [("append", "append"), ("append", "overwrite"), ("overwrite", "append"), ("overwrite", "overwrite")]
)
def test_of_two_first_jobs_at_once_one_decides(tmp_path, modes):
    """The other one is told to run again, and follows."""
    save(tmp_path, MANY, mode="overwrite") if "overwrite" in modes else None
    jobs = [begin(tmp_path, mode, dictionaryColumns=word) for mode, word in zip(modes, ("all", "none"), strict=True)]
    reports = [[job.write(iter([batch(FEW)]))] for job in jobs]
    if modes == ("append", "overwrite"):  # the append follows the table, which is plain as the overwrite
        reports, jobs = reports[:1], jobs[:1]
    jobs[0].commit(reports[0])
    for job, report in zip(jobs[1:], reports[1:], strict=True):
        with pytest.raises(ConcurrentWriteError):
            job.commit(report)
        job.abort(report)
    save(tmp_path, FEW)
    assert len(encodings(tmp_path)) in (0, 2)
    rows(tmp_path)


def test_values_that_become_many_begin_files(tmp_path):
    save(tmp_path, FEW, dictionaryColumns="auto")
    most = [f"w{i}" for i in range(70_000)]
    save(tmp_path, FEW * 3 + MANY, recordBatchRows="500")
    save(tmp_path, most)
    assert 1 + 1 + 3 == len(files(tmp_path))
    assert {"s"} == encodings(tmp_path)
    assert sorted(FEW * 4 + MANY + most) == rows(tmp_path)


@pytest.mark.slow
def test_partitions_have_dictionaries_of_their_own(tmp_path):
    schema = s.StructType([*SCHEMA.fields, s.StructField("k", s.LongType())])
    for word in ("all", "none"):
        writer = begin(tmp_path, schema=schema, dictionaryColumns=word, partitionBy="k")
        made = [batch(texts).append_column("k", pa.array(np.arange(ROWS) % 40)) for texts in (FEW, MANY)]
        writer.commit([writer.write(iter([each])) for each in made])
    assert {"s", "n"} == encodings(tmp_path)
    assert sorted(2 * (FEW + MANY)) == rows(tmp_path)
    one = pa.ipc.open_file(files(tmp_path)[0]).read_all()
    assert len(one) >= len(one["s"].combine_chunks().dictionary)


def test_compactions_and_rewrites_follow(tmp_path):
    table, copy, plain = tmp_path / "t", tmp_path / "copy", tmp_path / "plain"
    for texts in (FEW, [f"a{i % 100}" for i in range(ROWS)], [f"b{i % 90}" for i in range(ROWS)], MANY):
        save(table, texts, dictionaryColumns="auto")
    expected = rows(table)
    assert 1 == compact(Tasks(), table).files_written
    assert {"s"} == encodings(table)
    save(plain, MANY)
    for target, restores, encoded in [
        (copy, True, {"s"}),
        (copy, False, {"s"}),
        (plain, True, set()),
        (plain, False, set()),
    ]:
        rewrite(Tasks(), table, target, restoreTypes=restores)
        assert encoded == encodings(target)
    assert expected == rows(table)
    assert sorted(2 * expected) == rows(copy)
    assert sorted(2 * expected + MANY) == rows(plain)


@pytest.mark.slow
@pytest.mark.parametrize("word", ["all", "none"])
def test_batches_of_a_stream_follow_its_first_one(tmp_path, monkeypatch, word):
    def write(number, *tasks):
        context = SimpleNamespace(
            getLocalProperty={"sql.streaming.queryId": "q", "streaming.sql.batchId": f"{number}"}.get,
            partitionId=lambda: 0,
        )
        monkeypatch.setattr(TaskContext, "get", lambda: context)

        def plan():
            options = parse_write({"path": str(tmp_path), "dictionaryColumns": word})
            return ArrowIpcStreamWriter.plan(SCHEMA, str(tmp_path), options, overwrite=False)

        own = pickle.loads(pickle.dumps(plan()))
        plan().commit([own.write(iter([batch(texts)])) for texts in tasks], number)

    write(0, FEW, MANY)
    write(1, [])
    write(2, MANY)
    write(3, [], [])
    write(4, MANY, FEW)
    assert ({"s", "n"} if word == "all" else set()) == encodings(tmp_path)
    assert sorted(2 * FEW + 3 * MANY) == rows(tmp_path)
