"""A streaming query without Spark: the reader, driven as Spark's source process and tasks do it."""

import json
import pickle

import pyarrow as pa

from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource


def drop(path, *values, **columns):
    """Put a file where it is seen when it is complete, long ago enough not to be looked at twice."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"n": pa.array(values, pa.int64()), **columns})
    temporary = path.with_name(f".{path.name}")
    with pa.ipc.new_file(temporary, table.schema) as writer:
        writer.write_table(table)
    temporary.rename(path)
    return path


class Query:
    """A query: its offset log, and the reader of Spark's source process."""

    def __init__(self, path, schema=None, **options):
        self.options = {"path": str(path), "pollInterval": "0", **options}
        self.schema = schema
        self.offsets = []
        self.restart()

    def restart(self, **options):
        self.options |= options
        source = ArrowIpcDataSource(self.options)
        self.schema = self.schema or source.schema()
        self.reader = source.streamReader(self.schema)
        if not self.offsets:
            self.offsets.append(json.dumps(self.reader.initialOffset()))

    def rows(self, number):
        """Read a batch as tasks do, from the texts of its offsets."""
        start, end = map(json.loads, self.offsets[number : number + 2])
        reader, parts = pickle.loads(pickle.dumps((self.reader, self.reader.partitions(start, end))))
        return sorted(tuple(row.values()) for part in parts for batch in reader.read(part) for row in batch.to_pylist())

    def next(self, limit=None):
        """Return the rows of the next batch; None if nothing is new."""
        limit = limit or self.reader.getDefaultReadLimit()
        end = json.dumps(self.reader.latestOffset(json.loads(self.offsets[-1]), limit))
        if end == self.offsets[-1]:
            return None
        self.offsets.append(end)
        return self.rows(len(self.offsets) - 2)
