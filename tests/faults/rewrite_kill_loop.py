"""Kill -9 the driver of rewrites and compactions at random moments, while tasks run twice and fail: no row is lost or doubled.

    python tests/faults/rewrite_kill_loop.py --kills 100     tasks run in the driver's process, each twice, in any order
    python tests/faults/rewrite_kill_loop.py --spark 10      sessions of Spark: retries, speculation, one JVM for each kill

A driver goes through numbered sources of 30 rows and appends each to one dataset (`rewrite`, with a token of its own), and
after each rewrites all of it in place, or joins its small files (`compact`). It is killed, begins again some sources
before the place where it was, and so on. In every third life another process appends a source meanwhile.

After each kill: a reader sees whole sources only, each at most once, and none is missing that was seen before. In the end a
driver does the rest; then every source is there once, and vacuum leaves nothing beside the files.

Prints a line of JSON and exits with 0, or raises with what was seen.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

import psutil
import pyarrow as pa

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

from rewrite_jobs import Tasks, leftovers, values

from spark_arrow_ipc import compact, rewrite
from spark_arrow_ipc.dataset.write.vacuum import vacuum
from spark_arrow_ipc.errors import CommitError, FileChangedError

HERE = Path(__file__).resolve()
ROWS = 30
READ = {"maxPartitionBytes": 2000}
"""Several tasks for a source."""

SECONDS = 300
"""After so long without a word Spark hangs."""


def make_source(folder, number):
    """Write a source of three files, unless it is there."""
    path = Path(folder) / f"source-{number}"
    if not path.exists():
        made = Path(folder) / f"making-{number}-{os.getpid()}"
        made.mkdir()
        for part in range(3):
            ids = pa.array(range(number * ROWS + part, (number + 1) * ROWS, 3), pa.int64())
            table = pa.table({"id": ids, "text": [f"row {i.as_py()}" for i in ids]})
            with pa.ipc.new_file(str(made / f"{part}.arrow"), table.schema) as writer:
                writer.write_table(table, max_chunksize=4)
        made.rename(path)
    return str(path)


def live(spark, folder, first, stop, luck, *, function=None):
    """Be a driver: append sources from a number on, and rewrite what is there between them."""
    root = str(Path(folder) / "set")
    for number in range(first, stop):
        rewrite(spark, make_source(folder, number), root, function, commitToken=f"source {number}", **READ)
        try:
            if luck.random() < 0.5:
                compact(spark, root, file_bytes=luck.choice([5_000, 20_000]), sort_by="id")
            else:
                rewrite(spark, root, root, function, mode="overwrite", compression=luck.choice(["lz4", "none"]), **READ)
        except (CommitError, FileChangedError):  # another process was faster, as it may be
            pass


def check(folder, before, sources):
    """Return the sources that a reader sees; each must be whole, and there once."""
    root = Path(folder) / "set"
    ids = values(root).get("", []) if any(root.glob("_ipc_commits/*.json")) else []
    assert len(ids) == len(set(ids)), f"doubled: {[i for i, n in Counter(ids).items() if n > 1]} in {root}"
    seen = {i // ROWS for i in ids}
    assert len(ids) == ROWS * len(seen), f"parts of a source are lost in {root}: {Counter(i // ROWS for i in ids)}"
    assert before <= seen <= set(range(sources)), f"lost: {sorted(before - seen)} in {root}"
    return seen


def finished(folder, sources):
    """Check that every source is there once, and that nothing else is left."""
    seen = check(folder, set(range(sources)), sources)
    root = str(Path(folder) / "set")
    vacuum(root, older_than_seconds=0)
    assert seen == check(folder, seen, sources)
    left = [name for name in leftovers(root) if not name.startswith("_ipc_replaced/")]
    assert [] == left, f"vacuum left {left}"
    return len(seen)


# Drivers whose tasks run in their own process


class FlakyTasks(Tasks):
    """Runs each task twice, and lets one of ten jobs fail in a task, in each of its attempts."""

    def __init__(self, luck):
        super().__init__(attempts=2, luck=luck, before=self.maybe_fails)

    def maybe_fails(self, part, attempt):
        if self.luck.random() < 0.02:
            raise CommitError("a task failed as often as Spark lets it")


def forked(function):
    pid = os.fork()
    if pid:
        return pid
    try:
        function()
        os._exit(0)
    except BaseException as error:  # noqa: BLE001 - the child must end here
        print(f"child: {error!r}", file=sys.stderr, flush=True)
        os._exit(3 if isinstance(error, CommitError) and "a task failed" in str(error) else 1)


def kill_forks(folder, kills, luck):
    """Kill forks of this process; return how often each end was seen."""
    count, seen = Counter(), set()
    begun = time.perf_counter()
    live(Tasks(), folder, 0, 2, luck)
    whole = (time.perf_counter() - begun) / 2
    while count["killed"] < kills:
        first, seed = max(0, len(seen) - 2), luck.randrange(1 << 30)
        stop = first + 8
        pid = forked(partial(live, FlakyTasks(random.Random(seed)), folder, first, stop, random.Random(seed)))
        if luck.random() < 1 / 3:
            append_beside(folder, stop)
        time.sleep(luck.uniform(0, 3 * whole))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        count["killed" if os.WIFSIGNALED(status) else f"ended {os.WEXITSTATUS(status)}"] += 1
        assert not (os.WIFEXITED(status) and os.WEXITSTATUS(status) == 1), "a driver failed"
        seen = check(folder, seen, stop + 1)
        count["checks"] += 1
    last = max(seen) + 1
    live(Tasks(attempts=2, luck=luck), folder, 0, last, luck)
    count["sources"] = finished(folder, last)
    return count


def append_beside(folder, number):
    """Append a source that the driver has not reached, as another process would."""
    rewrite(Tasks(), make_source(folder, number), Path(folder) / "set", commitToken=f"source {number}", **READ)


# Drivers with Spark


def flaky(batches):
    """Fail half of all first attempts, and be slow in some, so that Spark speculates."""
    import random
    import time

    from pyspark import TaskContext

    context = TaskContext.get()
    luck = random.Random(context.taskAttemptId())
    for batch in batches:
        if context.attemptNumber() == 0 and luck.random() < 0.15:
            raise ValueError("a first attempt")
        if context.attemptNumber() == 0 and luck.random() < 0.05:
            time.sleep(1)
        yield batch


def drive(folder, first, stop, seed):
    """Be a driver with a session, in a process of its own."""
    from pyspark import cloudpickle
    from pyspark.sql import SparkSession

    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    spark = (
        SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false").config("spark.speculation", "true")
        .config("spark.speculation.interval", "50ms").config("spark.speculation.minTaskRuntime", "200ms").getOrCreate()
    )  # fmt: skip
    spark.sparkContext.setLogLevel("OFF")
    print("ready", flush=True)
    live(spark, folder, first, stop, random.Random(seed), function=flaky)
    print("done", flush=True)
    os._exit(0)


def started(folder, first, stop, seed):
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[2]), "PYSPARK_PYTHON": sys.executable}
    arguments = [sys.executable, str(HERE), "--driver", str(folder), str(first), str(stop), str(seed)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, env=environment, text=True)
    assert process.stdout.readline() == "ready\n", "the driver did not start"
    return process


def kill_sessions(folder, kills, luck):
    """Kill drivers with all that they started; return how often each end was seen."""
    count, seen = Counter(), set()
    for _ in range(kills):
        first = max(0, len(seen) - 2)
        process = started(folder, first, first + 50, luck.randrange(1 << 30))
        time.sleep(luck.uniform(2, 12))
        tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for each in tree:
            try:
                each.kill()
            except psutil.NoSuchProcess:
                continue
        process.wait()
        count["killed"] += 1
        seen = check(folder, seen, first + 50)
        print(f"{count['killed']} killed, {len(seen)} sources", file=sys.stderr, flush=True)
    last = max(seen, default=0) + 1
    process = started(folder, 0, last, 1)
    out, _ = process.communicate(timeout=SECONDS)
    assert out == "done\n", "the last driver failed"
    count["sources"] = finished(folder, last)
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--kills", type=int, default=0, help="kill so many drivers whose tasks run in their own process"
    )
    parser.add_argument("--spark", type=int, default=0, metavar="KILLS", help="kill so many drivers with Spark")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--folder", default=None, help="where the datasets are made (default: a temporary directory)")
    parser.add_argument("--driver", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.driver:
        folder, *numbers = given.driver
        drive(folder, *map(int, numbers))
    seed = random.randrange(1 << 32) if given.seed is None else given.seed
    print(f"seed {seed}", file=sys.stderr)
    begun, told = time.perf_counter(), {"seed": seed}
    for name, kill, kills in (("kills", kill_forks, given.kills), ("spark", kill_sessions, given.spark)):
        if kills:
            folder = tempfile.mkdtemp(dir=given.folder)
            told[name] = kill(folder, kills, random.Random(seed))
            shutil.rmtree(folder)
    print(json.dumps({**told, "seconds": round(time.perf_counter() - begun, 1)}))


if __name__ == "__main__":
    main()
