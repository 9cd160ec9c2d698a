"""Write one file with statistics in its footer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.dataset.statistics.collect import StatisticsCollector
from spark_arrow_ipc.dataset.statistics.which import Which


class StatisticsWriter:
    """A writer that collects the statistics of what it writes."""

    def __init__(self, writer: ipc.Writer, collector: StatisticsCollector) -> None:
        self._writer = writer
        self._collector = collector

    def write(self, batch: RecordBatch, *, within: int | None = None) -> bool:
        """Append one record batch, as `ipc.Writer.write` does; False if the file would become too long."""
        if not self._writer.write(batch, within=within):
            return False
        self._collector.add(batch, self._writer.nbytes)
        return True


@contextmanager
def create_with_statistics(
    path: str,
    schema: Schema,
    options: ipc.WriteOptions,
    which: Which,
    *,
    custom_metadata: CustomMetadata = (),
    storage: Mapping[str, str] | None = None,
) -> Iterator[StatisticsWriter]:
    """Write a file whose footer has statistics; it appears when the context ends without an error.

    Statistics prove by checksums that they are of their file, so a file with them gets checksums. A stream has no
    footer: its pairs go to its first message, and it gets no statistics.
    """
    is_file = options.format == "file"
    collector = StatisticsCollector(schema, which)
    if is_file and collector.collects:
        options = replace(options, checksums=True)
    first_pairs = None if is_file else custom_metadata
    with ipc.create(path, schema, options, schema_metadata=first_pairs, storage=storage) as writer:
        if is_file:
            writer.custom_metadata.update(custom_metadata)
        yield StatisticsWriter(writer, collector)
        pair = collector.pair(writer.nbytes, fingerprint=writer.fingerprint) if is_file else None
        if pair is not None:
            writer.custom_metadata.update([pair])
