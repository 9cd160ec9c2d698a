"""Kill -9 through Spark: the Python process of each step, or the JVM with it, and both at random moments.

    python tests/faults/spark_kill_loop.py --steps process    one session; each step x mode kills its Python process
    python tests/faults/spark_kill_loop.py --steps jvm        a JVM for each case: that step kills it, nothing aborts
    python tests/faults/spark_kill_loop.py --random 30        30 jobs follow each other, each killed at any moment

`kill_loop` says what must hold after each, and does the same 100 times as fast without Spark. What only Spark shows is
its order of calls: of its own it aborts in a new process after a commit that died, and a dead JVM aborts nothing.

Spark's daemons, from which its Python processes are forked, run inside a program of ours: there each fork looks whether
an order lies there for the first of its kind. So one JVM runs many cases, and the abort after a killed commit is left
alone. What a killed JVM left is read by the Spark of the next case and put right by vacuum, or by an append of that
Spark.

Prints a line of JSON and exits with 0, or raises with what was seen.
"""

import argparse
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil
from kill_loop import COMMITTED, PARTITIONS, ROWS, WRITTEN, Disk, check, check_rest, files_of
from table_jobs import APPEND, DYNAMIC, OVERWRITE, after, left, see, write

from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.local import LOCAL

HERE = Path(__file__).resolve()
SECONDS = 300
"""After so long without a word Spark hangs."""

MODES = (APPEND, OVERWRITE, DYNAMIC)
"""The modes of Spark's writers."""

POINTS = (*failpoint.TASK_POINTS, *failpoint.TABLE_POINTS)
PROCESSES = {"planned": "pyspark.sql.worker.write_into_data_source", "T1": "pyspark.worker", "T2": "pyspark.worker"}
COMMIT = "pyspark.sql.worker.commit_data_source_write"
"""The module that Spark runs for a step; this one for all others, of an abort, too."""

DAEMON = '''
"""Spark's daemon, whose forks obey the order for their kind, if there is one, before they import anything."""

import os
import runpy
import signal
import sys

folder, module, jvm = os.environ["KILL_LOOP_FOLDER"], sys.argv[-1], os.getppid()


def obey():
    try:
        with open(os.path.join(folder, module)) as order:
            point, passage, victim = order.read().split()
        os.unlink(order.name)
    except FileNotFoundError:
        return
    if victim == "process":
        os.environ["ARROWIPC_FAILPOINT"] = f"{point}:kill@{passage}"
        return
    from spark_arrow_ipc.storage import failpoint

    raising = failpoint.Failpoint.parse(f"{point}:raise@{passage}")

    def hit(name):
        try:
            raising.hit(name)
        except OSError:
            if victim == "jvm":
                os.kill(jvm, signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)
            with open(os.path.join(folder, "here"), "w") as here:
                here.write(f"{os.getpid()}\\n")
            with open(os.path.join(folder, "go")) as go:
                go.read(1)

    failpoint.hit = hit


assert sys.argv[1:3] == ["-m", "pyspark.daemon"], sys.argv
os.register_at_fork(after_in_child=obey)
sys.argv = sys.argv[2:]
runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
'''


# The driver: a process with a session, which does one request a line


def drive(answers):
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.python.worker.reuse", "false")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    answer(answers, jvm=spark.sparkContext._gateway.proc.pid)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer(answers, ids=do(spark, f, **request))
        except BaseException as error:  # noqa: BLE001  # whatever a dead JVM makes of a call
            answer(answers, error=f"{type(error).__name__}: {error}")


def do(spark, f, root, mode, first=0, *, fails=False):
    if mode == "read":
        return sorted(row.id for row in spark.read.format("arrowipc").load(root).select("id").collect())
    frame = spark.range(first, first + ROWS, 1, 2)
    keys = f.array(*[f.lit(int(name.partition("=")[2])) for name in WRITTEN])
    columns = ["id", keys[(f.col("id") - first) % 3].alias("k")]
    if fails:
        columns[0] = f.expr(f"if(id < {first + ROWS - 1}, id, raise_error('no'))").alias("id")
    writer = frame.select(*columns).write.format("arrowipc").option("recordBatchRows", 4).option("partitionBy", "k")
    if mode == "dynamic":
        writer, mode = writer.option("partitionOverwriteMode", "dynamic"), "overwrite"
    writer.mode(mode).save(root)
    return None


