"""Asks Spark for some of what tests ask it for, so that the archive of `quick_spark` has the classes."""

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

if __name__ == "__main__":
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    with tempfile.TemporaryDirectory() as temporary:
        for name in ("arrowipc", "parquet"):
            path = str(Path(temporary, name))
            rows = spark.range(100).selectExpr("id", "id % 7 AS k", "cast(id AS string) AS s", "array(id, 2) AS l")
            rows.write.format(name).mode("append").option("partitionBy", "k").save(path)
            spark.read.format(name).load(path).where("id > 3").groupBy("k").agg(f.sum("id"), f.max("s")).collect()
    java = spark.sparkContext._gateway.proc
    spark.stop()
    java.stdin.close()  # by which it ends, and writes the archive
    java.wait()
