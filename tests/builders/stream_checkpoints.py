"""Checkpoints of streaming queries as Spark writes them, of the offsets of our own modes, without Spark."""

import io
import json

import pytest

from spark_arrow_ipc.dataset.stream.admission import Admission
from spark_arrow_ipc.dataset.stream.log import LogMode, LogOptions
from spark_arrow_ipc.dataset.stream.mode import ALL_AVAILABLE
from spark_arrow_ipc.dataset.stream.source_files import SourceFiles
from spark_arrow_ipc.dataset.stream.source_log import SourceLog
from spark_arrow_ipc.dataset.stream.waiting_files import WaitingFiles
from spark_arrow_ipc.dataset.stream.window import WindowMode, WindowOptions
from spark_arrow_ipc.storage.local import LOCAL

pa = pytest.importorskip("pyarrow")

ID = "5b0d3f6e-6f0c-4f5e-9a7b-000000000000"


def arrow(*numbers):
    sink = io.BytesIO()
    table = pa.table({"n": pa.array(numbers, pa.int64())})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def drop(path, *numbers):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(arrow(*numbers))
    return path


class Checkpoint:
    """A query over ``in`` below a directory, in the mode `window`, or `log` where a directory is given for its log."""

    def __init__(self, directory, log=None):
        self.source, self.root, self.log = directory / "in", directory / "checkpoint", log
        for name in ("offsets", "commits"):
            (self.root / name).mkdir(parents=True)
        (self.root / "metadata").write_text(json.dumps({"id": ID}))
        self.source.mkdir(exist_ok=True)
        self.restart()
        self.offset, self.batches = self.mode.initial(), 0

    def restart(self):
        source = SourceFiles(LOCAL, (str(self.source),))
        waiting = WaitingFiles(source, Admission(LOCAL, clock=lambda: 2**62))
        if self.log is None:
            self.mode = WindowMode(waiting, WindowOptions())
        else:
            self.mode = LogMode(waiting, SourceLog(LOCAL, str(self.log), source.paths), LogOptions())

    def plan(self, *sources):
        """Write the offset of the next batch, and of other sources behind it."""
        self.offset = self.mode.latest(self.offset, ALL_AVAILABLE)
        spark = {"batchWatermarkMs": 0, "batchTimestampMs": 1_700_000_000_000 + self.batches, "conf": {}}
        lines = ["v1", json.dumps(spark), json.dumps(self.offset), *sources]
        (self.root / "offsets" / str(self.batches)).write_text("\n".join(lines))
        (self.root / "offsets" / f".{self.batches}.crc").write_bytes(b"crc\0")

    def commit(self):
        (self.root / "commits" / str(self.batches)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        self.batches += 1
