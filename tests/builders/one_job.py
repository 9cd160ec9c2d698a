"""A job of Spark's writer without Spark: it commits a file of each given table."""

from spark_arrow_ipc import ipc
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource


def commit_files(path, *tables, **options):
    """Write a file of each pyarrow table, all by one job, into the table at a path."""
    first = path.parent / "first.arrow"  # Spark's columns are those that it reads of this file
    ipc.write(first, tables[0])
    writer = ArrowIpcDataSource({"path": str(path), **options}).writer(
        ArrowIpcDataSource({"path": str(first)}).schema(), overwrite=False
    )
    writer.commit([writer.write(iter(table.to_batches())) for table in tables])
