"""A plan lists each directory once and opens each file once, in a process without Spark's JVM."""

import os
import pickle
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import commit_jobs as jobs
import pyarrow as pa
import pytest
from pyspark.sql import types as s
from statistics_cases import write_described

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource
from spark_arrow_ipc.storage.byte_source import FileSource

FINE = {"maxPartitionBytes": "20k", "minPartitionNum": "1"}
"""Splits so small that most files are large, and so are some record batches."""


def table(first, rows):
    numbers = range(first, first + rows)
    return pa.table({"id": numbers, "name": [f"n{i}" for i in numbers], "s": [{"x": i, "y": str(i)} for i in numbers]})


def write(path, content, rows, *, stream=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as sink, make(sink, content.schema) as writer:
        writer.write_table(content, max_chunksize=rows)


def write_with_statistics(path, content, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, content.schema) as writer:
        writer.write_table(content, max_chunksize=rows)
    with ipc.open_file(sink.getvalue().to_pybytes()) as reader:
        write_described(path, reader, reader.schema)


def publish(root, files, mode=jobs.APPEND):
    """Commit the files of a directory as a job does, up to where the job dies."""
    plan = jobs.plan_job(str(root), mode)
    staged = [jobs.stage(plan, path.read_bytes(), task=i) for i, path in enumerate(sorted(files.iterdir()))]
    jobs.finish(plan, [TaskOutput(plan.staging.jobid, tuple(staged))])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Datasets of each kind: few small files, large ones, streams, partitions, other schemas, jobs that died."""
    root = tmp_path_factory.mktemp("plans")
    for i in range(4):
        write_with_statistics(root / "plain" / f"{i}.arrow", table(2000 * i, 2000), 300 + 600 * i)
    write(root / "plain" / "4.arrow", table(8000, 10), 10)
    write(root / "stream" / "a.arrows", table(0, 3000), 100, stream=True)
    write(root / "stream" / "b.arrow", table(0, 100), 100)
    for k in (1, 2):
        for d in ("a", "b"):
            write_with_statistics(root / "hive" / f"k={k}" / f"d={d}" / "x.arrow", table(1000 * k, 1000), 250)
    write(root / "hive" / "k=2" / "d=b" / "y.arrows", table(0, 1000), 100, stream=True)
    write(root / "merge" / "1.arrow", table(0, 2000).select(["id", "name"]), 500)
    write(root / "merge" / "2.arrow", table(0, 3000), 500)
    publish(root / "table", root / "plain")
    publish(root / "not committed", root / "plain")
    with jobs.dying("named.all"):
        publish(root / "not committed", root / "merge", jobs.OVERWRITE)
    publish(root / "not collected", root / "merge")
    with jobs.dying("committed.put"):
        publish(root / "not collected", root / "plain", jobs.OVERWRITE)
    return root


class Calls:
    """What Python asks the operating system for, by its audit events."""

    def __init__(self):
        self.opened, self.listed, self.root = Counter(), Counter(), None
        sys.addaudithook(self.hear)

    def hear(self, event, arguments):
        if self.root is None or event not in {"open", "os.scandir", "os.listdir"}:
            return
        path = arguments[0]
        path = str(Path(f"/proc/self/fd/{path}").readlink()) if isinstance(path, int) else os.fsdecode(path)
        if not path.startswith(self.root) or "_ipc_log" in path or Path(path).name == "_SUCCESS":
            return
        if event != "open":
            self.listed[path] += 1
        elif Path(path).is_file():
            self.opened[path] += 1

    @contextmanager
    def below(self, root):
        self.opened.clear()
        self.listed.clear()
        self.root = str(root)
        try:
            yield self
        finally:
            self.root = None


CALLS = Calls()

OPTIONS = {
    "all": {},
    "columns": {"columns": "s.x, #0"},
    "where": {"where": "id BETWEEN 500 AND 4100"},
    "where on columns not asked for": {"where": "s.x > 700 AND id < 2500", "columns": "name"},
    "where on paths": {"where": "k = 2 AND id < 1500"},
    "where on paths not asked for": {"where": "d = 'a' AND s.x > 10", "columns": "name, k"},
    "merge": {"mergeSchema": "true"},
    "merge, where on columns not asked for": {"mergeSchema": "true", "where": "s.x < 100", "columns": "id"},
    "tolerant": {"ignoreCorruptFiles": "true", "ignoreMissingFiles": "true"},
    "recover": {"recover": "true", "where": "s.x < 100", "columns": "id"},
    "metadata columns": {"metadataColumns": "true", "where": "id < 100"},
    "metadata only": {"metadataOnly": "true"},
}
FILES = {"plain": 5, "stream": 2, "hive": 5, "merge": 2, "table": 5, "not committed": 5, "not collected": 5}
PATHS_ONLY = {"where on paths", "where on paths not asked for"}
PLANS = [
    (name, options, size)
    for name in FILES
    for options in OPTIONS
    for size in ("fine", "default")
    if (options not in PATHS_ONLY or name == "hive") and (name != "merge" or "merge" in options or options == "all")
]


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize(("name", "options", "size"), PLANS, ids=[", ".join(plan) for plan in PLANS])
def test_a_plan_opens_no_file_twice_and_lists_no_directory_twice(data, name, options, size):
    root = data / name
    given = {"path": str(root), **OPTIONS[options], **(FINE if size == "fine" else {})}
    if options == "metadata only":
        given = {"path": str(root), "metadataOnly": "true"}
    with CALLS.below(root) as calls:
        schema = ArrowIpcDataSource(given).schema()
    once_each(calls)
    assert len(calls.opened) == (0 if options == "metadata only" else FILES[name] if "merge" in options else 1)
    with CALLS.below(root) as calls:
        partitions = ArrowIpcDataSource(given).reader(schema).partitions()
    once_each(calls)
    assert calls.listed
    assert partitions or "where" in given
    if size == "default" and "where" not in given:
        assert not calls.opened


def once_each(calls):
    assert not calls.opened or {1} == set(calls.opened.values())
    assert set(calls.listed.values()) <= {1}


def planned(path, schema=None, **options):
    source = ArrowIpcDataSource({"path": str(path), **FINE, **options})
    return source.reader(source.schema() if schema is None else schema).partitions()


def ranges(partitions):
    """Return the ranges of each file, by its name without the ids of table and job."""
    return sorted(
        (Path(part.path).name[:10], part.start or 0, part.stop or 0, part.rows or (0, 0))
        for partition in partitions
        for part in partition.ranges
    )


@pytest.mark.parametrize("state", ["not committed", "not collected"])
@pytest.mark.parametrize("options", ["all", "columns", "where", "where on columns not asked for"])
def test_what_jobs_left_that_died_changes_no_plan(data, state, options):
    """Files that do not count yet, or that still wait to be deleted."""
    expected = ranges(planned(data / "table", **OPTIONS[options]))
    assert expected == ranges(planned(data / state, **OPTIONS[options]))
    assert len(expected) > 3


def test_a_predicate_leaves_one_block_of_a_table(data):
    ranges_read = {part[:3] for part in ranges(planned(data / "not collected", where="id = 2950"))}
    assert {("part-00001", 1, 2)} == {part for part in ranges_read if part[0] != "part-00004"}


def test_what_is_learnt_of_the_first_file_plans_it(data):
    """The first file tells the types of `where`, and is not opened again for what it keeps, or how it is cut."""
    schema = s.StructType([s.StructField("name", s.StringType())])
    for where in ("id >= 0 AND s.x >= 0", "id < 500 AND s.y > ''"):
        expected = ranges(planned(data / "plain", where=where))
        narrow = planned(data / "plain", schema, where=where)
        assert {name for name, *_ in expected} == {name for name, *_ in ranges(narrow)}
        assert ["id", "s"] == [field.name for field in narrow[0].selection.extra]


def test_a_file_that_cannot_be_opened_stops_only_plans_that_cut_it(data, tmp_path, monkeypatch):
    write(tmp_path / "a.arrow", table(0, 10), 10)
    write(tmp_path / "b.arrow", table(0, 5000), 500)
    os.utime(tmp_path / "b.arrow", (1, 1))  # the schema is that of the newest file
    real = FileSource.open

    def refuses(path, *rest):
        if path.endswith("b.arrow"):
            raise PermissionError(13, "not yours", path)
        return real(path, *rest)

    monkeypatch.setattr(FileSource, "open", staticmethod(refuses))
    with pytest.raises(PermissionError):
        planned(tmp_path)
    assert 1 == len(planned(tmp_path, maxPartitionBytes="128m"))
    assert 1 == len(planned(tmp_path, maxPartitionBytes="128m", where="id < 5"))


LEFT_OUT = (
    "files have columns that this read leaves out ('extra', 'b\\nc'), because it takes those of the newest file: set "
    "mergeSchema=true to read the columns of all files, or name the columns to read with the option columns"
)
# (Options, the schema that a user gives, and the warning.)
LEAVING_OUT = {
    "all columns": ({}, None, LEFT_OUT),
    "a predicate": ({"where": "id < 5"}, None, LEFT_OUT),
    "more tasks than one": ({"minPartitionNum": "4"}, None, LEFT_OUT),
    "mergeSchema": ({"mergeSchema": "true"}, None, None),
    "columns": ({"columns": "id"}, None, None),
    "a schema": ({}, s.StructType().add("id", "long"), None),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", LEAVING_OUT)
def test_columns_that_a_read_leaves_out_are_named_once(tmp_path, caplog, case):
    """By the first of its tasks, which has opened the files anyway: some files of another age are enough."""
    options, schema, expected = LEAVING_OUT[case]
    for i in range(200):
        numbers = [*range(10)]
        columns = {"id": numbers} if i % 2 else {"ID": numbers, "k": numbers, "extra": numbers, "b\nc": numbers}
        path = tmp_path / "k=1" / f"{i:03}.arrow"
        write(path, pa.table(columns), 100)
        os.utime(path, (i, i))
    source = ArrowIpcDataSource({"path": str(tmp_path), **options})
    asked = source.schema() if schema is None else schema
    reader = pickle.loads(pickle.dumps(source)).reader(asked)
    with CALLS.below(tmp_path) as calls:
        partitions = pickle.loads(pickle.dumps(reader.partitions()))
    assert len(calls.opened) <= (200 if {"where", "mergeSchema"} & set(options) else 1)
    assert sum(batch.num_rows for part in partitions for batch in reader.read(part)) == (
        1000 if "where" in options else 2000
    )
    assert ([] if expected is None else [expected]) == caplog.messages


def test_a_file_of_a_table_that_a_stray_partition_would_hide_is_an_error(tmp_path):
    """Beside another program's directory with an equals sign, the table's files are in no partition."""
    write(tmp_path / "files" / "a.arrow", table(0, 3), 3)
    publish(tmp_path / "lake", tmp_path / "files")
    write(tmp_path / "lake" / "k=1" / "x.arrow", table(3, 1), 1)
    with pytest.raises(CommitError, match="no read has the rows of this file of the table, because another program"):
        planned(tmp_path / "lake")
    with pytest.raises(CommitError, match="move them out of the table"):
        ArrowIpcDataSource({"path": str(tmp_path / "lake")}).schema()
