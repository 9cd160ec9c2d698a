"""Small data sources that show what Spark does with any Python source.

A module of its own, because Spark's Python processes import the classes by name.
"""

import json

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, InputPartition

ROWS = 10


class _Reader(DataSourceReader):
    def __init__(self, options):
        self.options = options

    def partitions(self):
        return [InputPartition(0)]


class EchoReader(_Reader):
    """Gives its options back."""

    def read(self, partition):
        yield (json.dumps(dict(self.options)),)


class EmptyReader(_Reader):
    """Has nothing to read, and shows what it is asked to read all the same."""

    def partitions(self):
        return []

    def read(self, partition):
        yield (repr(partition),)


class MismatchedReader(_Reader):
    """Yields a first batch that is not what its schema promised."""

    def read(self, partition):
        made = {
            "type": pa.array([1], pa.int32()),
            "nullability": pa.array([1], pa.int64()),
            "name": pa.array([1], pa.int64()),
        }[self.options["how"]]
        name = "b" if self.options["how"] == "name" else "a"
        field = pa.field(name, made.type, nullable=self.options["how"] != "nullability")
        yield pa.RecordBatch.from_arrays([made], schema=pa.schema([field]))


class LeakingReader(_Reader):
    """Takes the filters ``a = n``, as a source that supports push-down should."""

    def __init__(self, options):
        super().__init__(options)
        self.wanted = None

    def pushFilters(self, filters):
        for filter_ in filters:
            if isinstance(filter_, EqualTo):
                self.wanted = filter_.value
            else:
                yield filter_

    def read(self, partition):
        for n in range(ROWS):
            if self.wanted is None or n == self.wanted:
                yield (n,)


class _Source(DataSource):
    made_of = EchoReader, "options string"

    @classmethod
    def name(cls):
        return cls.__name__.lower()

    def schema(self):
        return self.made_of[1]

    def reader(self, schema):
        return self.made_of[0](self.options)


class Echo(_Source):
    """Shows its options."""


class Empty(_Source):
    """Has no partitions."""

    made_of = EmptyReader, "partition string"


class Mismatched(_Source):
    """Breaks its promise."""

    made_of = MismatchedReader, "a bigint"


class Leaking(_Source):
    """Supports push-down."""

    made_of = LeakingReader, "a int"


ALL = (Echo, Empty, Mismatched, Leaking)
