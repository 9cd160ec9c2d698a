"""DELETE, UPDATE and MERGE in place: rows, types, files, entries of the log, conflicts and refusals."""

import decimal
import os

import arrow_files
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from commit_jobs import dying, newest_entry
from commit_jobs import table as table_of
from rewrite_jobs import Tasks, files_of, leftovers, read
from statements import Statement
from stream_queries import Query

from spark_arrow_ipc import compact, rewrite
from spark_arrow_ipc.errors import ArrowIpcError, CommitError, ConcurrentWriteError, OptionError, SourceOverwrittenError
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.vacuum import vacuum


def append(root, rows, **options):
    """Commit a table as Spark's writer does, with its Arrow types."""
    source = root.parent / f"source of {len(list(root.parent.iterdir()))}"
    arrow_files.write(source / "rows.arrow", rows)
    rewrite(Tasks(), source, root, restoreTypes=True, **options)


def rows_of(root):
    """Return the rows of a plain read, sorted."""
    source = ArrowIpcDataSource({"path": str(root)})
    reader = source.reader(source.schema())
    rows = [
        tuple(row.values()) for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()
    ]
    return sorted(rows, key=lambda row: [(value is not None, str(value)) for value in row])


def numbers(*values, d=0):
    return pa.table({"n": pa.array(values, pa.int64()), "d": pa.array([d] * len(values), pa.int32())})


@pytest.fixture(params=["flat", "partitioned"])
def lake(tmp_path, request):
    """Two files of three rows: 1 to 3 with d=1, and 4 to 6 with d=2."""
    for d, values in ((1, (1, 2, 3)), (2, (4, 5, 6))):
        append(
            tmp_path / "lake", numbers(*values, d=d), **({"partitionBy": "d"} if request.param == "partitioned" else {})
        )
    return tmp_path / "lake"


def is_in(*values):
    return lambda rows: pc.is_in(rows["n"], pa.array(values, pa.int64()))


def without(*values):
    return lambda rows: rows.filter(pc.invert(is_in(*values)(rows)))


def plus(number, *values):
    """Return a change that adds to some numbers."""

    def change(rows):
        changed = pc.if_else(is_in(*values)(rows), pc.add(rows["n"], number), rows["n"])
        return rows.set_column(rows.schema.get_field_index("n"), "n", changed)

    return change


def inserting(*values, d=1):
    """Return a change that inserts numbers."""

    def change(rows):
        inserted = numbers(*values, d=d)
        return inserted if rows is None else pa.concat_tables([rows.select(["n", "d"]), inserted])

    return change


def entries(root):
    return read_state(table_of(root)).number


CHANGES = {
    "a row is deleted": ("DELETE", without(2), is_in(2), [1, 3, 4, 5, 6], 1),
    "rows of two files are deleted": ("DELETE", without(2, 5), is_in(2, 5), [1, 3, 4, 6], 2),
    "all rows of a file are deleted": ("DELETE", without(1, 2, 3), is_in(1, 2, 3), [4, 5, 6], 1),
    "all rows are deleted": ("DELETE", without(*range(7)), is_in(*range(7)), [], 2),
    "all files are rewritten": ("DELETE", without(2), None, [1, 3, 4, 5, 6], 2),
    "a row is updated": ("UPDATE", plus(10, 2), is_in(2), [1, 3, 4, 5, 6, 12], 1),
    "a row is merged, and one inserted": ("MERGE", lambda rows: inserting(7)(plus(10, 2)(rows)), is_in(2), [1, 3, 4, 5, 6, 7, 12], 1),
    "a row is inserted": ("MERGE", inserting(7), is_in(99), [1, 2, 3, 4, 5, 6, 7], 0),
}  # fmt: skip


@pytest.mark.parametrize(("command", "change", "matches", "expected", "replaced"), CHANGES.values(), ids=CHANGES)
def test_a_statement_replaces_the_files_with_rows_that_match(lake, command, change, matches, expected, replaced):
    before, schema = files_of(lake), ArrowIpcDataSource({"path": str(lake)}).schema()
    Statement(lake, command).run(change, matches)
    assert expected == sorted(row[0] for row in rows_of(lake))
    assert schema == ArrowIpcDataSource({"path": str(lake)}).schema(), "also without a row"
    entry = newest_entry(lake)
    assert (command.lower(), replaced) == (entry.operation, len(entry.remove))
    assert replaced == len(before.keys() - files_of(lake).keys())
    assert [] == leftovers(lake)


