"""Kill -9 the driver of streaming queries at random moments, while files come in every bad way; source and sink are ours.

    python tests/faults/stream_kill_loop.py --runs 200 [--mode window log table] [--way sink ingest] [--queries 4] [--seed 0]
    python tests/faults/stream_kill_loop.py --runs 50 --store seaweedfs       on a server of `object_stores.SERVERS`

A way is `readStream` with `writeStream`, or `ingest`, which keeps its log of the source in the checkpoint.

A run is one query over one directory. A driver runs several of them at once, in one JVM; it is killed with all its Python
processes, started again, and in the end reads what is left (`Trigger.AvailableNow`). Meanwhile files are dropped: by
rename, by a copy, by a slow copy in pieces under the final name, by a copy that sets its time back after the last byte;
with equal times of whole seconds; and one in ten late, inside or beyond `lateWindow`. A source of mode `table` gets each
file by a commit of ours. Most files come when the first driver reads.

In an object store an object is put, whole, and its time is the store's: none is late. The checkpoint stays on the disk, and so
does the log of `ingest` in it; other logs, sources and sinks are in the store.

In the end pyarrow reads what the sink has published. Modes `log` and `table`: every row once. Mode `window`: no row twice, and those
that are missing are of files that came beyond `lateWindow`, each of which a warning has named, and no others.

Prints a line of JSON for each driver and one for all, and exits with 1 if a run was wrong. 10 s a run on two cores.
"""

import argparse
import contextlib
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

import pyarrow as pa
import pyarrow.ipc
from object_stores import BUCKET, SERVERS, boto_client

from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.commit import commit
from spark_arrow_ipc.dataset.write.job_plan import CommitIntent, plan_job
from spark_arrow_ipc.dataset.write.staged_file import WrittenFile
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.vacuum import vacuum

HERE = Path(__file__).resolve()
FILES, ROWS = 40, 3
FIRST_FILES = 8
"""Are there before a driver reads."""

LATE_SECONDS = 30
MODES = ("window", "log", "table")
WAYS_OF_QUERIES = ("sink", "ingest")
WAYS = ("rename", "copy", "slow copy", "copy with its time", "equal times")
SECONDS = 300
"""After so long without a sign the driver hangs."""

SLOW = "Python worker failed to connect back"

SITE = """
import logging, os, sys
sys.path.insert(0, os.environ["STREAM_KILL_PACKAGES"])
log = logging.FileHandler(os.environ["STREAM_KILL_LOG"], delay=True)
logging.getLogger("spark_arrow_ipc").addHandler(log)
"""
"""Run by every Python process of Spark. It imports PySpark as it is installed, with bytecode, instead of from Spark's zip, and
writes the package's warnings to a file: what goes through a JVM may die with it."""


# The driver: a process with a session and all queries


def drive(folder, root, storage, queries, *, drains):
    from pyspark.sql import SparkSession

    from spark_arrow_ipc import ingest

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.streaming.numRecentProgressUpdates", "1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    started = []
    for name, options in queries.items():
        source, target = f"{root}/{name}/in", f"{root}/{name}/out"
        if name.endswith("ingest"):
            trigger = {"availableNow": True} if drains else None
            given = {"checkpoint": folder / name / "checkpoint", "trigger": trigger, "source_schema": "id long"}
            started.append(ingest(spark, source, target, **given, **options, **storage))
            continue
        stream = spark.readStream.format("arrowipc").schema("id long").options(**options, **storage).load(source)
        writer = stream.writeStream.format("arrowipc").option("checkpointLocation", str(folder / name / "checkpoint"))
        writer = writer.options(**storage)
        if drains:
            writer = writer.trigger(availableNow=True)
        started.append(writer.start(target))
    (folder / "ready").write_text("")
    for query in started:
        query.awaitTermination()


