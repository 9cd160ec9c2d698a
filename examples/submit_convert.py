r"""A spark-submit job: Parquet or CSV in, Arrow IPC files out.

::

    spark-submit --properties-file conf/spark-defaults.conf examples/submit_convert.py \
        --from csv --compression zstd flights.csv flights-arrow
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import SparkSession

INPUT_OPTIONS = {
    "parquet": {},
    "csv": {"header": "true", "inferSchema": "true"},
}
"""Input format -> the options that Spark reads it with."""


def main() -> int:
    """Convert as the arguments say; return the exit status."""
    arguments = parse(sys.argv[1:])
    spark = SparkSession.builder.appName("convert to Arrow IPC").getOrCreate()
    frame = spark.read.format(arguments.input_format).options(**INPUT_OPTIONS[arguments.input_format])
    table = frame.load(arguments.input)
    if arguments.files is not None:
        table = table.repartition(arguments.files)
    writer = table.write.format("arrowipc").mode(arguments.mode).option("compression", arguments.compression)
    if arguments.record_batch_rows is not None:
        writer = writer.option("recordBatchRows", arguments.record_batch_rows)
    writer.save(arguments.output)
    rows = spark.read.format("arrowipc").load(arguments.output).count()
    print(f"{arguments.output} holds {rows:,} rows")
    spark.stop()
    return 0


def parse(argv: list[str]) -> argparse.Namespace:
    """Return the job's arguments."""
    parser = argparse.ArgumentParser(prog="submit_convert.py", description="Convert Parquet or CSV to Arrow IPC files.")
    parser.add_argument("input", help="a file, directory or glob that Spark can read")
    parser.add_argument("output", help="the directory to write to")
    parser.add_argument("--from", dest="input_format", choices=sorted(INPUT_OPTIONS), default="parquet")
    parser.add_argument("--compression", choices=["lz4", "zstd", "none"], default="lz4")
    parser.add_argument("--mode", choices=["append", "overwrite"], default="append", help="default: append")
    parser.add_argument("--files", type=int, help="write this many files; default: one a Spark partition")
    parser.add_argument("--record-batch-rows", type=int, help="rows a record batch; default: the data source's")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
