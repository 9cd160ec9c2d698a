"""Streaming beside Spark's own: latency, the throughput of a backlog, idle queries, directories of a million files.

Strategy
--------
`latency` drops one small file a second, whole, by a rename, while a query runs with Spark's default trigger, and asks
the query's checkpoint when the batch that read it was committed: the same clock and the same witness for every
contender. `backlog` reads and writes files that are there before the query begins (`Trigger.AvailableNow`); they are
hard links of one file, so that a disk holds them once. `idle` counts the listings that a query asks for while nothing
comes: of a local directory by Python's audit hook in Spark's source process, of an object store by the server that is
asked. `million` asks the modes of our source, without Spark, for
offsets over a listing that is made up in memory: the time of a look, the memory of the process, and the size of an
offset.

Contenders run in turns in one session; Spark's are its file source and sink of Parquet. `--way` is what a backlog's query
does with its rows: nothing, a function of batches that keeps 16 % of them, or a directory for each of 20 values.

Run it by::

    python benchmarks/streaming.py latency --directory build/benchmarks --seconds 180
    python benchmarks/streaming.py backlog --directory build/benchmarks --files 1000 --mb 10
    python benchmarks/streaming.py idle --seconds 60
    python benchmarks/streaming.py million
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "fakes"))

from memory_storage import MemoryStorage

from spark_arrow_ipc import ingest
from spark_arrow_ipc.dataset.stream.admission import Admission
from spark_arrow_ipc.dataset.stream.log import LogMode, LogOptions
from spark_arrow_ipc.dataset.stream.mode import Limit, Offset, StreamBatch, StreamMode
from spark_arrow_ipc.dataset.stream.source_files import SourceFiles
from spark_arrow_ipc.dataset.stream.source_log import SourceLog
from spark_arrow_ipc.dataset.stream.table import TableMode, TableOptions
from spark_arrow_ipc.dataset.stream.waiting_files import WaitingFiles
from spark_arrow_ipc.dataset.stream.window import WindowMode, WindowOptions
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.commit import commit
from spark_arrow_ipc.dataset.write.job_plan import CommitIntent, plan_job
from spark_arrow_ipc.dataset.write.staged_file import WrittenFile
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.ipc.constants import MAGIC
from spark_arrow_ipc.storage.byte_source import BufferSource, ByteSource
from spark_arrow_ipc.storage.paths import parent
from spark_arrow_ipc.storage.storage import Kind, Status, Traits
from spark_arrow_ipc.table.entry import Entry, Operation
from spark_arrow_ipc.table.files import Files
from spark_arrow_ipc.table.log import append as append_entry
from spark_arrow_ipc.table.log import create_table, follow, write_checkpoint
from spark_arrow_ipc.table.names import TableDirectory, data_file_name, new_id
from spark_arrow_ipc.table.state import State

if TYPE_CHECKING:
    from measure import Cost
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

SCHEMA = "id bigint, name string, value double, part int"
KEPT = 0.16
WAYS = ("plain", "function", "partitions")


def table(rows: int, first: int = 0) -> pa.Table:
    """Return some rows; their ids rise from `first` on."""
    ids = np.arange(first, first + rows)
    values = np.random.default_rng(first).random(rows)
    part = (ids % 20).astype("i4")
    return pa.table({"id": ids, "name": pa.array(np.char.mod("name of %d", ids)), "value": values, "part": part})


def keep_some(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows with small values."""
    for batch in batches:
        yield batch.filter(pc.less(batch.column("value"), KEPT))


