"""Which files a load reads, which columns of them, and how they become tasks."""

import json
import os
import pathlib

import arrow_files
import pyarrow as pa
import pytest

from spark_arrow_ipc import ipc


def read(spark, *paths, **options):
    return (
        spark.read.format("arrowipc")
        .options(**options)
        .load(list(map(str, paths)) if len(paths) > 1 else str(paths[0]))
    )


def numbers(frame):
    """Return the column n, in the order in which it is read."""
    return [row.n for row in frame.select("n").collect()]


def rows_by_task(frame):
    """Return the values of the first column that each task reads."""
    return frame.rdd.mapPartitions(lambda rows: [[row[0] for row in rows]]).collect()


def write(path, *values, stream=False):
    return arrow_files.write(path, pa.table({"n": pa.array(values, pa.int32())}), stream=stream)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Files and streams, hidden ones, staged ones, and a directory inside a directory."""
    root = tmp_path_factory.mktemp("tree")
    write(root / "many" / "b.arrow", 1)
    write(root / "many" / "a.arrows", 2, stream=True)
    write(root / "many" / "c without an ending", 3)
    for name in (".hidden.arrow", "_SUCCESS.arrow", "d.arrow.staged", "e.arrow._COPYING_", "_ipc_stage/job/f.arrow"):
        write(root / "many" / name, 99)
    (root / "many" / "_SUCCESS").touch()
    write(root / "years" / "y2023" / "part.arrow", 10)
    write(root / "years" / "y2024" / "part.arrow", 20)
    write(root / "years" / "other" / "part.arrow", 30)
    write(root / "odd" / "a b,c#%20?.arrow", 5)
    return root


# (Paths under the tree, what is read.)
PATHS = {
    "a file": (["many/b.arrow"], [1]),
    "a stream": (["many/a.arrows"], [2]),
    "a directory: files and streams, sorted by name, none hidden or staged": (["many"], [2, 1, 3]),
    "a directory with a slash": (["many/"], [2, 1, 3]),
    "a list, in its order": (["many/b.arrow", "many/a.arrows"], [1, 2]),
    "a file twice is read twice": (["many/b.arrow", "many/b.arrow"], [1, 1]),
    "a list of a file and a directory": (["years/y2024", "many/b.arrow"], [20, 1]),
    "a pattern of files": (["many/*.arrow*"], [2, 1]),
    "a pattern of directories": (["years/y*"], [10, 20]),
    "a pattern in the middle": (["years/*/part.arrow"], [30, 10, 20]),
    "a pattern of one letter": (["years/y202?/*"], [10, 20]),
    "a hidden file that is named outright": (["many/.hidden.arrow"], [99]),
    "letters that mean something in a URI": (["odd/a b,c#%20?.arrow"], [5]),
}


@pytest.mark.parametrize("name", PATHS)
def test_a_path_names_files(spark, tree, name):
    """All rows of those files, once for each time that a file is named."""
    paths, expected = PATHS[name]
    frame = read(spark, *(f"{tree}/{path}" for path in paths), maxPartitionBytes="1m", columns="n")
    assert sorted(numbers(frame)) == sorted(expected)


def test_a_uri_of_a_file_is_a_path(spark, tree):
    assert numbers(read(spark, (tree / "many" / "b.arrow").as_uri())) == [1]


def test_a_relative_path_begins_where_spark_was_started(spark, tree):
    """As for Spark's own sources; planners and executors may stand elsewhere."""
    assert numbers(read(spark, os.path.relpath(tree / "many" / "b.arrow"))) == [1]


def test_paths_as_an_option(spark, tree):
    """What `load([...])` sets."""
    paths = json.dumps([str(tree / "many" / "b.arrow"), str(tree / "many" / "a.arrows")])
    assert sorted(numbers(spark.read.format("arrowipc").option("paths", paths).load())) == [1, 2]


WIDE = pa.table(
    {
        "a": pa.array([1], pa.int32()),
        "b, c.d": pa.array(["odd"]),
        "tick`": pa.array(["tick"]),
        "all": pa.array(["word"]),
        "#0": pa.array(["sharp"]),
        "s": pa.array([{"x": 1, "y": {"z": "deep", "w": 2}}]),
        "e": pa.array([[{"x": 5}]]),
    }
)
DEEP = {"x": 1, "y": {"z": "deep", "w": 2}}

# (Text of the option, row.)
COLUMNS = {
    "all": ("all", WIDE.to_pylist()[0]),
    "All, in any case": ("ALL", WIDE.to_pylist()[0]),
    "a name": ("a", {"a": 1}),
    "names, in the order of the option": ("s , a", {"s": DEEP, "a": 1}),
    "backticks": ("`b, c.d`, `tick```", {"b, c.d": "odd", "tick`": "tick"}),
    "a word in backticks is a column": ("`all`", {"all": "word"}),
    "a position": ("#0", {"a": 1}),
    "a position in backticks is a name": ("`#0`", {"#0": "sharp"}),
    "positions, the last first": ("#2, #0", {"tick`": "tick", "a": 1}),
    "a field": ("s.x", {"s": {"x": 1}}),
    "fields of one struct": ("s.y.z, s.x", {"s": {"y": {"z": "deep"}, "x": 1}}),
    "a field and another column": ("s.`y`.w, a", {"s": {"y": {"w": 2}}, "a": 1}),
    "JSON": ('["s.x", "`b, c.d`"]', {"s": {"x": 1}, "b, c.d": "odd"}),
    "JSON with positions": ('[0, "#1"]', {"a": 1, "b, c.d": "odd"}),
}


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    return arrow_files.write(tmp_path_factory.mktemp("wide") / "wide.arrow", WIDE)


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_are_chosen_by_the_grammar_of_the_option(spark, wide, name):
    columns, expected = COLUMNS[name]
    (row,) = read(spark, wide, columns=columns).collect()
    assert row.asDict(recursive=True) == expected


