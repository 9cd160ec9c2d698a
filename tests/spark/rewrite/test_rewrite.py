"""`rewrite` beside a read and a write through Spark: the same rows, types and directories; and what it does when it fails."""

import datetime as dt
import sys

import arrow_files
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from job_plans import plan_job
from py4j.protocol import Py4JError
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import types as s
from rewrite_jobs import Tasks, files_of, leftovers, tables, values

from spark_arrow_ipc import ipc, rewrite
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.errors import (
    ColumnNotFoundError,
    CommitError,
    ConcurrentWriteError,
    FunctionError,
    OptionError,
    SchemaMismatchError,
    UnsupportedError,
)
from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader
from spark_arrow_ipc.spark.rewrite import rewrite as module
from spark_arrow_ipc.spark.rewrite.in_place import is_in_place

# Workers cannot import a test: its functions go by value, as those of a notebook do.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

ROWS = 200


def table(first):
    numbers = np.random.default_rng(first).permutation(np.arange(first, first + ROWS))
    return pa.table(
        {
            "id": pa.array(numbers),
            "small": pa.array(numbers % 100, pa.uint8()),
            "name": pa.array([f"n{i % 7}" if i % 5 else None for i in numbers]).dictionary_encode(),
            "at": pa.array(1_709_240_400_000_000 + (numbers // 100) * 3_600_000_000, pa.timestamp("us", "UTC")),
            "score": pa.array([float("nan") if i % 11 == 0 else i / 3 for i in numbers]),
            "seen": pa.array([[dt.datetime(2024, 1, 1, int(i) % 24)] for i in numbers], pa.list_(pa.timestamp("us", "UTC"))),
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    root = tmp_path_factory.mktemp("rewrite") / "t"
    arrow_files.write(root / "k=1" / "a.arrow", table(0), rows=70)
    arrow_files.write(root / "k=1" / "b.arrow", table(ROWS), rows=70, compression="zstd")
    arrow_files.write(root / "k=2" / "c.arrows", table(2 * ROWS), rows=70, stream=True)
    return root


def late(batches):
    """The hour is that of the session's zone."""
    for batch in batches:
        kept = batch.filter(pc.greater(batch["id"], 100))
        yield pa.record_batch({"id": kept["id"], "hour": pc.hour(kept["at"]), "at": kept["at"]})


LATE = "id bigint, hour bigint, at timestamp"

SAME = [
    # options of the read and of the write, and the function with its schema
    ("as it is", {}, {}, None),
    ("a filter, and columns", {"where": "id BETWEEN 20 AND 300 AND k = 1", "columns": ["name", "id"]}, {}, None),
    ("where and partitions", {"where": "at > '2024-03-01 05:00:00'"}, {"partitionBy": ["k"]}, None),
    ("instants as names of partitions", {}, {"partitionBy": ["at"], "maxRecordsPerFile": 90}, None),
    ("the Arrow types", {}, {"restoreTypes": True, "compression": "zstd"}, None),
    ("origins of rows", {"metadataColumns": True, "columns": "id"}, {"dictionaryColumns": ["_file_path"]}, None),
    ("a stream with metadata", {}, {"ipcFormat": "stream", "metadata": {"owner": "me"}}, None),
    ("many small batches", {"maxPartitionBytes": 3000}, {"recordBatchRows": 30}, None),
    ("a function", {}, {}, (late, LATE)),
    ("a function, partitions, and statistics", {}, {"partitionBy": ["hour"], "statistics": ["id"]}, (late, LATE)),
    ("nothing is left", {"where": "k = 9"}, {}, None),
]


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize(("of_read", "of_write", "changed"), [c[1:] for c in SAME], ids=[c[0] for c in SAME])
def test_the_files_are_those_of_a_read_and_a_write(spark, lake, tmp_path, of_read, of_write, changed):
    from spark_arrow_ipc import options

    frame = spark.read.format("arrowipc").options(**options.read(**of_read)).load(str(lake))
    if changed is not None:
        frame = frame.mapInArrow(*changed)
    frame.write.format("arrowipc").options(**options.write(**of_write)).mode("append").save(str(tmp_path / "theirs"))
    made = rewrite(spark, lake, tmp_path / "ours", *(changed or ()), **of_read, **of_write)
    ours, theirs = (described(tmp_path / name) for name in ("ours", "theirs"))
    assert theirs == ours
    assert (made.files_written, made.rows_written) == (len(files_of(tmp_path / "ours")), len(frame.collect()))
    assert [] == leftovers(tmp_path / "ours")


def described(root):
    """The schema and the rows of each directory, and what footers say but for statistics, which depend on the files."""
    found = {}
    for name, whole in tables(root).items():
        schemas, rows = found.setdefault(name.rpartition("/")[0], (set(), []))
        schemas.add(str(whole.schema))
        rows += map(str, whole.to_pylist())
    return {directory: (schemas, sorted(rows)) for directory, (schemas, rows) in found.items()}


def test_each_file_is_sorted_as_spark_sorts_and_has_statistics(spark, lake, tmp_path, monkeypatch):
    monkeypatch.setattr("spark_arrow_ipc.spark.rewrite.rewrite._LEAST_SORTED", 1)
    target = tmp_path / "t"
    made = rewrite(
        spark, str(lake), target, sort_by=["name", "score"], sort_bytes=8_000, recordBatchRows=50, statistics="all"
    )
    assert made.files_written > 2, "a file has at most so many bytes"
    for place in files_of(target).values():
        rows = spark.read.format("arrowipc").load(str(place)).select("name", "score")
        with ipc.open(str(place)) as reader:
            assert "spark_arrow_ipc.statistics" in dict(reader.custom_metadata)
        assert str(rows.orderBy("name", "score").collect()) == str(rows.collect())
    assert 3 * ROWS == sum(whole.num_rows for whole in tables(target).values())


def test_figures_and_a_notebooks_table(lake, tmp_path):
    made = rewrite(Tasks(), lake, tmp_path / "t", where="k = 1")
    sizes = [path.stat().st_size for path in (lake / "k=1").iterdir()]
    written = [path.stat().st_size for path in (tmp_path / "t").glob("*.arrow")]
    assert (2, 400, sum(sizes)) == (made.files_read, made.rows_read, made.bytes_read)
    assert (len(written), 400, sum(written)) == (made.files_written, made.rows_written, made.bytes_written)
    assert f"2 files (400 rows, {sum(sizes):,} bytes) became" in str(made)
    assert "<td>rows read</td><td style='text-align:right'>400</td>" in made._repr_html_()


# ---- in place


def even(batches):
    for batch in batches:
        yield batch.filter(pc.equal(pc.bit_wise_and(batch["id"], 1), 0))


def in_place(path, **options):
    return rewrite(Tasks(), path, path, even, mode="overwrite", **options)


@pytest.fixture
def own(tmp_path):
    """A dataset of this package, of a column."""
    return append(tmp_path / "own", range(10))


def append(path, ids, **options):
    source = arrow_files.write(path.parent / "given" / "one.arrow", pa.table({"id": pa.array(ids, pa.int64())}))
    rewrite(Tasks(), source, path, **options)
    return path


def test_in_place_what_was_read_is_replaced_and_what_comes_meanwhile_stays(own):
    task = Tasks(before=lambda *_: append(own, [101]) if 101 not in values(own)[""] else None)
    made = rewrite(task, own, str(own), even, mode="overwrite")
    assert {"": [0, 2, 4, 6, 8, 101]} == values(own)
    assert (1, 1) == (made.files_removed, made.files_written)


@pytest.mark.parametrize("options", [{"partitionBy": ["zip"]}, {}])
def test_in_place_rows_do_not_move_to_a_partition_of_another_spelling(tmp_path, options):
    for zip_ in ("01067", "1067"):
        arrow_files.write(tmp_path / "own" / f"zip={zip_}" / "a.arrow", pa.table({"id": [1]}))
    with pytest.raises(UnsupportedError, match="the rows of zip=01067 would move to zip=1067"):
        rewrite(Tasks(), tmp_path / "own", tmp_path / "own", mode="overwrite", **options)
    rewrite(
        Tasks(), tmp_path / "own", tmp_path / "own", mode="overwrite", partitionTypeInference=False, partitionBy="zip"
    )
    assert ["zip=01067", "zip=1067"] == sorted(path.name for path in (tmp_path / "own").glob("zip=*"))


def test_in_place_a_file_that_comes_while_it_is_planned_is_read_or_stays(own, monkeypatch):
    plan, left = ArrowIpcBatchReader.partitions, [100]

    def partitions(reader):
        planned = plan(reader) if left[0] % 2 else None
        if left[0] < 103:
            left[0] += 1
            append(own, [left[0]])
        return planned or plan(reader)

    # `append` plans a read, too.
    monkeypatch.setattr(ArrowIpcBatchReader, "partitions", lambda reader: plan(reader) if "own" not in str(reader._options.paths) else partitions(reader))  # fmt: skip
    in_place(own)
    assert {"": [0, 2, 4, 6, 8, 102]} == values(own), "each was read, and odd ones dropped"
    assert [] == leftovers(own)


def test_in_place_beside_writers_that_never_rest_is_an_error(own, monkeypatch):
    monkeypatch.setattr(module, "live_files", lambda _: ())
    with pytest.raises(ConcurrentWriteError, match="each of 5 times"):
        in_place(own)
    assert {"": [*range(10)]} == values(own)
    assert [] == leftovers(own)


VERSIONS = {"versionAsOf": 1, "timestampAsOf": "2999-01-01T00:00:00Z"}


@pytest.mark.parametrize(("option", "version"), VERSIONS.items(), ids=VERSIONS)
def test_an_older_version_is_not_put_over_newer_rows(own, tmp_path, option, version):
    append(own, [100])
    with pytest.raises(
        OptionError, match=f"newest rows by those of version {version}.*'arrowipc fsck --back-to N {own}'"
    ):
        in_place(own, **{option: version})
    assert {"": [*range(10), 100]} == values(own)
    assert [] == leftovers(own)
    rewrite(Tasks(), own, tmp_path / "other", even, mode="overwrite", **{option: version})
    assert [0, 2, 4, 6, 8] == values(tmp_path / "other")[""][:5]


OVERLAPS = [
    ("", True),
    ("/k=1", True),
    ("/../alias", True),
    ("/../alias/k=1", True),
    ("/../al*", True),
    ("/../own", True),
    ("/*/x", True),
    ("/../own2", False),
    ("/..", True),
]


@pytest.mark.parametrize(("source", "expected"), OVERLAPS, ids=[source or "itself" for source, _ in OVERLAPS])
def test_what_is_in_place(own, source, expected):
    from spark_arrow_ipc.spark.options.options import parse_read

    (own.parent / "alias").symlink_to(own)
    job = plan_job(str(own), WriteMode.OVERWRITE)
    assert expected == is_in_place(job, parse_read({"path": f"{own}{source}"}))
    append_job = plan_job(str(own), WriteMode.APPEND)
    assert not is_in_place(append_job, parse_read({"path": str(own)}))


# ---- attempts


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("seed", range(5))
def test_of_a_task_that_ran_thrice_one_result_counts(lake, tmp_path, seed):
    tasks = Tasks(attempts=3)
    tasks.luck.seed(seed)
    made = rewrite(tasks, lake, tmp_path / "t", maxPartitionBytes=3000)
    assert tasks.ran == 3 * made.files_written
    assert {"": [*range(3 * ROWS)]} == values(tmp_path / "t")
    assert [] == leftovers(tmp_path / "t")


def test_an_attempt_that_comes_late_makes_nothing(lake, tmp_path):
    tasks = Tasks()
    rewrite(tasks, lake, tmp_path / "t")
    run = cloudpickle.loads(tasks.run)
    with pytest.raises(CommitError, match="staging directory is not there"):
        list(run(tasks.parts))
    assert [] == leftovers(tmp_path / "t")


@pytest.mark.parametrize(
    "found", [lambda reports: reports[1:], lambda reports: [*reports, reports[0]]], ids=["none", "two"]
)
def test_anything_but_one_result_of_each_task_is_refused(lake, tmp_path, found):
    tasks = Tasks()
    collect = tasks.collect
    tasks.collect = lambda: found(collect())
    with pytest.raises(CommitError, match="one report of each of"):
        rewrite(tasks, lake, tmp_path / "t", maxPartitionBytes=3000)
    assert ["_ipc_log"] == [path.name for path in (tmp_path / "t").iterdir()], "with the entry that expires it"


# ---- failures


def fails(batches):
    for batch in batches:
        yield batch.select(["id"])
    raise ValueError("the line of a person")


def wrong(batches):
    for batch in batches:
        yield pa.record_batch({"id": batch["name"]})


@pytest.mark.parametrize(
    ("function", "words"),
    [(fails, "the line of a person"), (wrong, "batch 0 of the function wrong")],
    ids=["raises", "type"],
)
def test_a_task_that_fails_leaves_the_target_as_it_was(spark, own, lake, function, words):
    # Spark 4.1 does not turn this error of the JVM into one of PySpark's.
    with pytest.raises((PySparkException, Py4JError), match=words):
        rewrite(spark, lake, own, function, "id bigint", columns="id, name", mode="overwrite")
    assert {"": [*range(10)]} == values(own)
    assert [] == leftovers(own)


def test_an_interrupt_withdraws_the_job(own, lake):
    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rewrite(Tasks(before=stop), lake, own, columns="id")
    assert {"": [*range(10)]} == values(own)
    assert [] == leftovers(own)


MISTAKES = [
    ({"compresion": "zstd"}, OptionError, "there is no option compresion; did you mean compression"),
    ({"wher": "id > 1"}, OptionError, "did you mean where"),
    ({"path": "x"}, OptionError, "the option path is for load and save"),
    ({"maxFilesPerTrigger": 3}, OptionError, "is for reading streams, and here data is rewritten"),
    ({"sort_by": "nothing"}, ColumnNotFoundError, "nothing"),
    ({"sort_by": "seen"}, OptionError, "rows cannot be sorted by seen"),
    ({"sort_by": "id", "sort_bytes": "2g"}, OptionError, "bytes from 1m to 1g as sort_bytes"),
    ({"sort_by": "id", "sort_bytes": 256}, OptionError, "bytes from 1m to 1g as sort_bytes, as 256m.*256"),
    ({"mode": "replace"}, OptionError, "one of append, overwrite"),
    ({"schema": "id bigint"}, OptionError, "without a function"),
    ({"function": 7}, FunctionError, "expected a function"),
    ({"mode": "overwrite", "ifExists": "error"}, OptionError, "asks that nothing is replaced"),
    ({"compression": 9}, OptionError, "compression"),
]


@pytest.mark.parametrize(("given", "error", "words"), MISTAKES, ids=[str(case[0]) for case in MISTAKES])
def test_mistakes_are_named_before_anything_is_made(lake, tmp_path, given, error, words):
    with pytest.raises(error, match=words):
        rewrite(Tasks(), lake, tmp_path / "t", **given)
    assert not (tmp_path / "t").exists()


def test_what_does_not_fit_beside_the_files_that_are_there(own, lake):
    with pytest.raises(SchemaMismatchError, match="id is missing"):
        rewrite(Tasks(), lake, own, columns="name")


def test_a_token_is_committed_once_and_ifexists_is_minded(own):
    for _ in range(2):
        made = append(own, [77], commitToken="night")
    assert {"": [*range(10), 77]} == values(made)
    append(own, [78], ifExists="ignore")
    assert 78 not in values(own)[""]


def counts(batches):
    yield pa.record_batch({"n": pa.array([sum(batch.num_rows for batch in batches)])})


def test_a_function_is_called_once_where_there_is_nothing_to_read(lake, tmp_path):
    rewrite(Tasks(), lake, tmp_path / "t", counts, s.StructType([s.StructField("n", s.LongType())]), where="k = 9")
    assert {"": [0]} == values(tmp_path / "t", "n")
