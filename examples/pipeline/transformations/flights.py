"""A pipeline: a view of dropped Arrow files, a streaming table of Spark's, what is counted in it, and a sink of Arrow files.

Tables of a pipeline lie in Spark's catalog, which passes no path on to a Python source, so they have a format of Spark's own;
a sink has a path. Each `run` takes what is new.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
dp.create_sink("lake", "arrowipc", {"path": spark.conf.get("flights.lake"), "partitionBy": "carrier"})


@dp.temporary_view
def flights() -> DataFrame:
    """Return a stream of the dropped files."""
    stream = spark.readStream.format("arrowipc").schema("carrier string, delay bigint")
    return stream.load(spark.conf.get("flights.drop"))


@dp.table
def late() -> DataFrame:
    """Return the flights that were late: a streaming table."""
    return spark.readStream.table("flights").where("delay > 0")


@dp.materialized_view
def late_by_carrier() -> DataFrame:
    """Return how many flights of each carrier were late, counted anew by each run."""
    return spark.read.table("late").groupBy("carrier").count()


@dp.append_flow(target="lake")
def to_lake() -> DataFrame:
    """Return what the sink gets."""
    return spark.readStream.table("late")
