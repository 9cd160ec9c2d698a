"""What a read has where columns come while jobs run: each case on a local directory, and on a store that copies.

No JVM runs: writers, readers and the tasks of `compact` are called as Spark calls them. The times of files are set as slow
tasks, other clocks and copies of directories make them; they decide nothing.
"""

import json
import os
import zlib
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

pytest.importorskip("obstore", reason="object stores need the extra 'cloud'")

from commit_jobs import dying
from fault_server import fault_server
from pyspark import TaskContext
from pyspark.sql import types as s
from rewrite_jobs import Tasks

from spark_arrow_ipc import compact, ipc, rewrite
from spark_arrow_ipc.arrow.types import Dictionary
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, SchemaMismatchError
from spark_arrow_ipc.spark.convert.conversion import pyarrow_schema
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import relative
from spark_arrow_ipc.table.copy import copy_table
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.names import TableDirectory


class Lake:
    """A table, with writers of single rows; `late` sets the time of a file."""

    def __init__(self, url, options, late):
        self.url, self.late = url, late
        self.storage_options = options
        self.options = {f"storage.{name}": value for name, value in options.items()}
        self.storage, self.root = storage_of(url, tuple(sorted(options.items())))

    @property
    def table(self):
        return TableDirectory(self.storage, self.root)

    def source(self, **options):
        return ArrowIpcDataSource({"path": self.url, **self.options, **options})

    def staged(self, ddl, *values, mode="append", **options):
        """Plan a job, and run its task."""
        schema = struct(ddl)
        writer = self.source(**options).writer(schema, mode == "overwrite")
        return writer, [writer.write(iter([row(schema, values)] if values else []))]

    def save(self, ddl, *values, mode="append", **options):
        writer, messages = self.staged(ddl, *values, mode=mode, **options)
        writer.commit(messages)

    def put(self, name, table):
        """Write a file as another program does."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        self.storage.put(f"{self.root}/{name}", sink.getvalue().to_pybytes())

    def files(self):
        return {
            relative(file.path, self.root): file for file in list_tree([self.root], storage=self.storage).all_files()
        }

    def age(self, seconds, names=None):
        """Let files be as old as if another clock had made them."""
        for name in self.files() if names is None else names:
            self.late(f"{self.root}/{name}", -seconds)

    def read(self, **options):
        """The columns that a plain read has, and its rows by the first one."""
        schema = self.source(**options).schema()
        reader = self.source(**options).reader(schema)
        batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
        rows = sorted((tuple(values.values()) for batch in batches for values in batch.to_pylist()), key=str)
        return schema.simpleString().removeprefix("struct<").removesuffix(">"), rows

    def compact(self, before=lambda part, attempt: None):
        return compact(Tasks(before=before), self.url, storage=self.storage_options)


TYPES = {type_.simpleString(): type_ for type_ in (s.IntegerType(), s.LongType(), s.StringType())}


def struct(ddl):
    pairs = (part.split(" ") for part in ddl.split(", "))
    return s.StructType([s.StructField(name, TYPES[type_]) for name, type_ in pairs])


def row(schema, values):
    types = pyarrow_schema(schema)
    return pa.record_batch([pa.array([value], type_) for value, type_ in zip(values, types.types, strict=True)], types)


@contextmanager
def local(folder):
    def late(path, seconds):
        status = Path(path).stat()
        os.utime(path, (status.st_atime + seconds, status.st_mtime + seconds))

    yield Lake(str(folder / "lake"), {}, late)


@contextmanager
def copying(_):
    with fault_server() as server:

        def late(path, seconds):
            (key,) = (key for key in server.objects.by_key if path.endswith(key))
            stored = server.objects.by_key[key]
            server.objects.by_key[key] = replace(stored, mtime=stored.mtime + seconds)

        yield Lake(f"{server.url}/lake", dict(server.options), late)


@pytest.fixture(params=[local, copying], ids=["local", "copying"])
def lake(request, tmp_path):
    with request.param(tmp_path) as made:
        yield made


def two_appends(lake):
    """The one that adds a column commits first, and was staged first."""
    lake.save("a bigint", 1)
    wide, narrow = lake.staged("a bigint, b bigint", 2, 2), lake.staged("a bigint", 3)
    commit(wide)
    commit(narrow)


def two_appends_the_other_way(lake):
    """The one that adds a column commits last, and was staged by a clock that is late."""
    lake.save("a bigint", 1)
    before = set(lake.files())
    wide, narrow = lake.staged("a bigint, b bigint", 2, 2), lake.staged("a bigint", 3)
    commit(narrow)
    before |= set(lake.files())
    commit(wide)
    lake.age(300, set(lake.files()) - before)


def a_late_clock(lake):
    lake.save("a bigint", 1)
    before = set(lake.files())
    lake.save("a bigint, b bigint", 2, 2)
    lake.age(300, set(lake.files()) - before)
    lake.save("a bigint", 3)
    lake.age(600, set(lake.files()) - before)


def a_touch(lake):
    lake.save("a bigint", 1)
    first = set(lake.files())
    lake.save("a bigint, b bigint", 2, 2)
    lake.save("a bigint", 3)
    lake.age(-300, first)


def a_compaction(lake):
    lake.save("a bigint", 1)
    lake.save("a bigint", 3)
    lake.compact(before=lambda part, attempt: lake.save("a bigint, b bigint", 2, 2))


def a_compaction_by_a_late_clock(lake):
    a_compaction(lake)
    lake.age(
        -300,
        [name for name, file in lake.files().items() if file.nbytes == max(f.nbytes for f in lake.files().values())],
    )


def a_stream(lake):
    lake.save("a bigint", 1)
    writer, message = batch(lake, "a bigint", 3)
    lake.save("a bigint, b bigint", 2, 2)
    writer.commit([message], 0)


def an_abort(lake):
    lake.save("a bigint", 1)
    first = set(lake.files())
    lake.save("a bigint, b bigint", 2, 2)
    lake.save("a bigint", 3)
    writer, _ = lake.staged("a bigint, c bigint", 4, 4, schemaCheck="none")
    abort(writer._job)
    lake.age(-300, first)


def a_job_that_died_when_it_was_committed(lake):
    lake.save("a bigint", 1)
    lake.save("a bigint", 3)
    before = set(lake.files())
    wide = lake.staged("a bigint, b bigint", 2, 2)
    with dying("committed.put"):
        commit(wide)
    lake.age(-300, before)


def no_rows(lake):
    lake.save("a bigint", 1)
    first = set(lake.files())
    lake.save("a bigint, b bigint", 2, 2)
    narrow = lake.staged("a bigint")
    lake.save("a bigint", 3)
    commit(narrow)
    lake.age(-300, first)


def batch(lake, ddl, value):
    """Run the only task of a batch of a stream."""
    schema = struct(ddl)
    writer = lake.source().streamWriter(schema, overwrite=False)
    properties = {"sql.streaming.queryId": "q", "streaming.sql.batchId": "0"}
    context = SimpleNamespace(getLocalProperty=properties.get, partitionId=lambda: 0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TaskContext, "get", lambda: context)
        return writer, writer.write(iter([row(schema, [value])]))


def commit(job):
    writer, messages = job
    writer.commit(messages)


RACES = [
    two_appends, two_appends_the_other_way, a_late_clock, a_touch, a_compaction, a_compaction_by_a_late_clock, a_stream,
    an_abort, a_job_that_died_when_it_was_committed, no_rows,
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("race", RACES, ids=lambda race: race.__name__)
def test_no_column_is_hidden_by_what_commits_at_the_same_time(lake, race):
    race(lake)
    expected = ("a:bigint,b:bigint", [(1, None), (2, 2), (3, None)])
    assert expected == lake.read()
    assert expected == lake.read(where="a > 0")
    assert ("b:bigint", 3) == (lake.read(columns="b")[0], len(lake.read(columns="b")[1]))
    lake.save("b bigint", 9)
    assert "b:bigint,a:bigint" == lake.read()[0], "the next job knows of both columns"


def two_new_columns(lake):
    lake.save("a bigint", 1)
    late = lake.staged("a bigint, c bigint", 3, 3)
    lake.save("a bigint, b bigint", 2, 2)
    return late, "b is missing in the DataFrame, which has c instead"


def another_type(lake):
    lake.save("a bigint", 1)
    late = lake.staged("a bigint, b string", 3, "x")
    lake.save("a bigint, b bigint", 2, 2)
    return late, "b: string in the DataFrame and bigint in"


def an_exact_job(lake):
    lake.save("a bigint", 1)
    late = lake.staged("a bigint", 3, schemaCheck="exact")
    lake.save("a bigint, b bigint", 2, 2)
    return late, "b is missing.*schemaCheck=exact"


def restored_types(lake):
    lake.save("a int", 1)
    late = lake.staged("a int", 3, restoreTypes="true")
    lake.save("a bigint, b bigint", 2, 2)
    return late, "a is int and not bigint.*restoreTypes"


def a_first_job_of_two(lake):
    late = lake.staged("a string", "x")
    lake.save("a bigint, b bigint", 2, 2)
    return late, "a: string in the DataFrame and bigint in"


def a_dynamic_overwrite(lake):
    lake.save("k bigint, a bigint", 1, 1, partitionBy="k")
    how = {"mode": "overwrite", "partitionBy": "k", "partitionOverwriteMode": "dynamic"}
    late = lake.staged("k bigint, a bigint, c bigint", 3, 3, 3, **how)
    lake.save("k bigint, a bigint, b bigint", 2, 2, 2, partitionBy="k")
    return late, "b is missing in the DataFrame, which has c instead"


REFUSED = [two_new_columns, another_type, an_exact_job, restored_types, a_first_job_of_two, a_dynamic_overwrite]


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("race", REFUSED, ids=lambda race: race.__name__)
def test_what_would_hide_a_column_is_refused_before_anything_is_published(lake, race):
    late, words = race(lake)
    before, read = set(lake.files()), lake.read()
    with pytest.raises(
        ConcurrentWriteError, match=f"another writer was faster: the columns.*{words}.*Nothing is written"
    ):
        commit(late)
    assert (before, read) == (set(lake.files()), lake.read())


@pytest.mark.slow
def test_a_dynamic_overwrite_keeps_a_column_that_came_meanwhile(lake):
    how = {"mode": "overwrite", "partitionBy": "k", "partitionOverwriteMode": "dynamic"}
    lake.save("k bigint, a bigint", 1, 1, partitionBy="k")
    late = lake.staged("k bigint, a bigint", 3, 3, **how)
    lake.save("k bigint, a bigint, b bigint", 2, 2, 2, partitionBy="k")
    commit(late)
    assert ("a:bigint,b:bigint,k:int", [(1, None, 1), (2, 2, 2), (3, None, 3)]) == lake.read()


@pytest.mark.slow
def test_wider_types_that_came_meanwhile_hold_for_all_files(lake):
    lake.save("a int", 1)
    late = lake.staged("a int", 3)
    lake.save("a bigint", 1 << 40)
    commit(late)
    assert ("a:bigint", [(1,), (1 << 40,), (3,)]) == lake.read()


@pytest.mark.slow
def test_a_rewrite_leaves_what_came_meanwhile(lake):
    source = lake.url + "-source"
    lake.save("a bigint", 1)
    rewrite(Tasks(), lake.url, source, storage=lake.storage_options)
    grow = Tasks(before=lambda part, attempt: lake.save("a bigint, b bigint", 2, 2))
    rewrite(grow, source, lake.url, storage=lake.storage_options)
    assert ("a:bigint,b:bigint", [(1, None), (1, None), (2, 2)]) == lake.read()


def test_a_rewrite_keeps_the_dictionaries_that_a_task_chose_by_its_rows(lake):
    """The log entry has them."""
    target = lake.url + "-target"
    schema = struct("a string")
    writer = lake.source(dictionaryColumns="auto").writer(schema, overwrite=False)
    writer.commit([writer.write(iter([pa.record_batch({"a": ["x", "y"] * 1000})]))])
    rewrite(Tasks(), lake.url, target, storage=lake.storage_options, restoreTypes=True, dictionaryColumns="none")
    (file,) = Lake(target, lake.storage_options, lake.late).files().values()
    with ipc.open(file.open(lake.storage)) as reader:
        assert isinstance(reader.schema.fields[0].type, Dictionary)


@pytest.mark.slow
def test_a_job_that_died_before_its_entry_has_no_columns(lake):
    lake.save("a bigint", 1)
    wide = lake.staged("a bigint, b bigint", 2, 2)
    with dying("committed.asked"):
        commit(wide)
    assert ("a:bigint", [(1,)]) == lake.read()
    abort(wide[0]._job)
    assert ("a:bigint", [(1,)]) == lake.read()


@pytest.mark.slow
def test_an_overwrite_and_a_job_without_checks_decide_alone(lake):
    lake.save("a bigint, b bigint", 1, 1)
    lake.save("c string", "x", mode="overwrite")
    lake.age(-300)
    assert ("c:string", [("x",)]) == lake.read()
    lake.save("d bigint", 1, schemaCheck="none")
    assert "d:bigint" == lake.read()[0]
    assert "c:string,d:bigint" == ",".join(sorted(lake.read(mergeSchema="true")[0].split(",")))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"partitionBy": "k"}], ids=["flat", "partitioned"])
def test_an_empty_table_has_the_columns_of_its_job(lake, options):
    lake.save("k bigint, a bigint, b bigint", 1, 1, 1, **options)
    lake.save("k bigint, a bigint", mode="overwrite", **options)
    assert ("k:bigint,a:bigint", []) == lake.read()
    lake.save("k bigint, a bigint", 2, 2, **options)
    expected = "a:bigint,k:int" if options else "k:bigint,a:bigint"
    assert (expected, [(2, 2)]) == lake.read()


@pytest.mark.slow
def test_files_of_another_program_add_columns(lake):
    lake.save("a bigint", 1)
    lake.put("part-0.arrow", pa.table({"z": [9], "a": pa.array([2], pa.int32())}))
    expected = [(1, None), (2, 9)]
    assert ("a:bigint,z:bigint", expected) == lake.read()
    lake.age(300, ["part-0.arrow"])
    assert ("a:bigint,z:bigint", expected) == lake.read(), "however old"
    lake.save("a bigint", 3)
    assert ("a:bigint,z:bigint", [*expected, (3, None)]) == lake.read()
    assert ("z:bigint", 3) == (lake.read(columns="z")[0], len(lake.read(columns="z")[1]))
    lake.compact()
    assert ("a:bigint,z:bigint", [*expected, (3, None)]) == lake.read(), "it is in a file of ours now"


def test_a_file_of_another_program_that_does_not_fit_is_an_error_that_names_both(lake):
    lake.save("a bigint", 1)
    lake.put("part-0.arrow", pa.table({"a": ["x"]}))
    with pytest.raises(
        SchemaMismatchError, match=r"field a: bigint in .*lake and string in .*lake/part-0.arrow cannot be"
    ):
        lake.read()
    lake.storage.put(f"{lake.root}/part-0.arrow", b"ARROW1 torn")
    assert "a:bigint" == lake.source().schema().simpleString()[7:-1], "the task that reads it says what is wrong"


@pytest.mark.slow
def test_managed_files_that_another_program_removed_are_an_error(lake):
    lake.save("a bigint, b bigint", 1, 1)
    (name,) = lake.files()
    lake.put("part-0.arrow", pa.table({"a": [9]}))
    lake.storage.delete(f"{lake.root}/{name}")
    with pytest.raises(
        CommitError, match=f"{name}: entry 1 of the log added this file .* is missing; no rows are left out"
    ):
        lake.read()


def test_files_that_are_named_have_the_columns_of_the_newest_of_them(lake):
    lake.save("a bigint", 1)
    (name,) = lake.files()
    lake.save("a bigint, b bigint", 2, 2)
    for path in (f"{lake.url}/{name}", f"{lake.url}/{name[:-4]}*"):
        assert "a:bigint" == lake.source(path=path).schema().simpleString()[7:-1]


@pytest.mark.slow
def test_a_copy_is_read_as_the_table(lake, tmp_path):
    a_late_clock(lake)
    copy_table(lake.table, TableDirectory(lake.storage, f"{lake.root}-copy"))
    copy = Lake(f"{lake.url}-copy", lake.storage_options, lake.late)
    assert lake.read() == copy.read()
    copy.age(-300, sorted(copy.files())[:1])
    assert lake.read() == copy.read()
    copy.save("a bigint", 4)
    assert "a:bigint,b:bigint" == copy.read()[0]


def forged(lake, **changes):
    """Change the newest log entry, and give it a checksum that is right."""
    state = read_state(lake.table)
    path = lake.table.entry(state.table, state.number)
    values = json.loads(lake.storage.read(path, 1 << 20))
    del values["crc32"]
    body = json.dumps({**values, **changes}, separators=(",", ":")).encode()[:-1]
    lake.storage.delete(path)
    lake.storage.put(path, b'%s,"crc32":%d}\n' % (body, zlib.crc32(body)))


@pytest.mark.slow
@pytest.mark.parametrize("schema", ["eJw?", "AAAA"])
def test_an_entry_whose_schema_cannot_be_read_is_read_by_the_newest_file(lake, schema, caplog):
    lake.save("a bigint", 1)
    lake.age(300)
    lake.save("a bigint, b bigint", 2, 2)
    forged(lake, schema=schema)
    assert ("a:bigint,b:bigint", [(1, None), (2, 2)]) == lake.read()
    assert "the schema in the log cannot be read" in caplog.text
    lake.save("a bigint", 3)
    assert ("a:bigint,b:bigint", [(1, None), (2, 2), (3, None)]) == lake.read()
