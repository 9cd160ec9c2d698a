"""The streaming reader: offsets and plans on the driver, batches on executors.

Strategy
--------
Which files a batch has is the affair of a mode (`dataset.stream`); how they are read is that of the batch reader, which
gets the files instead of listing them. Spark makes one reader in a process that lives as long as the query, and calls
all but `read` there; others are made only to be pickled for the tasks. So the mode is made when it is first needed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark.sql import types as s
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from spark_arrow_ipc.dataset.stream.mode import ALL_AVAILABLE, Limit, StreamBatch, StreamMode
from spark_arrow_ipc.errors import printable
from spark_arrow_ipc.spark.bridge import PyArrowBatch
from spark_arrow_ipc.spark.options.read_options import ReadOptions, StreamOptions
from spark_arrow_ipc.spark.process import short_errors
from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader, ArrowIpcInputPartition
from spark_arrow_ipc.spark.read.stream_mode import Polls, poll_seconds, stream_mode

_LOG: Final = logging.getLogger(__name__)

_ADVICE: Final = (
    "a batch of a stream reads the files that it was made of: put the file back as it was, or begin with a new checkpoint; "
    "ignoreMissingFiles=true skips files that are gone. Give a new file a new name, and move it in when it is complete"
)


class ArrowIpcStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    """Reads what is new under the paths of a stream, batch by batch.

    Parameters
    ----------
    schema
        The exact schema that Spark expects.
    options, stream
        Of the read, and of reading a stream.
    """

    def __init__(self, schema: s.StructType, options: ReadOptions, stream: StreamOptions) -> None:
        self._options = options
        self._stream = stream
        self._rows = ArrowIpcBatchReader(schema, options, advice=_ADVICE)
        self._made: Polls | None = None
        self._last: dict[str, int] = {"files": 0, "bytes": 0}
        self._next: tuple[Mapping[str, Any], Mapping[str, Any], StreamBatch] | None = None
        """The batch that `latestOffset` found, between its offsets, until it is planned: a mode may ask for each file."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for tasks, which need no mode."""
        return self.__dict__ | {"_made": None, "_next": None}

    @property
    def _polls(self) -> Polls:
        if self._made is None:
            mode = stream_mode(self._options, self._stream)
            self._made = Polls(mode, poll_seconds(self._options, self._stream))
        return self._made

    @property
    def _mode(self) -> StreamMode:
        return self._polls.mode

    @short_errors
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """See nothing that comes from now on."""
        self._polls.only_available_now()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the option maxFilesPerTrigger; Spark passes one limit only, that of bytes is added later."""
        return ReadMaxFiles(self._stream.max_files_per_trigger)

    @short_errors
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset before the first batch."""
        return dict(self._mode.initial())

    @short_errors
    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset after the next batch, or `start`; sleeps half a second at most where nothing is new."""
        end = self._polls.latest(start, self._limit(limit))
        if end != start:
            batch = self._mode.batch(start, end)
            self._next = start, end, batch
            self._last = {"files": len(batch.files) + len(batch.ranges), "bytes": batch.nbytes}
        return dict(end)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the size of the newest batch and what waits behind it: ``latestOffset`` of a query's progress."""
        waiting = self._polls.backlog
        return {**self._last, "waitingFiles": waiting.files, "waitingBytes": waiting.nbytes}

    @short_errors
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[ArrowIpcInputPartition]:
        """Plan the input partitions of a batch. Lists nothing."""
        found, self._next = self._next, None
        batch = found[2] if found is not None and found[:2] == (start, end) else self._mode.batch(start, end)
        if not batch.files and not batch.ranges:
            return []
        waiting = self._polls.backlog
        _LOG.info(
            "a batch of %d files, %d bytes, in the mode %s; %d files, %d bytes wait",
            len(batch.files) + len(batch.ranges), batch.nbytes, self._mode.name, waiting.files, waiting.nbytes,
        )  # fmt: skip
        if batch.ranges:
            return self._rows.partitions_of_ranges(batch.ranges)
        return self._rows.partitions_of(batch.files, batch.roots)

    def read(self, partition: InputPartition | None) -> Iterator[PyArrowBatch]:
        """Yield the batches of one input partition, as the batch reader does."""
        return self._rows.read(partition)

    @short_errors
    def commit(self, end: Mapping[str, Any]) -> None:
        """Tidy up after a batch that the sink has."""
        try:
            self._mode.committed(end)
        except OSError as error:
            _LOG.warning("tidying up after a batch failed: %s", printable(str(error)))

    def stop(self) -> None:
        """Do nothing: Spark does not call this at the end of most queries."""

    def _limit(self, limit: ReadLimit) -> Limit:
        own = Limit(self._stream.max_files_per_trigger, self._stream.max_bytes_per_trigger)
        if isinstance(limit, ReadAllAvailable):
            return ALL_AVAILABLE
        if isinstance(limit, ReadMaxFiles):
            return Limit(limit.max_files, own.max_bytes)
        return Limit(own.max_files, limit.max_bytes) if isinstance(limit, ReadMaxBytes) else own
