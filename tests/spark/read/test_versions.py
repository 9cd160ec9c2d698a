"""versionAsOf and timestampAsOf: a table as it was, in Spark and in functions."""

import time
from datetime import UTC, datetime

import pytest
from pyspark.errors import AnalysisException

from spark_arrow_ipc import aggregate, count, map_in_arrow, rewrite
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options.options import parse_read, parse_stream
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.table.history import read_history
from spark_arrow_ipc.table.names import TableDirectory

WRONG = {
    "both": ({"versionAsOf": "1", "timestampAsOf": "2026-06-01"}, "versionAsOf and timestampAsOf each name a version of the table; remove one"),
    "version 0": ({"versionAsOf": "0"}, "the option versionAsOf must be a whole number of at least 1, and is '0'"),
    "a word": ({"versionAsOf": "newest"}, "the option versionAsOf must be a whole number of at least 1"),
    "no time": ({"timestampAsOf": "yesterday"}, "the option timestampAsOf must be a time as 2026-06-01T13:00:00"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_versions_are_named(case):
    options, says = WRONG[case]
    with pytest.raises(OptionError) as caught:
        parse_read({"path": "/lake", **options})
    assert says in str(caught.value)


@pytest.mark.parametrize("options", [{"versionAsOf": "1"}, {"timestampAsOf": "2026-06-01"}], ids=str)
def test_streams_have_no_versions(options):
    with pytest.raises(OptionError, match=f"{next(iter(options))} is for batch reads"):
        parse_stream({"path": "/lake", **options})


def rows(frame):
    return sorted(map(tuple, frame.collect()))


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    """A table of four versions whose columns change, the rows of each, and the time of each entry."""
    path = str(tmp_path_factory.mktemp("versions") / "lake")

    def write(frame, mode, **options):
        frame.write.format("arrowipc").mode(mode).options(partitionBy="k", **options).save(path)

    write(spark.range(4).selectExpr("id", "id % 2 AS k"), "append", retention="7d")
    write(spark.range(4, 6).selectExpr("id", "id % 2 AS k", "'x' AS name"), "append")
    write(spark.range(6, 8).selectExpr("id", "5 AS k"), "overwrite")
    write(spark.range(8, 10).selectExpr("id", "1 AS k"), "append")
    expected = {
        1: [(0, 0), (1, 1), (2, 0), (3, 1)],
        2: [(0, None, 0), (1, None, 1), (2, None, 0), (3, None, 1), (4, "x", 0), (5, "x", 1)],
        3: [(6, 5), (7, 5)],
        4: [(6, 5), (7, 5), (8, 1), (9, 1)],
    }
    directory = TableDirectory(LOCAL, path)
    return path, expected, {change.number: change.time for change in read_history(directory).changes}


@pytest.mark.slow
def test_spark_reads_each_version_with_its_columns(spark, lake):
    path, expected, _ = lake
    for number, table in expected.items():
        frame = spark.read.format("arrowipc").option("versionAsOf", number).load(path)
        assert table == sorted(map(tuple, frame.collect()), key=lambda row: row[0])
        assert len(table) == frame.count()
        assert [row for row in table if row[-1] == 1] == rows(frame.where("k = 1"))
    assert expected[4] == rows(spark.read.format("arrowipc").load(path))


@pytest.mark.slow
def test_spark_reads_a_version_by_time(spark, lake):
    path, expected, times = lake
    for number, milliseconds in times.items():
        text = (
            datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        )
        frame = spark.read.format("arrowipc").option("timestampAsOf", text).load(path)
        assert len(expected[number]) == frame.count(), number
    local = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(times[1] / 1e3 + 3 * 3600 + 86_400))
    zoned = spark.read.format("arrowipc").options(timestampAsOf=local, timeZone="+03:00").load(path)
    assert expected[4] == rows(zoned)
    with pytest.raises(
        AnalysisException, match="no log entry of this table that is retained is as old as timestampAsOf"
    ):
        spark.read.format("arrowipc").option("timestampAsOf", "2020-01-01").load(path).collect()


def even(batches):
    for batch in batches:
        yield batch.slice(0, min(1, batch.num_rows))


@pytest.mark.slow
def test_functions_read_versions(spark, lake, tmp_path):
    path, expected, _ = lake
    assert [len(expected[number]) for number in (1, 2, 3)] == [
        count(spark, path, versionAsOf=number) for number in (1, 2, 3)
    ]
    assert 2 == count(spark, path, "k = 1", versionAsOf=1)
    summed = aggregate(spark, path, aggregates={"s": "sum(id)", "n": "count(*)"}, versionAsOf=3)
    assert [(13, 2)] == rows(summed.select("s", "n"))
    mapped = map_in_arrow(spark, path, even, "id long, k long", versionAsOf=3)
    assert set(rows(mapped)) <= set(expected[3])
    assert rewrite(spark, path, tmp_path / "copy", versionAsOf=2).rows_written == 6
    copied = spark.read.format("arrowipc").load(str(tmp_path / "copy")).select("id", "name", "k")
    assert expected[2] == sorted(map(tuple, copied.collect()), key=lambda row: row[0])
    blocks = spark.read.format("arrowipc").options(metadataOnly="true", versionAsOf="3").load(path)
    assert 2 == blocks.selectExpr("sum(rows)").first()[0]


@pytest.mark.slow
def test_what_cannot_be_read_is_an_error_before_a_task_runs(spark, tmp_path):
    path = str(tmp_path / "lake")
    for start in (0, 10):
        spark.range(start, start + 3, 1, 1).write.format("arrowipc").mode("overwrite").save(path)
    read = spark.read.format("arrowipc").option("versionAsOf", 1)
    with pytest.raises(
        AnalysisException,
        match=r"version 1 of this table can no longer be read: .* the oldest version that can be read is 2",
    ):
        read.load(path)
    with pytest.raises(AnalysisException, match="give its directory as the only path"):
        read.load(f"{path}*")
    with pytest.raises(AnalysisException, match="found entries up to 2"):
        count(spark, path, versionAsOf=3)