def answer(answers, **values):
    os.write(answers, json.dumps(values).encode() + b"\n")


class Driver:
    """A driver's process and its JVM; nothing of them is left behind."""

    def __init__(self, folder):
        daemon = folder / "daemon.py"
        daemon.write_text(DAEMON)
        python = folder / "python"
        # Spark asks it for its version with -c, too.
        python.write_text(f'#!/bin/sh\n[ "$1" = -m ] && set -- "{daemon}" "$@"\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        scratch = folder / "scratch"
        scratch.mkdir(exist_ok=True)
        hidden = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", failpoint.VARIABLE)
        environment = {name: value for name, value in os.environ.items() if name not in hidden} | {
            "KILL_LOOP_FOLDER": str(folder), "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python),
            "PYTHONPATH": f"{HERE.parents[2]}", "SPARK_LOCAL_DIRS": str(scratch),
        }  # fmt: skip
        # Not its standard output, which Spark writes to as well.
        start, answers = os.pipe()
        with (folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE), "--driver", str(answers)], stdin=subprocess.PIPE, stdout=log, stderr=log,
                cwd=scratch, env=environment, start_new_session=True, pass_fds=[answers],
            )  # fmt: skip
        os.close(answers)
        self.answers = os.fdopen(start, "rb")
        self.jvm = self.answer()["jvm"]

    def ask(self, root, mode, **values):
        mode = mode.value if isinstance(mode, WriteMode) else mode
        self.process.stdin.write(json.dumps({"root": str(root), "mode": mode, **values}).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self):
        assert self.answered(SECONDS), "Spark hangs"
        line = self.answers.readline()
        assert line, "the driver is gone"
        return json.loads(line)

    def answered(self, seconds):
        return bool(select.select([self.answers], [], [], seconds)[0])

    def workers(self):
        """Return the daemons and all their forks, those of a JVM that is dead, too."""
        return [
            process for process in psutil.process_iter(["cmdline"])
            if "daemon.py" in " ".join(process.info["cmdline"] or ()) and session(process) == self.process.pid
        ]  # fmt: skip

    def kill_worker(self):
        """Kill the process that was forked last, and return whether there was one."""
        workers = {process.pid: process for process in self.workers()}
        forks = [pid for pid, process in workers.items() if parent(process) in workers]
        return bool(forks) and kill(max(forks))

    def end(self):
        """End it, and wait until its last Python process has ended by itself."""
        if self.answers.closed:
            return
        kill(self.jvm)
        self.process.kill()
        self.process.communicate()
        self.answers.close()
        _, alive = psutil.wait_procs(self.workers(), SECONDS)
        assert not alive, alive


def session(process):
    try:
        return os.getsid(process.pid)
    except ProcessLookupError:
        return None


