"""Statistics of small record batches, through a file's footer and back."""

import base64
import io
from dataclasses import replace

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.statistics import Statistics
from spark_arrow_ipc.dataset.statistics.collect import StatisticsCollector
from spark_arrow_ipc.dataset.statistics.format import DROPPED_KEY
from spark_arrow_ipc.dataset.statistics.read import read_statistics


def gathered(batches, which=Statistics.AUTO, file_nbytes=0):
    collector = StatisticsCollector(batches[0].schema, which)
    for batch in batches:
        collector.add(batch, file_nbytes)
    return collector.pair(file_nbytes)


def write_described(
    sink, batches, schema, which=Statistics.ALL, change=lambda pair: pair, *, compression=None, **options
):
    """Write a file of ours with statistics and the checksums that prove them; bytes are as many as values need."""
    collector = StatisticsCollector(schema, which)
    with ipc.create(sink, schema, ipc.WriteOptions(checksums=True, compression=compression, **options)) as writer:
        for batch in batches:
            writer.write(batch)
            collector.add(batch, writer.nbytes)
        writer.custom_metadata.update([change(collector.pair(writer.nbytes, fingerprint=writer.fingerprint))])


def with_dropped(text):
    """Return a function that changes the noted paths of columns without statistics, which are JSON."""

    def change(pair):
        with ipc.open_stream(base64.b64decode(pair[1])) as reader:
            batches = list(reader)
            schema = replace(reader.schema, custom_metadata=(*reader.schema.custom_metadata, (DROPPED_KEY, text)))
        sink = io.BytesIO()
        batches = [replace(batch, schema=schema) for batch in batches]
        ipc.write(sink, batches, schema, ipc.WriteOptions(format="stream"))
        return pair[0], base64.b64encode(sink.getvalue()).decode()

    return change


def batch_of(type_, *values):
    schema = Schema.of([t.field("a", type_)])
    return RecordBatch.from_pylist([{"a": value} for value in values], schema)


def column_of(type_, *blocks):
    """Return the statistics of one column, through a file's pair and back."""
    batches = [batch_of(type_, *block) for block in blocks]
    statistics = read_statistics((gathered(batches),), batches[0].schema, len(blocks))
    assert statistics is not None
    assert tuple(map(len, blocks)) == statistics.row_counts
    return statistics.columns[("a",)]