def test_a_schema_narrows_the_columns_of_the_option(spark, wide):
    frame = spark.read.format("arrowipc").option("columns", "a, s.x").schema("s struct<x:bigint>").load(wide)
    assert [row.asDict(recursive=True) for row in frame.collect()] == [{"s": {"x": 1}}]


@pytest.mark.smoke("read")
def test_columns_are_found_by_name_in_every_file(spark, tmp_path):
    """Files of one directory differ in the order of their columns."""
    arrow_files.write(tmp_path / "d" / "1.arrow", pa.table({"n": [1], "t": ["a"]}))
    arrow_files.write(tmp_path / "d" / "2.arrow", pa.table({"more": [0.5], "t": ["b"], "n": [2]}), stream=True)
    os.utime(tmp_path / "d" / "2.arrow", (1, 1))  # the schema is that of the newest file
    assert sorted(map(tuple, read(spark, tmp_path / "d").collect())) == [(1, "a"), (2, "b")]


BATCHES, ROWS = 150, 40
BATCH_NBYTES = ROWS * 8


@pytest.fixture(scope="module")
def batches(tmp_path_factory):
    """A file and a stream of 150 record batches; n counts the rows."""
    root = tmp_path_factory.mktemp("batches")
    table = pa.table({"n": pa.array(range(BATCHES * ROWS))})
    paths = [arrow_files.write(root / f"many{stream:d}", table, rows=ROWS, stream=stream) for stream in (False, True)]
    with ipc.open(paths[0]) as reader:
        assert len(reader.blocks) == BATCHES
    return paths


# (Bytes of the file that a task reads, tasks.)
SPLITS = {"a quarter": (4, 4), "a seventh": (7, 7), "a thirtieth": (30, 30)}


@pytest.mark.parametrize("name", SPLITS)
def test_a_large_file_is_cut_between_its_batches(spark, batches, name):
    """Every row once, in order, and tasks whose row counts differ by at most one batch."""
    divisor, tasks = SPLITS[name]
    nbytes = pathlib.Path(batches[0]).stat().st_size
    options = {"maxPartitionBytes": str(32 * nbytes // (32 * divisor - 1) + 1)}  # of which opening the file is a 32nd
    found = rows_by_task(read(spark, batches[0], **options))
    assert [n for rows in found for n in rows] == list(range(BATCHES * ROWS))
    sizes = [len(rows) for rows in found]
    assert len(sizes) == tasks
    assert max(sizes) - min(sizes) <= ROWS


def test_the_last_batch_of_a_file_may_be_short(spark, tmp_path):
    path = arrow_files.write(tmp_path / "in.arrow", pa.table({"n": pa.array(range(95))}), rows=10)
    found = rows_by_task(read(spark, path, maxPartitionBytes="1500"))
    assert [n for rows in found for n in rows] == list(range(95))
    assert len(found) > 1


def test_a_large_stream_is_cut_between_its_batches(spark, batches):
    tasks = rows_by_task(read(spark, batches[1], maxPartitionBytes="1k"))
    assert len(tasks) > 1
    assert [n for rows in tasks for n in rows] == list(range(BATCHES * ROWS))


def test_small_files_are_packed(spark, tmp_path):
    """As many files a task as fit with the cost of opening each."""
    for i in range(12):
        path = write(tmp_path / "d" / f"{i:02}.arrow", *range(i * 10, i * 10 + 10))
    nbytes = pathlib.Path(path).stat().st_size
    options = {
        "maxPartitionBytes": str(4 * nbytes * 32 // 29 + 1)
    }  # three of four are opened after the first, a 32nd each
    found = rows_by_task(read(spark, tmp_path / "d", **options))
    assert [len(rows) for rows in found] == [40, 40, 40]
    assert [n for rows in found for n in rows] == list(range(120))


# (What is in the directory, the count.)
EMPTY = {
    "a file without record batches": (pa.table({"n": pa.array([], pa.int32())}), 0),
    "a record batch without rows": (pa.record_batch({"n": pa.array([], pa.int32())}), 0),
    "rows without columns": (pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([]))), 3),
}


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("stream", [False, True])
def test_files_without_rows_or_columns(spark, tmp_path, name, stream):
    data, expected = EMPTY[name]
    path = tmp_path / "in.arrow"
    create = pa.ipc.new_stream if stream else pa.ipc.new_file
    with create(str(path), data.schema) as writer:
        if isinstance(data, pa.RecordBatch):
            writer.write_batch(data)
    assert read(spark, path).count() == expected
