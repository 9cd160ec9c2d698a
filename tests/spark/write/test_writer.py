"""A job of the batch writer, from its plan to its commit, without a session."""

import pickle

import pyarrow as pa
import pytest
from memory_storage import MemoryStorage
from pyspark.sql import types as s

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.write.staged_file import MAX_COPIED_NBYTES
from spark_arrow_ipc.errors import FileChangedError, OptionError
from spark_arrow_ipc.spark.options.options import parse_read, parse_write
from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader
from spark_arrow_ipc.spark.write import writer
from spark_arrow_ipc.spark.write.writer import ArrowIpcBatchWriter

SCHEMA = s.StructType([s.StructField("n", s.LongType())])
KEYED = s.StructType([*SCHEMA.fields, s.StructField("k", s.StringType())])


def planned(path, *, overwrite=False, schema=SCHEMA, **options):
    return ArrowIpcBatchWriter.plan(schema, str(path), parse_write(options), overwrite=overwrite)


CONTRADICTIONS = {
    "ifExists with overwrite": (True, {"ifExists": "error"}, "use mode append with it"),
    "dynamic with append": (False, {"partitionOverwriteMode": "dynamic"}, "use mode overwrite"),
    "dynamic without partitions": (True, {"partitionOverwriteMode": "dynamic"}, "name their columns with partitionBy"),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_options_that_contradict_the_mode_are_an_error(case, tmp_path):
    overwrite, options, message = CONTRADICTIONS[case]
    with pytest.raises(OptionError, match=message):
        planned(tmp_path / "data", overwrite=overwrite, **options)


def test_what_cannot_be_copied_is_refused_before_any_work(monkeypatch):
    storage = MemoryStorage(renames=False)
    monkeypatch.setattr(writer, "storage_of", lambda path, _: (storage, storage.resolve(path)))
    with pytest.raises(OptionError, match=r"maxFileBytes of at most 5,000,000,000 in an object store.*5,000,000,001"):
        planned("memory:/data", maxFileBytes=str(MAX_COPIED_NBYTES + 1))
    assert storage.status("memory:/data") is None


def test_the_writer_is_pickled_as_spark_does(tmp_path):
    planned_writer = planned(tmp_path / "data")
    assert planned_writer._plan == pickle.loads(pickle.dumps(planned_writer))._plan


def visible_rows(path):
    rows = []
    for file in sorted(path.glob("*.arrow")):
        with ipc.open(file) as reader:
            rows += [value for batch in reader for value in batch.columns[0].to_pylist()]
    return rows


def staged(writer, values):
    """Return the commit message of one task with some rows."""
    return writer.write(iter([pa.record_batch([pa.array(values, pa.int64())], ["n"])]))


def test_staged_files_are_visible_after_the_commit_only(tmp_path):
    path = tmp_path / "data"
    writer = planned(path)
    message = staged(writer, [1, 2, 3])
    assert [] == visible_rows(path)
    writer.commit([message])
    assert [1, 2, 3] == visible_rows(path)


def test_a_job_without_rows_writes_its_schema(tmp_path):
    path = tmp_path / "data"
    planned(path).commit([])
    (file,) = path.glob("*.arrow")
    with ipc.open(file) as reader:
        assert ("n",) == reader.schema.names


def test_nothing_is_visible_after_an_abort(tmp_path):
    path = tmp_path / "data"
    writer = planned(path)
    message = staged(writer, [1])
    writer.abort([message])
    assert [] == visible_rows(path)


def test_removed_files_are_retained_as_the_option_says(tmp_path):
    for values, keep in (([1], "0"), ([2], "10m")):
        writer = planned(tmp_path, overwrite=True, retention=keep)
        writer.commit([staged(writer, values)])
    assert [2] == visible_rows(tmp_path)
    assert 1 == len(list(tmp_path.glob("_ipc_replaced/*/*")))


@pytest.mark.parametrize(("keep", "expected"), [("10m", [1]), ("0", None)], ids=["kept", "not kept"])
def test_a_dataframe_that_was_loaded_before_an_overwrite_reads_what_is_kept(tmp_path, keep, expected):
    first = planned(tmp_path, overwrite=True, partitionBy="k", schema=KEYED)
    first.commit([first.write(iter([pa.record_batch([pa.array([1]), pa.array(["a b"])], ["n", "k"])]))])
    reader = ArrowIpcBatchReader(KEYED, parse_read({"path": str(tmp_path)}))
    partitions = reader.partitions()
    second = planned(tmp_path, overwrite=True, partitionBy="k", schema=KEYED, retention=keep)
    second.commit([second.write(iter([pa.record_batch([pa.array([2]), pa.array(["a b"])], ["n", "k"])]))])

    def rows():
        return [n for partition in partitions for batch in reader.read(partition) for n in batch["n"].to_pylist()]

    if expected is None:
        with pytest.raises(FileChangedError, match="read the path again"):
            rows()
    else:
        assert expected == rows()
    assert [2] == [n for part in reader.partitions() for batch in reader.read(part) for n in batch["n"].to_pylist()]


# (Tasks, keys of each task by which it partitions, bytes below which a file is small, and the advice.)
MANY_FILES = {
    "one directory": (120, 0, 1 << 20, "120 files of {:,} bytes on average into 1 directory, and each read opens all of them: call repartition(1) before the write"),
    "partitions": (40, 3, 1 << 20, '120 files of {:,} bytes on average into 3 directories, and each read opens all of them: call repartition("k") before the write'),
    "few files": (99, 0, 1 << 20, None),
    "few in each partition": (2, 60, 1 << 20, None),
    "large files": (120, 0, 100, None),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", MANY_FILES)
def test_a_job_of_many_small_files_says_so_once(tmp_path, monkeypatch, caplog, case):
    tasks, keys, small_nbytes, advice = MANY_FILES[case]
    monkeypatch.setattr(writer, "_SMALL_NBYTES", small_nbytes)
    path = tmp_path / "lake"
    job = planned(path, schema=KEYED if keys else SCHEMA, **({"partitionBy": "k"} if keys else {}))
    columns = {"n": pa.array(range(max(keys, 1)), pa.int64())} | ({"k": [f"{i}" for i in range(keys)]} if keys else {})
    job.commit([job.write(iter([pa.record_batch(columns)])) for _ in range(tasks)])
    sizes = [file.stat().st_size for file in path.rglob("*.arrow")]
    assert tasks * max(keys, 1) == len(sizes)
    expected = None if advice is None else advice.format(sum(sizes) // len(sizes))
    assert ([] if advice is None else [f"{path}: this job wrote {expected} for fewer files, or compact(spark, path) to join those that are there"]) == caplog.messages  # fmt: skip
