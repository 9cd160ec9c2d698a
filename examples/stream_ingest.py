r"""A spark-submit job: files that anybody drops into a directory become a partitioned lake, each row once.

::

    spark-submit --properties-file conf/spark-defaults.conf examples/stream_ingest.py \
        --schema "at timestamp, carrier string, day string" --partition-by day drop lake state

Drop files by a rename, or however you like: incomplete ones wait, late ones are read, too. Kill the job whenever you like
and start it again with the same three directories. `state` holds the query's checkpoint, with the log of what was read.
With ``--progress progress.jsonl`` each batch is a line of JSON there: rows, files, times, what waits, what cannot be read.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from spark_arrow_ipc import ingest


class ProgressFile(StreamingQueryListener):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    """Appends what Spark tells of its queries to a file, one JSON object a line."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Note the query's ids."""
        self._append({"event": "started", "id": str(event.id), "runId": str(event.runId), "at": event.timestamp})

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Note a batch, without the offsets, which may hold lists of files."""
        progress = json.loads(event.progress.json)
        for source in progress["sources"]:
            del source["startOffset"], source["endOffset"]
        self._append({"event": "progress", **progress})

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing while nothing is new."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Note the end, and the error if there was one."""
        self._append({"event": "ended", "id": str(event.id), "runId": str(event.runId), "error": event.exception})

    def _append(self, line: dict[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def main() -> int:
    """Ingest as the arguments say; return the exit status."""
    arguments = parse(sys.argv[1:])
    spark = SparkSession.builder.appName("ingest Arrow IPC files").getOrCreate()
    if arguments.progress:
        spark.streams.addListener(ProgressFile(arguments.progress))
    query = ingest(
        spark,
        arguments.source,
        arguments.lake,
        checkpoint=f"{arguments.state}/checkpoint",
        trigger={"processingTime": arguments.every} if arguments.every else {"availableNow": True},
        source_schema=arguments.schema,
        maxFilesPerTrigger=arguments.max_files,
        **({} if arguments.partition_by is None else {"partitionBy": arguments.partition_by}),
    )
    query.awaitTermination()
    spark.stop()
    return 0


def parse(argv: list[str]) -> argparse.Namespace:
    """Return the job's arguments."""
    parser = argparse.ArgumentParser(prog="stream_ingest.py", description="Turn dropped files into a partitioned lake.")
    parser.add_argument("source", help="the directory that files are dropped into")
    parser.add_argument("lake", help="the directory to write to")
    parser.add_argument("state", help="a directory for the checkpoint and the log of what was read")
    parser.add_argument("--schema", required=True, help="the columns, as in DDL")
    parser.add_argument("--partition-by", help="columns that become directories")
    parser.add_argument("--every", help="go on for ever, with a batch each '10 seconds'; default: read what is there")
    parser.add_argument("--progress", help="a file to which each batch adds a line of JSON")
    parser.add_argument("--max-files", type=int, default=1000, help="files of a batch; default: 1000")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
