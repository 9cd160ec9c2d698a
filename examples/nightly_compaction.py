"""Join the small files of tables, each night: sorted, with statistics, beside whoever reads and writes.

    spark-submit examples/nightly_compaction.py /lake/events /lake/clicks --sort-by at --compression zstd

Run it from cron or any scheduler, once a night for each table. It may be started again after a failure, at any time:
what was joined is not small any more. Its status is 0 if every table was compacted or had nothing to do, and 1 if
another job replaced the same files meanwhile; the next night does the rest.

Without arguments it makes a small table of its own and shows what becomes of it.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path
from typing import Unpack

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_arrow_ipc import compact, options
from spark_arrow_ipc.cli.main import main as arrowipc
from spark_arrow_ipc.errors import ConcurrentWriteError

log = logging.getLogger("nightly_compaction")

BUILD = Path(__file__).parents[1] / "build" / "nightly"


def compact_all(
    spark: SparkSession, paths: list[str], sort_by: list[str], **given: Unpack[options.CompactKeywords]
) -> int:
    """Compact each table and clear what jobs that died have left; return the status of the program."""
    status = 0
    for path in paths:
        try:
            log.info("%s: %s", path, compact(spark, path, sort_by=sort_by, **given))
        except ConcurrentWriteError as error:
            log.warning("%s: left for the next night: %s", path, error)
            status = 1
        status |= arrowipc(["vacuum", path])
    return status


def make_lake(root: Path, days: int = 2, files: int = 12) -> str:
    """Write a table of many small files, as a stream of events leaves it, unless it is there; return its path."""
    for day in range(days):
        directory = root / f"day=2026-06-0{day + 1}"
        directory.mkdir(parents=True, exist_ok=True)
        for number in range(files):
            first = 1_000 * number
            table = pa.table({"id": range(first, first + 1_000), "at": pa.array(range(first + 1_000, first, -1))})
            with pa.ipc.new_file(str(directory / f"{number}.arrow"), table.schema) as writer:
                writer.write_table(table)
    return str(root)


def main(arguments: list[str]) -> int:
    """Compact what is named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", nargs="*", help="directories of tables")
    parser.add_argument("--sort-by", default="", help="names of columns, separated by commas")
    parser.add_argument("--compression", default="zstd", help="lz4, zstd or none")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    paths = given.paths or [make_lake(BUILD / "events")]
    sort_by = [name.strip() for name in given.sort_by.split(",") if name.strip()] or ([] if given.paths else ["at"])
    spark = SparkSession.builder.appName("nightly compaction").getOrCreate()
    status = compact_all(spark, paths, sort_by, compression=given.compression)
    spark.stop()
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
