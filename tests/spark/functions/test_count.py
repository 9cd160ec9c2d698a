"""`count` without tasks: where the driver's process answers, and where it leaves the answer to Spark."""

import importlib
from types import SimpleNamespace

import arrow_files
import pyarrow as pa
import pytest
from pyspark.errors import PySparkAttributeError, PySparkException

from spark_arrow_ipc import count
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options.declare import Use
from spark_arrow_ipc.spark.options.options import READING

counting = importlib.import_module("spark_arrow_ipc.spark.functions.aggregate")

ROWS = 500
TASKS = -1
"""What tasks would say."""


class Classic:
    sparkContext = None  # noqa: N815 - Spark's name


class Connect:
    @property
    def sparkContext(self):
        raise PySparkAttributeError(errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": "_"})


@pytest.fixture
def lake(tmp_path, monkeypatch):
    monkeypatch.setattr(counting, "_count_by_tasks", lambda *_: TASKS)
    table = pa.table({"id": range(ROWS)})
    for name in ("k=1/a.arrow", "k=1/b.ipc", "k=2/deep/c.arrow"):
        arrow_files.write(tmp_path / "t" / name, table, rows=100)
    return tmp_path / "t"


# options, rows
OPTIONS = [
    ({}, 2 * ROWS),
    ({"recursiveFileLookup": True}, 3 * ROWS),
    ({"pathGlobFilter": "*.arrow"}, ROWS),
    ({"modifiedAfter": "2001-01-01T00:00:00"}, 2 * ROWS),
    ({"modifiedBefore": "2001-01-01T00:00:00"}, TASKS),  # no file: an error of Spark's
    ({"maxPartitionBytes": 1, "mergeSchema": True, "nanoseconds": "long", "vectors": "binary"}, 2 * ROWS),
    ({"where": "k = 1"}, TASKS),
    ({"where": None}, 2 * ROWS),
    ({"columns": ["id"]}, TASKS),
    ({"metadataColumns": True}, TASKS),
    ({"metadataOnly": True}, TASKS),
    ({"recover": True}, TASKS),
    ({"ignoreCorruptFiles": True}, TASKS),
    ({"ignoreMissingFiles": "true"}, TASKS),
    ({"nonsense": 1}, TASKS),
    ({"maxPartitionBytes": "none"}, TASKS),
]  # fmt: skip


@pytest.mark.parametrize(("options", "rows"), OPTIONS, ids=str)
def test_options_are_honoured_or_left_to_tasks(lake, options, rows):
    path = [lake / "k=1", lake / "k=2"] if "recursiveFileLookup" not in options else lake
    if rows == 2 * ROWS:
        path = lake / "k=1"
    assert rows == count(Classic(), path, **options)


def test_every_option_of_a_read_is_on_one_side(lake):
    left = {
        attribute
        for attribute, options in READING.attributes.items()
        if options and not any(Use.COUNT in option.applies for option in options)
    }
    assert left == {
        "columns", "where", "metadata_columns", "metadata_only", "missing_columns",
        "ignore_corrupt_files", "ignore_missing_files", "tensors", "recover", "token",
    }  # fmt: skip


@pytest.mark.parametrize(
    "make",
    [
        lambda lake: (Connect(), lake / "k=1"),
        lambda lake: (Classic(), "t/k=1"),
        lambda lake: (Classic(), lake / "nowhere"),
        lambda lake: (Classic(), "dissociated+tcp://localhost:1/t"),
    ],
    ids=["Connect", "a relative path", "no file", "a server"],
)
def test_what_this_process_cannot_see_is_left_to_tasks(lake, make, monkeypatch):
    monkeypatch.chdir(lake.parent)
    session, path = make(lake)
    assert count(session, path) == TASKS


@pytest.mark.parametrize("path", ["hdfs://namenode:8020/t", ["viewfs:///t/a.arrow", "viewfs:///t/b.arrow"]])
def test_no_jvm_is_started_in_this_process(lake, path, monkeypatch):
    monkeypatch.setattr("spark_arrow_ipc.storage.hadoop.load_fs", lambda: pytest.fail("a JVM was started"))
    assert lake.exists()
    assert count(Classic(), path) == TASKS


def test_several_paths_count_each_time(lake):
    assert 4 * ROWS == count(Classic(), [lake / "k=1", str(lake / "k=1")])


@pytest.mark.parametrize("options", [{"PATH": "x"}, {"paths": ["x"]}, {"columns": 7}], ids=str)
def test_paths_are_arguments_and_values_have_types(lake, options):
    with pytest.raises(OptionError, match=r"remove it|takes"):
        count(SimpleNamespace(), lake, **options)


@pytest.mark.smoke("count")
def test_the_count_is_sparks(spark, tmp_path, monkeypatch):
    """In a session: the same number in both ways, and the errors of tasks."""
    arrow_files.write(tmp_path / "t" / "k=1" / "a.arrow", pa.table({"id": range(ROWS)}), rows=9)
    arrow_files.write(tmp_path / "t" / "k=2" / "b.arrow", pa.table({"id": range(7)}))
    frame = spark.read.format("arrowipc").load(str(tmp_path / "t"))
    by_tasks = counting._count_by_tasks(spark, tmp_path / "t", {})
    monkeypatch.setattr(counting, "_count_by_tasks", None)
    assert frame.count() == by_tasks == count(spark, tmp_path / "t")
    monkeypatch.undo()
    arrow_files.write(tmp_path / "s" / "a.arrow", pa.table({"id": [1]})) and (tmp_path / "s" / "b.arrow").write_bytes(
        b""
    )
    with pytest.raises(PySparkException, match=r"InvalidFramingError.*empty file"):
        count(spark, tmp_path / "s")
