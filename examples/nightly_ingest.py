r"""A job for cron or Airflow: the CSV files of a day are added to a lake, once, however often the job runs.

::

    0 3 * * *  spark-submit --properties-file conf/spark-defaults.conf examples/nightly_ingest.py \
                   --day $(date -d yesterday +\%F) drop lake

The files of a day are ``drop/2026-06-01*.csv``. The job's `commitToken` names the day: where a job of this day is committed
already, the next one writes nothing and succeeds. So a scheduler may run it again whenever it did not hear of its end, two
may run at once, and it may be killed at any time: nothing of a job that was not committed is ever read.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark user knows

from spark_arrow_ipc import options


def main() -> int:
    """Ingest a day; return the exit status."""
    arguments = parse(sys.argv[1:])
    spark = SparkSession.builder.appName(f"ingest {arguments.day}").getOrCreate()
    rows = ingest(spark, arguments.drop, arguments.lake, arguments.day, arguments.schema)
    print(f"{arguments.lake} holds {rows:,} rows of {arguments.day}")
    spark.stop()
    return 0


def ingest(spark: SparkSession, drop: str, lake: str, day: dt.date, schema: str) -> int:
    """Add the files of a day to the lake, unless they are there; return the rows that the lake then has of the day."""
    files = spark.read.format("csv").schema(schema).options(header="true", mode="FAILFAST").load(f"{drop}/{day}*.csv")
    # The schema of the lake does not depend on what Spark would make of the names of directories.
    rows = files.withColumn("day", F.lit(day))
    job = options.write(commitToken=f"ingest-{day}", partitionBy=["day"], compression="zstd", statistics="all")
    rows.write.format("arrowipc").mode("append").options(**job).save(lake)
    of_day = options.read(where=f"day = DATE '{day}'", columns=["day"])
    return int(spark.read.format("arrowipc").options(**of_day).load(lake).count())


def parse(argv: list[str]) -> argparse.Namespace:
    """Return the job's arguments."""
    parser = argparse.ArgumentParser(
        prog="nightly_ingest.py", description="Add the CSV files of a day to a lake, once."
    )
    parser.add_argument("drop", help="the directory of the files, whose names begin with their day")
    parser.add_argument("lake", help="the directory to write to")
    parser.add_argument("--day", type=dt.date.fromisoformat, required=True, help="such as 2026-06-01")
    parser.add_argument(
        "--schema", default="carrier string, dep_delay double", help="the columns of the files, as in DDL"
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
