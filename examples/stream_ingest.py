r"""A spark-submit job: files that anybody drops into a directory become a partitioned lake, each row once.

::

    spark-submit --properties-file conf/spark-defaults.conf examples/stream_ingest.py \
        --schema "at timestamp, carrier string, day string" --partition-by day drop lake state

Drop files by a rename, or however you like: incomplete ones wait, late ones are read, too. Kill the job whenever you like
and start it again with the same three directories. `state` holds the query's checkpoint, with the log of what was read.
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import SparkSession

from spark_arrow_ipc import ingest


def main() -> int:
    """Ingest as the arguments say; return the exit status."""
    arguments = parse(sys.argv[1:])
    spark = SparkSession.builder.appName("ingest Arrow IPC files").getOrCreate()
    query = ingest(
        spark,
        arguments.source,
        arguments.lake,
        checkpoint=f"{arguments.state}/checkpoint",
        trigger={"processingTime": arguments.every} if arguments.every else {"availableNow": True},
        source_schema=arguments.schema,
        maxFilesPerTrigger=arguments.max_files,
        **({} if arguments.partition_by is None else {"partitionBy": arguments.partition_by}),
    )
    query.awaitTermination()
    spark.stop()
    return 0


def parse(argv: list[str]) -> argparse.Namespace:
    """Return the job's arguments."""
    parser = argparse.ArgumentParser(prog="stream_ingest.py", description="Turn dropped files into a partitioned lake.")
    parser.add_argument("source", help="the directory that files are dropped into")
    parser.add_argument("lake", help="the directory to write to")
    parser.add_argument("state", help="a directory for the checkpoint and the log of what was read")
    parser.add_argument("--schema", required=True, help="the columns, as in DDL")
    parser.add_argument("--partition-by", help="columns that become directories")
    parser.add_argument("--every", help="go on for ever, with a batch each '10 seconds'; default: read what is there")
    parser.add_argument("--max-files", type=int, default=1000, help="files of a batch; default: 1000")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
