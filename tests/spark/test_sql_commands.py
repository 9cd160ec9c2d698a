"""SQL: what works through a temporary view, and what Spark refuses, in its own words, as the README quotes them."""

import pathlib

import arrow_files
import pyarrow as pa
import pytest
from pyspark.errors import IllegalArgumentException, PySparkException

README = " ".join((pathlib.Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").split())
INSTEAD = "call spark_arrow_ipc.register(spark) first, or use CREATE TEMPORARY VIEW v USING arrowipc OPTIONS (path '...') instead"
TABLE = pa.table({"a": pa.array([1, 2, 3], pa.int64()), "b": ["x", None, "z"]})


@pytest.fixture
def data(tmp_path):
    arrow_files.write(tmp_path / "data" / "1.arrow", TABLE)
    return str(tmp_path / "data")


@pytest.fixture
def view(spark, data):
    """A view of the directory, and its path."""
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING arrowipc OPTIONS (path '{data}')")
    yield data
    spark.sql("DROP VIEW v")


@pytest.fixture
def tables(spark):
    """Names of tables that a test may create."""
    yield "sql_t"
    spark.sql("DROP TABLE IF EXISTS sql_t")


def rows(spark, text):
    return [tuple(row) for row in spark.sql(text).collect()]


def again(spark, path):
    return sorted(map(tuple, spark.read.format("arrowipc").load(path).collect()), key=str)


def raised(act, error=PySparkException):
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


# (Query of the view v, rows.)
QUERIES = {
    "SELECT a, b FROM v ORDER BY a": [(1, "x"), (2, None), (3, "z")],
    "SELECT count(*), count(b), sum(a) FROM v": [(3, 2, 6)],
    "SELECT b FROM v WHERE a > 1 AND b IS NOT NULL": [("z",)],
    "SELECT l.a FROM v AS l JOIN v AS r ON l.a = r.a + 1 ORDER BY 1": [(2,), (3,)],
    "SELECT count(*) FROM v WHERE a = 3 UNION ALL SELECT count(*) FROM v": [(1,), (3,)],
}


@pytest.mark.smoke("SQL view")
def test_a_view_is_selected_from(spark, view):
    assert {query: rows(spark, query) for query in QUERIES} == QUERIES


def test_a_view_takes_options_and_a_schema(spark, data):
    """As `option` and `schema` do; names of options in any case."""
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW v (B string) USING arrowipc OPTIONS (PATH '{data}', Columns 'b', maxPartitionBytes '1m')"
    )
    assert rows(spark, "SELECT * FROM v ORDER BY b NULLS LAST") == [("x",), ("z",), (None,)]
    spark.sql("DROP VIEW v")


@pytest.mark.smoke("SQL view")
def test_insert_into_a_view_appends(spark, view):
    """The files grow; the view keeps the plan that it was made with."""
    spark.sql("INSERT INTO v VALUES (4, 'new')")
    assert again(spark, view) == [(1, "x"), (2, None), (3, "z"), (4, "new")]


@pytest.mark.smoke("SQL view")
def test_insert_overwrite_on_a_view_replaces(spark, view):
    spark.sql("INSERT OVERWRITE v SELECT 9, 'only'")
    assert again(spark, view) == [(9, "only")]


def test_insert_overwrite_from_the_view_itself(spark, view):
    """What is read stays until what is written is whole."""
    spark.sql("INSERT OVERWRITE v SELECT a + 10, b FROM v WHERE a < 3")
    assert again(spark, view) == [(11, "x"), (12, None)]


def test_a_view_keeps_its_plan(spark, view):
    """Rows that are inserted show in a view that is made again; after an overwrite the old one fails by name."""
    assert rows(spark, "SELECT count(*) FROM v") == [(3,)]
    spark.sql("INSERT INTO v VALUES (4, 'new')")
    assert rows(spark, "SELECT count(*) FROM v") == [(3,)]
    spark.sql("INSERT OVERWRITE v VALUES (5, 'new')")
    text = raised(lambda: rows(spark, "SELECT count(*) FROM v"))
    assert "FileChangedError" in text
    assert "read the path again" in text
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING arrowipc OPTIONS (path '{view}')")
    assert rows(spark, "SELECT count(*) FROM v") == [(1,)]


def test_a_wrong_option_of_a_view(spark, data):
    """A view is made lazily by Spark in no case: the error comes with the statement."""
    text = raised(
        lambda: spark.sql(f"CREATE TEMPORARY VIEW w USING arrowipc OPTIONS (path '{data}', paths '[\"/x\"]')")
    )
    assert "OptionError: the options path and paths exclude each other" in text


def test_a_table_without_columns_is_refused(spark, data, tables):
    """Spark asks for its schema, with the path; it would be a table that cannot be read."""
    for place in (f"LOCATION '{data}'", f"OPTIONS (path '{data}')"):
        text = raised(lambda place=place: spark.sql(f"CREATE TABLE {tables} USING arrowipc {place}"))
        assert "OptionError: A table of Spark's catalog" in text
        assert INSTEAD in text


def test_a_table_with_columns_is_accepted_by_spark_and_cannot_be_read(spark, data, tables):
    """Neither path nor options reach the source: the answer names the way that works."""
    spark.sql(f"CREATE TABLE {tables} (a bigint) USING arrowipc LOCATION '{data}'")
    for statement in (f"SELECT * FROM {tables}", f"INSERT INTO {tables} VALUES (1)"):
        text = raised(lambda statement=statement: spark.sql(statement).collect())
        assert "OptionError: there is no path" in text
        assert INSTEAD in text
    assert again(spark, data) == [(1, "x"), (2, None), (3, "z")]


# (What makes a table.)
TABLES = {
    "saveAsTable": lambda spark, name: spark.range(1).write.format("arrowipc").saveAsTable(name),
    "saveAsTable, append": lambda spark, name: spark.range(1).write.format("arrowipc").mode("append").saveAsTable(name),
    "CREATE TABLE AS": lambda spark, name: spark.sql(f"CREATE TABLE {name} USING arrowipc AS SELECT 1 AS a"),
    "writeTo": lambda spark, name: spark.range(1).writeTo(name).using("arrowipc").create(),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_not_written(spark, tables, name):
    text = raised(lambda: TABLES[name](spark, tables))
    assert "OptionError: there is no path" in text
    assert INSTEAD in text


def writer(spark):
    return spark.range(2).write.format("arrowipc")


# (What is refused before we are asked, Spark's words for it.)
REFUSED = {
    "the default mode": (
        lambda spark, path: writer(spark).save(path),
        '[UNSUPPORTED_DATA_SOURCE_SAVE_MODE] The data source "arrowipc" cannot be written in the "ErrorIfExists" mode. Please use either the "Append" or "Overwrite" mode instead.',
    ),
    "ignore": (
        lambda spark, path: writer(spark).mode("ignore").save(path),
        '[UNSUPPORTED_DATA_SOURCE_SAVE_MODE] The data source "arrowipc" cannot be written in the "Ignore" mode.',
    ),
    "partitionBy": (
        lambda spark, path: writer(spark).mode("append").partitionBy("id").save(path),
        "requirement failed: The provided partitioning or clustering columns do not match the existing table's.",
    ),
    "bucketBy": (
        lambda spark, path: writer(spark).mode("append").bucketBy(2, "id").save(path),
        "'save' does not support bucketBy right now.",
    ),
    "a query on the path": (
        lambda spark, path: spark.sql(f"SELECT * FROM arrowipc.`{path}`"),
        "[UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY] Unsupported data source type for direct query on files: arrowipc",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_spark_refuses_in_its_own_words(spark, tmp_path, name):
    """The README quotes them, so that a search finds the way that works."""
    act, words = REFUSED[name]
    text = " ".join(
        raised(lambda: act(spark, str(tmp_path / "out")), (PySparkException, IllegalArgumentException)).split()
    )
    assert words in text
    assert words in README or name == "ignore"
    assert not (tmp_path / "out").exists()


def test_a_plan_knows_neither_paths_nor_sizes(spark, view):
    """As the README says; the way round does."""
    ((plan,),) = rows(spark, "EXPLAIN COST SELECT * FROM v")
    assert "sizeInBytes=8.0 EiB" in plan
    assert view not in plan
    assert spark.table("v").inputFiles() == []
    assert rows(spark, "SELECT DISTINCT input_file_name() FROM v") == [("",)]
    frame = spark.read.format("arrowipc").option("metadataColumns", "true").load(view)
    assert [tuple(row) for row in frame.select("_file_path").distinct().collect()] == [(f"{view}/1.arrow",)]


def test_refreshing_a_view_does_not_plan_it_again(spark, view):
    """Should Spark come to do so, the README's row has to go."""
    assert rows(spark, "SELECT count(*) FROM v") == [(3,)]
    spark.sql("INSERT INTO v VALUES (4, 'new')")
    spark.sql("REFRESH TABLE v")
    assert rows(spark, "SELECT count(*) FROM v") == [(3,)]
