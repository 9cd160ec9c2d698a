"""Tables of Spark's catalog through the source of the JVM: they have their path, options and partitions."""

import time

import pyspark
import pytest

SPARK = tuple(int(part) for part in pyspark.__version__.split(".")[:2])


@pytest.fixture
def sql(pushed, tmp_path):
    """Return a function that runs statements, `{path}` being a directory, and gives the sorted rows of the last."""
    pushed.sql("CREATE DATABASE arrow_tables")
    pushed.sql("USE arrow_tables")

    def run(*statements):
        for statement in statements:
            frame = pushed.sql(statement.format(path=tmp_path))
        return sorted(map(tuple, frame.collect()), key=str)

    yield run
    pushed.sql("USE default")
    pushed.sql("DROP DATABASE arrow_tables CASCADE")
    pushed.conf.unset("spark.sql.sources.partitionOverwriteMode")


DATA = "SELECT id, cast(id % 2 AS int) AS d, concat('v', id) AS s FROM range(6)"
FLAT = f"CREATE TABLE trips USING arrowipc AS {DATA}"
PARTED = f"CREATE TABLE trips USING arrowipc PARTITIONED BY (d) AS SELECT id, s, d FROM ({DATA})"
DYNAMIC = "SET spark.sql.sources.partitionOverwriteMode=dynamic"
COUNTS = "SELECT d, count(*), sum(id) FROM trips GROUP BY d"
ALL = (0, 3, 6), (1, 3, 9)

STATEMENTS = {
    "columns and a location": (["CREATE TABLE trips (id bigint, d int, s string) USING arrowipc LOCATION '{path}/t'", f"INSERT INTO trips {DATA}", "CREATE TABLE others (id bigint, d int, s string) USING arrowipc LOCATION '{path}/t'", "SELECT max(s) FROM others WHERE d = 1"], [("v5",)]),
    "a location": (["CREATE TABLE others (id bigint, d int, s string) USING arrowipc LOCATION '{path}/t'", f"INSERT INTO others {DATA}", "CREATE TABLE trips USING arrowipc LOCATION '{path}/t'", COUNTS], [*ALL]),
    "a path and options": (["CREATE TABLE others (id bigint, d int, s string) USING arrowipc LOCATION '{path}/t'", f"INSERT INTO others {DATA}", "CREATE TABLE trips USING arrowipc OPTIONS (path '{path}/t', columns 'id,d', where 'd = 1')", "SELECT * FROM trips"], [(1, 1), (3, 1), (5, 1)]),
    "options of a query": ([FLAT, "SELECT * FROM trips WITH (where 'id = 4')"], [(4, 0, "v4")]),
    "rows that follow": ([FLAT, "INSERT INTO trips VALUES (9, 1, 'x')", COUNTS], [(0, 3, 6), (1, 4, 18)]),
    "an overwrite of what it reads": ([FLAT, "INSERT OVERWRITE trips SELECT * FROM trips WHERE id > 3", COUNTS], [(0, 1, 4), (1, 1, 5)]),
    "partitions": ([PARTED, "INSERT INTO trips VALUES (9, 'x', 7)", COUNTS], [*ALL, (7, 1, 9)]),
    "a row of a partition": ([PARTED, "INSERT INTO trips PARTITION (d = 1) VALUES (9, 'x')", COUNTS], [(0, 3, 6), (1, 4, 18)]),
    "an overwrite of one partition": ([PARTED, "INSERT OVERWRITE trips PARTITION (d = 1) VALUES (9, 'x')", COUNTS], [(0, 3, 6), (1, 1, 9)]),
    "an overwrite of one partition by nothing": ([PARTED, "INSERT OVERWRITE trips PARTITION (d = 1) SELECT id, 'x' FROM range(0)", COUNTS], [(0, 3, 6)]),
    "an overwrite of all by nothing": ([PARTED, "INSERT OVERWRITE trips SELECT * FROM trips WHERE id < 0", "INSERT INTO trips VALUES (9, 'x', 7)", COUNTS], [(7, 1, 9)]),
    "an overwrite of each partition with rows": ([PARTED, DYNAMIC, "INSERT OVERWRITE trips SELECT 9L, 'x', 7", "INSERT OVERWRITE trips SELECT 8L, 'x', 1", COUNTS], [(0, 3, 6), (1, 1, 8), (7, 1, 9)]),
    "an overwrite of one partition where the mode is dynamic": ([PARTED, DYNAMIC, "INSERT OVERWRITE trips PARTITION (d = 1) SELECT 8L, 'x'", COUNTS], [(0, 3, 6), (1, 1, 8)]),
    "a partition of strings": (["CREATE TABLE trips USING arrowipc PARTITIONED BY (s) AS SELECT id, 'a b/c' AS s, 1 AS d FROM range(3)", "INSERT OVERWRITE trips PARTITION (s = 'a b/c') VALUES (7, 2)", "SELECT d, s, id FROM trips"], [(2, "a b/c", 7)]),
    "a partition of dates": (["CREATE TABLE trips USING arrowipc PARTITIONED BY (s) AS SELECT id, DATE'2024-02-29' AS s, 1 AS d FROM range(3)", "INSERT OVERWRITE trips PARTITION (s = '2024-02-29') VALUES (7, 2)", "SELECT d, id FROM trips"], [(2, 7)]),
    "a partition of null": ([PARTED, "INSERT INTO trips VALUES (9, 'x', null)", "INSERT OVERWRITE trips PARTITION (d = null) VALUES (8, 'y')", COUNTS], [*ALL, (None, 1, 8)]),
    "a column more": ([FLAT, "ALTER TABLE trips ADD COLUMN z int", "INSERT INTO trips VALUES (9, 1, 'x', 5)", "SELECT count(*), count(z) FROM trips"], [(7, 1)]),
    "a cache": ([FLAT, "CACHE TABLE trips", COUNTS, "INSERT INTO trips VALUES (9, 1, 'x')", COUNTS], [(0, 3, 6), (1, 4, 18)]),
}  # fmt: skip


