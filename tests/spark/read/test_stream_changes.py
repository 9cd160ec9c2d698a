"""Changes as rows: the columns that a stream of them has beside those of the data."""

import io

import pyarrow as pa
import pytest
from commit_jobs import APPEND, OVERWRITE, finish, stage
from job_plans import plan_job
from pyspark.sql import types as s

pytest.importorskip("pyspark.sql.streaming.datasource", reason="reading a stream needs Spark 4.2 or later")
from stream_queries import Query, drop

from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.errors import ColumnNotFoundError, OptionError
from spark_arrow_ipc.spark.options.options import parse_stream


def commit(path, mode, **columns):
    """Commit a file of each partition ``k``."""
    plan = plan_job(str(path), mode, commit_retention=3600, keep_replaced=3600, durable=False)
    outputs = []
    for k in (1, 2):
        table, sink = pa.table(columns), io.BytesIO()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        outputs.append(TaskOutput(plan.staging.jobid, (stage(plan, sink.getvalue(), f"k={k}", k),)))
    finish(plan, outputs)


@pytest.fixture
def lake(tmp_path):
    commit(tmp_path / "lake", APPEND, n=[1, 2], word=["a", "b"])
    commit(tmp_path / "lake", OVERWRITE, n=[3], word=["c"])
    return tmp_path / "lake"


ALL = [(n, word, k, kind, commit) for kind, commit, data in (
    ("insert", 1, [(1, "a"), (2, "b")]), ("delete", 2, [(1, "a"), (2, "b")]), ("insert", 2, [(3, "c")])
) for n, word in data for k in (1, 2)]  # fmt: skip

READS = [
    ({}, ALL),
    ({"where": "_change_type = 'delete' AND k = 1"}, [row for row in ALL if row[3] == "delete" and row[2] == 1]),
    ({"where": "_commit = 2 AND n > 2"}, [row for row in ALL if row[0] == 3]),
    ({"columns": "n"}, [(row[0], *row[3:]) for row in ALL]),
    ({"recursiveFileLookup": "true"}, [(*row[:2], *row[3:]) for row in ALL]),
]


@pytest.mark.parametrize(("options", "rows"), READS, ids=[str(options) for options, _ in READS])
def test_rows_are_inserts_and_deletes_of_commits(lake, options, rows):
    query = Query(lake, readChangeFeed="true", startingFrom="1", **options)
    assert ["_change_type", "_commit"] == query.schema.names[-2:]
    assert sorted(rows) == query.next()
    assert query.next() is None
    query.restart()
    assert sorted(rows) == query.rows(0)


def test_a_schema_chooses_columns_of_changes_as_any_others(lake):
    schema = s.StructType().add("_commit", "integer").add("n", "long")
    query = Query(lake, schema, readChangeFeed="true", startingFrom="1")
    assert sorted((row[4], row[0]) for row in ALL) == query.next()


def test_without_the_option_nothing_is_added(lake):
    assert ["n", "word", "k"] == Query(lake, onOverwrite="append", startingFrom="1").schema.names


def test_mistakes(tmp_path, lake):
    with pytest.raises(OptionError, match="so that onOverwrite has no meaning; remove one"):
        parse_stream({"path": "x", "readChangeFeed": "true", "onOverwrite": "skip"})
    drop(tmp_path / "in" / "0.arrow", 0)
    with pytest.raises(OptionError, match="the option readChangeFeed has no meaning here: the source is not a dataset"):
        Query(tmp_path / "in", readChangeFeed="true")
    with pytest.raises(ColumnNotFoundError, match="the option where: there is no column 'm'"):
        Query(lake, readChangeFeed="true", where="m = 1 AND _commit > 1")
    commit(lake, OVERWRITE, n=[1], _Commit=[1])
    with pytest.raises(OptionError, match="readChangeFeed=true adds a column '_Commit', and the data has one"):
        Query(lake, readChangeFeed="true")
