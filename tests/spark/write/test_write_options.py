"""The options of the commit, and statistics, through Spark."""

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.statistics.read import read_statistics


def save(frame, path, mode="append", **options):
    frame.write.format("arrowipc").mode(mode).options(**options).save(str(path))


def rows(spark, path):
    return sorted(map(tuple, spark.read.format("arrowipc").load(str(path)).collect()))


def numbers(spark, *values):
    return spark.createDataFrame([(value,) for value in values], "n int").coalesce(1)


def raised(act):
    with pytest.raises(PySparkException) as caught:
        act()
    return str(caught.value)


def test_an_append_that_shall_not_meet_data(spark, tmp_path):
    path = tmp_path / "t"
    save(numbers(spark, 1), path, ifExists="error")
    text = raised(lambda: save(numbers(spark, 2), path, ifExists="error"))
    assert str(path) in text
    save(numbers(spark, 3), path, ifExists="ignore")
    assert rows(spark, path) == [(1,)]
    save(numbers(spark, 4), path)
    assert rows(spark, path) == [(1,), (4,)]
    save(numbers(spark, 5), tmp_path / "new", ifExists="ignore")
    assert rows(spark, tmp_path / "new") == [(5,)]


def test_a_job_with_a_token_is_done_once(spark, tmp_path):
    for token in ("a", "a", "b", "a"):
        save(numbers(spark, 1), tmp_path / "t", commitToken=token)
    assert rows(spark, tmp_path / "t") == [(1,), (1,)]


def test_partitions_that_are_written_are_replaced(spark, tmp_path):
    frame = spark.range(10).selectExpr("id", "id % 3 AS k")
    save(frame, tmp_path, partitionBy="k")
    more = spark.createDataFrame([(100, 1)], "id long, k long")
    save(more, tmp_path, "overwrite", partitionBy="k", partitionOverwriteMode="dynamic")
    expected = [(0, 0), (2, 2), (3, 0), (5, 2), (6, 0), (8, 2), (9, 0), (100, 1)]
    assert rows(spark, tmp_path) == expected
    save(more, tmp_path, "overwrite", partitionBy="k")
    assert rows(spark, tmp_path) == [(100, 1)]


def test_an_instant_whose_local_time_comes_twice_is_refused_before_anything_is_replaced(spark, tmp_path):
    """Its directory would be that of the instant an hour before, and readers would find that one."""
    save(numbers(spark, 1), tmp_path)
    late = "'2023-11-05 05:30:00Z', '2023-11-05 06:30:00Z'"
    frame = spark.sql(f"SELECT 1 AS n, timestamp(at) AS at FROM (SELECT explode(array({late})) AS at)")
    text = raised(lambda: save(frame, tmp_path, "overwrite", partitionBy="at"))
    assert (
        "the instant 2023-11-05 06:30:00+0000 cannot name a partition's directory in the time zone America/New_York"
        in text
    )
    assert rows(spark, tmp_path) == [(1,)]


def test_an_overwrite_replaces_partitioned_files_by_others(spark, tmp_path):
    save(spark.range(10).selectExpr("id", "id % 3 AS k"), tmp_path, partitionBy="k")
    save(numbers(spark, 1), tmp_path, "overwrite")
    assert rows(spark, tmp_path) == [(1,)]


# (Mode, options, words of the error.)
CONTRADICTIONS = {
    "replacing what shall not be": ("overwrite", {"ifExists": "error"}, "use mode append"),
    "dynamic append": ("append", {"partitionOverwriteMode": "dynamic", "partitionBy": "n"}, "use mode overwrite"),
    "dynamic without partitions": ("overwrite", {"partitionOverwriteMode": "dynamic"}, "partitionBy"),
    "statistics of a stream": ("append", {"ipcFormat": "stream", "statistics": "n"}, "cannot hold statistics"),
    "statistics of no column": ("append", {"statistics": "zz"}, "zz"),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_options_that_contradict_each_other(spark, tmp_path, case):
    mode, options, words = CONTRADICTIONS[case]
    text = raised(lambda: save(spark.range(3).selectExpr("id AS n", "id AS m"), tmp_path / "t", mode, **options))
    assert words in text
    assert not (tmp_path / "t").exists()


# (Value of the option, paths of columns with statistics.)
STATISTICS = {
    "auto": {("a",), ("s", "x"), ("b",)},
    "all": {("a",), ("s", "x"), ("b",)},
    "none": None,
    "s, b": {("s", "x"), ("b",)},
}


@pytest.mark.parametrize("which", STATISTICS)
def test_statistics_are_written(spark, tmp_path, which):
    frame = spark.range(1_000).selectExpr("id AS a", "named_struct('x', id * 2) AS s", "cast(id AS string) AS b")
    save(frame.coalesce(1), tmp_path / "t", recordBatchRows="100", statistics=which)
    (path,) = (tmp_path / "t").glob("*.arrow")
    with ipc.open(path) as reader:
        found = read_statistics(reader.custom_metadata, reader.schema, len(reader))
    assert STATISTICS[which] == (None if found is None else set(found.columns))
    if found is not None:
        assert found.row_counts == (100,) * 10
        column = found.columns["s", "x"]
        assert (column.least[3], column.greatest[3]) == (600, 798)


def test_what_is_written_is_read_less(spark, tmp_path):
    """Blocks are passed over by what the writer noted: the others are damaged, and nobody notices."""
    save(spark.range(1_000).coalesce(1), tmp_path / "t", recordBatchRows="100", compression="none")
    (path,) = (tmp_path / "t").glob("*.arrow")
    with ipc.open(path) as reader:
        blocks = reader.blocks
    with path.open("r+b") as file:
        for block in blocks[:7]:
            file.seek(block.byte_offset + block.metadata_nbytes)
            file.write(b"\xff" * block.body_nbytes)
    found = spark.read.format("arrowipc").option("where", "id >= 700").load(str(tmp_path / "t"))
    assert found.agg(f.count("*"), f.min("id")).first()[:] == (300, 700)