def died(pid):
    """Return whether a process that was killed has ended; its sockets, of which the others learn of it, close before."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.01)
    return False


def parent(process):
    try:
        return process.ppid()
    except psutil.NoSuchProcess:
        return None


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    else:
        return True
    return False


# Every step


def step_cases():
    for point in POINTS:
        for mode in MODES:
            if point != "collected.removed" or mode is not APPEND:
                yield point, mode


def order(folder, point, victim):
    (folder / module_of(point)).write_text(f"{point} 1 {victim}")


def module_of(point):
    return PROCESSES.get(point.partition(".")[0], COMMIT)


def run_step(driver, folder, directory, point, mode, victim):
    """Kill at one step of a job on a new table, and return what a reader must see then."""
    for number in range(2):
        assert ("committed", None) == write(directory, APPEND, files_of(number * ROWS, PARTITIONS))
    old = see(directory)
    new = after(old, mode, files_of(1000))
    order(folder, point, victim)
    driver.ask(directory.root, mode, first=1000, fails=point.startswith("aborted."))
    said = driver.answer()
    if victim == "jvm":
        check(died(driver.jvm), f"the JVM lives, and said {said}", directory)
        driver.end()
    else:
        check("exited unexpectedly (crashed)" in said.get("error", ""), f"Spark said {said}", directory)
    check(not (folder / module_of(point)).exists(), "the order was not obeyed", directory)
    expected = new if point.startswith(COMMITTED) else old
    seen = see(directory)
    check(seen == expected, f"expected the {'new' if expected is new else 'old'} data, found {seen}; {said}", directory)
    if victim == "process" and point.startswith(("T", "named", "committed.asked")):
        check([] == left(directory), f"Spark has aborted in another process, which left {left(directory)}", directory)
    return expected


def recover(place, directory, expected, rng, driver, *, by_append):
    """Let an append come first, or Spark read and vacuum; then nothing is left, and nothing changes any more."""
    if driver is not None and not by_append:
        driver.ask(directory.root, "read")
        said = driver.answer()
        check(said == {"ids": sorted(i for ids in expected.values() for i in ids)}, f"Spark read {said}", directory)
    if by_append:
        if driver is None:
            write(directory, APPEND, files_of(2000))
        else:
            driver.ask(directory.root, APPEND, first=2000)
            said = driver.answer()
            check("error" not in said, f"the next append: {said}", directory)
        expected = after(expected, APPEND, files_of(2000))
        check(see(directory) == expected, f"the next append made {see(directory)}", directory)
    check_rest(place, directory, expected, rng)
    write(directory, OVERWRITE, files_of(3000))
    check(see(directory) == after({}, OVERWRITE, files_of(3000)), "the next overwrite", directory)


def steps(folder, victim, rng, points):
    count, place = Counter(), Disk(folder, LOCAL)
    driver = Driver(folder)
    try:
        for number, (point, mode) in enumerate(step_cases()):
            if points and not point.startswith(points):
                continue
            directory = place.table()
            print(f"{point} {mode.value} in {directory.root}", file=sys.stderr, flush=True)
            expected = run_step(driver, folder, directory, point, mode, victim)
            count["kills"] += 1
            other = None
            if victim == "jvm":
                driver = other = Driver(folder)
            recover(place, directory, expected, rng, other, by_append=number % 2 == 1)
            place.remove(directory)
    finally:
        driver.end()
    return count


# Random moments


def randomly(folder, jobs, rng):
    """Kill the JVM or a Python process at a random moment of each job, of half of them one of the commit."""
    place, count = Disk(folder, LOCAL), Counter()
    directory = place.table()
    write(directory, APPEND, files_of(0, PARTITIONS))
    view = see(directory)
    for name in ("here", "go"):
        os.mkfifo(folder / name)
    ends = [os.open(folder / name, os.O_RDWR) for name in ("here", "go")]  # for both ends: no opening ever waits
    driver = looked_up(folder)
    try:
        job_seconds, commit_seconds = durations(driver, folder, ends, place)
        for number in range(1, jobs + 1):
            mode = rng.choice(MODES)
            new = after(view, mode, files_of(number * 1000))
            late, victim = rng.random() < 0.5, rng.choice(("jvm", "process"))
            pause = rng.uniform(0, commit_seconds if late else job_seconds)
            print(f"job {number}: {mode.value} late={late} {victim} after {pause:.3f} s", file=sys.stderr, flush=True)
            killed, said = strike(
                driver, folder, ends, directory, mode, number * 1000, late=late, victim=victim, pause=pause
            )
            count["killed" if killed else "survived"] += 1
            count[f"{victim} killed"] += killed
            first = see(directory)
            check(first in (view, new), f"job {number} ({mode.value}): neither old nor new: {first}", directory)
            if killed and victim == "jvm":
                driver.end()  # a commit without a JVM goes on to its end
                driver = None
            seen = see(directory)
            check(seen in (first, new), f"job {number} ({mode.value}): went from {first} to {seen}", directory)
            check(seen == new or "error" in said, f"job {number}: Spark said that it is done: {said}", directory)
            count["new" if seen == new else "old"] += 1
            view = seen
            if rng.random() < 0.3:
                check_rest(place, directory, view, rng)
                count["vacuums"] += 1
            driver = driver or looked_up(folder)
        driver.ask(directory.root, "read")
        said = driver.answer()
        check(said == {"ids": sorted(i for ids in view.values() for i in ids)}, f"Spark read {said}", directory)
    finally:
        if driver is not None:
            driver.end()
        for end in ends:
            os.close(end)
    check_rest(place, directory, view, rng)
    return count


def looked_up(folder):
    """Return a driver whose Spark knows the source: were the process killed that looks for it, it would never again."""
    driver = Driver(folder)
    driver.ask(folder / "nowhere", "read")
    driver.answer()
    return driver


def strike(driver, folder, ends, directory, mode, first, *, late, victim, pause):
    """Run a job, kill in it, and return whether anything was killed and what Spark said."""
    if late:
        order(folder, "named.file", "nobody")
    driver.ask(directory.root, mode, first=first)
    if late:
        pid = let_commit(driver, ends)
        time.sleep(pause)
        killed = kill(driver.jvm if victim == "jvm" else pid)
    elif driver.answered(pause):
        killed = False
    elif victim == "jvm":
        killed = kill(driver.jvm)
    else:
        killed = False
        while not killed and not driver.answered(0.02):
            killed = driver.kill_worker()
    return killed, driver.answer()


def let_commit(driver, ends):
    """Wait until the commit has named a file, let it go on, and return its process id."""
    here, go = ends
    ready = select.select([here, driver.answers], [], [], SECONDS)[0]
    assert ready == [here], driver.answer() if ready else "Spark hangs"
    pid = int(os.read(here, 100))
    while select.select([go], [], [], 0)[0]:  # a commit that was killed before it read this
        os.read(go, 1)
    os.write(go, b"x")
    return pid


def durations(driver, folder, ends, place):
    """Return the seconds that a job takes, and its commit from there to the answer of Spark, at best."""
    directory = place.table()
    jobs, commits = [], []
    for _ in range(3):
        begun = time.perf_counter()
        order(folder, "named.file", "nobody")
        driver.ask(directory.root, APPEND)
        let_commit(driver, ends)
        staged = time.perf_counter()
        said = driver.answer()
        assert "error" not in said, said
        jobs.append(time.perf_counter() - begun)
        commits.append(time.perf_counter() - staged)
    place.remove(directory)
    return min(jobs), min(commits)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", choices=["process", "jvm"], help="kill this at every step in every mode")
    parser.add_argument("--points", default="", help="only at steps that begin so, separated by commas (default: all)")
    parser.add_argument("--random", type=int, default=0, metavar="JOBS", help="kill so many jobs at random moments")
    parser.add_argument("--seed", type=int, default=None, help="of what is random")
    parser.add_argument("--folder", default=None, help="where the datasets are made (default: a temporary directory)")
    parser.add_argument("--driver", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.driver is not None:
        drive(arguments.driver)
        return
    seed_ = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    rng = random.Random(seed_)
    folder = Path(tempfile.mkdtemp(dir=arguments.folder))
    print(f"seed {seed_} in {folder}", file=sys.stderr)
    told = {"seed": seed_}
    begun = time.perf_counter()
    if arguments.steps:
        points = tuple(filter(None, arguments.points.split(",")))
        told[f"steps, {arguments.steps} killed"] = steps(folder, arguments.steps, rng, points)
    if arguments.random:
        told["random"] = randomly(folder, arguments.random, rng)
    shutil.rmtree(folder)
    print(json.dumps({**told, "seconds": round(time.perf_counter() - begun, 1)}))


if __name__ == "__main__":
    main()