def write_arrow(rows: pa.Table, path: Path) -> None:
    """Write an Arrow file of record batches of 65,536 rows."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=65_536)


def write_parquet(rows: pa.Table, path: Path) -> None:
    """Write a Parquet file."""
    pq.write_table(rows, path, compression="snappy")


@dataclass(frozen=True, slots=True)
class Contender:
    """A source and a sink of one format.

    Parameters
    ----------
    format
        Of both.
    write
        Makes a file of the source.
    options
        Of the source.
    """

    format: str
    write: Callable[[pa.Table, Path], None]
    options: Mapping[str, str]

    def start(
        self,
        spark: SparkSession,
        place: Path,
        way: str = "plain",
        trigger: Mapping[str, bool] | None = None,
        **options: str,
    ) -> StreamingQuery:
        """Begin to read the drops of a place and to write them."""
        rows = spark.readStream.format(self.format).schema(SCHEMA).options(**self.options, **options)
        stream = rows.load(str(place / "drops"))
        if way == "function":
            stream = stream.mapInArrow(keep_some, SCHEMA)
        writer = stream.writeStream.format(self.format).option("checkpointLocation", str(place / "checkpoint"))
        if way == "partitions":
            writer = writer.partitionBy("part").option("partitionBy", "part")
        return (writer.trigger(**trigger) if trigger else writer).start(str(place / "out"))


class Ingest(Contender):
    """Our source and sink in one worker."""

    def start(
        self,
        spark: SparkSession,
        place: Path,
        way: str = "plain",
        trigger: Mapping[str, bool] | None = None,
        **options: str,
    ) -> StreamingQuery:
        """Begin to read the drops of a place and to write them."""
        return ingest(
            spark, place / "drops", place / "out", keep_some if way == "function" else None,
            checkpoint=place / "checkpoint", trigger=trigger, source_schema=SCHEMA,
            **({"partitionBy": "part"} if way == "partitions" else {}), **self.options, **options,
        )  # fmt: skip


def contenders(place: Path) -> dict[str, Contender]:
    """Return the contenders by name; `log` is our source with a log of its own."""
    return {
        "parquet": Contender("parquet", write_parquet, {}),
        "arrowipc": Contender("arrowipc", write_arrow, {}),
        "arrowipc, log": Contender("arrowipc", write_arrow, {"sourceLog": str(place / "source-log")}),
        "ingest": Ingest("arrowipc", write_arrow, {}),
        "arrowipc, pollInterval=100ms": Contender("arrowipc", write_arrow, {"pollInterval": "100ms"}),
        "ingest, pollInterval=100ms": Ingest("arrowipc", write_arrow, {"pollInterval": "100ms"}),
    }


def fresh(place: Path) -> Path:
    """Return an empty directory with an empty directory of drops."""
    shutil.rmtree(place, ignore_errors=True)
    (place / "drops").mkdir(parents=True)
    return place


class Drops(threading.Thread):
    """Drops one file a second of one row, by a rename, and remembers when."""

    def __init__(self, write: Callable[[pa.Table, Path], None], place: Path, seconds: int) -> None:
        super().__init__(daemon=True)
        self.times: list[float] = []
        self._write, self._place, self._seconds = write, place, seconds

    def run(self) -> None:
        """Drop all files."""
        start = time.time()
        for i in range(self._seconds):
            time.sleep(max(0.0, start + i - time.time()))
            staged = self._place / "staged"
            self._write(table(1, i), staged)
            staged.rename(
                self._place / "drops" / f"drop-{i:06}.{'parquet' if self._write is write_parquet else 'arrow'}"
            )
            self.times.append(time.time())


def latency(spark: SparkSession, place: Path, contender: Contender, seconds: int) -> list[float]:
    """Return for each file the seconds from its rename to the commit of its batch."""
    query = contender.start(spark, place)
    _wait_for(lambda: bool(query.lastProgress) or not query.isActive)  # the first start is another matter
    drops = Drops(contender.write, place, seconds)
    drops.start()
    rows_of: dict[int, int] = {}
    committed: dict[int, float] = {}
    while drops.is_alive():
        drops.join(timeout=20)
        if not drops.is_alive():
            query.processAllAvailable()
        # Spark keeps the last hundred of both; an idle progress bears the number of the batch that comes next.
        for batch in query.recentProgress:
            figures = batch["observedMetrics"].get("ingest")  # whose input rows are reports of tasks
            rows = batch["numInputRows"] if figures is None else figures["rowsRead"] or 0
            rows_of[batch["batchId"]] = max(rows, rows_of.get(batch["batchId"], 0))
        committed |= {int(file.name): file.stat().st_mtime for file in (place / "checkpoint/commits").glob("[0-9]*")}
    query.stop()
    found: list[float] = []
    for batch, rows in sorted(rows_of.items()):
        found += [committed[batch] - each for each in drops.times[len(found) : len(found) + rows]]
    assert len(found) == seconds, f"{len(found)} of {seconds} files are accounted for"
    return found


def backlog(spark: SparkSession, place: Path, contender: Contender, way: str) -> None:
    """Read and write all files that are there, a hundred a batch."""
    contender.start(spark, place, way, {"availableNow": True}, maxFilesPerTrigger="100").awaitTermination()


def _wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def measure_latency(spark: SparkSession, directory: Path, seconds: int) -> None:
    """Print the percentiles of each contender."""
    print("| from a file's rename to its commit | p50 s | p95 s | most s |\n|---|---|---|---|")
    for name, contender in contenders(directory / "latency").items():
        found = latency(spark, fresh(directory / "latency"), contender, seconds)
        print(f"| {name} | {median(found):.2f} | {quantiles(found, n=20)[-1]:.2f} | {max(found):.2f} |", flush=True)


def measure_backlog(spark: SparkSession, directory: Path, files: int, mb: float, turns: int, way: str) -> None:
    """Print what each contender costs, least and median of some turns."""
    from measure import SparkProcesses

    rows = table(int(mb * 1e6 / 44))
    kept = next(keep_some(iter(rows.combine_chunks().to_batches()))).num_rows if way == "function" else rows.num_rows
    costs: dict[str, list[Cost]] = {}
    jvm_pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    with SparkProcesses(jvm_pid) as processes:
        for turn in range(turns):
            for name, contender in contenders(directory / "backlog").items():
                if "pollInterval" in name:
                    continue
                place = fresh(directory / "backlog")
                original = place / "original"
                contender.write(rows, original)
                for i in range(files):
                    os.link(original, place / "drops" / f"{i:06}.{contender.format}")
                with processes.cost() as found:
                    backlog(spark, place, contender, way)
                costs.setdefault(name, []).extend(found)
                read = spark.read.format(contender.format).load(str(place / "out")).count()
                assert read == files * kept, read
                print(f"turn {turn}, {name}: wall {found[0].wall:.1f} s, CPU {found[0].cpu:.1f} s", flush=True)
    shutil.rmtree(directory / "backlog", ignore_errors=True)
    print(
        f"| backlog of {files:,} files of {mb} MB, {way} | wall s | CPU s | JVM | workers | planners |\n|---|---|---|---|---|---|"
    )
    for name, found in costs.items():
        cells = [f"{min(values):.1f} ({median(values):.1f})" for values in _figures(found)]
        print(f"| {name} | {' | '.join(cells)} |")


_COUNTS_LISTINGS = """
import os, sys
def count(event, arguments):
    if event == "os.scandir" and str(arguments[0]).startswith(os.environ["LISTED_DIRECTORY"]):
        with open(os.environ["LISTINGS"], "a") as file:
            file.write("x")
