"""DELETE, UPDATE and MERGE without Spark: the scan, the rows and the writer, as the JVM's table calls them.

A statement finds the files with rows that match, reads all rows of these, and hands over those that stay, changed or not. Here
functions of pyarrow tables do what Spark does with rows. Whether Spark does so is for the tests with Spark.
"""

import json
import pickle
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import types as s

from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource
from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader
from spark_arrow_ipc.spark.rewrite.row_level import count_rows, select_files, split_options, statement_source


@dataclass
class Statement:
    """A statement that has read the table: `scan` is what it saw, and `run` changes it.

    Parameters
    ----------
    path
        Of the table.
    command
        DELETE, UPDATE or MERGE.
    options
        Of the table.
    """

    path: object
    command: str
    options: dict = field(default_factory=dict)

    def __post_init__(self):
        self.options = {"path": str(self.path), **self.options}
        source = ArrowIpcDataSource(self.options)
        self.schema = source.schema()
        self.partitions = [pickle.dumps(part) for part in source.reader(self.schema).partitions()]

    def read(self, paths=None):
        """Return the rows of the files at some paths, by default of all, in Spark's types, with the path of each."""
        schema = s.StructType([*self.schema.fields, s.StructField("_file_path", s.StringType())])
        reading, _ = split_options(self.options)
        reader = ArrowIpcBatchReader(schema, replace(reading, metadata_columns=True))
        parts = [
            pickle.loads(part) if paths is None else select_files(part, json.dumps([*paths]))
            for part in self.partitions
        ]
        batches = [batch for part in parts for batch in reader.read(part)]
        return pa.Table.from_batches(batches) if batches else None

    def write(self, rows, paths=None):
        """Write the rows that stay in place of the files at some paths, by default all; return the writer and its messages."""
        request = {"command": self.command, "partitions": len(self.partitions), "partitionBy": []}
        if paths is not None:
            request["paths"] = sorted(paths)
        source = statement_source(b"".join(self.partitions), json.dumps(request))(self.options)
        writer = pickle.loads(pickle.dumps(source.writer(self.schema, overwrite=False)))
        batches = [] if rows is None else rows.select(self.schema.names).to_batches()
        return writer, [writer.write(iter(batches))]

    def run(self, change, matches=None, **counts):
        """Replace the files with rows that match by their changed rows; a MERGE gets None where it replaces no file."""
        self.finish(change, *self.scan(matches), **counts)

    def scan(self, matches=None):
        """Return the rows of the files with rows that match, and the paths of these files."""
        paths = None
        if matches is not None:
            rows = self.read()
            paths = set() if rows is None else {*rows.filter(matches(rows))["_file_path"].to_pylist()}
        return self.read(paths), paths

    def finish(self, change, rows, paths, **counts):
        """Replace files by their changed rows, with Spark's counts of rows."""
        writer, messages = self.write(change(rows) if rows is not None or self.command == "MERGE" else None, paths)
        try:
            writer.commit([*messages, *([count_rows(b"", json.dumps(counts))] if counts else [])])
        except Exception:
            writer.abort(messages)
            raise