class Driver:
    def __init__(self, folder, root, storage, queries, *, drains):
        (folder / "ready").unlink(missing_ok=True)
        for offsets in folder.glob("*/checkpoint/offsets"):
            if not (offsets / "0").exists():  # Spark refuses what is left of a file whose writing was killed
                shutil.rmtree(offsets)
        order = json.dumps(
            {"folder": str(folder), "root": root, "storage": storage, "queries": queries, "drains": drains}
        )
        hidden = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
        environment = {name: value for name, value in os.environ.items() if name not in hidden} | {
            "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONPATH": f"{folder / 'site'}{os.pathsep}{HERE.parents[2]}",
            "SPARK_LOCAL_DIRS": str(folder / "scratch"), "STREAM_KILL_LOG": str(folder / "warnings"),
            "STREAM_KILL_PACKAGES": str(Path(pa.__file__).parents[1]),
        }  # fmt: skip
        self.folder = folder
        with (folder / "output").open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE), "--driver", order], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                cwd=folder, env=environment, start_new_session=True,
            )  # fmt: skip

    def wait_until_ready(self):
        self.wait_until((self.folder / "ready").exists)

    def wait_until(self, holds):
        deadline = time.monotonic() + SECONDS
        while not holds():
            if self.process.poll() is not None:  # by itself: one more death, if the machine was too slow for Spark
                output = (self.folder / "output").read_text()
                assert SLOW in output, f"the driver has ended: {output[-3000:]}"
                return
            assert time.monotonic() < deadline, "the driver hangs"
            time.sleep(0.05)

    def kill(self):
        """Kill it with its JVM and all Python processes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def wait(self):
        """Wait until it ends, and return whether it did well; a slow machine makes Spark give up its Python processes."""
        try:
            status = self.process.wait(SECONDS)
        finally:
            self.kill()
        output = (self.folder / "output").read_text()
        assert status == 0 or SLOW in output, f"the driver has ended with {status}: {output[-3000:]}"
        return status == 0


# The files


class Drops:
    """Files that are dropped into one directory, or store; each has rows of its own."""

    def __init__(self, folder, rnd, store=None, *, commits):
        self.folder, self.random, self.commits = folder, rnd, commits
        self.root = root_of(folder.parent, store) + f"/{folder.name}"
        self.options = () if store is None else tuple(store.options.items())
        self.client = None if store is None else boto_client(store)
        self.ages = {}
        """By name: by how many seconds a file is older than the moment at which it was dropped."""
        for name in ("in", "ready", "out"):
            (folder / name).mkdir(parents=True)

    def drop(self):
        number = len(self.ages)
        name = f"{self.random.randrange(10**8):08d}-{number}.arrow"
        whole = self.folder / "ready" / name
        table = pa.table({"id": pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())})
        with pa.ipc.new_file(whole, table.schema) as writer:
            writer.write_table(table)
        age = 0.0
        if self.random.random() < 0.1 and self.client is None:
            age = self.random.choice([self.random.uniform(1, LATE_SECONDS / 2), LATE_SECONDS * 3])
        self.ages[name] = age
        if self.commits:
            self._commit(whole)
        elif self.client is not None:
            self.client.put_object(Bucket=BUCKET, Key=f"{self.prefix}in/{name}", Body=whole.read_bytes())
        else:
            self._put(whole, self.folder / "in" / name, self.random.choice(WAYS), age)

    @property
    def prefix(self):
        return self.root.partition(f"{BUCKET}/")[2] + "/"

    def _commit(self, whole):
        storage, path = storage_of(f"{self.root}/in", self.options)
        plan = plan_job(path, CommitIntent(WriteMode.APPEND), storage=storage)
        data, name = whole.read_bytes(), f"{whole.name}.staged"
        with storage.create(plan.staging.file(name)) as staged:
            staged.write(data)
        crc32 = zlib.crc32(data[-(64 << 10) :])
        file = WrittenFile(name, "", len(self.ages), ".arrow", len(data), ROWS, crc32, {})
        commit(plan, [TaskOutput(plan.staging.jobid, (file,))], write_empty=None)

    def _put(self, whole, final, way, age):
        at = time.time() - age
        if way == "equal times":
            at = float(int(at))
        if age and way in ("copy", "slow copy"):
            way = "copy with its time"  # these two have the time of their last byte
        os.utime(whole, (at, at))
        if way in ("rename", "equal times"):
            whole.rename(final)
        elif way == "copy":
            shutil.copyfile(whole, final)
        elif way == "copy with its time":
            shutil.copy2(whole, final)
        else:
            data = whole.read_bytes()
            with final.open("wb", buffering=0) as file:
                for i in range(3):
                    file.write(data[i * len(data) // 3 : (i + 1) * len(data) // 3])
                    time.sleep(self.random.uniform(0, 0.3))

    def seen(self):
        """Count how often the sink has each file's rows, by the file's name."""
        # Programs that list see files of a job that died before its entry, until the next vacuum.
        storage, path = storage_of(f"{self.root}/out", self.options)
        vacuum(TableDirectory(storage, path), older_than=-1e10)
        rows = Counter()
        for data in self._published():
            rows.update(pa.ipc.open_file(data).read_all()["id"].to_pylist())
        names = dict(enumerate(self.ages))
        per_file = {name: {rows[number * ROWS + i] for i in range(ROWS)} for number, name in names.items()}
        assert all(len(counts) == 1 for counts in per_file.values()), "a file was read in part"
        return {name: counts.pop() for name, counts in per_file.items()}

    def _published(self):
        if self.client is None:
            return [path.read_bytes() for path in (self.folder / "out").glob("*.arrow")]
        listed = self.client.list_objects_v2(Bucket=BUCKET, Prefix=f"{self.prefix}out/", Delimiter="/")
        assert not listed["IsTruncated"]
        keys = [each["Key"] for each in listed.get("Contents", ()) if each["Key"].endswith(".arrow")]
        return [self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys]


def root_of(folder, store):
    return str(folder) if store is None else f"{store.url}/{folder.name}"


def options_of(mode, way, root, rnd):
    options = {"maxFilesPerTrigger": str(rnd.randint(2, 12)), "pollInterval": rnd.choice(["0", "100ms", "1s"])}
    if mode == "window":
        return options | {"lateWindow": f"{LATE_SECONDS}s"}
    return options | {"sourceLog": f"{root}/log"} if (mode, way) == ("log", "sink") else options


def lifecycle(folder, store, modes, ways, seed):
    """Run one driver with a query for each mode, kill it once or twice, and compare; return what was seen by query."""
    rnd = random.Random(seed)
    root, storage = root_of(folder, store), {} if store is None else store.spark_options
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(SITE)
    names = {f"{i}-{mode}-{way}": (mode, way) for i, (mode, way) in enumerate(zip(modes, ways, strict=True))}
    drops = {
        name: Drops(folder / name, random.Random(rnd.random()), store, commits=mode == "table")
        for name, (mode, _) in names.items()
    }
    queries = {name: options_of(mode, way, drops[name].root, rnd) for name, (mode, way) in names.items()}
    reading, stop = threading.Event(), threading.Event()
    failures = []

    def dropping():
        try:
            for number in range(FILES):
                for each in drops.values():
                    each.drop()
                if number == FIRST_FILES:
                    reading.wait(SECONDS)
                if number >= FIRST_FILES and not stop.is_set():
                    stop.wait(rnd.expovariate(2))
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            failures.append(error)

    thread = threading.Thread(target=dropping, daemon=True)
    thread.start()
    kills = rnd.choice([1, 1, 2])
    for _ in range(kills):
        driver = Driver(folder, root, storage, queries, drains=False)
        try:
            driver.wait_until_ready()
            if rnd.random() < 0.7:  # else it may die before its first batch
                driver.wait_until(lambda: any(folder.glob("*/checkpoint/commits/0")))
            reading.set()
            time.sleep(rnd.uniform(0, 8))
        finally:
            driver.kill()
            reading.set()
    stop.set()
    thread.join()
    assert not failures, failures
    while not Driver(folder, root, storage, queries, drains=True).wait():
        (folder / "output").unlink()  # one more death
    warnings = (folder / "warnings").read_text() if (folder / "warnings").exists() else ""
    return {name: compare(drops[name], mode, warnings, kills) for name, (mode, _) in names.items()}


def compare(drops, mode, warnings, kills):
    """Return what a query has lost, doubled and named, and whether that is right."""
    seen = drops.seen()
    lost = {name for name, count in seen.items() if count == 0}
    doubled = sum(count > 1 for count in seen.values())
    too_late = [line for line in warnings.splitlines() if "too late and will not be read" in line]
    named = {name for name in seen if any(f"{drops.root}/in/{name}" in line for line in too_late)}
    may_lose = {name for name, age in drops.ages.items() if age > LATE_SECONDS} if mode == "window" else set()
    right = not doubled and lost <= may_lose and named == lost
    return {
        "mode": mode, "kills": kills, "files": len(seen), "lost": len(lost), "doubled": doubled, "named": len(named),
        "late": sum(age > LATE_SECONDS for age in drops.ages.values()), "right": right,
    }  # fmt: skip


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--queries", type=int, default=4)
    parser.add_argument("--mode", nargs="*", choices=MODES, default=MODES)
    parser.add_argument("--way", nargs="*", choices=WAYS_OF_QUERIES, default=WAYS_OF_QUERIES)
    parser.add_argument("--store", choices=[name for name in SERVERS if name in ("moto", "seaweedfs")])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help="keep the directories of runs that are wrong")
    parser.add_argument("--driver")
    given = parser.parse_args(arguments)
    if given.driver:
        logging.basicConfig()
        order = json.loads(given.driver)
        drive(**order | {"folder": Path(order["folder"])})
        return 0
    with contextlib.nullcontext() if given.store is None else SERVERS[given.store]() as store:
        return loop(given, store)


def loop(given, store):
    total, wrong, begun = Counter(), 0, time.monotonic()
    while total["runs"] < given.runs:
        seed = given.seed + total["drivers"]
        folder = Path(tempfile.mkdtemp(prefix="stream_kill_"))
        right = False
        try:
            modes = [given.mode[i % len(given.mode)] for i in range(min(given.queries, given.runs - total["runs"]))]
            # So that each mode meets each way, whatever the numbers of both.
            ways = [given.way[(i // len(given.mode) + i + seed) % len(given.way)] for i in range(len(modes))]
            found = lifecycle(folder, store, modes, ways, seed)
            right = all(each["right"] for each in found.values())
        finally:
            if right or not given.keep:
                shutil.rmtree(folder, ignore_errors=True)
            else:
                print(f"kept: {folder}", file=sys.stderr)
        print(json.dumps({"seed": seed, **found}), flush=True)
        wrong += sum(not each["right"] for each in found.values())
        total.update(drivers=1, runs=len(found))
        for each in found.values():
            total.update({f"{each['mode']} {key}": each[key] for key in ("files", "lost", "doubled", "named", "late")})
        total["kills"] += next(iter(found.values()))["kills"]
    print(json.dumps({**total, "wrong": wrong, "seconds": round(time.monotonic() - begun)}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