@pytest.mark.parametrize("command", ["DELETE", "UPDATE", "MERGE"])
def test_a_statement_without_a_match_leaves_nothing_behind(lake, command):
    before = {path: path.stat().st_mtime_ns for path in lake.rglob("*")}
    Statement(lake, command).run(lambda _: None, is_in(99))
    assert before.keys() == {*lake.rglob("*")}
    assert 2 == entries(lake)


def test_a_statement_that_copies_all_rows_leaves_nothing_behind(lake):
    """As without Spark's filter of files, or where each row of a MERGE stays."""
    before = files_of(lake)
    Statement(lake, "MERGE").run(lambda rows: rows, copied=6, updated=0, deleted=0, inserted=0)
    assert (before, 2, []) == (files_of(lake), entries(lake), leftovers(lake))


COUNTS = {
    "a row is lost": ("DELETE", without(2, 3), {"copied": 5, "deleted": 1}),
    "a row is twice": ("UPDATE", lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]), {"copied": 5, "updated": 1}),
    "an update loses a row, without counts": ("UPDATE", without(2), {}),
    "a row is neither copied nor deleted": (
        "MERGE",
        without(2),
        {"copied": 5, "updated": 0, "deleted": 0, "inserted": 0},
    ),
    "an inserted row is lost": ("MERGE", without(2), {"copied": 5, "updated": 0, "deleted": 1, "inserted": 1}),
}


@pytest.mark.parametrize(("command", "change", "counts"), COUNTS.values(), ids=COUNTS)
def test_rows_that_do_not_add_up_are_an_error_and_nothing_changes(lake, command, change, counts):
    before = rows_of(lake)
    with pytest.raises(CommitError, match=r"rows by Spark's counts and the log"):
        Statement(lake, command).run(change, **counts)
    assert (before, []) == (rows_of(lake), leftovers(lake))


def test_rows_can_be_appended_after_all_were_deleted(lake):
    Statement(lake, "DELETE").run(without(*range(7)))
    append(
        lake,
        numbers(8, d=3),
        **({"partitionBy": "d"} if (lake / "d=1").exists() or newest_entry(lake).partition_columns else {}),
    )
    assert [(8, 3)] == rows_of(lake)


def test_a_statement_moves_rows_to_other_partitions(tmp_path):
    append(tmp_path / "lake", numbers(1, 2, d=1), partitionBy="d")
    Statement(tmp_path / "lake", "UPDATE").run(
        lambda rows: rows.set_column(1, "d", pa.array([1, 2], pa.int32())), is_in(2)
    )
    assert ["d=1", "d=2"] == sorted(name.partition("/")[0] for name in files_of(tmp_path / "lake"))
    assert [(1, 1), (2, 2)] == rows_of(tmp_path / "lake")


# ---- types, metadata and columns

TYPES = {
    "uint16": pa.array([1, 65535], pa.uint16()),
    "uint64": pa.array([1, 2**64 - 1], pa.uint64()),
    "large_utf8": pa.array(["a", None], pa.large_utf8()),
    "dictionary": pa.array(["a", "b"]).dictionary_encode(),
    "timestamp of nanoseconds": pa.array([1000, None], pa.timestamp("ns")),
    "timestamp of seconds": pa.array([1, None], pa.timestamp("s", "UTC")),
    "date64": pa.array([86_400_000, None], pa.date64()),
    "fixed-size binary": pa.array([b"abc", None], pa.binary(3)),
    "fixed-size list": pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)),
    "half float": pa.array([1.5, None], pa.float16()),
    "decimal": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(7, 2)),
    "struct": pa.array([{"a": 1, "b": ["x"]}, None], pa.struct([("a", pa.uint8()), ("b", pa.list_(pa.large_utf8()))])),
    "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int8())),
}


@pytest.mark.parametrize("is_managed", [True, False], ids=["of the table", "of another program"])
@pytest.mark.parametrize("column", TYPES.values(), ids=TYPES)
def test_types_and_metadata_stay(tmp_path, column, is_managed):
    root = tmp_path / "lake"
    field = pa.field("c", column.type, metadata={"unit": "m"})
    rows = pa.table([pa.array([1, 2]), column], schema=pa.schema([pa.field("n", pa.int64()), field], {"owner": "me"}))
    if is_managed:
        append(root, rows)
    else:
        arrow_files.write(root / "rows.arrow", rows)
    (before,) = (read(path) for path in files_of(root).values())
    Statement(root, "DELETE").run(without(2), is_in(2))
    (after,) = (read(path) for path in files_of(root).values())
    assert before.schema.field("c").type == after.schema.field("c").type
    assert b"m" == after.schema.field("c").metadata[b"unit"]
    assert b"me" == after.schema.metadata[b"owner"]
    assert before.slice(0, 1)["c"].to_pylist() == after["c"].to_pylist()


