"""Statistics of small record batches, through a file's footer and back."""

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.statistics.collect import StatisticsCollector
from spark_arrow_ipc.dataset.statistics.read import read_statistics
from spark_arrow_ipc.dataset.statistics.which import Statistics


def gathered(batches, which=Statistics.AUTO, file_nbytes=0):
    collector = StatisticsCollector(batches[0].schema, which)
    for batch in batches:
        collector.add(batch, file_nbytes)
    return collector.pair(file_nbytes)


def write_described(sink, batches, schema, which=Statistics.ALL, **options):
    """Write a file of ours with statistics and the checksums that prove them."""
    collector = StatisticsCollector(schema, which)
    with ipc.create(sink, schema, ipc.WriteOptions(checksums=True, **options)) as writer:
        for batch in batches:
            writer.write(batch)
            collector.add(batch, writer.nbytes)
        writer.custom_metadata.update([collector.pair(writer.nbytes, fingerprint=writer.fingerprint)])


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
