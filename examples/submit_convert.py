r"""A spark-submit job: Parquet, CSV or JSON lines become Arrow IPC files, or the other way round.

::

    spark-submit --properties-file conf/spark-defaults.conf examples/submit_convert.py \
        --from csv --compression zstd flights.csv flights-arrow
    spark-submit --properties-file conf/spark-defaults.conf examples/submit_convert.py \
        --from arrowipc --to parquet flights-arrow flights-parquet
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import DataFrame, SparkSession

FORMATS = ("arrowipc", "csv", "json", "parquet")
READ_OPTIONS = {"csv": {"header": "true", "inferSchema": "true", "escape": '"'}}
WRITE_OPTIONS = {"csv": {"header": "true", "escape": '"'}}
"""Format -> the options that Spark reads or writes it with; a quote in CSV is doubled, as everybody but Spark does it."""


def main() -> int:
    """Convert as the arguments say; return the exit status."""
    arguments = parse(sys.argv[1:])
    spark = SparkSession.builder.appName("convert from or to Arrow IPC").getOrCreate()
    convert(spark, arguments)
    rows = load(spark, arguments.output_format, arguments.output).count()
    print(f"{arguments.output} holds {rows:,} rows")
    spark.stop()
    return 0


def convert(spark: SparkSession, arguments: argparse.Namespace) -> None:
    """Read the input and write the output."""
    table = load(spark, arguments.input_format, arguments.input)
    if arguments.files is not None:
        table = table.repartition(arguments.files)
    writer = table.write.format(arguments.output_format).mode(arguments.mode)
    writer = writer.options(**WRITE_OPTIONS.get(arguments.output_format, {}))
    if arguments.compression is not None:
        writer = writer.option("compression", arguments.compression)
    if arguments.record_batch_rows is not None:
        writer = writer.option("recordBatchRows", arguments.record_batch_rows)
    writer.save(arguments.output)


def load(spark: SparkSession, name: str, path: str) -> DataFrame:
    """Return the rows at a path."""
    return spark.read.format(name).options(**READ_OPTIONS.get(name, {})).load(path)


def parse(argv: list[str]) -> argparse.Namespace:
    """Return the job's arguments."""
    parser = argparse.ArgumentParser(
        prog="submit_convert.py", description="Convert Parquet, CSV or JSON lines to Arrow IPC files, or back."
    )
    parser.add_argument("input", help="a file, directory or glob that Spark can read")
    parser.add_argument("output", help="the directory to write to")
    parser.add_argument("--from", dest="input_format", choices=FORMATS, default="parquet", help="default: parquet")
    parser.add_argument("--to", dest="output_format", choices=FORMATS, default="arrowipc", help="default: arrowipc")
    parser.add_argument("--compression", choices=["lz4", "zstd", "none"], help="default: the output format's")
    parser.add_argument("--mode", choices=["append", "overwrite"], default="append", help="default: append")
    parser.add_argument("--files", type=int, help="write this many files; default: one a Spark partition")
    parser.add_argument("--record-batch-rows", type=int, help="rows a record batch; default: the data source's")
    arguments = parser.parse_args(argv)
    if arguments.record_batch_rows is not None and arguments.output_format != "arrowipc":
        parser.error("--record-batch-rows is for --to arrowipc")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
