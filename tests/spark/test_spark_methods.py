"""The record of Spark's methods is what Spark does with each, and the table of docs/methods.md is of the record."""

import pytest
import spark_methods
from pushed import jar_of_this_thread


@pytest.mark.exhaustive
def test_each_method_does_what_the_record_says(spark, tmp_path):
    """In a classic session; tests/spark/test_connect.py calls them under Spark Connect."""
    spark_methods.prepare(tmp_path)
    for name, method in spark_methods.here().items():
        spark_methods.check(name, *spark_methods.outcome(method, spark, tmp_path))


@pytest.mark.exhaustive
def test_each_method_does_with_the_jar_what_the_record_says(spark, tmp_path):
    spark_methods.prepare(tmp_path)
    with jar_of_this_thread(spark):
        outcomes = {
            name: spark_methods.outcome(method, spark, tmp_path) for name, method in spark_methods.here().items()
        }
    for name, outcome in outcomes.items():
        spark_methods.check(name, *outcome, has_jar=True)


def test_the_record_has_no_other_rows():
    names = [cells[0] for cells in spark_methods.rows_of(spark_methods.RECORD.read_text(encoding="utf-8"))]
    assert names == [spark_methods.code(name) for name in spark_methods.METHODS]


def test_the_page_is_of_the_record():
    page = spark_methods.PAGE.read_text(encoding="utf-8")
    assert page == spark_methods.page_of(page, spark_methods.RECORD.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["writeStream.queryName(name)", "writeStream.partitionBy(...)"])
def test_what_spark_tells_a_sink_of_a_stream(spark, tmp_path, name):
    """Of the query's name, which is nothing to a sink, and not of partition columns."""
    spark_methods.prepare(tmp_path)
    told = spark_methods.outcome(spark_methods.METHODS[name], spark, tmp_path)
    spark_methods.check(name, *told)
