"""Lakes: partitioned directories, filters of files, files that differ, files that are broken or gone."""

import datetime as dt
import os
import pathlib

import arrow_files
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row

from spark_arrow_ipc import rewrite


def read(spark, *paths, schema=None, **options):
    reader = spark.read.format("arrowipc").options(**options)
    if schema is not None:
        reader = reader.schema(schema)
    return reader.load(list(map(str, paths)) if len(paths) > 1 else str(paths[0]))


def write(path, *values, name="n"):
    return arrow_files.write(path, pa.table({name: pa.array(values, pa.int32())}))


def rows(frame):
    return sorted(map(tuple, frame.collect()), key=str)


def raised(act):
    with pytest.raises(PySparkException) as caught:
        act()
    return str(caught.value)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A table of two levels of partitions: numbers, dates, an escape, a null."""
    root = tmp_path_factory.mktemp("lake") / "t"
    write(root / "year=2023" / "day=2023-01-01" / "a.arrow", 1)
    write(root / "year=2023" / "day=2023-12-31" / "a.arrow", 2, 3)
    write(root / "year=2024" / "day=2024-02-29" / "a.arrow", 4)
    write(root / "year=2024" / "day=__HIVE_DEFAULT_PARTITION__" / "a.arrow", 5)
    return root


DAY = dt.date


def test_a_lake_of_polars_and_pyarrow_keeps_its_words(spark, tmp_path):
    """They escape each byte of UTF-8; `where` and a dynamic overwrite find the directory all the same."""
    for n, value in enumerate(["%C3%A9", "%E6%97%A5", "e"]):
        write(tmp_path / f"k={value}" / "a.arrow", n)
    assert rows(read(spark, tmp_path)) == [(0, "é"), (1, "日"), (2, "e")]
    assert rows(read(spark, tmp_path, where="k = 'é' OR k LIKE '日%'")) == [(0, "é"), (1, "日")]
    writer = spark.createDataFrame([(7, "é"), (8, "日")], "n int, k string").write.format("arrowipc")
    writer = writer.options(partitionBy="k", partitionOverwriteMode="dynamic").mode("overwrite")
    writer.save(str(tmp_path))
    assert rows(read(spark, tmp_path)) == [(2, "e"), (7, "é"), (8, "日")]
    rewrite(spark, str(tmp_path), str(tmp_path), mode="overwrite", partitionBy="k")
    assert rows(read(spark, tmp_path)) == [(2, "e"), (7, "é"), (8, "日")]


def test_partitions_are_columns_after_the_files(spark, lake):
    frame = read(spark, lake)
    assert "n int, year int, day date" == ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in frame.schema)
    assert rows(frame) == [
        (1, 2023, DAY(2023, 1, 1)), (2, 2023, DAY(2023, 12, 31)), (3, 2023, DAY(2023, 12, 31)),
        (4, 2024, DAY(2024, 2, 29)), (5, 2024, None),
    ]  # fmt: skip


# (Options and the user's schema, columns with types, one row.)
LAKE_READS = {
    "no inference": ({"partitionTypeInference": "false"}, None, "struct<n:int,year:string,day:string>", (1, "2023", "2023-01-01")),
    "the user's types": ({}, "n long, year string, day string", "struct<n:bigint,year:string,day:string>", (1, "2023", "2023-01-01")),
    "the user's columns": ({}, "day date, n int", "struct<day:date,n:int>", (DAY(2023, 1, 1), 1)),
    "only of the paths": ({}, "year int", "struct<year:int>", (2023,)),
    "columns": ({"columns": "year, n"}, None, "struct<year:int,n:int>", (2023, 1)),
    "columns of the paths only": ({"columns": "DAY"}, None, "struct<day:date>", (DAY(2023, 1, 1),)),
    "a position and a name": ({"columns": "day, #0"}, None, "struct<day:date,n:int>", (DAY(2023, 1, 1), 1)),
    "recursive": ({"recursiveFileLookup": "true"}, None, "struct<n:int>", (1,)),
}  # fmt: skip


@pytest.mark.parametrize("case", LAKE_READS)
def test_a_lake_is_read_as_asked(spark, lake, case):
    options, schema, expected, row = LAKE_READS[case]
    frame = read(spark, lake, schema=schema, **options)
    assert frame.schema.simpleString() == expected
    assert row in rows(frame)
    assert frame.count() == 5


def test_one_partition_alone_and_with_its_base(spark, lake):
    assert read(spark, lake / "year=2024").columns == ["n", "day"]
    assert read(spark, lake / "year=2024", basePath=str(lake)).columns == ["n", "year", "day"]
    assert read(spark, lake / "year={2023,2024}" / "*", basePath=str(lake)).count() == 5


def test_a_partition_value_that_is_not_of_the_type_asked_for(spark, lake):
    assert "day" in raised(lambda: read(spark, lake, schema="n int, day int").collect())


def test_aggregates_and_filters_on_partitions(spark, lake):
    frame = read(spark, lake)
    assert rows(frame.groupBy("year").count()) == [(2023, 3), (2024, 2)]
    assert rows(frame.filter("day is null").select("n")) == [(5,)]


def test_a_column_of_files_and_paths_has_the_value_of_the_path(spark, tmp_path):
    arrow_files.write(tmp_path / "k=7" / "a.arrow", pa.table({"k": ["old"], "v": ["x"]}))
    frame = read(spark, tmp_path)
    assert (frame.columns, rows(frame)) == (["k", "v"], [(7, "x")])


@pytest.fixture
def files(tmp_path):
    write(tmp_path / "part-1.arrow", 1)
    write(tmp_path / "part-2.ipc", 2)
    write(tmp_path / "deep" / "part-3.arrow", 3)
    for name, day in (("part-1.arrow", 1), ("part-2.ipc", 2), ("deep/part-3.arrow", 3)):
        moment = dt.datetime(2026, 6, day, 12, tzinfo=dt.UTC).timestamp()
        os.utime(tmp_path / name, (moment, moment))
    return tmp_path


FILTERED = {
    "the directory": ({}, [1, 2]),
    "recursive": ({"recursiveFileLookup": "true"}, [1, 2, 3]),
    "by name": ({"recursiveFileLookup": "true", "pathGlobFilter": "*.arrow"}, [1, 3]),
    "before": ({"recursiveFileLookup": "true", "modifiedBefore": "2026-06-02T12:00:00"}, [1]),
    "after": ({"recursiveFileLookup": "true", "modifiedAfter": "2026-06-01T12:00:00"}, [2, 3]),
    "after, in a zone": (
        {"recursiveFileLookup": "true", "modifiedAfter": "2026-06-01T14:00:00", "timeZone": "Europe/Berlin"}, [2, 3],
    ),
    "before, in a zone": ({"modifiedBefore": "2026-06-01T14:00:01", "timeZone": "Europe/Berlin"}, [1]),
}  # fmt: skip


@pytest.mark.parametrize("case", FILTERED)
def test_files_are_filtered(spark, files, case):
    options, expected = FILTERED[case]
    assert sorted(row.n for row in read(spark, files, **options).collect()) == expected


@pytest.mark.parametrize("pattern", ["part-[12].*", "{part-1,part-2}.*", "part-?.*", "[^d]*"])
def test_patterns(spark, files, pattern):
    assert sorted(row.n for row in read(spark, files / pattern).collect()) == [1, 2]


def test_two_stars_are_directories_to_any_depth(spark, files):
    assert sorted(row.n for row in read(spark, files / "**" / "*.arrow").collect()) == [1, 3]


# ---- files that differ


@pytest.fixture
def versions(tmp_path):
    """Three versions of a table: a new column, a wider one, a struct that grew."""
    arrow_files.write(tmp_path / "1.arrow", pa.table({"a": pa.array([1], pa.int32()), "s": [{"x": 1}]}))
    arrow_files.write(
        tmp_path / "2.arrow", pa.table({"s": [{"y": "two", "x": 2}], "a": pa.array([1 << 40], pa.int64())})
    )
    arrow_files.write(tmp_path / "3.arrow", pa.table({"b": ["three"], "a": pa.array([None], pa.null())}))
    return tmp_path


def test_schemas_are_merged(spark, versions):
    frame = read(spark, versions, mergeSchema="true")
    assert frame.schema.simpleString() == "struct<a:bigint,s:struct<x:bigint,y:string>,b:string>"
    assert sorted(frame.collect(), key=str) == [
        Row(a=1, s=Row(x=1, y=None), b=None),
        Row(a=1 << 40, s=Row(x=2, y="two"), b=None),
        Row(a=None, s=None, b="three"),
    ]


def test_schemas_are_merged_of_the_columns_asked_for(spark, versions):
    frame = read(spark, versions, mergeSchema="true", columns="b, s.y")
    assert frame.schema.simpleString() == "struct<b:string,s:struct<y:string>>"
    assert {tuple(row) for row in frame.collect()} == {(None, Row(y=None)), (None, Row(y="two")), ("three", None)}
    assert "zz" in raised(lambda: read(spark, versions, mergeSchema="true", columns="b, zz").collect())


def test_a_schema_of_ones_own_with_merged_files(spark, versions):
    frame = read(spark, versions, schema="b string, z date, a long", mergeSchema="true")
    assert set(rows(frame)) == {(None, None, 1), (None, None, 1 << 40), ("three", None, None)}


def test_without_merging_a_file_that_does_not_fit_is_named(spark, versions):
    message = raised(lambda: read(spark, versions).collect())
    assert "2.arrow" in message or "3.arrow" in message


def test_a_conflict_names_both_files(spark, tmp_path):
    arrow_files.write(tmp_path / "1.arrow", pa.table({"a": [1]}))
    arrow_files.write(tmp_path / "2.arrow", pa.table({"a": ["x"]}))
    message = raised(lambda: read(spark, tmp_path, mergeSchema="true"))
    for part in ("SchemaMismatchError", "1.arrow", "2.arrow", "bigint", "string"):
        assert part in message


def test_merging_partitioned_files(spark, tmp_path):
    arrow_files.write(tmp_path / "k=1" / "a.arrow", pa.table({"a": [1]}))
    arrow_files.write(tmp_path / "k=2" / "a.arrow", pa.table({"b": ["x"]}))
    frame = read(spark, tmp_path, mergeSchema="true")
    assert (frame.columns, rows(frame)) == (["a", "b", "k"], [(1, None, 1), (None, "x", 2)])


# ---- faults


@pytest.fixture
def damaged(tmp_path):
    """A sound file, one whose end is missing, and one that is no Arrow at all."""
    table = pa.table({"n": pa.array(range(30), pa.int32())})
    arrow_files.write(tmp_path / "1.arrow", table, rows=10)
    arrow_files.write(tmp_path / "2.arrow", table, rows=10)
    content = (tmp_path / "2.arrow").read_bytes()
    with pa.ipc.open_file(content) as file:
        assert file.num_record_batches == 3
    (tmp_path / "2.arrow").write_bytes(content[: len(content) - 400])
    (tmp_path / "3.arrow").write_bytes(b"no arrow at all, and long enough to be looked at")
    return tmp_path


def test_a_broken_file_is_an_error(spark, damaged):
    message = raised(lambda: read(spark, damaged).collect())
    assert "2.arrow" in message or "3.arrow" in message


def test_broken_files_are_ignored_when_asked(spark, damaged):
    assert read(spark, damaged, ignoreCorruptFiles="true").count() == 30


def test_a_file_without_an_end_is_recovered(spark, damaged):
    (damaged / "3.arrow").unlink()
    assert read(spark, damaged, recover="true").count() > 30
    assert sorted({row.n for row in read(spark, damaged / "2.arrow", recover="true").collect()})[:10] == list(range(10))


def test_a_missing_file(spark, tmp_path):
    """A frame is planned once for each action of its own: between plan and read a file may go."""
    write(tmp_path / "1.arrow", 1)
    write(tmp_path / "2.arrow", 2)
    frame = read(spark, tmp_path)
    assert frame.count() == 2
    pathlib.Path(tmp_path / "2.arrow").unlink()
    message = raised(frame.collect)
    for part in ("FileChangedError", "2.arrow", "it is gone", "read the path again", "planned at"):
        assert part in message, part
    assert rows(read(spark, tmp_path)) == [(1,)]


def test_a_missing_file_is_ignored_when_asked(spark, tmp_path):
    write(tmp_path / "1.arrow", 1)
    write(tmp_path / "2.arrow", 2)
    frame = read(spark, tmp_path, ignoreMissingFiles="true")
    assert frame.count() == 2
    (tmp_path / "2.arrow").unlink()
    assert rows(frame) == [(1,)]


def test_a_view_is_planned_once(spark, tmp_path):
    """Spark keeps the plan of a view: what is written later shows after the view is made again."""
    write(tmp_path / "1.arrow", 1)
    create = f"CREATE OR REPLACE TEMPORARY VIEW planned USING arrowipc OPTIONS (path '{tmp_path}')"
    spark.sql(create)
    assert spark.table("planned").count() == 1
    write(tmp_path / "2.arrow", 2)
    assert spark.table("planned").count() == 1
    spark.sql(create)
    assert spark.table("planned").count() == 2
    spark.sql("DROP VIEW planned")


def test_memory_mapped_files_are_read_alike(spark, lake):
    assert rows(read(spark, lake, memoryMap="true")) == rows(read(spark, lake))


def test_tasks_aimed_at(spark, tmp_path):
    arrow_files.write(tmp_path / "1.arrow", pa.table({"n": pa.array(range(10_000), pa.int64())}), rows=100)
    frame = read(spark, tmp_path, maxPartitionBytes="128k", minPartitionNum="7")
    assert frame.rdd.getNumPartitions() == 7
    assert frame.count() == 10_000


def test_tasks_are_made_of_what_columns_need(spark, tmp_path):
    table = pa.table({f"c{i}": pa.array(range(60_000), pa.int64()) for i in range(20)})
    arrow_files.write(tmp_path / "1.arrow", table, rows=10_000)  # 9.6 MB, of which a column has 480 kB
    options = {"maxPartitionBytes": "1700k", "minPartitionNum": "1"}
    asked = [{}, {"columns": "c3,c7"}, {"columns": "c3", "where": "c9 >= 0"}]
    frames = [read(spark, tmp_path, **options, **more) for more in asked]
    assert [frame.rdd.getNumPartitions() for frame in frames] == [6, 1, 1]
    frames.append(read(spark, tmp_path, schema="c5 long", **options))
    assert frames[-1].rdd.getNumPartitions() == 1
    assert [frame.selectExpr(f"sum({frame.columns[-1]})").first()[0] for frame in frames] == [1_799_970_000] * 4


@pytest.mark.parametrize(
    "more", [{}, {"where": "n < 7 OR s = '13'"}, {"columns": "s,n"}], ids=["all", "where", "columns"]
)
def test_one_large_batch_is_shared_by_tasks(spark, tmp_path, more):
    table = pa.table({"n": pa.array(range(100_000), pa.int64()), "s": [str(i % 100) for i in range(100_000)]})
    arrow_files.write(tmp_path / "1.arrow", table, rows=100_000)  # 1.4 MB
    options = {"maxPartitionBytes": "300k", "metadataColumns": "true"}
    frame = read(spark, tmp_path, **options, **more)
    assert frame.rdd.getNumPartitions() == 5
    if "where" in more:
        assert frame.count() == 7 + table.num_rows // 100
        return
    counts = frame.selectExpr(
        "count(*)", "count(distinct n)", "sum(n)", "count_if(n = _row_index)", "max(_block)"
    ).first()
    assert tuple(counts) == (100_000, 100_000, sum(range(100_000)), 100_000, 0)
    tasks = frame.rdd.mapPartitions(lambda rows: [sum(1 for _ in rows)]).collect()
    assert sum(tasks) == 100_000
    assert max(tasks) - min(tasks) <= 8


def test_taking_some_rows_is_quick(spark, tmp_path):
    """Nothing after the first batches is read: the file is broken there."""
    path = tmp_path / "1.arrow"
    arrow_files.write(path, pa.table({"n": pa.array(range(1_000_000), pa.int64())}), rows=20_000)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 400_000] = b"\xff" * 400_000
    path.write_bytes(content)
    assert [row.n for row in read(spark, path).take(5)] == [0, 1, 2, 3, 4]
    assert read(spark, path).limit(15_000).count() == 15_000