def test_a_value_finer_than_sparks_is_an_error_and_nothing_changes(tmp_path):
    arrow_files.write(
        tmp_path / "lake" / "rows.arrow", pa.table({"n": [1, 2], "at": pa.array([1001, 2000], pa.timestamp("ns"))})
    )
    before = files_of(tmp_path / "lake")
    with pytest.raises(ArrowIpcError, match="at"):
        Statement(tmp_path / "lake", "DELETE").run(without(2), is_in(2))
    assert before == files_of(tmp_path / "lake")


def test_columns_of_older_files_stay(tmp_path):
    root = tmp_path / "lake"
    append(root, pa.table({"n": [1, 2], "a": ["x", "y"]}))
    append(root, pa.table({"n": [3]}))
    append(root, pa.table({"n": [4], "a": ["z"], "b": [True]}))
    Statement(root, "DELETE").run(without(2), is_in(2, 3))
    assert [(1, "x", None), (3, None, None), (4, "z", True)] == rows_of(root)


def test_a_column_that_the_table_does_not_show_is_not_lost(tmp_path):
    root = tmp_path / "lake"
    arrow_files.write(root / "old.arrow", pa.table({"n": [1, 2], "only": ["x", "y"]}))
    arrow_files.write(root / "young.arrow", pa.table({"n": [3]}))
    os.utime(root / "old.arrow", (1, 1))
    with pytest.raises(ArrowIpcError, match=r"only.*that the table does not show"):
        Statement(root, "DELETE").run(without(2), is_in(2))
    assert not (root / "_ipc_log").exists()
    Statement(root, "DELETE", {"mergeSchema": "true"}).run(without(2), is_in(2))
    assert {(1, "x"), (3, None)} == {
        (row["n"], row.get("only")) for path in files_of(root).values() for row in read(path).to_pylist()
    }


def test_a_narrower_column_of_an_older_file_gets_the_wider_type(tmp_path):
    root = tmp_path / "lake"
    append(root, pa.table({"n": pa.array([1, 2], pa.int64()), "c": pa.array([1, 2], pa.int32())}))
    append(root, pa.table({"n": pa.array([3], pa.int64()), "c": pa.array([3], pa.int64())}))
    Statement(root, "DELETE").run(without(2), is_in(2))
    assert {"int64"} == {str(read(path).schema.field("c").type) for path in files_of(root).values()}


# ---- others at the same time


def delete(*values):
    return lambda lake: Statement(lake, "DELETE").run(without(*values), is_in(*values))


def update(*values):
    return lambda lake: Statement(lake, "UPDATE").run(plus(10, *values), is_in(*values))


def merge(*values):
    return lambda lake: Statement(lake, "MERGE").run(inserting(*values), is_in(99))


def append_row(lake):
    append(lake, numbers(9, d=1), **_partitioning(lake))


def overwrite(lake):
    append(lake, numbers(9, d=1), mode="overwrite", **_partitioning(lake))


def compact_second(lake):
    append_row(lake)  # d=1 has two files, or the flat table three
    compact(Tasks(), lake)


def _partitioning(lake):
    return {"partitionBy": "d"} if (lake / "d=1").exists() else {}


OTHERS = {
    "append": (append_row, "DU"),
    "delete in the same file": (delete(1), ""),
    "delete in another file": (delete(5), "DU"),
    "update in the same file": (update(1), ""),
    "update in another file": (update(5), "DU"),
    "merge": (merge(7), ""),
    "merge of the same key": (merge(2), ""),
    "overwrite": (overwrite, ""),
    "maintenance": (lambda lake: vacuum(table_of(lake), older_than=3600), "DUM"),
}
STATEMENTS = {
    "D": ("DELETE", without(2), is_in(2)),
    "U": ("UPDATE", plus(10, 2), is_in(2)),
    "M": ("MERGE", inserting(7), is_in(99)),
}


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize(("other", "passes"), OTHERS.values(), ids=OTHERS)
def test_a_statement_conflicts_with_what_may_have_changed_its_rows(lake, statement, other, passes):
    command, change, matches = STATEMENTS[statement]
    slow = Statement(lake, command)
    scanned = slow.scan(matches)
    other(lake)
    before, number = rows_of(lake), entries(lake)
    if statement in passes:
        slow.finish(change, *scanned)
        assert number + 1 == entries(lake)
        expected = {"D": {2}, "U": {2}, "M": set()}[statement]
        assert expected == {row[0] for row in before} - {row[0] for row in rows_of(lake)}
        return
    with pytest.raises(ConcurrentWriteError, match="run it again"):
        slow.finish(change, *scanned)
    assert (before, []) == (rows_of(lake), leftovers(lake))