sys.addaudithook(count)
"""
"""Every Python process of Spark imports this as `sitecustomize`."""


def measure_idle(directory: Path, seconds: int) -> None:
    """Print how many listings an idle query asks for, of a local directory and of an object store."""
    from fault_server import fault_server
    from run import session
    from s3_requests import Request

    place = fresh(directory / "idle")
    (place / "sitecustomize.py").write_text(_COUNTS_LISTINGS)
    listings = place / "listings"
    listings.touch()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(place), os.environ["PYTHONPATH"]])
    os.environ |= {"LISTED_DIRECTORY": str(place / "drops"), "LISTINGS": str(listings)}
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    print(f"| a query that waits for {seconds} s | listings |\n|---|---|")
    with session(reuses_workers=True) as spark, fault_server() as server:
        for i in range(3):
            write_arrow(table(1, i), place / "drops" / f"{i}.arrow")
            server.objects.put(f"drops/{i}.arrow", (place / "drops" / f"{i}.arrow").read_bytes())
        remote = {f"storage.{name}": value for name, value in server.options.items()}
        for name, url, options, count in (
            ("local", str(place / "drops"), {}, listings.read_text),
            ("object store", f"{server.url}/drops", remote, lambda: "x" * server.requests[Request.LIST]),
        ):
            rows = spark.readStream.format("arrowipc").schema(SCHEMA).options(**options).load(url)
            query = rows.writeStream.foreachBatch(lambda batch, _: batch.collect()).start()
            query.processAllAvailable()
            time.sleep(5)
            before = len(count())
            time.sleep(seconds)
            print(f"| {name} | {len(count()) - before} |", flush=True)
            query.stop()


def _figures(costs: list[Cost]) -> list[list[float]]:
    return [[getattr(cost, of) for cost in costs] for of in ("wall", "cpu", "jvm", "worker", "planner")]


class MadeUp(MemoryStorage):
    """An object store in memory whose directories `lake/part=<n>` seem to hold many files, which cannot be read."""

    def __init__(self, files: int, per_directory: int) -> None:
        super().__init__(renames=False)
        self.files, self.per_directory = files, per_directory
        self.committed: dict[str, dict[str, Status]] = {}
        """The files of a table by directory and path, which are not there either."""

    @property
    def traits(self) -> Traits:
        """Those of object stores; nothing waits."""
        return Traits(directories=False, renames=False, waits=False)

    def status(self, path: str, *, follow_links: bool = True) -> Status | None:
        """Return the state of a file, or of a directory that seems to be there."""
        is_directory = re.fullmatch(r"memory:/lake(/part=\d+)?", path)
        if is_directory:
            return Status(path, Kind.DIRECTORY)
        return self.committed.get(parent(path), {}).get(path) or super().status(path, follow_links=follow_links)

    def open(self, path: str, *, memory_map: bool = False, listed: Status | None = None) -> ByteSource:
        """Return the first bytes of a file that seems to be there, and all of another one."""
        if re.fullmatch(r".*/part=\d+/[0-9a-f]{8}-\d+\.arrow", path):
            return BufferSource(memoryview(MAGIC + bytes(8)))
        return super().open(path, memory_map=memory_map, listed=listed)

    def list(self, directory: str) -> Iterator[Status]:
        """Yield what was written, and what seems to be there: a file a second, up to now."""
        if directory == "memory:/lake":
            yield from super().list(directory)
            yield from (Status(path, Kind.DIRECTORY) for path in self.committed)
            for i in range(-(-self.files // self.per_directory)):
                yield Status(f"{directory}/part={i}", Kind.DIRECTORY)
        elif re.fullmatch(r".*/part=\d+", directory):
            yield from super().list(directory)
            yield from self.committed.get(directory, {}).values()
            first = int(directory.rpartition("=")[2]) * self.per_directory
            for i in range(first, min(first + self.per_directory, self.files)):
                # Names in no order of time, as they are.
                name = f"{directory}/{i * 2654435761 % 2**32:08x}-{i}.arrow"
                yield Status(name, Kind.FILE, 10_000_000, (_EPOCH + i) * 10**9, version=f"{i:x}")
        else:
            yield from super().list(directory)


_EPOCH = 1_700_000_000
"""When the first of the files that seem to be there was modified, in seconds since 1970."""


def modes(storage: MadeUp) -> dict[str, Callable[[], StreamMode]]:
    """Return what makes each mode over a storage anew, as a restart does."""
    source = SourceFiles(storage, ("memory:/lake",))

    def waiting() -> WaitingFiles:
        return WaitingFiles(source, Admission(storage))

    return {
        "window, 1 h": lambda: WindowMode(waiting(), WindowOptions()),
        "window, 12 h": lambda: WindowMode(waiting(), WindowOptions(late_seconds=43_200)),
        "log": lambda: LogMode(waiting(), SourceLog(storage, "memory:/log", ("memory:/lake",)), LogOptions()),
        "table": lambda: TableMode(TableDirectory(storage, "memory:/lake"), TableOptions()),
    }


def measure_million(files: int) -> None:
    """Print what looks at very many files cost in each mode, each in a process of its own."""
    print(
        "| mode | first batch s | median s | all, batches of 10,000 s | idle s | one new file s | restart s |", end=""
    )
    print(" offset, characters | MiB above the start |\n|---|---|---|---|---|---|---|---|---|")
    for name in modes(MadeUp(1, 1)):
        done = subprocess.run(
            [sys.executable, __file__, "million", "--files", str(files), "--mode", name],
            check=True,
            text=True,
            stdout=-1,
        )
        print(done.stdout.splitlines()[-1], flush=True)


def measure_mode(name: str, files: int) -> None:
    """Read all files in batches with one mode, then one more, then begin anew as after a restart; print a row."""
    storage = MadeUp(0 if name == "table" else files, 10_000)
    if name == "table":
        commit_made_up(storage, files)
    make, limit = modes(storage)[name], Limit(10_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    mode = make()
    offset, batches, count, largest = mode.initial(), [], 0, 0
    while True:
        spent, end, batch = look(mode, offset, limit)
        if end == offset:
            break
        batches.append(spent)
        count, largest, offset = count + len(batch.files), max(largest, len(json.dumps(end))), end
    idle = look(mode, offset, limit)[0]
    if name == "table":
        append(storage)
    else:
        storage.files += 1
    assert count == files, count
    new, end, batch = look(mode, offset, limit)
    assert len(batch.files) == 1, len(batch.files)
    restart, same, _ = look(make(), end, limit)
    assert same == end
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    figures = (batches[0], median(batches), sum(batches), idle, new, restart)
    print(f"| {name} | {' | '.join(f'{each:.2f}' for each in figures)} | {largest:,} | {peak:.0f} |")


def look(mode: StreamMode, start: Offset, limit: Limit) -> tuple[float, Offset, StreamBatch]:
    """Return the seconds that the next batch takes to be found, the offset after it, and its files."""
    begun = time.perf_counter()
    end = mode.latest(start, limit)
    batch = mode.batch(start, end)
    return time.perf_counter() - begun, end, batch


def commit_made_up(storage: MadeUp, files: int) -> None:
    """Put log entries of 10,000 files each, which seem to be there."""
    directory = TableDirectory(storage, "memory:/lake")
    state = State(create_table(directory))
    for first in range(0, files, 10_000):
        job = new_id()
        numbers, part = range(first, min(first + 10_000, files)), f"part={first // 10_000}"
        rows = [(f"{part}/{data_file_name(i, state.table, job)}", 10_000_000, 1, 0) for i in numbers]
        paths = [directory.path(row[0]) for row in rows]
        storage.committed[directory.path(part)] = {
            path: Status(path, Kind.FILE, 10_000_000, (_EPOCH + i) * 10**9, version=f"{i:x}")
            for i, path in zip(numbers, paths, strict=True)
        }
        entry = follow(state, Entry(0, "", Operation.APPEND, job=job, add=Files.of(rows, state.number + 1)))
        if not append_entry(directory, state, entry):
            raise RuntimeError("another writer")
        state = state.after(entry)
    write_checkpoint(directory, state)


def append(storage: MadeUp) -> None:
    """Commit a small file."""
    plan = plan_job("memory:/lake", CommitIntent(WriteMode.APPEND, retention=86_400), storage=storage)
    name = f"{uuid.uuid4().hex}.staged"
    storage.put(plan.staging.file(name), b"x")
    written = WrittenFile(name, "part=0", 0, ".arrow", 1, 1, 0, {})
    commit(plan, [TaskOutput(plan.staging.jobid, (written,))], write_empty=None)


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=["latency", "backlog", "idle", "million"])
    parser.add_argument("--directory", type=Path, default=Path("build/benchmarks"))
    parser.add_argument("--seconds", type=int, default=180, help="of latency (so many files) and idle")
    parser.add_argument("--files", type=int, help="of backlog (1000) and million (1000000)")
    parser.add_argument("--mb", type=float, default=10, help="size of each file of the backlog")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--way", choices=WAYS, default="plain", help="of backlog")
    parser.add_argument("--mode", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    if arguments.what == "million":
        files = arguments.files or 1_000_000
        if arguments.mode:
            measure_mode(arguments.mode, files)
        else:
            measure_million(files)
        return
    from run import session

    directory = arguments.directory.resolve() / "streaming"
    if arguments.what == "idle":
        measure_idle(directory, arguments.seconds)
        return
    with session(reuses_workers=True) as spark:
        if arguments.what == "latency":
            measure_latency(spark, directory, arguments.seconds)
        else:
            measure_backlog(spark, directory, arguments.files or 1000, arguments.mb, arguments.turns, arguments.way)


if __name__ == "__main__":
    main()