@pytest.mark.parametrize(("statements", "expected"), STATEMENTS.values(), ids=STATEMENTS)
def test_statements(sql, statements, expected):
    assert expected == sql(*statements)


REFUSED = {
    "buckets": (["CREATE TABLE trips (id bigint, d int) USING arrowipc CLUSTERED BY (d) INTO 2 BUCKETS"], r"not by bucket\(2, d\)"),
    "clusters": (["CREATE TABLE trips (id bigint, d int) USING arrowipc CLUSTER BY (d)"], r"not by cluster_by\(d\)"),
    "days": (["CREATE TABLE trips (id bigint, at date) USING arrowipc PARTITIONED BY (days(at))"], "days"),
    "partitions twice": ([PARTED, "INSERT INTO trips WITH (partitionBy 's') VALUES (9, 'x', 1)"], "option partitionBy is s: remove the option"),
}  # fmt: skip


@pytest.mark.parametrize(("statements", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_changes_nothing(pushed, sql, statements, words):
    if len(statements) > 1:
        sql(statements[0])
    with pytest.raises(Exception, match=words):
        sql(statements[-1])
    assert [*ALL] == sql(COUNTS) if len(statements) > 1 else not pushed.catalog.tableExists("trips")


def test_a_query_may_name_a_table_twice_with_other_options(sql):
    """Spark 4.1 and 4.2.0 read it twice with the options of the first: the analyzer looks tables up by their names."""
    query = "SELECT a.id, b.id FROM trips WITH (where 'id = 4') a CROSS JOIN trips WITH (where 'id = 5') b"
    assert [(4, 5) if SPARK >= (4, 3) else (4, 4)] == sql(FLAT, query)


def test_frames(pushed, sql):
    frame = pushed.sql(DATA)

    def count():
        return pushed.table("trips").count()

    steps = {
        "saveAsTable": (lambda: frame.write.format("arrowipc").partitionBy("d").saveAsTable("trips"), 6),
        "append": (lambda: frame.write.format("arrowipc").partitionBy("d").mode("append").saveAsTable("trips"), 12),
        "overwrite": (
            lambda: frame.write.format("arrowipc").partitionBy("d").mode("overwrite").saveAsTable("trips"),
            6,
        ),
        "insertInto": (lambda: frame.select(*pushed.table("trips").columns).write.insertInto("trips"), 12),
        "insertInto overwrite": (
            lambda: frame.select(*pushed.table("trips").columns).write.insertInto("trips", overwrite=True),
            6,
        ),
        "writeTo append": (lambda: frame.writeTo("trips").append(), 12),
        "overwritePartitions": (lambda: frame.filter("d = 1").writeTo("trips").overwritePartitions(), 9),
        "createOrReplace": (
            lambda: frame.writeTo("trips").using("arrowipc").partitionedBy(frame["d"]).createOrReplace(),
            6,
        ),
    }
    for name, (write, expected) in steps.items():
        write()
        assert expected == count(), name


def test_a_filter_overwrites_the_rows_of_a_partition_and_adds_others(pushed, sql):
    from pyspark.sql.functions import expr

    sql(PARTED)
    rows = pushed.sql("SELECT 8L AS id, 'x' AS s, 0 AS d")
    rows.writeTo("trips").overwrite(expr("d = 1"))
    assert [(0, 4, 14)] == sql(COUNTS)
    with pytest.raises(Exception, match="and not id = 8: nothing is written"):
        rows.writeTo("trips").overwrite(expr("id = 8"))
    assert [(0, 4, 14)] == sql(COUNTS)


def test_a_dropped_table_leaves_files_that_are_not_its_own(sql, tmp_path):
    sql(
        "CREATE TABLE others (id bigint) USING arrowipc LOCATION '{path}/t'",
        "INSERT INTO others VALUES (1)",
        "DROP TABLE others",
    )
    assert list((tmp_path / "t").glob("*.arrow"))


def test_a_view_of_a_path_takes_rows(pushed, sql):
    sql("CREATE TABLE others USING arrowipc LOCATION '{path}/t' AS " + DATA)
    sql(
        "CREATE TEMPORARY VIEW rows_of_t USING arrowipc OPTIONS (path '{path}/t')",
        "INSERT INTO rows_of_t VALUES (9, 1, 'x')",
    )
    assert [(7, 1)] == sql("SELECT count(*), count_if(s = 'x') FROM others")
    pushed.catalog.dropTempView("rows_of_t")


def test_a_stream_writes_the_partitions_of_its_table(pushed, sql, tmp_path):
    sql("CREATE TABLE others USING arrowipc LOCATION '{path}/u' AS " + DATA)
    stream = pushed.readStream.format("rate").option("rowsPerSecond", 50).load().selectExpr("value", "value % 2 AS d")
    writer = stream.writeStream.partitionBy("d").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.format("arrowipc").option("path", str(tmp_path / "t")).toTable("trips")
    try:
        for _ in range(60):
            if list((tmp_path / "t").glob("d=1/*.arrow")):
                break
            time.sleep(0.5)
    finally:
        query.stop()
    assert {0, 1} <= {d for (d,) in sql("SELECT DISTINCT d FROM trips")}
