"""Changes as rows: the columns that a stream of them has beside those of the data."""

import io

import pyarrow as pa
import pytest
from pyspark.sql import types as s
from table_commits import APPEND, OVERWRITE, save

pytest.importorskip("pyspark.sql.streaming.datasource", reason="reading a stream needs Spark 4.2 or later")
from stream_queries import Query, drop

from spark_arrow_ipc.errors import ColumnNotFoundError, OptionError
from spark_arrow_ipc.spark.options.options import parse_stream


def commit(path, mode, **columns):
    """Commit a file of each partition ``k``."""
    rows, sink = pa.table(columns), io.BytesIO()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    path.mkdir(exist_ok=True)
    save(path, mode, *((f"k={k}", sink.getvalue()) for k in (1, 2)), retain=mode is OVERWRITE)


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
    with pytest.raises(OptionError, match="the option readChangeFeed has no meaning here: the source is not a table"):
        Query(tmp_path / "in", readChangeFeed="true")
    with pytest.raises(ColumnNotFoundError, match="the option where: there is no column 'm'"):
        Query(lake, readChangeFeed="true", where="m = 1 AND _commit > 1")
    commit(lake, OVERWRITE, n=[1], _Commit=[1])
    with pytest.raises(OptionError, match="readChangeFeed=true adds a column '_Commit', and the data has one"):
        Query(lake, readChangeFeed="true")