def test_a_file_of_another_program_that_was_replaced_is_a_conflict(tmp_path):
    root = tmp_path / "lake"
    arrow_files.write(root / "rows.arrow", numbers(1, 2))
    statement = Statement(root, "DELETE")
    scanned = statement.scan()
    arrow_files.write(root / "rows.arrow", numbers(1, 2, 3))
    with pytest.raises(ConcurrentWriteError, match="changed files that this delete has read"):
        statement.finish(without(2), *scanned)
    assert [(1, 0), (2, 0), (3, 0)] == rows_of(root)


# ---- streams


def test_a_stream_refuses_the_entry_as_that_of_an_overwrite(lake):
    Statement(lake, "UPDATE").run(plus(10, 2), is_in(2))
    query = Query(lake, startingFrom="1")
    with pytest.raises(SourceOverwrittenError, match="log entry 3 overwrote"):
        while query.next() is not None:
            pass


FEED = {
    "delete": (delete(2), [(1, "delete"), (1, "insert"), (2, "delete"), (3, "delete"), (3, "insert")]),
    "update": (update(2), [(1, "delete"), (1, "insert"), (2, "delete"), (3, "delete"), (3, "insert"), (12, "insert")]),
    "merge that inserts": (merge(7), [(7, "insert")]),
}


@pytest.mark.parametrize(("statement", "expected"), FEED.values(), ids=FEED)
def test_the_change_feed_has_removed_and_added_rows(lake, statement, expected):
    statement(lake)
    query = Query(lake, readChangeFeed="true", startingFrom="3")
    assert expected == sorted((row[0], row[2]) for row in query.next())


# ---- refusals

REFUSED = {
    "where": "n > 1",
    "columns": "n",
    "metadataOnly": "true",
    "metadataColumns": "true",
    "pathGlobFilter": "*.arrow",
    "modifiedBefore": "2030-01-01",
    "modifiedAfter": "2000-01-01",
    "recursiveFileLookup": "true",
    "ignoreCorruptFiles": "true",
    "ignoreMissingFiles": "true",
    "recover": "true",
    "versionAsOf": "1",
    "timestampAsOf": "2030-01-01",
    "tensors": "cells",
    "layout": "huggingface",
    "commitToken": "a",
    "ifExists": "error",
    "partitionOverwriteMode": "dynamic",
    "dictionaryColumns": "n",
    "nanoseconds": "floor",
}


@pytest.mark.parametrize(("option", "value"), REFUSED.items(), ids=REFUSED)
def test_an_option_that_leaves_out_rows_is_refused_before_anything_is_touched(lake, option, value):
    statement = Statement(lake, "DELETE")
    statement.options[option] = value
    before = sorted(lake.rglob("*"))
    with pytest.raises(OptionError, match=option):
        statement.write(numbers(1), None)
    assert before == sorted(lake.rglob("*"))


# ---- crashes

EDGES = ["planned.mark", "named.file", "named.all", "committed.asked", "C3.linked", "committed.put", "collected.removed", "collected.files", "collected.mark"]  # fmt: skip


@pytest.mark.parametrize("edge", EDGES)
def test_a_crash_leaves_the_old_rows_or_the_new_ones(lake, edge):
    old, new = rows_of(lake), [row for row in rows_of(lake) if row[0] != 2]
    with dying(edge):
        delete(2)(lake)
    is_committed = EDGES.index(edge) >= EDGES.index("C3.linked")
    assert (new if is_committed else old) == rows_of(lake)
    vacuum(table_of(lake), older_than=0)
    assert (new if is_committed else old) == rows_of(lake)
    delete(3)(lake)
    assert [row for row in (new if is_committed else old) if row[0] != 3] == rows_of(lake)
