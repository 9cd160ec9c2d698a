"""The table of docs/methods.md is what Spark does with each of its methods."""

import pytest
import spark_methods


@pytest.mark.exhaustive
def test_each_method_does_what_the_page_says(spark, tmp_path):
    """In a classic session; tests/spark/test_connect.py calls them under Spark Connect."""
    spark_methods.prepare(tmp_path)
    page = spark_methods.PAGE.read_text(encoding="utf-8")
    for name, method in spark_methods.here().items():
        spark_methods.check(name, *spark_methods.outcome(method, spark, tmp_path), page)


def test_the_table_has_no_other_rows():
    rows = spark_methods.PAGE.read_text(encoding="utf-8").split(spark_methods.BEGIN)[1].split(spark_methods.END)[0]
    names = [row.split(" | ")[0].removeprefix("| ") for row in rows.splitlines()[2:]]
    assert names == [spark_methods.code(name) for name in spark_methods.METHODS]


@pytest.mark.parametrize("name", ["writeStream.queryName(name)", "writeStream.partitionBy(...)"])
def test_what_spark_tells_a_sink_of_a_stream(spark, tmp_path, name):
    """Of the query's name, which is nothing to a sink, and not of partition columns."""
    spark_methods.prepare(tmp_path)
    told = spark_methods.outcome(spark_methods.METHODS[name], spark, tmp_path)
    spark_methods.check(name, *told, spark_methods.PAGE.read_text(encoding="utf-8"))
