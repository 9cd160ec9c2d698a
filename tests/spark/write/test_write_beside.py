"""What a job may add to a directory, by what Spark reads of it then."""

import os

import pytest
from frames import EVERYTHING, check_same
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

import spark_arrow_ipc

OURS = "arrowipc"


def save(frame, path, mode="append", **options):
    frame.write.format(OURS).mode(mode).options(**options).save(str(path))


def load(spark, path, **options):
    return spark.read.format(OURS).options(**options).load(str(path))


def numbers(spark, rows, first=0):
    return spark.range(first, first + rows, 1, 1).selectExpr("id", "id % 3 AS k")


@pytest.mark.parametrize(("first", "then"), [({}, {"partitionBy": "k"}), ({"partitionBy": "k"}, {})], ids=["flat", "partitioned"])  # fmt: skip
def test_no_append_hides_rows(spark, tmp_path, first, then):
    """Parquet accepts both, and reads the 10 rows of the partitions alone."""
    save(numbers(spark, 1000), tmp_path, **first)
    with pytest.raises(PySparkException, match=r"readers would not see all rows.*or write to another directory"):
        save(numbers(spark, 10, 1000), tmp_path, **then)
    assert 1000 == load(spark, tmp_path).count()
    save(numbers(spark, 10, 1000), tmp_path, **first)
    assert 1010 == load(spark, tmp_path).count()


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("other", ["parquet", "csv", "json", "orc"])
@pytest.mark.parametrize("partition", [{}, {"partitionBy": "k"}], ids=["flat", "partitioned"])
def test_an_append_beside_files_of_another_format_is_refused(spark, tmp_path, other, partition):
    """No reader could read the directory any more."""
    writer = numbers(spark, 10).write.format(other)
    (writer.partitionBy("k") if partition else writer).save(f"{tmp_path}/t")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(PySparkException, match=rf"holds files of another format: .*\.{other}.*Nothing is written"):
        save(numbers(spark, 10), tmp_path / "t", **partition)
    assert before == sorted(tmp_path.rglob("*"))
    save(numbers(spark, 1), tmp_path / "t", "overwrite", **partition)
    assert 1 == load(spark, tmp_path / "t").count()


def test_files_of_another_format_may_lie_beside_arrow_files(spark, tmp_path):
    """Readers leave them out by `pathGlobFilter`, before an append and after it."""
    save(numbers(spark, 10), tmp_path)
    (tmp_path / "manifest.csv").write_text("a,b\n1,2\n")
    save(numbers(spark, 5), tmp_path)
    assert 15 == load(spark, tmp_path, pathGlobFilter="*.arrow").count()


def test_a_user_may_append_beside_files_of_another_format(spark, tmp_path):
    (tmp_path / "README.md").write_text("# A lake of numbers\n")
    with pytest.raises(PySparkException, match=r"README.md.*what looks like text"):
        save(numbers(spark, 5), tmp_path)
    save(numbers(spark, 5), tmp_path, schemaCheck="none")
    assert 5 == load(spark, tmp_path, pathGlobFilter="*.arrow").count()


def test_a_coarser_dynamic_overwrite_is_refused_and_leaves_what_was(spark, tmp_path):
    frame = numbers(spark, 10).selectExpr("id", "k AS a", "id % 2 AS b")
    save(frame, tmp_path, partitionBy="a,b")
    with pytest.raises(PySparkException, match=r"is partitioned by a, b .*write with partitionBy=a,b"):
        save(frame, tmp_path, "overwrite", partitionBy="a", partitionOverwriteMode="dynamic")
    assert 10 == load(spark, tmp_path).count()


@pytest.mark.parametrize("partition_by", [{}, {"partitionBy": "k"}], ids=["flat", "partitioned"])
def test_an_overwrite_without_rows_can_be_read_and_added_to(spark, tmp_path, partition_by):
    frame = numbers(spark, 10)
    save(frame, tmp_path, **partition_by)
    save(frame.where("false"), tmp_path, "overwrite", **partition_by)
    empty = load(spark, tmp_path)
    assert (frame.dtypes, 0) == (empty.dtypes, empty.count())
    assert 1 == len(list(tmp_path.rglob("*.arrow")))
    save(frame.where("false"), tmp_path, **partition_by)
    assert 1 == len(list(tmp_path.rglob("*.arrow")))
    save(frame, tmp_path, **partition_by)
    check_same(load(spark, tmp_path).selectExpr("id", "cast(k AS bigint) AS k"), frame)


@pytest.mark.parametrize("how", ["append", "rewrite"])
def test_a_job_of_fewer_columns_of_every_type_is_null_there(spark, tmp_path, how):
    """As Spark's own union by names: whole columns, fields of structs and elements, narrower types."""
    everything = spark.sql(EVERYTHING)
    columns = [name for name in everything.columns if name != "nothing"]
    inner = ", ".join(f"'{name}', {name}" for name in columns)
    wide = everything.selectExpr(
        "*", f"named_struct({inner}, 'y', i32) AS s2", f"array(named_struct({inner}, 'y', d)) AS a2"
    )
    narrow = everything.selectExpr(
        "i8 AS i32", "id", f"named_struct({inner}) AS s2", f"array(named_struct({inner})) AS a2", "i32 AS i64"
    ).drop("i64")
    save(wide, tmp_path / "t")
    if how == "append":
        save(narrow, tmp_path / "t")
    else:
        save(narrow, tmp_path / "narrow")
        spark_arrow_ipc.rewrite(spark, str(tmp_path / "narrow"), tmp_path / "t")
    found = load(spark, tmp_path / "t")
    assert set(wide.columns) == set(found.columns)
    expected = wide.unionByName(narrow, allowMissingColumns=True)
    types = dict(expected.dtypes) | {"nothing": "void"}
    assert types == dict(found.dtypes)

    def rows(frame):
        return sorted(map(str, frame.select(*map(as_text, wide.columns)).collect()))

    def as_text(name):
        return f.to_json(f.struct(name), {"ignoreNullFields": "false"}) if "void" not in types[name] else f.isnull(name)

    assert rows(expected) == rows(found)


def test_the_times_of_files_decide_nothing(spark, tmp_path):
    """As a copy of the directory, another clock or a job that ran for hours sets them."""
    path = tmp_path / "t"
    save(numbers(spark, 2).selectExpr("id"), path)
    first = set(path.glob("*.arrow"))
    save(numbers(spark, 2, 2), path)
    for file in first:
        os.utime(file, (2**31, 2**31))
    expected = [(0, None), (1, None), (2, 2), (3, 0)]
    assert expected == sorted(map(tuple, load(spark, path).collect()))
    assert ["id", "k"] == spark.readStream.format(OURS).load(str(path)).columns
    assert 4 == spark_arrow_ipc.compact(spark, path).rows_written
    assert expected == sorted(map(tuple, load(spark, path).collect()))
    save(numbers(spark, 1, 4).selectExpr("id"), path)
    assert [*expected, (4, None)] == sorted(map(tuple, load(spark, path).collect()))
