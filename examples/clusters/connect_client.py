"""A client of Spark Connect that has no more than pyspark-client: the server reads and writes the Arrow files.

python examples/clusters/connect_client.py sc://server:15002 FILE TABLE
"""

from __future__ import annotations

import importlib.util
import sys

from pyspark.sql import SparkSession


def main(remote: str, file: str, table: str) -> None:
    """Append the late flights of a file to a table, and count them by carrier. Both are paths of the server."""
    spark = SparkSession.builder.remote(remote).getOrCreate()
    flights = spark.read.format("arrowipc").load(file)
    flights.where("dep_delay > 60").write.format("arrowipc").mode("append").save(table)
    late = spark.read.format("arrowipc").option("where", "dep_delay > 200").load(table)
    for row in late.groupBy("carrier").count().orderBy("carrier").collect():
        print(row["carrier"], row["count"])
    installed = importlib.util.find_spec("spark_arrow_ipc") is not None
    print(f"spark_arrow_ipc is {'' if installed else 'not '}installed here")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
